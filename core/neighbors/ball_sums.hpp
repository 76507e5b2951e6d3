// The rows within a ball: their number, their exact sums, and a fingerprint of the set (docs/numerics/balls.md, B1 to
// B5).
//
// The next position of an ascent is a function of the *set* N_ε(y) alone, so a ball is summarized by integers that no
// order changes: the number of rows, the sum of a random 64-bit key per row, and the digits of Σ w and Σ w x. Prefix
// sums over blocks of points give the sum of a range in O(1), so a query checks only points near the sphere: strips
// find them in one to three dimensions, a kd-tree in more.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/ascent_kernels.hpp"
#include "neighbors/ball_blocks.hpp"
#include "neighbors/ball_digits.hpp"

namespace knoll {

class BallStrips;

// Identifies a set of rows. Two different sets have the same sum of random keys with probability 2^−64, and must agree
// in the number of rows and all digits besides.
struct Fingerprint {
  uint64_t key = 0, mix = 0;  // sum of keys; hash of all sums

  bool operator==(const Fingerprint&) const = default;
};

class BallSums {
 public:
  // Rows x (n, d), row-major and finite, weights (n) > 0 or null, balls of radius about eps.
  BallSums(const double* x, const double* weights, int64_t n, int64_t d, double eps, Run run);
  ~BallSums();
  BallSums(const BallSums&) = delete;
  BallSums& operator=(const BallSums&) = delete;

  struct Scratch {
    std::vector<BlockRange> whole, cut;  // ranges of blocks within the ball, and that its sphere may cut
    std::vector<int64_t> lanes;          // (width, 4)
    std::vector<int32_t> stack;
    int64_t distances = 0;  // evaluated so far, those to the lanes that fill up a block among them
  };

  int64_t dimension() const { return d_; }
  int64_t width() const { return stride_; }  // integers that summarize a ball; the first is the number of rows
  const Blocks& blocks() const;
  int64_t distances() const;  // evaluated while it was made

  // sums (width) of the rows within the ball: their one distance to y is ≤ bound.
  void sum(const double* y, double bound, Scratch& scratch, int64_t* sums) const;

  // What all balls about positions in a box share: S, the sums of the rows that are in every one of them, and C, the
  // rows that are in one but not in all. A ball's sums are then S plus those of the rows of C within it.
  struct Common {
    std::vector<double> lo, hi;    // (d) the box of positions
    std::vector<int64_t> sums;     // (width) S
    std::vector<double> coords;    // (blocks, d, 4)
    std::vector<int64_t> columns;  // (blocks, …, 4) as those of all rows
    int64_t blocks = 0;
  };
  // Fills `common` for the positions in its box, among them y, whose ball has the sums `sums`; false where C is more
  // than half of what one ball checks, so that it would not pay.
  bool prepare(const double* y, double bound, const int64_t* sums, Scratch& scratch, Common& common) const;
  void sum(const double* y, double bound, const Common& common, Scratch& scratch, int64_t* sums) const;

  Fingerprint fingerprint(const int64_t* sums) const;
  double weight(const int64_t* sums) const;  // Σ w, rounded once
  // Σ w x / Σ w: each sum rounded once, then divided. The mean is within float64 wherever the sums are.
  void mean(const int64_t* sums, double* point) const;

 private:
  void visit(const double* lo, const double* hi, double bound, Scratch& scratch) const;
  void add_within(const double* coords, const int64_t* columns, const std::vector<BlockRange>& ranges, const double* y,
                  double bound, Scratch& scratch) const;
  void make_columns(const double* x, const double* weights, int64_t n, Run run);

  int64_t d_, key_ = 1, weight_at_ = 2;  // offsets of the key and of the weight's digits among the sums
  int64_t width_ = 0, stride_ = 0;       // sums that are used, and that many and zeros up to a multiple of 4
  Digits weight_;
  bool plain_ = true;                      // all products and sums of weights are within float64, the lowest bits too
  std::vector<Digits> coordinate_;         // (d)
  std::vector<int64_t> first_;             // (d) offset of each coordinate's digits
  std::unique_ptr<BallStrips> strips_;     // one of the two
  std::unique_ptr<BlockTree> tree_;        //
  std::vector<double> split_;              // (d, 2) Digits::low() and high() of each coordinate, or empty
  std::vector<int64_t> columns_, prefix_;  // (blocks, width − 1, 4), the keys alone with split_; (blocks + 1, stride)
};

}  // namespace knoll
