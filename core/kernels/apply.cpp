#include "kernels/apply.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kLeaves = 64;  // of a chunk

// Right-hand sides in the order of KernelPoints, in groups of the widths that the small products have: 12, 8 or 4
// columns side by side, or one or two columns leaf by leaf.
class KernelColumns {
 public:
  struct Group {
    int64_t first, count;  // columns
    int64_t width;  // 12, 8, 4: (positions, width), columns past `count` are zero; 2, 1: (leaves, width, kPoints)
    int64_t offset;
  };

  // Twelve columns as long as there are eleven or more: the widest block is the fastest per column.
  KernelColumns(int64_t leaves, int64_t columns) : leaves_(leaves) {
    int64_t offset = 0;
    for (int64_t first = 0; first < columns;) {
      const int64_t width = group_width(columns - first), count = std::min(width, columns - first);
      groups_.push_back({first, count, width, offset});
      offset += leaves * kPoints * width;
      first += count;
    }
    // One array for all groups; pack or clear writes it before it is read.
    data_ = make_large_array<double>(static_cast<size_t>(offset));
  }

  const std::vector<Group>& groups() const { return groups_; }
  double* leaf(const Group& g, int64_t leaf) const { return data_.get() + g.offset + leaf * kPoints * g.width; }

  void clear(Run run) {
    for_chunks(leaves_, kLeaves, run, [&](int64_t, int64_t begin, int64_t end) {
      for (const Group& g : groups_) std::fill(leaf(g, begin), leaf(g, end), 0.0);
    });
  }

  // From b (n, m), rows of the data. Positions without a point are zero: the tiles repeat the last point there, and
  // its kernel values must be multiplied by 0.
  void pack(const KernelPoints& points, View<const double, 2> b, Run run) {
    for_chunks(leaves_, kLeaves, run, [&](int64_t, int64_t begin, int64_t end) {
      for (const Group& g : groups_)
        for (int64_t at = begin; at < end; ++at) {
          double* const to = leaf(g, at);
          if (g.count < g.width || points.count(at) < kPoints) std::fill(to, to + g.width * kPoints, 0.0);
          for_entries(points, g, at, [&](int64_t row, int64_t offset, int64_t column) { to[offset] = b(row, column); });
        }
    });
  }

  // Into out (n, m).
  void unpack(const KernelPoints& points, View<double, 2> out, Run run) const {
    for_chunks(leaves_, kLeaves, run, [&](int64_t, int64_t begin, int64_t end) {
      for (const Group& g : groups_)
        for (int64_t at = begin; at < end; ++at) {
          const double* const from = leaf(g, at);
          for_entries(points, g, at,
                      [&](int64_t row, int64_t offset, int64_t column) { out(row, column) = from[offset]; });
        }
    });
  }

 private:
  // The width of the next group when so many columns are left. A group with one free column is still cheaper than two
  // groups.
  static int64_t group_width(int64_t left) {
    if (left >= 11) return 12;
    if (left >= 7) return 8;
    if (left >= 3) return 4;
    return left;
  }

  // body(row, offset within the leaf, column) for every entry of a leaf's group that belongs to a row.
  template <class F>
  static void for_entries(const KernelPoints& points, const Group& g, int64_t leaf, F&& body) {
    const bool by_column = g.width <= 2;
    for (int64_t l = 0; l < points.count(leaf); ++l) {
      const int64_t row = points.rows[static_cast<size_t>(leaf * kPoints + l)];
      for (int64_t c = 0; c < g.count; ++c) body(row, by_column ? c * kPoints + l : l * g.width + c, g.first + c);
    }
  }

  int64_t leaves_;
  std::vector<Group> groups_;
  LargeArray<double> data_;
};

// A round-robin schedule of the pairs of superblocks: the nodes of one level of the tree, a power of two of them.
// In round r block a is paired with a ^ r. XOR with a fixed r ≠ 0 is an involution without fixed points, so within a
// round no block is in two pairs and sums are added in place; over all rounds every two blocks are paired once. The
// bits of a are the cuts of the tree, so the pairs of a round are about equally far apart, hence about equally much
// work where far pairs are skipped.
struct RoundRobin {
  const KernelPoints& points;
  int64_t blocks, first;  // first: the number of the level's first node

  explicit RoundRobin(const KernelPoints& p)
      : points(p),
        blocks(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(p.leaves / 4, 1, 64))))),
        first(blocks - 1) {}

  // within(node) for every block, then between(node, node) round after round; the calls of a round run concurrently.
  template <class Within, class Between>
  void visit(Run run, Within&& within, Between&& between) const {
    if (points.n == 0) return;
    for_chunks(blocks, 1, run, [&](int64_t, int64_t a, int64_t) { within(static_cast<int32_t>(first + a)); });
    for (int64_t round = 1; round < blocks; ++round) {
      // The pair's lower block has a 0 in the highest bit of `round`: insert that 0 into the bits of `pair`.
      const int64_t top = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(round)));
      for_chunks(blocks / 2, 1, run, [&](int64_t, int64_t pair, int64_t) {
        const int64_t low = pair & (top - 1), a = low | (pair ^ low) << 1;
        between(static_cast<int32_t>(first + a), static_cast<int32_t>(first + (a ^ round)));
      });
    }
  }
};

// Visits the pairs of leaves of two nodes, or of one node with itself, that `apart` does not rule out.
//   whole(node, node)   true: nothing is left to do here
//   pair(leaf, leaf)
template <class Pair, class Whole>
struct Traversal {
  const KernelPoints& points;
  const KernelRule& rule;
  Pair& pair;
  Whole& whole;

  // A node with itself: each child with itself, and the two with each other; so every pair of leaves is visited once.
  void within(int32_t index) const {
    if (whole(index, index)) return;
    const auto& node = points.nodes[static_cast<size_t>(index)];
    if (node.child < 0) return pair(int64_t{node.begin}, int64_t{node.begin});
    within(node.child);
    within(node.child + 1);
    between(node.child, node.child + 1);
  }
  void between(int32_t a, int32_t b) const {
    if (apart(points.box(a), points.box(b), points.d, rule) || whole(a, b)) return;
    const auto &left = points.nodes[static_cast<size_t>(a)], &right = points.nodes[static_cast<size_t>(b)];
    if (left.child < 0 && right.child < 0) return pair(int64_t{left.begin}, int64_t{right.begin});
    // The larger node is cut, so that both boxes shrink alike.
    if (right.child < 0 || (left.child >= 0 && left.end - left.begin >= right.end - right.begin)) {
      between(left.child, b);
      between(left.child + 1, b);
    } else {
      between(a, right.child);
      between(a, right.child + 1);
    }
  }
};

}  // namespace

int64_t kernel_pairs(const KernelPoints& points, const KernelRule& rule, Run run) {
  int64_t found = 0;
  const auto size = [&](int32_t index) { return points.points_in(points.nodes[static_cast<size_t>(index)]); };
  const auto pair = [&](int64_t i, int64_t j) {
    const int64_t a = points.count(i), b = points.count(j);
    found += i == j ? a * (a + 1) / 2 : a * b;
  };
  // Where even the farthest points of two boxes are within the limit, `apart` holds for no pair of their descendants.
  const auto whole = [&](int32_t a, int32_t b) {
    run.poll();
    if (!together(points.box(a), points.box(b), points.d, rule)) return false;
    found += a == b ? size(a) * (size(a) + 1) / 2 : size(a) * size(b);
    return true;
  };
  if (points.n > 0) Traversal<decltype(pair), decltype(whole)>{points, rule, pair, whole}.within(0);
  return found;
}

void kernel_apply(const KernelPoints& points, const KernelRule& rule, View<const double, 2> b, View<double, 2> out,
                  Run run) {
  KernelColumns in(points.leaves, b.shape[1]), sums(points.leaves, b.shape[1]);
  in.pack(points, b, run);
  sums.clear(run);
  const auto& gram = kernels().gram;
  const auto pair = [&](int64_t i, int64_t j) {
    run.poll();
    // κ is symmetric to the bit, so one tile serves both triangles: V·B_j adds to leaf i, Vᵀ·B_i to leaf j.
    // 8 KB: both products read it from the first cache level.
    alignas(64) double v[kPoints * kPoints];  // v[t, l] = κ of point l of leaf i and point t of leaf j
    gram.values(&rule, points.tile(i), points.tile(j), 1, kPoints, kPoints, points.d, v);
    for (const auto& g : in.groups()) {
      if (g.width <= 2) {
        gram.add_lanes(v, kPoints, g.width, in.leaf(g, j), sums.leaf(g, i), in.leaf(g, i),
                       i == j ? nullptr : sums.leaf(g, j));
        continue;
      }
      // The same tile by rows and by columns: steps (1, kPoints) and (kPoints, 1) read V and Vᵀ.
      gram.add_product(v, 1, kPoints, kPoints, kPoints, in.leaf(g, j), g.width, sums.leaf(g, i));
      if (i != j) gram.add_product(v, kPoints, 1, kPoints, kPoints, in.leaf(g, i), g.width, sums.leaf(g, j));
    }
  };
  const auto whole = [](int32_t, int32_t) { return false; };
  const Traversal<decltype(pair), decltype(whole)> traversal{points, rule, pair, whole};
  // docs/numerics/kernels.md, K3.
  RoundRobin(points).visit(
      run, [&](int32_t a) { traversal.within(a); }, [&](int32_t a, int32_t c) { traversal.between(a, c); });
  sums.unpack(points, out, run);
}

template <class T>
void kernel_apply_rows(const KernelPoints& points, const KernelRule& rule, View<const T, 2> y, View<const double, 2> b,
                       View<double, 2> out, Run run) {
  const KernelPoints queries(y, rule, run);
  KernelColumns in(points.leaves, b.shape[1]), sums(queries.leaves, b.shape[1]);
  in.pack(points, b, run);
  sums.clear(run);
  const auto& gram = kernels().gram;
  for_chunks(queries.leaves, 1, run, [&](int64_t, int64_t i, int64_t) {
    alignas(64) double v[kPoints * kPoints];  // v[t, l] = κ of query l and point t of a leaf
    const double* const box = queries.box(queries.leaf_node[static_cast<size_t>(i)]);
    std::vector<int32_t> stack;
    // The right child is pushed first, so leaves come from left to right.
    if (points.n > 0) stack.push_back(0);
    // Leaves in their order. A leaf that is skipped has κ = 0 throughout, and s + 0·b = s: so a row's chain of
    // additions has the same bits whichever queries share its box.
    while (!stack.empty()) {
      const int32_t index = stack.back();
      stack.pop_back();
      if (apart(box, points.box(index), points.d, rule)) continue;
      const auto& node = points.nodes[static_cast<size_t>(index)];
      if (node.child >= 0) {
        stack.push_back(node.child + 1);
        stack.push_back(node.child);
        continue;
      }
      run.poll();
      const int64_t j = node.begin, count = points.count(j);
      gram.values(&rule, queries.tile(i), points.tile(j), 1, kPoints, count, points.d, v);
      for (size_t k = 0; k < in.groups().size(); ++k) {
        const auto &from = in.groups()[k], &to = sums.groups()[k];
        if (from.width <= 2)
          gram.add_lanes(v, count, from.width, in.leaf(from, j), sums.leaf(to, i), in.leaf(from, j), nullptr);
        else
          gram.add_product(v, 1, kPoints, kPoints, count, in.leaf(from, j), from.width, sums.leaf(to, i));
      }
    }
  });
  sums.unpack(queries, out, run);
}

template void kernel_apply_rows(const KernelPoints&, const KernelRule&, View<const float, 2>, View<const double, 2>,
                                View<double, 2>, Run);
template void kernel_apply_rows(const KernelPoints&, const KernelRule&, View<const double, 2>, View<const double, 2>,
                                View<double, 2>, Run);

}  // namespace knoll
