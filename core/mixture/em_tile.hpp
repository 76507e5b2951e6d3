// A mixture and a tile of points, laid out for the kernels of mixture/em_pass-inl.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "common/aligned.hpp"
#include "common/tile.hpp"
#include "mixture/em_pass.hpp"

namespace knoll::mixture {

constexpr int64_t kLane = 4;  // sums by lanes are four doubles, added in the order of hsum (simd/lanes-inl.hpp)
constexpr double kMixtureReach = 0x1p500;  // |y| to which far points are limited, see Tile::limit
constexpr double kNever = -std::numeric_limits<double>::infinity();

inline size_t size_of(int64_t n) { return static_cast<size_t>(n); }
inline double lanes_sum(const double* s) { return (s[0] + s[1]) + (s[2] + s[3]); }

// Points of a tile: 96 × 20 or 48 × 64 doubles are within the first cache level. A function of the width alone, so that
// the order of additions is one for all threads and layouts.
// 96 × 16 columns measured 4 to 9 % faster than 48, 96 × 24 no faster (decision 0010).
inline int64_t tile_points(int64_t d) { return d <= 20 ? kMixturePoints : kMixturePoints / 2; }

inline std::vector<double> row_of(View<const double, 2> matrix, int64_t r) {
  std::vector<double> row(size_of(matrix.shape[1]));
  for (int64_t j = 0; j < matrix.shape[1]; ++j) row[size_of(j)] = matrix(r, j);
  return row;
}

inline std::vector<double> vector_of(View<const double, 1> v) {
  std::vector<double> out(size_of(v.shape[0]));
  for (int64_t j = 0; j < v.shape[0]; ++j) out[size_of(j)] = v(j);
  return out;
}

// A lower triangle (d·d) in the order that mixture/em_pass-inl.hpp reads it.
inline std::vector<double> blocked(const std::vector<double>& lower, int64_t d) {
  std::vector<double> out;
  if (d <= 3) {
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j <= i; ++j) out.push_back(lower[size_of(i * d + j)]);
    return out;
  }
  // Blocks of four rows, column by column: what lower_block reads is one stream of memory.
  for (int64_t i = 0; i < d; i += 4)
    for (int64_t j = 0; j < i + 4; ++j)
      for (int64_t t = i; t < i + 4; ++t) out.push_back(t < d && j <= t ? lower[size_of(t * d + j)] : 0.0);
  return out;
}

// One component as the kernels read it.
struct Component {
  int64_t index;
  std::vector<double> mean, factor;
  double constant;
  std::vector<double> start;  // −Fμ where |F||μ| ≤ kNear, see below; else empty
};

// The bound on (|F||μ|)_i for which F x − F μ replaces F(x − μ): its error is at most about (d + 2)·2⁻⁵³·kNear =
// (d + 2)·2⁻⁴⁷ standard deviations.
constexpr double kNear = 64;

// −Fμ, padded with zeros; empty where a row of |F||μ| exceeds kNear.
inline std::vector<double> near_start(const std::vector<double>& lower, const std::vector<double>& mean, int64_t d) {
  std::vector<double> start(size_of(padded(d)), 0.0);
  for (int64_t i = 0; i < d; ++i) {
    double size = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const double product = lower[size_of(i * d + j)] * mean[size_of(j)];
      start[size_of(i)] -= product;
      size += product < 0 ? -product : product;
    }
    // One row beyond the bound, or a NaN, and differences are taken for the whole component.
    if (!(size <= kNear)) return {};
  }
  return start;
}

// The living components, laid out for the kernels.
struct Prepared {
  Shape shape;
  int64_t k, d;
  std::vector<Component> alive;
  std::vector<double> common;  // the factor of all, where it is tied
  double noise;

  explicit Prepared(const MixtureModel& model)
      : shape(model.shape), k(model.means.shape[0]), d(model.means.shape[1]), noise(model.noise) {
    if (shape == Shape::tied) common = blocked(row_of(model.factors, 0), d);
    for (int64_t c = 0; c < k; ++c) {
      // A dead component has no row of responsibilities: log 0 never enters a kernel.
      if (model.constants(c) == kNever) continue;
      Component component{c, row_of(model.means, c), {}, model.constants(c), {}};
      if (shape != Shape::tied) component.factor = row_of(model.factors, c);
      if (shape == Shape::full) {
        if (d > 3) component.start = near_start(component.factor, component.mean, d);
        component.factor = blocked(component.factor, d);
      }
      alive.push_back(std::move(component));
    }
  }

  bool has_noise() const { return noise != kNever; }
  int64_t rows() const { return static_cast<int64_t>(alive.size()) + (has_noise() ? 1 : 0); }
};

// A tile of centered points, and what is computed from it.
template <class T>
struct Tile {
  int64_t d, points;
  std::vector<double> origin;
  double scale;
  AlignedVector<double> columns, strips, centered, other, joint, log_p, weights, peaks;
  std::vector<double> scratch;

  Tile(int64_t width, Centering centering, int64_t rows, bool with_strips)
      : d(width),
        points(tile_points(width)),
        origin(vector_of(centering.origin)),
        scale(centering.scale),
        columns(size_of(padded(d) * points)),
        strips(with_strips ? columns.size() : 0),
        centered(strips.size()),
        other(columns.size()),
        joint(size_of(rows * points)),
        log_p(size_of(points)),
        weights(size_of(points), 1.0),
        peaks(size_of(rows * kLane), 0.0) {}

  bool weighted = false;
  const char* ahead = nullptr;
  int64_t ahead_size = 0;

  double* row(int64_t c) { return joint.data() + c * points; }
  const double* weights_or_null() const { return weighted ? weights.data() : nullptr; }

  // One layout for the kernels whatever the input's: the bits do not depend on it.
  void pack(View<const T, 2> x) {
    const int64_t rows = x.shape[0];
    double* const s = strips.empty() ? nullptr : strips.data();
    if (!x.rows_contiguous()) {
      scratch.resize(size_of(points * d));
      pack_rows(x, scratch.data());
      kernels().mixture.pack_f64(scratch.data(), d, rows, points, d, origin.data(), scale, columns.data(), s);
    } else if constexpr (std::is_same_v<T, double>) {
      kernels().mixture.pack_f64(x.data, x.stride[0], rows, points, d, origin.data(), scale, columns.data(), s);
    } else {
      kernels().mixture.pack_f32(x.data, x.stride[0], rows, points, d, origin.data(), scale, columns.data(), s);
    }
  }

  // weights[l] of the rows, 0 past them; returns their sum. A full tile without weights is not `weighted`.
  double weigh(View<const double, 1> row_weights, int64_t from, int64_t rows) {
    // Rows past the end are points of zeros; a weight of 0 takes them out of every sum.
    weighted = !row_weights.empty() || rows < points;
    if (!weighted) return static_cast<double>(rows);
    double sum = 0;
    for (int64_t l = 0; l < points; ++l) {
      weights[size_of(l)] = l >= rows ? 0.0 : row_weights.empty() ? 1.0 : row_weights(from + l);
      sum += weights[size_of(l)];
    }
    return sum;
  }

  // Notes the rows that will be packed next. fill_joint prefetches a share of them per component, so that they arrive
  // while this tile is computed.
  void expect_next(View<const T, 2> x, int64_t from) {
    const int64_t rows = std::clamp<int64_t>(x.shape[0] - from, 0, points);
    ahead = reinterpret_cast<const char*>(x.data + from * x.stride[0]);
    ahead_size = x.rows_contiguous() ? rows * x.stride[0] * static_cast<int64_t>(sizeof(T)) : 0;
  }

  // joint(a, l) = log p(x_l, component a) for those alive, the noise last.
  void fill_joint(const Prepared& model) {
    const MixtureKernels& kernel = kernels().mixture;
    // Prefetches spread over the components: issued at once they would fill the line buffers.
    const int64_t share = ahead_size / std::max<int64_t>(1, static_cast<int64_t>(model.alive.size())) + 64;
    const double* y = columns.data();
    if (model.shape == Shape::tied) {
      // One product for all components: F x, from which F μ_c is then subtracted.
      kernel.whiten(y, points, d, model.common.data(), other.data());
      y = other.data();
    }
    int64_t a = 0;
    for (const Component& c : model.alive) {
      const double *mean = c.mean.data(), *factor = c.factor.data();
      for (int64_t at = a * share; at < std::min((a + 1) * share, ahead_size); at += 64) __builtin_prefetch(ahead + at);
      double* const out = row(a++);
      switch (model.shape) {
        case Shape::full:
          kernel.full(y, points, d, mean, factor, c.start.empty() ? nullptr : c.start.data(), c.constant, other.data(),
                      out);
          break;
        case Shape::tied:
          kernel.spherical(y, points, d, mean, 1.0, c.constant, out);
          break;
        case Shape::diagonal:
          kernel.diagonal(y, points, d, mean, factor, c.constant, out);
          break;
        case Shape::spherical:
          kernel.spherical(y, points, d, mean, factor[0], c.constant, out);
          break;
      }
    }
    if (model.has_noise()) std::fill_n(row(a), points, model.noise);
  }

  // Whether a point may be so far out that products with it overflow, and infinities of both signs cancel to NaN. Then
  // the first component's value is NaN or below −2⁹⁰⁰: comparisons with NaN are false, so both count.
  bool has_far() const {
    int64_t far = 0;
    for (int64_t l = 0; l < points; ++l) far += joint[size_of(l)] > -0x1p900 ? 0 : 1;
    return far > 0;
  }

  // Limits far points to |y| ≤ 2⁵⁰⁰, where no product with an entry of a factor overflows; their squares still reach
  // kMixtureFarthest. Callers have no strips.
  void limit() {
    for (double& y : columns) y = std::clamp(y, -kMixtureReach, kMixtureReach);
  }

  // joint becomes wλ; fills log_p if requested, and raises peaks.
  void normalise(double* likelihood, bool with_log_p) {
    kernels().mixture.normalise(joint.data(), static_cast<int64_t>(peaks.size()) / kLane, points, weights_or_null(),
                                with_log_p ? log_p.data() : nullptr, likelihood, peaks.data());
  }
};

}  // namespace knoll::mixture
