// The part of the table of kernels that belongs to kmeans: bodies in src/simd/kmeans.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kPanel = 24;       // points in a float32 panel (d, kPanel): three vectors
constexpr int kGroup = 8;        // centres that share a bound
constexpr int kBoundLanes = 32;  // bounds in units that are looked at together
constexpr int kCenterBlock = 4;  // centres side by side in a packed block (d, kCenterBlock)

// Sums over many columns are taken over blocks of so many first: the errors of a sum grow with the longer of the two.
constexpr int kSumColumns = 256;

constexpr int kQuad = 4;                 // columns of seven bits in a word
constexpr int kShortMost = 63;           // such a number is between −kShortMost and kShortMost
constexpr int kShortBlock = 2;           // centres side by side in a packed block (quads, kShortBlock, kQuad)
constexpr int32_t kShortNone = 1 << 30;  // above every score that exists

// A centre (its place among those looked at) that some lanes of a panel may be near to.
struct ShortHit {
  int32_t place;
  uint32_t lanes;
};

// How far float32 may be off, as multiples of ‖y‖² + P² (docs/decisions/0008, eq. 6 to 8).
struct TileBounds {
  float p2;      // P²: above the squared norms of all centres but those far out
  float margin;  // two scores further apart than margin·(‖y‖² + P²) + floor are in their true order
  float radius;  // ‖y‖² + 2·score is the squared distance up to radius·(‖y‖² + P²) + floor
  float slack;   // what centring and rounding may add to a distance, times the root of ‖y‖² + P²
  float floor;   // stands above all that underflow can do
};

// The units of cluster sums, for each column (padded to a multiple of 4): terms below `limit` in magnitude are cut at
// three powers of two, each given as 1.5·2^52 units.
struct SumUnits {
  const double *limit, *cut_high, *cut_low, *cut_least;
};

struct KMeansKernels {
  // panel[j, l] = (rows[l][j] − pivot[j]) · scale, computed in the rows' own kind and rounded to float32, and norm2[l]
  // = Σ_j panel[j, l]²; lanes from count on are zero.
  void (*pack_f64)(const double* const* rows, int64_t count, int64_t d, const double* pivot, double scale, float* panel,
                   float* norm2);
  void (*pack_f32)(const float* const* rows, int64_t count, int64_t d, const float* pivot, float scale, float* panel,
                   float* norm2);

  // One row alone: y[j] as in a panel; returns Σ_j y[j]².
  float (*pack_row_f64)(const double* x, int64_t d, const double* pivot, double scale, float* y);
  float (*pack_row_f32)(const float* x, int64_t d, const float* pivot, float scale, float* y);

  // For each point of a panel the lowest and the second lowest score half[c] + Σ_j y_j centers[c, j], and the index of
  // the lowest, ties to the lowest index. centers is packed (k/4, d, 4) and bears the minus sign; k is a multiple of 4.
  void (*nearest_two)(const float* panel, int64_t d, const float* centers, const float* half, int64_t k, float* best,
                      float* second, int32_t* index);

  // gap[l] = a lower bound of (distance to all other centres − distance to the best), or −inf where float32 cannot tell
  // which is the best; p2[l] is the P² of the best.
  void (*gaps)(const float* best, const float* second, const float* norm2, const float* p2, const TileBounds* bounds,
               float* gap);

  // Whether one of the bounds max(lower[g] − travel[g], 0), g < stride, is not above `upper`; bit g % kBoundLanes of
  // mask[g / kBoundLanes] tells which, and least is the least of the bounds. stride is a multiple of kBoundLanes.
  bool (*failing_groups)(const uint16_t* lower, const uint16_t* travel, int64_t stride, uint16_t upper, uint32_t* mask,
                         uint16_t* least);

  // The score of one row (d floats) for one centre, whose d floats bear the minus sign.
  float (*score_row)(const float* y, int64_t d, const float* center, float half);
  // panel[j, l] = rows[l, j], l < kPanel.
  void (*turn_rows)(const float* rows, int64_t d, float* panel);

  // For each point of a panel and each of `count` groups of kGroup centres the lowest and the second lowest score of
  // all but the point's own centre: best and second are (count, kPanel). lowest, next and index (kPanel) are those of
  // all centres seen before, and are brought up to date.
  void (*nearest_of_groups)(const float* panel, int64_t d, const float* centers, const float* half,
                            const int32_t* groups, int64_t count, const int32_t* own, float* best, float* second,
                            float* lowest, float* next, int32_t* index);

  // out[e, l] = (a lower bound of the distance whose score is score[e, l] − from) · per_unit + travel[e] in whole
  // units, rounded down, e < count; travel[e] alone for what is nearer than `from`.
  void (*lower_bounds)(const float* score, int64_t count, const float* norm2, const TileBounds* bounds,
                       const float* travel, float from, float per_unit, uint16_t* out);
  // out[l] = an upper bound of the distance whose score is score[l], from a centre with the P² of p2[l].
  void (*upper_bounds)(const float* score, const float* norm2, const float* p2, const TileBounds* bounds, float* out);

  // y as whole numbers: q[j] = kShortMost + the whole number nearest to y[j]·inverse, cut off at ±kShortMost; norm2
  // their squared norm; padded to a multiple of kQuad with kShortMost. Returns Σ_j (y[j] − step·whole)².
  float (*short_row)(const float* y, int64_t d, float step, float inverse, uint8_t* q, int32_t* norm2);
  // score[e·kGroup + t, l] = offset[c] − 2 Σ_j panel[j, l]·centers[c, j] for the centres c of each of `count` groups,
  // and the lowest of each lane with the first c that has it. panel is (quads, kPanel, kQuad), centers is packed (slots
  // / kShortBlock, quads, kShortBlock, kQuad); `widen` words may be added up in 16 bits.
  void (*short_tile)(const uint8_t* panel, int64_t quads, const int8_t* centers, const int32_t* offset,
                     const int32_t* groups, int64_t count, int64_t widen, int32_t* score, int32_t* lowest,
                     int32_t* index);
  // The scores (count·kGroup, kPanel) at most limit[l], as hits in order of place (room for all); returns how many.
  // least (count, kPanel) is the least of the others in each group, all (kPanel) in all groups; kShortNone if none.
  int64_t (*short_sweep)(const int32_t* score, int64_t count, const int32_t* limit, int32_t* least, int32_t* all,
                         ShortHit* hits);
  // out[e, l] as lower_bounds has it, for distances of at least step·√(norm2[l] + least[e, l]) − reach[l].
  void (*short_bounds)(const int32_t* least, int64_t count, const int32_t* norm2, const float* reach, float step,
                       const float* travel, float from, float per_unit, uint16_t* out);
  // out[l] = a lower bound of step·√(norm2[l] + least[l]) − reach[l].
  void (*short_lengths)(const int32_t* least, const int32_t* norm2, const float* reach, float step, float* out);
  bool has_fast_shorts;  // faster than float32, on this instruction set

  // The i < n with key[i] ≤ limit[label[i]], in order, into out; returns how many.
  int64_t (*survivors)(const float* key, const int32_t* label, int64_t n, const float* limit, int32_t* out);

  // Cuts t = sign·x[j] at cut_high[j] and cut_low[j] (each 1.5·2^52 units) into integers of those units and adds them
  // to high[j] and low[j]. Returns whether all t were used up. Arrays but x are padded to a multiple of 4.
  bool (*add_row_f64)(const double* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                      int64_t* high, int64_t* low);
  bool (*add_row_f32)(const float* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                      int64_t* high, int64_t* low);
  // Adds w·x[j], exactly: the double p nearest to it and what that leaves, w·x[j] − p, are cut into integers of the
  // three units. What is not below the limit is left as it is, in rest[j] and rest[padded + j], as is what lies below
  // the least unit; returns whether there is none of either. An infinite p leaves 0. rest is (2, d padded to 4).
  bool (*add_products_f64)(const double* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                           int64_t* least, double* rest);
  bool (*add_products_f32)(const float* x, int64_t d, double w, const SumUnits* units, int64_t* high, int64_t* low,
                           int64_t* least, double* rest);
  // Whether |x[j]| < limit[j] for all j < d. limit is padded to a multiple of 4, with numbers above 0.
  bool (*within_f64)(const double* x, int64_t d, const double* limit);
  bool (*within_f32)(const float* x, int64_t d, const double* limit);
};

}  // namespace knoll
