// The right side of a product A·C, packed for the small products: panels of 12, 8 or 4 columns, row after row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "knoll/simd.hpp"
#include "knoll/view.hpp"

namespace knoll {

class TallPanels {
 public:
  static constexpr int64_t kDeep = 256;  // rows of C that are worked on at once: a panel of them stays in a first cache

  explicit TallPanels(View<const double, 2> c) : deep_(c.shape[0]) {
    for (int64_t first = 0; first < c.shape[1];) {
      const int64_t left = c.shape[1] - first, width = left > 8 ? 12 : left > 4 ? 8 : 4;
      starts_.push_back({first, width, static_cast<int64_t>(data_.size())});
      for (int64_t k = 0; k < deep_; ++k)
        for (int64_t j = 0; j < width; ++j) data_.push_back(first + j < c.shape[1] ? c(k, first + j) : 0.0);
      first += width;
      width_ = first;
    }
  }

  int64_t width() const { return width_; }  // the columns of C and those that fill the last panel

  // out[i, j] += Σ_k a[i·stride + k]·C[from + k, j] for k < count ≤ kDeep, i < rows, j < width().
  void add(const double* a, int64_t stride, int64_t rows, int64_t from, int64_t count, double* out,
           int64_t out_stride) const {
    for (const auto& [first, width, offset] : starts_)
      kernels().gram.add_rows(a, stride, rows, count, data_.data() + offset + from * width, width, out + first,
                              out_stride);
  }

 private:
  struct Panel {
    int64_t first, width, offset;
  };
  int64_t deep_, width_ = 0;
  std::vector<Panel> starts_;
  std::vector<double> data_;
};

}  // namespace knoll
