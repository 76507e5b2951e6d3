// The sums of the M step over a tile of points, about a centre o (docs/theory/02-gaussian-mixture.md, eq. 2.7–2.8;
// docs/numerics/mixture.md, M5 and M6). The variance is Σλ(x−o)²/Σλ − (μ−o)²: with |μ − o| ≤ 3σ the subtraction costs
// at most a factor of 10 of the relative error, so o may be the origin, and no differences are taken, wherever that
// holds.

// sums by lanes: mass (4), then first (ld, 4) += λ (x − o)_j, then, if `second`, (ld, 4) += λ (x − o)_j².
static void mixture_column_sums(const double* columns, int64_t points, int64_t d, const double* lambda,
                                const double* center, bool second, double* sums) {
  const int64_t ld = (d + 3) / 4 * 4;
  // Sums by lanes: lane l has the points l, l + 4, …; the four are added once, at the end of a cell.
  f64 mass = load(sums);
  for (int64_t l = 0; l < points; l += kLanes) mass += load(lambda + l);
  store(sums, mass);
  double* const first = sums + kLanes;
  double* const squares = first + ld * kLanes;
  for (int64_t j = 0; j < d; j += 4) {
    f64 o[4], s[4], q[4] = {};
    for (int t = 0; t < 4; ++t) {
      o[t] = broadcast(j + t < d ? center[j + t] : 0.0);
      s[t] = load(first + (j + t) * kLanes);
      if (second) q[t] = load(squares + (j + t) * kLanes);
    }
    const double* const y = columns + j * points;
    if (second)
      for (int64_t l = 0; l < points; l += kLanes) {
        const f64 r = load(lambda + l);
        for (int t = 0; t < 4; ++t) {
          // λu enters both sums, so that S₂ = Σ(λu)u has the weight once. Four columns share the load of λ.
          const f64 u = load(y + t * points + l) - o[t], ru = r * u;
          s[t] += ru;
          q[t] = fma(ru, u, q[t]);
        }
      }
    else
      for (int64_t l = 0; l < points; l += kLanes) {
        const f64 r = load(lambda + l);
        for (int t = 0; t < 4; ++t) s[t] = fma(r, load(y + t * points + l) - o[t], s[t]);
      }
    for (int t = 0; t < 4; ++t) {
      store(first + (j + t) * kLanes, s[t]);
      if (second) store(squares + (j + t) * kLanes, q[t]);
    }
  }
}

// d ≤ 3: all 1 + d + d(d+1)/2 ≤ 10 sums stay in registers.
template <int D>
KNOLL_INLINE void small_sums_of(const double* columns, int64_t points, const double* lambda, const double* center,
                                double* sums) {
  constexpr int kSums = 1 + D + D * (D + 1) / 2;
  f64 s[kSums];
  for (int i = 0; i < kSums; ++i) s[i] = load(sums + i * kLanes);
  for (int64_t l = 0; l < points; l += kLanes) {
    const f64 r = load(lambda + l);
    f64 u[D];
    for (int i = 0; i < D; ++i) u[i] = load(columns + i * points + l) - broadcast(center[i]);
    s[0] += r;
    int at = 1 + D;
    for (int i = 0; i < D; ++i) {
      // The upper triangle of λ u uᵀ, row by row.
      const f64 ru = r * u[i];
      s[1 + i] += ru;
      for (int j = i; j < D; ++j, ++at) s[at] = fma(ru, u[j], s[at]);
    }
  }
  for (int i = 0; i < kSums; ++i) store(sums + i * kLanes, s[i]);
}

// d ≤ 3; sums by lanes: mass (4), first (d, 4), then λ (x − o)_i (x − o)_j for i ≤ j, row by row (…, 4).
static void mixture_small_sums(const double* columns, int64_t points, int64_t d, const double* lambda,
                               const double* center, double* sums) {
  if (d == 1) small_sums_of<1>(columns, points, lambda, center, sums);
  if (d == 2) small_sums_of<2>(columns, points, lambda, center, sums);
  if (d == 3) small_sums_of<3>(columns, points, lambda, center, sums);
}

// Points wider than this are summed from √λ (x − o) alone, times itself: the two operands λ (x − o) and x − o of 48
// points × 64 columns are 48 KB, more than the first cache level holds.
constexpr int64_t kRooted = 32;

// What `weigh` reads and writes, all in strips of four columns, `height` rows high.
struct Weighing {
  const double* strips;  // x
  const double* center;  // (d) o
  const double* shares;  // λ of the rows taken, or √λ where d > kRooted
  const int32_t* from;   // the numbers of those rows; null where all are taken
  int64_t rows, height;  // rows is even
  double* centered;      // x − o of the rows taken
  double* weighted;      // shares · (x − o)
  double* first;         // (ld) += λ (x − o)
  double* second;        // (ld, ld)
  int64_t d, ld;

  f64 center_at(int64_t j) const { return d - j < 4 ? load_tail(center + j, d - j, 0.0) : load(center + j); }
};

// The ten products among the four columns of a strip, two rows at a time, with y = λ x (x and y both √λ x if `Rooted`):
// `same` y_t x_t, `next` y_0 x_1, y_1 x_2, y_2 x_3 and y_3 x_0, and `apart` y_0 x_2 and y_1 x_3 of one row, y_2 x_0 and
// y_3 x_1 of the other (x_i y_j = x_j y_i). So a row takes ten lanes, where a full 4 × 4 block takes sixteen.
struct StripSums {
  f64 first = {}, same = {}, next = {}, apart = {};

  // Two rows of a strip: stores y, and x where `centered` is not null.
  template <bool Centred, bool Rooted>
  __attribute__((always_inline)) void add(const double* row, const double* row2, f64 o, const double* shares,
                                          double* centered, double* weighted) {
    f64 x = load(row), x2 = load(row2);
    if constexpr (Centred) x -= o, x2 -= o;
    if (centered != nullptr) store(centered, x), store(centered + 4, x2);
    const f64 y = broadcast(shares[0]) * x, y2 = broadcast(shares[1]) * x2;
    store(weighted, y);
    store(weighted + 4, y2);
    if constexpr (Rooted) {
      first = fma(broadcast(shares[1]), y2, fma(broadcast(shares[0]), y, first));
      x = y, x2 = y2;
    } else {
      first += y + y2;
    }
    same = fma(y, x, same);
    next = fma(y, __builtin_shufflevector(x, x, 1, 2, 3, 0), next);
    same = fma(y2, x2, same);
    next = fma(y2, __builtin_shufflevector(x2, x2, 1, 2, 3, 0), next);
    apart = fma(__builtin_shufflevector(y, y2, 0, 1, 6, 7), __builtin_shufflevector(x, x2, 2, 3, 4, 5), apart);
  }

  // Into the first moments and the upper triangle of the square at c.
  // `apart` has its entries twice, of one row in lanes 0 and 1 and of the other in lanes 2 and 3.
  __attribute__((always_inline)) void put(double* moments, double* c, int64_t ld) const {
    store(moments, load(moments) + first);
    for (int t = 0; t < 4; ++t) c[t * (ld + 1)] += same[t];
    for (int t = 0; t < 3; ++t) c[t * (ld + 1) + 1] += next[t];
    c[3] += next[3];
    c[2] += apart[0] + apart[2];
    c[ld + 3] += apart[1] + apart[3];
  }
};

// Weighs strips j … j + 4 (Count − 1), and adds the products within each of them, for all rows or for those listed;
// `Rooted` as above. `centered` is written where it is not x itself and the cross products will read it.
template <int Count, bool All, bool Centred, bool Rooted>
KNOLL_INLINE void weigh_strips(const Weighing& w, int64_t j) {
  constexpr bool kCentered = !Rooted && !(All && !Centred);
  const int64_t next = 4 * w.height, at = j * w.height;
  const double *const x = w.strips + at, *const shares = w.shares;
  double *const centered = w.centered + at, *const weighted = w.weighted + at;
  f64 o[Count] = {};
  if constexpr (Centred)
    for (int s = 0; s < Count; ++s) o[s] = w.center_at(j + 4 * s);
  StripSums sums[Count];
  int64_t r = 0;
  do {
    const double* const row = x + 4 * (All ? r : w.from[r]);
    const double* const row2 = x + 4 * (All ? r + 1 : w.from[r + 1]);
#pragma GCC unroll 2
    for (int s = 0; s < Count; ++s)
      sums[s].template add<Centred, Rooted>(row + s * next, row2 + s * next, o[s], shares + r,
                                            kCentered ? centered + s * next + 4 * r : nullptr,
                                            weighted + s * next + 4 * r);
    r += 2;
  } while (r < w.rows);
  for (int s = 0; s < Count; ++s) sums[s].put(w.first + j + 4 * s, w.second + (j + 4 * s) * (w.ld + 1), w.ld);
}

// The last three strips: the first with the second and with the third, and the second with the third, in one loop of
// twelve accumulators.
KNOLL_INLINE void product_corner(const double* a, const double* b, int64_t height, int64_t rows, double* c,
                                 int64_t ldc) {
  f64 s[4], t[4], w[4];
  double* const below = c + 4 * ldc + kLanes;
  for (int u = 0; u < 4; ++u) s[u] = load(c + u * ldc), t[u] = load(c + u * ldc + kLanes), w[u] = load(below + u * ldc);
  int64_t r = 0;
  do {
    const f64 y = load(b + r), z = load(b + height * kLanes + r);
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const f64 x = broadcast(a[r + u]);
      s[u] = fma(x, y, s[u]);
      t[u] = fma(x, z, t[u]);
      w[u] = fma(broadcast(a[height * kLanes + r + u]), z, w[u]);
    }
    r += kLanes;
  } while (r < rows * kLanes);
  for (int u = 0; u < 4; ++u) store(c + u * ldc, s[u]), store(c + u * ldc + kLanes, t[u]), store(below + u * ldc, w[u]);
}

// The upper triangle of the scatter: products within strips while they are weighed, two strips at a time, then those of
// each strip with the ones after it. Not inlined, so that g++ has registers for all sums.
template <bool All, bool Centred, bool Rooted>
static __attribute__((noinline)) void weigh(const Weighing& w) {
  int64_t j = 0;
  for (; j + 8 <= w.ld; j += 8) weigh_strips<2, All, Centred, Rooted>(w, j);
  if (j < w.ld) weigh_strips<1, All, Centred, Rooted>(w, j);
  const double* const x = Rooted ? w.weighted : All && !Centred ? w.strips : w.centered;
  for (int64_t i = 0; i + 4 < w.ld; i += 4) {
    const double *const a = x + i * w.height, *const b = w.weighted + (i + 4) * w.height;
    double* const c = w.second + i * (w.ld + 1) + 4;
    if (w.ld - i == 12) return product_corner(a, b, w.height, w.rows, c, w.ld);
    product_band(a, b, w.height, w.rows, c, w.ld, (w.ld - i) / kLanes - 1);
  }
}

template <bool Rooted>
KNOLL_INLINE void weigh_rows(const Weighing& w) {
  const bool all = w.from == nullptr, centred = w.center != nullptr;
  if (all && !centred) weigh<true, false, Rooted>(w);
  if (all && centred) weigh<true, true, Rooted>(w);
  if (!all && !centred) weigh<false, false, Rooted>(w);
  if (!all && centred) weigh<false, true, Rooted>(w);
}

// reach[j] = max(reach[j], largest |x_j| of the tile); reach[ld + j] = 1 / reach[j]².
// |y_j| ≤ reach_j bounds what a point can add to a second moment (docs/numerics/mixture.md, M6). Columns from d on are
// not read. The root of the bound is never needed, so its square's inverse is kept.
static void mixture_reach(const double* columns, int64_t points, int64_t d, double* reach) {
  double* const inverse = reach + (d + 3) / 4 * 4;
  for (int64_t j = 0; j < d; ++j, columns += points) {
    f64 top[4] = {};
    for (int64_t l = 0; l < points; l += 4 * kLanes)
      for (int t = 0; t < 4; ++t) {
        const f64 x = load(columns + l + t * kLanes);
        top[t] = at_least(top[t], at_least(x, -x));
      }
    const f64 most = at_least(at_least(top[0], top[1]), at_least(top[2], top[3]));
    double more = reach[j];
    for (int t = 0; t < kLanes; ++t) more = most[t] > more ? most[t] : more;
    if (more > reach[j]) inverse[j] = 1 / (more * more);
    reach[j] = more;
  }
}

// The share of a second moment that all points dropped from a piece may have together: a plain sum of 4096 terms rounds
// off about as much, √4096·2⁻⁵³ = 2⁻⁴⁷. With the mean three standard deviations from the centre, the variance loses ten
// times that, 7·10⁻¹⁴.
constexpr double kNegligible = 0x1p-47;

// L = min_j second[j, j] / (reach_j + |o_j|)². A point of weight λ = t·L adds λ(x−o)_j² ≤ t·second[j, j]: the share t
// at most of any diagonal entry. Off the diagonal |λ(x−o)_i(x−o)_j| ≤ t·√(second[i, i]·second[j, j]) by Cauchy–Schwarz,
// and the first moments are bounded by t·√(mass·second[j, j]) likewise.
KNOLL_INLINE double least_share(int64_t d, const double* center, const double* reach, const double* second,
                                double mass) {
  const int64_t ld = (d + 3) / 4 * 4;
  // The smallest of all columns: a point is negligible only if it is so for each.
  double least = mass;  // an upper bound: second[j, j] ≤ mass · reach²
  auto seen = [&](double share) __attribute__((always_inline)) {
    if (!(share >= least)) least = share >= 0 ? share : 0.0;  // 0 for 0/0, where all of a column equals the centre
  };
  if (center == nullptr)
    for (int64_t j = 0; j < d; ++j) seen(second[j * (ld + 1)] * reach[ld + j]);
  else
    for (int64_t j = 0; j < d; ++j) {
      const double r = reach[j] + __builtin_fabs(center[j]);
      seen(second[j * (ld + 1)] / (r * r));
    }
  return least;
}

// Sets `bar` so that all shares ≤ bar add up to at most `budget`, and returns that sum. Tries budget and budget/8; the
// last, budget/points, satisfies it always: at most `points` shares of at most budget/points each.
KNOLL_INLINE double choose_bar(const double* shares, int64_t points, double budget, double& bar) {
  // Two guesses, and then the bar that always holds.
  bar = budget;
  for (int tries = 0; tries < 2; ++tries, bar *= 0.125) {
    f64 sum = {};
    for (int64_t l = 0; l < points; l += kLanes) {
      const f64 r = load(shares + l);
      sum += select(less(broadcast(bar), r), f64{}, r);
    }
    const double below = hsum(sum);
    if (below <= budget) return below;
  }
  bar = budget / static_cast<double>(points);
  double below = 0;
  for (int64_t l = 0; l < points; ++l) below += shares[l] > bar ? 0.0 : shares[l];
  return below;
}

// mass (4) += λ by lanes; first[j] += λ (x − o)_j; second (ld, ld) += λ (x − o)_i (x − o)_j, the upper triangle.
// A null centre is o = 0. Points whose λ is negligible count in the mass alone; *spent is the sum of the λ dropped so
// far in the piece, and stays ≤ kNegligible·L (least_share). Where fewer than an eighth of the points can be
// negligible, none is dropped. Returns how many were summed. `centered` and `weighted` are scratch of the size of
// `strips`.
static int64_t mixture_scatter(const double* strips, int64_t points, int64_t d, const double* lambda,
                               const double* center, const double* reach, double* centered, double* weighted,
                               double* spent, double* mass, double* first, double* second) {
  const int64_t ld = (d + 3) / 4 * 4;
  double shares[kMixturePoints];
  // The sums before this tile: what is left out is compared with what is there already, so early tiles of a piece leave
  // out little.
  const double before = hsum(load(mass));
  const f64 bar = broadcast(kNegligible * before);  // L ≤ mass, so a λ above this is not negligible in any case
  f64 m[2] = {load(mass), f64{}};
  i64 large = {};
  for (int64_t l = 0; l < points; l += 2 * kLanes)
    for (int t = 0; t < 2; ++t) {
      const f64 r = load(lambda + l + t * kLanes);
      m[t] += r;
      large += less(bar, r);
      store(shares + l + t * kLanes, r);
    }
  store(mass, m[0] + m[1]);
  const bool all = points + (large[0] + large[1] + large[2] + large[3]) < points / 8;
  int32_t from[kMixturePoints];
  int64_t kept = points;
  if (!all) {
    const double budget = kNegligible * least_share(d, center, reach, second, before) - *spent;
    double least = 0;
    if (budget > 0) *spent += choose_bar(shares, points, budget, least);
    kept = 0;
    for (int64_t l = 0; l < points; ++l) {
      shares[kept] = shares[l];
      from[kept] = static_cast<int32_t>(l);
      // Written for every row and kept for some: no branch. kept ≤ l, so no share is overwritten before it is read.
      kept += lambda[l] > least ? 1 : 0;
    }
    if (kept == 0) return 0;
    if (kept % 2 != 0) shares[kept] = 0.0, from[kept] = from[kept - 1];  // an even number of rows, the last with λ = 0
  }
  // √λ is rounded once, so its square errs by 2⁻⁵² of λ.
  const bool rooted = d > kRooted;
  if (rooted)
    for (int64_t r = 0; r < kept; r += kLanes) store(shares + r, root(load(shares + r)));
  const int64_t even = kept + kept % 2;
  const Weighing w{strips, center, shares, all ? nullptr : from, even, points, centered, weighted, first,
                   second, d,      ld};
  rooted ? weigh_rows<true>(w) : weigh_rows<false>(w);
  return kept;
}
