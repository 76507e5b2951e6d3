// One block of rows through the steps of k-means: every step assigns all rows exactly (assign.hpp) and keeps the sums
// of the clusters exact by adding and subtracting the rows that changed. The algorithms differ in which bounds they
// remember to save distances, never in a label (docs/decisions/0008; the proofs are in docs/numerics/kmeans.md).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/csr.hpp"
#include "common/run.hpp"
#include "common/view.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/cluster_sums.hpp"
#include "kmeans/group_bounds.hpp"
#include "kmeans/pivots.hpp"

namespace knoll {

enum class LloydAlgorithm {
  lloyd,         // every distance, every step
  hamerly,       // one bound per row
  group_bounds,  // one bound per row and group of eight centres (Python's "elkan")
};

struct StepCounts {
  int64_t changed = 0;  // rows with a new label
  AssignCounts assign;
};

class LloydMemory {
 public:
  LloydMemory(int64_t n, int64_t d, int64_t k, LloydAlgorithm algorithm);

  // x and weights must have the values of the previous step; centers may be any. A cancelled step leaves nothing
  // behind: the next one starts from scratch.
  template <class T>
  StepCounts step(View<const T, 2> x,             // in  (n, d)
                  View<const double, 1> weights,  // in  (n) or empty
                  View<const double, 2> centers,  // in  (k, d)
                  Run run);
  // Sparse rows have at most one bound a row.
  template <class T, class I>
  StepCounts step(Csr<T, I> x, View<const double, 1> weights, View<const double, 2> centers, Run run);

  int64_t rows() const { return n_; }
  int64_t columns() const { return d_; }
  int64_t clusters() const { return k_; }
  bool started() const { return phase_ != Phase::unstarted; }  // labels and sums belong to a complete step
  View<int32_t, 1> labels() { return vector_view(labels_.data(), n_); }
  void add_sums(View<int64_t, 2> sums) const;  // += (kSumWords, k·(d+1)), laid out as in cluster_sums.hpp
  // The sums as doubles, each rounded once: equal to exact_round_columns, but faster.
  void round_sums(View<double, 1> out,        // out (k·(d+1))
                  Run run,                    //
                  View<double, 1> low = {});  // out (k·(d+1)) or empty: the low part, sum − out
  // The same with rows[i] in cluster to[i] instead of its own; labels and sums stay unchanged.
  template <class T>
  void round_moved(View<const T, 2> x, View<const double, 1> weights, View<const int64_t, 1> rows,
                   View<const int32_t, 1> to, View<double, 1> out, Run run, View<double, 1> low = {});
  template <class T, class I>
  void round_moved(Csr<T, I> x, View<const double, 1> weights, View<const int64_t, 1> rows, View<const int32_t, 1> to,
                   View<double, 1> out, Run run, View<double, 1> low = {});

 private:
  // What is known of the rows when a step starts. A step leaves `unstarted` until it is complete.
  enum class Phase {
    unstarted,   // nothing
    exhaustive,  // labels and sums; every step computes every distance
    gaps,        // one bound per row as well
    settled,     // the same, and so few labels change that the next step starts bounds by group
    groups,      // bounds by group as well
  };

  struct Chunk;  // the scratch of one thread: rows of a chunk, their labels, and the sums
  template <class T>
  struct Worker;       // the same with what assigns dense rows
  struct StepCenters;  // the centres of a step, packed for every pivot

  template <class T>
  void begin(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers, Run run);
  void begin_sums(std::vector<int> exponents, View<const double, 1> weights);
  void begin_gaps();
  template <class T>
  void choose_int8(View<const T, 2> x, Run run);

  // The phases of a step, in their order; `phase` is that in which it started.
  template <class T>
  void update_bounds(Phase phase, View<const T, 2> x, View<const double, 2> centers, Run run);
  StepCenters pack_centers(Phase phase, View<const double, 2> centers) const;
  template <class T>
  std::unique_ptr<Worker<T>> make_worker(Phase phase, View<const T, 2> x, const StepCenters& centers);
  void select_rows(Phase phase, int64_t from, int64_t to, Chunk& chunk) const;
  template <class T>
  void assign_rows(Worker<T>& worker, Run run) const;
  // add(delta, i, w, c): row i joins cluster c with weight w.
  template <class Add>
  void record_labels(Chunk& chunk, View<const double, 1> weights, Add&& add);
  template <class Add>
  void round_moved_by(Add&& add, View<const double, 1> weights, View<const int64_t, 1> rows, View<const int32_t, 1> to,
                      View<double, 1> out, Run run, View<double, 1> low);
  template <class T>
  void adapt_filters(const StepCounts& counts, int64_t confirmed, View<const T, 2> x, View<const double, 2> centers,
                     Run run);
  Phase next_phase(Phase phase, int64_t changed) const;

  void measure_shifts(View<const double, 2> centers, double scale);
  void add_shifts(Run run);
  void rebase_gaps(Run run);
  template <class T>
  BoundQuantizer quantizer_for(View<const T, 2> x, View<const double, 2> centers) const;

  static bool grouped(Phase phase) { return phase == Phase::settled || phase == Phase::groups; }
  bool uses_int8() const { return int8_.grid.step != 0; }

  int64_t n_, d_, k_;
  LloydAlgorithm algorithm_;
  Phase phase_ = Phase::unstarted;
  std::vector<int32_t> labels_;  // (n); −1: none yet
  std::unique_ptr<ClusterTotals> totals_;
  std::vector<int> exponents_;  // (d)
  double largest_weight_ = 1;
  Pivots pivots_;
  int pivot_tries_ = 0;          // attempts to use several pivots
  std::vector<double> centers_;  // (k, d) of the last step
  std::vector<double> shift_;    // (k): upper bounds of ‖centre − centre of the last step‖

  // One bound per row: a row keeps its label a as long as gap > total_shift[a].
  std::vector<float> gap_;           // (n)
  std::vector<double> total_shift_;  // (k): Σ over the steps since the last rebase of shift_c + max_{b≠c} shift_b
  std::vector<float> limit_;         // (k): total_shift, rounded up

  GroupBounds groups_;        // bounds by group, in phase `groups`
  GroupBounds plain_groups_;  // groups without bounds: for int8 before that phase
  Int8Rows int8_;             // the rows in int8, while that helps
};

// Which algorithm is fastest for such a shape.
LloydAlgorithm best_lloyd(int64_t n, int64_t d, int64_t k);

}  // namespace knoll
