// The factorisation by what defines it (L Lᵀ = A within the known bound), its order of operations bit for bit
// against the plain triple loop, and the inverse against substitution.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "check.hpp"
#include "mixture/cholesky.hpp"

using namespace knoll;

namespace {

constexpr double kRound = std::numeric_limits<double>::epsilon() / 2;

struct Matrix {
  int64_t rows, cols;
  std::vector<double> data;

  Matrix(int64_t n, int64_t m) : rows(n), cols(m), data(static_cast<size_t>(n * m)) {}
  double& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * cols + j)]; }
  double operator()(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * cols + j)]; }
  View<double, 2> view() { return matrix_view(data.data(), rows, cols); }
  bool operator==(const Matrix&) const = default;
};

Matrix random_matrix(std::mt19937_64& random, int64_t n, int64_t m) {
  std::normal_distribution<double> normal;
  Matrix a(n, m);
  for (double& v : a.data) v = normal(random);
  return a;
}

// B Bᵀ of a d × 2d matrix: positive definite, well conditioned.
Matrix random_spd(std::mt19937_64& random, int64_t d) {
  const Matrix b = random_matrix(random, d, 2 * d);
  Matrix a(d, d);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 2 * d; ++k) sum += b(i, k) * b(j, k);
      a(i, j) = a(j, i) = sum;
    }
  return a;
}

// The header's formula, word for word.
int64_t textbook(Matrix& a, double tolerance) {
  for (int64_t j = 0; j < a.rows; ++j) {
    const double original = a(j, j);
    for (int64_t k = 0; k < j; ++k) a(j, j) -= a(j, k) * a(j, k);
    if (!(a(j, j) > 0 && a(j, j) > tolerance * original)) return j;
    a(j, j) = std::sqrt(a(j, j));
    for (int64_t i = j + 1; i < a.rows; ++i) {
      for (int64_t k = 0; k < j; ++k) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= a(j, j);
      a(j, i) = 0;
    }
  }
  return -1;
}

// x ← L⁻¹ x by the textbook: x_i = (x_i − l_i0 x_0 − … − l_i,i−1 x_i−1) / l_ii, from left to right.
void solve_lower(const Matrix& l, std::vector<double>& x) {
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    double remaining = x[static_cast<size_t>(i)];
    for (int64_t k = 0; k < i; ++k) remaining -= l(i, k) * x[static_cast<size_t>(k)];
    x[static_cast<size_t>(i)] = remaining / l(i, i);
  }
}

Matrix factor(Matrix a) {
  CHECK(cholesky(a.view(), 0) == -1);
  return a;
}

}  // namespace

TEST("cholesky: L times its transpose is A, and every bit is the textbook's") {
  std::mt19937_64 random(1);
  for (int64_t d : {0, 1, 2, 3, 7, 8, 9, 16, 17, 40, 200}) {
    const Matrix a = random_spd(random, d);
    const Matrix l = factor(a);
    Matrix plain = a;
    CHECK(textbook(plain, 0) == -1);
    CHECK_MSG(l == plain, "d = " << d);
    // |A − L Lᵀ|_ij ≤ γ_{d+1} √(a_ii a_jj) about (Higham, Accuracy and Stability of Numerical Algorithms,
    // theorem 10.3); the product here adds as much again.
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double product = 0;
        for (int64_t k = 0; k <= j; ++k) product += l(i, k) * l(j, k);
        const double bound = 2 * static_cast<double>(d + 2) * kRound * std::sqrt(a(i, i) * a(j, j));
        CHECK_MSG(std::fabs(product - a(i, j)) <= bound, "d = " << d << ", i = " << i << ", j = " << j);
        if (i != j) CHECK(l(j, i) == 0);
      }
  }
}

TEST("cholesky: reads the lower triangle alone") {
  std::mt19937_64 random(2);
  Matrix a = random_spd(random, 19);
  const Matrix expected = factor(a);
  for (int64_t i = 0; i < 19; ++i)
    for (int64_t j = i + 1; j < 19; ++j) a(i, j) = std::numeric_limits<double>::quiet_NaN();
  CHECK(factor(a) == expected);
}

TEST("cholesky: any layout gives the same bits and leaves what lies between alone") {
  std::mt19937_64 random(3);
  const int64_t d = 21;
  const Matrix a = random_spd(random, d);
  const Matrix expected = factor(a);
  Matrix inverse(d, d);
  invert_lower(Matrix(expected).view(), inverse.view());
  using Strides = std::pair<int64_t, int64_t>;
  for (auto [step, gap] : {Strides{d + 3, 1}, {2 * d, 2}, {1, d}, {-d, 1}, {-3 * d, -3}}) {
    std::vector<double> memory(static_cast<size_t>(8 * d * d), -7.0), out(memory);
    const int64_t origin = 4 * d * d;
    const View<double, 2> view{memory.data() + origin, {d, d}, {step, gap}};
    const View<double, 2> out_view{out.data() + origin, {d, d}, {step, gap}};
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j) view(i, j) = a(i, j);
    CHECK(cholesky(view, 0) == -1);
    invert_lower(view, out_view);
    CHECK(log_det(view) == log_det(Matrix(expected).view()));
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j) CHECK(view(i, j) == expected(i, j) && out_view(i, j) == inverse(i, j));
    CHECK(std::count(memory.begin(), memory.end(), -7.0) == 7 * d * d);
  }
}

TEST("cholesky: a power of two on a row and column scales a row of L exactly") {
  std::mt19937_64 random(4);
  const int64_t d = 30;
  Matrix a = random_spd(random, d), expected = factor(a);
  for (int64_t i = 0; i < d; ++i) {
    const int power = static_cast<int>(random() % 400) - 200;
    for (int64_t j = 0; j < d; ++j) {
      a(i, j) = std::ldexp(a(i, j), power);
      a(j, i) = std::ldexp(a(j, i), power);  // the diagonal twice
      expected(i, j) = std::ldexp(expected(i, j), power);
    }
  }
  CHECK(factor(a) == expected);
}

TEST("cholesky: names the first pivot that fails") {
  std::mt19937_64 random(5);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (int64_t d : {1, 5, 20}) {
    const Matrix good = random_spd(random, d);
    for (int64_t bad = 0; bad < d; ++bad) {
      Matrix a = good;
      a(bad, bad) = -a(bad, bad);  // indefinite
      CHECK(cholesky(a.view(), 0) == bad);
      a = good;
      a(bad, bad) = 0;
      CHECK(cholesky(a.view(), 0) == bad);
      for (double value : {nan, inf}) {
        a = good;
        a(bad, bad) = value;
        CHECK(cholesky(a.view(), 0) == bad);
        a = good;
        a(bad, 0) = value;
        CHECK(cholesky(a.view(), 0) == bad);
      }
    }
    // Singular: a row that is the sum of two before it. Rounding leaves a pivot of some ulps, which the
    // tolerance sees.
    for (int64_t bad = 2; bad < d; ++bad) {
      Matrix a = good;
      for (int64_t j = 0; j < d; ++j) a(bad, j) = good(0, j) + good(1, j);
      for (int64_t i = 0; i < d; ++i) a(i, bad) = i == bad ? a(0, bad) + a(1, bad) : a(bad, i);
      a(bad, bad) = good(0, 0) + 2 * good(0, 1) + good(1, 1);
      CHECK(cholesky(a.view(), 1e-10) == bad);
    }
  }
  Matrix ones(3, 3);
  ones.data.assign(9, 1.0);
  CHECK(cholesky(Matrix(ones).view(), 0) == 1);
  // The tolerance is relative to the pivot's own a_jj, whatever the scale, and the bound itself fails.
  Matrix edge(2, 2);
  edge.data = {1e-200, 0.0, 0.0, 1e200};
  CHECK(cholesky(Matrix(edge).view(), 0.99) == -1);
  CHECK(cholesky(Matrix(edge).view(), 1.0) == 0);
  edge.data = {1.0, 0.5, 0.5, 1.0};  // the second pivot is 0.75
  CHECK(cholesky(Matrix(edge).view(), 0.75) == 1);
  CHECK(cholesky(Matrix(edge).view(), 0.7499) == -1);
}

TEST("cholesky: the inverse is the substitution of each unit vector, to the bit, and L times it is the identity") {
  std::mt19937_64 random(7);
  for (int64_t d : {0, 1, 2, 5, 9, 16, 33, 64, 200}) {
    Matrix l = factor(random_spd(random, d)), inverse(d, d), across(d, d);
    std::fill(inverse.data.begin(), inverse.data.end(), 5.0);
    invert_lower(l.view(), inverse.view());
    invert_lower(l.view(), View<double, 2>{across.data.data(), {d, d}, {1, d}});  // into a transposed array
    for (int64_t j = 0; j < d; ++j) {
      std::vector<double> x(static_cast<size_t>(d), 0.0);
      x[static_cast<size_t>(j)] = 1;
      solve_lower(l, x);
      for (int64_t i = 0; i < d; ++i) {
        CHECK(inverse(i, j) == x[static_cast<size_t>(i)] && across(j, i) == x[static_cast<size_t>(i)]);
        // A substitution's residual is at most γ_d |L||x| (Higham, theorem 8.5); the product here adds as much again.
        double product = 0, size = 0;
        for (int64_t k = 0; k <= i; ++k) {
          product += l(i, k) * x[static_cast<size_t>(k)];
          size += std::fabs(l(i, k) * x[static_cast<size_t>(k)]);
        }
        CHECK(std::fabs(product - (i == j ? 1.0 : 0.0)) <= 2 * static_cast<double>(d + 1) * kRound * size);
      }
    }
  }
}

TEST("cholesky: the logarithm of the determinant") {
  Matrix a(3, 3);
  a.data = {4, 2, 0, 2, 5, 2, 0, 2, 9};  // |A| = 4·(45 − 4) − 2·(18 − 0) = 128
  CHECK(std::fabs(log_det(factor(a).view()) - std::log(128.0)) < 1e-15 * 10);
  CHECK(log_det(View<const double, 2>{}) == 0);
  Matrix huge(2, 2);  // |A| itself would overflow
  huge.data = {1e300, 0, 0, 1e300};
  CHECK(std::fabs(log_det(factor(huge).view()) - 600 * std::log(10.0)) < 1e-12);
}
