// Lanes: 32 bytes of numbers, the same on every instruction set (an x86-64 baseline or another machine splits
// them in two). Included inside the namespace of an instruction set; everything here is inline and has no
// linkage outside it.

// 32 bytes also where registers have 16 or 64: with other widths a sum would have another order of additions, and other
// bits (docs/numerics/rounding.md, D6).
typedef double f64 __attribute__((vector_size(32)));
typedef int64_t i64 __attribute__((vector_size(32)));
typedef uint64_t u64 __attribute__((vector_size(32)));
typedef float f32 __attribute__((vector_size(32)));
typedef int32_t i32 __attribute__((vector_size(32)));

constexpr int kLanes = 4;    // of f64
constexpr int kLanes32 = 8;  // of f32

#define KNOLL_INLINE [[maybe_unused]] static inline __attribute__((always_inline))

// memcpy of a known length is one unaligned load, and defined for any address.
KNOLL_INLINE f64 load(const double* p) {
  f64 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE void store(double* p, f64 v) { __builtin_memcpy(p, &v, sizeof v); }
KNOLL_INLINE f64 broadcast(double x) { return f64{x, x, x, x}; }

// The first `count` lanes (fewer than kLanes) of an array's tail; the others are `fill`, so that a value goes
// through the same instructions wherever in an array it stands.
KNOLL_INLINE f64 load_tail(const double* p, int64_t count, double fill) {
  double lanes[kLanes] = {fill, fill, fill, fill};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
KNOLL_INLINE void store_tail(double* p, int64_t count, f64 v) {
  double lanes[kLanes];
  store(lanes, v);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

// Masks are all-ones or all-zeros per lane. g++ takes comparisons and ?: of vectors wider than the machine's
// apart into scalars, so without AVX (which comes with FMA here) comparisons are made on halves and lanes are
// chosen with bits.
#ifdef __FMA__
// False where either is NaN, on every instruction set alike.
KNOLL_INLINE i64 less(f64 a, f64 b) { return (i64)(a < b); }
KNOLL_INLINE i64 equal(f64 a, f64 b) { return (i64)(a == b); }
KNOLL_INLINE f64 select(i64 mask, f64 yes, f64 no) { return mask ? yes : no; }
KNOLL_INLINE i64 select(i64 mask, i64 yes, i64 no) { return mask ? yes : no; }
#else
typedef double f64_half __attribute__((vector_size(16)));
typedef int64_t i64_half __attribute__((vector_size(16)));

KNOLL_INLINE f64_half low_half(f64 v) { return f64_half{v[0], v[1]}; }
KNOLL_INLINE f64_half high_half(f64 v) { return f64_half{v[2], v[3]}; }
KNOLL_INLINE i64 join(i64_half low, i64_half high) { return i64{low[0], low[1], high[0], high[1]}; }

KNOLL_INLINE i64 less(f64 a, f64 b) {
  return join((i64_half)(low_half(a) < low_half(b)), (i64_half)(high_half(a) < high_half(b)));
}
KNOLL_INLINE i64 equal(f64 a, f64 b) {
  return join((i64_half)(low_half(a) == low_half(b)), (i64_half)(high_half(a) == high_half(b)));
}
KNOLL_INLINE f64 select(i64 mask, f64 yes, f64 no) { return (f64)((mask & (i64)yes) | (~mask & (i64)no)); }
KNOLL_INLINE i64 select(i64 mask, i64 yes, i64 no) { return (mask & yes) | (~mask & no); }
#endif

// min(x, bound) and max(x, bound), where a lane of x that is NaN stays NaN.
KNOLL_INLINE f64 at_most(f64 x, f64 bound) {
#ifdef __FMA__
  return (f64)_mm256_min_pd((__m256d)bound, (__m256d)x);  // the second is taken when they do not compare
#else
  return select(less(bound, x), bound, x);
#endif
}
// maxpd returns its second operand when one is NaN, too.
KNOLL_INLINE f64 at_least(f64 x, f64 bound) {
#ifdef __FMA__
  return (f64)_mm256_max_pd((__m256d)bound, (__m256d)x);
#else
  return select(less(x, bound), bound, x);
#endif
}

// a·b + c: fused where the instruction set has it, else rounded twice. Only for code whose error bound holds for
// both, or whose result decides nothing. KNOLL_NO_FMA, set before this file is included, is for code that must have the
// same bits on every machine.
KNOLL_INLINE f64 fma(f64 a, f64 b, f64 c) {
#if defined(__FMA__) && !defined(KNOLL_NO_FMA)
  return (f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

// The square root, correctly rounded.
// IEEE 754 requires that of √, so decisions by a root are the same on every instruction set.
KNOLL_INLINE f64 root(f64 x) {
#ifdef __FMA__
  return (f64)_mm256_sqrt_pd((__m256d)x);
#else
  return f64{__builtin_sqrt(x[0]), __builtin_sqrt(x[1]), __builtin_sqrt(x[2]), __builtin_sqrt(x[3])};
#endif
}

// (v0 + v1) + (v2 + v3): the one order in which lanes are added.
KNOLL_INLINE double hsum(f64 v) { return (v[0] + v[1]) + (v[2] + v[3]); }

// Eight numbers of 32 bits: the same helpers.
KNOLL_INLINE f32 load(const float* p) {
  f32 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE void store(float* p, f32 v) { __builtin_memcpy(p, &v, sizeof v); }
KNOLL_INLINE i32 load(const int32_t* p) {
  i32 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE void store(int32_t* p, i32 v) { __builtin_memcpy(p, &v, sizeof v); }
KNOLL_INLINE f32 broadcast(float x) { return f32{x, x, x, x, x, x, x, x}; }
KNOLL_INLINE i32 broadcast(int32_t x) { return i32{x, x, x, x, x, x, x, x}; }

#ifdef __FMA__
KNOLL_INLINE i32 less(f32 a, f32 b) { return (i32)(a < b); }
KNOLL_INLINE f32 select(i32 mask, f32 yes, f32 no) { return mask ? yes : no; }
KNOLL_INLINE i32 select(i32 mask, i32 yes, i32 no) { return mask ? yes : no; }
#else
typedef float f32_half __attribute__((vector_size(16)));
typedef int32_t i32_half __attribute__((vector_size(16)));

KNOLL_INLINE i32 less(f32 a, f32 b) {
  const i32_half low = (i32_half)(f32_half{a[0], a[1], a[2], a[3]} < f32_half{b[0], b[1], b[2], b[3]});
  const i32_half high = (i32_half)(f32_half{a[4], a[5], a[6], a[7]} < f32_half{b[4], b[5], b[6], b[7]});
  return i32{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
}
KNOLL_INLINE f32 select(i32 mask, f32 yes, f32 no) { return (f32)((mask & (i32)yes) | (~mask & (i32)no)); }
KNOLL_INLINE i32 select(i32 mask, i32 yes, i32 no) { return (mask & yes) | (~mask & no); }
#endif

KNOLL_INLINE f32 at_most(f32 x, f32 bound) {
#ifdef __FMA__
  return (f32)_mm256_min_ps((__m256)bound, (__m256)x);
#else
  return select(less(bound, x), bound, x);
#endif
}
KNOLL_INLINE f32 at_least(f32 x, f32 bound) {
#ifdef __FMA__
  return (f32)_mm256_max_ps((__m256)bound, (__m256)x);
#else
  return select(less(x, bound), bound, x);
#endif
}
KNOLL_INLINE f32 fma(f32 a, f32 b, f32 c) {
#if defined(__FMA__) && !defined(KNOLL_NO_FMA)
  return (f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

// Bit l is set where a[l] ≥ b[l]; not where either is NaN.
// Ordered comparison: a threshold of ∞ − ∞ = NaN is reached by no product (docs/numerics/pairs.md, P7).
KNOLL_INLINE uint32_t reach_bits(f32 a, f32 b) {
#ifdef __FMA__
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ));
#elif defined(__SSE2__)
  typedef float half __attribute__((vector_size(16)));
  const half a0 = {a[0], a[1], a[2], a[3]}, a1 = {a[4], a[5], a[6], a[7]};
  const half b0 = {b[0], b[1], b[2], b[3]}, b1 = {b[4], b[5], b[6], b[7]};
  return (uint32_t)__builtin_ia32_movmskps((half)(a0 >= b0)) | (uint32_t)__builtin_ia32_movmskps((half)(a1 >= b1)) << 4;
#else
  uint32_t bits = 0;
  for (int l = 0; l < kLanes32; ++l) bits |= (uint32_t)(a[l] >= b[l]) << l;
  return bits;
#endif
}

KNOLL_INLINE f32 root(f32 v) {
#ifdef __FMA__
  return (f32)_mm256_sqrt_ps((__m256)v);
#else
  for (int l = 0; l < kLanes32; ++l) v[l] = __builtin_sqrtf(v[l]);
  return v;
#endif
}
