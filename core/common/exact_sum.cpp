// Carrying, merging and rounding of exact sums. None of it is hot: a sum is added to often and rounded once.
#include "common/exact_sum.hpp"

#include <algorithm>
#include <limits>

#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kDigit = 0xffffffff;  // 32 bits

// Does any word lie outside [−2^60, 2^60)? Written so that it runs over vectors.
// Adding 2^60 maps that range to [0, 2^61); any other word has one of the upper three bits set afterwards. Words within
// it may be added to each other and to kSafeAdds digits (docs/numerics/sums.md, S3).
bool grown(const int64_t* words) {
  uint64_t seen = 0;
  for (int i = 0; i < kFiniteWords; ++i) seen |= static_cast<uint64_t>(words[i]) + (uint64_t{1} << 60);
  return seen >> 61 != 0;
}

using Words = std::array<int64_t, kSumWords>;

// A block of neighbouring columns of an array of sums, copied word by word: the array may be far larger than the
// caches, and one column of it touches as many pages as there are words.
struct Columns {
  // A row of 64 words is eight cache lines, and all 70 rows are 35 KB: they stay in the second cache level.
  static constexpr int64_t kWidth = 64;
  int64_t words[kSumWords][kWidth];

  void load(View<const int64_t, 2> sums, int64_t first, int64_t width) {
    for (int i = 0; i < kSumWords; ++i)
      for (int64_t j = 0; j < width; ++j) words[i][j] = sums(i, first + j);
  }
  Words operator[](int64_t j) const {
    Words sum;
    for (int i = 0; i < kSumWords; ++i) sum[static_cast<size_t>(i)] = words[i][j];
    return sum;
  }
  void set(int64_t j, const Words& sum) {
    for (int i = 0; i < kSumWords; ++i) words[i][j] = sum[static_cast<size_t>(i)];
  }
  // Writes only what has changed: untouched pages stay untouched.
  void store(View<int64_t, 2> sums, int64_t first, int64_t width) const {
    for (int i = 0; i < kSumWords; ++i)
      for (int64_t j = 0; j < width; ++j)
        if (sums(i, first + j) != words[i][j]) sums(i, first + j) = words[i][j];
  }
};

// body(first, width) for blocks of columns.
// Columns are independent of each other, so the grain affects the speed alone.
template <class F>
void for_column_blocks(int64_t columns, Run run, F&& body) {
  for_chunks(columns, 16 * Columns::kWidth, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += Columns::kWidth)
      body(first, std::min(Columns::kWidth, end - first));
  });
}

}  // namespace

// Makes digits in [0, 2^32) of all words but the top one, from the lowest up. word = (word & kDigit) + 2^32·(word >>
// 32) holds for negative words too, since both operations round towards −∞: the value stays, and the top word has its
// sign.
void exact_normalise(int64_t* words) {
  int64_t carry = 0;
  for (int i = 0; i < kFiniteWords - 1; ++i) {
    int64_t word = words[i];
    add_to_word(word, carry);
    words[i] = word & kDigit;
    carry = word >> 32;
  }
  add_to_word(words[kFiniteWords - 1], carry);
}

void exact_merge(int64_t* into, const int64_t* from) {
  // Where neither has grown, the result is below 2^61 in magnitude, which leaves headroom for kSafeAdds more and
  // their carries.
  Words carried;
  if (grown(into) || grown(from)) {
    std::copy_n(from, kSumWords, carried.begin());
    exact_normalise(carried.data());
    exact_normalise(into);
    from = carried.data();
  }
  for (int i = 0; i < kSumWords; ++i) add_to_word(into[i], from[i]);
}

double exact_round(const int64_t* words) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  // What IEEE addition gives: ∞ − ∞ and anything with a NaN is NaN, else an infinity stays.
  const bool plus = words[kPlusInf] != 0, minus = words[kMinusInf] != 0;
  if (words[kNan] != 0 || (plus && minus)) return std::numeric_limits<double>::quiet_NaN();
  if (plus || minus) return plus ? inf : -inf;

  // The magnitude V in units of 2^−1074, as digits below 2^32: two zeros, then the words, the top one as two
  // digits.
  Words sum;
  std::copy_n(words, kSumWords, sum.begin());
  exact_normalise(sum.data());
  const bool negative = sum[kFiniteWords - 1] < 0;
  // A negative sum is negated first, so that the digits below are those of its magnitude.
  if (negative) {
    for (int64_t& word : sum) word = static_cast<int64_t>(-static_cast<uint64_t>(word));
    exact_normalise(sum.data());
  }
  // Two zeros below the lowest word: digits top − 1 and top − 2 exist for every top.
  constexpr int below = 2;
  std::array<uint64_t, below + kFiniteWords + 1> digits{};
  std::copy_n(sum.begin(), kFiniteWords, digits.begin() + below);
  digits[below + kFiniteWords] = digits[below + kFiniteWords - 1] >> 32;
  digits[below + kFiniteWords - 1] &= kDigit;

  size_t top = digits.size() - 1;
  while (top > below && digits[top] == 0) --top;
  if (digits[top] == 0) return 0.0;

  // The 64 highest bits of V, the first of them set, and whether anything is left below.
  const int gap = 32 - static_cast<int>(std::bit_width(digits[top]));
  const uint64_t window = ((digits[top] << 32 | digits[top - 1]) << gap) | (digits[top - 2] << gap >> 32);
  bool sticky = (digits[top - 2] << gap & kDigit) != 0;
  for (size_t i = 0; i + 2 < top; ++i) sticky |= digits[i] != 0;

  // A double with exponent field e + 1 is its 53-bit mantissa in units of 2^(e − 1074): the field and the
  // mantissa add up to its bits, also when the mantissa has rounded up to 2^53 or when it is short, that is
  // subnormal.
  const int length = 32 * static_cast<int>(top - below) + 32 - gap;  // V < 2^length
  uint64_t bits;
  if (length <= 53) {
    bits = window >> (64 - length);
  } else {
    // Eleven of the 64 bits are cut off. Above half: up. Exactly half with nothing below: to even. `sticky`
    // distinguishes a tail of exactly half from one that is longer (docs/numerics/sums.md, S4).
    const uint64_t mantissa = window >> 11, cut = window & 0x7ff, half = 0x400;
    const bool up = cut > half || (cut == half && (sticky || (mantissa & 1) != 0));
    bits = (static_cast<uint64_t>(length - 53) << 52) + mantissa + (up ? 1 : 0);
  }
  // Patterns at or beyond that of ∞ are sums too large for a double.
  const double magnitude = bits < std::bit_cast<uint64_t>(inf) ? std::bit_cast<double>(bits) : inf;
  return negative ? -magnitude : magnitude;
}

// V − rounded, exactly, and then rounded once: |low| ≤ ½ ulp(rounded). Carried first, since words may be close to the
// limit of kSafeAdds.
double exact_low(const int64_t* words, double rounded) {
  if (!std::isfinite(rounded)) return 0.0;
  Words sum;
  std::copy_n(words, kSumWords, sum.begin());
  exact_normalise(sum.data());
  exact_add(sum.data(), -rounded);
  return exact_round(sum.data());
}

void exact_normalise_columns(View<int64_t, 2> sums, Run run) {
  for_column_blocks(sums.shape[1], run, [&](int64_t first, int64_t width) {
    Columns block;
    block.load(sums, first, width);
    for (int64_t j = 0; j < width; ++j) {
      Words sum = block[j];
      exact_normalise(sum.data());
      block.set(j, sum);
    }
    block.store(sums, first, width);
  });
}

// Only words that change are written: `into` may be a fresh array of which the system has mapped no page yet.
void exact_merge_columns(View<int64_t, 2> into, View<const int64_t, 2> from, Run run) {
  for_column_blocks(into.shape[1], run, [&](int64_t first, int64_t width) {
    Columns a, b;
    a.load(into, first, width);
    b.load(from, first, width);
    for (int64_t j = 0; j < width; ++j) {
      Words sum = a[j];
      exact_merge(sum.data(), b[j].data());
      a.set(j, sum);
    }
    a.store(into, first, width);
  });
}

void exact_round_columns(View<const int64_t, 2> sums, View<double, 1> out, Run run, View<double, 1> low) {
  for_column_blocks(sums.shape[1], run, [&](int64_t first, int64_t width) {
    Columns block;
    block.load(sums, first, width);
    for (int64_t j = 0; j < width; ++j) {
      const Words sum = block[j];
      const double rounded = exact_round(sum.data());
      out(first + j) = rounded;
      if (!low.empty()) low(first + j) = exact_low(sum.data(), rounded);
    }
  });
}

}  // namespace knoll
