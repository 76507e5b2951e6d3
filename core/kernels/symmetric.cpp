#include "kernels/symmetric.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "simd/kernels.hpp"

namespace knoll {
namespace {

constexpr int64_t kWidth = 4;  // numbers of a lane: columns are swept in whole lanes

// The reflection that takes x[0 … m−1] to (β, 0, …): x becomes v with v_0 = 1, τ is returned. Where x is on the axis
// already, H = I is written as v = 0, τ = 1.
double reflect(double* x, int64_t m, double& beta) {
  double tail = 0;
  for (int64_t j = 1; j < m; ++j) tail += x[j] * x[j];
  const double alpha = x[0];
  if (tail == 0) {
    beta = alpha;
    std::fill_n(x, m, 0.0);
    return 1.0;
  }
  beta = -std::copysign(std::sqrt(alpha * alpha + tail), alpha);  // the sign that does not cancel in α − β
  for (int64_t j = 1; j < m; ++j) x[j] /= alpha - beta;
  x[0] = 1.0;
  return (beta - alpha) / beta;
}

}  // namespace

// Step k: row k gets the rank-two update A ← A − v wᵀ − w vᵀ of step k − 1, and yields the next v. The sweep over the
// rows below applies the same update and at once sums p = A v, so that the matrix is read once per step. Then
// w = τp − ½τ²(pᵀv) v makes H A H = A − v wᵀ − w vᵀ. Columns up to k of the rows below k are never read again.
void tridiagonalise(View<const double, 2> a, View<double, 1> diagonal, View<double, 1> off_diagonal,
                    View<double, 1> tau, View<double, 2> reflectors, Run run) {
  const int64_t n = a.shape[0], step = (n + kWidth - 1) / kWidth * kWidth;
  std::vector<double> work(static_cast<size_t>(n * step), 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) work[static_cast<size_t>(i * step + j)] = a(i, j);
  const auto zeros = std::vector<double>(static_cast<size_t>(step), 0.0);
  auto v = zeros, w = zeros, next = zeros, p = zeros;
  const auto at = [](int64_t j) { return static_cast<size_t>(j); };
  for (int64_t k = 0; k < n; ++k) {
    run.poll();
    double* const row = work.data() + k * step;
    for (int64_t j = k; j < n; ++j) row[j] -= v[at(k)] * w[at(j)] + w[at(k)] * v[at(j)];
    diagonal(k) = row[k];
    if (k == n - 1) return;
    const double factor = reflect(row + k + 1, n - k - 1, off_diagonal(k));
    tau(k) = factor;
    std::copy_n(zeros.data(), k + 1, next.data());
    std::copy_n(row + k + 1, n - k - 1, next.data() + k + 1);
    for (int64_t j = 0; j < n; ++j) reflectors(k, j) = next[at(j)];
    const int64_t first = (k + 1) / kWidth * kWidth;
    std::copy_n(zeros.data(), step, p.data());
    kernels().gram.reflect_rows(work.data() + (k + 1) * step + first, step, n - k - 1, step - first, v.data() + first,
                                w.data() + first, v.data() + k + 1, w.data() + k + 1, next.data() + k + 1,
                                p.data() + first);
    double along = 0;
    for (int64_t j = k + 1; j < n; ++j) along += p[at(j)] * next[at(j)];
    for (int64_t j = k + 1; j < n; ++j) w[at(j)] = factor * p[at(j)] - 0.5 * factor * factor * along * next[at(j)];
    std::copy_n(zeros.data(), k + 1, w.data());
    v.swap(next);
  }
}

// ---- sparse ---------------------------------------------------------------------------------------------------------

// Row k of L has entries where the elimination tree leads from the columns of row k of M up to k (T. A. Davis,
// Algorithm 849: a concise sparse Cholesky factorization package, 2005).
void SparseCholesky::count_entries(const Links& m, std::vector<int32_t>& parent, Run run) {
  const int64_t n = m.rows;
  std::vector<int32_t> seen(static_cast<size_t>(n), -1);
  begin_.assign(static_cast<size_t>(n + 1), 0);
  for (int64_t k = 0; k < n; ++k) {
    if (k % 4096 == 0) run.poll();
    seen[static_cast<size_t>(k)] = static_cast<int32_t>(k);
    for (int64_t e = m.begin(k); e < m.end(k); ++e) {
      for (auto i = static_cast<size_t>(m.indices[e]); i < static_cast<size_t>(k) && seen[i] != k;
           i = static_cast<size_t>(parent[i])) {
        if (parent[i] < 0) parent[i] = static_cast<int32_t>(k);
        ++begin_[i + 1];
        seen[i] = static_cast<int32_t>(k);
      }
    }
  }
  for (int64_t k = 0; k < n; ++k) begin_[static_cast<size_t>(k + 1)] += begin_[static_cast<size_t>(k)];
}

// Row k of L solves L_{<k} D y = M_{<k,k}; its pattern is visited from the leaves of the tree upward, so that an entry
// is complete when it is used.
SparseCholesky::SparseCholesky(const Links& m, Run run) {
  const auto n = static_cast<size_t>(m.rows);
  std::vector<int32_t> parent(n, -1), seen(n, -1), path(n), pattern(n);
  count_entries(m, parent, run);
  row_.resize(static_cast<size_t>(begin_[n]));
  value_.resize(row_.size());
  pivot_.resize(n);
  std::vector<int64_t> end(begin_.begin(), begin_.end() - 1);  // of what is known of each column
  std::vector<double> y(n, 0.0);
  for (size_t k = 0; k < n; ++k) {
    if (k % 1024 == 0) run.poll();
    const auto number = static_cast<int32_t>(k);
    size_t top = n;
    seen[k] = number;
    for (int64_t e = m.begin(static_cast<int64_t>(k)); e < m.end(static_cast<int64_t>(k)); ++e) {
      auto i = static_cast<size_t>(m.indices[e]);
      if (i > k) continue;
      y[i] += m.data[e];
      size_t length = 0;
      for (; seen[i] != number; i = static_cast<size_t>(parent[i])) {
        path[length++] = static_cast<int32_t>(i);
        seen[i] = number;
      }
      while (length > 0) pattern[--top] = path[--length];
    }
    double pivot = y[k];
    y[k] = 0;
    for (; top < n; ++top) {
      const auto i = static_cast<size_t>(pattern[top]);
      const double yi = y[i], entry = yi / pivot_[i];
      y[i] = 0;
      for (int64_t e = begin_[i]; e < end[i]; ++e)
        y[static_cast<size_t>(row_[static_cast<size_t>(e)])] -= value_[static_cast<size_t>(e)] * yi;
      pivot -= entry * yi;
      row_[static_cast<size_t>(end[i])] = number;
      value_[static_cast<size_t>(end[i]++)] = entry;
    }
    if (!(pivot > 0)) throw std::invalid_argument("the matrix is not positive definite");
    pivot_[k] = pivot;
  }
}

void SparseCholesky::solve(View<double, 2> x, Run run) const {
  const int64_t columns = x.shape[1];
  std::vector<double> sums(static_cast<size_t>(columns));
  for (int64_t k = 0; k < n(); ++k) {
    if (k % 1024 == 0) run.poll();
    const double* const from = x.data + k * x.stride[0];
    for (int64_t e = begin_[static_cast<size_t>(k)]; e < begin_[static_cast<size_t>(k + 1)]; ++e) {
      const double entry = value_[static_cast<size_t>(e)];
      double* const to = x.data + row_[static_cast<size_t>(e)] * x.stride[0];
      for (int64_t c = 0; c < columns; ++c) to[c] -= entry * from[c];
    }
  }
  for (int64_t k = n() - 1; k >= 0; --k) {
    if (k % 1024 == 0) run.poll();
    double* const to = x.data + k * x.stride[0];
    for (int64_t c = 0; c < columns; ++c) sums[static_cast<size_t>(c)] = to[c] / pivot_[static_cast<size_t>(k)];
    for (int64_t e = begin_[static_cast<size_t>(k)]; e < begin_[static_cast<size_t>(k + 1)]; ++e) {
      const double entry = value_[static_cast<size_t>(e)];
      const double* const from = x.data + row_[static_cast<size_t>(e)] * x.stride[0];
      for (int64_t c = 0; c < columns; ++c) sums[static_cast<size_t>(c)] -= entry * from[c];
    }
    std::copy_n(sums.data(), columns, to);
  }
}

}  // namespace knoll
