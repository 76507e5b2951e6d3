// Quadratic forms of many points under one Gaussian (docs/theory/01-gaussian.md, eq. 1.8).
#pragma once

#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

// out_i = ‖F (x_i − mean)‖² with F = L⁻¹, Σ = L Lᵀ: the squared Mahalanobis distance.
template <class T>
void mahalanobis2(View<const T, 2> x,            // in  (n, d)
                  View<const double, 1> mean,    // in  (d)
                  View<const double, 2> factor,  // in  (d, d) lower triangular
                  View<double, 1> out,           // out (n)
                  Run run);

}  // namespace knoll
