// The index of Ward's clustering, which finds the clusters of least cost with one: a tree of boxes over their means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/aligned.hpp"
#include "common/run.hpp"
#include "simd/kernels.hpp"

namespace knoll {

class KdTree;

constexpr int kNear = 8;  // clusters that a search finds

// The clusters that exist now, by slots 0 … n − 1; a merged cluster takes the slot of one of its two.
struct Clusters {
  int64_t n, d;
  AlignedVector<double> mean;    // (n, d)
  std::vector<double> weight;    // (n)
  std::vector<double> inverse;   // (n) 1/weight
  std::vector<int32_t> id;       // (n) the number of the cluster in a slot, −1: none
  std::vector<int32_t> nearest;  // (n) slot
  std::vector<double> cost;      // (n) ΔJ with it

  const double* mean_of(int64_t slot) const { return mean.data() + slot * d; }
};

// The kNear clusters of least cost with one, ascending by cost and then by number.
//
// All other clusters cost at least `beyond`, and so does whatever they merge into: the cost of a merged cluster is
// never below the lesser of its parts'. So after merges the nearest cluster is found among what the listed ones have
// become, as long as that costs less.
struct NearList {
  struct Entry {
    double cost;
    int32_t slot, id;
    bool operator<(const Entry& other) const { return cost < other.cost || (cost == other.cost && id < other.id); }
  };
  Entry entries[kNear];
  int count = 0;
  double beyond = std::numeric_limits<double>::infinity();

  double limit() const { return count < kNear ? std::numeric_limits<double>::infinity() : entries[kNear - 1].cost; }
  bool has(int32_t slot) const {
    return std::any_of(entries, entries + count, [=](const Entry& entry) { return entry.slot == slot; });
  }
  // Each slot at most once: the caller sees to it. What does not fit lowers `beyond`.
  void offer(const Entry& entry) {
    int at = count;
    if (count < kNear)
      ++count;
    else if (entry < entries[--at])
      beyond = std::min(beyond, entries[at].cost);
    else
      at = kNear, beyond = std::min(beyond, entry.cost);
    for (; at > 0 && at < kNear && entry < entries[at - 1]; --at) entries[at] = entries[at - 1];
    if (at < kNear) entries[at] = entry;
  }
  // Rounding is far below this share of the cost (docs/numerics/hierarchy.md, H3).
  bool is_certain() const { return count > 0 && entries[0].cost < beyond * (1 - 0x1p-30); }
};

// Leaves are column tiles of kPoints means, nodes have up to kBoxes children, whose boxes lie in lanes. A merged
// cluster takes the place of the heavier of its two and boxes are fitted to what is in them, so nothing is outside of
// the tree; it is built again when a fifth of its places is free, since boxes around means from two places are wide. A
// free place is infinitely far.
class MeanIndex {
 public:
  MeanIndex(const Clusters& clusters, Run run) : clusters_(clusters) { build(run); }

  // The cluster of slot `kept` has become the union of those in the two slots.
  void unite(int32_t kept, int32_t gone);
  // Makes searches see the unions.
  void refresh(int64_t alive, Run run);

  // Sorts slots by where the tree has their clusters: searches of neighbours one after the other find the leaves that
  // they read in the cache. No answer depends on the order.
  void arrange(std::vector<int32_t>& slots) const;

  // Completes the list of a slot: the clusters in it are some of those that exist.
  void search(int32_t slot, NearList& near) const;

 private:
  void build(Run run);
  void make_nodes(const KdTree& tree);
  void fit(Run run);
  void fit_leaf(int64_t leaf);
  void fit_above(size_t node);
  void put(int32_t position, int32_t slot);
  void scan(int32_t slot, int32_t leaf, NearList& near) const;

  const Clusters& clusters_;
  int64_t built_ = 0;                // clusters when the tree was built
  AlignedVector<double> tiles_;      // (leaves, d, kPoints)
  AlignedVector<double> inverse_;    // (leaves, kPoints) 1/weight
  std::vector<int32_t> slots_;       // (leaves, kPoints), −1: none
  std::vector<int32_t> position_;    // (n) of a slot in them
  std::vector<int32_t> leaf_lane_;   // (leaves) node·kBoxes + lane of its box
  std::vector<int32_t> moved_;       // leaves with a cluster that has changed since their boxes were fitted
  std::vector<uint8_t> leaf_moved_;  // (leaves) whether it is one of them

  AlignedVector<double> boxes_;       // (nodes, d, 2, kBoxes)
  AlignedVector<double> most_;        // (nodes, kBoxes) no cluster in the box has a larger 1/weight
  std::vector<int32_t> child_;        // (nodes, kBoxes) a node, or ~leaf
  std::vector<int32_t> parent_lane_;  // (nodes) as leaf_lane_, −1: the root
  std::vector<uint8_t> node_moved_;   // (nodes) whether its box waits to be fitted
};

}  // namespace knoll
