// The nearest row and the k nearest rows: each query's radius shrinks to the best that it has found, and the thresholds
// of the filter with it.
#include <cmath>

#include "common/parallel.hpp"
#include "neighbors/gower.hpp"
#include "neighbors/pair_filter.hpp"
#include "neighbors/pair_filter_block.hpp"
#include "neighbors/row_order.hpp"

namespace knoll {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// For each block: found = make(block); found.radius(l) is the largest D that can still change query l's answer, and
// found.offer(l, j, d2) passes a row with D ≤ radius(l). Panels come by their lower bound `gap`, upward; radii only
// shrink, so the first gap beyond the largest radius ends the search. Every possible pair is decided by D, so the
// answer is exact, ties included.
template <class T, class F>
PairStats search(const Panels<T>& q, const Panels<T>& panels, const std::vector<int64_t>& positions, double r2,
                 const std::vector<uint32_t>& bits, Run run, F&& make) {
  PairTally tally;
  for_chunks(static_cast<int64_t>(positions.size()), kPairPanel, run, [&](int64_t, int64_t begin, int64_t end) {
    Block<T> block(q, panels);
    block.fill(positions.data() + begin, end - begin);
    auto found = make(block);
    for (int l = 0; l < block.size(); ++l) block.set_radius(l, r2);
    // In units of x̂, as `gap` is.
    double reach = panels.bounds.reach(r2);
    std::vector<double> d2(kPairPanel * kPairPanel);
    for (const auto& candidate : block.candidates(r2, bits.data())) {
      // gap bounds the distance from below, reach the radius from above: no later row can change an answer (P8).
      if (candidate.gap > reach) break;  // later candidates are no nearer
      run.poll();
      Tile tile;
      block.classify(candidate.panel, tile);
      uint32_t any = 0;
      for (int l = 0; l < block.size(); ++l) any |= tile.possible[l] &= bits[static_cast<size_t>(candidate.panel)];
      if (any == 0) continue;
      // All possible pairs, sure ones too: the answer is the distance itself, not only whether it is within.
      block.distances(candidate.panel, tile.possible, d2.data());
      for (int l = 0; l < block.size(); ++l) {
        if (tile.possible[l] == 0) continue;
        for_bits(tile.possible[l], [&](int t) {
          const double here = d2[static_cast<size_t>(l * kPairPanel + t)];
          if (here <= found.radius(l))
            found.offer(l, panels.rows[static_cast<size_t>(candidate.panel * kPairPanel + t)], here);
        });
        // R is in the row's thresholds alone, so each query has its own (docs/numerics/pairs.md, P5).
        block.set_radius(l, found.radius(l));  // the filter of the next panels is tighter
      }
      double most = -1;
      // Candidates are those of the whole block, so the query that needs the farthest rows decides.
      for (int l = 0; l < block.size(); ++l) most = std::max(most, found.radius(l));
      reach = panels.bounds.reach(most);
    }
    found.finish();
    tally.add(block.stats);
  });
  return tally.total();
}

}  // namespace

template <class T>
PairStats PairFilter<T>::nearest(View<const PairNumber<T>, 2> queries, View<const uint8_t, 1> selected, double r2,
                                 View<const uint8_t, 1> mask, View<int64_t, 1> index, View<double, 1> d2,
                                 Run run) const {
  const PackedQueries<T> q(*panels_, queries, run);
  struct Best {
    const Block<T>& block;
    View<const PairNumber<T>, 2> x;
    View<int64_t, 1> index;
    View<double, 1> d2;
    double best[kPairPanel];
    int64_t at[kPairPanel];
    double radius(int l) const { return best[l]; }
    // D ≤ best: nearer, the first, or equal and before it in lexicographic order.
    void offer(int l, int64_t j, double here) {
      // best starts as r2, so the first row within it wins without a comparison.
      if (here < best[l] || at[l] < 0 || row_before(x, j, at[l])) best[l] = here, at[l] = j;
    }
    void finish() const {
      for (int l = 0; l < block.size(); ++l) {
        index(block.query(l)) = at[l];
        d2(block.query(l)) = at[l] < 0 ? kInf : best[l];
      }
    }
  };
  return search(*q, *panels_, positions_of(*q, selected), r2, mask_bits(*panels_, mask), run,
                [&](const Block<T>& block) {
                  Best best{block, panels_->x, index, d2, {}, {}};
                  std::fill_n(best.best, kPairPanel, r2);
                  std::fill_n(best.at, kPairPanel, -1);
                  return best;
                });
}

template <class T>
PairStats PairFilter<T>::knn(View<const PairNumber<T>, 2> queries, View<double, 2> d2, View<int64_t, 2> index,
                             Run run) const {
  const PackedQueries<T> q(*panels_, queries, run);
  const auto k = static_cast<size_t>(d2.shape[1]);
  if (k == 0) return {};
  struct Heaps {
    const Block<T>& block;
    View<double, 2> d2;
    View<int64_t, 2> index;
    size_t k;
    std::vector<std::pair<double, int64_t>> heaps[kPairPanel] = {};  // the worst on top
    // Inclusive: a row at the same D as the worst replaces it if its index is lower.
    double radius(int l) const { return heaps[l].size() < k ? kInf : heaps[l].front().first; }
    void offer(int l, int64_t j, double here) {
      auto& heap = heaps[l];
      const std::pair<double, int64_t> entry{here, j};
      if (heap.size() == k) {
        // (D, row) pairs: of equally far rows the lower one stays.
        if (!(entry < heap.front())) return;
        std::pop_heap(heap.begin(), heap.end());
        heap.back() = entry;
      } else {
        heap.push_back(entry);
      }
      std::push_heap(heap.begin(), heap.end());
    }
    void finish() {
      for (int l = 0; l < block.size(); ++l) {
        std::sort_heap(heaps[l].begin(), heaps[l].end());
        for (size_t r = 0; r < k; ++r) {
          const auto rank = static_cast<int64_t>(r);
          d2(block.query(l), rank) = r < heaps[l].size() ? heaps[l][r].first : kInf;
          index(block.query(l), rank) = r < heaps[l].size() ? heaps[l][r].second : -1;
        }
      }
    }
  };
  return search(*q, *panels_, positions_of(*q, {}), kInf, panels_->used, run,
                [&](const Block<T>& block) { return Heaps{block, d2, index, k}; });
}

#define KNOLL_SEARCH(T)                                                                                            \
  template PairStats PairFilter<T>::nearest(View<const PairNumber<T>, 2>, View<const uint8_t, 1>, double,          \
                                            View<const uint8_t, 1>, View<int64_t, 1>, View<double, 1>, Run) const; \
  template PairStats PairFilter<T>::knn(View<const PairNumber<T>, 2>, View<double, 2>, View<int64_t, 2>, Run) const
KNOLL_SEARCH(double);
KNOLL_SEARCH(float);
KNOLL_SEARCH(GowerRow);
#undef KNOLL_SEARCH

}  // namespace knoll
