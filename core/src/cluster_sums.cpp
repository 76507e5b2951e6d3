#include "knoll/cluster_sums.hpp"

#include <bit>
#include <cmath>

#include "knoll/parallel.hpp"
#include "knoll/slots.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

// A term below 2^e in magnitude is high·2^(e − 40) + low·2^(e − 81) + rest, |high| and |low| ≤ 2^40: so 2^22 terms fit
// an int64 of either kind.
constexpr int kHighBits = 40, kStep = 41;
constexpr int64_t kFlushAfter = int64_t{1} << 22;
// Where cutting would overflow, all goes to the limbs; where the low unit would be subnormal, the cut stays above that.
constexpr int kLargest = 980, kSmallest = -940;

double power(int exponent) { return std::ldexp(1.0, exponent); }

int exponent_above(double magnitude) {  // magnitude < 2^result
  int e = 0;
  std::frexp(magnitude, &e);
  return magnitude == 0 ? -1074 : e;
}

// limbs += v · 2^exponent; the digits are cut as in exact_add.
void add_integer(int64_t* limbs, int64_t stride, int64_t v, int exponent) {
  if (v == 0) return;
  const int position = exponent + 1074, r = position & 31;
  int64_t* limb = limbs + stride * (position >> 5);
  const uint64_t low = static_cast<uint64_t>(v) << r;
  limb[0] += static_cast<int64_t>(low & 0xffffffff);
  limb[stride] += static_cast<int64_t>(low >> 32);
  limb[2 * stride] += (v >> 1) >> (63 - r);
}

double largest(View<const double, 1> weights) {
  double most = 0;
  for (int64_t i = 0; i < weights.shape[0] && !weights.empty(); ++i) most = std::max(most, std::fabs(weights(i)));
  return most;
}

}  // namespace

template <class T>
std::vector<int> column_exponents(View<const T, 2> x, Run run) {
  const int64_t d = x.shape[1];
  std::vector<double> most(static_cast<size_t>(d), 0.0);
  std::mutex mutex;
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<T> here(static_cast<size_t>(d), T{0});
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < d; ++j) {
        const T magnitude = std::fabs(x(i, j));
        T& m = here[static_cast<size_t>(j)];
        m = magnitude > m ? magnitude : m;
      }
    std::lock_guard lock(mutex);
    for (size_t j = 0; j < here.size(); ++j) most[j] = std::max(most[j], static_cast<double>(here[j]));
  });
  std::vector<int> exponents;
  for (double m : most) exponents.push_back(exponent_above(m));
  return exponents;
}

template <class T, class I>
std::vector<int> column_exponents(Csr<T, I> x) {
  std::vector<double> most(static_cast<size_t>(x.columns), 0.0);
  for (int64_t p = x.begin(0); p < x.end(x.rows - 1); ++p) {
    double& m = most[static_cast<size_t>(x.indices[p])];
    m = std::max(m, std::fabs(static_cast<double>(x.data[p])));
  }
  std::vector<int> exponents;
  for (double m : most) exponents.push_back(exponent_above(m));
  return exponents;
}

ClusterDelta::ClusterDelta(int64_t k, int64_t d, const std::vector<int>& exponents, double largest_weight,
                           View<int64_t, 2> sums, std::mutex& mutex)
    : k_(k),
      d_(d),
      high_(static_cast<size_t>(k * (d + 1)), 0),
      low_(static_cast<size_t>(k * (d + 1)), 0),
      sums_(sums),
      mutex_(mutex) {
  const int weight = largest_weight == 0 ? 1 : exponent_above(largest_weight);
  for (int64_t j = -1; j < d; ++j) {  // the mass, then the columns
    int e = std::max((j < 0 ? 0 : exponents[static_cast<size_t>(j)]) + weight, kSmallest);
    unit_.push_back(e - kHighBits);
    const bool cuts = e <= kLargest;
    cut_high_.push_back(cuts ? 1.5 * power(52 + e - kHighBits) : 0.0);
    cut_low_.push_back(cuts ? 1.5 * power(52 + e - kHighBits - kStep) : 0.0);
  }
}

void ClusterDelta::term(double t, int64_t c, int64_t j) {
  const auto column = static_cast<size_t>(c * (d_ + 1) + j);
  const double cut = cut_high_[static_cast<size_t>(j)], cut_low = cut_low_[static_cast<size_t>(j)];
  double rest = t;
  if (cut != 0) {
    const double above = t + cut, left = t - (above - cut), below = left + cut_low;
    high_[column] += std::bit_cast<int64_t>(above) - std::bit_cast<int64_t>(cut);
    low_[column] += std::bit_cast<int64_t>(below) - std::bit_cast<int64_t>(cut_low);
    rest = left - (below - cut_low);
  }
  if (rest == 0) return;
  std::lock_guard lock(mutex_);
  exact_add(&sums_(0, static_cast<int64_t>(column)), rest, sums_.stride[0]);
}

void ClusterDelta::product(double w, double x, int64_t c, int64_t j) {
  const double p = w * x;
  term(p, c, j);
  if (w != 1.0 && std::isfinite(p)) {
    const double left = std::fma(w, x, -p);
    if (left != 0) term(left, c, j);
  }
}

template <class T>
void ClusterDelta::add(const T* x, int64_t stride, double w, int64_t c) {
  if (++pending_ > kFlushAfter) flush();
  term(w, c, 0);
  for (int64_t j = 0; j < d_; ++j) product(w, static_cast<double>(x[j * stride]), c, j + 1);
}

template <class T, class I>
void ClusterDelta::add(const T* data, const I* indices, int64_t count, double w, int64_t c) {
  if ((pending_ += std::max<int64_t>(1, count)) > kFlushAfter) flush();
  term(w, c, 0);
  for (int64_t p = 0; p < count; ++p) product(w, static_cast<double>(data[p]), c, static_cast<int64_t>(indices[p]) + 1);
}

void ClusterDelta::flush() {
  std::lock_guard lock(mutex_);
  for (int64_t c = 0; c < k_; ++c)
    for (int64_t j = 0; j <= d_; ++j) {
      const int64_t column = c * (d_ + 1) + j;
      const auto at = static_cast<size_t>(column);
      const int unit = unit_[static_cast<size_t>(j)];
      add_integer(&sums_(0, column), sums_.stride[0], high_[at], unit);
      add_integer(&sums_(0, column), sums_.stride[0], low_[at], unit - kStep);
      high_[at] = low_[at] = 0;
    }
  pending_ = 0;
}

template <class T>
void add_cluster_sums(View<const T, 2> x, View<const double, 1> weights, View<const int32_t, 1> labels,
                      View<int64_t, 2> sums, Run run) {
  const int64_t d = x.shape[1], k = sums.shape[1] / (d + 1);
  const auto exponents = column_exponents(x, run);
  const double most = weights.empty() ? 1.0 : largest(weights);
  std::mutex mutex;
  Slots<ClusterDelta> slots([&] { return std::make_unique<ClusterDelta>(k, d, exponents, most, sums, mutex); });
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    Slots<ClusterDelta>::Loan delta(slots);
    for (int64_t i = begin; i < end; ++i)
      if (labels(i) >= 0) delta->add(&x(i, 0), x.stride[1], weights.empty() ? 1.0 : weights(i), labels(i));
  });
  slots.for_each([](ClusterDelta& delta) { delta.flush(); });
  if (x.shape[0] > kFlushAfter) exact_normalise_columns(sums, run);
}

template <class T, class I>
void add_cluster_sums(Csr<T, I> x, View<const double, 1> weights, View<const int32_t, 1> labels, View<int64_t, 2> sums,
                      Run run) {
  if (x.rows == 0) return;
  const int64_t d = x.columns, k = sums.shape[1] / (d + 1);
  const auto exponents = column_exponents(x);
  const double most = weights.empty() ? 1.0 : largest(weights);
  std::mutex mutex;
  Slots<ClusterDelta> slots([&] { return std::make_unique<ClusterDelta>(k, d, exponents, most, sums, mutex); });
  for_chunks(x.rows, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    Slots<ClusterDelta>::Loan delta(slots);
    for (int64_t i = begin; i < end; ++i)
      if (labels(i) >= 0)
        delta->add(x.data + x.begin(i), x.indices + x.begin(i), x.end(i) - x.begin(i),
                   weights.empty() ? 1.0 : weights(i), labels(i));
  });
  slots.for_each([](ClusterDelta& delta) { delta.flush(); });
  if (x.rows > kFlushAfter) exact_normalise_columns(sums, run);
}

namespace {

// Σ over rows of weight · distance2(i), exactly.
template <class F>
double sum_rows(int64_t n, View<const double, 1> weights, Run run, F&& distance2) {
  return reduce_chunks<ExactSum>(
             n, kGrain,
             [&](int64_t, int64_t begin, int64_t end) {
               ExactSum part;
               distance2(begin, end, [&](int64_t i, double value) {
                 if (weights.empty())
                   part.add(value);
                 else
                   part.add_product(weights(i), value);
               });
               return part;
             },
             [](ExactSum& total, const ExactSum& part) { total.add(part); }, run)
      .round();
}

}  // namespace

template <class T>
double spread(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, Run run) {
  const int64_t d = x.shape[1];
  std::vector<double> center(static_cast<size_t>(d));
  pack_rows(View<const double, 2>{origin.data, {1, d}, {0, origin.stride[0]}}, center.data());
  return sum_rows(x.shape[0], weights, run, [&](int64_t begin, int64_t end, auto&& add) {
    std::vector<double> columns(static_cast<size_t>(d * kPoints)), out(kPoints);
    for (int64_t i = begin; i < end; i += kPoints) {
      const int64_t rows = std::min<int64_t>(kPoints, end - i);
      pack_columns(x.rows(i, i + rows), nullptr, columns.data());
      kernels().distance_tile(columns.data(), center.data(), d, 1, d, out.data());
      for (int64_t l = 0; l < rows; ++l) add(i + l, out[static_cast<size_t>(l)]);
    }
  });
}

template <class T, class I>
double spread(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, Run run) {
  const int64_t d = x.columns;
  std::vector<double> center(static_cast<size_t>(d));
  pack_rows(View<const double, 2>{origin.data, {1, d}, {0, origin.stride[0]}}, center.data());
  return sum_rows(x.rows, weights, run, [&](int64_t begin, int64_t end, auto&& add) {
    std::vector<double> columns(static_cast<size_t>(d * kPoints)), out(kPoints);
    for (int64_t i = begin; i < end; i += kPoints) {
      const int64_t rows = std::min<int64_t>(kPoints, end - i);
      for (int64_t l = 0; l < rows; ++l) x.unpack(i + l, columns.data() + l, kPoints);
      kernels().distance_tile(columns.data(), center.data(), d, 1, d, out.data());
      for (int64_t l = 0; l < rows; ++l) add(i + l, out[static_cast<size_t>(l)]);
    }
  });
}

#define KNOLL_CSR(T, I)                                                                                            \
  template void ClusterDelta::add(const T*, const I*, int64_t, double, int64_t);                                   \
  template void add_cluster_sums(Csr<T, I>, View<const double, 1>, View<const int32_t, 1>, View<int64_t, 2>, Run); \
  template double spread(Csr<T, I>, View<const double, 1>, View<const double, 1>, Run)
#define KNOLL_DENSE(T)                                                                                              \
  template std::vector<int> column_exponents(View<const T, 2>, Run);                                                \
  template void ClusterDelta::add(const T*, int64_t, double, int64_t);                                              \
  template void add_cluster_sums(View<const T, 2>, View<const double, 1>, View<const int32_t, 1>, View<int64_t, 2>, \
                                 Run);                                                                              \
  template double spread(View<const T, 2>, View<const double, 1>, View<const double, 1>, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
