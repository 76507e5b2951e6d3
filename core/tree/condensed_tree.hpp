// The nodes of a density tree, and the condensed tree of the clusters of at least a given weight.
//
// A node is a component that exists at some height; its children are *all* components that fuse there, any number. So
// the nodes are a function of the set of rows: they depend on no order of the rows and no rule for ties.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Nodes with at least two rows, children before their parents; the root is the last.
struct TreeNodes {
  std::vector<double> height;
  std::vector<int32_t> parent;       // −1 for the root
  std::vector<int32_t> begin, end;   // the rows of a node, in the order of the tree
  std::vector<int32_t> leaf_parent;  // (n) by position in that order; −1 where there is one row
};

// bars (n): the first is not read.
TreeNodes tree_nodes(View<const double, 1> bars, Run run);

// The weight of every node: sums in two doubles, so that the rounded one does not depend on the order of the children.
std::vector<double> node_weights(const TreeNodes& nodes, View<const double, 1> weights);  // (n) by position, or empty

struct CondensedClusters {
  std::vector<int32_t> parent;               // −1: the root
  std::vector<double> birth, death, weight;  // heights: of the split that it comes from, and of its own split (−1:
                                             // none); the weight at birth
};

// Going down from the root: children of weight ≥ least are *large*. Two or more large children begin clusters of their
// own; one goes on as the same cluster; the others leave it. Found from the leaves upward, in one pass over the bars:
// no node is kept. Clusters are numbered parents first, the root is 0.
CondensedClusters condense(View<const double, 1> bars,     // in  (n) the first is not read
                           View<const int64_t, 1> order,   // in  (n) the rows in the order of the tree
                           View<const double, 1> weights,  // in  (n) by row, or empty
                           View<const double, 1> core,     // in  (n) by row: where the copies of a row join
                           double least,
                           View<int64_t, 1> cluster,  // out (n) by row: the smallest cluster that it belongs to
                           View<double, 1> leaves,    // out (n) by row: the height at which it leaves that cluster
                           Run run);

}  // namespace knoll
