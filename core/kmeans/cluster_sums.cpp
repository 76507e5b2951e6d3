#include "kmeans/cluster_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "common/double_double.hpp"
#include "common/exact_sum.hpp"
#include "common/one_distance.hpp"
#include "common/parallel.hpp"
#include "common/scratch_pool.hpp"
#include "common/tile.hpp"

namespace knoll {
namespace {

// The split of cluster_sums.hpp: |high|, |low| ≤ 2^40, so 2^22 terms, two per row, fit an int64.
constexpr int kHighBits = 40, kStep = 41;
constexpr int64_t kFlushAfter = int64_t{1} << 21;
// Above 2^kLargest the constants 1.5·2^52 units would overflow: everything goes to the words. Below 2^kSmallest the low
// unit would be subnormal: the exponent stays there.
constexpr int kLargest = 980, kSmallest = -940;
// Terms of one thread that wait for the words.
constexpr size_t kWaiting = 1024;
// Carries follow long before the words are full.
constexpr int64_t kCarryAfter = kSafeAdds / 4;

constexpr double kInf = std::numeric_limits<double>::infinity();

// 2^exponent; by its bits where it is a normal number.
double power(int exponent) {
  return exponent > -1023 && exponent < 1024 ? std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52)
                                             : std::ldexp(1.0, exponent);
}

int exponent_above(double magnitude) {  // magnitude < 2^result
  int e = 0;
  std::frexp(magnitude, &e);
  return magnitude == 0 ? -1074 : e;
}

// into += (sum − cut) in units, the difference of their bits. It wraps around where a term is too large for its unit,
// which happens if a caller passes other rows than in the previous step.
void add_units_above(int64_t& into, double sum, double cut) {
  add_to_word(into, static_cast<int64_t>(std::bit_cast<uint64_t>(sum) - std::bit_cast<uint64_t>(cut)));
}

// words += v · 2^exponent, in digits of 32 bits as in exact_add.
void add_integer(int64_t* words, int64_t stride, int64_t v, int exponent) {
  if (v == 0) return;
  const int position = exponent + 1074, r = position & 31;
  int64_t* word = words + stride * (position >> 5);
  const uint64_t low = static_cast<uint64_t>(v) << r;
  add_to_word(word[0], static_cast<int64_t>(low & 0xffffffff));
  add_to_word(word[stride], static_cast<int64_t>(low >> 32));
  add_to_word(word[2 * stride], (v >> 1) >> (63 - r));
}

// words += high·2^unit + low·2^(unit − kStep).
void add_units(int64_t* words, int64_t stride, int unit, int64_t high, int64_t low) {
  add_integer(words, stride, high, unit);
  add_integer(words, stride, low, unit - kStep);
}

// The exponent of each column's high unit, the mass last.
std::vector<int> units(const std::vector<int>& exponents, double largest_weight) {
  const int weight = exponent_above(largest_weight);
  std::vector<int> unit;
  for (int e : exponents) unit.push_back(std::max(e + weight, kSmallest) - kHighBits);
  unit.push_back(std::max(weight, kSmallest) - kHighBits);
  return unit;
}

// The column of the sums (the mass first) for column j of the totals (the mass last).
int64_t column_of(int64_t c, int64_t j, int64_t d) { return c * (d + 1) + (j == d ? 0 : j + 1); }

// The double nearest to high·2^kStep + low, ties to even (as the conversion rounds), and the double nearest to the
// error.
Twofold round_sum(int64_t high, int64_t low) {
  constexpr int64_t whole = int64_t{1} << 53;  // up to there a double holds it
  if (-whole <= high && high <= whole && -whole <= low && low <= whole)
    return two_sum(static_cast<double>(high) * static_cast<double>(int64_t{1} << kStep), static_cast<double>(low));
  __extension__ typedef __int128 wide;
  const wide sum = static_cast<wide>(high) * (wide{1} << kStep) + low;
  const double rounded = static_cast<double>(sum);
  return {rounded, static_cast<double>(sum - static_cast<wide>(rounded))};
}

std::vector<int> exponents_above(const std::vector<double>& magnitudes) {
  std::vector<int> exponents;
  for (double magnitude : magnitudes) exponents.push_back(exponent_above(magnitude));
  return exponents;
}

double largest(View<const double, 1> weights) {
  double most = 0;
  for (int64_t i = 0; i < weights.shape[0] && !weights.empty(); ++i) most = std::max(most, std::fabs(weights(i)));
  return most;
}

}  // namespace

// One pass for the largest magnitude of each column, row by row, which is the order of memory.
template <class T>
std::vector<int> column_exponents(View<const T, 2> x, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  std::vector<double> most(static_cast<size_t>(d), 0.0);
  std::mutex mutex;
  for_chunks(n, fair_grain(n, d, kGrain), run, [&](int64_t, int64_t begin, int64_t end) {
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
  return exponents_above(most);
}

template <class T, class I>
std::vector<int> column_exponents(Csr<T, I> x) {
  std::vector<double> most(static_cast<size_t>(x.columns), 0.0);
  for (int64_t p = x.rows == 0 ? 0 : x.begin(0); x.rows != 0 && p < x.end(x.rows - 1); ++p) {
    double& m = most[static_cast<size_t>(x.indices[p])];
    m = std::max(m, std::fabs(static_cast<double>(x.data[p])));
  }
  return exponents_above(most);
}

ClusterTotals::ClusterTotals(int64_t clusters, int64_t columns)
    : k(clusters),
      d(columns),
      ld(padded(columns + 1)),
      high(static_cast<size_t>(k * ld), 0),
      low(static_cast<size_t>(k * ld), 0),
      in_words(static_cast<size_t>(k * ld), 0) {}

ClusterTotals::ClusterTotals(int64_t clusters, int64_t columns, View<int64_t, 2> sums)
    : k(clusters),
      d(columns),
      ld(padded(columns + 1)),
      words(sums),
      in_words(static_cast<size_t>(k * ld), 0),
      in_units(false) {}

View<int64_t, 2>& ClusterTotals::allocated_words() {
  if (words.empty()) {
    const int64_t count = k * (d + 1);
    own.reset(static_cast<int64_t*>(std::calloc(static_cast<size_t>(kSumWords * count), sizeof(int64_t))));
    if (own == nullptr) throw std::bad_alloc();
    words = matrix_view(own.get(), kSumWords, count);
  }
  return words;
}

// A digit is below 2^32 in magnitude, so kSafeAdds = 2^30 additions stay below 2^62 in a word of 63 bits.
void ClusterTotals::count_additions(int64_t terms) {
  if ((additions += terms) < kCarryAfter) return;
  exact_normalise_columns(words);
  additions = 0;
}

ClusterDelta::ClusterDelta(const std::vector<int>& exponents, double largest_weight, ClusterTotals& totals)
    : totals_(totals),
      k_(totals.k),
      d_(totals.d),
      ld_(totals.ld),
      cut_high_(static_cast<size_t>(ld_), 1.0),
      cut_low_(static_cast<size_t>(ld_), 1.0),
      limit_(static_cast<size_t>(ld_), kInf),
      remainder_(static_cast<size_t>(2 * ld_), 0.0),
      unit_(units(exponents, largest_weight)),
      high_(static_cast<size_t>(k_ * ld_), 0),
      low_(static_cast<size_t>(k_ * ld_), 0),
      touched_(static_cast<size_t>(k_), 0) {
  for (size_t j = 0; j < unit_.size(); ++j) {
    const bool splits = unit_[j] + kHighBits <= kLargest;
    splits_ = splits_ && splits;
    cut_high_[j] = splits ? 1.5 * power(52 + unit_[j]) : 0.0;
    cut_low_[j] = splits ? 1.5 * power(52 + unit_[j] - kStep) : 0.0;
    if (!splits) limit_[j] = 0.0;
  }
}

// One lock per kWaiting terms: rare terms must not serialise the threads.
void ClusterDelta::to_words(double t, int64_t c, int64_t j) {
  waiting_.push_back({t, c, j});
  if (waiting_.size() < kWaiting) return;
  std::lock_guard lock(totals_.mutex);
  flush_waiting();
}

void ClusterDelta::flush_waiting() {
  for (const Waiting& w : waiting_) {
    totals_.in_words[static_cast<size_t>(w.c * ld_ + w.j)] = 1;
    exact_add(&totals_.allocated_words()(0, column_of(w.c, w.j, d_)), w.t, totals_.allocated_words().stride[0]);
  }
  totals_.count_additions(static_cast<int64_t>(waiting_.size()));
  waiting_.clear();
}

// |t| < 2^e: t − (t + cut − cut) is exact, since both are multiples of ulp(t) and the difference is at most
// half a unit; the same for the low unit.
void ClusterDelta::term(double t, int64_t c, int64_t j) {
  const auto at = static_cast<size_t>(c * ld_ + j);
  const double cut = cut_high_[static_cast<size_t>(j)], cut_low = cut_low_[static_cast<size_t>(j)];
  if (!(std::fabs(t) < limit_[static_cast<size_t>(j)])) {
    if (t != 0) to_words(t, c, j);
    return;
  }
  const double above = t + cut, left = t - (above - cut), below = left + cut_low;
  add_units_above(high_[at], above, cut);
  add_units_above(low_[at], below, cut_low);
  const double remainder = left - (below - cut_low);
  if (remainder != 0) to_words(remainder, c, j);
}

// w·x = p + fma(w, x, −p) exactly, unless p is infinite or the error below 2^−1074.
void ClusterDelta::product(double w, double x, int64_t c, int64_t j) {
  const double p = w * x;
  term(p, c, j);
  if (!std::isfinite(p)) return;
  const double left = std::fma(w, x, -p);
  if (left != 0) term(left, c, j);
}

// The general case: any weight, any magnitude. What the kernel leaves over goes to the words.
template <class T>
void ClusterDelta::add_products(const T* x, double w, int64_t c) {
  const auto at = static_cast<size_t>(c * ld_);
  const SumUnits units{limit_.data(), cut_high_.data(), cut_low_.data()};
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_products_f64(x, d_, w, &units, &high_[at], &low_[at], remainder_.data());
  else
    all = kernels().kmeans.add_products_f32(x, d_, w, &units, &high_[at], &low_[at], remainder_.data());
  if (all) return;
  for (int64_t j = 0; j < d_; ++j)
    for (double left : {remainder_[static_cast<size_t>(j)], remainder_[static_cast<size_t>(padded(d_) + j)]})
      if (left != 0) to_words(left, c, j);
}

// A row of weight ±1 in columns that are split takes the fast path; what it leaves over goes to the words, term by
// term.
template <class T>
void ClusterDelta::add(const T* x, int64_t stride, double w, int64_t c) {
  if (++pending_ > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  const bool plain = std::fabs(w) == 1.0 && splits_ && (stride == 1 || d_ <= 1);
  if (!plain) {
    if (stride == 1) return add_products(x, w, c);
    row_.resize(static_cast<size_t>(d_));
    for (int64_t j = 0; j < d_; ++j) row_[static_cast<size_t>(j)] = static_cast<double>(x[j * stride]);
    return add_products(row_.data(), w, c);
  }
  int64_t *const high = &high_[static_cast<size_t>(c * ld_)], *const low = &low_[static_cast<size_t>(c * ld_)];
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_row_f64(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  else
    all = kernels().kmeans.add_row_f32(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  if (all) return;
  for (int64_t j = 0; j < d_; ++j) {
    const double t = w * static_cast<double>(x[j]), ch = cut_high_[static_cast<size_t>(j)];
    const double cl = cut_low_[static_cast<size_t>(j)], left = t - ((t + ch) - ch);
    const double remainder = left - ((left + cl) - cl);
    if (remainder != 0) to_words(remainder, c, j);
  }
}

template <class T, class I>
void ClusterDelta::add(const T* data, const I* indices, int64_t count, double w, int64_t c) {
  if ((pending_ += std::max<int64_t>(1, count)) > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  if (std::fabs(w) == 1.0) {  // the products are exact
    for (int64_t p = 0; p < count; ++p) term(w * static_cast<double>(data[p]), c, static_cast<int64_t>(indices[p]));
    return;
  }
  for (int64_t p = 0; p < count; ++p) product(w, static_cast<double>(data[p]), c, static_cast<int64_t>(indices[p]));
}

// Totals in units are integers, so their sum is the same in any order of the threads.
void ClusterDelta::flush() {
  std::lock_guard lock(totals_.mutex);
  flush_waiting();
  for (int64_t c = 0; c < k_; ++c) {
    if (touched_[static_cast<size_t>(c)] == 0) continue;
    touched_[static_cast<size_t>(c)] = 0;
    for (int64_t j = 0; j <= d_; ++j) {
      const auto at = static_cast<size_t>(c * ld_ + j);
      if (totals_.in_units) {
        add_to_word(totals_.high[at], high_[at]);
        add_to_word(totals_.low[at], low_[at]);
      } else {
        add_units(&totals_.allocated_words()(0, column_of(c, j, d_)), totals_.allocated_words().stride[0],
                  unit_[static_cast<size_t>(j)], high_[at], low_[at]);
      }
      high_[at] = low_[at] = 0;
    }
  }
  if (!totals_.in_units) totals_.count_additions(2);
  pending_ = 0;
}

// A sum in units alone is rounded directly: (high, low) are exact in 128 bits, and the unit is a power of two. Only
// sums with a term in the words need the accumulator.
void round_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<double, 1> out, View<double, 1> low, Run run) {
  if (!totals.in_units && !totals.words.empty()) return exact_round_columns(totals.words, out, run, low);
  const std::vector<int> unit = units(exponents, largest_weight);
  std::vector<double> scale;  // the low units: normal numbers, so products with them are exact
  for (int one : unit) scale.push_back(power(std::min(one - kStep, 1023)));
  for_chunks(totals.k, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t j = 0; j <= totals.d; ++j) {
        const auto at = static_cast<size_t>(c * totals.ld + j);
        const int64_t column = column_of(c, j, totals.d);
        if (totals.in_words[at] != 0) {
          int64_t words[kSumWords];
          for (int64_t l = 0; l < kSumWords; ++l) words[l] = totals.words(l, column);
          add_units(words, 1, unit[static_cast<size_t>(j)], totals.high[at], totals.low[at]);
          exact_round_columns(matrix_view<const int64_t>(words, kSumWords, 1), vector_view(&out(column), 1), {},
                              low.empty() ? low : vector_view(&low(column), 1));
          continue;
        }
        const Twofold sum = round_sum(totals.high[at], totals.low[at]);
        const double unit_low = scale[static_cast<size_t>(j)];
        out(column) = sum.high * unit_low;
        if (!low.empty()) low(column) = sum.low * unit_low;
      }
  });
}

void add_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                View<int64_t, 2> sums) {
  const std::vector<int> unit = units(exponents, largest_weight);
  for (int64_t l = 0; l < kSumWords && !totals.words.empty(); ++l)
    for (int64_t i = 0; i < sums.shape[1]; ++i) add_to_word(sums(l, i), totals.words(l, i));
  for (int64_t c = 0; c < totals.k && totals.in_units; ++c)
    for (int64_t j = 0; j <= totals.d; ++j) {
      const auto at = static_cast<size_t>(c * totals.ld + j);
      add_units(&sums(0, column_of(c, j, totals.d)), sums.stride[0], unit[static_cast<size_t>(j)], totals.high[at],
                totals.low[at]);
    }
}

template <class T>
void add_cluster_sums(View<const T, 2> x, View<const double, 1> weights, View<const int32_t, 1> labels,
                      View<int64_t, 2> sums, Run run) {
  const int64_t d = x.shape[1], k = sums.shape[1] / (d + 1);
  ClusterTotals totals(k, d, sums);
  const auto exponents = column_exponents(x, run);
  const double most = weights.empty() ? 1.0 : largest(weights);
  ScratchPool<ClusterDelta> pool([&] { return std::make_unique<ClusterDelta>(exponents, most, totals); });
  for_chunks(x.shape[0], fair_grain(x.shape[0], d, kGrain), run, [&](int64_t, int64_t begin, int64_t end) {
    ScratchPool<ClusterDelta>::Lease delta(pool);
    for (int64_t i = begin; i < end; ++i)
      if (labels(i) >= 0) delta->add(&x(i, 0), x.stride[1], weights.empty() ? 1.0 : weights(i), labels(i));
  });
  pool.for_each([](ClusterDelta& delta) { delta.flush(); });
  if (x.shape[0] > kFlushAfter) exact_normalise_columns(sums, run);
}

template <class T, class I>
void add_cluster_sums(Csr<T, I> x, View<const double, 1> weights, View<const int32_t, 1> labels, View<int64_t, 2> sums,
                      Run run) {
  if (x.rows == 0) return;
  const int64_t d = x.columns, k = sums.shape[1] / (d + 1);
  ClusterTotals totals(k, d, sums);
  const auto exponents = column_exponents(x);
  const double most = weights.empty() ? 1.0 : largest(weights);
  ScratchPool<ClusterDelta> pool([&] { return std::make_unique<ClusterDelta>(exponents, most, totals); });
  for_chunks(x.rows, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    ScratchPool<ClusterDelta>::Lease delta(pool);
    for (int64_t i = begin; i < end; ++i)
      if (labels(i) >= 0)
        delta->add(x.data + x.begin(i), x.indices + x.begin(i), x.end(i) - x.begin(i),
                   weights.empty() ? 1.0 : weights(i), labels(i));
  });
  pool.for_each([](ClusterDelta& delta) { delta.flush(); });
  if (x.rows > kFlushAfter) exact_normalise_columns(sums, run);
}

#define KNOLL_CSR(T, I)                                                          \
  template std::vector<int> column_exponents(Csr<T, I>);                         \
  template void ClusterDelta::add(const T*, const I*, int64_t, double, int64_t); \
  template void add_cluster_sums(Csr<T, I>, View<const double, 1>, View<const int32_t, 1>, View<int64_t, 2>, Run)
#define KNOLL_DENSE(T)                                                 \
  template std::vector<int> column_exponents(View<const T, 2>, Run);   \
  template void ClusterDelta::add(const T*, int64_t, double, int64_t); \
  template void add_cluster_sums(View<const T, 2>, View<const double, 1>, View<const int32_t, 1>, View<int64_t, 2>, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
