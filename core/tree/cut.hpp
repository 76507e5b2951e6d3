// DBSCAN for one ε, read off a density tree.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// The core rows of {m ≤ eps}, their components numbered by their lowest row; −1 for the others. Returns how many.
int64_t cut_tree(View<const int64_t, 1> order,         // in  (n)
                 View<const double, 1> bars,           // in  (n)
                 View<const double, 1> core,           // in  (n) by row
                 double eps, View<int64_t, 1> labels,  // out (n)
                 Run run);

// The least max(c(q), d(p, q)) over the list of each row p, at most c(p): with borders, p is in a cluster exactly for
// eps at or above it (docs/numerics/index.md, X10). The sign bit is set where two rows with c < c(p) are equally near.
template <class T>
void border_heights(View<const T, 2> x,                             // in  (n, d)
                    View<const int32_t, 2> near,                    // in  (n, min_samples − 1), nearest first
                    View<const double, 1> core,                     // in  (n)
                    const Metric& metric, View<double, 1> heights,  // out (n)
                    Run run);

// Gives every row that is not core the label of its closest core row within eps; of equally close ones that with the
// lexicographically smallest coordinates. All rows within eps of it are nearer than its core distance, so they are
// among its min_samples − 1 nearest, and the closest is the first one of them that is core.
template <class T>
void attach_borders(View<const T, 2> x,             // in  (n, d)
                    View<const int32_t, 2> near,    // in  (n, min_samples − 1)
                    View<const double, 1> core,     // in  (n)
                    View<const double, 1> heights,  // in  (n) of border_heights
                    double eps, const Metric& metric,
                    View<int64_t, 1> labels,  // in, out (n); −1 for rows that are not core
                    Run run);

}  // namespace knoll
