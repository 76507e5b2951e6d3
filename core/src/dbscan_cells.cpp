// DBSCAN over cells: most core points and most unions follow from the cells alone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "dbscan_parts.hpp"
#include "knoll/cells.hpp"
#include "knoll/metric.hpp"
#include "knoll/simd.hpp"

namespace knoll {
namespace {

constexpr int64_t kCellsAtOnce = 512;
constexpr int kRowsAtOnce = 8;  // of cells, counted in one go

class CellDbscan {
 public:
  CellDbscan(Cells& cells, double eps, double min_samples, Run run)
      : cells_(cells),
        square_(largest_square(eps)),
        run_(run),
        cores_(static_cast<size_t>(cells.cells()), 0),
        sets_(cells.cells()) {
    // more than there are points is never reached; a level of 0 or less always is
    least_ = static_cast<int64_t>(
        std::ceil(std::clamp(min_samples, 0.0, static_cast<double>(std::numeric_limits<int32_t>::max()))));
  }

  // 1. Core points: all of a cell with enough points; else each point is counted against the rows around.
  void find_cores() {
    const auto is_core = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(cells_.size()));
    each_cell(Cells::kReach, false, [&](Chunk& chunk, int64_t cell) {
      const int32_t begin = cells_.start(cell), end = cells_.start(cell + 1);
      if (end - begin >= least_) {
        std::fill(is_core.get() + begin, is_core.get() + end, uint8_t{1});
        return;
      }
      chunk.walk.move_to(cell);
      const auto m = static_cast<size_t>(end - begin);
      auto& counts = chunk.list;
      counts.assign(m, 0);
      size_t open = m;  // points that have not enough yet
      for (int r = 0; r < chunk.walk.rows() && open > 0;) {
        auto& spans = chunk.spans;
        spans.clear();
        for (const int last = r == 0 ? 1 : std::min(r + kRowsAtOnce, chunk.walk.rows()); r < last; ++r) {
          const auto [first_cell, last_cell] = chunk.walk.row(r);
          if (first_cell < last_cell) add_span(spans, cells_.start(first_cell), cells_.start(last_cell));
        }
        for (size_t i = 0; i < m; ++i) {
          if (counts[i] >= least_) continue;
          counts[i] += count(begin + static_cast<int64_t>(i), spans, least_ - counts[i], chunk);
          open -= counts[i] >= least_;
        }
      }
      for (size_t i = 0; i < m; ++i) is_core[static_cast<size_t>(begin) + i] = counts[i] >= least_;
    });
    each_cell(0, false,
              [&](Chunk&, int64_t cell) { cores_[static_cast<size_t>(cell)] = cells_.part(cell, is_core.get()); });
  }

  // 2. Components of cells that hold core points: first those that touch, then the others that are not joined yet.
  void unite_cores() {
    std::vector<int32_t> known(cores_.size(), -1);  // (cells) a component that the cell was found in
    for (const int reach : {1, Cells::kReach}) {
      each_cell(reach, true, [&](Chunk& chunk, int64_t cell) {
        if (cores(cell) == 0) return;
        chunk.walk.move_to(cell);
        for (int r = 0; r < chunk.walk.rows(); ++r) {
          const auto [first_cell, last_cell] = chunk.walk.row(r);
          for (int64_t other = first_cell; other < last_cell; ++other) {
            const auto a = static_cast<int32_t>(cell), b = static_cast<int32_t>(other);
            if (cores(other) == 0) continue;
            const int32_t mine = known[static_cast<size_t>(cell)];
            if ((mine >= 0 && mine == known[static_cast<size_t>(other)]) || sets_.same_shared(a, b)) continue;
            if (close(cell, other, chunk)) sets_.unite_shared(a, b);
          }
        }
      });
      if (reach < Cells::kReach)  // most pairs are joined now: so they are told apart without a search
        each_cell(0, false, [&](Chunk&, int64_t cell) {
          if (cores(cell) > 0) known[static_cast<size_t>(cell)] = sets_.find_shared(static_cast<int32_t>(cell));
        });
    }
  }

  // 3. Labels.
  int64_t label(Border border, View<int64_t, 1> labels, View<uint8_t, 1> core) {
    std::vector<int32_t> with_cores, number;
    for (int64_t cell = 0; cell < cells_.cells(); ++cell)
      if (cores(cell) > 0) with_cores.push_back(static_cast<int32_t>(cell));
    const int64_t clusters = number_components(
        sets_, static_cast<int64_t>(with_cores.size()), [&](int64_t i) { return with_cores[static_cast<size_t>(i)]; },
        [&](int64_t i) {
          const int64_t cell = with_cores[static_cast<size_t>(i)];
          int32_t lowest = cells_.row(cells_.start(cell));
          for (int64_t p = cells_.start(cell), end = p + cores(cell); p < end; ++p)
            lowest = std::min(lowest, cells_.row(p));
          return lowest;
        },
        number);
    cluster_.assign(cores_.size(), -1);
    for (int32_t cell : with_cores) cluster_[static_cast<size_t>(cell)] = number[static_cast<size_t>(sets_.find(cell))];

    each_cell(Cells::kReach, false, [&](Chunk& chunk, int64_t cell) {
      const int64_t begin = cells_.start(cell), middle = begin + cores(cell), end = cells_.start(cell + 1);
      for (int64_t p = begin; p < middle; ++p) {
        labels(cells_.row(p)) = cluster_[static_cast<size_t>(cell)];
        core(cells_.row(p)) = 1;
      }
      if (middle == end) return;
      if (border != Border::noise) around(cell, chunk);
      for (int64_t p = middle; p < end; ++p) {
        int32_t cluster = -1;
        if (border == Border::first) cluster = first(p, chunk);
        if (border == Border::closest) cluster = closest(p, chunk);
        labels(cells_.row(p)) = cluster;
        core(cells_.row(p)) = 0;
      }
    });
    return clusters;
  }

  Tally tally;

 private:
  int32_t cores(int64_t cell) const { return cores_[static_cast<size_t>(cell)]; }

  // What the cells of a chunk use one after the other.
  struct Chunk {
    Cells::Walk walk;
    std::vector<int64_t> list;   // of what a cell needs: counts, or cells around
    std::vector<int32_t> spans;  // begin and end of each, as the kernels take them
    int64_t distances;
  };

  static void add_span(std::vector<int32_t>& spans, int32_t begin, int32_t end) {
    spans.push_back(begin);
    spans.push_back(end);
  }

  // body(chunk, cell) for all cells, in order within a chunk.
  template <class F>
  void each_cell(int reach, bool ahead, F&& body) {
    for_chunks(cells_.cells(), kCellsAtOnce, run_, [&](int64_t, int64_t begin, int64_t end) {
      Chunk chunk{Cells::Walk(cells_, reach, ahead), {}, {}, 0};
      for (int64_t cell = begin; cell < end; ++cell) {
        run_.poll();
        body(chunk, cell);
      }
      tally.distances.fetch_add(chunk.distances, std::memory_order_relaxed);
    });
  }

  // How many points of the spans are within ε of the point at a position; may stop counting at `stop`.
  int64_t count(int64_t position, const std::vector<int32_t>& spans, int64_t stop, Chunk& chunk) const {
    double q[Cells::kMostDims];
    cells_.point(position, q);
    for (size_t s = 0; s < spans.size(); s += 2) chunk.distances += spans[s + 1] - spans[s];
    return kernels_.count_spans(cells_.columns(), cells_.stride(), cells_.dims(), spans.data(),
                                static_cast<int64_t>(spans.size()) / 2, q, square_, stop);
  }

  // Whether two cells have core points within ε of each other.
  bool close(int64_t a, int64_t b, Chunk& chunk) const {
    if (cores(a) > cores(b)) std::swap(a, b);
    if (int64_t{cores(a)} * cores(b) > kManyPairs) return close_large(a, b, chunk.distances);
    chunk.spans.assign({cells_.start(b), cells_.start(b) + cores(b)});
    for (int64_t p = cells_.start(a), end = p + cores(a); p < end; ++p)
      if (count(p, chunk.spans, 1, chunk) > 0) return true;
    return false;
  }

  // The same where there are many pairs: only points within ε of the other cell's box can be in one that is.
  bool close_large(int64_t a, int64_t b, int64_t& distances) const {
    const int64_t d = cells_.dims();
    const auto all = [&](int64_t cell) {
      Points points{static_cast<size_t>(cores(cell)) + 4, cores(cell), {}};
      for (int64_t j = 0; j < d; ++j) {
        const double* column = cells_.columns() + j * cells_.stride() + cells_.start(cell);
        points.values.insert(points.values.end(), column, column + cores(cell));
        points.values.insert(points.values.end(), 4, 0.0);
      }
      return points;
    };
    Points mine = all(a), theirs = all(b);
    sift(mine, theirs);
    sift(theirs, mine);
    const int32_t span[2] = {0, static_cast<int32_t>(theirs.count)};
    for (int64_t p = 0; p < mine.count; ++p) {
      if (p % 256 == 0) run_.poll();
      double q[Cells::kMostDims];
      for (int64_t j = 0; j < d; ++j) q[j] = mine.at(j, p);
      distances += theirs.count;
      if (kernels_.count_spans(theirs.values.data(), static_cast<int64_t>(theirs.stride), d, span, 1, q, square_, 1) >
          0)
        return true;
    }
    return false;
  }

  struct Points {
    size_t stride;
    int64_t count;
    std::vector<double> values;  // (d, stride)
    double& at(int64_t j, int64_t p) { return values[static_cast<size_t>(j) * stride + static_cast<size_t>(p)]; }
  };

  // Keeps those of `points` that are within ε of the box of `others`. The bound is exact: decision 0011.
  void sift(Points& points, Points& others) const {
    const int64_t d = cells_.dims();
    double low[Cells::kMostDims], high[Cells::kMostDims];
    for (int64_t j = 0; j < d; ++j) {
      low[j] = std::numeric_limits<double>::infinity(), high[j] = -low[j];
      for (int64_t p = 0; p < others.count; ++p)
        low[j] = std::min(low[j], others.at(j, p)), high[j] = std::max(high[j], others.at(j, p));
    }
    int64_t kept = 0;
    for (int64_t p = 0; p < points.count; ++p) {
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double gap = std::max({0.0, low[j] - points.at(j, p), points.at(j, p) - high[j]});
        sum += gap * gap;
      }
      if (sum > square_) continue;
      for (int64_t j = 0; j < d; ++j) points.at(j, kept) = points.at(j, p);
      ++kept;
    }
    points.count = kept;
  }

  // The cells with core points in reach of one, and the spans of those points.
  void around(int64_t cell, Chunk& chunk) const {
    chunk.list.clear();
    chunk.spans.clear();
    chunk.walk.move_to(cell);
    for (int r = 0; r < chunk.walk.rows(); ++r)
      for (auto [other, end] = chunk.walk.row(r); other < end; ++other)
        if (cores(other) > 0) {
          chunk.list.push_back(other);
          add_span(chunk.spans, cells_.start(other), cells_.start(other) + cores(other));
        }
  }

  // The lowest-numbered cluster with a core point within ε of the point at a position.
  int32_t first(int64_t position, Chunk& chunk) const {
    constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
    if (count(position, chunk.spans, 1, chunk) == 0) return -1;
    int32_t lowest = kNone;
    std::vector<int32_t> span(2);
    for (size_t i = 0; i < chunk.list.size(); ++i) {
      const int32_t cluster = cluster_[static_cast<size_t>(chunk.list[i])];
      if (cluster >= lowest) continue;
      span.assign({chunk.spans[2 * i], chunk.spans[2 * i + 1]});
      if (count(position, span, 1, chunk) > 0) lowest = cluster;
    }
    return lowest;
  }

  // The cluster of the closest core point.
  int32_t closest(int64_t position, Chunk& chunk) const {
    const int64_t d = cells_.dims();
    double q[Cells::kMostDims], x[Cells::kMostDims], best[Cells::kMostDims];
    cells_.point(position, q);
    const double least = kernels_.least_spans(cells_.columns(), cells_.stride(), d, chunk.spans.data(),
                                              static_cast<int64_t>(chunk.list.size()), q);
    int32_t cluster = -1;
    if (least > square_) return cluster;
    // Which points it was: only they are compared by their coordinates.
    for (size_t i = 0; i < chunk.list.size(); ++i) {
      chunk.distances += chunk.spans[2 * i + 1] - chunk.spans[2 * i];
      for (int64_t p = chunk.spans[2 * i]; p < chunk.spans[2 * i + 1]; ++p) {
        cells_.point(p, x);
        double sum = 0;
        for (int64_t j = 0; j < d; ++j) sum += (x[j] - q[j]) * (x[j] - q[j]);
        if (sum != least || (cluster >= 0 && !std::lexicographical_compare(x, x + d, best, best + d))) continue;
        cluster = cluster_[static_cast<size_t>(chunk.list[i])];
        std::copy(x, x + d, best);
      }
    }
    return cluster;
  }

  static constexpr int64_t kManyPairs = 4096;

  Cells& cells_;
  const IndexKernels& kernels_ = kernels().index;
  const double square_;  // a squared distance is within ε iff it is at most this
  const Run run_;
  int64_t least_;                 // min_samples
  std::vector<int32_t> cores_;    // (cells) the first so many points of a cell are core
  std::vector<int32_t> cluster_;  // (cells) of those with core points
  UnionFind<int32_t> sets_;       // of cells
};

}  // namespace

template <class T>
bool dbscan_cells(View<const T, 2> x, double eps, double min_samples, Border border, View<int64_t, 1> labels,
                  View<uint8_t, 1> core, DbscanReport& report, Run run) {
  Cells cells(x, eps, run);
  if (!cells.ok()) return false;
  CellDbscan work(cells, eps, min_samples, run);
  work.find_cores();
  work.unite_cores();
  report.backend = "cells";
  report.clusters = work.label(border, labels, core);
  report.distances = work.tally.distances;
  return true;
}

template bool dbscan_cells(View<const double, 2>, double, double, Border, View<int64_t, 1>, View<uint8_t, 1>,
                           DbscanReport&, Run);
template bool dbscan_cells(View<const float, 2>, double, double, Border, View<int64_t, 1>, View<uint8_t, 1>,
                           DbscanReport&, Run);

}  // namespace knoll
