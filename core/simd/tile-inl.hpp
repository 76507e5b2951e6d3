// Tiles: small blocks of points, packed as float64 so that the kernels see one layout, whatever the input was.
//   strips   (ld/4 × height × 4)   four columns side by side, row after row; ld is d, padded with zeros to a
//                                  multiple of 4; strips stand `height` rows apart      for products over the points
//   columns  (d × kPoints)         one point per lane                                   for work on each point

KNOLL_INLINE f64 load_as_f64(const double* p) { return load(p); }
// Widening is exact.
KNOLL_INLINE f64 load_as_f64(const float* p) { return f64{p[0], p[1], p[2], p[3]}; }

// The first `Count` lanes of a vector, the others zero.
template <int Count, class T>
KNOLL_INLINE f64 load_first_as_f64(const T* p) {
  if constexpr (Count == kLanes) return load_as_f64(p);
  return f64{static_cast<double>(p[0]), Count > 1 ? static_cast<double>(p[Count > 1 ? 1 : 0]) : 0.0,
             Count > 2 ? static_cast<double>(p[Count > 2 ? 2 : 0]) : 0.0, 0.0};
}

// V vectors of columns, all rows: as center_rows documents. Centre and sums stay in registers. Of the last vector
// `Last` lanes are columns.
template <int V, int Last, class T>
KNOLL_INLINE void center_strip(const T* x, int64_t stride, int64_t rows, const double* center, const double* weights,
                               double* out, double* weighted, int64_t height, double* sums) {
  f64 c[V], sum[V];
  for (int v = 0; v < V; ++v) c[v] = load(center + v * kLanes), sum[v] = load(sums + v * kLanes);
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    f64 y[V];
    for (int v = 0; v < V; ++v) {
      y[v] = (v == V - 1 ? load_first_as_f64<Last>(x + v * kLanes) : load_as_f64(x + v * kLanes)) - c[v];
      store(out + (v * height + r) * kLanes, y[v]);
    }
    if (weights != nullptr) {
      const f64 w = broadcast(weights[r]);
      for (int v = 0; v < V; ++v) {
        y[v] *= w;
        store(weighted + (v * height + r) * kLanes, y[v]);
      }
    }
    for (int v = 0; v < V; ++v) sum[v] += y[v];
  }
  for (int v = 0; v < V; ++v) store(sums + v * kLanes, sum[v]);
}

// out(r, j) = x[r, j] − center[j], weighted(r, j) = w_r · out(r, j) if there are weights, both in strips, and sums[j]
// += Σ_r of the latter (of the former without weights), rows in order. x has contiguous rows, `stride` elements apart.
// From d on, x counts as 0, and so should center.
template <class T>
KNOLL_INLINE void center_rows(const T* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                              const double* weights, double* out, double* weighted, int64_t height, double* sums) {
  int64_t j = 0;
#define KNOLL_STRIP(V, Last)                                                                                       \
  center_strip<V, Last>(x + j, stride, rows, center + j, weights, out + j * height, weighted + j * height, height, \
                        sums + j)
  // Sixteen columns at a time, two cache lines of a row, then four; the last strip may be partly zeros. Each
  // column has its own chain of additions, so this grouping changes no bit.
  for (; j + 4 * kLanes <= d; j += 4 * kLanes) KNOLL_STRIP(4, kLanes);
  for (; j + kLanes <= d; j += kLanes) KNOLL_STRIP(1, kLanes);
  if (d - j == 3) KNOLL_STRIP(1, 3);
  if (d - j == 2) KNOLL_STRIP(1, 2);
  if (d - j == 1) KNOLL_STRIP(1, 1);
#undef KNOLL_STRIP
}
static void center_rows_f64(const double* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                            const double* weights, double* out, double* weighted, int64_t height, double* sums) {
  center_rows(x, stride, rows, d, center, weights, out, weighted, height, sums);
}
static void center_rows_f32(const float* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                            const double* weights, double* out, double* weighted, int64_t height, double* sums) {
  center_rows(x, stride, rows, d, center, weights, out, weighted, height, sums);
}

// Four rows and V vectors of columns of c, from one strip of a and V strips of b. Each entry is one chain of fma over
// r, so its bits depend on nothing else.
// 4 × 3 vectors of accumulators, three loads and a broadcast are the sixteen registers of AVX2. The kernel does twelve
// fused operations for seven loads; a smaller block would be bound by the loads.
template <int V>
KNOLL_INLINE void product_block(const double* a, const double* b, int64_t height, int64_t rows, double* c,
                                int64_t ldc) {
  f64 s[4][V];
  for (int u = 0; u < 4; ++u)
    for (int v = 0; v < V; ++v) s[u][v] = load(c + u * ldc + v * kLanes);
  int64_t r = 0;
  do {  // rows ≥ 1: with do-while g++ keeps all of s in registers
    f64 y[V];
    for (int v = 0; v < V; ++v) y[v] = load(b + v * height * kLanes + r);
    for (int u = 0; u < 4; ++u) {
      const f64 x = broadcast(a[r + u]);
      for (int v = 0; v < V; ++v) s[u][v] = fma(x, y[v], s[u][v]);
    }
    r += kLanes;
  } while (r < rows * kLanes);
  for (int u = 0; u < 4; ++u)
    for (int v = 0; v < V; ++v) store(c + u * ldc + v * kLanes, s[u][v]);
}

// The same for any number of strips of b.
KNOLL_INLINE void product_band(const double* a, const double* b, int64_t height, int64_t rows, double* c, int64_t ldc,
                               int64_t strips) {
  while (strips > 0) {
    // Threes as long as they last; four are two and two, not three and one, which would leave a block of one strip.
    const int64_t wide = strips == 3 || strips > 4 ? 3 : strips > 1 ? 2 : 1;
    if (wide == 3)
      product_block<3>(a, b, height, rows, c, ldc);
    else if (wide == 2)
      product_block<2>(a, b, height, rows, c, ldc);
    else
      product_block<1>(a, b, height, rows, c, ldc);
    b += wide * kLanes * height, c += wide * kLanes, strips -= wide;
  }
}

// c[i, j] += Σ_r a(r, i)·b(r, j) for i < p, j < q: the tall-skinny product of two tiles in strips. p and q are
// multiples of 4. With `upper`, blocks of 4 × 4 that lie wholly below the diagonal are left alone. The `ahead_size`
// bytes at `ahead` will be read next: they are prefetched a few at a time during the product.
static void tall_product(const double* a, int64_t p, const double* b, int64_t q, int64_t height, int64_t rows,
                         double* c, int64_t ldc, bool upper, const void* ahead, int64_t ahead_size) {
  // The product is bound by arithmetic, so the loads of the next rows are hidden behind it (decision 0007). A prefetch
  // past the end of an array is harmless.
  const int64_t share = ahead_size * 4 / p;
  for (int64_t i = 0; i < p; i += 4) {
    const char* const wanted = static_cast<const char*>(ahead) + i / 4 * share;
    for (int64_t line = 0; line < share; line += 64) __builtin_prefetch(wanted + line);
    const int64_t j = upper ? i : 0;
    product_band(a + i * height, b + j * height, height, rows, c + i * ldc + j, ldc, (q - j) / kLanes);
  }
}

// out = F x for the kPoints points of a column tile, F (d × d) lower triangular, row-major.
// Rows of F are read from left to right up to the diagonal, so what is stored above it does not matter.
static void lower_product(const double* columns, int64_t d, const double* factor, double* out) {
  constexpr int kVectors = kPoints / kLanes;
  for (int64_t i = 0; i < d; ++i) {
    f64 z[kVectors] = {};
    for (int64_t j = 0; j <= i; ++j) {
      const f64 f = broadcast(factor[i * d + j]);
      for (int v = 0; v < kVectors; ++v) z[v] = fma(f, load(columns + j * kPoints + v * kLanes), z[v]);
    }
    for (int v = 0; v < kVectors; ++v) store(out + i * kPoints + v * kLanes, z[v]);
  }
}

// out[l] = ‖F x_l‖² for the kPoints points of a column tile, F (d × d) lower triangular, row-major: the whitened norm.
// Eight vectors of points share each entry of F. The norm is ≥ 0 by construction, a sum of squares; the points have
// been centred, so its error is relative to itself (docs/numerics/mixture.md, M2).
static void whitened_norms(const double* columns, int64_t d, const double* factor, double* out) {
  constexpr int kVectors = kPoints / kLanes;
  f64 norm[kVectors] = {};
  for (int64_t i = 0; i < d; ++i) {
    f64 z[kVectors] = {};
    for (int64_t j = 0; j <= i; ++j) {
      const f64 f = broadcast(factor[i * d + j]);
      for (int v = 0; v < kVectors; ++v) z[v] = fma(f, load(columns + j * kPoints + v * kLanes), z[v]);
    }
    for (int v = 0; v < kVectors; ++v) norm[v] = fma(z[v], z[v], norm[v]);
  }
  for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, norm[v]);
}

// out[t, l] = Σ_j (x_l,j − y_t,j)², added for j = 0 … d−1 and never fused: the one distance (docs/numerics/rounding.md,
// D1). The points x stand in a column tile, the m points y in rows `stride` apart.
static void distance_tile(const double* columns, const double* y, int64_t stride, int64_t m, int64_t d, double* out) {
  constexpr int kVectors = kPoints / kLanes;
  for (int64_t t = 0; t < m; ++t, y += stride, out += kPoints) {
    f64 sum[kVectors] = {};
    for (int64_t j = 0; j < d; ++j) {
      const f64 yj = broadcast(y[j]);
      for (int v = 0; v < kVectors; ++v) {
        // Not fma: the decision needs the same bits on every machine (docs/numerics/rounding.md, D1).
        const f64 difference = load(columns + j * kPoints + v * kLanes) - yj;
        sum[v] += difference * difference;
      }
    }
    for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, sum[v]);
  }
}

// sums[l] += Σ_t w[t] ‖x_l − y_t‖, t = 0 … m−1 in order, with the roots of what distance_tile computes. Half of the
// points at a time: their distances and sums stay in eight registers, and the roots of one row overlap with the
// differences of the next.
static void distance_sums(const double* columns, const double* y, int64_t stride, int64_t m, int64_t d, const double* w,
                          double* sums) {
  constexpr int kVectors = kPoints / kLanes / 2;
  for (int half = 0; half < 2; ++half, columns += kPoints / 2, sums += kPoints / 2) {
    f64 total[kVectors];
    for (int v = 0; v < kVectors; ++v) total[v] = load(sums + v * kLanes);
    const double* row = y;
    for (int64_t t = 0; t < m; ++t, row += stride) {
      f64 sum[kVectors] = {};
      for (int64_t j = 0; j < d; ++j) {
        const f64 yj = broadcast(row[j]);
        for (int v = 0; v < kVectors; ++v) {
          // Not fma: docs/numerics/rounding.md, D1.
          const f64 difference = load(columns + j * kPoints + v * kLanes) - yj;
          sum[v] += difference * difference;
        }
      }
      const f64 weight = broadcast(w[t]);
      for (int v = 0; v < kVectors; ++v) total[v] += weight * root(sum[v]);
    }
    for (int v = 0; v < kVectors; ++v) store(sums + v * kLanes, total[v]);
  }
}
