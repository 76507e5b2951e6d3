#include "kmeans/cluster_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
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

// The split of cluster_sums.hpp: |high|, |low|, |least| ≤ 2^40, so 2^22 terms, two per row, fit an int64.
constexpr int kHighBits = 40, kStep = 41;
constexpr int64_t kFlushAfter = int64_t{1} << 21;
// Above 2^kLargest the constants 1.5·2^52 units would overflow: everything goes to the words. Below 2^kSmallest the low
// unit would be subnormal: the exponent stays there (the least unit is then subnormal, which is as exact).
constexpr int kLargest = 980, kSmallest = -940;
// Terms of one thread that wait for the words.
constexpr size_t kWaiting = 1024;
// Rows are split at all three units at once when more than one in kManyInexact left a remainder, after kFewInexact.
constexpr int64_t kFewInexact = 64, kManyInexact = 8;
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

// words += high·2^unit + low·2^(unit − kStep) + least·2^(unit − 2·kStep).
void add_units(int64_t* words, int64_t stride, int unit, int64_t high, int64_t low, int64_t least) {
  add_integer(words, stride, high, unit);
  add_integer(words, stride, low, unit - kStep);
  add_integer(words, stride, least, unit - 2 * kStep);
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

// |x| = m·2^end with an odd integer m, and |x| < 2^top.
struct Digits {
  int top, end;
};
// From the bits: the exponent field and the position of the lowest set bit. x ≠ 0 and finite.
Digits digits_of(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const int field = static_cast<int>(bits >> 52 & 0x7ff), unit = std::max(field, 1) - 1075;
  const uint64_t whole = (bits & ((uint64_t{1} << 52) - 1)) | (field != 0 ? uint64_t{1} << 52 : 0);
  return {unit + static_cast<int>(std::bit_width(whole)), unit + std::countr_zero(whole)};
}

// The exponent of a column, from a sample of its values and from the exponent above all of them. The latter is best,
// since then no value needs a comparison with it, unless it leaves many terms a remainder below the low unit. Otherwise
// the exponent minimises the cost of the sample, and is then raised by a third of the headroom that its lowest digits
// leave.
constexpr int64_t kSampleEntries = 1 << 16, kMinSampleRows = 9, kMaxSampleRows = 257;
constexpr size_t kRare = 64;      // one remainder in so many terms does not count
constexpr size_t kMinSample = 8;  // fewer values say nothing
int exponent_for(const std::vector<Digits>& sample, int above_all) {
  constexpr int kTwo = kHighBits + kStep - 1, kThree = kTwo + kStep;  // digits of two and three units; ±1 takes a bit
  const auto remainders = [&](int e) {
    return static_cast<size_t>(std::count_if(sample.begin(), sample.end(), [&](Digits v) { return v.end < e - kTwo; }));
  };
  if (sample.size() < kMinSample || remainders(above_all) <= sample.size() / kRare) return above_all;
  constexpr int64_t kThirdUnit = 1, kToWords = 4;  // the relative cost of a term that two units do not hold
  const auto cost = [&](int e) {
    int64_t sum = 0;
    for (const Digits& v : sample)
      sum += v.top > e || v.end < e - kThree ? kToWords : v.end < e - kTwo ? kThirdUnit : 0;
    return sum;
  };
  int best = above_all;
  int64_t least = cost(above_all);
  std::vector<int> tops;
  for (const Digits& v : sample) tops.push_back(v.top);
  std::sort(tops.begin(), tops.end(), std::greater<>());
  tops.erase(std::unique(tops.begin(), tops.end()), tops.end());
  for (int e : tops)
    if (const int64_t here = cost(e); here < least) best = e, least = here;
  int headroom = above_all - best;
  for (const Digits& v : sample)
    if (v.end + kTwo >= best) headroom = std::min(headroom, (v.end + kTwo - best) / 3);
  return best + headroom;
}

// The double nearest to high·2^(2·kStep) + low·2^kStep + least, ties to even, and the double nearest to the error.
// Where the sum does not fit 128 bits, its last digits are replaced by one sticky bit, which rounds the same.
Twofold round_sum(int64_t high, int64_t low, int64_t least) {
  __extension__ typedef __int128 wide;
  const wide above = static_cast<wide>(high) * (wide{1} << kStep) + low + (least >> kStep);
  const int64_t below = least & ((int64_t{1} << kStep) - 1);
  const double rounded = above >> 80 == 0 || above >> 80 == -1
                             ? static_cast<double>(above * (wide{1} << kStep) + below)
                             : static_cast<double>(above * 2 + (below != 0 ? 1 : 0)) * power(kStep - 1);
  // The error in units of `above`: two integers that a double holds, then one rounding.
  const auto near = static_cast<double>(above);
  const double whole = (near - rounded * power(-kStep)) + static_cast<double>(above - static_cast<wide>(near));
  return {rounded, (whole + static_cast<double>(below) * power(-kStep)) * power(kStep)};
}

double largest(View<const double, 1> weights) {
  double most = 0;
  for (int64_t i = 0; i < weights.shape[0] && !weights.empty(); ++i) most = std::max(most, std::fabs(weights(i)));
  return most;
}

}  // namespace

// One pass for the largest magnitude of each column, row by row, which is the order of memory; then a sample.
template <class T>
std::vector<int> column_exponents(View<const T, 2> x, bool& beyond, Run run) {
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
  const int64_t count =
      std::min(n, std::clamp(kSampleEntries / std::max<int64_t>(d, 1), kMinSampleRows, kMaxSampleRows));
  std::vector<Digits> sample;
  std::vector<int> exponents;
  beyond = false;
  for (int64_t j = 0; j < d; ++j) {
    sample.clear();
    for (int64_t s = 0; s < count; ++s)
      if (const T value = x((2 * s + 1) * n / (2 * count), j); value != 0) sample.push_back(digits_of(value));
    const int above_all = exponent_above(most[static_cast<size_t>(j)]);
    exponents.push_back(exponent_for(sample, above_all));
    beyond = beyond || exponents.back() < above_all;
  }
  return exponents;
}

template <class T, class I>
std::vector<int> column_exponents(Csr<T, I> x, bool& beyond) {
  std::vector<double> most(static_cast<size_t>(x.columns), 0.0);
  for (int64_t p = x.begin(0); p < x.end(x.rows - 1); ++p) {
    double& m = most[static_cast<size_t>(x.indices[p])];
    m = std::max(m, std::fabs(static_cast<double>(x.data[p])));
  }
  const int64_t entries = x.end(x.rows - 1), count = std::min(entries, 2 * kSampleEntries);
  std::vector<int64_t> entry;  // the sample, column by column
  for (int64_t s = 0; s < count; ++s) entry.push_back((2 * s + 1) * entries / (2 * count));
  std::sort(entry.begin(), entry.end(), [&](int64_t p, int64_t q) { return x.indices[p] < x.indices[q]; });
  std::vector<Digits> sample;
  std::vector<int> exponents;
  beyond = false;
  auto next = entry.begin();
  for (int64_t j = 0; j < x.columns; ++j) {
    sample.clear();
    for (; next != entry.end() && static_cast<int64_t>(x.indices[*next]) == j; ++next)
      if (const T value = x.data[*next]; value != 0) sample.push_back(digits_of(value));
    const int above_all = exponent_above(most[static_cast<size_t>(j)]);
    exponents.push_back(exponent_for(sample, above_all));
    beyond = beyond || exponents.back() < above_all;
  }
  return exponents;
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
      cut_least_(static_cast<size_t>(ld_), 1.0),
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
    cut_least_[j] = splits ? 1.5 * power(52 + unit_[j] - 2 * kStep) : 0.0;
    if (!splits || totals.beyond) limit_[j] = splits ? power(unit_[j] + kHighBits) : 0.0;
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

void ClusterDelta::add_least(double t, int64_t c, int64_t j) {
  if (least_.empty()) least_.assign(high_.size(), 0);
  const double cut = cut_least_[static_cast<size_t>(j)], above = t + cut;
  add_units_above(least_[static_cast<size_t>(c * ld_ + j)], above, cut);
  const double remainder = t - (above - cut);
  if (remainder != 0) to_words(remainder, c, j);
}

// |t| < limit = 2^e: t − (t + cut − cut) is exact, since both are multiples of ulp(t) and the difference is at most
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
  if (remainder != 0) add_least(remainder, c, j);
}

// w·x = p + fma(w, x, −p) exactly, unless p is infinite or the error below 2^−1074.
void ClusterDelta::product(double w, double x, int64_t c, int64_t j) {
  const double p = w * x;
  term(p, c, j);
  if (!std::isfinite(p)) return;
  const double left = std::fma(w, x, -p);
  if (left != 0) term(left, c, j);
}

template <class T>
bool ClusterDelta::within(const T* x) const {
  if constexpr (std::is_same_v<T, double>)
    return kernels().kmeans.within_f64(x, d_, limit_.data());
  else
    return kernels().kmeans.within_f32(x, d_, limit_.data());
}

// The general case: any weight, any magnitude. What the kernel leaves over goes to the words.
template <class T>
void ClusterDelta::add_three_units(const T* x, double w, int64_t c) {
  if (least_.empty()) least_.assign(high_.size(), 0);
  const auto at = static_cast<size_t>(c * ld_);
  const SumUnits units{limit_.data(), cut_high_.data(), cut_low_.data(), cut_least_.data()};
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_products_f64(x, d_, w, &units, &high_[at], &low_[at], &least_[at], remainder_.data());
  else
    all = kernels().kmeans.add_products_f32(x, d_, w, &units, &high_[at], &low_[at], &least_[at], remainder_.data());
  if (all) return;
  for (int64_t j = 0; j < d_; ++j)
    for (double left : {remainder_[static_cast<size_t>(j)], remainder_[static_cast<size_t>(padded(d_) + j)]})
      if (left != 0) to_words(left, c, j);
}

// A row of weight ±1 whose terms all lie below 2^e takes the fast path of two units. Rows with a remainder are
// completed term by term; once they are frequent, all rows take the path of three units.
template <class T>
void ClusterDelta::add(const T* x, int64_t stride, double w, int64_t c) {
  if (++pending_ > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  const bool plain = std::fabs(w) == 1.0 && splits_ && (stride == 1 || d_ <= 1);
  if (!plain || inexact_ > kFewInexact + rows_ / kManyInexact || (totals_.beyond && !within(x))) {
    if (stride == 1) return add_three_units(x, w, c);
    row_.resize(static_cast<size_t>(d_));
    for (int64_t j = 0; j < d_; ++j) row_[static_cast<size_t>(j)] = static_cast<double>(x[j * stride]);
    return add_three_units(row_.data(), w, c);
  }
  int64_t *const high = &high_[static_cast<size_t>(c * ld_)], *const low = &low_[static_cast<size_t>(c * ld_)];
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_row_f64(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  else
    all = kernels().kmeans.add_row_f32(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  ++rows_;
  if (all) return;
  ++inexact_;
  for (int64_t j = 0; j < d_; ++j) {
    const double t = w * static_cast<double>(x[j]), ch = cut_high_[static_cast<size_t>(j)];
    const double cl = cut_low_[static_cast<size_t>(j)], left = t - ((t + ch) - ch);
    const double remainder = left - ((left + cl) - cl);
    if (remainder != 0) add_least(remainder, c, j);
  }
}

template <class T, class I>
void ClusterDelta::add(const T* data, const I* indices, int64_t count, double w, int64_t c) {
  if ((pending_ += std::max<int64_t>(1, count)) > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  for (int64_t p = 0; p < count; ++p) product(w, static_cast<double>(data[p]), c, static_cast<int64_t>(indices[p]));
}

// Totals in units are integers, so their sum is the same in any order of the threads.
void ClusterDelta::flush() {
  std::lock_guard lock(totals_.mutex);
  flush_waiting();
  if (!least_.empty() && totals_.least.empty() && totals_.in_units) totals_.least.assign(least_.size(), 0);
  for (int64_t c = 0; c < k_; ++c) {
    if (touched_[static_cast<size_t>(c)] == 0) continue;
    touched_[static_cast<size_t>(c)] = 0;
    for (int64_t j = 0; j <= d_; ++j) {
      const auto at = static_cast<size_t>(c * ld_ + j);
      if (totals_.in_units) {
        add_to_word(totals_.high[at], high_[at]);
        add_to_word(totals_.low[at], low_[at]);
        if (!least_.empty()) add_to_word(totals_.least[at], least_[at]);
      } else {
        add_units(&totals_.allocated_words()(0, column_of(c, j, d_)), totals_.allocated_words().stride[0],
                  unit_[static_cast<size_t>(j)], high_[at], low_[at], least_.empty() ? 0 : least_[at]);
      }
      high_[at] = low_[at] = 0;
      if (!least_.empty()) least_[at] = 0;
    }
  }
  if (!totals_.in_units) totals_.count_additions(3);
  pending_ = 0;
}

// A sum in units alone is rounded directly: (high, low) are exact in 128 bits, and the unit is a power of two. Only
// sums with a part in the words need the accumulator.
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
        const int64_t least = totals.least.empty() ? 0 : totals.least[at];
        if (totals.in_words[at] != 0) {
          int64_t words[kSumWords];
          for (int64_t l = 0; l < kSumWords; ++l) words[l] = totals.words(l, column);
          add_units(words, 1, unit[static_cast<size_t>(j)], totals.high[at], totals.low[at], least);
          exact_round_columns(matrix_view<const int64_t>(words, kSumWords, 1), vector_view(&out(column), 1), {},
                              low.empty() ? low : vector_view(&low(column), 1));
          continue;
        }
        Twofold sum;
        if (least == 0) {
          sum = round_sum(totals.high[at], totals.low[at]);
          sum = {sum.high * scale[static_cast<size_t>(j)], sum.low * scale[static_cast<size_t>(j)]};
        } else {
          sum = round_sum(totals.high[at], totals.low[at], least);
          const int shift = unit[static_cast<size_t>(j)] - 2 * kStep;
          sum = {std::ldexp(sum.high, shift), std::ldexp(sum.low, shift)};
        }
        out(column) = sum.high;
        if (!low.empty()) low(column) = sum.low;
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
                totals.low[at], totals.least.empty() ? 0 : totals.least[at]);
    }
}

template <class T>
void add_cluster_sums(View<const T, 2> x, View<const double, 1> weights, View<const int32_t, 1> labels,
                      View<int64_t, 2> sums, Run run) {
  const int64_t d = x.shape[1], k = sums.shape[1] / (d + 1);
  ClusterTotals totals(k, d, sums);
  const auto exponents = column_exponents(x, totals.beyond, run);
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
  const auto exponents = column_exponents(x, totals.beyond);
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

namespace {

// Σ over rows of weight · distance2(i), exactly.
template <class F>
double sum_rows(int64_t n, int64_t d, View<const double, 1> weights, Run run, F&& distance2) {
  return reduce_chunks<ExactSum>(
             n, fair_grain(n, d, kGrain),
             [&](int64_t, int64_t begin, int64_t end) {
               ExactSum partial;
               distance2(begin, end, [&](int64_t i, double value) {
                 if (weights.empty())
                   partial.add(value);
                 else
                   partial.add_product(weights(i), value);
               });
               return partial;
             },
             [](ExactSum& total, const ExactSum& partial) { total.add(partial); }, run)
      .round();
}

}  // namespace

template <class T>
double total_scatter(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, Run run) {
  const int64_t d = x.shape[1];
  std::vector<double> center(static_cast<size_t>(d));
  pack_rows(View<const double, 2>{origin.data, {1, d}, {0, origin.stride[0]}}, center.data());
  return sum_rows(x.shape[0], d, weights, run, [&](int64_t begin, int64_t end, auto&& add) {
    one_distances(
        x, end - begin, [&](int64_t l) { return begin + l; }, [&](int64_t) { return center.data(); },
        [&](int64_t l, double distance2) { add(begin + l, distance2); });
  });
}

template <class T, class I>
double total_scatter(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, Run run) {
  const int64_t d = x.columns;
  std::vector<double> center(static_cast<size_t>(d));
  pack_rows(View<const double, 2>{origin.data, {1, d}, {0, origin.stride[0]}}, center.data());
  return sum_rows(x.rows, d, weights, run, [&](int64_t begin, int64_t end, auto&& add) {
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
  template double total_scatter(Csr<T, I>, View<const double, 1>, View<const double, 1>, Run)
#define KNOLL_DENSE(T)                                                                                              \
  template std::vector<int> column_exponents(View<const T, 2>, bool&, Run);                                         \
  template void ClusterDelta::add(const T*, int64_t, double, int64_t);                                              \
  template void add_cluster_sums(View<const T, 2>, View<const double, 1>, View<const int32_t, 1>, View<int64_t, 2>, \
                                 Run);                                                                              \
  template double total_scatter(View<const T, 2>, View<const double, 1>, View<const double, 1>, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
