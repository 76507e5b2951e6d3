#include "knoll/cluster_sums.hpp"

#include <bit>
#include <cmath>

#include "knoll/parallel.hpp"
#include "knoll/slots.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"
#include "knoll/twofold.hpp"

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

// The exponent of each column's high unit, the mass last.
std::vector<int> units(const std::vector<int>& exponents, double largest_weight) {
  const int weight = exponent_above(largest_weight);
  std::vector<int> unit;
  for (int e : exponents) unit.push_back(std::max(e + weight, kSmallest) - kHighBits);
  unit.push_back(std::max(weight, kSmallest) - kHighBits);
  return unit;
}

// Where column j of the totals (the mass last) stands among the sums (the mass first).
int64_t column_of(int64_t c, int64_t j, int64_t d) { return c * (d + 1) + (j == d ? 0 : j + 1); }

// The double nearest to high·2^kStep + low, ties to even (the conversion rounds so), and the one nearest to the rest.
Twofold round_sum(int64_t high, int64_t low) {
  constexpr int64_t whole = int64_t{1} << 53;  // up to there a double holds it
  if (-whole <= high && high <= whole && -whole <= low && low <= whole)
    return two_sum(static_cast<double>(high) * static_cast<double>(int64_t{1} << kStep), static_cast<double>(low));
  __extension__ typedef __int128 wide;
  const wide sum = static_cast<wide>(high) * (wide{1} << kStep) + low;
  const double rounded = static_cast<double>(sum);
  return {rounded, static_cast<double>(sum - static_cast<wide>(rounded))};
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

ClusterTotals::ClusterTotals(int64_t clusters, int64_t columns, View<int64_t, 2> sums)
    : k(clusters),
      d(columns),
      ld(padded(columns + 1)),
      limbs(sums),
      high(static_cast<size_t>(k * ld), 0),
      low(static_cast<size_t>(k * ld), 0) {}

ClusterDelta::ClusterDelta(const std::vector<int>& exponents, double largest_weight, ClusterTotals& totals)
    : totals_(totals),
      k_(totals.k),
      d_(totals.d),
      ld_(totals.ld),
      cut_high_(static_cast<size_t>(ld_), 1.0),
      cut_low_(static_cast<size_t>(ld_), 1.0),
      unit_(units(exponents, largest_weight)),
      high_(static_cast<size_t>(k_ * ld_), 0),
      low_(static_cast<size_t>(k_ * ld_), 0),
      touched_(static_cast<size_t>(k_), 0) {
  for (size_t j = 0; j < unit_.size(); ++j) {
    const bool cuts = unit_[j] + kHighBits <= kLargest;
    cuts_ = cuts_ && cuts;
    cut_high_[j] = cuts ? 1.5 * power(52 + unit_[j]) : 0.0;
    cut_low_[j] = cuts ? 1.5 * power(52 + unit_[j] - kStep) : 0.0;
  }
}

void ClusterDelta::to_limbs(double t, int64_t c, int64_t j) {
  std::lock_guard lock(totals_.mutex);
  totals_.in_units = false;
  exact_add(&totals_.limbs(0, column_of(c, j, d_)), t, totals_.limbs.stride[0]);
}

void ClusterDelta::term(double t, int64_t c, int64_t j) {
  const auto at = static_cast<size_t>(c * ld_ + j);
  const double cut = cut_high_[static_cast<size_t>(j)], cut_low = cut_low_[static_cast<size_t>(j)];
  double rest = t;
  if (cut != 0) {
    const double above = t + cut, left = t - (above - cut), below = left + cut_low;
    high_[at] += std::bit_cast<int64_t>(above) - std::bit_cast<int64_t>(cut);
    low_[at] += std::bit_cast<int64_t>(below) - std::bit_cast<int64_t>(cut_low);
    rest = left - (below - cut_low);
  }
  if (rest != 0) to_limbs(rest, c, j);
}

void ClusterDelta::product(double w, double x, int64_t c, int64_t j) {
  const double p = w * x;
  term(p, c, j);
  if (!std::isfinite(p)) return;
  const double left = std::fma(w, x, -p);
  if (left != 0) term(left, c, j);
}

template <class T>
void ClusterDelta::add(const T* x, int64_t stride, double w, int64_t c) {
  if (++pending_ > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  if (std::fabs(w) != 1.0 || !cuts_ || (stride != 1 && d_ > 1)) {
    for (int64_t j = 0; j < d_; ++j) product(w, static_cast<double>(x[j * stride]), c, j);
    return;
  }
  int64_t *const high = &high_[static_cast<size_t>(c * ld_)], *const low = &low_[static_cast<size_t>(c * ld_)];
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_row_f64(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  else
    all = kernels().kmeans.add_row_f32(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  for (int64_t j = 0; j < d_ && !all; ++j) {
    const double t = w * static_cast<double>(x[j]), ch = cut_high_[static_cast<size_t>(j)];
    const double cl = cut_low_[static_cast<size_t>(j)], left = t - ((t + ch) - ch), rest = left - ((left + cl) - cl);
    if (rest != 0) to_limbs(rest, c, j);
  }
}

template <class T, class I>
void ClusterDelta::add(const T* data, const I* indices, int64_t count, double w, int64_t c) {
  if ((pending_ += std::max<int64_t>(1, count)) > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  for (int64_t p = 0; p < count; ++p) product(w, static_cast<double>(data[p]), c, static_cast<int64_t>(indices[p]));
}

void ClusterDelta::flush() {
  std::lock_guard lock(totals_.mutex);
  for (int64_t c = 0; c < k_; ++c) {
    if (touched_[static_cast<size_t>(c)] == 0) continue;
    touched_[static_cast<size_t>(c)] = 0;
    for (int64_t j = 0; j <= d_; ++j) {
      const auto at = static_cast<size_t>(c * ld_ + j);
      const int unit = unit_[static_cast<size_t>(j)];
      int64_t* const limbs = &totals_.limbs(0, column_of(c, j, d_));
      add_integer(limbs, totals_.limbs.stride[0], high_[at], unit);
      add_integer(limbs, totals_.limbs.stride[0], low_[at], unit - kStep);
      totals_.high[at] += high_[at];
      totals_.low[at] += low_[at];
      high_[at] = low_[at] = 0;
    }
  }
  pending_ = 0;
}

void round_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<double, 1> out, View<double, 1> rest, Run run) {
  if (!totals.in_units) return exact_round_columns(totals.limbs, out, run, rest);
  std::vector<double> scale;  // the low units: normal numbers, so that products by them are exact
  for (int unit : units(exponents, largest_weight)) scale.push_back(power(std::min(unit - kStep, 1023)));
  for_chunks(totals.k, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t j = 0; j <= totals.d; ++j) {
        const auto at = static_cast<size_t>(c * totals.ld + j);
        const Twofold sum = round_sum(totals.high[at], totals.low[at]);
        const int64_t column = column_of(c, j, totals.d);
        const double one = scale[static_cast<size_t>(j)];
        out(column) = sum.high * one;
        if (!rest.empty()) rest(column) = sum.low * one;
      }
  });
}

template <class T>
void add_cluster_sums(View<const T, 2> x, View<const double, 1> weights, View<const int32_t, 1> labels,
                      View<int64_t, 2> sums, Run run) {
  const int64_t d = x.shape[1], k = sums.shape[1] / (d + 1);
  const auto exponents = column_exponents(x, run);
  const double most = weights.empty() ? 1.0 : largest(weights);
  ClusterTotals totals(k, d, sums);
  Slots<ClusterDelta> slots([&] { return std::make_unique<ClusterDelta>(exponents, most, totals); });
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
  ClusterTotals totals(k, d, sums);
  Slots<ClusterDelta> slots([&] { return std::make_unique<ClusterDelta>(exponents, most, totals); });
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
