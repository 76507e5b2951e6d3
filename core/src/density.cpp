#include "knoll/density.hpp"

#include <vector>

#include "knoll/tile.hpp"

namespace knoll {

template <class T>
void mahalanobis2(View<const T, 2> x, View<const double, 1> mean, View<const double, 2> factor, View<double, 1> out,
                  Run run) {
  const int64_t d = x.shape[1];
  std::vector<double> center(static_cast<size_t>(d)), lower(static_cast<size_t>(d * d));
  for (int64_t i = 0; i < d; ++i) {
    center[static_cast<size_t>(i)] = mean(i);
    for (int64_t j = 0; j <= i; ++j) lower[static_cast<size_t>(i * d + j)] = factor(i, j);
  }
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> columns(static_cast<size_t>(d * kPoints));
    double norms[kPoints];
    for (int64_t from = begin; from < end; from += kPoints) {
      const int64_t rows = std::min<int64_t>(kPoints, end - from);
      pack_columns(x.rows(from, from + rows), center.data(), columns.data());
      kernels().whitened_norms(columns.data(), d, lower.data(), norms);
      for (int64_t l = 0; l < rows; ++l) out(from + l) = norms[l];
    }
  });
}

template void mahalanobis2(View<const float, 2>, View<const double, 1>, View<const double, 2>, View<double, 1>, Run);
template void mahalanobis2(View<const double, 2>, View<const double, 1>, View<const double, 2>, View<double, 1>, Run);

}  // namespace knoll
