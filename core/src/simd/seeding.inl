// The filter of k-means++: which points of a tile may be nearer to a candidate than to their centres, in float32.

KNOLL_INLINE f32 filter_load(const float* p) {
  f32 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE f32 filter_fma(f32 a, f32 b, f32 c) {
#ifdef __FMA__
  return (f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}
// Bit l: a[l] ≥ b[l].
KNOLL_INLINE uint32_t filter_at_least(f32 a, f32 b) {
#ifdef __FMA__
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ));
#else
  uint32_t mask = 0;
  for (int l = 0; l < kLanes32; ++l) mask |= (uint32_t)(a[l] >= b[l]) << l;
  return mask;
#endif
}

// Bit l of hits[g·4 + t]: bias[g·4 + t] + Σ_j x_l,j·c_t,j ≥ threshold[l], in float32. The points x stand in a column
// tile (d × kPoints), the candidates c in groups of four (d × 4).
static void filter_tile(const float* columns, int64_t d, const float* candidates, const float* bias, int64_t groups,
                        const float* threshold, uint32_t* hits) {
  constexpr int kVectors = 2, kWidth = kVectors * kLanes32;
  for (int64_t g = 0; g < groups; ++g, candidates += d * kAtOnce, bias += kAtOnce, hits += kAtOnce) {
    uint32_t mask[kAtOnce] = {};
    for (int part = 0; part < kPoints; part += kWidth) {
      f32 sum[kAtOnce][kVectors];
      for (int t = 0; t < kAtOnce; ++t)
        for (int v = 0; v < kVectors; ++v) sum[t][v] = f32{} + bias[t];
      const float *x = columns + part, *c = candidates;
      for (int64_t j = 0; j < d; ++j, x += kPoints, c += kAtOnce) {
        f32 points[kVectors];
        for (int v = 0; v < kVectors; ++v) points[v] = filter_load(x + v * kLanes32);
        for (int t = 0; t < kAtOnce; ++t) {
          const f32 one = f32{} + c[t];
          for (int v = 0; v < kVectors; ++v) sum[t][v] = filter_fma(points[v], one, sum[t][v]);
        }
      }
      for (int t = 0; t < kAtOnce; ++t)
        for (int v = 0; v < kVectors; ++v)
          mask[t] |= filter_at_least(sum[t][v], filter_load(threshold + part + v * kLanes32)) << (part + v * kLanes32);
    }
    for (int t = 0; t < kAtOnce; ++t) hits[t] = mask[t];
  }
}

static constexpr SeedingKernels seeding_kernels = {.filter_tile = filter_tile};
