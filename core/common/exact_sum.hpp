// Order-free exact sums: a sum is kept as one wide integer and rounded once, so any order, grouping, number
// of threads or distribution over workers gives the same double (docs/numerics/sums.md, S1 to S5; the reasons:
// docs/decisions/0004).
//
// A sum is kSumWords plain int64, and its value is Σ_i words[i]·2^(32 i − 1074), i < kFiniteWords. A double is a
// 53-bit integer times a power of two at or above 2^−1074, so it falls on at most three neighbouring words,
// as digits below 2^32 in magnitude. The 31 bits above a digit take up the carries: up to kSafeAdds additions
// need no carry at all, and two sums are merged by adding their arrays. Range: every finite double, 2^63
// terms of the largest one. The last three words count +inf, −inf and NaN, so that the rounded sum is what
// IEEE addition makes of them.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// 2^63 · DBL_MAX in units of 2^−1074 has 32·66 + 49 bits; the top word bears the sign.
inline constexpr int kFiniteWords = 67;
inline constexpr int kPlusInf = kFiniteWords, kMinusInf = kFiniteWords + 1, kNan = kFiniteWords + 2;
inline constexpr int kSumWords = kFiniteWords + 3;

// So many exact_add (or additions of normalised arrays) may follow a zero, normalised or merged array.
inline constexpr int64_t kSafeAdds = int64_t{1} << 30;

// word += digit modulo 2^64. No sum of kSafeAdds terms comes near the end of the range, but words that a caller hands
// in may hold anything.
inline void add_to_word(int64_t& word, int64_t digit) {
  word = static_cast<int64_t>(static_cast<uint64_t>(word) + static_cast<uint64_t>(digit));
}

// words += x; word i lies at words[i · stride], so that a sum may also be a column of an array (kSumWords, m).
// Digits 0 and 1 are in [0, 2^32), digit 2 is below 2^20 in magnitude and has the sign (docs/numerics/sums.md, S1).
inline void exact_add(int64_t* words,  // in, out (kSumWords)
                      double x, int64_t stride = 1) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const uint64_t exponent = (bits >> 52) & 0x7ff;
  const int64_t negative = static_cast<int64_t>(bits) >> 63;  // 0 or −1
  if (exponent == 0x7ff) [[unlikely]] {
    add_to_word(words[stride * (x != x ? kNan : kPlusInf - negative)], 1);
    return;
  }
  // |x| = mantissa · 2^(shift − 1074); a subnormal has no hidden bit and the exponent of the smallest normal.
  const uint64_t normal = exponent != 0;
  const auto mantissa = static_cast<int64_t>((bits & ((uint64_t{1} << 52) - 1)) | (normal << 52));
  const int64_t whole = (mantissa ^ negative) - negative;
  const uint64_t shift = exponent - normal;
  // whole · 2^(shift mod 32) in two digits of 32 bits and a signed one above them.
  const uint64_t r = shift & 31;
  const uint64_t low = static_cast<uint64_t>(whole) << r;
  int64_t* word = words + stride * static_cast<int64_t>(shift >> 5);
  add_to_word(word[0], static_cast<int64_t>(low & 0xffffffff));
  add_to_word(word[stride], static_cast<int64_t>(low >> 32));
  add_to_word(word[2 * stride], (whole >> 1) >> (63 - r));  // whole >> (64 − r), also for r = 0
}

// words += a·b, as the double nearest to a·b and its rounding error; counts as two additions. Exact unless the
// product has bits below 2^−1074 (possible only if |a·b| < 2^−968): those are rounded off, to an error of at
// most 2^−1075, as a function of a and b alone, so the sum stays order-free. A product beyond the largest
// double counts as the infinity it rounds to.
inline void exact_add_product(int64_t* words,  // in, out (kSumWords)
                              double a, double b, int64_t stride = 1) {
  const double product = a * b;
  exact_add(words, product, stride);
  if (std::isfinite(product)) exact_add(words, std::fma(a, b, -product), stride);
}

// Carries, so that all words but the top one lie in [0, 2^32): equal sums then have equal words.
void exact_normalise(int64_t* words);  // in, out (kSumWords)

// into += from. Safe any number of times: it carries where a word has grown long.
void exact_merge(int64_t* into,         // in, out (kSumWords)
                 const int64_t* from);  // in  (kSumWords)

// The double nearest to the exact sum, ties to even; ±inf only where the sum itself rounds to it, or has such
// a term. An empty or cancelled sum is +0. Equals math.fsum bit for bit where that returns (it raises on
// overflow and on inf − inf).
double exact_round(const int64_t* words);  // in  (kSumWords)

// The low part: the sum minus exact_round, rounded likewise. Together they are the sum to 106 bits. 0 where the sum is
// not finite.
double exact_low(const int64_t* words,  // in  (kSumWords)
                 double rounded);       // exact_round(words)

// The same for many sums at once, one a column: what Python owns as an int64 array (kSumWords, m).
void exact_normalise_columns(View<int64_t, 2> sums,  // in, out (kSumWords, m)
                             Run run = {});
void exact_merge_columns(View<int64_t, 2> into,        // in, out (kSumWords, m)
                         View<const int64_t, 2> from,  // in  (kSumWords, m)
                         Run run = {});
void exact_round_columns(View<const int64_t, 2> sums,              // in  (kSumWords, m)
                         View<double, 1> out,                      // out (m)
                         Run run = {}, View<double, 1> low = {});  // out (m) or empty: exact_low

// One sum as a value that keeps its own carries in range.
class ExactSum {
 public:
  void add(double x) {
    if (++pending_ > kSafeAdds) normalise();
    exact_add(words_.data(), x);
  }
  void add_product(double a, double b) {
    if ((pending_ += 2) > kSafeAdds) normalise();
    exact_add_product(words_.data(), a, b);
  }
  void add(const ExactSum& other) {
    exact_merge(words_.data(), other.words_.data());
    pending_ = 0;
  }
  double round() const { return exact_round(words_.data()); }
  const int64_t* words() const { return words_.data(); }

  // The exact sums are equal, however they were added up.
  friend bool operator==(ExactSum a, ExactSum b) {
    a.normalise();
    b.normalise();
    return a.words_ == b.words_;
  }

 private:
  void normalise() {
    exact_normalise(words_.data());
    pending_ = 2;  // the addition that is about to come
  }

  std::array<int64_t, kSumWords> words_{};
  int64_t pending_ = 0;  // additions since the last carry or merge
};

}  // namespace knoll
