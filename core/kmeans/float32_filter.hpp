// Nearest centres in float32, certified: what the error bound cannot decide is rechecked by the one distance in
// float64, so that labels are always those of assign.hpp (docs/numerics/kmeans.md, eq. 1 to 8).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "kmeans/assign.hpp"
#include "simd/kernels.hpp"

namespace knoll {

// The origin and scale of float32 coordinates: y = (x − origin) · scale, scale a power of two, so that scaling is
// exact and ‖y − p‖ = scale · ‖x − c‖ up to eq. 3. Any pivot is correct; a good one leaves few rows to recheck.
//
// Seeding (seeding_cloud.hpp) and all pairs (neighbors/pair_filter.hpp) centre and scale on their own, for other ends:
// here the scale brings the median row near 1, so that a few far rows cost the others no digits, and they are
// rechecked; seeding multiplies squared distances of all points by weights and sums them, so its scale is that of the
// largest coordinate, and a recheck of a far row would be one of every pair; pairs have no centres, and a scale per
// tree.
struct Pivot {
  std::vector<double> origin;   // (d)
  std::vector<float> origin32;  // (d): the same numbers, for float32 data
  double scale = 0;  // 0: the magnitudes are too large or too small for the bound, float64 decides everything
  double norm2 = 0;  // a typical ‖y‖²
};
template <class T>
Pivot choose_pivot(View<const T, 2> x,              // in  (n, d)
                   View<const double, 2> centers);  // in  (k, d)

// Centres in the layout of the kernels: p = (c − origin) · scale in float32, and the score of a row y is
// t = half − y·p with half = ½‖p‖², so that ‖y − p‖² = ‖y‖² + 2t (eq. 4).
class PackedCenters {
 public:
  // slots (k), if not null, gives the position of each centre in the blocks.
  PackedCenters(const Pivot& pivot, View<const double, 2> centers, int64_t multiple = kCenterBlock,
                const int32_t* slots = nullptr);

  int64_t k, d;
  std::vector<double> exact;  // (k, d)
  bool certified;             // float32 may be used
  // (k′/4, d, 4), (k′), (k′): k padded to the multiple. One centre far out would widen the bounds of all rows, which
  // grow with P² ≥ ‖p‖². So P² is taken over the near centres; the half of a far one is lowered by 2·radius·‖p‖², more
  // than its score may err, and only rows nearest to it use its own, larger P² (p2).
  std::vector<float> blocks, half, p2;
  float max_p2 = 0;  // the largest finite p2
  // A centre with ‖p‖² ≥ 2¹⁰⁰ leaves the range of float32. Its score is set to 2⁹⁷, which is below the true one for
  // rows with ‖y‖² ≤ 2⁹⁶; a squared norm above `widest` counts as infinite, and then no bound holds.
  float widest;
  float norm2(float y2) const { return y2 <= widest ? y2 : std::numeric_limits<float>::infinity(); }
  TileBounds bounds;
};

// Assigns rows, a panel at a time; one per thread.
template <class T>
class FilteredAssigner {
 public:
  FilteredAssigner(View<const T, 2> x, const Pivot& pivot, const PackedCenters& centers);

  // label[i] = the nearest centre of row rows[i] and, if gap is not null, gap[i] = a lower bound, in units of the
  // pivot, of (distance to every other centre − distance to the nearest); −inf where none is known.
  void assign(const int64_t* rows, int64_t count,  // in
              int32_t* label,                      // out (count)
              float* gap,                          // out (count) or null
              Run run);

  AssignCounts counts;

  // label[which[l]] for l < count ≤ kPoints, by the one distance.
  void recheck(const int64_t* rows, const int64_t* which, int64_t count, int32_t* label);
  const T* row(int64_t i, int64_t slot);  // contiguous; a slot (below kPanel) holds one copy

 private:
  void pack(const int64_t* rows, int64_t count, float* norm2);  // at most kPanel rows into the panel

  View<const T, 2> x_;
  const Pivot& pivot_;
  const PackedCenters& centers_;
  std::vector<T> copies_;     // (kPanel, d): rows that are not contiguous
  std::vector<float> panel_;  // (d, kPanel)
  std::vector<double> columns_, tile_;
  std::vector<int64_t> undecided_;
};

}  // namespace knoll
