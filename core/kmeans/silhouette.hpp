// The silhouette of every point: how much closer it is to its own cluster than to the nearest other one.
#pragma once

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// out_i = (b − a)/max(a, b), where a is the mean distance of x_i to the others of its cluster and b the least mean
// distance to another cluster; 0 where its cluster weighs no more than 1. A weight of w stands for w equal
// rows. Every pair is evaluated: O(n² d) work, O(n) memory.
template <class T>
void silhouette(View<const T, 2> x,             // in  (n, d) rows grouped by cluster
                View<const double, 1> weights,  // in  (n) in the same order
                View<const int64_t, 1> starts,  // in  (k + 1) where each cluster begins; k ≥ 2, none empty
                View<double, 1> out,            // out (n)
                Run run);

}  // namespace knoll
