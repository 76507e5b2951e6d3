// Products with kernel matrices that are never stored, beside the stored matrix.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "kernels/apply.hpp"
#include "kernels/functions.hpp"
#include "kernels/pivoted_cholesky.hpp"
#include "kernels/points.hpp"
#include "kernels/tall.hpp"
#include "kernels/update.hpp"

using namespace knoll;

namespace {

using Numbers = std::vector<double>;

Numbers numbers(int64_t n, unsigned seed = 1, double deviation = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Numbers x(static_cast<size_t>(n));
  for (auto& v : x) v = deviation * normal(engine);
  return x;
}

View<const double, 2> matrix(const Numbers& x, int64_t columns) {
  return matrix_view<const double>(x.data(), static_cast<int64_t>(x.size()) / columns, columns);
}

// K(y, x), stored, by kernel_tile; what the rule leaves out is 0 there too.
Numbers stored(const Numbers& y, const Numbers& x, int64_t d, const KernelRule& rule) {
  const auto a = matrix(y, d), b = matrix(x, d);
  Numbers k(static_cast<size_t>(a.shape[0] * b.shape[0]));
  kernel_tile(a, b, rule, matrix_view(k.data(), a.shape[0], b.shape[0]), {});
  return k;
}

// A·B in long double.
std::vector<long double> times(const Numbers& a, const Numbers& b, int64_t inside, int64_t m) {
  const auto rows = static_cast<int64_t>(a.size()) / inside;
  std::vector<long double> out(static_cast<size_t>(rows * m), 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inside; ++k)
      for (int64_t c = 0; c < m; ++c)
        out[static_cast<size_t>(i * m + c)] +=
            static_cast<long double>(a[static_cast<size_t>(i * inside + k)]) * b[static_cast<size_t>(k * m + c)];
  return out;
}

void check_near(const Numbers& out, const std::vector<long double>& truth, double tolerance, const char* what) {
  CHECK(out.size() == truth.size());
  long double worst = 0;
  for (size_t i = 0; i < out.size(); ++i)
    worst = std::isfinite(out[i]) ? std::max(worst, std::fabs(out[i] - truth[i])) : 1e300L;
  CHECK_MSG(worst <= tolerance, what << ": off by " << static_cast<double>(worst));
}

Numbers applied(const KernelPoints& points, const KernelRule& rule, const Numbers& b, int64_t m, Run run = {}) {
  Numbers out(b.size(), -7);
  kernel_apply(points, rule, matrix(b, m), matrix_view(out.data(), points.n, m), run);
  return out;
}

}  // namespace

TEST("kernel apply: K·B and K(Y, X)·B equal the stored matrix's, for every function, width and size") {
  const int64_t most = knoll_test::quick() ? 300 : 700;
  for (int64_t n : std::vector<int64_t>{1, 5, 31, 32, 33, 200, most})
    for (int64_t d : {1, 2, 10, 100}) {
      if ((n == most && d != 2) || (n != 33 && d == 100)) continue;
      if (knoll_test::quick() && n >= 200 && d != 2) continue;
      const auto x = numbers(n * d, 1), y = numbers(41 * d, 2, 2.0);
      for (const auto& rule :
           {kernel_rule("rbf", 0.8, 1), kernel_rule("rbf", 0.8, 1, 1.1), kernel_rule("rbf", 0.01, 1),
            kernel_rule("heaviside", 1.0, 0), kernel_rule("poly", 1, 2), kernel_rule("linear", 0, 0)}) {
        const KernelPoints points(matrix(x, d), rule, {});
        const auto k = stored(x, x, d, rule), q = stored(y, x, d, rule);
        for (int64_t m :
             n == 200 ? std::vector<int64_t>{1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14, 30} : std::vector<int64_t>{1, 12}) {
          const auto b = numbers(n * m, 3);
          const double size = rule.function == kPoly ? 1e-9 : d == 100 ? 1e-10 : 1e-11;
          check_near(applied(points, rule, b, m), times(k, b, n, m), size, "apply");
          Numbers out(static_cast<size_t>(41 * m));
          kernel_apply_rows(points, rule, matrix(y, d), matrix(b, m), matrix_view(out.data(), 41, m), {});
          check_near(out, times(q, b, n, m), size, "apply_rows");
        }
        const int64_t pairs = kernel_pairs(points, rule, {});
        CHECK(pairs <= n * (n + 1) / 2);
        if (rule.function == kPoly || rule.function == kLinear) CHECK(pairs == n * (n + 1) / 2);
        int64_t needed = 0;  // pairs that are not zero must be among them
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j <= i; ++j) needed += k[static_cast<size_t>(i * n + j)] != 0;
        CHECK(pairs >= needed);
      }
    }
}

TEST("kernel apply: the same bits for any threads and layout, rows alone or together, in float32") {
  const int64_t n = knoll_test::quick() ? 900 : 3000, d = 3, m = 5;
  const auto x = numbers(n * d, 4), b = numbers(n * m, 5);
  std::vector<float> small(x.begin(), x.end());
  const Numbers wide(small.begin(), small.end());
  for (const auto& rule : {kernel_rule("rbf", 0.3, 1, 1.5), kernel_rule("poly", 1, 3)}) {
    const KernelPoints points(matrix(x, d), rule, {});
    const auto once = applied(points, rule, b, m);
    for (int threads : {2, 3, 8}) {
      CHECK(once == applied(points, rule, b, m, {threads, nullptr}));
      CHECK(kernel_pairs(points, rule, {}) == kernel_pairs(points, rule, {threads, nullptr}));
    }
    Numbers columns(b.size()), out(b.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < m; ++c) columns[static_cast<size_t>(c * n + i)] = b[static_cast<size_t>(i * m + c)];
    const View<const double, 2> turned{columns.data(), {n, m}, {1, n}};
    const View<double, 2> turned_out{out.data(), {n, m}, {1, n}};
    kernel_apply(points, rule, turned, turned_out, {2, nullptr});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < m; ++c)
        CHECK(out[static_cast<size_t>(c * n + i)] == once[static_cast<size_t>(i * m + c)]);

    const KernelPoints floats(matrix_view<const float>(small.data(), n, d), rule, {});
    CHECK(applied(floats, rule, b, m) == applied(KernelPoints(matrix(wide, d), rule, {}), rule, b, m));

    Numbers rows(static_cast<size_t>(n * m)), alone(static_cast<size_t>(m));
    kernel_apply_rows(points, rule, matrix(x, d), matrix(b, m), matrix_view(rows.data(), n, m), {3, nullptr});
    for (int64_t i : {int64_t{0}, int64_t{17}, n / 2 - 266, n - 1}) {
      kernel_apply_rows(points, rule, matrix(x, d).rows(i, i + 1), matrix(b, m), matrix_view(alone.data(), 1, m), {});
      CHECK(std::equal(alone.begin(), alone.end(), rows.begin() + i * m));
    }
  }
}

TEST("kernel apply: duplicates, a constant column, a far shift, extreme units, and boxes that are left out") {
  const int64_t n = 500, d = 2, m = 3;
  const auto b = numbers(n * m, 6);
  Numbers same(static_cast<size_t>(n * d), 2.5), flat = numbers(n * d, 7), shifted = flat, lattice;
  for (int64_t i = 0; i < n; ++i) flat[static_cast<size_t>(2 * i)] = 4;
  for (auto& v : shifted) v = std::round(v * 1024) / 1024 + 1e8;
  Numbers near = shifted;
  for (auto& v : near) v -= 1e8;
  const KernelRule rule = kernel_rule("rbf", 0.5, 1);
  const auto of = [&](const Numbers& x, const KernelRule& r) {
    return applied(KernelPoints(matrix(x, d), r, {}), r, b, m);
  };
  check_near(of(same, rule), times(Numbers(static_cast<size_t>(n * n), 1.0), b, n, m), 1e-11, "duplicates");
  check_near(of(flat, rule), times(stored(flat, flat, d, rule), b, n, m), 1e-11, "a constant column");
  CHECK(of(shifted, rule) == of(near, rule));
  for (double size : {1e-150, 1e150}) {
    Numbers scaled = near;
    for (auto& v : scaled) v *= size;
    const KernelRule fit = kernel_rule("rbf", 0.5 * size, 1);
    check_near(of(scaled, fit), times(stored(near, near, d, rule), b, n, m), 1e-10, "units");
  }
  for (int64_t i = 0; i < n; ++i)
    lattice.push_back(static_cast<double>(i % 25)), lattice.push_back(static_cast<double>(i / 25));
  const KernelRule cut = kernel_rule("rbf", 1.0, 1, 5.0);  // many pairs at exactly 5
  check_near(of(lattice, cut), times(stored(lattice, lattice, d, cut), b, n, m), 1e-11, "points at the cutoff");
  CHECK(kernel_pairs(KernelPoints(matrix(lattice, d), cut, {}), cut, {}) < n * (n + 1) / 2);
}

TEST("kernel update: the sums follow the labels, the same bits for any threads") {
  const int64_t n = 300, d = 2, k = 5;
  const auto x = numbers(n * d, 8), w = numbers(n, 9), start = numbers(n * k, 10);
  std::vector<int64_t> rows;
  std::vector<int32_t> old, fresh;
  for (int64_t t = 0; t < 77; ++t) {
    rows.push_back(t * 37 % n);
    old.push_back(static_cast<int32_t>(t % (k + 1)) - 1);
    fresh.push_back(static_cast<int32_t>(t % 3) - 1);
  }
  for (const auto& rule : {kernel_rule("rbf", 0.5, 1), kernel_rule("rbf", 0.5, 1, 1.0), kernel_rule("linear", 0, 0)}) {
    const KernelPoints points(matrix(x, d), rule, {});
    const auto values = stored(x, x, d, rule);
    for (const bool weighted : {false, true}) {
      const auto run = [&](int threads) {
        auto g = start;
        const auto weights = weighted ? vector_view<const double>(w.data(), n) : View<const double, 1>{};
        kernel_update(points, rule, vector_view<const int64_t>(rows.data(), 77),
                      vector_view<const int32_t>(old.data(), 77), vector_view<const int32_t>(fresh.data(), 77), weights,
                      matrix_view(g.data(), n, k), {threads, nullptr});
        return g;
      };
      std::vector<long double> truth(start.begin(), start.end());
      for (size_t t = 0; t < rows.size(); ++t)
        for (int64_t i = 0; i < n; ++i) {
          const long double add = static_cast<long double>(values[static_cast<size_t>(i * n + rows[t])]) *
                                  (weighted ? w[static_cast<size_t>(rows[t])] : 1.0);
          if (fresh[t] >= 0) truth[static_cast<size_t>(i * k + fresh[t])] += add;
          if (old[t] >= 0) truth[static_cast<size_t>(i * k + old[t])] -= add;
        }
      check_near(run(1), truth, 1e-12, "update");
      for (int threads : {2, 8}) CHECK(run(threads) == run(1));
    }
  }
}

TEST(
    "pivoted Cholesky: K − F Fᵀ has the diagonal it reports, no larger than the greedy method's by much, any threads") {
  for (int64_t n : {20, knoll_test::quick() ? 200 : 600})
    for (int64_t d : {1, 2}) {
      const auto x = numbers(n * d, 11);
      for (const auto& rule : {kernel_rule("rbf", 0.6, 1), kernel_rule("linear", 0, 0)}) {
        const KernelPoints points(matrix(x, d), rule, {});
        const auto k = stored(x, x, d, rule);
        const auto f = pivoted_cholesky(points, rule, 2 * n, 1e-8, {});
        const int64_t r = f.rank;
        CHECK(r <= n && static_cast<int64_t>(f.pivots.size()) == r);
        if (rule.function == kLinear) CHECK(r == d);
        double largest = 0, off = 0;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < n; ++j) {
            long double residual = k[static_cast<size_t>(i * n + j)];
            for (int64_t c = 0; c < r; ++c)
              residual -= static_cast<long double>(f.factor[static_cast<size_t>(i * r + c)]) *
                          f.factor[static_cast<size_t>(j * r + c)];
            if (i == j) {
              CHECK(f.diagonal[static_cast<size_t>(i)] >= 0);
              off = std::max(off, static_cast<double>(std::fabs(residual - f.diagonal[static_cast<size_t>(i)])));
              largest = std::max(largest, f.diagonal[static_cast<size_t>(i)]);
            } else {
              CHECK(std::fabs(residual) <= 1e-8 + 1e-13);
            }
          }
        CHECK_MSG(off <= 2e-14 * static_cast<double>(std::max<int64_t>(n, 100)) / 100, "off by " << off);
        CHECK(largest <= 1e-8);
        auto sorted = f.pivots;
        std::sort(sorted.begin(), sorted.end());
        CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
        for (int threads : {2, 8}) {
          const auto g = pivoted_cholesky(points, rule, 2 * n, 1e-8, {threads, nullptr});
          CHECK(g.pivots == f.pivots && g.diagonal == f.diagonal);
          CHECK(std::equal(f.factor.get(), f.factor.get() + n * r, g.factor.get()));
        }
        // the greedy method needs about as many pivots
        auto residual = k;
        int64_t greedy = 0;
        for (; greedy < n; ++greedy) {
          int64_t p = 0;
          for (int64_t i = 1; i < n; ++i)
            if (residual[static_cast<size_t>(i * n + i)] > residual[static_cast<size_t>(p * n + p)]) p = i;
          const double pivot = residual[static_cast<size_t>(p * n + p)];
          if (pivot <= 1e-8) break;
          const Numbers row(residual.begin() + p * n, residual.begin() + (p + 1) * n);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
              residual[static_cast<size_t>(i * n + j)] -=
                  row[static_cast<size_t>(i)] * row[static_cast<size_t>(j)] / pivot;
        }
        CHECK_MSG(r <= greedy + greedy / 4 + 2, "rank " << r << ", greedy " << greedy);
      }
    }
}

TEST("pivoted Cholesky: duplicates need one pivot, rank 0 gives nothing, and a hopeless case is stopped") {
  const KernelRule rule = kernel_rule("rbf", 1, 1);
  const Numbers same(600, 1.0);
  const auto one = pivoted_cholesky(KernelPoints(matrix(same, 2), rule, {}), rule, 50, 1e-10, {});
  CHECK(one.rank == 1 && one.pivots[0] == 0);
  CHECK(*std::max_element(one.diagonal.begin(), one.diagonal.end()) < 1e-15);
  const auto x = numbers(4000 * 10, 12, 3.0);  // far apart: K is nearly the identity
  const KernelPoints points(matrix(x, 10), rule, {});
  CHECK(pivoted_cholesky(points, rule, 0, 1e-10, {}).rank == 0);
  const auto stopped = pivoted_cholesky(points, rule, 1000, 1e-6, {});
  CHECK(stopped.rank > 0 && stopped.rank < 200);
}

TEST("tall products: AᵀB and A·C against long double, the same bits for any threads and layout") {
  for (int64_t n : {1, 50, 9000})
    for (int64_t p : {1, 3, 12, 70, 300}) {
      if (knoll_test::quick() && n == 9000 && p == 300) continue;
      const int64_t m = p == 70 ? 13 : p == 3 ? 1 : 6;
      const auto a = numbers(n * p, 13), b = numbers(n * m, 14), c = numbers(p * m, 15);
      Numbers inner(static_cast<size_t>(p * m)), out(static_cast<size_t>(n * m)), at(a.size());
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < p; ++j) at[static_cast<size_t>(j * n + i)] = a[static_cast<size_t>(i * p + j)];
      tall_inner(matrix(a, p), matrix(b, m), matrix_view(inner.data(), p, m), {});
      tall_times(matrix(a, p), matrix(c, m), matrix_view(out.data(), n, m), {});
      if (n <= 50 || p <= 12) {
        check_near(inner, times(at, b, n, m), 1e-10, "inner");
        check_near(out, times(a, c, p, m), 1e-11, "times");
      }
      const View<const double, 2> turned{at.data(), {n, p}, {1, n}};
      for (int threads : {2, 3, 8}) {
        Numbers inner2(inner.size()), out2(out.size());
        tall_inner(turned, matrix(b, m), matrix_view(inner2.data(), p, m), {threads, nullptr});
        tall_times(turned, matrix(c, m), matrix_view(out2.data(), n, m), {threads, nullptr});
        CHECK(inner == inner2 && out == out2);
      }
    }
}

TEST("kernel products: a cancelled run stops") {
  const std::atomic<bool> cancel{true};
  const Run run{2, &cancel};
  const auto x = numbers(2000, 16), b = numbers(2000, 17);
  const KernelRule rule = kernel_rule("rbf", 1, 1);
  const KernelPoints points(matrix(x, 2), rule, {});
  Numbers out(1000);
  std::vector<int64_t> rows(100, 3);
  std::vector<int32_t> labels(100, 0);
  const auto none = vector_view<const int32_t>(labels.data(), 100);
  CHECK_THROWS(Cancelled, kernel_apply(points, rule, matrix(b, 2), matrix_view(out.data(), 1000, 1), run));
  CHECK_THROWS(Cancelled,
               kernel_apply_rows(points, rule, matrix(x, 2), matrix(b, 2), matrix_view(out.data(), 1000, 1), run));
  CHECK_THROWS(Cancelled, kernel_update(points, rule, vector_view<const int64_t>(rows.data(), 100), none, none, {},
                                        matrix_view(out.data(), 1000, 1), run));
  CHECK_THROWS(Cancelled, pivoted_cholesky(points, rule, 10, 0, run));
  CHECK_THROWS(Cancelled, kernel_pairs(points, rule, run));
  CHECK_THROWS(Cancelled, KernelPoints(matrix(x, 2), rule, run));
  Numbers tile(1000 * 1000);
  CHECK_THROWS(Cancelled, kernel_tile(matrix(x, 2), matrix(x, 2), rule, matrix_view(tile.data(), 1000, 1000), run));
  CHECK_THROWS(Cancelled, tall_inner(matrix(x, 2), matrix(b, 2), matrix_view(out.data(), 2, 2), run));
  CHECK_THROWS(Cancelled, tall_times(matrix(x, 2), matrix(b, 1).rows(0, 2), matrix_view(out.data(), 1000, 1), run));
}
