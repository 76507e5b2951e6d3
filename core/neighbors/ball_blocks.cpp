#include <cmath>
#include <numeric>

#include "common/parallel.hpp"
#include "neighbors/ball_blocks.hpp"

namespace knoll {

// A group's last block is filled with points at infinity, which no ball contains.
// ∞ − y is ∞, its square too, and ∞ ≤ bound is false: the lanes need no mask.
void Blocks::pack(const double* x, const std::vector<int64_t>& order, const std::vector<int64_t>& ends) {
  size = 0;
  group_end.clear();
  int64_t from = 0;
  for (const int64_t end : ends) {
    size += (end - from + kBlock - 1) / kBlock;
    group_end.push_back(size);
    from = end;
  }
  coords.assign(static_cast<size_t>(size * d * kBlock), std::numeric_limits<double>::infinity());
  row.assign(static_cast<size_t>(size * kBlock), -1);
  int64_t block = 0, at = 0;
  for (const int64_t end : ends) {
    for (; at < end; ++block)
      for (int64_t lane = 0; lane < kBlock && at < end; ++lane, ++at) {
        const int64_t i = order[static_cast<size_t>(at)];
        row[static_cast<size_t>(block * kBlock + lane)] = i;
        for (int64_t j = 0; j < d; ++j) coords[static_cast<size_t>((block * d + j) * kBlock + lane)] = x[i * d + j];
      }
  }
}

// Cut at the median of the widest column; a leaf is at most `leaf` points, or any number of equal ones.
// A box is that of the points themselves, not of the cuts: gaps are as large as they can be.
BlockTree::BlockTree(const double* x, int64_t n, int64_t d, int64_t leaf, Run run) {
  std::vector<int64_t> order(static_cast<size_t>(n)), ends;
  std::iota(order.begin(), order.end(), 0);
  blocks_.d = d;

  // Depth first, left child first, so that leaves (groups of blocks) come in the order of their rows. Nodes hold ranges
  // of groups until the blocks are packed.
  struct Task {
    int64_t begin, end;
    int32_t node;
  };
  nodes_.push_back({});
  std::vector<Task> tasks{{0, n, 0}};
  while (!tasks.empty()) {
    run.poll();
    const Task task = tasks.back();
    tasks.pop_back();
    boxes_.resize(nodes_.size() * static_cast<size_t>(2 * d));
    double* const box = boxes_.data() + static_cast<int64_t>(task.node) * 2 * d;
    int64_t widest = 0;
    double width = -1;
    for (int64_t j = 0; j < d; ++j) {
      double low = HUGE_VAL, high = -HUGE_VAL;
      for (int64_t i = task.begin; i < task.end; ++i) {
        const double v = x[order[static_cast<size_t>(i)] * d + j];
        low = std::min(low, v);
        high = std::max(high, v);
      }
      box[2 * j] = low;
      box[2 * j + 1] = high;
      // The first of equally wide columns: the tree is a function of the points.
      if (high - low > width) width = high - low, widest = j;
    }
    Node& node = nodes_[static_cast<size_t>(task.node)];
    if (task.end - task.begin <= leaf || !(width > 0)) {  // equal points are one leaf, however many
      node = {static_cast<int64_t>(ends.size()), static_cast<int64_t>(ends.size()) + 1, -1};
      ends.push_back(task.end);
      continue;
    }
    // A multiple of `leaf` on the left, ties by row number: a total order, so both sides are the same sets whatever
    // std::nth_element does.
    // All leaves but the last of a branch are full, so blocks have few free lanes.
    const int64_t middle = task.begin + (task.end - task.begin + 2 * leaf - 1) / (2 * leaf) * leaf;
    const auto before = [&](int64_t a, int64_t b) {
      const double u = x[a * d + widest], v = x[b * d + widest];
      return u < v || (u == v && a < b);
    };
    const auto at = [&](int64_t i) { return order.begin() + i; };
    std::nth_element(at(task.begin), at(middle), at(task.end), before);
    const auto child = static_cast<int32_t>(nodes_.size());
    node.child = child;
    nodes_.push_back({});
    nodes_.push_back({});
    tasks.push_back({middle, task.end, child + 1});
    tasks.push_back({task.begin, middle, child});
  }
  // Children come after their parents, so going backwards the ranges of both are known when their parent is reached.
  for (auto at = static_cast<int64_t>(nodes_.size()) - 1; at >= 0; --at) {
    Node& node = nodes_[static_cast<size_t>(at)];
    if (node.child < 0) continue;
    node.begin = nodes_[static_cast<size_t>(node.child)].begin;
    node.end = nodes_[static_cast<size_t>(node.child) + 1].end;
  }
  // From ranges of groups to ranges of blocks.
  blocks_.pack(x, order, ends);
  const auto block = [&](int64_t group) {
    return group == 0 ? int64_t{0} : blocks_.group_end[static_cast<size_t>(group - 1)];
  };
  for (Node& node : nodes_) node = {block(node.begin), block(node.end), node.child};
}

}  // namespace knoll
