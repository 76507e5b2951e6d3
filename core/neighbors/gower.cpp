// Packing rows for Gower's distance, and the tiles of a block.
#include "neighbors/gower.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/parallel.hpp"
#include "common/power_of_two.hpp"
#include "common/tile.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kGroupColumns = 255;    // columns that a byte counts
constexpr int64_t kColumnsLimit = 65536;  // of numbers; the bound holds up to there
constexpr double kFar = 0x1p30;           // numbers from here on are left to the formula
constexpr float kUp = 1 + 0x1p-20f;       // more than the rounding of a slack

// Numbers beyond float32 are infinite there; converting them is undefined.
float to_float(double x) { return x < 0x1p127 ? static_cast<float>(x) : std::numeric_limits<float>::infinity(); }

bool is_level(double x) { return x >= 0 && x < 0x1p32 && x == std::trunc(x); }

int64_t bytes_of(uint32_t level) { return level < 1u << 8 ? 1 : level < 1u << 16 ? 2 : level < 1u << 24 ? 3 : 4; }

uint32_t largest_level(View<const double, 2> x, int64_t j) {
  double largest = 0;
  for (int64_t i = 0; i < x.shape[0]; ++i)
    if (is_level(x(i, j))) largest = std::max(largest, x(i, j));
  return static_cast<uint32_t>(largest);
}

}  // namespace

GowerLayout::GowerLayout(View<const double, 2> x, const Metric& measure)
    : metric(measure), columns(static_cast<size_t>(measure.columns())) {
  const std::vector<double>& signed_weight = metric.column_weights();
  double largest = 0;
  for (const double w : signed_weight) largest = std::max(largest, std::fabs(w));
  const double unit = largest > 0 ? to_one(largest) : 1.0;
  for (const double w : signed_weight) weight.push_back(std::fabs(w) * unit), mass += weight.back();
  std::iota(columns.begin(), columns.end(), 0);
  std::stable_sort(columns.begin(), columns.end(), [&](int64_t a, int64_t b) {
    return weight[static_cast<size_t>(a)] < weight[static_cast<size_t>(b)];
  });
  int64_t bytes = static_cast<int64_t>(columns.size()), first = 0;
  for (size_t c = 0; c < columns.size(); ++c) {
    const auto j = static_cast<size_t>(columns[c]);
    const bool is_number = signed_weight[j] > 0;
    planes.push_back(is_number ? 0 : bytes_of(largest_level(x, columns[c])));
    bytes += planes.back();
    const bool opens = c == 0 ||
                       static_cast<double>(group_weight.back()) != static_cast<double>(static_cast<float>(weight[j])) ||
                       static_cast<int64_t>(c) - first == kGroupColumns;
    if (opens)
      first = static_cast<int64_t>(c), group_weight.push_back(static_cast<float>(weight[j])), group_end.push_back(0);
    group_end.back() = static_cast<int64_t>(c) + 1;
  }
  for (size_t j = 0; j < signed_weight.size(); ++j)
    if (signed_weight[j] > 0) numbers.push_back(static_cast<int64_t>(j));
  const auto groups = static_cast<int64_t>(group_end.size()), count = static_cast<int64_t>(numbers.size());
  kappa = count + groups > kColumnsLimit ? 0x1p127 : static_cast<double>(count + groups + 16) * 0x1p-24;
  shape = {count,
           static_cast<int64_t>(columns.size()),
           bytes,
           groups,
           group_end.data(),
           group_weight.data(),
           planes.data(),
           static_cast<float>(mass)};
}

Panels<GowerRow>::Panels(View<const double, 2> rows_of_x, Pivot layout, Run run)
    : x(rows_of_x), pivot(std::move(layout)) {
  const int64_t n = x.shape[0], d = x.shape[1];
  if (!x.rows_contiguous()) {
    contiguous.resize(static_cast<size_t>(n * d));
    pack_rows(x, contiguous.data());
  }
  count = chunk_count(n, kPairPanel);
  const auto positions = static_cast<size_t>(count * kPairPanel);
  rows.resize(positions);
  for (size_t i = 0; i < positions; ++i) rows[i] = static_cast<int64_t>(i) < n ? static_cast<int64_t>(i) : -1;
  sizes.assign(positions, 0.0);
  numbers.assign(positions * static_cast<size_t>(pivot->shape.numbers), std::numeric_limits<float>::quiet_NaN());
  bytes.assign(positions * static_cast<size_t>(pivot->shape.bytes), 0);
  used.assign(static_cast<size_t>(count), ~uint32_t{0});
  if (n % kPairPanel != 0) used.back() = ~uint32_t{0} >> (kPairPanel - n % kPairPanel);
  slacks.resize(static_cast<size_t>(count));
  complete.resize(static_cast<size_t>(count));
  for_chunks(count, 32, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) pack(panel);
  });
}

void Panels<GowerRow>::pack(int64_t panel) {
  const GowerShape& shape = pivot->shape;
  const std::vector<double>& weights = pivot->metric.column_weights();
  float* const to_numbers = numbers.data() + panel * shape.numbers * kPairPanel;
  uint8_t* const to_bytes = bytes.data() + panel * shape.bytes * kPairPanel;
  double largest = 0;
  bool whole = true;
  for_bits(used[static_cast<size_t>(panel)], [&](int l) {
    const double* const from = row(panel * kPairPanel + l);
    double size = 0;
    for (int64_t c = 0; c < shape.numbers; ++c) {
      const int64_t j = pivot->numbers[static_cast<size_t>(c)];
      if (from[j] == kMissing) continue;
      const double v = from[j] * pivot->weight[static_cast<size_t>(j)];
      to_numbers[c * kPairPanel + l] = std::fabs(v) < kFar ? static_cast<float>(v) : 0.0f;
      size += std::fabs(v) < kFar ? std::fabs(v) : kInfinity;
    }
    for (int64_t c = 0, plane = shape.columns; c < shape.columns; plane += shape.planes[c++]) {
      const auto j = static_cast<size_t>(pivot->columns[static_cast<size_t>(c)]);
      if (from[j] == kMissing) {
        whole = false;
        continue;
      }
      to_bytes[c * kPairPanel + l] = 255;
      if (weights[j] > 0) continue;
      const bool fits = is_level(from[j]) && bytes_of(static_cast<uint32_t>(from[j])) <= shape.planes[c];
      if (!fits) size = kInfinity;
      const uint32_t level = fits ? static_cast<uint32_t>(from[j]) : 0;
      for (int64_t k = 0; k < shape.planes[c]; ++k)
        to_bytes[(plane + k) * kPairPanel + l] = static_cast<uint8_t>(level >> (8 * k));
    }
    sizes[static_cast<size_t>(panel * kPairPanel + l)] = size;
    largest = std::max(largest, size);
  });
  slacks[static_cast<size_t>(panel)] = to_float(pivot->kappa * largest) * kUp;
  complete[static_cast<size_t>(panel)] = whole;
}

Block<GowerRow>::Block(const Panels<GowerRow>& queries, const Panels<GowerRow>& panels)
    : queries_(queries),
      panels_(panels),
      numbers_(static_cast<size_t>(kPairPanel * panels.pivot->shape.numbers)),
      bytes_(static_cast<size_t>(kPairPanel * panels.pivot->shape.bytes)) {}

void Block<GowerRow>::fill(const int64_t* positions, int64_t count) {
  const GowerShape& shape = panels_.pivot->shape;
  size_ = count;
  complete_ = true;
  for (int64_t l = 0; l < count; ++l) {
    const int64_t panel = positions[l] / kPairPanel, lane = positions[l] % kPairPanel;
    for (int64_t c = 0; c < shape.numbers; ++c)
      numbers_[static_cast<size_t>(l * shape.numbers + c)] =
          queries_.numbers[static_cast<size_t>((panel * shape.numbers + c) * kPairPanel + lane)];
    for (int64_t c = 0; c < shape.bytes; ++c)
      bytes_[static_cast<size_t>(l * shape.bytes + c)] =
          queries_.bytes[static_cast<size_t>((panel * shape.bytes + c) * kPairPanel + lane)];
    complete_ = complete_ && queries_.complete[static_cast<size_t>(panel)] != 0;
    query_[l] = queries_.rows[static_cast<size_t>(positions[l])];
    sizes_[l] = queries_.sizes[static_cast<size_t>(positions[l])];
    limits_[l] = -1;
  }
}

void Block<GowerRow>::fill_panel(int64_t panel) {
  int64_t positions[kPairPanel];
  for (int l = 0; l < kPairPanel; ++l) positions[l] = panel * kPairPanel + l;
  fill(positions, count_bits(queries_.used[static_cast<size_t>(panel)]));
}

// Rows that float32 holds are less than 2^60 apart, so every larger radius decides alike.
void Block<GowerRow>::set_radius(int l, double radius) {
  const GowerLayout& layout = *panels_.pivot;
  const double most = std::min(radius, 0x1p60);
  limits_[l] = radius < 0 ? -1.0f : static_cast<float>(most);
  slacks_[l] = to_float(layout.kappa * (sizes_[l] + (1 + most) * layout.mass)) * kUp;
}

const std::vector<Block<GowerRow>::Candidate>& Block<GowerRow>::candidates(double, const uint32_t* selected,
                                                                           int64_t first) {
  candidates_.clear();
  for (int64_t panel = first; panel < panels_.count; ++panel)
    if (selected == nullptr || selected[panel] != 0) candidates_.push_back({0.0, panel});
  return candidates_;
}

void Block<GowerRow>::classify(int64_t panel, Tile& tile) {
  ++stats.tiles;
  const GowerShape& shape = panels_.pivot->shape;
  const auto at = static_cast<size_t>(panel);
  const GowerTile pairs = {numbers_.data(),
                           bytes_.data(),
                           limits_,
                           slacks_,
                           size_,
                           panels_.numbers.data() + panel * shape.numbers * kPairPanel,
                           panels_.bytes.data() + panel * shape.bytes * kPairPanel,
                           panels_.slacks[at],
                           complete_ && panels_.complete[at] != 0};
  std::fill_n(tile.sure, kPanelRows, 0u);
  std::fill_n(tile.possible, kPanelRows, 0u);
  kernels().gower.masks(&shape, &pairs, tile.sure, tile.possible);
  for (int64_t l = 0; l < size_; ++l) tile.sure[l] &= panels_.used[at], tile.possible[l] &= panels_.used[at];
}

void Block<GowerRow>::distances(int64_t panel, const uint32_t* need, double* out) {
  for (int64_t l = 0; l < size_; ++l) {
    stats.rechecks += count_bits(need[l]);
    const double* const from = queries_.row(query_[l]);
    for_bits(need[l], [&](int t) {
      out[l * kPairPanel + t] = panels_.pivot->metric.distance(from, panels_.row(panel * kPairPanel + t));
    });
  }
}

void Block<GowerRow>::recheck(int64_t panel, const uint32_t* need, double radius, Tile& tile) {
  uint32_t open[kPairPanel] = {}, any = 0;
  for (int64_t l = 0; l < size_; ++l) any |= open[l] = tile.possible[l] & ~tile.sure[l] & need[l];
  if (any == 0) return;
  double found[kPairPanel * kPairPanel];
  distances(panel, open, found);
  for (int64_t l = 0; l < size_; ++l)
    for_bits(open[l], [&](int t) {
      if (found[l * kPairPanel + t] <= radius) tile.sure[l] |= uint32_t{1} << t;
    });
}

void gower_distances(View<const double, 2> x, View<const double, 2> y, const Metric& metric, double* out, Run run) {
  const int64_t n = x.shape[0], m = y.shape[0], d = x.shape[1];
  std::vector<double> rows(static_cast<size_t>(n * d));
  pack_rows(x, rows.data());
  for_chunks(chunk_count(m, kPairPanel), 4, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> panel(static_cast<size_t>(d * kPairPanel)), other(static_cast<size_t>(d));
    double sums[kPairPanel], masses[kPairPanel];
    for (int64_t first = begin * kPairPanel; first < std::min(end * kPairPanel, m); first += kPairPanel) {
      run.poll();
      const int64_t lanes = std::min<int64_t>(kPairPanel, m - first);
      for (int64_t j = 0; j < d; ++j)
        for (int64_t t = 0; t < kPairPanel; ++t)
          panel[static_cast<size_t>(j * kPairPanel + t)] = t < lanes ? y(first + t, j) : kMissing;
      for (int64_t i = 0; i < n; ++i) {
        const double* const row = rows.data() + i * d;
        kernels().gower.sums(row, panel.data(), metric.column_weights().data(), d, kMissing, sums, masses);
        for (int64_t t = 0; t < lanes; ++t) {
          out[i * m + first + t] = sums[t] / masses[t];
          if (masses[t] > 0) continue;  // else they have no common column
          for (int64_t j = 0; j < d; ++j) other[static_cast<size_t>(j)] = y(first + t, j);
          out[i * m + first + t] = metric.distance(row, other.data());
        }
      }
    }
  });
}

}  // namespace knoll
