// The tridiagonal form of a symmetric matrix and the factors of a sparse one, by what they must multiply to.
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "kernels/symmetric.hpp"

using namespace knoll;

namespace {

using Vector = std::vector<double>;

size_t at(int64_t i, int64_t j, int64_t n) { return static_cast<size_t>(i * n + j); }

Vector symmetric(int64_t n, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Vector a(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) a[at(i, j, n)] = a[at(j, i, n)] = normal(engine);
  return a;
}

// a ← H a H with H = I − τ v vᵀ.
void reflect_both_sides(Vector& a, int64_t n, const double* v, double tau) {
  for (int side = 0; side < 2; ++side)
    for (int64_t j = 0; j < n; ++j) {
      const auto entry = [&](int64_t i) -> double& { return a[side == 0 ? at(i, j, n) : at(j, i, n)]; };
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += v[i] * entry(i);
      for (int64_t i = 0; i < n; ++i) entry(i) -= tau * sum * v[i];
    }
}

// The chain of n rows, each linked to the next two.
struct Chain {
  std::vector<int64_t> begin{0};
  std::vector<int32_t> column;
  Vector value;

  Chain(int64_t n, double shift) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = std::max<int64_t>(0, i - 2); j <= std::min(n - 1, i + 2); ++j) {
        column.push_back(static_cast<int32_t>(j));
        value.push_back(i == j ? 4 + shift : -1.0);
      }
      begin.push_back(static_cast<int64_t>(column.size()));
    }
  }
  Links rows() const {
    const auto n = static_cast<int64_t>(begin.size()) - 1;
    return {value.data(), column.data(), begin.data(), n, n};
  }
};

}  // namespace

TEST("tridiagonal form: the reflections take the matrix to it") {
  for (const int64_t n : {1, 2, 3, 4, 5, 17, 64, 67}) {
    Vector a = symmetric(n, 5);
    if (n == 17)
      for (int64_t j = 2; j < n; ++j) a[at(0, j, n)] = a[at(j, 0, n)] = 0;  // the first row needs no reflection
    const auto size = static_cast<size_t>(n);
    Vector diagonal(size), off(size), tau(size), reflectors(size * size);
    tridiagonalise(matrix_view<const double>(a.data(), n, n), vector_view(diagonal.data(), n),
                   vector_view(off.data(), n - 1), vector_view(tau.data(), n - 1),
                   matrix_view(reflectors.data(), n - 1, n), {});
    for (int64_t k = 0; k + 1 < n; ++k)
      reflect_both_sides(a, n, reflectors.data() + k * n, tau[static_cast<size_t>(k)]);
    double worst = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const auto low = static_cast<size_t>(std::min(i, j));
        const double expected = i == j ? diagonal[low] : std::abs(i - j) == 1 ? off[low] : 0.0;
        worst = std::fmax(worst, std::fabs(a[at(i, j, n)] - expected));
      }
    CHECK_MSG(worst < 1e-12, "n = " << n << ", off by " << worst);
  }
}

TEST("sparse factors: they solve the system, have no fill in a chain, and refuse what is not positive definite") {
  for (const int64_t n : {1, 2, 50}) {
    const Chain chain(n, 0.5);
    const SparseCholesky factor(chain.rows(), {});
    CHECK(factor.n() == n && factor.entries() == std::max<int64_t>(0, 2 * n - 3));
    const int64_t w = 3;
    Vector x(static_cast<size_t>(n * w)), back(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
    const Vector b = x;
    factor.solve(matrix_view(x.data(), n, w), {});
    sparse_times(chain.rows(), matrix_view<const double>(x.data(), n, w), matrix_view(back.data(), n, w), {});
    for (size_t i = 0; i < b.size(); ++i) CHECK(std::fabs(back[i] - b[i]) < 1e-12);
  }
  bool refused = false;
  try {
    const Chain indefinite(10, -4.0);
    const SparseCholesky factor(indefinite.rows(), {});
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}
