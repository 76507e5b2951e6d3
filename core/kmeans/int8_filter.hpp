// Rows and centres as integers of seven bits: a quarter of float32's bytes, twice its speed, and sums without rounding.
// With y ≈ step·q and p ≈ step·m, the triangle inequality gives
//     ‖y − p‖ ≥ step·‖q − m‖ − ‖y − step·q‖ − ‖p − step·m‖,
// where the last two are stored as errors (docs/numerics/kmeans.md, eq. 11).
#pragma once

#include <cstdint>
#include <vector>

#include "common/large_array.hpp"
#include "kmeans/float32_filter.hpp"

namespace knoll {

// Coordinates y (in units of a pivot) are rounded to multiples of step.
struct Int8Grid {
  float step = 0, inverse = 0;  // 0: none
};
// A step that covers nine rows in ten of a sample without clipping. Any choice is correct.
template <class T>
Int8Grid choose_grid(View<const T, 2> x, const Pivot& pivot);

// All rows in int8 and in float32.
class Int8Rows {
 public:
  Int8Rows() = default;
  template <class T>
  Int8Rows(View<const T, 2> x, const Pivot& pivot, Int8Grid grid, Run run);

  Int8Grid grid;
  int64_t quads = 0;           // words of four columns per row
  LargeArray<uint8_t> q;       // (n, quads·kQuad)
  LargeArray<float> y;         // (n, d): the rows in float32, for what int8 cannot rule out
  std::vector<float> y2;       // (n): ‖y‖²
  std::vector<int32_t> norm2;  // (n): ‖q‖²
  std::vector<float> error;    // (n): an upper bound of ‖y − step·q‖
};

// Centres on the same grid, in the slots of PackedCenters. The score of centre c is ‖q − m‖² − ‖q‖² = ‖m‖² − 2 q·m.
// Rows are stored as q + kInt8Max ≥ 0, so offset = ‖m‖² + 2·kInt8Max·Σ_j m_j makes up for it.
class Int8Centers {
 public:
  Int8Centers() = default;
  Int8Centers(const PackedCenters& centers, const std::vector<float>& rows, const Int8Rows& points);

  std::vector<int8_t> blocks;   // (k′ / kInt8Block, quads, kInt8Block, kQuad)
  std::vector<int32_t> offset;  // (k′)
  float error = 0;              // an upper bound of every ‖p − step·m‖
  int64_t widen = 2;            // words whose products are summed in 16 bits
};

}  // namespace knoll
