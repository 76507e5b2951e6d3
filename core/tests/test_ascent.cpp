#include "neighbors/ascent.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "neighbors/kth_distance.hpp"

using namespace knoll;

namespace {

using Point = std::vector<double>;

struct Result {
  std::vector<double> point, weight;
  std::vector<int64_t> steps;
  std::vector<uint8_t> end;
  bool operator==(const Result&) const = default;
};

Result ascended(const std::vector<double>& x, const std::vector<double>& w, int64_t d, const AscentRules& rules,
                Run run) {
  const int64_t n = static_cast<int64_t>(x.size()) / d;
  const auto m = static_cast<size_t>(n);
  Result r{std::vector<double>(x.size()), std::vector<double>(m), std::vector<int64_t>(m), std::vector<uint8_t>(m)};
  const BallSums points(x.data(), w.empty() ? nullptr : w.data(), n, d, rules.eps, run);
  ascend(points, matrix_view(x.data(), n, d), rules,
         {matrix_view(r.point.data(), n, d), vector_view(r.steps.data(), n), vector_view(r.weight.data(), n),
          vector_view(r.end.data(), n)},
         run);
  return r;
}

std::vector<double> blobs(int64_t n, int64_t d, unsigned seed, bool lattice) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j)
      x.push_back(lattice ? static_cast<double>(engine() % 6) : static_cast<double>(i % 3) * 3 + normal(engine));
  return x;
}

// The ascent by its definition: sets compared as sets, means by exact sums.
Result plain(const std::vector<double>& x, int64_t d, const AscentRules& rules) {
  const int64_t n = static_cast<int64_t>(x.size()) / d;
  const auto neighbours = [&](const Point& y) {
    std::vector<int64_t> set;
    for (int64_t k = 0; k < n; ++k) {
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) {
        const volatile double square = (x[static_cast<size_t>(k * d + j)] - y[static_cast<size_t>(j)]) *
                                       (x[static_cast<size_t>(k * d + j)] - y[static_cast<size_t>(j)]);
        sum = sum + square;
      }
      if (std::sqrt(sum) <= rules.eps) set.push_back(k);
    }
    return set;
  };
  Result r;
  for (int64_t i = 0; i < n; ++i) {
    Point y(x.begin() + i * d, x.begin() + (i + 1) * d);
    std::vector<std::vector<int64_t>> seen;
    std::vector<int64_t> set = neighbours(y);
    End end = End::unfinished;
    int64_t steps = 0;
    for (;; ++steps) {
      if (rules.level > 0 && static_cast<double>(set.size()) >= rules.level)
        end = End::level;
      else if (std::find(seen.begin(), seen.end(), set) != seen.end())
        end = End::fixed;
      if (end != End::unfinished || steps == rules.max_steps) break;
      seen.push_back(set);
      for (int64_t j = 0; j < d; ++j) {
        ExactSum sum;
        for (const int64_t k : set) sum.add(x[static_cast<size_t>(k * d + j)]);
        y[static_cast<size_t>(j)] = sum.round() / static_cast<double>(set.size());
      }
      set = neighbours(y);
    }
    r.point.insert(r.point.end(), y.begin(), y.end());
    r.weight.push_back(static_cast<double>(set.size()));
    r.steps.push_back(steps);
    r.end.push_back(static_cast<uint8_t>(end));
  }
  return r;
}

}  // namespace

TEST("ascent: ends, steps and weights are those of the definition, at every level and limit of steps") {
  for (bool lattice : {false, true})
    for (int64_t d : {1, 2, 3, 4}) {
      const auto x = blobs(211, d, 5, lattice);
      for (double level : {0.0, 1.0, 3.0, 9.0, 1e9})
        for (int64_t limit : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1000}}) {
          const AscentRules rules{lattice ? 2.0 : 1.1, level, 0, limit};
          CHECK_MSG(ascended(x, {}, d, rules, Run{1}) == plain(x, d, rules),
                    "lattice " << lattice << " d " << d << " level " << level << " limit " << limit);
        }
    }
}

TEST("ascent: the same for any number of threads, and for weights that count repetitions") {
  for (int64_t d : {2, 5}) {
    const int64_t n = knoll_test::quick() ? 600 : 1500;
    const auto x = blobs(n, d, 6, false);
    const AscentRules rules{1.5, 0, 0, 1000};
    const Result one = ascended(x, {}, d, rules, Run{1});
    for (int threads : {2, 3, 8}) CHECK(ascended(x, {}, d, rules, Run{threads}) == one);
    CHECK(ascended(x, std::vector<double>(static_cast<size_t>(n), 1.0), d, rules, Run{2}) == one);
    const Result heavier = ascended(x, std::vector<double>(static_cast<size_t>(n), 3.0), d, rules, Run{2});
    CHECK(heavier.steps == one.steps && heavier.weight != one.weight);
  }
}

TEST("ascent: a path is a list of positions that ends where the ascent ends") {
  const auto x = blobs(300, 2, 7, false);
  const AscentRules rules{1.0, 0, 0, 1000};
  const Result r = ascended(x, {}, 2, rules, Run{1});
  const BallSums points(x.data(), nullptr, 300, 2, rules.eps, Run{});
  for (int64_t i = 0; i < 300; i += 11) {
    std::vector<double> path;
    ascent_path(points, x.data() + 2 * i, rules, path, Run{});
    CHECK(static_cast<int64_t>(path.size()) == 2 * (r.steps[static_cast<size_t>(i)] + 1));
    CHECK(path[0] == x[static_cast<size_t>(2 * i)] && path[1] == x[static_cast<size_t>(2 * i + 1)]);
    CHECK(std::equal(path.end() - 2, path.end(), r.point.begin() + 2 * i));
  }
}

TEST("ascent: a start off the data stays, and a sphere is touched or not") {
  const std::vector<double> x{-1, 0, 1};
  const BallSums points(x.data(), nullptr, 3, 1, 1.0, Run{});
  const std::vector<double> starts{7, 0, 0.25, 0.5};
  std::vector<double> point(4), weight(4);
  std::vector<int64_t> steps(4);
  std::vector<uint8_t> end(4), touched(4);
  ascend(points, matrix_view(starts.data(), 4, 1), {1.0, 0, 0, 100},
         {matrix_view(point.data(), 4, 1), vector_view(steps.data(), 4), vector_view(weight.data(), 4),
          vector_view(end.data(), 4)},
         Run{});
  CHECK(point[0] == 7 && steps[0] == 0 && end[0] == static_cast<uint8_t>(End::empty) && weight[0] == 0);
  CHECK(point[1] == 0 && weight[1] == 3);
  on_sphere(points, matrix_view(starts.data(), 4, 1), 1.0, vector_view(touched.data(), 4), Run{});
  CHECK((touched == std::vector<uint8_t>{0, 1, 0, 0}));
}

TEST("ascent: it can be cancelled") {
  const auto x = blobs(2000, 2, 8, false);
  const std::atomic<bool> cancel{true};
  CHECK_THROWS(Cancelled, ascended(x, {}, 2, {1.0, 0, 0, 1000}, Run{2, &cancel}));
}

TEST("ascent: the Gaussian ascent follows its definition") {
  const auto x = blobs(200, 2, 9, false);
  const double h = 0.8;
  const GaussianAscent points(x.data(), nullptr, 200, 2, h, Run{});
  std::vector<double> path;
  points.ascent_path(x.data(), {h, 0, 1e-9, 1000}, path, Run{});
  CHECK(path.size() > 8);
  for (size_t t = 0; t + 3 < path.size(); t += 2) {
    double mass = 0, sum[2] = {};
    for (size_t k = 0; k < 200; ++k) {
      const double a = x[2 * k] - path[t], b = x[2 * k + 1] - path[t + 1];
      const double kappa = std::exp(-(a * a + b * b) / (2 * h * h));
      mass += kappa;
      for (size_t j = 0; j < 2; ++j) sum[j] += kappa * x[2 * k + j];
    }
    for (size_t j = 0; j < 2; ++j) CHECK(std::abs(path[t + 2 + j] - sum[j] / mass) < 1e-12);
  }
}

TEST("rows: k-th distances are those of a sort") {
  const std::vector<double> line{0, 1, 3, 7}, weights{1, 2, 1, 1};
  std::vector<double> out(4);
  kth_distances(matrix_view<const double>(line.data(), 4, 1), {}, 2, vector_view(out.data(), 4), Run{});
  CHECK((out == std::vector<double>{1, 1, 2, 4}));
  kth_distances(matrix_view<const double>(line.data(), 4, 1), vector_view<const double>(weights.data(), 4), 3,
                vector_view(out.data(), 4), Run{});
  CHECK((out == std::vector<double>{1, 1, 2, 6}));
}
