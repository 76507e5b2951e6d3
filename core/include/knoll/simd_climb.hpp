// The part of the table of kernels that belongs to climb: bodies in src/simd/climb.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

struct ClimbKernels {};

}  // namespace knoll
