#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "neighbors/dbscan.hpp"
#include "neighbors/grid.hpp"
#include "neighbors/index.hpp"
#include "neighbors/kd_tree.hpp"
#include "neighbors/metric.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> numbers(int64_t n, unsigned seed = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n));
  for (auto& v : x) v = normal(engine);
  return x;
}

View<const double, 2> rows(const std::vector<double>& x, int64_t d) {
  return matrix_view(x.data(), static_cast<int64_t>(x.size()) / d, d);
}

// One coordinate after the other, nothing fused.
double plain(Reduction reduction, const double* a, const double* b, int64_t d, double scale) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    volatile double difference = a[j * kPoints] - b[j * kPoints];
    if (reduction == kSumScaledSquares) difference = difference * scale;
    const volatile double square = difference * difference;
    if (reduction == kSumAbsolute)
      sum = sum + std::fabs(difference);
    else if (reduction == kMaxAbsolute)
      sum = std::max(sum, std::fabs(difference));
    else
      sum = sum + square;
  }
  return sum;
}

}  // namespace

TEST("index: tiles, counts and bits of every reduction are the plain loop's, on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 2, 3, 8, 17})
      for (int64_t m : {1, 5, 32})
        for (int r = 0; r < kReductions; ++r) {
          const auto reduction = static_cast<Reduction>(r);
          auto a = numbers(d * kPoints, 2);
          const auto b = numbers(d * kPoints, 3);
          for (int64_t j = 0; j < d; ++j) a[static_cast<size_t>(j * kPoints + 31)] = kInfinity;  // an empty lane
          const double scale = 0x1p-3;
          std::vector<double> tile(static_cast<size_t>(m * kPoints));
          table->index.tile[r](a.data(), b.data(), d, m, scale, tile.data());
          const double bound = tile[static_cast<size_t>(m / 2 * kPoints + 3)];  // hit exactly by one pair
          std::vector<int64_t> counts(kPoints, 7);
          std::vector<uint32_t> bits(static_cast<size_t>(m));
          table->index.count[r](a.data(), b.data(), d, m, scale, bound, counts.data());
          table->index.bits[r](a.data(), b.data(), d, m, scale, bound, bits.data());
          for (int64_t l = 0; l < kPoints; ++l) {
            int64_t within = 7;
            for (int64_t t = 0; t < m; ++t) {
              const double expected = plain(reduction, a.data() + l, b.data() + t, d, scale);
              CHECK(tile[static_cast<size_t>(t * kPoints + l)] == expected);
              CHECK((bits[static_cast<size_t>(t)] >> l & 1) == (expected <= bound));
              within += expected <= bound;
            }
            CHECK_MSG(counts[static_cast<size_t>(l)] == within, table->name << ' ' << r << ' ' << l);
          }
        }
}

TEST("index: spans are counted to the stop and their least distance found, on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 2, 3, 4, 5}) {
      const int64_t stride = 300;
      const auto columns = numbers(d * stride, 4), q = numbers(d, 5);
      const int32_t spans[] = {3, 3, 0, 1, 10, 14, 20, 27, 40, 200};
      for (int64_t n_spans = 0; n_spans <= 5; ++n_spans) {
        std::vector<double> all;
        for (int64_t s = 0; s < n_spans; ++s)
          for (int32_t p = spans[2 * s]; p < spans[2 * s + 1]; ++p) {
            double sum = 0;
            for (int64_t j = 0; j < d; ++j) {
              const volatile double difference =
                  columns[static_cast<size_t>(j * stride + p)] - q[static_cast<size_t>(j)];
              const volatile double square = difference * difference;
              sum = sum + square;
            }
            all.push_back(sum);
          }
        const double bound = all.empty() ? 1.0 : all[all.size() / 2];
        const auto within = std::count_if(all.begin(), all.end(), [&](double v) { return v <= bound; });
        const double least = all.empty() ? kInfinity : *std::min_element(all.begin(), all.end());
        const auto count = [&](int64_t stop) {
          return table->index.count_spans(columns.data(), stride, d, spans, n_spans, q.data(), bound, stop);
        };
        CHECK(count(1000) == within);
        for (int64_t stop : {1, 3, 20}) CHECK(std::min(count(stop), stop) == std::min<int64_t>(within, stop));
        CHECK(table->index.least_spans(columns.data(), stride, d, spans, n_spans, q.data()) == least);
      }
    }
}

TEST("index: many points are counted against spans as each alone, on every instruction set") {
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 2, 3, 4, 5}) {
      const int64_t stride = 300, q_stride = 24;
      const auto columns = numbers(d * stride, 6), q = numbers(d * q_stride, 7);
      const int32_t spans[] = {3, 3, 0, 1, 10, 14, 20, 27, 40, 200};
      for (int64_t n_spans = 0; n_spans <= 5; ++n_spans)
        for (int64_t m : {4, 8, 20})
          for (int64_t stop : {1, 3, 20, 1000}) {
            std::vector<int64_t> counts(static_cast<size_t>(m), 2);
            const double bound = 0.3;
            table->index.count_each(q.data(), q_stride, m, columns.data(), stride, d, spans, n_spans, bound, stop,
                                    counts.data());
            for (int64_t i = 0; i < m; ++i) {
              std::vector<double> one(static_cast<size_t>(d));
              for (int64_t j = 0; j < d; ++j) one[static_cast<size_t>(j)] = q[static_cast<size_t>(j * q_stride + i)];
              const int64_t all =
                  2 + table->index.count_spans(columns.data(), stride, d, spans, n_spans, one.data(), bound, 10000);
              const int64_t got = counts[static_cast<size_t>(i)];
              CHECK(got <= all);
              CHECK(std::min(got, stop) == std::min(all, stop));
            }
          }
    }
}

TEST("metric: the largest square whose root is within the radius") {
  for (double root : {1.0, 0.1, 3.0, 1e-100, 1e100, 0x1p-450, 0x1p450, 2.0 / 3, std::sqrt(2.0)}) {
    const double s = largest_square(root);
    CHECK(std::sqrt(s) <= root);
    CHECK(std::sqrt(std::nextafter(s, kInfinity)) > root);
  }
}

TEST("metric: bands hold what rounding can do") {
  std::mt19937_64 engine(6);
  std::uniform_real_distribution<double> uniform(-3.0, 3.0);
  for (const auto name : {MetricName::minkowski, MetricName::cosine, MetricName::haversine})
    for (int64_t trial = 0; trial < 2000; ++trial) {
      const int64_t d = name == MetricName::haversine ? 2 : 1 + trial % 9;
      const Metric metric(name, 2.7, d);
      std::vector<double> x(static_cast<size_t>(d)), y(x.size()), u(static_cast<size_t>(metric.dims())), v(u.size());
      for (auto& a : x) a = uniform(engine);
      for (size_t j = 0; j < y.size(); ++j) y[j] = trial % 3 == 0 ? uniform(engine) : x[j] + 1e-9 * uniform(engine);
      metric.embed(x.data(), u.data());
      metric.embed(y.data(), v.data());
      const double exact = metric.distance(x.data(), y.data());
      for (double radius : {exact, std::nextafter(exact, 0.0), std::nextafter(exact, 9.0), exact * 0.999, 1.5}) {
        if (!(radius > 0)) continue;
        const Within w = metric.within(radius, 3.0);
        const double reduced = metric.reduced(u.data(), 1, v.data(), 1, w);
        CHECK_MSG(reduced > w.inside || exact <= radius, exact << ' ' << radius);
        CHECK_MSG(reduced <= w.outside || exact > radius, exact << ' ' << radius);
      }
    }
}

TEST("metric: named exponents are the metrics with names, the zero vector has no direction") {
  CHECK(Metric(MetricName::minkowski, 1, 3).name() == MetricName::manhattan);
  CHECK(Metric(MetricName::minkowski, 2, 3).name() == MetricName::euclidean);
  CHECK(Metric(MetricName::minkowski, kInfinity, 3).name() == MetricName::chebyshev);
  CHECK_THROWS(std::invalid_argument, Metric(MetricName::minkowski, 0, 3));
  CHECK_THROWS(std::invalid_argument, Metric(MetricName::haversine, 2, 3));
  const Metric cosine(MetricName::cosine, 2, 2);
  const double zero[2] = {0, 0}, east[2] = {1e300, 0}, north[2] = {0, 1e-300}, west[2] = {-5, 0};
  CHECK(cosine.distance(zero, east) == 1 && cosine.distance(zero, zero) == 0);
  CHECK(cosine.distance(east, north) == 1 && cosine.distance(east, west) == 2);
}

TEST("tree: every row has a position, boxes hold their points and bounds hold all pairs") {
  for (int64_t n : {1, 31, 32, 33, 200, 1000})
    for (const auto name : {MetricName::euclidean, MetricName::manhattan, MetricName::cosine}) {
      const int64_t d = 3;
      const auto x = numbers(n * d, 7);
      const KdTree tree(rows(x, d), Metric(name, 2, d), Run{3});
      std::vector<int> seen(static_cast<size_t>(n), 0);
      for (int64_t p = 0; p < n; ++p) ++seen[static_cast<size_t>(tree.row(p))];
      CHECK(std::all_of(seen.begin(), seen.end(), [](int s) { return s == 1; }));
      const Within w = tree.metric().within(0.5, tree.largest());
      for (size_t a = 0; a < tree.nodes().size(); a += 7)
        for (size_t b = 0; b < tree.nodes().size(); b += 5) {
          const double* box = tree.box(static_cast<int32_t>(a));
          const double near = tree.nearest(box, box + tree.dims(), static_cast<int32_t>(b), w);
          const double far = tree.farthest(box, box + tree.dims(), static_cast<int32_t>(b), w);
          for (int64_t p = tree.begin(tree.nodes()[a]); p < tree.end(tree.nodes()[a]); p += 3)
            for (int64_t q = tree.begin(tree.nodes()[b]); q < tree.end(tree.nodes()[b]); q += 3) {
              const double reduced = tree.metric().reduced(tree.coords(p), kPoints, tree.coords(q), kPoints, w);
              CHECK(near <= reduced && reduced <= far);
            }
        }
    }
}

TEST("grid: points of a cell are within the radius, and those within it are in reach") {
  for (int64_t d : {1, 2, 3, 4, 5})
    for (int shape = 0; shape < 4; ++shape) {
      const int64_t n = 500;
      auto x = numbers(n * d, 8);
      const double eps = 0.3, square = largest_square(eps);
      if (shape == 1)
        for (auto& v : x) v = std::round(4 * v) * (eps / std::sqrt(static_cast<double>(d)));  // on the borders of cells
      if (shape == 2) x[0] = 1e300, x[static_cast<size_t>(d)] = -1e200;                       // far outliers
      if (shape == 3)
        for (auto& v : x) v += 1e6;
      Grid grid(rows(x, d), eps, Run{2});
      CHECK(grid.ok());
      std::vector<int64_t> cell_of(static_cast<size_t>(n));
      for (int64_t c = 0; c < grid.cells(); ++c)
        for (int64_t p = grid.start(c); p < grid.start(c + 1); ++p) cell_of[static_cast<size_t>(p)] = c;
      const auto distance = [&](int64_t p, int64_t q) {
        double sum = 0;
        for (int64_t j = 0; j < d; ++j) {
          const double difference =
              x[static_cast<size_t>(grid.row(p) * d + j)] - x[static_cast<size_t>(grid.row(q) * d + j)];
          sum += difference * difference;
        }
        return sum;
      };
      std::vector<int64_t> block_of(static_cast<size_t>(grid.cells()));
      for (int64_t b = 0; b < grid.blocks(); ++b)
        for (int64_t c = grid.first_cell(b); c < grid.first_cell(b + 1); ++c) block_of[static_cast<size_t>(c)] = b;
      for (const bool ahead : {false, true}) {
        const int64_t blocks = grid.blocks();
        std::vector<uint8_t> reached(static_cast<size_t>(blocks * blocks), 0);
        Grid::Traversal traversal(grid, ahead);
        for (int64_t b = 0; b < blocks; ++b) {
          traversal.move_to(b);
          for (int r = 0; r < traversal.rows(); ++r)
            for (auto [other, end] = traversal.row(r); other < end; ++other) {
              CHECK(!ahead || other > b);
              auto& mark = reached[static_cast<size_t>(b * blocks + other)];
              CHECK(mark == 0);
              mark = 1;
            }
        }
        for (int64_t p = 0; p < n; ++p)
          for (int64_t q = p + 1; q < n; ++q) {
            const int64_t a = cell_of[static_cast<size_t>(p)], b = cell_of[static_cast<size_t>(q)];
            const int64_t from = block_of[static_cast<size_t>(a)], to = block_of[static_cast<size_t>(b)];
            if (a == b)
              CHECK(distance(p, q) <= square);
            else if (distance(p, q) <= square)
              CHECK((ahead && from == to) || reached[static_cast<size_t>(from * blocks + to)] == 1);
          }
      }
    }
}

TEST("grid: many points are sorted by block and cell, rows in their order, in buckets or at once") {
  const int64_t n = 40000;
  for (int64_t d : {1, 2, 3, 4, 5})
    for (double eps :
         knoll_test::quick() ? std::vector<double>{1e-6, 0.02, 4.0} : std::vector<double>{1e-6, 1e-3, 0.02, 0.5, 4.0})
      for (int shape = 0; shape < 3; ++shape) {
        if (knoll_test::quick() && shape != static_cast<int>(d) % 3) continue;
        auto x = numbers(n * d, 11);
        if (shape == 1) x[0] = 1e9;  // nearly all in one bucket
        if (shape == 2)
          for (size_t i = 0; i < x.size(); i += 2) x[i] = std::round(x[i] / eps) * eps;
        const Grid grid(rows(x, d), eps, Run{3}), alone(rows(x, d), eps, Run{1});
        if (!grid.ok()) {  // too many cells for 62 bits
          CHECK(d > 3 && eps <= 1e-3);
          continue;
        }
        const double block = d <= 3 ? 2 * eps / std::sqrt(static_cast<double>(d)) : eps * (1 + 0x1p-10);
        CHECK(grid.start(0) == 0 && grid.start(grid.cells()) == n && grid.first_cell(0) == 0);
        CHECK(grid.first_cell(grid.blocks()) == grid.cells() && grid.cells() == alone.cells());
        std::vector<int> seen(static_cast<size_t>(n), 0);
        int64_t wrong = 0, split = 0;
        for (int64_t b = 0; b < grid.blocks(); ++b)
          for (int64_t c = grid.first_cell(b); c < grid.first_cell(b + 1); ++c)
            for (int64_t p = grid.start(c); p < grid.start(c + 1); ++p) {
              ++seen[static_cast<size_t>(grid.row(p))];
              wrong += grid.row(p) != alone.row(p);
              wrong += p > grid.start(c) && grid.row(p) <= grid.row(p - 1);
              for (int64_t j = 0; j < d; ++j) {
                const double value = grid.columns()[j * grid.stride() + p];
                wrong += value != x[static_cast<size_t>(grid.row(p) * d + j)];
                // cells and blocks are as wide as they should be
                const double first = grid.columns()[j * grid.stride() + grid.start_of_block(b)];
                split += std::fabs(value - first) > block * (1 + 1e-6);
              }
            }
        CHECK(std::all_of(seen.begin(), seen.end(), [](int s) { return s == 1; }));
        CHECK_MSG(wrong == 0 && split == 0, d << ' ' << eps << ' ' << shape);
      }
}

TEST("grid: a block is partitioned in order, and too many cells are refused") {
  const std::vector<double> x(20, 1.0);
  Grid grid(rows(x, 2), 1.0, Run{1});
  const uint8_t first[] = {0, 1, 0, 1, 1, 0, 0, 0, 1, 0};
  Grid::Scratch scratch;
  CHECK(grid.cells() == 1 && grid.partition_block(0, first, scratch) == 4);
  const int32_t expected[] = {1, 3, 4, 8, 0, 2, 5, 6, 7, 9};
  for (int64_t p = 0; p < 10; ++p) CHECK(grid.row(p) == expected[p]);
  CHECK(!Grid(rows(x, 2), 1e-300, Run{1}).ok());
  CHECK(!Grid(rows(x, 10), 1.0, Run{1}).ok());
}

TEST("index: the first row within a radius, by every backend") {
  const int64_t n = 700, m = 60;
  for (int64_t d : {1, 2, 5})
    for (const auto name : {MetricName::euclidean, MetricName::manhattan, MetricName::minkowski, MetricName::cosine}) {
      const Metric metric(name, 1.5, d);
      const auto x = numbers(n * d, 9), q = numbers(m * d, 10);
      for (const char* backend : {"tree", "tiles"}) {
        if (std::string(backend) == "tiles" && name != MetricName::euclidean) continue;
        const auto index = Index::make(rows(x, d), 1.0, metric, backend, Run{2});
        for (double radius : {1e-6, 0.02, 0.3, 1.0, 50.0}) {
          std::vector<int64_t> found(static_cast<size_t>(m), -7);
          index->first(rows(q, d), radius, vector_view(found.data(), m), Run{2});
          for (int64_t i = 0; i < m; ++i) {
            int64_t expected = 0;
            while (expected < n &&
                   metric.distance(&q[static_cast<size_t>(i * d)], &x[static_cast<size_t>(expected * d)]) > radius)
              ++expected;
            CHECK_MSG(found[static_cast<size_t>(i)] == (expected == n ? -1 : expected), backend << ' ' << i);
          }
        }
      }
    }
}

TEST("index: more rows than can be numbered are refused before any is read") {
  const double one = 1;
  const int64_t n = int64_t{1} << 31;
  const View<const double, 2> x{&one, {n, 2}, {0, 0}};
  const Metric metric(MetricName::euclidean, 2, 2);
  const auto refused = [](auto&& call) {
    try {
      call();
    } catch (const std::length_error& error) {
      return std::string(error.what()) ==
             "X has 2147483648 rows, and rows are numbered in 31 bits: at most 2147483643. Fit a sample of the rows "
             "and "
             "predict the others.";
    }
    return false;
  };
  for (const char* backend : {"auto", "tree", "tiles"})
    CHECK(refused([&] { Index::make(x, 1.0, metric, backend, Run{1}); }));
  for (const char* backend : {"auto", "grid", "tree", "tiles"})
    CHECK(refused([&] { dbscan(x, 1.0, 5, {}, metric, Border::first, backend, {}, {}, Run{1}); }));
  CHECK(refused([&] { Grid(x, 1.0, Run{1}); }));
  CHECK(refused([&] { KdTree(x, metric, Run{1}); }));
}

TEST("index: cancelled") {
  const std::atomic<bool> cancel{true};
  const auto x = numbers(400);
  CHECK_THROWS(Cancelled, KdTree(rows(x, 4), Metric(MetricName::euclidean, 2, 4), Run{2, &cancel}));
  CHECK_THROWS(Cancelled, Grid(rows(x, 2), 0.5, Run{2, &cancel}));
  const auto index = Index::make(rows(x, 4), 1.0, Metric(MetricName::euclidean, 2, 4), "tree", Run{1});
  std::vector<double> out(100);
  CHECK_THROWS(Cancelled, index->count(rows(x, 4), 1.0, 5, {}, vector_view(out.data(), int64_t{100}), Run{2, &cancel}));
}

TEST("index: neighbours whose squared distances vanish beside the others are still distinguished") {
  const std::vector<double> x{1.5e178, 2.980, 2.982, -8.8e178, 7.0, 2.980};
  const Metric metric(MetricName::euclidean, 2, 1);
  const auto index = Index::make(matrix_view<const double>(x.data(), 6, 1), 0.0, metric, "auto", Run{});
  std::vector<double> distance(18);
  std::vector<int64_t> row(18);
  index->knn(matrix_view<const double>(x.data(), 6, 1), matrix_view(distance.data(), 6, 3),
             matrix_view(row.data(), 6, 3), Run{});
  CHECK((std::vector<int64_t>(row.begin() + 3, row.begin() + 9) == std::vector<int64_t>{1, 5, 2, 2, 1, 5}));
  CHECK(distance[4] == 0.0 && distance[5] == 2.982 - 2.980 && distance[7] == 2.982 - 2.980);
  CHECK(row[12] == 4 && row[13] == 2 && distance[13] == 7.0 - 2.982);
}
