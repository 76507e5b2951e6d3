// The one distance (docs/numerics/rounding.md, D1) of rows from centres, row by row: Σ_j (x_j − c_j)² in float64, added
// for j = 0 … d−1. Each addition of a sum waits for the previous one, so eight rows are interleaved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/view.hpp"

namespace knoll {

// each(l, distance²) for the rows row_of(l) of x and the centres center_of(l) (d doubles), l < count, in order.
template <class T, class Row, class Center, class Each>
void one_distances(View<const T, 2> x, int64_t count, Row&& row_of, Center&& center_of, Each&& each) {
  // Eight independent chains hide the latency of an addition.
  constexpr int64_t kSide = 8;
  const int64_t d = x.shape[1], stride = x.stride[1];
  for (int64_t first = 0; first < count; first += kSide) {
    const T* row[kSide];
    const double* center[kSide];
    double sum[kSide] = {};
    for (int64_t l = 0; l < kSide; ++l) {
      // Past the last row that row is repeated: its sums are computed and dropped.
      const int64_t here = std::min(first + l, count - 1);
      row[l] = &x(row_of(here), 0);
      center[l] = center_of(here);
    }
    for (int64_t j = 0; j < d; ++j)
      for (int64_t l = 0; l < kSide; ++l) {
        // Plain operations in the order of j: docs/numerics/rounding.md, D1.
        const double difference = static_cast<double>(row[l][j * stride]) - center[l][j];
        sum[l] += difference * difference;
      }
    for (int64_t l = 0; l < std::min(kSide, count - first); ++l) each(first + l, sum[l]);
  }
}

}  // namespace knoll
