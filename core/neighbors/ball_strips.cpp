#include "neighbors/ball_strips.hpp"

#include <numbers>
#include <numeric>

#include "common/radix_sort.hpp"
#include "neighbors/metric.hpp"

namespace knoll {
namespace {

// The height h of a strip, in units of ε. A strip costs about as much as checking kStrip points. In the plane a ball
// cuts 1/h strips and checks points in a ring of width h: up to constants kStrip/h + density·h, least at h² =
// kStrip/density. In space kStrip/h² + density·h gives h³ = kStrip/density. The optimum is flat: a factor of three in h
// costs a quarter.
constexpr double kStrip = 50;

double height(const double* x, int64_t n, int64_t d, double bound, int64_t& distances) {
  // The mean number of neighbours, estimated from evenly spaced rows. Only the speed depends on it.
  // 131 072 distances at most, whatever n is: enough for a height whose optimum is flat.
  const int64_t centres = std::min<int64_t>(n, 64), others = std::min<int64_t>(n, 2048);
  int64_t within = 0;
  distances += centres * others;
  for (int64_t a = 0; a < centres; ++a)
    for (int64_t b = 0; b < others; ++b) {
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double difference = x[a * n / centres * d + j] - x[b * n / others * d + j];
        sum += difference * difference;
      }
      within += sum <= bound;
    }
  const double neighbours =
      static_cast<double>(within) / static_cast<double>(centres * others) * static_cast<double>(n) + 1;
  const double share = d == 2 ? std::sqrt(kStrip * std::numbers::pi / neighbours)
                              : std::cbrt(kStrip * 4 / 3 * std::numbers::pi / neighbours);
  // A strip higher than 2 ε cannot lie inside a ball; below ε/256 the traversal of strips would dominate.
  return std::clamp(share, 1.0 / 256, 2.0);
}

}  // namespace

BallStrips::BallStrips(const double* x, int64_t n, int64_t d, double eps, Run run) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const double step = d > 1 ? height(x, n, d, largest_square(eps), distances_) * eps : 0;

  // The number of the strip (slab) of a coordinate; where eps is 0 every value is a strip of its own.
  std::vector<double> low(static_cast<size_t>(d), HUGE_VAL);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j) low[static_cast<size_t>(j)] = std::min(low[static_cast<size_t>(j)], x[i * d + j]);
  // Only groups points: bounds are taken from the points of a strip, so the rounding of the quotient does not matter.
  const auto strip = [&](int64_t i, int64_t j) {
    const double v = x[i * d + j];
    return step > 0 ? std::floor((v - low[static_cast<size_t>(j)]) / step) : v;
  };
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  // Stable sorts by the least significant criterion first: x, then strip, then slab.
  // order_key maps −0 to +0, so equal coordinates are equal keys.
  const auto sort_by = [&](auto&& value) {
    for (size_t k = 0; k < keys.size(); ++k) keys[k] = order_key(value(order[k]));
    radix_sort(keys.data(), order.data(), n, run);
  };
  sort_by([&](int64_t i) { return x[i * d]; });
  for (int64_t j = 1; j < d; ++j) sort_by([&](int64_t i) { return strip(i, j); });

  std::vector<int64_t> ends;
  const auto coord = [&](int64_t at, int64_t j) { return j < d ? x[order[static_cast<size_t>(at)] * d + j] : 0.0; };
  const auto starts = [&](int64_t at, int64_t j) {
    return j < d && strip(order[static_cast<size_t>(at)], j) != strip(order[static_cast<size_t>(at - 1)], j);
  };
  for (int64_t at = 0; at < n; ++at) {
    const bool new_slab = at == 0 || starts(at, 2), new_row = new_slab || starts(at, 1);
    if (new_slab) {
      if (at > 0) slabs_.back().end = static_cast<int64_t>(rows_.size());
      slabs_.push_back({coord(at, 2), coord(at, 2), static_cast<int64_t>(rows_.size()), 0});
    }
    if (new_row) {
      if (at > 0) ends.push_back(at);
      rows_.push_back({{coord(at, 1), coord(at, 1), 0, 0}, 0, 0, 0, 0, nullptr, nullptr});
    }
    const auto widen = [](Range& range, double v) {
      range.low = std::min(range.low, v);
      range.high = std::max(range.high, v);
    };
    widen(slabs_.back(), coord(at, 2));
    widen(rows_.back(), coord(at, 1));
  }
  slabs_.back().end = static_cast<int64_t>(rows_.size());
  ends.push_back(n);

  blocks_.d = d;
  blocks_.pack(x, order, ends);
  for (size_t r = 0; r < rows_.size(); ++r) {
    rows_[r].begin = r == 0 ? 0 : blocks_.group_end[r - 1];
    rows_[r].end = blocks_.group_end[r];
  }
  for (int64_t b = 0; b < blocks_.size; ++b) {
    first_.push_back(blocks_.coord(b, 0, 0));
    int64_t lane = kBlock - 1;
    while (blocks_.row[static_cast<size_t>(b * kBlock + lane)] < 0) --lane;
    last_.push_back(blocks_.coord(b, 0, lane));
  }

  // Buckets: for every row two tables with one entry more than it has blocks. `bucket` is monotone in x, so one merge
  // of blocks and buckets fills a table.
  buckets_.resize(static_cast<size_t>(2 * blocks_.size) + 2 * rows_.size());
  int32_t* table = buckets_.data();
  for (Row& row : rows_) {
    row.left = first_[static_cast<size_t>(row.begin)];
    row.right = last_[static_cast<size_t>(row.end - 1)];
    row.buckets = row.end - row.begin;
    row.scale = static_cast<double>(row.buckets) / (row.right - row.left);
    // All x equal, or so close that the quotient overflows: one bucket.
    if (!std::isfinite(row.scale)) row.scale = 0;
    const auto fill = [&](const std::vector<double>& edge) {
      const int32_t* const filled = table;
      int64_t b = row.begin;
      for (int64_t c = 0; c <= row.buckets; ++c) {
        while (b < row.end && row.bucket(edge[static_cast<size_t>(b)]) < c) ++b;
        *table++ = static_cast<int32_t>(b);
      }
      return filled;
    };
    row.first = fill(first_);
    row.last = fill(last_);
  }
}

}  // namespace knoll
