// The merges of an agglomerative clustering: in the order in which they were found, and in the order of their heights.
#pragma once

#include <cstdint>
#include <vector>

#include "common/view.hpp"

namespace knoll {

// Two clusters become one. A cluster below n is a row; n + t is the result of merge t.
struct Merge {
  double height;
  int32_t a, b;
};

// Sorts the n − 1 merges of n rows by height and numbers the clusters by that order, as SciPy does: children (n − 1,
// 2), the lower number first. Where rounding puts a merge below one that it contains, it is raised to it, so heights
// never fall and a cluster comes after its children; equal heights keep the order in which they were found.
void sort_merges(std::vector<Merge>& merges, int64_t n, View<int64_t, 2> children, View<double, 1> heights);

}  // namespace knoll
