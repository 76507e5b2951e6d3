// Rows that change cluster move their column of K: n values each, where a new G takes n²/2 for all.
#include "kernels/update.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/parallel.hpp"

namespace knoll {

void kernel_update(const KernelPoints& points, const KernelRule& rule, View<const int64_t, 1> rows,
                   View<const int32_t, 1> old, View<const int32_t, 1> fresh, View<const double, 1> weights,
                   View<double, 2> g, Run run) {
  const int64_t m = rows.shape[0], d = points.d;
  if (m == 0) return;
  // The columns of g that change, numbered as `slot`s, and the listed points in the order of the tree: batches of 32 of
  // them then have small boxes, which `apart` can rule out.
  std::vector<int32_t> slot(static_cast<size_t>(g.shape[1]), -1), column;
  // Only the columns that change are copied for a leaf: a few of k.
  const auto slot_of = [&](int32_t c) {
    if (c < 0) return int32_t{-1};
    if (slot[static_cast<size_t>(c)] < 0) {
      slot[static_cast<size_t>(c)] = static_cast<int32_t>(column.size());
      column.push_back(c);
    }
    return slot[static_cast<size_t>(c)];
  };
  std::vector<int64_t> order(static_cast<size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  const auto position = [&](int64_t t) { return points.positions[static_cast<size_t>(rows(t))]; };
  // In the order of the tree, equal positions in the list's order: an entry of G sees its terms in one order.
  std::stable_sort(order.begin(), order.end(), [&](int64_t s, int64_t t) { return position(s) < position(t); });
  const int64_t batches = chunk_count(m, kPoints);
  std::vector<int32_t> from(static_cast<size_t>(m)), to(static_cast<size_t>(m));
  std::vector<double> coords(static_cast<size_t>(m * d)), w(static_cast<size_t>(m));
  std::vector<double> boxes(static_cast<size_t>(batches * 2 * d));  // (batches, 2, d): low, high
  for (int64_t t = 0; t < m; ++t) {
    const auto at = static_cast<size_t>(t);
    const int64_t listed = order[at];
    from[at] = slot_of(old(listed));
    to[at] = slot_of(fresh(listed));
    w[at] = weights.empty() ? 1.0 : weights(rows(listed));
    const double* const point = points.coords(position(listed));
    double* const box = boxes.data() + t / kPoints * 2 * d;
    for (int64_t j = 0; j < d; ++j) {
      const double value = point[j * kPoints];
      coords[static_cast<size_t>(t * d + j)] = value;
      // The first point of a batch sets the box.
      box[j] = t % kPoints == 0 ? value : std::min(box[j], value);
      box[d + j] = t % kPoints == 0 ? value : std::max(box[d + j], value);
    }
  }
  const auto slots = static_cast<int64_t>(column.size());

  // A leaf's rows of g belong to one thread, and the listed points come in one order: the bits depend on no schedule.
  for_chunks(points.leaves, 1, run, [&](int64_t, int64_t leaf, int64_t) {
    alignas(64) double v[kPoints * kPoints];
    // (slots, kPoints): the leaf's rows of g, transposed so that a cluster's sums are in lanes.
    std::vector<double> sums(static_cast<size_t>(slots * kPoints), 0.0);
    const auto move = [&](auto&& body) {  // body(entry of g, its copy in `sums`)
      for (int64_t l = 0; l < points.count(leaf); ++l) {
        const int64_t row = points.rows[static_cast<size_t>(leaf * kPoints + l)];
        for (int64_t s = 0; s < slots; ++s)
          body(g(row, column[static_cast<size_t>(s)]), sums[static_cast<size_t>(s * kPoints + l)]);
      }
    };
    move([](double& there, double& here) { here = there; });
    const double* const box = points.box(points.leaf_node[static_cast<size_t>(leaf)]);
    for (int64_t t = 0; t < m; t += kPoints) {
      run.poll();
      // κ = 0 for all of them: adding w·0 would change no bit (docs/numerics/kernels.md, K2).
      if (apart(box, boxes.data() + t / kPoints * 2 * d, d, rule)) continue;
      const int64_t count = std::min<int64_t>(kPoints, m - t);
      kernels().gram.values(&rule, points.tile(leaf), coords.data() + t * d, d, 1, count, d, v);
      kernels().gram.move_columns(v, count, w.data() + t, from.data() + t, to.data() + t, sums.data());
    }
    move([](double& there, double& here) { there = here; });
  });
}

}  // namespace knoll
