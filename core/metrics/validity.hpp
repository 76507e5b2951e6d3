// What the density-based validity of clusters is made of (Moulavi et al. 2014; docs/theory/05-dbscan.md, eq. 5.15 to
// 5.19): core distances within each cluster, its minimum spanning tree over mutual reachability, the longest edge
// inside of that tree, and how far the insides of other trees are.
//
// Which of several minimum spanning trees is taken decides which of its nodes are inside. Edges are ordered by mutual
// reachability, then by distance, then by the positions of their ends; so the tree is one, and where rows stand in an
// order of their contents nothing depends on how they were numbered.
#pragma once

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Rows of a cluster are distinct; a weight of w stands for w equal rows: one that the tree enters, and w − 1 leaves.
// Every cluster weighs more than 1.
// O(n² d) work, O(n d) memory.
void cluster_validity(View<const double, 2> x,        // in  (n, d) rows grouped by cluster
                      View<const double, 1> weights,  // in  (n) whole numbers ≥ 1
                      View<const int64_t, 1> starts,  // in  (k + 1) where each cluster begins; none is empty
                      bool squared,                   // distances are Σ(x − y)², not its root
                      View<double, 1> core,           // out (n) core distances
                      View<uint8_t, 1> inside,        // out (n) whether a row is inside of its tree
                      View<double, 1> sparseness,     // out (k) the longest edge inside of the tree
                      View<double, 1> separation,     // out (k) the least mutual reachability of a row inside of the
                                                      //         tree to one inside of another; infinite where k = 1
                      Run run);

}  // namespace knoll
