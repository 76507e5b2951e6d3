// The seeding entries of the kernel table: bodies in kmeans/seeding-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kGainLanes = 8;  // partial sums of a candidate's gain

struct SeedingKernels {
  void (*weigh_tiles)(const float* columns, int64_t d, int64_t tiles, const float* candidates, const float* bias,
                      int64_t count, const float* threshold, const float* weights, int64_t weights_step,
                      const double* error, uint32_t* hits, float* gains, double* errors);
};

}  // namespace knoll
