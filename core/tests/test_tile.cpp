#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "common/finite.hpp"
#include "common/tile.hpp"
#include "mixture/mahalanobis.hpp"
#include "mixture/moments.hpp"

using namespace knoll;

namespace {

std::vector<double> numbers(int64_t n, unsigned seed = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n));
  for (auto& v : x) v = normal(engine);
  return x;
}

double one_distance(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const volatile double difference = x[j] - y[j];  // volatile: no compiler may fuse it with what follows
    const volatile double square = difference * difference;
    sum = sum + square;
  }
  return sum;
}

}  // namespace

TEST("tile: centring, weighing, padding and summing, for any layout and on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 5, 8, 13, 16, 21, 34, 35})
    for (bool weighted : {false, true}) {
      const int64_t n = 21, height = 23, ld = padded(d);
      const auto size = static_cast<size_t>(height * ld);
      const auto x = numbers(n * d), w = numbers(n, 3), start = numbers(ld, 4);
      auto center = numbers(ld, 2);
      std::fill(center.begin() + d, center.end(), 0.0);
      const double* weights = weighted ? w.data() : nullptr;
      std::vector<double> turned(x.size());  // the same points, column by column
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < d; ++j) turned[static_cast<size_t>(j * n + i)] = x[static_cast<size_t>(i * d + j)];

      for (const Kernels* table : all_kernels()) {
        std::vector<double> out(size, 7.0), product(size, 7.0), sums = start;
        table->center_rows_f64(x.data(), d, n, d, center.data(), weights, out.data(), product.data(), height,
                               sums.data());
        for (int64_t j = 0; j < ld; ++j) {
          double sum = start[static_cast<size_t>(j)];
          for (int64_t i = 0; i < height; ++i) {
            const auto at = static_cast<size_t>((j / 4 * height + i) * 4 + j % 4);
            if (i >= n) {
              CHECK(out[at] == 7.0 && product[at] == 7.0);
              continue;
            }
            const double y = j < d ? x[static_cast<size_t>(i * d + j)] - center[static_cast<size_t>(j)] : 0.0;
            const double z = weighted ? w[static_cast<size_t>(i)] * y : y;
            CHECK(out[at] == y);
            CHECK(product[at] == (weighted ? z : 7.0));
            sum += z;
          }
          CHECK(sums[static_cast<size_t>(j)] == sum);
        }
      }
      std::vector<double> a(size), b(size), c(size), e(size), scratch(size), first = start, second = start;
      center_rows(View<const double, 2>{x.data(), {n, d}, {d, 1}}, center.data(), weights, a.data(), c.data(), height,
                  first.data(), scratch.data());
      center_rows(View<const double, 2>{turned.data(), {n, d}, {1, n}}, center.data(), weights, b.data(), e.data(),
                  height, second.data(), scratch.data());
      CHECK(a == b && c == e && first == second);
    }
}

TEST("tile: float32 rows are centred as float64") {
  for (int64_t d : {1, 2, 3, 21}) {
    const int64_t n = 9, ld = padded(d);
    const auto wide = numbers(n * d);
    auto center = numbers(ld, 2);
    std::fill(center.begin() + d, center.end(), 0.0);
    const std::vector<float> x(wide.begin(), wide.end());
    const std::vector<double> same(x.begin(), x.end());
    for (const Kernels* table : all_kernels()) {
      std::vector<double> a(static_cast<size_t>(n * ld)), b = a, first(static_cast<size_t>(ld)), second = first;
      table->center_rows_f32(x.data(), d, n, d, center.data(), nullptr, a.data(), nullptr, n, first.data());
      table->center_rows_f64(same.data(), d, n, d, center.data(), nullptr, b.data(), nullptr, n, second.data());
      CHECK(a == b && first == second);
    }
  }
}

TEST("tile: packing points into lanes") {
  for (int64_t d : {1, 3, 8}) {
    const int64_t n = 21;
    const auto x = numbers(n * d), center = numbers(d, 2);
    std::vector<double> columns(static_cast<size_t>(d * kPoints), 7.0);
    pack_columns(View<const double, 2>{x.data(), {n, d}, {d, 1}}, center.data(), columns.data());
    for (int64_t j = 0; j < d; ++j)
      for (int64_t l = 0; l < kPoints; ++l) {
        const double expected = l < n ? x[static_cast<size_t>(l * d + j)] - center[static_cast<size_t>(j)] : 0.0;
        CHECK(columns[static_cast<size_t>(j * kPoints + l)] == expected);
      }
  }
}

TEST("tile: the tall-skinny product, on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (bool upper : {false, true})
      for (int64_t q : {4, 8, 12, 16, 20, 24, 28, 44}) {
        const int64_t p = upper ? q : 12, rows = 53, height = 60;
        const auto a = numbers(height * p), b = numbers(height * q, 2);
        std::vector<double> c(static_cast<size_t>(p * q), 0.5);
        table->tall_product(a.data(), p, b.data(), q, height, rows, c.data(), q, upper, b.data(), rows * q * 8);
        auto at = [&](const std::vector<double>& tile, int64_t r, int64_t j) {
          return tile[static_cast<size_t>((j / 4 * height + r) * 4 + j % 4)];
        };
        for (int64_t i = 0; i < p; ++i)
          for (int64_t j = 0; j < q; ++j) {
            double expected = 0.5, size = 1;
            for (int64_t r = 0; r < rows; ++r) {
              const double term = at(a, r, i) * at(b, r, j);
              expected += term, size += std::fabs(term);
            }
            const double got = c[static_cast<size_t>(i * q + j)];
            if (upper && j < i / 4 * 4)
              CHECK(got == 0.5);  // blocks below the diagonal are left alone
            else
              CHECK_MSG(std::fabs(got - expected) <= 8e-15 * size, table->name << ' ' << i << ' ' << j);
          }
      }
}

TEST("tile: the distance of a pair is the one distance, bit for bit, on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 2, 3, 17}) {
      const int64_t m = 5;
      const auto x = numbers(kPoints * d, 3), y = numbers(m * d, 4);
      std::vector<double> columns(static_cast<size_t>(d * kPoints)), out(static_cast<size_t>(m * kPoints));
      pack_columns(View<const double, 2>{x.data(), {kPoints, d}, {d, 1}}, nullptr, columns.data());
      table->distance_tile(columns.data(), y.data(), d, m, d, out.data());
      for (int64_t t = 0; t < m; ++t)
        for (int64_t l = 0; l < kPoints; ++l)
          CHECK(out[static_cast<size_t>(t * kPoints + l)] == one_distance(x.data() + l * d, y.data() + t * d, d));
    }
}

TEST("tile: whitened norms on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 4, 9}) {
      const auto x = numbers(kPoints * d, 7), factor = numbers(d * d, 8);
      std::vector<double> columns(static_cast<size_t>(d * kPoints));
      double out[kPoints];
      pack_columns(View<const double, 2>{x.data(), {kPoints, d}, {d, 1}}, nullptr, columns.data());
      table->whitened_norms(columns.data(), d, factor.data(), out);
      for (int64_t l = 0; l < kPoints; ++l) {
        double norm = 0;
        for (int64_t i = 0; i < d; ++i) {
          double z = 0;
          for (int64_t j = 0; j <= i; ++j)
            z += factor[static_cast<size_t>(i * d + j)] * x[static_cast<size_t>(l * d + j)];
          norm += z * z;
        }
        CHECK(std::fabs(out[l] - norm) <= 1e-12 * (1 + norm));
      }
    }
}

TEST("moments: the same bits for any threads and any blocks along the grid; right to rounding") {
  const int64_t n = 2 * kGrain + 1000, d = 5, m = moment_count(d);
  const auto x = numbers(n * d, 9), w = numbers(n, 10), origin = numbers(d, 11);
  const View<const double, 2> points{x.data(), {n, d}, {d, 1}};
  const auto o = vector_view(origin.data(), d);
  for (bool weighted : {false, true}) {
    const View<const double, 1> weights = weighted ? vector_view(w.data(), n) : View<const double, 1>{};
    auto sums_of = [&](int threads, std::vector<int64_t> cuts) {
      std::vector<int64_t> words(static_cast<size_t>(kSumWords * m), 0);
      const auto sums = matrix_view(words.data(), kSumWords, m);
      int64_t begin = 0;
      cuts.push_back(n);
      for (int64_t cut : cuts) {
        add_moments(points.rows(begin, cut), weighted ? weights.rows(begin, cut) : weights, o, sums, Run{threads});
        begin = cut;
      }
      std::vector<double> out(static_cast<size_t>(m));
      exact_round_columns(matrix_view<const int64_t>(words.data(), kSumWords, m), vector_view(out.data(), m));
      return out;
    };
    const auto one = sums_of(1, {});
    for (int threads : {2, 3, 8}) CHECK(sums_of(threads, {}) == one);
    CHECK(sums_of(2, {kGrain}) == one);
    CHECK(sums_of(2, {kGrain, 2 * kGrain}) == one);

    size_t column = 0;
    auto expect = [&](auto&& term) {
      long double sum = 0, size = 0;
      for (int64_t i = 0; i < n; ++i) {
        const long double t = (weighted ? w[static_cast<size_t>(i)] : 1.0) * term(&x[static_cast<size_t>(i * d)]);
        sum += t, size += std::fabs(static_cast<double>(t));
      }
      CHECK_MSG(std::fabs(static_cast<double>(sum - one[column])) <= 1e-14 * static_cast<double>(size),
                "moment " << column);
      ++column;
    };
    expect([](const double*) { return 1.0L; });
    auto at = [&](const double* p, int64_t j) {
      return static_cast<long double>(p[j] - origin[static_cast<size_t>(j)]);
    };
    for (int64_t j = 0; j < d; ++j) expect([&](const double* p) { return at(p, j); });
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = i; j < d; ++j) expect([&](const double* p) { return at(p, i) * at(p, j); });
  }
}

TEST("density: float32 points and odd sizes") {
  const int64_t d = 3;
  for (int64_t n : {0, 1, 31, 33, 5000}) {
    const auto x64 = numbers(n * d, 12);
    std::vector<float> x(x64.begin(), x64.end());
    const std::vector<double> mean{0.5, -1, 2}, factor{2, 0, 0, 1, 3, 0, -1, 0.5, 1};
    std::vector<double> out(static_cast<size_t>(n), -1);
    mahalanobis2(View<const float, 2>{x.data(), {n, d}, {d, 1}}, vector_view(mean.data(), d),
                 View<const double, 2>{factor.data(), {d, d}, {d, 1}}, vector_view(out.data(), n), Run{2});
    for (int64_t i = 0; i < n; ++i) {
      double norm = 0;
      for (int64_t a = 0; a < d; ++a) {
        double z = 0;
        for (int64_t b = 0; b <= a; ++b)
          z += factor[static_cast<size_t>(a * d + b)] *
               (static_cast<double>(x[static_cast<size_t>(i * d + b)]) - mean[static_cast<size_t>(b)]);
        norm += z * z;
      }
      CHECK(std::fabs(out[static_cast<size_t>(i)] - norm) <= 1e-13 * (1 + norm));
    }
  }
}

TEST("density: colouring is what whitening undoes, and float64 rows of any layout are taken") {
  for (int64_t d : {1, 3, 8}) {
    const int64_t n = 70;
    const auto z = numbers(n * d, 13), mean = numbers(d, 14);
    auto lower = numbers(d * d, 15);
    for (int64_t i = 0; i < d; ++i) lower[static_cast<size_t>(i * d + i)] = 2.0 + static_cast<double>(i);
    std::vector<double> rows = z, columns(z.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < d; ++j) columns[static_cast<size_t>(j * n + i)] = z[static_cast<size_t>(i * d + j)];
    const View<const double, 2> l{lower.data(), {d, d}, {d, 1}};
    const View<double, 2> turned{columns.data(), {n, d}, {1, n}};
    colour(matrix_view(rows.data(), n, d), vector_view(mean.data(), d), l, Run{3});
    colour(turned, vector_view(mean.data(), d), l, Run{1});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < d; ++j) {
        double expected = mean[static_cast<size_t>(j)];
        for (int64_t k = 0; k <= j; ++k)
          expected += lower[static_cast<size_t>(j * d + k)] * z[static_cast<size_t>(i * d + k)];
        const double got = rows[static_cast<size_t>(i * d + j)];
        CHECK(std::fabs(got - expected) <= 1e-13 * (1 + std::fabs(expected)));
        CHECK(turned(i, j) == got);
      }
  }
}

TEST("finite: one bad number is found anywhere, in any layout, and none where there is none") {
  for (int64_t d : {1, 3, 16, 33})
    for (int64_t n : {1, 2, 40}) {
      auto x = numbers(n * d, 16);
      const View<const double, 2> layouts[] = {
          {x.data(), {n, d}, {d, 1}}, {x.data(), {d, n}, {1, d}}, {x.data(), {n, (d + 1) / 2}, {d, 2}}};
      for (int threads : {1, 3}) {
        for (const auto& view : layouts) CHECK(all_finite(view, Run{threads}));
        for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
          for (size_t at = 0; at < x.size(); ++at) {
            const double before = x[at];
            x[at] = bad;
            for (const auto& view : layouts) {
              bool seen = false;
              for (int64_t i = 0; i < view.shape[0]; ++i)
                for (int64_t j = 0; j < view.shape[1]; ++j) seen |= !std::isfinite(view(i, j));
              CHECK(all_finite(view, Run{threads}) == !seen);
            }
            x[at] = before;
          }
      }
      std::vector<float> y(x.begin(), x.end());
      CHECK(all_finite(View<const float, 2>{y.data(), {n, d}, {d, 1}}, Run{2}));
      y.back() = HUGE_VALF;
      CHECK(!all_finite(View<const float, 2>{y.data(), {n, d}, {d, 1}}, Run{2}));
    }
  CHECK(all_finite(View<const double, 2>{nullptr, {0, 3}, {3, 1}}, Run{1}));
}

TEST("moments and densities: cancelled within a chunk") {
  const std::atomic<bool> cancel{true};
  const auto x = numbers(100 * 4);
  const std::vector<double> mean(4), factor(16);
  std::vector<double> out(100);
  std::vector<int64_t> words(static_cast<size_t>(kSumWords * moment_count(4)));
  const View<const double, 2> points{x.data(), {100, 4}, {4, 1}};
  const Run run{1, &cancel};
  CHECK_THROWS(Cancelled, add_moments(points, {}, vector_view(mean.data(), 4),
                                      matrix_view(words.data(), kSumWords, moment_count(4)), run));
  CHECK_THROWS(Cancelled,
               mahalanobis2(points, vector_view(mean.data(), 4), View<const double, 2>{factor.data(), {4, 4}, {4, 1}},
                            vector_view(out.data(), 100), run));
}
