#include "tree/condensed_tree.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "common/double_double.hpp"
#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kPollEvery = 1 << 16;
constexpr int64_t kGrain = 1 << 14;

}  // namespace

// A stack of open nodes, heights falling from bottom to top; `done` is the last finished subtree, which the next bar
// hangs below a node of its height. Nodes are numbered when they are closed, so children come first.
TreeNodes tree_nodes(View<const double, 1> bars, Run run) {
  struct Open {
    double height;
    int32_t begin, number;  // by opening
  };
  const int64_t n = bars.shape[0];
  std::vector<Open> stack;
  std::vector<int32_t> above, closed;  // by opening: the node above, −1: none; the number by closing
  TreeNodes nodes;
  nodes.leaf_parent.assign(static_cast<size_t>(n), -1);
  for (int64_t i = 1; i <= n; ++i) {
    if (i % kPollEvery == 0) run.poll();
    const double bar = i < n ? bars(i) : kInfinity;
    int32_t done = -1, begin = static_cast<int32_t>(i - 1);  // of the finished subtree; −1: the leaf i − 1
    const auto hang_below = [&](int32_t number) {
      (done < 0 ? nodes.leaf_parent[static_cast<size_t>(i - 1)] : above[static_cast<size_t>(done)]) = number;
    };
    while (!stack.empty() && (stack.back().height < bar || i == n)) {
      const Open top = stack.back();
      stack.pop_back();
      hang_below(top.number);
      closed[static_cast<size_t>(top.number)] = static_cast<int32_t>(nodes.height.size());
      nodes.height.push_back(top.height);
      nodes.begin.push_back(top.begin);
      nodes.end.push_back(static_cast<int32_t>(i));
      nodes.parent.push_back(top.number);  // by opening, for now
      done = top.number, begin = top.begin;
    }
    if (i == n) break;
    if (stack.empty() || stack.back().height > bar) {
      stack.push_back({bar, begin, static_cast<int32_t>(above.size())});
      above.push_back(-1);
      closed.push_back(-1);
    }
    hang_below(stack.back().number);
  }
  for (auto& parent : nodes.parent) {
    const int32_t up = above[static_cast<size_t>(parent)];
    parent = up < 0 ? -1 : closed[static_cast<size_t>(up)];
  }
  for (auto& parent : nodes.leaf_parent)
    if (parent >= 0) parent = closed[static_cast<size_t>(parent)];
  return nodes;
}

std::vector<double> node_weights(const TreeNodes& nodes, View<const double, 1> weights) {
  const size_t count = nodes.height.size();
  std::vector<double> out(count);
  if (weights.empty()) {
    for (size_t v = 0; v < count; ++v) out[v] = static_cast<double>(nodes.end[v] - nodes.begin[v]);
    return out;
  }
  std::vector<Twofold> sums(count);
  for (int64_t i = 0; i < weights.shape[0]; ++i)
    if (nodes.leaf_parent[static_cast<size_t>(i)] >= 0) {
      Twofold& sum = sums[static_cast<size_t>(nodes.leaf_parent[static_cast<size_t>(i)])];
      sum = sum + Twofold{weights(i), 0};
    }
  for (size_t v = 0; v < count; ++v) {
    out[v] = sums[v].high;
    if (nodes.parent[v] < 0) continue;
    Twofold& above = sums[static_cast<size_t>(nodes.parent[v])];
    above = above + sums[v];
  }
  return out;
}

CondensedClusters condense(const TreeNodes& nodes, View<const int64_t, 1> order, View<const double, 1> weights,
                           View<const double, 1> core, double least, View<int64_t, 1> cluster, View<double, 1> leaves,
                           Run run) {
  const int64_t n = cluster.shape[0];
  const auto count = static_cast<int64_t>(nodes.height.size());
  std::vector<double> ordered(weights.empty() ? 0 : static_cast<size_t>(n));
  for (size_t i = 0; i < ordered.size(); ++i) ordered[i] = weights(order(static_cast<int64_t>(i)));
  const std::vector<double> sums =
      weights.empty() ? ordered : node_weights(nodes, vector_view(std::as_const(ordered).data(), n));
  const auto weight = [&](size_t v) {
    return sums.empty() ? static_cast<double>(nodes.end[v] - nodes.begin[v]) : sums[v];
  };
  // A row of weight w is w copies that join at its core distance: one child of that weight where they join below the
  // height of its parent, else w children of weight 1.
  const auto row_weight = [&](int64_t i) {
    if (ordered.empty()) return 1.0;
    const int32_t v = nodes.leaf_parent[static_cast<size_t>(i)];
    const bool joined = v < 0 || core(order(i)) < nodes.height[static_cast<size_t>(v)];
    return joined ? ordered[static_cast<size_t>(i)] : std::min(ordered[static_cast<size_t>(i)], 1.0);
  };
  std::vector<uint8_t> large(static_cast<size_t>(count));  // children of weight ≥ least: 0, 1, or 2 for more
  const auto count_child = [&](int32_t parent, double mass) {
    if (mass < least || parent < 0) return;
    uint8_t& number = large[static_cast<size_t>(parent)];
    number = static_cast<uint8_t>(std::min(number + 1, 2));
  };
  for (size_t v = 0; v < nodes.height.size(); ++v) count_child(nodes.parent[v], weight(v));
  if (least <= 1 || !ordered.empty())
    for (int64_t i = 0; i < n; ++i) count_child(nodes.leaf_parent[static_cast<size_t>(i)], row_weight(i));
  run.poll();

  CondensedClusters found;
  const auto begin_cluster = [&](int32_t parent, double birth, double mass) {
    found.parent.push_back(parent);
    found.birth.push_back(birth);
    found.death.push_back(-1);
    found.weight.push_back(mass);
    return static_cast<int32_t>(found.parent.size()) - 1;
  };
  // The cluster of every node, and the height at which a node that is not large has left it; −1: it has not.
  std::vector<int32_t> of(static_cast<size_t>(count));
  std::vector<double> left(static_cast<size_t>(count), -1.0);
  // What becomes of a child of v: its cluster, and the height at which it leaves it (−1: not there).
  const auto below = [&](int64_t v, double mass) -> std::pair<int32_t, double> {
    const auto at = static_cast<size_t>(v);
    if (left[at] >= 0) return {of[at], left[at]};
    if (mass < least) return {of[at], nodes.height[at]};
    if (large[at] < 2) return {of[at], -1.0};
    found.death[static_cast<size_t>(of[at])] = nodes.height[at];
    return {begin_cluster(of[at], nodes.height[at], mass), -1.0};
  };
  for (int64_t v = count; v-- > 0;) {  // parents first
    const auto at = static_cast<size_t>(v);
    if (nodes.parent[at] < 0)
      of[at] = begin_cluster(-1, kInfinity, weight(at));
    else
      std::tie(of[at], left[at]) = below(nodes.parent[at], weight(at));
    if ((count - v) % kPollEvery == 0) run.poll();
  }
  if (count == 0 && n == 1) begin_cluster(-1, kInfinity, row_weight(0));
  // Rows that begin clusters of their own do so in the order of the tree; all others depend on their parents alone.
  const auto place = [&](int64_t i) {
    const int32_t v = nodes.leaf_parent[static_cast<size_t>(i)];
    const int64_t row = order(i);
    const auto [its, height] = v >= 0 ? below(v, row_weight(i)) : std::pair<int32_t, double>{0, -1.0};
    cluster(row) = its;
    leaves(row) = height >= 0 ? height : core(row);  // the copies of a heavy row part at its core distance
  };
  if (least <= 1 || !ordered.empty())
    for (int64_t i = 0; i < n; ++i) place(i);
  else
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) place(i);
    });
  return found;
}

}  // namespace knoll
