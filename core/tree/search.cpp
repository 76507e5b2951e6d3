#include "tree/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "tree/backends.hpp"

namespace knoll {
namespace {

// Columns from which a sample of searches in the tree decides between it and tiles, and from which its leaves would
// take more memory than the data: then there are tiles without a sample.
constexpr int64_t kProbeFrom = 6, kTilesFrom = 65;

// Whether squares of all differences are well within float64.
template <class T>
bool squares_well(View<const T, 2> x, Run run) {
  std::atomic<bool> well = true;
  for_chunks(x.shape[0], 1 << 12, run, [&](int64_t, int64_t begin, int64_t end) {
    Magnitudes magnitudes;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < x.shape[1]; ++j) magnitudes.add(static_cast<double>(x(i, j)));
    if (!magnitudes.squares_well()) well = false;
  });
  return well;
}

}  // namespace

LeastEdges::LeastEdges(int64_t components)
    : keys_(std::make_unique<std::atomic<double>[]>(static_cast<size_t>(components))),
      locks_(std::make_unique<std::atomic_flag[]>(static_cast<size_t>(components))),
      ends_(static_cast<size_t>(components), Ends{-1, -1}) {
  for (int64_t c = 0; c < components; ++c) keys_[static_cast<size_t>(c)] = std::numeric_limits<double>::infinity();
}

// A lock for a few instructions: it is taken only by an edge that is smaller than all before it.
void LeastEdges::offer(int32_t component, double key, int32_t a, int32_t b) {
  const auto c = static_cast<size_t>(component);
  if (key >= keys_[c].load(std::memory_order_relaxed)) return;
  while (locks_[c].test_and_set(std::memory_order_acquire)) {
  }
  if (key < keys_[c].load(std::memory_order_relaxed)) {
    ends_[c] = {a, b};
    keys_[c].store(key, std::memory_order_relaxed);
  }
  locks_[c].clear(std::memory_order_release);
}

LeastEdges::Edge LeastEdges::edge(int32_t component) const {
  const auto c = static_cast<size_t>(component);
  return {keys_[c].load(std::memory_order_relaxed), ends_[c].a, ends_[c].b};
}

void ReachabilitySearch::weighted_core(View<const double, 1> weights, double mass, double* core, Run run) const {
  const int64_t n = size();
  for_chunks(n, 8, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<std::pair<double, int64_t>> all(static_cast<size_t>(n));
    for (int64_t p = begin; p < end; ++p) {
      if (core[p] >= 0) continue;
      run.poll();
      for (int64_t q = 0; q < n; ++q) all[static_cast<size_t>(q)] = {key(p, q), q};
      std::sort(all.begin(), all.end());
      ExactSum sum;
      core[p] = std::numeric_limits<double>::infinity();
      for (const auto& [here, q] : all) {
        sum.add(weights(row(q)));
        if (sum.round() < mass) continue;
        core[p] = here;
        break;
      }
    }
  });
}

template <class T>
std::unique_ptr<ReachabilitySearch> ReachabilitySearch::make(View<const T, 2> x, const Metric& metric,
                                                             const std::string& backend, Run run) {
  if (backend != "auto" && backend != "tree" && backend != "tiles")
    throw std::invalid_argument("backend must be auto, tree or tiles");
  if (metric.name() == MetricName::gower) {
    if constexpr (std::is_same_v<T, double>)
      if (backend != "tree") return make_gower_search(x, metric, run);
    throw std::invalid_argument("gower is for tiles and rows of float64");
  }
  const bool possible =
      metric.name() == MetricName::cosine || (metric.name() == MetricName::euclidean && squares_well(x, run));
  if (backend == "tiles" && !possible)
    throw std::invalid_argument("tiles are for euclidean distances of ordinary size, and for cosine distances");
  const int64_t n = x.shape[0], d = x.shape[1];
  if (backend == "tiles" || (backend == "auto" && possible && d >= kTilesFrom))
    return make_tiles_search(x, metric, run);
  const bool probes = backend == "auto" && possible && d >= kProbeFrom;
  const double most = probes ? work_of_tiles(n, d) : std::numeric_limits<double>::infinity();
  auto tree = make_tree_search(x, metric, most, run);
  return tree != nullptr ? std::move(tree) : make_tiles_search(x, metric, run);
}
template std::unique_ptr<ReachabilitySearch> ReachabilitySearch::make(View<const double, 2>, const Metric&,
                                                                      const std::string&, Run);
template std::unique_ptr<ReachabilitySearch> ReachabilitySearch::make(View<const float, 2>, const Metric&,
                                                                      const std::string&, Run);

}  // namespace knoll
