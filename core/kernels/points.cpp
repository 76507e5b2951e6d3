#include "kernels/points.hpp"

#include <algorithm>

#include "common/parallel.hpp"
#include "kernels/functions.hpp"

namespace knoll {

template <class T>
KernelPoints::KernelPoints(View<const T, 2> x, const KernelRule& rule, Run run) : n(x.shape[0]), d(x.shape[1]) {
  // Of the data as it is; coordinates, boxes among them, are then scaled by the rule's power of two, which is monotone,
  // so boxes still contain their points.
  const KdTree tree(x, Metric(MetricName::euclidean, 2, d), run);
  leaves = tree.leaves();
  nodes = tree.nodes();
  rows.resize(static_cast<size_t>(n));
  positions.resize(static_cast<size_t>(n));
  for (int64_t p = 0; p < n; ++p) {
    rows[static_cast<size_t>(p)] = tree.row(p);
    positions[static_cast<size_t>(tree.row(p))] = static_cast<int32_t>(p);
  }
  leaf_node.resize(static_cast<size_t>(leaves));
  for (int64_t leaf = 0; leaf < leaves; ++leaf) leaf_node[static_cast<size_t>(leaf)] = tree.leaf_node(leaf);
  boxes.resize(nodes.size() * static_cast<size_t>(2 * d));
  for (size_t node = 0; node < nodes.size(); ++node)
    for (int64_t j = 0; j < 2 * d; ++j)
      boxes[node * static_cast<size_t>(2 * d) + static_cast<size_t>(j)] =
          kernel_coordinate(tree.box(static_cast<int32_t>(node))[j], rule);
  // Lanes past the last point repeat it: no infinity or NaN enters a kernel, and callers multiply them by 0.
  tiles = make_large_array<double>(static_cast<size_t>(leaves * d * kPoints));
  for_chunks(leaves, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t leaf = begin; leaf < end; ++leaf)
      for (int64_t j = 0; j < d; ++j)
        for (int64_t l = 0; l < kPoints; ++l)
          tiles[static_cast<size_t>((leaf * d + j) * kPoints + l)] =
              kernel_coordinate(tree.tile(leaf)[j * kPoints + std::min(l, count(leaf) - 1)], rule);
  });
}

int64_t KernelPoints::bytes() const {
  return leaves * d * kPoints * 8 + static_cast<int64_t>(boxes.size()) * 8 + (2 * n + leaves) * 4 +
         static_cast<int64_t>(nodes.size() * sizeof(KdTree::Node));
}

// Σ gap_j² ≤ Σ (x_j − y_j)² for all x in one box and y in the other. Both sums are computed with at most d + 2
// roundings of 2^−53 each, that of the pair fused or not; so a computed Σ gap² above limit·(1 + (d + 2)·2^−51) means
// that the computed distance of every pair exceeds the limit, and skipping them changes no bit.
bool apart(const double* a, const double* b, int64_t d, const KernelRule& rule) {
  if (rule.function == kPoly || rule.function == kLinear) return false;
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const double gap = std::max({0.0, b[j] - a[d + j], a[j] - b[d + j]});
    sum += gap * gap;
  }
  // docs/numerics/kernels.md, K2. False for NaN: then the pair is evaluated.
  return sum * (1 - static_cast<double>(d + 2) * 0x1p-51) > rule.limit;
}

// Σ span_j², the farthest corners, bounds every gap of boxes inside from above; no margin is needed for a count.
bool together(const double* a, const double* b, int64_t d, const KernelRule& rule) {
  if (rule.function == kPoly || rule.function == kLinear) return true;
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const double span = std::max(b[d + j] - a[j], a[d + j] - b[j]);
    sum += span * span;
  }
  return sum <= rule.limit;
}

template KernelPoints::KernelPoints(View<const float, 2>, const KernelRule&, Run);
template KernelPoints::KernelPoints(View<const double, 2>, const KernelRule&, Run);

}  // namespace knoll
