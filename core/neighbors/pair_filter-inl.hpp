// Tiles of the pair filter: 33 × 32 products x̂·ŷ in float32, compared with thresholds (docs/numerics/pairs.md, P6):
//     p ≥ high(x) + high(y)  ⟹  D ≤ r²  (sure),      p < low(x) + low(y)  ⟹  D > r²  (impossible).
// The bound on |p − x̂·ŷ| holds for one chain of d steps, fused or not, so every instruction set may use its own.

// Three rows against a whole panel: twelve accumulators, three factors and a vector fill the sixteen registers.
constexpr int kVectors = kPairPanel / kLanes32;
KNOLL_INLINE void three_products(const float* rows, const float* columns, int64_t d, f32 (&s)[3][kVectors]) {
  int64_t j = 0;
  do {  // d ≥ 1: in this form g++ keeps all of s in registers
    const f32 x[3] = {broadcast(rows[3 * j]), broadcast(rows[3 * j + 1]), broadcast(rows[3 * j + 2])};
    for (int v = 0; v < kVectors; ++v) {
      const f32 y = load(columns + j * kPairPanel + v * kLanes32);
      // One chain over j for each pair, from zero: P3 of docs/numerics/pairs.md counts its d steps.
      for (int u = 0; u < 3; ++u) s[u][v] = fma(x[u], y, s[u][v]);
    }
  } while (++j < d);
}

template <bool kMost>
KNOLL_INLINE void three_rows(const float* rows, const float* row_high, const float* row_low, const float* columns,
                             const float* column_high, const float* column_low, int64_t d, uint32_t* sure,
                             uint32_t* possible, f32& most) {
  f32 s[3][kVectors] = {};
  three_products(rows, columns, d, s);
  for (int u = 0; u < 3; ++u) {
    const f32 high = broadcast(row_high[u]), low = broadcast(row_low[u]);
    uint32_t inside = 0, open = 0;
    for (int v = 0; v < kVectors; ++v) {
      // The sum of two thresholds is rounded; κ and λ have a share for that (P4).
      inside |= reach_bits(s[u][v], high + load(column_high + v * kLanes32)) << (v * kLanes32);
      open |= reach_bits(s[u][v], low + load(column_low + v * kLanes32)) << (v * kLanes32);
      if constexpr (kMost) most = at_least(most, s[u][v] - (high + load(column_low + v * kLanes32)));  // NaN: stays
    }
    sure[u] = inside;
    possible[u] = open;
  }
}

// Bit l of sure[r] is set where Σ_j x_r,j·y_l,j ≥ row_high[r] + column_high[l], of possible[r] likewise with the lows,
// all in float32, j in order. rows: kPanelRows points in groups of three, (11 × d × 3); columns: a panel, (d ×
// kPairPanel). `ahead` is the next panel: a share of it is prefetched per group of rows.
template <bool kMost>
KNOLL_INLINE float all_rows(const float* rows, const float* row_high, const float* row_low, const float* columns,
                            const float* column_high, const float* column_low, int64_t d, uint32_t* sure,
                            uint32_t* possible, const float* ahead) {
  // The lines of the next panel, spread over the eleven groups of rows.
  const int64_t lines = (d * kPairPanel * 4 / 64 + kPanelRows / 3 - 1) / (kPanelRows / 3);
  f32 most = broadcast(-__builtin_inff());
  for (int r = 0; r < kPanelRows; r += 3) {
    for (int64_t line = 0; line < lines; ++line, ahead += 16) __builtin_prefetch(ahead, 0, 2);
    three_rows<kMost>(rows + r * d, row_high + r, row_low + r, columns, column_high, column_low, d, sure + r,
                      possible + r, most);
  }
  float largest = most[0];
  for (int lane = 1; lane < kLanes32; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  return largest;
}

static void pair_masks(const float* rows, const float* row_high, const float* row_low, const float* columns,
                       const float* column_high, const float* column_low, int64_t d, uint32_t* sure, uint32_t* possible,
                       const float* ahead) {
  all_rows<false>(rows, row_high, row_low, columns, column_high, column_low, d, sure, possible, ahead);
}
static float pair_masks_and_most(const float* rows, const float* row_high, const float* row_low, const float* columns,
                                 const float* column_high, const float* column_low, int64_t d, uint32_t* sure,
                                 uint32_t* possible, const float* ahead) {
  return all_rows<true>(rows, row_high, row_low, columns, column_high, column_low, d, sure, possible, ahead);
}

static void pair_products(const float* rows, const float* columns, int64_t d, float* out) {
  for (int r = 0; r < kPanelRows; r += 3) {
    f32 s[3][kVectors] = {};
    three_products(rows + r * d, columns, d, s);
    for (int u = 0; u < 3; ++u)
      for (int v = 0; v < kVectors; ++v) store(out + (r + u) * kPairPanel + v * kLanes32, s[u][v]);
  }
}

static constexpr PairKernels pair_kernels = {
    .masks = pair_masks, .masks_and_most = pair_masks_and_most, .products = pair_products};
