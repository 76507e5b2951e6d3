// The sums of the M step over a tile of points, about a centre o (docs/theory/02-gaussian-mixture.md, eq. 2.7–2.8;
// docs/decisions/0010).

// sums by lanes: mass (4), then first (ld, 4) += λ (x − o)_j, then, if `second`, (ld, 4) += λ (x − o)_j².
static void mixture_column_sums(const double* columns, int64_t points, int64_t d, const double* lambda,
                                const double* center, bool second, double* sums) {
  const int64_t ld = (d + 3) / 4 * 4;
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

// Points wider than this are summed from √λ (x − o) alone, times itself: λ (x − o) beside x − o would not fit into the
// first cache level.
constexpr int64_t kRooted = 32;

// What `weigh` reads and writes, all in strips that are `height` rows high.
struct Weighing {
  const double* strips;  // x
  const double* center;  // (d) o
  const double* shares;  // λ of the rows taken, or √λ where points are wide
  const int32_t* from;   // which rows those are; not read where all are taken
  int64_t rows, height;
  double* away;      // x − o of the rows taken
  double* weighted;  // shares · (x − o)
  double* first;     // (ld) += λ (x − o)
  double* second;    // (ld, ld)
  int64_t d, ld;

  f64 center_at(int64_t j) const { return d - j < 4 ? load_tail(center + j, d - j, 0.0) : load(center + j); }
};

// The products among the four columns of two strips, a and b, with y = λ x: `squares` y_t x_t of each, `near` y_0 x_1
// of a, of b, y_2 x_3 of a, of b, `apart` y_0 x_2 and y_1 x_3 of a, of b, and `across` y_0 x_3 and y_1 x_2 of a, of b.
struct SquareSums {
  f64 squares_a = {}, squares_b = {}, near = {}, apart = {}, across = {};

  __attribute__((always_inline)) void add(f64 a, f64 ya, f64 b, f64 yb) {
    squares_a = fma(ya, a, squares_a);
    squares_b = fma(yb, b, squares_b);
    near = fma(__builtin_shufflevector(ya, yb, 0, 4, 2, 6), __builtin_shufflevector(a, b, 1, 5, 3, 7), near);
    const f64 low = __builtin_shufflevector(ya, yb, 0, 1, 4, 5), high = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    apart = fma(low, high, apart);
    across = fma(low, __builtin_shufflevector(high, high, 1, 0, 3, 2), across);
  }

  // Into the upper triangles of the squares at c, and 4 rows and columns further on.
  __attribute__((always_inline)) void put(bool two, double* c, int64_t ld) const {
    for (int s = 0; s < (two ? 2 : 1); ++s, c += 4 * (ld + 1)) {
      const f64 squares = s == 0 ? squares_a : squares_b;
      for (int t = 0; t < 4; ++t) c[t * (ld + 1)] += squares[t];
      c[1] += near[s], c[2 * (ld + 1) + 1] += near[2 + s];
      c[2] += apart[2 * s], c[ld + 3] += apart[2 * s + 1];
      c[3] += across[2 * s], c[ld + 2] += across[2 * s + 1];
    }
  }
};

// Strips j and j + 4 (or j alone): weighs them, and adds all products among their columns. The rows are all there are,
// or those listed; `Rooted` as above. `away` is written where it is not x itself and will be read.
template <bool Two, bool All, bool Centred, bool Rooted>
KNOLL_INLINE void weigh_strips(const Weighing& w, int64_t j) {
  constexpr bool kAway = !Rooted && !(All && !Centred);
  const int64_t next = 4 * w.height, at = j * w.height;
  const double* const x = w.strips + at;
  double *const away = w.away + at, *const weighted = w.weighted + at;
  f64 oa = {}, ob = {};
  if constexpr (Centred) {
    oa = w.center_at(j);
    if constexpr (Two) ob = w.center_at(j + 4);
  }
  SquareSums squares;
  f64 sum_a = {}, sum_b = {};
  int64_t r = 0;
  do {
    const double* const row = x + 4 * (All ? r : w.from[r]);
    const f64 share = broadcast(w.shares[r]);
    f64 a = load(row), b = {};
    if constexpr (Two) b = load(row + next);
    if constexpr (Centred) a -= oa, b -= ob;
    if constexpr (kAway) {
      store(away + 4 * r, a);
      if constexpr (Two) store(away + next + 4 * r, b);
    }
    const f64 ya = share * a, yb = share * b;
    store(weighted + 4 * r, ya);
    sum_a = Rooted ? fma(share, ya, sum_a) : sum_a + ya;
    if constexpr (Two) {
      store(weighted + next + 4 * r, yb);
      sum_b = Rooted ? fma(share, yb, sum_b) : sum_b + yb;
    }
    if constexpr (Rooted)
      squares.add(ya, ya, yb, yb);
    else
      squares.add(a, ya, b, yb);
  } while (++r < w.rows);
  double* const c = w.second + j * (w.ld + 1);
  squares.put(Two, c, w.ld);
  store(w.first + j, load(w.first + j) + sum_a);
  if constexpr (Two) store(w.first + j + 4, load(w.first + j + 4) + sum_b);
}

// Of three strips, the first with the second and with the third, and the second with the third.
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

// All products: those within strips while they are weighed, two at a time, then those of each strip with the ones after
// it. Not inlined, so that g++ has registers for all sums.
template <bool All, bool Centred, bool Rooted>
static __attribute__((noinline)) void weigh(const Weighing& w) {
  int64_t j = 0;
  for (; j + 8 <= w.ld; j += 8) weigh_strips<true, All, Centred, Rooted>(w, j);
  if (j < w.ld) weigh_strips<false, All, Centred, Rooted>(w, j);
  const double* const x = Rooted ? w.weighted : All && !Centred ? w.strips : w.away;
  for (int64_t i = 0; i + 4 < w.ld; i += 4) {
    const double *const a = x + i * w.height, *const b = w.weighted + (i + 4) * w.height;
    double* const c = w.second + i * (w.ld + 1) + 4;
    if (w.ld - i == 12) return product_corner(a, b, w.height, w.rows, c, w.ld);
    product_band(a, b, w.height, w.rows, c, w.ld, (w.ld - i) / kLanes - 1);
  }
}

template <bool Rooted>
KNOLL_INLINE void weigh_some(const Weighing& w) {
  const bool all = w.from == nullptr, centred = w.center != nullptr;
  if (all && !centred) weigh<true, false, Rooted>(w);
  if (all && centred) weigh<true, true, Rooted>(w);
  if (!all && !centred) weigh<false, false, Rooted>(w);
  if (!all && centred) weigh<false, true, Rooted>(w);
}

// reach[j] = the largest |x_j| of the tile, where that is more; reach[ld + j] = 1 / reach[j]².
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

// So much of a sum may be left out, all points of a piece together: a sum of 4096 terms is expected to round off as
// much. Where a component's mean lies three standard deviations from the centre it costs the variance ten times that.
constexpr double kNothing = 0x1p-47;

// A λ of t times this adds at most the share t to any second moment about o, whose diagonal has come to second[j, j].
// Those off the diagonal, and the first moments, are then as small beside √(second[i, i] second[j, j]) and √(mass
// second[j, j]), because no point lies further out than `reach`.
KNOLL_INLINE double least_share(int64_t d, const double* center, const double* reach, const double* second,
                                double mass) {
  const int64_t ld = (d + 3) / 4 * 4;
  double least = mass;  // second[j, j] ≤ mass · reach²
  auto seen = [&](double share) __attribute__((always_inline)) {
    if (!(share >= least)) least = share >= 0 ? share : 0.0;  // 0 where all of a column lies in the centre
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

// The largest of three bars such that all shares up to it add up to at most `room`. Returns that sum.
KNOLL_INLINE double choose_bar(const double* shares, int64_t points, double room, double& bar) {
  bar = room;
  for (int tries = 0; tries < 2; ++tries, bar *= 0.125) {
    f64 sum = {};
    for (int64_t l = 0; l < points; l += kLanes) {
      const f64 r = load(shares + l);
      sum += select(less(broadcast(bar), r), f64{}, r);
    }
    const double below = hsum(sum);
    if (below <= room) return below;
  }
  bar = room / static_cast<double>(points);
  double below = 0;
  for (int64_t l = 0; l < points; ++l) below += shares[l] > bar ? 0.0 : shares[l];
  return below;
}

// mass (4) += λ by lanes; first[j] += λ (x − o)_j; second (ld, ld) += λ (x − o)_i (x − o)_j, the upper triangle in
// blocks of 4 × 4. A null centre is o = 0. Points whose λ is negligible count in the mass alone, and *spent is the sum
// of what was left out so far; few of them are not worth the search. Returns how many are left. `away` and `weighted`
// have room for strips.
static int64_t mixture_scatter(const double* strips, int64_t points, int64_t d, const double* lambda,
                               const double* center, const double* reach, double* away, double* weighted, double* spent,
                               double* mass, double* first, double* second) {
  const int64_t ld = (d + 3) / 4 * 4;
  double shares[kMixturePoints];
  f64 m = load(mass);
  const double before = hsum(m);
  const f64 bar = broadcast(kNothing * before);  // what is above is not negligible in any case
  i64 large = {};
  for (int64_t l = 0; l < points; l += kLanes) {
    const f64 r = load(lambda + l);
    m += r;
    large += less(bar, r);
    store(shares + l, r);
  }
  store(mass, m);
  const bool all = points + (large[0] + large[1] + large[2] + large[3]) < points / 8;
  int32_t from[kMixturePoints];
  int64_t kept = points;
  if (!all) {
    const double room = kNothing * least_share(d, center, reach, second, before) - *spent;
    double least = 0;
    if (room > 0) *spent += choose_bar(shares, points, room, least);
    kept = 0;
    for (int64_t l = 0; l < points; ++l) {
      shares[kept] = shares[l];
      from[kept] = static_cast<int32_t>(l);
      kept += lambda[l] > least ? 1 : 0;
    }
    if (kept == 0) return 0;
  }
  const bool rooted = d > kRooted;
  if (rooted)
    for (int64_t r = 0; r < kept; r += kLanes) store(shares + r, root(load(shares + r)));
  const Weighing w{strips, center, shares, all ? nullptr : from, kept, points, away, weighted, first, second, d, ld};
  rooted ? weigh_some<true>(w) : weigh_some<false>(w);
  return kept;
}
