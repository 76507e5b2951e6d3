#include "kmeans/silhouette.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/tile.hpp"

namespace knoll {

namespace {
constexpr int64_t kColumns = 64;
}  // namespace

template <class T>
void silhouette(View<const T, 2> x, View<const double, 1> weights, View<const int64_t, 1> starts, View<double, 1> out,
                Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], k = starts.shape[0] - 1;
  std::vector<double> mass(static_cast<size_t>(k));
  for (int64_t c = 0; c < k; ++c)
    for (int64_t i = starts(c); i < starts(c + 1); ++i) mass[static_cast<size_t>(c)] += weights(i);

  for_chunks(n, kPoints, run, [&](int64_t, int64_t begin, int64_t end) {
    const int64_t rows = end - begin;
    std::vector<double> columns(static_cast<size_t>(d * kPoints)), others(static_cast<size_t>(d * kColumns));
    std::vector<double> tile(static_cast<size_t>(kColumns * kPoints)), w(static_cast<size_t>(kColumns));
    double own[kPoints] = {}, next[kPoints];
    int64_t home[kPoints] = {};
    std::fill(next, next + kPoints, std::numeric_limits<double>::infinity());
    for (int64_t l = 0, c = 0; l < rows; ++l) {
      while (begin + l >= starts(c + 1)) ++c;
      home[l] = c;
    }
    pack_columns(x.rows(begin, end), nullptr, columns.data());
    for (int64_t c = 0; c < k; ++c) {
      // Σ_j w_j ‖x − x_j‖ over the rows of cluster c, which lie one after the other; j rises, so bits do not depend on
      // chunks.
      double sums[kPoints] = {};
      for (int64_t j = starts(c); j < starts(c + 1); j += kColumns) {
        const int64_t count = std::min(kColumns, starts(c + 1) - j);
        run.poll();
        pack_rows(x.rows(j, j + count), others.data());
        for (int64_t t = 0; t < count; ++t) w[static_cast<size_t>(t)] = weights(j + t);
        kernels().distance_tile(columns.data(), others.data(), d, count, d, tile.data());
        kernels().root_sums(tile.data(), w.data(), count, sums);
      }
      // b: the least mean distance to another cluster; s = (b − a) / max(a, b), 0 for a cluster of one.
      const double weight = mass[static_cast<size_t>(c)];
      for (int64_t l = 0; l < rows; ++l) {
        if (home[l] == c)
          // a: the mean over the others of the cluster; the point itself adds 0 to the sum.
          own[l] = weight > 1.0 ? sums[l] / (weight - 1.0) : -1.0;
        else
          next[l] = std::min(next[l], sums[l] / weight);
      }
    }
    for (int64_t l = 0; l < rows; ++l) {
      const double larger = std::max(own[l], next[l]);
      out(begin + l) = own[l] < 0 || larger == 0 ? 0.0 : (next[l] - own[l]) / larger;
    }
  });
}

template void silhouette(View<const float, 2>, View<const double, 1>, View<const int64_t, 1>, View<double, 1>, Run);
template void silhouette(View<const double, 2>, View<const double, 1>, View<const int64_t, 1>, View<double, 1>, Run);

}  // namespace knoll
