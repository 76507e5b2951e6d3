// The index's entries of the table of kernels; bodies in neighbors/index-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

// How the differences of two points' coordinates become one number, the *reduced distance* that orders like the
// distance. The kernels below exist once for each.
enum Reduction : int { kSumSquares, kSumScaledSquares, kSumAbsolute, kMaxAbsolute, kReductions };

struct IndexKernels {
  // a and b are column tiles (d × kPoints); b holds m points. Lane l is a point of a, t one of b. `scale` multiplies
  // the differences under kSumScaledSquares and is not read otherwise.
  //   tile   out[t·kPoints + l] = the reduced distance
  //   count  counts[l] += how many t have a reduced distance ≤ bound
  //   bits   bits[t] = the set of lanes l whose reduced distance is ≤ bound
  //   below  out as `tile`, and bits[t] = the set of lanes l whose reduced distance is < limits[l]
  void (*tile[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, double* out);
  void (*count[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                             int64_t* counts);
  void (*bits[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                            uint32_t* bits);
  void (*below[kReductions])(const double* a, const double* b, int64_t d, int64_t m, double scale, const double* limits,
                             double* out, uint32_t* bits);

  // One point q (d ≤ 5) against spans of points that lie in columns `stride` apart; spans[2 s] and spans[2 s + 1] are
  // the ends of span s. Up to three numbers past a span are read, not used.
  //   count_spans  how many have Σ(x−q)² ≤ bound; may stop counting once there are `stop`
  //   least_spans  the least Σ(x−q)², infinite if there is no point
  //   count_each   the same as count_spans for m points q in columns q_stride apart: counts[i] grows by how many are
  //                within the bound of point i; may stop once every count is `stop`. m is a multiple of 4.
  int64_t (*count_spans)(const double* columns, int64_t stride, int64_t d, const int32_t* spans, int64_t n_spans,
                         const double* q, double bound, int64_t stop);
  double (*least_spans)(const double* columns, int64_t stride, int64_t d, const int32_t* spans, int64_t n_spans,
                        const double* q);
  void (*count_each)(const double* q, int64_t q_stride, int64_t m, const double* columns, int64_t stride, int64_t d,
                     const int32_t* spans, int64_t n_spans, double bound, int64_t stop, int64_t* counts);
};

}  // namespace knoll
