// Products of a sparse matrix with a tall block, and a polynomial of a sparse matrix applied to one. A row of the
// result is summed in the order of its entries, so that the bits are the same for any number of threads and any layout.
#pragma once

#include <cstdint>

#include "common/csr.hpp"
#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// A matrix of links between rows: there may be more than 2³¹ of them.
using Links = Csr<double, int32_t, int64_t>;

void sparse_times(const Links& m,           // in  (n, p)
                  View<const double, 2> b,  // in  (p, w)
                  View<double, 2> out,      // out (n, w)
                  Run run);

// out = T_q(x(M)) B / T_q(x(1)), T_q Chebyshev's polynomial of degree q ≥ 1 and x the line that maps [−1, cut] to
// [−1, 1]: of a symmetric M with eigenvalues in [−1, 1] those up to the cut are damped, those above it grow with their
// distance from it, and 1 stays 1.
void sparse_chebyshev(const Links& m,           // in  (n, n)
                      double cut,               // in  (−1, 1)
                      int64_t degree,           // in
                      View<const double, 2> b,  // in  (n, w)
                      View<double, 2> out,      // out (n, w)
                      Run run);

}  // namespace knoll
