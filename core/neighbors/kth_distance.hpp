// How far away the k-th nearest row is.
#pragma once

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// For each row of x the smallest of its distances to the rows of x, itself included, within which lies a weight of at
// least `mass`. The one distance; weights (n) or empty.
void kth_distances(View<const double, 2> x,           // in  (n, d)
                   View<const double, 1> weights,     // in  (n) or empty
                   double mass, View<double, 1> out,  // out (n)
                   Run run);

}  // namespace knoll
