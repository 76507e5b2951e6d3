// Kernel values and the small products over tiles, per instruction set, beside plain loops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "kernels/functions.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers(int64_t n, unsigned seed = 1, double deviation = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n));
  for (auto& v : x) v = deviation * normal(engine);
  return x;
}

// The same numbers as a column tile (d, kPoints), from rows (kPoints, d).
std::vector<double> turned(const std::vector<double>& rows, int64_t d) {
  std::vector<double> out(rows.size());
  for (int64_t l = 0; l < kPoints; ++l)
    for (int64_t j = 0; j < d; ++j) out[static_cast<size_t>(j * kPoints + l)] = rows[static_cast<size_t>(l * d + j)];
  return out;
}

long double square(const double* x, const double* y, int64_t d) {
  long double sum = 0;
  for (int64_t j = 0; j < d; ++j)
    sum += (static_cast<long double>(x[j]) - y[j]) * (static_cast<long double>(x[j]) - y[j]);
  return sum;
}
long double inner(const double* x, const double* y, int64_t d) {
  long double sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += static_cast<long double>(x[j]) * y[j];
  return sum;
}

struct Case {
  const char* function;
  double a, b;
};

bool near(double value, long double truth, double relative) {
  return std::fabs(static_cast<long double>(value) - truth) <= relative * std::fabs(truth) + 1e-300L;
}

std::vector<double> values_of(const Kernels* table, const KernelRule& rule, const std::vector<double>& x,
                              const std::vector<double>& y, int64_t d) {
  std::vector<double> out(static_cast<size_t>(kPoints * kPoints));
  table->gram.values(&rule, turned(x, d).data(), y.data(), d, 1, kPoints, d, out.data());
  return out;
}

}  // namespace

TEST("kernel values: every function against long double, both orders and both layouts of y, on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 10, 33, 100}) {
    const double deviation = 1 / std::sqrt(static_cast<double>(d));
    const auto x = numbers(kPoints * d, 1, deviation), y = numbers(kPoints * d, 2, deviation);
    const auto turned_y = turned(y, d);
    for (const auto& [function, a, b] : {Case{"rbf", 0.7, 1.0},
                                         {"rbf", 0.05, 1.0},
                                         {"rbf", 30.0, 1.0},
                                         {"rbf", 0.9, 3.0},
                                         {"rbf", 0.9, 0.5},
                                         {"poly", 1.5, 3.0},
                                         {"poly", 0.5, 6.0},
                                         {"poly", 0.0, 1.0},
                                         {"linear", 0.0, 0.0}}) {
      const KernelRule rule = kernel_rule(function, a, b);
      for (const Kernels* table : all_kernels()) {
        const auto tile = values_of(table, rule, x, y, d), back = values_of(table, rule, y, x, d);
        std::vector<double> other(tile.size());
        table->gram.values(&rule, turned(x, d).data(), turned_y.data(), 1, kPoints, kPoints, d, other.data());
        CHECK(tile == other);
        for (int64_t t = 0; t < kPoints; ++t)
          for (int64_t l = 0; l < kPoints; ++l) {
            const double value = tile[static_cast<size_t>(t * kPoints + l)];
            CHECK(value == back[static_cast<size_t>(l * kPoints + t)]);
            const double *p = x.data() + l * d, *q = y.data() + t * d;
            const std::string name = function;
            if (name == "rbf") {
              const long double e = 0.5L * std::pow(square(p, q, d) / (static_cast<long double>(a) * a), b);
              if (e > 700) {
                CHECK(value < 1e-300);
                continue;
              }
              // one ulp of the value and of the exponent, d of the distance, and a few for the power's logarithm
              const double ulps = 3 + static_cast<double>(e) * (static_cast<double>(d) * b + 4 * b + 4);
              CHECK_MSG(near(value, std::exp(-e), ulps * 0x1p-52),
                        function << a << ' ' << b << " d " << d << " at " << e);
              continue;
            }
            const long double scale = std::sqrt(inner(p, p, d) * inner(q, q, d)) + a;  // what cancels
            const double degree = name == "linear" ? 1 : b;
            const long double truth = std::pow(inner(p, q, d) + (name == "linear" ? 0 : a), degree);
            CHECK(std::fabs(value - truth) <=
                  (static_cast<double>(d) + 2) * degree * 0x1p-52L * std::pow(scale, degree));
          }
      }
    }
  }
}

TEST("kernel values: equal rows are exactly 1, the one distance decides the Heaviside, cutoffs are inclusive") {
  for (const Kernels* table : all_kernels()) {
    for (int64_t d : {1, 2, 5, 40}) {
      const auto x = numbers(kPoints * d, 3, 1e8);
      for (const auto& rule :
           {kernel_rule("rbf", 1e-3, 1), kernel_rule("rbf", 7.0, 2), kernel_rule("heaviside", 1e-9, 0)}) {
        const auto tile = values_of(table, rule, x, x, d);
        for (int64_t l = 0; l < kPoints; ++l) CHECK(tile[static_cast<size_t>(l * kPoints + l)] == 1.0);
      }
    }
    // a lattice, where distances are exact: 3-4-5
    std::vector<double> x, y(static_cast<size_t>(2 * kPoints), 0.0);
    for (int l = 0; l < kPoints; ++l) x.push_back(l % 8), x.push_back(l / 8 + 2);
    const auto within = values_of(table, kernel_rule("heaviside", 5.0, 0), x, y, 2);
    const auto cut = values_of(table, kernel_rule("rbf", 2.0, 1, 5.0), x, y, 2);
    const auto all = values_of(table, kernel_rule("rbf", 2.0, 1, 0.0), x, y, 2);
    CHECK(all == values_of(table, kernel_rule("rbf", 2.0, 1, kInfinity), x, y, 2));
    for (int l = 0; l < kPoints; ++l) {
      const int r2 = (l % 8) * (l % 8) + (l / 8 + 2) * (l / 8 + 2);
      CHECK(within[static_cast<size_t>(l)] == (r2 <= 25 ? 1.0 : 0.0));
      CHECK(cut[static_cast<size_t>(l)] == (r2 <= 25 ? all[static_cast<size_t>(l)] : 0.0));
    }
  }
}

TEST("kernel values: scales of 1e±150 change nothing, powers of two not a bit, far pairs are 0") {
  const int64_t d = 3;
  const auto x = numbers(kPoints * d, 4), y = numbers(kPoints * d, 5);
  for (const char* function : {"rbf", "heaviside"})
    for (double size : {0x1p-1000, 0x1p-500, 0x1p-3, 0x1p500, 0x1p1000}) {
      auto u = x, v = y;
      const KernelRule small = kernel_rule(function, 1.3, 1), big = kernel_rule(function, 1.3 * size, 1);
      std::vector<double> plain(static_cast<size_t>(kPoints * kPoints)), scaled(plain.size());
      for (auto& w : u) w *= size;
      for (auto& w : v) w *= size;
      kernel_tile(matrix_view<const double>(x.data(), kPoints, d), matrix_view<const double>(y.data(), kPoints, d),
                  small, matrix_view(plain.data(), kPoints, kPoints), {});
      kernel_tile(matrix_view<const double>(u.data(), kPoints, d), matrix_view<const double>(v.data(), kPoints, d), big,
                  matrix_view(scaled.data(), kPoints, kPoints), {});
      CHECK_MSG(plain == scaled, function << " at " << size);
    }
  const std::vector<double> far{1e150, -1e150, 0.0, 1e300, -1e300, 1.7e308};
  for (double sigma : {1e-150, 1.0, 1e140}) {
    std::vector<double> out(36);
    kernel_tile(matrix_view<const double>(far.data(), 6, 1), matrix_view<const double>(far.data(), 6, 1),
                kernel_rule("rbf", sigma, 1), matrix_view(out.data(), 6, 6), {});
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j)
        if (sigma > 1e-150 ||
            std::max(std::fabs(far[static_cast<size_t>(i)]), std::fabs(far[static_cast<size_t>(j)])) < 1e200)
          CHECK(out[static_cast<size_t>(i * 6 + j)] == (i == j ? 1.0 : 0.0));
  }
}

TEST("kernel values: rules are checked") {
  CHECK_THROWS(std::invalid_argument, kernel_rule("rbf", 0, 1));
  CHECK_THROWS(std::invalid_argument, kernel_rule("rbf", kInfinity, 1));
  CHECK_THROWS(std::invalid_argument, kernel_rule("rbf", 1, 0));
  CHECK_THROWS(std::invalid_argument, kernel_rule("rbf", 1, 1, -1));
  CHECK_THROWS(std::invalid_argument, kernel_rule("heaviside", 0, 1));
  CHECK_THROWS(std::invalid_argument, kernel_rule("poly", 0, 1.5));
  CHECK_THROWS(std::invalid_argument, kernel_rule("cosine", 0, 1));
}

TEST("kernel products: tiles times columns, both ways, against plain loops, on every instruction set") {
  const auto v = numbers(kPoints * kPoints, 6);
  for (const Kernels* table : all_kernels()) {
    for (int64_t width : {4, 8, 12})
      for (int64_t count : {1, 5, 32})
        for (const bool rows : {false, true}) {
          const auto b = numbers(kPoints * width, 7), start = numbers(kPoints * width, 8);
          auto out = start;
          const int64_t row_step = rows ? kPoints : 1, step = rows ? 1 : kPoints;
          table->gram.add_product(v.data(), row_step, step, kPoints, count, b.data(), width, out.data());
          for (int64_t i = 0; i < kPoints; ++i)
            for (int64_t c = 0; c < width; ++c) {
              long double sum = start[static_cast<size_t>(i * width + c)];
              for (int64_t k = 0; k < count; ++k)
                sum += static_cast<long double>(v[static_cast<size_t>(i * row_step + k * step)]) *
                       b[static_cast<size_t>(k * width + c)];
              CHECK(std::fabs(out[static_cast<size_t>(i * width + c)] - sum) < 1e-13L);
            }
        }
    for (int64_t width : {1, 2})
      for (int64_t m : {1, 7, 32})
        for (const bool both : {false, true}) {
          const auto rows_in = numbers(kPoints * width, 9), lanes_in = numbers(kPoints * width, 10);
          const auto start = numbers(kPoints * width, 11);
          auto lanes_out = start, rows_out = start;
          table->gram.add_lanes(v.data(), m, width, rows_in.data(), lanes_out.data(), lanes_in.data(),
                                both ? rows_out.data() : nullptr);
          for (int64_t c = 0; c < width; ++c)
            for (int64_t i = 0; i < kPoints; ++i) {
              long double lanes = start[static_cast<size_t>(c * kPoints + i)], rows = lanes;
              for (int64_t k = 0; k < kPoints; ++k) {
                if (k < m)
                  lanes += static_cast<long double>(v[static_cast<size_t>(k * kPoints + i)]) *
                           rows_in[static_cast<size_t>(c * kPoints + k)];
                if (both && i < m)
                  rows += static_cast<long double>(v[static_cast<size_t>(i * kPoints + k)]) *
                          lanes_in[static_cast<size_t>(c * kPoints + k)];
              }
              CHECK(std::fabs(lanes_out[static_cast<size_t>(c * kPoints + i)] - lanes) < 1e-13L);
              CHECK(std::fabs(rows_out[static_cast<size_t>(c * kPoints + i)] - rows) < 1e-13L);
            }
        }
    for (int64_t width : {4, 8, 12})
      for (int64_t rows : {1, 3, 4, 9})
        for (int64_t count : {0, 1, 17}) {
          const int64_t stride = 20, step = 15;
          const auto a = numbers(rows * stride, 12), b = numbers(count * width, 13), start = numbers(rows * step, 14);
          auto out = start;
          table->gram.add_rows(a.data(), stride, rows, count, b.data(), width, out.data(), step);
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t c = 0; c < step; ++c) {
              long double sum = start[static_cast<size_t>(i * step + c)];
              for (int64_t k = 0; k < count && c < width; ++k)
                sum += static_cast<long double>(a[static_cast<size_t>(i * stride + k)]) *
                       b[static_cast<size_t>(k * width + c)];
              CHECK(std::fabs(out[static_cast<size_t>(i * step + c)] - sum) < 1e-13L);
            }
        }
    const auto w = numbers(kPoints, 15), start = numbers(5 * kPoints, 16);
    std::vector<int32_t> old, fresh;
    for (int t = 0; t < kPoints; ++t) old.push_back(t % 6 - 1), fresh.push_back(t % 4 - 1);
    auto g = start;
    table->gram.move_columns(v.data(), kPoints, w.data(), old.data(), fresh.data(), g.data());
    std::vector<long double> truth(start.begin(), start.end());
    for (int t = 0; t < kPoints; ++t)
      for (int l = 0; l < kPoints; ++l) {
        const long double add =
            static_cast<long double>(w[static_cast<size_t>(t)]) * v[static_cast<size_t>(t * kPoints + l)];
        if (fresh[static_cast<size_t>(t)] >= 0)
          truth[static_cast<size_t>(fresh[static_cast<size_t>(t)] * kPoints + l)] += add;
        if (old[static_cast<size_t>(t)] >= 0)
          truth[static_cast<size_t>(old[static_cast<size_t>(t)] * kPoints + l)] -= add;
      }
    for (size_t i = 0; i < g.size(); ++i) CHECK(std::fabs(g[i] - truth[i]) < 1e-13L);
  }
}
