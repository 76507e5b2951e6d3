// Counting, weighing and listing neighbours by the pair filter.
#include "neighbors/pair_filter.hpp"

#include <cmath>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "neighbors/gower.hpp"
#include "neighbors/pair_filter_block.hpp"

namespace knoll {

namespace {

// Panels are in an order in which neighbours follow each other: five of them hold 160 rows, more than most min_samples.
constexpr int64_t kNear = 2;  // panels to either side that are counted first

// Transposes a matrix of bits: bit l of out[t] is bit t of in[l]. Halves of 16, 8, … 1 are swapped across the diagonal.
// So the second half of a symmetric pair costs 32 popcounts and no comparison.
void transpose_bits(const uint32_t* in, uint32_t* out) {
  std::copy_n(in, kPairPanel, out);
  uint32_t mask = 0x0000ffff;
  for (int width = 16; width != 0; width /= 2, mask ^= mask << width)
    for (int l = 0; l < kPairPanel; l = (l + width + 1) & ~width) {
      const uint32_t swapped = ((out[l] >> width) ^ out[l + width]) & mask;
      out[l + width] ^= swapped;
      out[l] ^= swapped << width;
    }
}

}  // namespace

template <>
PairFilter<double>::PairFilter(View<const double, 2> x, Run run)
    : panels_(std::make_unique<const Panels<double>>(x, choose_pivot(x, run), run)) {}
template <>
PairFilter<float>::PairFilter(View<const float, 2> x, Run run)
    : panels_(std::make_unique<const Panels<float>>(x, choose_pivot(x, run), run)) {}
template <>
PairFilter<GowerRow>::PairFilter(View<const double, 2> x, const Metric& gower, Run run)
    : panels_(std::make_unique<const Panels<GowerRow>>(x, std::make_shared<const GowerLayout>(x, gower), run)) {}
template <class T>
PairFilter<T>::~PairFilter() = default;
template <class T>
PairFilter<T>::PairFilter(PairFilter&&) noexcept = default;

namespace {

// Counts the rows' neighbours among themselves. D is symmetric, so every pair of panels is classified once and counts
// for both; tiles whose rows have all reached stop_at are skipped. Counts only grow, so "enough" stays true and a
// relaxed read of it that is late costs time only; min(stop_at, count) does not depend on which tiles were skipped.
template <class T>
PairStats count_pairs(const Panels<T>& panels, double r2, int64_t stop_at, View<int64_t, 1> out, Run run) {
  // D(x, x) = 0 ≤ r2 unless nothing is within.
  std::vector<int64_t> counts(panels.rows.size(), r2 >= 0 ? 1 : 0);  // a row is its own neighbour
  std::vector<uint8_t> done(static_cast<size_t>(panels.count));
  const auto at = [&](int64_t position) { return std::atomic_ref<int64_t>(counts[static_cast<size_t>(position)]); };
  // docs/numerics/concurrency.md, T7.
  const auto enough = [&](int64_t panel) {
    std::atomic_ref<uint8_t> flag(done[static_cast<size_t>(panel)]);
    if (flag.load(std::memory_order_relaxed) != 0) return true;
    const int members = count_bits(panels.used[static_cast<size_t>(panel)]);
    for (int l = 0; l < members; ++l)
      if (at(panel * kPairPanel + l).load(std::memory_order_relaxed) < stop_at) return false;
    flag.store(1, std::memory_order_relaxed);
    return true;
  };

  PairTally tally;
  for_chunks(panels.count, 1, run, [&](int64_t, int64_t i, int64_t) {
    Block<T> block(panels, panels);
    block.fill_panel(i);
    for (int l = 0; l < block.size(); ++l) block.set_radius(l, r2);
    for (const auto& candidate : block.candidates(r2, nullptr, i)) {
      const int64_t k = candidate.panel;
      run.poll();
      // Both: a tile counts for the rows of both panels.
      if (enough(k) && enough(i)) continue;
      Tile tile;
      block.classify(k, tile);
      uint32_t rows[kPairPanel] = {}, columns[kPairPanel];
      for (int l = 0; l < block.size(); ++l) rows[l] = k == i ? ~uint32_t{1} << l : ~uint32_t{0};  // later rows only
      // Open pairs by D; `sure` is exact for the pairs of `rows` afterwards (docs/numerics/pairs.md, P6).
      block.recheck(k, rows, r2, tile);
      for (int l = 0; l < kPairPanel; ++l) rows[l] &= tile.sure[l];
      // Row l of the one panel counts the bits of rows[l], row t of the other those of columns[t].
      transpose_bits(rows, columns);
      for (int l = 0; l < kPairPanel; ++l) {
        if (rows[l] != 0) at(i * kPairPanel + l).fetch_add(count_bits(rows[l]), std::memory_order_relaxed);
        if (columns[l] != 0) at(k * kPairPanel + l).fetch_add(count_bits(columns[l]), std::memory_order_relaxed);
      }
    }
    tally.add(block.stats);
  });
  for (size_t position = 0; position < counts.size(); ++position)
    if (panels.rows[position] >= 0) out(panels.rows[position]) = std::min(stop_at, counts[position]);
  return tally.total();
}

// Adds the neighbours of a block's rows in one panel. A row with stop_at of them gets a negative radius, so that no
// pair of it is possible any more. Returns whether all rows are done.
// Counts may pass stop_at; the callers return min(stop_at, count), which does not depend on where counting ended.
template <class T>
bool count_in_panel(Block<T>& block, int64_t panel, double r2, int64_t stop_at, int64_t* counts) {
  Tile tile;
  block.classify(panel, tile);
  uint32_t need[kPairPanel];
  for (int l = 0; l < block.size(); ++l) need[l] = counts[l] < stop_at ? ~uint32_t{0} : 0;
  block.recheck(panel, need, r2, tile);
  bool all = true;
  for (int l = 0; l < block.size(); ++l) {
    if (need[l] == 0) continue;
    counts[l] += count_bits(tile.sure[l]);
    if (counts[l] >= stop_at)
      block.set_radius(l, -1.0);
    else
      all = false;
  }
  return all;
}

}  // namespace

template <class T>
PairStats PairFilter<T>::count(View<const PairNumber<T>, 2> queries, double r2, int64_t stop_at, View<int64_t, 1> out,
                               Run run) const {
  const PackedQueries<T> q(*panels_, queries, run);
  const bool self = &*q == panels_.get();
  std::vector<int64_t> positions = positions_of(*q, {});
  PairTally tally;

  // In dense regions the panels next to a row's own have enough neighbours.
  // A row that finds stop_at neighbours there needs no candidates, no sort and no other panel.
  if (self && stop_at <= (2 * kNear + 1) * kPairPanel) {
    for_chunks(q->count, 8, run, [&](int64_t, int64_t begin, int64_t end) {
      Block<T> block(*q, *q);
      for (int64_t i = begin; i < end; ++i) {
        run.poll();
        int64_t counts[kPairPanel] = {};
        block.fill_panel(i);
        for (int l = 0; l < block.size(); ++l) block.set_radius(l, r2);
        bool all = count_in_panel(block, i, r2, stop_at, counts);
        for (int64_t step = 1; step <= kNear && !all; ++step) {
          if (i - step >= 0) all = count_in_panel(block, i - step, r2, stop_at, counts);
          if (i + step < q->count && !all) all = count_in_panel(block, i + step, r2, stop_at, counts);
        }
        for (int l = 0; l < block.size(); ++l) out(block.query(l)) = std::min(stop_at, counts[l]);
      }
      tally.add(block.stats);
    });
    // Rows with enough neighbours are done; the others start again from zero among their candidates.
    std::erase_if(positions, [&](int64_t position) { return out(q->rows[static_cast<size_t>(position)]) >= stop_at; });
  }
  // Where most rows are left, symmetric tiles need half the work; where few are, they are packed 32 to a block.
  if (self && 2 * static_cast<int64_t>(positions.size()) > queries.shape[0]) {
    tally.add(count_pairs(*panels_, r2, stop_at, out, run));
    return tally.total();
  }

  for_chunks(static_cast<int64_t>(positions.size()), kPairPanel, run, [&](int64_t, int64_t begin, int64_t end) {
    Block<T> block(*q, *panels_);
    int64_t counts[kPairPanel] = {};
    block.fill(positions.data() + begin, end - begin);
    for (int l = 0; l < block.size(); ++l) block.set_radius(l, r2);
    // Nearest panels first, so dense rows are done early.
    for (const auto& candidate : block.candidates(r2, nullptr)) {
      run.poll();
      if (count_in_panel(block, candidate.panel, r2, stop_at, counts)) break;
    }
    for (int l = 0; l < block.size(); ++l) out(block.query(l)) = std::min(stop_at, counts[l]);
    tally.add(block.stats);
  });
  return tally.total();
}

// For each block, visit = make(block): visit(l, js, count) receives neighbours of query l among the rows of `bits`, and
// visit.finish() is called last. A block is one thread's, so calls for a query never overlap.
template <class T, class F>
static PairStats list_neighbours(const Panels<T>& q, const Panels<T>& panels, const std::vector<int64_t>& positions,
                                 double r2, const std::vector<uint32_t>& bits, Run run, F&& make) {
  PairTally tally;
  for_chunks(static_cast<int64_t>(positions.size()), kPairPanel, run, [&](int64_t, int64_t begin, int64_t end) {
    Block<T> block(q, panels);
    block.fill(positions.data() + begin, end - begin);
    for (int l = 0; l < block.size(); ++l) block.set_radius(l, r2);
    auto visit = make(block);
    int64_t js[kPairPanel];
    for (const auto& candidate : block.candidates(r2, bits.data())) {
      run.poll();
      Tile tile;
      block.classify(candidate.panel, tile);
      const uint32_t allowed = bits[static_cast<size_t>(candidate.panel)];
      uint32_t need[kPairPanel];
      std::fill_n(need, kPairPanel, allowed);
      block.recheck(candidate.panel, need, r2, tile);
      for (int l = 0; l < block.size(); ++l) {
        int64_t count = 0;
        for_bits(tile.sure[l] & allowed,
                 [&](int t) { js[count++] = panels.rows[static_cast<size_t>(candidate.panel * kPairPanel + t)]; });
        if (count != 0) visit(l, js, count);
      }
    }
    visit.finish();
    tally.add(block.stats);
  });
  return tally.total();
}

template <class T>
PairStats PairFilter<T>::neighbours(View<const PairNumber<T>, 2> queries, View<const uint8_t, 1> selected, double r2,
                                    View<const uint8_t, 1> mask, Run run, Visit visit, void* context) const {
  const PackedQueries<T> q(*panels_, queries, run);
  struct Forward {
    const Block<T>& block;
    Visit visit;
    void* context;
    void operator()(int l, const int64_t* js, int64_t count) { visit(context, block.query(l), js, count); }
    void finish() {}
  };
  return list_neighbours(*q, *panels_, positions_of(*q, selected), r2, mask_bits(*panels_, mask), run,
                         [&](const Block<T>& block) { return Forward{block, visit, context}; });
}

template <class T>
PairStats PairFilter<T>::weigh(View<const PairNumber<T>, 2> queries, double r2, View<const double, 1> weights,
                               View<double, 1> out, Run run) const {
  const PackedQueries<T> q(*panels_, queries, run);
  // Whole numbers with Σ|w| < 2^53 add up without rounding, in any order.
  double total = 0;
  bool whole = true;
  for (int64_t i = 0; i < weights.shape[0] && whole; ++i) {
    total += std::abs(weights(i));
    whole = weights(i) == std::trunc(weights(i)) && total < 0x1p53;
  }
  // One set of sums per block of 32 queries, which one thread has: nothing is shared.
  struct Sums {
    const Block<T>& block;
    View<const double, 1> weights;
    View<double, 1> out;
    bool whole;
    std::vector<ExactSum> exact = std::vector<ExactSum>(whole ? 0 : kPairPanel);
    double plain[kPairPanel] = {};
    void operator()(int l, const int64_t* js, int64_t count) {
      if (whole)
        for (int64_t k = 0; k < count; ++k) plain[l] += weights(js[k]);
      else
        for (int64_t k = 0; k < count; ++k) exact[static_cast<size_t>(l)].add(weights(js[k]));
    }
    void finish() {
      for (int l = 0; l < block.size(); ++l)
        out(block.query(l)) = whole ? plain[l] + 0.0 : exact[static_cast<size_t>(l)].round();
    }
  };
  return list_neighbours(*q, *panels_, positions_of(*q, {}), r2, panels_->used, run,
                         [&](const Block<T>& block) { return Sums{block, weights, out, whole}; });
}

template class PairFilter<double>;
template class PairFilter<float>;
template class PairFilter<GowerRow>;

}  // namespace knoll
