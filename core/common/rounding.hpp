// A float32 that is certainly ≥ (above) or ≤ (below) a float64, for bounds: v + |v|·2⁻²² before rounding exceeds v by
// more than float32 rounds, 2⁻²⁴ of its magnitude (docs/numerics/rounding.md, D4). NaN has the bound ±inf, and what
// exceeds the range of float32 stays on its side.
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
