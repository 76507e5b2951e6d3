// Points of one to three dimensions in the cells of a grid, each so small that all points of a cell are within ε.
//
// The grid is not stored: points are sorted by the number of their cell, and a cell is a span of them. A *row* of cells
// along the first axis is a span too, so the neighbours of a cell are a few spans, found by walking along the rows
// together. Cells are numbered within the box of the data; where that box has too many of them (a far outlier, a tiny
// ε), empty stretches along each axis are cut out first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

class Cells {
 public:
  static constexpr int kMostDims = 3;
  static constexpr int kReach = 2;  // cells further off than this along an axis are out of ε
  static constexpr int kMostRows = (2 * kReach + 1) * (2 * kReach + 1);

  // ok() is false where the cells cannot be numbered in 63 bits, or ε is at the ends of float64's range.
  template <class T>
  Cells(View<const T, 2> x,  // in  (n, d), d ≤ kMostDims
        double eps, Run run);

  bool ok() const { return ok_; }
  int64_t size() const { return n_; }
  int64_t dims() const { return d_; }
  int64_t cells() const { return static_cast<int64_t>(start_.size()) - 1; }

  int32_t start(int64_t cell) const { return start_[static_cast<size_t>(cell)]; }  // positions, in order of cells
  int32_t row(int64_t position) const { return rows_[static_cast<size_t>(position)]; }
  const double* columns() const { return columns_.get(); }  // (d, stride)
  int64_t stride() const { return stride_; }
  void point(int64_t position, double* out) const {  // out (d)
    for (int64_t j = 0; j < d_; ++j) out[j] = columns_[static_cast<size_t>(j * stride_ + position)];
  }

  // Puts the points of a cell for which first[position] is not 0 before the others, both in their order; how many.
  int32_t part(int64_t cell, const uint8_t* first);

  // Walks along cells in order, and tells the spans of cells in the rows around: the own row first, then the others by
  // their distance. A row is looked at only when it is asked for.
  class Walk {
   public:
    // Cells at most `reach` away along each axis; with `ahead`, only those that come later.
    Walk(const Cells& cells, int reach, bool ahead);
    void move_to(int64_t cell) { key_ = cells_.key_[static_cast<size_t>(cell)]; }  // never back
    int rows() const { return rows_; }

    struct Span {
      int64_t begin, end;  // cells
    };
    Span row(int r) {
      const int64_t low = key_ + low_[r], high = key_ + high_[r], *const keys = cells_.key_.data();
      auto& [begin, end] = at_[r];
      if (begin < 0) begin = end = std::lower_bound(keys, keys + cells_.cells(), low) - keys;
      // Mostly by a step or two, which are taken without a branch; the last key is larger than all.
      begin += keys[begin] < low;
      begin += keys[begin] < low;
      while (keys[begin] < low) ++begin;
      end = std::max(begin, end);
      end += keys[end] <= high;
      end += keys[end] <= high;
      while (keys[end] <= high) ++end;
      return at_[r];
    }

   private:
    const Cells& cells_;
    int rows_ = 0;
    int64_t key_ = 0;
    int64_t low_[kMostRows], high_[kMostRows];  // the numbers of a row's cells, relative to the cell's own
    Span at_[kMostRows];
  };

 private:
  template <class T>
  bool number(View<const T, 2> x, double eps, uint64_t* keys, Run run);
  template <class T>
  bool number_axis(View<const T, 2> x, int64_t axis, double side, uint64_t step, uint64_t* keys, uint64_t& width,
                   Run run);
  void sort(uint64_t* keys, Run run);

  bool ok_ = true;
  int64_t n_, d_, stride_;
  int64_t step_[kMostDims] = {};       // of a cell's number along each axis
  std::vector<int32_t> rows_;          // (n) data row of each position
  std::unique_ptr<double[]> columns_;  // (d, stride)
  std::vector<int64_t> key_;           // (cells) the numbers
  std::vector<int32_t> start_;         // (cells + 1)
};

}  // namespace knoll
