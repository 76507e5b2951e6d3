// DBSCAN over a grid: most core points and most unions follow from the grid cells alone.
//
// Two facts of the grid (docs/numerics/index.md, X2 and X3) are used throughout: any two points of a cell are within ε,
// and all points within ε of a point are in its block or in blocks that touch it. So a cell with min_samples points is
// core as a whole, its core points are one component, and components are unions of cells.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "neighbors/dbscan_backends.hpp"
#include "neighbors/grid.hpp"
#include "neighbors/metric.hpp"
#include "simd/kernels.hpp"

namespace knoll {
namespace {

// Traversals move forward within a chunk; a chunk pays one binary search per row of blocks.
constexpr int64_t kBlocksAtOnce = 128;

class GridDbscan {
 public:
  GridDbscan(Grid& cells, double eps, double min_samples, const Weights& weights, Run run)
      : grid_(cells),
        square_(largest_square(eps)),
        level_(min_samples),
        weights_(weights),
        run_(run),
        first_core_(make_large_array<int32_t>(static_cast<size_t>(cells.cells()))),
        cores_(make_large_array<int32_t>(static_cast<size_t>(cells.cells()))),
        cores_in_block_(make_large_array<int32_t>(static_cast<size_t>(cells.blocks()))),
        cluster_(make_large_array<int32_t>(static_cast<size_t>(cells.cells()))),
        known_(make_large_array<int32_t>(static_cast<size_t>(cells.blocks()))),
        sets_(cells.cells()) {
    // more than there are points is never reached; a level of 0 or less always is
    least_ = static_cast<int64_t>(
        std::ceil(std::clamp(min_samples, 0.0, static_cast<double>(std::numeric_limits<int32_t>::max()))));
  }

  // 1. Core points: all points of a full cell. The others of a block are counted in lanes: against their own block,
  // then its row of blocks, then the other rows, and no more once they have enough.
  void find_cores() {
    is_core_ = make_large_array<uint8_t>(static_cast<size_t>(grid_.size()));
    if (weights_.present()) weigh_positions();
    each_block(false, [&](Chunk& chunk, int64_t block) {
      const int32_t block_begin = grid_.start_of_block(block), block_end = grid_.start_of_block(block + 1);
      chunk.spans.clear();
      add_span(chunk.spans, block_begin, block_end);
      chunk.open.size = 0;
      int64_t seen =
          block_end - block_begin;  // points in the spans: while they are fewer than least_, none can be core
      for (int64_t cell = grid_.first_cell(block), cells_end = grid_.first_cell(block + 1); cell < cells_end;) {
        // Runs of cells that are all full, or all not, are handled together: long spans for the kernels.
        const bool full = is_full(cell);
        const int32_t begin = grid_.start(cell);
        while (++cell < cells_end && is_full(cell) == full) {
        }
        const int32_t end = grid_.start(cell);
        std::fill(is_core_.get() + begin, is_core_.get() + end, static_cast<uint8_t>(full));
        if (full) continue;
        // While fewer than min_samples points are in sight, nobody can be core: counting waits until there are.
        if (weights_.present() || seen < least_)
          chunk.open.add(begin, end);
        else
          count_in_block(begin, end, chunk);
      }
      if (chunk.open.size == 0) return;
      size_t counted = seen < least_ ? 0 : 2;  // spans before this one are counted
      if (weights_.present()) weigh_more(0, chunk);
      chunk.traversal.move_to(block);
      for (int r = 0; r < chunk.traversal.rows() && chunk.open.size > 0;) {  // the block's row, then all other rows
        const size_t before = chunk.spans.size();
        // The block's own row without the block itself, which has been counted: the two ranges beside it.
        if (r == 0) {
          const auto [first, end] = chunk.traversal.row(r++);
          if (first < block) add_span(chunk.spans, grid_.start_of_block(first), block_begin);
          if (block + 1 < end) add_span(chunk.spans, block_end, grid_.start_of_block(end));
        } else {
          for (; r < chunk.traversal.rows(); ++r) {
            const auto [first, end] = chunk.traversal.row(r);
            if (first < end) add_span(chunk.spans, grid_.start_of_block(first), grid_.start_of_block(end));
          }
        }
        for (size_t s = before; s < chunk.spans.size(); s += 2) seen += chunk.spans[s + 1] - chunk.spans[s];
        if (weights_.present()) {
          weigh_more(before, chunk);
        } else if (seen >= least_) {
          count_more(counted, chunk);
          counted = chunk.spans.size();
        }
      }
      if (weights_.slack != 0)
        for (int64_t i = 0; i < chunk.open.size; ++i) exact_weight(static_cast<size_t>(i), chunk);
    });
  }

  // 2. Components of cells with core points: first within blocks, then between touching blocks that are not joined by
  // then. Of each pair of blocks only the later one is visited (`ahead`), since the relation is symmetric.
  void unite_cores() {
    // A pass of its own: it moves points, and the kernels of the next pass read up to three positions past a span,
    // which may belong to another thread's block.
    each_block(false, [&](Chunk& chunk, int64_t block) { core_points_first(block, chunk); });
    each_block(false, [&](Chunk& chunk, int64_t block) {
      if (cores_in_block(block) > 0) unite(block, block, false, chunk);
      // Read by other threads only in the next pass, after all blocks have theirs.
      known_[static_cast<size_t>(block)] = one_of(block);
    });
    // Core points are the first of each block now, so the flags, a byte per point, are not needed any more.
    is_core_.reset();
    each_block(true, [&](Chunk& chunk, int64_t block) {
      if (cores_in_block(block) == 0) return;
      const int32_t mine = known_[static_cast<size_t>(block)];
      chunk.traversal.move_to(block);
      for (int r = 0; r < chunk.traversal.rows(); ++r)
        for (auto [other, end] = chunk.traversal.row(r); other < end; ++other) {
          if (cores_in_block(other) == 0) continue;
          const int32_t theirs = known_[static_cast<size_t>(other)];
          // Two blocks that are one component each need one close pair, or none if they are joined by then.
          const bool one_each = mine >= 0 && theirs >= 0;
          if (!one_each || !sets_.same_shared(mine, theirs)) unite(block, other, one_each, chunk);
        }
    });
  }

  // 3. Labels.
  int64_t label(Border border, View<int64_t, 1> labels, View<uint8_t, 1> core) {
    const int64_t clusters = number_clusters();
    // Rows are scattered, so one number per row is written, 2·cluster + core, and split sequentially afterwards. An
    // arithmetic shift takes −2 + 0 back to −1.
    if (labels.stride[0] == 1) touch_pages(labels.data, static_cast<size_t>(grid_.size()) * sizeof(int64_t), run_);
    each_block(false, [&](Chunk& chunk, int64_t block) {
      const auto put = [&](int64_t p, int32_t cluster, bool is_core) {
        // One random write per row instead of two: writes to anywhere are what this pass waits for.
        labels(grid_.row(p)) = 2 * int64_t{cluster} + is_core;
      };
      for (int64_t cell = grid_.first_cell(block); cell < grid_.first_cell(block + 1); ++cell)
        for (int64_t p = first_core(cell), end = p + cores(cell); p < end; ++p)
          put(p, cluster_[static_cast<size_t>(cell)], true);
      const int64_t middle = grid_.start_of_block(block) + cores_in_block(block), end = grid_.start_of_block(block + 1);
      if (middle == end) return;
      // Only core points of touching blocks can be within ε (docs/numerics/index.md, X3).
      const bool any = border != Border::noise && clusters > 0;
      if (any) gather_core_spans(block, chunk);
      for (int64_t p = middle; p < end; ++p) {
        int32_t cluster = -1;
        if (any && border == Border::first) cluster = first(p, chunk);
        if (any && border == Border::closest) cluster = closest(p, chunk);
        put(p, cluster, false);
      }
    });
    for_chunks(grid_.size(), int64_t{1} << 14, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) core(i) = labels(i) & 1;
      for (int64_t i = begin; i < end; ++i) labels(i) >>= 1;
    });
    return clusters;
  }

  Tally tally;

 private:
  int32_t first_core(int64_t cell) const { return first_core_[static_cast<size_t>(cell)]; }
  int32_t cores(int64_t cell) const { return cores_[static_cast<size_t>(cell)]; }
  int32_t cores_in_block(int64_t block) const { return cores_in_block_[static_cast<size_t>(block)]; }

  // Points that are not decided yet, and the number or weight of points found within ε of them.
  struct Open {
    int64_t size = 0;
    std::vector<int32_t> position;
    std::vector<int64_t> count;
    std::vector<double> weight;
    std::vector<double> at;  // (d, ⌈size⌉₄) coordinates, for the kernel

    void reserve(int64_t more) {  // and up to three more, to fill the last vector
      const auto needed = static_cast<size_t>(size + more + 4);
      if (needed <= position.size()) return;
      position.resize(2 * needed);
      count.resize(2 * needed);
      weight.resize(2 * needed);
    }
    void add(int32_t begin, int32_t end) {
      reserve(end - begin);
      for (int32_t p = begin; p < end; ++p, ++size) {
        position[static_cast<size_t>(size)] = p;
        count[static_cast<size_t>(size)] = 0;
        weight[static_cast<size_t>(size)] = 0;
      }
    }
  };

  // Scratch for the blocks of a chunk.
  struct Chunk {
    Grid::Traversal traversal;
    Open open;
    std::vector<int64_t> counts;
    std::vector<int32_t> blocks;  // nearby blocks with core points
    Grid::Scratch scratch;
    std::vector<int32_t> spans;  // begin and end of each, as the kernels read them
    bool one_cluster;            // all core points nearby are of one cluster
    int64_t distances;
  };

  static void add_span(std::vector<int32_t>& spans, int32_t begin, int32_t end) {
    spans.push_back(begin);
    spans.push_back(end);
  }

  // body(chunk, block) for all blocks, in order within a chunk.
  template <class F>
  void each_block(bool ahead, F&& body) {
    for_chunks(grid_.blocks(), kBlocksAtOnce, run_, [&](int64_t, int64_t begin, int64_t end) {
      Chunk chunk{Grid::Traversal(grid_, ahead), {}, {}, {}, {}, {}, false, 0};
      for (int64_t block = begin; block < end; ++block) {
        run_.poll();
        body(chunk, block);
      }
      tally.distances.fetch_add(chunk.distances, std::memory_order_relaxed);
    });
  }

  // How many points of the spans are within ε of the point at a position; may stop counting at `stop`.
  int64_t count(int64_t position, const int32_t* spans, size_t n_spans, int64_t stop, Chunk& chunk) const {
    double q[Grid::kMostDims];
    grid_.point(position, q);
    for (size_t s = 0; s < n_spans; ++s) chunk.distances += spans[2 * s + 1] - spans[2 * s];
    return kernels_.count_spans(grid_.columns(), grid_.stride(), grid_.dims(), spans, static_cast<int64_t>(n_spans), q,
                                square_, stop);
  }

  bool is_full(int64_t cell) const {
    const int32_t begin = grid_.start(cell), end = grid_.start(cell + 1);
    return weights_.present() ? weight_suffices(begin, end) : end - begin >= least_;
  }

  // Counts the points [begin, end) of consecutive cells against their block: those with enough are core, the others
  // open.
  void count_in_block(int32_t begin, int32_t end, Chunk& chunk) {
    Open& open = chunk.open;
    const int32_t m = (end - begin + 3) / 4 * 4;  // whole vectors: up to three counts past the end are ignored
    open.reserve(end - begin);
    chunk.counts.assign(static_cast<size_t>(m), 0);
    chunk.distances += int64_t{end - begin} * (chunk.spans[1] - chunk.spans[0]);
    // The queries are positions of the columns themselves: nothing is copied for the block's own points.
    kernels_.count_each(grid_.columns() + begin, grid_.stride(), m, grid_.columns(), grid_.stride(), grid_.dims(),
                        chunk.spans.data(), 1, square_, least_, chunk.counts.data());
    for (int32_t p = begin; p < end; ++p) {
      const int64_t count = chunk.counts[static_cast<size_t>(p - begin)];
      const bool enough = count >= least_;
      is_core_[static_cast<size_t>(p)] = enough;
      open.position[static_cast<size_t>(open.size)] = p;
      open.count[static_cast<size_t>(open.size)] = count;
      // Written for every point, kept where it is still open: no branch.
      open.size += !enough;
    }
  }

  // Counts the spans from spans[before] on for the open points. Counts only grow, so a point with enough is core and
  // leaves the list.
  void count_more(size_t before, Chunk& chunk) {
    Open& open = chunk.open;
    const int64_t d = grid_.dims(), m = (open.size + 3) / 4 * 4;
    open.at.resize(static_cast<size_t>(d * m));
    for (size_t s = before; s < chunk.spans.size(); s += 2)
      chunk.distances += open.size * (chunk.spans[s + 1] - chunk.spans[s]);
    for (int64_t i = 0; i < m; ++i) {  // whole vectors: the last point is repeated
      const int64_t p = open.position[static_cast<size_t>(std::min(i, open.size - 1))];
      if (i >= open.size) open.count[static_cast<size_t>(i)] = open.count[static_cast<size_t>(open.size - 1)];
      for (int64_t j = 0; j < d; ++j) open.at[static_cast<size_t>(j * m + i)] = grid_.columns()[j * grid_.stride() + p];
    }
    kernels_.count_each(open.at.data(), m, m, grid_.columns(), grid_.stride(), d, chunk.spans.data() + before,
                        static_cast<int64_t>(chunk.spans.size() - before) / 2, square_, least_, open.count.data());
    size_t kept = 0;
    for (size_t i = 0; i < static_cast<size_t>(open.size); ++i) {
      const bool enough = open.count[i] >= least_;
      is_core_[static_cast<size_t>(open.position[i])] = enough;
      open.position[kept] = open.position[i];
      open.count[kept] = open.count[i];
      kept += !enough;
    }
    open.size = static_cast<int64_t>(kept);
  }

  // ---- weights, none of them negative -------------------------------------------------------------------------------

  void weigh_positions() {
    weight_ = make_large_array<double>(static_cast<size_t>(grid_.size()));
    for_chunks(grid_.size(), int64_t{1} << 14, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) weight_[static_cast<size_t>(p)] = weights_.of_row(grid_.row(p));
    });
  }

  // |sum − exact| ≤ slack and further weights are ≥ 0, so sum − level > slack means that the exact weight suffices. If
  // it is not reached, later spans may add weight, or the exact sum decides.
  bool surely_enough(double sum) const { return weights_.slack == 0 ? sum >= level_ : sum - level_ > weights_.slack; }

  bool weight_suffices(int32_t begin, int32_t end) const {
    double sum = 0;
    for (int32_t p = begin; p < end; ++p) sum += weight_[static_cast<size_t>(p)];
    return surely_enough(sum);
  }

  // body(position) for the points of the spans from spans[before] on within ε of the point at a position, until it is
  // true.
  template <class F>
  void each_within(int64_t position, size_t before, Chunk& chunk, F&& body) const {
    double q[Grid::kMostDims];
    grid_.point(position, q);
    for (size_t s = before; s < chunk.spans.size(); s += 2)
      for (int64_t p = chunk.spans[s]; p < chunk.spans[s + 1]; ++p) {
        ++chunk.distances;
        if (square_to(q, p) <= square_ && body(p)) return;
      }
  }

  // As count_more.
  void weigh_more(size_t before, Chunk& chunk) {
    Open& open = chunk.open;
    size_t kept = 0;
    for (size_t i = 0; i < static_cast<size_t>(open.size); ++i) {
      double sum = open.weight[i];
      bool enough = surely_enough(sum);
      each_within(open.position[i], before, chunk, [&](int64_t p) {
        sum += weight_[static_cast<size_t>(p)];
        return enough = surely_enough(sum);
      });
      is_core_[static_cast<size_t>(open.position[i])] = enough;
      open.position[kept] = open.position[i];
      open.weight[kept] = sum;
      kept += !enough;
    }
    open.size = static_cast<int64_t>(kept);
  }

  // For the i-th open point, after all spans: within the slack of the level the exact sum, rounded once, decides; below
  // it the point is not core.
  void exact_weight(size_t i, Chunk& chunk) {
    if (chunk.open.weight[i] - level_ < -weights_.slack) return;
    tally.rechecks.fetch_add(1, std::memory_order_relaxed);
    ExactSum sum;
    each_within(chunk.open.position[i], 0, chunk, [&](int64_t p) {
      sum.add(weight_[static_cast<size_t>(p)]);
      return false;
    });
    is_core_[static_cast<size_t>(chunk.open.position[i])] = sum.round() >= level_;
  }

  // The one distance, for loops that add weights (docs/numerics/rounding.md, D1).
  double square_to(const double* q, int64_t position) const {
    double sum = 0;
    for (int64_t j = 0; j < grid_.dims(); ++j) {
      const double difference = grid_.columns()[j * grid_.stride() + position] - q[j];
      sum += difference * difference;
    }
    return sum;
  }

  // Moves the core points of a block to its front, cell after cell, and records where those of each cell are.
  void core_points_first(int64_t block, Chunk& chunk) {
    int32_t at = grid_.start_of_block(block);
    for (int64_t cell = grid_.first_cell(block); cell < grid_.first_cell(block + 1); ++cell) {
      int32_t count = 0;
      for (int32_t p = grid_.start(cell); p < grid_.start(cell + 1); ++p) count += is_core_[static_cast<size_t>(p)];
      first_core_[static_cast<size_t>(cell)] = at;
      cores_[static_cast<size_t>(cell)] = count;
      at += count;
    }
    cores_in_block_[static_cast<size_t>(block)] = grid_.partition_block(block, is_core_.get(), chunk.scratch);
  }

  // ---- components ---------------------------------------------------------------------------------------------------

  // Joins the core cells of two blocks, which may be the same, where they are within ε. `one_each`: each block's core
  // cells are one component already, so one close pair joins all. The last cells of `mine` and the first of `theirs`
  // are tried first: `theirs` is mostly ahead, so those are nearest.
  void unite(int64_t mine, int64_t theirs, bool one_each, Chunk& chunk) {
    for (int32_t a = grid_.first_cell(mine + 1); a-- > grid_.first_cell(mine);) {
      if (cores(a) == 0) continue;
      // Within a block each pair of cells once.
      const int32_t last = mine == theirs ? a : grid_.first_cell(theirs + 1);
      for (int32_t b = grid_.first_cell(theirs); b < last; ++b) {
        if (cores(b) == 0 || sets_.same_shared(a, b) || !close(a, b, chunk)) continue;
        sets_.unite_shared(a, b);
        if (one_each) return;
      }
    }
  }

  // Numbers the components by their lowest row and returns how many there are. cluster_ becomes the number of a cell's,
  // known_ that of a block's. Rows rise within a cell, so the first core point has a cell's lowest core row.
  int64_t number_clusters() {
    constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
    const auto lowest = make_large_array<int32_t>(static_cast<size_t>(grid_.cells()));  // row, then number, of a root
    std::fill_n(lowest.get(), grid_.cells(), kNone);
    // Relaxed: only the minimum itself is shared, and it is read after the pass.
    const auto lower = [&](int32_t root, int32_t row) {  // an atomic minimum
      std::atomic_ref<int32_t> least(lowest[static_cast<size_t>(root)]);
      for (int32_t seen = least.load(std::memory_order_relaxed);
           row < seen && !least.compare_exchange_weak(seen, row, std::memory_order_relaxed);) {
      }
    };
    each_block(false, [&](Chunk&, int64_t block) {
      for (int32_t cell = grid_.first_cell(block); cell < grid_.first_cell(block + 1); ++cell)
        if (cores(cell) > 0) {
          const int32_t root = sets_.find_shared(cell);
          cluster_[static_cast<size_t>(cell)] = root;
          lower(root, grid_.row(first_core(cell)));
        }
    });
    std::vector<int32_t> roots;
    for (int32_t cell = 0; cell < grid_.cells(); ++cell)
      if (lowest[static_cast<size_t>(cell)] != kNone) roots.push_back(cell);
    std::sort(roots.begin(), roots.end(),
              [&](int32_t a, int32_t b) { return lowest[static_cast<size_t>(a)] < lowest[static_cast<size_t>(b)]; });
    for (size_t c = 0; c < roots.size(); ++c) lowest[static_cast<size_t>(roots[c])] = static_cast<int32_t>(c);
    each_block(false, [&](Chunk&, int64_t block) {
      for (int64_t cell = grid_.first_cell(block); cell < grid_.first_cell(block + 1); ++cell)
        if (cores(cell) > 0) {
          int32_t& cluster = cluster_[static_cast<size_t>(cell)];
          cluster = lowest[static_cast<size_t>(cluster)];
        }
      int32_t& known = known_[static_cast<size_t>(block)];
      if (known >= 0) known = cluster_[static_cast<size_t>(known)];
    });
    return static_cast<int64_t>(roots.size());
  }

  // A core cell of a block whose core cells are one component; −1: they are several, or there is none.
  int32_t one_of(int64_t block) {
    int32_t one = -1;
    for (int32_t cell = grid_.first_cell(block); cell < grid_.first_cell(block + 1); ++cell) {
      if (cores(cell) == 0) continue;
      if (one >= 0 && !sets_.same_shared(one, cell)) return -1;
      if (one < 0) one = cell;
    }
    return one;
  }

  // Whether two cells have core points within ε of each other.
  bool close(int64_t a, int64_t b, Chunk& chunk) const {
    // One query per point of the smaller cell, lanes over the larger one.
    if (cores(a) > cores(b)) std::swap(a, b);
    if (int64_t{cores(a)} * cores(b) > kManyPairs) return close_large(a, b, chunk.distances);
    const int32_t span[2] = {first_core(b), first_core(b) + cores(b)};
    for (int64_t p = first_core(a), end = p + cores(a); p < end; ++p)
      if (count(p, span, 1, 1, chunk) > 0) return true;
    return false;
  }

  // The same where there are many pairs: only points within ε of the other cell's box can belong to a close pair.
  bool close_large(int64_t a, int64_t b, int64_t& distances) const {
    const int64_t d = grid_.dims();
    const auto all = [&](int64_t cell) {
      Points points{static_cast<size_t>(cores(cell)) + 4, cores(cell), {}};
      for (int64_t j = 0; j < d; ++j) {
        const double* column = grid_.columns() + j * grid_.stride() + first_core(cell);
        points.values.insert(points.values.end(), column, column + cores(cell));
        points.values.insert(points.values.end(), 4, 0.0);
      }
      return points;
    };
    Points mine = all(a), theirs = all(b);
    // The second call sees the smaller box of what the first has kept.
    keep_near(mine, theirs);
    keep_near(theirs, mine);
    const int32_t span[2] = {0, static_cast<int32_t>(theirs.count)};
    for (int64_t p = 0; p < mine.count; ++p) {
      if (p % 256 == 0) run_.poll();
      double q[Grid::kMostDims];
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

  // Keeps those of `points` that are within ε of the box of `others`. fl Σ gap_j² ≤ fl Σ (x_j − y_j)² for every y in
  // the box, since rounding is monotone: so no close pair is lost, without a margin (docs/numerics/index.md, X1).
  void keep_near(Points& points, Points& others) const {
    const int64_t d = grid_.dims();
    double low[Grid::kMostDims], high[Grid::kMostDims];
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

  // ---- borders ------------------------------------------------------------------------------------------------------

  // The blocks with core points that touch a block, and the spans of those points. one_cluster: every one of these
  // blocks is known to be one component, and it is the same.
  void gather_core_spans(int64_t block, Chunk& chunk) const {
    chunk.blocks.clear();
    chunk.spans.clear();
    chunk.traversal.move_to(block);
    int32_t lowest = std::numeric_limits<int32_t>::max(), highest = -1;  // clusters
    for (int r = 0; r < chunk.traversal.rows(); ++r)
      for (auto [other, end] = chunk.traversal.row(r); other < end; ++other) {
        if (cores_in_block(other) == 0) continue;
        const int32_t begin = grid_.start_of_block(other);
        chunk.blocks.push_back(static_cast<int32_t>(other));
        add_span(chunk.spans, begin, begin + cores_in_block(other));
        const int32_t cluster = known_[static_cast<size_t>(other)];
        lowest = std::min(lowest, cluster);  // −1 where a block has several
        highest = std::max(highest, cluster);
      }
    chunk.one_cluster = lowest == highest && lowest >= 0;
  }

  // body(cell) for the cells with core points in the gathered blocks.
  template <class F>
  void each_core_cell(const Chunk& chunk, F&& body) const {
    for (const int32_t block : chunk.blocks)
      for (int64_t cell = grid_.first_cell(block); cell < grid_.first_cell(block + 1); ++cell)
        if (cores(cell) > 0) body(cell);
  }

  // The lowest-numbered cluster with a core point within ε of the point at a position.
  int32_t first(int64_t position, Chunk& chunk) const {
    if (count(position, chunk.spans.data(), chunk.blocks.size(), 1, chunk) == 0) return -1;
    if (chunk.one_cluster) return known_[static_cast<size_t>(chunk.blocks[0])];
    int32_t lowest = std::numeric_limits<int32_t>::max();
    each_core_cell(chunk, [&](int64_t cell) {
      const int32_t cluster = cluster_[static_cast<size_t>(cell)];
      const int32_t span[2] = {first_core(cell), first_core(cell) + cores(cell)};
      if (cluster < lowest && count(position, span, 1, 1, chunk) > 0) lowest = cluster;
    });
    return lowest;
  }

  // The cluster of the closest core point, ties to the lexicographically smallest coordinates. The minimum is found in
  // lanes; where several clusters are near, the points that attain it are found by comparing for equality, since both
  // sums have the same bits.
  int32_t closest(int64_t position, Chunk& chunk) const {
    const int64_t d = grid_.dims();
    double q[Grid::kMostDims], x[Grid::kMostDims], best[Grid::kMostDims];
    grid_.point(position, q);
    for (size_t s = 0; s < chunk.spans.size(); s += 2) chunk.distances += chunk.spans[s + 1] - chunk.spans[s];
    const double least = kernels_.least_spans(grid_.columns(), grid_.stride(), d, chunk.spans.data(),
                                              static_cast<int64_t>(chunk.blocks.size()), q);
    // D = square_ is within: the ball is closed (docs/numerics/rounding.md, D2).
    if (least > square_) return -1;
    if (chunk.one_cluster) return known_[static_cast<size_t>(chunk.blocks[0])];
    int32_t cluster = -1;
    each_core_cell(chunk, [&](int64_t cell) {
      for (int64_t p = first_core(cell), end = p + cores(cell); p < end; ++p) {
        // Both are the one distance in the same order: equality of bits is equality of distances.
        if (square_to(q, p) != least) continue;
        grid_.point(p, x);
        if (cluster >= 0 && !std::lexicographical_compare(x, x + d, best, best + d)) continue;
        cluster = cluster_[static_cast<size_t>(cell)];
        std::copy(x, x + d, best);
      }
    });
    return cluster;
  }

  static constexpr int64_t kManyPairs = 4096;  // beyond, close_large pays

  Grid& grid_;
  const IndexKernels& kernels_ = kernels().index;
  const double square_;  // a squared distance is within ε iff it is at most this
  const double level_;   // min_samples
  const Weights& weights_;
  const Run run_;
  int64_t least_;                       // min_samples, as a number of points
  LargeArray<uint8_t> is_core_;         // (n) by position, until core points are moved to the front
  LargeArray<double> weight_;           // (n) by position, until core points are moved to the front
  LargeArray<int32_t> first_core_;      // (cells) position of the first core point; the others follow
  LargeArray<int32_t> cores_;           // (cells) how many
  LargeArray<int32_t> cores_in_block_;  // (blocks) they are its first points
  LargeArray<int32_t> cluster_;         // (cells) of those with core points
  LargeArray<int32_t> known_;  // (blocks) a core cell, later its cluster, if all core cells are one component; else −1
  UnionFind<int32_t> sets_;    // of cells
};

}  // namespace

template <class T>
bool dbscan_grid(View<const T, 2> x, double eps, double min_samples, const Weights& weights, Border border,
                 View<int64_t, 1> labels, View<uint8_t, 1> core, DbscanReport& report, Run run,
                 GridWorkspace workspace) {
  Grid cells(x, eps, run, workspace);
  if (!cells.ok()) return false;
  GridDbscan work(cells, eps, min_samples, weights, run);
  work.find_cores();
  work.unite_cores();
  report.backend = "grid";
  report.clusters = work.label(border, labels, core);
  report.distances = work.tally.distances;
  report.rechecks = work.tally.rechecks;
  return true;
}

template bool dbscan_grid(View<const double, 2>, double, double, const Weights&, Border, View<int64_t, 1>,
                          View<uint8_t, 1>, DbscanReport&, Run, GridWorkspace);
template bool dbscan_grid(View<const float, 2>, double, double, const Weights&, Border, View<int64_t, 1>,
                          View<uint8_t, 1>, DbscanReport&, Run, GridWorkspace);

}  // namespace knoll
