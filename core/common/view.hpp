// A borrowed array of any layout: element (i, j) lies at data + i·stride[0] + j·stride[1] (in elements, any sign).
// Strides that are no multiple of the element size, and misaligned data, are refused by the bindings (checks.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

namespace knoll {

template <class T, int R>
struct View {
  T* data = nullptr;
  int64_t shape[R] = {};
  int64_t stride[R] = {};

  // A read-only view of the same memory.
  operator View<const T, R>() const
    requires(!std::is_const_v<T>)
  {
    View<const T, R> v;
    v.data = data;
    for (int r = 0; r < R; ++r) v.shape[r] = shape[r], v.stride[r] = stride[r];
    return v;
  }

  T& operator()(int64_t i) const
    requires(R == 1)
  {
    return data[i * stride[0]];
  }
  T& operator()(int64_t i, int64_t j) const
    requires(R == 2)
  {
    return data[i * stride[0] + j * stride[1]];
  }

  // Rows [begin, end).
  // A block keeps the strides, so it is a view of any layout again.
  View rows(int64_t begin, int64_t end) const {
    View v = *this;
    v.data += begin * stride[0];
    v.shape[0] = end - begin;
    return v;
  }

  bool rows_contiguous() const
    requires(R == 2)
  {
    return stride[1] == 1 || shape[1] <= 1;
  }
  bool empty() const { return data == nullptr; }
};

template <class T>
View<T, 1> vector_view(T* data, int64_t n) {
  return {data, {n}, {1}};
}
template <class T>
View<T, 2> matrix_view(T* data, int64_t rows, int64_t cols) {  // row-major
  return {data, {rows, cols}, {cols, 1}};
}

}  // namespace knoll
