// Agglomerative clustering against merging the least pair each time, and the ordering of OPTICS against a plain one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "common/view.hpp"
#include "hierarchy/graph.hpp"
#include "hierarchy/linkage.hpp"
#include "hierarchy/ward.hpp"
#include "neighbors/optics.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Tree {
  std::vector<int64_t> children;
  std::vector<double> heights;
  explicit Tree(int64_t n) : children(static_cast<size_t>(2 * (n - 1))), heights(static_cast<size_t>(n - 1)) {}
  bool operator==(const Tree&) const = default;
  View<int64_t, 2> pairs() { return matrix_view(children.data(), static_cast<int64_t>(heights.size()), int64_t{2}); }
  View<double, 1> costs() { return vector_view(heights.data(), static_cast<int64_t>(heights.size())); }
};

std::vector<double> drawn(int64_t n, int64_t d, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n * d));
  for (double& value : x) value = normal(random);
  return x;
}

double square(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += (x[j] - y[j]) * (x[j] - y[j]);
  return sum;
}

// The heights of merging the least pair each time; cost(A, B) of two sets of rows.
template <class Cost>
std::vector<double> greedy(int64_t n, Cost&& cost) {
  std::vector<std::vector<int64_t>> clusters;
  for (int64_t i = 0; i < n; ++i) clusters.push_back({i});
  std::vector<double> heights;
  while (clusters.size() > 1) {
    double least = kInfinity;
    size_t first = 0, second = 1;
    for (size_t a = 0; a < clusters.size(); ++a)
      for (size_t b = a + 1; b < clusters.size(); ++b)
        if (const double c = cost(clusters[a], clusters[b]); c < least) least = c, first = a, second = b;
    clusters[first].insert(clusters[first].end(), clusters[second].begin(), clusters[second].end());
    clusters.erase(clusters.begin() + static_cast<std::ptrdiff_t>(second));
    heights.push_back(least);
  }
  return heights;
}

std::vector<double> greedy_ward(const std::vector<double>& x, int64_t d) {
  const auto mean = [&](const std::vector<int64_t>& rows) {
    std::vector<double> sum(static_cast<size_t>(d));
    for (const int64_t i : rows)
      for (int64_t j = 0; j < d; ++j)
        sum[static_cast<size_t>(j)] += x[static_cast<size_t>(i * d + j)] / static_cast<double>(rows.size());
    return sum;
  };
  return greedy(static_cast<int64_t>(x.size()) / d, [&](const auto& A, const auto& B) {
    const double a = static_cast<double>(A.size()), b = static_cast<double>(B.size());
    return a * b / (a + b) * square(mean(A).data(), mean(B).data(), d);
  });
}

bool close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::fabs(a[i] - b[i]) > 1e-9 * (1 + std::fabs(b[i]))) return false;
  return true;
}

Tree ward_of(const std::vector<double>& x, int64_t d, int threads) {
  const auto n = static_cast<int64_t>(x.size()) / d;
  Tree tree(n);
  ward(View<const double, 2>(matrix_view(x.data(), n, d)), {}, tree.pairs(), tree.costs(), Run{threads});
  return tree;
}

}  // namespace

TEST("ward is greedy merging, for any number of threads") {
  for (const int64_t d : {1, 2, 5})
    for (const int64_t n : {2, 3, 40, 90}) {
      const auto x = drawn(n, d, static_cast<uint64_t>(n + d));
      const Tree tree = ward_of(x, d, 1);
      CHECK(close(tree.heights, greedy_ward(x, d)));
      CHECK(tree == ward_of(x, d, 3));
    }
}

TEST("ward: squares to boxes and means are the plain loop's, and lanes within a cost, on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (const int64_t d : {1, 3, 8, 17}) {
      const auto corner = drawn(2 * kBoxes, d, 1), point = drawn(1, d, 2), tile = drawn(kPoints, d, 3);
      std::vector<double> boxes(corner.size()), inverse(kPoints), squares(kPoints);
      for (size_t lane = 0; lane < inverse.size(); ++lane) inverse[lane] = 1 / (1.0 + static_cast<double>(lane));
      for (int64_t j = 0; j < d; ++j)
        for (int64_t lane = 0; lane < kBoxes; ++lane) {
          const auto at = static_cast<size_t>(2 * j * kBoxes + lane);
          boxes[at] = std::min(corner[at], corner[at + kBoxes]),
          boxes[at + kBoxes] = std::max(corner[at], corner[at + kBoxes]);
          if (lane == 5) boxes[at] = kInfinity, boxes[at + kBoxes] = -kInfinity;
        }
      const double own = 0.5, limit = static_cast<double>(d);
      const auto check = [&](uint32_t found, int lanes, auto&& gap) {
        for (int lane = 0; lane < lanes; ++lane) {
          double sum = 0;
          for (int64_t j = 0; j < d; ++j) sum += gap(j, lane) * gap(j, lane);
          const auto at = static_cast<size_t>(lane);
          CHECK(squares[at] == sum);
          CHECK((found >> lane & 1) == static_cast<uint32_t>(sum <= limit * (own + inverse[at])));
        }
        CHECK(found < uint64_t{1} << lanes);
      };
      check(table->ward.boxes(boxes.data(), inverse.data(), d, point.data(), own, limit, squares.data()), kBoxes,
            [&](int64_t j, int lane) {
              const double* const low = boxes.data() + 2 * j * kBoxes + lane;
              const double x = point[static_cast<size_t>(j)];
              return std::max({low[0] - x, x - low[kBoxes], 0.0});
            });
      check(table->ward.means(tile.data(), inverse.data(), d, point.data(), own, limit, squares.data()), kPoints,
            [&](int64_t j, int lane) {
              return tile[static_cast<size_t>(j * kPoints + lane)] - point[static_cast<size_t>(j)];
            });
    }
}

TEST("ward of weighted rows is greedy merging of repeated ones") {
  const int64_t n = 60, d = 3;
  const auto x = drawn(n, d, 9);
  std::vector<double> weights, repeated;
  for (int64_t i = 0; i < n; ++i) {
    weights.push_back(static_cast<double>(1 + i % 3));
    for (int64_t k = 0; k <= i % 3; ++k)
      repeated.insert(repeated.end(), &x[static_cast<size_t>(i * d)], &x[static_cast<size_t>(i * d)] + d);
  }
  Tree tree(n);
  ward(View<const double, 2>(matrix_view(x.data(), n, d)), View<const double, 1>(vector_view(weights.data(), n)),
       tree.pairs(), tree.costs(), Run{2});
  auto expected = greedy_ward(repeated, d);
  expected.erase(expected.begin(), expected.end() - (n - 1));  // equal rows merge first, at cost 0
  CHECK(close(tree.heights, expected));
}

TEST("ward rebuilds its tree and keeps its lists") {
  const auto x = drawn(3000, 3, 1);
  const Tree tree = ward_of(x, 3, 2);
  double total = 0, mean[3] = {}, all = 0;
  for (const double rise : tree.heights) total += rise;
  for (size_t i = 0; i < x.size(); ++i) mean[i % 3] += x[i] / 3000;
  for (size_t i = 0; i < x.size(); i += 3) all += square(&x[i], mean, 3);
  CHECK(std::fabs(total - all) < 1e-9 * all);  // the rises add up to J of one cluster
  CHECK(std::is_sorted(tree.heights.begin(), tree.heights.end()));
}

TEST("linkages of a matrix are greedy merging") {
  const int64_t n = 70, d = 2;
  const auto x = drawn(n, d, 3);
  std::vector<double> distances(static_cast<size_t>(pair_count(n)));
  const auto points = View<const double, 2>(matrix_view(x.data(), n, d));
  const auto distance = [&](int64_t i, int64_t j) {
    return std::sqrt(square(&x[static_cast<size_t>(i * d)], &x[static_cast<size_t>(j * d)], d));
  };
  for (const Linkage linkage : {Linkage::average, Linkage::complete, Linkage::single})
    for (const int threads : {1, 2}) {
      pair_distances(points, Metric(MetricName::euclidean, 2, d), distances.data(), Run{threads});
      Tree tree(n);
      link_matrix(distances.data(), {}, linkage, tree.pairs(), tree.costs(), Run{threads});
      const auto expected = greedy(n, [&](const auto& A, const auto& B) {
        double sum = 0, most = 0, least = kInfinity;
        for (const int64_t i : A)
          for (const int64_t j : B)
            sum += distance(i, j), most = std::max(most, distance(i, j)), least = std::min(least, distance(i, j));
        return linkage == Linkage::average    ? sum / static_cast<double>(A.size() * B.size())
               : linkage == Linkage::complete ? most
                                              : least;
      });
      CHECK(close(tree.heights, expected));
    }
}

TEST("a complete graph gives ward's tree") {
  const int64_t n = 50, d = 3;
  const auto x = drawn(n, d, 4);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) edges.push_back(j), edges.push_back(i);
  Tree tree(n);
  const int64_t merges = link_graph(View<const double, 2>(matrix_view(x.data(), n, d)), {},
                                    View<const int64_t, 2>(matrix_view(edges.data(), pair_count(n), int64_t{2})), {},
                                    GraphLinkage::ward, n - 1, tree.pairs(), tree.costs(), Run{});
  CHECK(merges == n - 1);
  CHECK(close(tree.heights, ward_of(x, d, 1).heights));
}

TEST("bars become a binary tree") {
  const std::vector<double> bars{kInfinity, 2.0, 1.0, 2.0};
  Tree tree(4);
  link_bars(View<const double, 1>(vector_view(bars.data(), int64_t{4})), tree.pairs(), tree.costs(), Run{});
  CHECK((tree.children == std::vector<int64_t>{1, 2, 0, 4, 3, 5}));
  CHECK((tree.heights == std::vector<double>{1.0, 2.0, 2.0}));
}

TEST("optics visits the row of least reachability") {
  const int64_t n = 300, d = 2;
  const auto x = drawn(n, d, 5);
  for (const double max_eps : {kInfinity, 0.4}) {
    std::vector<double> core(static_cast<size_t>(n)), all(static_cast<size_t>(n)), reach(core), found(core);
    const auto distance = [&](int64_t i, int64_t j) {
      return std::sqrt(square(&x[static_cast<size_t>(i * d)], &x[static_cast<size_t>(j * d)], d));
    };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) all[static_cast<size_t>(j)] = distance(i, j);
      std::nth_element(all.begin(), all.begin() + 4, all.end());
      core[static_cast<size_t>(i)] = all[4];
    }
    std::vector<int64_t> order(static_cast<size_t>(n)), from(order);
    optics_order(View<const double, 2>(matrix_view(x.data(), n, d)), View<const double, 1>(vector_view(core.data(), n)),
                 max_eps, Metric(MetricName::euclidean, 2, d), vector_view(order.data(), n),
                 vector_view(reach.data(), n), vector_view(from.data(), n), Run{});
    std::fill(found.begin(), found.end(), kInfinity);
    std::vector<bool> visited(static_cast<size_t>(n));
    for (const int64_t p : order) {
      int64_t next = -1;
      for (int64_t o = 0; o < n; ++o)
        if (!visited[static_cast<size_t>(o)] &&
            (next < 0 || found[static_cast<size_t>(o)] < found[static_cast<size_t>(next)]))
          next = o;
      CHECK(next == p);
      visited[static_cast<size_t>(p)] = true;
      for (int64_t o = 0; o < n && core[static_cast<size_t>(p)] <= max_eps; ++o)
        if (!visited[static_cast<size_t>(o)] && distance(p, o) <= max_eps)
          found[static_cast<size_t>(o)] =
              std::min(found[static_cast<size_t>(o)], std::max(core[static_cast<size_t>(p)], distance(p, o)));
    }
    CHECK(found == reach);
  }
}
