// Points in blocks of four lanes, in the order of a search structure, and the tree over such blocks.
//
// Both search structures (strips for few dimensions, the tree for many) need two operations: the sum of a range of
// blocks, and the sum of its lanes within a ball. They decide without an error bound, because rounding is monotone:
// with gap_j ≤ |x_j − y_j| ≤ reach_j for all points x of a box, and the sums taken over j in the order of the one
// distance,
//     fl Σ gap_j² ≤ fl Σ (x_j − y_j)² ≤ fl Σ reach_j².
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

constexpr int64_t kBlock = 4;

// Rows of x (n, d) in the order `order`, every group filled up to whole blocks with points at infinity.
struct Blocks {
  int64_t d = 0, size = 0;         // number of blocks
  std::vector<double> coords;      // (size, d, 4)
  std::vector<int64_t> row;        // (size, 4) the row of x in each lane, or −1
  std::vector<int64_t> group_end;  // (groups) where each group's blocks end

  void pack(const double* x, const std::vector<int64_t>& order, const std::vector<int64_t>& ends);
  double coord(int64_t block, int64_t j, int64_t lane) const {
    return coords[static_cast<size_t>((block * d + j) * kBlock + lane)];
  }
};

// A kd-tree whose nodes are ranges of blocks with their boxes.
class BlockTree {
 public:
  BlockTree(const double* x, int64_t n, int64_t d, int64_t leaf, Run run);  // x (n, d) in row-major order

  const Blocks& blocks() const { return blocks_; }

  // For all balls whose centre lies in the box [lo, hi]: inside(begin, end) for ranges of blocks wholly within each of
  // them (far ≤ bound), check(begin, end) for those that a sphere may cut. One ball has lo = hi. `stack` is scratch.
  template <class Inside, class Check>
  void visit(const double* lo, const double* hi, double bound, std::vector<int32_t>& stack, Inside&& inside,
             Check&& check) const {
    stack.assign(1, 0);
    while (!stack.empty()) {
      const int32_t at = stack.back();
      stack.pop_back();
      const Node& node = nodes_[static_cast<size_t>(at)];
      const double* const box = box_of(at);
      double near = 0, far = 0;
      for (int64_t j = 0; j < blocks_.d; ++j) {
        // docs/numerics/index.md, X1: the same order of j as the one distance, and nothing fused.
        const double gap = std::max(std::max(box[2 * j] - hi[j], lo[j] - box[2 * j + 1]), 0.0);
        const double reach = std::max(hi[j] - box[2 * j], box[2 * j + 1] - lo[j]);
        near += gap * gap;
        far += reach * reach;
      }
      if (near > bound) continue;
      if (far <= bound) {
        inside(node.begin, node.end);
      } else if (node.child < 0) {
        check(node.begin, node.end);
      } else {
        stack.push_back(node.child + 1);
        stack.push_back(node.child);
      }
    }
  }

 private:
  struct Node {
    int64_t begin, end;  // blocks
    int32_t child;       // the first of two, or −1
  };
  const double* box_of(int32_t node) const { return boxes_.data() + static_cast<int64_t>(node) * 2 * blocks_.d; }

  Blocks blocks_;
  std::vector<Node> nodes_;
  std::vector<double> boxes_;  // (nodes, d, 2) lowest and highest coordinate
};

}  // namespace knoll
