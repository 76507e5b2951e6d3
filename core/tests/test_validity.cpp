#include "metrics/validity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "check.hpp"

using namespace knoll;

namespace {

struct Found {
  std::vector<double> core, sparseness, separation;
  std::vector<uint8_t> inside;

  friend bool operator==(const Found&, const Found&) = default;
};

struct Table {
  int64_t d;
  std::vector<double> x, w;
  std::vector<int64_t> starts;

  int64_t n() const { return starts.back(); }
  double square(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t q = 0; q < d; ++q) {
      const double difference = x[static_cast<size_t>(i * d + q)] - x[static_cast<size_t>(j * d + q)];
      sum += difference * difference;
    }
    return sum;
  }
};

Table random_table(uint64_t seed, int64_t d, std::vector<int64_t> starts, bool lattice, bool weighted) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Table table{d, {}, {}, std::move(starts)};
  for (int64_t i = 0; i < table.n(); ++i) {
    // On the lattice many distances tie; the first coordinate keeps rows distinct.
    for (int64_t q = 0; q < d; ++q)
      table.x.push_back(!lattice ? normal(engine)
                        : q == 0 ? static_cast<double>(i)
                                 : static_cast<double>(engine() % 3));
    table.w.push_back(weighted && engine() % 4 == 0 ? 2.0 + static_cast<double>(engine() % 2) : 1.0);
  }
  return table;
}

Found run(const Table& t, bool squared, Run run) {
  const int64_t n = t.n(), k = static_cast<int64_t>(t.starts.size()) - 1;
  Found found{std::vector<double>(static_cast<size_t>(n)), std::vector<double>(static_cast<size_t>(k)),
              std::vector<double>(static_cast<size_t>(k)), std::vector<uint8_t>(static_cast<size_t>(n))};
  cluster_validity(matrix_view<const double>(t.x.data(), n, t.d), {t.w.data(), {n}, {1}},
                   {t.starts.data(), {k + 1}, {1}}, squared, vector_view(found.core.data(), n),
                   {found.inside.data(), {n}, {1}}, vector_view(found.sparseness.data(), k),
                   vector_view(found.separation.data(), k), run);
  return found;
}

// The definition: all edges of a cluster in their order, Kruskal's algorithm.
Found by_definition(const Table& t, bool squared, const std::vector<double>* core = nullptr) {
  const auto n = static_cast<size_t>(t.n()), k = t.starts.size() - 1;
  const auto distance = [&](int64_t i, int64_t j) { return squared ? t.square(i, j) : std::sqrt(t.square(i, j)); };
  Found found{std::vector<double>(n), std::vector<double>(k), std::vector<double>(k, INFINITY),
              std::vector<uint8_t>(n)};
  std::vector<size_t> cluster(n);
  for (size_t c = 0; c < k; ++c) {
    const int64_t begin = t.starts[c], end = t.starts[c + 1];
    double mass = 0;
    for (int64_t i = begin; i < end; ++i) mass += t.w[static_cast<size_t>(i)], cluster[static_cast<size_t>(i)] = c;
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t j = begin; j < end; ++j)
        if (i != j) sum += t.w[static_cast<size_t>(j)] * std::pow(distance(i, j), -static_cast<double>(t.d));
      found.core[static_cast<size_t>(i)] =
          t.w[static_cast<size_t>(i)] > 1 ? 0.0 : std::pow(sum / (mass - 1), -1.0 / static_cast<double>(t.d));
    }
  }
  if (core != nullptr) found.core = *core;
  const auto reach = [&](int64_t i, int64_t j) {
    return std::max({found.core[static_cast<size_t>(i)], found.core[static_cast<size_t>(j)], distance(i, j)});
  };
  for (size_t c = 0; c < k; ++c) {
    const int64_t begin = t.starts[c], end = t.starts[c + 1];
    std::vector<std::tuple<double, double, int64_t, int64_t>> edges, tree;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = i + 1; j < end; ++j) edges.emplace_back(reach(i, j), distance(i, j), i, j);
    std::sort(edges.begin(), edges.end());
    std::vector<int64_t> component(n);
    for (size_t i = 0; i < n; ++i) component[i] = static_cast<int64_t>(i);
    std::vector<double> degree(t.w);
    for (const auto& edge : edges) {
      const auto [r, gap, i, j] = edge;
      const int64_t from = component[static_cast<size_t>(i)], to = component[static_cast<size_t>(j)];
      if (from == to) continue;
      for (int64_t& each : component) each = each == from ? to : each;
      tree.push_back(edge);
      ++degree[static_cast<size_t>(i)], ++degree[static_cast<size_t>(j)];
    }
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= degree[static_cast<size_t>(i)] >= 3;
    double longest = 0, longest_inside = -1;
    for (int64_t i = begin; i < end; ++i) found.inside[static_cast<size_t>(i)] = degree[static_cast<size_t>(i)] >= 3;
    for (const auto& [r, gap, i, j] : tree) {
      longest = std::max(longest, r);
      if (found.inside[static_cast<size_t>(i)] && found.inside[static_cast<size_t>(j)])
        longest_inside = std::max(longest_inside, r);
    }
    if (!any)
      for (int64_t i = begin; i < end; ++i) found.inside[static_cast<size_t>(i)] = 1;
    found.sparseness[c] = longest_inside >= 0 ? longest_inside : longest;
  }
  for (int64_t i = 0; i < t.n(); ++i)
    for (int64_t j = 0; j < t.n(); ++j) {
      const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
      if (cluster[a] == cluster[b] || !found.inside[a] || !found.inside[b]) continue;
      found.separation[cluster[a]] = std::min(found.separation[cluster[a]], reach(i, j));
    }
  return found;
}

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || std::abs(a[i] - b[i]) <= 1e-12 * std::abs(b[i]))) return false;
  return true;
}

}  // namespace

TEST("validity: equals the definition, for any number of threads") {
  for (const int64_t d : {1, 2, 3, 8})
    for (const bool weighted : {false, true})
      for (const bool squared : {false, true}) {
        const Table table = random_table(static_cast<uint64_t>(d), d, {0, 2, 5, 75, 180}, false, weighted);
        const Found found = run(table, squared, Run{}), expected = by_definition(table, squared);
        CHECK_MSG(near(found.core, expected.core), "d = " << d);
        CHECK_MSG(found.inside == expected.inside, "d = " << d);
        CHECK_MSG(near(found.sparseness, expected.sparseness), "d = " << d);
        CHECK_MSG(near(found.separation, expected.separation), "d = " << d);
        CHECK(found == run(table, squared, Run{3, nullptr}));
      }
}

TEST("validity: one tree where distances tie") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Table table = random_table(seed, 2, {0, 40, 90}, true, seed % 2 == 1);
    const Found found = run(table, false, Run{});
    const Found expected = by_definition(table, false, &found.core);  // the last bit of a core distance would decide
    CHECK(found.inside == expected.inside);
    CHECK(found.sparseness == expected.sparseness);
    CHECK(found.separation == expected.separation);
  }
}

TEST("validity: powers of many columns stay in float64") {
  Table table = random_table(7, 400, {0, 30, 60}, false, false);
  for (const double unit : {1e-30, 1e30}) {
    Table scaled = table;
    for (auto& v : scaled.x) v *= unit;
    const Found found = run(scaled, false, Run{}), plain = run(table, false, Run{});
    for (size_t i = 0; i < found.core.size(); ++i) {
      CHECK(found.core[i] > 0 && std::isfinite(found.core[i]));
      CHECK(std::abs(found.core[i] / unit / plain.core[i] - 1) < 1e-12);
    }
  }
}
