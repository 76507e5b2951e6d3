// The search over a kd-tree, a leaf of 32 queries at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "neighbors/bits.hpp"
#include "neighbors/kd_tree.hpp"
#include "tree/backends.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLeavesAtOnce = 8;

// The k least (key, position) of each lane, ascending. Keys equal to the last one do not get in.
class NearestLists {
 public:
  explicit NearestLists(int64_t k)
      : k_(k), keys_(static_cast<size_t>(k * kPoints)), positions_(static_cast<size_t>(k * kPoints)) {}

  void clear() { std::fill(keys_.begin(), keys_.end(), kInfinity); }
  double last(int lane) const { return keys_[static_cast<size_t>((lane + 1) * k_ - 1)]; }
  int32_t position(int lane, int64_t rank) const { return positions_[static_cast<size_t>(lane * k_ + rank)]; }

  void insert(int lane, double key, int32_t position) {
    double* const keys = keys_.data() + lane * k_;
    int32_t* const positions = positions_.data() + lane * k_;
    int64_t at = k_ - 1;
    for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1], positions[at] = positions[at - 1];
    keys[at] = key, positions[at] = position;
  }

 private:
  int64_t k_;
  std::vector<double> keys_;  // (kPoints, k)
  std::vector<int32_t> positions_;
};

// A leaf as a query: its points' box, and a limit for each lane beyond which no key matters.
struct Queries {
  const double* tile;
  const double *low, *high;
  int64_t lanes;
  alignas(32) double limits[kPoints];  // of keys; −1 where a lane asks for nothing
  double largest() const { return *std::max_element(limits, limits + kPoints); }
};

template <class T>
class TreeSearch : public ReachabilitySearch {
 public:
  TreeSearch(View<const T, 2> x, const Metric& metric, Run run)
      : tree_(x, metric, run), anywhere_(metric.anywhere(tree_.largest())) {}

  const char* backend() const override { return "tree"; }
  int64_t size() const override { return tree_.size(); }
  int64_t row(int64_t position) const override { return tree_.row(position); }

  double key(int64_t p, int64_t q) const override {
    const Metric& metric = tree_.metric();
    if (!metric.direct()) return metric.distance(tree_.raw(p), tree_.raw(q));
    return key_of(metric.reduced(tree_.coords(p), kPoints, tree_.coords(q), kPoints, anywhere_), p, q);
  }
  double distance(double key) const override {
    return tree_.metric().has_band() ? key : tree_.metric().distance(key, anywhere_);
  }

  void nearest(int64_t k, int32_t* near, double* farthest, Run run) const override {
    for_chunks(tree_.leaves(), kLeavesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      NearestLists lists(k);
      for (int64_t leaf = begin; leaf < end; ++leaf) {
        run.poll();
        lists.clear();
        Queries queries = queries_of(leaf);
        std::fill_n(queries.limits, queries.lanes, kInfinity);
        search(
            queries, leaf, [](int32_t) { return false; },
            [&](int lane, int64_t position, double key) {
              if (position == leaf * kPoints + lane) return;
              lists.insert(lane, key, static_cast<int32_t>(position));
              queries.limits[lane] = lists.last(lane);
            });
        for (int lane = 0; lane < queries.lanes; ++lane) {
          const int64_t p = leaf * kPoints + lane;
          for (int64_t rank = 0; rank < k; ++rank) near[p * k + rank] = lists.position(lane, rank);
          farthest[p] = lists.last(lane);
        }
      }
    });
  }

  void weighted_core(View<const double, 1> weights, double mass, double* core, Run run) const override {
    for_chunks(tree_.leaves(), 1, run, [&](int64_t, int64_t leaf, int64_t) {
      for (int lane = 0; lane < tree_.points_in(leaf); ++lane) {
        run.poll();
        core[leaf * kPoints + lane] = heavy_radius(leaf, lane, weights, mass);
      }
    });
  }

  void leave(const RoundState& state, LeastEdges& least, Run run) const override {
    const NodeFacts facts = facts_of(state, run);
    for_chunks(tree_.leaves(), kLeavesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t leaf = begin; leaf < end; ++leaf) leave_from(leaf, state, facts, least, run);
    });
  }

 private:
  // What is the same for all points of a node.
  struct NodeFacts {
    std::vector<int32_t> component;  // (nodes) −1: several
    std::vector<double> least_core;  // (nodes)
  };

  NodeFacts facts_of(const RoundState& state, Run run) const {
    const auto& nodes = tree_.nodes();
    NodeFacts facts{std::vector<int32_t>(nodes.size()), std::vector<double>(nodes.size())};
    for_chunks(tree_.leaves(), 1024, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t leaf = begin; leaf < end; ++leaf) {
        const int64_t first = leaf * kPoints;
        int32_t component = state.component[first];
        double core = kInfinity;
        for (int64_t p = first; p < first + tree_.points_in(leaf); ++p) {
          if (state.component[p] != component) component = -1;
          core = std::min(core, state.core[p]);
        }
        const auto node = static_cast<size_t>(tree_.leaf_node(leaf));
        facts.component[node] = component, facts.least_core[node] = core;
      }
    });
    for (size_t node = nodes.size(); node-- > 0;) {  // children come after their parents
      if (nodes[node].child < 0) continue;
      const auto child = static_cast<size_t>(nodes[node].child);
      facts.component[node] = facts.component[child] == facts.component[child + 1] ? facts.component[child] : -1;
      facts.least_core[node] = std::min(facts.least_core[child], facts.least_core[child + 1]);
    }
    return facts;
  }

  // The edges of a leaf's points that are below the best of their components. A point p with c(p) at or above that has
  // none, nor has one whose surroundings were searched as far before.
  void leave_from(int64_t leaf, const RoundState& state, const NodeFacts& facts, LeastEdges& least, Run run) const {
    const int64_t first = leaf * kPoints;
    Queries queries = queries_of(leaf);
    bool any = false;
    int32_t only = -2;  // the component of all points that search, −1: several
    for (int lane = 0; lane < queries.lanes; ++lane) {
      const int32_t component = state.component[first + lane];
      const double limit = least.key(component);
      if (std::max(state.core[first + lane], state.cleared[first + lane]) >= limit) continue;
      queries.limits[lane] = limit;
      only = only == -2 || only == component ? component : -1;
      any = true;
    }
    if (!any) return;
    run.poll();
    const auto shrink = [&] {
      for (int lane = 0; lane < queries.lanes; ++lane)
        if (queries.limits[lane] >= 0) queries.limits[lane] = least.key(state.component[first + lane]);
    };
    search(
        queries, leaf,
        [&](int32_t node) {
          const auto at = static_cast<size_t>(node);
          return (only >= 0 && facts.component[at] == only) || facts.least_core[at] >= queries.largest();
        },
        [&](int lane, int64_t q, double key) {
          const int64_t p = first + lane;
          const int32_t here = state.component[p], there = state.component[q];
          if (here == there) return;
          key = std::max({key, state.core[p], state.core[q]});
          if (key >= queries.limits[lane]) return;
          least.offer(here, key, static_cast<int32_t>(p), static_cast<int32_t>(q));
          least.offer(there, key, static_cast<int32_t>(q), static_cast<int32_t>(p));
          shrink();
        });
    shrink();
    // Limits only fall, so every row with m below the last limit was seen.
    for (int lane = 0; lane < queries.lanes; ++lane)
      if (queries.limits[lane] >= 0) state.cleared[first + lane] = queries.limits[lane];
  }

  Queries queries_of(int64_t leaf) const {
    Queries queries;
    queries.tile = tree_.tile(leaf);
    queries.low = tree_.box(tree_.leaf_node(leaf));
    queries.high = queries.low + tree_.dims();
    queries.lanes = tree_.points_in(leaf);
    std::fill_n(queries.limits, kPoints, -1.0);
    return queries;
  }

  // The key of two points with this reduced distance.
  double key_of(double reduced, int64_t p, int64_t q) const {
    const Metric& metric = tree_.metric();
    if (!metric.has_band()) return reduced;
    return metric.direct() ? metric.distance(reduced, anywhere_) : metric.distance(tree_.raw(p), tree_.raw(q));
  }
  // The reduced distance at or beyond which no key is below `limit`.
  double reduced_limit(double limit) const {
    if (!tree_.metric().has_band() || limit < 0 || limit == kInfinity) return limit;
    const Within w = tree_.metric().within(limit, tree_.largest());
    const double scale = anywhere_.scale / w.scale;  // both are powers of two; minkowski alone has a scale and a band
    return std::nextafter(scale == 1 ? w.outside : kInfinity, kInfinity);
  }

  // found(lane, position, key) for all points whose key is below the lane's limit, which `found` may lower; nodes come
  // nearest first, and skip(node) leaves one out. Keys equal to a limit are not of interest, so nodes of equal points
  // are left out as soon as the limit is 0.
  template <class Skip, class Found>
  void search(Queries& queries, int64_t home, Skip&& skip, Found&& found) const {
    struct Open {
      int32_t node;
      double near;
    } stack[80];
    alignas(32) double distances[kPoints * kPoints];
    int top = 0;
    const auto bound = [&](int32_t node) { return tree_.nearest(queries.low, queries.high, node, anywhere_); };
    visit(queries, home, distances, found);
    double limit = reduced_limit(queries.largest());
    stack[top++] = {0, bound(0)};
    while (top > 0) {
      const auto [index, near] = stack[--top];
      if (near >= limit || skip(index)) continue;
      const KdTree::Node& node = tree_.nodes()[static_cast<size_t>(index)];
      if (node.child < 0) {
        if (node.begin == home) continue;
        visit(queries, node.begin, distances, found);
        limit = reduced_limit(queries.largest());
        continue;
      }
      const int32_t left = node.child, right = left + 1;
      const Open a{left, bound(left)}, b{right, bound(right)};
      const bool left_first =
          a.near < b.near || (a.near == b.near && home < tree_.nodes()[static_cast<size_t>(right)].begin);
      stack[top++] = left_first ? b : a;
      stack[top++] = left_first ? a : b;
    }
  }

  template <class Found>
  void visit(Queries& queries, int64_t leaf, double* distances, Found&& found) const {
    const int64_t m = tree_.points_in(leaf);
    uint32_t bits[kPoints];
    if (!tree_.metric().has_band()) {
      kernels().index.below[anywhere_.reduction](queries.tile, tree_.tile(leaf), tree_.dims(), m, anywhere_.scale,
                                                 queries.limits, distances, bits);
      for (int64_t t = 0; t < m; ++t)
        for_bits(bits[t], [&](int lane) {
          const double key = distances[t * kPoints + lane];
          if (key < queries.limits[lane]) found(lane, leaf * kPoints + t, key);  // it may have fallen since
        });
      return;
    }
    tree_.reduced_tile(queries.tile, leaf, anywhere_, distances);
    const int64_t home = (queries.tile - tree_.tile(0)) / (tree_.dims() * kPoints);
    for (int lane = 0; lane < queries.lanes; ++lane) {
      if (queries.limits[lane] < 0) continue;
      for (int64_t t = 0; t < m; ++t) {
        const double reduced = distances[t * kPoints + lane];
        if (reduced >= reduced_limit(queries.limits[lane])) continue;
        const double key = key_of(reduced, home * kPoints + lane, leaf * kPoints + t);
        if (key < queries.limits[lane]) found(lane, leaf * kPoints + t, key);
      }
    }
  }

  // Candidates in a heap, the farthest on top, as few as surely weigh `mass`; the exact sum decides among them.
  double heavy_radius(int64_t leaf, int lane, View<const double, 1> weights, double mass) const {
    using Entry = std::pair<double, int64_t>;  // key and position
    std::vector<Entry> heap;
    double total = 0;
    Queries queries = queries_of(leaf);
    queries.limits[lane] = std::numeric_limits<double>::max();
    const auto weight = [&](int64_t position) { return weights(tree_.row(position)); };
    search(
        queries, leaf, [](int32_t) { return false; },
        [&](int, int64_t position, double key) {
          heap.emplace_back(key, position);
          std::push_heap(heap.begin(), heap.end());
          total += weight(position);
          // the margin covers the rounding of `total`
          while (total - weight(heap.front().second) >= mass * (1 + 1e-6) + total * 1e-6) {
            total -= weight(heap.front().second);
            std::pop_heap(heap.begin(), heap.end());
            heap.pop_back();
          }
          if (total >= mass * (1 + 1e-6) + total * 1e-6) queries.limits[lane] = next_up(heap.front().first);
        });
    std::sort_heap(heap.begin(), heap.end());
    ExactSum sum;
    for (const auto& [key, position] : heap) {
      sum.add(weight(position));
      if (sum.round() >= mass) return key;
    }
    return kInfinity;
  }
  static double next_up(double key) { return std::nextafter(key, kInfinity); }

  KdTree tree_;
  Within anywhere_;
};

}  // namespace

template <class T>
std::unique_ptr<ReachabilitySearch> make_tree_search(View<const T, 2> x, const Metric& metric, Run run) {
  return std::make_unique<TreeSearch<T>>(x, metric, run);
}
template std::unique_ptr<ReachabilitySearch> make_tree_search(View<const double, 2>, const Metric&, Run);
template std::unique_ptr<ReachabilitySearch> make_tree_search(View<const float, 2>, const Metric&, Run);

}  // namespace knoll
