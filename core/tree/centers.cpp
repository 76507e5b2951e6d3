#include "tree/centers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tree/condensed_tree.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kPollEvery = 1 << 16;

// The best path below a node: what it saves, and the position where it ends.
struct Path {
  double saved = -1;
  int64_t end = -1;
};

}  // namespace

template <class T>
void tree_centers(View<const double, 1> bars, View<const double, 1> weights, View<const T, 2> x,
                  View<const int64_t, 1> order, double power, View<int64_t, 1> ranked, View<int64_t, 1> above,
                  View<double, 1> saved, Run run) {
  const int64_t n = bars.shape[0];
  const TreeNodes nodes = tree_nodes(bars, run);
  const std::vector<double> mass = node_weights(nodes, weights);
  const auto before = [&](int64_t p, int64_t q) {
    for (int64_t j = 0; j < x.shape[1]; ++j)
      if (x(order(p), j) != x(order(q), j)) return x(order(p), j) < x(order(q), j);
    return p < q;
  };
  const bool largest_distance = power == kInfinity;
  const auto weight = [&](int64_t p) { return weights.empty() ? 1.0 : weights(p); };
  const auto cost = [&](double height) {
    return power == 1 ? height : power == 2 ? height * height : std::pow(height, power);
  };

  // Children come first, so every node has its best path when it is offered to its parent. For the largest distance
  // (the limit of large powers) the heavier child goes on.
  std::vector<Path> best(nodes.height.size());
  std::vector<int32_t> left_at(static_cast<size_t>(n), -1);  // the node at which a chain leaves another one
  std::vector<double> tops(static_cast<size_t>(n));          // the weight at the top of a chain
  const auto end_chain = [&](const Path& path, size_t parent) {
    left_at[static_cast<size_t>(path.end)] = static_cast<int32_t>(parent);
    saved(path.end) = largest_distance ? nodes.height[parent] : path.saved;
    if (largest_distance) tops[static_cast<size_t>(path.end)] = path.saved;
  };
  const auto offer = [&](const Path& path, size_t parent) {
    Path& kept = best[parent];
    if (kept.end < 0 || path.saved > kept.saved || (path.saved == kept.saved && before(path.end, kept.end))) {
      if (kept.end >= 0) end_chain(kept, parent);
      kept = path;
    } else {
      end_chain(path, parent);
    }
  };
  for (int64_t p = 0; p < n; ++p) {
    if (p % kPollEvery == 0) run.poll();
    const int32_t up = nodes.leaf_parent[static_cast<size_t>(p)];
    if (up < 0) continue;
    const double h = cost(nodes.height[static_cast<size_t>(up)]);
    offer({largest_distance ? weight(p) : weight(p) * h, p}, static_cast<size_t>(up));
  }
  for (size_t v = 0; v < nodes.height.size(); ++v) {
    if (v % kPollEvery == 0) run.poll();
    const int32_t up = nodes.parent[v];
    if (up < 0) continue;
    const double gain = mass[v] * (cost(nodes.height[static_cast<size_t>(up)]) - cost(nodes.height[v]));
    offer({largest_distance ? mass[v] : gain + best[v].saved, best[v].end}, static_cast<size_t>(up));
  }
  const int64_t first = nodes.height.empty() ? 0 : best.back().end;
  for (int64_t p = 0; p < n; ++p) {
    const int32_t at = left_at[static_cast<size_t>(p)];
    above(p) = at < 0 ? -1 : best[static_cast<size_t>(at)].end;
  }
  if (n > 0) saved(first) = kInfinity;

  std::vector<int64_t> sorted(static_cast<size_t>(n));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&](int64_t p, int64_t q) {
    if (saved(p) != saved(q)) return saved(p) > saved(q);
    const double here = tops[static_cast<size_t>(p)], there = tops[static_cast<size_t>(q)];
    return here != there ? here > there : before(p, q);
  });
  for (int64_t i = 0; i < n; ++i) ranked(i) = sorted[static_cast<size_t>(i)];
}

template void tree_centers(View<const double, 1>, View<const double, 1>, View<const double, 2>, View<const int64_t, 1>,
                           double, View<int64_t, 1>, View<int64_t, 1>, View<double, 1>, Run);
template void tree_centers(View<const double, 1>, View<const double, 1>, View<const float, 2>, View<const int64_t, 1>,
                           double, View<int64_t, 1>, View<int64_t, 1>, View<double, 1>, Run);

}  // namespace knoll
