#include "metrics/silhouette.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

TEST("silhouette: distances are added with their weights on every instruction set") {
  const int64_t d = 5, m = 7;
  std::vector<double> columns(static_cast<size_t>(d * kPoints)), y(static_cast<size_t>(m * (d + 1))), w(7);
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<double>(i * i % 1000) + 0.25;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(i * 7 % 100) - 0.5;
  for (size_t t = 0; t < w.size(); ++t) w[t] = 0.5 + static_cast<double>(t);
  for (const Kernels* table : all_kernels()) {
    std::vector<double> sums(static_cast<size_t>(kPoints), 3.0);
    table->distance_sums(columns.data(), y.data(), d + 1, m, d, w.data(), sums.data());
    for (size_t l = 0; l < kPoints; ++l) {
      double expected = 3.0;
      for (size_t t = 0; t < m; ++t) {
        double square = 0;
        for (size_t j = 0; j < d; ++j) {
          const double difference = columns[j * kPoints + l] - y[t * (d + 1) + j];
          square += difference * difference;
        }
        expected += w[t] * std::sqrt(square);
      }
      CHECK_MSG(std::abs(sums[l] - expected) <= 1e-14 * expected, table->name);
    }
  }
}

namespace {

struct Table {
  int64_t n = 173, d = 3;
  std::vector<double> x, w;
  std::vector<int64_t> starts{0, 1, 50, 70, 173};  // clusters of one row, of less than a tile and of several

  Table() : x(static_cast<size_t>(n * d)), w(static_cast<size_t>(n)) {
    std::mt19937_64 engine(3);
    std::normal_distribution<double> normal;
    for (auto& v : x) v = normal(engine);
    for (auto& v : w) v = 1.0 + static_cast<double>(engine() % 3);
    w[0] = 1.0;
  }
  View<const double, 2> points() const { return {x.data(), {n, d}, {d, 1}}; }
  View<const double, 1> weights() const { return {w.data(), {n}, {1}}; }
  View<const int64_t, 1> begins() const { return {starts.data(), {static_cast<int64_t>(starts.size())}, {1}}; }
  const double* row(int64_t i) const { return x.data() + i * d; }
};

double by_definition(const Table& table, const Metric& metric, int64_t i) {
  double a = 0, b = INFINITY;
  for (size_t c = 0; c + 1 < table.starts.size(); ++c) {
    double sum = 0, mass = 0;
    bool mine = false;
    for (int64_t j = table.starts[c]; j < table.starts[c + 1]; ++j) {
      sum += table.w[static_cast<size_t>(j)] * metric.distance(table.row(i), table.row(j));
      mass += table.w[static_cast<size_t>(j)];
      mine = mine || i == j;
    }
    if (mine)
      a = mass > 1 ? sum / (mass - 1) : -1;
    else
      b = std::min(b, sum / mass);
  }
  return a < 0 ? 0 : (b - a) / std::max(a, b);
}

std::vector<double> silhouettes(const Table& table, const Metric& metric, Run run) {
  std::vector<double> out(static_cast<size_t>(table.n));
  silhouette(table.points(), table.weights(), table.begins(), metric, vector_view(out.data(), table.n), run);
  return out;
}

}  // namespace

TEST("silhouette: equals the definition under every metric, for any number of threads") {
  const Table table;
  for (const char* name : {"euclidean", "manhattan", "chebyshev", "minkowski", "cosine"}) {
    const Metric metric(Metric::named(name), 3.0, table.d);
    const std::vector<double> one = silhouettes(table, metric, Run{}),
                              many = silhouettes(table, metric, Run{3, nullptr});
    CHECK(one == many);
    for (int64_t i = 0; i < table.n; ++i)
      CHECK_MSG(std::abs(one[static_cast<size_t>(i)] - by_definition(table, metric, i)) < 1e-13, name << ", row " << i);
  }
}

TEST("silhouette: rows of any layout") {
  const Table table;
  const Metric metric(MetricName::euclidean, 2.0, table.d);
  std::vector<double> columns(table.x.size());
  for (int64_t i = 0; i < table.n; ++i)
    for (int64_t j = 0; j < table.d; ++j) columns[static_cast<size_t>(j * table.n + i)] = table.row(i)[j];
  std::vector<double> out(static_cast<size_t>(table.n));
  silhouette({columns.data(), {table.n, table.d}, {1, table.n}}, table.weights(), table.begins(), metric,
             vector_view(out.data(), table.n), Run{});
  CHECK(out == silhouettes(table, metric, Run{}));
}

TEST("silhouette: from distances, in blocks, in any order of the columns of a cluster") {
  Table table;
  const Metric metric(MetricName::euclidean, 2.0, table.d);
  std::vector<double> expected = silhouettes(table, metric, Run{});
  const auto of_distances = [&](int64_t first, int64_t last) {
    std::vector<double> distances, out(static_cast<size_t>(last - first));
    for (int64_t i = first; i < last; ++i)
      for (int64_t j = 0; j < table.n; ++j)  // the diagonal is not read
        distances.push_back(i == j ? NAN : metric.distance(table.row(i), table.row(j)));
    silhouette_of_distances(matrix_view<const double>(distances.data(), last - first, table.n), first, table.weights(),
                            table.begins(), vector_view(out.data(), last - first), Run{2, nullptr});
    return out;
  };
  const std::vector<double> whole = of_distances(0, table.n), block = of_distances(40, 60);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(std::abs(whole[i] - expected[i]) < 1e-14);
  CHECK(std::equal(block.begin(), block.end(), whole.begin() + 40));
  // rows 70 … 172, one cluster, in the opposite order
  for (int64_t i = 70, j = 172; i < j; ++i, --j) {
    for (int64_t q = 0; q < table.d; ++q)
      std::swap(table.x[static_cast<size_t>(i * table.d + q)], table.x[static_cast<size_t>(j * table.d + q)]);
    std::swap(table.w[static_cast<size_t>(i)], table.w[static_cast<size_t>(j)]);
  }
  const std::vector<double> turned = of_distances(0, table.n);
  CHECK(std::equal(turned.begin(), turned.begin() + 70, whole.begin()));
  CHECK(std::equal(turned.begin() + 70, turned.end(), whole.rbegin()));
}
