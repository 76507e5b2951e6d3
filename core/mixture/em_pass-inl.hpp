// One pass of EM over a tile of points (docs/theory/02-gaussian-mixture.md, eq. 2.5–2.8). The tile's `points`, a
// multiple of 48, are in lanes:  columns[j · points + l]  is column j of point l, with rows of zeros up to the next
// multiple of 4 columns. Distances come from differences x − μ, never from expanded squares: ‖x‖² − 2xᵀμ + ‖μ‖² loses
// log₂(‖μ‖²/σ²) bits, which a narrow component far from the origin does not have.

// A 4 × 4 transpose in eight shuffles: pairs of lanes first, then pairs of pairs.
KNOLL_INLINE void transpose(f64 v[4]) {
  const f64 p = __builtin_shufflevector(v[0], v[1], 0, 4, 2, 6), q = __builtin_shufflevector(v[0], v[1], 1, 5, 3, 7);
  const f64 r = __builtin_shufflevector(v[2], v[3], 0, 4, 2, 6), s = __builtin_shufflevector(v[2], v[3], 1, 5, 3, 7);
  v[0] = __builtin_shufflevector(p, r, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(q, s, 0, 1, 4, 5);
  v[2] = __builtin_shufflevector(p, r, 2, 3, 6, 7);
  v[3] = __builtin_shufflevector(q, s, 2, 3, 6, 7);
}

// Four points (the rows of v) and four columns: into the strip as they are, into the columns transposed.
KNOLL_INLINE void put_square(f64 v[4], int64_t l, int64_t points, double* columns, double* strip) {
  // Strips as they are, row after row, for products over the points; columns transposed, for work in lanes.
  if (strip != nullptr)
    for (int t = 0; t < 4; ++t) store(strip + (l + t) * 4, v[t]);
  transpose(v);
  for (int t = 0; t < 4; ++t) store(columns + t * points + l, v[t]);
}

// Four rows and the first `Count` of four columns; rows from `there` on are zeros. The loops have a known length, so
// that g++ keeps v in registers.
template <int Count, class T>
KNOLL_INLINE void load_square(const T* x, int64_t stride, int64_t there, f64 o, f64 s, f64 v[4]) {
  if (there >= 4) {
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) v[t] = (load_first_as_f64<Count>(x + t * stride) - o) * s;
  } else {
    // Rows past the end are zeros and not copies: their responsibility is made 0, and 0·0 adds nothing.
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) v[t] = t < there ? (load_first_as_f64<Count>(x + t * stride) - o) * s : f64{};
  }
}

// Four rows at a time, from left to right. The last strip has `Last` columns, or four where that is 0.
template <int Last, class T>
KNOLL_INLINE void pack_squares(const T* x, int64_t stride, int64_t rows, int64_t points, int64_t d,
                               const double* origin, double scale, double* columns, double* strips) {
  const int64_t whole = d - Last;
  // scale is a power of two, so the product is exact: y errs by the rounding of x − origin alone.
  const f64 s = broadcast(scale), last = load_tail(origin + whole, Last, 0.0);
  f64 v[4];
  for (int64_t l = 0; l < points; l += 4, x += 4 * stride) {
    for (int64_t j = 0; j < whole; j += 4) {
      load_square<4>(x + j, stride, rows - l, load(origin + j), s, v);
      put_square(v, l, points, columns + j * points, strips == nullptr ? nullptr : strips + j * points);
    }
    if constexpr (Last > 0) {
      load_square<Last>(x + whole, stride, rows - l, last, s, v);
      put_square(v, l, points, columns + whole * points, strips == nullptr ? nullptr : strips + whole * points);
    }
  }
}

// Two contiguous columns: two vectors hold four points.
template <class T>
KNOLL_INLINE void pack_plane(const T* x, int64_t points, const double* origin, double scale, double* columns) {
  const f64 o = {origin[0], origin[1], origin[0], origin[1]}, s = broadcast(scale);
  for (int64_t l = 0; l < points; l += 4) {
    const f64 a = (load_as_f64(x + 2 * l) - o) * s, b = (load_as_f64(x + 2 * l + 4) - o) * s;
    store(columns + l, __builtin_shufflevector(a, b, 0, 2, 4, 6));
    store(columns + points + l, __builtin_shufflevector(a, b, 1, 3, 5, 7));
  }
}

// columns(j, l) = strips(l, j) = (x[l, j] − origin[j])·scale; zeros from `rows` and from d on. Strips are those of
// simd/tile-inl.hpp, `points` high.
template <class T>
KNOLL_INLINE void mixture_pack(const T* x, int64_t stride, int64_t rows, int64_t points, int64_t d,
                               const double* origin, double scale, double* columns, double* strips) {
  // The most common small case: no transposition of half-empty squares.
  if (d == 2 && stride == 2 && rows == points && strips == nullptr) {
    pack_plane(x, points, origin, scale, columns);
    return;
  }
  if (d % 4 == 0) pack_squares<0>(x, stride, rows, points, d, origin, scale, columns, strips);
  if (d % 4 == 1) pack_squares<1>(x, stride, rows, points, d, origin, scale, columns, strips);
  if (d % 4 == 2) pack_squares<2>(x, stride, rows, points, d, origin, scale, columns, strips);
  if (d % 4 == 3) pack_squares<3>(x, stride, rows, points, d, origin, scale, columns, strips);
}
static void mixture_pack_f64(const double* x, int64_t stride, int64_t rows, int64_t points, int64_t d,
                             const double* origin, double scale, double* columns, double* strips) {
  mixture_pack(x, stride, rows, points, d, origin, scale, columns, strips);
}
static void mixture_pack_f32(const float* x, int64_t stride, int64_t rows, int64_t points, int64_t d,
                             const double* origin, double scale, double* columns, double* strips) {
  mixture_pack(x, stride, rows, points, d, origin, scale, columns, strips);
}

// ---- the E step ----

// constant − ½ q. An overflow of q counts as kMixtureFarthest, so the result is finite and log-sum-exp has no ∞ − ∞.
// at_most keeps a NaN, which `Tile::has_far` finds. docs/numerics/mixture.md, M1.
KNOLL_INLINE f64 log_density(f64 q, double constant) {
  return fma(at_most(q, broadcast(kMixtureFarthest)), broadcast(-0.5), broadcast(constant));
}

// The factor of `full` and `whiten` for d > 3: rows in blocks of four, block by block, column after column, up to the
// diagonal's block: F[4b + t, j] at 8b(b+1) + 4j + t for j < 4b + 4. Zeros above the diagonal and from d on. For
// d ≤ 3: the lower triangle, row by row. Blocks of 4 rows × 12 points are 12 accumulators, which with three loads and a
// broadcast fill the sixteen registers.
//
// z[t] += f[t] y for the rows t ≥ First of a block, twelve points.
// Twelve chains, each over the columns in one order: the bits of a row of F u do not depend on the block.
template <int First>
KNOLL_INLINE void lower_column(const double* f, const double* y, f64 z[4][3]) {
  const f64 y0 = load(y), y1 = load(y + kLanes), y2 = load(y + 2 * kLanes);
#pragma GCC unroll 4
  for (int t = First; t < 4; ++t) {
    const f64 g = broadcast(f[t]);
    z[t][0] = fma(g, y0, z[t][0]);
    z[t][1] = fma(g, y1, z[t][1]);
    z[t][2] = fma(g, y2, z[t][2]);
  }
}

// z = rows i … i+3 of start + F u for twelve points. The triangle on the diagonal comes first, unrolled without the
// zeros above it; one loop over the columns before it follows, if there are any.
template <bool Any>
KNOLL_INLINE void lower_block(const double* u, int64_t points, int64_t i, const double* factor, const double* start,
                              f64 z[4][3]) {
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) z[t][0] = z[t][1] = z[t][2] = broadcast(start[t]);
  const double *const f = factor + 4 * i, *const y = u + i * points;
  // Column i has four rows below the diagonal, column i + 1 three, and so on.
  lower_column<0>(f, y, z);
  lower_column<1>(f + 4, y + points, z);
  lower_column<2>(f + 8, y + 2 * points, z);
  lower_column<3>(f + 12, y + 3 * points, z);
  if constexpr (Any) do {  // at least one column: in this form g++ keeps all of z in registers
      lower_column<0>(factor, u, z);
      factor += 4, u += points;
    } while (factor < f);
}

constexpr double kZeros[4] = {};

// body(i, l, z) for z = rows i … i+3 of start + F u, points l … l+11; start (ld) may be null, for 0.
template <class F>
KNOLL_INLINE void lower_blocks(const double* u, int64_t points, int64_t d, const double* factor, const double* start,
                               F&& body) {
  // The first block has no columns before its diagonal: its own instance, without the loop.
  for (int64_t l = 0; l < points; l += 3 * kLanes) {
    f64 z[4][3];
    lower_block<false>(u + l, points, 0, factor, start == nullptr ? kZeros : start, z);
    body(0, l, z);
  }
  factor += 16;
  for (int64_t i = 4; i < d; factor += 4 * (i + 4), i += 4)
    for (int64_t l = 0; l < points; l += 3 * kLanes) {
      f64 z[4][3];
      lower_block<true>(u + l, points, i, factor, start == nullptr ? kZeros : start + i, z);
      body(i, l, z);
    }
}

// ‖F (x − μ)‖² for d ≤ 3, where everything fits in registers.
// Differences first, so the error is relative to the distance.
template <int D>
KNOLL_INLINE void full_small(const double* columns, int64_t points, const double* mean, const double* factor,
                             double constant, double* out) {
  for (int64_t l = 0; l < points; l += kLanes) {
    f64 u[D], q = {};
    for (int i = 0; i < D; ++i) {
      u[i] = load(columns + i * points + l) - broadcast(mean[i]);
      f64 z = broadcast(factor[i * (i + 1) / 2]) * u[0];
      for (int j = 1; j <= i; ++j) z = fma(broadcast(factor[i * (i + 1) / 2 + j]), u[j], z);
      q = fma(z, z, q);
    }
    store(out + l, log_density(q, constant));
  }
}

// out[l] = constant − ½ ‖F (x_l − μ)‖², F lower triangular. `start` (ld) may hold −Fμ, where |F||μ| ≤ kNear
// (em_tile.hpp) bounds the cancellation in F x − F μ; else it is null, and differences are taken first, into
// `centered`, a tile of scratch. For d ≤ 3 it is never read.
static void mixture_full(const double* columns, int64_t points, int64_t d, const double* mean, const double* factor,
                         const double* start, double constant, double* centered, double* out) {
  if (d == 1) return full_small<1>(columns, points, mean, factor, constant, out);
  if (d == 2) return full_small<2>(columns, points, mean, factor, constant, out);
  if (d == 3) return full_small<3>(columns, points, mean, factor, constant, out);
  if (start == nullptr) {
    // Where x and μ are within a factor of two, x − μ is exact (Sterbenz); F x − F μ would cancel instead.
    const int64_t ld = (d + 3) / 4 * 4;
    for (int64_t j = 0; j < ld; ++j) {
      const f64 m = broadcast(j < d ? mean[j] : 0.0);
      for (int64_t l = 0; l < points; l += kLanes) store(centered + j * points + l, load(columns + j * points + l) - m);
    }
    columns = centered;
  }
  for (int64_t l = 0; l < points; l += kLanes) store(out + l, f64{});
  // Squares are added block by block in the order of the rows of F.
  lower_blocks(columns, points, d, factor, start,
               [&](int64_t, int64_t l, const f64 z[4][3]) __attribute__((always_inline)) {
                 for (int v = 0; v < 3; ++v) {
                   f64 q = load(out + l + 4 * v);
                   for (int t = 0; t < 4; ++t) q = fma(z[t][v], z[t][v], q);
                   store(out + l + 4 * v, q);
                 }
               });
  for (int64_t l = 0; l < points; l += kLanes) store(out + l, log_density(load(out + l), constant));
}

// out = F x, as a tile.
static void mixture_whiten(const double* columns, int64_t points, int64_t d, const double* factor, double* out) {
  if (d > 3) {
    lower_blocks(columns, points, d, factor, nullptr,
                 [&](int64_t i, int64_t l, const f64 z[4][3]) __attribute__((always_inline)) {
                   for (int t = 0; t < 4; ++t)
                     for (int v = 0; v < 3; ++v) store(out + (i + t) * points + l + 4 * v, z[t][v]);
                 });
    return;
  }
  for (int64_t l = 0; l < points; l += kLanes) {
    const double* f = factor;
    for (int64_t i = 0; i < d; ++i) {
      f64 z = {};
      for (int64_t j = 0; j <= i; ++j) z = fma(broadcast(*f++), load(columns + j * points + l), z);
      store(out + i * points + l, z);
    }
  }
}

// out[l] = constant − ½ Σ_j (f_j (x_lj − μ_j))². Six vectors at a time: six independent chains of fma hide their
// latency.
static void mixture_diagonal(const double* columns, int64_t points, int64_t d, const double* mean, const double* factor,
                             double constant, double* out) {
  // points is a multiple of 48 = two rounds of six vectors of four.
  constexpr int kVectors = 6;
  for (int64_t l = 0; l < points; l += kVectors * kLanes) {
    f64 q[kVectors] = {};
    for (int64_t j = 0; j < d; ++j) {
      const f64 m = broadcast(mean[j]), f = broadcast(factor[j]);
      for (int v = 0; v < kVectors; ++v) {
        // A difference, then the factor: no expanded squares, whatever the shape.
        const f64 z = (load(columns + j * points + l + v * kLanes) - m) * f;
        q[v] = fma(z, z, q[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) store(out + l + v * kLanes, log_density(q[v], constant));
  }
}

// out[l] = constant − ½ factor ‖x_l − μ‖². Also the tied shape, where x and μ are whitened and the factor is 1.
static void mixture_spherical(const double* columns, int64_t points, int64_t d, const double* mean, double factor,
                              double constant, double* out) {
  constexpr int kVectors = 6;
  for (int64_t l = 0; l < points; l += kVectors * kLanes) {
    f64 q[kVectors] = {};
    for (int64_t j = 0; j < d; ++j) {
      const f64 m = broadcast(mean[j]);
      for (int v = 0; v < kVectors; ++v) {
        const f64 z = load(columns + j * points + l + v * kLanes) - m;
        q[v] = fma(z, z, q[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) store(out + l + v * kLanes, log_density(q[v] * broadcast(factor), constant));
  }
}

// tops[l] = the largest of rows[:, l]; rows become e^(rows − top), sums[l] their sum. Arguments are ≤ 0 and one of them
// is 0, so nothing overflows and sums[l] is in [1, k].
KNOLL_INLINE void exponentials(double* rows, int64_t k, int64_t points, double* tops, double* sums) {
  for (int64_t l = 0; l < points; l += kLanes) {
    f64 top = load(rows + l);
    for (int64_t c = 1; c < k; ++c) top = at_least(top, load(rows + c * points + l));
    store(tops + l, top);
    store(sums + l, f64{});
  }
  // Row after row, so that the chains of neighbouring vectors overlap in the exponential.
  for (int64_t c = 0; c < k; ++c, rows += points)
    for (int64_t l = 0; l < points; l += kLanes) {
      const f64 e = vexp_down(load(rows + l) - load(tops + l));
      store(rows + l, e);
      store(sums + l, load(sums + l) + e);
    }
}

// The same for three rows: the largest exponential is 1, so two are computed.
// The order of the addition is largest, middle, lowest: the same for any order of the components.
KNOLL_INLINE void exponentials_of_three(double* rows, int64_t points, double* tops, double* sums) {
  const f64 one = broadcast(1.0);
  for (int64_t l = 0; l < points; l += kLanes, rows += kLanes) {
    const f64 a = load(rows), b = load(rows + points), c = load(rows + 2 * points);
    const i64 second = less(a, b);
    const f64 high = at_least(a, b), low = at_most(a, b);
    const i64 third = less(high, c);
    const f64 top = at_least(high, c), middle = at_most(high, c);
    const f64 e_low = vexp_down(low - top), e_middle = vexp_down(middle - top);
    const f64 e_high = select(third, e_middle, one);
    store(rows, select(second, e_low, e_high));
    store(rows + points, select(second, e_high, e_low));
    store(rows + 2 * points, select(third, one, e_middle));
    store(tops + l, top);
    store(sums + l, (one + e_middle) + e_low);
  }
}

// From rows[c, l] = log p(x_l, c), which is finite, to rows[c, l] = w_l λ_lc (eq. 2.5), by log-sum-exp about the
// largest of each column; log_p[l] = log Σ_c e^rows[c, l], unless it is null; likelihood (4) += w_l log_p[l] by lanes;
// peaks (k, 4): the largest λ_lc with w_l > 0, by lanes. Weights may be null: then all are 1.
static void mixture_normalise(double* rows, int64_t k, int64_t points, const double* weights, double* log_p,
                              double* likelihood, double* peaks) {
  // docs/numerics/mixture.md, M3.
  double tops[kMixturePoints], sums[kMixturePoints];
  if (k == 3)
    exponentials_of_three(rows, points, tops, sums);
  else
    exponentials(rows, k, points, tops, sums);
  f64 total = load(likelihood);
  if (weights == nullptr && log_p == nullptr) {
    // Σ log s_l = log Π s_l: one logarithm per lane. A lane has at most 96/4 = 24 sums in [1, k], so the product is
    // at most k²⁴ and does not overflow for k < 2⁴².
    f64 product = broadcast(1.0);
    for (int64_t l = 0; l < points; l += kLanes) {
      const f64 sum = load(sums + l);
      total += load(tops + l);
      product *= sum;
      // One division per point instead of one per point and component: a rounding more, 2⁻⁵³ of λ.
      store(sums + l, broadcast(1.0) / sum);
    }
    total += vlog(product);
  } else {
    for (int64_t l = 0; l < points; l += kLanes) {
      const f64 sum = load(sums + l), lp = load(tops + l) + vlog(sum);
      store(sums + l, broadcast(1.0) / sum);
      if (log_p != nullptr) store(log_p + l, lp);
      total += weights == nullptr ? lp : load(weights + l) * lp;
    }
  }
  store(likelihood, total);
  for (int64_t c = 0; c < k; ++c) {
    double* const row = rows + c * points;
    f64 peak = load(peaks + c * kLanes);
    if (weights == nullptr)
      for (int64_t l = 0; l < points; l += kLanes) {
        const f64 lambda = load(row + l) * load(sums + l);
        peak = at_least(peak, lambda);
        store(row + l, lambda);
      }
    else
      for (int64_t l = 0; l < points; l += kLanes) {
        // A row of weight 0 does not keep a component alive: its λ does not count for the peak.
        const f64 lambda = load(row + l) * load(sums + l), w = load(weights + l);
        peak = at_least(peak, select(less(f64{}, w), lambda, f64{}));
        store(row + l, lambda * w);
      }
    store(peaks + c * kLanes, peak);
  }
}

// best[l] = the row whose value at l is the largest, ties to the lowest; −1 where the second is within
// close·(1 + |largest|), a bound on the rounding of both: such a label is decided again by recheck_joint (expect.cpp).
// The bound: docs/numerics/mixture.md, M4. NaN fails the last comparison, so it is decided again as well.
static void mixture_best(const double* rows, int64_t k, int64_t points, double close, double* best) {
  for (int64_t l = 0; l < points; l += kLanes) {
    f64 top = load(rows + l), next = broadcast(-__builtin_inf()), which = {};
    for (int64_t c = 1; c < k; ++c) {
      const f64 value = load(rows + c * points + l);
      which = select(less(top, value), broadcast(static_cast<double>(c)), which);
      // The runner-up: the smaller of the new value and the largest so far.
      next = at_least(next, at_most(value, top));
      top = at_least(top, value);
    }
    const f64 bar = top - broadcast(close) * (broadcast(1.0) + at_least(top, -top));
    store(best + l, select(less(next, bar), which, broadcast(-1.0)));
  }
}

#include "mixture/em_sums-inl.hpp"
#include "mixture/mixed_pass-inl.hpp"

static constexpr MixtureKernels mixture_kernels = {
    .pack_f64 = mixture_pack_f64,
    .pack_f32 = mixture_pack_f32,
    .full = mixture_full,
    .diagonal = mixture_diagonal,
    .spherical = mixture_spherical,
    .whiten = mixture_whiten,
    .normalise = mixture_normalise,
    .best = mixture_best,
    .column_sums = mixture_column_sums,
    .small_sums = mixture_small_sums,
    .reach = mixture_reach,
    .scatter = mixture_scatter,
    .mixed_prepare = mixed_prepare,
    .mixed_joint = mixed_joint,
    .mixed_normalise = mixed_normalise,
    .mixed_sums = mixed_sums,
    .mixed_fill = mixed_fill,
};
