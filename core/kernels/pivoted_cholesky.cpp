// Panels of pivots: candidates are factorised among themselves, then one product of matrices brings all rows up to
// date. docs/numerics/kernels.md, K4.
#include "kernels/pivoted_cholesky.hpp"

#include <algorithm>
#include <cmath>

#include "common/parallel.hpp"
#include "kernels/tall_panels.hpp"
#include "mixture/cholesky.hpp"

namespace knoll {
namespace {

// 48 columns are four panels of the widest small product.
constexpr int64_t kWide = 48;  // pivots of a panel, at most
// Regions are ranges of the tree's order, so candidates are spread over the data.
constexpr int64_t kCandidates = 256;  // regions
constexpr double kHopeless = 0.1;     // of the trace: with more than this left, the factor is of no use
constexpr double kShare = 0.5;        // of the largest diagonal: the least that a pivot must have

struct Factorisation {
  const KernelPoints& points;
  const KernelRule& rule;
  Run run;
  std::vector<double> diagonal;  // (n) by position
  int64_t capacity = 0;          // columns
  LargeArray<double> factor;     // (n, capacity) by position; as many columns are filled as there are pivots
  std::vector<int64_t> pivots;   // positions

  int64_t rank() const { return static_cast<int64_t>(pivots.size()); }
  int64_t row(int64_t position) const { return points.rows[static_cast<size_t>(position)]; }

  // Whether position p with diagonal u is a better pivot than q with v. Ties go to the lower row of the data, so the
  // pivots do not depend on the order of the tree.
  bool better(double u, int64_t p, double v, int64_t q) const { return u > v || (u == v && row(p) < row(q)); }

  // The best pivot of each region; the best of all rows is among them.
  std::vector<int64_t> candidates() const {
    // Fixed ranges of positions: a function of n alone.
    const int64_t regions = std::min(kCandidates, points.n);
    std::vector<int64_t> best(static_cast<size_t>(regions));
    for_chunks(regions, 8, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        int64_t top = s * points.n / regions;
        for (int64_t p = top + 1; p < (s + 1) * points.n / regions; ++p)
          if (better(diagonal[static_cast<size_t>(p)], p, diagonal[static_cast<size_t>(top)], top)) top = p;
        best[static_cast<size_t>(s)] = top;
      }
    });
    return best;
  }

  const double* factor_row(int64_t position) const { return factor.get() + position * capacity; }

  // Row-major with `capacity` columns, so that a row of F is contiguous; a larger factor is a copy.
  void grow(int64_t columns) {
    auto larger = make_large_array<double>(static_cast<size_t>(points.n * columns));
    for_chunks(points.n, 1024, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) std::copy_n(factor_row(p), rank(), larger.get() + p * columns);
    });
    factor = std::move(larger);
    capacity = columns;
  }

  // The pivots of the next panel, and the triangle L of its factorisation (lower, (pivots, pivots) in `lower`).
  std::vector<int64_t> choose(int64_t most, double tol, std::vector<double>& lower) const {
    const auto from = candidates();
    const auto c = static_cast<int64_t>(from.size());
    const int64_t tiles = chunk_count(c, kPoints), d = points.d, known_rank = rank();
    std::vector<double> coords(static_cast<size_t>(tiles * d * kPoints)), known(static_cast<size_t>(c * known_rank));
    std::vector<double> left(static_cast<size_t>(c)), chosen(static_cast<size_t>(c * most), 0.0);  // (c, most)
    double top = 0;
    for (int64_t i = 0; i < tiles * kPoints; ++i) {
      const int64_t p = from[static_cast<size_t>(std::min(i, c - 1))];
      for (int64_t j = 0; j < d; ++j)
        coords[static_cast<size_t>((i / kPoints * d + j) * kPoints + i % kPoints)] = points.coords(p)[j * kPoints];
      if (i >= c) continue;
      std::copy_n(factor_row(p), known_rank, known.data() + i * known_rank);
      left[static_cast<size_t>(i)] = diagonal[static_cast<size_t>(p)];
      top = std::max(top, left[static_cast<size_t>(i)]);
    }
    std::vector<int64_t> taken;  // numbers of candidates
    std::vector<double> values(static_cast<size_t>(tiles * kPoints)), products(static_cast<size_t>(c * 4));
    std::vector<double> side(static_cast<size_t>(4 * std::max(known_rank, most)));
    while (static_cast<int64_t>(taken.size()) < most) {
      run.poll();
      int64_t best = 0;
      for (int64_t i = 1; i < c; ++i)
        if (better(left[static_cast<size_t>(i)], from[static_cast<size_t>(i)], left[static_cast<size_t>(best)],
                   from[static_cast<size_t>(best)]))
          best = i;
      const double pivot = left[static_cast<size_t>(best)];
      // A weaker pivot may be far from the greedy choice: the other rows are brought up to date first.
      if (!(pivot > tol && pivot >= kShare * top)) break;
      const auto k = static_cast<int64_t>(taken.size());
      const double* const y = coords.data() + (best / kPoints * d) * kPoints + best % kPoints;
      for (int64_t t = 0; t < tiles; ++t)
        kernels().gram.values(&rule, coords.data() + t * d * kPoints, y, 1, kPoints, 1, d, values.data() + t * kPoints);
      std::fill(products.begin(), products.end(), 0.0);
      for (int64_t j = 0; j < known_rank; ++j)
        side[static_cast<size_t>(4 * j)] = known[static_cast<size_t>(best * known_rank + j)];
      kernels().gram.add_rows(known.data(), known_rank, c, known_rank, side.data(), 4, products.data(), 4);
      for (int64_t j = 0; j < k; ++j) side[static_cast<size_t>(4 * j)] = chosen[static_cast<size_t>(best * most + j)];
      kernels().gram.add_rows(chosen.data(), most, c, k, side.data(), 4, products.data(), 4);
      // Column k of the candidates' factor: (κ(x_i, x_p) − F_i F_pᵀ − G_i G_pᵀ) / √pivot, with F the columns of earlier
      // panels and G those of this one. A taken candidate has 0 left, rounding aside: it is set, so that it is not
      // taken twice.
      const double root = std::sqrt(pivot);
      for (int64_t i = 0; i < c; ++i) {
        const double g =
            i == best ? root : (values[static_cast<size_t>(i)] - products[static_cast<size_t>(4 * i)]) / root;
        chosen[static_cast<size_t>(i * most + k)] = g;
        left[static_cast<size_t>(i)] = std::max(left[static_cast<size_t>(i)] - g * g, 0.0);
      }
      for (const int64_t i : taken) left[static_cast<size_t>(i)] = 0;
      left[static_cast<size_t>(best)] = 0;
      taken.push_back(best);
    }
    std::vector<int64_t> positions;
    const size_t width = taken.size();
    lower.assign(width * width, 0.0);
    for (size_t i = 0; i < width; ++i) {
      positions.push_back(from[static_cast<size_t>(taken[i])]);
      for (size_t k = 0; k <= i; ++k) lower[i * width + k] = chosen[static_cast<size_t>(taken[i] * most) + k];
    }
    return positions;
  }

  // The panel's columns for all rows, G = (K(·, P) − F F_Pᵀ) L⁻ᵀ, and the diagonal of K − F Fᵀ, which falls by ‖G_i‖²
  // in row i. It is ≥ 0 in exact arithmetic, hence the max.
  void extend(const std::vector<int64_t>& fresh, const std::vector<double>& lower) {
    const auto width = static_cast<int64_t>(fresh.size());
    const int64_t d = points.d, old = rank();
    std::vector<double> inverse(lower.size()), minus(static_cast<size_t>(old * width)), coords;
    invert_lower(matrix_view(lower.data(), width, width), matrix_view(inverse.data(), width, width), run);
    for (int64_t i = 0; i < width; ++i) {
      const double* const known = factor_row(fresh[static_cast<size_t>(i)]);
      for (int64_t k = 0; k < old; ++k) minus[static_cast<size_t>(k * width + i)] = -known[k];
      for (int64_t j = 0; j < d; ++j) coords.push_back(points.coords(fresh[static_cast<size_t>(i)])[j * kPoints]);
    }
    // −F_P, so that one chain computes K(·, P) − F F_Pᵀ.
    const TallPanels products(matrix_view(static_cast<const double*>(minus.data()), old, width));
    View<const double, 2> transposed = matrix_view(static_cast<const double*>(inverse.data()), width, width);
    std::swap(transposed.stride[0], transposed.stride[1]);
    const TallPanels solve(transposed);
    const int64_t step = solve.width();
    for_chunks(points.leaves, 4, run, [&](int64_t, int64_t begin, int64_t end) {
      std::vector<double> v(static_cast<size_t>(width * kPoints)), residual(static_cast<size_t>(kPoints * step));
      std::vector<double> done(static_cast<size_t>(kPoints * step));
      for (int64_t leaf = begin; leaf < end; ++leaf) {
        run.poll();
        const int64_t count = points.count(leaf), first = leaf * kPoints;
        kernels().gram.values(&rule, points.tile(leaf), coords.data(), d, 1, width, d, v.data());
        for (int64_t l = 0; l < count; ++l)
          for (int64_t k = 0; k < width; ++k)
            residual[static_cast<size_t>(l * step + k)] = v[static_cast<size_t>(k * kPoints + l)];
        for (int64_t from = 0; from < old; from += TallPanels::kDeep)
          products.add(factor_row(first) + from, capacity, count, from, std::min(TallPanels::kDeep, old - from),
                       residual.data(), step);
        std::fill(done.begin(), done.end(), 0.0);
        solve.add(residual.data(), step, count, 0, width, done.data(), step);
        for (int64_t l = 0; l < count; ++l) {
          double* const to = factor.get() + (first + l) * capacity + old;
          double sum = 0;
          for (int64_t k = 0; k < width; ++k) {
            to[k] = done[static_cast<size_t>(l * step + k)];
            sum += to[k] * to[k];
          }
          double& left = diagonal[static_cast<size_t>(first + l)];
          // Falls with every panel; where rounding would make it negative it is 0, and such a row is no pivot any more.
          left = std::max(left - sum, 0.0);
        }
      }
    });
    pivots.insert(pivots.end(), fresh.begin(), fresh.end());
    // Exactly 0, as in exact arithmetic: a pivot is never taken twice.
    for (const int64_t p : fresh) diagonal[static_cast<size_t>(p)] = 0;
  }

  // Permutes the rows from the order of the tree to that of the data, in place along the cycles of the permutation,
  // 64 columns per chunk. Columns that were not filled are dropped first.
  LargeArray<double> finish() {
    const int64_t r = rank(), n = points.n;
    if (2 * r < capacity) grow(r);  // a copy of exactly r columns, where it is less than half
    if (r < capacity)
      for (int64_t p = 1; p < n; ++p) std::copy_n(factor_row(p), r, factor.get() + p * r);  // rows move to the front
    for_chunks(r, 64, run, [&](int64_t, int64_t begin, int64_t end) {
      const auto row_at = [&](int64_t i) { return factor.get() + i * r + begin; };
      std::vector<uint8_t> done(static_cast<size_t>(n), 0);
      std::vector<double> first(static_cast<size_t>(end - begin));
      for (int64_t start = 0; start < n; ++start) {
        if (done[static_cast<size_t>(start)]) continue;
        std::copy_n(row_at(start), end - begin, first.data());
        int64_t i = start;
        for (int64_t from; (from = points.positions[static_cast<size_t>(i)]) != start; i = from) {
          std::copy_n(row_at(from), end - begin, row_at(i));
          done[static_cast<size_t>(i)] = 1;
        }
        std::copy_n(first.data(), end - begin, row_at(i));
        done[static_cast<size_t>(i)] = 1;
      }
    });
    return std::move(factor);
  }

  // On one thread in the order of positions: stopping depends on it, so it has one value.
  double trace() const {
    double sum = 0;
    for (const double value : diagonal) sum += value;
    return sum;
  }
};

}  // namespace

PivotedCholesky pivoted_cholesky(const KernelPoints& points, const KernelRule& rule, int64_t max_rank, double tol,
                                 Run run) {
  constexpr int64_t kEarly = 96;  // pivots before the pace is judged, and before all of max_rank is allocated
  const int64_t n = points.n, most = std::min(max_rank, n);
  Factorisation f{points, rule, run, std::vector<double>(static_cast<size_t>(n)), 0, nullptr, {}};
  f.grow(std::min(most, kEarly));
  for (int64_t leaf = 0; leaf < points.leaves; ++leaf) {
    double values[kPoints];
    kernels().gram.diagonal(&rule, points.tile(leaf), points.d, values);
    std::copy_n(values, points.count(leaf), f.diagonal.data() + leaf * kPoints);
  }
  std::vector<std::pair<int64_t, double>> traces{{0, f.trace()}};  // rank, trace
  std::vector<double> lower;
  while (f.rank() < most) {
    if (f.rank() == f.capacity) f.grow(most);
    const auto fresh = f.choose(std::min({kWide, most - f.rank(), f.capacity - f.rank()}), tol, lower);
    if (fresh.empty()) break;
    f.extend(fresh, lower);
    const int64_t now = f.rank();
    traces.push_back({now, f.trace()});
    if (now < kEarly) continue;
    // log trace falls by `pace` per pivot over the later half. Twice that pace is optimistic: if it still leaves more
    // than the target at max_rank, the kernel has no such rank.
    auto half = traces.end() - 1;
    while (half->first > now / 2) --half;
    // A heuristic: it decides whether to go on, never the numbers of the factor.
    const double last = traces.back().second,
                 pace = std::log(last / half->second) / static_cast<double>(now - half->first);
    const double target = std::max(static_cast<double>(n) * tol, kHopeless * traces.front().second);
    if (std::log(last) + 2 * pace * static_cast<double>(most - now) > std::log(target)) break;
  }

  PivotedCholesky out;
  out.rank = f.rank();
  for (const int64_t p : f.pivots) out.pivots.push_back(f.row(p));
  out.diagonal.resize(static_cast<size_t>(n));
  for (int64_t p = 0; p < n; ++p) out.diagonal[static_cast<size_t>(f.row(p))] = f.diagonal[static_cast<size_t>(p)];
  out.factor = f.finish();
  return out;
}

}  // namespace knoll
