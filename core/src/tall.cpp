#include "knoll/tall.hpp"

#include <algorithm>
#include <vector>

#include "knoll/parallel.hpp"
#include "knoll/tall_panels.hpp"
#include "knoll/tile.hpp"

namespace knoll {

void tall_inner(View<const double, 2> a, View<const double, 2> b, View<double, 2> out, Run run) {
  const int64_t n = a.shape[0], p = a.shape[1], m = b.shape[1], lp = padded(p), lm = padded(m);
  constexpr int64_t kHeight = 64;
  if (p == 0 || m == 0) return;
  const std::vector<double> zeros(static_cast<size_t>(std::max(lp, lm)), 0.0);
  using Sums = std::vector<double>;  // (lp, lm)
  const Sums total = reduce_chunks<Sums>(
      n, kGrain,
      [&](int64_t, int64_t begin, int64_t end) {
        Sums sums(static_cast<size_t>(lp * lm), 0.0), ignored(static_cast<size_t>(std::max(lp, lm)));
        Sums left(static_cast<size_t>(lp * kHeight)), right(static_cast<size_t>(lm * kHeight));
        Sums scratch(static_cast<size_t>(std::max(p, m) * kHeight));
        for (int64_t from = begin; from < end; from += kHeight) {
          run.poll();
          const int64_t rows = std::min(kHeight, end - from);
          center_rows(a.rows(from, from + rows), zeros.data(), nullptr, left.data(), nullptr, kHeight, ignored.data(),
                      scratch.data());
          center_rows(b.rows(from, from + rows), zeros.data(), nullptr, right.data(), nullptr, kHeight, ignored.data(),
                      scratch.data());
          kernels().tall_product(left.data(), lp, right.data(), lm, kHeight, rows, sums.data(), lm, false, nullptr, 0);
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
  for (int64_t i = 0; i < p; ++i)
    for (int64_t j = 0; j < m; ++j) out(i, j) = total.empty() ? 0.0 : total[static_cast<size_t>(i * lm + j)];
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
