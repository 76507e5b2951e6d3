#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "common/tile.hpp"
#include "neighbors/dbscan.hpp"

using namespace knoll;

namespace {

struct Answer {
  std::vector<int64_t> labels;
  std::vector<uint8_t> core;
  bool operator==(const Answer&) const = default;
};

Answer answer(const std::vector<double>& x, int64_t d, double eps, double level, const std::vector<double>& weights,
              Border border, const std::string& backend, int threads = 2) {
  const auto n = static_cast<int64_t>(x.size()) / d;
  Answer out{std::vector<int64_t>(static_cast<size_t>(n), -7), std::vector<uint8_t>(static_cast<size_t>(n), 7)};
  dbscan(matrix_view(x.data(), n, d), eps, level,
         weights.empty() ? View<const double, 1>{} : vector_view(weights.data(), n),
         Metric(MetricName::euclidean, 2, d), border, backend, vector_view(out.labels.data(), n),
         vector_view(out.core.data(), n), Run{threads});
  return out;
}

// By the definition, with all pairs.
Answer brute(const std::vector<double>& x, int64_t d, double eps, double level, const std::vector<double>& weights,
             Border border) {
  const size_t n = x.size() / static_cast<size_t>(d);
  std::vector<double> d2(n * n, 0.0);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k)
      for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
        const double difference = x[i * static_cast<size_t>(d) + j] - x[k * static_cast<size_t>(d) + j];
        d2[i * n + k] += difference * difference;
      }
  const auto near = [&](size_t i, size_t k) { return std::sqrt(d2[i * n + k]) <= eps; };
  Answer out{std::vector<int64_t>(n, -1), std::vector<uint8_t>(n, 0)};
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;  // of small whole numbers: exact
    for (size_t k = 0; k < n; ++k)
      if (near(i, k)) sum += weights.empty() ? 1.0 : weights[k];
    out.core[i] = sum >= level;
  }
  int64_t clusters = 0;
  for (size_t i = 0; i < n; ++i) {
    if (out.core[i] == 0 || out.labels[i] >= 0) continue;
    std::vector<size_t> stack{i};
    out.labels[i] = clusters;
    while (!stack.empty()) {
      const size_t k = stack.back();
      stack.pop_back();
      for (size_t l = 0; l < n; ++l)
        if (out.core[l] != 0 && out.labels[l] < 0 && near(k, l)) out.labels[l] = clusters, stack.push_back(l);
    }
    ++clusters;
  }
  for (size_t i = 0; i < n && border != Border::noise; ++i) {
    if (out.core[i] != 0) continue;
    size_t best = n;
    for (size_t k = 0; k < n; ++k) {
      if (out.core[k] == 0 || !near(i, k)) continue;
      const auto at = [&](size_t r) { return x.begin() + static_cast<int64_t>(r) * d; };
      const bool better =
          best == n ||
          (border == Border::first ? out.labels[k] < out.labels[best]
                                   : d2[i * n + k] < d2[i * n + best] ||
                                         (d2[i * n + k] == d2[i * n + best] &&
                                          std::lexicographical_compare(at(k), at(k) + d, at(best), at(best) + d)));
      if (better) best = k;
    }
    if (best < n) out.labels[i] = out.labels[best];
  }
  return out;
}

}  // namespace

TEST("dbscan: every backend, border and number of threads gives the definition's answer") {
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t n = 1 + static_cast<int64_t>(engine() % 150), d = 1 + trial % 6;
    std::vector<double> x(static_cast<size_t>(n * d));
    for (auto& v : x) v = trial % 3 == 0 ? std::round(1.5 * normal(engine)) : normal(engine);
    std::vector<double> weights;
    if (trial % 5 == 4)
      for (int64_t i = 0; i < n; ++i) weights.push_back(static_cast<double>(engine() % 7) - 2);
    if (trial % 5 == 3)
      for (int64_t i = 0; i < n; ++i) weights.push_back(static_cast<double>(engine() % 4));
    const bool negative = trial % 5 == 4;
    const double eps = trial % 3 == 0 ? (trial % 2 == 0 ? 1.0 : std::sqrt(2.0)) : 0.4;
    const double level = static_cast<double>(1 + engine() % 8);
    for (const Border border : {Border::closest, Border::first, Border::noise}) {
      const Answer expected = brute(x, d, eps, level, weights, border);
      for (const char* backend : {"auto", "grid", "tree", "tiles"}) {
        if (std::string(backend) == "grid" && (d > 5 || negative)) continue;
        for (int threads : {1, 3})
          CHECK_MSG(answer(x, d, eps, level, weights, border, backend, threads) == expected,
                    "trial " << trial << ' ' << backend << " threads " << threads);
      }
    }
  }
}

TEST("dbscan: cells weigh exactly where float64 sums cannot decide") {
  // Ten times a tenth are 1 + 2^−54·10, which rounds to 1; added one after the other they are less.
  std::vector<double> x;
  for (int i = 0; i < 10; ++i) x.push_back(i % 2 == 0 ? 0.0 : 0.9);  // two cells of five
  const std::vector<double> weights(10, 0.1);
  double sum = 0;
  for (double w : weights) sum += w;
  CHECK(sum < 1);
  for (const char* backend : {"grid", "tree"}) {
    const auto cores = [&](double level) {
      const Answer found = answer(x, 1, 0.95, level, weights, Border::first, backend);
      return std::count(found.core.begin(), found.core.end(), 1);
    };
    CHECK(cores(1.0) == 10);
    CHECK(cores(std::nextafter(1.0, 2.0)) == 0);
  }
}

TEST("dbscan: large cells that are nearly within the radius, and just are") {
  // Two clouds of 300 points, 1 apart at their closest pair: joined exactly where the radius allows it.
  std::mt19937_64 engine(2);
  std::uniform_real_distribution<double> uniform(0.0, 0.25);
  std::vector<double> x;
  for (int cloud = 0; cloud < 2; ++cloud)
    for (int i = 0; i < 300; ++i) {
      const double depth = i == 0 ? 0.0 : 0.01 + uniform(engine);
      x.push_back(cloud == 0 ? -depth : 1.0 + depth);
      x.push_back(i == 0 ? 0.1 : uniform(engine));
    }
  for (const char* backend : {"grid", "tree", "tiles"}) {
    CHECK(answer(x, 2, 1.0, 5, {}, Border::first, backend).labels.back() == 0);
    CHECK(answer(x, 2, std::nextafter(1.0, 0.0), 5, {}, Border::first, backend).labels.back() == 1);
  }
}

TEST("dbscan: a workspace changes no answer, and nothing is written past its end") {
  std::mt19937_64 engine(11);
  std::normal_distribution<double> normal;
  for (const int64_t d : {1, 2, 3, 5})
    for (const int64_t n : {int64_t{300}, int64_t{9000}}) {  // sorted at once, and in buckets
      std::vector<double> x(static_cast<size_t>(n * d));
      for (double& value : x) value = normal(engine);
      const Answer own = answer(x, d, 0.2, 5, {}, Border::closest, "grid");
      constexpr double kGuard = -1.5;
      const auto numbers = static_cast<size_t>(d * (n + 4)), rows = static_cast<size_t>(n);
      std::vector<double> columns(numbers + 1, kGuard);
      std::vector<int64_t> entries(rows + 1, -5);
      Answer lent{std::vector<int64_t>(rows, -7), std::vector<uint8_t>(rows, 7)};
      dbscan(matrix_view<const double>(x.data(), n, d), 0.2, 5, {}, Metric(MetricName::euclidean, 2, d),
             Border::closest, "grid", vector_view(lent.labels.data(), n), vector_view(lent.core.data(), n), Run{2},
             GridWorkspace{columns.data(), entries.data()});
      CHECK(lent == own);
      CHECK(columns.back() == kGuard && entries.back() == -5);
      CHECK(columns.front() != kGuard && entries.front() != -5);  // it is used
    }
}

TEST("dbscan: cancelled within a phase, and bad requests refused") {
  const std::atomic<bool> cancel{true};
  const std::vector<double> x(2000, 1.0);
  std::vector<int64_t> labels(1000);
  std::vector<uint8_t> core(1000);
  const auto run_dbscan = [&](const std::string& backend, const Metric& metric, Run run) {
    dbscan(matrix_view(x.data(), 1000, 2), 1.0, 5, {}, metric, Border::first, backend,
           vector_view(labels.data(), int64_t{1000}), vector_view(core.data(), int64_t{1000}), run);
  };
  const Metric euclidean(MetricName::euclidean, 2, 2), manhattan(MetricName::manhattan, 1, 2);
  for (const char* backend : {"grid", "tree", "tiles"})
    CHECK_THROWS(Cancelled, run_dbscan(backend, euclidean, Run{2, &cancel}));
  CHECK_THROWS(std::invalid_argument, run_dbscan("grid", manhattan, Run{1}));
  CHECK_THROWS(std::invalid_argument, run_dbscan("tiles", manhattan, Run{1}));
  CHECK_THROWS(std::invalid_argument, answer(x, 2, 1.0, 5, std::vector<double>(1000, -1.0), Border::first, "grid"));
  CHECK_THROWS(std::invalid_argument, run_dbscan("ball", euclidean, Run{1}));
}
