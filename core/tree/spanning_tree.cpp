#include "tree/spanning_tree.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/parallel.hpp"
#include "common/union_find.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kGrain = 1 << 14;

class Boruvka {
 public:
  Boruvka(const ReachabilitySearch& search, const NearestRows& rows, Run run)
      : search_(search), rows_(rows), core_(rows.core), run_(run), n_(search.size()) {
    tree_.edges = make_large_array<TreeEdge>(static_cast<size_t>(n_));
    component_ = make_large_array<int32_t>(static_cast<size_t>(n_));
  }

  SpanningTree run() {
    take_free_edges();
    tree_.components_after_lists = components_;
    while (components_ > 1 && round()) ++tree_.rounds;
    return std::move(tree_);
  }

 private:
  // The position of a list's entry that gives p a free edge, −1: none.
  int32_t free_end(int64_t p) const {
    for (int64_t rank = 0; rank < rows_.width; ++rank) {
      const int32_t q = rows_.near[p * rows_.width + rank];
      if (core_[q] < core_[p] || (core_[q] == core_[p] && q < p))
        return rank < rows_.within || search_.key(p, q) <= core_[p] ? q : -1;
    }
    return -1;
  }

  void take_free_edges() {
    UnionFind<int32_t> sets(n_);
    auto ends = make_large_array<int32_t>(static_cast<size_t>(n_));
    for_chunks(n_, kGrain, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        ends[static_cast<size_t>(p)] = free_end(p);
        if (ends[static_cast<size_t>(p)] >= 0) sets.unite_shared(static_cast<int32_t>(p), ends[static_cast<size_t>(p)]);
      }
    });
    for (int64_t p = 0; p < n_; ++p) {
      const int32_t q = ends[static_cast<size_t>(p)];
      if (q >= 0) add({core_[p], static_cast<int32_t>(p), q});
    }
    components_ = sets.labels(vector_view(component_.get(), n_), run_);
    sizes_.assign(static_cast<size_t>(components_), 0);
    for (int64_t p = 0; p < n_; ++p) ++sizes_[static_cast<size_t>(component_[static_cast<size_t>(p)])];
    open_ = make_large_array<int32_t>(static_cast<size_t>(n_));
    for (; open_count_ < n_; ++open_count_) open_[static_cast<size_t>(open_count_)] = static_cast<int32_t>(open_count_);
  }

  void add(TreeEdge edge) { tree_.edges[static_cast<size_t>(tree_.count++)] = edge; }

  // Joins every component but the largest with another one; false where none has an edge.
  bool round() {
    LeastEdges least(components_);
    offer_lists(least);
    const auto largest = static_cast<int32_t>(std::max_element(sizes_.begin(), sizes_.end()) - sizes_.begin());
    search_.leave({component_.get(), core_, rows_.cleared, largest}, least, run_);
    UnionFind<int32_t> sets(components_);
    const int64_t before = tree_.count;
    for (int32_t c = 0; c < components_; ++c) {
      const auto [key, a, b] = least.edge(c);
      if (c == largest || key == kInfinity) continue;  // what the largest was offered need not be its least edge
      if (sets.unite(c, component_[static_cast<size_t>(b)])) add({key, a, b});
    }
    std::vector<int32_t> label(static_cast<size_t>(components_));
    components_ = sets.labels(vector_view(label.data(), components_), run_);
    std::vector<int64_t> sizes(static_cast<size_t>(components_));
    for (size_t c = 0; c < label.size(); ++c) sizes[static_cast<size_t>(label[c])] += sizes_[c];
    sizes_.swap(sizes);
    for_chunks(n_, kGrain, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        component_[static_cast<size_t>(p)] = label[static_cast<size_t>(component_[static_cast<size_t>(p)])];
    });
    return tree_.count > before;
  }

  // Offers the edges of the lists; a row whose list lies within its component has none any more. Every edge of p has
  // m(p, ·) ≥ c(p), so one that is smaller than what p's component has is not p's; what p would offer to the other side
  // is found there, in a list or by the search.
  void offer_lists(LeastEdges& least) {
    std::vector<uint8_t> stays(static_cast<size_t>(open_count_));
    for_chunks(open_count_, kGrain, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t p = open_[static_cast<size_t>(i)], here = component_[static_cast<size_t>(p)];
        if (core_[p] >= least.key(here)) {
          stays[static_cast<size_t>(i)] = 1;
          continue;
        }
        for (int64_t rank = 0; rank < rows_.width; ++rank) {
          const int32_t q = rows_.near[p * rows_.width + rank], there = component_[static_cast<size_t>(q)];
          if (here == there) continue;
          stays[static_cast<size_t>(i)] = 1;
          const double bound = std::max(core_[p], core_[q]);
          if (bound >= least.key(here) && bound >= least.key(there)) continue;
          const double key = rank < rows_.within ? bound : std::max(bound, search_.key(p, q));
          least.offer(here, key, p, q);
          least.offer(there, key, q, p);
        }
      }
    });
    int64_t kept = 0;
    for (size_t i = 0; i < stays.size(); ++i)
      if (stays[i] != 0) open_[static_cast<size_t>(kept++)] = open_[i];
    open_count_ = kept;
  }

  const ReachabilitySearch& search_;
  const NearestRows& rows_;
  const double* const core_;
  const Run run_;
  const int64_t n_;
  int64_t components_ = 0;
  LargeArray<int32_t> component_;  // (n)
  std::vector<int64_t> sizes_;     // (components)
  LargeArray<int32_t> open_;       // rows with a list entry in another component
  int64_t open_count_ = 0;
  SpanningTree tree_;
};

}  // namespace

SpanningTree spanning_tree(const ReachabilitySearch& search, const NearestRows& rows, Run run) {
  return Boruvka(search, rows, run).run();
}

}  // namespace knoll
