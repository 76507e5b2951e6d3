// The table of kernels that exist once per instruction set. Included by the kernels' own files, so C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

struct Kernels {
  const char* name;

  // y[i] = exp(x[i]), log(x[i]) for i < n, within 2 ulp over the whole range; x and y may be the same array.
  void (*exp)(const double* x, double* y, int64_t n);
  void (*log)(const double* x, double* y, int64_t n);
};

}  // namespace knoll
