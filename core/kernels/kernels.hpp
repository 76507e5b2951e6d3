// The kernel functions' entries of the table of kernels; bodies in kernels/kernels-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

enum KernelFunction : int32_t { kRbf, kPowerRbf, kHeaviside, kPoly, kLinear };

// A kernel function κ, over coordinates in units of a power of two (kernel_rule of kernels/functions.hpp makes one).
struct KernelRule {
  KernelFunction function = kRbf;
  double unit = 1;    // coordinates are multiplied by it when they are packed
  double factor = 0;  // rbf: κ = 2^(factor·r²);  power rbf: κ = 2^(factor·(r²·inverse)^power)
  double inverse = 1, power = 1;
  double limit = 0;  // rbf: κ = 0 where r² is above it; heaviside: κ = 1 up to it, else 0
  double shift = 0;  // poly: κ = (xᵀy + shift)^degree
  int64_t degree = 1;
};

struct GramKernels {
  // out[t, l] = κ(x_l, y_t): the points x are in a column tile (d, kPoints), coordinate j of the point y_t at
  // y[t·row_step + j·step]. t < m. A pair has the same bits at every position of a tile.
  void (*values)(const KernelRule* rule, const double* columns, const double* y, int64_t row_step, int64_t step,
                 int64_t m, int64_t d, double* out);
  // out[l] = κ(x_l, x_l).
  void (*diagonal)(const KernelRule* rule, const double* columns, int64_t d, double* out);

  // out[i, c] += Σ_k v[i·row_step + k·step]·b[k, c] for i < rows, a multiple of 8, k < count ≥ 1, c < width: 4, 8
  // or 12. Each entry is one chain of fma over k, so its bits depend on nothing else.
  void (*add_product)(const double* v, int64_t row_step, int64_t step, int64_t rows, int64_t count, const double* b,
                      int64_t width, double* out);
  // The same for one or two columns, which lie apart (width, kPoints), and for both sides of a tile v (m, kPoints):
  //   lanes_out[c, l] += Σ_t v[t, l]·rows_in[c, t],    rows_out[c, t] += Σ_l v[t, l]·lanes_in[c, l].
  // rows_out may be null.
  void (*add_lanes)(const double* v, int64_t m, int64_t width, const double* rows_in, double* lanes_out,
                    const double* lanes_in, double* rows_out);

  // g[fresh[t], l] += w[t]·v[t, l],  g[old[t], l] −= w[t]·v[t, l], t in order; where the number is negative, nothing.
  void (*move_columns)(const double* v, int64_t m, const double* w, const int32_t* old, const int32_t* fresh,
                       double* g);

  // out[i, c] += Σ_k a[i·stride + k]·b[k, c] for i < rows, k < count, c < width: 4, 8 or 12; one chain of fma over
  // k. Rows of out lie `out_stride` apart.
  void (*add_rows)(const double* a, int64_t stride, int64_t rows, int64_t count, const double* b, int64_t width,
                   double* out, int64_t out_stride);

  // a[i, j] −= v_i·w[j] + w_i·v[j], then p[j] += u_i·a[i, j], for i < rows in order and j < columns, a multiple of 4.
  // v_rows, w_rows and u are the entries v_i, w_i and u_i.
  void (*reflect_rows)(double* a, int64_t stride, int64_t rows, int64_t columns, const double* v, const double* w,
                       const double* v_rows, const double* w_rows, const double* u, double* p);
};

}  // namespace knoll
