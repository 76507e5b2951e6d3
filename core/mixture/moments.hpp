// The weighted moments of a set of points about an origin, as order-free sums (docs/theory/01-gaussian.md,
// eq. 1.7).
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// How many sums: Σw, then Σw(x−o)_j, then Σw(x−o)_i(x−o)_j for i ≤ j, row by row.
inline int64_t moment_count(int64_t d) { return 1 + d + d * (d + 1) / 2; }

// Adds the moments of x about `origin` to `sums`. The sums over each chunk of kGrain rows are taken in a fixed order,
// and chunks are merged exactly: the result has the same bits for any number of threads, and for any blocks that are
// cut at multiples of kGrain.
template <class T>
void add_moments(View<const T, 2> x,             // in      (n, d)
                 View<const double, 1> weights,  // in      (n), or empty for ones
                 View<const double, 1> origin,   // in      (d)
                 View<int64_t, 2> sums,          // in, out (kSumWords, moment_count(d)): one exact sum per column
                 Run run);

}  // namespace knoll
