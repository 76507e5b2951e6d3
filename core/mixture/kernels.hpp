// The mixture's entries of the table of kernels; bodies in mixture/em_pass-inl.hpp and mixture/em_sums-inl.hpp, which
// state what each computes. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kMixturePoints = 96;  // the most points in a tile of these kernels; their number is a multiple of 48

// Larger squared distances count as this: the log-density stays finite, and so do sums of −½ of it over 2¹⁴ points.
constexpr double kMixtureFarthest = 0x1p1010;

// A mixture of products of a Gaussian and categorical blocks, as mixed_pass.cpp packs it: components side by side in
// lanes, in blocks of `width` (4 or 8) of them; lanes beyond the last component have the constant −inf.
struct MixedModel {
  int64_t blocks, width, p;
  bool full;                  // covariances have off-diagonal entries
  const double* means;        // (blocks, p, width)
  const double* pivots;       // (blocks, p, width) about which moments are taken
  const double* covariances;  // full: (blocks, p, p, width); else 1/σ (blocks, p, width)
  const double* table;        // (blocks, levels, width) log θ; a missing value has a level of zeros
  int64_t levels;
};

// A pattern of missing values: `columns` holds the observed columns first, then the missing ones.
struct MixedPattern {
  int64_t observed, missing;
  const int32_t* columns;
  double* log_norms;    // (blocks, width) −½ log |2πΣ_oo|
  double* factors;      // full: (blocks, o(o+1)/2, width) F lower triangular by rows, Σ_oo⁻¹ = FᵀF
  double* regression;   // full: (blocks, m·o, width) G = Σ_mo Fᵀ, so that E[y_m | y_o] − μ_m = G F (y_o − μ_o)
  double* conditional;  // full: (blocks, m(m+1)/2, width) Σ_mm − GGᵀ, lower triangle by rows
  double* workspace;    // full: (max(o, 1)², width)
};

// Rows of one pattern.
struct MixedRows {
  int64_t rows, q;
  const double* y;       // (rows, p)
  const int32_t* codes;  // (rows, q) rows of the table
};

// Sums of the M step: blocks of (1 + 2p + second moments) and of levels, `width` numbers each.
struct MixedSums {
  double* moments;  // (blocks, 1 + 2p + s, width): mass, mass of each column, first and second moments
  double* counts;   // (blocks, levels, width)
  double* scratch;  // (2p + o, width)
};

struct MixtureKernels {
  // Points into lanes, and into strips where those are not null.
  void (*pack_f64)(const double* x, int64_t stride, int64_t rows, int64_t points, int64_t d, const double* origin,
                   double scale, double* columns, double* strips);
  void (*pack_f32)(const float* x, int64_t stride, int64_t rows, int64_t points, int64_t d, const double* origin,
                   double scale, double* columns, double* strips);

  // One component's log π_c N(x | μ_c, Σ_c), by the shape of its covariance.
  void (*full)(const double* columns, int64_t points, int64_t d, const double* mean, const double* factor,
               const double* start, double constant, double* centered, double* out);
  void (*diagonal)(const double* columns, int64_t points, int64_t d, const double* mean, const double* factor,
                   double constant, double* out);
  void (*spherical)(const double* columns, int64_t points, int64_t d, const double* mean, double factor,
                    double constant, double* out);
  void (*whiten)(const double* columns, int64_t points, int64_t d, const double* factor, double* out);

  // Responsibilities from those, and the sums of the M step from responsibilities.
  void (*normalise)(double* rows, int64_t k, int64_t points, const double* weights, double* log_p, double* likelihood,
                    double* peaks);
  void (*best)(const double* rows, int64_t k, int64_t points, double close, double* best);
  void (*column_sums)(const double* columns, int64_t points, int64_t d, const double* lambda, const double* center,
                      bool second, double* sums);
  void (*small_sums)(const double* columns, int64_t points, int64_t d, const double* lambda, const double* center,
                     double* sums);
  void (*reach)(const double* columns, int64_t points, int64_t d, double* reach);
  int64_t (*scatter)(const double* strips, int64_t points, int64_t d, const double* lambda, const double* center,
                     const double* reach, double* centered, double* weighted, double* spent, double* mass,
                     double* first, double* second);

  // mixture/mixed_pass-inl.hpp documents what each computes.
  void (*mixed_prepare)(const MixedModel& model, const MixedPattern& pattern);
  void (*mixed_joint)(const MixedModel& model, const MixedPattern& pattern, const double* constants,
                      const MixedRows& rows, double* scratch, double* joint);
  void (*mixed_normalise)(double* joint, int64_t rows, int64_t width, double* log_p);
  void (*mixed_sums)(const MixedModel& model, const MixedPattern& pattern, const MixedRows& rows, const double* resp,
                     const MixedSums& sums);
  void (*mixed_fill)(const MixedModel& model, const MixedPattern& pattern, const MixedRows& rows, const double* resp,
                     double* scratch, double* filled);
};

}  // namespace knoll
