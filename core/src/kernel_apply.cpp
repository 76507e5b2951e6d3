#include "knoll/kernel_apply.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "knoll/kernel_columns.hpp"
#include "knoll/parallel.hpp"

namespace knoll {
namespace {

// Superblocks: the nodes of one level of the tree, a power of two of them. In round r the block a meets a ^ r: every
// two blocks meet once, and within a round no block meets two. Since the bits of a are the cuts of the tree, one
// round's pairs are about equally far apart, hence about equally much work where far pairs are left out.
struct Tournament {
  const KernelPoints& points;
  int64_t blocks, first;  // first: the number of the level's first node

  explicit Tournament(const KernelPoints& p)
      : points(p),
        blocks(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(p.leaves / 4, 1, 64))))),
        first(blocks - 1) {}

  // alone(node) for every block, then meet(node, node) round after round; calls of one round run at once.
  template <class Alone, class Meet>
  void play(Run run, Alone&& alone, Meet&& meet) const {
    if (points.n == 0) return;
    for_chunks(blocks, 1, run, [&](int64_t, int64_t a, int64_t) { alone(static_cast<int32_t>(first + a)); });
    for (int64_t round = 1; round < blocks; ++round) {
      const int64_t top = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(round)));
      for_chunks(blocks / 2, 1, run, [&](int64_t, int64_t pair, int64_t) {
        const int64_t a = (pair & (top - 1)) | (pair & ~(top - 1))
                                                   << 1;  // without the bit in which the two differ most
        meet(static_cast<int32_t>(first + a), static_cast<int32_t>(first + (a ^ round)));
      });
    }
  }
};

// Walks over the pairs of leaves of two nodes, or of one node with itself, that boxes do not set apart.
//   whole(node, node)   true: nothing is left to do here
//   pair(leaf, leaf)
template <class Pair, class Whole>
struct Walk {
  const KernelPoints& points;
  const KernelRule& rule;
  Pair& pair;
  Whole& whole;

  void alone(int32_t index) const {
    if (whole(index, index)) return;
    const auto& node = points.nodes[static_cast<size_t>(index)];
    if (node.child < 0) return pair(int64_t{node.begin}, int64_t{node.begin});
    alone(node.child);
    alone(node.child + 1);
    meet(node.child, node.child + 1);
  }
  void meet(int32_t a, int32_t b) const {
    if (apart(points.box(a), points.box(b), points.d, rule) || whole(a, b)) return;
    const auto &left = points.nodes[static_cast<size_t>(a)], &right = points.nodes[static_cast<size_t>(b)];
    if (left.child < 0 && right.child < 0) return pair(int64_t{left.begin}, int64_t{right.begin});
    if (right.child < 0 || (left.child >= 0 && left.end - left.begin >= right.end - right.begin)) {
      meet(left.child, b);
      meet(left.child + 1, b);
    } else {
      meet(a, right.child);
      meet(a, right.child + 1);
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
  // Nodes that are near each other as a whole are counted as a whole.
  const auto whole = [&](int32_t a, int32_t b) {
    run.poll();
    if (!together(points.box(a), points.box(b), points.d, rule)) return false;
    found += a == b ? size(a) * (size(a) + 1) / 2 : size(a) * size(b);
    return true;
  };
  if (points.n > 0) Walk<decltype(pair), decltype(whole)>{points, rule, pair, whole}.alone(0);
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
    alignas(64) double v[kPoints * kPoints];  // v[t, l] = κ of point l of leaf i and point t of leaf j
    gram.values(&rule, points.tile(i), points.tile(j), 1, kPoints, kPoints, points.d, v);
    for (const auto& g : in.groups()) {
      if (g.width <= 2) {
        gram.add_lanes(v, kPoints, g.width, in.leaf(g, j), sums.leaf(g, i), in.leaf(g, i),
                       i == j ? nullptr : sums.leaf(g, j));
        continue;
      }
      gram.add_product(v, 1, kPoints, kPoints, kPoints, in.leaf(g, j), g.width, sums.leaf(g, i));
      if (i != j) gram.add_product(v, kPoints, 1, kPoints, kPoints, in.leaf(g, i), g.width, sums.leaf(g, j));
    }
  };
  const auto whole = [](int32_t, int32_t) { return false; };
  const Walk<decltype(pair), decltype(whole)> walk{points, rule, pair, whole};
  Tournament(points).play(run, [&](int32_t a) { walk.alone(a); }, [&](int32_t a, int32_t c) { walk.meet(a, c); });
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
    if (points.n > 0) stack.push_back(0);
    while (!stack.empty()) {  // leaves in order: what is left out would have added zeros
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
