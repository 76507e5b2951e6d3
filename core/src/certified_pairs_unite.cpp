// Connected components over certified pairs: only pairs that are not joined yet are looked at.
#include "certified_pairs_block.hpp"
#include "knoll/certified_pairs.hpp"
#include "knoll/parallel.hpp"

namespace knoll {

namespace {

// What is known to be joined, panel by panel. True is for good, so that it may be kept.
template <class T, class I>
class Joined {
 public:
  Joined(const Panels<T>& panels, const std::vector<uint32_t>& bits, UnionFind<I>& sets)
      : panels_(panels), bits_(bits), sets_(sets), whole_(bits.size()) {}

  I row(int64_t panel, int l) const {
    return static_cast<I>(panels_.rows[static_cast<size_t>(panel * kPairPanel + l)]);
  }
  uint32_t bits(int64_t panel) const { return bits_[static_cast<size_t>(panel)]; }

  // Are all rows of the panel one set?
  bool whole(int64_t panel) {
    std::atomic_ref<uint8_t> flag(whole_[static_cast<size_t>(panel)]);
    if (flag.load(std::memory_order_relaxed) != 0) return true;
    const I first = row(panel, std::countr_zero(bits(panel)));
    for (uint32_t rest = bits(panel); rest != 0; rest &= rest - 1)
      if (!sets_.same_shared(first, row(panel, std::countr_zero(rest)))) return false;
    flag.store(1, std::memory_order_relaxed);
    return true;
  }

  // Are all rows of both one set?
  bool both(int64_t a, int64_t b) {
    return whole(a) && whole(b) &&
           sets_.same_shared(row(a, std::countr_zero(bits(a))), row(b, std::countr_zero(bits(b))));
  }

 private:
  const Panels<T>& panels_;
  const std::vector<uint32_t>& bits_;
  UnionFind<I>& sets_;
  std::vector<uint8_t> whole_;  // (count)
};

// Unites the rows of panel `a`, which the block holds, with those of panel `b`.
template <class T, class I>
void unite_tile(Block<T>& block, int64_t a, int64_t b, double r2, Joined<T, I>& joined, UnionFind<I>& sets) {
  if (joined.both(a, b)) return void(++block.stats.discarded);
  Tile tile;
  block.judge(b, tile);

  // group[t]: lanes of b known to be in one set with lane t, so that a row needs one union for all of them.
  uint32_t group[kPairPanel];
  const bool whole = joined.whole(b);
  for (int t = 0; t < kPairPanel; ++t) group[t] = whole ? joined.bits(b) : uint32_t{1} << t;
  const auto join = [&](int l, uint32_t lanes) {
    uint32_t merged = 0;
    int parts = 0;
    for (uint32_t rest = lanes; rest != 0; ++parts) {
      const int t = std::countr_zero(rest);
      sets.unite_shared(joined.row(a, l), joined.row(b, t));
      merged |= group[t];
      rest &= ~group[t];
    }
    if (parts > 1) for_bits(merged, [&](int t) { group[t] = merged; });
    return merged;
  };

  uint32_t open[kPairPanel] = {};
  bool any = false;
  for_bits(joined.bits(a), [&](int l) {
    const uint32_t merged = join(l, tile.sure[l] & joined.bits(b));
    open[l] = tile.perhaps[l] & ~tile.sure[l] & joined.bits(b) & ~merged;
    any |= open[l] != 0;
  });
  if (!any || joined.both(a, b)) return;
  for_bits(joined.bits(a), [&](int l) {
    for_bits(open[l], [&](int t) {
      if (sets.same_shared(joined.row(a, l), joined.row(b, t))) open[l] &= ~(uint32_t{1} << t);
    });
  });
  block.decide(b, open, r2, tile);
  for_bits(joined.bits(a), [&](int l) { join(l, tile.sure[l] & open[l]); });
}

}  // namespace

template <class T>
template <class I>
PairStats CertifiedPairs<T>::unite(double r2, View<const uint8_t, 1> mask, UnionFind<I>& sets, Run run) const {
  const Panels<T>& panels = *panels_;
  const std::vector<uint32_t> bits = mask_bits(panels, mask);
  Joined<T, I> joined(panels, bits, sets);
  Tally tally;
  const auto prepare = [&](Block<T>& block, int64_t i) {
    run.poll();
    block.fill_panel(i);
    for_bits(bits[static_cast<size_t>(i)], [&](int l) { block.set_radius(l, r2); });
  };
  // Near panels first: what they join, the others need not look at.
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
    for (const auto& candidate : block.candidates(r2, bits.data(), i + 1)) {
      run.poll();
      unite_tile(block, i, candidate.panel, r2, joined, sets);
    }
    tally.add(block.stats);
  });
  return tally.total();
}

#define KNOLL_UNITE(T, I) \
  template PairStats CertifiedPairs<T>::unite(double, View<const uint8_t, 1>, UnionFind<I>&, Run) const
KNOLL_UNITE(double, int32_t);
KNOLL_UNITE(double, int64_t);
KNOLL_UNITE(float, int32_t);
KNOLL_UNITE(float, int64_t);
#undef KNOLL_UNITE

}  // namespace knoll
