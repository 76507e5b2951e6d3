// The farthest unique points: the new centres of clusters that lost all their rows (docs/theory/03-kmeans.md).
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"
#include "kmeans/seeding.hpp"

namespace knoll {

// Rows of equal contents are one point. The `count` points of largest distance, farther ones first, of equally far ones
// first the one whose contents come first column by column; rows of distance 0 or weight 0 are left out. Rows of equal
// contents must have equal distances. `Points` is View<const T, 2> or SparseRows<T, I>, all entries finite.
// Returns how many points there are, at most `count`; point p has the rows rows[ends[p − 1]] … rows[ends[p] − 1],
// rising.
template <class Points>
int64_t farthest_points(const Points& x,                  // in  (n, d)
                        View<const double, 1> weights,    // in  (n) or empty: every row counts once
                        View<const double, 1> distance2,  // in  (n)
                        int64_t count,                    // ≥ 1
                        int64_t* rows,                    // out (n), the first ends[result − 1] of them
                        int64_t* ends,                    // out (count)
                        Run run);

}  // namespace knoll
