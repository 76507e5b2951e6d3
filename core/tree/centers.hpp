// The best centres of a tree's ultrametric, for all numbers of centres at once.
//
// With k centres the cost is Σ w u(x, nearest centre)^z. A row's distance to the nearest centre is the height of the
// lowest node around it that has a centre. So a node v below p that has one saves W(v) (h(p)^z − h(v)^z), each node on
// the path from a centre to the root once. The paths of largest savings come from cutting the tree into chains: at each
// node the child with the largest saving goes on, all others begin chains of their own. The k largest chains are the
// best k centres, and their rows the clusters.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Positions are those of the tree's order. The chain of a position ends there; chains are numbered by their savings.
template <class T>
void tree_centers(View<const double, 1> bars,                               // in  (n), the first is not read
                  View<const double, 1> weights,                            // in  (n) or empty
                  View<const T, 2> x, View<const int64_t, 1> order,         // in  (n, d), distinct; (n) its rows
                  double power,                                             // z > 0, may be infinite
                  View<int64_t, 1> ranked,                                  // out (n) positions, largest saving first
                  View<int64_t, 1> above, View<double, 1> saved, Run run);  // out (n) by position: the chain that the
                                                                            // chain leaves (−1: none), and its saving:
                                                                            // of heights^z, or the height it leaves at

}  // namespace knoll
