#include "tree/density_tree.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/radix_sort.hpp"
#include "common/union_find.hpp"
#include "tree/condensed_tree.hpp"
#include "tree/spanning_tree.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kShortest = 8;  // rows of a list where min_samples asks for fewer: bounds for the first rounds
constexpr int64_t kLongest = 64;  // rows of a list that weights are bounded from
constexpr int64_t kGrain = 1 << 14;

// Edges upward by key; a stable sort, though no height depends on the order of equals.
std::vector<int32_t> ascending(const std::vector<TreeEdge>& edges, Run run) {
  const auto m = static_cast<int64_t>(edges.size());
  std::vector<uint64_t> keys(edges.size());
  std::vector<int32_t> order(edges.size());
  for_chunks(m, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      keys[static_cast<size_t>(e)] = order_key(edges[static_cast<size_t>(e)].key);
      order[static_cast<size_t>(e)] = static_cast<int32_t>(e);
    }
  });
  radix_sort(keys.data(), order.data(), m, run);
  return order;
}

// The order of the rows and the bars between them. Each component is a list of positions; joining two of them appends
// one list to the other, and the bar between them is the edge's key. A component that joined first lies inside of one
// that joined later, so every component of {m ≤ h} is an interval.
struct Chains {
  explicit Chains(int64_t n)
      : sets(n),
        last(make_large_array<int32_t>(static_cast<size_t>(n))),
        next(make_large_array<int32_t>(static_cast<size_t>(n))),
        bar(make_large_array<double>(static_cast<size_t>(n))) {
    for (int64_t p = 0; p < n; ++p) {
      last[static_cast<size_t>(p)] = static_cast<int32_t>(p);
      next[static_cast<size_t>(p)] = -1;
      bar[static_cast<size_t>(p)] = kInfinity;
    }
  }
  // Roots are lowest members, so a chain begins with its root and the higher root is appended.
  void join(int32_t a, int32_t b, double key) {
    a = sets.find(a), b = sets.find(b);
    if (a > b) std::swap(a, b);
    sets.unite(a, b);
    bar[static_cast<size_t>(b)] = key;
    next[static_cast<size_t>(last[static_cast<size_t>(a)])] = b;
    last[static_cast<size_t>(a)] = last[static_cast<size_t>(b)];
  }

  UnionFind<int32_t> sets;
  LargeArray<int32_t> last, next;  // of a root: the end of its chain; of a position: who follows
  LargeArray<double> bar;          // before a position
};

// The children of every node in the order of their lowest rows, so that order and bars are those of the tree, whichever
// of its spanning trees was found. `rows` has them in any order in which nodes are intervals.
void arrange(const std::vector<int64_t>& rows, const TreeNodes& nodes, View<int64_t, 1> order, View<double, 1> bars) {
  const auto n = static_cast<int64_t>(rows.size());
  const size_t count = nodes.height.size();
  std::vector<int32_t> position(static_cast<size_t>(n));  // of each row in `rows`
  for (int64_t i = 0; i < n; ++i) position[static_cast<size_t>(rows[static_cast<size_t>(i)])] = static_cast<int32_t>(i);
  std::vector<int64_t> lowest(count, n);
  for (int64_t i = 0; i < n; ++i)
    if (const int32_t v = nodes.leaf_parent[static_cast<size_t>(i)]; v >= 0)
      lowest[static_cast<size_t>(v)] = std::min(lowest[static_cast<size_t>(v)], rows[static_cast<size_t>(i)]);
  for (size_t v = 0; v < count; ++v)  // children first
    if (const int32_t up = nodes.parent[v]; up >= 0)
      lowest[static_cast<size_t>(up)] = std::min(lowest[static_cast<size_t>(up)], lowest[v]);

  // Rows upward: a row, and then the nodes whose lowest row it is, come next among the children of their parents.
  std::vector<int32_t> filled(count), offset(count), leaf_offset(static_cast<size_t>(n));
  for (int64_t row = 0; row < n; ++row) {
    const int32_t leaf = position[static_cast<size_t>(row)];
    int32_t v = nodes.leaf_parent[static_cast<size_t>(leaf)];
    if (v < 0) continue;
    leaf_offset[static_cast<size_t>(leaf)] = filled[static_cast<size_t>(v)]++;
    for (int32_t up = 0; lowest[static_cast<size_t>(v)] == row && (up = nodes.parent[static_cast<size_t>(v)]) >= 0;
         v = up) {
      offset[static_cast<size_t>(v)] = filled[static_cast<size_t>(up)];
      filled[static_cast<size_t>(up)] += nodes.end[static_cast<size_t>(v)] - nodes.begin[static_cast<size_t>(v)];
    }
  }
  // Parents first: where each child begins. A child that is not its parent's first has the parent's height before it.
  std::vector<int32_t> begin(count);
  if (n > 0) bars(0) = kInfinity;
  for (size_t v = count; v-- > 0;) {
    const int32_t up = nodes.parent[v];
    if (up < 0) continue;
    begin[v] = begin[static_cast<size_t>(up)] + offset[v];
    if (offset[v] > 0) bars(begin[v]) = nodes.height[static_cast<size_t>(up)];
  }
  for (int64_t i = 0; i < n; ++i) {
    const int32_t up = nodes.leaf_parent[static_cast<size_t>(i)];
    const int64_t at = up < 0 ? 0 : begin[static_cast<size_t>(up)] + leaf_offset[static_cast<size_t>(i)];
    order(at) = rows[static_cast<size_t>(i)];
    if (up >= 0 && leaf_offset[static_cast<size_t>(i)] > 0) bars(at) = nodes.height[static_cast<size_t>(up)];
  }
}

}  // namespace

template <class T>
DensityTreeReport density_tree(View<const T, 2> x, double min_samples, View<const double, 1> weights,
                               const Metric& metric, const std::string& backend, View<int64_t, 1> order,
                               View<double, 1> bars, View<double, 1> core, View<int32_t, 2> near,
                               View<int32_t, 2> edges, double alpha, Run run) {
  const int64_t n = x.shape[0];
  const auto search = ReachabilitySearch::make(x, metric, backend, run);
  DensityTreeReport report;
  report.backend = search->backend();
  if (n == 0) return report;

  const int64_t kept = near.shape[1];
  const int64_t wanted = weights.empty() ? std::max(kept, kShortest) : std::min<int64_t>(16, kLongest);
  const int64_t width = std::min(wanted, n - 1);
  const auto lists = make_large_array<int32_t>(static_cast<size_t>(n * width));
  const auto cores = make_large_array<double>(static_cast<size_t>(n));  // keys, by position
  if (width > 0) search->nearest(width, lists.get(), cores.get(), run);
  if (!weights.empty())
    search->weighted_core(weights, min_samples, cores.get(), run);
  else if (kept == 0)
    std::fill_n(cores.get(), n, 0.0);
  else if (kept < width)
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        cores[static_cast<size_t>(p)] = search->key(p, lists[static_cast<size_t>(p * width + kept - 1)]);
    });

  // max(c(x), c(y), d/α) = max(α c(x), α c(y), d) / α: the core distances are stretched, and the heights shrunk again.
  // Keys are distances or their squares.
  const double stretch = search->distance(4) == 4 * search->distance(1) ? alpha : alpha * alpha;
  if (alpha != 1)
    for (int64_t p = 0; p < n; ++p) cores[static_cast<size_t>(p)] *= stretch;

  SpanningTree tree = spanning_tree(*search, lists.get(), width, cores.get(), run);
  report.rounds = tree.rounds;
  report.components_after_lists = tree.components_after_lists;

  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t row = search->row(p);
      core(row) = search->distance(cores[static_cast<size_t>(p)]) / alpha;
      for (int64_t rank = 0; rank < kept; ++rank)
        near(row, rank) = static_cast<int32_t>(search->row(lists[static_cast<size_t>(p * width + rank)]));
    }
  });

  for (int64_t e = 0; e < edges.shape[0]; ++e) {  // fewer were found where distances are infinite
    const bool found = e < static_cast<int64_t>(tree.edges.size());
    edges(e, 0) = found ? static_cast<int32_t>(search->row(tree.edges[static_cast<size_t>(e)].a)) : -1;
    edges(e, 1) = found ? static_cast<int32_t>(search->row(tree.edges[static_cast<size_t>(e)].b)) : -1;
  }

  Chains chains(n);
  for (const int32_t e : ascending(tree.edges, run)) {
    const auto& [key, a, b] = tree.edges[static_cast<size_t>(e)];
    chains.join(a, b, search->distance(key) / alpha);
  }
  std::vector<int64_t> rows(static_cast<size_t>(n));
  int64_t at = 0;
  for (int64_t p = 0; p < n; ++p) {
    if (chains.sets.find(static_cast<int32_t>(p)) != p) continue;  // one chain, unless distances are infinite
    for (int32_t q = static_cast<int32_t>(p); q >= 0; q = chains.next[static_cast<size_t>(q)], ++at) {
      rows[static_cast<size_t>(at)] = search->row(q);
      bars(at) = chains.bar[static_cast<size_t>(q)];
    }
  }
  arrange(rows, tree_nodes(bars, run), order, bars);
  return report;
}

template DensityTreeReport density_tree(View<const double, 2>, double, View<const double, 1>, const Metric&,
                                        const std::string&, View<int64_t, 1>, View<double, 1>, View<double, 1>,
                                        View<int32_t, 2>, View<int32_t, 2>, double, Run);
template DensityTreeReport density_tree(View<const float, 2>, double, View<const double, 1>, const Metric&,
                                        const std::string&, View<int64_t, 1>, View<double, 1>, View<double, 1>,
                                        View<int32_t, 2>, View<int32_t, 2>, double, Run);

}  // namespace knoll
