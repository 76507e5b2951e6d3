// Tiles of Gower's distance: for 32 pairs at once the sum S of the differences and the weight C of the common columns,
// compared as t = ε·C − S (docs/numerics/pairs.md, P9):   t ≥ slack ⟹ within (sure),   t < −slack ⟹ not.

typedef uint8_t bytes32 __attribute__((vector_size(32)));

KNOLL_INLINE bytes32 load_bytes(const uint8_t* p) {
  bytes32 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KNOLL_INLINE bytes32 broadcast_byte(uint8_t x) { return bytes32{} + x; }

// 255 where the bytes are equal. On halves where registers have 16 bytes, as `less` in lanes-inl.hpp.
KNOLL_INLINE bytes32 same_bytes(bytes32 a, bytes32 b) {
#ifdef __FMA__
  return (bytes32)(a == b);
#else
  typedef uint8_t half __attribute__((vector_size(16)));
  half x[2], y[2];
  bytes32 out;
  __builtin_memcpy(x, &a, sizeof a);
  __builtin_memcpy(y, &b, sizeof b);
  for (int h = 0; h < 2; ++h) x[h] = (half)(x[h] == y[h]);
  __builtin_memcpy(&out, x, sizeof out);
  return out;
#endif
}

// sums += weight · counts.
KNOLL_INLINE void add_counts(f32* sums, bytes32 counts, f32 weight) {
  typedef uint8_t bytes8 __attribute__((vector_size(8)));
  uint8_t each[32];
  __builtin_memcpy(each, &counts, sizeof each);
  for (int v = 0; v < 4; ++v) {
    bytes8 bytes;
    __builtin_memcpy(&bytes, each + 8 * v, sizeof bytes);
    sums[v] += weight * __builtin_convertvector(bytes, f32);
  }
}

// Σ|x − y| over the numbers of one row and a panel. A missing one is NaN, and at_least makes 0 of it.
template <bool kComplete>
KNOLL_INLINE void add_numbers(const float* row, const float* panel, int64_t count, f32* sums) {
  const i32 magnitude = broadcast(int32_t{0x7fffffff});
  for (int64_t j = 0; j < count; ++j) {
    const f32 x = broadcast(row[j]);
    for (int v = 0; v < 4; ++v) {
      const f32 away = (f32)((i32)(x - load(panel + 32 * j + 8 * v)) & magnitude);
      sums[v] += kComplete ? away : at_least(f32{}, away);
    }
  }
}

// The weights of the categories that differ, and of the columns that both have.
template <bool kComplete>
KNOLL_INLINE void add_groups(const GowerShape& shape, const uint8_t* row, const uint8_t* panel, f32* sums,
                             f32* masses) {
  const uint8_t* level = panel + 32 * shape.columns;
  const uint8_t* row_level = row + shape.columns;
  const bytes32 all = ~bytes32{};
  int64_t column = 0;
  for (int64_t g = 0; g < shape.groups; ++g) {
    bytes32 common = {}, differ = {};
    for (; column < shape.group_end[g]; ++column) {
      const bytes32 both = kComplete ? all : load_bytes(panel + 32 * column) & broadcast_byte(row[column]);
      if (!kComplete) common -= both;  // 255 is −1
      if (shape.planes[column] == 0) continue;
      bytes32 same = all;
      for (int64_t plane = 0; plane < shape.planes[column]; ++plane, level += 32, ++row_level)
        same &= same_bytes(load_bytes(level), broadcast_byte(*row_level));
      differ -= both & ~same;
    }
    const f32 weight = broadcast(shape.group_weight[g]);
    add_counts(sums, differ, weight);
    if (!kComplete) add_counts(masses, common, weight);
  }
}

template <bool kComplete>
static void gower_rows(const GowerShape& shape, const GowerTile& tile, uint32_t* sure, uint32_t* possible) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    sure[r] = possible[r] = 0;
    if (tile.limits[r] < 0) continue;
    f32 sums[4] = {}, masses[4] = {};
    if (kComplete)
      for (int v = 0; v < 4; ++v) masses[v] = broadcast(shape.mass);
    add_numbers<kComplete>(tile.row_numbers + r * shape.numbers, tile.panel_numbers, shape.numbers, sums);
    add_groups<kComplete>(shape, tile.row_bytes + r * shape.bytes, tile.panel_bytes, sums, masses);
    const f32 limit = broadcast(tile.limits[r]), slack = broadcast(tile.slacks[r] + tile.panel_slack);
    for (int v = 0; v < 4; ++v) {
      const f32 margin = limit * masses[v] - sums[v];
      sure[r] |= reach_bits(margin, slack) << (8 * v);
      possible[r] |= reach_bits(margin, -slack) << (8 * v);
    }
  }
}

static void gower_masks(const GowerShape* shape, const GowerTile* tile, uint32_t* sure, uint32_t* possible) {
  if (tile->complete)
    gower_rows<true>(*shape, *tile, sure, possible);
  else
    gower_rows<false>(*shape, *tile, sure, possible);
}

// Lane by lane the operations of the formula: a column that is missing adds 0, which changes no sum.
static void gower_sums(const double* row, const double* panel, const double* weights, int64_t d, double missing,
                       double* sums, double* masses) {
  constexpr int kVectors = 4;  // half a panel: with the masses eight of the sixteen registers
  const i64 magnitude = i64{} + INT64_MAX;
  const f64 none = broadcast(missing);
  for (int first = 0; first < 32; first += kVectors * kLanes) {
    f64 sum[kVectors] = {}, mass[kVectors] = {};
    for (int64_t j = 0; j < d; ++j) {
      if (row[j] == missing) continue;
      const bool number = weights[j] > 0;
      const f64 x = broadcast(row[j]), weight = broadcast(number ? weights[j] : -weights[j]);
      for (int v = 0; v < kVectors; ++v) {
        const f64 y = load(panel + 32 * j + first + v * kLanes);
        const f64 term = number ? weight * (f64)((i64)(x - y) & magnitude) : select(equal(x, y), f64{}, weight);
        const i64 gone = equal(y, none);
        sum[v] += select(gone, f64{}, term);
        mass[v] += select(gone, f64{}, weight);
      }
    }
    for (int v = 0; v < kVectors; ++v)
      store(sums + first + v * kLanes, sum[v]), store(masses + first + v * kLanes, mass[v]);
  }
}

static constexpr GowerKernels gower_kernels = {.masks = gower_masks, .sums = gower_sums};
