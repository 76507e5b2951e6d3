// The points of k-means++: a float32 sieve that rules pairs out, and the one distance for the others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/power_of_two.hpp"
#include "common/prefetch.hpp"
#include "kmeans/seeding_rows.hpp"
#include "simd/kernels.hpp"

namespace knoll {

// The power of two that brings the largest |x| into [1, 2).
template <class Points>
PowerOfTwo scale_of(const Points& x, const int64_t* rows, int64_t m, Run run) {
  const bool all = m == x.shape[0];  // then in memory order
  std::vector<double> chunk_max(static_cast<size_t>(chunk_count(m, 1 << 13)));
  for_chunks(m, 1 << 13, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    double most = 0.0;
    for (int64_t i = begin; i < end; ++i)
      for_entries(x, all ? i : rows[i], [&](int64_t, double value) { most = std::max(most, std::fabs(value)); });
    chunk_max[static_cast<size_t>(chunk)] = most;
  });
  const double largest = *std::max_element(chunk_max.begin(), chunk_max.end());
  return PowerOfTwo(largest > 0 ? -std::ilogb(largest) : 0);
}

// A point has an index in the multiset, and a position in the tiles once it is put there.
template <class Points>
class Cloud;

// Dense points are stored twice: as they are, row by row, and as float32 column tiles about an origin, for the sieve.
// d² < D² only if  x·c − |c|²/2 ≥ (|x|² − D²)/2.  With
// u = 2^−24, the left side in float32 errs by at most (d + 2)u·(|x|²/2 + |c|²) for the sum, 1.1u·(|x|² + |c|²) for the
// rounded coordinates and u|c|²/2 for the bias, the right side by u(|x|² + D²), and their difference is rounded once
// more; κ = 2(d + 8)u times (|x|² + D² + |c|²) is more than all of it. Coordinates below 2^−126 lose less than kTiny.
// The bias is raised and the threshold lowered by it, so with e = κ(|x|² + D² + |c|²) + kTiny
//     (D² − d²)/2 ≤ over ≤ (D² − d²)/2 + 2e     of every point.
// Where over ≥ 0 the candidate is no farther than about D, so |c|² ≤ 3(|x|² + D²) as long as κ ≤ 1/32, and e ≤
// 4κ(|x|² + D²) + kTiny does not depend on c.
template <class T>
class Cloud<View<const T, 2>> {
 public:
  struct Batch {
    std::vector<double> centers;    // (count, d)
    std::vector<float> candidates;  // (count, d) about the origin
    std::vector<float> bias;        // (count)
  };

  Cloud(const View<const T, 2>& x, const int64_t* rows, int64_t m, Run run)
      : x_(x),
        rows_(rows),
        m_(m),
        d_(x.shape[1]),
        kappa_(static_cast<double>(d_ + 8) * 0x1p-23),
        scale_(scale_of(x, rows, m, run)),
        origin_(static_cast<size_t>(d_)) {
    const int64_t sample = std::min<int64_t>(m, 1024);
    for (int64_t i = 0; i < sample; ++i)
      for (int64_t j = 0; j < d_; ++j)
        origin_[static_cast<size_t>(j)] += scale_(static_cast<double>(x(rows[i], j))) / static_cast<double>(sample);
  }

  bool sieves() const { return kappa_ <= 0x1p-5; }

  void allocate(int64_t height) {
    if (tiles_ != nullptr) return;
    copy_ = make_large_array<T>(static_cast<size_t>(m_ * d_));
    tiles_ = make_large_array<float>(static_cast<size_t>(height * d_));
    threshold_ = make_large_array<float>(static_cast<size_t>(height));
    norm2_ = make_large_array<float>(static_cast<size_t>(height));
  }
  void put(int64_t position, int64_t point) {
    float* const to = tile(position / kPoints) + position % kPoints;
    const T* const from = row(point);
    T* const copy = copy_.get() + position * d_;
    double norm2 = 0.0;
    for (int64_t j = 0; j < d_; ++j) {
      copy[j] = from[j * x_.stride[1]];
      const float about = near_origin(scale_(static_cast<double>(copy[j])), j);
      to[j * kPoints] = about;
      norm2 += static_cast<double>(about) * static_cast<double>(about);
    }
    norm2_[static_cast<size_t>(position)] = static_cast<float>(norm2);
  }
  void put_none(int64_t position) {
    float* const to = tile(position / kPoints) + position % kPoints;
    for (int64_t j = 0; j < d_; ++j) to[j * kPoints] = 0.0f;
    threshold_[static_cast<size_t>(position)] = std::numeric_limits<float>::infinity();
  }
  // Sets the sieve's threshold for D² of a position; returns by how much `over` of a hit may exceed (D² − d²)/2.
  double set_threshold(int64_t position, double distance2) {
    const double norm2 = norm2_[static_cast<size_t>(position)];
    threshold_[static_cast<size_t>(position)] =
        static_cast<float>((norm2 - distance2) / 2 - kappa_ * (norm2 + distance2) - kTiny);
    // 2e with e ≤ 4κ(|x|² + D²) + kTiny (eq. 18).
    return 8 * kappa_ * (norm2 + distance2) + 2 * kTiny;
  }

  Batch take(const std::vector<int64_t>& points) const {
    Batch batch;
    for (int64_t point : points) {
      double norm2 = 0.0;
      for (int64_t j = 0; j < d_; ++j) {
        const double value = scale_(static_cast<double>(row(point)[j * x_.stride[1]]));
        const double about = value - origin_[static_cast<size_t>(j)];
        norm2 += about * about;
        batch.centers.push_back(value);
        batch.candidates.push_back(near_origin(value, j));
      }
      // Raised by the candidate's share of e; points lower their thresholds by theirs.
      batch.bias.push_back(static_cast<float>(-norm2 / 2 + kappa_ * norm2));
    }
    return batch;
  }
  // What weigh_tiles of kmeans/seeding-inl.hpp computes.
  void weigh(int64_t first, int64_t tiles, const Batch& batch, const float* weights, int64_t weights_step,
             const double* error, uint32_t* hits, float* gains, double* errors) const {
    kernels().seeding.weigh_tiles(tile(first), d_, tiles, batch.candidates.data(), batch.bias.data(),
                                  static_cast<int64_t>(batch.bias.size()), threshold_.get() + first * kPoints, weights,
                                  weights_step, error, hits, gains, errors);
  }

  // Prefetch a row that will be put soon (neighbours in the tiles lie far apart in x), and the copy at a position.
  [[gnu::always_inline]] void prefetch_point(int64_t point) const { prefetch(row(point), x_.stride[1] == 1 ? d_ : 1); }
  [[gnu::always_inline]] void prefetch_position(int64_t position) const { prefetch(copy_.get() + position * d_, d_); }

  // The one distance.
  double distance2(int64_t position, const Batch& batch, size_t t) const {
    const T* const copy = copy_.get() + position * d_;
    const double* const center = batch.centers.data() + static_cast<int64_t>(t) * d_;
    double sum = 0.0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference = scale_(static_cast<double>(copy[j])) - center[j];
      sum += difference * difference;
    }
    return sum;
  }
  // The same for many positions; where it is not below limit (height), any number that is not will do. Four independent
  // sums hide the latency of the additions.
  void distances2(const int64_t* positions, int64_t count, const Batch& batch, size_t t, const double*,
                  double* out) const {
    const double* const center = batch.centers.data() + static_cast<int64_t>(t) * d_;
    int64_t p = 0;
    for (; p + 4 <= count; p += 4) {
      const T* row[4];
      double sum[4] = {};
      for (int64_t l = 0; l < 4; ++l) row[l] = copy_.get() + positions[p + l] * d_;
      for (int64_t j = 0; j < d_; ++j)
        for (int64_t l = 0; l < 4; ++l) {
          const double difference = scale_(static_cast<double>(row[l][j])) - center[j];
          sum[l] += difference * difference;
        }
      std::copy_n(sum, 4, out + p);
    }
    for (; p < count; ++p) out[p] = distance2(positions[p], batch, t);
  }
  double between(const Batch& a, size_t s, const Batch& b, size_t t) const {
    double sum = 0.0;
    for (size_t j = 0, d = static_cast<size_t>(d_); j < d; ++j) {
      const double difference = a.centers[s * d + j] - b.centers[t * d + j];
      sum += difference * difference;
    }
    return sum;
  }

 private:
  static constexpr double kTiny = 0x1p-100;

  const T* row(int64_t point) const { return x_.data + rows_[point] * x_.stride[0]; }
  float* tile(int64_t number) const { return tiles_.get() + number * kPoints * d_; }
  float near_origin(double value, int64_t j) const {
    return static_cast<float>(value - origin_[static_cast<size_t>(j)]);
  }

  View<const T, 2> x_;
  const int64_t* rows_;
  int64_t m_, d_;
  double kappa_;
  PowerOfTwo scale_;
  std::vector<double> origin_;   // (d) of the tiles: any is correct, the mean is best
  LargeArray<T> copy_;           // (m, d)
  LargeArray<float> tiles_;      // (height / kPoints, d, kPoints)
  LargeArray<float> threshold_;  // (height)
  LargeArray<float> norm2_;      // (height) about the origin
};

// Sparse points are not copied, and there is no sieve. Most distances to a candidate c are only bounded: with c
// unpacked, s = ‖x‖² + ‖c‖² − 2x·c takes the entries of x alone. Its three sums err by at most
//     e = 2(entries of x and c + 16)·2^−53·(‖x‖² + ‖c‖²) + 2^−1000
// together, and the one distance errs by at most e as well, so s − 2e ≥ D² ⟹ the one distance is not below D².
// Coordinates are scaled to below 2: no product overflows, and what underflows is below 2^−1000.
template <class T, class I>
class Cloud<SparseRows<T, I>> {
 public:
  struct Batch {
    std::vector<int64_t> rows;
    std::vector<double> dense;  // (count, d)
    std::vector<double> norm2;  // (count)
  };

  Cloud(const SparseRows<T, I>& x, const int64_t* rows, int64_t m, Run run)
      : x_(x), rows_(rows), scale_(scale_of(x, rows, m, run)) {}

  bool sieves() const { return false; }
  void allocate(int64_t height) {
    positions_.resize(static_cast<size_t>(height));
    norm2_.resize(static_cast<size_t>(height));
  }
  void put(int64_t position, int64_t point) {
    positions_[static_cast<size_t>(position)] = rows_[point];
    norm2_[static_cast<size_t>(position)] = norm2_of(rows_[point]);
  }
  void put_none(int64_t) {}
  double set_threshold(int64_t, double) { return 0.0; }
  Batch take(const std::vector<int64_t>& points) const {
    Batch batch;
    batch.dense.assign(points.size() * static_cast<size_t>(x_.shape[1]), 0.0);
    double* dense = batch.dense.data();
    for (int64_t point : points) {
      batch.rows.push_back(rows_[point]);
      batch.norm2.push_back(norm2_of(rows_[point]));
      for_entries(x_, rows_[point], [&](int64_t j, double value) { dense[j] = scale_(value); });
      dense += x_.shape[1];
    }
    return batch;
  }
  void weigh(int64_t, int64_t, const Batch&, const float*, int64_t, const double*, uint32_t*, float*, double*) const {}
  void prefetch_point(int64_t) const {}
  void prefetch_position(int64_t) const {}
  double distance2(int64_t position, const Batch& batch, size_t t) const {
    return row_distance2(positions_[static_cast<size_t>(position)], batch.rows[t]);
  }
  void distances2(const int64_t* positions, int64_t count, const Batch& batch, size_t t, const double* limit,
                  double* out) const {
    const double* const candidate = &batch.dense[t * static_cast<size_t>(x_.shape[1])];
    const int64_t entries = entries_of(batch.rows[t]) + 16;
    for (int64_t p = 0; p < count; ++p) {
      const int64_t row = positions_[static_cast<size_t>(positions[p])];
      double product = 0.0;
      for_entries(x_, row, [&](int64_t j, double value) { product += scale_(value) * candidate[j]; });
      const double size = norm2_[static_cast<size_t>(positions[p])] + batch.norm2[t];
      const double error = 2 * static_cast<double>(entries_of(row) + entries) * 0x1p-53 * size + 0x1p-1000;
      const bool no_nearer = size - 2 * product - 2 * error >= limit[positions[p]];
      out[p] = no_nearer ? limit[positions[p]] : row_distance2(row, batch.rows[t]);
    }
  }
  double between(const Batch& a, size_t s, const Batch& b, size_t t) const {
    return row_distance2(a.rows[s], b.rows[t]);
  }

 private:
  int64_t entries_of(int64_t row) const {
    return static_cast<int64_t>(x_.indptr(row + 1)) - static_cast<int64_t>(x_.indptr(row));
  }
  double norm2_of(int64_t row) const {
    double sum = 0.0;
    for_entries(x_, row, [&](int64_t, double value) { sum += scale_(value) * scale_(value); });
    return sum;
  }
  double row_distance2(int64_t a, int64_t b) const {
    double sum = 0.0;
    for_columns(x_, a, b, [&](double u, double v) {
      const double difference = scale_(u) - scale_(v);
      sum += difference * difference;
      return true;
    });
    return sum;
  }

  SparseRows<T, I> x_;
  const int64_t* rows_;
  std::vector<int64_t> positions_;  // (height) rows
  std::vector<double> norm2_;       // (height) of the scaled rows
  PowerOfTwo scale_;
};

}  // namespace knoll
