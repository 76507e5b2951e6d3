// Orders points so that each 32 in sequence are close together, and packs them.
//
// The order is that of a tree: a set is projected on the main axis of a sample of it and cut at a gap if there is one,
// else near its middle, at a multiple of 32. So a panel mixes two clusters only where there is no gap between them. The
// order changes which tiles are discarded, never an answer.
#include "neighbors/pair_filter_panels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "common/parallel.hpp"

namespace knoll {

namespace {

// d·u₃₂ must be well below 1 for γ_d (docs/numerics/pairs.md, P7).
constexpr int64_t kColumnsLimit = 1 << 20;
constexpr double kFar = 0x1p60;  // |x̂_j| is below this over d, else not stored: ‖x̂‖² < 2^120, no product overflows

// Σ a_j b_j in eight chains, for the ordering only: its bits decide no answer.
template <class F>
F quick_dot(const F* a, const F* b, int64_t d) {
  F s[8] = {};
  int64_t j = 0;
  for (; j + 8 <= d; j += 8)
    for (int l = 0; l < 8; ++l) s[l] += a[j + l] * b[j + l];
  F sum = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
  for (; j < d; ++j) sum += a[j] * b[j];
  return sum;
}

struct Key {
  float at;     // projection
  int64_t row;  //
  friend bool operator<(const Key& a, const Key& b) { return a.at != b.at ? a.at < b.at : a.row < b.row; }
};

struct Ordering {
  const std::vector<float>& flat;  // (n, width)
  int64_t width;
  std::vector<Key> keys;  // (n)

  const float* point(int64_t k) const { return flat.data() + keys[static_cast<size_t>(k)].row * width; }

  // The main axis of up to 64 of the points: a few rounds of power iteration on their scatter. Empty if they are equal.
  std::vector<float> axis(int64_t begin, int64_t end) const {
    // A cut needs a good direction, not the best: small sets get a small sample.
    const int64_t m = std::min<int64_t>(end - begin, end - begin < 512 ? 24 : 64);
    const auto w = static_cast<size_t>(width);
    std::vector<double> centred(static_cast<size_t>(m) * w), mean(w), v(w), next(w);
    for (int64_t k = 0; k < m; ++k) {
      const float* const p = point(begin + k * (end - begin) / m);
      for (size_t j = 0; j < w; ++j) mean[j] += p[j] * (1.0 / static_cast<double>(m));
    }
    double most = -1;
    for (int64_t k = 0; k < m; ++k) {
      const float* const p = point(begin + k * (end - begin) / m);
      double* const c = centred.data() + k * width;
      for (size_t j = 0; j < w; ++j) c[j] = p[j] - mean[j];
      const double far = quick_dot(c, c, width);
      if (far > most) most = far, v.assign(c, c + width);  // begin with the farthest
    }
    // v ← Cᵀ(C v), normalized: three rounds, since the axis need not be accurate.
    for (int round = 0;; ++round) {
      const double length = std::sqrt(quick_dot(v.data(), v.data(), width));
      if (!(length > 0)) return {};
      for (auto& coordinate : v) coordinate /= length;
      if (round == 3) return std::vector<float>(v.begin(), v.end());
      std::fill(next.begin(), next.end(), 0.0);
      for (int64_t k = 0; k < m; ++k) {
        const double* const c = centred.data() + k * width;
        const double along = quick_dot(c, v.data(), width);
        for (size_t j = 0; j < w; ++j) next[j] += along * c[j];
      }
      v.swap(next);
    }
  }

  // Where to cut the projected points: a gap of an eighth of their length, else the sparsest bin of the middle half.
  int64_t cut(int64_t begin, int64_t end) {
    // A gap counts from an eighth of the length on: eight empty bins of 64.
    constexpr int kBins = 64, kGap = 8;
    constexpr int64_t kSide = 16;
    const int64_t n = end - begin;
    const auto first = keys.begin() + begin, last = keys.begin() + end;
    const auto [low, high] = std::minmax_element(first, last, [](const Key& a, const Key& b) { return a.at < b.at; });
    const float from = low->at, scale = kBins / (high->at - from);
    const auto bin = [&](const Key& key) {
      return std::clamp(static_cast<int>((key.at - from) * scale), 0, kBins - 1);
    };
    int64_t middle = (n / 2 + kPairPanel / 2) / kPairPanel * kPairPanel;
    if (high->at - from > 0 && scale < std::numeric_limits<float>::infinity()) {
      int64_t bins[kBins] = {};
      for (auto key = first; key != last; ++key) ++bins[bin(*key)];
      int best_gap = 0, gap_at = 0, gap = 0;
      int64_t below = 0, thin = n, thin_at = middle;
      for (int b = 0; b < kBins; ++b) {
        gap = bins[b] == 0 ? gap + 1 : 0;
        // At least 16 points on each side, or panels would be nearly empty.
        if (gap > best_gap && below >= kSide && n - below >= kSide) best_gap = gap, gap_at = b;
        if (below >= n / 4 && n - below >= n / 4 && bins[b] < thin) thin = bins[b], thin_at = below + bins[b] / 2;
        below += bins[b];
      }
      if (best_gap >= kGap)
        return std::partition(first, last, [&](const Key& key) { return bin(key) < gap_at; }) - keys.begin();
      if (n > 8 * kPairPanel) middle = (thin_at + kPairPanel / 2) / kPairPanel * kPairPanel;
    }
    // Both sides get at least one point, so the recursion ends also where all projections are equal.
    middle = std::clamp<int64_t>(middle, kPairPanel, (n - 1) / kPairPanel * kPairPanel);
    std::nth_element(first, first + middle, last);
    return begin + middle;
  }

  void project(int64_t begin, int64_t end, Run run) {
    const std::vector<float> v = axis(begin, end);
    for_chunks(end - begin, 4096, run, [&](int64_t, int64_t from, int64_t to) {
      for (int64_t k = begin + from; k < begin + to; ++k)
        keys[static_cast<size_t>(k)].at = v.empty() ? 0.0f : quick_dot(point(k), v.data(), width);
    });
  }

  // Splits [begin, end) into sets of at most `small` points, appended to `later` in order.
  void split(int64_t begin, int64_t end, int64_t small, std::vector<std::pair<int64_t, int64_t>>& later, Run run) {
    while (end - begin > small) {
      run.poll();
      project(begin, end, run);
      const int64_t at = cut(begin, end);
      split(begin, at, small, later, run);
      begin = at;
    }
    if (begin < end) later.emplace_back(begin, end);
  }
};

}  // namespace

template <class T>
Panels<T>::Panels(View<const T, 2> points, PairPivot its_pivot, Run run, PanelOrder by,
                  const std::function<void()>& stored)
    : x(points),
      pivot(std::move(its_pivot)),
      bounds(points.shape[1], pivot.exponent),
      width(std::max<int64_t>(1, points.shape[1])) {
  const int64_t n = x.shape[0], d = x.shape[1];
  const double scale = std::ldexp(1.0, pivot.exponent);
  // A row that float32 cannot hold is stored as 0 with high = ∞ and low = −∞: all its pairs are open, and only its.
  // P1 and P7 of docs/numerics/pairs.md: how a number is stored, and which rows are not.
  std::vector<float> flat(static_cast<size_t>(n * width), 0.0f);
  std::vector<uint8_t> far(static_cast<size_t>(n));
  for_chunks(n, 1024, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const out = flat.data() + i * width;
      double most = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double v = (static_cast<double>(x(i, j)) - pivot.center[static_cast<size_t>(j)]) * scale;
        most = std::max(most, std::abs(v));
        out[j] = std::abs(v) < kFar && std::abs(v) >= 0x1p-125 ? static_cast<float>(v) : 0.0f;
      }
      if (most >= kFar / static_cast<double>(width) || d > kColumnsLimit) {
        far[static_cast<size_t>(i)] = 1;
        std::fill_n(out, width, 0.0f);
      }
    }
  });

  if (stored) stored();

  // The first cuts are made on one set at a time; sets of n/32 points are then split concurrently.
  Ordering order{flat, width, std::vector<Key>(static_cast<size_t>(n))};
  for (int64_t i = 0; i < n; ++i) order.keys[static_cast<size_t>(i)] = {0.0f, i};
  std::vector<std::pair<int64_t, int64_t>> subsets;
  // The grid of subsets depends on the points alone, so the order does not depend on threads.
  if (by == PanelOrder::groups) {
    const std::vector<int64_t> near = order_by_groups(flat, width, n, run);
    for (int64_t k = 0; k < n; ++k) order.keys[static_cast<size_t>(k)].row = near[static_cast<size_t>(k)];
    constexpr int64_t kSubset = 4 * kPairPanel;
    for (int64_t k = 0; k < n; k += kSubset) subsets.emplace_back(k, std::min(k + kSubset, n));
  } else {
    order.split(0, n, std::max<int64_t>(kPairPanel, n / 32), subsets, run);
  }
  std::vector<std::vector<std::pair<int64_t, int64_t>>> leaves(subsets.size());
  for_chunks(static_cast<int64_t>(subsets.size()), 1, run, [&](int64_t subset, int64_t, int64_t) {
    const auto [begin, end] = subsets[static_cast<size_t>(subset)];
    order.split(begin, end, kPairPanel, leaves[static_cast<size_t>(subset)], run);
  });

  // A set of at most 32 points is a panel; free positions follow its points.
  for (const auto& subset : leaves)
    for (const auto& [begin, end] : subset) {
      for (int64_t k = begin; k < begin + kPairPanel; ++k)
        rows.push_back(k < end ? order.keys[static_cast<size_t>(k)].row : -1);
      used.push_back(~uint32_t{0} >> (kPairPanel - (end - begin)));
    }
  count = static_cast<int64_t>(used.size());
  pack(flat, far, run);
  enclose();
}

template <class T>
void Panels<T>::pack(const std::vector<float>& flat, const std::vector<uint8_t>& far, Run run) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto positions = static_cast<size_t>(count * kPairPanel);
  columns.assign(positions * static_cast<size_t>(width), 0.0f);
  norms.assign(positions, 0.0);
  high.assign(positions, std::numeric_limits<float>::infinity());  // a free position has no possible pair
  low = high;
  balls.resize(count, width);
  for_chunks(count, 16, run, [&](int64_t, int64_t first, int64_t last) {
    std::vector<double> center(static_cast<size_t>(width));
    for (int64_t p = first; p < last; ++p) {
      std::fill(center.begin(), center.end(), 0.0);
      const int members = std::popcount(used[static_cast<size_t>(p)]);
      for (int l = 0; l < members; ++l) {
        const auto position = static_cast<size_t>(p * kPairPanel + l);
        const float* const from = flat.data() + rows[position] * width;
        // The centre may be any point: its rounding only makes the radius larger, which is computed from it.
        const double share = 1.0 / members;
        double norm = 0;
        for (int64_t j = 0; j < width; ++j) {
          const double v = from[j];
          columns[static_cast<size_t>((p * width + j) * kPairPanel + l)] = from[j];
          norm += v * v;
          center[static_cast<size_t>(j)] += v * share;
        }
        if (far[static_cast<size_t>(rows[position])] != 0) norm = inf;
        norms[position] = norm;
        const auto range = bounds.column(norm);
        high[position] = range.high;
        low[position] = range.low;
      }
      // The ball: every exact point x' of the panel is within `radius` of the centroid of the rounded ones.
      double radius = 0;
      for (int l = 0; l < members; ++l) {
        const auto position = static_cast<size_t>(p * kPairPanel + l);
        const float* const from = flat.data() + rows[position] * width;
        double sum = 0;
        for (int64_t j = 0; j < width; ++j) {
          const double difference = from[j] - center[static_cast<size_t>(j)];
          sum += difference * difference;
        }
        radius = std::max(radius, bounds.around(sum, norms[position]));
      }
      balls.set(p, center, radius);  // infinite if a row is too far out for float32
    }
  });
}

void Balls::resize(int64_t count, int64_t width) {
  centers.assign(static_cast<size_t>((count + kPoints - 1) / kPoints * kPoints * width), 0.0);
  radii.assign(static_cast<size_t>(count), 0.0);
}

void Balls::set(int64_t ball, const std::vector<double>& center, double radius) {
  const auto width = static_cast<int64_t>(center.size());
  for (int64_t j = 0; j < width; ++j)
    centers[static_cast<size_t>((ball / kPoints * width + j) * kPoints + ball % kPoints)] =
        center[static_cast<size_t>(j)];
  radii[static_cast<size_t>(ball)] = radius;
}

// Balls around groups of 32 panels: ‖c − m_p‖ + radius_p ≤ radius for every panel p of the group.
template <class T>
void Panels<T>::enclose() {
  std::vector<double> center(static_cast<size_t>(width)), d2(kPoints);
  groups.resize((count + kPoints - 1) / kPoints, width);
  for (int64_t first = 0; first < count; first += kPoints) {
    const int64_t members = std::min<int64_t>(kPoints, count - first);
    const double* const columns_of_centers = balls.centers.data() + first * width;
    for (int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < members; ++p) sum += columns_of_centers[j * kPoints + p];
      center[static_cast<size_t>(j)] = sum / static_cast<double>(members);
    }
    kernels().distance_tile(columns_of_centers, center.data(), 0, 1, width, d2.data());
    double radius = 0;
    for (int64_t p = 0; p < members; ++p)
      // Triangle inequality, with the rounding of the root, the sum and the distance (P8).
      radius = std::max(radius, (std::sqrt(d2[static_cast<size_t>(p)]) + balls.radii[static_cast<size_t>(first + p)]) *
                                    (1 + bounds.relative));
    groups.set(first / kPoints, center, radius);
  }
}

template struct Panels<double>;
template struct Panels<float>;

}  // namespace knoll
