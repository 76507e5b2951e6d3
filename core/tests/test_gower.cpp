// Gower's distance: tiles beside the formula, on tables that are hard on the bound and on the bytes.
#include "neighbors/gower.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "neighbors/dbscan.hpp"
#include "neighbors/index.hpp"

using namespace knoll;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Table {
  std::string name;
  int64_t n;
  std::vector<double> weights;  // negative: a category
  std::vector<double> x;        // (n, d)

  int64_t d() const { return static_cast<int64_t>(weights.size()); }
  View<const double, 2> view() const { return {x.data(), {n, d()}, {d(), 1}}; }
  Metric metric() const { return Metric(weights); }
  double distance(int64_t i, int64_t k) const { return metric().distance(x.data() + i * d(), x.data() + k * d()); }
};

Table drawn(std::string name, int64_t n, std::vector<double> weights, double missing, int levels, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform;
  Table table{std::move(name), n, std::move(weights), {}};
  for (int64_t i = 0; i < n; ++i)
    for (const double w : table.weights) {
      const double value = w > 0 ? std::floor(16 * uniform(engine)) / 16 : std::floor(levels * uniform(engine));
      table.x.push_back(uniform(engine) < missing ? kMissing : value);
    }
  return table;
}

std::vector<Table> tables() {
  const std::vector<double> plain{1, -1, 1, -1, 1, -1}, weighted{0.3, -2.5, 7, -0.3, 1e-9, -1};
  std::vector<Table> all;
  for (const double missing : {0.0, 0.1, 0.8}) {
    all.push_back(drawn("plain", 150, plain, missing, 3, 1));
    all.push_back(drawn("weighted", 97, weighted, missing, 3, 2));
    all.push_back(drawn("numbers", 65, {1, 1, 1}, missing, 1, 3));
    all.push_back(drawn("categories", 64, {-1, -1}, missing, 4, 4));
    all.push_back(drawn("levels of three bytes", 60, {-1, 1, -1}, missing, 1 << 17, 5));
    all.push_back(drawn("many columns", 40, std::vector<double>(600, -1.0), missing, 2, 6));
  }
  Table far = drawn("far rows", 100, plain, 0.1, 3, 7);
  for (int64_t i = 0; i < far.n; i += 9) far.x[static_cast<size_t>(i * far.d())] = i % 2 == 0 ? 1e300 : -1e12;
  far.x[1] = 1.5, far.x[7] = -3;  // no levels
  all.push_back(far);
  Table empty = drawn("rows without a value", 70, plain, 0.3, 3, 8);
  std::fill_n(empty.x.begin() + 5 * empty.d(), 3 * empty.d(), kMissing);
  all.push_back(empty);
  return all;
}

// Radii at which many pairs are decided: exact distances, and their neighbours.
std::vector<double> radii(const Table& table) {
  std::vector<double> out{0.0, 0.25, 1.0, 1e30, kInf};
  for (int64_t k = 1; k < table.n; k += 11) {
    const double distance = table.distance(0, k);
    if (distance > 0 && distance < 1e300)
      for (const double r : {distance, std::nextafter(distance, 0.0), std::nextafter(distance, kInf)}) out.push_back(r);
  }
  return out;
}

}  // namespace

TEST("gower: counts and labels follow the formula") {
  for (const Table& table : tables()) {
    const int64_t n = table.n;
    const auto index = Index::make(table.view(), 0.0, table.metric(), "auto", Run{2});
    std::vector<double> counts(static_cast<size_t>(n));
    for (const double radius : radii(table)) {
      index->count(table.view(), radius, kInf, {}, vector_view(counts.data(), n), Run{2});
      for (int64_t i = 0; i < n; ++i) {
        int64_t plain = 0;
        for (int64_t k = 0; k < n; ++k) plain += table.distance(i, k) <= radius;
        CHECK_MSG(static_cast<double>(plain) == counts[static_cast<size_t>(i)],
                  table.name << ", row " << i << ", radius " << radius);
      }
      if (radius == 0) continue;
      std::vector<int64_t> labels(static_cast<size_t>(n));
      std::vector<uint8_t> core(static_cast<size_t>(n));
      dbscan(table.view(), radius, 4.0, {}, table.metric(), Border::noise, "auto", vector_view(labels.data(), n),
             vector_view(core.data(), n), Run{2});
      for (int64_t i = 0; i < n; ++i) {
        CHECK((core[static_cast<size_t>(i)] != 0) == (counts[static_cast<size_t>(i)] >= 4));
        for (int64_t k = 0; k < i; ++k)
          if (core[static_cast<size_t>(i)] != 0 && core[static_cast<size_t>(k)] != 0 && table.distance(i, k) <= radius)
            CHECK(labels[static_cast<size_t>(i)] == labels[static_cast<size_t>(k)]);
      }
    }
  }
}

TEST("gower: nearest rows follow the formula") {
  for (const Table& table : tables()) {
    const int64_t n = table.n, k = std::min<int64_t>(6, n);
    const auto index = Index::make(table.view(), 0.0, table.metric(), "auto", Run{2});
    std::vector<double> distance(static_cast<size_t>(n * k));
    std::vector<int64_t> row(distance.size());
    index->knn(table.view(), matrix_view(distance.data(), n, k), matrix_view(row.data(), n, k), Run{2});
    for (int64_t i = 0; i < n; ++i) {
      std::vector<std::pair<double, int64_t>> all;
      for (int64_t other = 0; other < n; ++other) all.emplace_back(table.distance(i, other), other);
      std::sort(all.begin(), all.end());
      for (int64_t c = 0; c < k; ++c) {
        CHECK(distance[static_cast<size_t>(i * k + c)] == all[static_cast<size_t>(c)].first);
        CHECK(row[static_cast<size_t>(i * k + c)] == all[static_cast<size_t>(c)].second);
      }
    }
  }
}

TEST("gower: distances of all pairs are the formula") {
  for (const Table& table : tables()) {
    const int64_t n = table.n, d = table.d();
    std::vector<double> out(static_cast<size_t>(n * n)), columns(table.x.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < d; ++j) columns[static_cast<size_t>(j * n + i)] = table.x[static_cast<size_t>(i * d + j)];
    gower_distances(table.view(), {columns.data(), {n, d}, {1, n}}, table.metric(), out.data(), Run{2});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k) CHECK(out[static_cast<size_t>(i * n + k)] == table.distance(i, k));
  }
}

// The bound leaves few pairs open, so the speed is that of the tiles.
TEST("gower: leaves few pairs open") {
  const Table table = drawn("plain", 2000, {1, -1, 1, -1, 1, -1}, 0.1, 3, 9);
  std::vector<int64_t> labels(2000);
  std::vector<uint8_t> core(2000);
  Table moved = table;  // off the grid: no distance is the radius
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> uniform;
  for (int64_t i = 0; i < moved.n; ++i)
    for (int64_t j = 0; j < moved.d(); j += 2)
      if (moved.x[static_cast<size_t>(i * moved.d() + j)] != kMissing)
        moved.x[static_cast<size_t>(i * moved.d() + j)] = uniform(engine);
  const DbscanReport report = dbscan(moved.view(), 0.3, 5000.0, {}, moved.metric(), Border::noise, "auto",
                                     vector_view(labels.data(), 2000), vector_view(core.data(), 2000), Run{2});
  CHECK(report.distances > 1000 * 1000);
  CHECK(report.rechecks < 2000 * 2000 / 1000);
}

TEST("gower: refuses what it cannot be") {
  CHECK_THROWS(std::invalid_argument, Metric({1.0, 0.0}));
  CHECK_THROWS(std::invalid_argument, Metric({1.0, kInf}));
  const Table table = drawn("plain", 10, {1, -1}, 0.0, 3, 1);
  CHECK_THROWS(std::invalid_argument, Index::make(table.view(), 0.0, table.metric(), "tree", Run{1}));
}
