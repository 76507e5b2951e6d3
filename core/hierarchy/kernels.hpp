// Ward's entries of the table of kernels; bodies in hierarchy/ward-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

// Children of a node of the tree over the means: four vectors of float64.
constexpr int kBoxes = 16;

struct WardKernels {
  // Squared distances of a point (d) to lanes, and the set of those lanes whose square is at most
  //     limit·(own + inverse[l]) + the smallest normal number.
  //   boxes  to the boxes (d, 2, kBoxes), low and high; a lane with low = ∞ and high = −∞ is infinitely far
  //   means  to the points of a column tile (d × kPoints)
  uint32_t (*boxes)(const double* boxes, const double* inverse, int64_t d, const double* point, double own,
                    double limit, double* squares);
  uint32_t (*means)(const double* tile, const double* inverse, int64_t d, const double* point, double own, double limit,
                    double* squares);
};

}  // namespace knoll
