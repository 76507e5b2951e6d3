// Which structure finds the neighbours, and what weights can tell in float64.
#include "knoll/dbscan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "dbscan_parts.hpp"

namespace knoll {

namespace {

constexpr int64_t kFewRows = 200;     // below, a tree of a few leaves is as fast as anything
constexpr int64_t kManyColumns = 16;  // from here on boxes hardly ever keep points apart (decision 0011)

bool squares_are_normal(double radius) { return radius >= 0x1p-450 && radius <= 0x1p450; }

}  // namespace

bool prefer_tiles(const Metric& metric, double eps, int64_t n, int64_t d) {
  return metric.name() == MetricName::euclidean && d >= kManyColumns && n >= kFewRows && squares_are_normal(eps);
}

Weights::Weights(View<const double, 1> weights) : of_row(weights) {
  const int64_t n = weights.empty() ? 0 : weights.shape[0];
  double total = 0;  // of magnitudes, rounded
  int grid = 2000;   // every weight is a multiple of 2^grid
  for (int64_t i = 0; i < n; ++i) {
    const double w = weights(i);
    if (w < 0) nonnegative = false;
    if (w == 0) continue;
    total += std::fabs(w);
    int exponent;
    const double mantissa = std::frexp(w, &exponent);  // w = mantissa · 2^exponent
    const auto whole = static_cast<int64_t>(std::ldexp(std::fabs(mantissa), 53));
    grid = std::min(grid, exponent - 53 + std::countr_zero(static_cast<uint64_t>(whole)));
  }
  // Sums of multiples of 2^grid below 2^(grid + 53) are exact; others err by (n−1)·2^−53 of the magnitudes.
  if (total == 0 || total < std::ldexp(1.0, std::min(grid + 52, 1023))) return;
  slack = 4 * static_cast<double>(n + 2) * 0x1p-53 * total;
}

template <class T>
DbscanReport dbscan(View<const T, 2> x, double eps, double min_samples, View<const double, 1> weights,
                    const Metric& metric, Border border, const std::string& backend, View<int64_t, 1> labels,
                    View<uint8_t, 1> core, Run run) {
  if (backend != "auto" && backend != "cells" && backend != "tree" && backend != "tiles")
    throw std::invalid_argument("backend must be auto, cells, tree or tiles");
  const bool cells = metric.name() == MetricName::euclidean && weights.empty() && x.shape[1] <= 3;
  DbscanReport report;
  if (backend == "cells" && !cells)
    throw std::invalid_argument("cells are for the euclidean metric, up to three columns and no weights");
  if (cells && (backend == "cells" || (backend == "auto" && x.shape[0] >= kFewRows)) &&
      dbscan_cells(x, eps, min_samples, border, labels, core, report, run))
    return report;
  if (backend == "tiles" && (metric.name() != MetricName::euclidean || !squares_are_normal(eps)))
    throw std::invalid_argument("tiles are for the euclidean metric and a radius whose square is a normal number");
  if (backend == "tiles" || (backend == "auto" && prefer_tiles(metric, eps, x.shape[0], x.shape[1])))
    return dbscan_tiles(x, eps, min_samples, weights, border, labels, core, run);
  return dbscan_tree(x, eps, min_samples, weights, metric, border, labels, core, run);
}

template DbscanReport dbscan(View<const double, 2>, double, double, View<const double, 1>, const Metric&, Border,
                             const std::string&, View<int64_t, 1>, View<uint8_t, 1>, Run);
template DbscanReport dbscan(View<const float, 2>, double, double, View<const double, 1>, const Metric&, Border,
                             const std::string&, View<int64_t, 1>, View<uint8_t, 1>, Run);

}  // namespace knoll
