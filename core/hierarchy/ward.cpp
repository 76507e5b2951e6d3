// Ward's clustering: rounds of searches and merges over a kd-tree of the means.
#include "hierarchy/ward.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "common/parallel.hpp"
#include "hierarchy/mean_index.hpp"
#include "hierarchy/merges.hpp"
#include "tree/search.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSearchesAtOnce = 16;

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
    std::vector<NearList> found(pending_.size());
    for_chunks(static_cast<int64_t>(pending_.size()), kSearchesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run.poll();
        const int32_t slot = pending_[static_cast<size_t>(i)], other = other_[static_cast<size_t>(slot)];
        NearList& near = found[static_cast<size_t>(i)];
        near.beyond = other < 0 ? beyond_[static_cast<size_t>(slot)] : joint_bound(slot, other);
        take_over(slot, slot, near);
        if (other >= 0) take_over(slot, other, near);
        if (near.is_certain()) continue;
        searches.fetch_add(1, std::memory_order_relaxed);
        index_.search(slot, near);
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
      index_.unite(a, b);
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
