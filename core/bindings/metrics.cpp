// Scores of clusters by the points in them.
#include "convert.hpp"
#include "metric.hpp"

#include <nanobind/stl/string.h>

#include "metrics/silhouette.hpp"
#include "metrics/validity.hpp"

namespace knoll::python {
namespace {

// The core takes starts as offsets into rows without a test.
void need_starts(View<const int64_t, 1> starts, int64_t n) {
  const int64_t k = starts.shape[0] - 1;
  need(k >= 1 && starts(0) == 0 && starts(k) == n, "starts must go from 0 to the number of rows");
  for (int64_t c = 0; c < k; ++c) need(starts(c) < starts(c + 1), "starts must rise: no cluster may be empty");
}

void py_silhouette(const In<double, 2>& x, const In<double, 1>& weights, const In<int64_t, 1>& starts,
                   const std::string& metric, const MetricParameter& p, const Out<double, 1>& out, int threads) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("weights", weights), array("starts", starts), array("out", out)});
  need(d >= 1, "x must have a column");
  need(static_cast<int64_t>(weights.shape(0)) == n && static_cast<int64_t>(out.shape(0)) == n,
       "weights and out must have one entry per row");
  need_starts(view<1>(starts), n);
  const Metric measure = metric_of<double>(metric, p, d);
  call(threads, static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(d + 4),
       [&](Run run) { silhouette(points, view<1>(weights), view<1>(starts), measure, view<1>(out), run); });
}

void py_silhouette_of_distances(const In<double, 2>& distances, int64_t first, const In<double, 1>& weights,
                                const In<int64_t, 1>& starts, const Out<double, 1>& out, int threads) {
  const auto rows = view<2>(distances);
  const int64_t m = rows.shape[0], n = rows.shape[1];
  check_memory({array("distances", distances), array("weights", weights), array("starts", starts), array("out", out)});
  need(static_cast<int64_t>(weights.shape(0)) == n, "weights must have one entry per column");
  need(static_cast<int64_t>(out.shape(0)) == m, "out must have one entry per row");
  need(first >= 0 && first <= n - m, "first must be the column of the first row, and every row must have one");
  need_starts(view<1>(starts), n);
  call(threads, 20.0 * static_cast<double>(m) * static_cast<double>(n),
       [&](Run run) { silhouette_of_distances(rows, first, view<1>(weights), view<1>(starts), view<1>(out), run); });
}

void py_cluster_validity(const In<double, 2>& x, const In<double, 1>& weights, const In<int64_t, 1>& starts,
                         bool squared, const Out<double, 1>& core, const Out<uint8_t, 1>& inside,
                         const Out<double, 1>& sparseness, const Out<double, 1>& separation, int threads) {
  const auto points = view<2>(x);
  const auto mass = view<1>(weights);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("weights", weights), array("starts", starts), array("core", core),
                array("inside", inside), array("sparseness", sparseness), array("separation", separation)});
  need(d >= 1, "x must have a column");
  for (const auto size : {weights.shape(0), core.shape(0), inside.shape(0)})
    need(static_cast<int64_t>(size) == n, "weights, core and inside must have one entry per row");
  need_starts(view<1>(starts), n);
  for (const auto size : {sparseness.shape(0), separation.shape(0)})
    need(size + 1 == starts.shape(0), "sparseness and separation must have one entry per cluster");
  need(all_of(mass, [](double weight) { return weight >= 1; }), "weights must be >= 1");
  call(threads, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(d + 4), [&](Run run) {
    must_be_finite(points, "x", run);
    cluster_validity(points, mass, view<1>(starts), squared, view<1>(core), view<1>(inside), view<1>(sparseness),
                     view<1>(separation), run);
  });
}

}  // namespace

void bind_metrics(nb::module_& m) {
  m.def("silhouette", &py_silhouette, nb::arg("x").noconvert(), nb::arg("weights"), nb::arg("starts"),
        nb::arg("metric"), nb::arg("p"), nb::arg("out").noconvert(), nb::arg("threads"),
        "Silhouettes of rows that are grouped by cluster.");
  m.def("silhouette_of_distances", &py_silhouette_of_distances, nb::arg("distances").noconvert(), nb::arg("first"),
        nb::arg("weights"), nb::arg("starts"), nb::arg("out").noconvert(), nb::arg("threads"),
        "Silhouettes of some rows, from their distances to all, which are grouped by cluster.");
  m.def("cluster_validity", &py_cluster_validity, nb::arg("x").noconvert(), nb::arg("weights"), nb::arg("starts"),
        nb::arg("squared"), nb::arg("core").noconvert(), nb::arg("inside").noconvert(),
        nb::arg("sparseness").noconvert(), nb::arg("separation").noconvert(), nb::arg("threads"),
        "Fill core distances within clusters, the rows inside of their trees, their sparseness and separation.");
}

}  // namespace knoll::python
