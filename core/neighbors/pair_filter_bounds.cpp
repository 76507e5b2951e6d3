// The pivot and the error bounds of the pair filter.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "neighbors/pair_filter_panels.hpp"

namespace knoll {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kU = 0x1p-24;    // half an ulp of float32
constexpr int64_t kSample = 257;  // rows that centre and scale are estimated from
// |x̂| < 2^60 for both, so ‖x̂ − ŷ‖² < 2^122 (docs/numerics/pairs.md, P7).
constexpr double kLargest = 0x1p124;  // no two x̂ have a larger squared distance

// The nearest float32 that is not below v: thresholds are rounded outward.
float up(double v) {
  if (v > FLT_MAX) return std::numeric_limits<float>::infinity();
  if (v < -FLT_MAX) return -FLT_MAX;
  const auto f = static_cast<float>(v);
  return static_cast<double>(f) < v ? std::nextafter(f, std::numeric_limits<float>::infinity()) : f;
}
float down(double v) { return -up(-v); }

// max_j |x_ij − center_j|.
template <class T>
double max_deviation(View<const T, 2> x, int64_t i, const std::vector<double>& center) {
  double most = 0;
  for (int64_t j = 0; j < x.shape[1]; ++j)
    most = std::max(most, std::abs(static_cast<double>(x(i, j)) - center[static_cast<size_t>(j)]));
  return most;
}

}  // namespace

template <class T>
PairPivot choose_pivot(View<const T, 2> x, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], m = std::min(n, kSample);
  PairPivot pivot{std::vector<double>(static_cast<size_t>(d), 0.0), 0};
  if (m == 0) return pivot;

  // The centre: the median of every column over evenly spaced rows.
  std::vector<double> values(static_cast<size_t>(m));
  const auto middle = values.begin() + m / 2;
  for (int64_t j = 0; j < d; ++j) {
    for (int64_t k = 0; k < m; ++k) values[static_cast<size_t>(k)] = static_cast<double>(x(k * n / m, j));
    std::nth_element(values.begin(), middle, values.end());
    pivot.center[static_cast<size_t>(j)] = *middle;
  }

  // The exponent: 2^exponent brings the median size of a sampled row near 1; if the sample is all zeros, of any row.
  values.clear();
  const auto add = [&](int64_t i) {
    const double s = max_deviation(x, i, pivot.center);
    if (s > 0 && s < kInf) values.push_back(s);
  };
  for (int64_t k = 0; k < m; ++k) add(k * n / m);
  for (int64_t i = 0; i < n && values.empty(); ++i) {
    if (i % 4096 == 0) run.poll();
    add(i);
  }
  if (values.empty()) return pivot;
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  pivot.exponent = std::clamp(-std::ilogb(*half), -1000, 1000);
  return pivot;
}

// docs/numerics/pairs.md, P4.
FilterBounds::FilterBounds(int64_t d, int scale) : exponent(scale) {
  const auto columns = static_cast<double>(d);
  // κN ≥ γ_d N/2 (product) + u N/2 (storing) + u N/2 (the sum of two thresholds) + float64 terms;
  // λR ≥ u R (storing, r·u√N ≤ u(R + N)/2) + u R/2 (the sum) + (d + 4)·2^−53 R (the one distance) + float64 terms.
  const double chain =
      columns * kU / (1 - columns * kU);  // γ_d; data of more than 2^20 columns is not stored in float32
  relative = (columns + 16) * 0x1p-52;
  per_norm = (chain + 2.1 * kU) / 2 + relative;
  per_r2 = 1.6 * kU + relative;
  constant = (columns + 8) * 0x1p-120;
  hidden = std::ldexp(columns + 1, 2 * exponent - 1074);
}

FilterBounds::Range FilterBounds::column(double norm) const {
  if (!(norm < kInf)) return {up(kInf), -up(kInf)};
  // P5; up and down round outward, so the bound survives the conversion to float32.
  const double slack = per_norm * norm + constant;
  return {up(norm / 2 + slack), down(norm / 2 - slack)};
}

// ∞ and −∞ for a row that is not stored: never sure, always possible. Its low and that of a free position (+∞) add up
// to NaN, which no product reaches.
FilterBounds::Range FilterBounds::row(double norm, double r2) const {
  if (!(r2 >= 0)) return {up(kInf), up(kInf)};  // nothing is within
  if (!(norm < kInf)) return {up(kInf), -up(kInf)};
  const double scaled = std::ldexp(r2, 2 * exponent);
  // Within the smaller radius is within r2, so `high` stays valid; `low` then rules out nothing.
  const double least = std::min(scaled, kLargest);
  const double slack = per_norm * norm + constant + per_r2 * least + hidden;
  return {up((norm - least) / 2 + slack), scaled > kLargest ? -up(kInf) : down((norm - least) / 2 - slack)};
}

// r in units of x̂, rounded up: D ≤ r² implies ‖x' − y'‖ ≤ reach.
double FilterBounds::reach(double r2) const {
  return r2 >= 0 ? std::sqrt(std::ldexp(r2, 2 * exponent) + hidden) * (1 + relative) + constant : -1;
}

// P10 of docs/numerics/pairs.md.
float FilterBounds::nearness(double r2) const {
  if (!(r2 >= 0)) return up(kInf);  // nothing is within
  const double scaled = std::ldexp(r2, 2 * exponent);
  if (scaled > kLargest) return -up(kInf);
  return down(-(scaled / 2 + per_r2 * scaled + hidden) * (1 + 0x1p-22));
}

float FilterBounds::nearness_beyond(double gap) const {
  const double root = std::max(gap - constant, 0.0) / (1 + 2 * relative);
  return up(-root * root / 2);
}

double FilterBounds::around(double d2, double norm) const {
  return std::sqrt(d2) * (1 + relative) + std::sqrt(norm) * kU * (1 + 0x1p-10) + constant;
}

template PairPivot choose_pivot(View<const double, 2>, Run);
template PairPivot choose_pivot(View<const float, 2>, Run);

}  // namespace knoll
