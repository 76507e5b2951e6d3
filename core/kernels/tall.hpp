// Products with a long side n: AᵀB and A·C, in fixed chunks of rows that are merged in order, so that the bits are
// the same for any number of threads and any layout.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

void tall_inner(View<const double, 2> a,  // in  (n, p)
                View<const double, 2> b,  // in  (n, m)
                View<double, 2> out,      // out (p, m)
                Run run);

void tall_times(View<const double, 2> a,  // in  (n, p)
                View<const double, 2> c,  // in  (p, m)
                View<double, 2> out,      // out (n, m)
                Run run);

}  // namespace knoll
