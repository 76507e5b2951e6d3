// A minimum spanning tree over mutual reachability, by Borůvka's algorithm from the lists of nearest rows.
//
// 1. Free edges. Every edge of p has m(p, ·) ≥ c(p). If q is among the min_samples − 1 nearest of p and c(q) ≤ c(p),
//    then m(p, q) = c(p): a least edge of p, known without a search. All rows take theirs at once; pairs (c, position)
//    fall along them, so they form no cycle.
// 2. Rounds. Each component's bound is the least edge that the lists hold; the search offers what is smaller. The first
//    min_samples − 1 entries of p's list have key(p, q) ≤ c(p), so m(p, q) = max(c(p), c(q)) without a distance. The
//    largest component does not search: all others take their least edges, so their number still falls by half. Where
//    keys are equal, the least edges of several components may form a cycle of equal keys (each is ≤ the one before
//    it), so an edge that joins nothing new is left out and what remains is still a minimum spanning tree.
//
// Components of {m ≤ h} are the same for every minimum spanning tree, hence heights and clusters do not depend on the
// order of the rows or on the number of threads.
#pragma once

#include <cstdint>

#include "common/large_array.hpp"
#include "common/run.hpp"
#include "tree/search.hpp"

namespace knoll {

struct TreeEdge {
  double key;
  int32_t a, b;  // positions
};

struct SpanningTree {
  LargeArray<TreeEdge> edges;  // in no order
  int64_t count = 0;           // n − 1; fewer where distances are infinite
  int64_t rounds = 0;
  int64_t components_after_lists = 0;  // that remained after the free edges
};

// What the lists of nearest rows are, by position.
struct NearestRows {
  const int32_t* near;  // (n, width) positions, nearest first
  int64_t width;
  int64_t within;      // so many first entries have key(p, ·) ≤ c(p)
  const double* core;  // (n) c(p)
  double* cleared;     // in, out (n) a row that is not in the list of p has at least this key; RoundState::cleared
};

SpanningTree spanning_tree(const ReachabilitySearch& search, const NearestRows& rows, Run run);

}  // namespace knoll
