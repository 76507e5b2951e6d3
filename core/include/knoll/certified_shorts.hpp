// Rows and centres on a grid of whole numbers of seven bits: a quarter of float32's bytes, twice its speed, and sums
// without rounding. How far each lies from its place on the grid is known, so what the grid says of distances is
// certain to within that (docs/decisions/0008, eq. 11).
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/certified.hpp"
#include "knoll/large_array.hpp"

namespace knoll {

// The grid: y (in the units of a frame) lies near step·q.
struct ShortGrid {
  float step = 0, inverse = 0;  // 0: none
};
// A step that holds nine rows in ten of a sample. Any choice is right.
template <class T>
ShortGrid choose_grid(View<const T, 2> x, const Frame& frame);

// All rows on the grid, and in float32.
class ShortRows {
 public:
  ShortRows() = default;
  template <class T>
  ShortRows(View<const T, 2> x, const Frame& frame, ShortGrid grid, Run run);

  ShortGrid grid;
  int64_t quads = 0;           // words a row
  LargeArray<uint8_t> q;       // (n, quads·kQuad)
  LargeArray<float> y;         // (n, d): the rows in the frame, for what the grid cannot tell
  std::vector<float> y2;       // (n): their squared norms
  std::vector<int32_t> norm2;  // (n): those on the grid, in steps
  std::vector<float> off;      // (n): how far a row is from its place on the grid, at most
};

// Centres on the same grid, standing where PackedCenters says.
class ShortCenters {
 public:
  ShortCenters() = default;
  ShortCenters(const PackedCenters& centers, const std::vector<float>& rows, const ShortRows& points);

  std::vector<int8_t> blocks;   // (k′ / kShortBlock, quads, kShortBlock, kQuad)
  std::vector<int32_t> offset;  // (k′)
  float off = 0;                // the farthest from its place
  int64_t widen = 2;            // words whose products add up within 16 bits
};

}  // namespace knoll
