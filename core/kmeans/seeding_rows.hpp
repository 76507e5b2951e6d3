// One interface to the rows of a dense and of a sparse matrix, for seeding and unique rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kmeans/seeding.hpp"

namespace knoll {

// f(j, value) for the entries of row i, columns rising; a sparse row leaves out zeros.
template <class T, class F>
void for_entries(const View<const T, 2>& x, int64_t i, F&& f) {
  for (int64_t j = 0; j < x.shape[1]; ++j) f(j, static_cast<double>(x(i, j)));
}
template <class T, class I, class F>
void for_entries(const SparseRows<T, I>& x, int64_t i, F&& f) {
  for (int64_t e = x.indptr(i); e < static_cast<int64_t>(x.indptr(i + 1)); ++e)
    f(static_cast<int64_t>(x.indices(e)), static_cast<double>(x.data(e)));
}

// f(value of a, value of b) for the columns of two rows, rising, until f returns false; columns where both are 0
// may be skipped.
template <class T, class F>
void for_columns(const View<const T, 2>& x, int64_t a, int64_t b, F&& f) {
  for (int64_t j = 0; j < x.shape[1]; ++j)
    if (!f(static_cast<double>(x(a, j)), static_cast<double>(x(b, j)))) return;
}
template <class T, class I, class F>
void for_columns(const SparseRows<T, I>& x, int64_t a, int64_t b, F&& f) {
  int64_t p = x.indptr(a), q = x.indptr(b);
  const int64_t p_end = x.indptr(a + 1), q_end = x.indptr(b + 1);
  while (p < p_end || q < q_end) {
    const int64_t column_a = p < p_end ? static_cast<int64_t>(x.indices(p)) : x.shape[1];
    const int64_t column_b = q < q_end ? static_cast<int64_t>(x.indices(q)) : x.shape[1];
    const double value_a = column_a <= column_b ? static_cast<double>(x.data(p++)) : 0.0;
    const double value_b = column_b <= column_a ? static_cast<double>(x.data(q++)) : 0.0;
    if (!f(value_a, value_b)) return;
  }
}

// Below, at or above zero as row a comes before, equals or comes after row b, column by column.
template <class Points>
int compare_rows(const Points& x, int64_t a, int64_t b) {
  int sign = 0;
  for_columns(x, a, b, [&](double u, double v) {
    sign = static_cast<int>(u > v) - static_cast<int>(u < v);
    return sign == 0;
  });
  return sign;
}

// The types of rows that templates over `Points` are compiled for.
using DenseF64 = View<const double, 2>;
using DenseF32 = View<const float, 2>;
using SparseF64 = SparseRows<double, int32_t>;
using SparseF32 = SparseRows<float, int32_t>;
using LongSparseF64 = SparseRows<double, int64_t>;
using LongSparseF32 = SparseRows<float, int64_t>;

}  // namespace knoll

#define KNOLL_FOR_POINTS(instantiate)                                                                                  \
  instantiate(DenseF64) instantiate(DenseF32) instantiate(SparseF64) instantiate(SparseF32) instantiate(LongSparseF64) \
      instantiate(LongSparseF32)
