// Tiles: small blocks of points, packed as float64 so that the kernels see one layout, whatever the input was.
//   rows     (rows × ld)       row-major, ld a multiple of 4, padded with zeros        for products over the points
//   columns  (d × kPoints)     one point per lane                                      for work on each point

KNOLL_INLINE f64 load_as_f64(const double* p) { return load(p); }
KNOLL_INLINE f64 load_as_f64(const float* p) { return f64{p[0], p[1], p[2], p[3]}; }

// V vectors of columns, all rows: what center_rows says. Centre and sums stay in registers.
template <int V, class T>
KNOLL_INLINE void center_strip(const T* x, int64_t stride, int64_t rows, const double* center, const double* weights,
                               double* out, double* weighted, int64_t ld, double* sums) {
  f64 c[V], sum[V];
  for (int v = 0; v < V; ++v) c[v] = load(center + v * kLanes), sum[v] = load(sums + v * kLanes);
  for (int64_t r = 0; r < rows; ++r, x += stride, out += ld) {
    f64 y[V];
    for (int v = 0; v < V; ++v) {
      y[v] = load_as_f64(x + v * kLanes) - c[v];
      store(out + v * kLanes, y[v]);
    }
    if (weights != nullptr) {
      const f64 w = broadcast(weights[r]);
      for (int v = 0; v < V; ++v) {
        y[v] *= w;
        store(weighted + r * ld + v * kLanes, y[v]);
      }
    }
    for (int v = 0; v < V; ++v) sum[v] += y[v];
  }
  for (int v = 0; v < V; ++v) store(sums + v * kLanes, sum[v]);
}

// out[r, j] = x[r, j] − center[j], weighted[r, j] = w_r · out[r, j] if there are weights, and sums[j] += Σ_r of the
// latter (of the former without weights), rows in order; 0 for d ≤ j < ld. x has contiguous rows, `stride` elements
// apart.
template <class T>
KNOLL_INLINE void center_rows(const T* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                              const double* weights, double* out, double* weighted, int64_t ld, double* sums) {
  int64_t j = 0;
  for (; j + 4 * kLanes <= d; j += 4 * kLanes)
    center_strip<4>(x + j, stride, rows, center + j, weights, out + j, weighted + j, ld, sums + j);
  for (; j + kLanes <= d; j += kLanes)
    center_strip<1>(x + j, stride, rows, center + j, weights, out + j, weighted + j, ld, sums + j);
  for (; j < ld; ++j)
    for (int64_t r = 0; r < rows; ++r) {
      const double y = j < d ? static_cast<double>(x[r * stride + j]) - center[j] : 0.0;
      const double z = weights == nullptr ? y : weights[r] * y;
      out[r * ld + j] = y;
      if (weights != nullptr) weighted[r * ld + j] = z;
      sums[j] += z;
    }
}
static void center_rows_f64(const double* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                            const double* weights, double* out, double* weighted, int64_t ld, double* sums) {
  center_rows(x, stride, rows, d, center, weights, out, weighted, ld, sums);
}
static void center_rows_f32(const float* x, int64_t stride, int64_t rows, int64_t d, const double* center,
                            const double* weights, double* out, double* weighted, int64_t ld, double* sums) {
  center_rows(x, stride, rows, d, center, weights, out, weighted, ld, sums);
}

// Four rows and V vectors of columns of c. Each entry is one chain of fma over r, so its bits depend on nothing else.
template <int V>
KNOLL_INLINE void product_block(const double* a, int64_t lda, const double* b, int64_t ldb, int64_t rows, double* c,
                                int64_t ldc) {
  f64 s[4][V];
  for (int u = 0; u < 4; ++u)
    for (int v = 0; v < V; ++v) s[u][v] = load(c + u * ldc + v * kLanes);
  for (int64_t r = 0; r < rows; ++r, a += lda, b += ldb) {
    f64 y[V];
    for (int v = 0; v < V; ++v) y[v] = load(b + v * kLanes);
    for (int u = 0; u < 4; ++u) {
      const f64 x = broadcast(a[u]);
      for (int v = 0; v < V; ++v) s[u][v] = fma(x, y[v], s[u][v]);
    }
  }
  for (int u = 0; u < 4; ++u)
    for (int v = 0; v < V; ++v) store(c + u * ldc + v * kLanes, s[u][v]);
}

// c[i, j] += Σ_r a[r, i]·b[r, j] for i < p, j < q: the tall-skinny product. p and q are multiples of 4. With `upper`,
// blocks of 4 × 4 that lie wholly below the diagonal are left alone. The `ahead_size` bytes at `ahead` are what will be
// read next: asked for a few at a time, they arrive while this works.
static void tall_product(const double* a, int64_t lda, int64_t p, const double* b, int64_t ldb, int64_t q, int64_t rows,
                         double* c, int64_t ldc, bool upper, const void* ahead, int64_t ahead_size) {
  const int64_t share = ahead_size * 4 / p;
  for (int64_t i = 0; i < p; i += 4) {
    const char* const wanted = static_cast<const char*>(ahead) + i / 4 * share;
    for (int64_t line = 0; line < share; line += 64) __builtin_prefetch(wanted + line);
    double* const row = c + i * ldc;
    for (int64_t j = upper ? i : 0; j < q;) {
      const int64_t left = (q - j) / kLanes;
      if (left == 3 || left > 4) {
        product_block<3>(a + i, lda, b + j, ldb, rows, row + j, ldc);
        j += 3 * kLanes;
      } else if (left > 1) {
        product_block<2>(a + i, lda, b + j, ldb, rows, row + j, ldc);
        j += 2 * kLanes;
      } else {
        product_block<1>(a + i, lda, b + j, ldb, rows, row + j, ldc);
        j += kLanes;
      }
    }
  }
}

// out[l] = ‖F x_l‖² for the kPoints points of a column tile, F (d × d) lower triangular, row-major: the whitened norm.
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

// out[t, l] = Σ_j (x_l,j − y_t,j)², added for j = 0 … d−1 and never fused: the one distance (docs/decisions/0003).
// The points x stand in a column tile, the m points y in rows `stride` apart.
static void distance_tile(const double* columns, const double* y, int64_t stride, int64_t m, int64_t d, double* out) {
  constexpr int kVectors = kPoints / kLanes;
  for (int64_t t = 0; t < m; ++t, y += stride, out += kPoints) {
    f64 sum[kVectors] = {};
    for (int64_t j = 0; j < d; ++j) {
      const f64 yj = broadcast(y[j]);
      for (int v = 0; v < kVectors; ++v) {
        const f64 difference = load(columns + j * kPoints + v * kLanes) - yj;
        sum[v] += difference * difference;
      }
    }
    for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, sum[v]);
  }
}
