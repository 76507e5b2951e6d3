// Average, complete and single linkage: rounds of merges in a triangle of distances that shrinks with the clusters.
#include "hierarchy/linkage.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "common/aligned.hpp"
#include "common/parallel.hpp"
#include "common/tile.hpp"
#include "hierarchy/merges.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kRowsAtOnce = 32, kPairsAtOnce = 16;

// How the distance of a merged cluster follows from those of its two, of weights v and w.
struct Average {
  // From the first by a share of the difference, so equal distances stay what they are.
  static double combine(double x, double y, double v, double w) { return x + w / (v + w) * (y - x); }
};
struct Complete {
  static double combine(double x, double y, double, double) { return std::max(x, y); }
};
struct Single {
  static double combine(double x, double y, double, double) { return std::min(x, y); }
};

template <class Rule>
class Triangle {
 public:
  Triangle(double* distances, View<const double, 1> weights, int64_t n)
      : distances_(distances),
        n_(n),
        m_(n),
        weight_(static_cast<size_t>(n), 1.0),
        id_(static_cast<size_t>(n)),
        nearest_(static_cast<size_t>(n), -1),
        cost_(static_cast<size_t>(n), kInfinity) {
    std::iota(id_.begin(), id_.end(), 0);
    pending_ = id_;
    if (!weights.empty())
      for (int64_t i = 0; i < n; ++i) weight_[static_cast<size_t>(i)] = weights(i);
  }

  void run(std::vector<Merge>& merges, Run run) {
    while (static_cast<int64_t>(merges.size()) < n_ - 1) {
      run.poll();
      search(run);
      const auto pairs = reciprocal();
      if (pairs.empty()) {  // by an ulp, as in hierarchy/ward.cpp
        pending_.clear();
        for (int32_t i = 0; i < m_; ++i)
          if (id_[static_cast<size_t>(i)] >= 0) pending_.push_back(i);
        continue;
      }
      merge(pairs, merges, run);
      if (8 * (n_ - static_cast<int64_t>(merges.size())) <= 5 * m_) shrink(run);
    }
  }

 private:
  double& at(int64_t i, int64_t j) { return i > j ? distances_[pair_count(i) + j] : distances_[pair_count(j) + i]; }

  // The nearest clusters of all slots in pending_, which ascends. Rows of the triangle are read one after the other:
  // row j has the distances of j to the slots before it, and one distance for each pending slot before it. So no column
  // is read at steps of a row, where each distance would be a line of memory of its own. Candidates are ordered by
  // (distance, number), a total order: the chunks may be merged in any order.
  void search(Run run) {
    std::vector<Candidate> best(pending_.size());
    std::mutex mutex;
    for_chunks(m_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      run.poll();
      std::vector<Candidate> own(pending_.size());
      for (int64_t j = begin; j < end; ++j)
        if (id_[static_cast<size_t>(j)] >= 0) offer_row(j, own);
      std::lock_guard lock(mutex);
      for (size_t s = 0; s < best.size(); ++s)
        if (own[s].slot >= 0) improve(best[s], own[s].distance, own[s].slot);
    });
    for (size_t s = 0; s < best.size(); ++s) {
      const auto slot = static_cast<size_t>(pending_[s]);
      nearest_[slot] = best[s].slot, cost_[slot] = best[s].distance;
    }
  }

  struct Candidate {
    double distance = kInfinity;
    int32_t slot = -1;
  };
  void improve(Candidate& best, double distance, int32_t slot) const {
    if (distance > best.distance || distance == kInfinity) return;
    if (distance < best.distance || id_[static_cast<size_t>(slot)] < id_[static_cast<size_t>(best.slot)])
      best = {distance, slot};
  }

  // Slots without a cluster are at an infinite distance.
  void offer_row(int64_t j, std::vector<Candidate>& best) const {
    const double* const row = distances_ + pair_count(j);
    size_t s = 0;
    for (; s < pending_.size() && pending_[s] < j; ++s)
      if (const double distance = row[pending_[s]]; distance <= best[s].distance)
        improve(best[s], distance, static_cast<int32_t>(j));
    if (s == pending_.size() || pending_[s] != j) return;
    const double least = least_of(row, j);
    for (int64_t i = 0; i < j && least < kInfinity; ++i)
      if (row[i] == least) improve(best[s], least, static_cast<int32_t>(i));
  }

  // The least of n numbers, in eight independent chains.
  static double least_of(const double* x, int64_t n) {
    double least[8];
    std::fill_n(least, 8, kInfinity);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) least[k] = x[i + k] < least[k] ? x[i + k] : least[k];
    for (; i < n; ++i) least[0] = std::min(least[0], x[i]);
    return *std::min_element(least, least + 8);
  }

  std::vector<std::pair<int32_t, int32_t>> reciprocal() const {
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (const int32_t slot : pending_) {
      const int32_t other = nearest_[static_cast<size_t>(slot)];
      if (nearest_[static_cast<size_t>(other)] == slot)
        pairs.emplace_back(std::min(slot, other), std::max(slot, other));
    }
    const auto key = [&](const std::pair<int32_t, int32_t>& pair) {
      const auto a = static_cast<size_t>(pair.first), b = static_cast<size_t>(pair.second);
      return std::pair(cost_[a], std::min(id_[a], id_[b]));
    };
    std::sort(pairs.begin(), pairs.end(), [&](const auto& p, const auto& q) { return key(p) < key(q); });
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
  }

  // A pair with the weights of its two, and its rank among the pairs of the round.
  struct Joined {
    int32_t a, b;  // slots, a < b
    int32_t rank;
    double v, w;
    double combine(double x, double y) const { return Rule::combine(x, y, v, w); }
  };

  // Pairs are independent: every distance is read and written for one pair and one cluster, or for two pairs, alone.
  // All loops run along rows of the triangle; what lies in a column (rows b of the pairs, at j) is read for one j after
  // the other, so that its lines of memory serve eight of them.
  void merge(const std::vector<std::pair<int32_t, int32_t>>& pairs, std::vector<Merge>& merges, Run run) {
    std::vector<int32_t> pair_of(static_cast<size_t>(m_), -1);
    std::vector<Joined> joined;  // by slot a
    for (size_t p = 0; p < pairs.size(); ++p) {
      const auto [a, b] = pairs[p];
      pair_of[static_cast<size_t>(a)] = pair_of[static_cast<size_t>(b)] = static_cast<int32_t>(p);
      joined.push_back(
          {a, b, static_cast<int32_t>(p), weight_[static_cast<size_t>(a)], weight_[static_cast<size_t>(b)]});
    }
    std::sort(joined.begin(), joined.end(), [](const Joined& p, const Joined& q) { return p.a < q.a; });
    std::vector<int32_t> singles;
    for (int32_t i = 0; i < m_; ++i)
      if (id_[static_cast<size_t>(i)] >= 0 && pair_of[static_cast<size_t>(i)] < 0) singles.push_back(i);
    const auto count = static_cast<int64_t>(joined.size());
    for_chunks(count, kPairsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      run.poll();
      for (int64_t p = begin; p < end; ++p) {
        join_row(joined[static_cast<size_t>(p)], singles);
        for (int64_t q = 0; q < p; ++q) join_pairs(joined[static_cast<size_t>(q)], joined[static_cast<size_t>(p)]);
      }
    });
    for_chunks(static_cast<int64_t>(singles.size()), kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      run.poll();
      for (int64_t s = begin; s < end; ++s) join_columns(joined, singles[static_cast<size_t>(s)]);
    });
    pending_.clear();
    for (int32_t i = 0; i < m_; ++i) {
      const int32_t pair = pair_of[static_cast<size_t>(i)];
      const bool alone = id_[static_cast<size_t>(i)] >= 0 && pair < 0;
      if ((pair >= 0 && pairs[static_cast<size_t>(pair)].first == i) ||
          (alone && pair_of[static_cast<size_t>(nearest_[static_cast<size_t>(i)])] >= 0))
        pending_.push_back(i);
    }
    for (const auto& [a, b] : pairs) {
      const auto kept = static_cast<size_t>(a), gone = static_cast<size_t>(b);
      merges.push_back({cost_[kept], id_[kept], id_[gone]});
      id_[kept] = static_cast<int32_t>(n_ + static_cast<int64_t>(merges.size()) - 1), id_[gone] = -1;
      weight_[kept] += weight_[gone];
    }
  }

  // A pair's distances to the single clusters before its first slot: two rows of the triangle.
  void join_row(const Joined& pair, const std::vector<int32_t>& singles) {
    double *const kept = distances_ + pair_count(pair.a), *const gone = distances_ + pair_count(pair.b);
    for (const int32_t j : singles) {
      if (j > pair.a) break;
      kept[j] = pair.combine(kept[j], gone[j]);
      gone[j] = kInfinity;
    }
    gone[pair.a] = kInfinity;
  }

  // The distances of a single cluster to the pairs whose first slots are before it: its row of the triangle, and where
  // it is between the two of a pair, an entry of the second one's row.
  void join_columns(const std::vector<Joined>& joined, int32_t j) {
    double* const row = distances_ + pair_count(j);
    for (const Joined& pair : joined) {
      if (pair.a > j) break;
      double& gone = pair.b < j ? row[pair.b] : distances_[pair_count(pair.b) + j];
      row[pair.a] = pair.combine(row[pair.a], gone);
      gone = kInfinity;
    }
  }

  // Two pairs, p.a < q.a. The one of lower rank is combined first.
  void join_pairs(const Joined& p, const Joined& q) {
    double &aa = at(q.a, p.a), &ab = at(q.b, p.a), &ba = at(q.a, p.b), &bb = at(q.b, p.b);
    aa = p.rank < q.rank ? q.combine(p.combine(aa, ba), p.combine(ab, bb))
                         : p.combine(q.combine(aa, ab), q.combine(ba, bb));
    ab = ba = bb = kInfinity;
  }

  // Moves the clusters together, in their order. Every distance moves towards the front, so rows are moved upward, and
  // one thread is enough: each distance is moved at most log n times in all.
  void shrink(Run run) {
    std::vector<int32_t> left, position(static_cast<size_t>(m_), -1);
    for (int32_t i = 0; i < m_; ++i)
      if (id_[static_cast<size_t>(i)] >= 0) {
        position[static_cast<size_t>(i)] = static_cast<int32_t>(left.size());
        left.push_back(i);
      }
    double* out = distances_;
    for (size_t i = 0; i < left.size(); ++i) {
      if (i % 64 == 0) run.poll();
      const double* const row = distances_ + pair_count(left[i]);
      for (size_t j = 0; j < i; ++j) *out++ = row[left[j]];
    }
    for (size_t i = 0; i < left.size(); ++i) {
      const auto from = static_cast<size_t>(left[i]);
      weight_[i] = weight_[from], id_[i] = id_[from], cost_[i] = cost_[from];
      nearest_[i] = nearest_[from] < 0 ? -1 : position[static_cast<size_t>(nearest_[from])];
    }
    for (int32_t& slot : pending_) slot = position[static_cast<size_t>(slot)];
    m_ = static_cast<int64_t>(left.size());
  }

  double* distances_;
  int64_t n_, m_;                 // rows; slots, of which some may be empty
  std::vector<double> weight_;    // (m)
  std::vector<int32_t> id_;       // (m) the number of the cluster in a slot, −1: none
  std::vector<int32_t> nearest_;  // (m) slot
  std::vector<double> cost_;      // (m) the distance to it
  std::vector<int32_t> pending_;  // slots that wait for a search
};

template <class Rule>
void link(double* distances, View<const double, 1> weights, std::vector<Merge>& merges, int64_t n, Run run) {
  Triangle<Rule>(distances, weights, n).run(merges, run);
}

}  // namespace

void link_matrix(double* distances, View<const double, 1> weights, Linkage linkage, View<int64_t, 2> children,
                 View<double, 1> heights, Run run) {
  const int64_t n = heights.shape[0] + 1;
  std::vector<Merge> merges;
  merges.reserve(static_cast<size_t>(n - 1));
  if (linkage == Linkage::average) link<Average>(distances, weights, merges, n, run);
  if (linkage == Linkage::complete) link<Complete>(distances, weights, merges, n, run);
  if (linkage == Linkage::single) link<Single>(distances, weights, merges, n, run);
  sort_merges(merges, n, children, heights);
}

// Panels of kPoints rows. The angles have no kernels: their formula is computed pair by pair.
template <class T>
void pair_distances(View<const T, 2> x, const Metric& metric, double* out, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], panels = chunk_count(n, kPoints);
  AlignedVector<double> tiles(static_cast<size_t>(panels * d * kPoints)), rows;
  const bool kernels_do = metric.direct() && metric.has_kernels();
  if (!kernels_do) rows.resize(static_cast<size_t>(n * d)), pack_rows(x, rows.data());
  Magnitudes magnitudes;
  for (int64_t panel = 0; panel < panels; ++panel) {
    const auto panel_rows = x.rows(panel * kPoints, std::min(n, (panel + 1) * kPoints));
    pack_columns(panel_rows, nullptr, tiles.data() + panel * d * kPoints);
    for (int64_t i = 0; i < d * kPoints; ++i) magnitudes.add(tiles[static_cast<size_t>(panel * d * kPoints + i)]);
  }
  const Within w = metric.anywhere(magnitudes);
  // Long panels first, so that threads end together.
  for_chunks(panels, 1, run, [&](int64_t, int64_t chunk, int64_t) {
    const int64_t panel = panels - 1 - chunk, first = panel * kPoints, lanes = std::min<int64_t>(kPoints, n - first);
    double block[kPoints * kPoints];
    for (int64_t other = 0; other <= panel; ++other) {
      run.poll();
      const int64_t begin = other * kPoints, count = std::min<int64_t>(kPoints, n - begin);
      // The lanes are the columns of the triangle, so that a row's distances are adjacent.
      if (kernels_do)
        kernels().index.tile[w.reduction](tiles.data() + other * d * kPoints, tiles.data() + panel * d * kPoints, d,
                                          lanes, w.scale, block);
      for (int64_t l = 0; l < lanes; ++l) {
        const int64_t i = first + l, length = std::min(count, i - begin);
        double* const row = out + pair_count(i) + begin;
        if (kernels_do)
          metric.distances(block + l * kPoints, length, w, row);
        else
          for (int64_t t = 0; t < length; ++t)
            row[t] = metric.distance(rows.data() + i * d, rows.data() + (begin + t) * d);
      }
    }
  });
}

template void pair_distances(View<const double, 2>, const Metric&, double*, Run);
template void pair_distances(View<const float, 2>, const Metric&, double*, Run);

}  // namespace knoll
