#include "tree/density_tree.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/prefetch.hpp"
#include "common/radix_sort.hpp"
#include "tree/condensed_tree.hpp"
#include "tree/spanning_tree.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kShortest = 8;   // rows of a list where min_samples asks for fewer: bounds for the first rounds
constexpr int64_t kWeighted = 16;  // rows of a list where there are weights
constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kPollEvery = 1 << 16;

// Edges upward by height: both ends in one number.
struct SortedEdges {
  LargeArray<uint64_t> heights;  // as integers
  LargeArray<int64_t> ends;      // a·2³² + b
  int64_t count;

  SortedEdges(std::vector<TreeEdge> edges, const ReachabilitySearch& search, double alpha, Run run)
      : heights(make_large_array<uint64_t>(edges.size())),
        ends(make_large_array<int64_t>(edges.size())),
        count(static_cast<int64_t>(edges.size())) {
    for_chunks(count, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (auto e = static_cast<size_t>(begin); e < static_cast<size_t>(end); ++e) {
        // Distances are ≥ 0, so their bits order like them, and a distance orders like its key.
        heights[e] = std::bit_cast<uint64_t>(search.distance(edges[e].key) / alpha + 0.0);
        ends[e] = int64_t{edges[e].a} << 32 | edges[e].b;
      }
    });
    std::vector<TreeEdge>().swap(edges);
    radix_sort(heights.get(), ends.get(), count, run);
  }
  double height(int64_t e) const { return std::bit_cast<double>(heights[static_cast<size_t>(e)]); }
  int32_t a(int64_t e) const { return static_cast<int32_t>(ends[static_cast<size_t>(e)] >> 32); }
  int32_t b(int64_t e) const { return static_cast<int32_t>(ends[static_cast<size_t>(e)] & 0xffffffff); }
};

// The order of the rows and the bars between them. Each component is a list of positions; joining two of them appends
// one list to the other, and the bar between them is the edge's key. A component that joined first lies inside of one
// that joined later, so every component of {m ≤ h} is an interval.
class Chains {
 public:
  explicit Chains(int64_t n) : links_(make_large_array<Link>(static_cast<size_t>(n))) {
    for (int32_t p = 0; p < n; ++p) links_[static_cast<size_t>(p)] = {kInfinity, p, p, -1};
  }
  // Roots are lowest members, so a chain begins with its root and the higher root is appended.
  void join(int32_t a, int32_t b, double bar) {
    a = find(a), b = find(b);
    if (a > b) std::swap(a, b);
    Link &first = at(a), &second = at(b);
    second.bar = bar;
    second.up = a;
    at(first.last).next = b;
    first.last = second.last;
  }
  void prefetch(int32_t p) const { knoll::prefetch(&links_[static_cast<size_t>(p)], 1); }
  bool is_root(int32_t p) const { return links_[static_cast<size_t>(p)].up == p; }
  int32_t next(int32_t p) const { return links_[static_cast<size_t>(p)].next; }
  double bar(int32_t p) const { return links_[static_cast<size_t>(p)].bar; }

 private:
  struct Link {
    double bar;          // before the position
    int32_t up;          // towards the root of its component
    int32_t last, next;  // of a root: the end of its chain; of a position: who follows
  };
  Link& at(int32_t p) { return links_[static_cast<size_t>(p)]; }
  int32_t find(int32_t p) {  // every position passed is moved two steps up
    while (at(p).up != p) p = at(p).up = at(at(p).up).up;
    return p;
  }

  LargeArray<Link> links_;  // together, since a join touches all of them
};

// Orders the rows by the children of every node, which come by their lowest rows, so that order and bars are those of
// the tree, whichever of its spanning trees was found. `rows` has them in any order in which nodes are intervals.
void arrange(const std::vector<int32_t>& rows, const TreeNodes& nodes, View<int64_t, 1> order, View<double, 1> bars,
             Run run) {
  struct Child {
    int32_t lowest;  // row
    int32_t which;   // a node, or −1 − an index of `rows`
  };
  const auto n = static_cast<int64_t>(rows.size());
  const size_t count = nodes.height.size();
  if (n > 0) bars(0) = kInfinity;
  if (n == 1) order(0) = rows[0];
  std::vector<uint32_t> filled(count + 1);  // first the number of children, then where the next one of a node goes
  for (const int32_t parent : nodes.leaf_parent)
    if (parent >= 0) ++filled[static_cast<size_t>(parent) + 1];
  for (const int32_t parent : nodes.parent)
    if (parent >= 0) ++filled[static_cast<size_t>(parent) + 1];
  for (size_t v = 0; v < count; ++v) filled[v + 1] += filled[v];
  std::vector<Child> children(filled[count]);
  const auto add = [&](int32_t parent, Child child) {
    if (parent >= 0) children[filled[static_cast<size_t>(parent)]++] = child;
  };
  for (int32_t i = 0; i < n; ++i)
    add(nodes.leaf_parent[static_cast<size_t>(i)], {rows[static_cast<size_t>(i)], -1 - i});
  // Children come before their parents: all children of v are there when v is reached, and end at filled[v].
  const auto first_child = [&](size_t v) { return v == 0 ? 0u : filled[v - 1]; };
  for (size_t v = 0; v < count; ++v) {
    if (v % kPollEvery == 0) run.poll();
    const auto begin = children.begin() + first_child(v), end = children.begin() + filled[v];
    std::sort(begin, end, [](const Child& a, const Child& b) { return a.lowest < b.lowest; });
    add(nodes.parent[v], {begin->lowest, static_cast<int32_t>(v)});
  }
  // Parents first: where each child begins. A child that is not its parent's first has the parent's height before it.
  std::vector<int32_t> begin(count);
  for (size_t v = count; v-- > 0;) {
    if (v % kPollEvery == 0) run.poll();
    int32_t at = begin[v];
    for (uint32_t c = first_child(v); c < filled[v]; ++c) {
      const int32_t which = children[c].which;
      if (at > begin[v]) bars(at) = nodes.height[v];
      if (which < 0) {
        order(at++) = rows[static_cast<size_t>(-1 - which)];
      } else {
        const auto child = static_cast<size_t>(which);
        begin[child] = at;
        at += nodes.end[child] - nodes.begin[child];
      }
    }
  }
}

// Rows in an order in which every component is an interval, and the bars between them. row_of (n): by position.
std::vector<int32_t> chain_rows(const int32_t* row_of, int64_t n, const SortedEdges& edges, View<double, 1> bars,
                                Run run) {
  constexpr int64_t kAhead = 16;
  Chains chains(n);
  for (int64_t e = 0; e < edges.count; ++e) {
    if (e % kPollEvery == 0) run.poll();
    if (e + kAhead < edges.count) chains.prefetch(edges.a(e + kAhead)), chains.prefetch(edges.b(e + kAhead));
    chains.join(edges.a(e), edges.b(e), edges.height(e));
  }
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(n));
  for (int32_t p = 0; p < n; ++p) {
    if (!chains.is_root(p)) continue;  // one chain, unless distances are infinite
    for (int32_t q = p; q >= 0; q = chains.next(q)) {
      bars(static_cast<int64_t>(rows.size())) = chains.bar(q);
      rows.push_back(row_of[q]);
    }
  }
  return rows;
}

// The lists of nearest rows, as wide as a spanning tree needs them, and core distances as keys; by position.
struct Lists {
  int64_t width;
  LargeArray<int32_t> near;          // (n, width)
  LargeArray<double> core, cleared;  // (n) c(p); the key of the last of a list
};

Lists lists_of(const ReachabilitySearch& search, int64_t kept, View<const double, 1> weights, double min_samples,
               Run run) {
  const int64_t n = search.size();
  const int64_t width = std::min(weights.empty() ? std::max(kept, kShortest) : kWeighted, n - 1);
  Lists lists{width, make_large_array<int32_t>(static_cast<size_t>(n * width)),
              make_large_array<double>(static_cast<size_t>(n)), make_large_array<double>(static_cast<size_t>(n))};
  double *const core = lists.core.get(), *const cleared = lists.cleared.get();
  if (width > 0)
    search.nearest(width, lists.near.get(), cleared, run);
  else
    std::fill_n(cleared, n, kInfinity);
  if (!weights.empty()) {
    search.weighted_core(weights, min_samples, core, run);
  } else {
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        core[p] = kept == 0      ? 0.0
                  : kept < width ? search.key(p, lists.near[static_cast<size_t>(p * width + kept - 1)])
                                 : cleared[p];
    });
  }
  return lists;
}

}  // namespace

template <class T>
DensityTreeReport density_tree(View<const T, 2> x, double min_samples, View<const double, 1> weights,
                               const Metric& metric, const std::string& backend, View<int64_t, 1> order,
                               View<double, 1> bars, View<double, 1> core, View<int32_t, 2> near,
                               View<int32_t, 2> edges, double alpha, Run run) {
  const int64_t n = x.shape[0], kept = near.shape[1];
  auto search = ReachabilitySearch::make(x, metric, backend, run);
  DensityTreeReport report;
  report.backend = search->backend();
  if (n == 0) return report;

  Lists lists = lists_of(*search, kept, weights, min_samples, run);
  // max(c(x), c(y), d/α) = max(α c(x), α c(y), d) / α: the core distances are stretched, and the heights shrunk again.
  // Keys are distances or their squares. Stretched, a core distance says nothing of the distances in its list.
  const double stretch = search->distance(4) == 4 * search->distance(1) ? alpha : alpha * alpha;
  if (alpha != 1)
    for (int64_t p = 0; p < n; ++p) lists.core[static_cast<size_t>(p)] *= stretch;
  const int64_t within = alpha == 1 ? kept : 0;
  SpanningTree tree =
      spanning_tree(*search, {lists.near.get(), lists.width, within, lists.core.get(), lists.cleared.get()}, run);
  report.rounds = tree.rounds;
  report.components_after_lists = tree.components_after_lists;
  lists.cleared.reset();

  const auto row_of = make_large_array<int32_t>(static_cast<size_t>(n));  // by position
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      row_of[static_cast<size_t>(p)] = static_cast<int32_t>(search->row(p));
      core(search->row(p)) = search->distance(lists.core[static_cast<size_t>(p)]) / alpha;
    }
  });
  lists.core.reset();
  for (int64_t e = 0; e < edges.shape[0]; ++e) {  // fewer were found where distances are infinite
    const bool found = e < static_cast<int64_t>(tree.edges.size());
    edges(e, 0) = found ? row_of[static_cast<size_t>(tree.edges[static_cast<size_t>(e)].a)] : -1;
    edges(e, 1) = found ? row_of[static_cast<size_t>(tree.edges[static_cast<size_t>(e)].b)] : -1;
  }
  auto sorted = std::make_unique<const SortedEdges>(std::move(tree.edges), *search, alpha, run);
  search.reset();
  const std::vector<int32_t> rows = chain_rows(row_of.get(), n, *sorted, bars, run);
  sorted.reset();
  arrange(rows, tree_nodes(bars, run), order, bars, run);
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t rank = 0; rank < kept; ++rank)
        near(row_of[static_cast<size_t>(p)], rank) =
            row_of[static_cast<size_t>(lists.near[static_cast<size_t>(p * lists.width + rank)])];
  });
  return report;
}

template DensityTreeReport density_tree(View<const double, 2>, double, View<const double, 1>, const Metric&,
                                        const std::string&, View<int64_t, 1>, View<double, 1>, View<double, 1>,
                                        View<int32_t, 2>, View<int32_t, 2>, double, Run);
template DensityTreeReport density_tree(View<const float, 2>, double, View<const double, 1>, const Metric&,
                                        const std::string&, View<int64_t, 1>, View<double, 1>, View<double, 1>,
                                        View<int32_t, 2>, View<int32_t, 2>, double, Run);

}  // namespace knoll
