// Numbering, sorting and walking the cells.
#include "knoll/cells.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "knoll/parallel.hpp"
#include "knoll/radix.hpp"

namespace knoll {
namespace {

constexpr int64_t kRowsAtOnce = 1 << 14, kAhead = 24;
constexpr double kMostCells = 0x1p30;  // along an axis, before its empty stretches are cut out
// A cell's number along an axis is a quotient below kMostCells, so it errs by less than 2^−20 of a cell: with sides
// 2^−16 shorter than ε/√d two points of a cell are within ε after all roundings. Points within ε then differ by at most
// √3·(1 + 2^−15) < 2 sides along an axis, so their cells by at most kReach.
constexpr double kShorter = 1 - 0x1p-16;

}  // namespace

template <class T>
Cells::Cells(View<const T, 2> x, double eps, Run run) : n_(x.shape[0]), d_(x.shape[1]), stride_(n_ + 4) {
  if (n_ > std::numeric_limits<int32_t>::max() - 4) throw std::length_error("the index holds at most 2^31 - 5 rows");
  auto keys = std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(n_));
  ok_ = d_ >= 1 && d_ <= kMostDims && eps >= 0x1p-450 && eps <= 0x1p450 && number(x, eps, keys.get(), run);
  if (!ok_) return;
  sort(keys.get(), run);
  keys.reset();

  columns_ = std::make_unique_for_overwrite<double[]>(static_cast<size_t>(d_ * stride_));
  for (int64_t j = 0; j < d_; ++j) std::fill_n(columns_.get() + j * stride_ + n_, 4, 0.0);  // read, never used
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      if (p + kAhead < end) __builtin_prefetch(&x(row(p + kAhead), 0));  // rows come from anywhere
      for (int64_t j = 0; j < d_; ++j)
        columns_[static_cast<size_t>(j * stride_ + p)] = static_cast<double>(x(row(p), j));
    }
  });
}

// keys[i] = the number of row i's cell.
template <class T>
bool Cells::number(View<const T, 2> x, double eps, uint64_t* keys, Run run) {
  struct Box {
    double low[kMostDims], high[kMostDims];
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Box box;
  std::fill(box.low, box.low + kMostDims, kInfinity);
  std::fill(box.high, box.high + kMostDims, -kInfinity);
  const Box empty = box;
  std::mutex mutex;
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    Box mine = empty;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < d_; ++j) {
        const auto value = static_cast<double>(x(i, j));
        mine.low[j] = std::min(mine.low[j], value);
        mine.high[j] = std::max(mine.high[j], value);
      }
    std::lock_guard lock(mutex);
    for (int64_t j = 0; j < d_; ++j) {
      box.low[j] = std::min(box.low[j], mine.low[j]);
      box.high[j] = std::max(box.high[j], mine.high[j]);
    }
  });
  if (n_ == 0) return true;

  const double side = eps / std::sqrt(static_cast<double>(d_)) * kShorter;
  double width[kMostDims], cells = 1;
  bool few = true;
  for (int64_t j = 0; j < d_; ++j) {
    width[j] = std::floor((box.high[j] - box.low[j]) / side) + 1 + 2 * kReach;  // no walk falls off the end of a row
    few = few && width[j] < kMostCells;
    cells *= width[j];
  }
  if (few && cells < 0x1p62) {
    uint64_t steps[kMostDims], first = 0;
    for (int64_t j = 0, step = 1; j < d_; ++j) {
      step_[j] = step;
      steps[j] = static_cast<uint64_t>(step);
      first += kReach * steps[j];
      step *= static_cast<int64_t>(width[j]);
    }
    const double per_side = 1 / side;
    for_chunks(n_, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        uint64_t key = first;
        for (int64_t j = 0; j < d_; ++j)
          key += steps[j] * static_cast<uint32_t>((static_cast<double>(x(i, j)) - box.low[j]) * per_side);
        keys[i] = key;
      }
    });
    return true;
  }

  std::fill(keys, keys + n_, 0);
  uint64_t step = 1;
  for (int64_t j = 0; j < d_; ++j) {
    uint64_t along = 0;
    step_[j] = static_cast<int64_t>(step);
    if (!number_axis(x, j, side, step, keys, along, run)) return false;
    if (static_cast<double>(step) * static_cast<double>(along) >= 0x1p62) return false;
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
    keys[i] += step * cell;
  }
  width = cell + 1 + kReach;
  return true;
}

// Sorts the rows by the number of their cell, and finds the cells.
void Cells::sort(uint64_t* keys, Run run) {
  const auto n = static_cast<size_t>(n_);
  rows_.resize(n);
  std::iota(rows_.begin(), rows_.end(), 0);
  radix_sort(keys, rows_.data(), n_, run);

  const auto fresh = [&](int64_t p) { return p == 0 || keys[p] != keys[p - 1]; };
  std::vector<int64_t> first(static_cast<size_t>(chunk_count(n_, kRowsAtOnce)) + 1, 0);
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t p = begin; p < end; ++p) count += fresh(p);
    first[static_cast<size_t>(chunk) + 1] = count;
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  key_.resize(static_cast<size_t>(first.back()) + 1);
  key_.back() = std::numeric_limits<int64_t>::max();
  start_.resize(static_cast<size_t>(first.back()) + 1);
  start_.back() = static_cast<int32_t>(n_);
  for_chunks(n_, kRowsAtOnce, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    auto at = static_cast<size_t>(first[static_cast<size_t>(chunk)]);
    for (int64_t p = begin; p < end; ++p)
      if (fresh(p)) {
        key_[at] = static_cast<int64_t>(keys[p]);
        start_[at++] = static_cast<int32_t>(p);
      }
  });
}

int32_t Cells::part(int64_t cell, const uint8_t* first) {
  const int32_t begin = start(cell), end = start(cell + 1);
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
  sift(rows_.data(), later_rows);
  for (int64_t j = 0; j < d_; ++j) sift(columns_.get() + j * stride_, later);
  return cores;
}

Cells::Walk::Walk(const Cells& cells, int reach, bool ahead) : cells_(cells) {
  struct Row {
    int distance;
    int64_t offset;
  } found[kMostRows];
  const int reach_1 = cells.d_ > 1 ? reach : 0, reach_2 = cells.d_ > 2 ? reach : 0;
  for (int b = -reach_2; b <= reach_2; ++b)
    for (int a = -reach_1; a <= reach_1; ++a) {
      const int64_t offset = a * cells.step_[1] + b * cells.step_[2];
      if (!ahead || offset >= 0) found[rows_++] = {a * a + b * b, offset};
    }
  std::stable_sort(found, found + rows_, [](const Row& u, const Row& v) { return u.distance < v.distance; });
  for (int r = 0; r < rows_; ++r) {
    low_[r] = ahead && r == 0 ? 1 : found[r].offset - reach;
    high_[r] = found[r].offset + reach;
    at_[r] = {-1, -1};
  }
}

template Cells::Cells(View<const double, 2>, double, Run);
template Cells::Cells(View<const float, 2>, double, Run);

}  // namespace knoll
