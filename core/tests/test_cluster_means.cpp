// Two doubles for one number, the means and the objective made of them: against exact sums.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "exact_words.hpp"
#include "kmeans/cluster_means.hpp"
#include "kmeans/cluster_sums.hpp"
#include "kmeans/lloyd.hpp"

using namespace knoll;

namespace {

constexpr double kUnit = 0x1p-53;

double wide_range(std::mt19937_64& random, int reach) {
  const double mantissa = std::normal_distribution<double>()(random);
  return std::ldexp(mantissa, static_cast<int>(random() % static_cast<uint64_t>(2 * reach + 1)) - reach);
}

// into += w(x − c)², exactly: x − c is two doubles, and so is each product of theirs; w·(product) once more.
void add_square(ExactSum& into, double w, double x, double c) {
  const Twofold t = two_sum(x, -c);
  for (const auto& [a, b] : {std::pair{t.high, t.high}, {2 * t.high, t.low}, {t.low, t.low}}) {
    const Twofold product = two_product(a, b);
    into.add_product(w, product.high);
    into.add_product(w, product.low);
  }
}

double difference(ExactSum exact, double value) {
  exact.add(-value);
  return std::fabs(exact.round());
}

struct Problem {
  int64_t n, d, k;
  std::vector<double> x, weights;
  std::vector<int32_t> labels;
  std::vector<double> high, low;  // (k, d+1)

  Problem(int64_t rows, int64_t columns, int64_t clusters, double shift, double apart, bool weighted, unsigned seed)
      : n(rows), d(columns), k(clusters) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < n; ++i) {
      labels.push_back(static_cast<int32_t>(i % k));
      for (int64_t j = 0; j < d; ++j) x.push_back(normal(random) + shift + apart * static_cast<double>(i % k));
      if (weighted) weights.push_back(std::fabs(normal(random)) / 3);
    }
    std::vector<int64_t> words(static_cast<size_t>(kSumWords * k * (d + 1)), 0);
    const auto sums = matrix_view(words.data(), kSumWords, k * (d + 1));
    add_cluster_sums(points(), weight(), vector_view<const int32_t>(labels.data(), n), sums, Run{1});
    high.resize(static_cast<size_t>(k * (d + 1)));
    low.resize(high.size());
    exact_round_columns(sums, vector_view(high.data(), k * (d + 1)), Run{1}, vector_view(low.data(), k * (d + 1)));
  }
  View<const double, 2> points() const { return matrix_view<const double>(x.data(), n, d); }
  View<const double, 1> weight() const {
    return weights.empty() ? View<const double, 1>{} : vector_view<const double>(weights.data(), n);
  }
  ClusterSums sums() const {
    return {matrix_view<const double>(high.data(), k, d + 1), matrix_view<const double>(low.data(), k, d + 1)};
  }
  ExactSum about(const double* centers, bool own) const {  // own: each row about the centre of its label
    ExactSum total;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < d; ++j)
        add_square(total, weights.empty() ? 1.0 : weights[static_cast<size_t>(i)], x[static_cast<size_t>(i * d + j)],
                   centers[(own ? labels[static_cast<size_t>(i)] * d : 0) + j]);
    return total;
  }
};

Twofold exact_scatter(const Problem& problem, const std::vector<double>& origin, int threads) {
  std::array<int64_t, kSumWords> words{};
  add_exact_scatter(problem.points(), problem.weight(), vector_view<const double>(origin.data(), problem.d),
                    words.data(), Run{threads});
  const double high = exact_round(words.data());
  return {high, exact_low(words.data(), high)};
}

}  // namespace

TEST("twofold: sums and products of two doubles leave nothing out") {
  std::mt19937_64 random(1);
  for (int t = 0; t < 5000; ++t) {
    const double a = wide_range(random, 60), b = wide_range(random, 60);
    const Twofold sum = two_sum(a, b), product = two_product(a, b);
    ExactSum left, right, times, expected;
    left.add(a), left.add(b), right.add(sum.high), right.add(sum.low);
    times.add(product.high), times.add(product.low), expected.add_product(a, b);
    CHECK(left == right);
    CHECK(times == expected);
    CHECK(sum.high == a + b && product.high == a * b);
  }
}

TEST("twofold: sums of pairs are right to 3u² of their magnitudes, cancelling ones too") {
  std::mt19937_64 random(2);
  for (int t = 0; t < 5000; ++t) {
    const Twofold a = two_sum(wide_range(random, 3), wide_range(random, 3) * kUnit);
    Twofold b = two_sum(wide_range(random, 3), wide_range(random, 3) * kUnit);
    if (t % 2 == 0) b = two_sum(-a.high * (1 + static_cast<double>(t % 5) * 2 * kUnit), b.low);
    const Twofold sum = a + b;
    ExactSum exact;
    for (double term : {a.high, a.low, b.high, b.low, -sum.high, -sum.low}) exact.add(term);
    CHECK(std::fabs(exact.round()) <= 3 * kUnit * kUnit * (std::fabs(a.high) + std::fabs(b.high)));
    CHECK(sum.high == sum.high + sum.low);
  }
}

TEST("twofold: a quotient is the nearest double, and a double comes back") {
  std::mt19937_64 random(3);
  for (int t = 0; t < 20000; ++t) {
    const int reach = t % 2 == 0 ? 2 : 900;
    const Twofold b = two_sum(std::fabs(wide_range(random, 50)), wide_range(random, 2) * 0x1p-70);
    // a multiple of b by a double, as the sum of equal rows is
    const double value = wide_range(random, reach);
    const Twofold product = two_product(value, b.high);
    const Twofold multiple = product + two_product(value, b.low);
    CHECK_MSG(divide(multiple, b) == value, value << " of " << b.high);
    CHECK(divide({-multiple.high, -multiple.low}, b) == -value);
    // any other: the neighbours are no nearer (but for what 2^−100 may decide)
    const Twofold a = two_sum(wide_range(random, 50), wide_range(random, 2) * 0x1p-80);
    const double quotient = divide(a, b);
    const auto off = [&](double q) {
      ExactSum left;
      left.add(a.high), left.add(a.low), left.add_product(-q, b.high), left.add_product(-q, b.low);
      return std::fabs(left.round());
    };
    const double here = off(quotient) * (1 - 0x1p-40);
    CHECK(here <= off(std::nextafter(quotient, 1e300)) && here <= off(std::nextafter(quotient, -1e300)));
  }
  CHECK(divide({2, 0x1p-52}, {2, 0}) == 1);                      // halfway between 1 and its successor: to even
  CHECK(divide({2 + 0x1p-51, 0x1p-52}, {2, 0}) == 1 + 0x1p-51);  // halfway above the successor: to even as well
  CHECK(divide({0, 0}, {3, 0}) == 0);
  CHECK(divide({5e-324, 0}, {1, 0}) == 5e-324);
}

TEST("sum: the low part is what rounding leaves, rounded") {
  std::mt19937_64 random(4);
  for (int t = 0; t < 3000; ++t) {
    ExactSum sum;
    for (int i = 0; i < 1 + t % 7; ++i) sum.add(wide_range(random, t % 3 == 0 ? 1000 : 40));
    const double rounded = sum.round(), low = exact_low(sum.words(), rounded);
    ExactSum left = sum;
    left.add(-rounded);
    CHECK(low == left.round());
    CHECK(rounded + low == rounded);
  }
  ExactSum infinite;
  infinite.add(HUGE_VAL);
  CHECK(exact_low(infinite.words(), infinite.round()) == 0);
}

TEST("kmeans: sums in units and in words have the same low part") {
  for (bool weighted : {false, true}) {
    const Problem problem(3000, 5, 4, 1e6, 10, weighted, 5);
    std::vector<double> centers;
    for (int64_t c = 0; c < problem.k; ++c)
      for (int64_t j = 0; j < problem.d; ++j) centers.push_back(1e6 + 10 * static_cast<double>(c));
    LloydMemory memory(problem.n, problem.d, problem.k, LloydAlgorithm::lloyd);
    memory.step(problem.points(), problem.weight(), matrix_view<const double>(centers.data(), problem.k, problem.d),
                Run{2});
    const int64_t columns = problem.k * (problem.d + 1);
    std::vector<double> high(static_cast<size_t>(columns)), low(high.size()), other_high(high), other_low(high);
    memory.round_sums(vector_view(high.data(), columns), Run{1}, vector_view(low.data(), columns));
    exact_round_columns(matrix_view<const int64_t>(words_of(memory).data(), kSumWords, columns),
                        vector_view(other_high.data(), columns), Run{1}, vector_view(other_low.data(), columns));
    CHECK(high == other_high);
    CHECK(low == other_low);
    CHECK(std::any_of(low.begin(), low.end(), [](double v) { return v != 0; }));
  }
}

TEST("kmeans: the scatter in two doubles is the exact one, for any number of threads, sparse or dense") {
  for (int64_t d : {1, 3, 17})
    for (double apart : {0.0, 1e6})
      for (bool weighted : {false, true}) {
        const Problem problem(5000, d, 4, 1e3, apart, weighted, 6);
        const std::vector<double> origin(static_cast<size_t>(d), 1e3 + 1.0 / 3 + apart);
        const Twofold one = exact_scatter(problem, origin, 1), three = exact_scatter(problem, origin, 3);
        CHECK(one.high == three.high && one.low == three.low);
        ExactSum exact = problem.about(origin.data(), false);
        exact.add(-one.high);
        const double size = static_cast<double>(d + 4);
        CHECK(difference(exact, one.low) <= (4 * size * size + 1) * kUnit * kUnit * one.high);

        std::vector<int32_t> indices, indptr;
        for (int64_t i = 0; i <= problem.n; ++i) indptr.push_back(static_cast<int32_t>(i * d));
        for (int64_t i = 0; i < problem.n * d; ++i) indices.push_back(static_cast<int32_t>(i % d));
        std::array<int64_t, kSumWords> words{};
        add_exact_scatter(Csr<double, int32_t>{problem.x.data(), indices.data(), indptr.data(), problem.n, d},
                          problem.weight(), vector_view<const double>(origin.data(), d), words.data(), Run{2});
        CHECK(exact_round(words.data()) == one.high);
        CHECK(exact_low(words.data(), one.high) == one.low);
      }
}

TEST("kmeans: the objective is within its error of the exact one, and the error small, far apart and far off") {
  for (int64_t d : {1, 4, 20})
    for (double shift : {0.0, 1e6, 1e12})
      for (double apart : {1.0, 1e3, 1e6})
        for (bool weighted : {false, true}) {
          const Problem problem(600, d, 7, shift, apart, weighted, 7);
          std::vector<double> origin(static_cast<size_t>(d), shift + 3 * apart);
          const Twofold value = exact_scatter(problem, origin, 1);
          const double size = static_cast<double>(d + 4);
          const TotalScatter about{vector_view<const double>(origin.data(), d), value,
                                   (4 * size * size + 2) * kUnit * kUnit * value.high};
          std::vector<double> before(static_cast<size_t>(problem.k * d), shift), centers(before), again(before);
          const auto old = matrix_view<const double>(before.data(), problem.k, d);
          const auto found =
              cluster_means(problem.sums(), about, old, matrix_view(centers.data(), problem.k, d), Run{1});
          const auto threaded =
              cluster_means(problem.sums(), about, old, matrix_view(again.data(), problem.k, d), Run{4});
          CHECK(centers == again && found.value == threaded.value && found.error == threaded.error);
          CHECK_MSG(difference(problem.about(centers.data(), true), found.value) <= found.error,
                    "shift " << shift << ", apart " << apart);
          if (shift * apart < 1e18) CHECK(found.error <= 0x1p-36 * found.value);
          double moved = 0;
          for (size_t i = 0; i < centers.size(); ++i) moved += (centers[i] - before[i]) * (centers[i] - before[i]);
          CHECK(std::fabs(moved - found.moved) <= 1e-13 * moved);
          // centres that are no means
          for (auto& c : centers) c += 0.1;
          const auto other =
              cluster_objective(problem.sums(), about, matrix_view<const double>(centers.data(), problem.k, d), Run{2});
          CHECK(difference(problem.about(centers.data(), true), other.value) <= other.error);
          CHECK(other.value > found.value);
        }
}

TEST("kmeans: a cluster without mass keeps its centre, and adds nothing") {
  const std::vector<double> high = {2, 4, 0, 0}, low(4, 0.0), origin = {1}, before = {0, 7};
  std::vector<double> centers(2);
  const TotalScatter about{vector_view<const double>(origin.data(), 1), {10, 0}, 0};
  const auto found =
      cluster_means({matrix_view<const double>(high.data(), 2, 2), matrix_view<const double>(low.data(), 2, 2)}, about,
                    matrix_view<const double>(before.data(), 2, 1), matrix_view(centers.data(), 2, 1), Run{1});
  CHECK(centers[0] == 2 && centers[1] == 7);
  CHECK(found.value == 8);  // 10 − 2·(2 − 1)²
  CHECK(found.moved == 4);
}
