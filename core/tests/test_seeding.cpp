// The filter of k-means++ against a plain loop, and k-means++ on every table of kernels and number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "knoll/seeding.hpp"
#include "knoll/simd.hpp"

using namespace knoll;

TEST("seeding: filter_tile marks what a plain loop marks") {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (const Kernels* table : all_kernels())
    for (int64_t d : {1, 2, 7, 16, 33})
      for (int64_t groups : {1, 2, 3}) {
        const auto fill = [&](int64_t count) {
          std::vector<float> v(static_cast<size_t>(count));
          for (float& x : v) x = normal(random);
          return v;
        };
        const auto columns = fill(d * kPoints), candidates = fill(groups * d * kAtOnce), bias = fill(groups * kAtOnce);
        auto threshold = fill(kPoints);
        threshold[3] = std::numeric_limits<float>::infinity();
        threshold[4] = -std::numeric_limits<float>::infinity();
        std::vector<uint32_t> hits(static_cast<size_t>(groups * kAtOnce), 77);
        table->seeding.filter_tile(columns.data(), d, candidates.data(), bias.data(), groups, threshold.data(),
                                   hits.data());
        for (int64_t t = 0; t < groups * kAtOnce; ++t)
          for (int64_t l = 0; l < kPoints; ++l) {
            double sum = bias[static_cast<size_t>(t)], size = std::fabs(sum);
            for (int64_t j = 0; j < d; ++j) {
              const double product =
                  static_cast<double>(columns[static_cast<size_t>(j * kPoints + l)]) *
                  static_cast<double>(candidates[static_cast<size_t>((t / kAtOnce * d + j) * kAtOnce + t % kAtOnce)]);
              sum += product;
              size += std::fabs(product);
            }
            const double edge = static_cast<double>(threshold[static_cast<size_t>(l)]);
            const bool hit = (hits[static_cast<size_t>(t)] >> l & 1) != 0;
            if (std::fabs(sum - edge) > static_cast<double>(d + 2) * 0x1p-24 * size)
              CHECK_SAY(hit == (sum >= edge), table->name << ", d = " << d << ", t = " << t << ", l = " << l);
          }
      }
}

TEST("seeding: distinct rows are gathered, and k-means++ is the same with and without skipping, on any threads") {
  constexpr int64_t n = 5000, d = 3, k = 80;
  std::mt19937_64 random(9);
  std::vector<double> x(static_cast<size_t>(n * d));
  for (double& v : x) v = static_cast<double>(random() % 17) * 0.5;  // 4913 possible rows: many repeat
  const View<const double, 2> points{x.data(), {n, d}, {d, 1}};
  std::vector<int64_t> rows(static_cast<size_t>(n)), expected(static_cast<size_t>(k)), out(static_cast<size_t>(k));
  std::vector<double> weights(static_cast<size_t>(n));
  const int64_t m = distinct_rows(points, {}, rows.data(), weights.data(), Run{1});
  double total = 0;
  for (int64_t i = 0; i < m; ++i) total += weights[static_cast<size_t>(i)];
  CHECK(m < n && total == static_cast<double>(n));
  kmeans_plus_plus(points, rows.data(), weights.data(), m, k, 1, 0, 4, false, expected.data(), Run{1});
  for (int threads : {1, 2, 3, 8}) {
    std::vector<int64_t> again(static_cast<size_t>(n));
    std::vector<double> sums(static_cast<size_t>(n));
    CHECK(distinct_rows(points, {}, again.data(), sums.data(), Run{threads}) == m);
    CHECK(std::equal(rows.begin(), rows.begin() + m, again.begin()));
    const SeedingWork work =
        kmeans_plus_plus(points, rows.data(), weights.data(), m, k, 1, 0, 4, true, out.data(), Run{threads});
    CHECK(out == expected);
    CHECK(work.evaluated < work.pairs / 4);
  }
}
