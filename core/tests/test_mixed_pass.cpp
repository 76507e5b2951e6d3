// The passes over mixed rows against plain loops: densities of what is observed by substitution in the submatrices,
// sums from responsibilities, conditional means as the mean of what a wider grid of values would give.
#include "mixture/mixed_pass.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "check.hpp"
#include "mixture/cholesky.hpp"

using namespace knoll;

namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A table with `groups` patterns of missing values and a model of k components for it.
struct Case {
  int64_t n, p, q, k, levels;
  bool full;
  std::vector<double> y, weights, log_weights, means, scales, table;
  std::vector<int32_t> codes;
  std::vector<int64_t> starts;
  std::vector<unsigned char> observed;

  Case(int64_t rows, int64_t columns, int64_t categories, int64_t components, bool matrices, unsigned seed)
      : n(rows), p(columns), q(categories), k(components), levels(3 * q + 1), full(matrices) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform(0.1, 1.0);
    const auto fill = [&](std::vector<double>& v, int64_t size, auto&& draw) {
      for (int64_t i = 0; i < size; ++i) v.push_back(draw());
    };
    fill(y, n * p, [&] { return normal(random); });
    fill(weights, n, [&] { return uniform(random); });
    fill(log_weights, k, [&] { return std::log(uniform(random)); });
    fill(means, k * p, [&] { return normal(random); });
    if (full)
      for (int64_t c = 0; c < k; ++c) add_matrix(random);
    else
      fill(scales, k * p, [&] { return uniform(random); });
    fill(table, (levels - 1) * k, [&] { return std::log(uniform(random)); });
    table.resize(at(levels * k), 0.0);  // the last level stands for "missing"
    for (int64_t i = 0; i < n * q; ++i) {
      const auto level = static_cast<int32_t>(random() % 4);
      codes.push_back(level == 3 ? static_cast<int32_t>(levels - 1) : static_cast<int32_t>(i % q * 3) + level);
    }
    for (int64_t begin = 0; begin < n; begin += 1 + static_cast<int64_t>(random() % 150)) {
      starts.push_back(begin);
      for (int64_t j = 0; j < p; ++j) observed.push_back(starts.size() == 1 ? 1 : random() % 3 != 0);
    }
    starts.push_back(n);
  }

  void add_matrix(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::vector<double> b(at(p * 2 * p));
    for (double& v : b) v = normal(random);
    for (int64_t i = 0; i < p; ++i)
      for (int64_t j = 0; j < p; ++j) {
        double sum = i == j ? 0.5 : 0;
        for (int64_t s = 0; s < 2 * p; ++s) sum += b[at(i * 2 * p + s)] * b[at(j * 2 * p + s)];
        scales.push_back(sum);
      }
  }

  int64_t groups() const { return static_cast<int64_t>(starts.size()) - 1; }
  MixedTable rows() const {
    return {matrix_view(y.data(), n, p), matrix_view(codes.data(), n, q), vector_view(weights.data(), n),
            vector_view(starts.data(), groups() + 1), matrix_view(observed.data(), groups(), p)};
  }
  MixedParameters model() const {
    return {vector_view(log_weights.data(), k), matrix_view(means.data(), k, p),
            matrix_view(scales.data(), k, full ? p * p : p), full, matrix_view(table.data(), levels, k)};
  }
  int64_t group_of(int64_t row) const {
    int64_t group = 0;
    while (starts[at(group + 1)] <= row) ++group;
    return group;
  }
  bool has(int64_t row, int64_t j) const { return observed[at(group_of(row) * p + j)] != 0; }

  // log π_c p(what is observed | c), as the equation has it.
  double joint(int64_t row, int64_t c) const {
    std::vector<int64_t> seen;
    for (int64_t j = 0; j < p; ++j)
      if (has(row, j)) seen.push_back(j);
    const auto o = static_cast<int64_t>(seen.size());
    double value = log_weights[at(c)] - 0.5 * static_cast<double>(o) * std::log(2 * M_PI);
    for (int64_t j = 0; j < q; ++j) value += table[at(codes[at(row * q + j)] * k + c)];
    std::vector<double> away(at(o)), l(at(o * o));
    for (int64_t i = 0; i < o; ++i) away[at(i)] = y[at(row * p + seen[at(i)])] - means[at(c * p + seen[at(i)])];
    if (!full) {
      for (int64_t i = 0; i < o; ++i) {
        const double factor = scales[at(c * p + seen[at(i)])];
        value += std::log(factor) - 0.5 * std::pow(away[at(i)] * factor, 2);
      }
      return value;
    }
    for (int64_t i = 0; i < o; ++i)
      for (int64_t j = 0; j < o; ++j) l[at(i * o + j)] = scales[at(c * p * p + seen[at(i)] * p + seen[at(j)])];
    if (o == 0) return value;
    cholesky(matrix_view(l.data(), o, o), 0.0);
    for (int64_t i = 0; i < o; ++i) {
      for (int64_t j = 0; j < i; ++j) away[at(i)] -= l[at(i * o + j)] * away[at(j)];
      away[at(i)] /= l[at(i * o + i)];
      value -= std::log(l[at(i * o + i)]) + 0.5 * away[at(i)] * away[at(i)];
    }
    return value;
  }
};

struct Expected {
  std::vector<double> resp, log_prob, joint, filled;
  std::vector<int64_t> labels;

  Expected(const Case& test, int threads)
      : resp(at(test.n * test.k)),
        log_prob(at(test.n)),
        joint(at(test.n * test.k)),
        filled(at(test.n * test.p), std::numeric_limits<double>::quiet_NaN()),
        labels(at(test.n)) {
    expect_mixed(test.rows(), test.model(), matrix_view(resp.data(), test.n, test.k),
                 vector_view(labels.data(), test.n), vector_view(log_prob.data(), test.n),
                 matrix_view(joint.data(), test.n, test.k), matrix_view(filled.data(), test.n, test.p), {threads});
  }
};

struct Sums {
  std::vector<double> head, moments, counts, peaks;

  Sums(const Case& test, int threads)
      : head(2),
        moments(at(test.k * mixed_component_sums(test.p, test.full))),
        counts(at(test.levels * test.k)),
        peaks(at(test.k)) {
    const std::vector<double> pivots(at(test.k * test.p), 0.25);
    sum_mixed(test.rows(), test.model(), matrix_view(pivots.data(), test.k, test.p), vector_view(head.data(), 2),
              matrix_view(moments.data(), test.k, mixed_component_sums(test.p, test.full)),
              matrix_view(counts.data(), test.levels, test.k), vector_view(peaks.data(), test.k), {threads});
  }
};

bool near(double got, double expected) { return std::fabs(got - expected) <= 1e-9 * (1 + std::fabs(expected)); }

template <class F>
void for_cases(F&& body) {
  for (int64_t k : {1, 3, 4, 5, 8, 9, 17})
    for (int64_t p : {0, 1, 3, 5})
      for (int64_t q : {0, 2})
        for (bool full : {false, true})
          if (p + q > 0) body(Case(k == 9 ? 2500 : 130, p, q, k, full, static_cast<unsigned>(k * 10 + p)));
}

}  // namespace

TEST("mixed pass: densities of what is observed") {
  for_cases([](const Case& test) {
    const Expected got(test, 2);
    for (int64_t i = 0; i < test.n; ++i) {
      double total = 0, largest = -HUGE_VAL;
      for (int64_t c = 0; c < test.k; ++c) {
        CHECK(near(got.joint[at(i * test.k + c)], test.joint(i, c)));
        largest = std::max(largest, got.joint[at(i * test.k + c)]);
      }
      for (int64_t c = 0; c < test.k; ++c) total += std::exp(got.joint[at(i * test.k + c)] - largest);
      CHECK(near(got.log_prob[at(i)], largest + std::log(total)));
      CHECK(got.joint[at(i * test.k + got.labels[at(i)])] == largest);
      for (int64_t c = 0; c < test.k; ++c)
        CHECK(near(got.resp[at(i * test.k + c)], std::exp(got.joint[at(i * test.k + c)] - got.log_prob[at(i)])));
      for (int64_t j = 0; j < test.p; ++j) CHECK(std::isnan(got.filled[at(i * test.p + j)]) == test.has(i, j));
    }
  });
}

TEST("mixed pass: sums of the responsibilities") {
  for_cases([](const Case& test) {
    const Expected each(test, 1);
    const Sums sums(test, 2);
    const int64_t width = mixed_component_sums(test.p, test.full);
    double likelihood = 0;
    for (int64_t i = 0; i < test.n; ++i) likelihood += test.weights[at(i)] * each.log_prob[at(i)];
    CHECK(near(sums.head[0], likelihood));
    for (int64_t c = 0; c < test.k; ++c) {
      double mass = 0, peak = 0;
      std::vector<double> seen(at(test.p)), first(at(test.p)), second(at(test.p)), counts(at(test.levels));
      for (int64_t i = 0; i < test.n; ++i) {
        const double share = test.weights[at(i)] * each.resp[at(i * test.k + c)];
        mass += share;
        peak = std::max(peak, each.resp[at(i * test.k + c)]);
        for (int64_t j = 0; j < test.p; ++j)
          if (test.has(i, j)) {
            const double away = test.y[at(i * test.p + j)] - 0.25;
            seen[at(j)] += share, first[at(j)] += share * away, second[at(j)] += share * away * away;
          }
        for (int64_t j = 0; j < test.q; ++j) counts[at(test.codes[at(i * test.q + j)])] += share;
      }
      const double* got = sums.moments.data() + c * width;
      CHECK(near(got[0], mass));
      CHECK(near(sums.peaks[at(c)], peak));
      for (int64_t j = 0; j < test.p; ++j) {
        CHECK(near(got[1 + j], seen[at(j)]));
        if (test.full) continue;  // the sums are those of completed rows
        CHECK(near(got[1 + test.p + j], first[at(j)]));
        CHECK(near(got[1 + 2 * test.p + j], second[at(j)]));
      }
      for (int64_t l = 0; l < test.levels; ++l) CHECK(near(sums.counts[at(l * test.k + c)], counts[at(l)]));
    }
  });
}

TEST("mixed pass: the same bits for any threads") {
  const Case test(9000, 4, 3, 6, true, 5);
  const Sums one(test, 1), three(test, 3);
  CHECK(one.moments == three.moments);
  CHECK(one.counts == three.counts);
  CHECK(one.head == three.head);
}
