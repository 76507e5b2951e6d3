// The table of kernels that exist once per instruction set. Included by the kernels' own files, so C headers only.
#pragma once

#include <stdint.h>

#include "hierarchy/kernels.hpp"
#include "kernels/kernels.hpp"
#include "kmeans/kernels.hpp"
#include "kmeans/seeding_kernels.hpp"
#include "mixture/kernels.hpp"
#include "neighbors/ascent_kernels.hpp"
#include "neighbors/gower_kernels.hpp"
#include "neighbors/index_kernels.hpp"
#include "neighbors/pair_kernels.hpp"
#include "tree/kernels.hpp"

namespace knoll {

// 32 points: eight vectors of float64, one bit each in a mask of 32 bits, and two tiles of 32 × 32 doubles, 16 KB, fit
// the first cache level.
constexpr int kPoints = 32;  // points in a column tile

struct Kernels {
  const char* name;

  // y[i] = exp(x[i]), log(x[i]) for i < n, within 2 ulp over the whole range; x and y may be the same array.
  void (*exp)(const double* x, double* y, int64_t n);
  void (*log)(const double* x, double* y, int64_t n);

  // Whether x[0 … n−1] are all finite.
  bool (*finite_f64)(const double* x, int64_t n);
  bool (*finite_f32)(const float* x, int64_t n);

  // simd/tile-inl.hpp documents what each computes.
  void (*center_rows_f64)(const double* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                          const double* weights, double* out, double* weighted, int64_t height, double* sums);
  void (*center_rows_f32)(const float* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                          const double* weights, double* out, double* weighted, int64_t height, double* sums);
  void (*tall_product)(const double* a, int64_t p, const double* b, int64_t q, int64_t height, int64_t rows, double* c,
                       int64_t ldc, bool upper, const void* ahead, int64_t ahead_size);
  void (*lower_product)(const double* columns, int64_t d, const double* factor, double* out);
  void (*whitened_norms)(const double* columns, int64_t d, const double* factor, double* out);
  void (*distance_tile)(const double* columns, const double* y, int64_t stride, int64_t m, int64_t d, double* out);
  void (*distance_sums)(const double* columns, const double* y, int64_t stride, int64_t m, int64_t d, const double* w,
                        double* sums);

  // Plain functions behind pointers: one indirect call per tile, which has hundreds of operations at least.
  // The families' own.
  KMeansKernels kmeans;
  MixtureKernels mixture;
  IndexKernels index;
  AscentKernels ascent;
  PairKernels pairs;
  GowerKernels gower;
  SeedingKernels seeding;
  GramKernels gram;
  TreeKernels tree;
  WardKernels ward;
};

}  // namespace knoll
