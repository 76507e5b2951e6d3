// Vector exp and log of every table against the C library's long double functions: the error in ulps over the
// whole range, the special values, and bits that depend neither on the position in the array nor on the tail.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "simd/kernels.hpp"

namespace {

using Function = void (*)(const double*, double*, int64_t);
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kTiniest = std::numeric_limits<double>::denorm_min();
constexpr double kSmallestNormal = std::numeric_limits<double>::min();

// Where long double has no spare bits the reference itself may be off by one ulp.
constexpr double kAllowed = LDBL_MANT_DIG > DBL_MANT_DIG ? 2.0 : 3.0;
// Quad precision in software is slow: a machine that has only that takes fewer values.
int64_t default_count() { return LDBL_MANT_DIG > 64 || knoll_test::quick() ? 40'000 : 400'000; }

// |y − truth| in units of the last place that a double of the truth's size has; subnormal ulps are counted as
// such. An infinite y counts as 2^1024, the next number after the largest one.
double ulps(double y, long double truth) {
  if (std::isnan(y) || std::isnan(truth)) return std::isnan(y) && std::isnan(truth) ? 0.0 : kInf;
  if (std::isinf(truth) || std::fabs(truth) >= 0x1p1024L) return y == (truth > 0 ? kInf : -kInf) ? 0.0 : kInf;
  const long double value = std::isinf(y) ? std::copysign(0x1p1024L, static_cast<long double>(y)) : y;
  const int exponent = truth == 0 ? -1022 : std::clamp(std::ilogb(truth), -1022, 1023);
  return static_cast<double>(std::fabs(value - truth) / std::scalbn(1.0L, exponent - 52));
}

void add_neighbours(Values& values, double center, int64_t count) {
  double below = center, above = center;
  values.push_back(center);
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(below = std::nextafter(below, -kInf));
    values.push_back(above = std::nextafter(above, kInf));
  }
}

void add_uniform(Values& values, std::mt19937_64& random, double low, double high, int64_t count = default_count()) {
  std::uniform_real_distribution<double> draw(low, high);
  for (int64_t i = 0; i < count; ++i) values.push_back(draw(random));
}

// Every bit pattern of [low, high] is equally likely, so that each binade gets its share. Both positive.
void add_patterns(Values& values, std::mt19937_64& random, double low, double high, double sign,
                  int64_t count = default_count()) {
  std::uniform_int_distribution<uint64_t> draw(std::bit_cast<uint64_t>(low), std::bit_cast<uint64_t>(high));
  for (int64_t i = 0; i < count; ++i) values.push_back(sign * std::bit_cast<double>(draw(random)));
}

Values exp_arguments() {
  std::mt19937_64 random(20240229);
  Values x;
  add_uniform(x, random, -709.0, 710.0);
  add_uniform(x, random, -746.0, -708.0);  // subnormal results
  add_uniform(x, random, -1.0, 1.0);
  add_patterns(x, random, kTiniest, 800.0, 1.0);
  add_patterns(x, random, kTiniest, 800.0, -1.0);
  add_patterns(x, random, 0x1p-60, 1.0, 1.0);
  add_patterns(x, random, 0x1p-60, 1.0, -1.0);
  for (int k = -1078; k <= 1026; ++k) {  // where the reduction turns over, and the middle between
    add_neighbours(x, (k + 0.5) * 0.69314718055994531, 20);
    add_neighbours(x, k * 0.69314718055994531, 5);
  }
  for (const double edge :
       {709.78271289338397, 708.39641853226408, 745.13321910194122, 744.44007192138122, 710.0, 746.0})
    for (const double sign : {-1.0, 1.0}) add_neighbours(x, sign * edge, 300);
  for (const double far : {1e3, 1e4, 1e10, 1e300, kMax, kInf})
    for (const double sign : {-1.0, 1.0}) x.push_back(sign * far);
  add_neighbours(x, 0.0, 10);
  x.push_back(-0.0);
  x.push_back(kNan);
  return x;
}

Values log_arguments() {
  std::mt19937_64 random(20240301);
  Values x;
  add_patterns(x, random, kTiniest, kMax, 1.0);
  add_patterns(x, random, kTiniest, kSmallestNormal, 1.0);  // subnormal arguments
  add_uniform(x, random, 0.5, 2.0);
  add_uniform(x, random, 0.99, 1.01);
  add_patterns(x, random, 0.25, 4.0, 1.0);
  for (const double sign : {-1.0, 1.0}) {  // 1 ± tiny, every size of tiny
    Values distance;
    add_patterns(distance, random, 0x1p-53, 0.5, 1.0);
    for (const double d : distance) x.push_back(1.0 + sign * d);
  }
  for (int k = -1074; k <= 1023; ++k) {  // powers of two, and where the reduction turns over
    add_neighbours(x, std::ldexp(1.0, k), 5);
    add_neighbours(x, std::ldexp(0.70710678118654752, k), 10);
  }
  add_neighbours(x, 1.0, 2000);
  add_neighbours(x, kSmallestNormal, 300);
  for (const double edge : {0.0, -0.0, kTiniest, kMax, kInf, -kInf, -1.0, -kTiniest, -kMax, kNan}) x.push_back(edge);
  return x;
}

// The largest error of each table over the values; reports where it lies when it is too large.
void measure(const char* name, const Values& x, Function knoll::Kernels::* function,
             long double (*truth)(long double)) {
  const auto tables = knoll::all_kernels();
  std::vector<double> worst(tables.size(), 0.0), where(tables.size(), 0.0);
  std::vector<Values> y(tables.size(), Values(x.size()));
  for (size_t t = 0; t < tables.size(); ++t)
    (tables[t]->*function)(x.data(), y[t].data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const long double expected = truth(x[i]);
    for (size_t t = 0; t < tables.size(); ++t) {
      const double error = ulps(y[t][i], expected);
      if (error > worst[t]) worst[t] = error, where[t] = x[i];
    }
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    std::printf("%s %s: max %.2f ulp over %zu values\n", name, tables[t]->name, worst[t], x.size());
    CHECK_MSG(worst[t] <= kAllowed, name << " of " << tables[t]->name << " at " << std::hexfloat << where[t]);
  }
}

long double exp_truth(long double x) { return std::exp(x); }
long double log_truth(long double x) { return std::log(x); }

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

double at(Function function, double x) {
  double y = 0.0;
  function(&x, &y, 1);
  return y;
}

// A value's bits are the same in a long array, in an array of 0 … 9 values at any offset, and in place.
void check_positions(const char* name, Function function, const Values& source) {
  Values x(source.begin(), source.begin() + 101), y(x.size(), -7.0);
  function(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t begin = 0; begin < 20; ++begin) {
    for (size_t n = 0; n <= 9; ++n) {
      Values cut(n + 1, -7.0);  // one more, which must not be touched
      function(x.data() + begin, cut.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) CHECK_MSG(same_bits(cut[i], y[begin + i]), name << " n = " << n << ", i = " << i);
      CHECK_MSG(cut[n] == -7.0, name << " wrote beyond n = " << n);
    }
  }
  Values in_place = x;
  function(in_place.data(), in_place.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) CHECK_MSG(same_bits(in_place[i], y[i]), name << " in place, i = " << i);
}

}  // namespace

TEST("exp: within 2 ulp over the whole range") { measure("exp", exp_arguments(), &knoll::Kernels::exp, exp_truth); }

TEST("log: within 2 ulp over the whole range") { measure("log", log_arguments(), &knoll::Kernels::log, log_truth); }

TEST("exp: special values") {
  for (const knoll::Kernels* table : knoll::all_kernels()) {
    CHECK(same_bits(at(table->exp, 0.0), 1.0));
    CHECK(same_bits(at(table->exp, -0.0), 1.0));
    CHECK(same_bits(at(table->exp, -kInf), 0.0));
    CHECK(same_bits(at(table->exp, -kMax), 0.0));
    CHECK(at(table->exp, kInf) == kInf);
    CHECK(at(table->exp, kMax) == kInf);
    CHECK(std::isnan(at(table->exp, kNan)));
    CHECK(std::isnan(at(table->exp, -kNan)));
    // The largest double whose exp is finite, the smallest whose exp is not zero, and their neighbours.
    CHECK(at(table->exp, 709.782712893384) < kInf);
    CHECK(at(table->exp, std::nextafter(709.782712893384, kInf)) == kInf);
    CHECK(at(table->exp, -745.1332191019411) == kTiniest);
    CHECK(same_bits(at(table->exp, std::nextafter(-745.1332191019411, -kInf)), 0.0));
  }
}

TEST("log: special values") {
  for (const knoll::Kernels* table : knoll::all_kernels()) {
    CHECK(same_bits(at(table->log, 1.0), 0.0));
    CHECK(at(table->log, 0.0) == -kInf);
    CHECK(at(table->log, -0.0) == -kInf);
    CHECK(at(table->log, kInf) == kInf);
    for (const double bad : {-kTiniest, -1.0, -kMax, -kInf, kNan, -kNan}) CHECK(std::isnan(at(table->log, bad)));
    CHECK(at(table->log, kMax) == 0x1.62e42fefa39efp+9);       // 1024 ln 2, rounded
    CHECK(at(table->log, kTiniest) == -0x1.74385446d71c3p+9);  // −1074 ln 2, rounded
  }
}

TEST("exp and log: bits do not depend on the position in the array") {
  std::mt19937_64 random(7);
  Values x;
  add_uniform(x, random, -745.0, 709.0, 101);
  Values positive;
  add_patterns(positive, random, kTiniest, kMax, 1.0, 101);
  x[3] = positive[3] = kNan;
  x[17] = kInf;
  positive[17] = -1.0;
  positive[18] = 0.0;
  for (const knoll::Kernels* table : knoll::all_kernels()) {
    check_positions("exp", table->exp, x);
    check_positions("log", table->log, positive);
  }
}
