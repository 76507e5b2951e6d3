#include "metrics/validity.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/double_double.hpp"
#include "common/tile.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Rows {
  View<const double, 2> x;
  View<const double, 1> weights;
  View<const int64_t, 1> starts;
  bool squared;

  int64_t clusters() const { return starts.shape[0] - 1; }
  int64_t columns() const { return x.shape[1]; }
  double distance(double square) const { return squared ? square : std::sqrt(square); }
};

// Distances² from the points of a column tile to rows, a tile at a time; visit(t, row t of the tile).
class Tiles {
 public:
  explicit Tiles(const Rows& rows)
      : rows_(rows),
        columns_(static_cast<size_t>(rows.columns() * kPoints)),
        others_(columns_.size()),
        tile_(static_cast<size_t>(kPoints * kPoints)) {}

  void stand_at(int64_t begin, int64_t end) { pack_columns(rows_.x.rows(begin, end), nullptr, columns_.data()); }

  template <class Visit>
  void measure(int64_t begin, int64_t end, Run run, Visit&& visit) {
    const int64_t d = rows_.columns();
    for (int64_t j = begin; j < end; j += kPoints) {
      if ((j - begin) % (64 * kPoints) == 0) run.poll();
      const int64_t m = std::min(kPoints + j, end) - j;
      pack_rows(rows_.x.rows(j, j + m), others_.data());
      kernels().distance_tile(columns_.data(), others_.data(), d, m, d, tile_.data());
      for (int64_t t = 0; t < m; ++t) visit(j + t, tile_.data() + t * kPoints);
    }
  }

 private:
  const Rows& rows_;
  std::vector<double> columns_, others_, tile_;
};

// power[l] = base[l]^(twice/2), by squaring; base is not kept.
void half_powers(double* base, int64_t twice, double* power) {
  for (int64_t l = 0; l < kPoints; ++l) power[l] = twice % 2 == 0 ? 1.0 : std::sqrt(base[l]);
  for (int64_t exponent = twice / 2; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1)
      for (int64_t l = 0; l < kPoints; ++l) power[l] *= base[l];
    for (int64_t l = 0; l < kPoints; ++l) base[l] *= base[l];
  }
}

// The core distance of a row, (Σ_j r_j^−d / (W − 1))^(−1/d) over the others of its cluster, as r_min·(S/(W − 1))^(−1/d)
// with S = Σ_j (r_min/r_j)^d: S lies between 1 and W − 1, so no power leaves float64, and terms that underflow are
// below the last digit of the sum. A row with an equal one is infinitely dense: 0.
void core_distances_of(const Rows& rows, int64_t first, int64_t last, double mass, int64_t begin, int64_t end,
                       View<double, 1> core, Run run) {
  const int64_t count = end - begin, d = rows.columns();
  Tiles tiles(rows);
  tiles.stand_at(begin, end);
  std::array<double, kPoints> nearest;
  nearest.fill(kInfinity);
  tiles.measure(first, last, run, [&](int64_t row, double* squares) {
    if (row >= begin && row < end) squares[row - begin] = kInfinity;  // itself
    for (size_t l = 0; l < kPoints; ++l) nearest[l] = std::min(nearest[l], squares[l]);
  });
  std::array<Twofold, kPoints> sums{};
  double ratio[kPoints], power[kPoints];
  tiles.measure(first, last, run, [&](int64_t row, double* squares) {
    if (row >= begin && row < end) squares[row - begin] = kInfinity;
    for (size_t l = 0; l < kPoints; ++l) ratio[l] = nearest[l] / squares[l];
    half_powers(ratio, rows.squared ? 2 * d : d, power);
    for (size_t l = 0; l < kPoints; ++l) sums[l] = sums[l] + Twofold{rows.weights(row) * power[l], 0};
  });
  for (int64_t l = 0; l < count; ++l) {
    const double square = nearest[static_cast<size_t>(l)];
    const bool repeated = rows.weights(begin + l) > 1 || square == 0;
    const double share = sums[static_cast<size_t>(l)].high / (mass - 1);
    core(begin + l) = repeated ? 0.0 : rows.distance(square) * std::pow(share, -1 / static_cast<double>(d));
  }
}

// ---- the trees

// An edge, in the order that makes the tree unique.
struct Edge {
  double reach = kInfinity, distance = kInfinity;
  int64_t a = 0, b = 0;  // rows

  friend bool operator<(const Edge& e, const Edge& f) {
    if (e.reach != f.reach) return e.reach < f.reach;
    if (e.distance != f.distance) return e.distance < f.distance;
    const auto [low, high] = std::minmax(e.a, e.b);
    const auto [f_low, f_high] = std::minmax(f.a, f.b);
    return low != f_low ? low < f_low : high < f_high;
  }
};

// Prim's algorithm for one cluster. The rows that are not in the tree yet stand in column tiles, without gaps: the last
// one takes the place of one that leaves.
class Prim {
 public:
  Prim(const Rows& rows, View<const double, 1> core, int64_t begin, int64_t end)
      : rows_(rows),
        core_(core),
        left_(end - begin - 1),
        best_(static_cast<size_t>(left_)),
        columns_(static_cast<size_t>((left_ / kPoints + 1) * rows.columns() * kPoints)),
        point_(static_cast<size_t>(rows.columns())),
        squares_(static_cast<size_t>(kPoints)) {
    for (int64_t p = 0; p < left_; ++p) {
      auto& best = best_[static_cast<size_t>(p)];
      best.a = begin, best.b = begin + 1 + p;  // rows of the cluster, even where no reach is a number
      for (int64_t j = 0; j < rows.columns(); ++j) column(p, j) = rows.x(begin + 1 + p, j);
    }
    join(begin);
  }

  // The edges of the tree, each with the row that it joins as b.
  std::vector<Edge> grow(Run run) {
    std::vector<Edge> edges;
    edges.reserve(best_.size());
    while (left_ > 0) {
      run.poll();
      const int64_t chosen = least_;
      edges.push_back(best_[static_cast<size_t>(chosen)]);
      const int64_t row = edges.back().b;
      remove(chosen);
      join(row);
    }
    return edges;
  }

 private:
  double& column(int64_t p, int64_t j) {
    return columns_[static_cast<size_t>((p / kPoints * rows_.columns() + j) * kPoints + p % kPoints)];
  }
  void remove(int64_t p) {
    --left_;
    best_[static_cast<size_t>(p)] = best_[static_cast<size_t>(left_)];
    for (int64_t j = 0; j < rows_.columns(); ++j) column(p, j) = column(left_, j);
  }
  // Offers the edges of a row that has joined the tree, and finds the least edge of all.
  void join(int64_t row) {
    const int64_t d = rows_.columns();
    for (int64_t j = 0; j < d; ++j) point_[static_cast<size_t>(j)] = rows_.x(row, j);
    least_ = 0;
    for (int64_t first = 0; first < left_; first += kPoints) {
      kernels().distance_tile(columns_.data() + first * d, point_.data(), d, 1, d, squares_.data());
      const int64_t last = std::min(first + kPoints, left_);
      for (int64_t p = first; p < last; ++p) {
        Edge& best = best_[static_cast<size_t>(p)];
        const double distance = rows_.distance(squares_[static_cast<size_t>(p - first)]);
        const double reach = std::max({core_(row), core_(best.b), distance});
        if (reach <= best.reach) best = std::min(best, Edge{reach, distance, row, best.b});
        if (best < best_[static_cast<size_t>(least_)]) least_ = p;
      }
    }
  }

  const Rows& rows_;
  View<const double, 1> core_;
  int64_t left_, least_ = 0;
  std::vector<Edge> best_;  // for each row outside the least edge into the tree; b is the row
  std::vector<double> columns_, point_, squares_;
};

// A row is inside where two edges meet, one that is inside joins two such rows. Where there is none, all count.
double tree_of_cluster(const Rows& rows, View<const double, 1> core, int64_t begin, int64_t end,
                       View<uint8_t, 1> inside, Run run) {
  const std::vector<Edge> edges = Prim(rows, core, begin, end).grow(run);
  std::vector<double> degree(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) degree[static_cast<size_t>(i - begin)] = rows.weights(i) - 1;  // its copies
  for (const Edge& edge : edges)
    for (const int64_t row : {edge.a, edge.b}) ++degree[static_cast<size_t>(row - begin)];
  bool any = false;
  for (int64_t i = begin; i < end; ++i) {
    inside(i) = degree[static_cast<size_t>(i - begin)] >= 2;
    any |= inside(i) != 0;
  }
  double longest = 0, longest_inside = -1;
  for (const Edge& edge : edges) {
    longest = std::max(longest, edge.reach);
    if (inside(edge.a) && inside(edge.b)) longest_inside = std::max(longest_inside, edge.reach);
  }
  if (!any)
    for (int64_t i = begin; i < end; ++i) inside(i) = 1;
  return longest_inside >= 0 ? longest_inside : longest;
}

// ---- how far apart clusters are

// The rows inside of the trees, packed.
struct Inside {
  std::vector<double> points, core;  // (m, d), (m)
  std::vector<int64_t> cluster;      // (m), rising

  Inside(const Rows& rows, View<const double, 1> core_distances, View<const uint8_t, 1> inside) {
    for (int64_t c = 0; c < rows.clusters(); ++c)
      for (int64_t i = rows.starts(c); i < rows.starts(c + 1); ++i) {
        if (!inside(i)) continue;
        for (int64_t j = 0; j < rows.columns(); ++j) points.push_back(rows.x(i, j));
        core.push_back(core_distances(i));
        cluster.push_back(c);
      }
  }
  int64_t size() const { return static_cast<int64_t>(core.size()); }
};

// best(i) = the least mutual reachability of row i of those inside, to a row of another cluster. Few distances of a
// tile are below what is known already; those alone are looked at.
void least_reach_of(const Rows& rows, const Inside& inside, int64_t begin, int64_t end, double* best, Run run) {
  const int64_t d = rows.columns(), m = inside.size(), count = end - begin;
  const View<const double, 2> points = matrix_view(inside.points.data(), m, d);
  std::vector<double> columns(static_cast<size_t>(d * kPoints)), others(columns.size());
  double squares[kPoints * kPoints], limits[kPoints];
  uint32_t below[kPoints];
  std::fill(limits, limits + kPoints, -1.0);
  std::fill(limits, limits + count, kInfinity);
  pack_columns(points.rows(begin, end), nullptr, columns.data());
  for (int64_t j = 0; j < m; j += kPoints) {
    if (j % (64 * kPoints) == 0) run.poll();
    const int64_t last = std::min(j + kPoints, m);
    const size_t low = static_cast<size_t>(j), high = static_cast<size_t>(last - 1);
    if (inside.cluster[low] == inside.cluster[high] &&
        inside.cluster[low] == inside.cluster[static_cast<size_t>(begin)] &&
        inside.cluster[low] == inside.cluster[static_cast<size_t>(end - 1)])
      continue;  // all of one cluster
    pack_columns(points.rows(j, last), nullptr, others.data());
    kernels().index.below[kSumSquares](columns.data(), others.data(), d, last - j, 1.0, limits, squares, below);
    for (int64_t t = 0; t < last - j; ++t)
      for (uint32_t bits = below[t]; bits != 0; bits &= bits - 1) {
        const auto l = static_cast<int64_t>(std::countr_zero(bits));
        const auto other = static_cast<size_t>(j + t), own = static_cast<size_t>(begin + l);
        if (inside.cluster[other] == inside.cluster[own]) continue;
        const double distance = rows.distance(squares[t * kPoints + l]);
        const double reach = std::max({inside.core[own], inside.core[other], distance});
        if (reach >= best[l]) continue;
        best[l] = reach;
        // the least square that is not below any more: √s < reach only if s ≤ largest_square(reach)
        limits[l] = rows.squared ? reach : std::nextafter(largest_square(reach), kInfinity);
      }
  }
}

}  // namespace

void cluster_validity(View<const double, 2> x, View<const double, 1> weights, View<const int64_t, 1> starts,
                      bool squared, View<double, 1> core, View<uint8_t, 1> inside, View<double, 1> sparseness,
                      View<double, 1> separation, Run run) {
  const Rows rows{x, weights, starts, squared};
  const int64_t k = rows.clusters();
  struct Block {
    int64_t cluster, begin, end;
  };
  std::vector<Block> blocks;
  std::vector<double> mass(static_cast<size_t>(k));
  for (int64_t c = 0; c < k; ++c) {
    for (int64_t i = starts(c); i < starts(c + 1); ++i) mass[static_cast<size_t>(c)] += weights(i);
    for (int64_t i = starts(c); i < starts(c + 1); i += kPoints)
      blocks.push_back({c, i, std::min(i + kPoints, starts(c + 1))});
  }
  for_chunks(static_cast<int64_t>(blocks.size()), 1, run, [&](int64_t, int64_t begin, int64_t) {
    const auto [c, from, to] = blocks[static_cast<size_t>(begin)];
    core_distances_of(rows, starts(c), starts(c + 1), mass[static_cast<size_t>(c)], from, to, core, run);
  });
  for_chunks(k, 1, run, [&](int64_t, int64_t c, int64_t) {
    sparseness(c) = tree_of_cluster(rows, core, starts(c), starts(c + 1), inside, run);
  });
  const Inside inner(rows, core, inside);
  std::vector<double> best(static_cast<size_t>(inner.size()), kInfinity);
  for_chunks(inner.size(), kPoints, run, [&](int64_t, int64_t begin, int64_t end) {
    least_reach_of(rows, inner, begin, end, best.data() + begin, run);
  });
  for (int64_t c = 0; c < k; ++c) separation(c) = kInfinity;
  for (size_t i = 0; i < best.size(); ++i)
    separation(inner.cluster[i]) = std::min(separation(inner.cluster[i]), best[i]);
}

}  // namespace knoll
