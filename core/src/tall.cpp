#include "knoll/tall.hpp"

#include <algorithm>
#include <vector>

#include "knoll/parallel.hpp"
#include "knoll/tall_panels.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

void copy_row(View<const double, 2> a, int64_t i, double* out) {
  if (a.rows_contiguous())
    std::copy_n(a.data + i * a.stride[0], a.shape[1], out);
  else
    for (int64_t j = 0; j < a.shape[1]; ++j) out[j] = a(i, j);
}

}  // namespace

// Tiles of rows are copied side by side first: they are read in the order of memory, and a step from row to row is
// never a multiple of a page.
void tall_inner(View<const double, 2> a, View<const double, 2> b, View<double, 2> out, Run run) {
  constexpr int64_t kHeight = 64;
  const int64_t n = a.shape[0], p = a.shape[1], m = b.shape[1];
  if (p == 0 || m == 0) return;
  const int64_t lp = (p + 7) / 8 * 8, step = lp % 64 == 0 ? lp + 8 : lp;
  const auto panels = tall_widths(m);
  const int64_t lm = panels.back().first + panels.back().width;
  using Sums = std::vector<double>;  // (lp, width) of each panel
  const Sums total = reduce_chunks<Sums>(
      n, kGrain,
      [&](int64_t, int64_t begin, int64_t end) {
        Sums sums(static_cast<size_t>(lp * lm), 0.0);
        Sums left(static_cast<size_t>(step * kHeight), 0.0), right(static_cast<size_t>(lm * kHeight), 0.0);
        for (int64_t from = begin; from < end; from += kHeight) {
          run.poll();
          const int64_t rows = std::min(kHeight, end - from);
          for (int64_t r = 0; r < rows; ++r) copy_row(a, from + r, left.data() + r * step);
          for (const auto& [first, width] : panels) {
            double* const panel = right.data() + first * kHeight;  // (rows, width)
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t j = 0; j < std::min(width, m - first); ++j) panel[r * width + j] = b(from + r, first + j);
            kernels().gram.add_product(left.data(), 1, step, lp, rows, panel, width, sums.data() + first * lp);
          }
        }
        return sums;
      },
      [](Sums& sum, Sums&& part) {
        if (sum.empty())
          sum = std::move(part);
        else
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      },
      run);
  for (const auto& [first, width] : panels)
    for (int64_t i = 0; i < p; ++i)
      for (int64_t j = 0; j < std::min(width, m - first); ++j)
        out(i, first + j) = total.empty() ? 0.0 : total[static_cast<size_t>(first * lp + i * width + j)];
}

void tall_times(View<const double, 2> a, View<const double, 2> c, View<double, 2> out, Run run) {
  const int64_t n = a.shape[0], p = a.shape[1], m = c.shape[1];
  if (m == 0) return;
  const TallPanels panels(c);
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
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t k = 0; k < count; ++k)
            scratch[static_cast<size_t>(i * TallPanels::kDeep + k)] = a(begin + i, from + k);
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
