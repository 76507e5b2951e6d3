#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "neighbors/pair_filter.hpp"
#include "neighbors/pair_filter_block.hpp"

using namespace knoll;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double plain_distance(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const volatile double difference = x[j] - y[j];  // volatile: no compiler may fuse it with what follows
    const volatile double square = difference * difference;
    sum = sum + square;
  }
  return sum;
}

struct Points {
  std::string name;
  int64_t n, d;
  std::vector<double> x;  // (n, d)

  const double* row(int64_t i) const { return x.data() + i * d; }
  View<const double, 2> view() const { return {x.data(), {n, d}, {d, 1}}; }
  double distance(int64_t i, int64_t j) const { return plain_distance(row(i), row(j), d); }
};

Points blobs(int64_t n, int64_t d, int64_t k, double apart, double std, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> centers(static_cast<size_t>(k * d));
  for (auto& c : centers) c = apart * normal(engine);
  Points p{"blobs", n, d, std::vector<double>(static_cast<size_t>(n * d))};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j)
      p.x[static_cast<size_t>(i * d + j)] = centers[static_cast<size_t>(i % k * d + j)] + std * normal(engine);
  return p;
}

Points changed(Points p, const char* name, auto&& change) {
  p.name = name;
  for (int64_t i = 0; i < p.n; ++i)
    for (int64_t j = 0; j < p.d; ++j)
      p.x[static_cast<size_t>(i * p.d + j)] = change(i, j, p.x[static_cast<size_t>(i * p.d + j)]);
  return p;
}

// Sets that are hard on a rounded product.
std::vector<Points> hard_sets(int64_t n, int64_t d) {
  const Points base = blobs(n, d, 5, 4.0, 1.0, static_cast<unsigned>(n + d));
  std::mt19937_64 engine(7);
  std::vector<Points> sets{base};
  sets.push_back(changed(base, "lattice", [](int64_t, int64_t, double v) { return std::round(v); }));
  sets.push_back(changed(base, "duplicates", [&](int64_t i, int64_t j, double) { return base.row(i / 9)[j]; }));
  sets.push_back(changed(base, "equal", [&](int64_t, int64_t j, double) { return base.row(0)[j]; }));
  sets.push_back(changed(base, "offset 1e8", [](int64_t, int64_t, double v) { return v + 1e8; }));
  sets.push_back(
      changed(base, "two offsets", [](int64_t i, int64_t, double v) { return v + (i % 2 == 0 ? 1e8 : -1e8); }));
  sets.push_back(changed(base, "outliers", [](int64_t i, int64_t j, double v) {
    return i % 41 == 3 ? v * 1e30 : i == 5 && j == 0 ? 1e300 : v;
  }));
  sets.push_back(changed(base, "outliers within float32",
                         [](int64_t i, int64_t, double v) { return i % 29 == 3 ? v * 1e12 : v; }));
  sets.push_back(changed(base, "1e150", [](int64_t, int64_t, double v) { return v * 1e150; }));
  sets.push_back(changed(base, "1e-150", [](int64_t, int64_t, double v) { return v * 1e-150; }));
  sets.push_back(changed(base, "1e-162", [](int64_t, int64_t, double v) { return v * 1e-162; }));
  sets.push_back(changed(base, "1e307", [](int64_t, int64_t, double v) { return v * (1e307 / 8); }));
  sets.push_back(changed(base, "denormals", [](int64_t, int64_t, double v) { return v * 1e-310; }));
  sets.push_back(changed(base, "mixed scales",
                         [](int64_t, int64_t j, double v) { return std::ldexp(v, static_cast<int>(j % 3 * 20)); }));
  sets.push_back(changed(base, "last bits", [&](int64_t i, int64_t j, double) {
    return std::nextafter(base.row(i / 40)[j], engine() % 2 == 0 ? kInf : -kInf);
  }));
  sets.push_back(
      changed(base, "collinear", [&](int64_t i, int64_t, double) { return 0.1 * static_cast<double>(i % 97); }));
  sets.push_back(changed(base, "constant columns", [](int64_t, int64_t j, double v) { return j % 2 == 0 ? 3.0 : v; }));
  return sets;
}

// Radii that equal distances of the set, and the doubles beside them.
std::vector<double> hard_radii(const Points& p) {
  std::vector<double> d2;
  for (int64_t k = 1; k < 60; ++k) d2.push_back(p.distance(k * 7919 % p.n, k * k * 104729 % p.n));
  std::sort(d2.begin(), d2.end());
  const double low = d2[5], middle = d2[30];
  return {0.0, low, middle, std::nextafter(middle, 0.0), std::nextafter(middle, kInf), 4 * d2.back()};
}

template <class T>
void check_all(const Points& p, View<const T, 2> x, double r2, Run run, PairStats& work) {
  const int64_t n = p.n;
  const auto describe = [&] { return p.name + " n " + std::to_string(n) + " d " + std::to_string(p.d); };
  std::vector<double> d2(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) d2[static_cast<size_t>(i * n + j)] = p.distance(i, j);
  const auto within = [&](int64_t i, int64_t j) { return d2[static_cast<size_t>(i * n + j)] <= r2; };

  const PairFilter<T> pairs(x, run);
  const auto size = static_cast<size_t>(n);
  const auto add = [&](const PairStats& s) {
    work.tiles += s.tiles, work.discarded += s.discarded, work.rechecks += s.rechecks;
  };

  // Counts of the set about itself (triangular, and with an early stop), and as queries that are packed anew.
  std::vector<T> copy(static_cast<size_t>(n * p.d));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < p.d; ++j) copy[static_cast<size_t>(i * p.d + j)] = x(i, j);
  const View<const T, 2> other{copy.data(), {n, p.d}, {p.d, 1}};
  std::vector<int64_t> counts(size), capped(size), exact(size), few(size);
  add(pairs.count(x, r2, n + 1, vector_view(counts.data(), n), run));
  add(pairs.count(x, r2, 7, vector_view(capped.data(), n), run));
  add(pairs.count(other, r2, n + 1, vector_view(exact.data(), n), run));
  add(pairs.count(other, r2, 3, vector_view(few.data(), n), run));
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t truth = 0;
    for (int64_t j = 0; j < n; ++j) truth += within(i, j);
    const auto at = static_cast<size_t>(i);
    wrong += counts[at] != truth || exact[at] != truth || capped[at] != std::min<int64_t>(truth, 7) ||
             few[at] != std::min<int64_t>(truth, 3);
  }
  CHECK_MSG(wrong == 0, describe() << ": " << wrong << " counts at r2 " << r2);

  // Weights, whole and not.
  for (double unit : {1.0, 0.1}) {
    std::vector<double> weights(size), sums(size);
    for (int64_t i = 0; i < n; ++i) weights[static_cast<size_t>(i)] = unit * static_cast<double>(i % 11 - 4);
    add(pairs.weigh(x, r2, vector_view<const double>(weights.data(), n), vector_view(sums.data(), n), run));
    wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      ExactSum truth;
      for (int64_t j = 0; j < n; ++j)
        if (within(i, j)) truth.add(weights[static_cast<size_t>(j)]);
      wrong += sums[static_cast<size_t>(i)] != truth.round();
    }
    CHECK_MSG(wrong == 0, describe() << ": " << wrong << " weights at r2 " << r2);
  }

  // Components, neighbours and the nearest, of a subset of the rows.
  std::vector<uint8_t> mask(size), complement(size);
  for (int64_t i = 0; i < n; ++i)
    mask[static_cast<size_t>(i)] = i % 3 != 0, complement[static_cast<size_t>(i)] = i % 3 == 0;
  const auto masked = vector_view<const uint8_t>(mask.data(), n),
             selected = vector_view<const uint8_t>(complement.data(), n);
  UnionFind<int32_t> sets(n), all(n);
  UnionFind<int64_t> truth(n), all_truth(n);
  add(pairs.unite(r2, masked, sets, run));
  add(pairs.unite(r2, {}, all, run));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j)
      if (within(i, j)) {
        all_truth.unite(i, j);
        if (mask[static_cast<size_t>(i)] && mask[static_cast<size_t>(j)]) truth.unite(i, j);
      }
  wrong = 0;
  for (int64_t i = 0; i < n; ++i)
    wrong +=
        sets.find(static_cast<int32_t>(i)) != truth.find(i) || all.find(static_cast<int32_t>(i)) != all_truth.find(i);
  CHECK_MSG(wrong == 0, describe() << ": " << wrong << " roots at r2 " << r2);

  std::vector<uint8_t> named(static_cast<size_t>(n * n));
  add(pairs.for_neighbours(x, selected, r2, masked, run, [&](int64_t i, const int64_t* js, int64_t count) {
    for (int64_t k = 0; k < count; ++k) ++named[static_cast<size_t>(i * n + js[k])];
  }));
  std::vector<int64_t> index(size, -7);
  std::vector<double> found(size, -7.0);
  add(pairs.nearest(x, selected, r2, masked, vector_view(index.data(), n), vector_view(found.data(), n), run));
  wrong = 0;
  int64_t lost = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t best = -1;
    for (int64_t j = 0; j < n; ++j) {
      const bool counts_in = complement[static_cast<size_t>(i)] && mask[static_cast<size_t>(j)] && within(i, j);
      wrong += named[static_cast<size_t>(i * n + j)] != counts_in;
      if (!counts_in) continue;
      const double here = d2[static_cast<size_t>(i * n + j)],
                   there = best < 0 ? kInf : d2[static_cast<size_t>(i * n + best)];
      if (best < 0 || here < there ||
          (here == there && std::lexicographical_compare(p.row(j), p.row(j) + p.d, p.row(best), p.row(best) + p.d)))
        best = j;
    }
    if (!complement[static_cast<size_t>(i)]) {
      lost += index[static_cast<size_t>(i)] != -7 || found[static_cast<size_t>(i)] != -7.0;
      continue;
    }
    lost += index[static_cast<size_t>(i)] != best ||
            found[static_cast<size_t>(i)] != (best < 0 ? kInf : d2[static_cast<size_t>(i * n + best)]);
  }
  CHECK_MSG(wrong == 0, describe() << ": " << wrong << " neighbours at r2 " << r2);
  CHECK_MSG(lost == 0, describe() << ": " << lost << " nearest at r2 " << r2);
}

template <class T>
void check_knn(const Points& p, View<const T, 2> x, int64_t k, Run run) {
  const int64_t n = p.n;
  const PairFilter<T> pairs(x, run);
  std::vector<double> d2(static_cast<size_t>(n * k));
  std::vector<int64_t> index(d2.size());
  pairs.knn(x, matrix_view(d2.data(), n, k), matrix_view(index.data(), n, k), run);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<std::pair<double, int64_t>> truth;
    for (int64_t j = 0; j < n; ++j) truth.emplace_back(p.distance(i, j), j);
    std::sort(truth.begin(), truth.end());
    for (int64_t r = 0; r < k; ++r) {
      const auto at = static_cast<size_t>(i * k + r), rank = static_cast<size_t>(r);
      wrong +=
          r < n ? d2[at] != truth[rank].first || index[at] != truth[rank].second : d2[at] != kInf || index[at] != -1;
    }
  }
  CHECK_MSG(wrong == 0, p.name << " d " << p.d << " k " << k << ": " << wrong << " of the nearest");
}

}  // namespace

TEST("pairs: what a tile calls sure or impossible is so, on every instruction set") {
  for (int64_t d : knoll_test::quick() ? std::vector<int64_t>{1, 7, 33}
                                       : std::vector<int64_t>{1, 2, 3, 7, 16, 31, 33, 64, 130, 300})
    for (const Points& p : hard_sets(90, d))
      for (double r2 : hard_radii(p)) {
        const Panels<double> panels(p.view(), choose_pivot(p.view(), Run{}), Run{});
        for (const Kernels* table : all_kernels()) {
          int64_t wrong = 0;
          for (int64_t a = 0; a < panels.count; ++a)
            for (int64_t b = 0; b < panels.count; ++b) {
              const float* const from = panels.columns.data() + a * d * kPairPanel;
              std::vector<float> rows(static_cast<size_t>(kPanelRows * d)), high(kPanelRows), low(kPanelRows);
              for (int64_t l = 0; l < kPanelRows; ++l) {
                const bool there = l < kPairPanel && (panels.used[static_cast<size_t>(a)] >> l & 1) != 0;
                const auto range = panels.bounds.row(
                    there ? panels.norms[static_cast<size_t>(a * kPairPanel + l)] : 0.0, there ? r2 : -1.0);
                high[static_cast<size_t>(l)] = range.high;
                low[static_cast<size_t>(l)] = range.low;
                for (int64_t j = 0; j < d && there; ++j)
                  rows[static_cast<size_t>(l / 3 * 3 * d + 3 * j + l % 3)] = from[j * kPairPanel + l];
              }
              Tile tile;
              table->pairs.masks(rows.data(), high.data(), low.data(), panels.columns.data() + b * d * kPairPanel,
                                 panels.high.data() + b * kPairPanel, panels.low.data() + b * kPairPanel, d, tile.sure,
                                 tile.possible, from);
              // A tile whose nearness is below that of r2 has no pair within (P10); likewise where the balls are apart.
              std::vector<float> plain(kPanelRows, std::numeric_limits<float>::infinity());
              std::copy_n(panels.low.data() + a * kPairPanel, kPairPanel, plain.begin());
              Tile again;
              const float nearness = table->pairs.masks_and_most(
                  rows.data(), plain.data(), low.data(), panels.columns.data() + b * d * kPairPanel,
                  panels.high.data() + b * kPairPanel, panels.low.data() + b * kPairPanel, d, again.sure,
                  again.possible, from);
              const bool beyond = nearness < panels.bounds.nearness(r2);
              for (int l = 0; l < kPanelRows; ++l) wrong += again.possible[l] != tile.possible[l];
              for (int l = 0; l < kPanelRows; ++l)
                for (int t = 0; t < kPairPanel; ++t) {
                  const bool sure = (tile.sure[l] >> t & 1) != 0, possible = (tile.possible[l] >> t & 1) != 0;
                  const int64_t i = l < kPairPanel ? panels.rows[static_cast<size_t>(a * kPairPanel + l)] : -1;
                  const int64_t j = panels.rows[static_cast<size_t>(b * kPairPanel + t)];
                  const bool within = i >= 0 && j >= 0 && p.distance(i, j) <= r2;
                  wrong += within && beyond;
                  wrong += (sure && !within) || (within && !possible) || (possible && (i < 0 || j < 0));
                }
            }
          CHECK_MSG(wrong == 0, table->name << " " << p.name << " d " << d << " r2 " << r2 << ": " << wrong);
        }
      }
}

TEST("pairs: the masks are those of a plain loop over floats, where products are exact") {
  std::mt19937_64 engine(3);
  for (int64_t d : {1, 2, 5, 32, 101}) {
    std::vector<float> rows(static_cast<size_t>(kPanelRows * d)), columns(static_cast<size_t>(kPairPanel * d));
    const auto small = [&] { return static_cast<float>(static_cast<int>(engine() % 17) - 8); };
    for (auto& v : rows) v = small();
    for (auto& v : columns) v = small();
    std::vector<float> high(kPanelRows), low(kPanelRows), column_high(kPairPanel), column_low(kPairPanel);
    for (auto* list : {&high, &low, &column_high, &column_low})
      for (auto& v : *list) v = small();
    high[4] = low[5] = std::numeric_limits<float>::infinity();
    low[6] = column_low[3] = -std::numeric_limits<float>::infinity();
    column_low[9] = std::numeric_limits<float>::infinity();  // beside −inf: NaN reaches nothing
    for (const Kernels* table : all_kernels()) {
      uint32_t sure[kPanelRows], possible[kPanelRows];
      table->pairs.masks(rows.data(), high.data(), low.data(), columns.data(), column_high.data(), column_low.data(), d,
                         sure, possible, columns.data());
      std::vector<float> products(kPanelRows * kPairPanel);
      table->pairs.products(rows.data(), columns.data(), d, products.data());
      const float found =
          table->pairs.masks_and_most(rows.data(), high.data(), low.data(), columns.data(), column_high.data(),
                                      column_low.data(), d, sure, possible, columns.data());
      float most = -std::numeric_limits<float>::infinity();
      int64_t wrong = 0;
      for (int64_t l = 0; l < kPanelRows; ++l)
        for (int64_t t = 0; t < kPairPanel; ++t) {
          float sum = 0;
          for (int64_t j = 0; j < d; ++j)
            sum += rows[static_cast<size_t>(l / 3 * 3 * d + 3 * j + l % 3)] *
                   columns[static_cast<size_t>(j * kPairPanel + t)];
          const auto r = static_cast<size_t>(l), c = static_cast<size_t>(t);
          wrong += products[r * kPairPanel + c] != sum;
          if (!std::isnan(high[r] + column_low[c])) most = std::max(most, sum - (high[r] + column_low[c]));
          wrong += (sure[l] >> t & 1) != static_cast<uint32_t>(sum >= high[r] + column_high[c]);
          wrong += (possible[l] >> t & 1) != static_cast<uint32_t>(sum >= low[r] + column_low[c]);
        }
      CHECK_MSG(wrong == 0, table->name << " d " << d << ": " << wrong);
      CHECK(found == most);
    }
  }
}

TEST("pairs: the nearness of a distance between balls rules out no pair within a smaller one") {
  for (int64_t d : {1, 30, 1000})
    for (int exponent : {-400, 0, 300}) {
      const FilterBounds bounds(d, exponent);
      for (double r2 : {0.0, 1e-300, 1e-8, 1.0, 3.7e9, 1e200, kInf}) {
        const double reach = bounds.reach(r2);
        if (std::ldexp(r2, 2 * exponent) > 0x1p124) continue;  // any distance may be within
        CHECK(!(bounds.nearness_beyond(reach) < bounds.nearness(r2)));
        if (r2 > 0) CHECK(bounds.nearness_beyond(2 * reach + 1) < bounds.nearness(r2));
      }
      CHECK(bounds.nearness_beyond(-1) == 0);
    }
}

TEST_LONG("pairs: counts, weights, components, neighbours and nearest are those of brute force") {
  for (int64_t d : {1, 2, 5, 16, 33, 100}) {
    PairStats work;
    for (const Points& p : hard_sets(150, d))
      for (double r2 : hard_radii(p)) check_all<double>(p, p.view(), r2, Run{2, nullptr}, work);
    std::printf("     d %lld: %lld tiles, %lld discarded, %lld rechecks\n", static_cast<long long>(d),
                static_cast<long long>(work.tiles), static_cast<long long>(work.discarded),
                static_cast<long long>(work.rechecks));
  }
}

TEST_LONG("pairs: the k nearest rows are those of brute force, equals by lowest index") {
  for (int64_t d : {1, 3, 20, 70})
    for (const Points& p : hard_sets(101, d))
      for (int64_t k : {1, 5, 40, 101, 110}) check_knn<double>(p, p.view(), k, Run{2, nullptr});
}

TEST_LONG("pairs: sets of many panels, and of several groups of panels") {
  PairStats work;
  for (double apart : {0.0, 2.0, 8.0}) {
    const Points p = blobs(2100, 6, 12, apart, 1.0, 21);
    for (double r2 : {0.3, 4.0, 20.0}) check_all<double>(p, p.view(), r2, Run{2, nullptr}, work);
    check_knn<double>(p, p.view(), 6, Run{2, nullptr});
  }
  CHECK(work.discarded > work.tiles / 4);
}

TEST("pairs: any layout, float32 as the float64 it stands for, any number of threads") {
  for (int64_t d : {2, 33}) {
    const Points base = blobs(knoll_test::quick() ? 100 : 200, d, 4, 3.0, 1.0, 11);
    std::vector<float> narrow(base.x.begin(), base.x.end());
    const Points p = changed(base, "float32", [](int64_t, int64_t, double v) { return static_cast<float>(v); });
    std::vector<double> turned(p.x.size()), spaced(2 * p.x.size());
    for (int64_t i = 0; i < p.n; ++i)
      for (int64_t j = 0; j < d; ++j) {
        turned[static_cast<size_t>(j * p.n + p.n - 1 - i)] = p.row(i)[j];  // Fortran, and upside down
        spaced[static_cast<size_t>(2 * (i * d + j))] = p.row(i)[j];
      }
    PairStats work;
    for (double r2 : hard_radii(p))
      for (int threads : {1, 3}) {
        const Run run{threads, nullptr};
        check_all<double>(p, p.view(), r2, run, work);
        check_all<double>(p, {turned.data() + p.n - 1, {p.n, d}, {-1, p.n}}, r2, run, work);
        check_all<double>(p, {spaced.data(), {p.n, d}, {2 * d, 2}}, r2, run, work);
        check_all<float>(p, {narrow.data(), {p.n, d}, {d, 1}}, r2, run, work);
      }
    check_knn<float>(p, {narrow.data(), {p.n, d}, {d, 1}}, 9, Run{3, nullptr});
  }
}

TEST("pairs: sizes from none on, no columns, every radius from none to all") {
  for (int64_t n : {0, 1, 2, 31, 32, 33, 64, 65, 97})
    for (int64_t d : {0, 1, 4}) {
      const Points p = blobs(n, d, 3, 3.0, 1.0, 5);
      PairStats work;
      for (double r2 : {-1.0, 0.0, 0.5, 1e300, kInf}) check_all<double>(p, p.view(), r2, Run{2, nullptr}, work);
      check_knn<double>(p, p.view(), 3, Run{2, nullptr});
    }
}

TEST("pairs: few pairs are open where float32 decides, and clusters far apart cost no tiles") {
  const Points p = blobs(4000, 32, 20, 6.0, 0.5, 2);
  const Run run{2, nullptr};
  const PairFilter<double> pairs(p.view(), run);
  std::vector<int64_t> counts(4000);
  const PairStats near = pairs.count(p.view(), 16.0, 5000, vector_view(counts.data(), p.n), run);
  CHECK_MSG(near.rechecks < 1000, near.rechecks << " of 400 thousand in one cluster, of 8 million in all");
  CHECK_MSG(near.discarded > 5 * near.tiles, near.tiles << " tiles, " << near.discarded << " discarded");

  // A radius among the distances of one cloud: every pair is filtered, almost none rechecked.
  const Points cloud = blobs(2000, 64, 1, 0.0, 1.0, 3);
  const PairFilter<double> dense(cloud.view(), run);
  const PairStats all = dense.count(cloud.view(), 128.0, 5000, vector_view(counts.data(), cloud.n), run);
  CHECK_MSG(all.rechecks < 2000, all.rechecks << " of 2 million");

  // Far rows do not make the others uncertain.
  const Points outliers = changed(cloud, "outliers", [](int64_t i, int64_t, double v) { return i < 3 ? v * 1e30 : v; });
  const PairFilter<double> far(outliers.view(), run);
  const PairStats capped = far.count(outliers.view(), 128.0, 5000, vector_view(counts.data(), cloud.n), run);
  CHECK_MSG(capped.rechecks < all.rechecks + 3 * 2000 + 100, capped.rechecks << " after " << all.rechecks);
}

TEST("pairs: a cancelled run throws and is over soon") {
  const Points p = blobs(3000, 16, 1, 1.0, 1.0, 4);
  const PairFilter<double> pairs(p.view(), Run{});
  std::atomic<bool> stop{true};
  std::vector<int64_t> counts(3000);
  std::vector<double> sums(3000), d2(3000);
  UnionFind<int32_t> sets(p.n);
  const Run run{2, &stop};
  const auto out = vector_view(counts.data(), p.n);
  CHECK_THROWS(Cancelled, PairFilter<double>(p.view(), run));
  CHECK_THROWS(Cancelled, pairs.count(p.view(), 1.0, 5, out, run));
  CHECK_THROWS(Cancelled, pairs.weigh(p.view(), 1.0, vector_view<const double>(d2.data(), p.n),
                                      vector_view(sums.data(), p.n), run));
  CHECK_THROWS(Cancelled, pairs.unite(1.0, {}, sets, run));
  CHECK_THROWS(Cancelled, pairs.nearest(p.view(), {}, 1.0, {}, out, vector_view(d2.data(), p.n), run));
  CHECK_THROWS(Cancelled, pairs.knn(p.view(), matrix_view(d2.data(), p.n, 1), matrix_view(counts.data(), p.n, 1), run));

  // From inside: the first neighbours that are named end it, long before the last.
  stop = false;
  std::atomic<int64_t> reported{0};
  CHECK_THROWS(Cancelled, pairs.for_neighbours(p.view(), {}, kInf, {}, run, [&](int64_t, const int64_t*, int64_t) {
    ++reported;
    stop = true;
  }));
  CHECK_MSG(reported < 3000, reported << " calls");
}
