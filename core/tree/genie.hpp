// Genie over a spanning tree: single linkage that joins the smallest cluster first while cluster sizes are too unequal.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

struct ReachabilityEdges {
  std::vector<int32_t> a, b;  // rows, in ascending order of the edges
  std::vector<double> height;
  bool tied = false;  // two edges of different rows have one height and one distance
};

// The minimum spanning tree of the distinct rows x under the order (mutual reachability, distance, coordinates of the
// ends). `edges` (m, 2) has a minimum spanning tree by mutual reachability, the lists the rows within the core distance
// of each row. All edges that can be exchanged for one of the same height lie in the lists, unless distances are equal.
template <class T>
ReachabilityEdges reachability_edges(View<const T, 2> x,                                          // in  (n, d)
                                     View<const double, 1> core,                                  // in  (n)
                                     const Metric& metric, View<const int32_t, 2> edges,          // in  (m, 2)
                                     View<const int64_t, 1> starts, View<const int32_t, 1> near,  // in  compressed rows
                                     Run run);

// Joins clusters along the edges, which come in ascending order: along the first edge that is left, or, where the Gini
// index of the weights exceeds `threshold`, along the first edge of a cluster of least weight. In `order` the clusters
// of every step are intervals; steps(i) is the number of the join of order(i − 1) and order(i), n for the first.
void genie(View<const int32_t, 1> a, View<const int32_t, 1> b,        // in  (n − 1)
           View<const double, 1> weights, double threshold,           // in  (n)
           View<int64_t, 1> order, View<int64_t, 1> steps, Run run);  // out (n)

}  // namespace knoll
