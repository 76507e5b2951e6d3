// Connected components by the pair filter. A pair whose rows are in one set already is never decided: it cannot change
// the components.
#include "common/parallel.hpp"
#include "neighbors/gower.hpp"
#include "neighbors/pair_filter.hpp"
#include "neighbors/pair_filter_block.hpp"

namespace knoll {

namespace {

// Which panels are one set. Unions never split a set, so true stays true: it is cached, and a relaxed read that comes
// late costs time only.
template <class T>
class Joined {
 public:
  Joined(const Panels<T>& panels, const std::vector<uint32_t>& bits, UnionFind<int32_t>& sets)
      : panels_(panels), bits_(bits), sets_(sets), whole_(bits.size()) {}

  int32_t row(int64_t panel, int l) const {
    return static_cast<int32_t>(panels_.rows[static_cast<size_t>(panel * kPairPanel + l)]);
  }
  uint32_t bits(int64_t panel) const { return bits_[static_cast<size_t>(panel)]; }

  // Whether all rows of the panel are one set.
  bool whole(int64_t panel) {
    // docs/numerics/concurrency.md, T7.
    std::atomic_ref<uint8_t> flag(whole_[static_cast<size_t>(panel)]);
    if (flag.load(std::memory_order_relaxed) != 0) return true;
    const int32_t first = row(panel, std::countr_zero(bits(panel)));
    for (uint32_t remaining = bits(panel); remaining != 0; remaining &= remaining - 1)
      if (!sets_.same_shared(first, row(panel, std::countr_zero(remaining)))) return false;
    flag.store(1, std::memory_order_relaxed);
    return true;
  }

  // Whether all rows of both panels are one set.
  bool both(int64_t a, int64_t b) {
    return whole(a) && whole(b) &&
           sets_.same_shared(row(a, std::countr_zero(bits(a))), row(b, std::countr_zero(bits(b))));
  }

 private:
  const Panels<T>& panels_;
  const std::vector<uint32_t>& bits_;
  UnionFind<int32_t>& sets_;
  std::vector<uint8_t> whole_;  // (count)
};

// Unites the rows of panel `a`, which the block holds, with those of panel `b`.
template <class T>
void unite_tile(Block<T>& block, int64_t a, int64_t b, double r2, Joined<T>& joined, UnionFind<int32_t>& sets) {
  // Nothing that the tile could show would change the components.
  if (joined.both(a, b)) return void(++block.stats.discarded);
  Tile tile;
  block.classify(b, tile);

  // group[t]: lanes of b known to be in one set with lane t, so that a row needs one union for all of them.
  uint32_t group[kPairPanel];
  const bool whole = joined.whole(b);
  for (int t = 0; t < kPairPanel; ++t) group[t] = whole ? joined.bits(b) : uint32_t{1} << t;
  const auto join = [&](int l, uint32_t lanes) {
    uint32_t merged = 0;
    int groups = 0;
    for (uint32_t remaining = lanes; remaining != 0; ++groups) {
      const int t = std::countr_zero(remaining);
      sets.unite_shared(joined.row(a, l), joined.row(b, t));
      merged |= group[t];
      remaining &= ~group[t];
    }
    // The row has joined these lanes, so they are one set from here on, for later rows too.
    if (groups > 1) for_bits(merged, [&](int t) { group[t] = merged; });
    return merged;
  };

  // Sure pairs first. An open pair whose lane is in a set that the row has just joined needs no decision.
  uint32_t open[kPairPanel] = {};
  bool any = false;
  for_bits(joined.bits(a), [&](int l) {
    const uint32_t merged = join(l, tile.sure[l] & joined.bits(b));
    open[l] = tile.possible[l] & ~tile.sure[l] & joined.bits(b) & ~merged;
    any |= open[l] != 0;
  });
  if (!any || joined.both(a, b)) return;
  for_bits(joined.bits(a), [&](int l) {
    for_bits(open[l], [&](int t) {
      if (sets.same_shared(joined.row(a, l), joined.row(b, t))) open[l] &= ~(uint32_t{1} << t);
    });
  });
  // Only pairs that are still in different sets are decided by the one distance.
  block.recheck(b, open, r2, tile);
  for_bits(joined.bits(a), [&](int l) { join(l, tile.sure[l] & open[l]); });
}

}  // namespace

template <class T>
PairStats PairFilter<T>::unite(double r2, View<const uint8_t, 1> mask, UnionFind<int32_t>& sets, Run run) const {
  const Panels<T>& panels = *panels_;
  const std::vector<uint32_t> bits = mask_bits(panels, mask);
  Joined<T> joined(panels, bits, sets);
  PairTally tally;
  const auto prepare = [&](Block<T>& block, int64_t i) {
    run.poll();
    block.fill_panel(i);
    // Rows off the mask keep high = low = ∞: none of their pairs is possible.
    for_bits(bits[static_cast<size_t>(i)], [&](int l) { block.set_radius(l, r2); });
  };
  // Neighbouring panels first: the tiles that they join are skipped below.
  for_chunks(panels.count, 8, run, [&](int64_t, int64_t begin, int64_t end) {
    Block<T> block(panels, panels);
    for (int64_t i = begin; i < end; ++i) {
      if (bits[static_cast<size_t>(i)] == 0) continue;
      prepare(block, i);
      unite_tile(block, i, i, r2, joined, sets);
      if (i + 1 < panels.count && bits[static_cast<size_t>(i + 1)] != 0) unite_tile(block, i, i + 1, r2, joined, sets);
    }
    tally.add(block.stats);
  });
  for_chunks(panels.count, 1, run, [&](int64_t, int64_t i, int64_t) {
    if (bits[static_cast<size_t>(i)] == 0) return;
    Block<T> block(panels, panels);
    prepare(block, i);
    // Later panels only: D is symmetric, and each pair of panels is visited from the earlier one.
    for (const auto& candidate : block.candidates(r2, bits.data(), i + 1)) {
      run.poll();
      unite_tile(block, i, candidate.panel, r2, joined, sets);
    }
    tally.add(block.stats);
  });
  return tally.total();
}

template PairStats PairFilter<double>::unite(double, View<const uint8_t, 1>, UnionFind<int32_t>&, Run) const;
template PairStats PairFilter<float>::unite(double, View<const uint8_t, 1>, UnionFind<int32_t>&, Run) const;
template PairStats PairFilter<GowerRow>::unite(double, View<const uint8_t, 1>, UnionFind<int32_t>&, Run) const;

}  // namespace knoll
