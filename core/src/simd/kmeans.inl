// Kernels of k-means: float32 tiles with points in lanes, and what their rounding permits to conclude
// (docs/decisions/0008). simd_kmeans.hpp says what each computes.

constexpr int kPanelVectors = kPanel / kLanes32;

// Eight rows' worth of four numbers, turned: lane l of out[q] is number q of row l.
typedef float f32_quad __attribute__((vector_size(16)));
KNOLL_INLINE void turn(const f32_quad* in, f32* out) {
  f32 v[4];  // rows r and r + 4 side by side
  for (int r = 0; r < 4; ++r) v[r] = __builtin_shufflevector(in[r], in[r + 4], 0, 1, 2, 3, 4, 5, 6, 7);
  const f32 a = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const f32 b = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const f32 c = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const f32 e = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
  out[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
  out[1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
  out[2] = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
  out[3] = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
}

KNOLL_INLINE f32_quad round_quad(f64 v) {
#ifdef __FMA__
  return (f32_quad)_mm256_cvtpd_ps((__m256d)v);
#else
  return f32_quad{(float)v[0], (float)v[1], (float)v[2], (float)v[3]};
#endif
}

template <class T>
KNOLL_INLINE void pack_panel(const T* const* rows, int64_t count, int64_t d, const double* pivot, double scale,
                             float* panel, float* norm2) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const T* row[kLanes32];  // lanes past the last row repeat a row, and are cleared below
    for (int l = 0; l < kLanes32; ++l) {
      const int64_t r = v * kLanes32 + l;
      row[l] = rows[r < count ? r : 0];
    }
    float* const out = panel + v * kLanes32;
    f32 sum = {};
    int64_t j = 0;
    for (; j + 4 <= d; j += 4) {
      const f64 center = load(pivot + j);
      f32_quad in[kLanes32];
      for (int l = 0; l < kLanes32; ++l) in[l] = round_quad((load_as_f64(row[l] + j) - center) * broadcast(scale));
      f32 turned[4];
      turn(in, turned);
      for (int q = 0; q < 4; ++q) {
        store(out + (j + q) * kPanel, turned[q]);
        sum = fma(turned[q], turned[q], sum);
      }
    }
    for (; j < d; ++j) {
      f32 y;
      for (int l = 0; l < kLanes32; ++l) y[l] = (float)(((double)row[l][j] - pivot[j]) * scale);
      store(out + j * kPanel, y);
      sum = fma(y, y, sum);
    }
    store(norm2 + v * kLanes32, sum);
  }
  for (int64_t l = count; l < kPanel; ++l) {
    norm2[l] = 0.0f;
    for (int64_t j = 0; j < d; ++j) panel[j * kPanel + l] = 0.0f;
  }
}
static void pack_f64(const double* const* rows, int64_t count, int64_t d, const double* pivot, double scale,
                     float* panel, float* norm2) {
  pack_panel(rows, count, d, pivot, scale, panel, norm2);
}
static void pack_f32(const float* const* rows, int64_t count, int64_t d, const double* pivot, double scale,
                     float* panel, float* norm2) {
  pack_panel(rows, count, d, pivot, scale, panel, norm2);
}

template <class T>
KNOLL_INLINE float pack_row(const T* x, int64_t d, const double* pivot, double scale, float* y) {
  f32_quad sum[2] = {};
  int64_t j = 0;
  for (; j + 8 <= d; j += 8)
    for (int h = 0; h < 2; ++h) {
      const f32_quad v = round_quad((load_as_f64(x + j + 4 * h) - load(pivot + j + 4 * h)) * broadcast(scale));
      __builtin_memcpy(y + j + 4 * h, &v, sizeof v);
      sum[h] += v * v;
    }
  const f32_quad all = sum[0] + sum[1];
  float norm2 = (all[0] + all[1]) + (all[2] + all[3]);
  for (; j < d; ++j) {
    y[j] = (float)(((double)x[j] - pivot[j]) * scale);
    norm2 += y[j] * y[j];
  }
  return norm2;
}
static float pack_row_f64(const double* x, int64_t d, const double* pivot, double scale, float* y) {
  return pack_row(x, d, pivot, scale, y);
}
static float pack_row_f32(const float* x, int64_t d, const double* pivot, double scale, float* y) {
  return pack_row(x, d, pivot, scale, y);
}

// The running lowest and second lowest score of each point.
struct LowestTwo {
  f32 best[kPanelVectors], second[kPanelVectors];
  i32 index[kPanelVectors];
};
KNOLL_INLINE void see(LowestTwo& two, int v, f32 score, int32_t center) {
  const i32 lower = less(score, two.best[v]);
  two.second[v] = at_most(two.second[v], at_least(two.best[v], score));
  two.best[v] = at_most(two.best[v], score);
  two.index[v] = select(lower, broadcast(center), two.index[v]);
}

// For very few columns the points stay in registers, and centres pass by one after the other.
template <int D>
KNOLL_INLINE void nearest_two_narrow(const float* panel, const float* centers, const float* half, int64_t k,
                                     LowestTwo& two) {
  f32 y[D][kPanelVectors];
  for (int j = 0; j < D; ++j)
    for (int v = 0; v < kPanelVectors; ++v) y[j][v] = load(panel + j * kPanel + v * kLanes32);
  for (int64_t c = 0; c < k; ++c) {
    const float* const p = centers + c / kCenterBlock * kCenterBlock * D + c % kCenterBlock;
    for (int v = 0; v < kPanelVectors; ++v) {
      f32 score = broadcast(half[c]);
      for (int j = 0; j < D; ++j) score = fma(y[j][v], broadcast(p[j * kCenterBlock]), score);
      see(two, v, score, (int32_t)c);
    }
  }
}

// Four centres against a panel: twelve sums in registers; visit(v, score, t) takes them.
template <class Visit>
KNOLL_INLINE void score_block(const float* y, int64_t d, const float* p, const float* half, Visit visit) {
  f32 score[kCenterBlock][kPanelVectors];
  for (int t = 0; t < kCenterBlock; ++t)
    for (int v = 0; v < kPanelVectors; ++v) score[t][v] = broadcast(half[t]);
  for (int64_t j = 0; j < d; ++j, y += kPanel, p += kCenterBlock) {
    f32 point[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) point[v] = load(y + v * kLanes32);
    for (int t = 0; t < kCenterBlock; ++t) {
      const f32 center = broadcast(p[t]);
      for (int v = 0; v < kPanelVectors; ++v) score[t][v] = fma(point[v], center, score[t][v]);
    }
  }
  for (int t = 0; t < kCenterBlock; ++t)
    for (int v = 0; v < kPanelVectors; ++v) visit(v, score[t][v], t);
}

KNOLL_INLINE LowestTwo none_seen() {
  LowestTwo two;
  for (int v = 0; v < kPanelVectors; ++v) {
    two.best[v] = two.second[v] = broadcast(__builtin_inff());
    two.index[v] = i32{};
  }
  return two;
}
KNOLL_INLINE void store(const LowestTwo& two, float* best, float* second, int32_t* index) {
  for (int v = 0; v < kPanelVectors; ++v) {
    store(best + v * kLanes32, two.best[v]);
    store(second + v * kLanes32, two.second[v]);
    store(index + v * kLanes32, two.index[v]);
  }
}

static void nearest_two(const float* panel, int64_t d, const float* centers, const float* half, int64_t k, float* best,
                        float* second, int32_t* index) {
  LowestTwo two = none_seen();
  if (d == 1) {
    nearest_two_narrow<1>(panel, centers, half, k, two);
  } else if (d == 2) {
    nearest_two_narrow<2>(panel, centers, half, k, two);
  } else {
    for (int64_t c = 0; c < k; c += kCenterBlock)
      score_block(panel, d, centers + c * d, half + c,
                  [&](int v, f32 score, int t) { see(two, v, score, (int32_t)c + t); });
  }
  store(two, best, second, index);
}

KNOLL_INLINE i32 same(i32 a, i32 b) {  // of numbers that are not negative
#ifdef __FMA__
  return (i32)_mm256_cmpeq_epi32((__m256i)a, (__m256i)b);
#else
  return ((a ^ b) - 1) >> 31;
#endif
}
static void nearest_of_groups(const float* panel, int64_t d, const float* centers, const float* half,
                              const int32_t* groups, int64_t count, const int32_t* own, float* best, float* second,
                              float* lowest, float* next, int32_t* index) {
  for (int64_t e = 0; e < count; ++e, best += kPanel, second += kPanel) {
    LowestTwo two = none_seen();
    for (int64_t c = (int64_t)groups[e] * kGroup, end = c + kGroup; c < end; c += kCenterBlock)
      score_block(panel, d, centers + c * d, half + c, [&](int v, f32 score, int t) {
        const int32_t center = (int32_t)c + t;
        const i32 mine = same(load(own + v * kLanes32), broadcast(center));
        see(two, v, select(mine, broadcast(__builtin_inff()), score), center);
      });
    for (int v = 0; v < kPanelVectors; ++v) {
      const int64_t at = v * kLanes32;
      const f32 before = load(lowest + at);
      const i32 lower = less(two.best[v], before);
      store(next + at, at_most(at_most(load(next + at), two.second[v]), at_least(before, two.best[v])));
      store(lowest + at, at_most(before, two.best[v]));
      store(index + at, select(lower, two.index[v], load(index + at)));
      store(best + at, two.best[v]);
      store(second + at, two.second[v]);
    }
  }
}

static int64_t failing_groups(const float* lower, const float* travel, int64_t groups, float upper, uint8_t* mask,
                              float* least) {
  int64_t count = 0;
  f32 low = broadcast(__builtin_inff());
  for (int64_t g = 0; g < groups; g += kLanes32) {
    const f32 bound = load(lower + g) - load(travel + g);
    low = at_most(low, bound);
    unsigned bits = 0;
#ifdef __FMA__
    bits = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((__m256)bound, (__m256)broadcast(upper), _CMP_NGT_UQ));
#else
    for (int l = 0; l < kLanes32; ++l) bits |= bound[l] > upper ? 0u : 1u << l;
#endif
    mask[g / kLanes32] = (uint8_t)bits;
    count += __builtin_popcount(bits);
  }
  *least = low[0];
  for (int l = 1; l < kLanes32; ++l) *least = low[l] < *least ? low[l] : *least;
  return count;
}

static float score_row(const float* y, int64_t d, const float* center, float half) {
  f32 sum[2] = {};
  int64_t j = 0;
  for (; j + 2 * kLanes32 <= d; j += 2 * kLanes32)
    for (int h = 0; h < 2; ++h) sum[h] = fma(load(y + j + h * kLanes32), load(center + j + h * kLanes32), sum[h]);
  const f32 all = sum[0] + sum[1];
  float score = half + (((all[0] + all[1]) + (all[2] + all[3])) + ((all[4] + all[5]) + (all[6] + all[7])));
  for (; j < d; ++j) score += y[j] * center[j];
  return score;
}

static void turn_rows(const float* rows, int64_t d, float* panel) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const float* const in = rows + v * kLanes32 * d;
    float* const out = panel + v * kLanes32;
    int64_t j = 0;
    for (; j + 4 <= d; j += 4) {
      f32_quad quads[kLanes32];
      for (int l = 0; l < kLanes32; ++l) __builtin_memcpy(&quads[l], in + l * d + j, sizeof quads[l]);
      f32 turned[4];
      turn(quads, turned);
      for (int q = 0; q < 4; ++q) store(out + (j + q) * kPanel, turned[q]);
    }
    for (; j < d; ++j)
      for (int l = 0; l < kLanes32; ++l) out[j * kPanel + l] = in[l * d + j];
  }
}

// eq. 7 and 8 of the decision; a NaN on the way makes the comparison false, so the row is decided again.
static void gaps(const float* best, const float* second, const float* norm2, const TileBounds* bounds, float* gap) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 a = load(best + v * kLanes32), b = load(second + v * kLanes32), y2 = load(norm2 + v * kLanes32);
    const f32 size = y2 + broadcast(bounds->p2), floor = broadcast(bounds->floor);
    const i32 sure = less(fma(size, broadcast(bounds->margin), floor), b - a);
    const f32 error = fma(size, broadcast(bounds->radius), floor);
    const f32 up = root(at_least(y2 + a + a, f32{}) + error);
    const f32 down = root(at_least(y2 + b + b - error, f32{}));
    const f32 slack = root(size) * broadcast(bounds->slack);
    const f32 length = down * broadcast(1.0f - 0x1p-21f) - up * broadcast(1.0f + 0x1p-21f) - slack;
    store(gap + v * kLanes32, select(sure, length, broadcast(-__builtin_inff())));
  }
}

static void lower_bounds(const float* score, int64_t count, const float* norm2, const TileBounds* bounds,
                         const float* travel, float* out) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 y2 = load(norm2 + v * kLanes32), size = y2 + broadcast(bounds->p2);
    const f32 error = fma(size, broadcast(bounds->radius), broadcast(bounds->floor));
    const f32 slack = root(size) * broadcast(bounds->slack);
    for (int64_t e = 0; e < count; ++e) {
      const int64_t at = e * kPanel + v * kLanes32;
      const f32 t = load(score + at);
      const f32 down = root(at_least(y2 + t + t - error, f32{})) * broadcast(1.0f - 0x1p-21f);
      const f32 sum = at_most(down - slack + broadcast(travel[e]), broadcast(0x1p126f));  // no centre: no infinity
      store(out + at, sum - at_least(sum, -sum) * broadcast(0x1p-21f));
    }
  }
}

static void upper_bounds(const float* score, const float* norm2, const TileBounds* bounds, float* out) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 t = load(score + v * kLanes32), y2 = load(norm2 + v * kLanes32), size = y2 + broadcast(bounds->p2);
    const f32 error = fma(size, broadcast(bounds->radius), broadcast(bounds->floor));
    const f32 sum = root(at_least(y2 + t + t, f32{}) + error) + root(size) * broadcast(bounds->slack);
    store(out + v * kLanes32, sum * broadcast(1.0f + 0x1p-20f));
  }
}

static int64_t survivors(const float* key, const int32_t* label, int64_t n, const float* limit, int32_t* out) {
  int64_t count = 0, i = 0;
#ifdef __FMA__
  for (; i + kLanes32 <= n; i += kLanes32) {
    const __m256 bound = _mm256_i32gather_ps(limit, (__m256i)load(label + i), 4);
    const __m256 alive = _mm256_cmp_ps((__m256)load(key + i), bound, _CMP_LE_OQ);
    for (int mask = _mm256_movemask_ps(alive); mask != 0; mask &= mask - 1)
      out[count++] = (int32_t)(i + __builtin_ctz((unsigned)mask));
  }
#endif
  for (; i < n; ++i) {
    out[count] = (int32_t)i;
    count += key[i] <= limit[label[i]] ? 1 : 0;
  }
  return count;
}

// Adding 1.5·2^52 units rounds to a unit and leaves the integer in the low bits of the sum.
KNOLL_INLINE u64 add_cut(f64 t, const double* cut_high, const double* cut_low, int64_t* high, int64_t* low) {
  const f64 ch = load(cut_high), cl = load(cut_low);
  const f64 above = t + ch, left = t - (above - ch), below = left + cl;
  i64 h, l;
  __builtin_memcpy(&h, high, sizeof h);
  __builtin_memcpy(&l, low, sizeof l);
  h += (i64)above - (i64)ch;
  l += (i64)below - (i64)cl;
  __builtin_memcpy(high, &h, sizeof h);
  __builtin_memcpy(low, &l, sizeof l);
  return (u64)(left - (below - cl));
}
template <class T>
KNOLL_INLINE bool add_row(const T* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                          int64_t* high, int64_t* low) {
  const f64 s = broadcast(sign);
  u64 rest = {};
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes)
    rest |= add_cut(load_as_f64(x + j) * s, cut_high + j, cut_low + j, high + j, low + j);
  if (j < d) {
    double tail[kLanes] = {};
    for (int64_t l = 0; j + l < d; ++l) tail[l] = (double)x[j + l];
    rest |= add_cut(load(tail) * s, cut_high + j, cut_low + j, high + j, low + j);
  }
  rest <<= 1;  // the sign of a zero is nothing
  return (rest[0] | rest[1] | rest[2] | rest[3]) == 0;
}
static bool add_row_f64(const double* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                        int64_t* high, int64_t* low) {
  return add_row(x, d, sign, cut_high, cut_low, high, low);
}
static bool add_row_f32(const float* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                        int64_t* high, int64_t* low) {
  return add_row(x, d, sign, cut_high, cut_low, high, low);
}

#include "kmeans_shorts.inl"

static constexpr KMeansKernels kmeans_kernels = {
    .pack_f64 = pack_f64,
    .pack_f32 = pack_f32,
    .pack_row_f64 = pack_row_f64,
    .pack_row_f32 = pack_row_f32,
    .nearest_two = nearest_two,
    .gaps = gaps,
    .failing_groups = failing_groups,
    .score_row = score_row,
    .turn_rows = turn_rows,
    .nearest_of_groups = nearest_of_groups,
    .lower_bounds = lower_bounds,
    .upper_bounds = upper_bounds,
    .short_row = short_row,
    .short_tile = short_tile,
    .short_sweep = short_sweep,
    .short_bounds = short_bounds,
#ifdef __FMA__
    .has_fast_shorts = true,
#else
    .has_fast_shorts = false,
#endif
    .survivors = survivors,
    .add_row_f64 = add_row_f64,
    .add_row_f32 = add_row_f32,
};
