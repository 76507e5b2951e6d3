// The part of the table of kernels that belongs to kmeans: bodies in src/simd/kmeans.inl. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kPanel = 24;       // points in a float32 panel (d, kPanel): three vectors
constexpr int kGroup = 8;        // centres that share a bound: one vector, two blocks
constexpr int kCenterBlock = 4;  // centres side by side in a packed block (d, kCenterBlock)

// How far float32 may be off, as multiples of ‖y‖² + P² (docs/decisions/0008, eq. 6 to 8).
struct TileBounds {
  float p2;      // P²: above the squared norms of all centres
  float margin;  // two scores further apart than margin·(‖y‖² + P²) + floor are in their true order
  float radius;  // ‖y‖² + 2·score is the squared distance up to radius·(‖y‖² + P²) + floor
  float slack;   // what centring and rounding may add to a distance, times the root of ‖y‖² + P²
  float floor;   // stands above all that underflow can do
};

struct KMeansKernels {
  // panel[j, l] = (rows[l][j] − pivot[j]) · scale, rounded to float32, and norm2[l] = Σ_j panel[j, l]²; lanes from
  // count on are zero.
  void (*pack_f64)(const double* const* rows, int64_t count, int64_t d, const double* pivot, double scale, float* panel,
                   float* norm2);
  void (*pack_f32)(const float* const* rows, int64_t count, int64_t d, const double* pivot, double scale, float* panel,
                   float* norm2);

  // One row alone: y[j] as in a panel; returns Σ_j y[j]².
  float (*pack_row_f64)(const double* x, int64_t d, const double* pivot, double scale, float* y);
  float (*pack_row_f32)(const float* x, int64_t d, const double* pivot, double scale, float* y);

  // For each point of a panel the lowest and the second lowest score half[c] + Σ_j y_j centers[c, j], and the index of
  // the lowest, ties to the lowest index. centers is packed (k/4, d, 4) and bears the minus sign; k is a multiple of 4.
  void (*nearest_two)(const float* panel, int64_t d, const float* centers, const float* half, int64_t k, float* best,
                      float* second, int32_t* index);

  // gap[l] = a lower bound of (distance to all other centres − distance to the best), or −inf where float32 cannot tell
  // which is the best.
  void (*gaps)(const float* best, const float* second, const float* norm2, const TileBounds* bounds, float* gap);

  // The same for each group of kGroup centres: best, second, index are (k/kGroup, kPanel), k a multiple of kGroup.
  void (*nearest_two_of_groups)(const float* panel, int64_t d, const float* centers, const float* half, int64_t k,
                                float* best, float* second, int32_t* index);

  // How many of `groups` bounds lower[g] − travel[g] are not above `upper`; their numbers, in order, into out, and the
  // least of the bounds into least. lower and travel are padded to a multiple of 8 with +inf and 0.
  int64_t (*failing_groups)(const float* lower, const float* travel, int64_t groups, float upper, int32_t* out,
                            float* least);

  // out[0 … 15] = the scores of one point (d floats) for two groups of centres, each packed (d, kGroup).
  void (*group_scores)(const float* y, int64_t d, const float* first, const float* half_first, const float* second,
                       const float* half_second, float* out);

  // out[l] = a lower bound of the distance whose score is score[l], plus travel, rounded down.
  void (*lower_bounds)(const float* score, const float* norm2, const TileBounds* bounds, float travel, float* out);

  // The i < n with key[i] ≤ limit[label[i]], in order, into out; returns how many.
  int64_t (*survivors)(const float* key, const int32_t* label, int64_t n, const float* limit, int32_t* out);

  // Cuts t = sign·x[j] at cut_high[j] and cut_low[j] (each 1.5·2^52 units) into integers of those units and adds them
  // to high[j] and low[j]. Returns whether all t were used up. Arrays but x are padded to a multiple of 4.
  bool (*add_row_f64)(const double* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                      int64_t* high, int64_t* low);
  bool (*add_row_f32)(const float* x, int64_t d, double sign, const double* cut_high, const double* cut_low,
                      int64_t* high, int64_t* low);
};

}  // namespace knoll
