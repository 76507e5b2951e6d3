#include "hierarchy/graph.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "common/union_find.hpp"

namespace knoll {
namespace {

struct Edge {
  double cost;
  int32_t low, high;  // clusters, the lower number first
  // For a heap whose top is the least.
  bool operator<(const Edge& other) const {
    return std::tie(cost, low, high) > std::tie(other.cost, other.low, other.high);
  }
};

using Neighbours = std::vector<std::pair<int32_t, double>>;  // cluster and cost

// Clusters 0 … n − 1 are rows, and n + t is the result of merge t.
class GraphClusters {
 public:
  GraphClusters(View<const double, 2> x, View<const double, 1> weights, int64_t n, int64_t most, GraphLinkage linkage)
      : linkage_(linkage),
        d_(x.shape[1]),
        weight_(static_cast<size_t>(n), 1.0),
        neighbours_(static_cast<size_t>(n)),
        alive_(static_cast<size_t>(n), true) {
    for (int64_t i = 0; i < n && !weights.empty(); ++i) weight_[static_cast<size_t>(i)] = weights(i);
    if (linkage != GraphLinkage::ward) return;
    mean_.reserve(static_cast<size_t>((n + most) * d_));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < d_; ++j) mean_.push_back(x(i, j));
  }

  bool alive(int32_t cluster) const { return alive_[static_cast<size_t>(cluster)]; }

  Edge connect(int32_t a, int32_t b, double cost) {
    if (linkage_ == GraphLinkage::ward) cost = rise(a, b);
    neighbours_[static_cast<size_t>(a)].emplace_back(b, cost);
    neighbours_[static_cast<size_t>(b)].emplace_back(a, cost);
    return {cost, std::min(a, b), std::max(a, b)};
  }

  // Makes a and b one cluster; push(edge) for each of its neighbours.
  template <class Push>
  void merge(int32_t a, int32_t b, Push&& push) {
    const auto id = static_cast<int32_t>(weight_.size());
    const double v = weight_[static_cast<size_t>(a)], w = weight_[static_cast<size_t>(b)];
    alive_[static_cast<size_t>(a)] = alive_[static_cast<size_t>(b)] = false;
    const Neighbours joined = join(living(a), living(b), v, w);
    unite_means(a, b, v, w);
    weight_.push_back(v + w), neighbours_.emplace_back(), alive_.push_back(true);
    for (const auto& [other, cost] : joined) push(connect(other, id, cost));
    neighbours_[static_cast<size_t>(a)] = {}, neighbours_[static_cast<size_t>(b)] = {};
  }

 private:
  const double* mean_of(int32_t cluster) const { return mean_.data() + int64_t{cluster} * d_; }

  double rise(int32_t a, int32_t b) const {
    const double *u = mean_of(a), *v = mean_of(b);
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) sum += (v[j] - u[j]) * (v[j] - u[j]);
    return sum / (1 / weight_[static_cast<size_t>(a)] + 1 / weight_[static_cast<size_t>(b)]);
  }

  // The neighbours that still exist, by number; a pair of clusters has one cost, so duplicates are equal.
  Neighbours living(int32_t cluster) const {
    Neighbours found;
    for (const auto& neighbour : neighbours_[static_cast<size_t>(cluster)])
      if (alive(neighbour.first)) found.push_back(neighbour);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  Neighbours join(const Neighbours& first, const Neighbours& second, double v, double w) const {
    Neighbours joined;
    auto p = first.begin(), q = second.begin();
    while (p != first.end() || q != second.end()) {
      if (q == second.end() || (p != first.end() && p->first < q->first))
        joined.push_back(*p++);
      else if (p == first.end() || q->first < p->first)
        joined.push_back(*q++);
      else
        joined.emplace_back(p->first, combine(p->second, q->second, v, w)), ++p, ++q;
    }
    return joined;
  }

  double combine(double x, double y, double v, double w) const {
    if (linkage_ == GraphLinkage::average) return x + w / (v + w) * (y - x);
    return linkage_ == GraphLinkage::complete ? std::max(x, y) : std::min(x, y);
  }

  // From the heavier mean by a share of the difference, as in hierarchy/ward.cpp.
  void unite_means(int32_t a, int32_t b, double v, double w) {
    if (linkage_ != GraphLinkage::ward) return;
    if (v < w) std::swap(a, b), std::swap(v, w);
    for (int64_t j = 0; j < d_; ++j) {
      const double from = mean_of(a)[j], to = mean_of(b)[j];
      mean_.push_back(from + w / (v + w) * (to - from));
    }
  }

  GraphLinkage linkage_;
  int64_t d_;
  std::vector<double> mean_;            // (clusters, d), for Ward
  std::vector<double> weight_;          // (clusters)
  std::vector<Neighbours> neighbours_;  // (clusters) some of them gone
  std::vector<bool> alive_;             // (clusters)
};

}  // namespace

int64_t link_graph(View<const double, 2> x, View<const double, 1> weights, View<const int64_t, 2> edges,
                   View<const double, 1> costs, GraphLinkage linkage, int64_t most, View<int64_t, 2> children,
                   View<double, 1> heights, Run run) {
  GraphClusters clusters(x, weights, x.shape[0], most, linkage);
  std::vector<Edge> start;
  start.reserve(static_cast<size_t>(edges.shape[0]));
  for (int64_t e = 0; e < edges.shape[0]; ++e)
    start.push_back(clusters.connect(static_cast<int32_t>(edges(e, 0)), static_cast<int32_t>(edges(e, 1)),
                                     costs.empty() ? 0.0 : costs(e)));
  std::priority_queue<Edge> heap(std::less<Edge>{}, std::move(start));
  int64_t merges = 0, steps = 0;
  while (merges < most && !heap.empty()) {
    if (++steps % 256 == 0) run.poll();
    const Edge edge = heap.top();
    heap.pop();
    if (!clusters.alive(edge.low) || !clusters.alive(edge.high)) continue;
    clusters.merge(edge.low, edge.high, [&](const Edge& added) { heap.push(added); });
    children(merges, 0) = edge.low, children(merges, 1) = edge.high, heights(merges) = edge.cost;
    ++merges;
  }
  return merges;
}

void link_bars(View<const double, 1> bars, View<int64_t, 2> children, View<double, 1> heights, Run run) {
  const int64_t n = bars.shape[0];
  std::vector<int64_t> order(static_cast<size_t>(std::max<int64_t>(n - 1, 0)));
  std::iota(order.begin(), order.end(), 1);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return bars(i) < bars(j); });
  run.poll();
  UnionFind<int64_t> components(n);
  std::vector<int64_t> cluster(static_cast<size_t>(n));  // of each component, at its lowest position
  std::iota(cluster.begin(), cluster.end(), 0);
  for (int64_t t = 0; t < n - 1; ++t) {
    const int64_t position = order[static_cast<size_t>(t)];
    const int64_t left = components.find(position - 1), right = components.find(position);
    const int64_t a = cluster[static_cast<size_t>(left)], b = cluster[static_cast<size_t>(right)];
    children(t, 0) = std::min(a, b), children(t, 1) = std::max(a, b), heights(t) = bars(position);
    components.unite(left, right);
    cluster[static_cast<size_t>(left)] = n + t;  // the lowest position is the left one's
  }
}

}  // namespace knoll
