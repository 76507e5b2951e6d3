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

// Four columns of eight rows, (x − pivot) · scale in the arithmetic of x, turned: lane l of out[q] is column q of row
// l.
KNOLL_INLINE void pack_quads(const double* const* row, int64_t j, const double* pivot, double scale, f32* out) {
  const f64 center = load(pivot + j);
  f32_quad in[kLanes32];
  for (int l = 0; l < kLanes32; ++l) in[l] = round_quad((load(row[l] + j) - center) * broadcast(scale));
  turn(in, out);
}
KNOLL_INLINE void pack_quads(const float* const* row, int64_t j, const float* pivot, float scale, f32* out) {
  f32_quad in[kLanes32];
  for (int l = 0; l < kLanes32; ++l) __builtin_memcpy(&in[l], row[l] + j, sizeof in[l]);
  turn(in, out);
  for (int q = 0; q < 4; ++q) out[q] = (out[q] - broadcast(pivot[j + q])) * broadcast(scale);
}

// Columns [from, to) of eight rows; returns the sums of their squares.
template <class T>
KNOLL_INLINE f32 pack_lanes(const T* const* row, int64_t from, int64_t to, const T* pivot, T scale, float* out) {
  f32 sum = {};
  int64_t j = from;
  for (; j + 4 <= to; j += 4) {
    f32 turned[4];
    pack_quads(row, j, pivot, scale, turned);
    for (int q = 0; q < 4; ++q) {
      store(out + (j + q) * kPanel, turned[q]);
      sum = fma(turned[q], turned[q], sum);
    }
  }
  for (; j < to; ++j) {
    f32 y;
    for (int l = 0; l < kLanes32; ++l) y[l] = (float)((row[l][j] - pivot[j]) * scale);
    store(out + j * kPanel, y);
    sum = fma(y, y, sum);
  }
  return sum;
}

template <class T>
KNOLL_INLINE void pack_panel(const T* const* rows, int64_t count, int64_t d, const T* pivot, T scale, float* panel,
                             float* norm2) {
  const T* row[kPanel];  // lanes past the last row repeat a row, and are cleared below
  for (int64_t l = 0; l < kPanel; ++l) row[l] = rows[l < count ? l : 0];
  const int64_t some = d < kSumColumns ? d : kSumColumns;
  for (int v = 0; v < kPanelVectors; ++v)
    store(norm2 + v * kLanes32, pack_lanes(row + v * kLanes32, 0, some, pivot, scale, panel + v * kLanes32));
  for (int64_t from = some; from < d; from += kSumColumns)  // a block stays in the first cache level
    for (int v = 0; v < kPanelVectors; ++v) {
      const int64_t to = d - from < kSumColumns ? d : from + kSumColumns;
      const f32 more = pack_lanes(row + v * kLanes32, from, to, pivot, scale, panel + v * kLanes32);
      store(norm2 + v * kLanes32, load(norm2 + v * kLanes32) + more);
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
static void pack_f32(const float* const* rows, int64_t count, int64_t d, const float* pivot, float scale, float* panel,
                     float* norm2) {
  pack_panel(rows, count, d, pivot, scale, panel, norm2);
}

// Eight columns of a row.
KNOLL_INLINE f32 pack_eight(const double* x, const double* pivot, double scale) {
  const f32_quad low = round_quad((load(x) - load(pivot)) * broadcast(scale));
  const f32_quad high = round_quad((load(x + 4) - load(pivot + 4)) * broadcast(scale));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
KNOLL_INLINE f32 pack_eight(const float* x, const float* pivot, float scale) {
  return (load(x) - load(pivot)) * broadcast(scale);
}

template <class T>
KNOLL_INLINE float pack_row(const T* x, int64_t d, const T* pivot, T scale, float* y) {
  f32 sum = {};
  int64_t j = 0;
  while (j + kLanes32 <= d) {
    f32 part = {};
    for (const int64_t end = j + 4 * kSumColumns; j + kLanes32 <= d && j < end; j += kLanes32) {
      const f32 v = pack_eight(x + j, pivot + j, scale);
      store(y + j, v);
      part = fma(v, v, part);
    }
    sum = sum + part;
  }
  float norm2 = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  for (; j < d; ++j) {
    y[j] = (float)((x[j] - pivot[j]) * scale);
    norm2 += y[j] * y[j];
  }
  return norm2;
}
static float pack_row_f64(const double* x, int64_t d, const double* pivot, double scale, float* y) {
  return pack_row(x, d, pivot, scale, y);
}
static float pack_row_f32(const float* x, int64_t d, const float* pivot, float scale, float* y) {
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

// Four centres against a panel: twelve sums in registers.
typedef f32 Scores[kCenterBlock][kPanelVectors];
KNOLL_INLINE void add_columns(const float* y, int64_t d, const float* p, Scores& score) {
  for (int64_t j = 0; j < d; ++j, y += kPanel, p += kCenterBlock) {
    f32 point[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) point[v] = load(y + v * kLanes32);
    for (int t = 0; t < kCenterBlock; ++t) {
      const f32 center = broadcast(p[t]);
      for (int v = 0; v < kPanelVectors; ++v) score[t][v] = fma(point[v], center, score[t][v]);
    }
  }
}
// All columns but those of the first block, block by block.
__attribute__((noinline)) static void add_blocks(const float* y, int64_t d, const float* p, Scores& score) {
  for (int64_t from = kSumColumns; from < d; from += kSumColumns) {
    Scores part = {};
    add_columns(y + from * kPanel, d - from < kSumColumns ? d - from : kSumColumns, p + from * kCenterBlock, part);
    for (int t = 0; t < kCenterBlock; ++t)
      for (int v = 0; v < kPanelVectors; ++v) score[t][v] = score[t][v] + part[t][v];
  }
}

// visit(v, score, t) takes the sums.
template <class Visit>
KNOLL_INLINE void score_block(const float* y, int64_t d, const float* p, const float* half, Visit visit) {
  Scores score;
  for (int t = 0; t < kCenterBlock; ++t)
    for (int v = 0; v < kPanelVectors; ++v) score[t][v] = broadcast(half[t]);
  add_columns(y, d < kSumColumns ? d : kSumColumns, p, score);
  if (d > kSumColumns) {
    Scores all;  // apart from those in registers, whose address nobody has
    for (int t = 0; t < kCenterBlock; ++t)
      for (int v = 0; v < kPanelVectors; ++v) all[t][v] = score[t][v];
    add_blocks(y, d, p, all);
    for (int t = 0; t < kCenterBlock; ++t)
      for (int v = 0; v < kPanelVectors; ++v) score[t][v] = all[t][v];
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

static bool failing_groups(const uint16_t* lower, const uint16_t* travel, int64_t stride, uint16_t upper,
                           uint32_t* mask, uint16_t* least) {
  uint32_t any = 0;
#ifdef __FMA__
  const __m256i limit = _mm256_set1_epi16((short)upper), zero = _mm256_setzero_si256();
  __m256i low = _mm256_set1_epi16(-1);
  for (int64_t g = 0; g < stride; g += kBoundLanes) {
    __m256i within[2];
    for (int h = 0; h < 2; ++h) {
      const __m256i there = _mm256_loadu_si256((const __m256i*)(const void*)(lower + g + 16 * h));
      const __m256i way = _mm256_loadu_si256((const __m256i*)(const void*)(travel + g + 16 * h));
      const __m256i bound = _mm256_subs_epu16(there, way);
      low = _mm256_min_epu16(low, bound);
      within[h] = _mm256_cmpeq_epi16(_mm256_subs_epu16(bound, limit), zero);
    }
    // packs takes the halves of both in turn
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(within[0], within[1]), 0xd8);
    const uint32_t bits = (uint32_t)_mm256_movemask_epi8(bytes);
    mask[g / kBoundLanes] = bits;
    any |= bits;
  }
  const __m128i half = _mm_min_epu16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  *least = (uint16_t)_mm_extract_epi16(_mm_minpos_epu16(half), 0);
#else
  uint16_t low = 0xffff;
  for (int64_t g = 0; g < stride; g += kBoundLanes) {
    uint32_t bits = 0;
    for (int l = 0; l < kBoundLanes; ++l) {
      const uint16_t there = lower[g + l], way = travel[g + l];
      const uint16_t bound = there > way ? (uint16_t)(there - way) : 0;
      low = bound < low ? bound : low;
      bits |= (uint32_t)(bound <= upper) << l;
    }
    mask[g / kBoundLanes] = bits;
    any |= bits;
  }
  *least = low;
#endif
  return any != 0;
}

static float score_row(const float* y, int64_t d, const float* center, float half) {
  f32 all = {};
  int64_t j = 0;
  while (j + 2 * kLanes32 <= d) {
    f32 sum[2] = {};
    for (const int64_t end = j + 8 * kSumColumns; j + 2 * kLanes32 <= d && j < end; j += 2 * kLanes32)
      for (int h = 0; h < 2; ++h) sum[h] = fma(load(y + j + h * kLanes32), load(center + j + h * kLanes32), sum[h]);
    all = all + (sum[0] + sum[1]);
  }
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
static void gaps(const float* best, const float* second, const float* norm2, const float* p2, const TileBounds* bounds,
                 float* gap) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 a = load(best + v * kLanes32), b = load(second + v * kLanes32), y2 = load(norm2 + v * kLanes32);
    const f32 size = y2 + load(p2 + v * kLanes32), floor = broadcast(bounds->floor);
    const i32 sure = less(fma(size, broadcast(bounds->margin), floor), b - a);
    const f32 error = fma(size, broadcast(bounds->radius), floor);
    const f32 up = root(at_least(y2 + a + a, f32{}) + error);
    const f32 down = root(at_least(y2 + b + b - error, f32{}));
    const f32 slack = root(size) * broadcast(bounds->slack);
    const f32 length = down * broadcast(1.0f - 0x1p-21f) - up * broadcast(1.0f + 0x1p-21f) - slack;
    store(gap + v * kLanes32, select(sure, length, broadcast(-__builtin_inff())));
  }
}

// Lower bounds of distances as whole units of a ruler, after a way of `travel` units; each of three operations here
// rounds by less than 2⁻²³ of what is not negative.
KNOLL_INLINE void store_units(uint16_t* out, f32 length, float from, float per_unit, float travel) {
  const f32 units = at_least(f32{}, length - broadcast(from)) * broadcast(per_unit) + broadcast(travel);
  const f32 down = at_most(units * broadcast(1.0f - 0x1p-21f), broadcast(65535.0f));
  const i32 whole = __builtin_convertvector(down, i32);
#ifdef __FMA__
  const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)whole, (__m256i)whole), 0x08);
  _mm_storeu_si128((__m128i*)(void*)out, _mm256_castsi256_si128(pairs));
#else
  for (int l = 0; l < kLanes32; ++l) out[l] = (uint16_t)whole[l];
#endif
}

static void lower_bounds(const float* score, int64_t count, const float* norm2, const TileBounds* bounds,
                         const float* travel, float from, float per_unit, uint16_t* out) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 y2 = load(norm2 + v * kLanes32), size = y2 + broadcast(bounds->p2);
    const f32 error = fma(size, broadcast(bounds->radius), broadcast(bounds->floor));
    const f32 slack = root(size) * broadcast(bounds->slack);
    for (int64_t e = 0; e < count; ++e) {
      const int64_t at = e * kPanel + v * kLanes32;
      const f32 t = load(score + at);
      const f32 down = root(at_least(y2 + t + t - error, f32{})) * broadcast(1.0f - 0x1p-21f);
      store_units(out + at, down - slack, from, per_unit, travel[e]);
    }
  }
}

static void upper_bounds(const float* score, const float* norm2, const float* p2, const TileBounds* bounds,
                         float* out) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 t = load(score + v * kLanes32), y2 = load(norm2 + v * kLanes32), size = y2 + load(p2 + v * kLanes32);
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

// Adding 1.5·2^52 units rounds to a unit and leaves the integer in the low bits of the sum. Integers are added modulo
// 2^64: terms that are too large for their units must not be undefined behaviour.
KNOLL_INLINE u64 add_cut(f64 t, const double* cut_high, const double* cut_low, int64_t* high, int64_t* low) {
  const f64 ch = load(cut_high), cl = load(cut_low);
  const f64 above = t + ch, left = t - (above - ch), below = left + cl;
  u64 h, l;
  __builtin_memcpy(&h, high, sizeof h);
  __builtin_memcpy(&l, low, sizeof l);
  h += (u64)above - (u64)ch;
  l += (u64)below - (u64)cl;
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

KNOLL_INLINE i64 below(f64 x, const double* limit) {
  const u64 magnitude = (u64)x << 1 >> 1;
  return less((f64)magnitude, load(limit));
}

// into += v in units of the cut, rounded; returns what is left.
KNOLL_INLINE f64 take_units(f64 v, const double* cut, int64_t* into) {
  const f64 c = load(cut), above = v + c;
  u64 sum;
  __builtin_memcpy(&sum, into, sizeof sum);
  sum += (u64)above - (u64)c;
  __builtin_memcpy(into, &sum, sizeof sum);
  return v - (above - c);
}
// x·w − p without rounding.
KNOLL_INLINE f64 product_rest(f64 x, f64 w, f64 p) {
#ifdef __FMA__
  return (f64)_mm256_fmsub_pd((__m256d)x, (__m256d)w, (__m256d)p);
#else
  for (int l = 0; l < kLanes; ++l) p[l] = __builtin_fma(x[l], w[l], -p[l]);
  return p;
#endif
}
// Adds t[0…3] of the columns from j on; what is left, or all of it where it is too large, is stored and returned.
KNOLL_INLINE u64 add_term(f64 t, const SumUnits* units, int64_t j, int64_t* high, int64_t* low, int64_t* least,
                          double* rest) {
  const f64 zero = {};
  const i64 fits = below(t, units->limit + j);
  f64 left = take_units(select(fits, t, zero), units->cut_high + j, high + j);
  left = take_units(left, units->cut_low + j, low + j);
  left = select(fits, take_units(left, units->cut_least + j, least + j), t);
  store(rest + j, left);
  return (u64)left;
}
template <class T>
KNOLL_INLINE bool add_products(const T* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                               int64_t* least, double* rest) {
  const f64 v = broadcast(w), zero = {}, infinite = broadcast(__builtin_inf());
  const bool exact = w == 1 || w == -1;  // nothing is left of a product
  double* const other = rest + (d + kLanes - 1) / kLanes * kLanes;
  u64 any = {};
  for (int64_t j = 0; j < d; j += kLanes) {
    f64 column;
    if (j + kLanes <= d) {
      column = load_as_f64(x + j);
    } else {
      double tail[kLanes] = {};
      for (int64_t l = 0; j + l < d; ++l) tail[l] = (double)x[j + l];
      column = load(tail);
    }
    const f64 p = column * v;
    any |= add_term(p, units, j, high, low, least, rest);
    if (exact) {
      store(other + j, zero);
      continue;
    }
    const i64 finite = less((f64)((u64)p << 1 >> 1), infinite);
    any |= add_term(select(finite, product_rest(column, v, p), zero), units, j, high, low, least, other);
  }
  any <<= 1;  // the sign of a zero is nothing
  return (any[0] | any[1] | any[2] | any[3]) == 0;
}
static bool add_products_f64(const double* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                             int64_t* least, double* rest) {
  return add_products(x, d, w, units, high, low, least, rest);
}
static bool add_products_f32(const float* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                             int64_t* least, double* rest) {
  return add_products(x, d, w, units, high, low, least, rest);
}
template <class T>
KNOLL_INLINE bool within(const T* x, int64_t d, const double* limit) {
  i64 all = {-1, -1, -1, -1};
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) all &= below(load_as_f64(x + j), limit + j);
  if (j < d) {
    double tail[kLanes] = {};
    for (int64_t l = 0; j + l < d; ++l) tail[l] = (double)x[j + l];
    all &= below(load(tail), limit + j);
  }
  return (all[0] & all[1] & all[2] & all[3]) != 0;
}
static bool within_f64(const double* x, int64_t d, const double* limit) { return within(x, d, limit); }
static bool within_f32(const float* x, int64_t d, const double* limit) { return within(x, d, limit); }

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
    .short_lengths = short_lengths,
#ifdef __FMA__
    .has_fast_shorts = true,
#else
    .has_fast_shorts = false,
#endif
    .survivors = survivors,
    .add_row_f64 = add_row_f64,
    .add_row_f32 = add_row_f32,
    .add_products_f64 = add_products_f64,
    .add_products_f32 = add_products_f32,
    .within_f64 = within_f64,
    .within_f32 = within_f32,
};
