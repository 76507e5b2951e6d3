// Points of up to five dimensions in the cells of a grid, each so small that any two points of a cell are within ε.
//
// Two or three cells along each axis make a *block*, whose side exceeds ε: what is within ε of a block lies in the
// blocks that touch it. The grid is not stored: points are sorted by the number of their block, then by their cell in
// it, so cells, blocks and whole rows of blocks along the first axis are spans of points. The neighbours of a block are
// 3^(d−1) such rows, found by moving along the rows together. Blocks are numbered within the box of the data; where
// that box has too many of them (a far outlier, a tiny ε), empty intervals along each axis are cut out first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/large_array.hpp"
#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Memory that a caller lends until the work is done; its contents are lost. Null: the grid allocates its own.
struct GridWorkspace {
  double* columns = nullptr;   // (d, n + 4)
  int64_t* entries = nullptr;  // (n)
};

class Grid {
 public:
  static constexpr int kMostDims = 5;
  // 3^(d−1) rows along the first axis: 81 for five columns, 243 for six, where a tree is faster
  // (docs/numerics/index.md, X3).
  static constexpr int kMostRows = 81;  // of blocks that touch one

  // ok() is false where the cells cannot be numbered in 63 bits, or ε is at the ends of float64's range.
  template <class T>
  Grid(View<const T, 2> x,                                  // in  (n, d), d ≤ kMostDims
       double eps, Run run, GridWorkspace workspace = {});  // where the points are stored

  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  bool ok() const { return ok_; }
  int64_t size() const { return n_; }
  int64_t dims() const { return d_; }
  int64_t cells() const { return n_cells_; }
  int64_t blocks() const { return n_blocks_; }

  // Positions are in order of cells, cells in order of blocks.
  int32_t start(int64_t cell) const { return start_[static_cast<size_t>(cell)]; }
  int32_t first_cell(int64_t block) const { return first_cell_[static_cast<size_t>(block)]; }
  int32_t start_of_block(int64_t block) const { return start(first_cell(block)); }
  int32_t row(int64_t position) const { return entries_[position].row; }
  const double* columns() const { return columns_; }  // (d, stride)
  int64_t stride() const { return stride_; }
  void point(int64_t position, double* out) const {  // out (d)
    for (int64_t j = 0; j < d_; ++j) out[j] = columns_[j * stride_ + position];
  }

  // The row of a point; next to it, while points are sorted, the lower bits of its cell's number.
  struct Entry {
    uint32_t low_bits;
    int32_t row;
  };

  // Moves the points of a block for which first[position] is not 0 before the others, both in order; returns how many.
  struct Scratch {  // reused from block to block
    std::vector<double> values;
    std::vector<Entry> entries;
  };
  int32_t partition_block(int64_t block, const uint8_t* first, Scratch& scratch);

  // Visits blocks in order, and finds the spans of blocks in the neighbouring rows: the own row first, then the
  // others by their distance. A row is searched only when it is requested.
  class Traversal {
   public:
    // All blocks that touch one; with `ahead`, only those with a higher number.
    Traversal(const Grid& grid, bool ahead);
    void move_to(int64_t block) { key_ = grid_.key_[static_cast<size_t>(block)]; }  // never back
    int rows() const { return rows_; }

    struct Span {
      int64_t begin, end;  // blocks
    };
    Span row(int r) {
      const int64_t low = key_ + low_[r], high = key_ + high_[r], *const keys = grid_.key_.get();
      auto& [begin, end] = at_[r];
      if (begin < 0) begin = end = std::lower_bound(keys, keys + grid_.blocks(), low) - keys;
      // Keys rise and so do the queries, so `begin` and `end` only move up: mostly by a step or two, which are taken
      // without a branch. The sentinel key after the last is larger than all.
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
    const Grid& grid_;
    int rows_ = 0;
    int64_t key_ = 0;
    int64_t low_[kMostRows], high_[kMostRows];  // the numbers of a row's blocks, relative to the block's own
    Span at_[kMostRows];
  };

 private:
  // The box of the data, and the number of blocks along each axis.
  struct Extent {
    double low[kMostDims], high[kMostDims], side;
    int64_t width[kMostDims];
    bool few = true;       // below kMaxCells cells along every axis, so `width` is exact
    double all_cells = 1;  // an upper bound on the numbers of cells
  };
  template <class T>
  Extent extent(View<const T, 2> x, double eps, Run run) const;
  // The number of a row's block, and the cell in it: one or two bits an axis.
  template <int D, class T>
  struct CellNumber;
  template <class T>
  bool number_with_gaps(View<const T, 2> x, double side, uint64_t* keys, double& all, Run run);
  template <class T>
  bool number_axis(View<const T, 2> x, int64_t axis, double side, uint64_t step, uint64_t* keys, uint64_t& width,
                   Run run);
  // key(i): the number of row i's cell; all numbers are below `all`.
  template <int D, class T, class Key>
  void sort(View<const T, 2> x, const Key& key, double all, Run run);
  template <int D, class T, class Key>
  bool sort_in_buckets(View<const T, 2> x, const Key& key, double all, Run run);
  template <class K, class T, class Key>
  void sort_at_once(View<const T, 2> x, const Key& key, Run run);
  // What does not depend on the type of the key, so that it is compiled once.
  void sort_each_bucket(const std::vector<int32_t>& bucket_begin, int shift, Run run);
  template <class K, class T>
  void sort_by_keys(View<const T, 2> x, K* keys, int32_t* rows, Run run);
  struct Count {
    int64_t cells = 0, blocks = 0;
  };
  void allocate(std::vector<Count>& counts);

  bool ok_ = true;
  int64_t n_, d_, stride_, n_cells_ = 0, n_blocks_ = 0;
  int64_t step_[kMostDims] = {};    // of a block's number along each axis
  int per_axis_, cell_bits_;        // cells of a block along an axis; bits of a cell's number in its block
  LargeArray<double> own_columns_;  // where no workspace was passed
  LargeArray<Entry> own_entries_;
  double* columns_ = nullptr;       // (d, stride)
  Entry* entries_ = nullptr;        // (n) by position
  LargeArray<int32_t> start_;       // (cells + 1)
  LargeArray<int32_t> first_cell_;  // (blocks + 1)
  LargeArray<int64_t> key_;         // (blocks + 1) the numbers of the blocks
};

}  // namespace knoll
