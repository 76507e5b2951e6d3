// A balanced tree of boxes over points, whose leaves are column tiles of kPoints points.
//
// Nodes are cut at the median of their longest side (of a sample of their points), rounded to whole leaves, so equal
// points and any shape of the data give the same depth. Nodes are stored level by level: the root is 0 and the children
// of a node are adjacent. No answer depends on the cuts: `nearest` and `farthest` bound the *computed* reduced
// distances exactly, since every operation is monotone under rounding (docs/numerics/index.md, X1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/large_array.hpp"
#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"
#include "simd/kernels.hpp"

namespace knoll {

class KdTree {
 public:
  struct Node {
    int32_t begin, end;  // leaves
    int32_t child;       // the first of two; −1: a leaf
    int32_t parent;      // −1: the root
  };

  template <class T>
  KdTree(View<const T, 2> x,  // in  (n, d)
         const Metric& metric, Run run);

  const Metric& metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t leaves() const { return leaves_; }
  int64_t dims() const { return dims_; }
  const Magnitudes& magnitudes() const { return magnitudes_; }  // of the data
  double largest() const { return magnitudes_.largest; }
  const std::vector<Node>& nodes() const { return nodes_; }
  int32_t leaf_node(int64_t leaf) const { return leaf_node_[static_cast<size_t>(leaf)]; }

  // The other child of the parent of a node that is not the root.
  static int32_t sibling(int32_t node) { return ((node - 1) ^ 1) + 1; }

  // Positions: leaf after leaf, kPoints in each but the last.
  int64_t begin(const Node& node) const { return int64_t{node.begin} * kPoints; }
  int64_t end(const Node& node) const { return std::min(int64_t{node.end} * kPoints, n_); }
  int64_t points_in(int64_t leaf) const { return std::min<int64_t>(kPoints, n_ - leaf * kPoints); }
  int32_t row(int64_t position) const { return rows_[static_cast<size_t>(position)]; }
  const double* tile(int64_t leaf) const { return tiles_.get() + leaf * dims_ * kPoints; }
  const double* box(int32_t node) const { return boxes_.get() + int64_t{node} * 2 * dims_; }  // (2, dims): low, high
  // The first coordinate of the point at a position; the others follow at steps of kPoints.
  const double* coords(int64_t position) const { return tile(position / kPoints) + position % kPoints; }

  // Reduced distances between any two points of two boxes lie between these; a point is a box with low = high.
  double nearest(const double* low, const double* high, int32_t node, const Within& w) const;
  double farthest(const double* low, const double* high, int32_t node, const Within& w) const;

  // Visits the nodes that have points within w of the box [low, high], the nearer child first and of two equally near
  // ones the one with the leaf `home`.
  //   skip(node, near)   true: not this node; `near` is the bound on its reduced distances
  //   whole(node)        every point of the node is within w of every point of the box; true: stop the traversal
  //   leaf(leaf)         a point may be; true: stop the traversal
  template <class Skip, class Whole, class Leaf>
  void traverse(const double* low, const double* high, int64_t home, const Within& w, Skip&& skip, Whole&& whole,
                Leaf&& at_leaf) const;

  // Which lanes of `a`, a tile of embedded points, are within w of each of the m points of `leaf`: bits[t]. Between the
  // two thresholds the metric's formula decides, on the data points `raw_a` (lane, d), which are not read otherwise.
  void within_bits(const double* a, int64_t lanes, const double* raw_a, int64_t leaf, const Within& w, uint32_t* bits,
                   int64_t& rechecks) const;
  // Reduced distances (m, kPoints) of a tile of embedded points to the points of a leaf.
  void reduced_tile(const double* a, int64_t leaf, const Within& w, double* out) const;
  // The data point at a position, where the metric has a band.
  const double* raw(int64_t position) const { return raw_.get() + position * metric_.columns(); }
  // Lexicographic order of the data points at two positions: −1, 0 or 1.
  int compare(int64_t position, int64_t other) const;

 private:
  void make_nodes();
  void cut(const double* embedded, Run run);
  void pack(int64_t leaf, const double* coords, const int32_t* slots);

  Metric metric_;
  int64_t n_, dims_, leaves_;
  Magnitudes magnitudes_;
  std::vector<Node> nodes_;
  std::vector<int32_t> leaf_node_;  // (leaves)
  LargeArray<int32_t> rows_;        // (n) data row of each position
  LargeArray<double> tiles_;        // (leaves, dims, kPoints), infinite past the last point
  LargeArray<double> boxes_;        // (nodes, 2, dims)
  LargeArray<double> raw_;          // (n, d) in order of position, for metrics with a band
};

template <class Skip, class Whole, class Leaf>
void KdTree::traverse(const double* low, const double* high, int64_t home, const Within& w, Skip&& skip, Whole&& whole,
                      Leaf&& at_leaf) const {
  struct Open {
    int32_t node;
    double near;
  } stack[80];  // at most one waiting sibling per level, and there are at most 32
  if (n_ == 0) return;
  int top = 0;
  stack[top++] = {0, nearest(low, high, 0, w)};
  while (top > 0) {
    const auto [index, near] = stack[--top];
    // No computed distance of the node is within the radius (docs/numerics/index.md, X1).
    if (near > w.outside || skip(index, near)) continue;
    const Node& node = nodes_[static_cast<size_t>(index)];
    // Every computed distance is.
    if (farthest(low, high, index, w) <= w.inside) {
      if (whole(index)) return;
      continue;
    }
    if (node.child < 0) {
      if (at_leaf(int64_t{node.begin})) return;
      continue;
    }
    const int32_t left = node.child, right = left + 1;
    const Open a{left, nearest(low, high, left, w)}, b{right, nearest(low, high, right, w)};
    const bool left_first = a.near < b.near || (a.near == b.near && home < nodes_[static_cast<size_t>(right)].begin);
    stack[top++] = left_first ? b : a;
    stack[top++] = left_first ? a : b;
  }
}

}  // namespace knoll
