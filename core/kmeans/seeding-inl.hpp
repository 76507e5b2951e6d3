// The sieve of k-means++ in float32: which points of a tile may be nearer to a candidate than to their centres, and
// approximately how much a candidate gains.

// Bit l: the sign of v[l].
KNOLL_INLINE uint32_t signs(f32 v) {
#ifdef __FMA__
  return (uint32_t)_mm256_movemask_ps((__m256)v);
#else
  const i32 bits = (i32)v;
  uint32_t mask = 0;
  for (int l = 0; l < kLanes32; ++l) mask |= ((uint32_t)bits[l] >> 31) << l;
  return mask;
#endif
}

// C candidates, one tile. over ≥ (D² − d²)/2 by the choice of bias and threshold (seeding_cloud.hpp), so a point that a
// candidate would gain always has over ≥ 0, and weight·max(over, 0) is an upper bound of its gain, halved.
template <int C>
KNOLL_INLINE void weigh_tile(const float* columns, int64_t d, const float* candidates, const float* bias,
                             const float* threshold, const float* weights, double error, uint32_t* hits, float* gains,
                             double* errors) {
  constexpr int kVectors = C < 3 ? 4 : 2, kWidth = kVectors * kLanes32;
  uint32_t below[C] = {};
  f32 gain[C] = {};
  for (int first = 0; first < kPoints; first += kWidth) {
    f32 sum[C][kVectors];
    for (int t = 0; t < C; ++t)
      for (int v = 0; v < kVectors; ++v) sum[t][v] = broadcast(bias[t]);
    const float *x = columns + first, *c = candidates;
    for (int64_t j = 0; j < d; ++j, x += kPoints, ++c) {
      f32 points[kVectors];
      for (int v = 0; v < kVectors; ++v) points[v] = load(x + v * kLanes32);
      for (int t = 0; t < C; ++t) {
        const f32 one = broadcast(c[t * d]);
        for (int v = 0; v < kVectors; ++v) sum[t][v] = fma(points[v], one, sum[t][v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      const int at = first + v * kLanes32;
      const f32 edge = load(threshold + at), weight = load(weights + at);
      for (int t = 0; t < C; ++t) {
        const f32 over = sum[t][v] - edge;
        below[t] |= signs(over) << at;
        gain[t] = fma(weight, at_least(over, f32{}), gain[t]);
      }
    }
  }
  for (int t = 0; t < C; ++t) {
    hits[t] = ~below[t];
    // 2e of eq. 18 for each hit, at most `error` for any point of the tile.
    errors[t] += error * __builtin_popcount(hits[t]);
    store(gains + t * kLanes32, load(gains + t * kLanes32) + gain[t]);
  }
}

// over = bias_t + Σ_j x_l,j·c_t,j − threshold_l in float32, for candidates t and the points l of column tiles (d ×
// kPoints): bit l of hits (tiles × count) is over ≥ 0, gains (count × kGainLanes) grow by weight_l·max(over, 0), and
// errors (count) by their tile's error for each hit.
static void weigh_tiles(const float* columns, int64_t d, int64_t tiles, const float* candidates, const float* bias,
                        int64_t count, const float* threshold, const float* weights, int64_t weights_step,
                        const double* error, uint32_t* hits, float* gains, double* errors) {
  static_assert(kGainLanes == kLanes32);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    for (int64_t t = 0; t < count;) {
      const int64_t left = count - t, groups = (left + 3) / 4, size = (left + groups - 1) / groups;  // 5 are 3 and 2
#define KNOLL_GROUP(C)                                                                               \
  weigh_tile<C>(columns, d, candidates + t * d, bias + t, threshold, weights, error[tile], hits + t, \
                gains + t * kLanes32, errors + t)
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
    columns += d * kPoints;
    threshold += kPoints;
    weights += weights_step;
    hits += count;
  }
}

static constexpr SeedingKernels seeding_kernels = {.weigh_tiles = weigh_tiles};
