// The density tree's entries of the table of kernels; bodies in tree/search-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

#include "neighbors/index_kernels.hpp"

namespace knoll {

// a and b are column tiles (d × kPoints), infinite past their last points; box (2, d) holds the points of b. Lane l is
// a point of a, t one of b. A lane searches for points at a reduced distance below limits[l], for none where that is
// negative. `scale` is that of IndexKernels.
struct TreeKernels {
  // The lanes whose limit reaches the box.
  uint32_t (*intersects[kReductions])(const double* a, const double* box, int64_t d, double scale,
                                      const double* limits);

  // bits[l] = the set of points t below lane l's limit, out[l·kPoints + t] their reduced distances; the other entries
  // of `out` are not defined. Returns the set of lanes with a bit.
  uint32_t (*below[kReductions])(const double* a, const double* b, const double* box, int64_t d, double scale,
                                 const double* limits, double* out, uint32_t* bits);

  // Sorted lists of the k nearest points, upward, of equal ones those offered first: keys and positions
  // (kPoints, 4·⌈k/4⌉), infinite keys where there are fewer. Offers the points of b, which have the positions first,
  // first + 1, …; `self` is 1 where a is b: then lane l does not take point l, and the lists are empty. limits[l]
  // becomes the k-th key. Returns the lanes whose limit reached the box.
  uint32_t (*nearest[kReductions])(const double* a, const double* b, const double* box, int64_t d, double scale,
                                   int64_t first, uint32_t self, int64_t k, double* limits, double* keys,
                                   double* positions);
};

}  // namespace knoll
