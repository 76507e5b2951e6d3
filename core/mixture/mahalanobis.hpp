// Many points under one Gaussian: whitened to their Mahalanobis distance (docs/theory/01-gaussian.md, eq. 1.9), and
// coloured to be its sample.
#pragma once

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// out_i = ‖F (x_i − mean)‖² with F = L⁻¹, Σ = L Lᵀ: the squared Mahalanobis distance.
template <class T>
void mahalanobis2(View<const T, 2> x,            // in  (n, d)
                  View<const double, 1> mean,    // in  (d)
                  View<const double, 2> factor,  // in  (d, d) lower triangular
                  View<double, 1> out,           // out (n)
                  Run run);

// x_i ← mean + L x_i with L lower triangular: standard normals become points of the Gaussian.
void colour(View<double, 2> x,            // in, out (n, d)
            View<const double, 1> mean,   // in  (d)
            View<const double, 2> lower,  // in  (d, d) lower triangular
            Run run);

}  // namespace knoll
