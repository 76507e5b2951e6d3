#include "tree/genie.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "common/union_find.hpp"

namespace knoll {
namespace {

constexpr int64_t kPollEvery = 1 << 12;

template <class T>
class EdgeOrder {
 public:
  struct Edge {
    double distance;
    int32_t a, b;  // a has the smaller coordinates
  };

  EdgeOrder(View<const T, 2> x, const Metric& metric)
      : x_(x), metric_(metric), here_(static_cast<size_t>(x.shape[1])), there_(static_cast<size_t>(x.shape[1])) {}

  Edge edge(int32_t a, int32_t b) {
    copy(a, here_);
    copy(b, there_);
    const double distance = metric_.distance(here_.data(), there_.data());
    return before(a, b) ? Edge{distance, a, b} : Edge{distance, b, a};
  }
  bool before(int32_t a, int32_t b) const {
    for (int64_t j = 0; j < x_.shape[1]; ++j)
      if (x_(a, j) != x_(b, j)) return x_(a, j) < x_(b, j);
    return a < b;
  }
  bool operator()(const Edge& e, const Edge& f) const {
    if (e.distance != f.distance) return e.distance < f.distance;
    return e.a != f.a ? before(e.a, f.a) : e.b != f.b && before(e.b, f.b);
  }

 private:
  void copy(int32_t row, std::vector<double>& out) const {
    for (int64_t j = 0; j < x_.shape[1]; ++j) out[static_cast<size_t>(j)] = static_cast<double>(x_(row, j)) + 0.0;
  }
  View<const T, 2> x_;
  const Metric& metric_;
  std::vector<double> here_, there_;
};

}  // namespace

template <class T>
ReachabilityEdges reachability_edges(View<const T, 2> x, View<const double, 1> core, const Metric& metric,
                                     View<const int32_t, 2> edges, View<const int64_t, 1> starts,
                                     View<const int32_t, 1> near, Run run) {
  using Edge = typename EdgeOrder<T>::Edge;
  const int64_t n = x.shape[0], m = edges.shape[0];
  EdgeOrder<T> less(x, metric);
  // Rows by core distance and edges by height; equal heights are one group, whose edges are sorted.
  std::vector<int32_t> rows(static_cast<size_t>(n)), spanning(static_cast<size_t>(m));
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(spanning.begin(), spanning.end(), 0);
  std::sort(rows.begin(), rows.end(), [&](int32_t p, int32_t q) { return core(p) < core(q); });
  std::vector<double> height(static_cast<size_t>(m));
  for (int64_t e = 0; e < m; ++e) {
    if (e % kPollEvery == 0) run.poll();
    const double distance = less.edge(edges(e, 0), edges(e, 1)).distance;
    height[static_cast<size_t>(e)] = std::max({distance, core(edges(e, 0)), core(edges(e, 1))});
  }
  std::sort(spanning.begin(), spanning.end(),
            [&](int32_t e, int32_t f) { return height[static_cast<size_t>(e)] < height[static_cast<size_t>(f)]; });

  UnionFind<int32_t> sets(n);
  ReachabilityEdges found;
  std::vector<Edge> group;
  const auto take = [&](double h) {
    std::sort(group.begin(), group.end(), less);
    for (size_t i = 0; i < group.size(); ++i) {
      const auto [distance, a, b] = group[i];
      if (i > 0 && group[i - 1].a == a && group[i - 1].b == b) continue;
      if (i > 0 && group[i - 1].distance == distance) found.tied = true;
      if (!sets.unite(a, b)) continue;
      found.a.push_back(a);
      found.b.push_back(b);
      found.height.push_back(h);
    }
    group.clear();
  };
  size_t row = 0, e = 0;
  for (int64_t groups = 0; row < rows.size() || e < spanning.size(); ++groups) {
    if (groups % kPollEvery == 0) run.poll();
    double h = row < rows.size() ? core(rows[row]) : height[static_cast<size_t>(spanning[e])];
    if (e < spanning.size()) h = std::min(h, height[static_cast<size_t>(spanning[e])]);
    for (; e < spanning.size() && height[static_cast<size_t>(spanning[e])] == h; ++e)
      group.push_back(less.edge(edges(spanning[e], 0), edges(spanning[e], 1)));
    for (; row < rows.size() && core(rows[row]) == h; ++row) {
      const int32_t p = rows[row];
      for (int64_t i = starts(p); i < starts(p + 1); ++i) {
        const int32_t q = near(i);
        if (q == p || core(q) > h || sets.same(p, q)) continue;
        const Edge edge = less.edge(p, q);
        if (edge.distance <= h) group.push_back(edge);
      }
    }
    take(h);
  }
  return found;
}

template ReachabilityEdges reachability_edges(View<const double, 2>, View<const double, 1>, const Metric&,
                                              View<const int32_t, 2>, View<const int64_t, 1>, View<const int32_t, 1>,
                                              Run);
template ReachabilityEdges reachability_edges(View<const float, 2>, View<const double, 1>, const Metric&,
                                              View<const int32_t, 2>, View<const int64_t, 1>, View<const int32_t, 1>,
                                              Run);

namespace {

// A multiset of weights with the sum of their differences Σ_{i<j} |w_i − w_j|: a treap over the distinct weights, so
// that every change takes a logarithmic time. Sums of whole numbers up to 2^53 are exact.
class Differences {
 public:
  explicit Differences(View<const double, 1> weights) {
    std::vector<double> sorted(static_cast<size_t>(weights.shape[0]));
    for (int64_t i = 0; i < weights.shape[0]; ++i) sorted[static_cast<size_t>(i)] = weights(i);
    std::sort(sorted.begin(), sorted.end());
    for (const double w : sorted) insert(w);
  }

  void insert(double w) {
    differences_ += distance_to(w);
    root_ = change(root_, w, 1);
    count_ += 1, total_ += w;
  }
  void remove(double w) {
    root_ = change(root_, w, -1);
    count_ -= 1, total_ -= w;
    differences_ -= distance_to(w);
  }
  double gini() const { return count_ < 2 ? 0 : differences_ / ((count_ - 1) * total_); }

 private:
  struct Node {
    double weight, times = 0, count = 0, sum = 0;  // of the weight, and of the subtree
    uint64_t priority;
    int32_t left = -1, right = -1;
  };
  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  double count(int32_t node) const { return node < 0 ? 0 : at(node).count; }
  double sum(int32_t node) const { return node < 0 ? 0 : at(node).sum; }

  // Σ_i |w_i − w|
  double distance_to(double w) const {
    double below = 0, sum_below = 0;
    for (int32_t node = root_; node >= 0;) {
      const Node& here = at(node);
      if (w <= here.weight) {
        node = here.left;
        continue;
      }
      below += count(here.left) + here.times;
      sum_below += sum(here.left) + here.times * here.weight;
      node = here.right;
    }
    return (below * w - sum_below) + ((total_ - sum_below) - (count_ - below) * w);
  }

  void update(int32_t node) {
    Node& here = at(node);
    here.count = count(here.left) + here.times + count(here.right);
    here.sum = sum(here.left) + here.times * here.weight + sum(here.right);
  }

  // Depth is logarithmic, so recursion is safe.
  int32_t change(int32_t node, double w, double times) {
    if (node < 0) {
      node = static_cast<int32_t>(nodes_.size());
      const uint64_t mixed = (static_cast<uint64_t>(node) + 1) * 0x9E3779B97F4A7C15ULL;
      nodes_.push_back({w, 0, 0, 0, (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL});
    }
    if (w == at(node).weight) {
      at(node).times += times;
    } else if (w < at(node).weight) {
      const int32_t child = change(at(node).left, w, times);
      at(node).left = child;
      if (at(child).priority > at(node).priority) {
        at(node).left = std::exchange(at(child).right, node);
        update(node);
        node = child;
      }
    } else {
      const int32_t child = change(at(node).right, w, times);
      at(node).right = child;
      if (at(child).priority > at(node).priority) {
        at(node).right = std::exchange(at(child).left, node);
        update(node);
        node = child;
      }
    }
    update(node);
    return node;
  }

  std::vector<Node> nodes_;
  int32_t root_ = -1;
  double count_ = 0, total_ = 0, differences_ = 0;
};

// The edges that leave each cluster, the first one on top: leftist heaps. Entry 2e + s is edge e at its end s.
class Leaving {
 public:
  Leaving(int64_t rows, int64_t edges)
      : tops_(static_cast<size_t>(rows), -1),
        left_(static_cast<size_t>(2 * edges), -1),
        right_(static_cast<size_t>(2 * edges), -1),
        rank_(static_cast<size_t>(2 * edges), 1) {}

  void push(int32_t cluster, int32_t entry) { top(cluster) = meld(top(cluster), entry); }
  // The cluster `other` becomes one with `cluster`.
  void join(int32_t cluster, int32_t other) { top(cluster) = meld(top(cluster), top(other)); }
  // The first edge that is not used, −1: none.
  int32_t first(int32_t cluster, const std::vector<uint8_t>& used) {
    int32_t& entry = top(cluster);
    while (entry >= 0 && used[static_cast<size_t>(entry / 2)] != 0)
      entry = meld(left_[static_cast<size_t>(entry)], right_[static_cast<size_t>(entry)]);
    return entry < 0 ? -1 : entry / 2;
  }

 private:
  int32_t& top(int32_t cluster) { return tops_[static_cast<size_t>(cluster)]; }
  int32_t rank(int32_t entry) const { return entry < 0 ? 0 : rank_[static_cast<size_t>(entry)]; }
  int32_t meld(int32_t a, int32_t b) {  // along right paths, whose lengths are logarithmic
    if (a < 0 || b < 0) return std::max(a, b);
    if (b < a) std::swap(a, b);
    const auto at = static_cast<size_t>(a);
    right_[at] = meld(right_[at], b);
    if (rank(left_[at]) < rank(right_[at])) std::swap(left_[at], right_[at]);
    rank_[at] = rank(right_[at]) + 1;
    return a;
  }

  std::vector<int32_t> tops_, left_, right_, rank_;
};

// Clusters as chains of rows, with the number of the join between two neighbours.
struct JoinedChains {
  explicit JoinedChains(int64_t n)
      : sets(n), last(static_cast<size_t>(n)), next(static_cast<size_t>(n), -1), step(static_cast<size_t>(n), n) {
    std::iota(last.begin(), last.end(), 0);
  }
  // Roots are lowest members, and a chain begins with its root.
  void join(int32_t lower, int32_t higher, int64_t number) {
    sets.unite(lower, higher);
    step[static_cast<size_t>(higher)] = number;
    next[static_cast<size_t>(last[static_cast<size_t>(lower)])] = higher;
    last[static_cast<size_t>(lower)] = last[static_cast<size_t>(higher)];
  }
  UnionFind<int32_t> sets;
  std::vector<int32_t> last, next;
  std::vector<int64_t> step;
};

}  // namespace

void genie(View<const int32_t, 1> a, View<const int32_t, 1> b, View<const double, 1> weights, double threshold,
           View<int64_t, 1> order, View<int64_t, 1> steps, Run run) {
  const int64_t n = weights.shape[0], m = a.shape[0];
  Differences sizes(weights);
  Leaving leaving(n, m);
  for (int64_t e = 0; e < m; ++e) {
    leaving.push(a(e), static_cast<int32_t>(2 * e));
    leaving.push(b(e), static_cast<int32_t>(2 * e + 1));
  }
  std::vector<uint8_t> used(static_cast<size_t>(m));
  std::vector<double> weight(static_cast<size_t>(n));
  // Clusters by weight and first edge. An entry is out of date once the cluster has another weight or another root.
  using Entry = std::tuple<double, int32_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> smallest;
  for (int64_t p = 0; p < n; ++p) {
    weight[static_cast<size_t>(p)] = weights(p);
    if (const int32_t e = leaving.first(static_cast<int32_t>(p), used); e >= 0)
      smallest.emplace(weights(p), e, static_cast<int32_t>(p));
  }

  JoinedChains chains(n);
  const auto current = [&](const Entry& entry) {
    const auto [mass, edge, root] = entry;
    return chains.sets.find(root) == root && weight[static_cast<size_t>(root)] == mass;
  };
  int64_t following = 0;
  for (int64_t number = 0; number < m; ++number) {
    if (number % kPollEvery == 0) run.poll();
    while (following < m && used[static_cast<size_t>(following)] != 0) ++following;
    while (!current(smallest.top())) smallest.pop();
    const int64_t e = sizes.gini() > threshold ? std::get<1>(smallest.top()) : following;
    used[static_cast<size_t>(e)] = 1;
    int32_t lower = chains.sets.find(a(e)), higher = chains.sets.find(b(e));
    if (lower == higher) throw std::invalid_argument("the edges must form no cycle");
    if (lower > higher) std::swap(lower, higher);
    double& sum = weight[static_cast<size_t>(lower)];
    sizes.remove(sum);
    sizes.remove(weight[static_cast<size_t>(higher)]);
    sum += weight[static_cast<size_t>(higher)];
    sizes.insert(sum);
    chains.join(lower, higher, number);
    leaving.join(lower, higher);
    if (const int32_t first = leaving.first(lower, used); first >= 0) smallest.emplace(sum, first, lower);
  }
  int64_t at = 0;
  for (int64_t p = 0; p < n; ++p) {
    if (chains.sets.find(static_cast<int32_t>(p)) != p) continue;
    for (int32_t q = static_cast<int32_t>(p); q >= 0; q = chains.next[static_cast<size_t>(q)], ++at) {
      order(at) = q;
      steps(at) = chains.step[static_cast<size_t>(q)];
    }
  }
}

}  // namespace knoll
