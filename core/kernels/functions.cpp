#include "kernels/functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/power_of_two.hpp"
#include "common/tile.hpp"
#include "neighbors/metric.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// c = −1 / (2 s² ln 2), rounded once. κ = 2^(c·r²), so a relative error δ of c is an absolute error |c·r²|·δ ≤ 1021·δ
// of the exponent: c needs all its bits. One correction of the quotient q = high/s², with s² as square + lost and 1/(2
// ln 2) as high + low.
double exponent_factor(double s) {
  constexpr double high = 0x1.71547652b82fep-1, low = 0x1.777d0ffda0d24p-57;  // 1 / (2 ln 2)
  const double square = s * s, lost = std::fma(s, s, -square);
  // q·square − high by one fused step is exact to a rounding; the correction makes up for it, for the bits of s² that
  // `square` lost, and for the low part of the constant (docs/numerics/functions.md, E4).
  const double q = high / square;
  return -(q + (std::fma(-q, square, high) - q * lost + low) / square);
}

// 1 where squares of numbers near x stay normal; else a power of two: coordinates keep their bits, and κ does not
// change.
double unit_for(double x) { return squares_well(x) ? 1.0 : to_one(x); }

// Points [begin, begin + count) into a column tile; lanes past the last repeat it.
template <class T>
void pack_points(View<const T, 2> x, int64_t begin, int64_t count, const KernelRule& rule, double* out) {
  for (int64_t j = 0; j < x.shape[1]; ++j)
    for (int64_t l = 0; l < kPoints; ++l)
      out[j * kPoints + l] = kernel_coordinate(static_cast<double>(x(begin + std::min(l, count - 1), j)), rule);
}

}  // namespace

KernelRule kernel_rule(const std::string& function, double a, double b, double cutoff) {
  KernelRule rule;
  if (function == "rbf") {
    if (!(a > 0) || a == kInfinity) throw std::invalid_argument("sigma must be > 0 and finite");
    if (!(b > 0) || b == kInfinity) throw std::invalid_argument("the power must be > 0 and finite");
    if (!(cutoff >= 0)) throw std::invalid_argument("cutoff must be >= 0");
    rule.unit = unit_for(a);
    // κ = 0 above the smaller of cutoff² and the r² where 2^(factor·r²) < 2^−1021 would be subnormal.
    // r = cutoff is kept, r beyond it is not: the decision of D2 in docs/numerics/rounding.md, on fused sums.
    const double reach = cutoff > 0 && cutoff < kInfinity ? largest_square(cutoff * rule.unit) : kInfinity;
    rule.factor = exponent_factor(a * rule.unit);
    rule.limit = std::min(reach, -1021.0 / rule.factor);
    if (b == 1) return rule;
    rule.function = kPowerRbf;
    rule.power = b;
    rule.inverse = 1.0 / (a * rule.unit) / (a * rule.unit);
    rule.factor = exponent_factor(1.0);
    rule.limit = reach;
    return rule;
  }
  // r ≤ ε, computed with the correctly rounded root, is r² ≤ largest_square(ε).
  if (function == "heaviside") {
    if (!(a > 0) || a == kInfinity) throw std::invalid_argument("eps must be > 0 and finite");
    rule.function = kHeaviside;
    rule.unit = unit_for(a);
    rule.limit = largest_square(a * rule.unit);
    return rule;
  }
  rule.limit = kInfinity;
  if (function == "poly") {
    // Whole, so that a negative base is defined.
    if (!(b >= 1) || b != std::floor(b) || b > 0x1p52)
      throw std::invalid_argument("the degree must be a whole number >= 1");
    rule.function = kPoly;
    rule.shift = a;
    rule.degree = static_cast<int64_t>(b);
    return rule;
  }
  if (function != "linear") throw std::invalid_argument("function must be rbf, heaviside, poly or linear");
  rule.function = kLinear;
  return rule;
}

double kernel_coordinate(double x, const KernelRule& rule) {
  constexpr double most = std::numeric_limits<double>::max();
  // Two points at ±DBL_MAX have an infinite r², hence κ = 0; two at ∞ would have NaN.
  return std::clamp(x * rule.unit, -most, most) + 0.0;
}

// The points y are in lanes, so that a row of a tile is a contiguous piece of a row of `out`.
template <class T>
void kernel_tile(View<const T, 2> x, View<const T, 2> y, const KernelRule& rule, View<double, 2> out, Run run) {
  const int64_t d = x.shape[1], m = y.shape[0], tiles = chunk_count(m, kPoints), size = d * kPoints;
  const auto columns = make_large_array<double>(static_cast<size_t>(tiles * size));  // (tiles, d, kPoints)
  for_chunks(tiles, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      pack_points(y, t * kPoints, std::min<int64_t>(kPoints, m - t * kPoints), rule, columns.get() + t * size);
  });
  for_chunks(x.shape[0], kPoints, run, [&](int64_t, int64_t begin, int64_t end) {
    // x as rows and y as column tiles: κ has the same bits as in apply, where both are tiles (docs/numerics/kernels.md,
    // K1).
    std::vector<double> rows(static_cast<size_t>(size));
    alignas(64) double tile[kPoints * kPoints];
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < d; ++j)
        rows[static_cast<size_t>((i - begin) * d + j)] = kernel_coordinate(static_cast<double>(x(i, j)), rule);
    for (int64_t t = 0; t < tiles; ++t) {
      run.poll();
      const int64_t from = t * kPoints, count = std::min<int64_t>(kPoints, m - from);
      kernels().gram.values(&rule, columns.get() + t * size, rows.data(), d, 1, end - begin, d, tile);
      for (int64_t i = begin; i < end; ++i)
        for (int64_t l = 0; l < count; ++l) out(i, from + l) = tile[(i - begin) * kPoints + l];
    }
  });
}

template <class T>
void kernel_diagonal(View<const T, 2> x, const KernelRule& rule, View<double, 1> out, Run run) {
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> columns(static_cast<size_t>(x.shape[1] * kPoints));
    double values[kPoints];
    for (int64_t from = begin; from < end; from += kPoints) {
      run.poll();
      const int64_t count = std::min<int64_t>(kPoints, end - from);
      pack_points(x, from, count, rule, columns.data());
      kernels().gram.diagonal(&rule, columns.data(), x.shape[1], values);
      for (int64_t l = 0; l < count; ++l) out(from + l) = values[l];
    }
  });
}

template void kernel_tile(View<const float, 2>, View<const float, 2>, const KernelRule&, View<double, 2>, Run);
template void kernel_tile(View<const double, 2>, View<const double, 2>, const KernelRule&, View<double, 2>, Run);
template void kernel_diagonal(View<const float, 2>, const KernelRule&, View<double, 1>, Run);
template void kernel_diagonal(View<const double, 2>, const KernelRule&, View<double, 1>, Run);

}  // namespace knoll
