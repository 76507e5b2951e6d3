// The k-means entries of the kernel table: bodies in kmeans/assign-inl.hpp and int8_filter-inl.hpp. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kPanel = 24;       // points in a float32 panel (d, kPanel): three vectors
constexpr int kGroup = 8;        // centres that share a bound
constexpr int kBoundLanes = 32;  // bounds that are compared together
constexpr int kCenterBlock = 4;  // centres side by side in a packed block (d, kCenterBlock)

// Sums over many columns are taken over blocks of this size first, and the error bound shrinks accordingly
// (docs/numerics/kmeans.md, eq. 4). Internal linkage: what one instruction set compiles must not serve another.
constexpr int kSumColumns = 256;
// How many of d columns are in the block that begins at column `from`.
static constexpr int64_t columns_in_block(int64_t from, int64_t d) {
  return d - from < kSumColumns ? d - from : kSumColumns;
}
// The most additions that a product of a score goes through: those of its block, and one for every block.
static constexpr int64_t additions_of_score(int64_t d) {
  return d <= kSumColumns ? d : columns_in_block(0, d) + (d + kSumColumns - 1) / kSumColumns;
}

constexpr int kQuad = 4;               // columns of seven bits in a word
constexpr int kInt8Max = 63;           // such an integer lies in [−kInt8Max, kInt8Max]
constexpr int kInt8Block = 2;          // centres side by side in a packed block (quads, kInt8Block, kQuad)
constexpr int32_t kNoScore = 1 << 30;  // above every score of a centre

// A centre (its position among those of the groups) that may be near to the rows of these lanes.
struct Int8Hit {
  int32_t position;
  uint32_t lanes;
};

// Error bounds of float32 scores, relative to ‖y‖² + P² (docs/numerics/kmeans.md, eq. 6 to 8).
struct TileBounds {
  float p2;      // P²: an upper bound of the squared norms of all centres but those far out
  float margin;  // two scores further apart than margin·(‖y‖² + P²) + floor are in their true order
  float radius;  // ‖y‖² + 2·score is the squared distance up to radius·(‖y‖² + P²) + floor
  float slack;   // rounding of the coordinates changes a distance by at most slack·√(‖y‖² + P²)
  float floor;   // covers every underflow
};

// The units of cluster sums, for each column (padded to a multiple of 4): terms below `limit` in magnitude are split at
// two powers of two, each given as 1.5·2^52 units.
struct SumUnits {
  const double *limit, *cut_high, *cut_low;
};

struct KMeansKernels {
  // panel[j, l] = (rows[l][j] − pivot[j]) · scale, computed in the rows' dtype and rounded to float32, and norm2[l]
  // = Σ_j panel[j, l]²; lanes from count on are zero.
  void (*pack_f64)(const double* const* rows, int64_t count, int64_t d, const double* pivot, double scale, float* panel,
                   float* norm2);
  void (*pack_f32)(const float* const* rows, int64_t count, int64_t d, const float* pivot, float scale, float* panel,
                   float* norm2);

  // A single row: y[j] as in a panel; returns Σ_j y[j]².
  float (*pack_row_f64)(const double* x, int64_t d, const double* pivot, double scale, float* y);
  float (*pack_row_f32)(const float* x, int64_t d, const float* pivot, float scale, float* y);

  // For each point of a panel the lowest and the second lowest score half[c] + Σ_j y_j centers[c, j], and the index of
  // the lowest, ties to the lowest index. centers is packed (k/4, d, 4) and bears the minus sign; k is a multiple of 4.
  void (*nearest_two)(const float* panel, int64_t d, const float* centers, const float* half, int64_t k, float* best,
                      float* second, int32_t* index);

  // gap[l] = a lower bound of (distance to all other centres − distance to the best), or −inf where float32 cannot
  // decide which is the best; p2[l] is the P² of the best.
  void (*gaps)(const float* best, const float* second, const float* norm2, const float* p2, const TileBounds* bounds,
               float* gap);

  // Whether one of the bounds max(lower[g] − shift[g], 0), g < stride, is not above `upper`; bit g % kBoundLanes of
  // mask[g / kBoundLanes] is set for those, and least is the least of the bounds. stride is a multiple of kBoundLanes.
  bool (*failing_groups)(const uint16_t* lower, const uint16_t* shift, int64_t stride, uint16_t upper, uint32_t* mask,
                         uint16_t* least);

  // The score of one row (d floats) for one centre, whose d floats bear the minus sign.
  float (*score_row)(const float* y, int64_t d, const float* center, float half);
  // panel[j, l] = rows[l, j], l < kPanel.
  void (*transpose_rows)(const float* rows, int64_t d, float* panel);

  // For each point of a panel and each of `count` groups of kGroup centres the lowest and the second lowest score of
  // all but the point's own centre: best and second are (count, kPanel). lowest, next and index (kPanel) are those of
  // all centres seen before, and are updated.
  void (*nearest_of_groups)(const float* panel, int64_t d, const float* centers, const float* half,
                            const int32_t* groups, int64_t count, const int32_t* own, float* best, float* second,
                            float* lowest, float* next, int32_t* index);

  // out[e, l] = (a lower bound of the distance whose score is score[e, l] − from) · per_unit + shift[e] in whole
  // units, rounded down, e < count; shift[e] alone for distances below `from`.
  void (*lower_bounds)(const float* score, int64_t count, const float* norm2, const TileBounds* bounds,
                       const float* shift, float from, float per_unit, uint16_t* out);
  // out[l] = an upper bound of the distance whose score is score[l], from a centre with the P² of p2[l].
  void (*upper_bounds)(const float* score, const float* norm2, const float* p2, const TileBounds* bounds, float* out);

  // y in integers: q[j] = kInt8Max + the integer nearest to y[j]·inverse, clipped to ±kInt8Max; norm2 is their squared
  // norm; padded to a multiple of kQuad with kInt8Max. Returns Σ_j (y[j] − step·integer)².
  float (*int8_row)(const float* y, int64_t d, float step, float inverse, uint8_t* q, int32_t* norm2);
  // score[e·kGroup + t, l] = offset[c] − 2 Σ_j panel[j, l]·centers[c, j] for the centres c of each of `count` groups,
  // and the lowest of each lane with the first c that has it. panel is (quads, kPanel, kQuad), centers is packed (slots
  // / kInt8Block, quads, kInt8Block, kQuad); `widen` words may be summed in 16 bits.
  void (*int8_tile)(const uint8_t* panel, int64_t quads, const int8_t* centers, const int32_t* offset,
                    const int32_t* groups, int64_t count, int64_t widen, int32_t* score, int32_t* lowest,
                    int32_t* index);
  // The scores (count·kGroup, kPanel) at most limit[l], as hits in order of position (hits holds all); returns how
  // many. least (count, kPanel) is the least of the others in each group, all (kPanel) that of all groups; kNoScore if
  // none.
  int64_t (*int8_sweep)(const int32_t* score, int64_t count, const int32_t* limit, int32_t* least, int32_t* all,
                        Int8Hit* hits);
  // out[e, l] as lower_bounds has it, for distances of at least step·√(norm2[l] + least[e, l]) − error[l].
  void (*int8_bounds)(const int32_t* least, int64_t count, const int32_t* norm2, const float* error, float step,
                      const float* shift, float from, float per_unit, uint16_t* out);
  // out[l] = a lower bound of step·√(norm2[l] + least[l]) − error[l].
  void (*int8_lengths)(const int32_t* least, const int32_t* norm2, const float* error, float step, float* out);
  bool has_fast_int8;  // faster than float32 on this instruction set

  // The i < n with gap[i] ≤ limit[label[i]], in order, into out; returns how many.
  int64_t (*survivors)(const float* gap, const int32_t* label, int64_t n, const float* limit, int32_t* out);

  // Splits t = sign·x[j] at cut_high[j] and cut_low[j] (each 1.5·2^52 units) into integers of those units and adds them
  // to high[j] and low[j]. Returns whether nothing remains of any t. Arrays but x are padded to a multiple of 4.
  bool (*add_row_f64)(const double* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                      int64_t* high, int64_t* low);
  bool (*add_row_f32)(const float* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                      int64_t* high, int64_t* low);
  // Adds w·x[j] exactly: the double p nearest to it and its error w·x[j] − p are split into integers of the two
  // units. A term that is not below the limit stays whole in remainder[j] (of p) or remainder[padded + j] (of the
  // error), as does what lies below the low unit; returns whether all remainders are 0. An infinite p has the error
  // 0. remainder is (2, d padded to 4).
  bool (*add_products_f64)(const double* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                           double* remainder);
  bool (*add_products_f32)(const float* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                           double* remainder);
};

}  // namespace knoll
