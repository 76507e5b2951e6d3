// Numbering, sorting and walking the cells.
#include "knoll/cells.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <vector>

#include "knoll/index.hpp"
#include "knoll/parallel.hpp"
#include "knoll/radix.hpp"

namespace knoll {
namespace {

constexpr int64_t kRowsAtOnce = 1 << 14, kAhead = 24;
constexpr double kMostCells = 0x1p30;  // along an axis, before its empty stretches are cut out
// A cell's number along an axis is a quotient below kMostCells, so it errs by less than 2^−20 of a cell: with sides
// 2^−16 shorter than ε/√d two points of a cell are within ε after all roundings. Points within ε then differ by at most
// √3·(1 + 2^−15) < 2 sides along an axis, so their cells by at most kReach,
// and their blocks by at most one.
constexpr double kShorter = 1 - 0x1p-16;

}  // namespace

template <class T>
Cells::Cells(View<const T, 2> x, double eps, Run run) : n_(x.shape[0]), d_(x.shape[1]), stride_(n_ + 4) {
  check_row_count(n_);
  ok_ = d_ >= 1 && d_ <= kMostDims && eps >= 0x1p-450 && eps <= 0x1p450;
  if (!ok_) return;
  const auto n = static_cast<size_t>(n_);
  rows_ = make_large_array<int32_t>(n);
  const Frame grid = frame(x, eps, run);
  if (grid.few && grid.all_cells < 0x1p32) {  // short numbers are sorted in less time and memory
    const auto keys = make_large_array<uint32_t>(n);
    number(x, grid, keys.get(), run);
    sort(keys.get(), run);
  } else {
    const auto keys = make_large_array<uint64_t>(n);
    if (grid.few && grid.all_cells < 0x1p62)
      number(x, grid, keys.get(), run);
    else
      ok_ = number_with_gaps(x, grid.side, keys.get(), run);
    if (!ok_) return;
    sort(keys.get(), run);
  }

  columns_ = make_large_array<double>(static_cast<size_t>(d_ * stride_));
  for (int64_t j = 0; j < d_; ++j) std::fill_n(columns_.get() + j * stride_ + n_, 4, 0.0);  // read, never used
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      if (p + kAhead < end) __builtin_prefetch(&x(row(p + kAhead), 0));  // rows come from anywhere
      for (int64_t j = 0; j < d_; ++j)
        columns_[static_cast<size_t>(j * stride_ + p)] = static_cast<double>(x(row(p), j));
    }
  });
}

template <class T>
Cells::Frame Cells::frame(View<const T, 2> x, double eps, Run run) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Frame out;
  std::fill(out.low, out.low + kMostDims, kInfinity);
  std::fill(out.high, out.high + kMostDims, -kInfinity);
  const Frame empty = out;
  std::mutex mutex;
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    Frame mine = empty;
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
  out.side = eps / std::sqrt(static_cast<double>(d_)) * kShorter;
  for (int64_t j = 0; j < d_; ++j) {
    const double along = n_ == 0 ? 0 : std::floor((out.high[j] - out.low[j]) / out.side);
    out.few = out.few && along < kMostCells;
    if (!out.few) break;
    out.width[j] = static_cast<int64_t>(along) / 2 + 4;  // no walk falls off the end of a row, nor a rounded quotient
    out.all_cells *= 2 * static_cast<double>(out.width[j]);
  }
  return out;
}

// keys[i] = the number of row i's block, and the cell in it: one bit an axis.
template <class T, class K>
void Cells::number(View<const T, 2> x, const Frame& grid, K* keys, Run run) {
  uint64_t steps[kMostDims], first = 0;
  for (int64_t j = 0, step = 1; j < d_; ++j) {
    step_[j] = step;
    steps[j] = static_cast<uint64_t>(step);
    first += steps[j];
    step *= grid.width[j];
  }
  const double per_side = 1 / grid.side;
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t block = first, cell = 0;
      for (int64_t j = 0; j < d_; ++j) {
        const auto along = static_cast<uint32_t>((static_cast<double>(x(i, j)) - grid.low[j]) * per_side);
        block += steps[j] * (along >> 1);
        cell |= static_cast<uint64_t>(along & 1) << j;
      }
      keys[i] = static_cast<K>(block << d_ | cell);
    }
  });
}

template <class T>
bool Cells::number_with_gaps(View<const T, 2> x, double side, uint64_t* keys, Run run) {
  std::fill(keys, keys + n_, 0);
  uint64_t step = 1;
  for (int64_t j = 0; j < d_; ++j) {
    uint64_t along = 0;
    step_[j] = static_cast<int64_t>(step);
    if (!number_axis(x, j, side, step, keys, along, run)) return false;
    if (static_cast<double>(step) * static_cast<double>(along) >= 0x1p59) return false;
    step *= along;
  }
  return true;
}

// As above for one axis, with its empty stretches cut out: a run of points with no gap wider than the reach is numbered
// from its own first point on, so that neither a large offset nor a huge gap costs digits.
template <class T>
bool Cells::number_axis(View<const T, 2> x, int64_t axis, double side, uint64_t step, uint64_t* keys, uint64_t& width,
                        Run run) {
  const auto n = static_cast<size_t>(n_);
  std::vector<uint64_t> order(n);
  std::vector<int32_t> rows(n);
  for (size_t i = 0; i < n; ++i) order[i] = order_key(static_cast<double>(x(static_cast<int64_t>(i), axis)));
  std::iota(rows.begin(), rows.end(), 0);
  radix_sort(order.data(), rows.data(), n_, run);
  double first = static_cast<double>(x(rows[0], axis)), last = first;
  uint64_t from = kReach, cell = kReach;  // the number of the run's first cell, and of the latest point's
  for (const int32_t i : rows) {
    const auto value = static_cast<double>(x(i, axis));
    if (value - last > (kReach + 2) * side) {
      first = value;
      from = cell + kReach + 1;
    }
    const double along = (value - first) / side;
    if (!(along < kMostCells)) return false;
    last = value;
    cell = from + static_cast<uint64_t>(along);
    keys[i] += (step * (cell >> 1) << d_) + ((cell & 1) << axis);
  }
  width = (cell >> 1) + 2;
  return true;
}

// Sorts the rows by the number of their cell, and finds cells and blocks.
template <class K>
void Cells::sort(K* keys, Run run) {
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    std::iota(rows_.get() + begin, rows_.get() + end, static_cast<int32_t>(begin));
  });
  radix_sort(keys, rows_.get(), n_, run);

  struct Count {
    int64_t cells = 0, blocks = 0;
  };
  const auto new_cell = [&](int64_t p) { return p == 0 || keys[p] != keys[p - 1]; };
  const auto new_block = [&](int64_t p) { return p == 0 || keys[p] >> d_ != keys[p - 1] >> d_; };
  std::vector<Count> first(static_cast<size_t>(chunk_count(n_, kRowsAtOnce)));  // of each chunk
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    Count count;
    for (int64_t p = begin; p < end; ++p) {
      count.cells += new_cell(p);
      count.blocks += new_block(p);
    }
    first[static_cast<size_t>(chunk)] = count;
  });
  for (Count& count : first) {
    const Count mine = count;
    count = {n_cells_, n_blocks_};
    n_cells_ += mine.cells;
    n_blocks_ += mine.blocks;
  }
  start_ = std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(n_cells_) + 1);
  start_[static_cast<size_t>(n_cells_)] = static_cast<int32_t>(n_);
  first_cell_ = std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(n_blocks_) + 1);
  first_cell_[static_cast<size_t>(n_blocks_)] = static_cast<int32_t>(n_cells_);
  key_ = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(n_blocks_) + 1);
  key_[static_cast<size_t>(n_blocks_)] = std::numeric_limits<int64_t>::max();
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    auto [cell, block] = first[static_cast<size_t>(chunk)];
    for (int64_t p = begin; p < end; ++p) {
      if (!new_cell(p)) continue;
      if (new_block(p)) {
        first_cell_[static_cast<size_t>(block)] = static_cast<int32_t>(cell);
        key_[static_cast<size_t>(block++)] = static_cast<int64_t>(keys[p] >> d_);
      }
      start_[static_cast<size_t>(cell++)] = static_cast<int32_t>(p);
    }
  });
}

int32_t Cells::part(int64_t block, const uint8_t* first) {
  const int32_t begin = start_of_block(block), end = start_of_block(block + 1);
  const auto cores = static_cast<int32_t>(std::count_if(first + begin, first + end, [](uint8_t f) { return f != 0; }));
  if (cores == 0 || cores == end - begin) return cores;
  std::vector<double> later;
  std::vector<int32_t> later_rows;
  const auto sift = [&](auto* values, auto& rest) {
    auto* to = values + begin;
    rest.clear();
    for (int32_t p = begin; p < end; ++p)
      if (first[p] != 0)
        *to++ = values[p];
      else
        rest.push_back(values[p]);
    std::copy(rest.begin(), rest.end(), to);
  };
  sift(rows_.get(), later_rows);
  for (int64_t j = 0; j < d_; ++j) sift(columns_.get() + j * stride_, later);
  return cores;
}

Cells::Walk::Walk(const Cells& cells, bool ahead) : cells_(cells) {
  struct Row {
    int distance;
    int64_t offset;
  } found[kMostRows];
  const int reach_1 = cells.d_ > 1 ? 1 : 0, reach_2 = cells.d_ > 2 ? 1 : 0;
  for (int b = -reach_2; b <= reach_2; ++b)
    for (int a = -reach_1; a <= reach_1; ++a) {
      const int64_t offset = a * cells.step_[1] + b * cells.step_[2];
      if (!ahead || offset >= 0) found[rows_++] = {a * a + b * b, offset};
    }
  std::stable_sort(found, found + rows_, [](const Row& u, const Row& v) { return u.distance < v.distance; });
  for (int r = 0; r < rows_; ++r) {
    low_[r] = ahead && r == 0 ? 1 : found[r].offset - 1;
    high_[r] = found[r].offset + 1;
    at_[r] = {-1, -1};
  }
}

template Cells::Cells(View<const double, 2>, double, Run);
template Cells::Cells(View<const float, 2>, double, Run);

}  // namespace knoll
