// The E step as an answer: responsibilities, labels, densities.
#include <algorithm>
#include <cmath>
#include <vector>

#include "mixture/cholesky.hpp"
#include "mixture/em_pass.hpp"
#include "mixture/em_tile.hpp"

namespace knoll {
namespace {

using namespace mixture;

// A lead below this share of the value could be rounding: the pivots of a factorised covariance are at least 1e-12 of
// its variances, so a distance has a relative error of about √1e12·2⁻⁵³·d ≈ 2⁻³³·d at most.
// docs/numerics/mixture.md, M4.
constexpr double kClose = 0x1p-30;

// Entry (i, j), j ≤ i, of a triangle that `blocked` laid out.
// The inverse of the layout in em_tile.hpp: block b begins at 8b(b + 1), since block i has 4·(4i + 4) numbers.
double entry(const std::vector<double>& factor, int64_t d, int64_t i, int64_t j) {
  const int64_t b = i / 4;
  return factor[size_of(d <= 3 ? i * (i + 1) / 2 + j : 8 * b * (b + 1) + 4 * j + i % 4)];
}

// log p(x_l, c) once more, in one plain order and never fused: the same bits on every instruction set, so that labels
// do not depend on it.
template <class T>
double recheck_joint(const Tile<T>& tile, const Prepared& model, const Component& c, int64_t l) {
  const int64_t d = model.d;
  auto y = [&](int64_t j) { return tile.columns[size_of(j * tile.points + l)]; };
  // Differences first and plain operations: this is the value that defines a label where two are close.
  double q = 0;
  for (int64_t i = 0; i < d; ++i) {
    const double mean = c.mean[size_of(i)];
    double z = 0;
    switch (model.shape) {
      case Shape::full:
        for (int64_t j = 0; j <= i; ++j) z += entry(c.factor, d, i, j) * (y(j) - c.mean[size_of(j)]);
        break;
      case Shape::tied:
        for (int64_t j = 0; j <= i; ++j) z += entry(model.common, d, i, j) * y(j);
        z -= mean;
        break;
      case Shape::diagonal:
        z = (y(i) - mean) * c.factor[size_of(i)];
        break;
      case Shape::spherical:
        z = y(i) - mean;
        break;
    }
    q += z * z;
  }
  if (model.shape == Shape::spherical) q *= c.factor[0];
  return c.constant - 0.5 * std::min(q, kMixtureFarthest);
}

// The largest row of joint at point l, ties to the lowest, where rows within kClose of it are compared by
// recheck_joint.
template <class T>
int64_t winner(Tile<T>& tile, const Prepared& model, int64_t l) {
  const int64_t rows = model.rows(), living = static_cast<int64_t>(model.alive.size());
  int64_t best = 0;
  // The largest and its bar as mixture_best has them, then all rows above the bar: there may be more than two.
  for (int64_t a = 1; a < rows; ++a)
    if (tile.row(a)[l] > tile.row(best)[l]) best = a;
  const double bar = tile.row(best)[l] - kClose * (1 + std::fabs(tile.row(best)[l]));
  int64_t close = 0;
  for (int64_t a = 0; a < rows; ++a) close += tile.row(a)[l] >= bar ? 1 : 0;
  if (close <= 1) return best;
  double top = 0;
  best = -1;
  for (int64_t a = 0; a < rows; ++a) {
    if (!(tile.row(a)[l] >= bar)) continue;
    const double value = a < living ? recheck_joint(tile, model, model.alive[size_of(a)], l) : model.noise;
    if (best < 0 || value > top) best = a, top = value;
  }
  return best;
}

}  // namespace

template <class T>
void expect_mixture(View<const T, 2> x, const MixtureModel& model, View<double, 2> resp, View<int64_t, 1> labels,
                    View<double, 1> log_prob, View<double, 2> log_joint, Run run) {
  const Prepared prepared(model);
  const int64_t rows_of_joint = prepared.rows(), living = static_cast<int64_t>(prepared.alive.size());
  // Each row's outputs depend on that row alone, so chunks and threads do not matter.
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    Tile<T> tile(x.shape[1], model.centering, rows_of_joint, false);
    double likelihood[kLane] = {};
    for (int64_t from = begin; from < end; from += tile.points) {
      run.poll();
      const int64_t rows = std::min(tile.points, end - from);
      tile.pack(x.rows(from, from + rows));
      tile.expect_next(x, from + rows);
      tile.weigh({}, from, rows);
      tile.fill_joint(prepared);
      // A point beyond the range of float64 still gets finite values, hence responsibilities that add up to 1.
      if (tile.has_far()) tile.limit(), tile.fill_joint(prepared);
      if (!log_joint.empty())
        for (int64_t l = 0; l < rows; ++l) {
          for (int64_t c = 0; c < prepared.k; ++c) log_joint(from + l, c) = kNever;
          for (int64_t a = 0; a < living; ++a) log_joint(from + l, prepared.alive[size_of(a)].index) = tile.row(a)[l];
        }
      if (!labels.empty()) {
        // A clear lead is decided in lanes, a close one (−1) again.
        double bests[kMixturePoints];
        kernels().mixture.best(tile.joint.data(), prepared.rows(), tile.points, kClose, bests);
        for (int64_t l = 0; l < rows; ++l) {
          const int64_t best = bests[l] < 0 ? winner(tile, prepared, l) : static_cast<int64_t>(bests[l]);
          labels(from + l) = best < living ? prepared.alive[size_of(best)].index : -1;
        }
      }
      // Labels need no exponential.
      if (resp.empty() && log_prob.empty()) continue;
      tile.normalise(likelihood, true);
      if (!log_prob.empty())
        for (int64_t l = 0; l < rows; ++l) log_prob(from + l) = tile.log_p[size_of(l)];
      if (!resp.empty())
        for (int64_t l = 0; l < rows; ++l) {
          for (int64_t c = 0; c < resp.shape[1]; ++c) resp(from + l, c) = 0.0;
          for (int64_t a = 0; a < living; ++a) resp(from + l, prepared.alive[size_of(a)].index) = tile.row(a)[l];
          if (prepared.has_noise() && resp.shape[1] > prepared.k) resp(from + l, prepared.k) = tile.row(living)[l];
        }
    }
  });
}

// Σ = L Lᵀ, whitener L⁻¹, log |Σ|: one component per chunk, so the bits do not depend on threads.
void factorise(View<const double, 2> covariances, double tolerance, View<double, 2> whiteners, View<double, 1> log_dets,
               View<int64_t, 1> failed, Run run) {
  const auto d = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(covariances.shape[1]))));
  for_chunks(covariances.shape[0], 1, run, [&](int64_t c, int64_t, int64_t) {
    std::vector<double> lower = row_of(covariances, c);
    const auto l = matrix_view(lower.data(), d, d);
    failed(c) = cholesky(l, tolerance);
    if (failed(c) >= 0) return;
    invert_lower(l, View<double, 2>{&whiteners(c, 0), {d, d}, {d * whiteners.stride[1], whiteners.stride[1]}});
    log_dets(c) = log_det(l);
  });
}

#define KNOLL_MIXTURE(T)                                                                                 \
  template void expect_mixture(View<const T, 2>, const MixtureModel&, View<double, 2>, View<int64_t, 1>, \
                               View<double, 1>, View<double, 2>, Run);
KNOLL_MIXTURE(float)
KNOLL_MIXTURE(double)
#undef KNOLL_MIXTURE

}  // namespace knoll
