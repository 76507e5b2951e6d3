// One block of queries: its ball, its candidates, its tiles.
#include "neighbors/pair_filter_block.hpp"

#include <cmath>

namespace knoll {

template <class T>
Block<T>::Block(const Panels<T>& queries, const Panels<T>& panels)
    : queries_(queries),
      panels_(panels),
      rows_(static_cast<size_t>(kPanelRows * panels.width)),
      center_(static_cast<size_t>(panels.width)) {}

// The rows in groups of three, (11, width, 3), as the kernel reads them.
template <class T>
void Block<T>::fill(const int64_t* positions, int64_t count) {
  const int64_t width = panels_.width;
  size_ = count;
  candidates_.clear();
  cursor_ = 0;
  has_rows64_ = false;
  for (int l = 0; l < kPanelRows; ++l) {  // a free row has high = low = ∞: p ≥ ∞ is false, so no pair is possible
    // Three rows side by side: the kernel broadcasts three neighbouring numbers for each j.
    float* const to = rows_.data() + l / 3 * 3 * width + l % 3;
    high_[l] = low_[l] = plain_[l] = std::numeric_limits<float>::infinity();
    if (l >= count) {
      for (int64_t j = 0; j < width; ++j) to[3 * j] = 0.0f;
      continue;
    }
    const int64_t position = positions[l], panel = position / kPairPanel;
    const float* const from = queries_.columns.data() + panel * width * kPairPanel + position % kPairPanel;
    for (int64_t j = 0; j < width; ++j) to[3 * j] = from[j * kPairPanel];
    plain_[l] = queries_.low[static_cast<size_t>(position)];
    query_[l] = queries_.rows[static_cast<size_t>(position)];
    norms_[l] = queries_.norms[static_cast<size_t>(position)];
  }
  panel_ = -1;
}

template <class T>
void Block<T>::fill_panel(int64_t panel) {
  int64_t positions[kPairPanel];
  for (int l = 0; l < kPairPanel; ++l) positions[l] = panel * kPairPanel + l;
  fill(positions, count_bits(queries_.used[static_cast<size_t>(panel)]));
  panel_ = panel;
}

// A negative r2 gives high = low = ∞: no pair of row l is possible any more.
template <class T>
void Block<T>::set_radius(int l, double r2) {
  const auto range = panels_.bounds.row(norms_[l], r2);
  high_[l] = range.high;
  low_[l] = range.low;
}

template <class T>
void Block<T>::ball() {
  const int64_t width = panels_.width;
  // A full panel of queries has been enclosed already.
  if (panel_ >= 0) {  // the block is a panel, whose ball is known
    for (int64_t j = 0; j < width; ++j)
      center_[static_cast<size_t>(j)] =
          queries_.balls.centers[static_cast<size_t>((panel_ / kPoints * width + j) * kPoints + panel_ % kPoints)];
    radius_ = queries_.balls.radii[static_cast<size_t>(panel_)];
    return;
  }
  // Centroid and radius of the rounded rows, plus their storing error (FilterBounds::around).
  std::fill(center_.begin(), center_.end(), 0.0);
  for (int64_t l = 0; l < size_; ++l)
    for (int64_t j = 0; j < width; ++j)
      center_[static_cast<size_t>(j)] +=
          rows_[static_cast<size_t>(l / 3 * 3 * width + 3 * j + l % 3)] / static_cast<double>(size_);
  radius_ = 0;
  for (int64_t l = 0; l < size_; ++l) {
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) {
      const double difference =
          rows_[static_cast<size_t>(l / 3 * 3 * width + 3 * j + l % 3)] - center_[static_cast<size_t>(j)];
      sum += difference * difference;
    }
    radius_ = std::max(radius_, panels_.bounds.around(sum, norms_[l]));  // inf for a row too far out
  }
}

// near(ball, around, d2) for the balls of one column tile, from `first` to `last`, that a query may reach; around is
// the sum of the radii and d2 the squared distance of the centres. By the triangle inequality ‖m − m'‖ > radius +
// radius'
// + r means that no pair is within r. d2, computed with a relative error of at most 4·relative, is compared with
// margins on both sides; a NaN or an infinite radius keeps the ball.
template <class T>
template <class F>
void Block<T>::near_balls(const Balls& balls, int64_t first, int64_t last, double reach, F&& near) {
  const double relative = panels_.bounds.relative;
  const int64_t tile = first / kPoints * kPoints;
  double d2[kPoints];
  kernels().distance_tile(balls.centers.data() + tile * panels_.width, center_.data(), 0, 1, panels_.width, d2);
  for (int64_t ball = first; ball < last; ++ball) {
    // P8 of docs/numerics/pairs.md.
    const double around = (radius_ + balls.radii[static_cast<size_t>(ball)]) * (1 + relative);
    const double far = around + reach;
    if (!(d2[ball - tile] * (1 - 4 * relative) > far * far * (1 + 4 * relative))) near(ball, around, d2[ball - tile]);
  }
}

template <class T>
const std::vector<typename Block<T>::Candidate>& Block<T>::candidates(double r2, const uint32_t* selected,
                                                                      int64_t first) {
  const double reach = panels_.bounds.reach(r2), relative = panels_.bounds.relative;
  // Groups of 32 panels first: a group that is too far away rules out 1024 rows with one distance.
  ball();
  candidates_.clear();
  cursor_ = 0;
  const auto groups = static_cast<int64_t>(panels_.groups.radii.size());
  for (int64_t tile = first / kPoints; tile < groups; tile = (tile / kPoints + 1) * kPoints) {
    const int64_t tile_end = std::min((tile / kPoints + 1) * kPoints, groups);
    near_balls(panels_.groups, tile, tile_end, reach, [&](int64_t group, double, double) {
      const int64_t begin = std::max(group * kPoints, first), end = std::min((group + 1) * kPoints, panels_.count);
      near_balls(panels_.balls, begin, end, reach, [&](int64_t panel, double around, double d2) {
        if (selected == nullptr || selected[panel] != 0)
          // A lower bound on ‖x′ − y′‖: the order by it lets a search stop at the first panel that is too far.
          candidates_.push_back({std::sqrt(d2) * (1 - relative) - around, panel});
      });
    });
  }
  stats.discarded += std::max<int64_t>(0, panels_.count - first) - static_cast<int64_t>(candidates_.size());
  // Nearest first: counts and radii are settled early. Ties by panel, so the order is one on all machines.
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.gap != b.gap ? a.gap < b.gap : a.panel < b.panel; });
  return candidates_;
}

// The panel of the next candidate, which is prefetched while this one is computed.
template <class T>
const float* Block<T>::ahead(int64_t panel) {
  while (cursor_ + 1 < candidates_.size() && candidates_[cursor_].panel != panel) ++cursor_;
  const int64_t next = cursor_ + 1 < candidates_.size() ? candidates_[cursor_ + 1].panel : panel;
  return panels_.columns.data() + next * panels_.width * kPairPanel;
}

template <class T>
void Block<T>::classify(int64_t panel, Tile& tile) {
  ++stats.tiles;
  kernels().pairs.masks(rows_.data(), high_, low_, panels_.columns.data() + panel * panels_.width * kPairPanel,
                        panels_.high.data() + panel * kPairPanel, panels_.low.data() + panel * kPairPanel,
                        panels_.width, tile.sure, tile.possible, ahead(panel));
}

// p < low(x) + low(y) ⟹ D > r² whichever of the two has the term of r² (docs/numerics/pairs.md, P6): the sum of the two
// thresholds is the same. So the comparison with `high` is made with the lows of the other side's radii.
template <class T>
float Block<T>::classify_both(int64_t panel, const float* column_low, Tile& tile) {
  ++stats.tiles;
  return kernels().pairs.masks_and_most(
      rows_.data(), plain_, low_, panels_.columns.data() + panel * panels_.width * kPairPanel, column_low,
      panels_.low.data() + panel * kPairPanel, panels_.width, tile.sure, tile.possible, ahead(panel));
}

// The one distance of all pairs of a tile, in float64 lanes.
template <class T>
void Block<T>::distances_of_all(int64_t panel, double* d2) {
  const int64_t d = panels_.x.shape[1];
  // Free lanes are zeros; their bits are not in `need`.
  columns64_.assign(static_cast<size_t>(d * kPairPanel), 0.0);
  for_bits(panels_.used[static_cast<size_t>(panel)], [&](int t) {
    const int64_t row = panels_.rows[static_cast<size_t>(panel * kPairPanel + t)];
    for (int64_t j = 0; j < d; ++j)
      columns64_[static_cast<size_t>(j * kPairPanel + t)] = static_cast<double>(panels_.x(row, j));
  });
  if (!has_rows64_) {
    has_rows64_ = true;
    rows64_.resize(static_cast<size_t>(d * kPairPanel));
    for (int64_t l = 0; l < size_; ++l)
      for (int64_t j = 0; j < d; ++j)
        rows64_[static_cast<size_t>(l * d + j)] = static_cast<double>(queries_.x(query_[l], j));
  }
  kernels().distance_tile(columns64_.data(), rows64_.data(), d, size_, d, d2);
}

template <class T>
void Block<T>::distances(int64_t panel, const uint32_t* need, double* d2) {
  static_assert(kPairPanel == kPoints);
  int64_t open = 0;
  // The work decides the route, the route not the answer: both are the one distance.
  for (int64_t l = 0; l < size_; ++l) open += count_bits(need[l]);
  stats.rechecks += open;
  // More than an eighth of the 1024 pairs: a float64 tile costs less than that many single distances. So data that
  // float32 cannot resolve costs a float64 tile, and no more.
  if (open > 4 * kPairPanel) return distances_of_all(panel, d2);
  for (int64_t l = 0; l < size_; ++l)
    for_bits(need[l], [&](int t) {
      d2[l * kPairPanel + t] =
          one_distance(queries_.x, query_[l], panels_.x, panels_.rows[static_cast<size_t>(panel * kPairPanel + t)]);
    });
}

// Afterwards every pair of `need` is in `sure` iff D ≤ r2: sure ones by the bound, open ones by D itself.
template <class T>
void Block<T>::recheck(int64_t panel, const uint32_t* need, double r2, Tile& tile) {
  uint32_t open[kPairPanel] = {}, any = 0;
  for (int64_t l = 0; l < size_; ++l) any |= open[l] = tile.possible[l] & ~tile.sure[l] & need[l];
  if (any == 0) return;
  d2_.resize(kPairPanel * kPairPanel);
  distances(panel, open, d2_.data());
  for (int64_t l = 0; l < size_; ++l)
    for_bits(open[l], [&](int t) {
      if (d2_[static_cast<size_t>(l * kPairPanel + t)] <= r2) tile.sure[l] |= uint32_t{1} << t;
    });
}

template class Block<double>;
template class Block<float>;

}  // namespace knoll
