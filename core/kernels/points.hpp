// Points as the products with a kernel matrix read them: in the order of a kd-tree whose leaves are column tiles, with
// the boxes of its nodes, all in a rule's unit.
#pragma once

#include <cstdint>
#include <vector>

#include "common/large_array.hpp"
#include "common/run.hpp"
#include "common/view.hpp"
#include "kernels/kernels.hpp"
#include "neighbors/kd_tree.hpp"

namespace knoll {

struct KernelPoints {
  template <class T>
  KernelPoints(View<const T, 2> x,  // in  (n, d)
               const KernelRule& rule, Run run);

  int64_t n, d, leaves;
  std::vector<KdTree::Node> nodes;  // level by level, as in the tree
  std::vector<int32_t> leaf_node;   // (leaves)
  std::vector<int32_t> rows;        // (n) data row of each position
  std::vector<int32_t> positions;   // (n) position of each data row
  std::vector<double> boxes;        // (nodes, 2, d): low, high
  LargeArray<double> tiles;         // (leaves, d, kPoints); past the last point that point is repeated

  const double* tile(int64_t leaf) const { return tiles.get() + leaf * d * kPoints; }
  const double* box(int32_t node) const { return boxes.data() + int64_t{node} * 2 * d; }
  int64_t count(int64_t leaf) const { return std::min<int64_t>(kPoints, n - leaf * kPoints); }
  int64_t points_in(const KdTree::Node& node) const {
    return std::min(int64_t{node.end} * kPoints, n) - int64_t{node.begin} * kPoints;
  }
  // The first coordinate of the point at a position; the others follow at steps of kPoints.
  const double* coords(int64_t position) const { return tile(position / kPoints) + position % kPoints; }
  int64_t bytes() const;
};

// Whether κ = 0 for every pair of points of two boxes (2, d), because they are too far apart: such pairs are skipped.
bool apart(const double* a, const double* b, int64_t d, const KernelRule& rule);
// Whether `apart` is false for every two boxes within these two.
bool together(const double* a, const double* b, int64_t d, const KernelRule& rule);

}  // namespace knoll
