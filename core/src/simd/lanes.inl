// Lanes: 32 bytes of numbers, the same on every instruction set (an x86-64 baseline or another machine splits them in two).
// Included inside the namespace of an instruction set; everything here is inline and has no linkage outside it.

typedef double f64 __attribute__((vector_size(32)));
typedef int64_t i64 __attribute__((vector_size(32)));
typedef uint64_t u64 __attribute__((vector_size(32)));
typedef float f32 __attribute__((vector_size(32)));
typedef int32_t i32 __attribute__((vector_size(32)));

constexpr int kLanes = 4;    // of f64
constexpr int kLanes32 = 8;  // of f32

#define KNOLL_INLINE [[maybe_unused]] static inline __attribute__((always_inline))

KNOLL_INLINE f64 load(const double* p) {
  f64 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE void store(double* p, f64 v) { __builtin_memcpy(p, &v, sizeof v); }
KNOLL_INLINE f64 broadcast(double x) { return f64{x, x, x, x}; }

// Masks are all-ones or all-zeros per lane, as the comparison of two vectors gives them.
KNOLL_INLINE f64 select(i64 mask, f64 yes, f64 no) { return (f64)((mask & (i64)yes) | (~mask & (i64)no)); }
KNOLL_INLINE i64 select(i64 mask, i64 yes, i64 no) { return (mask & yes) | (~mask & no); }

// a·b + c: fused where the instruction set has it, else rounded twice. For code whose error bound covers both.
KNOLL_INLINE f64 fma(f64 a, f64 b, f64 c) {
#ifdef __FMA__
  return (f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

// (v0 + v1) + (v2 + v3): the one order in which lanes are added.
KNOLL_INLINE double hsum(f64 v) { return (v[0] + v[1]) + (v[2] + v[3]); }
