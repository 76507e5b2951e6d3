// The sums of kernel k-means, G = K·W·Z, when points change cluster: O(n) values for each of them (docs/theory,
// eq. 4.20, needs nothing else of K).
#pragma once

#include <cstdint>

#include "kernels/points.hpp"

namespace knoll {

// For each listed row j: g(·, fresh_j) += w_j κ(·, x_j) and g(·, old_j) −= w_j κ(·, x_j); a negative number
// leaves its half out. Each number of g is one chain of additions in the order of the tree, whatever the list's.
void kernel_update(const KernelPoints& points, const KernelRule& rule,
                   View<const int64_t, 1> rows,    // in      (m) rows of the data
                   View<const int32_t, 1> old,     // in      (m) columns of g
                   View<const int32_t, 1> fresh,   // in      (m)
                   View<const double, 1> weights,  // in      (n), or empty for ones
                   View<double, 2> g,              // in, out (n, k)
                   Run run);

}  // namespace knoll
