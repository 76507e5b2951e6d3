// The terms of the cosine distance 1 − cos, for many pairs of the same rows.
#pragma once

#include <cstdint>

namespace knoll {

// A power of two that brings the largest coordinate near 1, and the length of the row in that unit.
struct CosineLength {
  double scale, length;
};
CosineLength cosine_length(const double* x, int64_t d);  // in (d)

// 1 − cos of two rows that are not equal, from Σ (x_j scale_x)(y_j scale_y), j in order, never fused.
double cosine_distance(double product, CosineLength x, CosineLength y);

}  // namespace knoll
