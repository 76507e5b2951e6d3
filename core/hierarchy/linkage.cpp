// Average, complete and single linkage: rounds of merges in a triangle of distances that shrinks with the clusters.
#include "hierarchy/linkage.hpp"

#include <algorithm>
#include <limits>
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
constexpr int64_t kRowsAtOnce = 8;

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
      if (8 * (n_ - static_cast<int64_t>(merges.size())) <= 7 * m_) shrink(run);
    }
  }

 private:
  double& at(int64_t i, int64_t j) { return i > j ? distances_[pair_count(i) + j] : distances_[pair_count(j) + i]; }

  // each(j, distance) for every other slot: along row i, then down column i.
  template <class Each>
  void for_row(int64_t i, Each&& each) {
    double* row = distances_ + pair_count(i);
    for (int64_t j = 0; j < i; ++j) each(j, row[j]);
    double* down = distances_ + pair_count(i + 1) + i;
    for (int64_t j = i + 1; j < m_; down += j, ++j) each(j, *down);
  }

  // Slots without a cluster are at an infinite distance.
  void search_one(int32_t slot) {
    double least = kInfinity;
    int32_t nearest = -1;
    for_row(slot, [&](int64_t j, double distance) {
      if (distance > least || distance == kInfinity) return;
      if (distance < least || id_[static_cast<size_t>(j)] < id_[static_cast<size_t>(nearest)])
        least = distance, nearest = static_cast<int32_t>(j);
    });
    nearest_[static_cast<size_t>(slot)] = nearest, cost_[static_cast<size_t>(slot)] = least;
  }

  void search(Run run) {
    for_chunks(static_cast<int64_t>(pending_.size()), kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run.poll();
        search_one(pending_[static_cast<size_t>(i)]);
      }
    });
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

  // Pairs are independent: the distances of pair p to a single cluster are read and written by p alone, and those to a
  // later pair q, all four of them, too.
  void merge(const std::vector<std::pair<int32_t, int32_t>>& pairs, std::vector<Merge>& merges, Run run) {
    std::vector<int32_t> pair_of(static_cast<size_t>(m_), -1);
    for (size_t p = 0; p < pairs.size(); ++p)
      pair_of[static_cast<size_t>(pairs[p].first)] = pair_of[static_cast<size_t>(pairs[p].second)] =
          static_cast<int32_t>(p);
    for_chunks(static_cast<int64_t>(pairs.size()), 1, run, [&](int64_t p, int64_t, int64_t) {
      run.poll();
      const auto [a, b] = pairs[static_cast<size_t>(p)];
      const double v = weight_[static_cast<size_t>(a)], w = weight_[static_cast<size_t>(b)];
      for (int64_t j = 0; j < m_; ++j) {
        if (pair_of[static_cast<size_t>(j)] >= 0 || id_[static_cast<size_t>(j)] < 0) continue;
        double &kept = at(a, j), &gone = at(b, j);
        kept = Rule::combine(kept, gone, v, w);
        gone = kInfinity;
      }
      for (size_t q = static_cast<size_t>(p) + 1; q < pairs.size(); ++q) {
        const auto [c, d] = pairs[q];
        const double first = Rule::combine(at(a, c), at(b, c), v, w), second = Rule::combine(at(a, d), at(b, d), v, w);
        at(a, c) = Rule::combine(first, second, weight_[static_cast<size_t>(c)], weight_[static_cast<size_t>(d)]);
        at(b, c) = at(a, d) = at(b, d) = kInfinity;
      }
      at(a, b) = kInfinity;
    });
    pending_.clear();
    for (int32_t i = 0; i < m_; ++i)
      if (id_[static_cast<size_t>(i)] >= 0 && pair_of[static_cast<size_t>(i)] < 0 &&
          pair_of[static_cast<size_t>(nearest_[static_cast<size_t>(i)])] >= 0)
        pending_.push_back(i);
    for (const auto& [a, b] : pairs) {
      const auto kept = static_cast<size_t>(a), gone = static_cast<size_t>(b);
      merges.push_back({cost_[kept], id_[kept], id_[gone]});
      id_[kept] = static_cast<int32_t>(n_ + static_cast<int64_t>(merges.size()) - 1), id_[gone] = -1;
      weight_[kept] += weight_[gone];
      pending_.push_back(a);
    }
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
  double largest = 0;
  for (int64_t panel = 0; panel < panels; ++panel) {
    const auto part = x.rows(panel * kPoints, std::min(n, (panel + 1) * kPoints));
    pack_columns(part, nullptr, tiles.data() + panel * d * kPoints);
    for (int64_t i = 0; i < d * kPoints; ++i)
      largest = std::max(largest, std::abs(tiles[static_cast<size_t>(panel * d * kPoints + i)]));
  }
  const Within w = metric.anywhere(largest);
  // Long panels first, so that threads end together.
  for_chunks(panels, 1, run, [&](int64_t, int64_t chunk, int64_t) {
    const int64_t panel = panels - 1 - chunk, first = panel * kPoints, lanes = std::min<int64_t>(kPoints, n - first);
    double block[kPoints * kPoints];
    for (int64_t other = 0; other <= panel; ++other) {
      run.poll();
      const int64_t begin = other * kPoints, count = std::min<int64_t>(kPoints, n - begin);
      if (kernels_do)
        kernels().index.tile[w.reduction](tiles.data() + panel * d * kPoints, tiles.data() + other * d * kPoints, d,
                                          count, w.scale, block);
      for (int64_t l = 0; l < lanes; ++l) {
        const int64_t i = first + l;
        double* const row = out + pair_count(i) + begin;
        for (int64_t t = 0; t < std::min(count, i - begin); ++t)
          row[t] = kernels_do ? metric.distance(block[t * kPoints + l], w)
                              : metric.distance(rows.data() + i * d, rows.data() + (begin + t) * d);
      }
    }
  });
}

template void pair_distances(View<const double, 2>, const Metric&, double*, Run);
template void pair_distances(View<const float, 2>, const Metric&, double*, Run);

}  // namespace knoll
