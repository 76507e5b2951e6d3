#include "knoll/cluster_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

#include "knoll/one_distance.hpp"
#include "knoll/parallel.hpp"
#include "knoll/slots.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"
#include "knoll/twofold.hpp"

namespace knoll {
namespace {

// A term below 2^e in magnitude is high·2^(e − 40) + low·2^(e − 81) + least·2^(e − 122) + rest, each integer ≤ 2^40 in
// magnitude: so 2^22 terms, two a row, fit an int64 of any kind.
constexpr int kHighBits = 40, kStep = 41;
constexpr int64_t kFlushAfter = int64_t{1} << 21;
// Where cutting would overflow, all goes to the limbs; where the low unit would be subnormal, the cut stays above that
// (the least unit is then a subnormal number, which is as exact).
constexpr int kLargest = 980, kSmallest = -940;
// Terms that wait for the limbs in one thread.
constexpr size_t kWaiting = 1024;
// Rows are cut at all three units at once when more than one in kManyRests had to be cut again, after kFewRests.
constexpr int64_t kFewRests = 64, kManyRests = 8;
// Carries follow long before the limbs are full.
constexpr int64_t kCarryAfter = kSafeAdds / 4;

constexpr double kInf = std::numeric_limits<double>::infinity();

double power(int exponent) {
  return exponent > -1023 && exponent < 1024 ? std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52)
                                             : std::ldexp(1.0, exponent);
}

int exponent_above(double magnitude) {  // magnitude < 2^result
  int e = 0;
  std::frexp(magnitude, &e);
  return magnitude == 0 ? -1074 : e;
}

// into += how many units the sum lies above the cut: the difference of their bits. It wraps around where a term is too
// large for its unit, as rows may be that are not those of the step before.
void add_units_above(int64_t& into, double sum, double cut) {
  add_to_limb(into, static_cast<int64_t>(std::bit_cast<uint64_t>(sum) - std::bit_cast<uint64_t>(cut)));
}

// limbs += v · 2^exponent; the digits are cut as in exact_add.
void add_integer(int64_t* limbs, int64_t stride, int64_t v, int exponent) {
  if (v == 0) return;
  const int position = exponent + 1074, r = position & 31;
  int64_t* limb = limbs + stride * (position >> 5);
  const uint64_t low = static_cast<uint64_t>(v) << r;
  add_to_limb(limb[0], static_cast<int64_t>(low & 0xffffffff));
  add_to_limb(limb[stride], static_cast<int64_t>(low >> 32));
  add_to_limb(limb[2 * stride], (v >> 1) >> (63 - r));
}

void add_units(int64_t* limbs, int64_t stride, int unit, int64_t high, int64_t low, int64_t least) {
  add_integer(limbs, stride, high, unit);
  add_integer(limbs, stride, low, unit - kStep);
  add_integer(limbs, stride, least, unit - 2 * kStep);
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

// A number is m·2^end with a whole odd m, and below 2^top.
struct Digits {
  int top, end;
};
Digits digits_of(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const int field = static_cast<int>(bits >> 52 & 0x7ff), unit = std::max(field, 1) - 1075;
  const uint64_t whole = (bits & ((uint64_t{1} << 52) - 1)) | (field != 0 ? uint64_t{1} << 52 : 0);
  return {unit + static_cast<int>(std::bit_width(whole)), unit + std::countr_zero(whole)};
}

// The exponent of a column, from some of its numbers and from the exponent above all of them. That one is best, since
// nothing has to be looked at then, unless it leaves many terms a rest below the low unit. Else what the numbers have
// above and below the units is counted, and there is as much room above the chosen exponent as leaves twice of it
// below.
constexpr int64_t kLookedAt = 1 << 16, kSomeRows = 9, kManyRows = 257;
constexpr size_t kRare = 64;   // one rest in so many terms does not count
constexpr size_t kEnough = 8;  // fewer numbers tell nothing
int exponent_for(const std::vector<Digits>& some, int above_all) {
  constexpr int kTwo = kHighBits + kStep - 1, kThree = kTwo + kStep;  // a weight of 1 takes a bit
  const auto rests = [&](int e) {
    return static_cast<size_t>(std::count_if(some.begin(), some.end(), [&](Digits v) { return v.end < e - kTwo; }));
  };
  if (some.size() < kEnough || rests(above_all) <= some.size() / kRare) return above_all;
  constexpr int64_t kRest = 1, kLimbsToo = 4;  // what a term takes that does not fit the two units, roughly
  const auto cost = [&](int e) {
    int64_t sum = 0;
    for (const Digits& v : some) sum += v.top > e || v.end < e - kThree ? kLimbsToo : v.end < e - kTwo ? kRest : 0;
    return sum;
  };
  int best = above_all;
  int64_t least = cost(above_all);
  std::vector<int> tops;
  for (const Digits& v : some) tops.push_back(v.top);
  std::sort(tops.begin(), tops.end(), std::greater<>());
  tops.erase(std::unique(tops.begin(), tops.end()), tops.end());
  for (int e : tops)
    if (const int64_t here = cost(e); here < least) best = e, least = here;
  int room = above_all - best;
  for (const Digits& v : some)
    if (v.end + kTwo >= best) room = std::min(room, (v.end + kTwo - best) / 3);
  return best + room;
}

// The double nearest to high·2^(2·kStep) + low·2^kStep + least, ties to even, and the one nearest to what it leaves.
// Where the whole does not fit 128 bits, what is left out is below the digits that are kept, and one bit tells that
// there is something.
Twofold round_sum(int64_t high, int64_t low, int64_t least) {
  __extension__ typedef __int128 wide;
  const wide above = static_cast<wide>(high) * (wide{1} << kStep) + low + (least >> kStep);
  const int64_t rest = least & ((int64_t{1} << kStep) - 1);
  const double rounded = above >> 80 == 0 || above >> 80 == -1
                             ? static_cast<double>(above * (wide{1} << kStep) + rest)
                             : static_cast<double>(above * 2 + (rest != 0 ? 1 : 0)) * power(kStep - 1);
  // What is left, in units of `above`: whole numbers that a double holds, then one rounding.
  const auto near = static_cast<double>(above);
  const double whole = (near - rounded * power(-kStep)) + static_cast<double>(above - static_cast<wide>(near));
  return {rounded, (whole + static_cast<double>(rest) * power(-kStep)) * power(kStep)};
}

double largest(View<const double, 1> weights) {
  double most = 0;
  for (int64_t i = 0; i < weights.shape[0] && !weights.empty(); ++i) most = std::max(most, std::fabs(weights(i)));
  return most;
}

}  // namespace

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
  const int64_t count = std::min(n, std::clamp(kLookedAt / std::max<int64_t>(d, 1), kSomeRows, kManyRows));
  std::vector<Digits> some;
  std::vector<int> exponents;
  beyond = false;
  for (int64_t j = 0; j < d; ++j) {
    some.clear();
    for (int64_t s = 0; s < count; ++s)
      if (const T value = x((2 * s + 1) * n / (2 * count), j); value != 0) some.push_back(digits_of(value));
    const int above_all = exponent_above(most[static_cast<size_t>(j)]);
    exponents.push_back(exponent_for(some, above_all));
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
  const int64_t entries = x.end(x.rows - 1), count = std::min(entries, 2 * kLookedAt);
  std::vector<int64_t> places;  // of some entries, column by column
  for (int64_t s = 0; s < count; ++s) places.push_back((2 * s + 1) * entries / (2 * count));
  std::sort(places.begin(), places.end(), [&](int64_t p, int64_t q) { return x.indices[p] < x.indices[q]; });
  std::vector<Digits> some;
  std::vector<int> exponents;
  beyond = false;
  auto place = places.begin();
  for (int64_t j = 0; j < x.columns; ++j) {
    some.clear();
    for (; place != places.end() && static_cast<int64_t>(x.indices[*place]) == j; ++place)
      if (const T value = x.data[*place]; value != 0) some.push_back(digits_of(value));
    const int above_all = exponent_above(most[static_cast<size_t>(j)]);
    exponents.push_back(exponent_for(some, above_all));
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
      in_limbs(static_cast<size_t>(k * ld), 0) {}

ClusterTotals::ClusterTotals(int64_t clusters, int64_t columns, View<int64_t, 2> sums)
    : k(clusters),
      d(columns),
      ld(padded(columns + 1)),
      limbs(sums),
      in_limbs(static_cast<size_t>(k * ld), 0),
      in_units(false) {}

View<int64_t, 2>& ClusterTotals::room() {
  if (limbs.empty()) {
    const int64_t count = k * (d + 1);
    own.reset(static_cast<int64_t*>(std::calloc(static_cast<size_t>(kLimbs * count), sizeof(int64_t))));
    if (own == nullptr) throw std::bad_alloc();
    limbs = matrix_view(own.get(), kLimbs, count);
  }
  return limbs;
}

void ClusterTotals::added(int64_t terms) {
  if ((additions += terms) < kCarryAfter) return;
  exact_normalise_columns(limbs);
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
      rest_(static_cast<size_t>(2 * ld_), 0.0),
      unit_(units(exponents, largest_weight)),
      high_(static_cast<size_t>(k_ * ld_), 0),
      low_(static_cast<size_t>(k_ * ld_), 0),
      touched_(static_cast<size_t>(k_), 0) {
  for (size_t j = 0; j < unit_.size(); ++j) {
    const bool cuts = unit_[j] + kHighBits <= kLargest;
    cuts_ = cuts_ && cuts;
    cut_high_[j] = cuts ? 1.5 * power(52 + unit_[j]) : 0.0;
    cut_low_[j] = cuts ? 1.5 * power(52 + unit_[j] - kStep) : 0.0;
    cut_least_[j] = cuts ? 1.5 * power(52 + unit_[j] - 2 * kStep) : 0.0;
    if (!cuts || totals.beyond) limit_[j] = cuts ? power(unit_[j] + kHighBits) : 0.0;
  }
}

void ClusterDelta::to_limbs(double t, int64_t c, int64_t j) {
  waiting_.push_back({t, c, j});
  if (waiting_.size() < kWaiting) return;
  std::lock_guard lock(totals_.mutex);
  bring_waiting();
}

void ClusterDelta::bring_waiting() {
  for (const Waiting& w : waiting_) {
    totals_.in_limbs[static_cast<size_t>(w.c * ld_ + w.j)] = 1;
    exact_add(&totals_.room()(0, column_of(w.c, w.j, d_)), w.t, totals_.room().stride[0]);
  }
  totals_.added(static_cast<int64_t>(waiting_.size()));
  waiting_.clear();
}

void ClusterDelta::below_units(double t, int64_t c, int64_t j) {
  if (least_.empty()) least_.assign(high_.size(), 0);
  const double cut = cut_least_[static_cast<size_t>(j)], above = t + cut;
  add_units_above(least_[static_cast<size_t>(c * ld_ + j)], above, cut);
  const double rest = t - (above - cut);
  if (rest != 0) to_limbs(rest, c, j);
}

void ClusterDelta::term(double t, int64_t c, int64_t j) {
  const auto at = static_cast<size_t>(c * ld_ + j);
  const double cut = cut_high_[static_cast<size_t>(j)], cut_low = cut_low_[static_cast<size_t>(j)];
  if (!(std::fabs(t) < limit_[static_cast<size_t>(j)])) {
    if (t != 0) to_limbs(t, c, j);
    return;
  }
  const double above = t + cut, left = t - (above - cut), below = left + cut_low;
  add_units_above(high_[at], above, cut);
  add_units_above(low_[at], below, cut_low);
  const double rest = left - (below - cut_low);
  if (rest != 0) below_units(rest, c, j);
}

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

template <class T>
void ClusterDelta::add_finely(const T* x, double w, int64_t c) {
  if (least_.empty()) least_.assign(high_.size(), 0);
  const auto at = static_cast<size_t>(c * ld_);
  const SumUnits units{limit_.data(), cut_high_.data(), cut_low_.data(), cut_least_.data()};
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_products_f64(x, d_, w, &units, &high_[at], &low_[at], &least_[at], rest_.data());
  else
    all = kernels().kmeans.add_products_f32(x, d_, w, &units, &high_[at], &low_[at], &least_[at], rest_.data());
  if (all) return;
  for (int64_t j = 0; j < d_; ++j)
    for (double rest : {rest_[static_cast<size_t>(j)], rest_[static_cast<size_t>(padded(d_) + j)]})
      if (rest != 0) to_limbs(rest, c, j);
}

template <class T>
void ClusterDelta::add(const T* x, int64_t stride, double w, int64_t c) {
  if (++pending_ > kFlushAfter) flush();
  touched_[static_cast<size_t>(c)] = 1;
  term(w, c, d_);
  const bool plain = std::fabs(w) == 1.0 && cuts_ && (stride == 1 || d_ <= 1);
  if (!plain || rests_ > kFewRests + rows_ / kManyRests || (totals_.beyond && !within(x))) {
    if (stride == 1) return add_finely(x, w, c);
    row_.resize(static_cast<size_t>(d_));
    for (int64_t j = 0; j < d_; ++j) row_[static_cast<size_t>(j)] = static_cast<double>(x[j * stride]);
    return add_finely(row_.data(), w, c);
  }
  int64_t *const high = &high_[static_cast<size_t>(c * ld_)], *const low = &low_[static_cast<size_t>(c * ld_)];
  bool all;
  if constexpr (std::is_same_v<T, double>)
    all = kernels().kmeans.add_row_f64(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  else
    all = kernels().kmeans.add_row_f32(x, d_, w, cut_high_.data(), cut_low_.data(), high, low);
  ++rows_;
  if (all) return;
  ++rests_;
  for (int64_t j = 0; j < d_; ++j) {
    const double t = w * static_cast<double>(x[j]), ch = cut_high_[static_cast<size_t>(j)];
    const double cl = cut_low_[static_cast<size_t>(j)], left = t - ((t + ch) - ch), rest = left - ((left + cl) - cl);
    if (rest != 0) below_units(rest, c, j);
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
  bring_waiting();
  if (!least_.empty() && totals_.least.empty() && totals_.in_units) totals_.least.assign(least_.size(), 0);
  for (int64_t c = 0; c < k_; ++c) {
    if (touched_[static_cast<size_t>(c)] == 0) continue;
    touched_[static_cast<size_t>(c)] = 0;
    for (int64_t j = 0; j <= d_; ++j) {
      const auto at = static_cast<size_t>(c * ld_ + j);
      if (totals_.in_units) {
        add_to_limb(totals_.high[at], high_[at]);
        add_to_limb(totals_.low[at], low_[at]);
        if (!least_.empty()) add_to_limb(totals_.least[at], least_[at]);
      } else {
        add_units(&totals_.room()(0, column_of(c, j, d_)), totals_.room().stride[0], unit_[static_cast<size_t>(j)],
                  high_[at], low_[at], least_.empty() ? 0 : least_[at]);
      }
      high_[at] = low_[at] = 0;
      if (!least_.empty()) least_[at] = 0;
    }
  }
  if (!totals_.in_units) totals_.added(3);
  pending_ = 0;
}

void round_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<double, 1> out, View<double, 1> rest, Run run) {
  if (!totals.in_units && !totals.limbs.empty()) return exact_round_columns(totals.limbs, out, run, rest);
  const std::vector<int> unit = units(exponents, largest_weight);
  std::vector<double> scale;  // the low units: normal numbers, so that products by them are exact
  for (int one : unit) scale.push_back(power(std::min(one - kStep, 1023)));
  for_chunks(totals.k, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t j = 0; j <= totals.d; ++j) {
        const auto at = static_cast<size_t>(c * totals.ld + j);
        const int64_t column = column_of(c, j, totals.d);
        const int64_t least = totals.least.empty() ? 0 : totals.least[at];
        if (totals.in_limbs[at] != 0) {
          int64_t limbs[kLimbs];
          for (int64_t l = 0; l < kLimbs; ++l) limbs[l] = totals.limbs(l, column);
          add_units(limbs, 1, unit[static_cast<size_t>(j)], totals.high[at], totals.low[at], least);
          exact_round_columns(matrix_view<const int64_t>(limbs, kLimbs, 1), vector_view(&out(column), 1), {},
                              rest.empty() ? rest : vector_view(&rest(column), 1));
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
        if (!rest.empty()) rest(column) = sum.low;
      }
  });
}

void whole_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<int64_t, 2> sums) {
  const std::vector<int> unit = units(exponents, largest_weight);
  for (int64_t l = 0; l < kLimbs && !totals.limbs.empty(); ++l)
    for (int64_t i = 0; i < sums.shape[1]; ++i) add_to_limb(sums(l, i), totals.limbs(l, i));
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
  Slots<ClusterDelta> slots([&] { return std::make_unique<ClusterDelta>(exponents, most, totals); });
  for_chunks(x.shape[0], fair_grain(x.shape[0], d, kGrain), run, [&](int64_t, int64_t begin, int64_t end) {
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
  ClusterTotals totals(k, d, sums);
  const auto exponents = column_exponents(x, totals.beyond);
  const double most = weights.empty() ? 1.0 : largest(weights);
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
double sum_rows(int64_t n, int64_t d, View<const double, 1> weights, Run run, F&& distance2) {
  return reduce_chunks<ExactSum>(
             n, fair_grain(n, d, kGrain),
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
  return sum_rows(x.shape[0], d, weights, run, [&](int64_t begin, int64_t end, auto&& add) {
    one_distances(
        x, end - begin, [&](int64_t l) { return begin + l; }, [&](int64_t) { return center.data(); },
        [&](int64_t l, double distance2) { add(begin + l, distance2); });
  });
}

template <class T, class I>
double spread(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, Run run) {
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
  template double spread(Csr<T, I>, View<const double, 1>, View<const double, 1>, Run)
#define KNOLL_DENSE(T)                                                                                              \
  template std::vector<int> column_exponents(View<const T, 2>, bool&, Run);                                         \
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
