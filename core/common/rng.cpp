#include "common/rng.hpp"

#include <algorithm>
#include <limits>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "common/parallel.hpp"

namespace knoll::rng {
namespace {

// The lanes and the logarithm of core/simd, compiled here once more and without fused operations: the table
// that the machine chooses would make normal numbers differ in the last bit from machine to machine.
#define KNOLL_NO_FMA
#include "simd/lanes-inl.hpp"  // first: the other is written over lanes

#include "simd/exp-inl.hpp"

// Values are made kBlock at a time, in buffers that stay in the first-level cache. Such a buffer holds kBuffer,
// so that the last step may write all its lanes.
constexpr int kBlock = 256;
constexpr int kBuffer = kBlock + 2 * kLanes;

// ---- Philox ----------------------------------------------------------------------------------------------

// The product of the low 32 bits of a word or of each lane with m, all 64 bits of it. Every x86-64 has that
// instruction for lanes, but from the plain product the compiler would make three of them.
// For a single counter: the compiler makes one multiplication of it.
inline uint64_t multiply(uint64_t a, uint32_t m) { return (a & 0xffffffff) * m; }
KNOLL_INLINE u64 multiply(u64 a, uint32_t m) {
#ifdef __SSE2__
  const __m128i factor = _mm_set1_epi64x(m);
  const __m128i p = _mm_mul_epu32(_mm_set_epi64x(static_cast<int64_t>(a[1]), static_cast<int64_t>(a[0])), factor);
  const __m128i q = _mm_mul_epu32(_mm_set_epi64x(static_cast<int64_t>(a[3]), static_cast<int64_t>(a[2])), factor);
  return u64{static_cast<uint64_t>(p[0]), static_cast<uint64_t>(p[1]), static_cast<uint64_t>(q[0]),
             static_cast<uint64_t>(q[1])};
#else
  return u64{multiply(a[0], m), multiply(a[1], m), multiply(a[2], m), multiply(a[3], m)};
#endif
}

// Ten rounds on one counter (Word = uint64_t) or on four (u64 lanes). A word is the low half of its 64 bits;
// the high half may hold anything, since the products ignore it.
template <class Word>
KNOLL_INLINE void philox_rounds(Word (&word)[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const Word product0 = multiply(word[0], 0xD2511F53);
    const Word product1 = multiply(word[2], 0xCD9E8D57);
    word[0] = (product1 >> 32) ^ word[1] ^ uint64_t { key0 };
    word[2] = (product0 >> 32) ^ word[3] ^ uint64_t { key1 };
    word[1] = product1;
    word[3] = product0;
    key0 += 0x9E3779B9;  // the golden ratio and √3 − 1, in 32 bits
    key1 += 0xBB67AE85;
  }
}

inline uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
inline uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

template <class Word>
KNOLL_INLINE Word joined(Word low_word, Word high_word) {
  return (high_word << 32) | (low_word & uint64_t{0xffffffff});
}

// A block of 128 bits serves two indices, so that no bits are thrown away: word pairs (0, 1) and (2, 3).
uint64_t bits_of(uint64_t seed, Purpose purpose, uint64_t index) {
  const uint64_t block = index / 2;
  uint64_t word[4] = {block, block >> 32, static_cast<uint64_t>(purpose), 0};
  philox_rounds(word, low(seed), high(seed));
  return index % 2 == 0 ? joined(word[0], word[1]) : joined(word[2], word[3]);
}

// bits of the indices first … first+n−1, n ≤ kBlock, into a buffer of kBuffer.
void bits_block(uint64_t seed, Purpose purpose, uint64_t first, uint64_t* out, int n) {
  int done = 0;
  // An odd first index is the second half of a block; from there on blocks are whole. The last step may write past n,
  // which kBuffer allows for.
  if (n > 0 && first % 2 != 0) out[done++] = bits_of(seed, purpose, first);
  for (; done < n; done += 2 * kLanes) {
    const uint64_t index = first + static_cast<uint64_t>(done);  // even
    const u64 block = (index + u64{0, 2, 4, 6}) >> 1;            // indices run over the end of 64 bits to 0
    u64 word[4] = {block, block >> 32, u64{} + static_cast<uint64_t>(purpose), u64{}};
    philox_rounds(word, low(seed), high(seed));
    const u64 even = joined(word[0], word[1]), odd = joined(word[2], word[3]);
    for (int j = 0; j < kLanes; ++j) out[done + 2 * j] = even[j], out[done + 2 * j + 1] = odd[j];
  }
}

// ---- real numbers ----------------------------------------------------------------------------------------

// Both conversions are exact: the integers have at most 53 bits.
inline double to_unit(uint64_t x) { return static_cast<double>(static_cast<int64_t>(x >> 11)) * 0x1p-53; }
inline double to_open_unit(uint64_t x) { return static_cast<double>(static_cast<int64_t>(x >> 12 << 1 | 1)) * 0x1p-53; }

// Wichura's algorithm AS 241 (Applied Statistics 37, 1988), its routine PPND16: three quotients of
// polynomials of degree 7, here from the highest coefficient down.
//   middle, |q| ≤ 0.425 for q = p − ½:         q·A(r)/B(r) at r = 0.425² − q²
//   tails, with r = √(−log min(p, 1−p)) ≤ 5:   C/D at r − 1.6
//   beyond:                                    E/F at r − 5
constexpr int kTerms = 8;
constexpr double kA[kTerms] = {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
                               4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
                               1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr double kB[kTerms] = {
    5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
    5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
constexpr double kC[kTerms] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                               1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
                               4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr double kD[kTerms] = {
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0};
constexpr double kE[kTerms] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                               2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
                               5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr double kF[kTerms] = {
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};

inline f64 quotient(const double (&num)[kTerms], const double (&den)[kTerms], f64 factor, f64 r) {
  f64 a = broadcast(num[0]), b = broadcast(den[0]);
  for (int i = 1; i < kTerms; ++i) a = a * r + broadcast(num[i]), b = b * r + broadcast(den[i]);
  return factor * a / b;
}

// |z| for a tail probability t = min(p, 1−p) below 0.075.
inline f64 tail_quantile(f64 t) {
  const f64 log_t = vlog(t);
  // Lane by lane: √ is correctly rounded on every machine, by whatever instruction.
  const f64 r = {__builtin_sqrt(-log_t[0]), __builtin_sqrt(-log_t[1]), __builtin_sqrt(-log_t[2]),
                 __builtin_sqrt(-log_t[3])};
  const f64 one = broadcast(1.0);
  const f64 near = quotient(kC, kD, one, r - broadcast(1.6));
  const i64 far_out = less(broadcast(5.0), r);
  if (((far_out[0] | far_out[1]) | (far_out[2] | far_out[3])) == 0) return near;  // nearly always
  const f64 far = quotient(kE, kF, one, r - broadcast(5.0));
  const f64 inf = broadcast(std::numeric_limits<double>::infinity());
  return select(equal(r, inf), inf, select(far_out, far, near));  // the quotient would be inf/inf at t = 0
}

// values[i] = the quantile of values[i], i < n ≤ kBlock, in a buffer of kBuffer. Every lane passes through the
// middle's formula; the tails, 15 in 100, are then gathered and go through theirs.
void quantile_block(double* values, int n) {
  const int padded = (n + kLanes - 1) / kLanes * kLanes;
  double tail[kBuffer], side[kBuffer];
  int position[kBuffer];
  int tails = 0;
  std::fill(values + n, values + padded, 0.5);
  for (int i = 0; i < n; ++i) {  // no branches: they would be mispredicted
    const double p = values[i];
    tail[tails] = std::min(p, 1.0 - p);
    side[tails] = p - 0.5;
    position[tails] = i;
    tails += __builtin_fabs(p - 0.5) > 0.425;
  }
  // All lanes, tails among them: what this formula gives for those is overwritten below.
  for (int i = 0; i < padded; i += kLanes) {
    const f64 q = load(values + i) - broadcast(0.5);
    store(values + i, quotient(kA, kB, q, broadcast(0.180625) - q * q));
  }
  std::fill(tail + tails, tail + tails + kLanes, 0.05);
  for (int i = 0; i < tails; i += kLanes) store(tail + i, tail_quantile(load(tail + i)));
  for (int i = 0; i < tails; ++i) values[position[i]] = __builtin_copysign(tail[i], side[i]);
}

// make(first, values, n) puts the numbers of n ≤ kBlock indices into a buffer of kBuffer.
template <class T, class Make>
void fill(uint64_t first_index, View<T, 1> out, Run run, Make make) {
  for_chunks(out.shape[0], 16 * kBlock, run, [&](int64_t, int64_t begin, int64_t end) {
    T values[kBuffer];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int n = static_cast<int>(std::min<int64_t>(kBlock, end - i));
      make(first_index + static_cast<uint64_t>(i), values, n);
      for (int j = 0; j < n; ++j) out(i + j) = values[j];
    }
  });
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  uint64_t word[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox_rounds(word, key[0], key[1]);
  return {low(word[0]), low(word[1]), low(word[2]), low(word[3])};
}

uint64_t bits(uint64_t seed, Purpose purpose, uint64_t index) { return bits_of(seed, purpose, index); }

double uniform(uint64_t seed, Purpose purpose, uint64_t index) { return to_unit(bits(seed, purpose, index)); }

double uniform_open(uint64_t seed, Purpose purpose, uint64_t index) { return to_open_unit(bits(seed, purpose, index)); }

double normal(uint64_t seed, Purpose purpose, uint64_t index) {
  return normal_quantile(uniform_open(seed, purpose, index));
}

double normal_quantile(double p) {
  double values[kBuffer];
  values[0] = p;
  quantile_block(values, 1);
  return values[0];
}

void fill_bits(uint64_t seed, Purpose purpose, uint64_t first_index, View<uint64_t, 1> out, Run run) {
  fill(first_index, out, run,
       [&](uint64_t first, uint64_t* values, int n) { bits_block(seed, purpose, first, values, n); });
}

void fill_uniform(uint64_t seed, Purpose purpose, uint64_t first_index, View<double, 1> out, Run run) {
  fill(first_index, out, run, [&](uint64_t first, double* values, int n) {
    uint64_t raw[kBuffer];
    bits_block(seed, purpose, first, raw, n);
    for (int i = 0; i < n; ++i) values[i] = to_unit(raw[i]);
  });
}

void fill_normal(uint64_t seed, Purpose purpose, uint64_t first_index, View<double, 1> out, Run run) {
  fill(first_index, out, run, [&](uint64_t first, double* values, int n) {
    uint64_t raw[kBuffer];
    bits_block(seed, purpose, first, raw, n);
    for (int i = 0; i < n; ++i) values[i] = to_open_unit(raw[i]);
    quantile_block(values, n);
  });
}

}  // namespace knoll::rng
