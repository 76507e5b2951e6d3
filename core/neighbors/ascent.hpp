// The ascent: y ← mean of N_ε(y) in the static points, from many starts, until the set repeats (eq. 5.12).
//
// Mean Shift ascends to the end of the path; DBSCAN's climbing formulation stops where |N_ε(y)| reaches a level. The
// next position is a function of the set N_ε(y) alone, so two paths that reach the same set end at the same point. A
// table of visited sets, of bounded size, uses that; a miss costs time and never changes an answer.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/ball_sums.hpp"

namespace knoll {

enum class End : uint8_t {
  fixed = 0,       // the set repeats: y is the mean of N_ε(y), or lies on a cycle of rounding
  level = 1,       // |N_ε(y)| has reached the level
  empty = 2,       // no point within ε of y
  unfinished = 3,  // max_steps were not enough
  small = 4,       // the step was at most `tol` long
};

struct AscentRules {
  double eps = 0;
  double level = 0;  // stop where the weight within ε is at least this; 0: never
  double tol = 0;    // stop after a step of at most this length; 0: only where the set repeats
  int64_t max_steps = 0;
};

struct AscentEnds {
  View<double, 2> point;   // out (m, d) where each path ends
  View<int64_t, 1> steps;  // out (m) how many steps it took
  View<double, 1>
      weight;            // out (m) the weight within ε there; with `tol`, of the ball that the last step was made from
  View<uint8_t, 1> end;  // out (m) why it ended
};

// Returns how many distances were evaluated. Each thread has its own table of visited sets, so the count, and it alone,
// depends on the threads.
int64_t ascend(const BallSums& points, View<const double, 2> starts, const AscentRules& rules, const AscentEnds& ends,
               Run run);

// The positions of one path, its start first, appended to `path` (steps + 1, d).
void ascent_path(const BallSums& points, const double* start, const AscentRules& rules, std::vector<double>& path,
                 Run run);

// out[i]: whether a point has the computed distance eps from y_i. Then the closed and the open ball differ.
void on_sphere(const BallSums& points, View<const double, 2> y, double eps, View<uint8_t, 1> out, Run run);

// The same with κ(x) = exp(−‖x − y‖²/2h²) in place of the flat kernel, cut off where κ < 1e-16; a path ends with a step
// of at most `tol`. Weights are at most 2^500 and coordinates at most 2^480: n·2^980 < 2^1023, so no sum overflows.
class GaussianAscent {
 public:
  GaussianAscent(const double* x, const double* weights, int64_t n, int64_t d, double h, Run run);

  int64_t ascend(View<const double, 2> starts, const AscentRules& rules, const AscentEnds& ends, Run run) const;
  void ascent_path(const double* start, const AscentRules& rules, std::vector<double>& path, Run run) const;

 private:
  struct Scratch {
    std::vector<double> lanes, next;
    std::vector<int32_t> stack;
    int64_t distances = 0;  // evaluated so far
  };

  // One step from y to scratch.next; false where no point is near enough. κ's sum goes to `mass`.
  bool step(const double* y, Scratch& scratch, double* mass) const;

  template <class Visit>
  End climb(double* y, const AscentRules& rules, Scratch& scratch, int64_t* steps, double* mass, Run run,
            Visit&& visit) const;

  BlockTree tree_;
  std::vector<double> weights_;  // (blocks, 4), or empty
  std::vector<double> lifted_;   // (blocks, 4) the same times kLift; empty where no weight is below kFaint
  double scale_, bound_;         // 1/2h², and the squared radius beyond which κ < 1e-16
};

}  // namespace knoll
