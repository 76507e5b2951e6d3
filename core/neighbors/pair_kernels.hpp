// The pair filter's entries of the table of kernels; bodies in neighbors/pair_filter-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kPairPanel = 32;  // points in a panel: one bit each
constexpr int kPanelRows = 33;  // rows of a tile: a panel's, and one more to fill the last group of three

struct PairKernels {
  // Which pairs of a tile are surely within the radius, and which possibly; neighbors/pair_filter-inl.hpp states how.
  void (*masks)(const float* rows, const float* row_high, const float* row_low, const float* columns,
                const float* column_high, const float* column_low, int64_t d, uint32_t* sure, uint32_t* possible,
                const float* ahead);
  // The same. Returns the largest p − (row_high + column_low), without pairs for which that is NaN.
  float (*masks_and_most)(const float* rows, const float* row_high, const float* row_low, const float* columns,
                          const float* column_high, const float* column_low, int64_t d, uint32_t* sure,
                          uint32_t* possible, const float* ahead);
  // out (kPanelRows, kPairPanel): the products p alone.
  void (*products)(const float* rows, const float* columns, int64_t d, float* out);
};

}  // namespace knoll
