// The density tree: every single-linkage cluster over mutual reachability, as rows in an order with bars between them.
//
// In `order` every component of {m ≤ h}, for every h, is an interval, and bars(i) is the least h at which order(i − 1)
// and order(i) are in one component. So a cut at h is "bars > h", and the distance of two rows in the tree is the
// largest bar between them. Of the orders with that property it is the one in which the children of every node come by
// their lowest rows.
#pragma once

#include <cstdint>
#include <string>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

struct DensityTreeReport {
  std::string backend;
  int64_t rounds = 0;
  int64_t components_after_lists = 0;
};

// Distances by the metric. near is (n, min_samples − 1) where there are no weights, else (n, 0): the rows nearest to
// each row, itself excluded, nearest first.
template <class T>
DensityTreeReport density_tree(View<const T, 2> x,                                 // in  (n, d)
                               double min_samples, View<const double, 1> weights,  // in  (n), > 0, or empty
                               const Metric& metric, const std::string& backend, View<int64_t, 1> order,  // out (n)
                               View<double, 1> bars,    // out (n), the first is infinite
                               View<double, 1> core,    // out (n) core distances
                               View<int32_t, 2> near,   // out
                               View<int32_t, 1> links,  // out (n) rows, or empty: a minimum spanning tree, which of
                                                        // several depends on timing; its edges are (i, links(i)), and
                                                        // links is −1 where there is none
                               double alpha,            // distances are divided by it, core distances are not
                               Run run);

}  // namespace knoll
