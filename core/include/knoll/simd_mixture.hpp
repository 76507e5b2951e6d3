// The part of the table of kernels that belongs to mixture: bodies in src/simd/mixture.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

struct MixtureKernels {};

}  // namespace knoll
