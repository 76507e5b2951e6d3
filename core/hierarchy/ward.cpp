// Ward's clustering: rounds of searches and merges over a kd-tree of the means.
#include "hierarchy/ward.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "common/aligned.hpp"
#include "common/parallel.hpp"
#include "common/scratch_pool.hpp"
#include "hierarchy/merges.hpp"
#include "neighbors/bits.hpp"
#include "neighbors/kd_tree.hpp"
#include "tree/search.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();
constexpr int64_t kSearchesAtOnce = 16;
constexpr int kNear = 6;  // clusters that a search finds
// Clusters outside of the tree before it is built again: a search compares with all of them.
constexpr int64_t kMostFresh = 1024;

// The clusters that exist now, by slots 0 … n − 1; a merged cluster takes the slot of one of its two.
struct Clusters {
  int64_t n, d;
  AlignedVector<double> mean;    // (n, d)
  std::vector<double> weight;    // (n)
  std::vector<double> inverse;   // (n) 1/weight
  std::vector<int32_t> id;       // (n) the number of the cluster in a slot, −1: none
  std::vector<int32_t> nearest;  // (n) slot
  std::vector<double> cost;      // (n) ΔJ with it

  const double* mean_of(int64_t slot) const { return mean.data() + slot * d; }
  bool alive(int32_t slot, int32_t number) const { return id[static_cast<size_t>(slot)] == number; }
};

// Slots by the slot that is nearest to them, so that those of a merged cluster are found without a search.
class Followers {
 public:
  explicit Followers(int64_t n) : head_(static_cast<size_t>(n), -1), next_(static_cast<size_t>(n), -1) {}

  void clear() { std::fill(head_.begin(), head_.end(), -1); }
  void add(int32_t slot, int32_t nearest) {
    next_[static_cast<size_t>(slot)] = head_[static_cast<size_t>(nearest)];
    head_[static_cast<size_t>(nearest)] = slot;
  }
  // each(slot) for those of `nearest`, which has none afterwards.
  template <class Each>
  void take(int32_t nearest, Each&& each) {
    for (int32_t slot = head_[static_cast<size_t>(nearest)]; slot >= 0; slot = next_[static_cast<size_t>(slot)])
      each(slot);
    head_[static_cast<size_t>(nearest)] = -1;
  }

 private:
  std::vector<int32_t> head_, next_;  // (n)
};

// The kNear clusters of least cost with one, ascending by cost and then by number.
//
// All other clusters cost at least `beyond`, and so does whatever they merge into: the cost of a merged cluster is
// never below the lesser of its children's. So after merges the nearest cluster is found among what the listed ones
// have become, as long as that costs less.
struct NearList {
  struct Entry {
    double cost;
    int32_t slot, id;
    bool operator<(const Entry& other) const { return cost < other.cost || (cost == other.cost && id < other.id); }
  };
  Entry entries[kNear];
  int count = 0;
  double beyond = kInfinity;

  double limit() const { return count < kNear ? kInfinity : entries[kNear - 1].cost; }
  bool has(int32_t slot) const {
    return std::any_of(entries, entries + count, [=](const Entry& entry) { return entry.slot == slot; });
  }
  // Each slot at most once: the caller sees to it. What does not fit lowers `beyond`.
  void offer(const Entry& entry) {
    int at = count;
    if (count < kNear)
      ++count;
    else if (entry < entries[--at])
      beyond = std::min(beyond, entries[at].cost);
    else
      at = kNear, beyond = std::min(beyond, entry.cost);
    for (; at > 0 && at < kNear && entry < entries[at - 1]; --at) entries[at] = entries[at - 1];
    if (at < kNear) entries[at] = entry;
  }
  // Rounding is far below this share of the cost (docs/numerics/hierarchy.md, H3).
  bool is_certain() const { return count > 0 && entries[0].cost < beyond * (1 - 0x1p-30); }
};

// The index of the means: a kd-tree, and clusters that were made after it, in column tiles of their own. A position is
// one of the tree, or behind them one of a fresh cluster; positions whose cluster is gone stay, and are passed over.
class MeanIndex {
 public:
  MeanIndex(const Clusters& clusters, Run run) : clusters_(clusters) { build(run); }

  void add(int32_t slot) {
    const int64_t lane = fresh_ % kPoints, d = clusters_.d;
    if (lane == 0) {
      tiles_.resize(tiles_.size() + static_cast<size_t>(d * kPoints), kInfinity);
      most_inverse_.push_back(0);
    }
    double* const tile = tiles_.data() + fresh_ / kPoints * d * kPoints;
    for (int64_t j = 0; j < d; ++j) tile[j * kPoints + lane] = clusters_.mean_of(slot)[j];
    most_inverse_.back() = std::max(most_inverse_.back(), clusters_.inverse[static_cast<size_t>(slot)]);
    insert(slot);
    ++fresh_;
  }

  // Sorts slots by where the tree has, or last had, their clusters: searches of neighbours one after the other find the
  // leaves that they read in the cache. No answer depends on the order.
  void arrange(std::vector<int32_t>& slots) const {
    std::sort(slots.begin(), slots.end(), [&](int32_t a, int32_t b) {
      return position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)];
    });
  }

  void refresh(int64_t alive, Run run) {
    if (fresh_ > std::clamp<int64_t>(alive / 8, kPoints, kMostFresh)) build(run);
  }

  // Completes the list of a slot: the clusters in it are some of those that exist.
  void search(int32_t slot, NearList& near, double* query) const {
    const double* const mean = clusters_.mean_of(slot);
    const double own = clusters_.inverse[static_cast<size_t>(slot)];
    for (int64_t j = 0; j < clusters_.d; ++j) query[j * kPoints] = mean[j];
    const auto in_tile = [&](const double* tile, int64_t first, double most) {
      scan(slot, own, query, tile, first, most, near);
    };
    traverse(mean, own, near, in_tile);
    for (int64_t tile = 0; tile * kPoints < fresh_; ++tile)
      in_tile(tiles_.data() + tile * clusters_.d * kPoints, in_tree_ + tile * kPoints,
              most_inverse_[static_cast<size_t>(tile)]);
    near.beyond = near.limit();
  }

 private:
  void insert(int32_t slot) {
    slots_.push_back(slot);
    ids_.push_back(clusters_.id[static_cast<size_t>(slot)]);
    inverse_.push_back(clusters_.inverse[static_cast<size_t>(slot)]);
  }

  void build(Run run) {
    std::vector<int32_t> slots;
    for (int64_t slot = 0; slot < clusters_.n; ++slot)
      if (clusters_.id[static_cast<size_t>(slot)] >= 0) slots.push_back(static_cast<int32_t>(slot));
    const int64_t m = static_cast<int64_t>(slots.size()), d = clusters_.d;
    AlignedVector<double> means(static_cast<size_t>(m * d));
    for (int64_t i = 0; i < m; ++i)
      std::copy_n(clusters_.mean_of(slots[static_cast<size_t>(i)]), d, means.data() + i * d);
    tree_.reset();
    tree_ = std::make_unique<KdTree>(View<const double, 2>(matrix_view(means.data(), m, d)),
                                     Metric(MetricName::euclidean, 2, d), run);
    slots_.clear(), ids_.clear(), inverse_.clear(), tiles_.clear(), most_inverse_.clear();
    fresh_ = 0;
    position_.resize(static_cast<size_t>(clusters_.n));
    for (int64_t p = 0; p < m; ++p) {
      const int32_t slot = slots[static_cast<size_t>(tree_->row(p))];
      position_[static_cast<size_t>(slot)] = static_cast<int32_t>(p);
      insert(slot);
    }
    // Past the last leaf's points: no cluster.
    in_tree_ = tree_->leaves() * kPoints;
    slots_.resize(static_cast<size_t>(in_tree_), -1), ids_.resize(static_cast<size_t>(in_tree_), -2);
    inverse_.resize(static_cast<size_t>(in_tree_), 0.0);
    node_inverse_.assign(tree_->nodes().size(), 0.0);
    for (size_t node = tree_->nodes().size(); node-- > 0;) {  // children come after their parents
      const auto& [begin, end, child, parent] = tree_->nodes()[node];
      if (child < 0)
        node_inverse_[node] = *std::max_element(inverse_.begin() + begin * kPoints, inverse_.begin() + end * kPoints);
      else
        node_inverse_[node] =
            std::max(node_inverse_[static_cast<size_t>(child)], node_inverse_[static_cast<size_t>(child) + 1]);
    }
  }

  // Computed costs of a node's clusters are at least the box's squared distance over the largest sum of inverses: every
  // operation is monotone under rounding (docs/numerics/hierarchy.md, H1).
  double least_cost(const double* mean, double own, int32_t node) const {
    return tree_->nearest(mean, mean, node, anywhere_) / (own + node_inverse_[static_cast<size_t>(node)]);
  }

  // The leaves that may have a cluster for the list, the nearest first.
  template <class InTile>
  void traverse(const double* mean, double own, const NearList& near, InTile&& in_tile) const {
    struct Open {
      int32_t node;
      double cost;
    } stack[80];  // at most one waiting sibling per level, and there are at most 32
    int top = 0;
    stack[top++] = {0, 0.0};
    while (top > 0) {
      const auto [index, cost] = stack[--top];
      if (cost > near.limit()) continue;
      const auto& node = tree_->nodes()[static_cast<size_t>(index)];
      if (node.child < 0) {
        in_tile(tree_->tile(node.begin), int64_t{node.begin} * kPoints, node_inverse_[static_cast<size_t>(index)]);
        continue;
      }
      const Open left{node.child, least_cost(mean, own, node.child)};
      const Open right{node.child + 1, least_cost(mean, own, node.child + 1)};
      stack[top++] = left.cost <= right.cost ? right : left;
      stack[top++] = left.cost <= right.cost ? left : right;
    }
  }

  // The clusters of one tile. A cost ≤ limit needs ‖μ − μ'‖² ≤ limit·(1/|A| + 1/|B|)·(1 + 2u) with the largest 1/|B| of
  // the tile; only then the quotient is computed.
  void scan(int32_t slot, double own, const double* query, const double* tile, int64_t first, double most,
            NearList& near) const {
    alignas(32) double limits[kPoints], square[kPoints];
    uint32_t below = 0;
    std::fill_n(limits, kPoints, near.limit() * (own + most) * (1 + 8 * kUlp) + std::numeric_limits<double>::min());
    kernels().index.below[kSumSquares](tile, query, clusters_.d, 1, 1.0, limits, square, &below);
    for_bits(below, [&](int lane) {
      const auto p = static_cast<size_t>(first + lane);
      if (slots_[p] == slot || slots_[p] < 0 || !clusters_.alive(slots_[p], ids_[p])) return;
      const NearList::Entry entry{square[lane] / (own + inverse_[p]), slots_[p], ids_[p]};
      if (entry.cost <= near.limit() && !near.has(entry.slot)) near.offer(entry);
    });
  }

  const Clusters& clusters_;
  Within anywhere_{.radius = kInfinity, .inside = kInfinity, .outside = kInfinity};
  std::unique_ptr<KdTree> tree_;
  int64_t in_tree_ = 0, fresh_ = 0;
  std::vector<double> node_inverse_;  // (nodes) the largest 1/weight
  std::vector<int32_t> position_;     // (n) of a slot when the tree was built
  std::vector<int32_t> slots_, ids_;  // (positions)
  std::vector<double> inverse_;       // (positions)
  AlignedVector<double> tiles_;       // fresh clusters, (tiles, d, kPoints)
  std::vector<double> most_inverse_;  // (tiles)
};

template <class T>
Clusters rows_as_clusters(View<const T, 2> x, View<const double, 1> weights) {
  const int64_t n = x.shape[0], d = x.shape[1];
  const auto rows = static_cast<size_t>(n);
  Clusters c{n, d, {}, {}, {}, {}, {}, {}};
  c.mean.resize(static_cast<size_t>(n * d));
  c.weight.assign(rows, 1.0), c.inverse.assign(rows, 1.0);
  c.id.resize(rows), c.nearest.assign(rows, -1), c.cost.assign(rows, kInfinity);
  std::iota(c.id.begin(), c.id.end(), 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) c.mean[static_cast<size_t>(i * d + j)] = static_cast<double>(x(i, j)) + 0.0;
    if (!weights.empty())
      c.weight[static_cast<size_t>(i)] = weights(i), c.inverse[static_cast<size_t>(i)] = 1 / weights(i);
  }
  return c;
}

bool is_heavier(const Clusters& c, size_t a, size_t b) {
  return c.weight[a] > c.weight[b] || (c.weight[a] == c.weight[b] && c.id[a] < c.id[b]);
}

// Puts the union of the clusters in slots a, the heavier one's, and b into slot a. The mean moves by a share of the
// difference, so two equal means give that mean.
void unite(Clusters& c, size_t a, size_t b, int32_t id) {
  const double weight = c.weight[a] + c.weight[b], share = c.weight[b] / weight;
  double* const mean = c.mean.data() + static_cast<int64_t>(a) * c.d;
  const double* const to = c.mean_of(static_cast<int64_t>(b));
  for (int64_t j = 0; j < c.d; ++j) mean[j] += share * (to[j] - mean[j]);
  c.weight[a] = weight, c.inverse[a] = 1 / weight;
  c.id[a] = id, c.id[b] = -1;
}

class Ward {
 public:
  Ward(Clusters clusters, Run run) : clusters_(std::move(clusters)), followers_(clusters_.n), index_(clusters_, run) {
    pending_.resize(static_cast<size_t>(clusters_.n));
    std::iota(pending_.begin(), pending_.end(), 0);
    near_.resize(pending_.size() * kNear, -1);
    beyond_.assign(pending_.size(), -kInfinity);
    other_.assign(pending_.size(), -1);
    into_ = pending_;
    lightest_ = *std::min_element(clusters_.weight.begin(), clusters_.weight.end());
    if (std::all_of(clusters_.weight.begin(), clusters_.weight.end(), [&](double w) { return w == lightest_; }))
      list_nearest_rows(run);
  }

  WardReport run(std::vector<Merge>& merges, Run run) {
    WardReport report;
    while (static_cast<int64_t>(merges.size()) < clusters_.n - 1) {
      run.poll();
      ++report.rounds;
      report.searches += search(run);
      auto pairs = reciprocal();
      if (pairs.empty()) {
        // Rounding may make a merged cluster nearer by an ulp than what a cluster remembers. With all of them searched
        // anew the least pair is reciprocal, since costs and numbers order pairs strictly.
        start_again();
        continue;
      }
      merge(pairs, merges);
      index_.refresh(clusters_.n - static_cast<int64_t>(merges.size()), run);
    }
    return report;
  }

 private:
  double cost_of(int32_t slot, int32_t other) const {
    const double *u = clusters_.mean_of(slot), *v = clusters_.mean_of(other);
    double sum = 0;
    for (int64_t j = 0; j < clusters_.d; ++j) sum += (v[j] - u[j]) * (v[j] - u[j]);
    return sum / (clusters_.inverse[static_cast<size_t>(slot)] + clusters_.inverse[static_cast<size_t>(other)]);
  }

  // No other row costs less than the last of a list, unless squares have lost digits to underflow: no bound then.
  static double first_bound(double last) { return last > 0x1p-900 ? last : -kInfinity; }

  // The first lists, of rows of one weight: costs order like distances, so a search for leaves of rows at a time does.
  void list_nearest_rows(Run run) {
    const int64_t n = clusters_.n, count = std::min<int64_t>(kNear, n - 1);
    const auto search =
        ReachabilitySearch::make(View<const double, 2>(matrix_view(clusters_.mean.data(), n, clusters_.d)),
                                 Metric(MetricName::euclidean, 2, clusters_.d), "auto", run);
    std::vector<int32_t> near(static_cast<size_t>(n * count));
    std::vector<double> farthest(static_cast<size_t>(n));
    search->nearest(count, near.data(), farthest.data(), run);
    for_chunks(n, kSearchesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const auto row = static_cast<int32_t>(search->row(p));
        for (int64_t k = 0; k < count; ++k)
          near_[static_cast<size_t>(row * kNear + k)] =
              static_cast<int32_t>(search->row(near[static_cast<size_t>(p * count + k)]));
        const auto last = static_cast<int32_t>(search->row(near[static_cast<size_t>((p + 1) * count - 1)]));
        beyond_[static_cast<size_t>(row)] = count < n - 1 ? first_bound(cost_of(row, last)) : kInfinity;
      }
    });
  }

  // The slot of the cluster into which the one of a slot was merged.
  int32_t current(int32_t slot) const {
    while (into_[static_cast<size_t>(slot)] != slot) slot = into_[static_cast<size_t>(slot)];
    return slot;
  }

  // A bound on the costs of the union of A and B with the clusters C that neither has listed, from those of A and B. By
  //     ΔJ(A∪B, C) = ((a+c) ΔJ(A, C) + (b+c) ΔJ(B, C) − c ΔJ(A, B)) / (a+b+c),
  // which rises with c where ΔJ(A, B) is at most both others, as it is: C has at least the weight of the lightest row.
  double joint_bound(int32_t slot, int32_t other) const {
    const auto kept = static_cast<size_t>(slot), gone = static_cast<size_t>(other);
    const double b = clusters_.weight[gone], a = clusters_.weight[kept] - b, c = lightest_;
    const double sum = a + b + c;  // shares of it: a weight times a cost may leave float64
    return (a + c) / sum * beyond_[kept] + (b + c) / sum * beyond_[gone] - c / sum * clusters_.cost[gone];
  }

  // Adds what the listed clusters of `from` have become to the list of a slot.
  void take_over(int32_t slot, int32_t from, NearList& near) const {
    for (int k = 0; k < kNear; ++k) {
      const int32_t listed = near_[static_cast<size_t>(from) * kNear + static_cast<size_t>(k)];
      if (listed < 0) break;
      const int32_t now = current(listed);
      if (now != slot && !near.has(now)) near.offer({cost_of(slot, now), now, clusters_.id[static_cast<size_t>(now)]});
    }
  }

  // The nearest clusters of those that wait for one; returns how many were searched for in the index. Each depends on
  // the clusters alone, so threads do not matter.
  int64_t search(Run run) {
    std::atomic<int64_t> searches = 0;
    index_.arrange(pending_);
    ScratchPool<AlignedVector<double>> scratch(
        [&] { return std::make_unique<AlignedVector<double>>(static_cast<size_t>(clusters_.d * kPoints)); });
    std::vector<NearList> found(pending_.size());
    for_chunks(static_cast<int64_t>(pending_.size()), kSearchesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      ScratchPool<AlignedVector<double>>::Lease query(scratch);
      for (int64_t i = begin; i < end; ++i) {
        run.poll();
        const int32_t slot = pending_[static_cast<size_t>(i)], other = other_[static_cast<size_t>(slot)];
        NearList& near = found[static_cast<size_t>(i)];
        near.beyond = other < 0 ? beyond_[static_cast<size_t>(slot)] : joint_bound(slot, other);
        take_over(slot, slot, near);
        if (other >= 0) take_over(slot, other, near);
        if (near.is_certain()) continue;
        searches.fetch_add(1, std::memory_order_relaxed);
        index_.search(slot, near, query->data());
      }
    });
    for (size_t i = 0; i < pending_.size(); ++i) keep(pending_[i], found[i]);
    return searches;
  }

  void keep(int32_t slot, const NearList& near) {
    const auto at = static_cast<size_t>(slot);
    for (int k = 0; k < kNear; ++k)
      near_[at * kNear + static_cast<size_t>(k)] = k < near.count ? near.entries[k].slot : -1;
    beyond_[at] = near.beyond, other_[at] = -1;
    clusters_.nearest[at] = near.entries[0].slot, clusters_.cost[at] = near.entries[0].cost;
    followers_.add(slot, near.entries[0].slot);
  }

  // Pairs that are each other's nearest, by cost and then by number. One of each was among the searches: a pair that
  // existed before would have been merged.
  std::vector<std::pair<int32_t, int32_t>> reciprocal() const {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (const int32_t slot : pending_) {
      const int32_t other = clusters_.nearest[static_cast<size_t>(slot)];
      if (clusters_.nearest[static_cast<size_t>(other)] != slot) continue;
      // The union takes the slot of the heavier one, so that `current` takes few steps.
      const bool first = is_heavier(clusters_, static_cast<size_t>(slot), static_cast<size_t>(other));
      pairs.emplace_back(first ? slot : other, first ? other : slot);
    }
    const auto key = [&](const std::pair<int32_t, int32_t>& pair) {
      const auto a = static_cast<size_t>(pair.first), b = static_cast<size_t>(pair.second);
      return std::pair(clusters_.cost[a], std::min(clusters_.id[a], clusters_.id[b]));
    };
    std::sort(pairs.begin(), pairs.end(), [&](const auto& p, const auto& q) { return key(p) < key(q); });
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
  }

  void merge(const std::vector<std::pair<int32_t, int32_t>>& pairs, std::vector<Merge>& merges) {
    pending_.clear();
    for (const auto& [a, b] : pairs) {
      const auto first = static_cast<size_t>(a), second = static_cast<size_t>(b);
      const auto id = static_cast<int32_t>(clusters_.n + static_cast<int64_t>(merges.size()));
      merges.push_back({clusters_.cost[first], clusters_.id[first], clusters_.id[second]});
      for (const int32_t gone : {a, b})
        followers_.take(gone, [&, one = a, two = b](int32_t slot) {
          if (slot != one && slot != two) pending_.push_back(slot);
        });
      unite(clusters_, first, second, id);
      into_[second] = a, other_[first] = b;
    }
    for (const auto& [a, b] : pairs) {
      index_.add(a);
      pending_.push_back(a);
    }
  }

  void start_again() {
    pending_.clear();
    followers_.clear();
    for (int32_t slot = 0; slot < clusters_.n; ++slot)
      if (clusters_.id[static_cast<size_t>(slot)] >= 0) pending_.push_back(slot);
    for (const int32_t slot : pending_) beyond_[static_cast<size_t>(slot)] = -kInfinity;
  }

  Clusters clusters_;
  Followers followers_;
  MeanIndex index_;
  std::vector<int32_t> pending_;  // slots that wait for a search
  std::vector<int32_t> near_;     // (n, kNear) slots at the time of the search, −1: none
  std::vector<double> beyond_;    // (n) the least cost of any other cluster
  std::vector<int32_t> other_;    // (n) the slot whose cluster has just joined this one's, −1: none
  double lightest_ = 1;           // weight of a row
  std::vector<int32_t> into_;     // (n) the slot that a slot's cluster has moved to
};

}  // namespace

template <class T>
WardReport ward(View<const T, 2> x, View<const double, 1> weights, View<int64_t, 2> children, View<double, 1> rise,
                Run run) {
  const int64_t n = x.shape[0];
  std::vector<Merge> merges;
  WardReport report;
  if (n >= 2) {
    merges.reserve(static_cast<size_t>(n - 1));
    report = Ward(rows_as_clusters(x, weights), run).run(merges, run);
  }
  sort_merges(merges, n, children, rise);
  return report;
}

template WardReport ward(View<const double, 2>, View<const double, 1>, View<int64_t, 2>, View<double, 1>, Run);
template WardReport ward(View<const float, 2>, View<const double, 1>, View<int64_t, 2>, View<double, 1>, Run);

}  // namespace knoll
