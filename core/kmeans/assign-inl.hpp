// Kernels of k-means: float32 tiles with points in lanes, and what their rounding permits to conclude
// (docs/numerics/kmeans.md). kmeans/kernels.hpp documents what each computes.
//
// Notation: y is a row and p a centre in the coordinates of the pivot, t = ½‖p‖² − y·p the score, so ‖y − p‖² = ‖y‖² +
// 2t.

constexpr int kPanelVectors = kPanel / kLanes32;

// Four columns of eight rows, transposed: lane l of out[q] is column q of row l.
typedef float f32_quad __attribute__((vector_size(16)));
KNOLL_INLINE void transpose(const f32_quad* in, f32* out) {
  f32 v[4];  // rows r and r + 4 side by side
  for (int r = 0; r < 4; ++r) v[r] = __builtin_shufflevector(in[r], in[r + 4], 0, 1, 2, 3, 4, 5, 6, 7);
  // Within each half of 128 bits: first pairs of columns, then pairs of pairs.
  const f32 a = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const f32 b = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const f32 c = __builtin_shufflevector(v[2], v[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const f32 e = __builtin_shufflevector(v[2], v[3], 2, 10, 3, 11, 6, 14, 7, 15);
  out[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
  out[1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
  out[2] = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
  out[3] = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
}

// To float32, to nearest: the second rounding of eq. 2, |ŷ − x′| ≤ u|x′|.
KNOLL_INLINE f32_quad round_quad(f64 v) {
#ifdef __FMA__
  return (f32_quad)_mm256_cvtpd_ps((__m256d)v);
#else
  return f32_quad{(float)v[0], (float)v[1], (float)v[2], (float)v[3]};
#endif
}

// Four columns of eight rows, (x − pivot) · scale in the dtype of x, transposed. float64 is rounded to float32 once, at
// the end; float32 rounds the difference only, since the scale is a power of two (eq. 2).
KNOLL_INLINE void pack_quads(const double* const* row, int64_t j, const double* pivot, double scale, f32* out) {
  const f64 center = load(pivot + j);
  f32_quad in[kLanes32];
  for (int l = 0; l < kLanes32; ++l) in[l] = round_quad((load(row[l] + j) - center) * broadcast(scale));
  transpose(in, out);
}
KNOLL_INLINE void pack_quads(const float* const* row, int64_t j, const float* pivot, float scale, f32* out) {
  f32_quad in[kLanes32];
  for (int l = 0; l < kLanes32; ++l) __builtin_memcpy(&in[l], row[l] + j, sizeof in[l]);
  transpose(in, out);
  for (int q = 0; q < 4; ++q) out[q] = (out[q] - broadcast(pivot[j + q])) * broadcast(scale);
}

// Columns [from, to) of eight rows; returns Σ y² of each.
template <class T>
KNOLL_INLINE f32 pack_lanes(const T* const* row, int64_t from, int64_t to, const T* pivot, T scale, float* out) {
  f32 sum = {};
  int64_t j = from;
  for (; j + 4 <= to; j += 4) {
    f32 transposed[4];
    pack_quads(row, j, pivot, scale, transposed);
    for (int q = 0; q < 4; ++q) {
      store(out + (j + q) * kPanel, transposed[q]);
      sum = fma(transposed[q], transposed[q], sum);
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

// Points are in lanes, so that a score is a chain of multiply-adds without any sum across lanes. ‖y‖² is summed over
// blocks of kSumColumns columns, like the scores, so eq. 7 holds for it with the same number of additions.
template <class T>
KNOLL_INLINE void pack_panel(const T* const* rows, int64_t count, int64_t d, const T* pivot, T scale, float* panel,
                             float* norm2) {
  const T* row[kPanel];  // lanes past the last row repeat a row, and are cleared below
  for (int64_t l = 0; l < kPanel; ++l) row[l] = rows[l < count ? l : 0];
  const int64_t first = columns_in_block(0, d);
  for (int v = 0; v < kPanelVectors; ++v)
    store(norm2 + v * kLanes32, pack_lanes(row + v * kLanes32, 0, first, pivot, scale, panel + v * kLanes32));
  for (int64_t from = first; from < d; from += kSumColumns)  // a block stays in the first cache level
    for (int v = 0; v < kPanelVectors; ++v) {
      const int64_t to = from + columns_in_block(from, d);
      const f32 more = pack_lanes(row + v * kLanes32, from, to, pivot, scale, panel + v * kLanes32);
      store(norm2 + v * kLanes32, load(norm2 + v * kLanes32) + more);
    }
  // Their results are not read, but must not be NaN or infinite from a row that is.
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

// The same coordinates as pack_panel, for one row: y agrees bit for bit, ‖y‖² up to eq. 7.
template <class T>
KNOLL_INLINE float pack_row(const T* x, int64_t d, const T* pivot, T scale, float* y) {
  f32 sum = {};
  int64_t j = 0;
  while (j + kLanes32 <= d) {
    f32 block = {};  // of 4·kSumColumns / 8 additions per lane, within what eq. 7 allows for
    for (const int64_t end = j + 4 * kSumColumns; j + kLanes32 <= d && j < end; j += kLanes32) {
      const f32 v = pack_eight(x + j, pivot + j, scale);
      store(y + j, v);
      block = fma(v, v, block);
    }
    sum = sum + block;
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

// The running lowest and second lowest score of each point, and the index of the lowest. `less` is strict, so ties stay
// with the lower index.
struct LowestTwo {
  f32 best[kPanelVectors], second[kPanelVectors];
  i32 index[kPanelVectors];
};
KNOLL_INLINE void update(LowestTwo& two, int v, f32 score, int32_t center) {
  // second = min(second, max(best, score)): the one of best and score that does not become the best.
  const i32 lower = less(score, two.best[v]);
  two.second[v] = at_most(two.second[v], at_least(two.best[v], score));
  two.best[v] = at_most(two.best[v], score);
  two.index[v] = select(lower, broadcast(center), two.index[v]);
}

// For one or two columns the points stay in registers, and the loop runs over the centres.
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
      update(two, v, score, (int32_t)c);
    }
  }
}

// Four centres against a panel: twelve sums, as many as the sixteen registers hold beside three points and a centre.
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
// The columns after the first block, block by block: each block is summed from 0 and then added, which is what
// additions_of_score counts (eq. 4).
__attribute__((noinline)) static void add_blocks(const float* y, int64_t d, const float* p, Scores& score) {
  for (int64_t from = kSumColumns; from < d; from += kSumColumns) {
    Scores block = {};
    add_columns(y + from * kPanel, columns_in_block(from, d), p + from * kCenterBlock, block);
    for (int t = 0; t < kCenterBlock; ++t)
      for (int v = 0; v < kPanelVectors; ++v) score[t][v] = score[t][v] + block[t][v];
  }
}

// visit(v, score, t) for the scores of four centres: half + Σ_j y_j·p_j, where p bears the minus sign.
template <class Visit>
KNOLL_INLINE void score_block(const float* y, int64_t d, const float* p, const float* half, Visit visit) {
  Scores score;
  for (int t = 0; t < kCenterBlock; ++t)
    for (int v = 0; v < kPanelVectors; ++v) score[t][v] = broadcast(half[t]);
  add_columns(y, columns_in_block(0, d), p, score);
  if (d > kSumColumns) {
    Scores all;  // a copy: taking the address of `score` would keep it out of registers
    for (int t = 0; t < kCenterBlock; ++t)
      for (int v = 0; v < kPanelVectors; ++v) all[t][v] = score[t][v];
    add_blocks(y, d, p, all);
    for (int t = 0; t < kCenterBlock; ++t)
      for (int v = 0; v < kPanelVectors; ++v) score[t][v] = all[t][v];
  }
  for (int t = 0; t < kCenterBlock; ++t)
    for (int v = 0; v < kPanelVectors; ++v) visit(v, score[t][v], t);
}

// No centre yet: +inf, which padding centres have as well, so they never win.
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

// All k centres, kCenterBlock at a time. Memory traffic per block: d·kCenterBlock floats of centres from the cache, the
// panel (d, kPanel) from the first level.
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
                  [&](int v, f32 score, int t) { update(two, v, score, (int32_t)c + t); });
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
// The own centre gets the score +inf: a group's bound is for the other centres, and lowest starts from the own score.
static void nearest_of_groups(const float* panel, int64_t d, const float* centers, const float* half,
                              const int32_t* groups, int64_t count, const int32_t* own, float* best, float* second,
                              float* lowest, float* next, int32_t* index) {
  for (int64_t e = 0; e < count; ++e, best += kPanel, second += kPanel) {
    LowestTwo two = none_seen();
    for (int64_t c = (int64_t)groups[e] * kGroup, end = c + kGroup; c < end; c += kCenterBlock)
      score_block(panel, d, centers + c * d, half + c, [&](int v, f32 score, int t) {
        const int32_t center = (int32_t)c + t;
        const i32 mine = same(load(own + v * kLanes32), broadcast(center));
        update(two, v, select(mine, broadcast(__builtin_inff()), score), center);
      });
    for (int v = 0; v < kPanelVectors; ++v) {
      const int64_t at = v * kLanes32;
      // The same update with the lowest two of the group: next = min(next, second, max(lowest, best)).
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

// Bounds are saturating differences in units, max(lower − shift, 0): 0 is no bound, and never exceeds upper. The
// comparison bound ≤ upper is (bound − upper saturating at 0) = 0, since AVX2 compares only signed integers.
static bool failing_groups(const uint16_t* lower, const uint16_t* shift, int64_t stride, uint16_t upper, uint32_t* mask,
                           uint16_t* least) {
  uint32_t any = 0;
#ifdef __FMA__
  const __m256i limit = _mm256_set1_epi16((short)upper), zero = _mm256_setzero_si256();
  __m256i low = _mm256_set1_epi16(-1);
  for (int64_t g = 0; g < stride; g += kBoundLanes) {
    __m256i within[2];
    for (int h = 0; h < 2; ++h) {
      const __m256i there = _mm256_loadu_si256((const __m256i*)(const void*)(lower + g + 16 * h));
      const __m256i moved = _mm256_loadu_si256((const __m256i*)(const void*)(shift + g + 16 * h));
      const __m256i bound = _mm256_subs_epu16(there, moved);
      low = _mm256_min_epu16(low, bound);
      within[h] = _mm256_cmpeq_epi16(_mm256_subs_epu16(bound, limit), zero);
    }
    // packs interleaves the 128-bit halves of its arguments: the permutation restores their order
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
      const uint16_t there = lower[g + l], moved = shift[g + l];
      const uint16_t bound = there > moved ? (uint16_t)(there - moved) : 0;
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

// Two chains of eight lanes; no product goes through more additions than eq. 4 counts.
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

// panel[j, l] = rows[l, j].
static void transpose_rows(const float* rows, int64_t d, float* panel) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const float* const in = rows + v * kLanes32 * d;
    float* const out = panel + v * kLanes32;
    int64_t j = 0;
    for (; j + 4 <= d; j += 4) {
      f32_quad quads[kLanes32];
      for (int l = 0; l < kLanes32; ++l) __builtin_memcpy(&quads[l], in + l * d + j, sizeof quads[l]);
      f32 transposed[4];
      transpose(quads, transposed);
      for (int q = 0; q < 4; ++q) store(out + (j + q) * kPanel, transposed[q]);
    }
    for (; j < d; ++j)
      for (int l = 0; l < kLanes32; ++l) out[j * kPanel + l] = in[l * d + j];
  }
}

// Eq. 6: the order of two scores is certain if b − a > margin·(‖y‖² + P²) + floor. Eq. 8: the distances are at most
// √(‖y‖² + 2a + error)(1 + 2⁻²¹) + slack/2 and at least √(‖y‖² + 2b − error)(1 − 2⁻²¹) − slack/2; their difference is
// the gap. A NaN makes the comparison false, so the row is rechecked.
static void gaps(const float* best, const float* second, const float* norm2, const float* p2, const TileBounds* bounds,
                 float* gap) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 a = load(best + v * kLanes32), b = load(second + v * kLanes32), y2 = load(norm2 + v * kLanes32);
    const f32 size = y2 + load(p2 + v * kLanes32), floor = broadcast(bounds->floor);
    // size is ‖y‖² + P², which the bounds are relative to; P² is that of the best centre (eq. 12).
    const i32 sure = less(fma(size, broadcast(bounds->margin), floor), b - a);
    const f32 error = fma(size, broadcast(bounds->radius), floor);
    // y2 + 2a may round below 0 for a row on its centre; a true square is not negative.
    const f32 up = root(at_least(y2 + a + a, f32{}) + error);
    const f32 down = root(at_least(y2 + b + b - error, f32{}));
    const f32 slack = root(size) * broadcast(bounds->slack);
    const f32 length = down * broadcast(1.0f - 0x1p-21f) - up * broadcast(1.0f + 0x1p-21f) - slack;
    store(gap + v * kLanes32, select(sure, length, broadcast(-__builtin_inff())));
  }
}

// Lower bounds of distances in units of the quantizer, plus the cumulative shift, rounded down: each of the three
// operations rounds by less than 2⁻²³ of a nonnegative number, so 1 − 2⁻²¹ covers them.
KNOLL_INLINE void store_units(uint16_t* out, f32 length, float from, float per_unit, float shift) {
  const f32 units = at_least(f32{}, length - broadcast(from)) * broadcast(per_unit) + broadcast(shift);
  // Clipping at 65535 lowers a lower bound; conversion truncates towards 0, and units ≥ 0.
  const f32 down = at_most(units * broadcast(1.0f - 0x1p-21f), broadcast(65535.0f));
  const i32 whole = __builtin_convertvector(down, i32);
#ifdef __FMA__
  const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)whole, (__m256i)whole), 0x08);
  _mm_storeu_si128((__m128i*)(void*)out, _mm256_castsi256_si128(pairs));
#else
  for (int l = 0; l < kLanes32; ++l) out[l] = (uint16_t)whole[l];
#endif
}

// Eq. 8: √(‖y‖² + 2t − error)(1 − 2⁻²¹) − slack·√(‖y‖² + P²) ≤ the distance. Far centres have their scores lowered, so
// the P² of the near ones serves all.
static void lower_bounds(const float* score, int64_t count, const float* norm2, const TileBounds* bounds,
                         const float* shift, float from, float per_unit, uint16_t* out) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 y2 = load(norm2 + v * kLanes32), size = y2 + broadcast(bounds->p2);
    const f32 error = fma(size, broadcast(bounds->radius), broadcast(bounds->floor));
    const f32 slack = root(size) * broadcast(bounds->slack);
    for (int64_t e = 0; e < count; ++e) {
      const int64_t at = e * kPanel + v * kLanes32;
      const f32 t = load(score + at);
      const f32 down = root(at_least(y2 + t + t - error, f32{})) * broadcast(1.0f - 0x1p-21f);
      store_units(out + at, down - slack, from, per_unit, shift[e]);
    }
  }
}

// Eq. 8: the distance ≤ √(‖y‖² + 2t + error) + slack·√(‖y‖² + P²), with 2⁻²⁰ for the rounding of this line.
static void upper_bounds(const float* score, const float* norm2, const float* p2, const TileBounds* bounds,
                         float* out) {
  for (int v = 0; v < kPanelVectors; ++v) {
    const f32 t = load(score + v * kLanes32), y2 = load(norm2 + v * kLanes32), size = y2 + load(p2 + v * kLanes32);
    const f32 error = fma(size, broadcast(bounds->radius), broadcast(bounds->floor));
    const f32 sum = root(at_least(y2 + t + t, f32{}) + error) + root(size) * broadcast(bounds->slack);
    store(out + v * kLanes32, sum * broadcast(1.0f + 0x1p-20f));
  }
}

// gap and limit already include their rounding (down and up), so gap > limit proves that the label stays (eq. 9). A NaN
// limit cannot occur: total shifts are sums of numbers ≥ 0.
static int64_t survivors(const float* gap, const int32_t* label, int64_t n, const float* limit, int32_t* out) {
  int64_t count = 0, i = 0;
#ifdef __FMA__
  for (; i + kLanes32 <= n; i += kLanes32) {
    const __m256 bound = _mm256_i32gather_ps(limit, (__m256i)load(label + i), 4);
    // Ordered comparison: false for NaN. A gap of −inf always fails.
    const __m256 fails = _mm256_cmp_ps((__m256)load(gap + i), bound, _CMP_LE_OQ);
    for (int mask = _mm256_movemask_ps(fails); mask != 0; mask &= mask - 1)
      out[count++] = (int32_t)(i + __builtin_ctz((unsigned)mask));
  }
#endif
  for (; i < n; ++i) {
    out[count] = (int32_t)i;
    count += gap[i] <= limit[label[i]] ? 1 : 0;
  }
  return count;
}

// For |t| < 2^51 units, t + 1.5·2^52 units rounds t to a whole number of units, which then stands in the low bits of
// the sum; subtracting the constant's bits gives that integer, and t minus it is exact. Integers are added modulo 2^64:
// terms too large for their units must not be undefined behaviour.
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
  // What both units leave, exactly; its bits are 0 or those of −0 where nothing is left.
  return (u64)(left - (below - cl));
}
// Rows of weight ±1: sign·x is exact, so two units and a remainder hold it without products.
template <class T>
KNOLL_INLINE bool add_row(const T* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                          int64_t* high, int64_t* low) {
  const f64 s = broadcast(sign);
  u64 remainder = {};
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes)
    remainder |= add_cut(load_as_f64(x + j) * s, cut_high + j, cut_low + j, high + j, low + j);
  if (j < d) {
    double tail[kLanes] = {};
    for (int64_t l = 0; j + l < d; ++l) tail[l] = (double)x[j + l];
    remainder |= add_cut(load(tail) * s, cut_high + j, cut_low + j, high + j, low + j);
  }
  remainder <<= 1;  // −0 counts as 0
  return (remainder[0] | remainder[1] | remainder[2] | remainder[3]) == 0;
}
static bool add_row_f64(const double* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                        int64_t* high, int64_t* low) {
  return add_row(x, d, sign, cut_high, cut_low, high, low);
}
static bool add_row_f32(const float* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                        int64_t* high, int64_t* low) {
  return add_row(x, d, sign, cut_high, cut_low, high, low);
}

// |x| < limit; false for NaN.
KNOLL_INLINE i64 below(f64 x, const double* limit) {
  const u64 magnitude = (u64)x << 1 >> 1;
  return less((f64)magnitude, load(limit));
}

// into += v in units of the cut, rounded; returns the remainder, exactly.
KNOLL_INLINE f64 take_units(f64 v, const double* cut, int64_t* into) {
  const f64 c = load(cut), above = v + c;
  u64 sum;
  __builtin_memcpy(&sum, into, sizeof sum);
  sum += (u64)above - (u64)c;
  __builtin_memcpy(into, &sum, sizeof sum);
  return v - (above - c);
}
// x·w − p, exact because p is x·w rounded.
KNOLL_INLINE f64 product_error(f64 x, f64 w, f64 p) {
#ifdef __FMA__
  return (f64)_mm256_fmsub_pd((__m256d)x, (__m256d)w, (__m256d)p);
#else
  for (int l = 0; l < kLanes; ++l) p[l] = __builtin_fma(x[l], w[l], -p[l]);
  return p;
#endif
}
// Adds t[0…3] of the columns from j on; the remainder, or all of t where it is too large, is stored and returned.
KNOLL_INLINE u64 add_term(f64 t, const SumUnits* units, int64_t j, int64_t* high, int64_t* low, double* remainder) {
  const f64 zero = {};
  const i64 fits = below(t, units->limit + j);
  f64 left = take_units(select(fits, t, zero), units->cut_high + j, high + j);
  left = select(fits, take_units(left, units->cut_low + j, low + j), t);
  store(remainder + j, left);
  return (u64)left;
}
// p = x·w rounded and its error e, with p + e = x·w exactly: both are split, which keeps weighted sums exact. Where
// |x·w| < 2^−968, e may be rounded to a multiple of 2^−1074: a function of x and w alone, so the sum stays order-free.
template <class T>
KNOLL_INLINE bool add_products(const T* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                               double* remainder) {
  const f64 v = broadcast(w), zero = {}, infinite = broadcast(__builtin_inf());
  const bool exact = w == 1 || w == -1;  // then products have no error
  double* const other = remainder + (d + kLanes - 1) / kLanes * kLanes;
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
    any |= add_term(p, units, j, high, low, remainder);
    if (exact) {
      store(other + j, zero);
      continue;
    }
    const i64 finite = less((f64)((u64)p << 1 >> 1), infinite);
    any |= add_term(select(finite, product_error(column, v, p), zero), units, j, high, low, other);
  }
  any <<= 1;  // −0 counts as 0
  return (any[0] | any[1] | any[2] | any[3]) == 0;
}
static bool add_products_f64(const double* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                             double* remainder) {
  return add_products(x, d, w, units, high, low, remainder);
}
static bool add_products_f32(const float* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                             double* remainder) {
  return add_products(x, d, w, units, high, low, remainder);
}
#include "kmeans/int8_filter-inl.hpp"

static constexpr KMeansKernels kmeans_kernels = {
    .pack_f64 = pack_f64,
    .pack_f32 = pack_f32,
    .pack_row_f64 = pack_row_f64,
    .pack_row_f32 = pack_row_f32,
    .nearest_two = nearest_two,
    .gaps = gaps,
    .failing_groups = failing_groups,
    .score_row = score_row,
    .transpose_rows = transpose_rows,
    .nearest_of_groups = nearest_of_groups,
    .lower_bounds = lower_bounds,
    .upper_bounds = upper_bounds,
    .int8_row = int8_row,
    .int8_tile = int8_tile,
    .int8_sweep = int8_sweep,
    .int8_bounds = int8_bounds,
    .int8_lengths = int8_lengths,
#ifdef __FMA__
    .has_fast_int8 = true,
#else
    .has_fast_int8 = false,
#endif
    .survivors = survivors,
    .add_row_f64 = add_row_f64,
    .add_row_f32 = add_row_f32,
    .add_products_f64 = add_products_f64,
    .add_products_f32 = add_products_f32,
};
