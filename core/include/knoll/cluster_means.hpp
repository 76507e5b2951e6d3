// From the sums of the clusters to their means and the objective, without another look at the points
// (docs/theory/03-kmeans.md, eq. 3.7, 3.9 and 3.10).
//
// Sums are (k, d+1), the mass first, each as two doubles: what exact_round_columns and round_totals write.
#pragma once

#include <cstdint>

#include "knoll/csr.hpp"
#include "knoll/run.hpp"
#include "knoll/twofold.hpp"
#include "knoll/view.hpp"

namespace knoll {

struct ClusterSums {
  View<const double, 2> high, low;  // in  (k, d+1)
};

// What all points are away from one: Σ w‖x − origin‖², off by at most `error`.
struct Spread {
  View<const double, 1> origin;  // in  (d)
  Twofold value;
  double error = 0;
};

struct Objective {
  double value = 0, error = 0;  // J, and what it may be off by
  double moved = 0;             // Σ‖centre − the one before‖²
};

// The mean of each cluster, and J of these means and the clusters; a cluster without mass keeps its centre.
Objective cluster_means(ClusterSums sums, Spread about, View<const double, 2> before,  // in  (k, d)
                        View<double, 2> centers,                                       // out (k, d)
                        Run run);

// J of the clusters about any centres.
Objective cluster_objective(ClusterSums sums, Spread about, View<const double, 2> centers,  // in  (k, d)
                            Run run);

// sum += Σ w‖x − origin‖²: each row's term is a function of the row alone, in two doubles, within 4(d + 4)·2^−106 of
// the truth, and the terms are summed exactly. (`spread` rounds each term to one double, and is sooner there.)
template <class T>
void add_exact_spread(View<const T, 2> x,             // in  (n, d)
                      View<const double, 1> weights,  // in  (n) or empty
                      View<const double, 1> origin,   // in  (d)
                      int64_t* sum,                   // in, out (kLimbs)
                      Run run);
template <class T, class I>
void add_exact_spread(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run);

}  // namespace knoll
