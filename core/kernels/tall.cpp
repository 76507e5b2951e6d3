// Products with a long side: fixed chunks of rows, merged in order, by the 4 × 12 blocks of kernels-inl.hpp.
#include "kernels/tall.hpp"

#include <algorithm>
#include <vector>

#include "common/parallel.hpp"
#include "kernels/tall_panels.hpp"

namespace knoll {
namespace {

// out[j] = a(i, first + j) for j < count.
void copy_row(View<const double, 2> a, int64_t i, int64_t first, int64_t count, double* out) {
  if (a.rows_contiguous())
    std::copy_n(a.data + i * a.stride[0] + first, count, out);
  else
    for (int64_t j = 0; j < count; ++j) out[j] = a(i, first + j);
}

}  // namespace

// Blocks of A that fit the second cache level are copied first, with rows 8 numbers longer than the block is wide: so a
// step from row to row is never a multiple of a page, and neighbouring rows do not evict each other.
void tall_inner(View<const double, 2> a, View<const double, 2> b, View<double, 2> out, Run run) {
  constexpr int64_t kCell = 1024;  // rows of a chunk: the unit of summation, whatever the threads
  // 64 × 264 doubles are 132 KB: within the second cache level, while a panel of B, 6 KB, stays in the first.
  constexpr int64_t kHeight = 64, kAcross = 256;  // of a block of A
  const int64_t n = a.shape[0], p = a.shape[1], m = b.shape[1];
  if (p == 0 || m == 0) return;
  const int64_t lp = (p + 7) / 8 * 8, step = std::min(lp, kAcross) + 8;
  const auto panels = tall_widths(m);
  const int64_t lm = panels.back().first + panels.back().width;
  using Sums = std::vector<double>;  // (lp, width) of each panel
  const Sums total = reduce_chunks<Sums>(
      n, kCell,
      [&](int64_t, int64_t begin, int64_t end) {
        Sums sums(static_cast<size_t>(lp * lm), 0.0);
        Sums left(static_cast<size_t>(step * kHeight), 0.0), right(static_cast<size_t>(lm * kHeight), 0.0);
        for (int64_t from = begin; from < end; from += kHeight) {
          const int64_t rows = std::min(kHeight, end - from);
          for (const auto& [first, width] : panels)
            for (int64_t r = 0; r < rows; ++r)
              copy_row(b, from + r, first, std::min(width, m - first), right.data() + first * kHeight + r * width);
          for (int64_t i = 0; i < p; i += kAcross) {
            run.poll();
            const int64_t across = std::min(kAcross, p - i), rounded = std::min(kAcross, lp - i);
            for (int64_t r = 0; r < rows; ++r) copy_row(a, from + r, i, across, left.data() + r * step);
            for (const auto& [first, width] : panels)
              // Read as Aᵀ: steps (1, step). Each entry is one chain over the rows of the chunk.
              kernels().gram.add_product(left.data(), 1, step, rounded, rows, right.data() + first * kHeight, width,
                                         sums.data() + first * lp + i * width);
          }
        }
        return sums;
      },
      [](Sums& sum, Sums&& chunk) {
        if (sum.empty())
          sum = std::move(chunk);
        else
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += chunk[i];
      },
      run);
  for (const auto& [first, width] : panels)
    for (int64_t i = 0; i < p; ++i)
      for (int64_t j = 0; j < std::min(width, m - first); ++j)
        out(i, first + j) = total.empty() ? 0.0 : total[static_cast<size_t>(first * lp + i * width + j)];
}

// Each entry is one chain over the rows of C in order, so the split into kDeep rows at a time changes no bit.
void tall_times(View<const double, 2> a, View<const double, 2> c, View<double, 2> out, Run run) {
  const int64_t n = a.shape[0], p = a.shape[1], m = c.shape[1];
  if (m == 0) return;
  const TallPanels panels(c);
  // Sums of 128 rows × 12 columns are 12 KB beside a panel of C of 24 KB.
  constexpr int64_t kRows = 128;
  for_chunks(n, kRows, run, [&](int64_t, int64_t begin, int64_t end) {
    const int64_t rows = end - begin, step = panels.width();
    std::vector<double> sums(static_cast<size_t>(kRows * step), 0.0);
    std::vector<double> scratch(a.rows_contiguous() ? 0 : static_cast<size_t>(kRows * TallPanels::kDeep));
    for (int64_t from = 0; from < p; from += TallPanels::kDeep) {
      run.poll();
      const int64_t count = std::min(TallPanels::kDeep, p - from);
      const double* left = a.data + begin * a.stride[0] + from;
      int64_t stride = a.stride[0];
      if (!a.rows_contiguous()) {
        for (int64_t i = 0; i < rows; ++i) copy_row(a, begin + i, from, count, scratch.data() + i * TallPanels::kDeep);
        left = scratch.data();
        stride = TallPanels::kDeep;
      }
      panels.add(left, stride, rows, from, count, sums.data(), step);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < m; ++j) out(begin + i, j) = sums[static_cast<size_t>(i * step + j)];
  });
}

}  // namespace knoll
