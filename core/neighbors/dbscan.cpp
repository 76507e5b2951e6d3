// The choice of the structure that finds neighbours, and the error bound of float64 sums of weights.
#include "neighbors/dbscan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "neighbors/dbscan_backends.hpp"
#include "neighbors/index.hpp"

namespace knoll {

namespace {

constexpr int64_t kFewRows = 200;       // fewer are a tree of a few leaves
constexpr int64_t kGridColumns = 5;     // a block has 3^(d−1) rows of neighbours: 81 for five columns, 243 for six
constexpr int64_t kManyColumns = 6;     // from here on boxes rarely separate points
constexpr int64_t kFewNumbers = 32000;  // n·d below which packing panels does not pay

// Squares within [2^−900, 2^900] and sums of them neither overflow nor lose bits to underflow.
bool squares_are_normal(double radius) { return radius >= 0x1p-450 && radius <= 0x1p450; }

// The diagonal of the smallest box around the rows, rounded.
template <class T>
double diagonal(View<const T, 2> x, Run run) {
  using Box = std::vector<double>;  // (2, d): low, high
  const int64_t d = x.shape[1];
  const Box box = reduce_chunks<Box>(
      x.shape[0], kGrain,
      [&](int64_t, int64_t begin, int64_t end) {
        Box mine(static_cast<size_t>(2 * d), -std::numeric_limits<double>::infinity());  // −low, high
        for (int64_t i = begin; i < end; ++i)
          for (int64_t j = 0; j < d; ++j) {
            const auto value = static_cast<double>(x(i, j));
            mine[static_cast<size_t>(j)] = std::max(mine[static_cast<size_t>(j)], -value);
            mine[static_cast<size_t>(d + j)] = std::max(mine[static_cast<size_t>(d + j)], value);
          }
        return mine;
      },
      [](Box& total, Box&& chunk) {
        if (total.empty()) total = std::move(chunk);
        for (size_t j = 0; j < chunk.size(); ++j) total[j] = std::max(total[j], chunk[j]);
      },
      run);
  double length = 0;
  for (int64_t j = 0; j < d; ++j)
    length = std::hypot(length, box[static_cast<size_t>(j)] + box[static_cast<size_t>(d + j)]);
  return length;
}

}  // namespace

template <class T>
bool prefer_tiles(View<const T, 2> x, const Metric& metric, double eps, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  if (metric.name() != MetricName::euclidean || d < kManyColumns || n * d < kFewNumbers || !squares_are_normal(eps))
    return false;
  // Measured at 10⁵ × 8 with a diagonal of 57: tiles win at ε = 15 and lose at ε = 25.
  return 3 * eps < diagonal(x, run);  // larger balls contain whole nodes of the tree, which counts them in O(1)
}

template bool prefer_tiles(View<const double, 2>, const Metric&, double, Run);
template bool prefer_tiles(View<const float, 2>, const Metric&, double, Run);

Weights::Weights(View<const double, 1> weights) : of_row(weights) {
  const int64_t n = weights.empty() ? 0 : weights.shape[0];
  double total = 0;  // of magnitudes, rounded
  // Beyond any exponent: the first weight lowers it.
  int grid = 2000;  // every weight is a multiple of 2^grid
  for (int64_t i = 0; i < n; ++i) {
    const double w = weights(i);
    if (w < 0) nonnegative = false;
    if (w == 0) continue;
    total += std::fabs(w);
    const auto bits = std::bit_cast<uint64_t>(w);
    const auto field = static_cast<int>(bits >> 52 & 0x7ff);  // |w| = mantissa · 2^(field − 1075)
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    const uint64_t mantissa = field == 0 ? fraction : fraction | uint64_t{1} << 52;
    grid = std::min(grid, std::max(field, 1) - 1075 + std::countr_zero(mantissa));
  }
  // Every partial sum is a multiple of 2^grid; below 2^(grid + 53) all of them are representable, so nothing is
  // rounded. Otherwise |computed − exact| ≤ (n−1)·2^−53·Σ|w| to first order, in any order of additions; 4 covers higher
  // orders and the rounding of `total`.
  if (total == 0 || total < std::ldexp(1.0, std::min(grid + 52, 1023))) return;
  // docs/numerics/sums.md, S6.
  slack = 4 * static_cast<double>(n + 2) * 0x1p-53 * total;
}

namespace {

int64_t count_marked(View<const uint8_t, 1> mask, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) count += mask(i) != 0;
  return count;
}

}  // namespace

template <class T>
DbscanReport dbscan(View<const T, 2> x, double eps, double min_samples, View<const double, 1> weights,
                    const Metric& metric, Border border, const std::string& backend, View<int64_t, 1> labels,
                    View<uint8_t, 1> core, Run run, GridWorkspace workspace) {
  if (backend != "auto" && backend != "grid" && backend != "tree" && backend != "tiles")
    throw std::invalid_argument("backend must be auto, grid, tree or tiles");
  check_row_count(x.shape[0]);
  if (metric.name() == MetricName::gower) {
    if constexpr (std::is_same_v<T, double>)
      if (backend == "auto" || backend == "tiles")
        return dbscan_gower(x, eps, min_samples, weights, metric, border, labels, core, run);
    throw std::invalid_argument("gower is for tiles and rows of float64");
  }
  // All backends give the same labels, so this choice is one of speed: the figures are in docs/decisions/0011-index.md.
  const bool try_grid = metric.name() == MetricName::euclidean && x.shape[1] <= kGridColumns &&
                        (backend == "grid" || (backend == "auto" && x.shape[0] >= kFewRows));
  const Weights row_weights = try_grid ? Weights(weights) : Weights();
  if (backend == "grid" && (!try_grid || !row_weights.nonnegative))
    throw std::invalid_argument("the grid is for the euclidean metric, up to five columns and weights >= 0");
  DbscanReport report;
  if (try_grid && row_weights.nonnegative &&
      dbscan_grid(x, eps, min_samples, row_weights, border, labels, core, report, run, workspace))
    return report;
  if (backend == "tiles" && (metric.name() != MetricName::euclidean || !squares_are_normal(eps)))
    throw std::invalid_argument("tiles are for the euclidean metric and a radius whose square is a normal number");
  if (backend == "tiles" || (backend == "auto" && prefer_tiles(x, metric, eps, run)))
    return dbscan_tiles(x, eps, min_samples, weights, border, labels, core, run);
  return dbscan_tree(x, eps, min_samples, weights, metric, border, labels, core, run);
}

// Counts per chunk, their prefix sum, then copies: rows stay in order for any number of threads.
template <class T>
void split_rows(View<const T, 2> x, View<const uint8_t, 1> mask, View<int64_t, 1> numbers, View<T, 2> taken,
                View<T, 2> others, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  std::vector<int64_t> first(static_cast<size_t>(chunk_count(n, kGrain)));  // of each chunk
  for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    first[static_cast<size_t>(chunk)] = count_marked(mask, begin, end);
  });
  int64_t all = 0;
  for (int64_t& count : first) count = std::exchange(all, all + count);
  if (numbers.shape[0] != all || taken.shape[0] != all || others.shape[0] != n - all)
    throw std::invalid_argument("numbers, taken and others must have as many rows as the mask selects");
  for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    int64_t yes = first[static_cast<size_t>(chunk)], no = begin - yes;
    for (int64_t i = begin; i < end; ++i) {
      const bool is_taken = mask(i) != 0;
      if (is_taken) numbers(yes) = i;
      const View<T, 2>& to = is_taken ? taken : others;
      const int64_t at = is_taken ? yes++ : no++;
      for (int64_t j = 0; j < d; ++j) to(at, j) = x(i, j);
    }
  });
}

template DbscanReport dbscan(View<const double, 2>, double, double, View<const double, 1>, const Metric&, Border,
                             const std::string&, View<int64_t, 1>, View<uint8_t, 1>, Run, GridWorkspace);
template DbscanReport dbscan(View<const float, 2>, double, double, View<const double, 1>, const Metric&, Border,
                             const std::string&, View<int64_t, 1>, View<uint8_t, 1>, Run, GridWorkspace);

template void split_rows(View<const double, 2>, View<const uint8_t, 1>, View<int64_t, 1>, View<double, 2>,
                         View<double, 2>, Run);
template void split_rows(View<const float, 2>, View<const uint8_t, 1>, View<int64_t, 1>, View<float, 2>, View<float, 2>,
                         Run);

}  // namespace knoll
