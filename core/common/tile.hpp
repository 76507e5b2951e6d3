// Packing points into tiles, and loops over tiles of pairs. The layouts are those of simd/tile-inl.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/parallel.hpp"
#include "common/view.hpp"
#include "simd/kernels.hpp"

namespace knoll {

// Every sum over rows is cut at multiples of it, so blocks cut there give the bits of the whole
// (docs/numerics/rounding.md, D6).
constexpr int64_t kGrain = 4096;  // rows of the global grid: sums are taken over its cells, then merged order-free

inline int64_t padded(int64_t d) { return (d + 3) / 4 * 4; }

// How many rows of width ld make a tile of at most 16 KB, half of a first cache level. Depends on the width alone.
inline int64_t tile_rows(int64_t ld) { return std::clamp<int64_t>(2048 / ld, 16, 64); }

// out[r, j] = x(r, j) for any layout: rows that the kernels can read.
template <class T>
void pack_rows(View<const T, 2> x,  // in  (rows, d)
               double* out) {       // out (rows, d)
  const int64_t rows = x.shape[0], d = x.shape[1];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < d; ++j) out[r * d + j] = static_cast<double>(x(r, j));
}

// Centres and weighs rows of any layout into strips: as center_rows of simd/tile-inl.hpp does. `scratch` is for rows
// that are not contiguous.
template <class T>
void center_rows(View<const T, 2> x,     // in  (rows, d)
                 const double* center,   // in  (ld)
                 const double* weights,  // in  (rows) or null
                 double* out,            // out (ld/4, height, 4)
                 double* weighted,       // out (ld/4, height, 4) where there are weights
                 int64_t height,         // ≥ rows
                 double* sums,           // in, out (ld)
                 double* scratch) {      // (rows, d)
  const int64_t rows = x.shape[0], d = x.shape[1];
  if (!x.rows_contiguous()) {
    pack_rows(x, scratch);
    kernels().center_rows_f64(scratch, d, rows, d, center, weights, out, weighted, height, sums);
  } else if constexpr (std::is_same_v<T, double>) {
    kernels().center_rows_f64(x.data, x.stride[0], rows, d, center, weights, out, weighted, height, sums);
  } else {
    kernels().center_rows_f32(x.data, x.stride[0], rows, d, center, weights, out, weighted, height, sums);
  }
}

// out[j, l] = x(l, j) − center[j]; lanes past the last point repeat zeros. center may be null.
template <class T>
void pack_columns(View<const T, 2> x,    // in  (≤ kPoints, d)
                  const double* center,  // in  (d) or null
                  double* out) {         // out (d, kPoints)
  const int64_t rows = x.shape[0], d = x.shape[1];
  for (int64_t j = 0; j < d; ++j) {
    const double c = center == nullptr ? 0.0 : center[j];
    for (int64_t l = 0; l < kPoints; ++l) out[j * kPoints + l] = l < rows ? static_cast<double>(x(l, j)) - c : 0.0;
  }
}

}  // namespace knoll
