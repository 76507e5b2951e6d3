#include "neighbors/ball_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "neighbors/metric.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

namespace {

double one_distance(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const volatile double difference = x[j] - y[j];  // volatile: no compiler may fuse it with what follows
    const volatile double square = difference * difference;
    sum = sum + square;
  }
  return sum;
}

struct Data {
  int64_t n, d;
  std::vector<double> x, w;
  const double* row(int64_t i) const { return x.data() + i * d; }
};

Data normal(int64_t n, int64_t d, unsigned seed, double scale = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> draw;
  Data data{n, d, {}, {}};
  for (int64_t i = 0; i < n * d; ++i) data.x.push_back(scale * draw(engine));
  for (int64_t i = 0; i < n; ++i) data.w.push_back(std::exp(draw(engine)));
  return data;
}

Data lattice(int64_t n, int64_t d, unsigned seed) {
  std::mt19937_64 engine(seed);
  Data data = normal(n, d, seed);
  for (double& v : data.x) v = static_cast<double>(engine() % 5);
  for (double& v : data.w) v = static_cast<double>(1 + engine() % 3);
  return data;
}

// Every ball about every third point, and about points between, against a plain loop over all rows.
void check_balls(const Data& data, double eps, bool weighted) {
  const double* const weights = weighted ? data.w.data() : nullptr;
  const BallSums balls(data.x.data(), weights, data.n, data.d, eps, Run{2});
  BallSums::Scratch scratch;
  std::vector<int64_t> sums(static_cast<size_t>(balls.width()));
  std::vector<double> y(static_cast<size_t>(data.d)), mean(y), sorted;
  for (int64_t i = 0; i < data.n; i += 3)
    for (int between = 0; between < 2; ++between) {
      for (int64_t j = 0; j < data.d; ++j)
        y[static_cast<size_t>(j)] = between ? (data.row(i)[j] + data.row((i + 7) % data.n)[j]) / 2 : data.row(i)[j];
      balls.sum(y.data(), largest_square(eps), scratch, sums.data());
      int64_t rows = 0;
      ExactSum weight;
      std::vector<ExactSum> total(static_cast<size_t>(data.d));
      for (int64_t k = 0; k < data.n; ++k) {
        if (std::sqrt(one_distance(data.row(k), y.data(), data.d)) > eps) continue;
        ++rows;
        const double w = weighted ? data.w[static_cast<size_t>(k)] : 1.0;
        weight.add(w);
        for (int64_t j = 0; j < data.d; ++j) total[static_cast<size_t>(j)].add_product(w, data.row(k)[j]);
      }
      CHECK_MSG(sums[0] == rows, "n " << data.n << " d " << data.d << " eps " << eps << " row " << i);
      if (rows == 0) continue;
      CHECK(balls.weight(sums.data()) == weight.round());
      balls.mean(sums.data(), mean.data());
      for (int64_t j = 0; j < data.d; ++j)
        CHECK(mean[static_cast<size_t>(j)] == total[static_cast<size_t>(j)].round() / weight.round());
    }
}

}  // namespace

TEST("ball: the bound is the largest square whose root is within") {
  for (double eps : {1.0, 0.1, 0.3, 3.0, 1e-7, 1e140, 2.0 / 3, 0.0})
    for (bool closed : {true, false}) {
      const double s = largest_square(eps, closed), up = std::nextafter(s, HUGE_VAL);
      if (eps > 0 || closed) CHECK(closed ? std::sqrt(s) <= eps : std::sqrt(s) < eps);
      if (s >= 0) CHECK(closed ? std::sqrt(up) > eps : std::sqrt(up) >= eps);
    }
  CHECK(largest_square(HUGE_VAL, true) == HUGE_VAL &&
        largest_square(HUGE_VAL, false) == std::numeric_limits<double>::max());
  CHECK(largest_square(std::numeric_limits<double>::quiet_NaN(), true) < 0);
}

TEST("ball: digits add up to the exact sum in any order, and round once") {
  std::mt19937_64 engine(3);
  for (int exponents : {1, 20, 60, 200, 900, 2000}) {
    std::vector<double> x;
    for (int i = 0; i < 300; ++i) {
      const int exponent = static_cast<int>(engine() % static_cast<unsigned>(exponents)) - exponents / 2 - 52;
      x.push_back(std::ldexp(static_cast<double>(engine() >> 11), std::max(exponent, -1074)) * (i % 2 ? 1 : -1));
    }
    BitRange range;
    for (double v : x) range.include(v);
    const Digits digits(range.low, range.high, static_cast<int64_t>(x.size()));
    CHECK(digits.count() + 2 < Digits::kMost);
    for (size_t terms : {size_t{1}, size_t{2}, size_t{7}, x.size()}) {
      std::vector<int64_t> sums(static_cast<size_t>(digits.count()));
      ExactSum exact;
      for (size_t i = 0; i < terms; ++i) {
        digits.add(x[i], sums.data(), 1);
        exact.add(x[i]);
      }
      CHECK_MSG(digits.round(sums.data()) == exact.round(), "exponents " << exponents << " terms " << terms);
    }
  }
  CHECK(Digits().round(nullptr) == 0.0);
}

TEST("ball: ties of the rounding go to even, whatever lies far below") {
  const double half = 0x1p-53;
  for (double tiny : {0.0, 0x1p-300, -0x1p-300}) {
    BitRange range;
    for (double v : {1.0, half, tiny}) range.include(v);
    const Digits digits(range.low, range.high, 3);
    std::vector<int64_t> sums(static_cast<size_t>(digits.count()));
    for (double v : {1.0, half, tiny}) digits.add(v, sums.data(), 1);
    CHECK(digits.round(sums.data()) == (tiny > 0 ? 1.0 + 0x1p-52 : 1.0));
  }
}

TEST("ball: counts, weights and means equal a plain loop's, in every dimension") {
  for (int64_t d : {1, 2, 3, 4, 5, 8})
    for (bool weighted : {false, true}) {
      check_balls(normal(301, d, 1), 0.7 * std::sqrt(static_cast<double>(d)), weighted);
      check_balls(normal(67, d, 2), 1e-3, weighted);
      check_balls(normal(67, d, 3), 100.0, weighted);
      check_balls(lattice(300, d, 4), 1.0, weighted);
      check_balls(lattice(200, d, 5), 2.0, weighted);
    }
}

TEST("ball: far outliers, equal points, tiny and huge numbers, radius zero") {
  for (int64_t d : {1, 2, 3, 6}) {
    Data far = normal(200, d, 6);
    for (int64_t j = 0; j < d; ++j) far.x[static_cast<size_t>(j)] = 1e150, far.x[static_cast<size_t>(d + j)] = -1e12;
    check_balls(far, 0.5, false);
    check_balls(normal(150, d, 7, 1e140), 1e140, false);
    check_balls(normal(150, d, 8, 1e-140), 1e-140, true);
    Data equal{500, d, std::vector<double>(static_cast<size_t>(500 * d), 0.1), std::vector<double>(500, 0.3)};
    check_balls(equal, 1.0, true);
    check_balls(lattice(300, d, 9), 0.0, false);
    Data column = normal(200, d, 10);  // all in one strip but for the last coordinate
    for (int64_t i = 0; i < column.n; ++i)
      for (int64_t j = 0; j + 1 < d; ++j) column.x[static_cast<size_t>(i * d + j)] = 3.0;
    check_balls(column, 0.25, false);
  }
}

TEST("ball: a mean is within float64 where products and sums are not") {
  for (int64_t d : {1, 2, 5}) {
    const Data plain = normal(40, d, 11);
    const auto mean_of = [&](int power, int weight_power) {
      Data data = plain;
      for (double& v : data.x) v = std::ldexp(v, power);
      for (double& w : data.w) w = std::ldexp(w, weight_power);
      const BallSums points(data.x.data(), data.w.data(), data.n, d, 0x1p480, Run{});
      BallSums::Scratch scratch;
      std::vector<int64_t> sums(static_cast<size_t>(points.width()));
      std::vector<double> y(static_cast<size_t>(d)), mean(y);
      points.sum(y.data(), largest_square(0x1p480), scratch, sums.data());
      CHECK(sums[0] == data.n);
      points.mean(sums.data(), mean.data());
      for (double& v : mean) v = std::ldexp(v, -power);
      return mean;
    };
    const std::vector<double> expected = mean_of(0, 0);
    for (int power : {-900, -400, 400})
      for (int weight_power : {-1000, -700, 0, 700, 1018})
        CHECK_MSG(mean_of(power, weight_power) == expected, "2^" << power << ", weights 2^" << weight_power);
  }
}

TEST("ball: the common rows of the balls of a box, and the checked ones, are the ball") {
  int64_t shared = 0;
  for (int64_t d : {1, 2, 3, 5})
    for (bool weighted : {false, true})
      for (bool on_lattice : {false, true}) {
        const Data data = on_lattice ? lattice(800, d, 14) : normal(800, d, 14);
        const double eps = on_lattice ? 2.0 : 1.2, bound = largest_square(eps);
        const BallSums balls(data.x.data(), weighted ? data.w.data() : nullptr, data.n, d, eps, Run{});
        BallSums::Scratch scratch;
        BallSums::Common common;
        std::vector<int64_t> sums(static_cast<size_t>(balls.width())), again(sums);
        for (double side : {0.0, 1e-3, 0.05, 0.25, 3.0}) {
          std::vector<double> y(static_cast<size_t>(d), 0.5);
          common.lo = common.hi = y;
          for (double& v : common.hi) v += side;
          balls.sum(y.data(), bound, scratch, sums.data());
          if (!balls.prepare(y.data(), bound, sums.data(), scratch, common)) continue;
          ++shared;
          for (int corner = 0; corner < 8; ++corner) {
            for (int64_t j = 0; j < d; ++j)
              y[static_cast<size_t>(j)] = 0.5 + side * static_cast<double>(corner * (j + 1) % 8) / 7;
            balls.sum(y.data(), bound, scratch, sums.data());
            balls.sum(y.data(), bound, common, scratch, again.data());
            CHECK_MSG(sums == again, "d " << d << " side " << side << " corner " << corner);
          }
        }
      }
  CHECK(shared > 30);
}

TEST("ball: a set has one name, and other sets have others") {
  const Data data = lattice(200, 2, 11);
  const BallSums balls(data.x.data(), nullptr, data.n, 2, 1.0, Run{});
  BallSums::Scratch scratch;
  std::vector<int64_t> sums(static_cast<size_t>(balls.width()));
  std::vector<std::pair<std::vector<int64_t>, Fingerprint>> seen;
  for (int i = 0; i < 300; ++i) {
    const double y[] = {i % 20 * 0.25, i / 20 * 0.3};
    std::vector<int64_t> set;
    for (int64_t k = 0; k < data.n; ++k)
      if (std::sqrt(one_distance(data.row(k), y, 2)) <= 1.0) set.push_back(k);
    balls.sum(y, largest_square(1.0), scratch, sums.data());
    const Fingerprint name = balls.fingerprint(sums.data());
    for (const auto& [other, its] : seen) CHECK((other == set) == (its == name));
    seen.emplace_back(set, name);
  }
}

TEST("ball: the kernels equal a plain loop on every instruction set") {
  std::mt19937_64 engine(12);
  for (int64_t d : {1, 2, 3, 7})
    for (int64_t c : {2, 3, 4, 5, 7, 11}) {
      const int64_t blocks = 13, width = (c + 4) / 4 * 4;
      std::vector<double> coords(static_cast<size_t>(blocks * d * 4)), y(static_cast<size_t>(d), 0.25);
      std::vector<int64_t> columns(static_cast<size_t>(blocks * c * 4)), prefix(static_cast<size_t>(14 * width));
      for (double& v : coords) v = static_cast<double>(engine() % 16) / 8 - 1;
      for (int64_t& v : columns) v = static_cast<int64_t>(engine());
      for (int64_t& v : prefix) v = static_cast<int64_t>(engine());
      coords[5] = HUGE_VAL;
      const std::vector<BlockRange> ranges{{0, 3}, {4, 4}, {5, 13}};
      const double bound = 0.140625 * static_cast<double>(d);
      std::vector<uint64_t> expected(static_cast<size_t>((1 + c) * 4), 5), whole(static_cast<size_t>(width), 7);
      for (const BlockRange& range : ranges) {
        for (int64_t b = range.begin; b < range.end; ++b)
          for (int64_t lane = 0; lane < 4; ++lane) {
            double x[8];
            for (int64_t j = 0; j < d; ++j) x[j] = coords[static_cast<size_t>((b * d + j) * 4 + lane)];
            if (!(one_distance(x, y.data(), d) <= bound)) continue;
            ++expected[static_cast<size_t>(lane)];
            for (int64_t k = 0; k < c; ++k)
              expected[static_cast<size_t>((1 + k) * 4 + lane)] +=
                  static_cast<uint64_t>(columns[static_cast<size_t>((b * c + k) * 4 + lane)]);
          }
        for (int64_t k = 0; k < width; ++k)
          whole[static_cast<size_t>(k)] += static_cast<uint64_t>(prefix[static_cast<size_t>(range.end * width + k)]) -
                                           static_cast<uint64_t>(prefix[static_cast<size_t>(range.begin * width + k)]);
      }
      if (d <= 3 && c == 2) {  // digits made on the way are those of the scalar code
        const Digits digits(-52, 1, 1000);
        std::vector<double> split;
        for (int64_t j = 0; j < d; ++j) split.insert(split.end(), {digits.low(), digits.high()});
        std::vector<int64_t> made(static_cast<size_t>((2 + 2 * d) * 4), 9);
        for (const BlockRange& range : ranges)
          for (int64_t b = range.begin; b < range.end; ++b)
            for (int64_t lane = 0; lane < 4; ++lane) {
              double x[8];
              for (int64_t j = 0; j < d; ++j) x[j] = coords[static_cast<size_t>((b * d + j) * 4 + lane)];
              if (!(one_distance(x, y.data(), d) <= bound)) continue;
              ++made[static_cast<size_t>(lane)];
              auto& key = made[static_cast<size_t>(4 + lane)];
              key = static_cast<int64_t>(static_cast<uint64_t>(key) +
                                         static_cast<uint64_t>(columns[static_cast<size_t>(b * 4 + lane)]));
              for (int64_t j = 0; j < d; ++j) digits.add(x[j], made.data() + (2 + 2 * j) * 4 + lane, 4);
            }
        for (const Kernels* table : all_kernels()) {
          std::vector<int64_t> sums(made.size(), 9);
          table->ascent.add_ball_split(coords.data(), columns.data(), ranges.data(), 3, d, y.data(), bound,
                                       split.data(), sums.data());
          CHECK(sums == made);
        }
      }
      for (const Kernels* table : all_kernels()) {
        std::vector<int64_t> sums(expected.size(), 5), all(whole.size(), 7);
        table->ascent.add_ball(coords.data(), columns.data(), ranges.data(), 3, d, c, y.data(), bound, sums.data());
        table->ascent.add_prefix(prefix.data(), width, ranges.data(), 3, all.data());
        CHECK(std::equal(sums.begin(), sums.end(), expected.begin(),
                         [](int64_t a, uint64_t b) { return static_cast<uint64_t>(a) == b; }));
        CHECK(std::equal(all.begin(), all.end(), whole.begin(),
                         [](int64_t a, uint64_t b) { return static_cast<uint64_t>(a) == b; }));
      }
    }
}

TEST("ball: the Gaussian kernel equals a plain loop on every instruction set") {
  const Data data = normal(52, 3, 13);
  for (bool weighted : {false, true}) {
    std::vector<double> coords(static_cast<size_t>(13 * 3 * 4));
    for (int64_t b = 0; b < 13; ++b)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t lane = 0; lane < 4; ++lane)
          coords[static_cast<size_t>((b * 3 + j) * 4 + lane)] =
              b == 12 && lane > 1 ? HUGE_VAL : data.row(b * 4 + lane)[j];
    const double y[] = {0.1, -0.2, 0.3}, scale = 2.0, least = -5.0;
    double expected[4] = {};
    int64_t left_out = 0;
    for (int64_t i = 0; i < 50; ++i) {
      const double s = -one_distance(data.row(i), y, 3) * scale;
      if (s < least) {
        ++left_out;
        continue;
      }
      const double kappa = std::exp(s) * (weighted ? data.w[static_cast<size_t>(i)] : 1.0);
      expected[0] += kappa;
      for (int64_t j = 0; j < 3; ++j) expected[1 + j] += kappa * data.row(i)[j];
    }
    CHECK(left_out > 5 && left_out < 45);
    for (const Kernels* table : all_kernels()) {
      double sums[16] = {};
      table->ascent.add_gauss(coords.data(), weighted ? data.w.data() : nullptr, 13, 3, y, scale, least, sums);
      for (int k = 0; k < 4; ++k) {
        const double sum = sums[4 * k] + sums[4 * k + 1] + sums[4 * k + 2] + sums[4 * k + 3];
        CHECK(std::abs(sum - expected[k]) <= 1e-13 * expected[0]);
      }
    }
  }
}
