// exp and log over lanes, within 1 ulp on the whole range of double (docs/numerics/functions.md, E1 to E3;
// core/tests/test_exp.cpp measures it).
//
// No tables: a reduction by powers of two and a polynomial. No step relies on a fused multiply-add; with one,
// the rounding is a little better and the bits differ. Integers are carried in the low mantissa bits of a large
// double, because neither SSE2 nor AVX2 converts 64-bit integers to doubles.
//
// The coefficients are minimax polynomials found by the Remez exchange in 60-digit arithmetic (mpmath), on
// the interval of the reduced argument widened by 10⁻⁴, for the error named beside them, and then
// rounded to double one by one.

// ln 2 = kLn2Hi + kLn2Lo to 97 bits. kLn2Hi has 42 bits, so that k·kLn2Hi is exact for |k| < 2¹¹.
constexpr double kLn2Hi = 0x1.62e42fefa38p-1;
constexpr double kLn2Lo = 0x1.ef35793c7673p-45;
constexpr double kLog2E = 0x1.71547652b82fep+0;

// eˣ = 2ᵏ·eʳ with k the integer nearest x / ln 2, so |r| ≤ ln 2 / 2;  eʳ = 1 + r + r²·P(r).
// P of degree 9 minimises the largest |r²·(P(r) − (eʳ−1−r)/r²)| / eʳ, which is 2^-57.9.
//
// e^(r + c) − 1, where c is so small that it counts once.
// Estrin's scheme: pairs of terms first, so that the chain of dependent operations is short.
KNOLL_INLINE f64 exp_less_one(f64 r, f64 c) {
  const f64 r2 = r * r;
  const f64 r4 = r2 * r2;
  const f64 p01 = fma(broadcast(0x1.55555555554fap-3), r, broadcast(0x1.000000000000ap-1));
  const f64 p23 = fma(broadcast(0x1.1111111127be9p-7), r, broadcast(0x1.555555555087dp-5));
  const f64 p45 = fma(broadcast(0x1.a01a012a56626p-13), r, broadcast(0x1.6c16c1842a0e4p-10));
  const f64 p67 = fma(broadcast(0x1.71df2555820b7p-19), r, broadcast(0x1.a0199a0c7067bp-16));
  const f64 p89 = fma(broadcast(0x1.ad7f6966eed54p-26), r, broadcast(0x1.28ad72c46d724p-22));
  const f64 p47 = fma(p67, r2, p45);
  const f64 p03 = fma(p23, r2, p01);
  const f64 p = fma(fma(p89, r4, p47), r4, p03);
  return r + fma(p, r2, c);
}

KNOLL_INLINE f64 vexp(f64 x) {
  // At these bounds the scaling at the end gives inf and 0; inside them k fits its bits. NaN passes.
  x = at_least(at_most(x, broadcast(710.0)), broadcast(-746.0));

  // The low 12 bits of t hold k + 2046, which is positive.
  const f64 magic = broadcast(0x1.8p52 + 2046.0);
  const f64 t = fma(x, broadcast(kLog2E), magic);
  const f64 k = t - magic;

  // r + c is the reduced argument: c is what rounding r to a double lost.
  const f64 high = fma(k, broadcast(-kLn2Hi), x);  // exact: the product is, and the difference is small
  const f64 r = fma(k, broadcast(-kLn2Lo), high);
  const f64 c = fma(k, broadcast(-kLn2Lo), high - r);

  const f64 q = exp_less_one(r, c);

  // 2ᵏ in two normal factors of about half the exponent each, so that inf and subnormal results come from the
  // last product alone. Their exponent fields are the halves of k + 2046; the bits of t above the low 12 are
  // shifted out.
  const u64 both = (u64)t;
  const u64 half = both >> 1;
  const f64 scale1 = (f64)(half << 52);
  const f64 scale2 = (f64)((both - half) << 52);
  return fma(q, scale1, scale1) * scale2;  // q·scale1 is exact: this is (1 + q)·2ᵏ
}

// eˣ for x ≤ 0, within 1 ulp down to x = −708, and 0 below: for responsibilities, where what is subnormal counts for
// nothing. The reduced argument is rounded once (2^-55 of the result), and k is added to the exponent of eʳ.
KNOLL_INLINE f64 vexp_down(f64 x) {
  const f64 magic = broadcast(0x1.8p52);
  const f64 t = fma(x, broadcast(kLog2E), magic);
  const f64 k = t - magic;
  const f64 r = fma(k, broadcast(-kLn2Lo), fma(k, broadcast(-kLn2Hi), x));
  const f64 y = broadcast(1.0) + exp_less_one(r, f64{});
  return (f64)((u64)less(broadcast(-708.0), x) & ((u64)y + ((u64)t << 52)));
}

// log x = k·ln 2 + log(1 + f) with 1 + f in [√½, √2);  log(1 + f) = 2s + s·z·Q(z), s = f / (2 + f), z = s².
// Q of degree 6 minimises the largest error of z·Q(z), which is 2^-58.5 beside the 2 that it is added to.
KNOLL_INLINE f64 vlog(f64 x) {
  const f64 inf = broadcast(__builtin_inf());
  const f64 zero = broadcast(0.0);

  // Subnormal numbers are lifted to normal ones.
  const i64 tiny = less(x, broadcast(0x1p-1022));
  const f64 normal = select(tiny, x * broadcast(0x1p54), x);
  // The lift by 2⁵⁴ is exact, and 54 is taken off the exponent again.
  const f64 bias = select(tiny, broadcast(0x1p52 + 1023.0 + 54.0), broadcast(0x1p52 + 1023.0));

  // Adding 1 − √½ as bit patterns makes the exponent field k + 1023; the mantissa, from √½ on, is 1 + f.
  const u64 root_half = u64{} + 0x3fe6a09e667f3bcdULL;  // the bits of √½
  const u64 one = u64{} + 0x3ff0000000000000ULL;
  const u64 shifted = (u64)normal + (one - root_half);
  const f64 k = (f64)((shifted >> 52) | (u64{} + 0x4330000000000000ULL)) - bias;
  const f64 f = (f64)((shifted & 0x000fffffffffffffULL) + root_half) - broadcast(1.0);  // exact

  const f64 s = f / (f + broadcast(2.0));
  const f64 z = s * s;
  const f64 z2 = z * z;
  const f64 q01 = fma(broadcast(0x1.999999997fd76p-2), z, broadcast(0x1.5555555555592p-1));
  const f64 q23 = fma(broadcast(0x1.c71c5206032d3p-3), z, broadcast(0x1.24924941f5025p-2));
  const f64 q45 = fma(broadcast(0x1.39a1a6e2eefe6p-3), z, broadcast(0x1.74663fa3049e5p-3));
  const f64 q46 = fma(broadcast(0x1.2f063541e21cbp-3), z2, q45);
  const f64 zq = z * fma(fma(q46, z2, q23), z2, q01);

  // 2s = f − f²/2 + s·f²/2: so written, f enters without error, which keeps the ulps when x is near 1.
  const f64 h = broadcast(0.5) * f * f;
  const f64 small = fma(s, h + zq, k * broadcast(kLn2Lo));
  const f64 y = fma(k, broadcast(kLn2Hi), f - (h - small));

  const f64 nan = broadcast(__builtin_nan(""));
  const f64 outside = select(equal(x, zero), -inf, select(less(zero, x), inf, nan));
  return select(less(zero, x) & less(x, inf), y, outside);
}

// y[i] = exp(x[i]); x and y may be the same array.
// The tail goes through the same vector code, so a value has the same bits wherever in an array it is.
KNOLL_INLINE void exp_array(const double* x, double* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, vexp(load(x + i)));
  if (i < n) store_tail(y + i, n - i, vexp(load_tail(x + i, n - i, 0.0)));
}

KNOLL_INLINE void log_array(const double* x, double* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, vlog(load(x + i)));
  if (i < n) store_tail(y + i, n - i, vlog(load_tail(x + i, n - i, 1.0)));
}
