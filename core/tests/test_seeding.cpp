// The sieve of k-means++ against a plain loop, and k-means++ on every table of kernels and number of threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "kmeans/seeding.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

TEST("seeding: weigh_tiles marks what a plain loop marks, and gains what it gains") {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  constexpr int64_t tiles = 2;
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 2, 7, 16, 33})
      for (int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 11})
        for (int64_t step : {int64_t{0}, int64_t{kPoints}}) {
          const auto fill = [&](int64_t size) {
            std::vector<float> v(static_cast<size_t>(size));
            for (float& x : v) x = normal(random);
            return v;
          };
          const auto columns = fill(tiles * d * kPoints), candidates = fill(count * d), bias = fill(count);
          auto threshold = fill(tiles * kPoints), weights = fill(tiles * kPoints);
          for (float& w : weights) w = std::fabs(w);
          threshold[3] = std::numeric_limits<float>::infinity();
          std::vector<uint32_t> hits(static_cast<size_t>(tiles * count), 77);
          std::vector<float> gains(static_cast<size_t>(count * kGainLanes), 0.5f);  // they are added to
          const std::vector<double> tile_error{3.0, 0.25};
          std::vector<double> errors(static_cast<size_t>(count), 1.0);
          table->seeding.weigh_tiles(columns.data(), d, tiles, candidates.data(), bias.data(), count, threshold.data(),
                                     weights.data(), step, tile_error.data(), hits.data(), gains.data(), errors.data());
          for (int64_t t = 0; t < count; ++t) {
            double expected = 0.5 * kGainLanes, error = 0, gained = 0;
            for (int64_t i = 0; i < tiles * kPoints; ++i) {
              const int64_t tile = i / kPoints, l = i % kPoints;
              double over = static_cast<double>(bias[static_cast<size_t>(t)]), size = std::fabs(over);
              for (int64_t j = 0; j < d; ++j) {
                const double product = static_cast<double>(columns[static_cast<size_t>((tile * d + j) * kPoints + l)]) *
                                       static_cast<double>(candidates[static_cast<size_t>(t * d + j)]);
                over += product;
                size += std::fabs(product);
              }
              const auto edge = static_cast<double>(threshold[static_cast<size_t>(i)]);
              over -= edge;
              const double slack = static_cast<double>(d + 3) * 0x1p-24 * (size + (i == 3 ? 0.0 : std::fabs(edge)));
              const auto w = static_cast<double>(weights[static_cast<size_t>(tile * step + l)]);
              const bool hit = (hits[static_cast<size_t>(tile * count + t)] >> l & 1) != 0;
              if (std::fabs(over) > slack)
                CHECK_MSG(hit == (over >= 0), table->name << ", d = " << d << ", t = " << t << ", i = " << i);
              expected += w * std::max(over, 0.0);
              error += w * slack;
            }
            const auto marked = [&](int64_t tile) {
              return static_cast<double>(std::popcount(hits[static_cast<size_t>(tile * count + t)]));
            };
            CHECK(errors[static_cast<size_t>(t)] == 1.0 + 3.0 * marked(0) + 0.25 * marked(1));
            for (int64_t l = 0; l < kGainLanes; ++l)
              gained += static_cast<double>(gains[static_cast<size_t>(t * kGainLanes + l)]);
            CHECK_MSG(std::fabs(gained - expected) <= error + 16 * 0x1p-24 * expected,
                      table->name << ", d = " << d << ", count = " << count << ", t = " << t);
          }
        }
}

TEST("seeding: equal rows are merged, and k-means++ is the same with and without skipping, on any threads") {
  constexpr int64_t n = 5000, d = 3, k = 80;
  std::mt19937_64 random(9);
  std::vector<double> x(static_cast<size_t>(n * d));
  for (double& v : x) v = static_cast<double>(random() % 17) * 0.5;  // 4913 possible rows: many repeat
  const View<const double, 2> points{x.data(), {n, d}, {d, 1}};
  std::vector<int64_t> rows(static_cast<size_t>(n)), expected(static_cast<size_t>(k)), out(static_cast<size_t>(k));
  std::vector<double> weights(static_cast<size_t>(n));
  const int64_t m = unique_rows(points, {}, rows.data(), weights.data(), nullptr, Run{1});
  double total = 0;
  for (int64_t i = 0; i < m; ++i) total += weights[static_cast<size_t>(i)];
  CHECK(m < n && total == static_cast<double>(n));
  kmeans_plus_plus(points, rows.data(), weights.data(), m, k, 1, 0, 4, false, expected.data(), Run{1});
  for (int threads : {1, 2, 3, 8}) {
    std::vector<int64_t> again(static_cast<size_t>(n));
    std::vector<double> sums(static_cast<size_t>(n));
    CHECK(unique_rows(points, {}, again.data(), sums.data(), nullptr, Run{threads}) == m);
    CHECK(std::equal(rows.begin(), rows.begin() + m, again.begin()));
    const SeedingWork work =
        kmeans_plus_plus(points, rows.data(), weights.data(), m, k, 1, 0, 4, true, out.data(), Run{threads});
    CHECK(out == expected);
    CHECK(work.evaluated < work.pairs / 4);
  }
}

TEST("seeding: unique rows are in order of first appearance where `which` is filled") {
  const std::vector<double> x{1, 2, 0.0, 5, 1, 2, -0.0, 5, 1, 3, 7, 7}, w{1, 2, 4, 8, 16, 0};
  std::vector<int64_t> rows(6), which(6);
  std::vector<double> total(6);
  CHECK(unique_rows(matrix_view<const double>(x.data(), 6, 2), vector_view<const double>(w.data(), 6), rows.data(),
                    total.data(), which.data(), Run{1}) == 3);
  CHECK((which == std::vector<int64_t>{0, 1, 0, 1, 2, -1}));
  CHECK(rows[0] == 0 && rows[1] == 1 && rows[2] == 4);
  CHECK(total[0] == 5 && total[1] == 10 && total[2] == 16);

  constexpr int64_t n = 60'000;  // more than a chunk, and so few contents that hashes run over chunks
  std::vector<float> line(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) line[static_cast<size_t>(i)] = static_cast<float>((i * i + 3) % 7);
  std::vector<int64_t> first(static_cast<size_t>(n)), numbers(static_cast<size_t>(n));
  std::vector<double> times(static_cast<size_t>(n));
  for (int threads : {1, 3}) {
    const int64_t m = unique_rows(matrix_view<const float>(line.data(), n, 1), {}, first.data(), times.data(),
                                  numbers.data(), Run{threads});
    CHECK(m == 4);  // squares modulo 7: 0, 1, 2, 4
    for (int64_t c = 1; c < m; ++c) CHECK(first[static_cast<size_t>(c - 1)] < first[static_cast<size_t>(c)]);
    bool right = true;
    for (int64_t i = 0; i < n; ++i)
      right = right && line[static_cast<size_t>(first[static_cast<size_t>(numbers[static_cast<size_t>(i)])])] ==
                           line[static_cast<size_t>(i)];
    CHECK(right);
  }
}
