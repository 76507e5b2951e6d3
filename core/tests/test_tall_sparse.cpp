// Products with sparse rows and Chebyshev's polynomials of them, beside long double on the full matrix.
#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "kernels/tall_sparse.hpp"

using namespace knoll;

namespace {

struct Sparse {
  std::vector<int64_t> begin{0};
  std::vector<int32_t> column;
  std::vector<double> value;

  Links rows() const {
    const auto n = static_cast<int64_t>(begin.size()) - 1;
    return {value.data(), column.data(), begin.data(), n, n};
  }
};

// A ring of n rows with links to themselves and to `reach` rows on either side, rows summing to one; row 0 is empty
// where `hole` is set.
Sparse ring(int64_t n, int64_t reach, bool hole) {
  Sparse m;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t s = -reach; s <= reach && !(hole && i == 0); ++s) {
      m.column.push_back(static_cast<int32_t>((i + s + n) % n));
      m.value.push_back(1.0 / static_cast<double>(2 * reach + 1));
    }
    m.begin.push_back(static_cast<int64_t>(m.column.size()));
  }
  return m;
}

std::vector<double> numbers(int64_t n, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n));
  for (auto& v : x) v = normal(engine);
  return x;
}

using Long = std::vector<long double>;

Long times(const Links& m, const Long& b, int64_t w) {
  Long out(static_cast<size_t>(m.rows * w), 0);
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t e = m.begin(i); e < m.end(i); ++e)
      for (int64_t j = 0; j < w; ++j)
        out[static_cast<size_t>(i * w + j)] +=
            static_cast<long double>(m.data[e]) * b[static_cast<size_t>(m.indices[e] * w + j)];
  return out;
}

double distance(const std::vector<double>& a, const Long& b) {
  long double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::fmax(worst, std::fabs(a[i] - b[i]));
  return static_cast<double>(worst);
}

}  // namespace

TEST("sparse rows: products against long double, the same bits for any threads and layout") {
  for (const int64_t n : {1, 7, 1300})
    for (const int64_t w : {1, 4, 5, 9, 12, 13, 30}) {
      const Sparse m = ring(n, n > 5 ? 3 : 0, n > 1);
      const auto b = numbers(n * w, 3);
      std::vector<double> out(b.size()), turned(b.size());
      sparse_times(m.rows(), matrix_view(b.data(), n, w), matrix_view(out.data(), n, w), {});
      CHECK(distance(out, times(m.rows(), Long(b.begin(), b.end()), w)) < 1e-14);
      for (int threads : {2, 5}) {
        const View<double, 2> columns{turned.data(), {n, w}, {1, n}};
        sparse_times(m.rows(), matrix_view(b.data(), n, w), columns, {threads, nullptr});
        bool same = true;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < w; ++j) same = same && columns(i, j) == out[static_cast<size_t>(i * w + j)];
        CHECK(same);
      }
    }
}

TEST("sparse rows: Chebyshev's polynomials against their recurrence in long double; high degrees do not overflow") {
  const int64_t n = 600, w = 6;
  const Sparse m = ring(n, 2, false);
  const auto b = numbers(n * w, 4);
  for (const double cut : {-0.9, 0.0, 0.95})
    for (const int64_t degree : {1, 2, 9, 150}) {
      const long double middle = (cut - 1.0L) / 2, half = (cut + 1.0L) / 2, one = (1 - middle) / half;
      Long before(b.size(), 0), now(b.begin(), b.end());
      long double number_before = 0, number = 1;
      for (int64_t power = 0; power < degree; ++power) {
        const long double twice = power == 0 ? 1 : 2;
        Long next = times(m.rows(), now, w);
        for (size_t i = 0; i < next.size(); ++i) next[i] = twice * (next[i] - middle * now[i]) / half - before[i];
        const long double after = twice * one * number - number_before;
        before = now, now = next, number_before = number, number = after;
      }
      for (auto& v : now) v /= number;
      std::vector<double> out(b.size()), again(b.size());
      sparse_chebyshev(m.rows(), cut, degree, matrix_view(b.data(), n, w), matrix_view(out.data(), n, w), {});
      sparse_chebyshev(m.rows(), cut, degree, matrix_view(b.data(), n, w), matrix_view(again.data(), n, w),
                       {3, nullptr});
      CHECK_MSG(distance(out, now) < 1e-12, "cut " << cut << ", degree " << degree << ": " << distance(out, now));
      CHECK(out == again);
    }
  const std::vector<double> ones(static_cast<size_t>(n), 1.0);  // the eigenvector of the eigenvalue one
  std::vector<double> kept(ones.size());
  for (const int64_t degree : {3, 2000}) {
    sparse_chebyshev(m.rows(), 0.0, degree, matrix_view(ones.data(), n, 1), matrix_view(kept.data(), n, 1), {});
    CHECK(distance(kept, Long(ones.begin(), ones.end())) < 1e-10);
  }
}

TEST("sparse rows: a cancelled run stops") {
  const std::atomic<bool> cancel{true};
  const Run run{2, &cancel};
  const Sparse m = ring(2000, 2, false);
  const auto b = numbers(2000, 5);
  std::vector<double> out(b.size());
  CHECK_THROWS(Cancelled,
               sparse_times(m.rows(), matrix_view(b.data(), 2000, 1), matrix_view(out.data(), 2000, 1), run));
  CHECK_THROWS(Cancelled, sparse_chebyshev(m.rows(), 0.5, 9, matrix_view(b.data(), 2000, 1),
                                           matrix_view(out.data(), 2000, 1), run));
}
