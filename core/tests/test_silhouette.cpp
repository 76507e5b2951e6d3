#include "kmeans/silhouette.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

TEST("silhouette: roots are added with their weights on every instruction set") {
  std::vector<double> tile(static_cast<size_t>(7 * kPoints)), w(7);
  for (size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<double>(i * i % 1000) + 0.25;
  for (size_t t = 0; t < w.size(); ++t) w[t] = 0.5 + static_cast<double>(t);
  for (const Kernels* table : all_kernels()) {
    std::vector<double> sums(static_cast<size_t>(kPoints), 3.0);
    table->root_sums(tile.data(), w.data(), 7, sums.data());
    for (size_t l = 0; l < kPoints; ++l) {
      double expected = 3.0;
      for (size_t t = 0; t < 7; ++t) expected += w[t] * std::sqrt(tile[t * kPoints + l]);
      CHECK(std::abs(sums[l] - expected) <= 1e-14 * expected);
    }
  }
}

TEST("silhouette: equals the definition, for any number of threads") {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  const int64_t n = 173, d = 3, k = 4;
  std::vector<double> x(static_cast<size_t>(n * d)), w(static_cast<size_t>(n));
  for (auto& v : x) v = normal(engine);
  for (auto& v : w) v = 1.0 + static_cast<double>(engine() % 3);
  w[0] = 1.0;
  const std::vector<int64_t> starts{0, 1, 50, 70, n};
  std::vector<double> one(static_cast<size_t>(n)), many(static_cast<size_t>(n));
  const View<const double, 2> points{x.data(), {n, d}, {d, 1}};
  const View<const double, 1> weights{w.data(), {n}, {1}};
  const View<const int64_t, 1> begins{starts.data(), {k + 1}, {1}};
  silhouette(points, weights, begins, View<double, 1>{one.data(), {n}, {1}}, Run{});
  silhouette(points, weights, begins, View<double, 1>{many.data(), {n}, {1}}, Run{3, nullptr});
  CHECK(one == many);
  for (int64_t i = 0; i < n; ++i) {
    double a = 0, b = INFINITY;
    for (size_t c = 0; c < static_cast<size_t>(k); ++c) {
      double sum = 0, mass = 0;
      bool mine = false;
      for (int64_t j = starts[c]; j < starts[c + 1]; ++j) {
        double squared = 0;
        for (int64_t q = 0; q < d; ++q) {
          const double difference = x[static_cast<size_t>(i * d + q)] - x[static_cast<size_t>(j * d + q)];
          squared += difference * difference;
        }
        sum += w[static_cast<size_t>(j)] * std::sqrt(squared);
        mass += w[static_cast<size_t>(j)];
        mine = mine || i == j;
      }
      if (mine)
        a = mass > 1 ? sum / (mass - 1) : -1;
      else
        b = std::min(b, sum / mass);
    }
    const double expected = a < 0 ? 0 : (b - a) / std::max(a, b);
    CHECK(std::abs(one[static_cast<size_t>(i)] - expected) < 1e-13);
  }
}
