// Entries of the table of kernels for Gower's distance; bodies in neighbors/gower-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

// The columns as panels hold them: numbers, then a byte for each column: whether a row has it, then the levels
// of the categories in bytes, as many for each as its levels take. Columns of one weight are a group of at most 255.
struct GowerShape {
  int64_t numbers;            // columns of numbers
  int64_t columns;            // all columns
  int64_t bytes;              // columns, and the bytes of all levels
  int64_t groups;             //
  const int64_t* group_end;   // (groups) columns up to the end of each
  const float* group_weight;  // (groups)
  const int64_t* planes;      // (columns) bytes of a level; 0: a number
  float mass;                 // the weights of all columns
};

// Up to 32 rows and a panel of 32.
struct GowerTile {
  const float* row_numbers;    // (rows, numbers) w·x rounded, NaN: missing
  const uint8_t* row_bytes;    // (rows, bytes); 255: the row has the column
  const float* limits;         // (rows) radii; negative: no pair
  const float* slacks;         // (rows)
  int64_t rows;                //
  const float* panel_numbers;  // (numbers, 32)
  const uint8_t* panel_bytes;  // (bytes, 32)
  float panel_slack;           //
  bool complete;               // no value is missing on either side
};

struct GowerKernels {
  // Which pairs of a tile are surely within the limit, and which possibly; neighbors/gower-inl.hpp states how.
  void (*masks)(const GowerShape* shape, const GowerTile* tile, uint32_t* sure, uint32_t* possible);

  // Sum and weight of Metric::distance of a row (d) and a panel (d, 32) in float64, in the order of the columns; a
  // value that equals `missing` is skipped. weights (d): negative ones of categories.
  void (*sums)(const double* row, const double* panel, const double* weights, int64_t d, double missing, double* sums,
               double* masses);
};

}  // namespace knoll
