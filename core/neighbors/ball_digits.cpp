#include "neighbors/ball_digits.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace knoll {
namespace {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UWide;

// The exact value of a double.
struct Decoded {
  uint64_t mantissa;
  int exponent;  // |x| = mantissa · 2^exponent
  bool negative;
};

// Of a finite number. A subnormal one has no hidden bit and the exponent of the smallest normal number.
Decoded decode(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {field == 0 ? fraction : fraction | uint64_t{1} << 52, (field == 0 ? 1 : field) - 1075, (bits >> 63) != 0};
}

}  // namespace

void BitRange::include(double x) {
  const Decoded p = decode(x);
  if (p.mantissa != 0)
    include(p.exponent + std::countr_zero(p.mantissa), p.exponent + static_cast<int>(std::bit_width(p.mantissa)));
}

Digits::Digits(int low, int high, int64_t terms) {
  if (low > high) return;
  // |a sum of digits| ≤ terms · 2^bits ≤ 2^61. At most 41 bits, so that three digits, 123 bits, fit into 128.
  // docs/numerics/sums.md, S7.
  bits_ = std::min(41, 61 - static_cast<int>(std::bit_width(static_cast<uint64_t>(terms))));
  low_ = low;
  count_ = std::max(1, (high - low_ + bits_ - 1) / bits_);
  if (bits_ < 1 || count_ > kMost - 3) throw std::length_error("there are too many rows to sum exactly");
  unit_ = low_ >= -1022 && low_ <= 1023 ? std::ldexp(1.0, low_) : 0.0;
  // The shifters 1.5·2^(52 + …) and what is added to them must be normal numbers.
  if (count_ == 2 && low_ > -1000 && low_ + bits_ < 900) {
    high_shifter_ = std::ldexp(0x1.8p52, low_ + bits_);
    low_shifter_ = std::ldexp(0x1.8p52, low_);
  }
}

void Digits::add(double x, int64_t* digits, int64_t stride) const {
  if (high_shifter_ != 0) {
    // rounded − high_shifter_ is exact, both being multiples of 2^(low + bits) below 2^(53 + low + bits), and so is x
    // minus it, which has at most `bits` bits.
    const double rounded = x + high_shifter_, low = x - (rounded - high_shifter_) + low_shifter_;
    digits[0] += static_cast<int64_t>(std::bit_cast<uint64_t>(low) - std::bit_cast<uint64_t>(low_shifter_));
    digits[stride] += static_cast<int64_t>(std::bit_cast<uint64_t>(rounded) - std::bit_cast<uint64_t>(high_shifter_));
    return;
  }
  const Decoded p = decode(x);
  const int shift = p.exponent - low_;
  if (p.mantissa == 0) return;
  if (shift >= 0)
    add_shifted(p.mantissa, shift, p.negative, digits, stride);
  else
    add_shifted(p.mantissa >> -shift, 0, p.negative, digits, stride);  // 2^low divides x: these bits are zero
}

// x·y exactly: mantissas below 2^53 multiply to below 2^106, which is added as two halves of 64 bits.
void Digits::add_product(double x, double y, int64_t* digits, int64_t stride) const {
  const Decoded p = decode(x), q = decode(y);
  UWide whole = static_cast<UWide>(p.mantissa) * q.mantissa;  // below 2^106
  if (whole == 0) return;
  int shift = p.exponent + q.exponent - low_;
  if (shift < 0) whole >>= -shift;
  shift = std::max(shift, 0);
  const bool negative = p.negative != q.negative;
  add_shifted(static_cast<uint64_t>(whole), shift, negative, digits, stride);
  add_shifted(static_cast<uint64_t>(whole >> 64), shift + 64, negative, digits, stride);
}

// sign · mantissa · 2^shift units, cut into digits from digit shift / bits on.
void Digits::add_shifted(uint64_t mantissa, int shift, bool negative, int64_t* digits, int64_t stride) const {
  const int64_t sign = negative ? -1 : 1;
  // At most 64 + 40 bits.
  UWide whole = static_cast<UWide>(mantissa) << shift % bits_;
  for (int64_t* digit = digits + shift / bits_ * stride; whole != 0; digit += stride, whole >>= bits_)
    *digit += sign * static_cast<int64_t>(static_cast<uint64_t>(whole) & ((uint64_t{1} << bits_) - 1));
}

double Digits::round(const int64_t* sums) const {
  const Rounded r = nearest(sums);
  // No second rounding: a subnormal result has |whole| < 2^52, which was exact, and is a multiple of 2^−1074.
  return r.power == low_ && unit_ != 0 ? r.whole * unit_ : std::ldexp(r.whole, r.power);
}

Digits::Rounded Digits::nearest(const int64_t* sums) const {
  if (count_ == 0) return {0.0, low_};
  if (count_ == 1) return {static_cast<double>(sums[0]), low_};
  if (count_ == 2) {  // below 2^103; the conversion of a wide integer rounds once, to nearest even
    const Wide whole = (static_cast<Wide>(sums[1]) << bits_) + sums[0];
    return {static_cast<double>(whole), low_};
  }
  // Digits in [0, 2^bits) of the magnitude.
  uint64_t digits[kMost];
  const int64_t mask = (int64_t{1} << bits_) - 1;
  // Sums of digits are signed and up to 2^61; the carry out of the highest is the sign of the whole.
  const auto carry_all = [&](int64_t sign) {
    int64_t carry = 0;
    for (int i = 0; i < count_; ++i) {
      const int64_t sum = sign * sums[i] + carry;
      digits[i] = static_cast<uint64_t>(sum & mask);
      carry = sum >> bits_;
    }
    return carry;
  };
  int64_t carry = carry_all(1);
  const bool negative = carry < 0;
  if (negative) carry = carry_all(-1);
  int top = count_;
  for (; carry != 0; carry >>= bits_) digits[top++] = static_cast<uint64_t>(carry & mask);
  while (top > 0 && digits[top - 1] == 0) --top;
  if (top == 0) return {0.0, low_};
  // The highest digit is not zero, so for bits ≥ 27 (terms < 2^34) three digits hold at least 55 bits, or nothing is
  // below them. Lower digits only break ties: they are folded into the lowest bit, and the conversion rounds to even.
  const int from = std::max(0, top - 3);
  UWide window = 0;
  for (int i = top - 1; i >= from; --i) window = window << bits_ | digits[i];
  for (int i = 0; i < from; ++i) window |= digits[i] != 0;
  const double whole = static_cast<double>(window);
  return {negative ? -whole : whole, low_ + bits_ * from};
}

}  // namespace knoll
