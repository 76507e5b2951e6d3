// Invariant: every element l_ij sees the subtractions l_ik·l_jk for k = 0 … j−1 one by one, upward. The innermost loops
// run over independent elements j, so they vectorise without changing the order within an element; panels of kPanel
// columns only group the k, since a panel's k come before the next panel's.
#include "mixture/cholesky.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/parallel.hpp"

namespace knoll {
namespace {

// Columns of L that are finished before the later columns are updated with all of them: an eighth of the traffic.
constexpr int64_t kPanel = 8;

// y[j] −= a·x[j] for j in [begin, end).
inline void subtract(double* __restrict y, double a, const double* __restrict x, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) y[j] -= a * x[j];
}

// The factorisation over rows that lie `step` apart. columns (kPanel, d): the panel's columns of L, as rows.
// Order of an element's subtractions: docs/numerics/mixture.md, M11. Within a panel a column is finished before the
// next one begins; the columns after the panel then see its kPanel columns in order, in one sweep.
int64_t factorise(double* a, int64_t d, int64_t step, double tolerance, Run run) {
  std::vector<double> diagonal(static_cast<size_t>(d)), columns(static_cast<size_t>(kPanel * d));
  // The variances before anything is subtracted: what a pivot is compared with.
  for (int64_t j = 0; j < d; ++j) diagonal[static_cast<size_t>(j)] = a[j * step + j];

  for (int64_t first = 0; first < d; first += kPanel) {
    run.poll();
    const int64_t last = std::min(first + kPanel, d);
    for (int64_t k = first; k < last; ++k) {
      double* column = columns.data() + (k - first) * d;
      const double pivot = a[k * step + k];
      // What a column keeps when those before it are known; below `tolerance` of its variance that is rounding.
      if (!(pivot > 0 && pivot > tolerance * diagonal[static_cast<size_t>(k)])) return k;  // false for NaN too
      const double root = std::sqrt(pivot);
      a[k * step + k] = root;
      for (int64_t i = k + 1; i < d; ++i) {
        column[i] = a[i * step + k] /= root;
        subtract(a + i * step, column[i], column, k + 1, std::min(i + 1, last));
      }
    }
    for (int64_t i = last; i < d; ++i) {
      double* __restrict row = a + i * step;
      if (last - first < kPanel) break;  // only the last panel is narrow, and nothing is left behind it
      double l[kPanel];
      for (int64_t k = 0; k < kPanel; ++k) l[k] = row[first + k];
      for (int64_t j = last; j <= i; ++j) {
        double remaining = row[j];
        for (int64_t k = 0; k < kPanel; ++k) remaining -= l[k] * columns[static_cast<size_t>(k * d + j)];
        row[j] = remaining;
      }
    }
  }
  // The upper triangle was a_ij: callers read L as a whole matrix.
  for (int64_t i = 0; i < d; ++i) std::fill(a + i * step + i + 1, a + i * step + d, 0.0);
  return -1;
}

// A matrix whose rows are contiguous: the view's own memory, or a copy.
struct Dense {
  std::vector<double> copy;
  const double* data;
  int64_t step;

  // A copy changes no bit: the same numbers in the same order of operations.
  explicit Dense(View<const double, 2> a) : data(a.data), step(a.stride[0]) {
    if (a.rows_contiguous()) return;
    const int64_t d = a.shape[1];
    copy.resize(static_cast<size_t>(a.shape[0] * d));
    for (int64_t i = 0; i < a.shape[0]; ++i)
      for (int64_t j = 0; j < d; ++j) copy[static_cast<size_t>(i * d + j)] = a(i, j);
    data = copy.data();
    step = d;
  }
  const double* row(int64_t i) const { return data + i * step; }
};

}  // namespace

int64_t cholesky(View<double, 2> a, double tolerance, Run run) {
  const int64_t d = a.shape[0];
  if (a.rows_contiguous()) return factorise(a.data, d, a.stride[0], tolerance, run);
  Dense dense(a);
  const int64_t failed = factorise(dense.copy.data(), d, d, tolerance, run);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j < d; ++j) a(i, j) = dense.copy[static_cast<size_t>(i * d + j)];
  return failed;
}

// Row i of L⁻¹: (e_i − Σ_{k<i} l_ik · row k) / l_ii, k upward: element by element the substitution of a unit vector.
void invert_lower(View<const double, 2> l, View<double, 2> out, Run run) {
  const int64_t d = l.shape[0];
  const Dense dense(l);
  std::vector<double> inverse(static_cast<size_t>(d * d), 0.0);  // (d, d)
  for (int64_t i = 0; i < d; ++i) {
    run.poll();
    double* row = inverse.data() + i * d;
    row[i] = 1.0;
    for (int64_t k = 0; k < i; ++k) subtract(row, dense.row(i)[k], inverse.data() + k * d, 0, k + 1);
    for (int64_t j = 0; j <= i; ++j) row[j] /= dense.row(i)[i];
    for (int64_t j = 0; j < d; ++j) out(i, j) = row[j];
  }
}

double log_det(View<const double, 2> l) {
  double sum = 0;
  for (int64_t j = 0; j < l.shape[0]; ++j) sum += std::log(l(j, j));
  return 2 * sum;
}

}  // namespace knoll
