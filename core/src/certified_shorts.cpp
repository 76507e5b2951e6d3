#include "knoll/certified_shorts.hpp"

#include <algorithm>
#include <cmath>

#include "knoll/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kWidest = int64_t{1} << 15;  // columns for which scores stay below kShortNone
constexpr int kFewBits = 8;                    // of a step: its multiples by whole numbers are exact

// Above the length whose square was summed up as `sum` over d terms in float32.
float length_above(float sum, int64_t d) {
  return static_cast<float>(std::sqrt(static_cast<double>(sum)) * (1 + static_cast<double>(d + 8) * 0x1p-23) + 0x1p-70);
}

}  // namespace

template <class T>
ShortGrid choose_grid(View<const T, 2> x, const Frame& frame) {
  constexpr int64_t kRows = 100;
  const int64_t n = x.shape[0], d = x.shape[1], count = std::min(n, kRows);
  if (frame.scale == 0 || d > kWidest || n == 0) return {};
  std::vector<double> reach(static_cast<size_t>(count), 0.0);
  for (int64_t s = 0; s < count; ++s)
    for (int64_t j = 0; j < d; ++j) {
      const double y = static_cast<double>(x((2 * s + 1) * n / (2 * count), j)) - frame.pivot[static_cast<size_t>(j)];
      reach[static_cast<size_t>(s)] = std::max(reach[static_cast<size_t>(s)], std::fabs(y * frame.scale));
    }
  const auto most = reach.begin() + count * 9 / 10;
  std::nth_element(reach.begin(), most, reach.end());
  if (!(*most > 0x1p-20 && *most < 0x1p20)) return {};
  int exponent = 0;
  const double fraction = std::frexp(*most / kShortMost, &exponent);
  const auto step = static_cast<float>(std::ldexp(std::ceil(std::ldexp(fraction, kFewBits)), exponent - kFewBits));
  return {step, 1 / step};
}

template <class T>
ShortRows::ShortRows(View<const T, 2> x, const Frame& frame, ShortGrid grid_, Run run)
    : grid(grid_), quads((x.shape[1] + kQuad - 1) / kQuad) {
  const int64_t n = x.shape[0], d = x.shape[1];
  q = make_large_array<uint8_t>(static_cast<size_t>(n * quads * kQuad));
  y = make_large_array<float>(static_cast<size_t>(n * d));
  norm2.resize(static_cast<size_t>(n));
  off.resize(static_cast<size_t>(n));
  y2.resize(static_cast<size_t>(n));
  for_chunks(n, 1024, run, [&](int64_t, int64_t begin, int64_t end) {
    const auto& kernel = kernels().kmeans;
    std::vector<T> copy(x.rows_contiguous() ? 0 : static_cast<size_t>(d));
    for (int64_t i = begin; i < end; ++i) {
      for (size_t j = 0; j < copy.size(); ++j) copy[j] = x(i, static_cast<int64_t>(j));
      const T* const row = copy.empty() ? &x(i, 0) : copy.data();
      const auto at = static_cast<size_t>(i);
      float* const to = &y[static_cast<size_t>(i * d)];
      if constexpr (std::is_same_v<T, double>)
        y2[at] = kernel.pack_row_f64(row, d, frame.pivot.data(), frame.scale, to);
      else
        y2[at] = kernel.pack_row_f32(row, d, frame.pivot32.data(), static_cast<float>(frame.scale), to);
      off[at] = length_above(
          kernel.short_row(to, d, grid.step, grid.inverse, &q[static_cast<size_t>(i * quads * kQuad)], &norm2[at]), d);
    }
  });
}

ShortCenters::ShortCenters(const PackedCenters& centers, const std::vector<float>& rows, const ShortRows& points)
    : offset(centers.half.size(), kShortNone) {
  const int64_t d = centers.d, quads = points.quads, slots = static_cast<int64_t>(offset.size());
  blocks.assign(static_cast<size_t>(slots * quads * kQuad), 0);
  std::vector<float> y(static_cast<size_t>(d));
  std::vector<uint8_t> q(static_cast<size_t>(quads * kQuad));
  int32_t largest[2] = {};  // over four and eight words, of what adds up in one sum of 16 bits
  for (int64_t c = 0; c < slots; ++c) {
    if (!std::isfinite(centers.half[static_cast<size_t>(c)])) continue;  // no centre stands here
    for (int64_t j = 0; j < d; ++j) y[static_cast<size_t>(j)] = -rows[static_cast<size_t>(c * d + j)];
    int32_t norm2 = 0, sum = 0;
    const float rest = kernels().kmeans.short_row(y.data(), d, points.grid.step, points.grid.inverse, q.data(), &norm2);
    off = std::max(off, length_above(rest, d));
    int32_t even[2][2] = {};  // for four and eight words, of columns 0, 1 and 2, 3 of each
    for (int64_t w = 0; w < quads; ++w) {
      for (int h = 0; h < 2; ++h)
        if (w % (4 << h) == 0) even[h][0] = even[h][1] = 0;
      for (int64_t b = 0; b < kQuad; ++b) {
        const int32_t m = q[static_cast<size_t>(w * kQuad + b)] - kShortMost;
        blocks[static_cast<size_t>(((c / kShortBlock * quads + w) * kShortBlock + c % kShortBlock) * kQuad + b)] =
            static_cast<int8_t>(m);
        sum += m;
        for (int h = 0; h < 2; ++h) {
          int32_t& part = even[h][b / 2];
          part += std::abs(m);
          largest[h] = std::max(largest[h], part);
        }
      }
    }
    offset[static_cast<size_t>(c)] = norm2 + 2 * kShortMost * sum;
  }
  for (int h = 0; h < 2; ++h)
    if (largest[h] * 2 * kShortMost <= INT16_MAX) widen = 4 << h;
}

#define KNOLL_SHORTS(T)                                           \
  template ShortGrid choose_grid(View<const T, 2>, const Frame&); \
  template ShortRows::ShortRows(View<const T, 2>, const Frame&, ShortGrid, Run)
KNOLL_SHORTS(float);
KNOLL_SHORTS(double);

}  // namespace knoll
