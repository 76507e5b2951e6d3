// One to three dimensions: points in strips along the first axis, sorted by it within a strip. A ball cuts a strip in
// an interval of x whose middle lies wholly inside, so only the blocks near its two ends are checked point by point.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "neighbors/ball_blocks.hpp"

namespace knoll {

class BallStrips {
 public:
  BallStrips(const double* x, int64_t n, int64_t d, double eps, Run run);  // x (n, d) in row-major order

  const Blocks& blocks() const { return blocks_; }
  int64_t distances() const { return distances_; }  // evaluated while it was made

  // For all balls whose centre lies in the box [lo, hi]: inside(begin, end) for ranges of blocks wholly within each of
  // them, check(begin, end) for those that a sphere may cut. One ball has lo = hi. Rows and slabs are sorted by their
  // coordinate, so the first one that is beyond the ball ends the loop.
  template <class Inside, class Check>
  void visit(const double* lo, const double* hi, double bound, Inside&& inside, Check&& check) const {
    const double lo1 = blocks_.d > 1 ? lo[1] : 0, hi1 = blocks_.d > 1 ? hi[1] : 0;
    const double lo2 = blocks_.d > 2 ? lo[2] : 0, hi2 = blocks_.d > 2 ? hi[2] : 0;
    for (size_t s = first_not_below(slabs_, 0, slabs_.size(), lo2, 0, bound); s < slabs_.size(); ++s) {
      const Range& slab = slabs_[s];
      const double near2 = square(slab.gap(lo2, hi2)), far2 = square(slab.reach(lo2, hi2));
      if (near2 > bound) break;
      const auto end = static_cast<size_t>(slab.end);
      for (size_t r = first_not_below(rows_, static_cast<size_t>(slab.begin), end, lo1, near2, bound); r < end; ++r) {
        const Row& row = rows_[r];
        const double near1 = square(row.gap(lo1, hi1)), far1 = square(row.reach(lo1, hi1));
        if (near1 + near2 > bound) break;
        cut(row, lo[0], hi[0], near1, near2, far1, far2, bound, inside, check);
      }
    }
  }

 private:
  struct Range {
    double low, high;    // of the coordinate that the strips or slabs divide
    int64_t begin, end;  // rows of a slab, blocks of a row

    double gap(double lo, double hi) const { return std::max(std::max(low - hi, lo - high), 0.0); }
    double reach(double lo, double hi) const { return std::max(hi - low, high - lo); }
  };
  // A strip with a table that finds the block of an x: buckets of equal width, about one per block.
  struct Row : Range {
    double left, right;  // the lowest and the highest x
    double scale;        // buckets per unit of x
    int64_t buckets;
    const int32_t *first, *last;  // (buckets + 1) each: first[c] and last[c] are the first blocks whose lowest and
                                  // whose highest x are in bucket c or beyond

    // The bucket of x, −1 before all and `buckets` after all; monotone in x.
    int64_t bucket(double x) const {
      if (x < left) return -1;
      if (x > right) return buckets;
      return std::min(static_cast<int64_t>((x - left) * scale), buckets - 1);
    }
  };
  static double square(double v) { return v * v; }

  // The first range that is not wholly below the ball: a binary search, for ranges rise and do not overlap.
  // The comparison is by the computed distance, so it is monotone along the ranges (docs/numerics/rounding.md, D3).
  template <class R>
  static size_t first_not_below(const std::vector<R>& ranges, size_t begin, size_t end, double y, double other,
                                double bound) {
    while (begin < end) {
      const size_t middle = (begin + end) / 2;
      const Range& range = ranges[middle];
      if (range.high < y && square(y - range.high) + other > bound)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }

  static constexpr int64_t kCrowded = 8;  // blocks of one bucket beyond which a binary search in it pays

  // A block of the row such that all blocks before it have x ≤ at, and not many more do.
  int64_t until(const Row& row, double at) const {
    const int64_t c = row.bucket(at);
    if (c < 0) return row.begin;
    if (c >= row.buckets) return row.end;
    int64_t begin = row.last[c], length = row.last[c + 1] - begin;
    if (length > kCrowded) begin = std::upper_bound(&last_[0] + begin, &last_[0] + begin + length, at) - &last_[0];
    return begin;
  }
  // A block of the row such that it and all after it have x ≥ at, and not many more do.
  int64_t from(const Row& row, double at) const {
    const int64_t c = row.bucket(at);
    if (c < 0) return row.begin;
    if (c >= row.buckets) return row.end;
    const int64_t begin = row.first[c], end = row.first[c + 1];
    if (end - begin > kCrowded) return std::lower_bound(&first_[0] + begin, &first_[0] + end, at) - &first_[0];
    return end;
  }

  // Splits the row's blocks into outside, check, inside, check, outside. The ends of the intervals are computed with a
  // slack of 1e-12 and then *verified* by the computed distance itself, (x − y)² + near or far, in the order of the one
  // distance. Rounding is monotone, so what holds at an end holds beyond it; an end that fails the test is not used.
  template <class Inside, class Check>
  void cut(const Row& row, double lo, double hi, double near1, double near2, double far1, double far2, double bound,
           Inside&& inside, Check&& check) const {
    constexpr double kSlack = 1e-12, kUlp = 0x1p-52;
    // Beyond [left, right] everything is outside: (left − lo)² + near > bound, with near at the strip's nearest edge.
    // docs/numerics/balls.md, B3.
    const double wide = std::sqrt(std::max(bound - (near1 + near2), 0.0)) * (1 + kSlack);
    double left = lo - wide, right = hi + wide;
    left -= std::abs(left) * kUlp;
    right += std::abs(right) * kUlp;
    if (!(square(left - lo) + near1 + near2 > bound)) left = -HUGE_VAL;
    if (!(square(right - hi) + near1 + near2 > bound)) right = HUGE_VAL;
    int64_t begin = until(row, left);
    const int64_t end = from(row, right);
    // Within [left, right] everything is inside: (left − hi)² + far ≤ bound, with far at the strip's farthest edge.
    if (far1 + far2 <= bound) {
      const double narrow = std::sqrt(bound - (far1 + far2)) * (1 - kSlack);
      left = hi - narrow;
      right = lo + narrow;
      left += std::abs(left) * kUlp;
      right -= std::abs(right) * kUlp;
      if (left <= lo && right >= hi && square(left - hi) + far1 + far2 <= bound &&
          square(right - lo) + far1 + far2 <= bound) {
        const int64_t inner = std::max(from(row, left), begin), outer = std::min(until(row, right), end);
        if (inner < outer) {
          if (begin < inner) check(begin, inner);
          inside(inner, outer);
          begin = outer;
        }
      }
    }
    if (begin < end) check(begin, end);
  }

  Blocks blocks_;
  int64_t distances_ = 0;
  std::vector<Range> slabs_;
  std::vector<Row> rows_;
  std::vector<double> first_, last_;  // (blocks) lowest and highest x
  std::vector<int32_t> buckets_;      // what the rows point to
};

}  // namespace knoll
