// The formulas of the metrics, and the bands within which they decide.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "knoll/metric.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();

// 2^−e for a positive x in [2^e, 2^(e+1)), kept where it and its square have room.
double to_one(double x) { return std::ldexp(1.0, -std::clamp(std::ilogb(x), -1000, 1000)); }

// Whether squares of numbers about x are far from both ends of the range.
bool squares_well(double x) { return x >= 0x1p-450 && x <= 0x1p450; }

// 2^−e of the largest coordinate, so that squares of the scaled row neither overflow nor vanish together.
double row_scale(const double* x, int64_t d) {
  double largest = 0;
  for (int64_t j = 0; j < d; ++j) largest = std::max(largest, std::fabs(x[j]));
  return largest > 0 ? to_one(largest) : 1.0;
}

double norm(const double* x, int64_t d, double scale) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += (x[j] * scale) * (x[j] * scale);
  return std::sqrt(sum);
}

// sin²(½(φ−φ′)) + cos φ cos φ′ sin²(½(λ−λ′)): the square of the sine of half the angle.
double haversine(const double* x, const double* y) {
  const double s = std::sin(0.5 * (x[0] - y[0])), t = std::sin(0.5 * (x[1] - y[1]));
  return std::clamp(s * s + std::cos(x[0]) * std::cos(y[0]) * t * t, 0.0, 1.0);
}

}  // namespace

double largest_square(double root) {
  double s = root * root;
  while (std::sqrt(s) > root) s = std::nextafter(s, 0.0);
  for (double next; std::sqrt(next = std::nextafter(s, kInfinity)) <= root && next < kInfinity;) s = next;
  return s;
}

Metric::Metric(MetricName name, double p, int64_t d) : name_(name), p_(p), d_(d) {
  if (name == MetricName::minkowski) {
    if (!(p > 0)) throw std::invalid_argument("p must be > 0");
    if (p == 1) name_ = MetricName::manhattan;
    if (p == 2) name_ = MetricName::euclidean;
    if (p == kInfinity) name_ = MetricName::chebyshev;
  }
  if (name == MetricName::haversine && d != 2) throw std::invalid_argument("haversine needs two columns");
}

MetricName Metric::named(const std::string& name) {
  if (name == "euclidean") return MetricName::euclidean;
  if (name == "manhattan") return MetricName::manhattan;
  if (name == "chebyshev") return MetricName::chebyshev;
  if (name == "minkowski") return MetricName::minkowski;
  if (name == "cosine") return MetricName::cosine;
  if (name == "haversine") return MetricName::haversine;
  throw std::invalid_argument("metric must be euclidean, manhattan, chebyshev, minkowski, cosine or haversine");
}

void Metric::place(const double* x, double* out) const {
  if (name_ == MetricName::cosine) {
    const double scale = row_scale(x, d_), length = norm(x, d_, scale);
    for (int64_t j = 0; j < d_; ++j) out[j] = length > 0 ? x[j] * scale / length : 0.0;
    out[d_] = length > 0 ? 0.0 : 1.0;
  } else if (name_ == MetricName::haversine) {
    out[0] = std::cos(x[0]) * std::cos(x[1]);
    out[1] = std::cos(x[0]) * std::sin(x[1]);
    out[2] = std::sin(x[0]);
  } else {
    std::copy(x, x + d_, out);
  }
}

Within Metric::anywhere(double largest) const {
  Within w;
  w.radius = w.inside = w.outside = kInfinity;
  switch (name_) {
    case MetricName::manhattan:
      w.reduction = kSumAbsolute;
      break;
    case MetricName::chebyshev:
      w.reduction = kMaxAbsolute;
      break;
    case MetricName::euclidean:
      if (largest > 0 && !squares_well(largest)) w.reduction = kSumScaledSquares, w.scale = to_one(largest);
      break;
    case MetricName::minkowski:
      if (largest > 0 && std::fabs(p_ * std::log2(largest)) > 900) w.scale = to_one(largest);
      break;
    default:
      break;
  }
  return w;
}

Within Metric::within(double radius, double largest) const {
  Within w = anywhere(0);
  w.radius = radius;
  if (radius == kInfinity) return w;
  const double d = static_cast<double>(d_);
  switch (name_) {
    case MetricName::manhattan:
    case MetricName::chebyshev:
      w.inside = w.outside = radius;
      break;
    case MetricName::euclidean:
      if (radius > 0 && !squares_well(radius)) w.reduction = kSumScaledSquares, w.scale = to_one(radius);
      w.inside = w.outside = largest_square(radius * w.scale);
      break;
    case MetricName::minkowski: {
      // pow is good to an ulp but need not be monotone: a thousand ulps per term around ε^p are left to the formula.
      if (radius > 0 && std::fabs(p_ * std::log2(radius)) > 900) w.scale = to_one(radius);
      const double power = std::pow(radius * w.scale, p_), slack = (1000 + 4 * d + 8 * p_) * kUlp;
      w.inside = power * (1 - slack), w.outside = power * (1 + slack);
      break;
    }
    case MetricName::cosine: {
      // |u−v|² = 2(1 − cos) over unit vectors. Rounding moves a unit vector by (d/2+3)·u, hence |u−v|² by less than
      // (6d+30)·u, and the formula's own value by (2d+6)·u.
      const double slack = (16 * d + 128) * kUlp;
      w.inside = 2 * radius - slack, w.outside = 2 * radius + slack;
      if (radius >= 2) w.inside = w.outside = kInfinity;
      break;
    }
    case MetricName::haversine: {
      // |u−v|² = 4 sin²(½ angle). Angles far beyond 2π lose digits in the formula's differences.
      const double half = std::sin(0.5 * radius), slack = (128 + 16 * largest) * kUlp;
      w.inside = 4 * half * half - slack, w.outside = 4 * half * half + slack;
      if (radius >= 2 * std::asin(1.0)) w.inside = w.outside = kInfinity;
      break;
    }
  }
  return w;
}

double Metric::distance(const double* x, const double* y) const {
  if (direct()) {
    double largest = 0;
    for (int64_t j = 0; j < d_; ++j) largest = std::max({largest, std::fabs(x[j]), std::fabs(y[j])});
    const Within w = anywhere(largest);
    return distance(reduced(x, 1, y, 1, w), w);
  }
  if (std::equal(x, x + d_, y)) return 0.0;
  if (name_ == MetricName::haversine) return 2 * std::asin(std::sqrt(haversine(x, y)));
  const double scale_x = row_scale(x, d_), scale_y = row_scale(y, d_);
  const double length = norm(x, d_, scale_x) * norm(y, d_, scale_y);
  if (!(length > 0)) return 1.0;  // the zero vector has no direction: as far as a right angle
  double dot = 0;
  for (int64_t j = 0; j < d_; ++j) dot += (x[j] * scale_x) * (y[j] * scale_y);
  return std::clamp(1 - dot / length, 0.0, 2.0);
}

double Metric::distance(double reduced, const Within& w) const {
  if (name_ == MetricName::minkowski) return std::pow(reduced, 1 / p_) / w.scale;
  return name_ == MetricName::euclidean ? std::sqrt(reduced) / w.scale : reduced;
}

double Metric::add(double sum, double difference, const Within& w) const {
  if (name_ == MetricName::manhattan) return sum + std::fabs(difference);
  if (name_ == MetricName::chebyshev) return std::max(sum, std::fabs(difference));
  if (w.scale != 1) difference *= w.scale;
  if (name_ == MetricName::minkowski) return sum + std::pow(std::fabs(difference), p_);
  return sum + difference * difference;
}

double Metric::reduced(const double* x, int64_t stride_x, const double* y, int64_t stride_y, const Within& w) const {
  double sum = 0;
  for (int64_t j = 0; j < dims(); ++j) sum = add(sum, x[j * stride_x] - y[j * stride_y], w);
  return sum;
}

}  // namespace knoll
