// The ascent of Mean Shift and of DBSCAN's climbing formulation.
#include "neighbors/ascent.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "common/parallel.hpp"
#include "convert.hpp"
#include "neighbors/kth_distance.hpp"

namespace knoll::python {

// Contiguous float64: the ascent keeps digits and blocks of its own, so a copy of another layout costs little.
using Rows = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Weights = std::optional<nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;

static int64_t rows_of(const Rows& x) { return static_cast<int64_t>(x.shape(0)); }
static int64_t columns_of(const Rows& x) { return static_cast<int64_t>(x.shape(1)); }
static const double* data_of(const Weights& weights) { return weights ? weights->data() : nullptr; }

static void need_points(const Rows& x, const Weights& weights, double eps) {
  need(x.shape(0) > 0 && x.shape(1) > 0, "x must have rows and columns");
  need(!weights || weights->shape(0) == x.shape(0), "weights must have one entry per row");
  need_radius(eps, "eps");
}

// A path ends at a set visited before, at a step no longer than tol, or after max_steps: each must be possible.
static AscentRules rules_of(double eps, std::optional<double> level, double tol, int64_t max_steps) {
  if (level) need_number(*level, "level");
  need(tol >= 0, "tol must be >= 0");
  need(max_steps >= 0, "max_steps must be >= 0");
  return {eps, level.value_or(0.0), tol, max_steps};
}

// Points are ordered by their coordinates, and weights are written as digits.
static void must_be_finite(const Rows& x, const Weights& weights, Run run) {
  must_be_finite(view<2>(x), "x", run);
  must_be_finite(view_or_empty<1>(weights), "weights", run);
}

// A rough number of operations: a path of about ten balls, each with at most a few thousand checks.
// Only compared with kShort (convert.hpp): too small a figure delays Ctrl-C, too large a one costs a thread.
static double ascent_work(const Rows& x, double starts) {
  return 10 * starts * std::min(static_cast<double>(x.shape(0)), 4096.0) * static_cast<double>(x.shape(1)) +
         100 * static_cast<double>(x.size());
}

static int64_t py_ascend(const Rows& x, const Weights& weights, const In<double, 2>& starts, double eps,
                         std::optional<double> level, double tol, int64_t max_steps, bool gaussian,
                         const Out<double, 2>& point, const Out<int64_t, 1>& steps, const Out<double, 1>& weight,
                         const Out<uint8_t, 1>& end, int threads) {
  check_memory({array("x", x), array("weights", weights), array("starts", starts), array("point", point),
                array("steps", steps), array("weight", weight), array("end", end)});
  need_points(x, weights, eps);
  const size_t m = starts.shape(0);
  need(starts.shape(1) == x.shape(1), "starts must have the columns of x");
  need(point.shape(0) == m && point.shape(1) == x.shape(1), "point must be like starts");
  need(steps.shape(0) == m && weight.shape(0) == m && end.shape(0) == m,
       "steps, weight and end must have one entry per start");
  const AscentRules rules = rules_of(eps, level, tol, max_steps);
  const AscentEnds ends{view<2>(point), view<1>(steps), view<1>(weight), view<1>(end)};
  int64_t distances = 0;
  call(threads, ascent_work(x, static_cast<double>(m)), [&](Run run) {
    // Inside the call and so without the GIL: the check is a pass over x.
    must_be_finite(x, weights, run);
    must_be_finite(view<2>(starts), "starts", run);
    if (gaussian)
      distances = GaussianAscent(x.data(), data_of(weights), rows_of(x), columns_of(x), eps, run)
                      .ascend(view<2>(starts), rules, ends, run);
    else
      distances = ascend(BallSums(x.data(), data_of(weights), rows_of(x), columns_of(x), eps, run), view<2>(starts),
                         rules, ends, run);
  });
  return distances;
}

static std::vector<std::vector<double>> py_ascent_paths(const Rows& x, const Weights& weights, const Rows& starts,
                                                        double eps, std::optional<double> level, double tol,
                                                        int64_t max_steps, bool gaussian, int threads) {
  check_memory({array("x", x), array("weights", weights), array("starts", starts)});
  need_points(x, weights, eps);
  need(starts.shape(1) == x.shape(1), "starts must have the columns of x");
  const AscentRules rules = rules_of(eps, level, tol, max_steps);
  const int64_t n = rows_of(x), d = columns_of(x), m = rows_of(starts);
  std::vector<std::vector<double>> paths(static_cast<size_t>(m));
  // Paths are independent; each thread writes vectors of its own rows.
  const auto each = [&](Run run, auto&& one) {
    for_chunks(m, 4, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(starts.data() + i * d, paths[static_cast<size_t>(i)], run);
    });
  };
  call(threads, ascent_work(x, static_cast<double>(m)), [&](Run run) {
    must_be_finite(x, weights, run);
    must_be_finite(view<2>(starts), "starts", run);
    if (gaussian) {
      const GaussianAscent points(x.data(), data_of(weights), n, d, eps, run);
      each(run, [&](const double* y, auto& path, Run r) { points.ascent_path(y, rules, path, r); });
    } else {
      const BallSums points(x.data(), data_of(weights), n, d, eps, run);
      each(run, [&](const double* y, auto& path, Run r) { ascent_path(points, y, rules, path, r); });
    }
  });
  return paths;
}

static void py_on_sphere(const Rows& x, const In<double, 2>& y, double eps, const Out<uint8_t, 1>& out, int threads) {
  check_memory({array("x", x), array("y", y), array("out", out)});
  need_points(x, {}, eps);
  need(y.shape(1) == x.shape(1) && out.shape(0) == y.shape(0), "y must have the columns of x, out one entry per row");
  call(threads, ascent_work(x, static_cast<double>(y.shape(0))), [&](Run run) {
    must_be_finite(x, {}, run);
    must_be_finite(view<2>(y), "y", run);
    on_sphere(BallSums(x.data(), nullptr, rows_of(x), columns_of(x), eps, run), view<2>(y), eps, view<1>(out), run);
  });
}

static void py_kth_distances(const In<double, 2>& x, const std::optional<In<double, 1>>& weights, double mass,
                             const Out<double, 1>& out, int threads) {
  const auto points = view<2>(x);
  const auto w = view_or_empty<1>(weights);
  check_memory({array("x", x), array("weights", weights), array("out", out)});
  need(!weights || w.shape[0] == points.shape[0], "weights must have one entry per row");
  need(out.shape(0) == x.shape(0), "out must have one entry per row");
  // −∞ and ∞ are allowed: the nearest row, and the farthest.
  need_number(mass, "mass");
  const auto n = static_cast<double>(points.shape[0]);
  call(threads, n * n * static_cast<double>(points.shape[1] + 4), [&](Run run) {
    must_be_finite(points, "x", run);
    kth_distances(points, w, mass, view<1>(out), run);
  });
}

void bind_ascent(nb::module_& m) {
  m.attr("END_FIXED") = static_cast<int>(End::fixed);
  m.attr("END_LEVEL") = static_cast<int>(End::level);
  m.attr("END_EMPTY") = static_cast<int>(End::empty);
  m.attr("END_UNFINISHED") = static_cast<int>(End::unfinished);
  m.attr("END_SMALL") = static_cast<int>(End::small);
  m.def("ascend", &py_ascend, nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("starts"), nb::arg("eps"),
        nb::arg("level").none(), nb::arg("tol"), nb::arg("max_steps"), nb::arg("gaussian"),
        nb::arg("point").noconvert(), nb::arg("steps").noconvert(), nb::arg("weight").noconvert(),
        nb::arg("end").noconvert(), nb::arg("threads"),
        "Ascend from every start to the end of its path: y = mean of the rows of x within eps, until the set repeats. "
        "Returns how many distances were evaluated.");
  m.def("ascent_paths", &py_ascent_paths, nb::arg("x").noconvert(), nb::arg("weights").none(),
        nb::arg("starts").noconvert(), nb::arg("eps"), nb::arg("level").none(), nb::arg("tol"), nb::arg("max_steps"),
        nb::arg("gaussian"), nb::arg("threads"), "The positions of every path, its start first.");
  m.def("on_sphere", &py_on_sphere, nb::arg("x").noconvert(), nb::arg("y"), nb::arg("eps"), nb::arg("out").noconvert(),
        nb::arg("threads"), "Whether a row of x has exactly the distance eps from each y.");
  m.def("kth_distances", &py_kth_distances, nb::arg("x"), nb::arg("weights").none(), nb::arg("mass"),
        nb::arg("out").noconvert(), nb::arg("threads"),
        "The smallest distance of each row within which lies a weight of mass.");
}

}  // namespace knoll::python
