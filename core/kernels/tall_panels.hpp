// The right side of a product A·C, packed for the small products: panels of 12, 8 or 4 columns, row after row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/view.hpp"
#include "simd/kernels.hpp"

namespace knoll {

struct TallWidth {
  int64_t first, width;
};
// How m columns are cut into panels; the last may have free columns.
// Widths of the small products; nine columns take one panel of 12 rather than 8 and 4.
inline std::vector<TallWidth> tall_widths(int64_t m) {
  std::vector<TallWidth> cuts;
  for (int64_t first = 0; first < m; first += cuts.back().width)
    cuts.push_back({first, m - first > 8 ? 12 : m - first > 4 ? 8 : 4});
  return cuts;
}

class TallPanels {
 public:
  static constexpr int64_t kDeep = 256;  // rows of C at a time: 256 × 12 numbers, 24 KB, stay in the first cache level

  explicit TallPanels(View<const double, 2> c) : deep_(c.shape[0]), cuts_(tall_widths(c.shape[1])) {
    for (const auto& [first, width] : cuts_)
      for (int64_t k = 0; k < deep_; ++k)
        for (int64_t j = 0; j < width; ++j) data_.push_back(first + j < c.shape[1] ? c(k, first + j) : 0.0);
  }

  // The columns of C and those that fill the last panel.
  int64_t width() const { return cuts_.empty() ? 0 : cuts_.back().first + cuts_.back().width; }

  // out[i, j] += Σ_k a[i·stride + k]·C[from + k, j] for k < count ≤ kDeep, i < rows, j < width().
  // Free columns of the last panel are zeros: they are computed and not read.
  void add(const double* a, int64_t stride, int64_t rows, int64_t from, int64_t count, double* out,
           int64_t out_stride) const {
    for (const auto& [first, width] : cuts_)
      kernels().gram.add_rows(a, stride, rows, count, data_.data() + first * deep_ + from * width, width, out + first,
                              out_stride);
  }

 private:
  int64_t deep_;
  std::vector<TallWidth> cuts_;
  std::vector<double> data_;
};

}  // namespace knoll
