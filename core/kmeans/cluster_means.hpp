// From the sums of the clusters to their means and the objective, without another pass over the points
// (docs/theory/03-kmeans.md, eq. 3.7, 3.9 and 3.10).
//
// Sums are (k, d+1), the mass first, each as two doubles, as exact_round_columns and round_totals write them.
#pragma once

#include <cstdint>

#include "common/csr.hpp"
#include "common/double_double.hpp"
#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

struct ClusterSums {
  View<const double, 2> high, low;  // in  (k, d+1)
};

// Σ w‖x − origin‖² = value up to `error`.
struct TotalScatter {
  View<const double, 1> origin;  // in  (d)
  Twofold value;
  double error = 0;
};

struct Objective {
  double value = 0, error = 0;  // J, and a bound of its error
  double moved = 0;             // Σ‖centre − previous centre‖²
};

// The mean of each cluster, and J of these means and the clusters; a cluster without mass keeps its centre.
Objective cluster_means(ClusterSums sums, TotalScatter scatter, View<const double, 2> before,  // in  (k, d)
                        View<double, 2> centers,                                               // out (k, d)
                        Run run);

// J of the clusters about any centres.
Objective cluster_objective(ClusterSums sums, TotalScatter scatter, View<const double, 2> centers,  // in  (k, d)
                            Run run);

// Squared distances to the origin of the scatter are added by blocks of so many columns, and then block by block: a
// block in which a sparse row has no entry has the same sum for every such row, and the bits are those of dense rows.
constexpr int64_t kScatterColumns = 64;

// sum += Σ w‖x − origin‖²: each row's term is a function of the row alone, in one double, within (b + ⌈d/b⌉ + 2)·2^−53
// of the truth for blocks of b columns, and the terms are summed exactly.
template <class T>
void add_scatter(View<const T, 2> x,             // in  (n, d)
                 View<const double, 1> weights,  // in  (n) or empty
                 View<const double, 1> origin,   // in  (d)
                 int64_t* sum,                   // in, out (kSumWords)
                 Run run);
template <class T, class I>
void add_scatter(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run);

// The same in two doubles for each row, within 4(d + 4)·2^−106 of the truth, which is slower.
template <class T>
void add_exact_scatter(View<const T, 2> x,             // in  (n, d)
                       View<const double, 1> weights,  // in  (n) or empty
                       View<const double, 1> origin,   // in  (d)
                       int64_t* sum,                   // in, out (kSumWords)
                       Run run);
template <class T, class I>
void add_exact_scatter(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run);

}  // namespace knoll
