// Distances of one mean to boxes and to means, written over lanes; hierarchy/kernels.hpp is their table. The operations
// and their order are those of the index's tiles, so bounds need no margin (docs/numerics/index.md, X1).

// Keeps the squares of V vectors and returns the lanes within the limit.
template <int V>
KNOLL_INLINE uint32_t within_cost(const f64* sum, const double* inverse, double own, double limit, double* squares) {
  const f64 mine = broadcast(own), most = broadcast(limit), least = broadcast(0x1p-1022);
  uint32_t within = 0;
  for (int v = 0; v < V; ++v) {
    store(squares + v * kLanes, sum[v]);
    const f64 bound = most * (mine + load(inverse + v * kLanes)) + least;
    within |= (lane_bits(less(bound, sum[v])) ^ ((1u << kLanes) - 1)) << v * kLanes;
  }
  return within;
}

static uint32_t ward_boxes(const double* boxes, const double* inverse, int64_t d, const double* point, double own,
                           double limit, double* squares) {
  constexpr int kWide = kBoxes / kLanes;
  f64 sum[kWide];
  for (int v = 0; v < kWide; ++v) sum[v] = broadcast(0.0);
  for (int64_t j = 0; j < d; ++j, boxes += 2 * kBoxes) {
    const f64 x = broadcast(point[j]);
    for (int v = 0; v < kWide; ++v) {
      const f64 low = load(boxes + v * kLanes), high = load(boxes + kBoxes + v * kLanes);
      const f64 gap = at_least(at_least(low - x, x - high), broadcast(0.0));
      sum[v] += gap * gap;
    }
  }
  return within_cost<kWide>(sum, inverse, own, limit, squares);
}

static uint32_t ward_means(const double* tile, const double* inverse, int64_t d, const double* point, double own,
                           double limit, double* squares) {
  uint32_t within = 0;
  for (int lane = 0; lane < kPoints; lane += kHalf * kLanes) {
    f64 sum[kHalf];
    for (int v = 0; v < kHalf; ++v) sum[v] = broadcast(0.0);
    for (int64_t j = 0; j < d; ++j) {
      const f64 x = broadcast(point[j]);
      for (int v = 0; v < kHalf; ++v) {
        const f64 difference = load(tile + j * kPoints + lane + v * kLanes) - x;
        sum[v] += difference * difference;
      }
    }
    within |= within_cost<kHalf>(sum, inverse + lane, own, limit, squares + lane) << lane;
  }
  return within;
}

static constexpr WardKernels ward_kernels = {.boxes = ward_boxes, .means = ward_means};
