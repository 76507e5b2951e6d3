#include "kernels/tall_sparse.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "common/parallel.hpp"
#include "kernels/tall_panels.hpp"

namespace knoll {
namespace {

// Rows are independent, so this affects the balance of threads alone.
constexpr int64_t kRows = 512;  // of a chunk

// Rows of B side by side, the last panel filled up with zeros.
struct Block {
  int64_t rows, step;
  std::vector<double> data;

  Block(int64_t n, int64_t width) : rows(n), step(width), data(static_cast<size_t>(n * width), 0.0) {}
  double* row(int64_t i) { return data.data() + i * step; }
  const double* row(int64_t i) const { return data.data() + i * step; }
};

int64_t padded(int64_t width) {
  const auto cuts = tall_widths(width);
  return cuts.empty() ? 0 : cuts.back().first + cuts.back().width;
}

// A copy in rows of a multiple of 4 columns, so that a row's panels are contiguous.
Block packed(View<const double, 2> b, Run run) {
  Block block(b.shape[0], padded(b.shape[1]));
  for_chunks(b.shape[0], kRows, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < b.shape[1]; ++j) block.row(i)[j] = b(i, j);
  });
  return block;
}

// sums[j] = Σ_e value[e]·b(column[e], first + j), j < W: entries in order, one accumulator per column, so the bits do
// not depend on the panel's width.
template <int W>
void row_sums(const Links& m, int64_t i, const Block& b, int64_t first, double* sums) {
  double acc[W] = {};
  for (int64_t e = m.begin(i); e < m.end(i); ++e) {
    const double v = m.data[e];
    const double* other = b.row(m.indices[e]) + first;
    // W independent sums in registers; a product and a sum, since this file is compiled for every machine alike.
    for (int j = 0; j < W; ++j) acc[j] += v * other[j];
  }
  for (int j = 0; j < W; ++j) sums[j] = acc[j];
}

void row_times(const Links& m, int64_t i, const Block& b, const std::vector<TallWidth>& cuts, double* sums) {
  for (const auto& [first, width] : cuts) {
    if (width == 12)
      row_sums<12>(m, i, b, first, sums + first);
    else if (width == 8)
      row_sums<8>(m, i, b, first, sums + first);
    else
      row_sums<4>(m, i, b, first, sums + first);
  }
}

}  // namespace

void sparse_times(const Links& m, View<const double, 2> b, View<double, 2> out, Run run) {
  const Block block = packed(b, run);
  const auto cuts = tall_widths(b.shape[1]);
  for_chunks(m.rows, kRows, run, [&](int64_t, int64_t begin, int64_t end) {
    run.poll();
    std::vector<double> sums(static_cast<size_t>(block.step));
    for (int64_t i = begin; i < end; ++i) {
      row_times(m, i, block, cuts, sums.data());
      for (int64_t j = 0; j < b.shape[1]; ++j) out(i, j) = sums[static_cast<size_t>(j)];
    }
  });
}

// With x(M) = (M − cI)/e, c the middle and e half the length of [−1, cut], the three-term recurrence
// T_{j+1} = 2 x(M) T_j − T_{j−1} acts on the block, and on the number T_j(x(1)) ≥ 1 beside it. Their quotient is the
// answer, so both are multiplied by 2^−100 when the number exceeds 2^100: no degree overflows, and a power of two
// rounds nothing.
void sparse_chebyshev(const Links& m, double cut, int64_t degree, View<const double, 2> b, View<double, 2> out,
                      Run run) {
  const double middle = (cut - 1) / 2, half = (cut + 1) / 2, one = (1 - middle) / half;
  const auto cuts = tall_widths(b.shape[1]);
  Block before(b.shape[0], padded(b.shape[1])), now = packed(b, run);
  double number_before = 0, number = 1;
  for (int64_t power = 0; power < degree; ++power) {
    const double factor = (power == 0 ? 1 : 2) / half, own = -factor * middle;
    double next = (power == 0 ? 1 : 2) * one * number - number_before, scale = 1;
    // docs/numerics/spectral.md, L5.
    if (next > 0x1p100) scale = 0x1p-100;
    for_chunks(m.rows, kRows, run, [&](int64_t, int64_t begin, int64_t end) {
      run.poll();
      std::vector<double> sums(static_cast<size_t>(now.step));
      for (int64_t i = begin; i < end; ++i) {
        row_times(m, i, now, cuts, sums.data());
        double* last = before.row(i);
        const double* mine = now.row(i);
        for (int64_t j = 0; j < now.step; ++j)
          last[j] = scale * (factor * sums[static_cast<size_t>(j)] + own * mine[j] - last[j]);
      }
    });
    std::swap(before, now);
    number_before = number, number = next;
    if (scale != 1) {
      number *= scale, number_before *= scale;
      // T_{j−1} keeps step with T_j: the recurrence is linear.
      for (double& value : before.data) value *= scale;
    }
  }
  for_chunks(m.rows, kRows, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < b.shape[1]; ++j) out(i, j) = now.row(i)[j] / number;
  });
}

}  // namespace knoll
