// The M step's last part: exact sums become means and central moments (docs/theory/01-gaussian.md, eq. 1.7).
#include <algorithm>
#include <vector>

#include "knoll/mixture.hpp"
#include "knoll/sum.hpp"
#include "mixture_tile.hpp"

namespace knoll {

using mixture::size_of;

double central_moments(View<const int64_t, 2> sums, View<const double, 1> peaks, View<const double, 2> centers,
                       Scatter scatter, double dead, View<double, 1> head, View<double, 1> mass, View<double, 2> mean,
                       View<double, 2> covariance, View<bool, 1> alive, Run run) {
  const int64_t k = centers.shape[0], d = centers.shape[1], per = mixture_component_sums(d, scatter);
  std::vector<double> rounded(size_of(sums.shape[1]));
  exact_round_columns(sums, vector_view(rounded.data(), sums.shape[1]), run);
  for (int64_t i = 0; i < kMixtureHead; ++i) head(i) = rounded[size_of(i)];
  double far = 0;
  for (int64_t c = 0; c < k; ++c) {
    const double* const sum = rounded.data() + kMixtureHead + c * per;
    const double *const first = sum + 1, *second = first + d;
    alive(c) = peaks(c) >= dead && sum[0] > 0;
    mass(c) = alive(c) ? sum[0] : 0.0;
    const double divisor = alive(c) ? sum[0] : 1.0;
    auto offset = [&](int64_t j) { return first[j] / divisor; };
    auto seen = [&](int64_t j, double variance) {
      if (alive(c) && offset(j) != 0) far = std::max(far, offset(j) * offset(j) / variance);
    };
    for (int64_t j = 0; j < d; ++j) mean(c, j) = centers(c, j) + offset(j);
    if (scatter == Scatter::columns)
      for (int64_t j = 0; j < d; ++j) {
        covariance(c, j) = std::max(second[j] / divisor - offset(j) * offset(j), 0.0);
        seen(j, covariance(c, j));
      }
    if (scatter == Scatter::full)
      for (int64_t i = 0; i < d; ++i)
        for (int64_t j = i; j < d; ++j) {
          double value = *second++ / divisor - offset(i) * offset(j);
          if (i == j) seen(i, value = std::max(value, 0.0));
          covariance(c, i * d + j) = covariance(c, j * d + i) = value;
        }
  }
  return far;
}

}  // namespace knoll
