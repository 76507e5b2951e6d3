// Many partitions of the same rows: their pairwise overlap, and the merges that a graph makes inside their clusters.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Σ n_ij² of the contingency table of each pair of partitions, with n_ij the rows that have label i in the one and
// label j in the other. The Rand index and its adjusted form follow from it and from the diagonal.
void partition_overlaps(View<const int32_t, 2> labels,  // in  (p, m) ≥ 0
                        View<double, 2> overlaps,       // out (p, p)
                        Run run);

// Joins rows along edges of descending height, inside of each cluster of each partition apart. A component has the
// highest `top` of its rows as its peak. When two components merge, the prominence of the lower is its peak less the
// height of the edge. For each cluster: the largest prominence of a component that has at least a share of the rows of
// the cluster, for each share; −1 where there was no such component.
void inner_prominences(View<const int32_t, 2> labels,  // in  (p, m) −1: not in a cluster
                       View<const int32_t, 2> edges,   // in  (e, 2) in descending order of height
                       View<const double, 1> heights,  // in  (e)
                       View<const double, 1> tops,     // in  (m)
                       View<const double, 1> shares,   // in  (s)
                       View<double, 2> prominences,    // out (p, clusters·s)
                       Run run);

// Divides each cluster of each partition along its slowest direction of diffusion: y ← (y + D⁻¹W y)/2, with W the edges
// inside of the cluster and D their sums, from the projection on the first axis of the cluster; after each step y is
// made orthogonal to the constant. Rows with y > 0 are one side. The conductance of that division is the weight between
// the sides over the smaller of their volumes; 1 where a side has no volume.
struct Graph {
  View<const int64_t, 1> starts;      // (m + 1)
  View<const int32_t, 1> neighbours;  // (e)
  View<const double, 1> weights;      // (e)
};

void inner_cuts(Graph graph, View<const double, 2> points,  // in  (m, d)
                View<const int32_t, 2> labels,              // in  (p, m) ≥ 0
                int steps, View<uint8_t, 2> sides,          // out (p, m)
                View<double, 2> conductances,               // out (p, clusters)
                Run run);

}  // namespace knoll
