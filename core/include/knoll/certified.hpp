// Nearest centres in float32, certified: what the error bound cannot tell apart is decided again by the one distance in
// float64, so that labels are always those of assign.hpp (docs/decisions/0008 has the proof).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "knoll/assign.hpp"
#include "knoll/run.hpp"
#include "knoll/simd.hpp"
#include "knoll/view.hpp"

namespace knoll {

// Where float32 looks at the data from: y = (x − pivot) · scale, scale a power of two. Any choice is right; a good one
// leaves little to decide again.
struct Frame {
  std::vector<double> pivot;   // (d)
  std::vector<float> pivot32;  // (d): the same numbers, for float32 data
  double scale = 0;            // 0: the numbers are too large or too small for the bound to hold; all goes by float64
  double norm2 = 0;            // a typical ‖y‖²
};
template <class T>
Frame choose_frame(View<const T, 2> x,              // in  (n, d)
                   View<const double, 2> centers);  // in  (k, d)

// Centres as the kernels want them.
class PackedCenters {
 public:
  // slots (k), if not null, says where in the blocks each centre stands.
  PackedCenters(const Frame& frame, View<const double, 2> centers, int64_t multiple = kCenterBlock,
                const int32_t* slots = nullptr);

  int64_t k, d;
  std::vector<double> exact;  // (k, d)
  bool certified;             // float32 may be used
  // (k′/4, d, 4), (k′), (k′): k padded to the multiple. A centre far out, beside most rows, would spoil the bounds of
  // all rows: its half is lowered by more than its score may be off, and only its own rows have bounds as wide as it
  // needs.
  std::vector<float> blocks, half, p2;
  float most_p2 = 0;  // the largest of p2, but for centres beyond
  // A centre beyond the range of float32 is one whose score is only known to be large, for rows that are not far out
  // themselves: a squared norm above `widest` counts as infinite, and no bound holds.
  float widest;
  float norm2(float y2) const { return y2 <= widest ? y2 : std::numeric_limits<float>::infinity(); }
  TileBounds bounds;
};

// Decides rows, some at a time; one a thread.
template <class T>
class Decider {
 public:
  Decider(View<const T, 2> x, const Frame& frame, const PackedCenters& centers);

  // label[i] = the nearest centre of row rows[i] and, if gap is not null, gap[i] = a lower bound, in units of the
  // frame, of how much farther every other centre is; −inf where none is known.
  void decide(const int64_t* rows, int64_t count,  // in
              int32_t* label,                      // out (count)
              float* gap,                          // out (count) or null
              Run run);

  AssignCounts counts;

  // The same for rows that are known to need it: label only, by the one distance.
  void decide_again(const int64_t* rows, const int64_t* which, int64_t count, int32_t* label);
  // The panel of some rows (at most kPanel), and their squared norms.
  const float* pack(const int64_t* rows, int64_t count, float* norm2);
  const T* row(int64_t i, int64_t slot);  // contiguous; a slot (below kPanel) holds one copy

 private:
  View<const T, 2> x_;
  const Frame& frame_;
  const PackedCenters& centers_;
  std::vector<T> copies_;     // (kPanel, d): rows that are not contiguous
  std::vector<float> panel_;  // (d, kPanel)
  std::vector<double> columns_, tile_;
  std::vector<int64_t> again_;
};

}  // namespace knoll
