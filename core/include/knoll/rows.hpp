// Rows as things: which are equal, and how far away the k-th nearest one is.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

// Numbers the different rows of x in the order of their first appearance: which[i] is the number of row i, first[c] the
// first row of number c. Zeros are equal whatever their sign.
std::vector<int64_t> distinct_rows(View<const double, 2> x,  // in  (n, d)
                                   View<int64_t, 1> which);  // out (n)

// For each row of x the smallest of its distances to the rows of x, itself included, within which lies a weight of at
// least `mass`. The one distance; weights (n) or empty.
void kth_distances(View<const double, 2> x,           // in  (n, d)
                   View<const double, 1> weights,     // in  (n) or empty
                   double mass, View<double, 1> out,  // out (n)
                   Run run);

}  // namespace knoll
