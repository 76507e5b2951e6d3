#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "common/tile.hpp"
#include "mixture/em_pass.hpp"
#include "simd/kernels.hpp"

using namespace knoll;

namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

std::vector<double> numbers(int64_t n, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(at(n));
  for (auto& v : x) v = normal(engine);
  return x;
}

bool near(double got, double expected, double size = 1) {
  return std::fabs(got - expected) <= 2e-13 * (size + std::fabs(expected));
}

double sum4(const double* s) { return (s[0] + s[1]) + (s[2] + s[3]); }

// The order in which the kernels read a lower triangle (d·d).
std::vector<double> blocked(const std::vector<double>& lower, int64_t d) {
  std::vector<double> out;
  for (int64_t i = 0; i < d; i += d <= 3 ? 1 : 4)
    for (int64_t j = 0; j < (d <= 3 ? i + 1 : i + 4); ++j)
      for (int64_t t = i; t < i + (d <= 3 ? 1 : 4); ++t) out.push_back(t < d && j <= t ? lower[at(t * d + j)] : 0.0);
  return out;
}

struct Tile {
  int64_t points = 96, d, ld;
  std::vector<double> x, columns, strips;

  explicit Tile(int64_t width)
      : d(width), ld(padded(d)), x(numbers(points * d, 1)), columns(at(ld * points)), strips(at(ld * points)) {
    for (int64_t l = 0; l < points; ++l)
      for (int64_t j = 0; j < d; ++j) {
        columns[at(j * points + l)] = x[at(l * d + j)];
        strips[at((j / 4 * points + l) * 4 + j % 4)] = x[at(l * d + j)];
      }
  }
  double operator()(int64_t l, int64_t j) const { return x[at(l * d + j)]; }
};

std::vector<double> shares(int64_t n, unsigned seed) {
  auto lambda = numbers(n, seed);
  for (auto& v : lambda) v = std::fabs(v);
  lambda[1] = 0, lambda[2] = 1e-200;
  return lambda;
}

}  // namespace

TEST("mixture: points into lanes and strips, moved and scaled, on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 5, 8, 13})
    for (int64_t rows : {1, 3, 47, 48})
      for (int64_t stride : {d, d + 3}) {
        const int64_t points = 48, ld = padded(d);
        const auto x = numbers(points * stride, 2), origin = numbers(d, 3);
        const std::vector<float> y(x.begin(), x.end());
        for (const Kernels* table : all_kernels())
          for (bool single : {false, true})
            for (bool with_strips : {false, true}) {
              std::vector<double> columns(at(ld * points), 7.0), strips = columns;
              double* const s = with_strips ? strips.data() : nullptr;
              if (single)
                table->mixture.pack_f32(y.data(), stride, rows, points, d, origin.data(), 0.25, columns.data(), s);
              else
                table->mixture.pack_f64(x.data(), stride, rows, points, d, origin.data(), 0.25, columns.data(), s);
              for (int64_t l = 0; l < points; ++l)
                for (int64_t j = 0; j < d; ++j) {
                  const double value = single ? static_cast<double>(y[at(l * stride + j)]) : x[at(l * stride + j)];
                  const double expected = l < rows ? (value - origin[at(j)]) * 0.25 : 0.0;
                  CHECK(columns[at(j * points + l)] == expected);
                  if (with_strips) CHECK(strips[at((j / 4 * points + l) * 4 + j % 4)] == expected);
                }
              for (int64_t l = 0; l < points && with_strips; ++l)  // what pads a strip is zero
                for (int64_t j = d; j < ld; ++j) CHECK(strips[at((j / 4 * points + l) * 4 + j % 4)] == 0.0);
            }
      }
}

TEST("mixture: log-densities of every shape against plain loops, on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 5, 8, 16, 19}) {
    const Tile tile(d);
    const auto mean = numbers(d, 4);
    auto lower = numbers(d * d, 5), diagonal = numbers(d, 6);
    const auto factor = blocked(lower, d);
    const double constant = -1.25;
    for (const Kernels* table : all_kernels()) {
      std::vector<double> out(at(tile.points)), away(tile.columns.size()), white(tile.columns.size());
      std::vector<double> start(at(tile.ld), 0.0);  // −Fμ
      for (int64_t i = 0; i < d; ++i)
        for (int64_t j = 0; j <= i; ++j) start[at(i)] -= lower[at(i * d + j)] * mean[at(j)];
      for (const double* initial : {static_cast<const double*>(nullptr), static_cast<const double*>(start.data())}) {
        table->mixture.full(tile.columns.data(), tile.points, d, mean.data(), factor.data(), initial, constant,
                            away.data(), out.data());
        for (int64_t l = 0; l < tile.points; ++l) {
          double q = 0;
          for (int64_t i = 0; i < d; ++i) {
            double z = 0;
            for (int64_t j = 0; j <= i; ++j) z += lower[at(i * d + j)] * (tile(l, j) - mean[at(j)]);
            q += z * z;
          }
          CHECK_MSG(near(out[at(l)], constant - q / 2), table->name << " full " << d);
        }
      }
      table->mixture.whiten(tile.columns.data(), tile.points, d, factor.data(), white.data());
      for (int64_t l = 0; l < tile.points; ++l)
        for (int64_t i = 0; i < d; ++i) {
          double z = 0;
          for (int64_t j = 0; j <= i; ++j) z += lower[at(i * d + j)] * tile(l, j);
          CHECK_MSG(near(white[at(i * tile.points + l)], z), table->name << " whiten " << d);
        }
      table->mixture.diagonal(tile.columns.data(), tile.points, d, mean.data(), diagonal.data(), constant, out.data());
      for (int64_t l = 0; l < tile.points; ++l) {
        double q = 0;
        for (int64_t j = 0; j < d; ++j) q += std::pow((tile(l, j) - mean[at(j)]) * diagonal[at(j)], 2);
        CHECK_MSG(near(out[at(l)], constant - q / 2), table->name << " diagonal " << d);
      }
      table->mixture.spherical(tile.columns.data(), tile.points, d, mean.data(), 3.0, constant, out.data());
      for (int64_t l = 0; l < tile.points; ++l) {
        double q = 0;
        for (int64_t j = 0; j < d; ++j) q += std::pow(tile(l, j) - mean[at(j)], 2);
        CHECK_MSG(near(out[at(l)], constant - 1.5 * q), table->name << " round " << d);
      }
      table->mixture.spherical(tile.columns.data(), tile.points, d, mean.data(), 1e308, constant, out.data());
      for (double value : out) CHECK(std::isfinite(value));  // far out, not nowhere
    }
  }
}

TEST("mixture: responsibilities, likelihood and peaks, on every instruction set") {
  const int64_t points = 48;
  for (int64_t k : {1, 2, 3, 7})
    for (bool weighted : {false, true})
      for (const Kernels* table : all_kernels()) {
        auto joint = numbers(k * points, 7);
        for (auto& v : joint) v *= 30;
        for (int64_t c = 0; c < k; ++c) joint[at(c * points)] = -1e8 - static_cast<double>(c);      // far out
        for (int64_t c = 0; c < k; ++c) joint[at(c * points + 3)] = joint[at(c * points + 4)] = 2;  // ties
        joint[at((k - 1) * points + 4)] = -1e6;                                                     // and nowhere near
        auto weights = shares(points, 8);
        auto got = joint;
        std::vector<double> log_p(at(points)), peaks(at(4 * k), 0.0);
        double likelihood[4] = {1, 2, 3, 4}, expected = 10;
        table->mixture.normalise(got.data(), k, points, weighted ? weights.data() : nullptr, log_p.data(), likelihood,
                                 peaks.data());
        auto again = joint;  // the same where no log_p is wanted
        std::vector<double> peaks_again(peaks.size(), 0.0);
        double likelihood_again[4] = {1, 2, 3, 4};
        table->mixture.normalise(again.data(), k, points, weighted ? weights.data() : nullptr, nullptr,
                                 likelihood_again, peaks_again.data());
        CHECK(again == got && peaks_again == peaks);
        CHECK(near(sum4(likelihood_again), sum4(likelihood), std::fabs(sum4(likelihood))));
        std::vector<double> peak(at(k), 0.0);
        for (int64_t l = 0; l < points; ++l) {
          long double top = -HUGE_VALL, sum = 0;
          for (int64_t c = 0; c < k; ++c) top = std::max<long double>(top, joint[at(c * points + l)]);
          for (int64_t c = 0; c < k; ++c) sum += std::exp(joint[at(c * points + l)] - top);
          const double w = weighted ? weights[at(l)] : 1.0, lp = static_cast<double>(top + std::log(sum));
          CHECK(near(log_p[at(l)], lp));
          expected += w * lp;
          for (int64_t c = 0; c < k; ++c) {
            const auto lambda = static_cast<double>(std::exp(joint[at(c * points + l)] - top) / sum);
            CHECK(std::fabs(got[at(c * points + l)] - w * lambda) <= 1e-13 * w * lambda + 1e-307);
            if (w > 0) peak[at(c)] = std::max(peak[at(c)], lambda);
          }
        }
        CHECK(near(sum4(likelihood), expected, std::fabs(expected)));
        for (int64_t c = 0; c < k; ++c) {
          const double* p = peaks.data() + 4 * c;
          CHECK(near(std::max({p[0], p[1], p[2], p[3]}), peak[at(c)]));
        }
      }
}

TEST("mixture: the sums of the M step against plain loops, on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 5, 8, 13}) {
    const Tile tile(d);
    const auto lambda = shares(tile.points, 9), center = numbers(d, 10);
    auto moment = [&](int64_t i, int64_t j) {  // j < 0: first moments; i < 0: mass
      double sum = 0;
      for (int64_t l = 0; l < tile.points; ++l)
        sum += lambda[at(l)] * (i < 0 ? 1.0 : tile(l, i) - center[at(i)]) * (j < 0 ? 1.0 : tile(l, j) - center[at(j)]);
      return sum;
    };
    for (const Kernels* table : all_kernels()) {
      for (bool second : {false, true}) {
        std::vector<double> sums(at(4 * (1 + 2 * tile.ld)), 0.25);
        table->mixture.column_sums(tile.columns.data(), tile.points, d, lambda.data(), center.data(), second,
                                   sums.data());
        CHECK(near(sum4(sums.data()), 1 + moment(-1, -1), 100));
        for (int64_t j = 0; j < d; ++j) {
          CHECK(near(sum4(sums.data() + 4 * (1 + j)), 1 + moment(j, -1), 100));
          const double squares = sum4(sums.data() + 4 * (1 + tile.ld + j));
          CHECK(near(squares, second ? 1 + moment(j, j) : 1.0, 100));
        }
      }
      if (d <= 3) {
        std::vector<double> sums(at(4 * (1 + d + d * (d + 1) / 2)), 0.25);
        table->mixture.small_sums(tile.columns.data(), tile.points, d, lambda.data(), center.data(), sums.data());
        const double* s = sums.data();
        CHECK(near(sum4(s), 1 + moment(-1, -1), 100));
        for (int64_t j = 0; j < d; ++j) CHECK(near(sum4(s += 4), 1 + moment(j, -1), 100));
        for (int64_t i = 0; i < d; ++i)
          for (int64_t j = i; j < d; ++j) CHECK(near(sum4(s += 4), 1 + moment(i, j), 100));
      }
    }
  }
}

TEST("mixture: full second moments against plain loops, on every instruction set") {
  for (int64_t d : {4, 5, 8, 12, 13, 16, 20, 33, 40})
    for (bool at_origin : {false, true})
      for (const Kernels* table : all_kernels()) {
        const Tile tile(d);
        const int64_t ld = tile.ld;
        const auto lambda = shares(tile.points, 9);
        auto even = lambda;  // none of these is negligible
        for (auto& v : even) v += 0.1;
        const auto center = at_origin ? std::vector<double>(at(d), 0.0) : numbers(d, 10);
        auto moment = [&](const std::vector<double>& share, int64_t i, int64_t j) {  // below 0: no such factor
          double sum = 0;
          for (int64_t l = 0; l < tile.points; ++l)
            sum +=
                share[at(l)] * (i < 0 ? 1.0 : tile(l, i) - center[at(i)]) * (j < 0 ? 1.0 : tile(l, j) - center[at(j)]);
          return sum;
        };
        std::vector<double> reach(at(2 * ld), 0.5), away(tile.strips.size(), 7.0), weighted = away;
        table->mixture.reach(tile.columns.data(), tile.points, d, reach.data());
        for (int64_t j = 0; j < d; ++j) {
          double furthest = 0.5;
          for (int64_t l = 0; l < tile.points; ++l) furthest = std::max(furthest, std::fabs(tile(l, j)));
          CHECK(reach[at(j)] == furthest && reach[at(ld + j)] == 1 / (furthest * furthest));
        }
        struct Sums {
          double mass[4], spent;
          std::vector<double> first, second;
        };
        auto add = [&](const std::vector<double>& share, Sums& sums) {
          return table->mixture.scatter(tile.strips.data(), tile.points, d, share.data(),
                                        at_origin ? nullptr : center.data(), reach.data(), away.data(), weighted.data(),
                                        &sums.spent, sums.mass, sums.first.data(), sums.second.data());
        };
        auto empty = [&](double mass, double second) {
          return Sums{{mass, 0, 0, 0}, 0, std::vector<double>(at(ld), 0.5), std::vector<double>(at(ld * ld), second)};
        };
        for (const auto& share : {lambda, even}) {
          Sums sums = empty(0, 0.25);
          CHECK(add(share, sums) == tile.points);  // one λ is zero, which alone is not worth a search
          CHECK(near(sum4(sums.mass), moment(share, -1, -1), 100));
          for (int64_t i = 0; i < ld; ++i) {
            CHECK_MSG(near(sums.first[at(i)], 0.5 + (i < d ? moment(share, i, -1) : 0.0), 100), table->name << d);
            for (int64_t j = i; j < ld; ++j)
              CHECK_MSG(near(sums.second[at(i * ld + j)], 0.25 + (j < d ? moment(share, i, j) : 0.0), 100),
                        table->name << ' ' << d << ' ' << i << ' ' << j);
          }
        }
        Sums none = empty(0, 0);
        CHECK(add(std::vector<double>(at(tile.points), 0.0), none) == 0 && none.second == empty(0, 0).second);
        // Beside 1 in every second moment, 1e-200 is nothing and 1e-13 is something; beside 0 in one of them, all
        // count, but for zeros.
        auto faint = even;
        for (int64_t l = 0; l < 40; ++l) faint[at(2 * l)] = l < 38 ? 1e-200 : l == 38 ? 0 : 1e-13;
        Sums sums = empty(100, 1);
        CHECK(add(faint, sums) == tile.points - 39 && sums.spent > 0 && sums.spent < 1e-198);
        CHECK(near(sum4(sums.mass), 100 + moment(faint, -1, -1), 100));
        CHECK(near(sums.second[1], 1 + moment(faint, 0, 1), 100));
        sums = empty(100, 1);
        sums.second[at((d - 1) * (ld + 1))] = 0;
        CHECK(add(faint, sums) == tile.points - 1 && sums.spent == 0);
        // What is left out adds up to 2⁻⁴⁷ of every second moment at most, however often a little is, and to half of
        // that in the end, where the points are small enough.
        double budget = 100;
        for (int64_t j = 0; j < d; ++j)
          budget = std::min(budget, 1 / std::pow(reach[at(j)] + std::fabs(center[at(j)]), 2));
        budget *= 0x1p-47;
        for (double share : {0.3, 0.02, 0.002}) {
          double spent = 0;
          int64_t out = 0;
          for (int tries = 0; tries < 40; ++tries) {
            sums = empty(100, 1);
            sums.spent = spent;
            out = tile.points - add(std::vector<double>(at(tile.points), share * budget), sums);
            CHECK(near((sums.spent - spent) / budget, static_cast<double>(out) * share));
            spent = sums.spent;
          }
          CHECK_MSG(spent <= budget * (1 + 1e-12) && (share > 0.01 || spent > 0.5 * budget), spent / budget);
        }
      }
}

TEST("mixture: the best row, ties to the lowest, and where it is close, on every instruction set") {
  const int64_t points = 48;
  for (int64_t k : {1, 2, 7})
    for (const Kernels* table : all_kernels()) {
      auto rows = numbers(k * points, 30);
      for (int64_t l = 0; l < 8 && k > 1; ++l)
        rows[at((k - 1) * points + l)] = rows[at(l)] = 50 + static_cast<double>(l);
      if (k > 1) rows[at(5)] += 1e-3, rows[at(6)] -= 1e-3, rows[at(7)] += 1e-12;
      std::vector<double> best(at(points));
      table->mixture.best(rows.data(), k, points, 0x1p-30, best.data());
      for (int64_t l = 0; l < points; ++l) {
        int64_t expected = 0, close = 0;
        for (int64_t c = 1; c < k; ++c)
          if (rows[at(c * points + l)] > rows[at(expected * points + l)]) expected = c;
        const double top = rows[at(expected * points + l)];
        for (int64_t c = 0; c < k; ++c) close += rows[at(c * points + l)] >= top - 0x1p-30 * (1 + std::fabs(top));
        CHECK(best[at(l)] == static_cast<double>(close > 1 ? -1 : expected));
      }
      if (k > 1) CHECK(best[0] == -1 && best[5] == 0 && best[6] == static_cast<double>(k - 1) && best[7] == -1);
    }
}

namespace {

// A mixture of three shapes of parameters, and what a pass over it must give, in long double.
struct Example {
  int64_t n, d, k = 3;
  std::vector<double> x, w, origin, means, factors, constants;

  Example(int64_t rows, int64_t width, Shape shape)
      : n(rows), d(width), x(numbers(n * d, 11)), w(shares(n, 12)), origin(numbers(d, 13)), means(numbers(k * d, 14)) {
    const int64_t size = shape == Shape::full       ? k * d * d
                         : shape == Shape::tied     ? d * d
                         : shape == Shape::diagonal ? k * d
                                                    : k;
    factors = numbers(size, 15);
    for (auto& v : factors) v = 0.3 + std::fabs(v);
    constants = {-1.0, -2.0, -0.5};
  }
  View<const double, 2> points() const { return matrix_view(x.data(), n, d); }
  MixtureModel model(Shape shape) const {
    const int64_t rows = shape == Shape::tied ? 1 : k;
    return {shape,
            {vector_view(origin.data(), d), 0.5},
            matrix_view(means.data(), k, d),
            matrix_view(factors.data(), rows, static_cast<int64_t>(factors.size()) / rows),
            vector_view(constants.data(), k),
            -4.0};
  }
  double y(int64_t i, int64_t j) const { return (x[at(i * d + j)] - origin[at(j)]) * 0.5; }
  double joint(int64_t i, int64_t c, Shape shape) const {
    double q = 0;
    for (int64_t a = 0; a < d; ++a) {
      const double mean = means[at(c * d + a)];
      double z = 0;
      if (shape == Shape::full)
        for (int64_t b = 0; b <= a; ++b) z += factors[at((c * d + a) * d + b)] * (y(i, b) - means[at(c * d + b)]);
      if (shape == Shape::tied) {
        for (int64_t b = 0; b <= a; ++b) z += factors[at(a * d + b)] * y(i, b);
        z -= mean;
      }
      if (shape == Shape::diagonal) z = factors[at(c * d + a)] * (y(i, a) - mean);
      if (shape == Shape::spherical) z = std::sqrt(factors[at(c)]) * (y(i, a) - mean);
      q += z * z;
    }
    return constants[at(c)] - q / 2;
  }
};

struct Pass {
  std::vector<int64_t> words;
  std::vector<double> sums, peaks;
};

template <class Add>
Pass pass_of(int64_t k, int64_t d, Scatter scatter, Add&& add) {
  const int64_t m = kMixtureHead + k * mixture_component_sums(d, scatter);
  // what lies in words that are not in use must not matter
  Pass pass{std::vector<int64_t>(at(kSumWords * m), -77), std::vector<double>(at(m)), std::vector<double>(at(k))};
  int64_t used[2] = {};
  add(matrix_view(pass.words.data(), kSumWords, m), vector_view(used, 2), vector_view(pass.peaks.data(), k));
  for (int64_t i = 0; i < kSumWords; ++i)
    if (i < used[0] || i >= used[1]) std::fill_n(pass.words.begin() + i * m, m, 0);
  exact_round_columns(matrix_view<const int64_t>(pass.words.data(), kSumWords, m), vector_view(pass.sums.data(), m));
  return pass;
}

}  // namespace

TEST("mixture: a pass of every shape against plain loops; the same bits for any threads, layout and blocks") {
  const struct {
    Shape shape;
    Scatter scatter;
  } cases[] = {{Shape::full, Scatter::full},
               {Shape::tied, Scatter::none},
               {Shape::diagonal, Scatter::columns},
               {Shape::spherical, Scatter::columns}};
  for (const auto& one_case : cases)
    for (int64_t d : {1, 2, 3, 6, 35})
      for (bool weighted : {false, true}) {
        if (knoll_test::quick() && weighted == (d % 2 == 0)) continue;
        const Example e(kGrain + 77, d, one_case.shape);
        const auto model = e.model(one_case.shape);
        const View<const double, 1> weights = weighted ? vector_view(e.w.data(), e.n) : View<const double, 1>{};
        std::vector<double> turned(e.x.size());
        for (int64_t i = 0; i < e.n; ++i)
          for (int64_t j = 0; j < d; ++j) turned[at(j * e.n + i)] = e.x[at(i * d + j)];
        auto run = [&](View<const double, 2> x, int threads, std::vector<int64_t> cuts) {
          return pass_of(e.k, d, one_case.scatter,
                         [&](View<int64_t, 2> sums, View<int64_t, 1> used, View<double, 1> peaks) {
                           int64_t begin = 0;
                           cuts.push_back(e.n);
                           for (int64_t cut : cuts) {
                             add_mixture(x.rows(begin, cut), weighted ? weights.rows(begin, cut) : weights, model,
                                         model.means, one_case.scatter, sums, used, peaks, Run{threads});
                             begin = cut;
                           }
                         });
        };
        const Pass one = run(e.points(), 1, {});
        for (int threads : {2, 3, 8}) CHECK(run(e.points(), threads, {}).sums == one.sums);
        const Pass other = run(View<const double, 2>{turned.data(), {e.n, d}, {1, e.n}}, 2, {kGrain});
        CHECK(other.sums == one.sums && other.peaks == one.peaks);

        const int64_t per = mixture_component_sums(d, one_case.scatter);
        std::vector<double> expected(one.sums.size(), 0.0), size(one.sums.size(), 1.0), peaks(at(e.k), 0.0);
        auto put = [&](int64_t column, double value) {
          expected[at(column)] += value, size[at(column)] += std::fabs(value);
        };
        for (int64_t i = 0; i < e.n; ++i) {
          const double w = weighted ? e.w[at(i)] : 1.0;
          double p = std::exp(model.noise);
          for (int64_t c = 0; c < e.k; ++c) p += std::exp(e.joint(i, c, one_case.shape));
          put(0, w * std::log(p)), put(1, w), put(2, w * std::exp(model.noise) / p);
          for (int64_t c = 0; c < e.k; ++c) {
            const double lambda = std::exp(e.joint(i, c, one_case.shape)) / p;
            if (w > 0) peaks[at(c)] = std::max(peaks[at(c)], lambda);
            int64_t column = kMixtureHead + c * per;
            auto u = [&](int64_t j) { return e.y(i, j) - e.means[at(c * d + j)]; };
            put(column++, w * lambda);
            for (int64_t j = 0; j < d; ++j) put(column++, w * lambda * u(j));
            if (one_case.scatter == Scatter::columns)
              for (int64_t j = 0; j < d; ++j) put(column++, w * lambda * u(j) * u(j));
            if (one_case.scatter == Scatter::full)
              for (int64_t a = 0; a < d; ++a)
                for (int64_t b = a; b < d; ++b) put(column++, w * lambda * u(a) * u(b));
          }
        }
        for (size_t m = 0; m < expected.size(); ++m)
          CHECK_MSG(std::fabs(one.sums[m] - expected[m]) <= 1e-12 * size[m], static_cast<int>(one_case.shape)
                                                                                 << ' ' << d << ' ' << m << ' '
                                                                                 << one.sums[m] << ' ' << expected[m]);
        for (int64_t c = 0; c < e.k; ++c) CHECK(std::fabs(one.peaks[at(c)] - peaks[at(c)]) <= 1e-12);
      }
}

TEST("mixture: what is left out of the sums is not missed, however far apart or faint the components are") {
  // Components `apart` standard deviations from each other in every column, the third so faint that all it has is what
  // others would call nothing, the last one dead; a few rows far out.
  const int64_t n = kGrain + 500, k = 4, d = 14, per = mixture_component_sums(d, Scatter::full);
  const auto w = shares(n, 31);
  for (double apart : knoll_test::quick() ? std::vector<double>{1.5, 30.0} : std::vector<double>{0.1, 1.5, 3.0, 30.0})
    for (double noise : {-HUGE_VAL, -60.0})
      for (bool weighted : {false, true}) {
        if (knoll_test::quick() && weighted == (noise < -100)) continue;
        auto x = numbers(n * d, 32);
        std::vector<double> means(at(k * d)), factors(at(k * d * d), 0.0), origin(at(d), 0.0);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < d; ++j) {
            double& v = x[at(i * d + j)];
            v = (v + static_cast<double>(i % 2) * apart) * (i % 1000 == 7 ? 1e3 : 1);
            v = static_cast<double>(static_cast<float>(v));
          }
        for (int64_t c = 0; c < k; ++c)
          for (int64_t i = 0; i < d; ++i) {
            means[at(c * d + i)] = static_cast<double>(c % 3) * apart;
            for (int64_t j = 0; j <= i; ++j) factors[at((c * d + i) * d + j)] = i == j ? 1.0 : 0.02;
          }
        const std::vector<double> constants = {-1.0, -1.5, -90.0, -HUGE_VAL};
        const std::vector<float> single(x.begin(), x.end());
        const MixtureModel model{Shape::full,
                                 {vector_view<const double>(origin.data(), d), 1.0},
                                 matrix_view<const double>(means.data(), k, d),
                                 matrix_view<const double>(factors.data(), k, d * d),
                                 vector_view<const double>(constants.data(), k),
                                 noise};
        const View<const double, 1> weights = weighted ? vector_view(w.data(), n) : View<const double, 1>{};
        auto run = [&](auto points) {
          return pass_of(k, d, Scatter::full, [&](View<int64_t, 2> sums, View<int64_t, 1> used, View<double, 1> peaks) {
            add_mixture(points, weights, model, model.means, Scatter::full, sums, used, peaks, Run{2});
          });
        };
        const Pass got = run(matrix_view<const double>(x.data(), n, d));
        CHECK(run(matrix_view<const float>(single.data(), n, d)).sums == got.sums);

        std::vector<double> resp(at(n * k));
        expect_mixture(matrix_view<const double>(x.data(), n, d), model, matrix_view(resp.data(), n, k), {}, {}, {},
                       Run{2});
        for (int64_t c = 0; c < k; ++c) {
          std::vector<long double> second(at(d * d), 0.0L), first(at(d), 0.0L);
          long double mass = 0;
          for (int64_t i = 0; i < n; ++i) {
            const long double share = static_cast<long double>(resp[at(i * k + c)]) * (weighted ? w[at(i)] : 1.0);
            auto u = [&](int64_t j) { return static_cast<long double>(x[at(i * d + j)]) - means[at(c * d + j)]; };
            mass += share;
            for (int64_t a = 0; a < d; ++a) {
              first[at(a)] += share * u(a);
              for (int64_t b = a; b < d; ++b) second[at(a * d + b)] += share * u(a) * u(b);
            }
          }
          const double* sum = got.sums.data() + kMixtureHead + c * per;
          auto close = [&](long double expected, long double size) {
            return std::fabs(static_cast<long double>(*sum++) - expected) <= 1e-13L * std::sqrt(size);
          };
          CHECK_MSG(close(mass, mass * mass), apart << ' ' << c << ' ' << static_cast<double>(mass));
          for (int64_t a = 0; a < d; ++a) CHECK(close(first[at(a)], mass * second[at(a * d + a)]));
          for (int64_t a = 0; a < d; ++a)
            for (int64_t b = a; b < d; ++b)
              CHECK_MSG(close(second[at(a * d + b)], second[at(a * d + a)] * second[at(b * d + b)]),
                        apart << ' ' << c << ' ' << a << ' ' << b);
          CHECK(apart > 3 ? c < 3 || mass == 0 : (mass > 0) == (c < 3));
        }
      }
}

TEST("mixture: the output for points, every shape, float32 and dead components") {
  for (Shape shape : {Shape::full, Shape::tied, Shape::diagonal, Shape::spherical})
    for (int64_t d : {1, 3, 6}) {
      Example e(130, d, shape);
      for (auto& v : e.x) v = static_cast<double>(static_cast<float>(v));
      e.constants[1] = -HUGE_VAL;
      const std::vector<float> single(e.x.begin(), e.x.end());
      const auto model = e.model(shape);
      std::vector<double> resp(at(e.n * 4)), log_prob(at(e.n)), joint(at(e.n * 3)), again(log_prob);
      std::vector<int64_t> labels(at(e.n));
      expect_mixture(e.points(), model, matrix_view(resp.data(), e.n, 4), vector_view(labels.data(), e.n),
                     vector_view(log_prob.data(), e.n), matrix_view(joint.data(), e.n, 3), Run{3});
      expect_mixture(View<const float, 2>{single.data(), {e.n, d}, {d, 1}}, model, {}, {},
                     vector_view(again.data(), e.n), {}, Run{1});
      CHECK(again == log_prob);
      for (int64_t i = 0; i < e.n; ++i) {
        const double values[4] = {e.joint(i, 0, shape), -HUGE_VAL, e.joint(i, 2, shape), model.noise};
        double p = 0;
        for (double v : values) p += std::exp(v);
        CHECK(near(log_prob[at(i)], std::log(p)));
        for (int64_t c = 0; c < 4; ++c) CHECK(near(resp[at(i * 4 + c)], std::exp(values[c]) / p));
        CHECK(resp[at(i * 4 + 1)] == 0 && joint[at(i * 3 + 1)] == -HUGE_VAL);
        for (int64_t c : {0, 2}) CHECK(near(joint[at(i * 3 + c)], values[c]));
        const auto best = std::max_element(values, values + 4) - values;
        CHECK(labels[at(i)] == (best == 3 ? -1 : best));
      }
    }
}

TEST("mixture: ties go to the lowest component, also where rounding would decide otherwise") {
  // The same Gaussian written twice, and the noise just as likely: the first wins.
  const int64_t d = 5, n = 50;
  const auto x = numbers(n * d, 16), lower = numbers(d * d, 17);
  std::vector<double> means(at(2 * d), 0.1), factors, origin(at(d), 0.0), constants = {-1, -1};
  for (int copy : {0, 1}) factors.insert(factors.end(), lower.begin(), lower.end()), static_cast<void>(copy);
  const MixtureModel model{Shape::full,
                           {vector_view<const double>(origin.data(), d), 1.0},
                           matrix_view<const double>(means.data(), 2, d),
                           matrix_view<const double>(factors.data(), 2, d * d),
                           vector_view<const double>(constants.data(), 2),
                           -HUGE_VAL};
  std::vector<int64_t> labels(at(n), 7);
  expect_mixture(matrix_view(x.data(), n, d), model, {}, vector_view(labels.data(), n), {}, {}, Run{1});
  for (int64_t label : labels) CHECK(label == 0);
}

TEST("mixture: sums of responsibilities and of labels") {
  const int64_t n = 300, d = 5, k = 3;
  const auto x = numbers(n * d, 18), w = shares(n, 19), centers = numbers(k * d, 20);
  const std::vector<double> origin(at(d), 0.0);
  std::vector<int64_t> labels(at(n));
  std::vector<double> hard(at(n * k), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    labels[at(i)] = i % 4 - 1;
    if (labels[at(i)] >= 0) hard[at(i * k + labels[at(i)])] = 1.0;
  }
  const auto points = matrix_view(x.data(), n, d);
  const Centering centering{vector_view(origin.data(), d), 1.0};
  const auto weights = vector_view(w.data(), n);
  for (Scatter scatter : {Scatter::none, Scatter::columns, Scatter::full}) {
    auto run = [&](bool by_label) {
      return pass_of(k, d, scatter, [&](View<int64_t, 2> sums, View<int64_t, 1> used, View<double, 1> peaks) {
        add_responsibilities(points, weights,
                             by_label ? View<const double, 2>{} : matrix_view<const double>(hard.data(), n, k),
                             by_label ? vector_view<const int64_t>(labels.data(), n) : View<const int64_t, 1>{},
                             centering, matrix_view(centers.data(), k, d), scatter, sums, used, peaks, Run{2});
      });
    };
    const Pass a = run(true), b = run(false);
    CHECK(a.sums == b.sums && a.peaks == b.peaks);
    const int64_t per = mixture_component_sums(d, scatter);
    for (int64_t c = 0; c < k; ++c) {
      double mass = 0, first = 0, square = 0;
      for (int64_t i = 0; i < n; ++i)
        if (labels[at(i)] == c) {
          const double u = x[at(i * d)] - centers[at(c * d)];
          mass += w[at(i)], first += w[at(i)] * u, square += w[at(i)] * u * u;
        }
      CHECK(near(a.sums[at(kMixtureHead + c * per)], mass, 100));
      CHECK(near(a.sums[at(kMixtureHead + c * per + 1)], first, 100));
      if (scatter != Scatter::none) CHECK(near(a.sums[at(kMixtureHead + c * per + 1 + d)], square, 100));
      CHECK(a.peaks[at(c)] == 1.0);
    }
  }
}

TEST("mixture: central moments round every sum as exact_round does, whatever its size") {
  const int64_t k = 3000, m = kMixtureHead + 2 * k;
  std::mt19937_64 engine(41);
  for (int widest : {0, 3, 40, 120, 1000}) {  // powers of two between the terms of a sum
    std::uniform_int_distribution<int> power(-widest, widest);
    std::vector<int64_t> words(at(kSumWords * m));
    const auto values = numbers(8 * k, 42);
    for (int64_t c = 0; c < k; ++c) {
      const int64_t column = kMixtureHead + 2 * c;
      exact_add(&words[at(column)], 1.0, m);
      double last = 0;
      for (int64_t t = 0; t < (c % 9 == 8 ? 0 : 1 + c % 8); ++t) {
        last = c % 3 == 1 && t == 1 ? -last : std::ldexp(values[at(8 * c + t)], power(engine));  // some cancel
        exact_add(&words[at(column + 1)], last, m);
      }
      // half a unit in the last place, with and without something below: ties and what breaks them
      if (c % 5 == 0) exact_add(&words[at(column + 1)], 1.0, m), exact_add(&words[at(column + 1)], 0x1p-53, m);
      if (c % 10 == 0) exact_add(&words[at(column + 1)], c % 20 == 0 ? 0x1p-120 : -0x1p-120, m);
    }
    const std::vector<double> centers(at(k), 0.0), peaks(at(k), 1.0);
    std::vector<double> head(3), mass(at(k)), mean(at(k)), expected(at(m));
    const auto alive = std::make_unique<bool[]>(at(k));
    const auto sums = matrix_view<const int64_t>(words.data(), kSumWords, m);
    exact_round_columns(sums, vector_view(expected.data(), m));
    int64_t used[2] = {0, kSumWords};
    for (bool all : {true, false}) {
      if (!all) {  // the words that hold something, and nonsense beside them
        auto zeros = [&](int64_t i) {
          return std::all_of(&words[at(i * m)], &words[at(i * m)] + m, [](int64_t v) { return v == 0; });
        };
        while (zeros(used[0])) std::fill_n(&words[at(used[0]++ * m)], m, 99);
        while (zeros(used[1] - 1)) std::fill_n(&words[at(--used[1] * m)], m, 99);
      }
      central_moments(sums, vector_view<const int64_t>(used, 2), vector_view<const double>(peaks.data(), k),
                      matrix_view<const double>(centers.data(), k, 1), Scatter::none, 0.5, vector_view(head.data(), 3),
                      vector_view(mass.data(), k), matrix_view(mean.data(), k, 1), View<double, 2>{},
                      vector_view(alive.get(), k), Run{2});
      for (int64_t c = 0; c < k; ++c)
        CHECK_MSG(mass[at(c)] == 1.0 && mean[at(c)] == expected[at(kMixtureHead + 2 * c + 1)], widest << ' ' << c);
    }
  }
}

TEST("mixture: many covariances are factorised at once") {
  const int64_t d = 4, k = 3;
  std::vector<double> covariances(at(k * d * d)), whiteners(at(k * d * d), 7.0), log_dets(at(k));
  std::vector<int64_t> failed(at(k));
  for (int64_t c = 0; c < k; ++c) {
    const auto a = numbers(d * d, static_cast<unsigned>(21 + c));
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j) {
        double sum = i == j && c != 1 ? 0.1 : 0.0;
        for (int64_t t = 0; t < (c == 1 ? 2 : d); ++t) sum += a[at(i * d + t)] * a[at(j * d + t)];
        covariances[at((c * d + i) * d + j)] = sum;
      }
  }
  factorise(matrix_view<const double>(covariances.data(), k, d * d), 1e-12, matrix_view(whiteners.data(), k, d * d),
            vector_view(log_dets.data(), k), vector_view(failed.data(), k), Run{2});
  CHECK(failed[0] == -1 && failed[2] == -1);
  CHECK(failed[1] == 2);  // of rank two
  for (int64_t c : {0, 2}) {
    double diagonal = 0;
    for (int64_t i = 0; i < d; ++i) {
      diagonal -= 2 * std::log(whiteners[at((c * d + i) * d + i)]);
      for (int64_t j = 0; j < d; ++j) {  // F Σ Fᵀ = I
        double sum = 0;
        for (int64_t a = 0; a < d; ++a)
          for (int64_t b = 0; b < d; ++b)
            sum += whiteners[at((c * d + i) * d + a)] * covariances[at((c * d + a) * d + b)] *
                   whiteners[at((c * d + j) * d + b)];
        CHECK(near(sum, i == j ? 1.0 : 0.0, 10));
      }
    }
    CHECK(near(log_dets[at(c)], diagonal));
  }
}

TEST("mixture: cancelled within a chunk") {
  const std::atomic<bool> cancel{true};
  const Example e(100, 2, Shape::full);
  const auto model = e.model(Shape::full);
  std::vector<double> log_prob(100);
  CHECK_THROWS(Cancelled,
               pass_of(e.k, 2, Scatter::full, [&](View<int64_t, 2> sums, View<int64_t, 1> used, View<double, 1> peaks) {
                 add_mixture(e.points(), {}, model, model.means, Scatter::full, sums, used, peaks, Run{1, &cancel});
               }));
  CHECK_THROWS(Cancelled,
               expect_mixture(e.points(), model, {}, {}, vector_view(log_prob.data(), 100), {}, Run{1, &cancel}));
}
