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

// Gives every row that is not core the label of its closest core row within eps; of equally close ones that with the
// lexicographically smallest coordinates. All rows within eps of it are nearer than its core distance, so they are
// among its min_samples − 1 nearest.
template <class T>
void attach_borders(View<const T, 2> x,                                         // in  (n, d)
                    View<const int32_t, 2> near,                                // in  (n, min_samples − 1)
                    View<const double, 1> core,                                 // in  (n)
                    double eps, const Metric& metric, View<int64_t, 1> labels,  // in, out (n)
                    Run run);

}  // namespace knoll
