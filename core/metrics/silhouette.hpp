// The silhouette of every point: how much closer it is to its own cluster than to the nearest other one.
//
// out_i = (b − a)/max(a, b), where a is the mean distance of x_i to the others of its cluster and b the least mean
// distance to another cluster; 0 where its cluster weighs no more than 1. A weight of w stands for w equal rows. Every
// pair is evaluated: O(n²) distances, O(n) memory. Sums of distances are compensated: their relative error is that of
// the distances and of the sums over 32 of them (docs/numerics/sums.md, S8).
#pragma once

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// Rows are added in their order, so bits depend on it, and on nothing else.
void silhouette(View<const double, 2> x,                    // in  (n, d) rows grouped by cluster
                View<const double, 1> weights,              // in  (n) in the same order
                View<const int64_t, 1> starts,              // in  (k + 1) where each cluster begins; k ≥ 2, none empty
                const Metric& metric, View<double, 1> out,  // out (n)
                Run run);

// The same from distances, of m of the rows to all n. Distances may be any numbers; sums are exact, so that no order of
// the columns changes a bit. A row's distance to itself is not read.
void silhouette_of_distances(View<const double, 2> distances,  // in  (m, n) columns grouped by cluster
                             int64_t first,                    // the column of row 0; that of row i is first + i
                             View<const double, 1> weights,    // in  (n) of the columns
                             View<const int64_t, 1> starts,    // in  (k + 1)
                             View<double, 1> out,              // out (m)
                             Run run);

}  // namespace knoll
