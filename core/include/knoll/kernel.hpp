// Kernel functions κ(x, y): the Gaussian exp(−½ (r²/σ²)^p), the Heaviside [r ≤ ε], the polynomial (xᵀy + c)^b and the
// linear xᵀy, each by one arithmetic wherever its values appear (docs/decisions/0014).
#pragma once

#include <cstdint>
#include <string>

#include "knoll/run.hpp"
#include "knoll/simd_kernels.hpp"
#include "knoll/view.hpp"

namespace knoll {

// kind: "rbf" (a = σ, b = p), "heaviside" (a = ε), "poly" (a = c, b whole), "linear". cutoff: values of the rbf whose r
// exceeds it count as 0; 0 or infinity: none does. Throws std::invalid_argument.
KernelRule kernel_rule(const std::string& kind, double a, double b, double cutoff = 0);

// A coordinate in the rule's unit. −0 becomes 0, and what would overflow becomes the largest number that has room.
double kernel_place(double x, const KernelRule& rule);

template <class T>
void kernel_tile(View<const T, 2> x,                           // in  (n, d)
                 View<const T, 2> y,                           // in  (m, d)
                 const KernelRule& rule, View<double, 2> out,  // out (n, m)
                 Run run);

template <class T>
void kernel_diagonal(View<const T, 2> x,                           // in  (n, d)
                     const KernelRule& rule, View<double, 1> out,  // out (n)
                     Run run);

}  // namespace knoll
