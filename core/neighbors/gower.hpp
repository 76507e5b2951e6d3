// Panels and blocks of the pair filter for Gower's distance: numbers in float32 with a bound, categories and what is
// missing in bytes; a pair within the bound is decided by Metric::distance (docs/numerics/pairs.md, P9).
//
// Distances of rows with missing values obey no triangle inequality, so no ball discards a panel: panels hold the rows
// as they come, and all of them are candidates.
#pragma once

#include <memory>
#include <vector>

#include "neighbors/metric.hpp"
#include "neighbors/pair_filter_block.hpp"

namespace knoll {

// Where a panel holds each column.
struct GowerLayout {
  // The levels of x determine how many bytes each category takes.
  GowerLayout(View<const double, 2> x, const Metric& metric);
  GowerLayout(const GowerLayout&) = delete;  // `shape` refers to its vectors

  Metric metric;
  std::vector<int64_t> numbers;  // the columns of numbers
  std::vector<int64_t> columns;  // all columns, by groups of equal weight
  std::vector<int64_t> planes, group_end;
  std::vector<float> group_weight;
  std::vector<double> weight;  // (d) without sign, times a power of two: the largest is in [1, 2)
  double mass = 0;             // their sum
  double kappa;                // the bound of P9, relative
  GowerShape shape;
};

template <>
struct Panels<GowerRow> {
  using Pivot = std::shared_ptr<const GowerLayout>;
  Panels(View<const double, 2> x, Pivot pivot, Run run);

  struct Bounds {
    double reach(double) const { return std::numeric_limits<double>::infinity(); }
  };

  View<const double, 2> x;
  Pivot pivot;
  Bounds bounds;
  int64_t count;                  // of panels
  std::vector<int64_t> rows;      // (count, 32) rows of x, −1 at free positions
  std::vector<uint32_t> used;     // (count)
  std::vector<float> numbers;     // (count, numbers, 32)
  std::vector<uint8_t> bytes;     // (count, bytes, 32)
  std::vector<double> sizes;      // (count, 32) Σ|w·x| over the numbers of a row; infinite where float32 cannot hold it
  std::vector<float> slacks;      // (count) of the largest of them
  std::vector<uint8_t> complete;  // (count) no value is missing
  std::vector<double> contiguous;  // (n, d) a copy of x, where its rows are not

  const double* row(int64_t i) const {
    return contiguous.empty() ? x.data + i * x.stride[0] : contiguous.data() + i * x.shape[1];
  }

 private:
  void pack(int64_t panel);
};

template <>
class Block<GowerRow> {
 public:
  Block(const Panels<GowerRow>& queries, const Panels<GowerRow>& panels);

  void fill(const int64_t* positions, int64_t count);
  void fill_panel(int64_t panel);
  void set_radius(int l, double radius);

  int64_t size() const { return size_; }
  int64_t query(int l) const { return query_[l]; }

  struct Candidate {
    double gap;
    int64_t panel;
  };
  const std::vector<Candidate>& candidates(double radius, const uint32_t* selected, int64_t first = 0);

  void classify(int64_t panel, Tile& tile);
  void distances(int64_t panel, const uint32_t* need, double* out);
  void recheck(int64_t panel, const uint32_t* need, double radius, Tile& tile);

  PairStats stats;

 private:
  const Panels<GowerRow>& queries_;
  const Panels<GowerRow>& panels_;
  int64_t size_ = 0;
  bool complete_ = false;
  int64_t query_[kPairPanel] = {};
  double sizes_[kPairPanel] = {};
  float limits_[kPairPanel] = {}, slacks_[kPairPanel] = {};
  std::vector<float> numbers_;  // (32, numbers)
  std::vector<uint8_t> bytes_;  // (32, bytes)
  std::vector<Candidate> candidates_;
};

// out[i·m + k] = the distance of row i of x and row k of y (m rows), as Metric::distance.
void gower_distances(View<const double, 2> x,            // in  (n, d)
                     View<const double, 2> y,            // in  (m, d)
                     const Metric& metric, double* out,  // out (n·m)
                     Run run);

}  // namespace knoll
