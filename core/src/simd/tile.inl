// Tiles: small blocks of points, packed as float64 so that the kernels see one layout, whatever the input was.
//   rows     (rows × ld)       row-major, ld a multiple of 8, padded with zeros        for products over the points
//   columns  (d × kPoints)     one point per lane                                      for work on each point

KNOLL_INLINE f64 load_as_f64(const double* p) { return load(p); }
KNOLL_INLINE f64 load_as_f64(const float* p) { return f64{p[0], p[1], p[2], p[3]}; }

// out[r, j] = x[r, j] − center[j] for j < d, 0 for d ≤ j < ld. x has contiguous rows, `stride` elements apart.
template <class T>
KNOLL_INLINE void center_rows(const T* x, int64_t stride, int64_t rows, int64_t d, const double* center, double* out,
                              int64_t ld) {
  for (int64_t r = 0; r < rows; ++r, x += stride, out += ld) {
    // the next tile is likely the next rows: ask for them now, and they arrive while this tile is being worked on
    for (int64_t ahead = 0; ahead < d; ahead += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(x + rows * stride + ahead);
    int64_t j = 0;
    for (; j + 4 * kLanes <= d; j += 4 * kLanes)
      for (int v = 0; v < 4 * kLanes; v += kLanes) store(out + j + v, load_as_f64(x + j + v) - load(center + j + v));
    for (; j + kLanes <= d; j += kLanes) store(out + j, load_as_f64(x + j) - load(center + j));
    for (; j < d; ++j) out[j] = static_cast<double>(x[j]) - center[j];
    for (; j < ld; ++j) out[j] = 0.0;
  }
}
static void center_rows_f64(const double* x, int64_t stride, int64_t rows, int64_t d, const double* center, double* out,
                            int64_t ld) {
  center_rows(x, stride, rows, d, center, out, ld);
}
static void center_rows_f32(const float* x, int64_t stride, int64_t rows, int64_t d, const double* center, double* out,
                            int64_t ld) {
  center_rows(x, stride, rows, d, center, out, ld);
}

// sums[j] += Σ_r a[r, j], four rows at a time: (a_r + a_r+1) + (a_r+2 + a_r+3), then the rest one by one.
static void column_sums(const double* a, int64_t ld, int64_t rows, double* sums) {
  for (int64_t j = 0; j < ld; j += 8) {
    f64 s0 = load(sums + j), s1 = load(sums + j + 4);
    const double* p = a + j;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, p += 4 * ld) {
      s0 += (load(p) + load(p + ld)) + (load(p + 2 * ld) + load(p + 3 * ld));
      s1 += (load(p + 4) + load(p + ld + 4)) + (load(p + 2 * ld + 4) + load(p + 3 * ld + 4));
    }
    for (; r < rows; ++r, p += ld) {
      s0 += load(p);
      s1 += load(p + 4);
    }
    store(sums + j, s0);
    store(sums + j + 4, s1);
  }
}

// c[i, j] += Σ_r a[r, i]·b[r, j] for i < p, j < q: the tall-skinny product. p is a multiple of 4, q of 8. With `upper`,
// blocks that lie wholly below the diagonal are left alone. Each entry is one chain of fma over r, so its bits depend
// on nothing else.
static void tall_product(const double* a, int64_t lda, int64_t p, const double* b, int64_t ldb, int64_t q, int64_t rows,
                         double* c, int64_t ldc, bool upper) {
  for (int64_t i = 0; i < p; i += 4) {
    for (int64_t j = upper ? i / 8 * 8 : 0; j < q; j += 8) {
      f64 s[4][2];
      for (int u = 0; u < 4; ++u) s[u][0] = load(c + (i + u) * ldc + j), s[u][1] = load(c + (i + u) * ldc + j + 4);
      const double *pa = a + i, *pb = b + j;
      for (int64_t r = 0; r < rows; ++r, pa += lda, pb += ldb) {
        const f64 b0 = load(pb), b1 = load(pb + 4);
        for (int u = 0; u < 4; ++u) {
          const f64 x = broadcast(pa[u]);
          s[u][0] = fma(x, b0, s[u][0]);
          s[u][1] = fma(x, b1, s[u][1]);
        }
      }
      for (int u = 0; u < 4; ++u) store(c + (i + u) * ldc + j, s[u][0]), store(c + (i + u) * ldc + j + 4, s[u][1]);
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
