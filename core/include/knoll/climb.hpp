// The climb: y ← mean of N_ε(y) in the static points, from many starts, until the set repeats (eq. 5.12).
//
// Mean Shift climbs to the end; the climbing DBSCAN stops where |N_ε(y)| reaches a level. Where a path goes from a set
// on is a function of the set, so paths that meet share the rest: a table of sets met before, of bounded size, whose
// misses cost time and never change an answer.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/ball_sums.hpp"
#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

enum class End : uint8_t {
  fixed = 0,       // the set repeats: y is the mean of N_ε(y), or lies on a cycle of rounding
  level = 1,       // |N_ε(y)| has reached the level
  empty = 2,       // no point within ε: y stands off the data
  unfinished = 3,  // max_steps were not enough
  small = 4,       // the step was at most `tol` long
};

struct ClimbRules {
  double eps = 0;
  double level = 0;  // stop where the weight within ε is at least this; 0: never
  double tol = 0;    // stop after a step of at most this length; 0: only where the set repeats
  int64_t max_steps = 0;
};

struct ClimbEnds {
  View<double, 2> point;   // out (m, d) where each path ends
  View<int64_t, 1> steps;  // out (m) how many steps it took
  View<double, 1>
      weight;            // out (m) the weight within ε there; with `tol`, of the ball that the last step was made from
  View<uint8_t, 1> end;  // out (m) why it ended
};

// Returns how many distances were evaluated. Threads remember different paths, so the count, and it alone, depends on
// them.
int64_t climb(const BallSums& points, View<const double, 2> starts, const ClimbRules& rules, const ClimbEnds& ends,
              Run run);

// The positions of one path, its start first, appended to `path` (steps + 1, d).
void climb_path(const BallSums& points, const double* start, const ClimbRules& rules, std::vector<double>& path,
                Run run);

// on_sphere[i]: some point lies exactly on the sphere of radius eps about y_i, its computed distance being eps.
void on_sphere(const BallSums& points, View<const double, 2> y, double eps, View<uint8_t, 1> out, Run run);

// The same with κ(x) = exp(−‖x − y‖²/2h²) for the flat kernel, cut off where κ < 1e-16; ends by a step of at most
// `tol`. Weights are at most 2^500 and coordinates at most 2^480, so that sums of products are within float64.
class GaussClimb {
 public:
  GaussClimb(const double* x, const double* weights, int64_t n, int64_t d, double h, Run run);

  int64_t climb(View<const double, 2> starts, const ClimbRules& rules, const ClimbEnds& ends, Run run) const;
  void climb_path(const double* start, const ClimbRules& rules, std::vector<double>& path, Run run) const;

 private:
  struct Scratch {
    std::vector<double> lanes, next;
    std::vector<int32_t> stack;
    int64_t distances = 0;  // evaluated so far
  };

  // One step from y to scratch.next; false where no point is near enough. κ's sum goes to `mass`.
  bool step(const double* y, Scratch& scratch, double* mass) const;

  template <class Visit>
  End walk(double* y, const ClimbRules& rules, Scratch& scratch, int64_t* steps, double* mass, Run run,
           Visit&& visit) const;

  BlockTree tree_;
  std::vector<double> weights_;  // (blocks, 4), or empty
  std::vector<double> lifted_;   // (blocks, 4) the same times kLift, or empty where none is faint
  double scale_, bound_;         // 1/2h², and the squared radius beyond which κ is nothing
};

}  // namespace knoll
