// Centres for sparse rows: only what is stored of a row is multiplied, in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/csr.hpp"
#include "common/prefetch.hpp"
#include "common/tile.hpp"
#include "common/view.hpp"

namespace knoll {

// Two scores ½‖c‖² − x·c are in their true order if they differ by more than (4d + 16)·2⁻⁵³·1.01·(‖x‖² + P²), P the
// largest norm of a centre: eq. 15 of docs/numerics/kmeans.md.
class SparseCenters {
 public:
  static constexpr int64_t kRows = 256;  // per chunk; each may have an entry in every column

  explicit SparseCenters(View<const double, 2> centers)
      : k(centers.shape[0]),
        d(centers.shape[1]),
        rows(static_cast<size_t>(k * d)),
        columns_(rows.size()),
        half_(static_cast<size_t>(k)) {
    pack_rows(centers, rows.data());
    for (int64_t c = 0; c < k; ++c) {
      const double* const center = &rows[static_cast<size_t>(c * d)];
      double norm2 = 0;
      for (int64_t j = 0; j < d; ++j) norm2 += center[j] * center[j];
      half_[static_cast<size_t>(c)] = norm2 / 2;
      p2_ = std::max(p2_, norm2);
    }
    for (int64_t j = 0; j < d; ++j)
      for (int64_t c = 0; c < k; ++c) columns_[static_cast<size_t>(j * k + c)] = rows[static_cast<size_t>(c * d + j)];
    margin_ = (4 * static_cast<double>(d) + 16) * 0x1p-53 * 1.01;
  }

  struct Nearest {
    int64_t label;  // −1: the bound does not decide
    double gap;     // a lower bound of the distance to the second nearest centre minus that to the nearest
  };

  // dense (d) is zero before and after, score (k) is scratch.
  template <class T, class I>
  Nearest nearest(Csr<T, I> x, int64_t i, double* dense, double* score) const {
    std::copy(half_.begin(), half_.end(), score);
    double x2 = 0;
    // The columns of a row are anywhere in the table of centres, so all are prefetched.
    for (int64_t p = x.begin(i); p < x.end(i); ++p)
      prefetch(&columns_[static_cast<size_t>(static_cast<int64_t>(x.indices[p]) * k)], k);
    for_merged_entries(x, i, dense, [&](int64_t j, double v) {
      x2 += v * v;
      const double* const column = &columns_[static_cast<size_t>(j * k)];
      for (int64_t c = 0; c < k; ++c) score[c] -= v * column[c];
    });
    const double size = x2 + p2_;
    // Eq. 15 has no floor: outside of this range the row is rechecked.
    if (!(size > 0x1p-900 && size < 0x1p900)) return {-1, 0.0};  // products may have under- or overflowed
    int64_t label = 0;
    double second = std::numeric_limits<double>::infinity();
    // The two lowest scores; the order of the lowest is certain if the second exceeds it by the margin.
    for (int64_t c = 1; c < k; ++c) {
      second = std::min(second, std::max(score[c], score[label]));
      if (score[c] < score[label]) label = c;
    }
    const double error = margin_ * size;
    if (!(second - score[label] > error)) return {-1, 0.0};
    // ‖x − c‖² = ‖x‖² + 2·score: each score errs by less than the margin, and so does ‖x‖². The factors cover the
    // roundings of this expression.
    const double near = x2 + 2 * score[label] + 3 * error, far = x2 + 2 * second - 3 * error;
    const double gap = std::sqrt(std::max(far, 0.0)) * (1 - 0x1p-50) - std::sqrt(std::max(near, 0.0)) * (1 + 0x1p-50);
    return {label, std::max(gap, 0.0)};
  }

  int64_t nearest_exactly(const double* x) const {
    int64_t label = 0;
    double best = distance2(x, 0);
    for (int64_t c = 1; c < k; ++c) {
      const double here = distance2(x, c);
      if (here < best) best = here, label = c;
    }
    return label;
  }

  double distance2(const double* x, int64_t c) const {  // the one distance
    const double* const center = &rows[static_cast<size_t>(c * d)];
    double sum = 0;
    for (int64_t j = 0; j < d; ++j) {
      const double difference = x[j] - center[j];
      sum += difference * difference;
    }
    return sum;
  }

  int64_t k, d;
  std::vector<double> rows;  // (k, d)

 private:
  std::vector<double> columns_, half_;  // (d, k), (k)
  double p2_ = 0, margin_ = 0;
};

}  // namespace knoll
