// The mixture's entries of the table of kernels; bodies in mixture/em_pass-inl.hpp and mixture/em_sums-inl.hpp, which
// state what each computes. C headers only.
#pragma once

#include <stdint.h>

namespace knoll {

constexpr int kMixturePoints = 96;  // the most points in a tile of these kernels; their number is a multiple of 48

// Larger squared distances count as this: the log-density stays finite, and so do sums of −½ of it over 2¹⁴ points.
constexpr double kMixtureFarthest = 0x1p1010;

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
};

}  // namespace knoll
