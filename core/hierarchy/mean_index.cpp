// The tree over the means: its construction, and the walks of searches.
#include "hierarchy/mean_index.hpp"

#include <bit>
#include <numeric>
#include <utility>

#include "common/parallel.hpp"
#include "neighbors/bits.hpp"
#include "neighbors/kd_tree.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kLevels = std::bit_width(static_cast<unsigned>(kBoxes)) - 1;  // of the kd-tree in one node

// The bound of H2 (docs/numerics/hierarchy.md): the quotient is computed for those alone whose square is below.
double filter_limit(double limit) { return limit * (1 + 8 * std::numeric_limits<double>::epsilon()); }

// The nodes `levels` below one, and leaves above them.
std::vector<int32_t> descendants(const KdTree& tree, int32_t root, int levels) {
  std::vector<int32_t> found{root}, next;
  for (; levels > 0; --levels, std::swap(found, next)) {
    next.clear();
    for (const int32_t node : found) {
      const int32_t child = tree.nodes()[static_cast<size_t>(node)].child;
      if (child < 0)
        next.push_back(node);
      else
        next.insert(next.end(), {child, child + 1});
    }
  }
  return found;
}

}  // namespace

void MeanIndex::put(int32_t position, int32_t slot) {
  const int64_t d = clusters_.d;
  double* const to = tiles_.data() + position / kPoints * d * kPoints + position % kPoints;
  const auto at = static_cast<size_t>(position);
  for (int64_t j = 0; j < d; ++j) to[j * kPoints] = slot < 0 ? kInfinity : clusters_.mean_of(slot)[j];
  inverse_[at] = slot < 0 ? 0.0 : clusters_.inverse[static_cast<size_t>(slot)];
  slots_[at] = slot;
  if (std::exchange(leaf_moved_[at / kPoints], uint8_t{1}) == 0) moved_.push_back(position / kPoints);
}

void MeanIndex::unite(int32_t kept, int32_t gone) {
  put(position_[static_cast<size_t>(kept)], kept);
  put(position_[static_cast<size_t>(gone)], -1);
}

void MeanIndex::refresh(int64_t alive, Run run) {
  if (5 * alive < 4 * built_)
    build(run);
  else
    fit(run);
}

void MeanIndex::arrange(std::vector<int32_t>& slots) const {
  std::sort(slots.begin(), slots.end(), [&](int32_t a, int32_t b) {
    return position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)];
  });
}

void MeanIndex::build(Run run) {
  std::vector<int32_t> slots;
  for (int64_t slot = 0; slot < clusters_.n; ++slot)
    if (clusters_.id[static_cast<size_t>(slot)] >= 0) slots.push_back(static_cast<int32_t>(slot));
  const int64_t d = clusters_.d;
  built_ = static_cast<int64_t>(slots.size());
  tiles_.clear();
  AlignedVector<double> means(static_cast<size_t>(built_ * d));
  for (int64_t i = 0; i < built_; ++i)
    std::copy_n(clusters_.mean_of(slots[static_cast<size_t>(i)]), d, means.data() + i * d);
  const KdTree tree(View<const double, 2>(matrix_view(means.data(), built_, d)), Metric(MetricName::euclidean, 2, d),
                    run);
  const auto leaves = static_cast<size_t>(tree.leaves());
  tiles_.assign(tree.tile(0), tree.tile(tree.leaves()));
  inverse_.assign(leaves * kPoints, 0.0);
  slots_.assign(leaves * kPoints, -1);
  position_.resize(static_cast<size_t>(clusters_.n));
  for (int64_t p = 0; p < built_; ++p) {
    const int32_t slot = slots[static_cast<size_t>(tree.row(p))];
    slots_[static_cast<size_t>(p)] = slot;
    inverse_[static_cast<size_t>(p)] = clusters_.inverse[static_cast<size_t>(slot)];
    position_[static_cast<size_t>(slot)] = static_cast<int32_t>(p);
  }
  make_nodes(tree);
  leaf_moved_.assign(leaves, 1);
  moved_.resize(leaves);
  std::iota(moved_.begin(), moved_.end(), 0);
  fit(run);
}

// A node for kLevels levels of the kd-tree, but the root, which has what is left: nodes below it are full.
void MeanIndex::make_nodes(const KdTree& tree) {
  const int depth = static_cast<int>(std::bit_width(static_cast<uint64_t>(tree.leaves() - 1)));
  int levels = depth == 0 ? 0 : (depth - 1) % kLevels + 1;
  leaf_lane_.resize(static_cast<size_t>(tree.leaves()));
  child_.clear();
  parent_lane_.assign(1, -1);
  std::vector<int32_t> roots{0};  // the node of the kd-tree that each stands for
  for (size_t node = 0; node < roots.size(); ++node, levels = kLevels) {
    child_.resize((node + 1) * kBoxes, 0);
    auto lane = static_cast<int32_t>(node * kBoxes);
    for (const int32_t below : descendants(tree, roots[node], levels)) {
      const auto& [begin, end, child, parent] = tree.nodes()[static_cast<size_t>(below)];
      if (child < 0) {
        leaf_lane_[static_cast<size_t>(begin)] = lane;
        child_[static_cast<size_t>(lane++)] = ~begin;
      } else {
        parent_lane_.push_back(lane);
        child_[static_cast<size_t>(lane++)] = static_cast<int32_t>(roots.size());
        roots.push_back(below);
      }
    }
  }
  boxes_.resize(roots.size() * static_cast<size_t>(clusters_.d) * 2 * kBoxes);
  for (size_t at = 0; at < boxes_.size(); ++at) boxes_[at] = at / kBoxes % 2 == 0 ? kInfinity : -kInfinity;
  most_.assign(roots.size() * kBoxes, 0.0);
  node_moved_.assign(roots.size(), 0);
}

// The boxes of leaves that have changed, and of the nodes above them, level by level.
void MeanIndex::fit(Run run) {
  for_chunks(static_cast<int64_t>(moved_.size()), 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fit_leaf(moved_[static_cast<size_t>(i)]);
  });
  std::vector<int32_t> level, above;
  const auto move = [&](int32_t lane) {
    const int32_t node = lane / kBoxes;
    if (std::exchange(node_moved_[static_cast<size_t>(node)], uint8_t{1}) == 0) above.push_back(node);
  };
  for (const int32_t leaf : moved_) {
    leaf_moved_[static_cast<size_t>(leaf)] = 0;
    move(leaf_lane_[static_cast<size_t>(leaf)]);
  }
  moved_.clear();
  while (!above.empty()) {
    std::swap(level, above);
    above.clear();
    for (const int32_t node : level) {
      node_moved_[static_cast<size_t>(node)] = 0;
      if (node == 0) continue;
      fit_above(static_cast<size_t>(node));
      move(parent_lane_[static_cast<size_t>(node)]);
    }
  }
}

void MeanIndex::fit_leaf(int64_t leaf) {
  const int64_t d = clusters_.d, lane = leaf_lane_[static_cast<size_t>(leaf)];
  const double* const tile = tiles_.data() + leaf * d * kPoints;
  double* const box = boxes_.data() + lane / kBoxes * d * 2 * kBoxes + lane % kBoxes;
  for (int64_t j = 0; j < d; ++j) {
    double low = kInfinity, high = -kInfinity;
    for (int l = 0; l < kPoints; ++l) {
      const double value = tile[j * kPoints + l];
      low = value < low ? value : low;
      high = value > high && value < kInfinity ? value : high;
    }
    box[j * 2 * kBoxes] = low, box[(j * 2 + 1) * kBoxes] = high;
  }
  most_[static_cast<size_t>(lane)] =
      *std::max_element(inverse_.begin() + leaf * kPoints, inverse_.begin() + (leaf + 1) * kPoints);
}

// The box of a node among its siblings', from those of its children.
void MeanIndex::fit_above(size_t node) {
  const auto d = static_cast<size_t>(clusters_.d), lane = static_cast<size_t>(parent_lane_[node]);
  const double* its = boxes_.data() + node * d * 2 * kBoxes;
  double* box = boxes_.data() + lane / kBoxes * d * 2 * kBoxes + lane % kBoxes;
  for (size_t j = 0; j < d; ++j, its += 2 * kBoxes, box += 2 * kBoxes) {
    box[0] = *std::min_element(its, its + kBoxes);
    box[kBoxes] = *std::max_element(its + kBoxes, its + 2 * kBoxes);
  }
  most_[lane] = *std::max_element(most_.data() + node * kBoxes, most_.data() + (node + 1) * kBoxes);
}

// Computed costs of a box's clusters are at least its squared distance over the largest sum of inverses: every
// operation is monotone under rounding (docs/numerics/hierarchy.md, H1). Of the children of
// a node the nearest comes first; the others are in no order, since sorting them costs more than it leaves out.
void MeanIndex::search(int32_t slot, NearList& near) const {
  struct Open {
    double cost;
    int32_t child;
  } stack[32 / kLevels * kBoxes + 1];  // at most kBoxes waiting on each level
  const double* const mean = clusters_.mean_of(slot);
  const double own = clusters_.inverse[static_cast<size_t>(slot)];
  alignas(64) double squares[kBoxes];
  int top = 0;
  stack[top++] = {0.0, 0};
  while (top > 0) {
    const int32_t child = stack[--top].child;
    if (stack[top].cost > near.limit()) continue;
    if (child < 0) {
      scan(slot, ~child, near);
      continue;
    }
    const int base = top;
    int nearest = top;
    double least = kInfinity;
    const double* const most = most_.data() + int64_t{child} * kBoxes;
    const uint32_t met = kernels().ward.boxes(boxes_.data() + int64_t{child} * clusters_.d * 2 * kBoxes, most,
                                              clusters_.d, mean, own, filter_limit(near.limit()), squares);
    for_bits(met, [&](int lane) {
      if (squares[lane] == kInfinity) return;  // no child, or nothing in it
      stack[top++] = {squares[lane] / (own + most[lane]), child_[static_cast<size_t>(child * kBoxes + lane)]};
      if (stack[top - 1].cost < least) least = stack[top - 1].cost, nearest = top - 1;
    });
    if (top > base) std::swap(stack[nearest], stack[top - 1]);
  }
  near.beyond = near.limit();
}

// The clusters of one leaf.
void MeanIndex::scan(int32_t slot, int32_t leaf, NearList& near) const {
  alignas(64) double squares[kPoints];
  const int64_t first = int64_t{leaf} * kPoints;
  const double own = clusters_.inverse[static_cast<size_t>(slot)];
  const double* const inverse = inverse_.data() + first;
  const uint32_t met = kernels().ward.means(tiles_.data() + first * clusters_.d, inverse, clusters_.d,
                                            clusters_.mean_of(slot), own, filter_limit(near.limit()), squares);
  for_bits(met, [&](int lane) {
    const int32_t other = slots_[static_cast<size_t>(first + lane)];
    if (other == slot || other < 0) return;
    const NearList::Entry entry{squares[lane] / (own + inverse[lane]), other, clusters_.id[static_cast<size_t>(other)]};
    if (entry.cost <= near.limit() && !near.has(other)) near.offer(entry);
  });
}

}  // namespace knoll
