// Tiles of the density tree's searches, written over lanes; tree/kernels.hpp is their table. A query is a lane of one
// tile and is compared with all 32 points of another at once, so that a lane whose ball does not intersect the box of
// the other tile costs a 32nd of the test of all lanes.

// The lanes whose ball intersects the box: fl Σ gap² ≤ fl Σ (x − y)² for every point y of it (docs/numerics/index.md,
// X1).
template <class R>
KNOLL_INLINE uint32_t lanes_near(const double* a, const double* box, int64_t d, f64 scale, const double* limits) {
  uint32_t near = 0;
  for (int half = 0; half < 2; ++half) {
    f64 sum[kHalf];
    for (int v = 0; v < kHalf; ++v) sum[v] = broadcast(0.0);
    for (int64_t j = 0; j < d; ++j) {
      const f64 low = broadcast(box[j]), high = broadcast(box[d + j]);
      for (int v = 0; v < kHalf; ++v) {
        const f64 x = load(a + j * kPoints + (half * kHalf + v) * kLanes);
        sum[v] = R::add(sum[v], at_least(at_least(low - x, x - high), broadcast(0.0)), scale);
      }
    }
    for (int v = 0; v < kHalf; ++v) {
      const int lane = (half * kHalf + v) * kLanes;
      near |= lane_bits(less(sum[v], load(limits + lane))) << lane;
    }
  }
  return near;
}

template <class R>
static uint32_t tree_intersects(const double* a, const double* box, int64_t d, double scale, const double* limits) {
  return lanes_near<R>(a, box, d, broadcast(scale), limits);
}

// The reduced distances of one point, at steps of kPoints, to the kPoints points of a tile, and which are below a
// limit. y − x instead of x − y: rounding is symmetric, and the sign does not survive |·| or the square.
template <class R>
KNOLL_INLINE uint32_t point_to_tile(const double* a, const double* b, int64_t d, f64 scale, double limit, double* out) {
  uint32_t below = 0;
  for (int half = 0; half < 2; ++half) {
    f64 sum[kHalf];
    reduce_half<R>(b + half * kHalf * kLanes, a, d, scale, sum);
    for (int v = 0; v < kHalf; ++v) {
      const int lane = (half * kHalf + v) * kLanes;
      store(out + lane, sum[v]);
      below |= lane_bits(less(sum[v], broadcast(limit))) << lane;
    }
  }
  return below;
}

template <class R>
static uint32_t tree_below(const double* a, const double* b, const double* box, int64_t d, double scale,
                           const double* limits, double* out, uint32_t* bits) {
  uint32_t found = 0;
  for (uint32_t near = lanes_near<R>(a, box, d, broadcast(scale), limits); near != 0; near &= near - 1) {
    const int l = __builtin_ctz(near);
    bits[l] = point_to_tile<R>(a + l, b, d, broadcast(scale), limits[l], out + l * kPoints);
    found |= (uint32_t)(bits[l] != 0) << l;
  }
  return found;
}

// The lanes of v one higher, the last lane of `before` lowest.
KNOLL_INLINE f64 shifted(f64 before, f64 v) {
#ifdef __FMA__
  const __m256d high = _mm256_permute4x64_pd((__m256d)v, 0x90);  // 0 0 1 2
  return (f64)_mm256_blend_pd(high, _mm256_permute4x64_pd((__m256d)before, 0xff), 1);
#else
  return f64{before[3], v[0], v[1], v[2]};
#endif
}

// A sorted list of 4·V keys with their positions, in registers. Where a key x is inserted, entry i becomes
//     min(key_i, max(key_{i−1}, x)),
// and its position comes from the same side; equal keys stay before x.
template <int V>
struct SortedList {
  f64 keys[V], positions[V];

  inline __attribute__((always_inline)) void insert(f64 x, f64 position) {
    for (int v = V - 1; v >= 0; --v) {
      const f64 none = broadcast(-__builtin_inf());
      const f64 before = shifted(v == 0 ? none : keys[v - 1], keys[v]);
      const f64 its = shifted(v == 0 ? none : positions[v - 1], positions[v]);
      const i64 moves = less(x, keys[v]);
      positions[v] = select(moves, select(less(x, before), its, position), positions[v]);
      keys[v] = select(moves, at_least(before, x), keys[v]);
    }
  }
};

// The lists of up to 16 entries. A key that is no longer below the limit changes nothing among the k first.
template <class R, int V>
KNOLL_INLINE uint32_t nearest_in(const double* a, const double* b, const double* box, int64_t d, double scale,
                                 int64_t first, uint32_t self, int64_t k, double* limits, double* keys,
                                 double* positions) {
  double out[kPoints];
  const uint32_t reached = lanes_near<R>(a, box, d, broadcast(scale), limits);
  for (uint32_t near = reached; near != 0; near &= near - 1) {
    const int l = __builtin_ctz(near);
    uint32_t below = point_to_tile<R>(a + l, b, d, broadcast(scale), limits[l], out) & ~(self << l);
    if (below == 0) continue;
    double *const its_keys = keys + l * 4 * V, *const its_positions = positions + l * 4 * V;
    SortedList<V> list;
    for (int v = 0; v < V; ++v) {
      list.keys[v] = load(its_keys + v * kLanes);
      list.positions[v] = load(its_positions + v * kLanes);
    }
    for (; below != 0; below &= below - 1) {
      const int t = __builtin_ctz(below);
      list.insert(broadcast(out[t]), broadcast((double)(first + t)));
    }
    for (int v = 0; v < V; ++v) {
      store(its_keys + v * kLanes, list.keys[v]);
      store(its_positions + v * kLanes, list.positions[v]);
    }
    limits[l] = its_keys[k - 1];
  }
  return reached;
}

// The lists of any length, in memory.
template <class R>
KNOLL_INLINE uint32_t nearest_of_many(const double* a, const double* b, const double* box, int64_t d, double scale,
                                      int64_t first, uint32_t self, int64_t k, double* limits, double* keys,
                                      double* positions) {
  double out[kPoints];
  const uint32_t reached = lanes_near<R>(a, box, d, broadcast(scale), limits);
  for (uint32_t near = reached; near != 0; near &= near - 1) {
    const int l = __builtin_ctz(near);
    uint32_t below = point_to_tile<R>(a + l, b, d, broadcast(scale), limits[l], out) & ~(self << l);
    double *const its_keys = keys + l * ((k + 3) / 4 * 4), *const its_positions = positions + l * ((k + 3) / 4 * 4);
    for (; below != 0; below &= below - 1) {
      const int t = __builtin_ctz(below);
      if (!(out[t] < its_keys[k - 1])) continue;
      int64_t at = k - 1;
      for (; at > 0 && its_keys[at - 1] > out[t]; --at) {
        its_keys[at] = its_keys[at - 1];
        its_positions[at] = its_positions[at - 1];
      }
      its_keys[at] = out[t];
      its_positions[at] = (double)(first + t);
    }
    limits[l] = its_keys[k - 1];
  }
  return reached;
}

// The lists of a tile's points among each other, which are empty before: nearly every point gets in, so four lanes take
// each point at once. Where a key x is inserted, every entry above x moves one further; equal keys stay before x. NaN,
// the distance of two lanes past the last point, is never below a key.
template <class R>
KNOLL_INLINE void nearest_among(const double* a, int64_t d, double scale, int64_t first, int64_t k, double* limits,
                                double* keys, double* positions) {
  const int64_t width = (k + 3) / 4 * 4;
  for (int group = 0; group < kPoints; group += kLanes) {
    f64 near[16], its[16];
    for (int64_t i = 0; i < k; ++i) near[i] = broadcast(__builtin_inf()), its[i] = broadcast(0.0);
    for (int t = 0; t < kPoints; ++t) {
      f64 x = broadcast(0.0);
      for (int64_t j = 0; j < d; ++j)
        x = R::add(x, load(a + j * kPoints + group) - broadcast(a[j * kPoints + t]), broadcast(scale));
      if (t >= group && t < group + kLanes) x[t - group] = __builtin_inf();
      if (lane_bits(less(x, near[k - 1])) == 0) continue;
      f64 carried = x, position = broadcast((double)(first + t));
      for (int64_t i = 0; i < k; ++i) {
        const f64 key = near[i], before = its[i];
        const i64 moves = less(x, key);
        near[i] = select(moves, carried, key), carried = select(moves, key, carried);
        its[i] = select(moves, position, before), position = select(moves, before, position);
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const int l = group + lane;
      if (limits[l] < 0) continue;
      for (int64_t i = 0; i < k; ++i) keys[l * width + i] = near[i][lane], positions[l * width + i] = its[i][lane];
      limits[l] = near[k - 1][lane];
    }
  }
}

template <class R>
static uint32_t tree_nearest(const double* a, const double* b, const double* box, int64_t d, double scale,
                             int64_t first, uint32_t self, int64_t k, double* limits, double* keys, double* positions) {
  if (self != 0 && k <= 16) {
    nearest_among<R>(a, d, scale, first, k, limits, keys, positions);
    return ~(uint32_t)0;
  }
  if (k <= 4) return nearest_in<R, 1>(a, b, box, d, scale, first, self, k, limits, keys, positions);
  if (k <= 8) return nearest_in<R, 2>(a, b, box, d, scale, first, self, k, limits, keys, positions);
  if (k <= 12) return nearest_in<R, 3>(a, b, box, d, scale, first, self, k, limits, keys, positions);
  if (k <= 16) return nearest_in<R, 4>(a, b, box, d, scale, first, self, k, limits, keys, positions);
  return nearest_of_many<R>(a, b, box, d, scale, first, self, k, limits, keys, positions);
}

static constexpr TreeKernels tree_kernels = {
    .intersects = {tree_intersects<Squares>, tree_intersects<ScaledSquares>, tree_intersects<Absolute>,
                   tree_intersects<Largest>},
    .below = {tree_below<Squares>, tree_below<ScaledSquares>, tree_below<Absolute>, tree_below<Largest>},
    .nearest = {tree_nearest<Squares>, tree_nearest<ScaledSquares>, tree_nearest<Absolute>, tree_nearest<Largest>},
};
