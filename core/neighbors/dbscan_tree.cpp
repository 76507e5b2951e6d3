// DBSCAN over the tree, for any metric and weights of both signs: each leaf of 32 points traverses the tree three
// times.
//
// A traversal visits nodes that may have points within ε of the leaf's box. `whole(node)`: every pair of points is
// within ε, by a bound on the computed distances that needs no margin (kd_tree.hpp), so a node counts without its
// points.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "neighbors/bits.hpp"
#include "neighbors/dbscan_backends.hpp"
#include "neighbors/kd_tree.hpp"

namespace knoll {
namespace {

// 256 points a chunk: enough work for a thread, and neighbouring leaves visit the same nodes.
constexpr int64_t kLeavesAtOnce = 8;

class TreeDbscan {
 public:
  TreeDbscan(const KdTree& tree, const Within& within, const Weights& weights, double min_samples, Run run)
      : tree_(tree),
        within_(within),
        weights_(weights),
        min_samples_(min_samples),
        run_(run),
        core_(static_cast<size_t>(tree.leaves()), 0),
        first_core_(tree.nodes().size(), -1),
        sets_(tree.size()) {}

  // 1. Core points. first_core_ of a node is the left child's if it has one: children come after their parents, so
  // going backwards both are known.
  void find_cores() {
    // A node that is within ε as a whole then adds one number to each of the 32 sums.
    if (weights_.present()) weigh_nodes();
    each_leaf([&](int64_t leaf) { weights_.present() ? weigh(leaf) : count(leaf); });
    for (size_t node = first_core_.size(); node-- > 0;) {
      const auto& [begin, end, child, parent] = tree_.nodes()[node];
      if (child < 0) {
        const uint32_t bits = core_[static_cast<size_t>(begin)];
        if (bits != 0) first_core_[node] = begin * kPoints + std::countr_zero(bits);
      } else {
        const int32_t left = first_core_[static_cast<size_t>(child)];
        first_core_[node] = left >= 0 ? left : first_core_[static_cast<size_t>(child) + 1];
      }
    }
  }

  // 2. Components of core points. The union-find is lock-free, and a union that two threads both make is harmless.
  void unite_cores() {
    joined_.assign(tree_.nodes().size(), 0);
    each_leaf([&](int64_t leaf) {
      if (core_[static_cast<size_t>(leaf)] != 0) unite(leaf);
    });
  }

  // 3. Labels: core points by their component, border points by the rule.
  int64_t label(Border border, View<int64_t, 1> labels, View<uint8_t, 1> core) {
    std::vector<int32_t> cores;  // positions
    for (int64_t leaf = 0; leaf < tree_.leaves(); ++leaf)
      for_bits(core_[static_cast<size_t>(leaf)],
               [&](int l) { cores.push_back(static_cast<int32_t>(leaf * kPoints + l)); });
    std::vector<int32_t> number;
    const int64_t clusters = number_components(
        sets_, static_cast<int64_t>(cores.size()), [&](int64_t i) { return cores[static_cast<size_t>(i)]; },
        [&](int64_t i) { return tree_.row(cores[static_cast<size_t>(i)]); }, number);
    // The plain find may be used again: all unions are made, and one thread numbers the components.
    cluster_.assign(static_cast<size_t>(tree_.size()), -1);
    for (int32_t p : cores) cluster_[static_cast<size_t>(p)] = number[static_cast<size_t>(sets_.find(p))];
    if (border == Border::first) lowest_clusters();
    each_leaf([&](int64_t leaf) {
      std::array<int32_t, kPoints> mine;
      const int64_t m = tree_.points_in(leaf);
      for (int64_t l = 0; l < m; ++l) mine[static_cast<size_t>(l)] = cluster_[static_cast<size_t>(leaf * kPoints + l)];
      const uint32_t others = lanes(m) & ~core_[static_cast<size_t>(leaf)];
      if (others != 0 && clusters > 0) {
        if (border == Border::first) attach_first(leaf, others, mine);
        if (border == Border::closest) attach_closest(leaf, others, mine);
      }
      for (int64_t l = 0; l < m; ++l) {
        const int64_t row = tree_.row(leaf * kPoints + l);
        labels(row) = mine[static_cast<size_t>(l)];
        core(row) = static_cast<uint8_t>(core_[static_cast<size_t>(leaf)] >> l & 1);
      }
    });
    return clusters;
  }

  Tally tally;

 private:
  // A shift by 32 is undefined, hence the case.
  static uint32_t lanes(int64_t m) { return m >= 32 ? ~uint32_t{0} : (uint32_t{1} << m) - 1; }

  template <class F>
  void each_leaf(F&& body) {
    for_chunks(tree_.leaves(), kLeavesAtOnce, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t leaf = begin; leaf < end; ++leaf) {
        run_.poll();
        body(leaf);
      }
    });
  }

  // tree_.traverse around a leaf.
  // The box of the leaf stands for its 32 points: what holds for the box holds for each (docs/numerics/index.md, X1).
  template <class Skip, class Whole, class Leaf>
  void traverse(int64_t leaf, Skip&& skip, Whole&& whole, Leaf&& at_leaf) const {
    const double* const box = tree_.box(tree_.leaf_node(leaf));
    tree_.traverse(box, box + tree_.dims(), leaf, within_, skip, whole, at_leaf);
  }

  // bits[t]: the lanes of `leaf` within ε of point t of `other`.
  void bits_of(int64_t leaf, int64_t other, uint32_t* bits) {
    int64_t rechecks = 0;
    const double* raw = tree_.metric().has_band() ? tree_.raw(leaf * kPoints) : nullptr;
    tree_.within_bits(tree_.tile(leaf), tree_.points_in(leaf), raw, other, within_, bits, rechecks);
    tally.distances.fetch_add(tree_.points_in(leaf) * tree_.points_in(other), std::memory_order_relaxed);
    if (rechecks != 0) tally.rechecks.fetch_add(rechecks, std::memory_order_relaxed);
  }

  // Counts the neighbours of a leaf's points until all have enough: counts only grow, so the traversal may stop there.
  void count(int64_t leaf) {
    const int64_t m = tree_.points_in(leaf);
    std::array<int64_t, kPoints> counts{};
    const auto enough = [&] {
      for (int64_t l = 0; l < m; ++l)
        if (static_cast<double>(counts[static_cast<size_t>(l)]) < min_samples_) return false;
      return true;
    };
    traverse(
        leaf, [](int32_t, double) { return false; },
        [&](int32_t node) {
          const auto& box = tree_.nodes()[static_cast<size_t>(node)];
          // Lanes past the last point are counted too, and never read.
          for (auto& c : counts) c += tree_.end(box) - tree_.begin(box);
          return enough();
        },
        [&](int64_t other) {
          // Without a band the kernel counts by itself; with one, pairs inside the band are decided one by one.
          if (!tree_.metric().has_band()) {
            kernels().index.count[within_.reduction](tree_.tile(leaf), tree_.tile(other), tree_.dims(),
                                                     tree_.points_in(other), within_.scale, within_.inside,
                                                     counts.data());
            tally.distances.fetch_add(m * tree_.points_in(other), std::memory_order_relaxed);
          } else {
            uint32_t bits[kPoints];
            bits_of(leaf, other, bits);
            for (int64_t t = 0; t < tree_.points_in(other); ++t)
              for_bits(bits[t], [&](int l) { ++counts[static_cast<size_t>(l)]; });
          }
          return enough();
        });
    uint32_t bits = 0;
    for (int64_t l = 0; l < m; ++l)
      if (static_cast<double>(counts[static_cast<size_t>(l)]) >= min_samples_) bits |= uint32_t{1} << l;
    core_[static_cast<size_t>(leaf)] = bits;
  }

  double weight(int64_t position) const { return weights_.of_row(tree_.row(position)); }

  // The float64 sum of the weights of every node, children first. Any order of additions obeys |sum − exact| ≤ slack.
  void weigh_nodes() {
    node_weight_.assign(tree_.nodes().size(), 0.0);
    for (size_t node = node_weight_.size(); node-- > 0;) {
      const auto& box = tree_.nodes()[node];
      if (box.child >= 0) {
        const auto child = static_cast<size_t>(box.child);
        node_weight_[node] = node_weight_[child] + node_weight_[child + 1];
      } else {
        for (int64_t p = tree_.begin(box); p < tree_.end(box); ++p) node_weight_[node] += weight(p);
      }
    }
  }

  // As count, with weights. Sums of weights ≥ 0 only grow: once sum − min_samples > slack the exact sum suffices, and
  // the traversal may stop. At the end |sum − min_samples| ≤ slack is decided by the exact sum.
  void weigh(int64_t leaf) {
    const int64_t m = tree_.points_in(leaf);
    std::array<double, kPoints> sums{};
    // With weights of both signs a sum may fall again, so nothing is decided before the end (docs/numerics/index.md,
    // X8).
    const auto enough = [&] {
      if (!weights_.nonnegative) return false;  // a later weight may lower the sum
      for (int64_t l = 0; l < m; ++l)
        if (!(sums[static_cast<size_t>(l)] - min_samples_ > weights_.slack)) return false;
      return true;
    };
    traverse(
        leaf, [](int32_t, double) { return false; },
        [&](int32_t node) {
          for (auto& s : sums) s += node_weight_[static_cast<size_t>(node)];
          return enough();
        },
        [&](int64_t other) {
          uint32_t bits[kPoints];
          bits_of(leaf, other, bits);
          for (int64_t t = 0; t < tree_.points_in(other); ++t) {
            const double w = weight(other * kPoints + t);
            for_bits(bits[t], [&](int l) { sums[static_cast<size_t>(l)] += w; });
          }
          return enough();
        });
    // slack = 0: float64 sums of these weights are exact, so the comparison is.
    uint32_t bits = 0;
    for (int64_t l = 0; l < m; ++l) {
      const double over = sums[static_cast<size_t>(l)] - min_samples_;
      const bool is_core = weights_.slack == 0      ? over >= 0
                           : over > weights_.slack  ? true
                           : over < -weights_.slack ? false
                                                    : exact_weight_suffices(leaf, static_cast<int>(l));
      if (is_core) bits |= uint32_t{1} << l;
    }
    core_[static_cast<size_t>(leaf)] = bits;
  }

  // Σ w ≥ min_samples by the exact sum, rounded once, for one point whose float64 sum is within the slack.
  bool exact_weight_suffices(int64_t leaf, int lane) {
    ExactSum sum;
    traverse(
        leaf, [](int32_t, double) { return false; },
        [&](int32_t node) {
          const auto& box = tree_.nodes()[static_cast<size_t>(node)];
          // Term by term: a node's float64 sum is rounded, and the exact sum must not be.
          for (int64_t p = tree_.begin(box); p < tree_.end(box); ++p) sum.add(weight(p));
          return false;
        },
        [&](int64_t other) {
          uint32_t bits[kPoints];
          bits_of(leaf, other, bits);
          for (int64_t t = 0; t < tree_.points_in(other); ++t)
            if ((bits[t] >> lane & 1) != 0) sum.add(weight(other * kPoints + t));
          return false;
        });
    return sum.round() >= min_samples_;
  }

  int32_t first_core(int32_t node) const { return first_core_[static_cast<size_t>(node)]; }

  // Whether the core points of a node are known to be one component. Unions never split a set, so true stays true, and
  // a relaxed flag may be cached and read late. An inner node reads only the flags of its children: false may be too
  // cautious, never wrong.
  // docs/numerics/concurrency.md, T7.
  bool joined(int32_t node) {
    std::atomic_ref<uint8_t> known(joined_[static_cast<size_t>(node)]);
    if (known.load(std::memory_order_relaxed) != 0) return true;
    const auto& box = tree_.nodes()[static_cast<size_t>(node)];
    bool one = true;
    if (box.child < 0) {
      const int32_t first = first_core(node);
      for_bits(core_[static_cast<size_t>(box.begin)],
               [&](int l) { one = one && sets_.same_shared(first, box.begin * kPoints + l); });
    } else {
      const int32_t left = box.child, right = left + 1;
      const auto known_child = [&](int32_t child) {
        return first_core(child) < 0 ||
               std::atomic_ref<uint8_t>(joined_[static_cast<size_t>(child)]).load(std::memory_order_relaxed) != 0;
      };
      one = known_child(left) && known_child(right) &&
            (first_core(left) < 0 || first_core(right) < 0 || sets_.same_shared(first_core(left), first_core(right)));
    }
    if (one) known.store(1, std::memory_order_relaxed);
    return one;
  }

  // Joins all core points of a node with one core point that is within ε of each of them.
  // Every pair is within ε, so the unions are right even where another thread has made some of them.
  void join_all(int32_t node, int32_t with) {
    if (!joined(node)) {
      const auto& box = tree_.nodes()[static_cast<size_t>(node)];
      for (int32_t leaf = box.begin; leaf < box.end; ++leaf)
        for_bits(core_[static_cast<size_t>(leaf)], [&](int l) { sets_.unite_shared(with, leaf * kPoints + l); });
      std::atomic_ref<uint8_t>(joined_[static_cast<size_t>(node)]).store(1, std::memory_order_relaxed);
    } else {
      sets_.unite_shared(with, first_core(node));
    }
  }

  // Unites a leaf's core points with those of later leaves (the relation is symmetric) and of its own. Skips nodes
  // without core points, and nodes whose core points are one component with the leaf's already. If a node is within ε
  // as a whole, every pair of its core points and the leaf's is joined through `first`.
  void unite(int64_t leaf) {
    const int32_t home = tree_.leaf_node(leaf), first = first_core(home);
    const uint32_t mine = core_[static_cast<size_t>(leaf)];
    traverse(
        leaf,
        [&](int32_t node, double) {
          // Nodes that end before this leaf have visited it already: the relation is symmetric.
          return first_core(node) < 0 || tree_.nodes()[static_cast<size_t>(node)].end <= leaf ||
                 (joined(home) && joined(node) && sets_.same_shared(first, first_core(node)));
        },
        // All pairs are within ε, so both sides are one component, and `first` is within ε of each.
        [&](int32_t node) {
          join_all(home, first);
          join_all(node, first);
          return false;
        },
        [&](int64_t other) {
          uint32_t bits[kPoints];
          bits_of(leaf, other, bits);
          // Read once: it can only become true, and then one union per point would have been enough.
          const bool one = joined(home);
          for_bits(core_[static_cast<size_t>(other)], [&](int t) {
            // Lanes that are one component need one union for all.
            uint32_t close = bits[t] & mine;
            if (one && close != 0) close = uint32_t{1} << std::countr_zero(close);
            for_bits(close, [&](int l) {
              sets_.unite_shared(static_cast<int32_t>(leaf * kPoints) + l, static_cast<int32_t>(other * kPoints) + t);
            });
          });
          return false;
        });
  }

  // Per node, the lowest number of a cluster with a core point in it.
  void lowest_clusters() {
    constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
    lowest_.assign(tree_.nodes().size(), kNone);
    for (size_t node = lowest_.size(); node-- > 0;) {
      const auto& box = tree_.nodes()[node];
      if (box.child >= 0) {
        const auto child = static_cast<size_t>(box.child);
        lowest_[node] = std::min(lowest_[child], lowest_[child + 1]);
      } else {
        for (int64_t p = tree_.begin(box); p < tree_.end(box); ++p)
          if (cluster_[static_cast<size_t>(p)] >= 0)
            lowest_[node] = std::min(lowest_[node], cluster_[static_cast<size_t>(p)]);
      }
    }
  }

  // mine[l] = the lowest cluster with a core point within ε of lane l. A node whose lowest cluster is not below the
  // worst answer so far cannot lower any.
  void attach_first(int64_t leaf, uint32_t others, std::array<int32_t, kPoints>& mine) {
    constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
    for_bits(others, [&](int l) { mine[static_cast<size_t>(l)] = kNone; });
    traverse(
        leaf,
        [&](int32_t node, double) {
          // Any lane that could still get a lower number keeps the node.
          int32_t worst = -1;  // the highest number that could still fall
          for_bits(others, [&](int l) { worst = std::max(worst, mine[static_cast<size_t>(l)]); });
          return lowest_[static_cast<size_t>(node)] >= worst;
        },
        [&](int32_t node) {
          for_bits(others, [&](int l) {
            auto& now = mine[static_cast<size_t>(l)];
            now = std::min(now, lowest_[static_cast<size_t>(node)]);
          });
          return false;
        },
        [&](int64_t other) {
          uint32_t bits[kPoints];
          bits_of(leaf, other, bits);
          for_bits(core_[static_cast<size_t>(other)], [&](int t) {
            const int32_t cluster = cluster_[static_cast<size_t>(other * kPoints + t)];
            for_bits(bits[t] & others, [&](int l) {
              auto& now = mine[static_cast<size_t>(l)];
              now = std::min(now, cluster);
            });
          });
          return false;
        });
    for_bits(others, [&](int l) {
      if (mine[static_cast<size_t>(l)] == kNone) mine[static_cast<size_t>(l)] = -1;
    });
  }

  // mine[l] = the cluster of the closest core point of lane l, ties to the smallest coordinates. `best` holds reduced
  // distances, or distances where there is a band; without one a node with `near` above the worst of them cannot
  // improve any.
  void attach_closest(int64_t leaf, uint32_t others, std::array<int32_t, kPoints>& mine) {
    const Metric& metric = tree_.metric();
    std::array<double, kPoints> best;
    std::array<int64_t, kPoints> at;
    // Reduced distances up to `outside`, or distances up to ε: no farther point is a neighbour.
    best.fill(metric.has_band() ? within_.radius : within_.outside);
    at.fill(-1);
    // Keys are compared as computed; equal keys are ties, which coordinates decide, so that the order of rows does not.
    const auto compare_leaf = [&](int64_t other) {
      double distances[kPoints * kPoints];
      tree_.reduced_tile(tree_.tile(leaf), other, within_, distances);
      tally.distances.fetch_add(tree_.points_in(leaf) * tree_.points_in(other), std::memory_order_relaxed);
      for_bits(core_[static_cast<size_t>(other)], [&](int t) {
        for_bits(others, [&](int l) {
          const auto lane = static_cast<size_t>(l);
          double key = distances[t * kPoints + l];
          // Beyond the radius by the bound; within the band the metric decides below.
          if (key > within_.outside) return;
          const int64_t candidate = other * kPoints + t;
          if (metric.has_band()) {
            key = metric.distance(tree_.raw(leaf * kPoints + l), tree_.raw(candidate));
            tally.rechecks.fetch_add(1, std::memory_order_relaxed);
          }
          if (key > best[lane] || (key == best[lane] && at[lane] >= 0 && tree_.compare(candidate, at[lane]) >= 0))
            return;
          best[lane] = key;
          at[lane] = candidate;
        });
      });
    };
    traverse(
        leaf,
        [&](int32_t node, double near) {
          if (first_core(node) < 0) return true;
          // `near` bounds reduced distances; with a band a key need not be in their order, or is the distance itself.
          if (metric.has_band()) return false;
          double worst = 0;
          for_bits(others, [&](int l) { worst = std::max(worst, best[static_cast<size_t>(l)]); });
          return near > worst;
        },
        [&](int32_t node) {  // all are within ε: every leaf is a candidate
          const auto& box = tree_.nodes()[static_cast<size_t>(node)];
          for (int64_t other = box.begin; other < box.end; ++other)
            if (core_[static_cast<size_t>(other)] != 0) compare_leaf(other);
          return false;
        },
        [&](int64_t other) {
          compare_leaf(other);
          return false;
        });
    for_bits(others, [&](int l) {
      const int64_t closest = at[static_cast<size_t>(l)];
      if (closest >= 0) mine[static_cast<size_t>(l)] = cluster_[static_cast<size_t>(closest)];
    });
  }

  const KdTree& tree_;
  const Within within_;
  const Weights& weights_;
  const double min_samples_;
  const Run run_;
  std::vector<uint32_t> core_;       // (leaves) one bit a lane
  std::vector<int32_t> first_core_;  // (nodes) position of the first core point; −1: none
  std::vector<double> node_weight_;  // (nodes)
  std::vector<uint8_t> joined_;      // (nodes) known to be one component
  std::vector<int32_t> cluster_;     // (n) of core points, by position
  std::vector<int32_t> lowest_;      // (nodes)
  UnionFind<int32_t> sets_;          // of positions
};

}  // namespace

template <class T>
DbscanReport dbscan_tree(View<const T, 2> x, double eps, double min_samples, View<const double, 1> weights,
                         const Metric& metric, Border border, View<int64_t, 1> labels, View<uint8_t, 1> core, Run run) {
  const KdTree tree(x, metric, run);
  const Weights row_weights(weights);
  TreeDbscan work(tree, metric.within(eps, tree.largest()), row_weights, min_samples, run);
  work.find_cores();
  work.unite_cores();
  DbscanReport report;
  report.backend = "tree";
  report.clusters = work.label(border, labels, core);
  report.distances = work.tally.distances;
  report.rechecks = work.tally.rechecks;
  return report;
}

template DbscanReport dbscan_tree(View<const double, 2>, double, double, View<const double, 1>, const Metric&, Border,
                                  View<int64_t, 1>, View<uint8_t, 1>, Run);
template DbscanReport dbscan_tree(View<const float, 2>, double, double, View<const double, 1>, const Metric&, Border,
                                  View<int64_t, 1>, View<uint8_t, 1>, Run);

}  // namespace knoll
