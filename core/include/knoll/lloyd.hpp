// One block of rows through the steps of k-means: every step assigns all rows exactly (assign.hpp) and keeps the sums
// of the clusters exact by adding and taking away the rows that changed. The algorithms differ in what they remember to
// save distances, never in a label (docs/decisions/0008).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "knoll/assign.hpp"
#include "knoll/cluster_sums.hpp"
#include "knoll/frames.hpp"
#include "knoll/group_bounds.hpp"
#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

enum class LloydAlgorithm {
  lloyd,    // every distance, every step
  hamerly,  // one bound a row
  elkan,    // one bound a row and group of eight centres
};

struct StepCounts {
  int64_t changed = 0;  // rows whose label is another than before
  AssignCounts assign;
};

class LloydMemory {
 public:
  LloydMemory(int64_t n, int64_t d, int64_t k, LloydAlgorithm algorithm);

  // x and weights must be those of the step before, in value; centers may be any. A step that was cancelled leaves
  // nothing: the next one begins anew.
  template <class T>
  StepCounts step(View<const T, 2> x,             // in  (n, d)
                  View<const double, 1> weights,  // in  (n) or empty
                  View<const double, 2> centers,  // in  (k, d)
                  Run run);

  int64_t rows() const { return n_; }
  int64_t columns() const { return d_; }
  int64_t clusters() const { return k_; }
  bool whole() const { return whole_; }  // a step was made, and to its end
  View<int32_t, 1> labels() { return vector_view(labels_.data(), n_); }
  void add_sums(View<int64_t, 2> sums) const;  // += (kLimbs, k·(d+1)), as cluster_sums.hpp says
  // The sums as doubles, each rounded once: what exact_round_columns makes of them, sooner.
  void round_sums(View<double, 1> out,         // out (k·(d+1))
                  Run run,                     //
                  View<double, 1> rest = {});  // out (k·(d+1)) or empty: what rounding leaves
  // The same with rows[i] in cluster to[i] instead of its own; labels and sums stay as they are.
  template <class T>
  void round_moved(View<const T, 2> x, View<const double, 1> weights, View<const int64_t, 1> rows,
                   View<const int32_t, 1> to, View<double, 1> out, Run run, View<double, 1> rest = {});

 private:
  template <class T>
  void begin(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers, Run run);
  void move(View<const double, 2> centers, Run run);
  void rebase_keys(Run run);
  template <class T>
  Ruler ruler_for(View<const T, 2> x, View<const double, 2> centers) const;

  int64_t n_, d_, k_;
  LloydAlgorithm algorithm_;
  bool whole_ = false;           // what follows belongs to one step
  std::vector<int32_t> labels_;  // (n); −1: none yet
  std::unique_ptr<ClusterTotals> totals_;
  std::vector<int> exponents_;  // (d)
  double largest_weight_ = 1;
  Frames frames_;
  int tries_ = 0;                // to look from several places
  std::vector<double> centers_;  // (k, d) of the last step
  std::vector<double> way_;      // (k): how far each has moved to this one

  // One bound a row: it keeps its label as long as key > travel[label].
  std::vector<float> key_;      // (n)
  std::vector<double> travel_;  // (k): how far a centre and the fastest other one have moved, since keys were rebased
  std::vector<float> limit_;    // (k): travel, rounded up
  bool calm_ = false, grouped_ = false;  // few rows change; the bounds by groups are in use
  GroupBounds groups_, plain_;           // of elkan; before they are worth it
  bool by_grid_ = false;                 // the rows on a grid help
  ShortRows shorts_;
};

// Which algorithm is fastest for such a shape.
LloydAlgorithm best_lloyd(int64_t n, int64_t d, int64_t k);

}  // namespace knoll
