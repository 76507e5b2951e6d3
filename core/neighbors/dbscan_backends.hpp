// What the backends of DBSCAN share: the weights, and the numbers of the clusters.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/tile.hpp"
#include "common/union_find.hpp"
#include "neighbors/dbscan.hpp"

namespace knoll {

// Sums of weights in plain float64, and how far they may be from the exact ones.
struct Weights {
  View<const double, 1> of_row;  // empty: every row weighs 1
  bool nonnegative = true;       // then a sum may stop once it is large enough
  double slack = 0;              // |float64 sum in any order − exact sum| ≤ slack; 0: sums are exact

  Weights() = default;
  explicit Weights(View<const double, 1> weights);
  bool present() const { return !of_row.empty(); }
};

// Counters that threads add to once per chunk.
struct Tally {
  std::atomic<int64_t> distances{0}, rechecks{0};
};

// Numbers the components 0 … c−1 by their lowest row and returns c. node(i) and row(i) are the union-find node and the
// data row of the i-th core point; number[root] becomes the component's number.
// Numbers follow the lowest row and not the lowest node: nodes are positions in an order that the backend chose.
template <class I, class NodeOf, class RowOf>
int64_t number_components(UnionFind<I>& sets, int64_t cores, NodeOf&& node, RowOf&& row, std::vector<int32_t>& number) {
  constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
  number.assign(static_cast<size_t>(sets.size()), kNone);
  std::vector<I> roots;
  for (int64_t i = 0; i < cores; ++i) {
    const I root = sets.find(node(i));
    int32_t& lowest = number[static_cast<size_t>(root)];
    if (lowest == kNone) roots.push_back(root);
    lowest = std::min(lowest, row(i));
  }
  std::sort(roots.begin(), roots.end(),
            [&](I a, I b) { return number[static_cast<size_t>(a)] < number[static_cast<size_t>(b)]; });
  for (size_t c = 0; c < roots.size(); ++c) number[static_cast<size_t>(roots[c])] = static_cast<int32_t>(c);
  return static_cast<int64_t>(roots.size());
}

template <class T>
DbscanReport dbscan_tree(View<const T, 2> x, double eps, double min_samples, View<const double, 1> weights,
                         const Metric& metric, Border border, View<int64_t, 1> labels, View<uint8_t, 1> core, Run run);

// As above in at most five dimensions, Euclidean and without negative weights; false: no grid fits, see Grid::ok.
template <class T>
bool dbscan_grid(View<const T, 2> x, double eps, double min_samples, const Weights& weights, Border border,
                 View<int64_t, 1> labels, View<uint8_t, 1> core, DbscanReport& report, Run run,
                 GridWorkspace workspace);

// As above in high dimension, Euclidean, over the float32 filter of all pairs.
template <class T>
DbscanReport dbscan_tiles(View<const T, 2> x, double eps, double min_samples, View<const double, 1> weights,
                          Border border, View<int64_t, 1> labels, View<uint8_t, 1> core, Run run);

// As above under Gower's distance.
DbscanReport dbscan_gower(View<const double, 2> x, double eps, double min_samples, View<const double, 1> weights,
                          const Metric& metric, Border border, View<int64_t, 1> labels, View<uint8_t, 1> core, Run run);

// Whether filtered tiles of all pairs find ε-neighbours faster than a tree (docs/decisions/0011-index.md).
template <class T>
bool prefer_tiles(View<const T, 2> x, const Metric& metric, double eps, Run run);

}  // namespace knoll
