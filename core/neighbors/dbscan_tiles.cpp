// DBSCAN in high dimension: a count and a union over filtered tiles of all pairs, then the neighbours of border points.
#include <algorithm>
#include <cmath>
#include <limits>

#include "neighbors/dbscan_backends.hpp"
#include "neighbors/pair_filter.hpp"

namespace knoll {
namespace {

// `within` is the largest D of neighbours.
template <class T>
DbscanReport filtered(View<const PairNumber<T>, 2> x, const PairFilter<T>& pairs, double within, double min_samples,
                      View<const double, 1> weights, Border border, View<int64_t, 1> labels, View<uint8_t, 1> core,
                      Run run) {
  const int64_t n = x.shape[0];
  DbscanReport report;
  report.backend = "tiles";
  const auto account = [&](const PairStats& stats) {
    // Products in float32, whether or not all 32 lanes have a point.
    report.distances += stats.tiles * 32 * 32;
    report.rechecks += stats.rechecks;
  };

  // 1. Core points: counts may stop at min_samples; weights are summed exactly and rounded once.
  std::vector<uint8_t> is_core(static_cast<size_t>(n));
  const auto mask = vector_view<const uint8_t>(is_core.data(), n);
  if (weights.empty()) {
    std::vector<int64_t> counts(static_cast<size_t>(n));
    // A row is its own neighbour, so counts start at 1; a level ≤ 0 makes every row core, one above 2³¹ none.
    const double most = static_cast<double>(std::numeric_limits<int32_t>::max());
    const auto least = static_cast<int64_t>(std::ceil(std::clamp(min_samples, 0.0, most)));
    account(pairs.count(x, within, least, vector_view(counts.data(), n), run));
    for (size_t i = 0; i < counts.size(); ++i) is_core[i] = counts[i] >= least;
  } else {
    std::vector<double> sums(static_cast<size_t>(n));
    account(pairs.weigh(x, within, weights, vector_view(sums.data(), n), run));
    for (size_t i = 0; i < sums.size(); ++i) is_core[i] = sums[i] >= min_samples;
  }

  // 2. Components of core points.
  UnionFind<int32_t> sets(n);
  // Pairs in one set already are never decided, so this counts fewer pairs than there are neighbours.
  account(pairs.unite(within, mask, sets, run));

  std::vector<int32_t> cores, number;
  for (int64_t i = 0; i < n; ++i) {
    core(i) = is_core[static_cast<size_t>(i)];
    labels(i) = -1;
    if (core(i) != 0) cores.push_back(static_cast<int32_t>(i));
  }
  const auto row = [&](int64_t i) { return cores[static_cast<size_t>(i)]; };
  report.clusters = number_components(sets, static_cast<int64_t>(cores.size()), row, row, number);
  for (const int32_t i : cores) labels(i) = number[static_cast<size_t>(sets.find(i))];
  if (border == Border::noise || report.clusters == 0) return report;

  // 3. Border points: the others, with core points as the only possible neighbours.
  std::vector<uint8_t> others(is_core);
  for (auto& other : others) other = other == 0;
  const auto selected = vector_view<const uint8_t>(others.data(), n);
  if (border == Border::closest) {
    std::vector<int64_t> closest(static_cast<size_t>(n), -1);
    std::vector<double> distance(static_cast<size_t>(n));
    account(
        pairs.nearest(x, selected, within, mask, vector_view(closest.data(), n), vector_view(distance.data(), n), run));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t j = closest[static_cast<size_t>(i)];
      // Only core rows are in the mask, so labels(j) is a cluster.
      if (core(i) == 0 && j >= 0) labels(i) = labels(j);
    }
  } else {
    // All calls for one i come from one thread, so the minimum needs no lock.
    account(pairs.for_neighbours(x, selected, within, mask, run, [&](int64_t i, const int64_t* js, int64_t count) {
      for (int64_t k = 0; k < count; ++k)
        if (labels(i) < 0 || labels(js[k]) < labels(i)) labels(i) = labels(js[k]);
    }));
  }
  return report;
}

}  // namespace

template <class T>
DbscanReport dbscan_tiles(View<const T, 2> x, double eps, double min_samples, View<const double, 1> weights,
                          Border border, View<int64_t, 1> labels, View<uint8_t, 1> core, Run run) {
  // D ≤ square is fl(√D) ≤ ε (docs/numerics/rounding.md, D2).
  return filtered(x, PairFilter<T>(x, run), largest_square(eps), min_samples, weights, border, labels, core, run);
}

DbscanReport dbscan_gower(View<const double, 2> x, double eps, double min_samples, View<const double, 1> weights,
                          const Metric& metric, Border border, View<int64_t, 1> labels, View<uint8_t, 1> core,
                          Run run) {
  return filtered(x, PairFilter<GowerRow>(x, metric, run), eps, min_samples, weights, border, labels, core, run);
}

template DbscanReport dbscan_tiles(View<const double, 2>, double, double, View<const double, 1>, Border,
                                   View<int64_t, 1>, View<uint8_t, 1>, Run);
template DbscanReport dbscan_tiles(View<const float, 2>, double, double, View<const double, 1>, Border,
                                   View<int64_t, 1>, View<uint8_t, 1>, Run);

}  // namespace knoll
