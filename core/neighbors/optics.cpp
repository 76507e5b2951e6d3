// OPTICS over a kd-tree whose nodes know the largest and the least reachability of their rows.
#include "neighbors/optics.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/aligned.hpp"
#include "neighbors/bits.hpp"
#include "neighbors/kd_tree.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr int32_t kNobody = std::numeric_limits<int32_t>::max();

class Ordering {
 public:
  template <class T>
  Ordering(View<const T, 2> x, View<const double, 1> core, double max_eps, const Metric& metric, Run run)
      : tree_(x, metric, run),
        anywhere_(metric.anywhere(tree_.magnitudes())),
        max_eps_(max_eps),
        most_(bound_of(max_eps)),
        core_(static_cast<size_t>(tree_.size())),
        reach_(core_.size(), kInfinity),
        predecessor_(core_.size(), -1),
        limits_(static_cast<size_t>(tree_.leaves() * kPoints), -1.0),
        query_(static_cast<size_t>(tree_.dims() * kPoints)),
        position_(core_.size()),
        parent_(tree_.nodes().size(), -1),
        limit_(tree_.nodes().size()),
        farthest_(limit_.size()),
        next_(limit_.size()) {
    for (int64_t p = 0; p < tree_.size(); ++p) {
      core_[static_cast<size_t>(p)] = core(tree_.row(p));
      position_[static_cast<size_t>(tree_.row(p))] = p;
      limits_[static_cast<size_t>(p)] = most_;
    }
    for (size_t node = 0; node < parent_.size(); ++node)
      if (const int32_t child = tree_.nodes()[node].child; child >= 0)
        parent_[static_cast<size_t>(child)] = parent_[static_cast<size_t>(child) + 1] = static_cast<int32_t>(node);
    for (int64_t leaf = 0; leaf < tree_.leaves(); ++leaf) summarise_leaf(tree_.leaf_node(leaf), leaf);
    for (size_t node = parent_.size(); node-- > 0;)
      if (tree_.nodes()[node].child >= 0) summarise_children(static_cast<int32_t>(node));
  }

  int64_t size() const { return tree_.size(); }

  // The row of least reachability that has not been visited.
  int64_t next() const { return position_[static_cast<size_t>(next_[0].row)]; }

  void visit(int64_t p) {
    limits_[static_cast<size_t>(p)] = -1.0;
    touched_.assign(1, p / kPoints);
    if (core_[static_cast<size_t>(p)] <= max_eps_) reach_from(p);
    for (const int64_t leaf : touched_) update(leaf);
  }

  int64_t row(int64_t p) const { return tree_.row(p); }
  double reach(int64_t p) const { return reach_[static_cast<size_t>(p)]; }
  int64_t predecessor(int64_t p) const {
    const int64_t from = predecessor_[static_cast<size_t>(p)];
    return from < 0 ? -1 : row(from);
  }

 private:
  struct Least {
    double reach = kInfinity;
    int32_t row = kNobody;
    bool operator<(const Least& other) const {
      return reach < other.reach || (reach == other.reach && row < other.row);
    }
  };

  // A reduced distance that is not below this has no distance ≤ the given one: rounding is covered.
  double bound_of(double distance) const {
    const bool square = anywhere_.reduction == kSumSquares || anywhere_.reduction == kSumScaledSquares;
    const double scaled = distance * anywhere_.scale;
    return (square ? scaled * scaled : scaled) * (1 + 8 * kUlp) + std::numeric_limits<double>::min();
  }

  // Offers max(c(p), d(p, o)) to the rows o that it may improve.
  void reach_from(int64_t p) {
    const double* const coords = tree_.coords(p);
    const double core = core_[static_cast<size_t>(p)];
    std::vector<double>& point = point_;
    point.resize(static_cast<size_t>(tree_.dims()));
    for (int64_t j = 0; j < tree_.dims(); ++j)
      point[static_cast<size_t>(j)] = query_[static_cast<size_t>(j * kPoints)] = coords[j * kPoints];
    stack_.assign(1, 0);
    while (!stack_.empty()) {
      const int32_t index = stack_.back();
      stack_.pop_back();
      const auto at = static_cast<size_t>(index);
      if (farthest_[at] <= core || tree_.nearest(point.data(), point.data(), index, anywhere_) >= limit_[at]) continue;
      const KdTree::Node& node = tree_.nodes()[at];
      if (node.child >= 0)
        stack_.push_back(node.child), stack_.push_back(node.child + 1);
      else
        reach_in_leaf(p, core, node.begin);
    }
  }

  void reach_in_leaf(int64_t p, double core, int64_t leaf) {
    alignas(32) double reduced[kPoints];
    uint32_t below = 0;
    kernels().index.below[anywhere_.reduction](tree_.tile(leaf), query_.data(), tree_.dims(), 1, anywhere_.scale,
                                               limits_.data() + leaf * kPoints, reduced, &below);
    bool changed = false;
    for_bits(below, [&](int lane) {
      const auto o = static_cast<size_t>(leaf * kPoints + lane);
      const double distance = tree_.metric().distance(reduced[lane], anywhere_), reach = std::max(core, distance);
      if (distance > max_eps_ || reach >= reach_[o]) return;
      reach_[o] = reach, predecessor_[o] = p;
      limits_[o] = std::min(most_, bound_of(reach));
      changed = true;
    });
    if (changed && leaf != touched_.front()) touched_.push_back(leaf);
  }

  void update(int64_t leaf) {
    int32_t node = tree_.leaf_node(leaf);
    summarise_leaf(node, leaf);
    while ((node = parent_[static_cast<size_t>(node)]) >= 0) summarise_children(node);
  }

  void summarise_leaf(int32_t node, int64_t leaf) {
    double limit = -1.0, farthest = -1.0;
    Least next;
    for (int64_t p = leaf * kPoints; p < leaf * kPoints + tree_.points_in(leaf); ++p) {
      const auto at = static_cast<size_t>(p);
      if (limits_[at] < 0) continue;
      limit = std::max(limit, limits_[at]), farthest = std::max(farthest, reach_[at]);
      next = std::min(next, Least{reach_[at], tree_.row(p)});
    }
    limit_[static_cast<size_t>(node)] = limit, farthest_[static_cast<size_t>(node)] = farthest;
    next_[static_cast<size_t>(node)] = next;
  }

  void summarise_children(int32_t node) {
    const auto at = static_cast<size_t>(node), child = static_cast<size_t>(tree_.nodes()[at].child);
    limit_[at] = std::max(limit_[child], limit_[child + 1]);
    farthest_[at] = std::max(farthest_[child], farthest_[child + 1]);
    next_[at] = std::min(next_[child], next_[child + 1]);
  }

  KdTree tree_;
  Within anywhere_;
  double max_eps_, most_;
  std::vector<double> core_, reach_;  // (n) by position
  std::vector<int64_t> predecessor_;  // (n) position
  AlignedVector<double> limits_;      // (leaves · kPoints) reduced distances that could improve it; −1: visited
  AlignedVector<double> query_;       // (dims, kPoints), the first column
  std::vector<int64_t> position_;     // (n) of each row
  std::vector<int32_t> parent_;       // (nodes)
  std::vector<double> limit_;         // (nodes) the largest of limits_
  std::vector<double> farthest_;      // (nodes) the largest reachability of a row that is left
  std::vector<Least> next_;           // (nodes)
  std::vector<int64_t> touched_;      // leaves
  std::vector<int32_t> stack_;
  std::vector<double> point_;
};

}  // namespace

template <class T>
void optics_order(View<const T, 2> x, View<const double, 1> core, double max_eps, const Metric& metric,
                  View<int64_t, 1> order, View<double, 1> reach, View<int64_t, 1> predecessor, Run run) {
  Ordering ordering(x, core, max_eps, metric, run);
  for (int64_t step = 0; step < ordering.size(); ++step) {
    if (step % 64 == 0) run.poll();
    const int64_t p = ordering.next();
    ordering.visit(p);
    order(step) = ordering.row(p);
    reach(ordering.row(p)) = ordering.reach(p);
    predecessor(ordering.row(p)) = ordering.predecessor(p);
  }
}

template void optics_order(View<const double, 2>, View<const double, 1>, double, const Metric&, View<int64_t, 1>,
                           View<double, 1>, View<int64_t, 1>, Run);
template void optics_order(View<const float, 2>, View<const double, 1>, double, const Metric&, View<int64_t, 1>,
                           View<double, 1>, View<int64_t, 1>, Run);

}  // namespace knoll
