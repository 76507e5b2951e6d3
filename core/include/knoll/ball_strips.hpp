// One to three dimensions: points in strips along the first axis, sorted by it, so that a ball cuts each strip in an
// interval whose middle lies wholly inside.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/ball_blocks.hpp"
#include "knoll/run.hpp"

namespace knoll {

class BallStrips {
 public:
  BallStrips(const double* x, int64_t n, int64_t d, double eps, Run run);  // x (n, d) in row-major order

  const Blocks& blocks() const { return blocks_; }

  // inside(begin, end) for ranges of blocks that lie wholly within the ball, check(begin, end) for those that may cut
  // its sphere.
  template <class Inside, class Check>
  void visit(const double* y, double bound, Inside&& inside, Check&& check) const {
    const double y1 = blocks_.d > 1 ? y[1] : 0, y2 = blocks_.d > 2 ? y[2] : 0;
    for (size_t s = first_not_below(slabs_, 0, slabs_.size(), y2, 0, bound); s < slabs_.size(); ++s) {
      const Range& slab = slabs_[s];
      const double near2 = square(slab.gap(y2)), far2 = square(slab.reach(y2));
      if (near2 > bound) break;
      const auto end = static_cast<size_t>(slab.end);
      for (size_t r = first_not_below(rows_, static_cast<size_t>(slab.begin), end, y1, near2, bound); r < end; ++r) {
        const Range& row = rows_[r];
        const double near1 = square(row.gap(y1)), far1 = square(row.reach(y1));
        if (near1 + near2 > bound) break;
        cut(row, y[0], near1, near2, far1, far2, bound, inside, check);
      }
    }
  }

 private:
  struct Range {
    double low, high;    // of the coordinate that the strips or slabs divide
    int64_t begin, end;  // rows of a slab, blocks of a row

    double gap(double y) const { return std::max(std::max(low - y, y - high), 0.0); }
    double reach(double y) const { return std::max(y - low, high - y); }
  };
  static double square(double v) { return v * v; }

  // The first range that is not wholly below the ball.
  static size_t first_not_below(const std::vector<Range>& ranges, size_t begin, size_t end, double y, double other,
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

  // The first block b of [begin, end) with x[b] ≥ at (or > at).
  template <bool Strict>
  static int64_t search(const double* x, int64_t begin, int64_t end, double at) {
    int64_t length = end - begin;
    while (length > 0) {
      const int64_t half = length / 2;
      const bool right = Strict ? x[begin + half] <= at : x[begin + half] < at;
      begin = right ? begin + half + 1 : begin;
      length = right ? length - half - 1 : half;
    }
    return begin;
  }

  template <class Inside, class Check>
  void cut(const Range& row, double y, double near1, double near2, double far1, double far2, double bound,
           Inside&& inside, Check&& check) const {
    constexpr double kSlack = 1e-12;
    // Beyond [left, right] everything is outside: the distance computed there, at the strip's nearest edge, says so.
    const auto outside = [&](double x) { return square(x - y) + near1 + near2 > bound; };
    const double wide = std::sqrt(std::max(bound - (near1 + near2), 0.0)) * (1 + kSlack);
    double left = std::nextafter(y - wide, -HUGE_VAL), right = std::nextafter(y + wide, HUGE_VAL);
    if (!outside(left)) left = -HUGE_VAL;
    if (!outside(right)) right = HUGE_VAL;
    int64_t begin = search<true>(last_.data(), row.begin, row.end, left);
    const int64_t end = search<false>(first_.data(), begin, row.end, right);
    // Within [left, right] of the far edge everything is inside.
    if (far1 + far2 <= bound) {
      const double narrow = std::sqrt(bound - (far1 + far2)) * (1 - kSlack);
      left = std::nextafter(y - narrow, HUGE_VAL);
      right = std::nextafter(y + narrow, -HUGE_VAL);
      if (left <= right && square(left - y) + far1 + far2 <= bound && square(right - y) + far1 + far2 <= bound) {
        const int64_t from = search<false>(first_.data(), begin, end, left);
        const int64_t to = search<true>(last_.data(), from, end, right);
        if (from < to) {
          if (begin < from) check(begin, from);
          inside(from, to);
          begin = to;
        }
      }
    }
    if (begin < end) check(begin, end);
  }

  Blocks blocks_;
  std::vector<Range> slabs_, rows_;
  std::vector<double> first_, last_;  // (blocks) lowest and highest first coordinate
};

}  // namespace knoll
