// Mixtures of Gaussians: the E step and the sums of the M step in one pass over the points, nothing of size n × k kept
// (docs/theory/02-gaussian-mixture.md, eq. 2.5–2.9).
//
// All quantities are in centered coordinates, y = (x − origin)·scale with scale a power of two: means, factors, sums
// and log-densities are those of y. The only condition is ‖F(y − μ)‖² < 1e308, so data far from 1 needs origin and
// scale.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// The shape of Σ_c decides what `factors` holds.
enum class Shape : int {
  full = 0,       // (k, d·d) F_c lower triangular, Σ_c⁻¹ = F_cᵀF_c
  tied = 1,       // (1, d·d) one F for all; means are whitened already: F μ_c
  diagonal = 2,   // (k, d)   1/σ_cj
  spherical = 3,  // (k, 1)   1/σ_c²
};

// y = (x − origin)·scale.
struct Centering {
  View<const double, 1> origin;  // (d)
  double scale = 1;
};

struct MixtureModel {
  Shape shape = Shape::full;
  Centering centering;
  View<const double, 2> means;      // (k, d)
  View<const double, 2> factors;    // see Shape
  View<const double, 1> constants;  // (k) log π_c − ½ log |2πΣ_c|; −inf: the component is dead
  double noise = 0;                 // log of weight times density of the noise component; −inf: there is none
};

// Which second moments are summed.
enum class Scatter : int {
  none = 0,     // none
  columns = 1,  // Σ λ (y − o)_j²
  full = 2,     // Σ λ (y − o)_i (y − o)_j for i ≤ j, row by row
};

// How many sums: log-likelihood, Σw, Σwλ of the noise; then for each component Σwλ, Σwλ(y − o_c)_j and the second ones.
inline int64_t mixture_component_sums(int64_t d, Scatter scatter) {
  return 1 + d + (scatter == Scatter::none ? 0 : scatter == Scatter::columns ? d : d * (d + 1) / 2);
}
inline constexpr int64_t kMixtureHead = 3;

// Exact sums are arrays (kSumWords, sums); `used` holds the range of words in use, [used(0), used(1)): a few, since
// centered numbers are of similar size. The others count as zero and are never read, so they need not be cleared.

// Adds the sums of one pass of EM to `sums`: plain float64 within a chunk of kGrain rows, in a fixed order; chunks
// exactly.
template <class T>
void add_mixture(View<const T, 2> x,             // in      (n, d)
                 View<const double, 1> weights,  // in      (n), or empty for ones
                 const MixtureModel& model,      //
                 View<const double, 2> centers,  // in      (k, d) o_c, about which moments are taken
                 Scatter scatter,                //
                 View<int64_t, 2> sums,          // in, out (kSumWords, kMixtureHead + k·mixture_component_sums)
                 View<int64_t, 1> used,          // in, out (2) the words of them that are in use; may grow
                 View<double, 1> peaks,          // in, out (k) raised to the largest λ_ic of a row of positive weight
                 Run run);

// The same sums from responsibilities, or from labels (a negative one is no component's): the start of EM. The
// log-likelihood is 0.
template <class T>
void add_responsibilities(View<const T, 2> x,             // in      (n, d)
                          View<const double, 1> weights,  // in      (n), or empty for ones
                          View<const double, 2> resp,     // in      (n, k), or empty
                          View<const int64_t, 1> labels,  // in      (n), or empty
                          Centering centering,            //
                          View<const double, 2> centers,  // in      (k, d)
                          Scatter scatter,                //
                          View<int64_t, 2> sums,  // in, out (kSumWords, kMixtureHead + k·mixture_component_sums)
                          View<int64_t, 1> used,  // in, out (2)
                          View<double, 1> peaks,  // in, out (k)
                          Run run);

// The E step: fills those outputs that are not empty.
template <class T>
void expect_mixture(View<const T, 2> x,         // in  (n, d)
                    const MixtureModel& model,  //
                    View<double, 2> resp,       // out (n, k), or (n, k + 1): the noise last
                    View<int64_t, 1> labels,    // out (n) the most likely component, ties to the lowest; noise −1
                    View<double, 1> log_prob,   // out (n) log p(x_i)
                    View<double, 2> log_joint,  // out (n, k) log π_c N(x_i | μ_c, Σ_c)
                    Run run);

// Rounds the sums of a pass to means and central moments. Returns the largest (μ − o)_j² / Σ_jj, the squared distance
// in variances of a mean from the centre of its moments: the factor by which the subtraction of eq. 1.7 raises the
// error.
double central_moments(View<const int64_t, 2> sums,    // in  (kSumWords, kMixtureHead + k·mixture_component_sums)
                       View<const int64_t, 1> used,    // in  (2)
                       View<const double, 1> peaks,    // in  (k)
                       View<const double, 2> centers,  // in  (k, d)
                       Scatter scatter,                //
                       double dead,                    // a component with a lower peak is dead
                       View<double, 1> head,           // out (kMixtureHead) log-likelihood, Σw, Σwλ of the noise
                       View<double, 1> mass,           // out (k) Σwλ, 0 for the dead
                       View<double, 2> mean,           // out (k, d)
                       View<double, 2> covariance,     // out (k, d·d), (k, d) or (k, 0), by `scatter`
                       View<bool, 1> alive,            // out (k)
                       Run run);

// Factorises k covariances: whiteners_c = L_c⁻¹, log_dets_c = log |Σ_c|, failed_c = −1 or the column whose pivot is
// below `tolerance` of its variance; then the component's other results are unspecified.
void factorise(View<const double, 2> covariances,  // in  (k, d·d)
               double tolerance,                   //
               View<double, 2> whiteners,          // out (k, d·d) zeros above the diagonal
               View<double, 1> log_dets,           // out (k)
               View<int64_t, 1> failed,            // out (k)
               Run run);

}  // namespace knoll
