// The ascent's entries of the table of kernels; bodies in neighbors/ascent-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

struct BlockRange {
  int64_t begin, end;
};

struct AscentKernels {
  // Points are in blocks of four: coords (blocks, d, 4), columns (blocks, c, 4); a lane without a point has infinite
  // coordinates. For the lanes of all ranges that are within the ball, the one distance to y being ≤ bound:
  //   sums[0, lane] += 1,   sums[1 + k, lane] += columns[·, k, lane].
  void (*add_ball)(const double* coords, const int64_t* columns, const BlockRange* ranges, int64_t count, int64_t d,
                   int64_t c, const double* y, double bound, int64_t* sums);

  // The same for d ≤ 3 with one column, keys (blocks, 4), and digits computed from the coordinates: for each coordinate
  // x_j, by the numbers split[2j] and split[2j + 1] of its Digits, low() and high(), two more sums, the low digit's
  // first.
  void (*add_ball_split)(const double* coords, const int64_t* keys, const BlockRange* ranges, int64_t count, int64_t d,
                         const double* y, double bound, const double* split, int64_t* sums);

  // sums[k] += Σ over ranges of prefix[end, k] − prefix[begin, k]; rows of prefix are `width` long, a multiple of 4.
  void (*add_prefix)(const int64_t* prefix, int64_t width, const BlockRange* ranges, int64_t count, int64_t* sums);

  // For the lanes with −s = ‖x − y‖²·scale, s ≥ least, and κ = w·exp(s):  sums[0, lane] += κ, sums[1 + j, lane] +=
  // κ·x_j. weights (blocks, 4) or null; lanes beyond a block's points have infinite coordinates and count 0.
  void (*add_gauss)(const double* coords, const double* weights, int64_t blocks, int64_t d, const double* y,
                    double scale, double least, double* sums);
};

}  // namespace knoll
