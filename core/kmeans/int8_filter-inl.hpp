// Kernels of k-means over integers of seven bits: four columns per word, 32 products per instruction, sums without
// rounding (docs/numerics/kmeans.md, eq. 11). kmeans/kernels.hpp documents what each computes.

// y·inverse is clipped to ±63 and rounded to the nearest integer. Σ (y − step·whole)² includes what clipping removes,
// so the error holds for outliers as well.
static float int8_row(const float* y, int64_t d, float step, float inverse, uint8_t* q, int32_t* norm2) {
  float residual2 = 0;
  int32_t norm = 0;
  int64_t j = 0;
#ifdef __FMA__
  __m256 sum = _mm256_setzero_ps();
  __m256i squares = _mm256_setzero_si256();
  const __m256 most = _mm256_set1_ps((float)kInt8Max), least = _mm256_set1_ps((float)-kInt8Max);
  for (; j + kLanes32 <= d; j += kLanes32) {
    const __m256 v = _mm256_loadu_ps(y + j);
    const __m256 unit = _mm256_mul_ps(v, _mm256_set1_ps(inverse));
    // Rounded to nearest, ties to even; the scalar loop rounds ties away. Either is a valid q: the residual is that of
    // the q that was stored.
    const __m256i whole = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(unit, most), least));
    const __m256 left = _mm256_sub_ps(v, _mm256_mul_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(step)));
    sum = _mm256_add_ps(sum, _mm256_mul_ps(left, left));
    squares = _mm256_add_epi32(squares, _mm256_mullo_epi32(whole, whole));
    const __m256i shifted = _mm256_add_epi32(whole, _mm256_set1_epi32(kInt8Max));
    // 0 … 126 fit unsigned bytes; neither pack saturates.
    const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(shifted), _mm256_extracti128_si256(shifted, 1));
    _mm_storel_epi64((__m128i*)(void*)(q + j), _mm_packus_epi16(halves, halves));
  }
  const f32 s = (f32)sum;
  const i32 n = (i32)squares;
  for (int l = 0; l < kLanes32; ++l) {
    residual2 += s[l];
    norm += n[l];
  }
#endif
  for (; j < d; ++j) {
    float unit = y[j] * inverse;
    unit = unit < (float)kInt8Max ? unit : (float)kInt8Max;
    unit = unit > (float)-kInt8Max ? unit : (float)-kInt8Max;
    const int32_t whole = (int32_t)(unit + (unit < 0 ? -0.5f : 0.5f));
    const float left = y[j] - (float)whole * step;
    residual2 += left * left;
    norm += whole * whole;
    q[j] = (uint8_t)(whole + kInt8Max);
  }
  for (; j % kQuad != 0; ++j) q[j] = kInt8Max;
  *norm2 = norm;
  return residual2;
}

#ifdef __FMA__

// W words of kInt8Block centres against a panel: products are summed in 16 bits, then added to sums of 32 bits. W is
// chosen so that 16 bits do not overflow (Int8Centers::widen).
template <int W>
KNOLL_INLINE void add_words(const uint8_t* y, const int8_t* p, __m256i (&wide)[kInt8Block][kPanelVectors]) {
  __m256i sum[kInt8Block][kPanelVectors];
#pragma GCC unroll 8
  for (int j = 0; j < W; ++j) {
    __m256i point[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) {
      point[v] = _mm256_loadu_si256((const __m256i*)(const void*)(y + (j * kPanelVectors + v) * kLanes32 * kQuad));
      __asm__("" : "+x"(point[v]));
    }
    for (int t = 0; t < kInt8Block; ++t) {
      int32_t four;
      __builtin_memcpy(&four, p + (j * kInt8Block + t) * kQuad, sizeof four);
      const __m256i center = _mm256_set1_epi32(four);
      for (int v = 0; v < kPanelVectors; ++v) {
        // At most 2·126·63 = 15876 per lane and word (eq. 11); W of them stay below 2¹⁵.
        const __m256i product = _mm256_maddubs_epi16(point[v], center);
        sum[t][v] = j == 0 ? product : _mm256_add_epi16(sum[t][v], product);
        __asm__("" : "+x"(sum[t][v]));  // else g++ reassociates the additions into a tree and spills all products
      }
    }
  }
  for (int t = 0; t < kInt8Block; ++t)
    for (int v = 0; v < kPanelVectors; ++v)
      // madd by 1 adds the two 16-bit sums of a word: one 32-bit sum per point.
      wide[t][v] = _mm256_add_epi32(wide[t][v], _mm256_madd_epi16(sum[t][v], _mm256_set1_epi16(1)));
}

// score = offset − 2·Σ(q + 63)·m = ‖m‖² − 2 q·m, exactly: |score| < 2^30 for up to 2^15 columns. Unsigned bytes of the
// rows times signed bytes of the centres, as maddubs requires.
template <int W>
KNOLL_INLINE void int8_tile_of(const uint8_t* panel, int64_t quads, const int8_t* centers, const int32_t* offset,
                               const int32_t* groups, int64_t count, int32_t* score, int32_t* lowest, int32_t* index) {
  for (int v = 0; v < kPanelVectors; ++v) {
    store(lowest + v * kLanes32, broadcast(INT32_MAX));
    store(index + v * kLanes32, i32{});
  }
  for (int64_t e = 0; e < count; ++e)
    for (int64_t c = (int64_t)groups[e] * kGroup, end = c + kGroup; c < end; c += kInt8Block) {
      const int8_t* p = centers + c * quads * kQuad;
      const uint8_t* y = panel;
      __m256i wide[kInt8Block][kPanelVectors] = {};
      int64_t j = 0;
      for (; j + W <= quads; j += W, y += W * kPanel * kQuad, p += W * kInt8Block * kQuad) add_words<W>(y, p, wide);
      for (; j < quads; ++j, y += kPanel * kQuad, p += kInt8Block * kQuad) add_words<1>(y, p, wide);
      for (int t = 0; t < kInt8Block; ++t, score += kPanel)
        for (int v = 0; v < kPanelVectors; ++v) {
          const int64_t at = v * kLanes32;
          // An empty slot has offset kNoScore and zeros for m: its score is kNoScore, above all others.
          const i32 here = broadcast(offset[c + t]) - (i32)_mm256_slli_epi32(wide[t][v], 1), low = load(lowest + at);
          const i32 lower = (i32)_mm256_cmpgt_epi32((__m256i)low, (__m256i)here);
          store(score + at, here);
          store(index + at, select(lower, broadcast((int32_t)c + t), load(index + at)));
          store(lowest + at, (i32)_mm256_min_epi32((__m256i)low, (__m256i)here));
        }
    }
}
static void int8_tile(const uint8_t* panel, int64_t quads, const int8_t* centers, const int32_t* offset,
                      const int32_t* groups, int64_t count, int64_t widen, int32_t* score, int32_t* lowest,
                      int32_t* index) {
  if (widen >= 8)
    int8_tile_of<8>(panel, quads, centers, offset, groups, count, score, lowest, index);
  else if (widen >= 4)
    int8_tile_of<4>(panel, quads, centers, offset, groups, count, score, lowest, index);
  else
    int8_tile_of<2>(panel, quads, centers, offset, groups, count, score, lowest, index);
}

// score ≤ limit: a hit. All others are ruled out, and the least of them bounds their distances from below.
static int64_t int8_sweep(const int32_t* score, int64_t count, const int32_t* limit, int32_t* least, int32_t* all,
                          Int8Hit* hits) {
  const __m256i none = _mm256_set1_epi32(kNoScore);
  __m256i bound[kPanelVectors], lowest[kPanelVectors];
  for (int v = 0; v < kPanelVectors; ++v) {
    bound[v] = _mm256_loadu_si256((const __m256i*)(const void*)(limit + v * kLanes32));
    lowest[v] = none;
  }
  int64_t found = 0;
  for (int64_t e = 0; e < count; ++e, least += kPanel) {
    __m256i low[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) low[v] = none;
    for (int t = 0; t < kGroup; ++t, score += kPanel) {
      uint32_t bits = 0;
      for (int v = 0; v < kPanelVectors; ++v) {
        const __m256i here = _mm256_loadu_si256((const __m256i*)(const void*)(score + v * kLanes32));
        const __m256i above = _mm256_cmpgt_epi32(here, bound[v]);
        bits |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(above)) << (v * kLanes32);
        low[v] = _mm256_min_epi32(low[v], _mm256_blendv_epi8(none, here, above));
      }
      // Stored always, counted only if some lane hit: no branch. hits has one entry more than there are centres.
      hits[found] = {(int32_t)(e * kGroup) + t, ~bits & ((1u << kPanel) - 1)};
      found += hits[found].lanes != 0;
    }
    for (int v = 0; v < kPanelVectors; ++v) {
      _mm256_storeu_si256((__m256i*)(void*)(least + v * kLanes32), low[v]);
      lowest[v] = _mm256_min_epi32(lowest[v], low[v]);
    }
  }
  for (int v = 0; v < kPanelVectors; ++v) _mm256_storeu_si256((__m256i*)(void*)(all + v * kLanes32), lowest[v]);
  return found;
}

#else  // correct, not fast: has_fast_int8 is false

static void int8_tile(const uint8_t* panel, int64_t quads, const int8_t* centers, const int32_t* offset,
                      const int32_t* groups, int64_t count, int64_t, int32_t* score, int32_t* lowest, int32_t* index) {
  for (int l = 0; l < kPanel; ++l) {
    lowest[l] = INT32_MAX;
    index[l] = 0;
  }
  for (int64_t e = 0; e < count; ++e)
    for (int64_t c = (int64_t)groups[e] * kGroup, end = c + kGroup; c < end; ++c, score += kPanel) {
      const int8_t* const p = centers + (c / kInt8Block * quads * kInt8Block + c % kInt8Block) * kQuad;
      for (int l = 0; l < kPanel; ++l) {
        int32_t sum = 0;
        for (int64_t j = 0; j < quads; ++j)
          for (int b = 0; b < kQuad; ++b) sum += panel[(j * kPanel + l) * kQuad + b] * p[j * kInt8Block * kQuad + b];
        score[l] = offset[c] - 2 * sum;
        if (score[l] < lowest[l]) {
          lowest[l] = score[l];
          index[l] = (int32_t)c;
        }
      }
    }
}

static int64_t int8_sweep(const int32_t* score, int64_t count, const int32_t* limit, int32_t* least, int32_t* all,
                          Int8Hit* hits) {
  int64_t found = 0;
  for (int l = 0; l < kPanel; ++l) all[l] = kNoScore;
  for (int64_t e = 0; e < count; ++e, least += kPanel) {
    for (int l = 0; l < kPanel; ++l) least[l] = kNoScore;
    for (int t = 0; t < kGroup; ++t, score += kPanel) {
      uint32_t bits = 0;
      for (int l = 0; l < kPanel; ++l) {
        if (score[l] <= limit[l]) bits |= 1u << l;
        if (score[l] > limit[l] && score[l] < least[l]) least[l] = score[l];
      }
      hits[found] = {(int32_t)(e * kGroup) + t, bits};
      found += bits != 0;
    }
    for (int l = 0; l < kPanel; ++l) all[l] = least[l] < all[l] ? least[l] : all[l];
  }
  return found;
}

#endif

// A lower bound of step·√(norm2 + least) − error. The conversion to float32, the root and the product round by less
// than 2⁻²⁰ together, the difference by less than 2⁻²¹ of its magnitude.
KNOLL_INLINE f32 int8_length(const int32_t* least, const int32_t* norm2, const float* error, float step) {
  const f32 root2 = root(__builtin_convertvector(load(least) + load(norm2), f32));
  const f32 length = root2 * broadcast(step) * broadcast(1.0f - 0x1p-20f) - load(error);
  return length - at_least(length, -length) * broadcast(0x1p-21f);
}
static void int8_bounds(const int32_t* least, int64_t count, const int32_t* norm2, const float* error, float step,
                        const float* shift, float from, float per_unit, uint16_t* out) {
  for (int64_t e = 0; e < count; ++e, least += kPanel, out += kPanel)
    for (int64_t at = 0; at < kPanel; at += kLanes32)
      store_units(out + at, int8_length(least + at, norm2 + at, error + at, step), from, per_unit, shift[e]);
}
static void int8_lengths(const int32_t* least, const int32_t* norm2, const float* error, float step, float* out) {
  for (int64_t at = 0; at < kPanel; at += kLanes32)
    store(out + at, int8_length(least + at, norm2 + at, error + at, step));
}
