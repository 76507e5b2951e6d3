// The part of the table of kernels that belongs to mixtures: bodies in src/simd/mixture.inl and
// mixture_sums.inl, which say what each computes. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kMixturePoints = 96;  // at most so many points in a tile of these kernels, which is a multiple of 48

// A squared distance beyond this counts as this: far out, not nowhere, and sums over 2¹⁴ such points stay finite.
constexpr double kMixtureFarthest = 0x1p1010;

struct MixtureKernels {
  // Points into lanes, and into strips where those are not null.
  void (*pack_f64)(const double* x, int64_t stride, int64_t rows, int64_t points, int64_t d, const double* origin,
                   double scale, double* columns, double* strips);
  void (*pack_f32)(const float* x, int64_t stride, int64_t rows, int64_t points, int64_t d, const double* origin,
                   double scale, double* columns, double* strips);

  // One component's log π_c N(x | μ_c, Σ_c), by the shape of its covariance.
  void (*full)(const double* columns, int64_t points, int64_t d, const double* mean, const double* factor,
               const double* start, double constant, double* away, double* out);
  void (*diagonal)(const double* columns, int64_t points, int64_t d, const double* mean, const double* factor,
                   double constant, double* out);
  void (*round)(const double* columns, int64_t points, int64_t d, const double* mean, double factor, double constant,
                double* out);
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
                     const double* reach, double* away, double* weighted, double* spent, double* mass, double* first,
                     double* second);
};

}  // namespace knoll
