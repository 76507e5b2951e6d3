// Float32 that is certainly not below, or not above, a float64: for bounds, where being a little off is no harm.
#pragma once

#include <cmath>

namespace knoll {

inline float above(double v) { return static_cast<float>(v + std::fabs(v) * 0x1p-22); }
inline float below(double v) { return static_cast<float>(v - std::fabs(v) * 0x1p-22); }

}  // namespace knoll
