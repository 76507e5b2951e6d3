// A = L Lᵀ for small symmetric matrices, L⁻¹ and log |A|. Not LAPACK's: every element has its operations in one fixed
// order, so that the bits depend on the numbers alone, not on a BLAS, its threads or the layout.
//
//     l_ij = (a_ij − l_i0 l_j0 − … − l_i,j−1 l_j,j−1) / l_jj,   l_jj = √(a_jj − l_j0² − … − l_j,j−1²),
//
// subtracted from left to right. Scaling row and column j by a power of two therefore scales row j of L,
// exactly.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Factorises in place: reads the lower triangle, writes L there and zeros above. Returns −1, or the first j
// whose pivot l_jj² is not above both zero and tolerance · a_jj (a NaN or an infinity shows as such a pivot
// too); a is then partly overwritten.
int64_t cholesky(View<double, 2> a,  // in, out (d, d)
                 double tolerance, Run run = {});

// out ← L⁻¹, lower triangular with zeros above. Column j is the forward substitution of the unit vector e_j, to the
// bit. Not in place.
void invert_lower(View<const double, 2> l,  // in  (d, d)
                  View<double, 2> out,      // out (d, d)
                  Run run = {});

// log |L Lᵀ| = 2 Σ log l_jj, added for j = 0 … d−1.
double log_det(View<const double, 2> l);  // in  (d, d)

}  // namespace knoll
