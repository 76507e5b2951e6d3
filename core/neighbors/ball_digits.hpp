// Exact numbers as a few signed digits, for sums that must not depend on their order.
//
// A column of doubles is a column of integers in units of its lowest bit 2^low. Such an integer is cut into signed
// digits of `bits` bits with terms·2^bits ≤ 2^61, so that a whole column adds up in int64 without overflow. Sums of
// digits may then be added, subtracted (as prefix sums are) and merged in any order, and are rounded once, at the end.
#pragma once

#include <cstdint>

namespace knoll {

class Digits {
 public:
  // Digits of a column of products that spans the squares of float64, 4200 bits of which each digit has at least 26
  // (2^34 terms), and three more to carry into.
  static constexpr int kMost = 165;

  Digits() = default;
  // For terms that are multiples of 2^low and below 2^high in magnitude; low > high: all are zero.
  Digits(int low, int high, int64_t terms);

  int count() const { return count_; }

  // Two digits by float64 additions alone. high() = 1.5·2^(52 + low + bits): x + high() lies in the binade whose ulp is
  // 2^(low + bits), so it rounds x to a multiple of that, and the high digit is the difference of the bit patterns of
  // x + high() and high(). The remainder is exact, and low() = 1.5·2^(52 + low) gives the low digit likewise. Both are
  // 0 where that does not apply: another number of digits, or a range at the end of float64.
  double high() const { return high_shifter_; }
  double low() const { return low_shifter_; }

  // digits[i · stride] += the i-th digit of x, or of the product x·y, which need not be within float64.
  void add(double x, int64_t* digits, int64_t stride) const;
  void add_product(double x, double y, int64_t* digits, int64_t stride) const;

  // whole · 2^power: a number of 53 bits with an unlimited exponent.
  struct Rounded {
    double whole;
    int power;
  };
  // The number of 53 bits nearest to Σ_i sums[i]·2^(low + bits·i), ties to even.
  Rounded nearest(const int64_t* sums) const;
  // The same as a double: beyond float64 it is infinite.
  double round(const int64_t* sums) const;

 private:
  void add_shifted(uint64_t whole, int shift, bool negative, int64_t* digits, int64_t stride) const;

  int low_ = 0, bits_ = 1, count_ = 0;
  double unit_ = 1;                            // 2^low where that is a normal number, else 0
  double high_shifter_ = 0, low_shifter_ = 0;  // high() and low()
};

// The exponents between which x lies as an integer: x is a multiple of 2^low and |x| < 2^high. Zero widens nothing.
struct BitRange {
  int low = 1 << 20, high = -(1 << 20);

  void include(double x);
  void include(int low_bit, int high_bit) {
    low = low_bit < low ? low_bit : low;
    high = high_bit > high ? high_bit : high;
  }
  void include(const BitRange& other) {
    if (other.low <= other.high) include(other.low, other.high);
  }
  bool empty() const { return low > high; }
};

}  // namespace knoll
