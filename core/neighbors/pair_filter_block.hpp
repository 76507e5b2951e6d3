// A block of up to 32 queries against panels: candidates by balls, tiles by the float32 filter, rechecks by the one
// distance.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "neighbors/bits.hpp"
#include "neighbors/pair_filter.hpp"
#include "neighbors/pair_filter_panels.hpp"

namespace knoll {

// The one distance of rows of any layout.
template <class T>
double one_distance(View<const T, 2> a, int64_t i, View<const T, 2> b, int64_t k) {
  const T* const p = a.data + i * a.stride[0];
  const T* const q = b.data + k * b.stride[0];
  double sum = 0;
  for (int64_t j = 0; j < a.shape[1]; ++j) {
    const double difference = static_cast<double>(p[j * a.stride[1]]) - static_cast<double>(q[j * b.stride[1]]);
    sum += difference * difference;
  }
  return sum;
}

// Adds up the stats of all threads of a call.
class PairTally {
 public:
  void add(const PairStats& stats) {
    tiles_ += stats.tiles;
    discarded_ += stats.discarded;
    rechecks_ += stats.rechecks;
  }
  PairStats total() const { return {tiles_, discarded_, rechecks_}; }

 private:
  std::atomic<int64_t> tiles_{0}, discarded_{0}, rechecks_{0};
};

struct Tile {
  uint32_t sure[kPanelRows];      // within the radius
  uint32_t possible[kPanelRows];  // these, and those that float32 cannot decide
};

template <class T>
class Block {
 public:
  // Queries of one set of panels (positions: panel·32 + lane), rows of another with the same pivot.
  Block(const Panels<T>& queries, const Panels<T>& panels);

  void fill(const int64_t* positions, int64_t count);
  void fill_panel(int64_t panel);  // its rows, row l being lane l
  void set_radius(int l, double r2);

  int64_t size() const { return size_; }
  int64_t query(int l) const { return query_[l]; }  // row of the queries

  // Panels from `first` on with a row that may be within r2 of a query, the nearest first. `selected` (count) is 0 for
  // panels to be skipped, or null.
  struct Candidate {
    double gap;  // a lower bound on the distance of a query and a row, in units of x̂
    int64_t panel;
  };
  const std::vector<Candidate>& candidates(double r2, const uint32_t* selected, int64_t first = 0);

  // Runs the float32 filter on the block's rows and a panel.
  void classify(int64_t panel, Tile& tile);

  // As classify, for radii of both sides: tile.possible has the pairs that may be within the radius of the block's row,
  // tile.sure those that may be within that of the panel's row, whose thresholds with its radius are column_low (32).
  // Returns the tile's nearness (FilterBounds::nearness).
  float classify_both(int64_t panel, const float* column_low, Tile& tile);

  // d2[l·32 + t] for the bits t of need[l]: the one distances of query l and rows of the panel.
  void distances(int64_t panel, const uint32_t* need, double* d2);

  // Decides the open pairs (possible and not sure) among need[l] by the one distance; `sure` is exact for them
  // afterwards.
  void recheck(int64_t panel, const uint32_t* need, double r2, Tile& tile);

  PairStats stats;

 private:
  template <class F>
  void near_balls(const Balls& balls, int64_t first, int64_t last, double reach, F&& near);
  void distances_of_all(int64_t panel, double* d2);
  void ball();
  const float* ahead(int64_t panel);

  const Panels<T>& queries_;
  const Panels<T>& panels_;
  int64_t size_ = 0;
  int64_t panel_ = -1;  // of the queries, if the block is one
  int64_t query_[kPairPanel] = {};
  double norms_[kPairPanel] = {};
  float high_[kPanelRows] = {}, low_[kPanelRows] = {};
  float plain_[kPanelRows] = {};  // `low` without a radius
  std::vector<float> rows_;       // (11, width, 3)
  std::vector<double> center_;
  double radius_ = 0;
  std::vector<Candidate> candidates_;
  size_t cursor_ = 0;                            // where in them the last tile was
  std::vector<double> columns64_, rows64_, d2_;  // for tiles that are decided in float64 as a whole
  bool has_rows64_ = false;
};

// Queries packed with the pivot of the points, or the points' own packing if they are the same view.
template <class T>
class PackedQueries {
 public:
  PackedQueries(const Panels<T>& panels, View<const PairNumber<T>, 2> q, Run run) {
    const auto& x = panels.x;
    const bool same = q.data == x.data && q.shape[0] == x.shape[0] && q.stride[0] == x.stride[0] &&
                      (q.stride[1] == x.stride[1] || x.shape[1] <= 1);
    if (!same) own_ = std::make_unique<const Panels<T>>(q, panels.pivot, run);
    panels_ = same ? &panels : own_.get();
  }
  const Panels<T>& operator*() const { return *panels_; }
  const Panels<T>* operator->() const { return panels_; }

 private:
  std::unique_ptr<const Panels<T>> own_;
  const Panels<T>* panels_;
};

// The positions of the selected rows, in the order of the panels.
template <class T>
std::vector<int64_t> positions_of(const Panels<T>& panels, View<const uint8_t, 1> selected) {
  std::vector<int64_t> positions;
  for (size_t position = 0; position < panels.rows.size(); ++position) {
    const int64_t row = panels.rows[position];
    if (row >= 0 && (selected.empty() || selected(row) != 0)) positions.push_back(static_cast<int64_t>(position));
  }
  return positions;
}

// The bits of each panel whose rows are in the mask.
template <class T>
std::vector<uint32_t> mask_bits(const Panels<T>& panels, View<const uint8_t, 1> mask) {
  std::vector<uint32_t> bits = panels.used;
  if (mask.empty()) return bits;
  for (size_t p = 0; p < bits.size(); ++p)
    for_bits(panels.used[p], [&](int l) {
      if (mask(panels.rows[p * kPairPanel + static_cast<size_t>(l)]) == 0) bits[p] &= ~(uint32_t{1} << l);
    });
  return bits;
}

}  // namespace knoll
