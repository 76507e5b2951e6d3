// The part of the table of kernels that belongs to kmeans: bodies in src/simd/kmeans.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

struct KMeansKernels {};

}  // namespace knoll
