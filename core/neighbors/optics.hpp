// The ordering of OPTICS: rows in the order in which a cluster grows from its start, each with its reachability.
//
// From a core row p, every row o that has not been visited and lies within max_eps gets the reachability
// max(c(p), d(p, o)), if that is less than what it has. The row of least reachability is visited next.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// For metrics that are sums or maxima over the coordinates (Metric::direct and has_kernels). Of equal reachabilities
// the lowest row is visited; so is the lowest one left where none is reachable. One thread: each step depends on the
// last.
template <class T>
void optics_order(View<const T, 2> x,                                            // in  (n, d)
                  View<const double, 1> core,                                    // in  (n) core distances
                  double max_eps, const Metric& metric, View<int64_t, 1> order,  // out (n)
                  View<double, 1> reach,         // out (n), infinite where nothing has reached the row
                  View<int64_t, 1> predecessor,  // out (n), −1 there
                  Run run);

}  // namespace knoll
