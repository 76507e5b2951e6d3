// The search over filtered tiles: all pairs of panels in float32, what the filter cannot decide by the metric's
// formula.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "neighbors/cosine.hpp"
#include "neighbors/index.hpp"
#include "neighbors/pair_filter_block.hpp"
#include "tree/backends.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a search needs to know of a metric.
//   Packed            the numbers that panels are made of
//   packed()          the rows of the panels
//   within(key)       no two rows with a key up to `key` have a larger squared distance in the panels
//   keys(…)           keys of pairs of a block's rows and rows of a panel, as Block::distances

// The data themselves; keys are squared distances, so coordinates must have squares within float64.
template <class T>
class EuclideanRows {
 public:
  using Packed = T;
  static constexpr int64_t kBeside = 2;  // panels to either side whose rows are searched first

  EuclideanRows(View<const T, 2> x, const Metric&, Run) : x_(x) {}
  View<const T, 2> packed() const { return x_; }
  void drop_packed() {}
  int64_t size() const { return x_.shape[0]; }
  double key(int64_t p, int64_t q) const { return one_distance(x_, p, x_, q); }
  double distance(double key) const { return std::sqrt(key); }
  double within(double key) const { return key; }
  void keys(Block<T>& block, const Panels<T>&, int64_t panel, const uint32_t* need, double* out) const {
    block.distances(panel, need, out);
  }

 private:
  View<const T, 2> x_;
};

// Unit vectors in float32; keys are distances 1 − cos by the formula on the data.
template <class T>
class CosineRows {
 public:
  using Packed = float;
  static constexpr int64_t kBeside = 0;  // a key takes as long as several tiles

  CosineRows(View<const T, 2> x, const Metric& metric, Run run)
      : x_(x),
        metric_(metric),
        units_(make_large_array<float>(static_cast<size_t>(x.shape[0] * metric.dims()))),
        lengths_(static_cast<size_t>(x.shape[0])) {
    const int64_t d = metric.columns(), dims = metric.dims();
    for_chunks(x.shape[0], 256, run, [&](int64_t, int64_t begin, int64_t end) {
      std::vector<double> row(static_cast<size_t>(d)), unit(static_cast<size_t>(dims));
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < d; ++j) row[static_cast<size_t>(j)] = static_cast<double>(x(i, j)) + 0.0;
        metric.embed(row.data(), unit.data());
        std::copy(unit.begin(), unit.end(), units_.get() + i * dims);
        lengths_[static_cast<size_t>(i)] = cosine_length(row.data(), d);
      }
    });
  }
  View<const float, 2> packed() const { return matrix_view<const float>(units_.get(), size(), metric_.dims()); }
  void drop_packed() { units_.reset(); }
  int64_t size() const { return x_.shape[0]; }
  double distance(double key) const { return key; }

  // A unit vector in float32 is within 2^−24 of that in float64. So where |u − v|² ≤ `outside` there, it is at most
  // (√outside + 2^−23)² here; twice that margin covers the rounding of squared distances (X5, X9 of
  // docs/numerics/index.md).
  double within(double key) const {
    if (key < 0 || key == kInfinity) return key;
    const double root = std::sqrt(std::max(metric_.within(key, 0).outside, 0.0)) + 0x1p-22;
    return root * root;
  }

  double key(int64_t p, int64_t q) const {
    double out;
    const int64_t other = q;
    keys_of(p, &other, 1, &out);
    return out;
  }
  void keys(Block<float>& block, const Panels<float>& panels, int64_t panel, const uint32_t* need, double* out) const {
    for (int l = 0; l < block.size(); ++l) {
      int64_t rows[kPairPanel];
      int lanes[kPairPanel];
      int64_t count = 0;
      for_bits(need[l], [&](int t) {
        lanes[count] = t;
        rows[count++] = panels.rows[static_cast<size_t>(panel * kPairPanel + t)];
      });
      double keys[kPairPanel];
      keys_of(block.query(l), rows, count, keys);
      for (int64_t k = 0; k < count; ++k) out[l * kPairPanel + lanes[k]] = keys[k];
    }
  }

 private:
  // Metric::distance of row p and others, eight at a time: the sum of one pair waits for each of its additions.
  void keys_of(int64_t p, const int64_t* others, int64_t count, double* out) const {
    constexpr int64_t kAtOnce = 8;
    const int64_t d = x_.shape[1];
    const auto number = [&](int64_t row, int64_t j) { return static_cast<double>(x_(row, j)); };
    const CosineLength mine = lengths_[static_cast<size_t>(p)];
    for (int64_t first = 0; first < count; first += kAtOnce) {
      const int64_t many = std::min(kAtOnce, count - first);
      int64_t rows[kAtOnce];
      double sums[kAtOnce] = {}, scales[kAtOnce];
      for (int64_t k = 0; k < kAtOnce; ++k) {
        rows[k] = others[first + std::min(k, many - 1)];
        scales[k] = lengths_[static_cast<size_t>(rows[k])].scale;
      }
      for (int64_t j = 0; j < d; ++j) {
        const double coordinate = number(p, j) * mine.scale;
        for (int64_t k = 0; k < kAtOnce; ++k) sums[k] += coordinate * (number(rows[k], j) * scales[k]);
      }
      for (int64_t k = 0; k < many; ++k) {
        bool same = true;  // mostly known from the first coordinate
        for (int64_t j = 0; j < d && same; ++j) same = number(p, j) == number(rows[k], j);
        out[first + k] = same ? 0.0 : cosine_distance(sums[k], mine, lengths_[static_cast<size_t>(rows[k])]);
      }
    }
  }

  View<const T, 2> x_;
  Metric metric_;
  LargeArray<float> units_;  // (n, dims)
  std::vector<CosineLength> lengths_;
};

// The k nearest rows of the rows of all panels, ascending by (key, row): a total order, so they do not depend on the
// order in which rows are offered. Several threads may offer rows at once, to one panel one at a time.
template <class Rows>
class PanelLists {
 public:
  using T = typename Rows::Packed;

  PanelLists(const Rows& rows, const Panels<T>& panels, int64_t k)
      : metric_(rows),
        panels_(panels),
        k_(k),
        keys_(make_large_array<double>(panels.rows.size() * static_cast<size_t>(k))),
        rows_(make_large_array<int32_t>(panels.rows.size() * static_cast<size_t>(k))),
        low_(panels.low),
        reach_(static_cast<size_t>(panels.count), kInfinity),
        locks_(std::make_unique<std::atomic_flag[]>(static_cast<size_t>(panels.count))) {
    std::fill_n(keys_.get(), panels.rows.size() * static_cast<size_t>(k), kInfinity);
    std::fill_n(rows_.get(), panels.rows.size() * static_cast<size_t>(k), -1);
  }

  class Lock {
   public:
    Lock(PanelLists& lists, int64_t panel) : flag_(lists.locks_[static_cast<size_t>(panel)]) {
      while (flag_.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { flag_.clear(std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  // The key up to which a row can still enter.
  double radius(int64_t position) const { return keys_[static_cast<size_t>((position + 1) * k_ - 1)]; }
  const double* keys(int64_t position) const { return keys_.get() + position * k_; }
  const int32_t* rows(int64_t position) const { return rows_.get() + position * k_; }

  // Returns whether the radius may have fallen.
  bool offer(int64_t position, double key, int32_t row) {
    double* const keys = keys_.get() + position * k_;
    int32_t* const rows = rows_.get() + position * k_;
    const auto after = [&](int64_t at) { return keys[at] > key || (keys[at] == key && rows[at] > row); };
    if (!after(k_ - 1) && rows[k_ - 1] >= 0) return false;
    int64_t at = k_ - 1;
    for (; at > 0 && after(at - 1); --at) keys[at] = keys[at - 1], rows[at] = rows[at - 1];
    keys[at] = key, rows[at] = row;
    return true;
  }

  // What other threads read without a lock, after the lists of some lanes have changed. Radii only fall, so a stale
  // value costs time, never a row.
  void publish(int64_t panel, uint32_t lanes) {
    for_bits(lanes, [&](int l) {
      const auto position = static_cast<size_t>(panel * kPairPanel + l);
      std::atomic_ref(low_[position])
          .store(panels_.bounds.row(panels_.norms[position], metric_.within(radius(panel * kPairPanel + l))).low,
                 std::memory_order_relaxed);
    });
    double most = -1;
    for_bits(panels_.used[static_cast<size_t>(panel)],
             [&](int l) { most = std::max(most, radius(panel * kPairPanel + l)); });
    std::atomic_ref(reach_[static_cast<size_t>(panel)])
        .store(panels_.bounds.reach(std::min(metric_.within(most), std::numeric_limits<double>::max())),
               std::memory_order_relaxed);
  }
  // Rows farther apart than this, in units of x̂, are not within the radius of a row of the panel.
  double reach(int64_t panel) {
    return std::atomic_ref(reach_[static_cast<size_t>(panel)]).load(std::memory_order_relaxed);
  }
  void copy_low(int64_t panel, float* out) {
    for (int l = 0; l < kPairPanel; ++l)
      out[l] = std::atomic_ref(low_[static_cast<size_t>(panel * kPairPanel + l)]).load(std::memory_order_relaxed);
  }

 private:
  const Rows& metric_;
  const Panels<T>& panels_;
  int64_t k_;
  LargeArray<double> keys_;    // (positions, k)
  LargeArray<int32_t> rows_;   // (positions, k)
  std::vector<float> low_;     // (positions) thresholds with the radius; infinite at free positions
  std::vector<double> reach_;  // (panels)
  std::unique_ptr<std::atomic_flag[]> locks_;
};

// What the pass over all tiles leaves behind: a number for each pair of panels by which a later search knows, without
// its products, that the tile has no pair within a radius (FilterBounds::nearness). +∞: it was not seen.
class TileNearness {
 public:
  void reset(int64_t panels, int64_t most) {
    values_.reset();
    const int64_t size = panels * (panels - 1) / 2;
    known_ = size <= most;
    if (!known_) return;
    values_ = make_large_array<float>(static_cast<size_t>(std::max<int64_t>(size, 1)));
    std::fill_n(values_.get(), size, std::numeric_limits<float>::infinity());
  }
  bool known() const { return known_; }
  // Several threads may set the number of one tile: each is a bound.
  void set(int64_t panel, int64_t other, float nearness) {
    if (known_ && panel != other) std::atomic_ref(at(panel, other)).store(nearness, std::memory_order_relaxed);
  }
  float of(int64_t panel, int64_t other) {
    if (panel == other) return std::numeric_limits<float>::infinity();
    return std::atomic_ref(at(panel, other)).load(std::memory_order_relaxed);
  }

 private:
  float& at(int64_t panel, int64_t other) {
    const int64_t low = std::min(panel, other), high = std::max(panel, other);
    return values_[static_cast<size_t>(high * (high - 1) / 2 + low)];
  }
  bool known_ = false;
  LargeArray<float> values_;  // (panels, panels) below the diagonal
};

// Positions are rows here.
template <class Rows>
class TilesSearch : public ReachabilitySearch {
 public:
  using T = typename Rows::Packed;

  template <class View>
  TilesSearch(View x, const Metric& metric, Run run, int64_t tiles_kept)
      : rows_(x, metric, run),
        panels_(rows_.packed(), choose_pivot(rows_.packed(), run), run, PanelOrder::groups,
                [this] { rows_.drop_packed(); }),
        tiles_kept_(tiles_kept) {
    panels_.x = rows_.packed();
  }

  const char* backend() const override { return "tiles"; }
  int64_t size() const override { return rows_.size(); }
  int64_t row(int64_t position) const override { return position; }
  double key(int64_t p, int64_t q) const override { return rows_.key(p, q); }
  double distance(double key) const override { return rows_.distance(key); }

  void nearest(int64_t k, int32_t* near, double* farthest, Run run) const override {
    PanelLists<Rows> lists(rows_, panels_, k);
    // Not more memory than the panels take, unless that is little.
    nearness_.reset(panels_.count,
                    tiles_kept_ == 0 ? 0 : std::max(tiles_kept_, panels_.count * kPairPanel * panels_.width));
    // Neighbouring panels first, which are near: radii from which the filter can begin.
    for_chunks(panels_.count, 4, run, [&](int64_t, int64_t begin, int64_t end) {
      Block<T> block(panels_, panels_);
      std::vector<double> d2(kPairPanel * kPairPanel);
      for (int64_t panel = begin; panel < end; ++panel) {
        run.poll();
        block.fill_panel(panel);
        for (int64_t other = std::max<int64_t>(panel - Rows::kBeside, 0);
             other <= std::min(panel + Rows::kBeside, panels_.count - 1); ++other)
          search_beside(block, panel, other, lists, d2.data());
        lists.publish(panel, panels_.used[static_cast<size_t>(panel)]);
      }
    });
    // Then every other pair of panels once, for the rows of both.
    for_chunks(panels_.count, 1, run, [&](int64_t, int64_t panel, int64_t) {
      Block<T> block(panels_, panels_);
      std::vector<double> d2(kPairPanel * kPairPanel);
      block.fill_panel(panel);
      adopt_radii(block, panel, lists);
      for (const auto& candidate : block.candidates(kInfinity, nullptr, panel + Rows::kBeside + 1)) {
        // gap bounds the distance from below (P8).
        if (candidate.gap > std::max(lists.reach(panel), lists.reach(candidate.panel))) {
          nearness_.set(panel, candidate.panel, panels_.bounds.nearness_beyond(candidate.gap));
          continue;
        }
        run.poll();
        search_both(block, panel, candidate.panel, lists, d2.data());
      }
    });
    for (size_t position = 0; position < panels_.rows.size(); ++position) {
      const int64_t row = panels_.rows[position], at = static_cast<int64_t>(position);
      if (row < 0) continue;
      std::copy_n(lists.rows(at), k, near + row * k);
      farthest[row] = lists.radius(at);
    }
  }

  void leave(const RoundState& state, LeastEdges& least, Run run) const override {
    std::vector<int32_t> only(static_cast<size_t>(panels_.count));  // the component of all rows of a panel, −1: several
    std::vector<double> least_core(static_cast<size_t>(panels_.count), kInfinity);
    for (int64_t panel = 0; panel < panels_.count; ++panel) {
      int32_t component = -2;
      for_bits(panels_.used[static_cast<size_t>(panel)], [&](int t) {
        const int64_t row = row_at(panel, t);
        component = component == -2 || component == state.component[row] ? state.component[row] : -1;
        least_core[static_cast<size_t>(panel)] = std::min(least_core[static_cast<size_t>(panel)], state.core[row]);
      });
      only[static_cast<size_t>(panel)] = component;
    }
    // The rows that may have an edge below the best of their component. A block holds those of one panel, or of several
    // where nothing is known of its tiles.
    std::vector<int64_t> positions, blocks{0};
    const auto close = [&](int64_t least_size) {
      const auto end = static_cast<int64_t>(positions.size());
      if (end - blocks.back() >= least_size) blocks.push_back(end);
    };
    for (int64_t panel = 0; panel < panels_.count; ++panel) {
      for_bits(panels_.used[static_cast<size_t>(panel)], [&](int t) {
        const int64_t row = row_at(panel, t);
        if (state.component[row] == state.largest ||
            std::max(state.core[row], state.cleared[row]) >= least.key(state.component[row]))
          return;
        positions.push_back(panel * kPairPanel + t);
        close(kPairPanel);
      });
      if (nearness_.known()) close(1);
    }
    close(1);
    for_chunks(static_cast<int64_t>(blocks.size()) - 1, 1, run, [&](int64_t, int64_t block, int64_t) {
      const auto at = static_cast<size_t>(block);
      leave_from(positions.data() + blocks[at], blocks[at + 1] - blocks[at], state, only, least_core, least, run);
    });
  }

 private:
  int64_t row_at(int64_t panel, int t) const { return panels_.rows[static_cast<size_t>(panel * kPairPanel + t)]; }

  // All pairs of two panels, for the rows of the first, which the block holds.
  void search_beside(Block<T>& block, int64_t panel, int64_t other, PanelLists<Rows>& lists, double* d2) const {
    uint32_t need[kPairPanel] = {};
    for (int l = 0; l < block.size(); ++l)
      need[l] = panels_.used[static_cast<size_t>(other)] & ~(static_cast<uint32_t>(panel == other) << l);
    rows_.keys(block, panels_, other, need, d2);
    for (int l = 0; l < block.size(); ++l)
      for_bits(need[l], [&](int t) {
        lists.offer(panel * kPairPanel + l, d2[l * kPairPanel + t], static_cast<int32_t>(row_at(other, t)));
      });
  }

  // The pairs of two panels that the filter cannot rule out, for the rows of both.
  void search_both(Block<T>& block, int64_t panel, int64_t other, PanelLists<Rows>& lists, double* d2) const {
    float low[kPairPanel];
    lists.copy_low(other, low);
    Tile tile;
    nearness_.set(panel, other, block.classify_both(other, low, tile));
    uint32_t need[kPairPanel] = {}, rows = 0, columns = 0;
    for (int l = 0; l < block.size(); ++l) {
      need[l] = tile.possible[l] | tile.sure[l];
      rows |= tile.possible[l], columns |= tile.sure[l];
    }
    if ((rows | columns) == 0) return;
    rows_.keys(block, panels_, other, need, d2);
    uint32_t changed = 0;
    if (rows != 0) {
      const typename PanelLists<Rows>::Lock lock(lists, panel);
      for (int l = 0; l < block.size(); ++l)
        for_bits(tile.possible[l], [&](int t) {
          if (lists.offer(panel * kPairPanel + l, d2[l * kPairPanel + t], static_cast<int32_t>(row_at(other, t))))
            changed |= uint32_t{1} << l;
        });
      if (changed != 0) lists.publish(panel, changed);
      for_bits(changed, [&](int l) { block.set_radius(l, rows_.within(lists.radius(panel * kPairPanel + l))); });
    }
    if (columns != 0) {
      const typename PanelLists<Rows>::Lock lock(lists, other);
      changed = 0;
      for (int l = 0; l < block.size(); ++l)
        for_bits(tile.sure[l], [&](int t) {
          if (lists.offer(other * kPairPanel + t, d2[l * kPairPanel + t], static_cast<int32_t>(block.query(l))))
            changed |= uint32_t{1} << t;
        });
      if (changed != 0) lists.publish(other, changed);
    }
  }

  void adopt_radii(Block<T>& block, int64_t panel, PanelLists<Rows>& lists) const {
    const typename PanelLists<Rows>::Lock lock(lists, panel);
    for (int l = 0; l < block.size(); ++l) block.set_radius(l, rows_.within(lists.radius(panel * kPairPanel + l)));
  }

  // A block of up to 32 rows against the panels, nearest first, until no panel can hold a smaller edge.
  void leave_from(const int64_t* positions, int64_t count, const RoundState& state, const std::vector<int32_t>& only,
                  const std::vector<double>& least_core, LeastEdges& least, Run run) const {
    Block<T> block(panels_, panels_);
    // What a whole panel shows of another one is true of both for good, so its other rows come along.
    const int64_t own = nearness_.known() ? positions[0] / kPairPanel : -1;
    uint32_t searching = ~uint32_t{0} >> (kPairPanel - count);
    if (own >= 0) {
      block.fill_panel(own);
      searching = 0;
      for (int64_t k = 0; k < count; ++k) searching |= uint32_t{1} << positions[k] % kPairPanel;
      for_bits(panels_.used[static_cast<size_t>(own)] & ~searching, [&](int l) { block.set_radius(l, -1); });
    } else {
      block.fill(positions, count);
    }
    double limits[kPairPanel], largest = -1;
    int32_t common = -2;
    const auto shrink = [&] {
      largest = -1;
      for_bits(searching, [&](int l) {
        limits[l] = least.key(state.component[block.query(l)]);
        block.set_radius(l, std::min(rows_.within(limits[l]), std::numeric_limits<double>::max()));
        largest = std::max(largest, limits[l]);
      });
    };
    shrink();
    for_bits(searching, [&](int l) {
      const int32_t component = state.component[block.query(l)];
      common = common == -2 || common == component ? component : -1;
    });
    float none[kPairPanel];  // no radius of the other side
    std::fill_n(none, kPairPanel, std::numeric_limits<float>::infinity());
    std::vector<double> d2(kPairPanel * kPairPanel);
    const auto search_panel = [&](int64_t panel) {
      run.poll();
      Tile tile;
      if (own >= 0)
        nearness_.set(own, panel, block.classify_both(panel, none, tile));
      else
        block.classify(panel, tile);
      uint32_t any = 0;
      for_bits(searching, [&](int l) {
        const int64_t p = block.query(l);
        uint32_t others = 0;
        for_bits(tile.possible[l], [&](int t) {
          const int64_t q = row_at(panel, t);
          others |=
              static_cast<uint32_t>(q >= 0 && state.component[q] != state.component[p] && state.core[q] < limits[l])
              << t;
        });
        any |= tile.possible[l] = others;
      });
      if (any == 0) return;
      rows_.keys(block, panels_, panel, tile.possible, d2.data());
      for_bits(searching, [&](int l) {
        for_bits(tile.possible[l], [&](int t) {
          const int64_t p = block.query(l), q = row_at(panel, t);
          const double key = std::max({d2[static_cast<size_t>(l * kPairPanel + t)], state.core[p], state.core[q]});
          least.offer(state.component[p], key, static_cast<int32_t>(p), static_cast<int32_t>(q));
          least.offer(state.component[q], key, static_cast<int32_t>(q), static_cast<int32_t>(p));
        });
      });
      shrink();
    };
    const auto skips = [&](int64_t panel) {
      const auto at = static_cast<size_t>(panel);
      return (common >= 0 && only[at] == common) || least_core[at] >= largest;
    };
    if (own >= 0) {
      std::vector<std::pair<float, int64_t>> tiles;  // the nearest first
      const float first = panels_.bounds.nearness(rows_.within(largest));
      for (int64_t panel = 0; panel < panels_.count; ++panel)
        if (const float nearness = nearness_.of(own, panel); !(nearness < first) && !skips(panel))
          tiles.emplace_back(-nearness, panel);
      std::sort(tiles.begin(), tiles.end());
      for (const auto& [farness, panel] : tiles) {
        if (-farness < panels_.bounds.nearness(rows_.within(largest))) break;
        if (!skips(panel)) search_panel(panel);
      }
    } else {
      for (const auto& candidate : block.candidates(rows_.within(largest), nullptr)) {
        if (candidate.gap > panels_.bounds.reach(rows_.within(largest))) break;
        if (!skips(candidate.panel)) search_panel(candidate.panel);
      }
    }
    shrink();
    for_bits(searching, [&](int l) { state.cleared[block.query(l)] = limits[l]; });
  }

  Rows rows_;
  Panels<T> panels_;
  int64_t tiles_kept_;
  mutable TileNearness nearness_;  // of the last call of `nearest`, for `leave`
};

}  // namespace

// Half of the n/32 panels: a tile serves both sides. Its 11 groups of three rows take 12 products a column.
double work_of_tiles(int64_t n, int64_t d) {
  return static_cast<double>(n) / (2 * kPairPanel) * (350 + 72 * static_cast<double>(d));
}

template <class T>
std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const T, 2> x, const Metric& metric, Run run,
                                                      int64_t tiles_kept) {
  check_row_count(x.shape[0]);
  if (metric.name() == MetricName::cosine)
    return std::make_unique<TilesSearch<CosineRows<T>>>(x, metric, run, tiles_kept);
  return std::make_unique<TilesSearch<EuclideanRows<T>>>(x, metric, run, tiles_kept);
}
template std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const double, 2>, const Metric&, Run, int64_t);
template std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const float, 2>, const Metric&, Run, int64_t);

}  // namespace knoll
