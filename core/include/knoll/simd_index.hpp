// The part of the table of kernels that belongs to index: bodies in src/simd/index.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

struct IndexKernels {};

}  // namespace knoll
