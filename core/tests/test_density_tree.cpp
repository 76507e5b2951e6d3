#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "common/view.hpp"
#include "simd/kernels.hpp"
#include "tree/backends.hpp"
#include "tree/condensed_tree.hpp"
#include "tree/cut.hpp"
#include "tree/density_tree.hpp"
#include "tree/selection.hpp"
#include "tree/spanning_tree.hpp"

using namespace knoll;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Tree {
  std::vector<int64_t> order;
  std::vector<double> bars, core;
  std::vector<int32_t> near;
  bool operator==(const Tree&) const = default;
};

Tree tree_of(const std::vector<double>& x, int64_t d, int64_t min_samples, int threads,
             const std::string& backend = "auto") {
  const auto n = static_cast<int64_t>(x.size()) / d;
  const auto rows = static_cast<size_t>(n);
  Tree tree{std::vector<int64_t>(rows), std::vector<double>(rows), std::vector<double>(rows),
            std::vector<int32_t>(rows * static_cast<size_t>(min_samples - 1))};
  density_tree(matrix_view(x.data(), n, d), static_cast<double>(min_samples), {}, Metric(MetricName::euclidean, 2, d),
               backend, vector_view(tree.order.data(), n), vector_view(tree.bars.data(), n),
               vector_view(tree.core.data(), n), matrix_view(tree.near.data(), n, min_samples - 1), {}, 1.0,
               Run{threads});
  return tree;
}

// Mutual reachability of all pairs, and its largest step on the best path between any two rows (Floyd and Warshall).
std::vector<double> minimax(const std::vector<double>& x, int64_t d, int64_t min_samples) {
  const size_t n = x.size() / static_cast<size_t>(d);
  std::vector<double> m(n * n), core(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      double sum = 0;
      for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
        const double difference = x[i * static_cast<size_t>(d) + j] - x[k * static_cast<size_t>(d) + j];
        sum += difference * difference;
      }
      m[i * n + k] = std::sqrt(sum);
    }
    std::vector<double> sorted(m.begin() + static_cast<int64_t>(i * n), m.begin() + static_cast<int64_t>((i + 1) * n));
    std::sort(sorted.begin(), sorted.end());
    core[i] = sorted[static_cast<size_t>(min_samples - 1)];
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k) m[i * n + k] = std::max({m[i * n + k], core[i], core[k]});
  for (size_t via = 0; via < n; ++via)
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < n; ++k) m[i * n + k] = std::min(m[i * n + k], std::max(m[i * n + via], m[via * n + k]));
  return m;
}

}  // namespace

TEST("density tree: single linkage of mutual reachability") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    const int64_t n = 2 + static_cast<int64_t>(random() % 90), d = 1 + static_cast<int64_t>(random() % 5);
    const auto min_samples = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(n, 8)));
    std::vector<double> x(static_cast<size_t>(n * d));
    for (double& value : x)  // every other table is a lattice: many equal rows and distances
      value = round % 2 == 0 ? static_cast<double>(random() % 4) : static_cast<double>(random()) * 0x1p-64;
    const Tree tree = tree_of(x, d, min_samples, 3);
    const std::vector<double> expected = minimax(x, d, min_samples);
    for (size_t i = 0; i < tree.order.size(); ++i) {
      double largest = 0;
      for (size_t k = i + 1; k < tree.order.size(); ++k) {
        largest = std::max(largest, tree.bars[k]);
        CHECK(
            largest ==
            expected[static_cast<size_t>(tree.order[i]) * static_cast<size_t>(n) + static_cast<size_t>(tree.order[k])]);
      }
    }
    CHECK(tree.bars[0] == kInfinity);
  }
}

TEST("density tree: the same bits for any number of threads") {
  std::mt19937_64 random(2);
  std::vector<double> x(6000);
  for (double& value : x) value = static_cast<double>(random() % 50);
  const Tree one = tree_of(x, 2, 4, 1);
  for (const int threads : {2, 4}) CHECK(tree_of(x, 2, 4, threads) == one);
}

TEST("density tree: a node joins all components that merge at its height") {
  const std::vector<double> bars{kInfinity, 1, 3, 1, 3, 2};  // ((0 1) (2 3) (4 5)), the three at height 3
  const TreeNodes nodes = tree_nodes(vector_view(bars.data(), 6), Run{});
  CHECK(nodes.height == (std::vector<double>{1, 1, 2, 3}));
  CHECK(nodes.parent == (std::vector<int32_t>{3, 3, 3, -1}));
  CHECK(nodes.begin == (std::vector<int32_t>{0, 2, 4, 0}));
  CHECK(nodes.end == (std::vector<int32_t>{2, 4, 6, 6}));
  CHECK(nodes.leaf_parent == (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
}

// Tables on which searches differ: a lattice has ties, blobs have empty regions, and a chain has long components.
std::vector<double> table(const std::string& shape, int64_t n, int64_t d, std::mt19937_64& random) {
  std::vector<double> x(static_cast<size_t>(n * d));
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int64_t i = 0; i < n; ++i) {
    const auto blob = static_cast<double>(random() % 7);
    for (int64_t j = 0; j < d; ++j)
      x[static_cast<size_t>(i * d + j)] = shape == "lattice" ? static_cast<double>(random() % 3)
                                          : shape == "blobs" ? uniform() + 10 * blob
                                          : shape == "chain" ? static_cast<double>(j == 0 ? i * i : 0)
                                                             : uniform();
  }
  return x;
}

TEST("density tree: the same tree by a kd-tree and by tiles") {
  std::mt19937_64 random(3);
  for (const std::string shape : {"uniform", "lattice", "blobs", "chain"})
    for (const int64_t d : {1, 2, 5, 9, 20})
      for (const int64_t min_samples : {1, 2, 10, 18}) {
        const std::vector<double> x = table(shape, 400, d, random);
        Tree tree = tree_of(x, d, min_samples, 2, "tree"), tiles = tree_of(x, d, min_samples, 3, "tiles");
        CHECK(tree.order == tiles.order);
        CHECK(tree.bars == tiles.bars);
        CHECK(tree.core == tiles.core);
      }
}

TEST("density tree: the same spanning tree whether tiles are remembered or not") {
  std::mt19937_64 random(4);
  for (const std::string shape : {"uniform", "lattice", "blobs"})
    for (const int64_t d : {3, 12})
      for (const MetricName metric : {MetricName::euclidean, MetricName::cosine}) {
        const int64_t n = 900, k = 4;
        const std::vector<double> x = table(shape, n, d, random);
        const auto heights = [&](int64_t tiles_kept, int threads) {
          const Run run{threads};
          const auto search = make_tiles_search(matrix_view(x.data(), n, d), Metric(metric, 2, d), run, tiles_kept);
          std::vector<int32_t> near(static_cast<size_t>(n * k));
          std::vector<double> cleared(static_cast<size_t>(n));
          search->nearest(k, near.data(), cleared.data(), run);
          const std::vector<double> core = cleared;
          const SpanningTree tree = spanning_tree(*search, {near.data(), k, k, core.data(), cleared.data()}, run);
          std::vector<double> keys;
          for (int64_t e = 0; e < tree.count; ++e) keys.push_back(tree.edges.get()[e].key);
          std::sort(keys.begin(), keys.end());
          return keys;
        };
        const std::vector<double> kept = heights(kTilesKept, 2);
        CHECK(static_cast<int64_t>(kept.size()) == n - 1);
        CHECK(heights(0, 1) == kept);
        CHECK(heights(kTilesKept, 1) == kept);
      }
}

TEST("density tree: cosine distances by tiles are those of a kd-tree") {
  std::mt19937_64 random(9);
  for (const std::string shape : {"uniform", "lattice", "blobs"})
    for (const int64_t d : {2, 9, 70})
      for (const double size : {1.0, 1e-160, 1e160}) {
        const int64_t n = 300, min_samples = 5;
        std::vector<double> x = table(shape, n, d, random);
        for (double& value : x) value = (value - 0.5) * size;
        for (int64_t j = 0; j < d; ++j) x[static_cast<size_t>(7 * d + j)] = 0;  // no direction
        for (int64_t j = 0; j < d; ++j) x[static_cast<size_t>(9 * d + j)] = 3 * x[static_cast<size_t>(8 * d + j)];
        const auto grown = [&](const std::string& backend, int threads) {
          Tree tree{std::vector<int64_t>(n), std::vector<double>(n), std::vector<double>(n),
                    std::vector<int32_t>(n * (min_samples - 1))};
          density_tree(matrix_view(std::as_const(x).data(), n, d), min_samples, {}, Metric(MetricName::cosine, 2, d),
                       backend, vector_view(tree.order.data(), n), vector_view(tree.bars.data(), n),
                       vector_view(tree.core.data(), n), matrix_view(tree.near.data(), n, min_samples - 1), {}, 1.0,
                       Run{threads});
          return tree;
        };
        const Tree tree = grown("tree", 2), tiles = grown("tiles", 3);
        CHECK(tree.order == tiles.order);
        CHECK(tree.bars == tiles.bars);
        CHECK(tree.core == tiles.core);
        CHECK(grown("tiles", 1) == tiles);
      }
}

TEST("density tree: links are a minimum spanning tree") {
  std::mt19937_64 random(10);
  for (const std::string shape : {"uniform", "lattice", "chain"}) {
    const int64_t n = 500, d = 2, min_samples = 4;
    const std::vector<double> x = table(shape, n, d, random);
    Tree tree{std::vector<int64_t>(n), std::vector<double>(n), std::vector<double>(n),
              std::vector<int32_t>(n * (min_samples - 1))};
    std::vector<int32_t> links(n);
    density_tree(matrix_view(x.data(), n, d), min_samples, {}, Metric(MetricName::euclidean, 2, d), "auto",
                 vector_view(tree.order.data(), n), vector_view(tree.bars.data(), n), vector_view(tree.core.data(), n),
                 matrix_view(tree.near.data(), n, min_samples - 1), vector_view(links.data(), n), 1.0, Run{2});
    // n − 1 edges without a cycle, whose heights are the bars.
    std::vector<double> heights, bars(tree.bars.begin() + 1, tree.bars.end());
    int64_t roots = 0;
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = i, steps = 0;
      for (; links[static_cast<size_t>(at)] >= 0 && steps <= n; ++steps) at = links[static_cast<size_t>(at)];
      CHECK(steps < n);
      const int64_t k = links[static_cast<size_t>(i)];
      roots += static_cast<int64_t>(k < 0);
      if (k < 0) continue;
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double difference = x[static_cast<size_t>(i * d + j)] - x[static_cast<size_t>(k * d + j)];
        sum += difference * difference;
      }
      heights.push_back(
          std::max({std::sqrt(sum), tree.core[static_cast<size_t>(i)], tree.core[static_cast<size_t>(k)]}));
    }
    CHECK(roots == 1);
    std::sort(heights.begin(), heights.end()), std::sort(bars.begin(), bars.end());
    CHECK(heights == bars);
  }
}

TEST("density tree: a cut is the components of the core rows, numbered by their lowest rows") {
  std::mt19937_64 random(11);
  for (const int64_t n : {1, 2, 63, 64, 65, 1000, 40000}) {  // up to several chunks
    const std::vector<double> x = table(n % 2 == 0 ? "lattice" : "uniform", n, 2, random);
    const Tree tree = tree_of(x, 2, std::min<int64_t>(n, 4), 2);
    std::vector<double> heights(tree.core);
    std::sort(heights.begin(), heights.end());
    for (const double eps : {0.0, heights[heights.size() / 2], 2 * heights.back(), kInfinity}) {
      std::vector<int64_t> expected(static_cast<size_t>(n), -1), component(static_cast<size_t>(n)), number;
      for (size_t i = 0; i < tree.order.size(); ++i)
        component[static_cast<size_t>(tree.order[i])] =
            i == 0 ? 0 : component[static_cast<size_t>(tree.order[i - 1])] + (tree.bars[i] > eps);
      number.assign(static_cast<size_t>(n), -1);
      int64_t count = 0;
      for (size_t row = 0; row < expected.size(); ++row) {
        if (tree.core[row] > eps) continue;
        int64_t& its = number[static_cast<size_t>(component[row])];
        if (its < 0) its = count++;
        expected[row] = its;
      }
      for (const int threads : {1, 3}) {
        std::vector<int64_t> labels(static_cast<size_t>(n), -7);
        CHECK(cut_tree(vector_view(tree.order.data(), n), vector_view(tree.bars.data(), n),
                       vector_view(tree.core.data(), n), eps, vector_view(labels.data(), n), Run{threads}) == count);
        CHECK(labels == expected);
      }
    }
  }
}

TEST("density tree: a cluster goes on in the one large child of a node") {
  // ((a b c) (d e f)) g: the two of three rows split at 2, g leaves the root at 5.
  const std::vector<double> bars{kInfinity, 1, 1, 2, 1, 1, 5}, core(7, 0.5);
  std::vector<int64_t> order(7), cluster(7);
  std::vector<double> leaves(7);
  std::iota(order.begin(), order.end(), 0);
  const auto found =
      condense(vector_view(bars.data(), 7), vector_view(std::as_const(order).data(), 7), {},
               vector_view(core.data(), 7), 3, vector_view(cluster.data(), 7), vector_view(leaves.data(), 7), Run{});
  CHECK(found.parent == (std::vector<int32_t>{-1, 0, 0}));
  CHECK(found.birth == (std::vector<double>{kInfinity, 2, 2}));
  CHECK(found.death == (std::vector<double>{2, -1, -1}));
  CHECK(found.weight == (std::vector<double>{7, 3, 3}));
  CHECK(cluster == (std::vector<int64_t>{2, 2, 2, 1, 1, 1, 0}));
  CHECK(leaves == (std::vector<double>{1, 1, 1, 1, 1, 1, 5}));
}

TEST("density tree: the first rows of labels are lexicographic minima") {
  const std::vector<double> x{2, 0, 1, 5, 1, 4, 1, 4, 0, 0};  // (5, 2)
  const std::vector<int64_t> labels{0, 0, 1, 1, -1};
  std::vector<int64_t> rows(3);
  first_rows(matrix_view(x.data(), int64_t{5}, int64_t{2}), vector_view(labels.data(), 5), vector_view(rows.data(), 3));
  CHECK(rows == (std::vector<int64_t>{1, 2, -1}));
}

TEST("density tree: lists are nearest rows, by row") {
  std::mt19937_64 random(7);
  const int64_t n = 9000, d = 2, k = 9;  // more rows than the blocks in which lists are moved
  const std::vector<double> x = table("uniform", n, d, random);
  const Tree tree = tree_of(x, d, k + 1, 2);
  for (int64_t i = 0; i < n; i += 97) {
    const auto square = [&](int64_t other) {
      const double a = x[static_cast<size_t>(i * d)] - x[static_cast<size_t>(other * d)];
      const double b = x[static_cast<size_t>(i * d + 1)] - x[static_cast<size_t>(other * d + 1)];
      return a * a + b * b;
    };
    std::vector<int32_t> others(static_cast<size_t>(n));
    std::iota(others.begin(), others.end(), 0);
    others.erase(others.begin() + i);
    std::partial_sort(others.begin(), others.begin() + k, others.end(),
                      [&](int32_t p, int32_t q) { return square(p) < square(q); });
    for (int64_t rank = 0; rank < k; ++rank)
      CHECK(tree.near[static_cast<size_t>(i * k + rank)] == others[static_cast<size_t>(rank)]);
  }
}

TEST("density tree: sums do not depend on the order of the rows") {
  std::mt19937_64 random(8);
  const size_t n = 80000;  // more than one thread sorts at once
  std::vector<int64_t> cluster(n);
  std::vector<double> value(n), weight(n);
  for (size_t i = 0; i < n; ++i) {
    cluster[i] = random() % 8 == 0 ? static_cast<int64_t>(random() % 50) : 3;
    value[i] = static_cast<double>(random() % 1000) * 0.37, weight[i] = static_cast<double>(1 + random() % 5) / 3;
  }
  const auto sums = [&](int threads) {
    std::vector<double> out(50);
    const auto rows = static_cast<int64_t>(n);
    ordered_sums(vector_view(std::as_const(cluster).data(), rows), vector_view(std::as_const(value).data(), rows),
                 vector_view(std::as_const(weight).data(), rows), vector_view(out.data(), 50), Run{threads});
    return out;
  };
  const std::vector<double> found = sums(1);
  CHECK(sums(3) == found);
  std::vector<std::pair<double, double>> terms;
  for (size_t i = 0; i < n; ++i)
    if (cluster[i] == 3) terms.emplace_back(value[i], weight[i]);
  std::sort(terms.begin(), terms.end());
  double sum = 0;
  for (const auto& [level, mass] : terms) sum += mass * level;
  CHECK(found[3] == sum);
  std::reverse(cluster.begin(), cluster.end()), std::reverse(value.begin(), value.end());
  std::reverse(weight.begin(), weight.end());
  CHECK(sums(2) == found);
}

TEST("density tree: the choice of the search depends on the data") {
  std::mt19937_64 random(4);
  const int64_t n = 20000, d = 8;
  std::vector<double> line(static_cast<size_t>(n * d)), cloud = table("uniform", n, d, random);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j) line[static_cast<size_t>(i * d + j)] = static_cast<double>(i) + cloud[0];
  const auto chosen = [&](const std::vector<double>& x) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::vector<double> bars(order.size()), core(order.size());
    std::vector<int32_t> near(order.size() * 4);
    return density_tree(matrix_view(x.data(), n, d), 5.0, {}, Metric(MetricName::euclidean, 2, d), "auto",
                        vector_view(order.data(), n), vector_view(bars.data(), n), vector_view(core.data(), n),
                        matrix_view(near.data(), n, int64_t{4}), {}, 1.0, Run{2})
        .backend;
  };
  CHECK(chosen(line) == "tree");
  CHECK(chosen(cloud) == "tiles");
}

TEST("density tree: lists of nearest points, by every instruction set") {
  std::mt19937_64 random(5);
  constexpr int64_t d = 3;
  for (const Kernels* const table : all_kernels())
    for (const int64_t k : {1, 4, 5, 9, 13, 16, 17, 31})
      for (int round = 0; round < 20; ++round) {
        // Column tiles; every other one is a lattice, with equal distances.
        std::vector<double> a(d * kPoints), b(d * kPoints), box(2 * d), limits(kPoints, kInfinity);
        for (auto* const tile : {&a, &b})
          for (double& value : *tile)
            value = round % 2 == 0 ? static_cast<double>(random() % 3) : static_cast<double>(random() >> 11) * 0x1p-53;
        const auto enclose = [&](const std::vector<double>& tile) {
          for (int64_t j = 0; j < d; ++j) {
            const auto [low, high] = std::minmax_element(tile.begin() + j * kPoints, tile.begin() + (j + 1) * kPoints);
            box[static_cast<size_t>(j)] = *low, box[static_cast<size_t>(d + j)] = *high;
          }
        };
        const int64_t width = (k + 3) / 4 * 4;
        std::vector<double> keys(static_cast<size_t>(kPoints * width), kInfinity), positions(keys.size());
        enclose(a);
        table->tree.nearest[kSumSquares](a.data(), a.data(), box.data(), d, 1, 0, 1, k, limits.data(), keys.data(),
                                         positions.data());
        enclose(b);
        table->tree.nearest[kSumSquares](a.data(), b.data(), box.data(), d, 1, kPoints, 0, k, limits.data(),
                                         keys.data(), positions.data());
        for (int64_t l = 0; l < kPoints; ++l) {
          const auto key = [&](int64_t position) {
            const std::vector<double>& tile = position < kPoints ? a : b;
            double sum = 0;
            for (int64_t j = 0; j < d; ++j) {
              const double difference =
                  a[static_cast<size_t>(j * kPoints + l)] - tile[static_cast<size_t>(j * kPoints + position % kPoints)];
              sum += difference * difference;
            }
            return sum;
          };
          std::vector<int64_t> others(2 * kPoints);
          std::iota(others.begin(), others.end(), 0);
          others.erase(others.begin() + l);
          std::stable_sort(others.begin(), others.end(), [&](int64_t p, int64_t q) { return key(p) < key(q); });
          for (int64_t rank = 0; rank < k; ++rank) {
            const auto at = static_cast<size_t>(l * width + rank);
            CHECK(positions[at] == static_cast<double>(others[static_cast<size_t>(rank)]));
            CHECK(keys[at] == key(others[static_cast<size_t>(rank)]));
          }
          CHECK(limits[static_cast<size_t>(l)] == keys[static_cast<size_t>(l * width + k - 1)]);
        }
      }
}
