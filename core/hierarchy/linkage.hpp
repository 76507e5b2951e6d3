// Average, complete and single linkage over a matrix of distances.
//
// Distances of n clusters are stored once each: those of cluster i to clusters j < i are row i, and rows follow each
// other, so the distance of i and j is number i(i−1)/2 + j. Pairs that are each other's nearest are merged, all of a
// round at once, as in hierarchy/ward.hpp: in all three the distance of a merged cluster to a third one is never below
// the lesser of its children's.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

enum class Linkage { average, complete, single };

inline int64_t pair_count(int64_t n) { return n * (n - 1) / 2; }

// The distances of all pairs of rows.
template <class T>
void pair_distances(View<const T, 2> x,  // in  (n, d)
                    const Metric& metric,
                    double* out,  // out (n(n−1)/2)
                    Run run);

// Equal distances go to the clusters of the lowest numbers: rows first, then merged clusters in the order of their
// heights.
void link_matrix(double* distances,                           // in (n(n−1)/2), overwritten
                 View<const double, 1> weights,               // in (n), > 0, or empty
                 Linkage linkage, View<int64_t, 2> children,  // out (n − 1, 2)
                 View<double, 1> heights,                     // out (n − 1)
                 Run run);

}  // namespace knoll
