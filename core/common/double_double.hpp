// A number as the unevaluated sum of two doubles, |low| ≤ ulp(high)/2: about 106 bits where one double has 53.
//
// The sums and products below are Knuth's and Dekker's (docs/theory/references.md). With u = 2^−53, the error of
// each is stated beside it (docs/numerics/rounding.md, D5); products below 2^−960 lose more.
#pragma once

#include <cmath>

namespace knoll {

struct Twofold {
  double high = 0, low = 0;
};

// a + b, exactly.
inline Twofold two_sum(double a, double b) {
  const double sum = a + b, b_high = sum - a;
  return {sum, (a - (sum - b_high)) + (b - b_high)};
}

// A number as the sum of two of 26 bits, whose products are exact; up to 2^996 in magnitude.
struct Split {
  explicit Split(double x) {
    const double shifted = (0x1p27 + 1) * x;
    head = shifted - (shifted - x);
    tail = x - head;
  }
  double head, tail;
};

// a·b, exactly. Without fma, which is a library call on the baseline instruction set: so that loops vectorise.
inline Twofold two_product(double a, Split a_split, double b, Split b_split) {
  const double product = a * b;
  const double left =
      ((a_split.head * b_split.head - product) + a_split.head * b_split.tail) + a_split.tail * b_split.head;
  return {product, left + a_split.tail * b_split.tail};
}
inline Twofold two_product(double a, double b) { return two_product(a, Split(a), b, Split(b)); }

// a + b, up to 3u²(|a| + |b|).
inline Twofold operator+(Twofold a, Twofold b) {
  const Twofold sum = two_sum(a.high, b.high);
  return two_sum(sum.high, sum.low + (a.low + b.low));
}

constexpr double kSmallDividend = 0x1p-900;  // below it, the remainder of a division might fall below 2^−1074

// a / b, rounded to one double. The quotient of the high parts errs by at most three units in its last place; the
// remainder is known to about fifty bits. So the result is the double nearest to a/b, unless a/b lies within
// 2^−100 of its size of the middle between two doubles; and it is right there as well where b.low = 0 and a/b is that
// middle, because then nothing is rounded on the way. Where a/b is a double, the result is that double.
inline double divide(Twofold a, Twofold b) {
  constexpr double up = 0x1p200;
  if (std::fabs(a.high) < kSmallDividend && a.high != 0) return divide({a.high * up, a.low * up}, b) / up;
  const double quotient = a.high / b.high;
  const double left = std::fma(-quotient, b.high, a.high) + (a.low - quotient * b.low);
  const double result = quotient + left / b.high;
  return std::isfinite(result) ? result : quotient;
}

}  // namespace knoll
