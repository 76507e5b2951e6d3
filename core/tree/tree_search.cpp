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
constexpr int64_t kTestLanesFrom = 4;  // dimensions from which lanes are tested against nodes of
constexpr int32_t kFewLeaves = 4;      // so many leaves

// The k least (key, position) of each lane, ascending, as TreeKernels::nearest has them. Keys equal to the last one do
// not get in.
class NearestLists {
 public:
  explicit NearestLists(int64_t k)
      : k_(k),
        width_((k + 3) / 4 * 4),
        keys_(static_cast<size_t>(width_ * kPoints)),
        positions_(static_cast<size_t>(width_ * kPoints)) {}

  void clear() {
    std::fill(keys_.begin(), keys_.end(), kInfinity);
    std::fill(positions_.begin(), positions_.end(), 0.0);
  }
  int64_t length() const { return k_; }
  double* keys() { return keys_.data(); }
  double* positions() { return positions_.data(); }
  double last(int lane) const { return keys_[static_cast<size_t>(lane * width_ + k_ - 1)]; }
  int32_t position(int lane, int64_t rank) const {
    return static_cast<int32_t>(positions_[static_cast<size_t>(lane * width_ + rank)]);
  }

  void insert(int lane, double key, int64_t position) {
    double *const keys = keys_.data() + lane * width_, *const positions = positions_.data() + lane * width_;
    int64_t at = k_ - 1;
    for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1], positions[at] = positions[at - 1];
    keys[at] = key, positions[at] = static_cast<double>(position);
  }

  // Rows at infinite distance, where float64 has no number for it, are below no limit: those of the lowest positions
  // end a list in which fewer rows than k are nearer.
  void complete(int lane, int64_t self) {
    const double* const keys = keys_.data() + lane * width_;
    double* const positions = positions_.data() + lane * width_;
    const int64_t known = std::lower_bound(keys, keys + k_, kInfinity) - keys;
    double next = 0;
    for (int64_t at = known; at < k_; ++at, ++next) {
      while (next == static_cast<double>(self) || std::count(positions, positions + known, next) > 0) ++next;
      positions[at] = next;
    }
  }

 private:
  int64_t k_, width_;
  std::vector<double> keys_, positions_;  // (kPoints, width); positions below 2^31 are exact in float64
};

// A leaf as a query: its points' box, and a limit for each lane beyond which no key matters.
struct Queries {
  const double* tile;
  const double *low, *high;
  int64_t lanes;
  alignas(32) double limits[kPoints];  // of keys; −1 where a lane searches for nothing
  double largest() const {             // in independent chains
    double most[8];
    std::copy_n(limits, 8, most);
    for (int l = 8; l < kPoints; l += 8)
      for (int k = 0; k < 8; ++k) most[k] = limits[l + k] > most[k] ? limits[l + k] : most[k];
    return *std::max_element(most, most + 8);
  }
};

template <class T>
class TreeSearch : public ReachabilitySearch {
 public:
  TreeSearch(View<const T, 2> x, const Metric& metric, Run run)
      : tree_(x, metric, run), anywhere_(metric.anywhere(tree_.magnitudes())) {}

  // The mean work of the lists of a leaf, from a sample.
  double work(int64_t k, Run run) const {
    const int64_t leaves = tree_.leaves(), sample = std::min<int64_t>(leaves, 64);
    NearestLists lists(k);
    double work = 0;
    for (int64_t i = 0; i < sample; ++i) {
      run.poll();
      const int64_t leaf = (2 * i + 1) * leaves / (2 * sample);
      lists.clear();
      Queries queries = queries_of(leaf);
      std::fill_n(queries.limits, queries.lanes, kInfinity);
      work += nearest_of(leaf, queries, lists);
    }
    return work / static_cast<double>(sample);
  }

  const char* backend() const override { return "tree"; }
  int64_t size() const override { return tree_.size(); }
  int64_t row(int64_t position) const override { return tree_.row(position); }

  double key(int64_t p, int64_t q) const override {
    const Metric& metric = tree_.metric();
    if (metric.has_band()) return metric.distance(tree_.raw(p), tree_.raw(q));
    return metric.reduced(tree_.coords(p), kPoints, tree_.coords(q), kPoints, anywhere_);
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
        nearest_of(leaf, queries, lists);
        for (int lane = 0; lane < queries.lanes; ++lane) {
          const int64_t p = leaf * kPoints + lane;
          if (lists.last(lane) == kInfinity) lists.complete(lane, p);
          for (int64_t rank = 0; rank < k; ++rank) near[p * k + rank] = lists.position(lane, rank);
          farthest[p] = lists.last(lane);
        }
      }
    });
  }

  void weighted_core(View<const double, 1> weights, double mass, double* core, Run run) const override {
    for_chunks(tree_.leaves(), 1, run, [&](int64_t, int64_t leaf, int64_t) {
      for (int lane = 0; lane < tree_.points_in(leaf); ++lane) {
        if (core[leaf * kPoints + lane] >= 0) continue;
        run.poll();
        core[leaf * kPoints + lane] = heavy_radius(leaf, lane, weights, mass);
      }
    });
  }

  void leave(const RoundState& state, LeastEdges& least, Run run) const override {
    const std::vector<NodeFacts> facts = facts_of(state, run);
    for_chunks(tree_.leaves(), kLeavesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      std::vector<double> box(static_cast<size_t>(2 * tree_.dims()));
      for (int64_t leaf = begin; leaf < end; ++leaf) leave_from(leaf, state, facts, box.data(), least, run);
    });
  }

 private:
  // What is the same for all points of a node.
  struct NodeFacts {
    double least_core;
    int32_t component;  // −1: several
  };

  std::vector<NodeFacts> facts_of(const RoundState& state, Run run) const {
    const auto& nodes = tree_.nodes();
    std::vector<NodeFacts> facts(nodes.size());
    for_chunks(tree_.leaves(), 1024, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t leaf = begin; leaf < end; ++leaf) {
        const int64_t first = leaf * kPoints;
        NodeFacts& fact = facts[static_cast<size_t>(tree_.leaf_node(leaf))];
        fact = {kInfinity, state.component[first]};
        for (int64_t p = first; p < first + tree_.points_in(leaf); ++p) {
          if (state.component[p] != state.component[first]) fact.component = -1;
          fact.least_core = std::min(fact.least_core, state.core[p]);
        }
      }
    });
    for (size_t node = nodes.size(); node-- > 0;) {  // children come after their parents
      if (nodes[node].child < 0) continue;
      const auto child = static_cast<size_t>(nodes[node].child);
      const NodeFacts &left = facts[child], &right = facts[child + 1];
      facts[node] = {std::min(left.least_core, right.least_core),
                     left.component == right.component ? left.component : -1};
    }
    return facts;
  }

  // The edges of a leaf's points that are below the best of their components. A point p with c(p) at or above that has
  // none, nor has one whose surroundings are known as far.
  void leave_from(int64_t leaf, const RoundState& state, const std::vector<NodeFacts>& facts, double* box,
                  LeastEdges& least, Run run) const {
    const int64_t first = leaf * kPoints;
    Queries queries = queries_of(leaf);
    uint32_t lanes = 0;  // that search
    int32_t only = -2;   // the component of all of them, −1: several
    for (int lane = 0; lane < queries.lanes; ++lane) {
      const int32_t component = state.component[first + lane];
      if (component == state.largest) continue;
      const double limit = least.key(component);
      if (std::max(state.core[first + lane], state.cleared[first + lane]) >= limit) continue;
      queries.limits[lane] = limit;
      only = only == -2 || only == component ? component : -1;
      lanes |= uint32_t{1} << lane;
    }
    if (lanes == 0) return;
    run.poll();
    enclose(queries, lanes, box);
    bool offered = false;
    const auto shrink = [&] {
      for_bits(lanes, [&](int lane) { queries.limits[lane] = least.key(state.component[first + lane]); });
      offered = false;
    };
    alignas(32) double distances[kPoints * kPoints];
    traverse(
        queries, leaf,
        [&](int32_t node, double most) {
          const NodeFacts& fact = facts[static_cast<size_t>(node)];
          return (only >= 0 && fact.component == only) || fact.least_core >= most;
        },
        [&](int64_t other) {
          scan_leaf(queries, other, distances, [&](int lane, int64_t q, double key) {
            const int64_t p = first + lane;
            const int32_t here = state.component[p], there = state.component[q];
            if (here == there) return;
            key = std::max({key, state.core[p], state.core[q]});
            if (key >= queries.limits[lane]) return;
            least.offer(here, key, static_cast<int32_t>(p), static_cast<int32_t>(q));
            least.offer(there, key, static_cast<int32_t>(q), static_cast<int32_t>(p));
            queries.limits[lane] = key;
            offered = true;
          });
          if (offered) shrink();
        });
    shrink();
    // Limits only fall, so every row with m below the last limit was seen.
    for_bits(lanes, [&](int lane) { state.cleared[first + lane] = queries.limits[lane]; });
  }

  // The box of some lanes, in place of that of the leaf.
  void enclose(Queries& queries, uint32_t lanes, double* box) const {
    const int64_t d = tree_.dims();
    for (int64_t j = 0; j < d; ++j) {
      double low = kInfinity, high = -kInfinity;
      for_bits(lanes, [&](int lane) {
        low = std::min(low, queries.tile[j * kPoints + lane]);
        high = std::max(high, queries.tile[j * kPoints + lane]);
      });
      box[j] = low, box[d + j] = high;
    }
    queries.low = box, queries.high = box + d;
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
    return tree_.metric().has_band() ? tree_.metric().distance(tree_.raw(p), tree_.raw(q)) : reduced;
  }
  // The reduced distance at or beyond which no key is below `limit`.
  double reduced_limit(double limit) const {
    if (!tree_.metric().has_band()) return limit;
    return std::nextafter(tree_.metric().reduced_limit(limit, anywhere_, tree_.largest()), kInfinity);
  }

  // The lists of a leaf's points. Returns the work, in cycles of a processor with four lanes.
  double nearest_of(int64_t leaf, Queries& queries, NearestLists& lists) const {
    const auto all = [](int32_t, double) { return false; };
    double work = 0;
    if (tree_.metric().has_band()) {
      alignas(32) double distances[kPoints * kPoints];
      traverse(queries, leaf, all, [&](int64_t other) {
        work += work_of_visit(tree_.dims(), kPoints);
        scan_leaf(queries, other, distances, [&](int lane, int64_t position, double key) {
          work += work_of_formula(tree_.dims());
          if (position == leaf * kPoints + lane) return;
          lists.insert(lane, key, position);
          queries.limits[lane] = lists.last(lane);
        });
      });
      return work;
    }
    traverse(queries, leaf, all, [&](int64_t other) {
      const uint32_t lanes = kernels().tree.nearest[anywhere_.reduction](
          queries.tile, tree_.tile(other), tree_.box(tree_.leaf_node(other)), tree_.dims(), anywhere_.scale,
          other * kPoints, other == leaf ? 1 : 0, lists.length(), queries.limits, lists.keys(), lists.positions());
      work += work_of_visit(tree_.dims(), count_bits(lanes));
    });
    return work;
  }
  // Three sums, each of which waits for its additions.
  static double work_of_formula(int64_t d) { return 12 * static_cast<double>(d); }
  // A leaf's test of all lanes with the nodes above it, and the distances of the lanes that reach it: 8 vectors each.
  static double work_of_visit(int64_t d, int lanes) {
    const auto columns = static_cast<double>(d);
    return 100 + 36 * columns + lanes * (13 + 10 * columns);
  }

  // visit(leaf) for the leaf `home` and for all that may have a point below a limit, which `visit` may lower; nodes
  // come nearest first, and skip(node, the largest limit) leaves one out. Keys equal to a limit are not of interest, so
  // nodes of equal points are left out as soon as the limit is 0.
  template <class Skip, class Visit>
  void traverse(Queries& queries, int64_t home, Skip&& skip, Visit&& visit) const {
    struct Open {
      double near;
      int32_t node;
    } stack[80];
    int top = 0;
    double most = 0, limit = 0;  // the largest limit, of keys and of reduced distances
    const auto update = [&] {
      most = queries.largest();
      limit = reduced_limit(most);
    };
    const auto arrive = [&](int64_t leaf) {
      visit(leaf);
      update();
    };
    // With the bound in place of the node's points: X1 of docs/numerics/index.md.
    const auto open = [&](int32_t node) {
      return Open{skip(node, most) ? kInfinity : tree_.nearest(queries.low, queries.high, node, anywhere_), node};
    };
    // In several dimensions the box of the queries is much wider than their balls: no lane may reach a node that it
    // reaches.
    const bool tests_lanes = tree_.dims() >= kTestLanesFrom && !tree_.metric().has_band();
    const auto descend = [&] {
      while (top > 0) {
        const auto [near, index] = stack[--top];
        if (near >= limit || skip(index, most)) continue;
        const KdTree::Node& node = tree_.nodes()[static_cast<size_t>(index)];
        if (node.child < 0) {
          arrive(node.begin);
          continue;
        }
        if (tests_lanes && node.end - node.begin <= kFewLeaves && !is_reached(queries, index)) continue;
        const Open left = open(node.child), right = open(node.child + 1);
        const bool left_first = left.near < right.near || (left.near == right.near &&
                                                           home < tree_.nodes()[static_cast<size_t>(right.node)].begin);
        const Open &nearer = left_first ? left : right, &farther = left_first ? right : left;
        if (farther.near < limit) stack[top++] = farther;
        if (nearer.near < limit) stack[top++] = nearer;
      }
    };
    // Upwards from the leaf: no node around it is opened, only what lies beside them.
    update();
    if (!skip(tree_.leaf_node(home), most)) arrive(home);
    for (int32_t node = tree_.leaf_node(home); node > 0; node = tree_.nodes()[static_cast<size_t>(node)].parent) {
      stack[top++] = open(KdTree::sibling(node));
      descend();
    }
  }

  bool is_reached(const Queries& queries, int32_t node) const {
    return kernels().tree.intersects[anywhere_.reduction](queries.tile, tree_.box(node), tree_.dims(), anywhere_.scale,
                                                          queries.limits) != 0;
  }

  // found(lane, position, key) for all points whose key is below the lane's limit, which `found` may lower.
  template <class Skip, class Found>
  void search(Queries& queries, int64_t home, Skip&& skip, Found&& found) const {
    alignas(32) double distances[kPoints * kPoints];
    traverse(queries, home, skip, [&](int64_t leaf) { scan_leaf(queries, leaf, distances, found); });
  }

  template <class Found>
  void scan_leaf(Queries& queries, int64_t leaf, double* distances, Found&& found) const {
    const int64_t m = tree_.points_in(leaf);
    if (!tree_.metric().has_band()) {
      uint32_t bits[kPoints];
      const uint32_t lanes =
          kernels().tree.below[anywhere_.reduction](queries.tile, tree_.tile(leaf), tree_.box(tree_.leaf_node(leaf)),
                                                    tree_.dims(), anywhere_.scale, queries.limits, distances, bits);
      for_bits(lanes, [&](int lane) {
        for_bits(bits[lane], [&](int t) {
          const double key = distances[lane * kPoints + t];
          if (key < queries.limits[lane]) found(lane, leaf * kPoints + t, key);  // it may have fallen since
        });
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

  // Candidates in a heap, the farthest on top, as few as surely weigh `mass`; the exact sum decides among them. A row
  // of more than `mass` counts as `mass`: Σ min(w, mass) ≥ mass exactly where Σ w ≥ mass, and such sums neither
  // overflow nor lose the light rows beside a heavy one.
  double heavy_radius(int64_t leaf, int lane, View<const double, 1> weights, double mass) const {
    using Entry = std::pair<double, int64_t>;  // key and position
    std::vector<Entry> heap;
    double total = 0;
    Queries queries = queries_of(leaf);
    queries.limits[lane] = std::numeric_limits<double>::max();
    const auto weight = [&](int64_t position) { return std::min(weights(tree_.row(position)), mass); };
    search(
        queries, leaf, [](int32_t, double) { return false; },
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
std::unique_ptr<ReachabilitySearch> make_tree_search(View<const T, 2> x, const Metric& metric, double most_work,
                                                     Run run) {
  constexpr int64_t kNearest = 10;
  auto search = std::make_unique<TreeSearch<T>>(x, metric, run);
  if (most_work < kInfinity && x.shape[0] > kNearest && search->work(kNearest, run) > most_work) return nullptr;
  return search;
}
template std::unique_ptr<ReachabilitySearch> make_tree_search(View<const double, 2>, const Metric&, double, Run);
template std::unique_ptr<ReachabilitySearch> make_tree_search(View<const float, 2>, const Metric&, double, Run);

}  // namespace knoll
