// Kernels of the ascent, written over lanes; neighbors/ascent_kernels.hpp states what they compute.
//
// Sums over a ball are of integers modulo 2⁶⁴, so they are the same in any order; whether a point counts is decided by
// the one distance. A lane without a point has infinite coordinates: its distance is ∞ and never ≤ bound.

// Keys are random 64-bit numbers whose sums wrap around: unsigned.
KNOLL_INLINE u64 load_u64(const int64_t* p) {
  u64 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE void store_u64(int64_t* p, u64 v) { __builtin_memcpy(p, &v, sizeof v); }

// Whether a lane is set.
// A single instruction where there is one: it decides whether a block is read further.
KNOLL_INLINE bool any(i64 mask) {
#ifdef __FMA__
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

// ‖x − y‖² of four points, added for j = 0 … d−1 and never fused: the one distance (docs/numerics/rounding.md, D1).
KNOLL_INLINE f64 block_distance(const double* coords, int64_t d, const double* y) {
  f64 sum = broadcast(0.0);
  for (int64_t j = 0; j < d; ++j) {
    const f64 difference = load(coords + j * kLanes) - broadcast(y[j]);
    sum += difference * difference;
  }
  return sum;
}

// Few dimensions and columns: everything stays in registers, and masks replace branches. A mask is −1 where a lane is
// inside: rows −= mask counts it, mask & column adds it.
template <int D, int C>
KNOLL_INLINE void add_ball_small(const double* coords, const int64_t* columns, const BlockRange* ranges, int64_t count,
                                 const double* y, double bound, int64_t* sums) {
  const f64 limit = broadcast(bound);
  f64 at[D];
  for (int j = 0; j < D; ++j) at[j] = broadcast(y[j]);
  // Sums by lanes, in registers over all ranges; integers modulo 2⁶⁴, so lanes may be added later in any order.
  u64 rows = load_u64(sums), sum[C];
  for (int c = 0; c < C; ++c) sum[c] = load_u64(sums + (1 + c) * kLanes);
  for (int64_t r = 0; r < count; ++r) {
    const double* x = coords + ranges[r].begin * D * kLanes;
    const double* const end = coords + ranges[r].end * D * kLanes;
    const int64_t* column = columns + ranges[r].begin * C * kLanes;
    for (; x < end; x += D * kLanes, column += C * kLanes) {
      f64 distance = broadcast(0.0);
      for (int j = 0; j < D; ++j) {
        const f64 difference = load(x + j * kLanes) - at[j];
        distance = j == 0 ? difference * difference : distance + difference * difference;
      }
      // "Not beyond", so that D = bound counts: the ball is closed. y is finite, so ∞ − y is never NaN.
      const u64 inside = ~(u64)less(limit, distance);
      rows -= inside;
      for (int c = 0; c < C; ++c) sum[c] += inside & load_u64(column + c * kLanes);
    }
  }
  store_u64(sums, rows);
  for (int c = 0; c < C; ++c) store_u64(sums + (1 + c) * kLanes, sum[c]);
}

// Any number of dimensions and columns; a block without a point inside is left at once.
// With many columns most blocks near the sphere have no point inside, and the test saves reading their digits.
KNOLL_INLINE void add_ball_any(const double* coords, const int64_t* columns, const BlockRange* ranges, int64_t count,
                               int64_t d, int64_t c, const double* y, double bound, int64_t* sums) {
  const f64 limit = broadcast(bound);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t b = ranges[r].begin; b < ranges[r].end; ++b) {
      const i64 inside = ~less(limit, block_distance(coords + b * d * kLanes, d, y));
      if (!any(inside)) continue;
      const int64_t* const column = columns + b * c * kLanes;
      store_u64(sums, load_u64(sums) - (u64)inside);
      for (int64_t k = 0; k < c; ++k) {
        int64_t* const sum = sums + (1 + k) * kLanes;
        store_u64(sum, load_u64(sum) + ((u64)inside & load_u64(column + k * kLanes)));
      }
    }
}

static void add_ball(const double* coords, const int64_t* columns, const BlockRange* ranges, int64_t count, int64_t d,
                     int64_t c, const double* y, double bound, int64_t* sums) {
// C = 1 key, the digits of Σw if there are weights, and one or two digits per coordinate: the common cases.
#define KNOLL_BALL(D, C) \
  if (d == D && c == C) return add_ball_small<D, C>(coords, columns, ranges, count, y, bound, sums)
  KNOLL_BALL(1, 2);
  KNOLL_BALL(1, 3);
  KNOLL_BALL(2, 3);
  KNOLL_BALL(2, 4);
  KNOLL_BALL(2, 5);
  KNOLL_BALL(3, 4);
  KNOLL_BALL(3, 7);
#undef KNOLL_BALL
  add_ball_any(coords, columns, ranges, count, d, c, y, bound, sums);
}

// The digits of a coordinate v are made here instead of being read, which halves the bytes per point. With
// high = 1.5·2^(52 + low + bits), v + high rounds v to a multiple of 2^(low + bits), and that multiple, in units, is
// the difference of the bit patterns of v + high and high; the remainder v − (…), plus 1.5·2^(52 + low), gives the low
// digit likewise (Digits::add). Whole patterns are summed, and rows · pattern of the constant is subtracted at the end,
// all modulo 2⁶⁴.
template <int D>
KNOLL_INLINE void add_split(const double* coords, const int64_t* keys, const BlockRange* ranges, int64_t count,
                            const double* y, double bound, const double* split, int64_t* sums) {
  const f64 limit = broadcast(bound);
  f64 at[D], low[D], high[D];
  // Sums of digits stay below 2⁶¹ in magnitude (docs/numerics/sums.md, S7).
  u64 rows = {}, key = load_u64(sums + kLanes), digits[2 * D] = {};
  for (int j = 0; j < D; ++j) {
    at[j] = broadcast(y[j]);
    low[j] = broadcast(split[2 * j]);
    high[j] = broadcast(split[2 * j + 1]);
  }
  for (int64_t r = 0; r < count; ++r) {
    const double* x = coords + ranges[r].begin * D * kLanes;
    const double* const end = coords + ranges[r].end * D * kLanes;
    const int64_t* k = keys + ranges[r].begin * kLanes;
    for (; x < end; x += D * kLanes, k += kLanes) {
      f64 distance = broadcast(0.0);
      for (int j = 0; j < D; ++j) {
        const f64 difference = load(x + j * kLanes) - at[j];
        distance = j == 0 ? difference * difference : distance + difference * difference;
      }
      const u64 inside = ~(u64)less(limit, distance);
      rows -= inside;
      key += inside & load_u64(k);
      for (int j = 0; j < D; ++j) {
        const f64 v = load(x + j * kLanes), rounded = v + high[j];
        digits[2 * j] += inside & (u64)(v - (rounded - high[j]) + low[j]);
        digits[2 * j + 1] += inside & (u64)rounded;
      }
    }
  }
  store_u64(sums + kLanes, key);
  for (int j = 0; j < D; ++j) {
    // Each row added the pattern of the constant once: rows · pattern, per lane, is taken off again.
    digits[2 * j] -= rows * (u64)low[j];
    digits[2 * j + 1] -= rows * (u64)high[j];
  }
  store_u64(sums, load_u64(sums) + rows);
  for (int k = 0; k < 2 * D; ++k) {
    int64_t* const sum = sums + (2 + k) * kLanes;
    store_u64(sum, load_u64(sum) + digits[k]);
  }
}

static void add_ball_split(const double* coords, const int64_t* keys, const BlockRange* ranges, int64_t count,
                           int64_t d, const double* y, double bound, const double* split, int64_t* sums) {
  if (d == 1) return add_split<1>(coords, keys, ranges, count, y, bound, split, sums);
  if (d == 2) return add_split<2>(coords, keys, ranges, count, y, bound, split, sums);
  add_split<3>(coords, keys, ranges, count, y, bound, split, sums);
}

// prefix[end] − prefix[begin] of every range, V vectors of a row at a time: O(1) per range, however many points.
// Differences are exact for the digits and right modulo 2⁶⁴ for the keys (docs/numerics/balls.md, B2).
template <int V>
KNOLL_INLINE void add_prefix_vectors(const int64_t* prefix, int64_t width, const BlockRange* ranges, int64_t count,
                                     int64_t* sums) {
  u64 sum[V];
  for (int v = 0; v < V; ++v) sum[v] = load_u64(sums + v * kLanes);
  for (int64_t r = 0; r < count; ++r) {
    const int64_t* const low = prefix + ranges[r].begin * width;
    const int64_t* const high = prefix + ranges[r].end * width;
    for (int v = 0; v < V; ++v) sum[v] += load_u64(high + v * kLanes) - load_u64(low + v * kLanes);
  }
  for (int v = 0; v < V; ++v) store_u64(sums + v * kLanes, sum[v]);
}

static void add_prefix(const int64_t* prefix, int64_t width, const BlockRange* ranges, int64_t count, int64_t* sums) {
  int64_t k = 0;
  for (; k + 2 * kLanes <= width; k += 2 * kLanes) add_prefix_vectors<2>(prefix + k, width, ranges, count, sums + k);
  if (k < width) add_prefix_vectors<1>(prefix + k, width, ranges, count, sums + k);
}

// κ = exp(−‖x − y‖²·scale). Points with an exponent below `least` (log 1e-16) are skipped.
// Plain float64 sums: their order is that of the blocks, hence of the tree, and one for all threads. exp is within 1
// ulp, so bits differ between instruction sets by rounding alone (docs/numerics/balls.md, B7).
static void add_gauss(const double* coords, const double* weights, int64_t blocks, int64_t d, const double* y,
                      double scale, double least, double* sums) {
  const f64 zero = broadcast(0.0);
  for (int64_t b = 0; b < blocks; ++b, coords += d * kLanes) {
    const f64 s = -block_distance(coords, d, y) * broadcast(scale);
    const i64 inside = ~less(s, broadcast(least));
    if (!any(inside)) continue;
    f64 kappa = select(inside, vexp(s), zero);
    if (weights != nullptr) kappa *= load(weights + b * kLanes);
    store(sums, load(sums) + kappa);
    for (int64_t j = 0; j < d; ++j) {
      double* const sum = sums + (1 + j) * kLanes;
      const f64 x = select(inside, load(coords + j * kLanes), zero);  // an empty lane is infinite, and 0·∞ = NaN
      store(sum, fma(kappa, x, load(sum)));
    }
  }
}

static constexpr AscentKernels ascent_kernels = {
    .add_ball = add_ball, .add_ball_split = add_ball_split, .add_prefix = add_prefix, .add_gauss = add_gauss};
