// Draws by weight: the scale of weights, a draw from cumulative sums, and an urn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "common/parallel.hpp"
#include "common/power_of_two.hpp"

namespace knoll {

inline uint64_t draw_index(uint64_t restart, int64_t step, int64_t trial) {
  return restart << 48 | static_cast<uint64_t>(step) << 16 | static_cast<uint64_t>(trial);
}

// Weights times the power of two that brings the given largest one near 2^400: far from overflow when multiplied by
// squared distances and summed, and as far as possible from underflow. Larger weights are clipped to the largest
// double.
class WeightScale {
 public:
  explicit WeightScale(double largest) : power_(largest > 0 ? 399 - std::ilogb(largest) : 400) {}
  double operator()(double weight) const { return std::min(power_(weight), std::numeric_limits<double>::max()); }

 private:
  PowerOfTwo power_;
};

// Inverse transform sampling: the first mass whose cumulative sum exceeds u·total, u in [0, 1), given the cumulative
// sums of cells of masses.
template <class Mass>
int64_t pick(double u, const std::vector<double>& running, int64_t n, int64_t cell_size, Mass&& mass) {
  const double target = u * running.back();
  auto cell = std::upper_bound(running.begin(), running.end(), target);
  // u·total may round up to total: then the last cell that has a mass.
  if (cell == running.end()) cell = std::lower_bound(running.begin(), running.end(), running.back());
  const double before = cell == running.begin() ? 0.0 : *(cell - 1);
  const int64_t begin = (cell - running.begin()) * cell_size, end = std::min(n, begin + cell_size);
  int64_t picked = begin;
  double within = 0.0;
  for (int64_t i = begin; i < end; ++i) {
    const double one = mass(i);
    if (!(one > 0)) continue;
    picked = i;
    within += one;
    if (target - before < within) break;
  }
  return picked;
}

// Draws by weight without replacement.
class Urn {
 public:
  Urn(const double* weights, int64_t m) : weights_(weights), m_(m), taken_(static_cast<size_t>(m)) { fill(); }

  void take(int64_t i) {
    taken_[static_cast<size_t>(i)] = 1;
    --left_;
    masses_[static_cast<size_t>(i)] = 0.0;
    add_up(i / kUrnCell);
  }
  int64_t draw(double u) {
    if (left_ == 0) {  // all were drawn: start over
      std::fill(taken_.begin(), taken_.end(), uint8_t{0});
      fill();
    } else if (std::all_of(sums_.begin(), sums_.end(), [](double sum) { return !(sum > 0); })) {
      fill();  // those left underflowed beside those taken: scale again
    }
    std::partial_sum(sums_.begin(), sums_.end(), running_.begin());
    const int64_t i = pick(u, running_, m_, kUrnCell, [&](int64_t p) { return masses_[static_cast<size_t>(p)]; });
    take(i);
    return i;
  }

 private:
  static constexpr int64_t kUrnCell = 1024;

  void fill() {
    double largest = 0.0;
    left_ = 0;
    for (int64_t i = 0; i < m_; ++i) {
      if (taken_[static_cast<size_t>(i)] != 0) continue;
      largest = std::max(largest, weights_[i]);
      ++left_;
    }
    const WeightScale scale(largest);
    masses_.resize(static_cast<size_t>(m_));
    for (int64_t i = 0; i < m_; ++i)
      masses_[static_cast<size_t>(i)] = taken_[static_cast<size_t>(i)] != 0 ? 0.0 : scale(weights_[i]);
    sums_.resize(static_cast<size_t>(chunk_count(m_, kUrnCell)));
    running_.resize(sums_.size());
    for (int64_t cell = 0; cell < static_cast<int64_t>(sums_.size()); ++cell) add_up(cell);
  }
  void add_up(int64_t cell) {
    double sum = 0.0;
    for (int64_t i = cell * kUrnCell; i < std::min(m_, (cell + 1) * kUrnCell); ++i)
      sum += masses_[static_cast<size_t>(i)];
    sums_[static_cast<size_t>(cell)] = sum;
  }

  const double* weights_;
  int64_t m_, left_ = 0;
  std::vector<uint8_t> taken_;          // (m)
  std::vector<double> masses_;          // (m) 0 once taken
  std::vector<double> sums_, running_;  // (cells)
};

}  // namespace knoll
