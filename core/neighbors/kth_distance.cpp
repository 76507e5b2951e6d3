// The distance to the k-th row, or to a weight, by selection among all distances (docs/numerics/scales.md, W4).
#include "neighbors/kth_distance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/parallel.hpp"
#include "common/tile.hpp"
#include "simd/kernels.hpp"

namespace knoll {

// All n² distances: the ball in question holds a good share of the rows, so no index could leave anything out. A row of
// them at a time, hence O(n) memory per thread.
void kth_distances(View<const double, 2> x, View<const double, 1> weights, double mass, View<double, 1> out, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  const int64_t tiles = chunk_count(n, kPoints);
  std::vector<double> columns(static_cast<size_t>(tiles * d * kPoints));
  // Packed once; a row is then a query against column tiles, eight vectors at a time.
  for (int64_t t = 0; t < tiles; ++t)
    pack_columns(x.rows(t * kPoints, std::min(n, (t + 1) * kPoints)), nullptr, columns.data() + t * d * kPoints);
  for_chunks(n, 8, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> d2(static_cast<size_t>(tiles * kPoints)), y(static_cast<size_t>(d));
    std::vector<int64_t> order;
    for (int64_t i = begin; i < end; ++i) {
      run.poll();
      for (int64_t j = 0; j < d; ++j) y[static_cast<size_t>(j)] = x(i, j);
      for (int64_t t = 0; t < tiles; ++t)
        kernels().distance_tile(columns.data() + t * d * kPoints, y.data(), d, 1, d, d2.data() + t * kPoints);
      // √ is monotone under rounding, so the k-th squared distance has the k-th distance.
      if (weights.empty()) {
        const auto k = static_cast<int64_t>(std::clamp(mass, 1.0, static_cast<double>(n))) - 1;
        // Lanes past n are zeros of the last tile: they lie behind d2.begin() + n and do not count.
        std::nth_element(d2.begin(), d2.begin() + k, d2.begin() + n);
        out(i) = std::sqrt(d2[static_cast<size_t>(k)]);
        continue;
      }
      // With weights: sorted, ties by row so that the sum has one order, until the mass is reached.
      order.resize(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const double u = d2[static_cast<size_t>(a)], v = d2[static_cast<size_t>(b)];
        return u < v || (u == v && a < b);
      });
      double sum = 0;
      for (const int64_t k : order) {
        sum += weights(k);
        out(i) = std::sqrt(d2[static_cast<size_t>(k)]);
        if (sum >= mass) break;
      }
    }
  });
}

}  // namespace knoll
