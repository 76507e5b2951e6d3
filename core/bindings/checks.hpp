// The preconditions of the core, checked before it is called. The core trusts its views and indices, so a binding must
// refuse, with a ValueError that names the argument, whatever could become a wrong address or an endless loop. A
// binding reads: declare, check, release the GIL, call.
//
// Each check costs at most one pass over an index array. The contents of data arrays are checked only where the core
// orders or buckets rows by them (must_be_finite); a NaN elsewhere is a number like any other.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "common/finite.hpp"
#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll::python {

namespace nb = nanobind;

inline void need(bool fits, const char* what) {
  if (!fits) throw nb::value_error(what);
}

template <int R, class T, class... Args>
View<T, R> view(const nb::ndarray<T, Args...>& array) {
  View<T, R> v;
  v.data = array.data();
  for (int r = 0; r < R; ++r) {
    v.shape[r] = static_cast<int64_t>(array.shape(static_cast<size_t>(r)));
    v.stride[r] = array.stride(static_cast<size_t>(r));
  }
  return v;
}

// Truth values as bytes: NumPy lets any byte stand for "true" (uint8 viewed as bool), and reading 7 as a C++ bool is
// undefined.
template <int R, class... Args>
View<const uint8_t, R> byte_view(const nb::ndarray<const bool, Args...>& array) {
  const auto v = view<R>(array);
  View<const uint8_t, R> bytes;
  bytes.data = reinterpret_cast<const uint8_t*>(v.data);
  std::copy_n(v.shape, R, bytes.shape);
  std::copy_n(v.stride, R, bytes.stride);
  return bytes;
}

// The view of an array that may be absent: then it is empty.
template <int R, class Array>
auto view_or_empty(const std::optional<Array>& array) {
  return array ? view<R>(*array) : decltype(view<R>(*array)){};
}

// ---- memory
// ------------------------------------------------------------------------------------------------------------

// More entries than any memory holds; only an array with strides of 0 can claim so many. Below it no product of a
// length with a small factor overflows.
constexpr int64_t kMostEntries = int64_t{1} << 44;

// The bytes [begin, end) within which the entries of an array lie.
struct Extent {
  const char* name = nullptr;
  uintptr_t begin = 0, end = 0;
  bool written = false;

  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// The extent of an array, once it is known to be aligned and, if it is written to, to have no entry twice. Arrays of
// const elements are read.
template <class T, class... Args>
Extent array(const char* name, const nb::ndarray<T, Args...>& a) {
  Extent extent{name, 0, 0, !std::is_const_v<T>};
  double entries = 1;
  int64_t low = 0, high = 0;  // offsets of the first and the last entry
  size_t inner = 0;           // the axis of the smaller stride
  for (size_t r = 0; r < a.ndim(); ++r) {
    const auto length = static_cast<int64_t>(a.shape(r));
    if (length == 0) return extent;
    entries *= static_cast<double>(length);
    (a.stride(r) < 0 ? low : high) += (length - 1) * a.stride(r);
    if (length > 1 && (a.shape(inner) == 1 || std::abs(a.stride(r)) < std::abs(a.stride(inner)))) inner = r;
  }
  const auto data = reinterpret_cast<uintptr_t>(a.data());
  if (entries > static_cast<double>(kMostEntries)) throw nb::value_error((std::string(name) + " is too large").c_str());
  if (data % alignof(T) != 0) throw nb::value_error((std::string(name) + " must be aligned").c_str());
  if (extent.written) {
    // Rows, or columns, that lie one behind the other: a step of an axis is longer than all of the axis within it.
    bool apart = true;
    int64_t within = 0;
    for (size_t r = 0; r < a.ndim(); ++r) {
      const size_t axis = r == 0 ? inner : r == inner ? 0 : r;
      if (a.shape(axis) > 1) apart = apart && std::abs(a.stride(axis)) > within;
      within += (static_cast<int64_t>(a.shape(axis)) - 1) * std::abs(a.stride(axis));
    }
    if (!apart) throw nb::value_error((std::string(name) + " must not overlap itself").c_str());
  }
  extent.begin = data + static_cast<uintptr_t>(low) * sizeof(T);
  extent.end = data + static_cast<uintptr_t>(high + 1) * sizeof(T);
  return extent;
}

template <class Array>
Extent array(const char* name, const std::optional<Array>& a) {
  return a ? array(name, *a) : Extent{};
}

// All arrays of a call: none that is written to shares memory with another, else the core would read as an index what
// it has just written as something else.
inline void check_memory(std::initializer_list<Extent> rows, std::initializer_list<Extent> others = {}) {
  std::vector<Extent> arrays(rows);
  arrays.insert(arrays.end(), others);
  for (auto a = arrays.begin(); a != arrays.end(); ++a)
    for (auto b = arrays.begin(); b != a; ++b)
      if ((a->written || b->written) && a->overlaps(*b))
        throw nb::value_error((std::string(b->name) + " and " + a->name + " must not overlap").c_str());
}

// ---- numbers
// -----------------------------------------------------------------------------------------------------------

inline void need_radius(double radius, const char* name) {  // NaN is none either
  if (!(radius >= 0)) throw nb::value_error((std::string(name) + " must be >= 0").c_str());
}
inline void need_number(double value, const char* name) {
  if (std::isnan(value)) throw nb::value_error((std::string(name) + " must not be NaN").c_str());
}

// ---- contents
// ----------------------------------------------------------------------------------------------------------

// Whether `fits` holds for every entry. Arrays are mostly contiguous, and the compiler vectorises that loop alone.
template <class T, class Fits>
bool all_of(const View<const T, 1>& values, Fits&& fits) {
  bool all = true;
  if (values.stride[0] == 1)
    for (int64_t i = 0; i < values.shape[0]; ++i) all &= fits(values.data[i]);
  else
    for (int64_t i = 0; i < values.shape[0]; ++i) all &= fits(values(i));
  return all;
}

// Every entry lies in [first, end).
template <class I>
void need_range(const View<const I, 1>& values, int64_t first, int64_t end, const char* what) {
  const auto low = static_cast<uint64_t>(first), count = end > first ? static_cast<uint64_t>(end) - low : 0;
  need(all_of(values, [=](I v) { return static_cast<uint64_t>(static_cast<int64_t>(v)) - low < count; }), what);
}

// Weights by which rows are drawn.
inline void need_positive(const View<const double, 1>& weights, const char* what) {
  need(all_of(weights, [](double w) { return w > 0 && w < HUGE_VAL; }), what);
}

// Rows of a sparse matrix: indptr rises from 0 to at most the number of entries, and every index is a column. Canonical
// rows have rising columns.
template <class I>
void need_csr(const View<const I, 1>& indices, const View<const I, 1>& indptr, int64_t entries, int64_t columns,
              bool canonical) {
  need(indptr.shape[0] >= 1, "indptr must have one entry more than there are rows");
  need(indices.shape[0] == entries, "data and indices must have one length");
  need(columns >= 0 && columns <= kMostEntries, "n_columns must be >= 0, and no more than memory holds");
  const int64_t n = indptr.shape[0] - 1;
  bool fits = indptr(0) == 0 && static_cast<int64_t>(indptr(n)) <= entries;
  for (int64_t i = 0; i < n; ++i) fits &= indptr(i) <= indptr(i + 1);
  need(fits, "indptr must start at 0, never fall, and end within data");
  const auto used = static_cast<int64_t>(indptr(n));
  need_range(View<const I, 1>{indices.data, {used}, {indices.stride[0]}}, 0, columns,
             "indices must lie in [0, n_columns)");
  if (!canonical) return;
  for (int64_t i = 0; i < n; ++i)
    for (auto e = static_cast<int64_t>(indptr(i)) + 1; e < static_cast<int64_t>(indptr(i + 1)); ++e)
      fits &= indices(e - 1) < indices(e);
  need(fits, "indices must rise within each row");
}

// For the core to call first, without the GIL: NaN is unordered, and an infinity has no cell of a grid.
template <class T>
void must_be_finite(const View<const T, 2>& x, const char* name, Run run) {
  if (!all_finite(x, run)) throw std::invalid_argument(std::string(name) + " must be finite");
}
template <class T>
void must_be_finite(const View<const T, 1>& x, const char* name, Run run) {
  if (!x.empty()) must_be_finite(View<const T, 2>{x.data, {x.shape[0], 1}, {x.stride[0], 1}}, name, run);
}

}  // namespace knoll::python
