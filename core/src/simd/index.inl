// Tiles of pairs for the spatial index, written over lanes; simd_index.hpp is their table and says what each computes.
// Every operation is a monotone function of its operands under rounding and none is fused, so the same formula over the
// gaps of two boxes bounds all pairs of points in them, without any margin (docs/decisions/0011).

// |v|, lane by lane.
KNOLL_INLINE f64 magnitude(f64 v) {
  const int64_t rest = INT64_MAX;  // all bits but the sign
  return (f64)((i64)v & i64{rest, rest, rest, rest});
}

// Reductions: start from zero, add one coordinate's difference after the other.
struct Squares {
  static inline __attribute__((always_inline)) f64 add(f64 sum, f64 difference, f64) {
    return sum + difference * difference;
  }
};
struct ScaledSquares {
  static inline __attribute__((always_inline)) f64 add(f64 sum, f64 difference, f64 scale) {
    difference *= scale;
    return sum + difference * difference;
  }
};
struct Absolute {
  static inline __attribute__((always_inline)) f64 add(f64 sum, f64 difference, f64) {
    return sum + magnitude(difference);
  }
};
struct Largest {
  static inline __attribute__((always_inline)) f64 add(f64 sum, f64 difference, f64) {
    return at_least(magnitude(difference), sum);
  }
};

constexpr int kHalf = kPoints / kLanes / 2;  // vectors of half a tile: their sums and counts stay in registers

// The reduced distances of kHalf·kLanes lanes to one point; `b` points at its first coordinate.
template <class R>
KNOLL_INLINE void reduce_half(const double* a, const double* b, int64_t d, f64 scale, f64* sum) {
  for (int v = 0; v < kHalf; ++v) sum[v] = broadcast(0.0);
  for (int64_t j = 0; j < d; ++j) {
    const f64 y = broadcast(b[j * kPoints]);
    for (int v = 0; v < kHalf; ++v) sum[v] = R::add(sum[v], load(a + j * kPoints + v * kLanes) - y, scale);
  }
}

template <class R>
static void index_tile(const double* a, const double* b, int64_t d, int64_t m, double scale, double* out) {
  for (int64_t t = 0; t < m; ++t)
    for (int half = 0; half < 2; ++half) {
      f64 sum[kHalf];
      reduce_half<R>(a + half * kHalf * kLanes, b + t, d, broadcast(scale), sum);
      for (int v = 0; v < kHalf; ++v) store(out + t * kPoints + (half * kHalf + v) * kLanes, sum[v]);
    }
}

template <class R>
static void index_count(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                        int64_t* counts) {
  const f64 limit = broadcast(bound);
  for (int half = 0; half < 2; ++half) {
    i64 outside[kHalf] = {};  // minus the number of points beyond the bound
    for (int64_t t = 0; t < m; ++t) {
      f64 sum[kHalf];
      reduce_half<R>(a + half * kHalf * kLanes, b + t, d, broadcast(scale), sum);
      for (int v = 0; v < kHalf; ++v) outside[v] += less(limit, sum[v]);
    }
    for (int v = 0; v < kHalf; ++v)
      for (int l = 0; l < kLanes; ++l) counts[(half * kHalf + v) * kLanes + l] += m + outside[v][l];
  }
}

// One bit a lane, the lowest for lane 0.
KNOLL_INLINE uint32_t lane_bits(i64 mask) {
#ifdef __FMA__
  return (uint32_t)_mm256_movemask_pd((__m256d)mask);
#else
  return (uint32_t)((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
#endif
}

template <class R>
static void index_bits(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                       uint32_t* bits) {
  const f64 limit = broadcast(bound);
  for (int64_t t = 0; t < m; ++t) {
    uint32_t beyond = 0;
    for (int half = 0; half < 2; ++half) {
      f64 sum[kHalf];
      reduce_half<R>(a + half * kHalf * kLanes, b + t, d, broadcast(scale), sum);
      for (int v = 0; v < kHalf; ++v) beyond |= lane_bits(less(limit, sum[v])) << (half * kHalf + v) * kLanes;
    }
    bits[t] = ~beyond;
  }
}

static constexpr IndexKernels index_kernels = {
    .tile = {index_tile<Squares>, index_tile<ScaledSquares>, index_tile<Absolute>, index_tile<Largest>},
    .count = {index_count<Squares>, index_count<ScaledSquares>, index_count<Absolute>, index_count<Largest>},
    .bits = {index_bits<Squares>, index_bits<ScaledSquares>, index_bits<Absolute>, index_bits<Largest>},
};
