// Kernel functions over tiles of pairs, and the small products that such tiles go into. kernels/kernels.hpp is their
// table and states what each computes.
//
// One value has one sequence of operations, whatever its tile, row group or lane: (x − y)² and (y − x)² have the same
// bits, so κ(x, y) = κ(y, x) exactly, and κ(x, x) = 1 for the radial functions.

// u[v] ← 2^(factor·u[v]) for u ≥ 0, factor ≤ 0; 0 where u is above `limit`, which is at most 1021 / |factor|. Exactly 1
// for u = 0. With k the integer nearest the exponent, its fraction f = factor·u − k comes from one fused step, so that
// only the rounding of `factor` itself grows with the exponent (docs/numerics/functions.md, E4). The polynomial is that
// of vexp in powers of f·ln 2, its error 2⁻⁵⁵; its even and odd halves, four vectors side by side, keep the pipelines
// full.
template <int V>
KNOLL_INLINE void powers_of_two(f64* u, f64 factor, f64 limit) {
  const f64 magic = broadcast(0x1.8p52 + 1023.0);  // the low bits of t hold k + 1023
  f64 t[V], f[V], f2[V], even[V], odd[V];
  for (int v = 0; v < V; ++v) {
    // Rounds to an integer in the low bits; u above the limit may give anything here, and is masked at the end.
    t[v] = fma(u[v], factor, magic);
    f[v] = fma(u[v], factor, magic - t[v]);
    f2[v] = f[v] * f[v];
    even[v] = fma(broadcast(0x1.e7c6c9f30d3d6p-32), f2[v], broadcast(0x1.b52652f84f5d9p-24));
    odd[v] = fma(broadcast(0x1.e617c5b942ee2p-28), f2[v], broadcast(0x1.62bfc9ec3c1f8p-20));
  }
#define KNOLL_STEP(half, coefficient) \
  for (int v = 0; v < V; ++v) half[v] = fma(half[v], f2[v], broadcast(coefficient))
  KNOLL_STEP(even, 0x1.ffcbfbc7b2100p-17);
  KNOLL_STEP(odd, 0x1.4309130dc8d15p-13);
  KNOLL_STEP(even, 0x1.5d87fe78c37a4p-10);
  KNOLL_STEP(odd, 0x1.3b2ab6fba0783p-7);
  KNOLL_STEP(even, 0x1.c6b08d704a046p-5);
  KNOLL_STEP(odd, 0x1.ebfbdff82c5a2p-3);
  KNOLL_STEP(even, 0x1.62e42fefa39efp-1);
#undef KNOLL_STEP
  for (int v = 0; v < V; ++v) {
    const f64 q = fma(odd[v], f2[v], even[v] * f[v]);  // 2^f − 1
    // k + 1023 as an exponent field: 2^k, normal for k ≥ −1022.
    const f64 scale = (f64)((u64)t[v] << 52);
    u[v] = select(less(limit, u[v]), f64{}, fma(q, scale, scale));
  }
}

// sums[r, v] = Σ_j (x − y_r)² over coordinates in order, or Σ_j x·y_r, for the lanes of V vectors of a column tile and
// R rows. Plain squares are the one distance (docs/numerics/rounding.md, D1), the others are fused.
enum class PairSum { squares, plain_squares, product };
// D > 0: the number of columns is known, so the loop over them unrolls.
template <PairSum S, int R, int V, int D>
KNOLL_INLINE void pair_sums(const double* columns, const double* y, int64_t row_step, int64_t step, int64_t d,
                            f64 sum[R][V]) {
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = f64{};
  const int64_t count = D > 0 ? D : d;
  for (int64_t j = 0; j < count; ++j) {
    f64 yj[R];
    for (int r = 0; r < R; ++r) yj[r] = broadcast(y[r * row_step + j * step]);
    for (int v = 0; v < V; ++v) {
      const f64 x = load(columns + j * kPoints + v * kLanes);
      for (int r = 0; r < R; ++r) {
        if constexpr (S == PairSum::product) {
          sum[r][v] = fma(x, yj[r], sum[r][v]);
        } else {
          // Differences, never ‖x‖² + ‖y‖² − 2xᵀy: an offset of the data costs no digits.
          const f64 difference = x - yj[r];
          if constexpr (S == PairSum::squares)
            sum[r][v] = fma(difference, difference, sum[r][v]);
          else
            sum[r][v] += difference * difference;
        }
      }
    }
  }
}

// base^degree by squaring, degree ≥ 1. A squaring doubles the relative error and adds a rounding, so the result's is at
// most 2·degree·2^−53.
KNOLL_INLINE f64 whole_power(f64 base, int64_t degree) {
  f64 result = broadcast(1.0);
  for (;; base *= base) {
    if (degree & 1) result *= base;
    degree >>= 1;
    if (degree == 0) return result;
  }
}

// From the sums of V vectors of pairs to κ.
template <KernelFunction Function, int V>
KNOLL_INLINE void kernel_values(const KernelRule& rule, f64* sum) {
  const f64 limit = broadcast(rule.limit);
  if constexpr (Function == kRbf) powers_of_two<V>(sum, broadcast(rule.factor), limit);
  if constexpr (Function == kPowerRbf)
    for (int v = 0; v < V; ++v) {
      // log 0 = −∞ and e^−∞ = 0, so κ(x, x) = 2⁰ = 1.
      f64 power = vexp(broadcast(rule.power) * vlog(sum[v] * broadcast(rule.inverse)));  // (r²/σ²)^p; 0 for r = 0
      powers_of_two<1>(&power, broadcast(rule.factor), broadcast(-1021.0 / rule.factor));
      sum[v] = select(less(limit, sum[v]), f64{}, power);
    }
  if constexpr (Function == kHeaviside)
    for (int v = 0; v < V; ++v) sum[v] = select(less(limit, sum[v]), f64{}, broadcast(1.0));
  if constexpr (Function == kPoly)
    for (int v = 0; v < V; ++v) sum[v] = whole_power(sum[v] + broadcast(rule.shift), rule.degree);
}

// R rows of a tile of values. The Heaviside function is a decision, so it takes the one distance; the others need only
// be accurate, and fuse. Four vectors of four lanes keep the chains of powers_of_two busy within sixteen registers.
template <KernelFunction Function, int R, int D>
KNOLL_INLINE void gram_rows(const KernelRule& rule, const double* columns, const double* y, int64_t row_step,
                            int64_t step, int64_t d, double* out) {
  constexpr int kVectors = 4;
  constexpr PairSum kSum = Function == kHeaviside                     ? PairSum::plain_squares
                           : Function == kPoly || Function == kLinear ? PairSum::product
                                                                      : PairSum::squares;
  for (int64_t l = 0; l < kPoints; l += kVectors * kLanes) {
    f64 sum[R][kVectors];
    pair_sums<kSum, R, kVectors, D>(columns + l, y, row_step, step, d, sum);
    for (int r = 0; r < R; ++r) {
      kernel_values<Function, kVectors>(rule, sum[r]);
      for (int v = 0; v < kVectors; ++v) store(out + r * kPoints + l + v * kLanes, sum[r][v]);
    }
  }
}

template <KernelFunction Function, int D>
KNOLL_INLINE void gram_tile(const KernelRule& rule, const double* columns, const double* y, int64_t row_step,
                            int64_t step, int64_t m, int64_t d, double* out) {
  // Measured: 2.1 → 1.7 ns a value at ten columns, nothing at three or fewer (decision 0014).
  constexpr int kRows = D > 0 ? 1 : 2;  // two share the loads of a column, where there are many
  int64_t t = 0;
  for (; t + kRows <= m; t += kRows)
    gram_rows<Function, kRows, D>(rule, columns, y + t * row_step, row_step, step, d, out + t * kPoints);
  for (; t < m; ++t) gram_rows<Function, 1, D>(rule, columns, y + t * row_step, row_step, step, d, out + t * kPoints);
}

static void gram_values(const KernelRule* rule, const double* columns, const double* y, int64_t row_step, int64_t step,
                        int64_t m, int64_t d, double* out) {
  switch (rule->function) {
    case kRbf:
      // Few columns have instances of their own: there the loop over columns costs as much as its body.
      if (d == 1) return gram_tile<kRbf, 1>(*rule, columns, y, row_step, step, m, d, out);
      if (d == 2) return gram_tile<kRbf, 2>(*rule, columns, y, row_step, step, m, d, out);
      if (d == 3) return gram_tile<kRbf, 3>(*rule, columns, y, row_step, step, m, d, out);
      return gram_tile<kRbf, 0>(*rule, columns, y, row_step, step, m, d, out);
    case kPowerRbf:
      return gram_tile<kPowerRbf, 0>(*rule, columns, y, row_step, step, m, d, out);
    case kHeaviside:
      return gram_tile<kHeaviside, 0>(*rule, columns, y, row_step, step, m, d, out);
    case kPoly:
      return gram_tile<kPoly, 0>(*rule, columns, y, row_step, step, m, d, out);
    case kLinear:
      return gram_tile<kLinear, 0>(*rule, columns, y, row_step, step, m, d, out);
  }
}

// κ(x, x): 1 by definition for the radial functions, so no distance is computed.
static void gram_diagonal(const KernelRule* rule, const double* columns, int64_t d, double* out) {
  for (int64_t l = 0; l < kPoints; l += kLanes) {
    f64 sum = {};
    if (rule->function == kPoly || rule->function == kLinear)
      for (int64_t j = 0; j < d; ++j) {
        const f64 x = load(columns + j * kPoints + l);
        sum = fma(x, x, sum);
      }
    if (rule->function == kPoly) kernel_values<kPoly, 1>(*rule, &sum);
    store(out + l, rule->function == kPoly || rule->function == kLinear ? sum : broadcast(1.0));
  }
}

// R rows and V vectors of columns of a product: R·V accumulators, 4 × 3 where there are twelve columns, which with
// three loads and a broadcast fill the sixteen registers. Every accumulator is one chain of fma over k in order, so the
// bits of an entry do not depend on R and V.
template <int R, int V>
KNOLL_INLINE void product_rows(const double* v, int64_t row_step, int64_t step, int64_t count, const double* b,
                               double* out, int64_t out_stride) {
  f64 s[R][V];
  for (int i = 0; i < R; ++i)
    for (int c = 0; c < V; ++c) s[i][c] = load(out + i * out_stride + c * kLanes);
  int64_t k = 0;
  do {  // count ≥ 1: in this form g++ keeps all of s in registers
    f64 y[V];
    for (int c = 0; c < V; ++c) y[c] = load(b + c * kLanes);
    for (int i = 0; i < R; ++i) {
      const f64 x = broadcast(v[i * row_step]);
      for (int c = 0; c < V; ++c) s[i][c] = fma(x, y[c], s[i][c]);
    }
    v += step, b += V * kLanes;
  } while (++k < count);
  for (int i = 0; i < R; ++i)
    for (int c = 0; c < V; ++c) store(out + i * out_stride + c * kLanes, s[i][c]);
}

static void gram_add_product(const double* v, int64_t row_step, int64_t step, int64_t rows, int64_t count,
                             const double* b, int64_t width, double* out) {
  // Blocks of 4 × 12, 4 × 8 and 8 × 4: as many accumulators as registers allow for each width.
  if (width == 12)
    for (int64_t i = 0; i < rows; i += 4)
      product_rows<4, 3>(v + i * row_step, row_step, step, count, b, out + i * 12, 12);
  if (width == 8)
    for (int64_t i = 0; i < rows; i += 4)
      product_rows<4, 2>(v + i * row_step, row_step, step, count, b, out + i * 8, 8);
  if (width == 4)
    for (int64_t i = 0; i < rows; i += 8)
      product_rows<8, 1>(v + i * row_step, row_step, step, count, b, out + i * 4, 4);
}

// One or two columns, too few for blocks of accumulators: first V·rows_in with the points of a column in lanes, then
// Vᵀ·lanes_in by two chains and a horizontal sum for each row. Both read the tile v while it is in the first cache.
template <int W>
KNOLL_INLINE void lanes_both(const double* v, int64_t m, const double* rows_in, double* lanes_out,
                             const double* lanes_in, double* rows_out) {
  for (int c = 0; c < W; ++c, rows_in += kPoints, lanes_out += kPoints, lanes_in += kPoints) {
    constexpr int kVectors = kPoints / kLanes;
    f64 sum[kVectors];
    for (int u = 0; u < kVectors; ++u) sum[u] = load(lanes_out + u * kLanes);
    for (int64_t t = 0; t < m; ++t) {
      const f64 w = broadcast(rows_in[t]);
      for (int u = 0; u < kVectors; ++u) sum[u] = fma(load(v + t * kPoints + u * kLanes), w, sum[u]);
    }
    for (int u = 0; u < kVectors; ++u) store(lanes_out + u * kLanes, sum[u]);
    if (rows_out == nullptr) continue;
    f64 in[kVectors];
    for (int u = 0; u < kVectors; ++u) in[u] = load(lanes_in + u * kLanes);
    for (int64_t t = 0; t < m; ++t) {
      f64 a = {}, b = {};
      for (int u = 0; u < kVectors; u += 2) {
        // Two chains; the horizontal sum has one order, that of hsum.
        a = fma(load(v + t * kPoints + u * kLanes), in[u], a);
        b = fma(load(v + t * kPoints + (u + 1) * kLanes), in[u + 1], b);
      }
      rows_out[t] += hsum(a + b);
    }
    rows_out += kPoints;
  }
}
static void gram_add_lanes(const double* v, int64_t m, int64_t width, const double* rows_in, double* lanes_out,
                           const double* lanes_in, double* rows_out) {
  if (width == 1) lanes_both<1>(v, m, rows_in, lanes_out, lanes_in, rows_out);
  if (width == 2) lanes_both<2>(v, m, rows_in, lanes_out, lanes_in, rows_out);
}

// A point that changes cluster: its column of K, weighted, leaves one column of G and enters another. Each entry of G
// sees its additions for t in order.
static void gram_move_columns(const double* v, int64_t m, const double* w, const int32_t* old, const int32_t* fresh,
                              double* g) {
  for (int64_t t = 0; t < m; ++t, v += kPoints) {
    const f64 weight = broadcast(w[t]);
    if (fresh[t] >= 0) {
      double* const to = g + int64_t{fresh[t]} * kPoints;
      for (int64_t l = 0; l < kPoints; l += kLanes) store(to + l, fma(load(v + l), weight, load(to + l)));
    }
    if (old[t] >= 0) {
      double* const from = g + int64_t{old[t]} * kPoints;
      for (int64_t l = 0; l < kPoints; l += kLanes) store(from + l, fma(load(v + l), -weight, load(from + l)));
    }
  }
}

// Rows in fours; the last ones singly, with the same chain per entry and hence the same bits.
template <int V>
KNOLL_INLINE void rows_of_width(const double* a, int64_t stride, int64_t rows, int64_t count, const double* b,
                                double* out, int64_t out_stride) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4)
    product_rows<4, V>(a + i * stride, stride, 1, count, b, out + i * out_stride, out_stride);
  for (; i < rows; ++i) product_rows<1, V>(a + i * stride, stride, 1, count, b, out + i * out_stride, out_stride);
}
static void gram_add_rows(const double* a, int64_t stride, int64_t rows, int64_t count, const double* b, int64_t width,
                          double* out, int64_t out_stride) {
  if (count == 0) return;
  if (width == 12) rows_of_width<3>(a, stride, rows, count, b, out, out_stride);
  if (width == 8) rows_of_width<2>(a, stride, rows, count, b, out, out_stride);
  if (width == 4) rows_of_width<1>(a, stride, rows, count, b, out, out_stride);
}

// R rows at a time share what is read of v, w and p; p[j] is one chain of fma over the rows, whatever R.
template <int R>
KNOLL_INLINE void reflect_block(double* a, int64_t stride, int64_t columns, const double* v, const double* w,
                                const double* v_rows, const double* w_rows, const double* u, double* p) {
  for (int64_t j = 0; j < columns; j += kLanes) {
    const f64 vj = load(v + j), wj = load(w + j);
    f64 sum = load(p + j);
    for (int64_t i = 0; i < R; ++i) {
      double* const at = a + i * stride + j;
      const f64 entry = fma(vj, broadcast(-w_rows[i]), fma(wj, broadcast(-v_rows[i]), load(at)));
      store(at, entry);
      sum = fma(entry, broadcast(u[i]), sum);
    }
    store(p + j, sum);
  }
}
static void gram_reflect_rows(double* a, int64_t stride, int64_t rows, int64_t columns, const double* v,
                              const double* w, const double* v_rows, const double* w_rows, const double* u, double* p) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4)
    reflect_block<4>(a + i * stride, stride, columns, v, w, v_rows + i, w_rows + i, u + i, p);
  for (; i < rows; ++i) reflect_block<1>(a + i * stride, stride, columns, v, w, v_rows + i, w_rows + i, u + i, p);
}

static constexpr GramKernels gram_kernels = {
    .values = gram_values,
    .diagonal = gram_diagonal,
    .add_product = gram_add_product,
    .add_lanes = gram_add_lanes,
    .move_columns = gram_move_columns,
    .add_rows = gram_add_rows,
    .reflect_rows = gram_reflect_rows,
};
