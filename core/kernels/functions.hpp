// Kernel functions κ(x, y): the Gaussian exp(−½ (r²/σ²)^p), the Heaviside [r ≤ ε], the polynomial (xᵀy + c)^b and the
// linear xᵀy, each by one arithmetic wherever its values appear (docs/numerics/kernels.md, K1).
#pragma once

#include <cstdint>
#include <string>

#include "common/run.hpp"
#include "common/view.hpp"
#include "kernels/kernels.hpp"

namespace knoll {

// function: "rbf" (a = σ, b = p), "heaviside" (a = ε), "poly" (a = c, b whole), "linear". cutoff: values of the rbf
// whose r exceeds it are 0; 0 or infinity: no cutoff. Throws std::invalid_argument.
KernelRule kernel_rule(const std::string& function, double a, double b, double cutoff = 0);

// A coordinate in the rule's unit. −0 becomes 0, so that equal points have equal bits; an overflow becomes ±DBL_MAX.
double kernel_coordinate(double x, const KernelRule& rule);

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
