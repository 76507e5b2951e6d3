// Numbering, sorting and traversing the grid cells.
#include "neighbors/grid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/parallel.hpp"
#include "common/radix_sort.hpp"
#include "neighbors/index.hpp"

namespace knoll {
namespace {

// kAhead: rows prefetched before a gather from anywhere in X needs them.
constexpr int64_t kRowsAtOnce = 1 << 14, kAhead = 24;
constexpr double kMaxCells = 0x1p30;  // along an axis, before its empty intervals are cut out
// The side s of a cell (docs/numerics/index.md, X2 and X3). A cell's number along an axis is a quotient below 2^30, so
// it errs by less than 2^−20 of a cell: points of a cell differ by at most s·(1 + 2^−20) along an axis, and points
// within ε by at most ε/s + 2^−20 cells.
//
//   d ≤ 3   s = ε/√d·(1 − 2^−16), as large as possible: the diagonal √d·s·(1 + 2^−20) < ε after all roundings. Points
//           within ε differ by at most √3·(1 + 2^−15) < 2 cells along an axis, so two cells make a block.
//   d > 3   Blocks must be small: three cells, 3s = ε·(1 + 2^−10). A cell's diagonal is √d/3 of that, < ε for d ≤ 8.
//
// In both cases a block's side exceeds ε, so neighbours are in blocks that touch.
double side_of(double eps, int64_t d) {
  return d <= 3 ? eps / std::sqrt(static_cast<double>(d)) * (1 - 0x1p-16) : eps / 3 * (1 + 0x1p-10);
}

// Buckets of about kBucketPoints points, which fit in the second cache level.
constexpr int64_t kBucketPoints = 2048, kMostInBucket = 1 << 16, kBucketsAtOnce = 8;
// One thread sorts a bucket while it is in the cache. With more than max(2^16, n/8) points in one, another sort is
// used.
constexpr int kMostLeading = 11, kDigit = 11;  // bits: 2^11 write positions are as many lines as the caches hold

// body(d) with a number of columns that the compiler knows.
template <class F>
void with_dims(int64_t d, F&& body) {
  if (d == 1) return body(std::integral_constant<int, 1>());
  if (d == 2) return body(std::integral_constant<int, 2>());
  if (d == 3) return body(std::integral_constant<int, 3>());
  if (d == 4) return body(std::integral_constant<int, 4>());
  body(std::integral_constant<int, 5>());
}

}  // namespace

// The number of row i's cell: its block's number, Σ_j step_j·block_j, then one or two bits per axis for the cell in it.
// It is computed twice rather than stored: fresh memory costs more.
template <int D, class T>
struct Grid::CellNumber {
  View<const T, 2> x;
  double low[D], per_side;
  uint64_t first, step[D];

  uint64_t operator()(int64_t i) const {
    constexpr uint32_t kPerAxis = D <= 3 ? 2 : 3, kAxisBits = D <= 3 ? 1 : 2;
    uint64_t block = first;
    uint32_t cell = 0;
    for (uint32_t j = 0; j < D; ++j) {
      // Truncation is floor for numbers ≥ 0. The product with 1/side errs by less than 2^−20 below 2^30 (X2).
      const auto along = static_cast<uint32_t>((static_cast<double>(x(i, j)) - low[j]) * per_side);
      block += step[j] * (along / kPerAxis);
      cell |= along % kPerAxis << j * kAxisBits;
    }
    return block << D * kAxisBits | cell;
  }
};

template <class T>
Grid::Grid(View<const T, 2> x, double eps, Run run, GridWorkspace workspace)
    : n_(x.shape[0]),
      d_(x.shape[1]),
      stride_(n_ + 4),
      per_axis_(d_ <= 3 ? 2 : 3),
      cell_bits_(static_cast<int>(d_) * (d_ <= 3 ? 1 : 2)) {
  check_row_count(n_);
  // Squares near ε² are normal numbers then; the tree handles other ε.
  ok_ = d_ >= 1 && d_ <= kMostDims && eps >= 0x1p-450 && eps <= 0x1p450;
  if (!ok_) return;
  const auto n = static_cast<size_t>(n_), numbers = static_cast<size_t>(d_ * stride_);
  if (workspace.columns == nullptr) own_columns_ = make_large_array<double>(numbers);
  if (workspace.entries == nullptr) own_entries_ = make_large_array<Entry>(n);
  columns_ = workspace.columns == nullptr ? own_columns_.get() : workspace.columns;
  entries_ = workspace.entries == nullptr ? own_entries_.get() : reinterpret_cast<Entry*>(workspace.entries);
  touch_pages(columns_, numbers * sizeof(double), run);
  touch_pages(entries_, n * sizeof(Entry), run);
  for (int64_t j = 0; j < d_; ++j)
    std::fill_n(columns_ + j * stride_ + n_, 4, 0.0);  // read past the last point, never used

  const Extent grid = extent(x, eps, run);
  with_dims(d_, [&](auto d) {
    // Below 2^62, so that a neighbour's number, an offset of either sign away, fits an int64.
    if (grid.few && grid.all_cells < 0x1p62) {
      CellNumber<d, T> key{x, {}, 1 / grid.side, 0, {}};
      for (int64_t j = 0, step = 1; j < d; step *= grid.width[j++]) {
        key.low[j] = grid.low[j];
        key.step[j] = static_cast<uint64_t>(step_[j] = step);
        // Block numbers begin at 1 along every axis, so that no neighbour has a negative number.
        key.first += key.step[j];
      }
      return sort<d>(x, key, grid.all_cells, run);
    }
    const auto keys = make_large_array<uint64_t>(n);
    double all = 0;
    ok_ = number_with_gaps(x, grid.side, keys.get(), all, run);
    if (ok_) sort<d>(x, [&](int64_t i) { return keys[static_cast<size_t>(i)]; }, all, run);
  });
}

// Minima and maxima are the same in any order of merging. Four blocks more than the data spans along an axis, so that
// neither a neighbour's number nor a quotient that was rounded up runs into the next row of blocks.
template <class T>
Grid::Extent Grid::extent(View<const T, 2> x, double eps, Run run) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Extent out;
  std::fill(out.low, out.low + kMostDims, kInfinity);
  std::fill(out.high, out.high + kMostDims, -kInfinity);
  const Extent empty = out;
  std::mutex mutex;
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    Extent mine = empty;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < d_; ++j) {
        const auto value = static_cast<double>(x(i, j));
        mine.low[j] = std::min(mine.low[j], value);
        mine.high[j] = std::max(mine.high[j], value);
      }
    std::lock_guard lock(mutex);
    for (int64_t j = 0; j < d_; ++j) {
      out.low[j] = std::min(out.low[j], mine.low[j]);
      out.high[j] = std::max(out.high[j], mine.high[j]);
    }
  });
  out.side = side_of(eps, d_);
  for (int64_t j = 0; j < d_; ++j) {
    const double along = n_ == 0 ? 0 : std::floor((out.high[j] - out.low[j]) / out.side);
    // Beyond 2^30 cells the quotient no longer errs by less than 2^−20; false for NaN and ∞ as well.
    out.few = out.few && along < kMaxCells;
    if (!out.few) break;
    out.width[j] = static_cast<int64_t>(along) / per_axis_ + 4;  // see above
    out.all_cells *= static_cast<double>(out.width[j]);
  }
  out.all_cells = std::ldexp(out.all_cells, cell_bits_);
  return out;
}

template <class T>
bool Grid::number_with_gaps(View<const T, 2> x, double side, uint64_t* keys, double& all, Run run) {
  std::fill(keys, keys + n_, 0);
  uint64_t step = 1;
  for (int64_t j = 0; j < d_; ++j) {
    uint64_t along = 0;
    step_[j] = static_cast<int64_t>(step);
    if (!number_axis(x, j, side, step, keys, along, run)) return false;
    // In float64, since a product of two 62-bit integers may overflow.
    if (static_cast<double>(step) * static_cast<double>(along) >= std::ldexp(1.0, 62 - cell_bits_)) return false;
    step *= along;
  }
  all = std::ldexp(static_cast<double>(step), cell_bits_);
  return true;
}

// Numbers one axis with its empty intervals cut out: a run of points without a gap of more than per_axis + 2 cells is
// numbered from its own first point on, so that neither a large offset nor a huge gap costs digits. The next run starts
// more than `reach` cells after the last point, so no cell has points of two runs, which are more than ε apart.
template <class T>
bool Grid::number_axis(View<const T, 2> x, int64_t axis, double side, uint64_t step, uint64_t* keys, uint64_t& width,
                       Run run) {
  const auto n = static_cast<size_t>(n_);
  std::vector<uint64_t> order(n);
  std::vector<int32_t> rows(n);
  for (size_t i = 0; i < n; ++i) order[i] = order_key(static_cast<double>(x(static_cast<int64_t>(i), axis)));
  std::iota(rows.begin(), rows.end(), 0);
  radix_sort(order.data(), rows.data(), n_, run);
  double first = static_cast<double>(x(rows[0], axis)), last = first;
  const auto reach = static_cast<uint64_t>(per_axis_);  // cells that differ by more along the axis are not within ε
  uint64_t from = reach, cell = reach;                  // the number of the run's first cell, and of the latest point's
  for (const int32_t i : rows) {
    const auto value = static_cast<double>(x(i, axis));
    if (value - last > (per_axis_ + 2) * side) {
      first = value;
      from = cell + reach + 1;
    }
    const double along = (value - first) / side;
    if (!(along < kMaxCells)) return false;
    last = value;
    cell = from + static_cast<uint64_t>(along);
    keys[i] += (step * (cell / reach) << cell_bits_) + (cell % reach << axis * (cell_bits_ / d_));
  }
  width = cell / reach + 2;
  return true;
}

template <int D, class T, class Key>
void Grid::sort(View<const T, 2> x, const Key& key, double all, Run run) {
  if (sort_in_buckets<D>(x, key, all, run)) return;
  if (all < 0x1p32)  // short numbers are sorted in less time and memory
    sort_at_once<uint32_t>(x, key, run);
  else
    sort_at_once<uint64_t>(x, key, run);
}

// Sorts the points by the number of their cell in two steps that stay within the caches: into buckets by the leading
// bits, rows in order; then each bucket by the lower bits. shift ≥ cell_bits_, so a block is in one bucket. Points are
// sorted in the arrays where they stay. Returns false, with nothing done, where too many points are in one bucket or
// more than 32 lower bits remain.
template <int D, class T, class Key>
bool Grid::sort_in_buckets(View<const T, 2> x, const Key& key, double all, Run run) {
  const int bits = std::ilogb(all) + 1;
  const int leading = std::clamp(std::ilogb(static_cast<double>(n_) / kBucketPoints + 1), 1, kMostLeading);
  // Whole blocks stay in one bucket, so a block's cells are found within it.
  const int shift = std::max(cell_bits_, bits - leading);
  if (n_ < kBucketPoints || shift > 32) return false;
  const auto buckets = static_cast<size_t>(static_cast<uint64_t>(all) >> shift) + 1;
  const int64_t grain = std::max(kRowsAtOnce, (n_ - 1) / 64 + 1);

  // How many points of each chunk of rows go to each bucket; after the prefix sum, the position of the next of them.
  // The sort is stable: buckets first, chunks in order within a bucket.
  std::vector<std::vector<int32_t>> next_of_chunk(static_cast<size_t>(chunk_count(n_, grain)),
                                                  std::vector<int32_t>(buckets));
  for_chunks(n_, grain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    int32_t* const count = next_of_chunk[static_cast<size_t>(chunk)].data();
    // The number is computed here and once more below: an array of numbers would be 8 bytes of fresh memory a row.
    for (int64_t i = begin; i < end; ++i) ++count[key(i) >> shift];
  });
  std::vector<int32_t> bucket_begin(buckets + 1);
  int32_t next = 0, most = 0;
  for (size_t b = 0; b < buckets; ++b) {
    bucket_begin[b] = next;
    for (auto& of_chunk : next_of_chunk) of_chunk[b] = std::exchange(next, next + of_chunk[b]);
    most = std::max(most, next - bucket_begin[b]);
  }
  bucket_begin[buckets] = next;
  if (most > std::max(kMostInBucket, n_ / 8)) return false;

  const auto mask = static_cast<uint32_t>((uint64_t{1} << shift) - 1);
  for_chunks(n_, grain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    int32_t* const to = next_of_chunk[static_cast<size_t>(chunk)].data();
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t number = key(i);
      const int32_t p = to[number >> shift]++;
      entries_[p] = {static_cast<uint32_t>(number) & mask, static_cast<int32_t>(i)};
      for (int64_t j = 0; j < D; ++j) columns_[j * stride_ + p] = static_cast<double>(x(i, j));
    }
  });

  sort_each_bucket(bucket_begin, shift, run);
  return true;
}

// Sorts each bucket by a stable radix sort of an index, digits of up to kDigit bits, the lowest first; then moves the
// points once.
void Grid::sort_each_bucket(const std::vector<int32_t>& bucket_begin, int shift, Run run) {
  const size_t buckets = bucket_begin.size() - 1;
  // As few digits as 11 bits allow, all of about equal length.
  const int passes = (shift + kDigit - 1) / kDigit, digit = (shift + passes - 1) / passes;
  std::vector<Count> counts(buckets);
  for_chunks(static_cast<int64_t>(buckets), kBucketsAtOnce, run, [&](int64_t, int64_t first_bucket, int64_t last) {
    std::vector<int32_t> to(size_t{1} << digit), order, before;
    std::vector<Entry> from;
    std::vector<double> at;
    for (int64_t bucket = first_bucket; bucket < last; ++bucket) {
      const int32_t begin = bucket_begin[static_cast<size_t>(bucket)],
                    end = bucket_begin[static_cast<size_t>(bucket) + 1];
      const auto m = static_cast<size_t>(end - begin);
      if (m == 0) continue;
      from.assign(entries_ + begin, entries_ + end);
      for (int pass = 0; pass < passes; ++pass) {
        const auto value = [&](size_t k) { return from[k].low_bits >> pass * digit & ((uint32_t{1} << digit) - 1); };
        std::fill(to.begin(), to.end(), 0);
        for (size_t k = 0; k < m; ++k) ++to[value(k)];
        int32_t sum = 0;
        for (int32_t& count : to) count = std::exchange(sum, sum + count);
        before.swap(order);
        order.resize(m);
        for (size_t i = 0; i < m; ++i) {
          const size_t k = pass == 0 ? i : static_cast<size_t>(before[i]);
          order[static_cast<size_t>(to[value(k)]++)] = static_cast<int32_t>(k);
        }
      }
      // Random reads and sequential writes: a processor overlaps its reads, but its writes retire in order.
      for (size_t i = 0; i < m; ++i) entries_[begin + static_cast<int64_t>(i)] = from[static_cast<size_t>(order[i])];
      for (int64_t j = 0; j < d_; ++j) {
        double* const column = columns_ + j * stride_ + begin;
        at.assign(column, column + m);
        for (size_t i = 0; i < m; ++i) column[i] = at[static_cast<size_t>(order[i])];
      }
      Count& count = counts[static_cast<size_t>(bucket)];
      uint32_t last_bits = ~entries_[begin].low_bits;  // differs from the first in every bit
      for (int32_t p = begin; p < end; ++p) {
        const uint32_t changed = entries_[p].low_bits ^ std::exchange(last_bits, entries_[p].low_bits);
        count.cells += changed != 0;
        count.blocks += changed >> cell_bits_ != 0;
      }
    }
  });

  // Counts first, tables of the right size second: no table grows while threads fill it.
  allocate(counts);
  for_chunks(static_cast<int64_t>(buckets), kBucketsAtOnce, run, [&](int64_t, int64_t first_bucket, int64_t last) {
    std::vector<int32_t> starts;
    for (int64_t bucket = first_bucket; bucket < last; ++bucket) {
      const int32_t begin = bucket_begin[static_cast<size_t>(bucket)],
                    end = bucket_begin[static_cast<size_t>(bucket) + 1];
      if (begin == end) continue;
      auto [cell, block] = counts[static_cast<size_t>(bucket)];
      starts.resize(static_cast<size_t>(end - begin) + 1);
      size_t cells = 0;
      uint32_t last_bits = ~entries_[begin].low_bits;
      for (int32_t p = begin; p < end; ++p) {  // written for every point, kept where a cell begins: no branch
        starts[cells] = p;
        cells += entries_[p].low_bits != std::exchange(last_bits, entries_[p].low_bits);
      }
      std::copy_n(starts.data(), cells, start_.get() + cell);
      const uint64_t leading_bits = static_cast<uint64_t>(bucket) << shift;
      int64_t last_block = -1;
      for (size_t c = 0; c < cells; ++c, ++cell) {
        const auto mine = static_cast<int64_t>((leading_bits | entries_[starts[c]].low_bits) >> cell_bits_);
        if (mine == std::exchange(last_block, mine)) continue;
        first_cell_[static_cast<size_t>(block)] = static_cast<int32_t>(cell);
        key_[static_cast<size_t>(block++)] = mine;
      }
    }
  });
}

// The same for any numbers: a radix sort of the keys over all points.
template <class K, class T, class Key>
void Grid::sort_at_once(View<const T, 2> x, const Key& key, Run run) {
  const auto n = static_cast<size_t>(n_);
  const auto keys = make_large_array<K>(n);
  const auto rows = make_large_array<int32_t>(n);
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) keys[static_cast<size_t>(i)] = static_cast<K>(key(i));
    std::iota(rows.get() + begin, rows.get() + end, static_cast<int32_t>(begin));
  });
  sort_by_keys(x, keys.get(), rows.get(), run);
}

template <class K, class T>
void Grid::sort_by_keys(View<const T, 2> x, K* keys, int32_t* rows, Run run) {
  radix_sort(keys, rows, n_, run);
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      if (p + kAhead < end) __builtin_prefetch(&x(rows[p + kAhead], 0));
      entries_[p] = {0, rows[p]};
      for (int64_t j = 0; j < d_; ++j) columns_[j * stride_ + p] = static_cast<double>(x(row(p), j));
    }
  });

  const auto new_cell = [&](int64_t p) { return p == 0 || keys[p] != keys[p - 1]; };
  const auto block_of = [&](int64_t p) { return keys[p] >> cell_bits_; };
  const auto new_block = [&](int64_t p) { return p == 0 || block_of(p) != block_of(p - 1); };
  std::vector<Count> counts(static_cast<size_t>(chunk_count(n_, kRowsAtOnce)));  // of each chunk
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    Count count;
    for (int64_t p = begin; p < end; ++p) {
      count.cells += new_cell(p);
      count.blocks += new_block(p);
    }
    counts[static_cast<size_t>(chunk)] = count;
  });
  allocate(counts);
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    auto [cell, block] = counts[static_cast<size_t>(chunk)];
    for (int64_t p = begin; p < end; ++p) {
      if (!new_cell(p)) continue;
      if (new_block(p)) {
        first_cell_[static_cast<size_t>(block)] = static_cast<int32_t>(cell);
        key_[static_cast<size_t>(block++)] = static_cast<int64_t>(block_of(p));
      }
      start_[static_cast<size_t>(cell++)] = static_cast<int32_t>(p);
    }
  });
}

// Turns counts of cells and blocks into the numbers of the first ones, and allocates the tables, with a sentinel each.
void Grid::allocate(std::vector<Count>& counts) {
  for (Count& count : counts) {
    const Count mine = count;
    count = {n_cells_, n_blocks_};
    n_cells_ += mine.cells;
    n_blocks_ += mine.blocks;
  }
  start_ = make_large_array<int32_t>(static_cast<size_t>(n_cells_) + 1);
  start_[static_cast<size_t>(n_cells_)] = static_cast<int32_t>(n_);
  first_cell_ = make_large_array<int32_t>(static_cast<size_t>(n_blocks_) + 1);
  first_cell_[static_cast<size_t>(n_blocks_)] = static_cast<int32_t>(n_cells_);
  key_ = make_large_array<int64_t>(static_cast<size_t>(n_blocks_) + 1);
  key_[static_cast<size_t>(n_blocks_)] = std::numeric_limits<int64_t>::max();
}

int32_t Grid::partition_block(int64_t block, const uint8_t* first, Scratch& scratch) {
  const int32_t begin = start_of_block(block), end = start_of_block(block + 1);
  int32_t cores = 0;
  for (int32_t p = begin; p < end; ++p) cores += first[p] != 0;
  if (cores == 0 || cores == end - begin) return cores;
  // Stable on both sides: rows keep their order within a cell, which number_clusters relies on.
  const auto partition = [&](auto* values, auto& others) {
    others.resize(static_cast<size_t>(end - begin));
    auto *to = values + begin, *other = others.data();
    for (int32_t p = begin; p < end; ++p) {  // written to both sides, kept on one: no branch
      const auto value = values[p];
      const bool is_first = first[p] != 0;
      *to = value;
      *other = value;
      to += is_first;
      other += !is_first;
    }
    std::copy(others.data(), other, to);
  };
  partition(entries_, scratch.entries);
  for (int64_t j = 0; j < d_; ++j) partition(columns_ + j * stride_, scratch.values);
  return cores;
}

// Offsets are relative to a block's number, so they are the same for all blocks. Rows with fewer differing axes first:
// they are nearer, and counts are settled earlier.
Grid::Traversal::Traversal(const Grid& grid, bool ahead) : grid_(grid) {
  struct Row {
    int distance;
    int64_t offset;
  } found[kMostRows] = {{0, 0}};
  rows_ = 1;
  // 3^(d−1) rows: each row so far, and those before and after it along the next axis.
  for (int64_t j = 1; j < grid.d_; ++j) {
    const int64_t step = grid.step_[j];
    for (int r = 0, before = rows_; r < before; ++r)
      for (const int64_t side : {-step, step}) found[rows_++] = {found[r].distance + 1, found[r].offset + side};
  }
  if (ahead)
    rows_ = static_cast<int>(std::remove_if(found, found + rows_, [](const Row& u) { return u.offset < 0; }) - found);
  std::stable_sort(found, found + rows_, [](const Row& u, const Row& v) { return u.distance < v.distance; });
  for (int r = 0; r < rows_; ++r) {
    // In the own row `ahead` begins after the block itself; in later rows all three neighbours are ahead.
    low_[r] = ahead && r == 0 ? 1 : found[r].offset - 1;
    high_[r] = found[r].offset + 1;
    at_[r] = {-1, -1};
  }
}

template Grid::Grid(View<const double, 2>, double, Run, GridWorkspace);
template Grid::Grid(View<const float, 2>, double, Run, GridWorkspace);

}  // namespace knoll
