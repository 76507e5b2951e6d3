// Tiles of pairs for the spatial index, written over lanes; neighbors/index_kernels.hpp is their table and states what
// each computes. Subtraction, squaring, |·|, + and max are monotone under rounding and none is fused, so the same
// formula over the gaps and the spans of two boxes bounds the computed distance of all pairs of points in them, without
// a margin:
//     fl Σ gap_j² ≤ fl Σ (x_j − y_j)² ≤ fl Σ span_j²        (docs/numerics/index.md, X1).

// |v|, lane by lane.
KNOLL_INLINE f64 magnitude(f64 v) {
  const int64_t bits = INT64_MAX;  // all bits but the sign
  return (f64)((i64)v & i64{bits, bits, bits, bits});
}

// Reductions: start from zero, add one coordinate's difference after the other.
// Each step is monotone in |difference| as computed, and none is fused: the condition of X1.
struct Squares {
  static inline __attribute__((always_inline)) f64 add(f64 sum, f64 difference, f64) {
    return sum + difference * difference;
  }
};
struct ScaledSquares {
  static inline __attribute__((always_inline)) f64 add(f64 sum, f64 difference, f64 scale) {
    // A power of two: exact, unless it leaves the range, where rounding is still monotone (docs/numerics/index.md, X6).
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
    // A NaN difference would stay NaN; coordinates are finite, or infinite past the last point of a tile.
    return at_least(magnitude(difference), sum);
  }
};

constexpr int kHalf = kPoints / kLanes / 2;  // vectors of half a tile: their sums and counts stay in registers

// The reduced distances of kHalf·kLanes lanes to one point; `b` points at its first coordinate.
// One chain per lane over j: a lane's bits do not depend on its neighbours or on which half it is in.
template <class R>
KNOLL_INLINE void reduce_half(const double* a, const double* b, int64_t d, f64 scale, f64* sum) {
  for (int v = 0; v < kHalf; ++v) sum[v] = broadcast(0.0);
  for (int64_t j = 0; j < d; ++j) {
    const f64 y = broadcast(b[j * kPoints]);
    for (int v = 0; v < kHalf; ++v) sum[v] = R::add(sum[v], load(a + j * kPoints + v * kLanes) - y, scale);
  }
}

// Half a tile, 16 points, at a time: four accumulators and their operands stay in registers.
template <class R>
static void index_tile(const double* a, const double* b, int64_t d, int64_t m, double scale, double* out) {
  for (int64_t t = 0; t < m; ++t)
    for (int half = 0; half < 2; ++half) {
      f64 sum[kHalf];
      reduce_half<R>(a + half * kHalf * kLanes, b + t, d, broadcast(scale), sum);
      for (int v = 0; v < kHalf; ++v) store(out + t * kPoints + (half * kHalf + v) * kLanes, sum[v]);
    }
}

// Counts points that are *not* beyond the bound, m + Σ mask: a comparison's mask is −1, so it is added as it is.
template <class R>
static void index_count(const double* a, const double* b, int64_t d, int64_t m, double scale, double bound,
                        int64_t* counts) {
  const f64 limit = broadcast(bound);
  for (int half = 0; half < 2; ++half) {
    // Masks are summed as they come: −1 for each point beyond.
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

// The tile, and the lanes whose reduced distance is below a limit of their own; kept apart from index_bits, whose one
// bound stays in a register.
template <class R>
static void index_below(const double* a, const double* b, int64_t d, int64_t m, double scale, const double* limits,
                        double* out, uint32_t* bits) {
  for (int64_t t = 0; t < m; ++t) {
    uint32_t below = 0;
    for (int half = 0; half < 2; ++half) {
      f64 sum[kHalf];
      reduce_half<R>(a + half * kHalf * kLanes, b + t, d, broadcast(scale), sum);
      for (int v = 0; v < kHalf; ++v) {
        const int lane = (half * kHalf + v) * kLanes;
        store(out + t * kPoints + lane, sum[v]);
        below |= lane_bits(less(sum[v], load(limits + lane))) << lane;
      }
    }
    bits[t] = below;
  }
}

// The distances of q to four points.
// The one distance with a number of columns that the compiler knows (docs/numerics/rounding.md, D1).
template <int D>
KNOLL_INLINE f64 squares_at(const double* x, int64_t stride, const f64* q) {
  f64 sum = broadcast(0.0);
  for (int j = 0; j < D; ++j) {
    const f64 difference = load(x + j * stride) - q[j];
    sum += difference * difference;
  }
  return sum;
}

// One point against spans. The last vector of a span reads up to three points past it; `valid` masks their bits.
template <int D>
KNOLL_INLINE int64_t count_spans_in(const double* columns, int64_t stride, const int32_t* spans, int64_t n_spans,
                                    const double* point, double bound, int64_t stop) {
  constexpr int64_t kBlock = 64;  // points between two tests of `stop`
  f64 q[D];
  for (int j = 0; j < D; ++j) q[j] = broadcast(point[j]);
  const f64 limit = broadcast(bound);
  int64_t count = 0;
  for (int64_t s = 0; s < n_spans; ++s) {
    const double *x = columns + spans[2 * s], *const end = columns + spans[2 * s + 1];
    while (end - x >= kLanes) {
      // A test per 64 points: the inner loop has no other branch.
      const int64_t vectors = (end - x < kBlock ? end - x : kBlock) / kLanes;
      i64 outside = {};
      for (int64_t v = 0; v < vectors; ++v, x += kLanes) outside += less(limit, squares_at<D>(x, stride, q));
      count += vectors * kLanes + outside[0] + outside[1] + outside[2] + outside[3];
      if (count >= stop) return count;
    }
    if (x < end) {
      const uint32_t valid = (uint32_t{1} << (end - x)) - 1;
      count += __builtin_popcount(valid & ~lane_bits(less(limit, squares_at<D>(x, stride, q))));
      if (count >= stop) return count;
    }
  }
  return count;
}

static int64_t count_spans(const double* columns, int64_t stride, int64_t d, const int32_t* spans, int64_t n_spans,
                           const double* q, double bound, int64_t stop) {
  if (d == 1) return count_spans_in<1>(columns, stride, spans, n_spans, q, bound, stop);
  if (d == 2) return count_spans_in<2>(columns, stride, spans, n_spans, q, bound, stop);
  if (d == 3) return count_spans_in<3>(columns, stride, spans, n_spans, q, bound, stop);
  if (d == 4) return count_spans_in<4>(columns, stride, spans, n_spans, q, bound, stop);
  return count_spans_in<5>(columns, stride, spans, n_spans, q, bound, stop);
}

// The least squared distance; lanes past a span count as infinite.
template <int D>
KNOLL_INLINE double least_spans_in(const double* columns, int64_t stride, const int32_t* spans, int64_t n_spans,
                                   const double* point) {
  f64 q[D];
  for (int j = 0; j < D; ++j) q[j] = broadcast(point[j]);
  const f64 infinity = broadcast(__builtin_inf()), lane = {0, 1, 2, 3};
  f64 least = infinity;
  for (int64_t s = 0; s < n_spans; ++s) {
    const double *x = columns + spans[2 * s], *const end = columns + spans[2 * s + 1];
    for (; end - x >= kLanes; x += kLanes) least = at_most(squares_at<D>(x, stride, q), least);
    if (x < end) {
      // Lanes past the span hold other points or zeros: they must not win.
      const i64 real = less(lane, broadcast((double)(end - x)));
      least = at_most(select(real, squares_at<D>(x, stride, q), infinity), least);
    }
  }
  const double a = least[0] < least[1] ? least[0] : least[1], b = least[2] < least[3] ? least[2] : least[3];
  return a < b ? a : b;
}

static double least_spans(const double* columns, int64_t stride, int64_t d, const int32_t* spans, int64_t n_spans,
                          const double* q) {
  if (d == 1) return least_spans_in<1>(columns, stride, spans, n_spans, q);
  if (d == 2) return least_spans_in<2>(columns, stride, spans, n_spans, q);
  if (d == 3) return least_spans_in<3>(columns, stride, spans, n_spans, q);
  if (d == 4) return least_spans_in<4>(columns, stride, spans, n_spans, q);
  return least_spans_in<5>(columns, stride, spans, n_spans, q);
}

// As count_spans, transposed: V vectors of points q in the lanes, the points of the spans one after the other. It stops
// when no lane is missing any, tested once per kBlock points.
// Transposed, because spans are long and a block's own points few: each point of a span is loaded once for 4 or 8
// queries.
template <int D, int V>
KNOLL_INLINE void count_each_in(const double* q, int64_t q_stride, const double* columns, int64_t stride,
                                const int32_t* spans, int64_t n_spans, double bound, int64_t stop, int64_t* counts) {
  constexpr int64_t kBlock = 64;  // points between two tests of `stop`
  f64 at[V][D];
  i64 missing[V];  // stop − count: at most 0 once there are enough
  for (int v = 0; v < V; ++v) {
    for (int j = 0; j < D; ++j) at[v][j] = load(q + j * q_stride + v * kLanes);
    i64 before;
    __builtin_memcpy(&before, counts + v * kLanes, sizeof before);
    missing[v] = stop - before;
  }
  const f64 limit = broadcast(bound);
  bool more = true;
  for (int64_t s = 0; s < n_spans && more; ++s) {
    const double *x = columns + spans[2 * s], *const end = columns + spans[2 * s + 1];
    while (x < end && more) {
      const int64_t points = end - x < kBlock ? end - x : kBlock;
      for (const double* const here = x + points; x < here; ++x) {
        f64 sum[V];
        for (int v = 0; v < V; ++v) sum[v] = broadcast(0.0);
        for (int j = 0; j < D; ++j) {
          const f64 coordinate = broadcast(x[j * stride]);
          for (int v = 0; v < V; ++v) {
            const f64 difference = coordinate - at[v][j];
            sum[v] += difference * difference;
          }
        }
        for (int v = 0; v < V; ++v) missing[v] -= less(limit, sum[v]);  // the mask is −1 beyond the bound: adds 1 back
      }
      i64 wanting = {};  // the sign bit is set where missing > 0
      for (int v = 0; v < V; ++v) {
        missing[v] -= points;
        wanting |= -missing[v];
      }
      more = lane_bits(wanting >> 63) != 0;
    }
  }
  for (int v = 0; v < V; ++v) {
    const i64 after = stop - missing[v];
    __builtin_memcpy(counts + v * kLanes, &after, sizeof after);
  }
}

template <int D>
KNOLL_INLINE void count_each_of(const double* q, int64_t q_stride, int64_t m, const double* columns, int64_t stride,
                                const int32_t* spans, int64_t n_spans, double bound, int64_t stop, int64_t* counts) {
  // Two vectors of queries hide the latency of the additions; more would not fit the registers for D = 5.
  constexpr int kTwo = 2 * kLanes;
  for (; m >= kTwo; m -= kTwo, q += kTwo, counts += kTwo)
    count_each_in<D, 2>(q, q_stride, columns, stride, spans, n_spans, bound, stop, counts);
  if (m > 0) count_each_in<D, 1>(q, q_stride, columns, stride, spans, n_spans, bound, stop, counts);
}

static void count_each(const double* q, int64_t q_stride, int64_t m, const double* columns, int64_t stride, int64_t d,
                       const int32_t* spans, int64_t n_spans, double bound, int64_t stop, int64_t* counts) {
  if (d == 1) return count_each_of<1>(q, q_stride, m, columns, stride, spans, n_spans, bound, stop, counts);
  if (d == 2) return count_each_of<2>(q, q_stride, m, columns, stride, spans, n_spans, bound, stop, counts);
  if (d == 3) return count_each_of<3>(q, q_stride, m, columns, stride, spans, n_spans, bound, stop, counts);
  if (d == 4) return count_each_of<4>(q, q_stride, m, columns, stride, spans, n_spans, bound, stop, counts);
  count_each_of<5>(q, q_stride, m, columns, stride, spans, n_spans, bound, stop, counts);
}

static constexpr IndexKernels index_kernels = {
    .tile = {index_tile<Squares>, index_tile<ScaledSquares>, index_tile<Absolute>, index_tile<Largest>},
    .count = {index_count<Squares>, index_count<ScaledSquares>, index_count<Absolute>, index_count<Largest>},
    .bits = {index_bits<Squares>, index_bits<ScaledSquares>, index_bits<Absolute>, index_bits<Largest>},
    .below = {index_below<Squares>, index_below<ScaledSquares>, index_below<Absolute>, index_below<Largest>},
    .count_spans = count_spans,
    .least_spans = least_spans,
    .count_each = count_each,
};
