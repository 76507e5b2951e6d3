#include "tree/condensed_tree.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "common/double_double.hpp"
#include "common/large_array.hpp"
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
  // No more than n: what is not used is not touched, and nothing is moved.
  for (auto* const numbers : {&above, &closed, &nodes.begin, &nodes.end, &nodes.parent})
    numbers->reserve(static_cast<size_t>(n));
  nodes.height.reserve(static_cast<size_t>(n));
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

namespace {

// One pass over the bars with a stack of open nodes, as in tree_nodes. A node is closed when all of it has been seen;
// then its weight is known, and with it whether its rows that are in no large child leave a cluster here.
class Condensation {
 public:
  Condensation(View<const double, 1> bars, View<const int64_t, 1> order, View<const double, 1> weights,
               View<const double, 1> core, double least)
      : bars_(bars),
        order_(order),
        weights_(weights),
        core_(core),
        least_(least),
        n_(bars.shape[0]),
        memberships_(make_large_array<Membership>(static_cast<size_t>(n_))) {}

  void run_over_bars(Run run) {
    for (int64_t i = 1; i <= n_; ++i) {
      if (i % kPollEvery == 0) run.poll();
      const double bar = i < n_ ? bars_(i) : kInfinity;
      Subtree done{{weight_of(i - 1), 0}, static_cast<int32_t>(i - 1), -1, true};  // finished: the row i − 1
      while (!stack_.empty() && (stack_.back().height < bar || i == n_)) {
        Node top = stack_.back();
        stack_.pop_back();
        hang(top, done);
        done = close(top, i);
      }
      if (i == n_) break;
      if (stack_.empty() || stack_.back().height > bar)
        stack_.push_back({bar, {}, static_cast<int32_t>(i), done.begin, -1, 0});
      hang(stack_.back(), done);
    }
    if (n_ == 1) begin_row(0, copies(0, kInfinity));
  }

  CondensedClusters number(View<int64_t, 1> cluster, View<double, 1> leaves, Run run) const {
    // Nodes close after what they hold: the later the last node of a cluster closed, the higher it is. Rows that are
    // clusters come last, in the order of the tree.
    std::vector<int32_t> by_number(tops_.size()), numbers(tops_.size());
    std::iota(by_number.begin(), by_number.end(), 0);
    std::sort(by_number.begin(), by_number.end(),
              [&](int32_t a, int32_t b) { return tops_[static_cast<size_t>(a)] > tops_[static_cast<size_t>(b)]; });
    for (size_t k = 0; k < by_number.size(); ++k) numbers[static_cast<size_t>(by_number[k])] = static_cast<int32_t>(k);
    CondensedClusters out;
    for (const int32_t id : by_number) {
      const auto at = static_cast<size_t>(id);
      out.parent.push_back(found_.parent[at] < 0 ? -1 : numbers[static_cast<size_t>(found_.parent[at])]);
      out.birth.push_back(found_.birth[at]);
      out.death.push_back(found_.death[at]);
      out.weight.push_back(found_.weight[at]);
    }
    for_chunks(n_, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto [id, bar] = memberships_[static_cast<size_t>(i)];
        const int64_t row = order_(i);
        cluster(row) = numbers[static_cast<size_t>(id)];
        leaves(row) = bar < 0 ? core_(row) : bars_(bar);  // the copies of a heavy row separate at its core distance
      }
    });
    return out;
  }

 private:
  struct Subtree {  // a finished subtree
    Twofold weight;
    int32_t begin;
    int32_t id;  // of the cluster that it is, −1: it is not large
    bool is_row;
  };
  struct Node {
    double height;
    Twofold weight;
    int32_t bar;    // whose height it is
    int32_t begin;  // its first row, in the order of the tree
    int32_t id;     // of the cluster of its large children, −1: there is none
    int32_t large;  // how many of them: 0, 1, or 2 for more
  };
  struct Membership {  // of a row: its cluster, and the bar at whose height it leaves it; −1: its core distance
    int32_t id, bar;
  };

  double weight_of(int64_t i) const { return weights_.empty() ? 1.0 : weights_(order_(i)); }
  // A row of weight w is w copies that join at its core distance: one child of that weight where they join below the
  // height of its parent, else w children of weight 1.
  double copies(int64_t i, double height) const {
    if (weights_.empty()) return 1.0;
    return core_(order_(i)) < height || n_ == 1 ? weight_of(i) : std::min(weight_of(i), 1.0);
  }

  int32_t begin_cluster(double weight, double death, int32_t top) {
    found_.parent.push_back(-1);
    found_.birth.push_back(kInfinity);
    found_.death.push_back(death);
    found_.weight.push_back(weight);
    tops_.push_back(top);
    return static_cast<int32_t>(tops_.size()) - 1;
  }
  int32_t begin_row(int32_t i, double weight) {
    const int32_t id = begin_cluster(weight, -1.0, -1 - i);
    memberships_[static_cast<size_t>(i)] = {id, -1};
    return id;
  }

  void hang(Node& node, Subtree subtree) {
    if (!weights_.empty()) node.weight = node.weight + subtree.weight;
    if (subtree.is_row) {
      if (const double weight = copies(subtree.begin, node.height); weight >= least_)
        subtree.id = begin_row(subtree.begin, weight);
      else
        waiting_.push_back(subtree.begin);
    }
    if (subtree.id < 0) return;
    if (node.large == 0) {
      node.id = subtree.id, node.large = 1;
      return;
    }
    if (node.large == 1) {  // a split: the cluster around it ends here, seen from above
      const int32_t around = begin_cluster(0, node.height, -1);
      put_below(node.id, around, node.height);
      node.id = around, node.large = 2;
    }
    put_below(subtree.id, node.id, node.height);
  }
  void put_below(int32_t id, int32_t around, double height) {
    found_.parent[static_cast<size_t>(id)] = around;
    found_.birth[static_cast<size_t>(id)] = height;
  }

  // The node of the rows [begin, end). The root is a cluster, whatever its weight.
  Subtree close(const Node& node, int64_t end) {
    const double weight = weights_.empty() ? static_cast<double>(end - node.begin) : node.weight.high;
    const bool root = end == n_ && stack_.empty();
    if (weight < least_ && node.large == 0 && !root) return {node.weight, node.begin, -1, false};
    const int32_t id = node.large > 0 ? node.id : begin_cluster(0, -1.0, -1);
    found_.weight[static_cast<size_t>(id)] = weight;
    tops_[static_cast<size_t>(id)] = closed_++;
    for (; !waiting_.empty() && waiting_.back() >= node.begin; waiting_.pop_back())
      memberships_[static_cast<size_t>(waiting_.back())] = {id, node.bar};
    return {node.weight, node.begin, id, false};
  }

  View<const double, 1> bars_;
  View<const int64_t, 1> order_;
  View<const double, 1> weights_, core_;
  double least_;
  int64_t n_;
  LargeArray<Membership> memberships_;  // (n) in the order of the tree
  std::vector<Node> stack_;             // heights fall from bottom to top
  std::vector<int32_t> waiting_;        // rows that have not left a cluster yet, ascending
  CondensedClusters found_;             // in the order in which they were begun
  std::vector<int32_t> tops_;           // by cluster: when its highest node closed, −1 − row of one that is a row
  int32_t closed_ = 0;
};

}  // namespace

CondensedClusters condense(View<const double, 1> bars, View<const int64_t, 1> order, View<const double, 1> weights,
                           View<const double, 1> core, double least, View<int64_t, 1> cluster, View<double, 1> leaves,
                           Run run) {
  Condensation condensation(bars, order, weights, core, least);
  condensation.run_over_bars(run);
  return condensation.number(cluster, leaves, run);
}

}  // namespace knoll
