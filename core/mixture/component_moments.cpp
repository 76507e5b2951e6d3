// The end of the M step: exact sums become means and central moments (docs/theory/01-gaussian.md, eq. 1.7),
//     μ = o + s₁/m,   Σ = S₂/m − (μ − o)(μ − o)ᵀ,
// with mass m, first and second moments s₁, S₂ about o.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "mixture/em_pass.hpp"
#include "mixture/em_tile.hpp"

namespace knoll {

using mixture::size_of;

namespace {

// One word of 512 columns is 4 KB, a page: a scan reads each page of the array once.
constexpr int64_t kBlock = 512;  // columns whose words are scanned together

// The double nearest to one sum whose words are zero outside of [low, high]: the value of exact_round, without a scan
// over all words. Needs low ≥ 4, so that the result is 0 or ≥ 2^(32·4 − 1074) and normal, and at most kShort words.
constexpr int kShort = 12;
double round_short(const int64_t* word, int64_t stride, int low, int high) {
  uint64_t digits[kShort + 2];
  // count digits, and the carry out of the highest.
  const int count = high - low + 1;
  auto carry = [&](int64_t sign) {  // 32-bit digits of sign · sum; returns the carry out of the highest
    int64_t above = 0;
    for (int i = 0; i < count; ++i) {
      int64_t value = sign < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(word[i * stride])) : word[i * stride];
      add_to_word(value, above);
      digits[i] = static_cast<uint64_t>(value) & 0xffffffff;
      above = value >> 32;
    }
    return above;
  };
  int64_t above = carry(1);
  const double sign = above < 0 ? -1.0 : 1.0;
  if (above < 0) above = carry(-1);
  digits[count] = static_cast<uint64_t>(above) & 0xffffffff;  // |above| < 2³² for words of an exact sum
  int top = count;
  while (top > 0 && digits[top] == 0) --top;
  if (digits[top] == 0) return 0.0;
  // 64 bits from the leading one on, the last of them sticky: set if any lower bit is. 64 > 53 + 1, so the conversion
  // to double rounds correctly, ties to even included.
  // Below the lowest word there is nothing: every word outside of [low, high] is zero.
  auto digit = [&](int i) { return i < 0 ? 0 : digits[i]; };
  const int shift = std::countl_zero(digits[top]) - 32;
  const uint64_t two = digit(top) << 32 | digit(top - 1);
  uint64_t head = shift == 0 ? two : two << shift | digit(top - 2) >> (32 - shift);
  bool more = (digit(top - 2) & ((uint64_t{1} << (32 - shift)) - 1)) != 0;
  for (int i = top - 3; i >= 0; --i) more = more || digits[i] != 0;
  head |= more ? 1 : 0;
  // A product with a power of two that stays normal rounds nothing: low ≥ 4 (docs/numerics/sums.md, S4).
  return sign * std::ldexp(static_cast<double>(head), 32 * (low + top - 1) - shift - 1074);
}

// exact_round_columns for sums that mostly have few words in use, which one scan of a block of columns finds.
void round_columns(View<const int64_t, 2> sums, View<const int64_t, 1> used, double* out, Run run) {
  for_chunks(sums.shape[1], kBlock, run, [&](int64_t, int64_t begin, int64_t end) {
    int low = kSumWords, high = -1;
    for (int i = static_cast<int>(used(0)); i < used(1); ++i) {
      int64_t any = 0;
      for (int64_t j = begin; j < end; ++j) any |= sums(i, j);
      if (any != 0) low = std::min(low, i), high = i;
    }
    if (low >= 4 && high < kFiniteWords - 1 && high - low < kShort) {
      for (int64_t j = begin; j < end; ++j)
        out[j] = high < 0 ? 0.0 : round_short(&sums(low, j), sums.stride[0], low, high);
      return;
    }
    // The general case, for numbers of very different size, infinities and NaN. Words outside of the used ones were
    // never cleared, so they are not copied.
    std::vector<int64_t> all(size_of(kSumWords * (end - begin)), 0);
    const auto block = matrix_view(all.data(), kSumWords, end - begin);
    for (int i = low; i <= high; ++i)
      for (int64_t j = begin; j < end; ++j) block(i, j - begin) = sums(i, j);
    exact_round_columns(matrix_view<const int64_t>(all.data(), kSumWords, end - begin),
                        vector_view(out + begin, end - begin));
  });
}

}  // namespace

double central_moments(View<const int64_t, 2> sums, View<const int64_t, 1> used, View<const double, 1> peaks,
                       View<const double, 2> centers, Scatter scatter, double dead, View<double, 1> head,
                       View<double, 1> mass, View<double, 2> mean, View<double, 2> covariance, View<bool, 1> alive,
                       Run run) {
  const int64_t k = centers.shape[0], d = centers.shape[1], per = mixture_component_sums(d, scatter);
  std::vector<double> rounded(size_of(sums.shape[1]));
  round_columns(sums, used, rounded.data(), run);
  for (int64_t i = 0; i < kMixtureHead; ++i) head(i) = rounded[size_of(i)];
  std::vector<double> far(size_of(k), 0.0);
  // One component, after all sums are rounded: its bits depend on its own sums alone.
  auto finish = [&](int64_t c) {
    const double* const sum = rounded.data() + kMixtureHead + c * per;
    const double* second = sum + 1 + d;
    // A dead component keeps finite numbers: mass 0, mean o + s₁.
    alive(c) = peaks(c) >= dead && sum[0] > 0;
    mass(c) = alive(c) ? sum[0] : 0.0;
    const double divisor = alive(c) ? sum[0] : 1.0;
    std::vector<double> offset(sum + 1, sum + 1 + d);
    for (double& value : offset) value /= divisor;
    auto seen = [&](int64_t j, double variance) {  // what the subtraction costs; infinite where no variance is left
      const double o = offset[size_of(j)];
      if (alive(c) && o != 0) far[size_of(c)] = std::max(far[size_of(c)], o * o / variance);
    };
    for (int64_t j = 0; j < d; ++j) mean(c, j) = centers(c, j) + offset[size_of(j)];
    if (scatter == Scatter::columns)
      for (int64_t j = 0; j < d; ++j) {  // a variance is ≥ 0 in exact arithmetic, hence the max
        covariance(c, j) = std::max(second[j] / divisor - offset[size_of(j)] * offset[size_of(j)], 0.0);
        seen(j, covariance(c, j));
      }
    if (scatter == Scatter::full)
      for (int64_t i = 0; i < d; ++i)
        for (int64_t j = i; j < d; ++j) {
          // The relative error of S₂/m grows by the factor 1 + (μ − o)²/Σ: `seen` records it, and beyond 10⁴ the caller
          // makes the pass again (docs/numerics/mixture.md, M5).
          double value = *second++ / divisor - offset[size_of(i)] * offset[size_of(j)];
          if (i == j) seen(i, value = std::max(value, 0.0));
          covariance(c, i * d + j) = covariance(c, j * d + i) = value;
        }
  };
  // About a thousand sums per chunk: less is not worth a thread.
  for_chunks(k, 1 + 2 * kBlock / per, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) finish(c);
  });
  return *std::max_element(far.begin(), far.end());
}

}  // namespace knoll
