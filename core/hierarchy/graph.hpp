// Agglomerative clustering in which only neighbours in a graph may merge, and the tree of a minimum spanning tree.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

enum class GraphLinkage { ward, average, complete, single };

// Merges the pair of neighbours of least cost, up to `most` times; returns how often. A merged cluster has the
// neighbours of both its children. Its cost is ΔJ of hierarchy/ward.hpp, or combined of the children's costs; a
// neighbour of only one child keeps its cost. Equal costs go to the clusters of the lowest numbers. Unlike without a
// graph a merge may cost less than one before it, so the merges stay in their order.
int64_t link_graph(View<const double, 2> x,                                        // in  (n, d), for Ward
                   View<const double, 1> weights,                                  // in  (n), > 0, or empty
                   View<const int64_t, 2> edges,                                   // in  (e, 2), each pair once
                   View<const double, 1> costs,                                    // in  (e), not for Ward
                   GraphLinkage linkage, int64_t most, View<int64_t, 2> children,  // out (most, 2)
                   View<double, 1> heights,                                        // out (most)
                   Run run);

// The binary tree of rows in an order with bars between them (tree/density_tree.hpp): the lowest bar joins first, of
// equal ones the first. Rows are positions.
void link_bars(View<const double, 1> bars,  // in  (n), the first is not read
               View<int64_t, 2> children,   // out (n − 1, 2)
               View<double, 1> heights,     // out (n − 1)
               Run run);

}  // namespace knoll
