#include "tree/modes.hpp"

#include <limits>
#include <vector>

#include "tree/condensed_tree.hpp"

namespace knoll {

template <class T>
void tree_modes(View<const double, 1> bars, View<const double, 1> core, View<const T, 2> x,
                View<const int64_t, 1> order, View<double, 1> deaths, Run run) {
  const int64_t n = bars.shape[0];
  const TreeNodes nodes = tree_nodes(bars, run);
  const auto older = [&](int64_t p, int64_t q) {
    if (core(p) != core(q)) return core(p) < core(q);
    for (int64_t j = 0; j < x.shape[1]; ++j)
      if (x(order(p), j) != x(order(q), j)) return x(order(p), j) < x(order(q), j);
    return p < q;
  };
  std::vector<int64_t> eldest(nodes.height.size(), -1);  // children come before their parents
  const auto offer = [&](int64_t p, int32_t parent) {
    if (parent < 0) return;
    int64_t& kept = eldest[static_cast<size_t>(parent)];
    const double height = nodes.height[static_cast<size_t>(parent)];
    if (kept < 0 || older(p, kept)) {
      if (kept >= 0) deaths(kept) = height;
      kept = p;
    } else {
      deaths(p) = height;
    }
  };
  for (int64_t p = 0; p < n; ++p) {
    deaths(p) = std::numeric_limits<double>::infinity();
    offer(p, nodes.leaf_parent[static_cast<size_t>(p)]);
  }
  run.poll();
  for (size_t v = 0; v < nodes.height.size(); ++v) offer(eldest[v], nodes.parent[v]);
}

template void tree_modes(View<const double, 1>, View<const double, 1>, View<const double, 2>, View<const int64_t, 1>,
                         View<double, 1>, Run);
template void tree_modes(View<const double, 1>, View<const double, 1>, View<const float, 2>, View<const int64_t, 1>,
                         View<double, 1>, Run);

}  // namespace knoll
