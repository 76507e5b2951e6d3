// The part of the table of kernels that belongs to index: bodies in src/simd/index.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

// How the differences of two points' coordinates become one number, the *reduced distance* that orders like the
// distance. The kernels below exist once for each.
enum Reduction : int { kSumSquares, kSumScaledSquares, kSumAbsolute, kMaxAbsolute, kReductions };

struct IndexKernels {
  // a and b are column tiles (d × kPoints); b holds m points. Lane l is a point of a, t one of b. `scale` multiplies
  // the differences under kSumScaledSquares and is not looked at otherwise.
  //   tile   out[t·kPoints + l] = the reduced distance
  //   count  counts[l] += how many t have a reduced distance ≤ bound
  //   bits   bits[t] = the set of lanes l whose reduced distance is ≤ bound
  void (*tile[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, double* out);
  void (*count[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                             int64_t* counts);
  void (*bits[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                            uint32_t* bits);
};

}  // namespace knoll
