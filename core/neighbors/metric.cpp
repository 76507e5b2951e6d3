// The formulas of the metrics, and the bands within which they decide.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/power_of_two.hpp"
#include "neighbors/cosine.hpp"
#include "neighbors/metric.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUlp = std::numeric_limits<double>::epsilon();
// Coordinates are scaled to below 2^(kTop + 1): 2^40 squares of their differences add up to less than 2^1024.
constexpr int kTop = 490;

// 2^−e of the largest coordinate, so that squares of the scaled row neither overflow nor vanish together.
// A power of two, so directions keep their bits.
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

// sin²(½(φ−φ′)) + cos φ cos φ′ sin²(½(λ−λ′)): the square of the sine of half the angle. Clamped, since rounding may
// leave [0, 1], where asin ends.
double haversine(const double* x, const double* y) {
  const double s = std::sin(0.5 * (x[0] - y[0])), t = std::sin(0.5 * (x[1] - y[1]));
  return std::clamp(s * s + std::cos(x[0]) * std::cos(y[0]) * t * t, 0.0, 1.0);
}

}  // namespace

// Rounding is monotone, so the s that qualify are an interval from 0; root·root is within a few ulps of its end.
// docs/numerics/rounding.md, D2.
double largest_square(double root, bool closed) {
  const auto outside = [&](double s) { return closed ? std::sqrt(s) > root : std::sqrt(s) >= root; };
  if (std::isnan(root) || (!closed && root == 0)) return -1.0;
  if (closed && std::isinf(root)) return root;
  double s = root * root;
  // A few steps down, then up as long as the next one still qualifies.
  while (outside(s)) s = std::nextafter(s, -1.0);
  for (double up = std::nextafter(s, kInfinity); !outside(up); up = std::nextafter(up, kInfinity)) s = up;
  return s;
}

// Minkowski with p = 1, 2, ∞ is the metric of that name, which has kernels and no band. max ≤ (Σ|x−y|^p)^(1/p) ≤
// max·d^(1/p), and for p ≥ 2^60 and d < 2^31, d^(1/p) < 1 + 2^−55: the largest difference is the rounded distance.
Metric::Metric(MetricName name, double p, int64_t d) : name_(name), p_(p), d_(d) {
  if (name == MetricName::minkowski) {
    if (!(p > 0)) throw std::invalid_argument("p must be > 0");
    if (p == 1) name_ = MetricName::manhattan;
    if (p == 2) name_ = MetricName::euclidean;
    if (p >= 0x1p60) name_ = MetricName::chebyshev;
  }
  if (name == MetricName::gower) throw std::invalid_argument("gower needs the weights of its columns");
  if (name == MetricName::haversine && d != 2) throw std::invalid_argument("haversine needs two columns");
}

Metric::Metric(std::vector<double> column_weights)
    : name_(MetricName::gower),
      p_(1),
      d_(static_cast<int64_t>(column_weights.size())),
      column_weights_(std::make_shared<const std::vector<double>>(std::move(column_weights))) {
  for (const double weight : *column_weights_)
    if (!std::isfinite(weight) || weight == 0) throw std::invalid_argument("weights of columns must be finite, not 0");
}

MetricName Metric::named(const std::string& name) {
  if (name == "euclidean") return MetricName::euclidean;
  if (name == "manhattan") return MetricName::manhattan;
  if (name == "chebyshev") return MetricName::chebyshev;
  if (name == "minkowski") return MetricName::minkowski;
  if (name == "cosine") return MetricName::cosine;
  if (name == "haversine") return MetricName::haversine;
  if (name == "gower") return MetricName::gower;
  throw std::invalid_argument("metric must be euclidean, manhattan, chebyshev, minkowski, cosine, haversine or gower");
}

// Cosine: the unit vector, and an axis of its own for the zero vector, so that it is at |u − v|² = 2, distance 1, from
// all others. Haversine: the point on the unit sphere.
void Metric::embed(const double* x, double* out) const {
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

// Multiplying differences, not points, by a power of two: a far point would overflow to ∞, and ∞ − ∞ is NaN. The scale
// is that of the largest coordinate, so that a table has the same answers in other units. docs/numerics/index.md, X7.
Within Metric::anywhere(const Magnitudes& of_data) const {
  const double largest = of_data.largest;
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
      if (!of_data.squares_well())
        w.reduction = kSumScaledSquares, w.scale = std::ldexp(1.0, std::min(kTop - std::ilogb(largest), 1000));
      break;
    case MetricName::minkowski:
      // Scaled differences are below ½, so that no power overflows however large p is; those that vanish are decided by
      // the formula (reduced_limit).
      if (largest > 0 && p_ * (1 + std::fabs(std::log2(largest))) > 900)
        w.scale = std::ldexp(1.0, -std::max(std::ilogb(largest) + 3, -1000));
      break;
    default:
      break;
  }
  return w;
}

// The thresholds `inside` and `outside` of a radius. Where they are equal, the reduced distance itself decides.
Within Metric::within(double radius, double largest) const {
  Within w = anywhere({});
  w.radius = radius;
  if (radius == kInfinity) return w;
  const double d = static_cast<double>(d_);
  switch (name_) {
    case MetricName::manhattan:
    case MetricName::chebyshev:
    case MetricName::gower:
      w.inside = w.outside = radius;
      break;
    case MetricName::euclidean:
      if (radius > 0 && !squares_well(radius)) w.reduction = kSumScaledSquares, w.scale = to_one(radius);
      w.inside = w.outside = largest_square(radius * w.scale);
      break;
    case MetricName::minkowski: {
      // pow is accurate to an ulp but need not be monotone: within 1000 + 4d + 8p ulps of ε^p the formula decides.
      // Numbers in [1, 2) have powers beyond float64 where p > 900: there the unit is ε itself, up to rounding.
      if (radius > 0 && std::fabs(p_ * std::log2(radius)) > 900)
        w.scale = p_ > 900 && radius >= 0x1p-1000 && radius <= 0x1p1000 ? 1 / radius : to_one(radius);
      const double power = std::pow(radius * w.scale, p_);
      w.inside = power * (1 - slack()), w.outside = power * (1 + slack());
      if (radius > 0 && !(power > 0x1p-1000 && power < 0x1p1000)) w.inside = -1, w.outside = kInfinity;
      break;
    }
    case MetricName::cosine: {
      // |u−v|² = 2(1 − cos) over unit vectors. Rounding moves a unit vector by (d/2+3)·u, hence |u−v|² by less than
      // (6d+30)·u, and the formula's own value by (2d+6)·u.
      // docs/numerics/index.md, X5: more than twice the sum of both, so that second-order terms are covered.
      const double slack = (16 * d + 128) * kUlp;
      w.inside = 2 * radius - slack, w.outside = 2 * radius + slack;
      // No two vectors are farther apart: the band must not exclude the opposite ones.
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

// Equal rows have distance 0 in every metric, which rounding of 1 − cos would not give: a weight of 2 must be two rows.
double Metric::distance(const double* x, const double* y) const {
  if (name_ == MetricName::euclidean) {  // the common case without a branch for each coordinate: the same operations
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) sum += (x[j] - y[j]) * (x[j] - y[j]);
    if (sum >= 0x1p-900 && sum <= 0x1p900) return std::sqrt(sum);  // squares that underflow are below half an ulp
    Magnitudes differences;
    for (int64_t j = 0; j < d_; ++j) differences.add(x[j] - y[j]);
    if (differences.largest == 0 || differences.largest == kInfinity) return differences.largest;
    const Within w{.scale = to_one(differences.largest), .reduction = kSumScaledSquares};
    return distance(reduced(x, 1, y, 1, w), w);
  }
  if (name_ == MetricName::minkowski) return power_sum(x, y);
  if (direct()) return reduced(x, 1, y, 1, {});
  if (std::equal(x, x + d_, y)) return 0.0;
  if (name_ == MetricName::haversine) return 2 * std::asin(std::sqrt(haversine(x, y)));
  if (name_ == MetricName::gower) return gower(x, y);
  const CosineLength of_x = cosine_length(x, d_), of_y = cosine_length(y, d_);
  double product = 0;
  for (int64_t j = 0; j < d_; ++j) product += (x[j] * of_x.scale) * (y[j] * of_y.scale);
  return cosine_distance(product, of_x, of_y);
}

CosineLength cosine_length(const double* x, int64_t d) {
  const double scale = row_scale(x, d);
  return {scale, norm(x, d, scale)};
}

double cosine_distance(double product, CosineLength x, CosineLength y) {
  const double length = x.length * y.length;
  if (!(length > 0)) return 1.0;  // the zero vector has no direction: distance 1, as of a right angle
  // Rounding may leave the range that callers rely on.
  return std::clamp(1 - product / length, 0.0, 2.0);
}

// (Σ|x−y|^p)^(1/p), in units of the largest difference where its power is not well within the range.
double Metric::power_sum(const double* x, const double* y) const {
  double largest = 0, sum = 0;
  for (int64_t j = 0; j < d_; ++j) largest = std::max(largest, std::fabs(x[j] - y[j]));
  if (largest == 0 || largest == kInfinity) return largest;
  const double unit = std::fabs(p_ * std::log2(largest)) > 900 ? largest : 1.0;
  for (int64_t j = 0; j < d_; ++j) sum += std::pow(std::fabs(x[j] - y[j]) / unit, p_);
  return unit * std::pow(sum, 1 / p_);
}

// The weighted mean, over the columns that both have, of |x − y| and of [x ≠ y], added in the order of the columns
// (eq. 5.14). Rows without a common column are 1 apart.
double Metric::gower(const double* x, const double* y) const {
  double sum = 0, mass = 0;
  for (int64_t j = 0; j < d_; ++j) {
    if (x[j] == kMissing || y[j] == kMissing) continue;
    const double weight = (*column_weights_)[static_cast<size_t>(j)];
    mass += std::fabs(weight);
    if (weight > 0)
      sum += weight * std::fabs(x[j] - y[j]);
    else if (x[j] != y[j])
      sum -= weight;
  }
  return mass > 0 ? sum / mass : 1.0;
}

double Metric::slack() const { return (1000 + 4 * static_cast<double>(d_) + 8 * p_) * kUlp; }

double Metric::reduced_limit(double limit, const Within& w, double largest) const {
  if (limit < 0 || limit == kInfinity) return limit;
  if (name_ != MetricName::minkowski) return within(limit, largest).outside;
  // Powers below 2^−1000 may have lost bits to underflow: their rows are candidates, whatever the limit.
  return std::max(std::pow(limit * w.scale, p_) * (1 + slack()), 0x1p-1000);
}

double Metric::distance(double reduced, const Within& w) const {
  return name_ == MetricName::euclidean ? std::sqrt(reduced) / w.scale : reduced;
}

void Metric::distances(const double* reduced, int64_t n, const Within& w, double* out) const {
  if (name_ == MetricName::minkowski)
    for (int64_t i = 0; i < n; ++i) out[i] = distance(reduced[i], w);
  else if (name_ == MetricName::euclidean)
    for (int64_t i = 0; i < n; ++i) out[i] = std::sqrt(reduced[i]) / w.scale;
  else
    std::copy_n(reduced, n, out);
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
