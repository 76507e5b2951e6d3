// Metrics: what "within ε" means, each decided in the metric's own float64 formula.
//
// The index works with *reduced* distances over coordinates of its own: Σ(x−y)², Σ|x−y|, max|x−y| or Σ|x−y|^p over the
// points themselves, and Σ(x−y)² over unit vectors for the angles (cosine, haversine). A reduced distance at most
// `inside` is within ε, one above `outside` is not; between the two, a band as wide as the rounding errors, the formula
// decides. The first three have no band.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "neighbors/index_kernels.hpp"

namespace knoll {

enum class MetricName { euclidean, manhattan, chebyshev, minkowski, cosine, haversine, gower };

// A value that is missing, of rows under Gower's distance. It is a number, so that rows can be compared and sorted.
constexpr double kMissing = std::numeric_limits<double>::max();

// Of the coordinates of a table: between which powers of two they are.
struct Magnitudes {
  double largest = 0;
  double least = std::numeric_limits<double>::infinity();  // of those that are not 0

  void add(double x) {
    x = std::fabs(x);
    largest = std::max(largest, x);
    least = std::min(least, x > 0 ? x : least);
  }
  void add(const Magnitudes& other) {
    largest = std::max(largest, other.largest);
    least = std::min(least, other.least);
  }
  // Whether no square of a difference leaves the range of float64, nor loses bits (docs/numerics/index.md, X7).
  bool squares_well() const { return largest <= 0x1p450 && (largest == 0 || std::min(least, largest) >= 0x1p-450); }
};

// What "within a radius" is in reduced distances.
struct Within {
  double radius = 0;
  double scale = 1;                   // differences are multiplied by it first: a power of two
  double inside = 0, outside = 0;     // reduced distances: certainly within, and at most possibly
  Reduction reduction = kSumSquares;  // which kernels (minkowski: none of them)
};

class Metric {
 public:
  // p is the exponent of minkowski; 1, 2 and infinity are the metrics that have names, and p ≥ 2^60 is infinity.
  // d: columns of the data.
  Metric(MetricName name, double p, int64_t d);
  // Gower's distance: a weight for each column, negative for a category, whose values are levels.
  explicit Metric(std::vector<double> column_weights);
  static MetricName named(const std::string& name);  // throws std::invalid_argument

  MetricName name() const { return name_; }
  int64_t columns() const { return d_; }
  // Coordinates in the index. The zero vector has no direction: for cosine it gets an axis of its own.
  int64_t dims() const { return name_ == MetricName::haversine ? 3 : name_ == MetricName::cosine ? d_ + 1 : d_; }
  bool direct() const {  // they are the data
    return name_ != MetricName::cosine && name_ != MetricName::haversine && name_ != MetricName::gower;
  }
  bool has_kernels() const { return name_ != MetricName::minkowski && name_ != MetricName::gower; }
  const std::vector<double>& column_weights() const { return *column_weights_; }  // of gower
  // Whether the formula decides near a radius. Then keys of a search are distances, otherwise reduced distances.
  bool has_band() const { return !has_kernels() || !direct(); }

  // The coordinates of a data point in the index: unit vectors for the angles, else the point itself.
  void embed(const double* x,     // in  (d)
             double* out) const;  // out (dims)

  // largest: the largest |coordinate| of the data, which the rounding of angles depends on.
  Within within(double radius, double largest) const;
  // For distances without a radius (nearest neighbours, trees): a scale under which no square overflows, and as few
  // underflow as may be.
  Within anywhere(const Magnitudes& of_data) const;

  // The distance by the metric's formula. Equal points have distance 0.
  double distance(const double* x, const double* y) const;
  // The distance of a reduced one, where there is no band.
  double distance(double reduced, const Within& w) const;
  // The reduced distance in the scale of w beyond which no distance is at most `limit`, where there is a band.
  double reduced_limit(double limit, const Within& w, double largest) const;
  void distances(const double* reduced, int64_t n, const Within& w, double* out) const;  // of n of them
  // Reduced distance of one pair of embedded points, in the order of the kernels.
  double reduced(const double* x, int64_t stride_x, const double* y, int64_t stride_y, const Within& w) const;
  double add(double sum, double difference, const Within& w) const;  // one more coordinate

 private:
  double slack() const;  // the half width of minkowski's band, relative to the power of the radius
  double power_sum(const double* x, const double* y) const;
  double gower(const double* x, const double* y) const;
  MetricName name_;
  double p_;
  int64_t d_;
  std::shared_ptr<const std::vector<double>> column_weights_;
};

// The largest double s whose correctly rounded root is ≤ root, or < root where the ball is open. So √s ≤ ε, computed,
// is the same decision as s ≤ largest_square(ε), without a root. −1 where no s ≥ 0 qualifies.
double largest_square(double root, bool closed = true);

}  // namespace knoll
