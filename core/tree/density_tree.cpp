#include "tree/density_tree.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/prefetch.hpp"
#include "common/radix_sort.hpp"
#include "tree/condensed_tree.hpp"
#include "tree/spanning_tree.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kShortest = 8;   // rows of a list where min_samples requires fewer: bounds for the first rounds
constexpr int64_t kWeighted = 16;  // rows of a list where there are weights
constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kPollEvery = 1 << 16;

// Edges upward by height: both ends in one number.
struct SortedEdges {
  LargeArray<uint64_t> heights;  // as integers
  LargeArray<int64_t> ends;      // a·2³² + b
  int64_t count;

  SortedEdges(const SpanningTree& tree, const ReachabilitySearch& search, double alpha, Run run)
      : heights(make_large_array<uint64_t>(static_cast<size_t>(tree.count))),
        ends(make_large_array<int64_t>(static_cast<size_t>(tree.count))),
        count(tree.count) {
    const TreeEdge* const edges = tree.edges.get();
    for_chunks(count, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (auto e = static_cast<size_t>(begin); e < static_cast<size_t>(end); ++e) {
        // Distances are ≥ 0, so their bits order like them, and a distance orders like its key.
        heights[e] = std::bit_cast<uint64_t>(search.distance(edges[e].key) / alpha + 0.0);
        ends[e] = int64_t{edges[e].a} << 32 | edges[e].b;
      }
    });
  }
  void sort(Run run) { radix_sort(heights.get(), ends.get(), count, run); }
  double height(int64_t e) const { return std::bit_cast<double>(heights[static_cast<size_t>(e)]); }
  int32_t a(int64_t e) const { return static_cast<int32_t>(ends[static_cast<size_t>(e)] >> 32); }
  int32_t b(int64_t e) const { return static_cast<int32_t>(ends[static_cast<size_t>(e)] & 0xffffffff); }
};

// An order of the positions in which components are intervals. Joining two components puts one behind the other; a
// position knows its distance from the first position of the component that it was in when that was put behind another
// one, and by the sum of these distances where it is in the end. A component that joined first lies inside of one that
// joined later, so every component of {m ≤ h} is an interval.
class Chains {
 public:
  explicit Chains(int64_t n) : links_(make_large_array<Link>(static_cast<size_t>(n))) {
    for (int32_t p = 0; p < n; ++p) links_[static_cast<size_t>(p)] = {p, 0, 1, -1};
  }
  // Roots are lowest members, and the higher root is put behind.
  void join(int32_t a, int32_t b, int64_t edge) {
    a = find(a), b = find(b);
    if (a > b) std::swap(a, b);
    Link &first = at(a), &second = at(b);
    second.up = a;
    second.offset = first.size;
    second.edge = static_cast<int32_t>(edge);
    first.size += second.size;
  }
  void prefetch(int32_t p) const { knoll::prefetch(&links_[static_cast<size_t>(p)], 1); }
  // The edge that put a component behind another one whose first position is p; −1: none.
  int32_t edge(int32_t p) const { return links_[static_cast<size_t>(p)].edge; }

  // After the joins: puts the components themselves, several where distances are infinite, behind each other.
  void close(int64_t n) {
    int32_t before = 0;
    for (int32_t p = 0; p < n; ++p)
      if (at(p).up == p) at(p).offset = std::exchange(before, before + at(p).size);
  }
  // Where a position is in the order.
  int32_t rank(int32_t p) const {
    const Link* link = &links_[static_cast<size_t>(p)];
    int32_t sum = link->offset;
    for (; link->up != p; sum += link->offset) p = link->up, link = &links_[static_cast<size_t>(p)];
    return sum;
  }

 private:
  struct Link {
    int32_t up;      // towards the root of its component
    int32_t offset;  // from the position `up`; 0 of a root
    int32_t size;    // of a root's component
    int32_t edge;
  };
  Link& at(int32_t p) { return links_[static_cast<size_t>(p)]; }
  int32_t find(int32_t p) {  // every position passed is moved two steps up
    while (at(p).up != p) {
      Link &link = at(p), &above = at(link.up);
      link.offset += above.offset;
      p = link.up = above.up;
    }
    return p;
  }

  LargeArray<Link> links_;  // 16 bytes, in one line of memory
};

// Orders the rows by the children of every node, which come by their lowest rows, so that order and bars are those of
// the tree, whichever of its spanning trees was found. `rows` has them in any order in which nodes are intervals.
void arrange(const int32_t* rows, const TreeNodes& nodes, View<int64_t, 1> order, View<double, 1> bars, Run run) {
  struct Child {
    int32_t lowest;  // row
    int32_t which;   // a node, or −1 − an index of `rows`
  };
  const int64_t n = order.shape[0];
  const size_t count = nodes.height.size();
  if (n > 0) bars(0) = kInfinity;
  if (n == 1) order(0) = rows[0];
  // First the number of children, then where the next one of a node goes.
  const auto filled = make_large_array<uint32_t>(count + 1);
  std::fill_n(filled.get(), count + 1, 0u);
  for (const int32_t parent : nodes.leaf_parent)
    if (parent >= 0) ++filled[static_cast<size_t>(parent) + 1];
  for (const int32_t parent : nodes.parent)
    if (parent >= 0) ++filled[static_cast<size_t>(parent) + 1];
  for (size_t v = 0; v < count; ++v) filled[v + 1] += filled[v];
  const auto children = make_large_array<Child>(filled[count]);
  const auto add = [&](int32_t parent, Child child) {
    if (parent >= 0) children[filled[static_cast<size_t>(parent)]++] = child;
  };
  for (int32_t i = 0; i < n; ++i) add(nodes.leaf_parent[static_cast<size_t>(i)], {rows[i], -1 - i});
  // Children come before their parents: all children of v are there when v is reached, and end at filled[v].
  const auto first_child = [&](size_t v) { return v == 0 ? 0u : filled[v - 1]; };
  for (size_t v = 0; v < count; ++v) {
    if (v % kPollEvery == 0) run.poll();
    Child *const begin = children.get() + first_child(v), *const end = children.get() + filled[v];
    std::sort(begin, end, [](const Child& a, const Child& b) { return a.lowest < b.lowest; });
    add(nodes.parent[v], {begin->lowest, static_cast<int32_t>(v)});
  }
  // Parents first: where each child begins. A child that is not its parent's first has the parent's height before it.
  const auto begin = make_large_array<int32_t>(count);
  std::fill_n(begin.get(), count, 0);
  for (size_t v = count; v-- > 0;) {
    if (v % kPollEvery == 0) run.poll();
    int32_t at = begin[v];
    for (uint32_t c = first_child(v); c < filled[v]; ++c) {
      const int32_t which = children[c].which;
      if (at > begin[v]) bars(at) = nodes.height[v];
      if (which < 0) {
        order(at++) = rows[-1 - which];
      } else {
        const auto child = static_cast<size_t>(which);
        begin[child] = at;
        at += nodes.end[child] - nodes.begin[child];
      }
    }
  }
}

Chains joined(int64_t n, const SortedEdges& edges, Run run) {
  constexpr int64_t kAhead = 16;
  Chains chains(n);
  for (int64_t e = 0; e < edges.count; ++e) {
    if (e % kPollEvery == 0) run.poll();
    if (e + kAhead < edges.count) chains.prefetch(edges.a(e + kAhead)), chains.prefetch(edges.b(e + kAhead));
    chains.join(edges.a(e), edges.b(e), e);
  }
  chains.close(n);
  return chains;
}

// Rows in an order in which every component is an interval, and the bars between them. row_of (n): by position.
LargeArray<int32_t> ordered_rows(const int32_t* row_of, const Chains& chains, const SortedEdges& edges,
                                 View<double, 1> bars, Run run) {
  auto rows = make_large_array<int32_t>(static_cast<size_t>(bars.shape[0]));
  for_chunks(bars.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (auto p = static_cast<int32_t>(begin); p < end; ++p) {
      const int32_t rank = chains.rank(p), edge = chains.edge(p);
      rows[static_cast<size_t>(rank)] = row_of[p];
      bars(rank) = edge < 0 ? kInfinity : edges.height(edge);
    }
  });
  return rows;
}

// The lists of nearest rows, as wide as a spanning tree needs them, and core distances as keys; by position.
struct Lists {
  int64_t width;
  LargeArray<int32_t> own;           // their memory, unless they are where the result goes
  int32_t* near;                     // (n, width)
  LargeArray<double> core, cleared;  // (n) c(p); the key of the last of a list
};

// The least key of a row's list within which lies a weight of at least `mass`; −1: the list is too light. Rows that are
// not in the list are no nearer than its last, so they cannot lower it.
double weighted_core(const ReachabilitySearch& search, int64_t p, const Lists& lists, View<const double, 1> weights,
                     double mass) {
  ExactSum sum;
  sum.add(std::min(weights(search.row(p)), mass));
  if (sum.round() >= mass) return 0.0;
  for (int64_t rank = 0; rank < lists.width; ++rank) {
    const int32_t q = lists.near[p * lists.width + rank];
    sum.add(std::min(weights(search.row(q)), mass));
    if (sum.round() >= mass) return search.key(p, q);
  }
  return -1;
}

// `out` (n, kept) is where the lists go in the end; they are made there where it is as wide.
Lists lists_of(const ReachabilitySearch& search, View<int32_t, 2> out, View<const double, 1> weights,
               double min_samples, Run run) {
  const int64_t n = search.size(), kept = out.shape[1];
  const int64_t width = std::min(weights.empty() ? std::max(kept, kShortest) : kWeighted, n - 1);
  const bool there = kept == width && kept > 0 && out.stride[1] == 1 && out.stride[0] == kept;
  auto own = there ? LargeArray<int32_t>() : make_large_array<int32_t>(static_cast<size_t>(n * width));
  int32_t* const near = there ? out.data : own.get();
  Lists lists{width, std::move(own), near, make_large_array<double>(static_cast<size_t>(n)),
              make_large_array<double>(static_cast<size_t>(n))};
  double *const core = lists.core.get(), *const cleared = lists.cleared.get();
  if (width > 0)
    search.nearest(width, lists.near, cleared, run);
  else
    std::fill_n(cleared, n, kInfinity);
  if (!weights.empty()) {
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) core[p] = weighted_core(search, p, lists, weights, min_samples);
    });
    search.weighted_core(weights, min_samples, core, run);
  } else {
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        core[p] = kept == 0 ? 0.0 : kept < width ? search.key(p, lists.near[p * width + kept - 1]) : cleared[p];
    });
  }
  return lists;
}

// Moves record i of `width` numbers to record to[i], for all i, in place; `to` is a permutation of 0 … n − 1, and is
// overwritten. First to the right block of 2^kBits records: every exchange brings one record there, and the ends of all
// blocks stay in the cache. Then within the blocks.
void permute_records(int32_t* records, int64_t width, int32_t* to, int64_t n, Run run) {
  constexpr int kBits = 12;
  const int64_t blocks = chunk_count(n, int64_t{1} << kBits);
  std::vector<int64_t> next(static_cast<size_t>(blocks));  // the first record of a block that may belong elsewhere
  for (int64_t b = 0; b < blocks; ++b) next[static_cast<size_t>(b)] = b << kBits;
  for (int64_t b = 0; b < blocks; ++b) {
    run.poll();
    const int64_t end = std::min((b + 1) << kBits, n);
    for (int64_t& i = next[static_cast<size_t>(b)]; i < end;) {
      const int64_t block = to[i] >> kBits;
      if (block == b) {
        ++i;
        continue;
      }
      const int64_t other = next[static_cast<size_t>(block)]++;
      std::swap(to[i], to[other]);
      std::swap_ranges(records + i * width, records + (i + 1) * width, records + other * width);
    }
  }
  for_chunks(n, int64_t{1} << kBits, run, [&](int64_t, int64_t begin, int64_t end) {
    const std::vector<int32_t> block(records + begin * width, records + end * width);
    for (int64_t i = begin; i < end; ++i)
      std::copy_n(block.data() + (i - begin) * width, width, records + to[i] * width);
  });
}

// The lists by row, in place of those by position. row_of (n): by position.
void give_lists(const Lists& lists, const int32_t* row_of, View<int32_t, 2> out, Run run) {
  const int64_t n = out.shape[0], kept = out.shape[1];
  if (lists.near != out.data) {
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t rank = 0; rank < kept; ++rank) out(row_of[p], rank) = row_of[lists.near[p * lists.width + rank]];
    });
    return;
  }
  for_chunks(n * kept, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) lists.near[i] = row_of[lists.near[i]];
  });
  const auto to = make_large_array<int32_t>(static_cast<size_t>(n));
  std::copy_n(row_of, n, to.get());
  permute_records(lists.near, kept, to.get(), n, run);
}

// One number for each row in place of two for each edge: the tree as rows and the row above each. A row of one edge is
// taken off together with it, until no edge is left. `other` is the exclusive or of all rows at the other ends of a
// row's edges, so it is the one row where there is one edge. row_of (n): by position.
void give_links(const SortedEdges& edges, const int32_t* row_of, View<int32_t, 1> links) {
  const int64_t n = links.shape[0];
  struct Row {
    int32_t other, degree;
  };
  const auto rows = make_large_array<Row>(static_cast<size_t>(n));
  std::fill_n(rows.get(), n, Row{0, 0});
  const auto at = [&](int32_t p) -> Row& { return rows[static_cast<size_t>(p)]; };
  for (int64_t e = 0; e < edges.count; ++e) {
    const int32_t a = edges.a(e), b = edges.b(e);
    at(a).other ^= b, ++at(a).degree;
    at(b).other ^= a, ++at(b).degree;
  }
  for (int64_t p = 0; p < n; ++p) links(p) = -1;
  for (int32_t first = 0; first < n; ++first)
    for (int32_t p = first; at(p).degree == 1;) {
      const int32_t up = at(p).other;
      links(row_of[p]) = row_of[up];
      at(p).degree = 0;
      at(up).other ^= p, --at(up).degree;
      p = up;
    }
}

}  // namespace

template <class T>
DensityTreeReport density_tree(View<const T, 2> x, double min_samples, View<const double, 1> weights,
                               const Metric& metric, const std::string& backend, View<int64_t, 1> order,
                               View<double, 1> bars, View<double, 1> core, View<int32_t, 2> near,
                               View<int32_t, 1> links, double alpha, Run run) {
  const int64_t n = x.shape[0], kept = near.shape[1];
  auto search = ReachabilitySearch::make(x, metric, backend, run);
  DensityTreeReport report;
  report.backend = search->backend();
  if (n == 0) return report;

  Lists lists = lists_of(*search, near, weights, min_samples, run);
  // max(c(x), c(y), d/α) = max(α c(x), α c(y), d) / α: the core distances are stretched, and the heights shrunk again.
  // Keys are distances or their squares. Stretched, a core distance implies nothing for the distances in its list.
  const double stretch = search->distance(4) == 4 * search->distance(1) ? alpha : alpha * alpha;
  if (alpha != 1)
    for (int64_t p = 0; p < n; ++p) lists.core[static_cast<size_t>(p)] *= stretch;
  const int64_t within = alpha == 1 ? kept : 0;
  SpanningTree tree =
      spanning_tree(*search, {lists.near, lists.width, within, lists.core.get(), lists.cleared.get()}, run);
  report.rounds = tree.rounds;
  report.components_after_lists = tree.components_after_lists;
  lists.cleared.reset();

  auto row_of = make_large_array<int32_t>(static_cast<size_t>(n));  // by position
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      row_of[static_cast<size_t>(p)] = static_cast<int32_t>(search->row(p));
      core(search->row(p)) = search->distance(lists.core[static_cast<size_t>(p)]) / alpha;
    }
  });
  lists.core.reset();
  auto sorted = std::make_unique<SortedEdges>(tree, *search, alpha, run);
  tree.edges.reset();
  search.reset();
  sorted->sort(run);
  // The chains are joined by one thread; the lists are ordered beside it.
  std::unique_ptr<const Chains> chains;
  for_chunks(2, 1, run, [&](int64_t which, int64_t, int64_t) {
    if (which == 0) {
      chains = std::make_unique<const Chains>(joined(n, *sorted, run));
    } else {
      give_lists(lists, row_of.get(), near, run);
      if (!links.empty()) give_links(*sorted, row_of.get(), links);
    }
  });
  lists.own.reset();
  const auto rows = ordered_rows(row_of.get(), *chains, *sorted, bars, run);
  chains.reset(), sorted.reset(), row_of.reset();
  arrange(rows.get(), tree_nodes(bars, run), order, bars, run);
  return report;
}

template DensityTreeReport density_tree(View<const double, 2>, double, View<const double, 1>, const Metric&,
                                        const std::string&, View<int64_t, 1>, View<double, 1>, View<double, 1>,
                                        View<int32_t, 2>, View<int32_t, 1>, double, Run);
template DensityTreeReport density_tree(View<const float, 2>, double, View<const double, 1>, const Metric&,
                                        const std::string&, View<int64_t, 1>, View<double, 1>, View<double, 1>,
                                        View<int32_t, 2>, View<int32_t, 1>, double, Run);

}  // namespace knoll
