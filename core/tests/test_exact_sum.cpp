// Exact sums against an oracle that knows nothing of words: whole numbers of 2432 bits, added bit pattern by
// bit pattern, and "nearest double" tested by its definition, the distance to the neighbours.
#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "common/parallel.hpp"

using namespace knoll;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kQuietNan = std::numeric_limits<double>::quiet_NaN();

// A two's complement integer in units of 2^−1130: below the smallest double, so that what is lost there can
// be seen.
struct Wide {
  static constexpr int kLow = 1130, kWords = 38;
  std::array<uint64_t, kWords> word{};

  void add(const Wide& other) {
    uint64_t carry = 0;
    for (size_t i = 0; i < kWords; ++i) {
      const uint64_t a = word[i] + carry;
      carry = a < carry;
      word[i] = a + other.word[i];
      carry += word[i] < a;
    }
  }
  Wide negated() const {
    Wide result, one;
    for (size_t i = 0; i < kWords; ++i) result.word[i] = ~word[i];
    one.word[0] = 1;
    result.add(one);
    return result;
  }
  bool negative() const { return word[kWords - 1] >> 63 != 0; }
  Wide magnitude() const { return negative() ? negated() : *this; }

  static Wide of(double x, int scale = 0) {  // x · 2^scale, bit by bit
    Wide result;
    int exponent;
    double fraction = std::frexp(std::fabs(x), &exponent);
    exponent += scale;
    while (fraction != 0) {
      fraction *= 2;
      --exponent;
      if (fraction >= 1) {
        const int position = exponent + kLow;
        result.word[static_cast<size_t>(position / 64)] |= uint64_t{1} << (position % 64);
        fraction -= 1;
      }
    }
    return x < 0 ? result.negated() : result;
  }
  static Wide sum(const std::vector<double>& x) {
    Wide total;
    for (double v : x) total.add(of(v));
    return total;
  }
  friend std::strong_ordering operator<=>(const Wide& a, const Wide& b) {  // of numbers that are not negative
    for (size_t i = kWords; i-- > 0;)
      if (a.word[i] != b.word[i]) return a.word[i] <=> b.word[i];
    return std::strong_ordering::equal;
  }
  bool operator==(const Wide&) const = default;
};

Wide distance(const Wide& v, double r) {
  Wide difference = Wide::of(r).negated();
  difference.add(v);
  return difference.magnitude();
}

bool even(double x) { return (std::bit_cast<uint64_t>(x) & 1) == 0; }

// Is r the double nearest to v, ties to even? Beyond the largest double the next neighbour would be 2^1024.
bool nearest(const Wide& v, double r) {
  if (std::isnan(r)) return false;
  Wide limit = Wide::of(DBL_MAX);
  limit.add(Wide::of(std::ldexp(1.0, 970)));  // halfway to 2^1024
  if (std::isinf(r)) return (r < 0) == v.negative() && v.magnitude() >= limit;
  if (v.magnitude() >= limit) return false;
  const Wide here = distance(v, r);
  for (double neighbour : {std::nextafter(r, -kInf), std::nextafter(r, kInf)}) {
    if (std::isinf(neighbour)) continue;
    const Wide there = distance(v, neighbour);
    if (there < here || (there == here && !even(r))) return false;
  }
  return true;
}

double exact(const std::vector<double>& x) {
  ExactSum sum;
  for (double v : x) sum.add(v);
  return sum.round();
}

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

// Doubles whose exponent field lies in [low, high], sign and mantissa at random; at 0 subnormals.
std::vector<double> random_doubles(std::mt19937_64& random, size_t n, uint64_t low, uint64_t high) {
  std::vector<double> x(n);
  for (double& v : x) {
    const uint64_t exponent = low + random() % (high - low + 1);
    v = std::bit_cast<double>((random() & 0x800fffffffffffff) | exponent << 52);
  }
  return x;
}

}  // namespace

TEST("sum: one double comes back as it is") {
  std::mt19937_64 random(1);
  std::vector<double> x = random_doubles(random, 20'000, 0, 2046);
  for (double v : {0.0, 1.0, DBL_MIN, DBL_MAX, DBL_TRUE_MIN, std::nextafter(DBL_MIN, 0.0), -DBL_MAX}) x.push_back(v);
  for (double v : x) CHECK(same_bits(exact({v}), v));
  CHECK(same_bits(exact({}), 0.0));
  CHECK(same_bits(exact({-0.0}), 0.0));
  CHECK(same_bits(exact({-0.0, -0.0}), 0.0));
  CHECK(same_bits(exact({-3.5, 3.5}), 0.0));
}

TEST("sum: rounds to the nearest double, over all magnitudes") {
  std::mt19937_64 random(2);
  for (int repeat = 0; repeat < 3000; ++repeat) {
    const uint64_t centre = random() % 2047, range = uint64_t{1} << (random() % 12);
    const uint64_t low = centre > range ? centre - range : 0;
    const uint64_t high = std::min<uint64_t>(2046, centre + range);
    std::vector<double> x = random_doubles(random, 1 + random() % 20, low, high);
    if (repeat % 3 == 0) {  // cancel all but the last one, and all but what rounding left of it
      const size_t n = x.size();
      for (size_t i = 0; i + 1 < n; ++i) x.push_back(-x[i]);
    } else if (repeat % 3 == 1) {
      x.push_back(-exact(x));
      if (std::isinf(x.back())) x.pop_back();
    }
    const double r = exact(x);
    CHECK_MSG(nearest(Wide::sum(x), r), "repeat " << repeat << ", n " << x.size() << ", result " << r);
  }
}

TEST("sum: ties go to even, and a far bit breaks them") {
  const double ulp = DBL_EPSILON, tiny = DBL_TRUE_MIN;
  CHECK(exact({1.0, ulp / 2}) == 1.0);
  CHECK(exact({1.0 + ulp, ulp / 2}) == 1.0 + 2 * ulp);
  CHECK(exact({1.0, ulp / 2, tiny}) == 1.0 + ulp);
  CHECK(exact({1.0 + ulp, ulp / 2, -tiny}) == 1.0 + ulp);
  CHECK(exact({-1.0, -ulp / 2, -tiny}) == -1.0 - ulp);
  CHECK(exact({2.0 - ulp, ulp / 2}) == 2.0);  // the mantissa rounds up to the next power of two
  std::mt19937_64 random(3);
  for (int repeat = 0; repeat < 2000; ++repeat) {  // every shift against the words
    const double x = random_doubles(random, 1, 60, 2040)[0];
    const double half = (std::nextafter(std::fabs(x), kInf) - std::fabs(x)) / 2;
    for (double third : {0.0, tiny, -tiny}) {
      const std::vector<double> terms{x, x < 0 ? -half : half, third};
      CHECK_MSG(nearest(Wide::sum(terms), exact(terms)), x);
    }
  }
}

TEST("sum: huge cancellations leave what is true") {
  CHECK(exact({1e300, 1.0, -1e300}) == 1.0);
  CHECK(exact({1e300, 1e-300, -1e300, DBL_TRUE_MIN, -1e-300}) == DBL_TRUE_MIN);
  CHECK(exact({DBL_MAX, DBL_MAX, -DBL_MAX}) == DBL_MAX);
  CHECK(exact({DBL_MAX, DBL_MAX, -DBL_MAX, -DBL_MAX}) == 0.0);
  ExactSum sum;
  for (int i = 0; i < 100'000; ++i) sum.add(DBL_MAX);
  CHECK(sum.round() == kInf);
  for (int i = 0; i < 100'001; ++i) sum.add(-DBL_MAX);
  CHECK(sum.round() == -DBL_MAX);
}

TEST("sum: overflows exactly where the sum does") {
  const double half = std::ldexp(1.0, 970);  // half an ulp of DBL_MAX
  CHECK(exact({DBL_MAX, half}) == kInf);     // the tie goes to even, which is 2^1024
  CHECK(exact({DBL_MAX, std::nextafter(half, 0.0)}) == DBL_MAX);
  CHECK(exact({DBL_MAX, half, -DBL_TRUE_MIN}) == DBL_MAX);
  CHECK(exact({-DBL_MAX, -half}) == -kInf);
  CHECK(exact({-DBL_MAX, -half, DBL_TRUE_MIN}) == -DBL_MAX);
  CHECK(exact({DBL_MAX, DBL_MAX}) == kInf);
}

TEST("sum: subnormal results") {
  const double tiny = DBL_TRUE_MIN;
  CHECK(exact({DBL_MIN, -tiny}) == std::nextafter(DBL_MIN, 0.0));
  CHECK(exact({std::nextafter(DBL_MIN, 0.0), tiny}) == DBL_MIN);
  ExactSum sum;
  for (int i = 0; i < 1'000'000; ++i) sum.add(-tiny);
  CHECK(sum.round() == -1e6 * tiny);
}

TEST("sum: infinities and NaN as IEEE addition has them, in any order") {
  CHECK(exact({1.0, kInf, -DBL_MAX}) == kInf);
  CHECK(exact({-kInf, DBL_MAX, DBL_MAX}) == -kInf);
  CHECK(exact({kInf, kInf}) == kInf);
  CHECK(std::isnan(exact({kInf, -kInf})));
  CHECK(std::isnan(exact({-kInf, 1.0, kInf})));
  CHECK(std::isnan(exact({1.0, kQuietNan})));
  CHECK(std::isnan(exact({-kQuietNan, kInf})));
}

TEST("sum: any order and any grouping give the same words") {
  std::mt19937_64 random(4);
  using Range = std::pair<uint64_t, uint64_t>;
  for (auto [low, high] : {Range{0, 2046}, {1000, 1050}, {0, 3}, {2040, 2046}}) {
    std::vector<double> x = random_doubles(random, 2000, low, high);
    ExactSum all;
    for (double v : x) all.add(v);
    CHECK(nearest(Wide::sum(x), all.round()));
    for (int repeat = 0; repeat < 10; ++repeat) {
      std::shuffle(x.begin(), x.end(), random);
      std::vector<ExactSum> groups(1 + random() % 50);
      for (double v : x) groups[random() % groups.size()].add(v);
      ExactSum merged;
      for (const ExactSum& group : groups) merged.add(group);
      CHECK(merged == all);
      CHECK(same_bits(merged.round(), all.round()));
    }
    x[7] = std::nextafter(x[7], 0.0);
    ExactSum other;
    for (double v : x) other.add(v);
    CHECK(!(other == all));
  }
}

TEST("sum: plain arrays add up like sums, and keep their value when they carry") {
  std::mt19937_64 random(5);
  const std::vector<double> x = random_doubles(random, 999, 900, 1200);
  std::array<int64_t, kSumWords> partials[3] = {}, total = {};
  for (size_t i = 0; i < x.size(); ++i) exact_add(partials[i % 3].data(), x[i]);
  exact_add(partials[1].data(), kInf);
  exact_normalise(partials[2].data());
  for (const auto& partial : partials)
    for (size_t i = 0; i < kSumWords; ++i) total[i] += partial[i];
  CHECK(exact_round(total.data()) == kInf);
  CHECK(total[kPlusInf] == 1 && total[kMinusInf] == 0 && total[kNan] == 0);
  total[kPlusInf] = 0;
  const double r = exact_round(total.data());
  CHECK(nearest(Wide::sum(x), r));
  exact_normalise(total.data());
  CHECK(same_bits(exact_round(total.data()), r));
  for (size_t i = 0; i + 1 < kFiniteWords; ++i) CHECK(total[i] >= 0 && total[i] <= 0xffffffff);
  const auto once = total;
  exact_normalise(total.data());
  CHECK(total == once);
}

TEST("sum: a column of an array is a sum like any other") {
  std::mt19937_64 random(8);
  const int64_t m = 5;
  std::vector<int64_t> blocks[2];
  std::vector<ExactSum> expected(static_cast<size_t>(m));
  for (auto& block : blocks) {
    block.assign(static_cast<size_t>(kSumWords * m), 0);
    for (int64_t j = 0; j < m; ++j)
      for (double v : random_doubles(random, 50, 1000, 1060)) {
        const double w = j == 3 ? kInf : 1.0 + DBL_EPSILON;
        exact_add(&block[static_cast<size_t>(j)], v, m);
        exact_add_product(&block[static_cast<size_t>(j)], v, w, m);
        expected[static_cast<size_t>(j)].add(v);
        expected[static_cast<size_t>(j)].add_product(v, w);
      }
  }
  const auto into = matrix_view(blocks[0].data(), kSumWords, m), from = matrix_view(blocks[1].data(), kSumWords, m);
  std::vector<double> out(static_cast<size_t>(m));
  const auto agree = [&] {
    exact_round_columns(into, vector_view(out.data(), m));
    for (size_t j = 0; j < out.size(); ++j) {
      const double r = expected[j].round();
      CHECK(same_bits(out[j], r) || (std::isnan(out[j]) && std::isnan(r)));
    }
  };
  exact_merge_columns(into, from);
  agree();
  exact_normalise_columns(into);
  agree();
  for (int64_t i = 0; i + 1 < kFiniteWords; ++i)
    for (int64_t j = 0; j < m; ++j) CHECK(into(i, j) >= 0 && into(i, j) <= 0xffffffff);
}

TEST("sum: kSafeAdds additions fit without a carry, and merging normalises by itself") {
  // 2^30 additions of −(2^53 − 1) · 2^shift, made by scaling one: the words are what that many additions
  // would leave.
  for (int shift : {0, 5, 11, 31}) {
    const double x = -std::ldexp(9007199254740991.0, shift - 30);
    std::array<int64_t, kSumWords> words{}, total{};
    exact_add(words.data(), x);
    for (int64_t& word : words) word *= kSafeAdds;
    CHECK(exact_round(words.data()) == x * 0x1p30);
    for (int i = 0; i < 100; ++i) exact_merge(total.data(), words.data());
    CHECK(exact_round(total.data()) == 100 * (x * 0x1p30));
    for (int i = 0; i < 40; ++i) exact_merge(total.data(), std::array(total).data());
    CHECK(exact_round(total.data()) == 100 * (x * 0x1p70));
    total = words;  // a full sum, and many that have not grown
    for (int64_t& word : words) word /= 8;
    for (int i = 0; i < 56; ++i) exact_merge(total.data(), words.data());
    CHECK(exact_round(total.data()) == 8 * (x * 0x1p30));
  }
}

TEST("sum: millions of additions without a carry") {
  std::array<int64_t, kSumWords> words{};
  const int64_t n = 4'000'000;
  for (int64_t i = 0; i < n; ++i) exact_add(words.data(), 0.1);
  Wide expected;  // n · 0.1 by the bits of n
  for (int bit = 0; bit < 32; ++bit)
    if ((n >> bit & 1) != 0) expected.add(Wide::of(0.1, bit));
  CHECK(nearest(expected, exact_round(words.data())));
}

TEST("sum: the alternating harmonic series, for any number of threads") {
  const int64_t n = 1'000'000;
  const auto series = [&](int threads) {
    return reduce_chunks<ExactSum>(
        n, 10'007,
        [](int64_t, int64_t begin, int64_t end) {
          ExactSum partial;
          for (int64_t i = begin; i < end; ++i) partial.add((i % 2 == 0 ? 1.0 : -1.0) / static_cast<double>(i + 1));
          return partial;
        },
        [](ExactSum& total, const ExactSum& partial) { total.add(partial); }, Run{threads});
  };
  const ExactSum one = series(1);
  // log 2 − 1/(2n) + 1/(4n²) − …; each term is off by at most half an ulp of it, 2^−53 of a harmonic sum
  // below 15.
  CHECK(std::fabs(one.round() - (std::log(2.0) - 5e-7 + 2.5e-13)) < 15 * 0x1p-53);
  for (int threads : {2, 3, 8}) CHECK(series(threads) == one);
}

TEST("sum: products are added whole") {
  const auto product = [](double a, double b) {
    ExactSum sum;
    sum.add_product(a, b);
    return sum;
  };
  std::mt19937_64 random(6);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    // Two 53-bit integers times powers of two. In three pieces of 18 bits each, all nine products are exact
    // doubles.
    const uint64_t a = random() >> 11, b = random() >> 11;
    const int p = static_cast<int>(random() % 800) - 400, q = static_cast<int>(random() % 800) - 400;
    const auto piece = [](uint64_t x, int i) {
      return std::ldexp(static_cast<double>(x >> (18 * i) & 0x3ffff), 18 * i);
    };
    ExactSum pieces;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) pieces.add(-std::ldexp(piece(a, i) * piece(b, j), p + q));
    CHECK(product(std::ldexp(static_cast<double>(a), p), -std::ldexp(static_cast<double>(b), q)) == pieces);
  }
  CHECK(product(1e200, 1e200).round() == kInf);
  CHECK(product(-1e200, 1e200).round() == -kInf);
  CHECK(std::isnan(product(0.0, kInf).round()));
  CHECK(product(DBL_MAX, 0.0).round() == 0.0);
}

TEST("sum: a product with bits below 2^-1074 is rounded once") {
  std::mt19937_64 random(7);
  int rounded = 0;
  for (int repeat = 0; repeat < 4000; ++repeat) {
    const int64_t a = static_cast<int64_t>(random() >> 34) | 1, b = static_cast<int64_t>(random() >> 44) | 1;
    const int p = -500 - static_cast<int>(random() % 60), q = -500 - static_cast<int>(random() % 60);
    ExactSum sum;
    sum.add_product(std::ldexp(static_cast<double>(a), p), -std::ldexp(static_cast<double>(b), q));
    const Wide error = distance(Wide::of(-static_cast<double>(a * b), p + q), sum.round());
    const bool fits = p + q >= -1074;
    CHECK(fits ? error == Wide{} : error <= Wide::of(1.0, -1075));
    rounded += fits ? 0 : 1;
  }
  CHECK(rounded > 100);
}
