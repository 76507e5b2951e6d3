// The part of the table of kernels that belongs to seeding: bodies in src/simd/seeding.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kAtOnce = 4;  // candidates in a group

struct SeedingKernels {
  void (*filter_tile)(const float* columns, int64_t d, const float* candidates, const float* bias, int64_t groups,
                      const float* threshold, uint32_t* hits);
};

}  // namespace knoll
