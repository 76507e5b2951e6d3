// Gaussian mixtures: the passes of EM.
#include "mixture/em_pass.hpp"

#include <nanobind/stl/optional.h>

#include <cmath>

#include "common/exact_sum.hpp"
#include "convert.hpp"

namespace knoll::python {

// Codes from Python: for a number without a case no kernel would be called.
static Shape shape_of(int code) {
  need(code >= 0 && code <= 3, "shape must be 0, 1, 2 or 3");
  return static_cast<Shape>(code);
}
static Scatter scatter_of(int code) {
  need(code >= 0 && code <= 2, "scatter must be 0, 1 or 2");
  return static_cast<Scatter>(code);
}

static Centering centering_of(const In<double, 1>& origin, double scale, int64_t d) {
  need(static_cast<int64_t>(origin.shape(0)) == d, "origin must have one entry per column");
  return {view<1>(origin), scale};
}

static MixtureModel model_of(int shape, const In<double, 1>& origin, double scale, const In<double, 2>& means,
                             const In<double, 2>& factors, const In<double, 1>& constants, double noise, int64_t d) {
  MixtureModel model{
      shape_of(shape), centering_of(origin, scale, d), view<2>(means), view<2>(factors), view<1>(constants), noise};
  const int64_t k = model.means.shape[0];
  need(d >= 1, "x must have at least one column");
  const bool dense = model.shape == Shape::full || model.shape == Shape::tied;
  need(model.means.shape[1] == d, "means must have one column per column of x");
  need(model.factors.shape[0] == (model.shape == Shape::tied ? 1 : k) &&
           model.factors.shape[1] == (dense                            ? d * d
                                      : model.shape == Shape::diagonal ? d
                                                                       : 1),
       "factors must fit the shape");
  need(model.constants.shape[0] == k, "constants must have one entry per component");
  // Without a living component log-sum-exp would have no largest term, and a row no responsibilities.
  bool alive = noise > -HUGE_VAL;
  for (int64_t c = 0; c < k; ++c) alive |= model.constants(c) > -HUGE_VAL;
  need(alive, "there must be a living component");
  return model;
}

// A rough number of operations for n points: decides whether threads pay.
static double work_of(int64_t n, int64_t d, int64_t k, bool dense) {
  const double each = dense ? static_cast<double>(d) * static_cast<double>(d + 4) : 6 * static_cast<double>(d);
  return static_cast<double>(n) * static_cast<double>(k) * (each + 40);
}

template <class T, class P>
static void check_sums(const View<T, 2>& sums, const View<T, 1>& used, const View<P, 1>& peaks, int64_t k, int64_t d,
                       Scatter scatter) {
  need(sums.shape[0] == kSumWords && sums.shape[1] == kMixtureHead + k * mixture_component_sums(d, scatter),
       "sums must be (words, sums)");
  // The words in use are cleared and read by these numbers.
  need(used.shape[0] == 2 && 0 <= used(0) && used(0) <= kSumWords && 0 <= used(1) && used(1) <= kSumWords,
       "used must be two numbers from 0 to words");
  need(peaks.shape[0] == k, "peaks must have one entry per component");
}

template <class T>
static void py_add_mixture(const In<T, 2>& x, const std::optional<In<double, 1>>& weights, int shape,
                           const In<double, 1>& origin, double scale, const In<double, 2>& means,
                           const In<double, 2>& factors, const In<double, 1>& constants, double noise,
                           const In<double, 2>& centers, int scatter, const Out<int64_t, 2>& sums,
                           const Out<int64_t, 1>& used, const Out<double, 1>& peaks, int threads) {
  const auto points = view<2>(x);
  const auto w = view_or_empty<1>(weights);
  const int64_t n = points.shape[0], d = points.shape[1], k = static_cast<int64_t>(means.shape(0));
  check_memory({array("x", x), array("weights", weights), array("origin", origin), array("means", means),
                array("factors", factors), array("constants", constants), array("centers", centers),
                array("sums", sums), array("used", used), array("peaks", peaks)});
  const MixtureModel model = model_of(shape, origin, scale, means, factors, constants, noise, d);
  const Scatter which = scatter_of(scatter);
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(static_cast<int64_t>(centers.shape(0)) == k && static_cast<int64_t>(centers.shape(1)) == d,
       "centers must be (k, d)");
  check_sums(view<2>(sums), view<1>(used), view<1>(peaks), k, d, which);
  call(threads, work_of(n, d, k, which == Scatter::full || shape == 0), [&](Run run) {
    add_mixture(points, w, model, view<2>(centers), which, view<2>(sums), view<1>(used), view<1>(peaks), run);
  });
}

template <class T>
static void py_add_responsibilities(const In<T, 2>& x, const std::optional<In<double, 1>>& weights,
                                    const std::optional<In<double, 2>>& resp,
                                    const std::optional<In<int64_t, 1>>& labels, const In<double, 1>& origin,
                                    double scale, const In<double, 2>& centers, int scatter,
                                    const Out<int64_t, 2>& sums, const Out<int64_t, 1>& used,
                                    const Out<double, 1>& peaks, int threads) {
  const auto points = view<2>(x);
  const auto w = view_or_empty<1>(weights);
  const auto lambda = view_or_empty<2>(resp);
  const auto assigned = view_or_empty<1>(labels);
  const int64_t n = points.shape[0], d = points.shape[1], k = static_cast<int64_t>(centers.shape(0));
  const Scatter which = scatter_of(scatter);
  check_memory({array("x", x), array("weights", weights), array("resp", resp), array("labels", labels),
                array("origin", origin), array("centers", centers), array("sums", sums), array("used", used),
                array("peaks", peaks)});
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(static_cast<int64_t>(centers.shape(1)) == d, "centers must be (k, d)");
  need(resp.has_value() != labels.has_value(), "give responsibilities or labels");
  need(!resp || (lambda.shape[0] == n && lambda.shape[1] == k), "responsibilities must be (n, k)");
  need(!labels || assigned.shape[0] == n, "labels must have one entry per row");
  // A negative label is no component's: such a row counts in the mass alone.
  need_range(assigned, INT64_MIN, k, "labels must be below k");
  check_sums(view<2>(sums), view<1>(used), view<1>(peaks), k, d, which);
  const Centering centering = centering_of(origin, scale, d);
  call(threads, work_of(n, d, labels ? 1 : k, which == Scatter::full), [&](Run run) {
    add_responsibilities(points, w, lambda, assigned, centering, view<2>(centers), which, view<2>(sums), view<1>(used),
                         view<1>(peaks), run);
  });
}

template <class T>
static void py_expect_mixture(const In<T, 2>& x, int shape, const In<double, 1>& origin, double scale,
                              const In<double, 2>& means, const In<double, 2>& factors, const In<double, 1>& constants,
                              double noise, const std::optional<Out<double, 2>>& resp,
                              const std::optional<Out<int64_t, 1>>& labels,
                              const std::optional<Out<double, 1>>& log_prob,
                              const std::optional<Out<double, 2>>& log_joint, int threads) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1], k = static_cast<int64_t>(means.shape(0));
  const auto lambda = view_or_empty<2>(resp);
  const auto assigned = view_or_empty<1>(labels);
  const auto lp = view_or_empty<1>(log_prob);
  const auto joint = view_or_empty<2>(log_joint);
  check_memory({array("x", x), array("origin", origin), array("means", means), array("factors", factors),
                array("constants", constants), array("resp", resp), array("labels", labels),
                array("log_prob", log_prob), array("log_joint", log_joint)});
  const MixtureModel model = model_of(shape, origin, scale, means, factors, constants, noise, d);
  need(!resp || (lambda.shape[0] == n && (lambda.shape[1] == k || lambda.shape[1] == k + 1)),
       "resp must be (n, k) or (n, k + 1)");
  need(!labels || assigned.shape[0] == n, "labels must have one entry per row");
  need(!log_prob || lp.shape[0] == n, "log_prob must have one entry per row");
  need(!log_joint || (joint.shape[0] == n && joint.shape[1] == k), "log_joint must be (n, k)");
  call(threads, work_of(n, d, k, shape == 0),
       [&](Run run) { expect_mixture(points, model, lambda, assigned, lp, joint, run); });
}

static void py_factorise(const In<double, 2>& covariances, double tolerance, const Out<double, 2>& whiteners,
                         const Out<double, 1>& log_dets, const Out<int64_t, 1>& failed, int threads) {
  const auto in = view<2>(covariances);
  const auto out = view<2>(whiteners);
  check_memory({array("covariances", covariances), array("whiteners", whiteners), array("log_dets", log_dets),
                array("failed", failed)});
  const int64_t k = in.shape[0], d = std::llround(std::sqrt(static_cast<double>(in.shape[1])));
  need(d * d == in.shape[1] && out.shape[0] == k && out.shape[1] == in.shape[1],
       "covariances and whiteners must be (k, d*d)");
  need(static_cast<int64_t>(log_dets.shape(0)) == k && static_cast<int64_t>(failed.shape(0)) == k,
       "log_dets and failed must have one entry per component");
  const auto wide = static_cast<double>(d);
  call(threads, static_cast<double>(k) * wide * wide * wide,
       [&](Run run) { factorise(in, tolerance, out, view<1>(log_dets), view<1>(failed), run); });
}

static double py_central_moments(const In<int64_t, 2>& sums, const In<int64_t, 1>& used, const In<double, 1>& peaks,
                                 const In<double, 2>& centers, int scatter, double dead, const Out<double, 1>& head,
                                 const Out<double, 1>& mass, const Out<double, 2>& mean,
                                 const Out<double, 2>& covariance, const Out<bool, 1>& alive, int threads) {
  const auto k = static_cast<int64_t>(centers.shape(0)), d = static_cast<int64_t>(centers.shape(1));
  const Scatter which = scatter_of(scatter);
  const int64_t wide = which == Scatter::full ? d * d : which == Scatter::columns ? d : 0;
  check_memory({array("sums", sums), array("used", used), array("peaks", peaks), array("centers", centers),
                array("head", head), array("mass", mass), array("mean", mean), array("covariance", covariance),
                array("alive", alive)});
  need(k >= 1, "centers must have at least one row");
  check_sums(view<2>(sums), view<1>(used), view<1>(peaks), k, d, which);
  need(static_cast<int64_t>(head.shape(0)) == kMixtureHead && static_cast<int64_t>(mass.shape(0)) == k &&
           static_cast<int64_t>(alive.shape(0)) == k,
       "head, mass and alive must fit");
  need(static_cast<int64_t>(mean.shape(0)) == k && static_cast<int64_t>(mean.shape(1)) == d &&
           static_cast<int64_t>(covariance.shape(0)) == k && static_cast<int64_t>(covariance.shape(1)) == wide,
       "mean and covariance must fit");
  double far = 0;
  call(threads, 50.0 * static_cast<double>(sums.shape(1)), [&](Run run) {
    far = central_moments(view<2>(sums), view<1>(used), view<1>(peaks), view<2>(centers), which, dead, view<1>(head),
                          view<1>(mass), view<2>(mean), view<2>(covariance), view<1>(alive), run);
  });
  return far;
}

template <class T>
static void bind_for(nb::module_& m) {
  m.def("add_mixture", &py_add_mixture<T>, nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("shape"),
        nb::arg("origin"), nb::arg("scale"), nb::arg("means"), nb::arg("factors"), nb::arg("constants"),
        nb::arg("noise"), nb::arg("centers"), nb::arg("scatter"), nb::arg("sums").noconvert(),
        nb::arg("used").noconvert(), nb::arg("peaks").noconvert(), nb::arg("threads"),
        "Add the sums of one pass of EM to exact sums.");
  m.def("add_responsibilities", &py_add_responsibilities<T>, nb::arg("x").noconvert(), nb::arg("weights").none(),
        nb::arg("resp").none(), nb::arg("labels").none(), nb::arg("origin"), nb::arg("scale"), nb::arg("centers"),
        nb::arg("scatter"), nb::arg("sums").noconvert(), nb::arg("used").noconvert(), nb::arg("peaks").noconvert(),
        nb::arg("threads"), "Add the sums of an M step from responsibilities or labels to exact sums.");
  m.def("expect_mixture", &py_expect_mixture<T>, nb::arg("x").noconvert(), nb::arg("shape"), nb::arg("origin"),
        nb::arg("scale"), nb::arg("means"), nb::arg("factors"), nb::arg("constants"), nb::arg("noise"),
        nb::arg("resp").noconvert().none(), nb::arg("labels").noconvert().none(),
        nb::arg("log_prob").noconvert().none(), nb::arg("log_joint").noconvert().none(), nb::arg("threads"),
        "Fill responsibilities, labels, log-densities and joint log-densities, each where it is passed.");
}

void bind_mixture(nb::module_& m) {
  m.attr("MIXTURE_HEAD") = kMixtureHead;
  bind_for<double>(m);
  bind_for<float>(m);
  m.def("central_moments", &py_central_moments, nb::arg("sums").noconvert(), nb::arg("used").noconvert(),
        nb::arg("peaks"), nb::arg("centers"), nb::arg("scatter"), nb::arg("dead"), nb::arg("head").noconvert(),
        nb::arg("mass").noconvert(), nb::arg("mean").noconvert(), nb::arg("covariance").noconvert(),
        nb::arg("alive").noconvert(), nb::arg("threads"),
        "Means and central moments from exact sums; returns how far the means lie from the centers.");
  m.def("factorise", &py_factorise, nb::arg("covariances"), nb::arg("tolerance"), nb::arg("whiteners").noconvert(),
        nb::arg("log_dets").noconvert(), nb::arg("failed").noconvert(), nb::arg("threads"),
        "Whiteners and log-determinants of k covariances; failed: -1, or the pivot that failed.");
}

}  // namespace knoll::python
