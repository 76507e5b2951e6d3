// Rows and centres in int8: the kernels against plain loops, the bound of eq. 11, and labels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "kmeans/group_bounds.hpp"
#include "kmeans/int8_filter.hpp"
#include "kmeans/lloyd.hpp"

using namespace knoll;

namespace {

std::vector<double> normal_rows(int64_t n, int64_t d, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n * d));
  for (auto& v : x) v = normal(random);
  return x;
}

View<const double, 2> matrix(const std::vector<double>& x, int64_t d) {
  return matrix_view(x.data(), static_cast<int64_t>(x.size()) / d, d);
}

double one_distance(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const volatile double difference = x[j] - y[j];  // volatile: no compiler may fuse it with what follows
    const volatile double square = difference * difference;
    sum = sum + square;
  }
  return sum;
}

}  // namespace

TEST(
    "kmeans int8: a row becomes integers, clipped to 63, and its squared error is returned, on every instruction set") {
  for (int64_t d : {1, 4, 7, 8, 19, 64})
    for (const Kernels* table : all_kernels()) {
      const auto x = normal_rows(1, d, 1);
      std::vector<float> y(x.begin(), x.end());
      y[0] = 1e9f;
      if (d > 8) y[8] = -std::numeric_limits<float>::infinity();
      const float step = 0.03125f;
      std::vector<uint8_t> q(static_cast<size_t>((d + 3) / 4 * 4), 200);
      int32_t norm2 = 0, expected = 0;
      const float residual2 = table->kmeans.int8_row(y.data(), d, step, 1 / step, q.data(), &norm2);
      double sum = 0;
      for (size_t j = 0; j < q.size(); ++j) {
        const int32_t whole = q[j] - kInt8Max;
        CHECK(std::abs(whole) <= kInt8Max);
        if (j >= y.size()) {
          CHECK(whole == 0);
          continue;
        }
        const double left = static_cast<double>(y[j]) - whole * static_cast<double>(step);
        if (std::abs(whole) < kInt8Max) CHECK(std::fabs(left) <= static_cast<double>(step) * 0.5);
        if (std::abs(whole) == kInt8Max) CHECK(left * whole >= -static_cast<double>(step) * 0.5 * kInt8Max);
        expected += whole * whole;
        sum += left * left;
      }
      CHECK(norm2 == expected);
      CHECK(static_cast<double>(residual2) == sum || std::fabs(static_cast<double>(residual2) / sum - 1) < 1e-5);
    }
}

TEST("kmeans int8: scores are exact integers, ties to the first, on every instruction set") {
  std::mt19937_64 random(2);
  for (int64_t quads : {1, 2, 3, 8, 9, 21})
    for (int64_t widen : {2, 4, 8})
      for (const Kernels* table : all_kernels()) {
        constexpr int64_t kGroups = 3, kSlots = kGroups * kGroup;
        // As large as `widen` permits: sums of 16 bits come to their end, and no further.
        const int most = widen == 2 ? 63 : widen == 4 ? 32 : 16;
        std::vector<uint8_t> panel(static_cast<size_t>(quads * kPanel * kQuad));
        std::vector<int8_t> centers(static_cast<size_t>(kSlots * quads * kQuad));
        std::vector<int32_t> offset(kSlots);
        for (auto& v : panel) v = static_cast<uint8_t>(random() % 3 == 0 ? random() % 127 : 126);
        for (auto& v : centers) {
          const auto side = random() % 4;
          v = static_cast<int8_t>(side == 0 ? static_cast<int>(random() % 9) - 4 : side == 1 ? -most : most);
        }
        for (auto& v : offset) v = static_cast<int32_t>(random() % 1000);
        offset[4] = kNoScore;
        const std::vector<int32_t> groups{2, 0};
        std::vector<int32_t> score(2 * kGroup * kPanel), lowest(kPanel), index(kPanel);
        table->kmeans.int8_tile(panel.data(), quads, centers.data(), offset.data(), groups.data(), 2, widen,
                                score.data(), lowest.data(), index.data());
        for (int64_t l = 0; l < kPanel; ++l) {
          int32_t low = INT32_MAX, at = 0;
          for (int64_t position = 0; position < 2 * kGroup; ++position) {
            const int64_t c = groups[static_cast<size_t>(position / kGroup)] * kGroup + position % kGroup;
            int32_t expected = offset[static_cast<size_t>(c)];
            for (int64_t j = 0; j < quads; ++j)
              for (int64_t b = 0; b < kQuad; ++b)
                expected -= 2 * panel[static_cast<size_t>((j * kPanel + l) * kQuad + b)] *
                            centers[static_cast<size_t>(
                                ((c / kInt8Block * quads + j) * kInt8Block + c % kInt8Block) * kQuad + b)];
            CHECK(score[static_cast<size_t>(position * kPanel + l)] == expected);
            if (expected < low) low = expected, at = static_cast<int32_t>(c);
          }
          CHECK(lowest[static_cast<size_t>(l)] == low && index[static_cast<size_t>(l)] == at);
        }
      }
}

TEST("kmeans int8: a sweep separates scores at the limit, and bounds lie below, on every instruction set") {
  std::mt19937_64 random(3);
  constexpr int64_t kCount = 3;
  std::vector<int32_t> score(kCount * kGroup * kPanel), limit(kPanel), norm2(kPanel, 2000);
  for (auto& v : score) v = static_cast<int32_t>(random() % 100) - 50;
  for (size_t l = 0; l < kPanel; ++l) limit[l] = static_cast<int32_t>(random() % 120) - 60;
  limit[3] = INT32_MIN, limit[4] = kNoScore - 1;
  score[5] = kNoScore;
  for (const Kernels* table : all_kernels()) {
    std::vector<int32_t> least(kCount * kPanel), all(kPanel);
    std::vector<Int8Hit> hits(kCount * kGroup + 1);
    const int64_t found =
        table->kmeans.int8_sweep(score.data(), kCount, limit.data(), least.data(), all.data(), hits.data());
    int64_t h = 0;
    std::vector<int32_t> lowest(kPanel, kNoScore);
    for (int64_t e = 0; e < kCount; ++e) {
      std::vector<int32_t> low(kPanel, kNoScore);
      for (int64_t t = 0; t < kGroup; ++t) {
        uint32_t lanes = 0;
        for (size_t l = 0; l < kPanel; ++l) {
          const int32_t here = score[static_cast<size_t>((e * kGroup + t) * kPanel) + l];
          if (here <= limit[l])
            lanes |= 1u << l;
          else
            low[l] = std::min(low[l], here);
        }
        if (lanes == 0) continue;
        CHECK(h < found && hits[static_cast<size_t>(h)].position == e * kGroup + t &&
              hits[static_cast<size_t>(h)].lanes == lanes);
        ++h;
      }
      CHECK(std::equal(low.begin(), low.end(), least.begin() + e * kPanel));
      for (size_t l = 0; l < kPanel; ++l) lowest[l] = std::min(lowest[l], low[l]);
    }
    CHECK(h == found && all == lowest);
    const std::vector<float> reach(kPanel, 0.5f), cumulative{0.0f, 10.0f, 3.0f};
    std::vector<uint16_t> bound(least.size());
    std::vector<float> lengths(kPanel);
    table->kmeans.int8_bounds(least.data(), kCount, norm2.data(), reach.data(), 0.125f, cumulative.data(), 1.0f, 500.0f,
                              bound.data());
    table->kmeans.int8_lengths(least.data(), norm2.data(), reach.data(), 0.125f, lengths.data());
    for (size_t i = 0; i < bound.size(); ++i) {
      const double truth = std::sqrt(2000.0 + least[i]) * 0.125 - 0.5;
      const double units = std::max(truth - 1.0, 0.0) * 500 + static_cast<double>(cumulative[i / kPanel]);
      CHECK(bound[i] <= units && (bound[i] == 0xffff || bound[i] > units - 1.5));
      if (i >= kPanel) continue;
      const auto length = static_cast<double>(lengths[i]);
      CHECK(length < truth && length > truth - 1e-5 * (truth + 1));
    }
  }
}

TEST("kmeans int8: distances in int8 are the true ones up to the errors of rows and centres") {
  for (int64_t d : {32, 45, 130}) {
    const auto x = normal_rows(60, d, 4), centers = normal_rows(19, d, 5);
    const Pivot pivot = choose_pivot(matrix(x, d), matrix(centers, d));
    const Int8Grid grid = choose_grid(matrix(x, d), pivot);
    CHECK(grid.step > 0);
    const Int8Rows rows(matrix(x, d), pivot, grid, Run{2});
    const PackedCenters packed(pivot, matrix(centers, d), kGroup);
    const Int8Centers on_grid(packed, center_rows_of(packed), rows);
    CHECK(on_grid.offset.size() == 24 && on_grid.offset[19] == kNoScore);
    int near = 0;
    for (size_t i = 0; i < 60; ++i) {
      near += rows.error[i] < 0.02f * std::sqrt(static_cast<float>(d));
      for (int64_t c = 0; c < 19; ++c) {
        int32_t score = on_grid.offset[static_cast<size_t>(c)];
        for (int64_t j = 0; j < rows.quads * kQuad; ++j)
          score -= 2 * rows.q[i * static_cast<size_t>(rows.quads * kQuad) + static_cast<size_t>(j)] *
                   on_grid.blocks[static_cast<size_t>(
                       ((c / kInt8Block * rows.quads + j / kQuad) * kInt8Block + c % kInt8Block) * kQuad + j % kQuad)];
        const double there = std::sqrt(static_cast<double>(score + rows.norm2[i])) * static_cast<double>(grid.step);
        const double truth =
            std::sqrt(one_distance(&x[i * static_cast<size_t>(d)], &centers[static_cast<size_t>(c * d)], d)) *
            pivot.scale;
        CHECK(std::fabs(there - truth) <= static_cast<double>(rows.error[i] + on_grid.error) + 1e-5 * truth);
      }
    }
    CHECK(near > 40);  // else the grid is of no use
  }
}

TEST("kmeans int8: steps by groups give the labels of direct differences, with ties, outliers and distant clusters") {
  for (int64_t d : {32, 45})
    for (int64_t k : {11, 40})
      for (const char* dataset : {"clouds", "lattice", "duplicates", "outliers", "one far cloud", "shifted"}) {
        const int64_t n = knoll_test::quick() ? 300 : 1500;
        auto x = normal_rows(n, d, 6);
        std::mt19937_64 random(7);
        const auto is = [&](const char* name) { return std::strcmp(dataset, name) == 0; };
        for (size_t i = 0; i < x.size(); ++i) {
          const auto row = i / static_cast<size_t>(d), column = i % static_cast<size_t>(d);
          if (is("clouds")) x[i] += static_cast<double>((row * 7 + column * row % 13) % 30) / 6;
          if (is("lattice")) x[i] = std::round(x[i] * 0.7);
          if (is("duplicates")) x[i] = x[i % static_cast<size_t>(9 * d)];
          if (is("outliers") && row % 50 == 0) x[i] *= row % 100 == 0 ? 1e30 : 300;
          if (is("one far cloud") && row % 3 == 0) x[i] += 4000;
          if (is("shifted")) x[i] += 1e6;
        }
        std::vector<double> centers;
        for (int64_t c = 0; c < k; ++c) {
          const auto from = x.begin() + static_cast<int64_t>(random() % static_cast<uint64_t>(n)) * d;
          centers.insert(centers.end(), from, from + d);
        }
        LloydMemory memory(n, d, k, LloydAlgorithm::group_bounds);
        const std::vector<float> single(x.begin(), x.end());
        LloydMemory narrow(n, d, k, LloydAlgorithm::group_bounds);
        const std::vector<double> x32(single.begin(), single.end());
        for (int step = 0; step < 9; ++step) {
          memory.step(matrix(x, d), {}, matrix(centers, d), Run{2});
          narrow.step(matrix_view(single.data(), n, d), {}, matrix(centers, d), Run{1});
          for (int64_t i = 0; i < n; ++i) {
            const auto nearest = [&](const double* row) {
              int32_t label = 0;
              double best = one_distance(row, centers.data(), d);
              for (int32_t c = 1; c < k; ++c) {
                const double here = one_distance(row, &centers[static_cast<size_t>(c * d)], d);
                if (here < best) best = here, label = c;
              }
              return label;
            };
            CHECK_MSG(memory.labels()(i) == nearest(&x[static_cast<size_t>(i * d)]), dataset << ", step " << step);
            if (step % 4 == 0)
              CHECK_MSG(narrow.labels()(i) == nearest(&x32[static_cast<size_t>(i * d)]), dataset << ", step " << step);
          }
          std::vector<double> sums(static_cast<size_t>(k * (d + 1)));
          memory.round_sums(vector_view(sums.data(), k * (d + 1)), Run{1});
          for (int64_t c = 0; c < k; ++c)
            for (int64_t j = 0; j < d && sums[static_cast<size_t>(c * (d + 1))] > 0; ++j)
              centers[static_cast<size_t>(c * d + j)] =
                  sums[static_cast<size_t>(c * (d + 1) + j + 1)] / sums[static_cast<size_t>(c * (d + 1))];
          if (step == 5) std::copy_n(x.begin() + 77 * d, d, centers.begin());  // a jump
        }
      }
}
