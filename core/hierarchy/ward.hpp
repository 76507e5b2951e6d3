// Ward's clustering in memory linear in the rows.
//
// The cost of merging clusters A and B is the rise of the sum of squares,
//     ΔJ = |A||B|/(|A|+|B|) · ‖μ_A − μ_B‖² = ‖μ_A − μ_B‖² / (1/|A| + 1/|B|)             (docs/theory, eq. 7.2),
// so a mean and a size stand for a cluster. Pairs that are each other's nearest are merged, all of a round at once: the
// cost of a merged cluster to a third one is never below the lesser of its children's, so no later merge comes between
// them, and the tree is that of merging the least pair each time.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

struct WardReport {
  int64_t rounds = 0;
  int64_t searches = 0;  // for the nearest cluster of a cluster
};

// Rows must be finite, differ from each other, and have squares within float64. Equal costs go to the clusters of the
// lowest numbers: rows first, then merged clusters in the order of their costs.
template <class T>
WardReport ward(View<const T, 2> x,             // in  (n, d)
                View<const double, 1> weights,  // in  (n), > 0, or empty
                View<int64_t, 2> children,      // out (n − 1, 2)
                View<double, 1> rise,           // out (n − 1) ΔJ
                Run run);

}  // namespace knoll
