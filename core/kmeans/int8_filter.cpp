#include "kmeans/int8_filter.hpp"

#include <algorithm>
#include <cmath>

#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kWidest = int64_t{1} << 15;  // columns: |score| ≤ 3·63²·d < kNoScore up to here
constexpr int kStepBits = 8;                   // of the step: its products with 7-bit integers are exact

// An upper bound of the length whose square was summed in float32 over d terms. Rounding changes the root by less than
// (d + 8)·2⁻²³ of it; each square loses at most 2⁻¹⁵⁰ to underflow, so the root less than √(2¹⁵·2⁻¹⁵⁰) < 2⁻⁶⁷.
float length_above(float sum, int64_t d) {
  return static_cast<float>(std::sqrt(static_cast<double>(sum)) * (1 + static_cast<double>(d + 8) * 0x1p-23) + 0x1p-66);
}

}  // namespace

// step = the 90 % quantile of max_j |y_j| over a sample, divided by 63 and rounded up to kStepBits bits.
template <class T>
Int8Grid choose_grid(View<const T, 2> x, const Pivot& pivot) {
  constexpr int64_t kRows = 100;
  const int64_t n = x.shape[0], d = x.shape[1], count = std::min(n, kRows);
  if (pivot.scale == 0 || d > kWidest || n == 0) return {};
  std::vector<double> reach(static_cast<size_t>(count), 0.0);
  for (int64_t s = 0; s < count; ++s)
    for (int64_t j = 0; j < d; ++j) {
      const double y = static_cast<double>(x((2 * s + 1) * n / (2 * count), j)) - pivot.origin[static_cast<size_t>(j)];
      reach[static_cast<size_t>(s)] = std::max(reach[static_cast<size_t>(s)], std::fabs(y * pivot.scale));
    }
  const auto most = reach.begin() + count * 9 / 10;
  std::nth_element(reach.begin(), most, reach.end());
  // Coordinates near one, as a pivot makes them; else int8 is not used.
  if (!(*most > 0x1p-20 && *most < 0x1p20)) return {};
  int exponent = 0;
  const double fraction = std::frexp(*most / kInt8Max, &exponent);
  // step·q has at most 8 + 6 bits: exact in float32, so y − step·q is rounded once (eq. 11).
  const auto step = static_cast<float>(std::ldexp(std::ceil(std::ldexp(fraction, kStepBits)), exponent - kStepBits));
  return {step, 1 / step};
}

template <class T>
Int8Rows::Int8Rows(View<const T, 2> x, const Pivot& pivot, Int8Grid grid_, Run run)
    : grid(grid_), quads((x.shape[1] + kQuad - 1) / kQuad) {
  const int64_t n = x.shape[0], d = x.shape[1];
  q = make_large_array<uint8_t>(static_cast<size_t>(n * quads * kQuad));
  y = make_large_array<float>(static_cast<size_t>(n * d));
  norm2.resize(static_cast<size_t>(n));
  error.resize(static_cast<size_t>(n));
  y2.resize(static_cast<size_t>(n));
  for_chunks(n, 1024, run, [&](int64_t, int64_t begin, int64_t end) {
    const auto& kernel = kernels().kmeans;
    std::vector<T> copy(x.rows_contiguous() ? 0 : static_cast<size_t>(d));
    for (int64_t i = begin; i < end; ++i) {
      for (size_t j = 0; j < copy.size(); ++j) copy[j] = x(i, static_cast<int64_t>(j));
      // The same coordinates as in a panel, bit for bit: q, norm2 and error belong to the ŷ that float32 confirms with.
      const T* const row = copy.empty() ? &x(i, 0) : copy.data();
      const auto at = static_cast<size_t>(i);
      float* const to = &y[static_cast<size_t>(i * d)];
      if constexpr (std::is_same_v<T, double>)
        y2[at] = kernel.pack_row_f64(row, d, pivot.origin.data(), pivot.scale, to);
      else
        y2[at] = kernel.pack_row_f32(row, d, pivot.origin32.data(), static_cast<float>(pivot.scale), to);
      error[at] = length_above(
          kernel.int8_row(to, d, grid.step, grid.inverse, &q[static_cast<size_t>(i * quads * kQuad)], &norm2[at]), d);
    }
  });
}

// Every step packs the centres anew; rows keep their integers for the whole fit.
Int8Centers::Int8Centers(const PackedCenters& centers, const std::vector<float>& rows, const Int8Rows& points)
    : offset(centers.half.size(), kNoScore) {
  const int64_t d = centers.d, quads = points.quads, slots = static_cast<int64_t>(offset.size());
  blocks.assign(static_cast<size_t>(slots * quads * kQuad), 0);
  std::vector<float> y(static_cast<size_t>(d));
  std::vector<uint8_t> q(static_cast<size_t>(quads * kQuad));
  // maddubs adds two products per 16-bit lane: columns 0, 1 and 2, 3 of a word. Over W words a lane stays within int16
  // if 2·kInt8Max · Σ|m| ≤ 32767, which is tested for W = 4 and 8; for W = 2 it always holds: 4·126·63 < 32768.
  int32_t largest[2] = {};  // Σ|m| of a lane, for four and eight words
  for (int64_t c = 0; c < slots; ++c) {
    // offset stays kNoScore: above every limit, so an empty slot is always ruled out.
    if (!std::isfinite(centers.half[static_cast<size_t>(c)])) continue;  // an empty slot
    for (int64_t j = 0; j < d; ++j) y[static_cast<size_t>(j)] = -rows[static_cast<size_t>(c * d + j)];
    int32_t norm2 = 0, sum = 0;
    const float residual2 =
        kernels().kmeans.int8_row(y.data(), d, points.grid.step, points.grid.inverse, q.data(), &norm2);
    // One error for all centres: a sweep compares integers only, with one limit per row. A far centre is clipped, and
    // its residual counts, so it would make the error of all large: int8 is then dropped after a step (kMaxConfirmed).
    error = std::max(error, length_above(residual2, d));
    int32_t lane_sum[2][2] = {};  // for four and eight words, of columns 0, 1 and 2, 3
    for (int64_t w = 0; w < quads; ++w) {
      for (int h = 0; h < 2; ++h)
        if (w % (4 << h) == 0) lane_sum[h][0] = lane_sum[h][1] = 0;
      for (int64_t b = 0; b < kQuad; ++b) {
        const int32_t m = q[static_cast<size_t>(w * kQuad + b)] - kInt8Max;
        blocks[static_cast<size_t>(((c / kInt8Block * quads + w) * kInt8Block + c % kInt8Block) * kQuad + b)] =
            static_cast<int8_t>(m);
        sum += m;
        for (int h = 0; h < 2; ++h) {
          int32_t& lane = lane_sum[h][b / 2];
          lane += std::abs(m);
          largest[h] = std::max(largest[h], lane);
        }
      }
    }
    // ‖m‖² − 2 Σ q·m = ‖m‖² + 2·63·Σ m − 2 Σ (q + 63)·m.
    offset[static_cast<size_t>(c)] = norm2 + 2 * kInt8Max * sum;
  }
  for (int h = 0; h < 2; ++h)
    if (largest[h] * 2 * kInt8Max <= INT16_MAX) widen = 4 << h;
}

#define KNOLL_INT8(T)                                            \
  template Int8Grid choose_grid(View<const T, 2>, const Pivot&); \
  template Int8Rows::Int8Rows(View<const T, 2>, const Pivot&, Int8Grid, Run)
KNOLL_INT8(float);
KNOLL_INT8(double);

}  // namespace knoll
