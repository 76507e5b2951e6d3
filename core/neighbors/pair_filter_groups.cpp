// Groups of near rows, by two rounds of k-means in float32 from evenly spaced rows.
//
// Where rows have hundreds of columns and most of them are noise, the main axis of a few rows is noise too; a mean of a
// hundred rows is not. The groups order rows only: no answer depends on their rounding.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/parallel.hpp"
#include "neighbors/pair_filter_panels.hpp"

namespace knoll {
namespace {

constexpr int64_t kRowsOfGroup = 40, kMostGroups = 256, kRounds = 2;

class Groups {
 public:
  Groups(const std::vector<float>& flat, int64_t width, int64_t n)
      : flat_(flat),
        width_(width),
        n_(n),
        count_(std::min(kMostGroups, n / kRowsOfGroup)),
        of_(static_cast<size_t>(n)) {
    panels_ = (count_ + kPairPanel - 1) / kPairPanel;
    centers_.resize(static_cast<size_t>(panels_ * width * kPairPanel));
    halves_.assign(static_cast<size_t>(panels_ * kPairPanel), std::numeric_limits<float>::infinity());
    std::vector<double> center(static_cast<size_t>(width));
    for (int64_t g = 0; g < count_; ++g) {
      std::copy_n(point(g * n / count_), width, center.begin());
      set(g, center);
    }
  }

  std::vector<int64_t> order(Run run) {
    for (int64_t round = 0; round < kRounds; ++round) {
      assign(run);
      sort();
      if (round + 1 < kRounds) move(run);
    }
    std::vector<int64_t> rows;
    for (const int64_t g : chain())
      rows.insert(rows.end(), sorted_.begin() + first_[static_cast<size_t>(g)],
                  sorted_.begin() + first_[static_cast<size_t>(g) + 1]);
    return rows;
  }

 private:
  const float* point(int64_t row) const { return flat_.data() + row * width_; }
  float& at(int64_t g, int64_t j) {
    return centers_[static_cast<size_t>((g / kPairPanel * width_ + j) * kPairPanel + g % kPairPanel)];
  }
  void set(int64_t g, const std::vector<double>& center) {
    double norm = 0;
    for (int64_t j = 0; j < width_; ++j) {
      const float v = at(g, j) = static_cast<float>(center[static_cast<size_t>(j)]);
      norm += static_cast<double>(v) * v;
    }
    halves_[static_cast<size_t>(g)] = static_cast<float>(norm / 2);
  }

  // The centre with the least ‖c‖²/2 − x·c, for each row.
  void assign(Run run) {
    constexpr int64_t kAtOnce = 33;  // rows of a tile, in groups of three
    for_chunks(n_, kAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      std::vector<float> rows(static_cast<size_t>(kAtOnce * width_)), products(kAtOnce * kPairPanel);
      for (int64_t l = 0; l < end - begin; ++l)
        for (int64_t j = 0; j < width_; ++j)
          rows[static_cast<size_t>(l / 3 * 3 * width_ + 3 * j + l % 3)] = point(begin + l)[j];
      float least[kAtOnce];
      std::fill_n(least, kAtOnce, std::numeric_limits<float>::infinity());
      for (int64_t panel = 0; panel < panels_; ++panel) {
        kernels().pairs.products(rows.data(), centers_.data() + panel * width_ * kPairPanel, width_, products.data());
        for (int64_t l = 0; l < end - begin; ++l)
          for (int64_t t = 0; t < kPairPanel; ++t) {
            const float farness = halves_[static_cast<size_t>(panel * kPairPanel + t)] -
                                  products[static_cast<size_t>(l * kPairPanel + t)];
            if (farness < least[l]) {
              least[l] = farness;
              of_[static_cast<size_t>(begin + l)] = static_cast<int32_t>(panel * kPairPanel + t);
            }
          }
      }
    });
  }

  // The rows by group.
  void sort() {
    first_.assign(static_cast<size_t>(count_) + 1, 0);
    for (const int32_t g : of_) ++first_[static_cast<size_t>(g) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<int64_t> next(first_.begin(), first_.end() - 1);
    sorted_.resize(static_cast<size_t>(n_));
    for (int64_t i = 0; i < n_; ++i)
      sorted_[static_cast<size_t>(next[static_cast<size_t>(of_[static_cast<size_t>(i)])]++)] = i;
  }

  void move(Run run) {
    for_chunks(count_, 1, run, [&](int64_t g, int64_t, int64_t) {
      const int64_t begin = first_[static_cast<size_t>(g)], end = first_[static_cast<size_t>(g) + 1];
      if (begin == end) return;
      std::vector<double> mean(static_cast<size_t>(width_));
      for (int64_t i = begin; i < end; ++i) {
        const float* const x = point(sorted_[static_cast<size_t>(i)]);
        for (int64_t j = 0; j < width_; ++j) mean[static_cast<size_t>(j)] += x[j];
      }
      for (auto& coordinate : mean) coordinate /= static_cast<double>(end - begin);
      set(g, mean);
    });
  }

  // The groups, each followed by the nearest of those that are left.
  std::vector<int64_t> chain() {
    std::vector<int64_t> left(static_cast<size_t>(count_) - 1), out{0};
    std::iota(left.begin(), left.end(), 1);
    while (!left.empty()) {
      auto nearest = left.begin();
      double least = std::numeric_limits<double>::infinity();
      for (auto other = left.begin(); other != left.end(); ++other) {
        double farness = halves_[static_cast<size_t>(*other)];
        for (int64_t j = 0; j < width_; ++j) farness -= static_cast<double>(at(out.back(), j)) * at(*other, j);
        if (farness < least) least = farness, nearest = other;
      }
      out.push_back(*nearest);
      left.erase(nearest);
    }
    return out;
  }

  const std::vector<float>& flat_;
  int64_t width_, n_, count_, panels_;
  std::vector<int32_t> of_;      // (n) the group of each row
  std::vector<float> centers_;   // (panels, width, 32)
  std::vector<float> halves_;    // (panels, 32) ‖c‖²/2
  std::vector<int64_t> first_;   // (groups + 1) in sorted_
  std::vector<int64_t> sorted_;  // (n) rows by group
};

}  // namespace

std::vector<int64_t> order_by_groups(const std::vector<float>& flat, int64_t width, int64_t n, Run run) {
  if (n >= 2 * kRowsOfGroup) return Groups(flat, width, n).order(run);
  std::vector<int64_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace knoll
