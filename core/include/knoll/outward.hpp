// Float32 that is certainly not below, or not above, a float64: for bounds, where being a little off is no harm. What
// is no number is bounded by nothing, and what leaves the range of float32 stays on its own side.
#pragma once

#include <cmath>
#include <limits>

namespace knoll {

inline float above(double v) {
  const double size = std::fabs(v);
  if (size >= 0x1p-126 && size < 0x1p127) [[likely]]
    return static_cast<float>(v + size * 0x1p-22);
  if (size < 0x1p-126) return v > 0 ? 0x1p-126f : 0.0f;  // subnormal numbers have fewer digits
  return v < 0 ? -0x1p127f : std::numeric_limits<float>::infinity();
}
inline float below(double v) { return -above(-v); }

}  // namespace knoll
