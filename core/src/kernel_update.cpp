#include "knoll/kernel_update.hpp"

#include <algorithm>
#include <vector>

#include "knoll/parallel.hpp"

namespace knoll {

void kernel_update(const KernelPoints& points, const KernelRule& rule, View<const int64_t, 1> rows,
                   View<const int32_t, 1> old, View<const int32_t, 1> fresh, View<const double, 1> weights,
                   View<double, 2> g, Run run) {
  const int64_t m = rows.shape[0], d = points.d;
  if (m == 0) return;
  // The columns of g that are touched, each in a slot of its own, and the listed points side by side.
  std::vector<int32_t> slot(static_cast<size_t>(g.shape[1]), -1), column;
  const auto slot_of = [&](int32_t c) {
    if (c < 0) return int32_t{-1};
    if (slot[static_cast<size_t>(c)] < 0) {
      slot[static_cast<size_t>(c)] = static_cast<int32_t>(column.size());
      column.push_back(c);
    }
    return slot[static_cast<size_t>(c)];
  };
  std::vector<int32_t> from(static_cast<size_t>(m)), to(static_cast<size_t>(m));
  std::vector<double> places(static_cast<size_t>(m * d)), w(static_cast<size_t>(m));
  for (int64_t t = 0; t < m; ++t) {
    const auto at = static_cast<size_t>(t);
    from[at] = slot_of(old(t));
    to[at] = slot_of(fresh(t));
    w[at] = weights.empty() ? 1.0 : weights(rows(t));
    const double* const place = points.place(points.positions[static_cast<size_t>(rows(t))]);
    for (int64_t j = 0; j < d; ++j) places[static_cast<size_t>(t * d + j)] = place[j * kPoints];
  }
  const auto slots = static_cast<int64_t>(column.size());

  for_chunks(points.leaves, 1, run, [&](int64_t, int64_t leaf, int64_t) {
    alignas(64) double v[kPoints * kPoints];
    std::vector<double> sums(static_cast<size_t>(slots * kPoints), 0.0);
    const auto move = [&](auto&& body) {  // body(g's number, the number here)
      for (int64_t l = 0; l < points.count(leaf); ++l) {
        const int64_t row = points.rows[static_cast<size_t>(leaf * kPoints + l)];
        for (int64_t s = 0; s < slots; ++s)
          body(g(row, column[static_cast<size_t>(s)]), sums[static_cast<size_t>(s * kPoints + l)]);
      }
    };
    move([](double& there, double& here) { here = there; });
    for (int64_t t = 0; t < m; t += kPoints) {
      run.poll();
      const int64_t count = std::min<int64_t>(kPoints, m - t);
      kernels().gram.values(&rule, points.tile(leaf), places.data() + t * d, d, 1, count, d, v);
      kernels().gram.move_columns(v, count, w.data() + t, from.data() + t, to.data() + t, sums.data());
    }
    move([](double& there, double& here) { there = here; });
  });
}

}  // namespace knoll
