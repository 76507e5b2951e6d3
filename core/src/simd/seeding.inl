// The sieve of k-means++: which points of a tile may be nearer to a candidate than to their centres, and about how much
// a candidate gains, in float32.

// Bit l: v[l] ≥ 0.
KNOLL_INLINE uint32_t not_negative(f32 v) {
#ifdef __FMA__
  return ~(uint32_t)_mm256_movemask_ps((__m256)v) & 0xff;
#else
  uint32_t mask = 0;
  for (int l = 0; l < kLanes32; ++l) mask |= (uint32_t)(v[l] >= 0.0f) << l;
  return mask;
#endif
}

// C candidates, one tile.
template <int C>
KNOLL_INLINE void weigh_tile(const float* columns, int64_t d, const float* candidates, const float* bias,
                             const float* threshold, const float* weights, uint32_t* hits, float* gains) {
  constexpr int kVectors = C < 3 ? 4 : 2, kWidth = kVectors * kLanes32;
  uint32_t mask[C] = {};
  f32 gain[C] = {};
  for (int part = 0; part < kPoints; part += kWidth) {
    f32 sum[C][kVectors];
    for (int t = 0; t < C; ++t)
      for (int v = 0; v < kVectors; ++v) sum[t][v] = broadcast(bias[t]);
    const float *x = columns + part, *c = candidates;
    for (int64_t j = 0; j < d; ++j, x += kPoints, ++c) {
      f32 points[kVectors];
      for (int v = 0; v < kVectors; ++v) points[v] = load(x + v * kLanes32);
      for (int t = 0; t < C; ++t) {
        const f32 one = broadcast(c[t * d]);
        for (int v = 0; v < kVectors; ++v) sum[t][v] = fma(points[v], one, sum[t][v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      const int at = part + v * kLanes32;
      const f32 edge = load(threshold + at), weight = load(weights + at);
      for (int t = 0; t < C; ++t) {
        const f32 over = sum[t][v] - edge;
        mask[t] |= not_negative(over) << at;
        gain[t] = fma(weight, at_least(over, f32{}), gain[t]);
      }
    }
  }
  for (int t = 0; t < C; ++t) {
    hits[t] = mask[t];
    store(gains + t * kLanes32, load(gains + t * kLanes32) + gain[t]);
  }
}

template <int C>
KNOLL_INLINE void weigh_group(const float* columns, int64_t d, int64_t tiles, const float* candidates,
                              const float* bias, int64_t count, const float* threshold, const float* weights,
                              int64_t weights_step, uint32_t* hits, float* gains) {
  for (int64_t tile = 0; tile < tiles; ++tile)
    weigh_tile<C>(columns + tile * d * kPoints, d, candidates, bias, threshold + tile * kPoints,
                  weights + tile * weights_step, hits + tile * count, gains);
}

// over = bias_t + Σ_j x_l,j·c_t,j − threshold_l in float32, for candidates t and the points l of column tiles (d ×
// kPoints): bit l of hits (tiles × count) says over ≥ 0, and gains (count × kGainLanes) grow by weight_l·max(over, 0).
static void weigh_tiles(const float* columns, int64_t d, int64_t tiles, const float* candidates, const float* bias,
                        int64_t count, const float* threshold, const float* weights, int64_t weights_step,
                        uint32_t* hits, float* gains) {
  static_assert(kGainLanes == kLanes32);
  for (int64_t t = 0; t < count;) {
    const int64_t left = count - t, groups = (left + 3) / 4, size = (left + groups - 1) / groups;  // 5 are 3 and 2
#define KNOLL_GROUP(C)                                                                                               \
  weigh_group<C>(columns, d, tiles, candidates + t * d, bias + t, count, threshold, weights, weights_step, hits + t, \
                 gains + t * kLanes32)
    switch (size) {
      case 1:
        KNOLL_GROUP(1);
        break;
      case 2:
        KNOLL_GROUP(2);
        break;
      case 3:
        KNOLL_GROUP(3);
        break;
      default:
        KNOLL_GROUP(4);
        break;
    }
#undef KNOLL_GROUP
    t += size;
  }
}

static constexpr SeedingKernels seeding_kernels = {.weigh_tiles = weigh_tiles};
