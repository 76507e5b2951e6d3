// Which clusters of a condensed tree are taken: stability, excess of mass, and the labels of the rows.
//
// Clusters are numbered parents first, the root is 0; parent(0) = −1.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// sums(c) = Σ w v over the rows of cluster c. The terms of a cluster are added in ascending order of (v, w), so the
// last bit depends neither on the order of the rows nor on the number of threads.
void ordered_sums(View<const int64_t, 1> cluster,  // in  (n)
                  View<const double, 1> values,    // in  (n)
                  View<const double, 1> weights,   // in  (n)
                  View<double, 1> sums,            // out (c)
                  Run run);

// How levels are measured: unit / max(height, least).
struct LevelScale {
  double unit, least;
};

// ordered_sums of w (λ(i) − birth(c)) over the rows of cluster c: λ is the level of the height at which a row leaves
// its cluster, birth that of the cluster, and w = weights(i)/scale, or 1/scale without weights.
void stabilities(View<const int64_t, 1> cluster,                         // in  (n)
                 View<const double, 1> heights,                          // in  (n)
                 View<const double, 1> weights,                          // in  (n) or empty
                 View<const double, 1> birth,                            // in  (c) levels
                 LevelScale levels, double scale, View<double, 1> sums,  // out (c)
                 Run run);

// rows(k) = the row of label k that is first in lexicographic order, equal ones by index; −1: there is none.
template <class T>
void first_rows(View<const T, 2> x,             // in  (n, d)
                View<const int64_t, 1> labels,  // in  (n) −1: noise
                View<int64_t, 1> rows);         // out (k)

// Chooses clusters, none inside another, of the largest total stability; of equal totals the outer cluster. Totals
// are added in ascending order, so that the order of the children does not matter. Those of weight > most are not
// chosen, nor is the root unless `single`.
void excess_of_mass(View<const int64_t, 1> parent,               // in  (c)
                    View<const double, 1> stability,             // in  (c)
                    View<const double, 1> weight,                // in  (c)
                    double most, bool single, uint8_t* chosen);  // out (c)

// around(c) = the outermost chosen cluster that is c or holds it, −1: none.
void enclosing(View<const int64_t, 1> parent, const uint8_t* chosen, View<int64_t, 1> around);

// labels(i) = the number of around(cluster(i)), −1 where that is −1; numbers follow the first rows. Returns the
// clusters by number.
std::vector<int64_t> number_by_rows(View<const int64_t, 1> cluster,  // in  (n)
                                    View<const int64_t, 1> around,   // in  (c)
                                    View<int64_t, 1> labels,         // out (n)
                                    Run run);

}  // namespace knoll
