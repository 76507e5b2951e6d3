// Counter-based random numbers: published answers, purity, and the distributions. Seeds are fixed, so a
// statistic is either inside its bound for ever or outside; the bounds are those that a true random sequence
// passes with 999 in 1000 or more.
#include "common/rng.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"

using namespace knoll;
using rng::Purpose;

namespace {

constexpr uint64_t kSeed = 0x0123456789abcdefULL;
constexpr double kInf = std::numeric_limits<double>::infinity();

Purpose purpose(uint32_t number) { return static_cast<Purpose>(number); }

std::vector<double> uniforms(uint64_t seed, Purpose use, uint64_t first, int64_t n) {
  std::vector<double> values(static_cast<size_t>(n));
  rng::fill_uniform(seed, use, first, vector_view(values.data(), n), Run{});
  return values;
}

std::vector<double> normals(uint64_t seed, Purpose use, uint64_t first, int64_t n, int threads = 1) {
  std::vector<double> values(static_cast<size_t>(n));
  rng::fill_normal(seed, use, first, vector_view(values.data(), n), Run{threads});
  return values;
}

// √n times the largest distance between the empirical distribution and `cdf`; above 1.95 once in 1000.
template <class F>
double kolmogorov(std::vector<double> values, F cdf) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  double largest = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]), rank = static_cast<double>(i);
    largest = std::max({largest, expected - rank / n, (rank + 1) / n - expected});
  }
  return std::sqrt(n) * largest;
}

// The mean of f over the values, in standard errors from `mean`.
template <class F>
double deviation(const std::vector<double>& values, double mean, double variance, F f) {
  double sum = 0.0;
  for (const double v : values) sum += f(v) - mean;
  return std::fabs(sum) / std::sqrt(variance * static_cast<double>(values.size()));
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {  // of U(0, 1), times √n
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - 0.5) * (b[i] - 0.5);
  return std::fabs(sum) * 12.0 / std::sqrt(static_cast<double>(a.size()));
}

// χ² of equally likely cells, in standard deviations above its mean.
double chi_square(const std::vector<int64_t>& counts) {
  double total = 0.0, sum = 0.0;
  for (const int64_t c : counts) total += static_cast<double>(c);
  const double expected = total / static_cast<double>(counts.size());
  for (const int64_t c : counts)
    sum += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1.0;
  return (sum - freedom) / std::sqrt(2.0 * freedom);
}

// The quantile of p by one Newton step in long double from z, which doubles the digits of z.
long double refined(double p, double z) {
  const long double root2 = std::sqrt(2.0L), density = std::exp(-0.5L * z * z) / std::sqrt(2.0L * std::acos(-1.0L));
  if (std::fabs(p - 0.5) < 0.25) return z + (static_cast<long double>(p) - 0.5L - 0.5L * std::erf(z / root2)) / density;
  if (p < 0.5) return z + (p - 0.5L * std::erfc(-z / root2)) / density;
  return z - (1.0L - p - 0.5L * std::erfc(z / root2)) / density;
}

}  // namespace

TEST("rng: Philox4x32-10 gives its published answers") {
  // From the known-answer file that accompanies the paper: zeros, ones, and digits of π.
  using Words = std::array<uint32_t, 4>;
  const uint32_t ones = 0xffffffff;
  CHECK((rng::philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  CHECK((rng::philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((rng::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
         Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST("rng: a seed, a purpose and an index are the key and the counter") {
  // Fixed for ever: results of fits hang on it.
  for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{12345678901234567890ULL}, ~uint64_t{0}}) {
    const uint64_t block = index / 2;
    const auto words =
        rng::philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 6, 0}, {0x89abcdef, 0x01234567});
    const size_t half = index % 2 * 2;
    const uint64_t expected = uint64_t{words[half + 1]} << 32 | words[half];
    CHECK(rng::bits(kSeed, Purpose::fingerprint, index) == expected);
    CHECK(rng::uniform(kSeed, Purpose::fingerprint, index) == static_cast<double>(expected >> 11) * 0x1p-53);
    CHECK(rng::uniform_open(kSeed, Purpose::fingerprint, index) ==
          (static_cast<double>(expected >> 12) + 0.5) * 0x1p-52);
  }
}

TEST("rng: a fill has the bits of the single numbers, in any split, order and stride") {
  // Starts that are odd, that carry from one counter word to the next, and that run over the end of 64 bits.
  for (const uint64_t first : {uint64_t{0}, uint64_t{7}, (uint64_t{1} << 33) - 301, ~uint64_t{0} - 250}) {
    const int64_t n = 700;
    std::vector<uint64_t> raw(n);
    rng::fill_bits(kSeed, Purpose::sample, first, vector_view(raw.data(), n), Run{});
    const auto unit = uniforms(kSeed, Purpose::sample, first, n), normal = normals(kSeed, Purpose::sample, first, n);
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t index = first + static_cast<uint64_t>(i);
      const size_t at = static_cast<size_t>(i);
      CHECK_MSG(raw[at] == rng::bits(kSeed, Purpose::sample, index), "index " << index);
      CHECK_MSG(unit[at] == rng::uniform(kSeed, Purpose::sample, index), "index " << index);
      CHECK_MSG(normal[at] == rng::normal(kSeed, Purpose::sample, index), "index " << index);
    }
    for (const int64_t cut : {1, 2, 3, 16, 17, 255, 256, 257, 699}) {
      auto joined = normals(kSeed, Purpose::sample, first, cut);
      const auto tail = normals(kSeed, Purpose::sample, first + static_cast<uint64_t>(cut), n - cut);
      joined.insert(joined.end(), tail.begin(), tail.end());
      CHECK_MSG(joined == normal, "cut at " << cut);
    }
    std::vector<double> strided(static_cast<size_t>(3 * n), -7.0);  // backwards, every third entry
    rng::fill_normal(kSeed, Purpose::sample, first, View<double, 1>{strided.data() + 3 * (n - 1), {n}, {-3}}, Run{});
    for (size_t i = 0; i < strided.size(); ++i)
      CHECK(strided[i] == (i % 3 == 0 ? normal[static_cast<size_t>(n) - 1 - i / 3] : -7.0));
  }
}

TEST("rng: the same bits for any number of threads") {
  const auto one = normals(kSeed, Purpose::start, 5, 100'003);
  for (const int threads : {2, 3, 8}) CHECK_MSG(normals(kSeed, Purpose::start, 5, 100'003, threads) == one, threads);
}

TEST("rng: normal numbers have the same bits on every machine") {
  // FNV-1a over 65536 numbers. The constant came out equal from g++ and clang++, x86-64 (SSE2, AVX2) and
  // aarch64; a new value would mean that seeds have changed their meaning.
  uint64_t hash = 0xcbf29ce484222325;
  for (const double z : normals(42, Purpose::sample, 3, 65536))
    hash = (hash ^ std::bit_cast<uint64_t>(z)) * 0x100000001b3;
  CHECK_MSG(hash == 0xb0c751a241654997, std::hex << hash);
}

TEST("rng: uniform numbers are uniform") {
  const auto values = uniforms(kSeed, Purpose::sample, 0, 1'000'000);
  std::vector<int64_t> cells(1000);
  for (const double u : values) {
    CHECK(u >= 0.0 && u < 1.0 && std::floor(u * 0x1p53) == u * 0x1p53);
    ++cells[static_cast<size_t>(u * 1000.0)];
  }
  CHECK(deviation(values, 0.5, 1.0 / 12, [](double u) { return u; }) < 3.3);
  CHECK(deviation(values, 1.0 / 12, 1.0 / 180, [](double u) { return (u - 0.5) * (u - 0.5); }) < 3.3);
  CHECK(kolmogorov(values, [](double u) { return u; }) < 1.95);
  CHECK(chi_square(cells) < 3.3);
}

TEST("rng: open uniform numbers avoid 0 and 1 and lie symmetrically") {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const double u = rng::uniform_open(kSeed, Purpose::sample, i);
    CHECK(u > 0.0 && u < 1.0);
    CHECK(std::fmod(u * 0x1p53, 2.0) == 1.0);  // odd multiples of 2^-53: never 0, ½ or 1
  }
}

TEST("rng: every bit of 64 is fair, and neighbours differ in half of them") {
  const int64_t n = 100'000;
  std::vector<uint64_t> raw(n);
  rng::fill_bits(kSeed, Purpose::sample, 0, vector_view(raw.data(), n), Run{});
  std::vector<int64_t> set(64);
  int64_t changed = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    for (size_t b = 0; b < 64; ++b) set[b] += static_cast<int64_t>(raw[i] >> b & 1);
    if (i > 0) changed += std::popcount(raw[i] ^ raw[i - 1]);
  }
  for (const int64_t count : set) CHECK(std::fabs(2.0 * static_cast<double>(count) / n - 1.0) * std::sqrt(n) < 4.5);
  CHECK(std::fabs(static_cast<double>(changed) / (n - 1) - 32.0) * std::sqrt(n - 1.0) / 4.0 < 3.3);
}

TEST("rng: normal numbers are normal") {
  const auto values = normals(kSeed, Purpose::sample, 0, 1'000'000);
  CHECK(deviation(values, 0.0, 1.0, [](double z) { return z; }) < 3.3);
  CHECK(deviation(values, 1.0, 2.0, [](double z) { return z * z; }) < 3.3);
  CHECK(deviation(values, 0.0, 15.0, [](double z) { return z * z * z; }) < 3.3);
  CHECK(deviation(values, 3.0, 96.0, [](double z) { return z * z * z * z; }) < 3.3);
  CHECK(kolmogorov(values, [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }) < 1.95);
  const auto beyond = std::count_if(values.begin(), values.end(), [](double z) { return std::fabs(z) > 4.0; });
  CHECK_MSG(std::abs(beyond - 63) < 27, beyond);  // 63.3 expected, standard deviation 8
}

TEST("rng: normal_quantile inverts the error function, also far out") {
  std::vector<double> grid;
  for (int i = 1; i < 4000; ++i) grid.push_back(i / 4000.0);
  for (const double edge : {0.075, 0.925, std::exp(-25.0), 1.0 - std::exp(-25.0)})  // where the formulas join
    for (int i = -50; i <= 50; ++i) grid.push_back(edge * (1.0 + i * 0x1p-52));
  for (int e = 1; e <= 53; ++e) grid.push_back(std::ldexp(1.0, -e)), grid.push_back(1.0 - std::ldexp(1.0, -e));
  for (int e = 54; e <= 1021; ++e) grid.push_back(std::ldexp(1.3, -e));
  for (int e = 2; e <= 50; ++e) grid.push_back(0.5 + std::ldexp(1.0, -e)), grid.push_back(0.5 - std::ldexp(1.0, -e));
  double worst = 0.0, where = 0.0, before = -kInf;
  for (const double p : grid) {
    const double z = rng::normal_quantile(p);
    const long double truth = refined(p, z);
    const double error = truth == 0 ? std::fabs(z) : static_cast<double>(std::fabs((z - truth) / truth));
    if (error > worst) worst = error, where = p;
  }
  std::printf("normal_quantile: max relative error %.1e over %zu values\n", worst, grid.size());
  CHECK_MSG(worst < 2e-15, "at p = " << where);

  std::sort(grid.begin(), grid.end());
  for (const double p : grid) {
    const double z = rng::normal_quantile(p);
    CHECK_MSG(z >= before - 4e-15 * std::fabs(z), "falls at p = " << p);
    before = z;
    if (1.0 - (1.0 - p) == p) CHECK_MSG(rng::normal_quantile(1.0 - p) == -z, "not antisymmetric at p = " << p);
  }
}

TEST("rng: normal_quantile at and beyond the ends") {
  CHECK(rng::normal_quantile(0.0) == -kInf);
  CHECK(rng::normal_quantile(1.0) == kInf);
  CHECK(rng::normal_quantile(0.5) == 0.0);
  for (const double bad : {-1e-300, -0.2, 1.0 + 0x1p-52, 2.0, kInf, -kInf, std::nan("")})
    CHECK_MSG(std::isnan(rng::normal_quantile(bad)), bad);
}

TEST("rng: seeds, purposes and neighbouring indices are uncorrelated") {
  const int64_t n = 200'000;
  const auto base = uniforms(kSeed, purpose(1), 0, n);
  CHECK(correlation(base, uniforms(kSeed, purpose(1), 1, n)) < 3.3);
  CHECK(correlation(base, uniforms(kSeed, purpose(1), 2, n)) < 3.3);
  for (uint32_t other = 2; other <= 7; ++other)
    CHECK_MSG(correlation(base, uniforms(kSeed, purpose(other), 0, n)) < 3.3, other);
  for (const uint64_t other :
       {kSeed + 1, kSeed ^ (uint64_t{1} << 32), kSeed ^ (uint64_t{1} << 63), ~kSeed, uint64_t{0}})
    CHECK_MSG(correlation(base, uniforms(other, purpose(1), 0, n)) < 3.3, other);
}
