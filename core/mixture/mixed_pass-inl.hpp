// Mixtures of Gaussian and categorical blocks with missing values (docs/theory/02-gaussian-mixture.md, eq. 2.15–2.20).
//
// Components lie side by side in lanes: a row's value is broadcast, and a level of a category is one load of log θ for
// all components. So a row costs the same instructions whatever the rows around it are, and its results depend on its
// own values alone. V vectors of four lanes make a block.

constexpr int kMixedRows = 64;  // rows at a time

KNOLL_INLINE int64_t triangle(int64_t i) { return i * (i + 1) / 2; }

// ---- the matrices of a pattern --------------------------------------------------------------------------------------

// Cholesky of Σ_oo for all components of a vector at once: L over `l`, (o, o) in steps of `step`, lower triangle.
KNOLL_INLINE void mixed_cholesky(double* l, int64_t o, int64_t step) {
  const auto at = [=](int64_t i, int64_t j) { return l + (i * o + j) * step; };
  for (int64_t j = 0; j < o; ++j) {
    const f64 variance = load(at(j, j));
    f64 pivot = variance;
    for (int64_t s = 0; s < j; ++s) pivot -= load(at(j, s)) * load(at(j, s));
    // Σ is positive definite to 1e-12 of its variances (covariance.py, PIVOT), and a submatrix is no worse.
    const f64 diagonal = root(at_least(pivot, variance * broadcast(0x1p-50)));
    store(at(j, j), diagonal);
    for (int64_t i = j + 1; i < o; ++i) {
      f64 value = load(at(i, j));
      for (int64_t s = 0; s < j; ++s) value -= load(at(i, s)) * load(at(j, s));
      store(at(i, j), value / diagonal);
    }
  }
}

// F = L⁻¹, packed by rows, and Σ log f_ii = −½ log det Σ_oo. Row i of L F = I: f_ij = −(Σ_{j≤s<i} l_is f_sj) / l_ii.
KNOLL_INLINE f64 mixed_inverse(const double* l, int64_t o, int64_t step, double* f) {
  f64 logs = {};
  for (int64_t i = 0; i < o; ++i) {
    const f64 diagonal = broadcast(1.0) / load(l + (i * o + i) * step);
    for (int64_t j = 0; j < i; ++j) {
      f64 sum = {};
      for (int64_t s = j; s < i; ++s) sum += load(l + (i * o + s) * step) * load(f + (triangle(s) + j) * step);
      store(f + (triangle(i) + j) * step, -sum * diagonal);
    }
    store(f + (triangle(i) + i) * step, diagonal);
    logs += vlog(diagonal);
  }
  return logs;
}

// F, G = Σ_mo Fᵀ, the conditional covariance Σ_mm − G Gᵀ and the norms of a pattern, four components at a time
// (eq. 2.17).
KNOLL_INLINE void mixed_prepare_full(const MixedModel& model, const MixedPattern& pattern) {
  const int64_t p = model.p, o = pattern.observed, m = pattern.missing, w = model.width;
  const int32_t* const columns = pattern.columns;
  for (int64_t b = 0; b < model.blocks; ++b)
    for (int64_t v = 0; v < w; v += kLanes) {
      const double* const sigma = model.covariances + b * p * p * w + v;
      double* const f = pattern.factors + b * triangle(o) * w + v;
      double* const g = pattern.regression + b * m * o * w + v;
      double* const c = pattern.conditional + b * triangle(m) * w + v;
      double* const l = pattern.workspace + v;
      for (int64_t i = 0; i < o; ++i)
        for (int64_t j = 0; j <= i; ++j) store(l + (i * o + j) * w, load(sigma + (columns[i] * p + columns[j]) * w));
      mixed_cholesky(l, o, w);
      const f64 logs = mixed_inverse(l, o, w, f);
      store(pattern.log_norms + b * w + v, logs - broadcast(0.91893853320467274178 * static_cast<double>(o)));
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < o; ++j) {
          f64 sum = {};
          for (int64_t s = 0; s <= j; ++s)
            sum += load(sigma + (columns[o + i] * p + columns[s]) * w) * load(f + (triangle(j) + s) * w);
          store(g + (i * o + j) * w, sum);
        }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j <= i; ++j) {
          f64 value = load(sigma + (columns[o + i] * p + columns[o + j]) * w);
          for (int64_t s = 0; s < o; ++s) value -= load(g + (i * o + s) * w) * load(g + (j * o + s) * w);
          // A variance is ≥ 0 in exact arithmetic; rounding may leave less where the observed columns determine it.
          store(c + (triangle(i) + j) * w, i == j ? at_least(value, f64{}) : value);
        }
    }
}

static void mixed_prepare(const MixedModel& model, const MixedPattern& pattern) {
  if (model.full) return mixed_prepare_full(model, pattern);
  const int64_t w = model.width, o = pattern.observed;
  for (int64_t b = 0; b < model.blocks; ++b)
    for (int64_t v = 0; v < w; v += kLanes) {
      f64 logs = {};
      for (int64_t i = 0; i < o; ++i)
        logs += vlog(load(model.covariances + (b * model.p + pattern.columns[i]) * w + v));
      store(pattern.log_norms + b * w + v, logs - broadcast(0.91893853320467274178 * static_cast<double>(o)));
    }
}

// ---- the E step -----------------------------------------------------------------------------------------------------

// z = F (y_o − μ_o) into scratch (o, width); t (o, width) is y_o − μ_o.
template <int V>
KNOLL_INLINE void mixed_whiten(const double* f, const double* t, int64_t o, double* z) {
  constexpr int64_t w = V * kLanes;
  for (int64_t i = 0; i < o; ++i) {
    f64 sum[V] = {};
    for (int64_t j = 0; j <= i; ++j, f += w)
      for (int v = 0; v < V; ++v) sum[v] = fma(load(f + v * kLanes), load(t + j * w + v * kLanes), sum[v]);
    for (int v = 0; v < V; ++v) store(z + i * w + v * kLanes, sum[v]);
  }
}

// joint (rows, blocks · width) = log π_c N(y_o | μ_c, Σ_c,oo) Π_j θ_cj (eq. 2.16). scratch: (2 o, width).
template <int V>
KNOLL_INLINE void mixed_joint_of(const MixedModel& model, const MixedPattern& pattern, const double* constants,
                                 const MixedRows& rows, double* scratch, double* joint) {
  constexpr int64_t w = V * kLanes;
  const int64_t p = model.p, o = pattern.observed, q = rows.q;
  double* const z = scratch + o * w;
  for (int64_t b = 0; b < model.blocks; ++b) {
    const double* const means = model.means + b * p * w;
    const double* const deviations = model.full ? nullptr : model.covariances + b * p * w;
    const double* const factors = model.full ? pattern.factors + b * triangle(o) * w : nullptr;
    const double* const table = model.table + b * model.levels * w;
    f64 start[V];
    for (int v = 0; v < V; ++v)
      start[v] = load(constants + b * w + v * kLanes) + load(pattern.log_norms + b * w + v * kLanes);
    for (int64_t r = 0; r < rows.rows; ++r) {
      const double* const y = rows.y + r * p;
      f64 squares[V] = {}, value[V];
      if (model.full) {
        for (int64_t i = 0; i < o; ++i)
          for (int v = 0; v < V; ++v)
            store(scratch + i * w + v * kLanes,
                  broadcast(y[pattern.columns[i]]) - load(means + pattern.columns[i] * w + v * kLanes));
        mixed_whiten<V>(factors, scratch, o, z);
        for (int64_t i = 0; i < o; ++i)
          for (int v = 0; v < V; ++v) {
            const f64 one = load(z + i * w + v * kLanes);
            squares[v] = fma(one, one, squares[v]);
          }
      } else {
        for (int64_t i = 0; i < o; ++i) {
          const int64_t j = pattern.columns[i];
          for (int v = 0; v < V; ++v) {
            const f64 one =
                (broadcast(y[j]) - load(means + j * w + v * kLanes)) * load(deviations + j * w + v * kLanes);
            squares[v] = fma(one, one, squares[v]);
          }
        }
      }
      // Rows farther than the bound have density 0 in float64 anyway; the bound keeps ∞ − ∞ out of what follows.
      for (int v = 0; v < V; ++v)
        value[v] = fma(at_most(squares[v], broadcast(kMixtureFarthest)), broadcast(-0.5), start[v]);
      const int32_t* const codes = rows.codes + r * q;
      for (int64_t j = 0; j < q; ++j)
        for (int v = 0; v < V; ++v) value[v] += load(table + codes[j] * w + v * kLanes);
      for (int v = 0; v < V; ++v) store(joint + (r * model.blocks + b) * w + v * kLanes, value[v]);
    }
  }
}

static void mixed_joint(const MixedModel& model, const MixedPattern& pattern, const double* constants,
                        const MixedRows& rows, double* scratch, double* joint) {
  model.width == kLanes ? mixed_joint_of<1>(model, pattern, constants, rows, scratch, joint)
                        : mixed_joint_of<2>(model, pattern, constants, rows, scratch, joint);
}

// joint (rows, width) becomes λ (eq. 2.5); log_p[r] = log Σ_c e^joint. A component whose constant is −inf has λ = 0.
static void mixed_normalise(double* joint, int64_t rows, int64_t width, double* log_p) {
  double tops[kMixedRows];
  // Relative to the largest, one term is e⁰ = 1 and none is larger: 1 ≤ Σ ≤ width, so the division is safe.
  for (int64_t r = 0; r < rows; ++r) {
    double* const row = joint + r * width;
    f64 top = load(row), sum = {};
    for (int64_t c = kLanes; c < width; c += kLanes) top = at_least(top, load(row + c));
    double largest = top[0];
    for (int l = 1; l < kLanes; ++l) largest = top[l] > largest ? top[l] : largest;
    tops[r] = largest;
    for (int64_t c = 0; c < width; c += kLanes) {
      const f64 e = vexp_down(load(row + c) - broadcast(largest));
      store(row + c, e);
      sum += e;
    }
    log_p[r] = hsum(sum);
    const f64 inverse = broadcast(1.0 / log_p[r]);
    for (int64_t c = 0; c < width; c += kLanes) store(row + c, load(row + c) * inverse);
  }
  log_array(log_p, log_p, rows);
  for (int64_t r = 0; r < rows; ++r) log_p[r] += tops[r];
}

// ---- conditional means and the sums of the M step -------------------------------------------------------------------

// u (p, width) = E[y | y_o, c] − μ_c + shift_c for one row and block, shift = μ − pivot or 0 (eq. 2.18). scratch: (2
// o).
template <int V, bool kPivots>
KNOLL_INLINE void mixed_expected(const MixedModel& model, const MixedPattern& pattern, int64_t b, const double* y,
                                 double* scratch, double* u) {
  constexpr int64_t w = V * kLanes;
  const int64_t p = model.p, o = pattern.observed, m = pattern.missing;
  const double* const means = model.means + b * p * w;
  const double* const pivots = kPivots ? model.pivots + b * p * w : means;
  for (int64_t i = 0; i < o; ++i) {
    const int64_t j = pattern.columns[i];
    for (int v = 0; v < V; ++v) store(u + j * w + v * kLanes, broadcast(y[j]) - load(pivots + j * w + v * kLanes));
  }
  if (m == 0) return;
  double* const z = scratch + o * w;
  for (int64_t i = 0; i < o; ++i)
    for (int v = 0; v < V; ++v)
      store(scratch + i * w + v * kLanes,
            broadcast(y[pattern.columns[i]]) - load(means + pattern.columns[i] * w + v * kLanes));
  mixed_whiten<V>(pattern.factors + b * triangle(o) * w, scratch, o, z);
  const double* g = pattern.regression + b * m * o * w;
  for (int64_t i = 0; i < m; ++i) {
    const int64_t j = pattern.columns[o + i];
    f64 sum[V];
    for (int v = 0; v < V; ++v)
      sum[v] = kPivots ? load(means + j * w + v * kLanes) - load(pivots + j * w + v * kLanes) : f64{};
    for (int64_t s = 0; s < o; ++s, g += w)
      for (int v = 0; v < V; ++v) sum[v] = fma(load(g + v * kLanes), load(z + s * w + v * kLanes), sum[v]);
    for (int v = 0; v < V; ++v) store(u + j * w + v * kLanes, sum[v]);
  }
}

// moments and counts += the sums of some rows of one pattern, whose λ·w is resp (rows, blocks · width).
template <int V>
KNOLL_INLINE void mixed_sums_of(const MixedModel& model, const MixedPattern& pattern, const MixedRows& rows,
                                const double* resp, const MixedSums& sums) {
  constexpr int64_t w = V * kLanes;
  const int64_t p = model.p, o = pattern.observed, m = pattern.missing, q = rows.q;
  const int64_t second_size = model.full ? triangle(p) : p;
  double* const u = sums.scratch;
  for (int64_t b = 0; b < model.blocks; ++b) {
    double* const mass = sums.moments + b * (1 + 2 * p + second_size) * w;
    double* const column_mass = mass + w;
    double* const first = column_mass + p * w;
    double* const second = first + p * w;
    double* const counts = sums.counts + b * model.levels * w;
    f64 total[V] = {};
    for (int64_t r = 0; r < rows.rows; ++r) {
      const double* const y = rows.y + r * p;
      const double* const lambda = resp + (r * model.blocks + b) * w;
      for (int v = 0; v < V; ++v) total[v] += load(lambda + v * kLanes);
      if (model.full) {
        mixed_expected<V, true>(model, pattern, b, y, u + p * w, u);
        double* pair = second;
        for (int64_t i = 0; i < p; ++i) {
          f64 weighted[V];
          for (int v = 0; v < V; ++v) {
            weighted[v] = load(lambda + v * kLanes) * load(u + i * w + v * kLanes);
            store(first + i * w + v * kLanes, load(first + i * w + v * kLanes) + weighted[v]);
          }
          for (int64_t j = 0; j <= i; ++j, pair += w)
            for (int v = 0; v < V; ++v)
              store(pair + v * kLanes, fma(weighted[v], load(u + j * w + v * kLanes), load(pair + v * kLanes)));
        }
      } else {
        const double* const pivots = model.pivots + b * p * w;
        for (int64_t i = 0; i < o; ++i) {
          const int64_t j = pattern.columns[i];
          for (int v = 0; v < V; ++v) {
            const int64_t at = j * w + v * kLanes;
            const f64 away = broadcast(y[j]) - load(pivots + at), weighted = load(lambda + v * kLanes) * away;
            store(first + at, load(first + at) + weighted);
            store(second + at, fma(weighted, away, load(second + at)));
          }
        }
      }
      const int32_t* const codes = rows.codes + r * q;
      for (int64_t j = 0; j < q; ++j)
        for (int v = 0; v < V; ++v) {
          double* const count = counts + codes[j] * w + v * kLanes;
          store(count, load(count) + load(lambda + v * kLanes));
        }
    }
    // What is the same for all rows of a pattern is added once, times Σ λ: the mass of each column that they have, and
    // the conditional covariance of those that they lack.
    for (int v = 0; v < V; ++v) {
      store(mass + v * kLanes, load(mass + v * kLanes) + total[v]);
      for (int64_t i = 0; i < o; ++i) {
        double* const at = column_mass + pattern.columns[i] * w + v * kLanes;
        store(at, load(at) + total[v]);
      }
      if (!model.full) continue;
      const double* c = pattern.conditional + b * triangle(m) * w + v * kLanes;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j <= i; ++j, c += w) {
          const int64_t row = pattern.columns[o + i], column = pattern.columns[o + j];  // both rise
          double* const at = second + (triangle(row) + column) * w + v * kLanes;
          store(at, fma(total[v], load(c), load(at)));
        }
    }
  }
}

static void mixed_sums(const MixedModel& model, const MixedPattern& pattern, const MixedRows& rows, const double* resp,
                       const MixedSums& sums) {
  model.width == kLanes ? mixed_sums_of<1>(model, pattern, rows, resp, sums)
                        : mixed_sums_of<2>(model, pattern, rows, resp, sums);
}

// filled (rows, m) += Σ_c λ_c E[y_m | y_o, c] of one block's components, the missing columns in order. `filled` starts
// at zero.
template <int V>
KNOLL_INLINE void mixed_fill_of(const MixedModel& model, const MixedPattern& pattern, const MixedRows& rows,
                                const double* resp, double* scratch, double* filled) {
  constexpr int64_t w = V * kLanes;
  const int64_t p = model.p, o = pattern.observed, m = pattern.missing;
  double* const u = scratch;
  for (int64_t b = 0; b < model.blocks; ++b)
    for (int64_t r = 0; r < rows.rows; ++r) {
      if (model.full) mixed_expected<V, false>(model, pattern, b, rows.y + r * p, u + p * w, u);
      const double* const lambda = resp + (r * model.blocks + b) * w;
      for (int64_t i = 0; i < m; ++i) {
        const int64_t j = pattern.columns[o + i];
        f64 sum = {};
        for (int v = 0; v < V; ++v) {
          const f64 away = model.full ? load(u + j * w + v * kLanes) : f64{};
          sum = fma(load(lambda + v * kLanes), load(model.means + (b * p + j) * w + v * kLanes) + away, sum);
        }
        filled[r * m + i] += hsum(sum);
      }
    }
}

static void mixed_fill(const MixedModel& model, const MixedPattern& pattern, const MixedRows& rows, const double* resp,
                       double* scratch, double* filled) {
  model.width == kLanes ? mixed_fill_of<1>(model, pattern, rows, resp, scratch, filled)
                        : mixed_fill_of<2>(model, pattern, rows, resp, scratch, filled);
}
