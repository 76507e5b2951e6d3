// Products with a kernel matrix that is never stored: K·B over the points themselves, each pair evaluated once, and
// K(Y, X)·B for other points Y (docs/numerics/kernels.md, K1 to K3).
#pragma once

#include <cstdint>

#include "kernels/points.hpp"

namespace knoll {

// How many unordered pairs of rows, each row with itself among them, kernel_apply evaluates: those that the boxes
// leave.
int64_t kernel_pairs(const KernelPoints& points, const KernelRule& rule, Run run);

// out = K·B. The order of additions depends on the points alone: the same bits for any number of threads.
void kernel_apply(const KernelPoints& points, const KernelRule& rule, View<const double, 2> b,  // in  (n, m)
                  View<double, 2> out,                                                          // out (n, m)
                  Run run);

// out = K(Y, X)·B. A row's bits depend on that row, X and B alone, not on the rows beside it.
template <class T>
void kernel_apply_rows(const KernelPoints& points, const KernelRule& rule, View<const T, 2> y,  // in  (q, d)
                       View<const double, 2> b,                                                 // in  (n, m)
                       View<double, 2> out,                                                     // out (q, m)
                       Run run);

}  // namespace knoll
