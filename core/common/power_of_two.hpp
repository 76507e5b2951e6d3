// The powers of two that bring extreme numbers near one. Multiplying by a power of two changes no bit of a number while
// the product is normal, so what is computed of scaled coordinates is scaled by exactly that power.
//
// Sums (kmeans/cluster_sums.cpp, mixture/component_moments.cpp, neighbors/ball_digits.cpp) and the cells of a grid have
// units that are powers of two as well; they choose them by the bits that have to fit, not by magnitude.
#pragma once

#include <algorithm>
#include <cmath>

namespace knoll {

// Whether squares of numbers near x are well within the range, [2^−900, 2^900].
inline bool squares_well(double x) { return x >= 0x1p-450 && x <= 0x1p450; }

// 2^−e for a positive x in [2^e, 2^(e+1)), with e limited to ±1000 so that it is a normal number.
inline double to_one(double x) { return std::ldexp(1.0, -std::clamp(std::ilogb(x), -1000, 1000)); }

// x · 2^exponent by two factors, since the power itself may be beyond the range of a double.
class PowerOfTwo {
 public:
  explicit PowerOfTwo(int exponent)
      : first_(std::ldexp(1.0, exponent / 2)), second_(std::ldexp(1.0, exponent - exponent / 2)) {}
  double operator()(double x) const { return x * first_ * second_; }

 private:
  double first_, second_;
};

}  // namespace knoll
