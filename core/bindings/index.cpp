// The spatial index and the DBSCAN that runs over it.
#include "door.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <stdexcept>

#include "knoll/dbscan.hpp"
#include "knoll/metric.hpp"

namespace knoll::python {
namespace {

Border border_named(const std::string& name) {
  if (name == "closest") return Border::closest;
  if (name == "first") return Border::first;
  if (name == "noise") return Border::noise;
  throw nb::value_error("border must be closest, first or noise");
}

Metric metric_of(const std::string& name, double p, int64_t d) { return Metric(Metric::named(name), p, d); }

// A view of numpy's bool as bytes.
template <class B>
View<uint8_t, 1> bytes(const Out<B, 1>& array) {
  static_assert(sizeof(B) == 1);
  const auto v = view<1>(array);
  return {reinterpret_cast<uint8_t*>(v.data), {v.shape[0]}, {v.stride[0]}};
}

template <class T, class B>
nb::dict py_dbscan(const In<T, 2>& x, double eps, double min_samples, const std::optional<In<double, 1>>& weights,
                   const std::string& metric, double p, const std::string& border, const Out<int64_t, 1>& labels,
                   const Out<B, 1>& core, int threads, const std::string& backend) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  const auto w = weights ? view<1>(*weights) : View<const double, 1>{};
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(static_cast<int64_t>(labels.shape(0)) == n && static_cast<int64_t>(core.shape(0)) == n,
       "labels and core must have one entry per row");
  need(eps > 0, "eps must be > 0");
  const Metric measure = metric_of(metric, p, d);
  const Border rule = border_named(border);
  DbscanReport report;
  call(threads, 100.0 * static_cast<double>(n) * static_cast<double>(d + 4), [&](Run run) {
    report = dbscan(points, eps, min_samples, w, measure, rule, backend, view<1>(labels), bytes(core), run);
  });
  nb::dict out;
  out["backend"] = report.backend;
  out["clusters"] = report.clusters;
  out["distances"] = report.distances;
  out["rechecks"] = report.rechecks;
  return out;
}

template <class T, class B>
void def_dbscan(nb::module_& m) {
  m.def("dbscan", &py_dbscan<T, B>, nb::arg("x").noconvert(), nb::arg("eps"), nb::arg("min_samples"),
        nb::arg("weights").none(), nb::arg("metric"), nb::arg("p"), nb::arg("border"), nb::arg("labels").noconvert(),
        nb::arg("core").noconvert(), nb::arg("threads"), nb::arg("backend") = "auto",
        "Fill labels and core by DBSCAN; returns counts of the work. border: closest, first or noise.");
}

}  // namespace

void bind_index(nb::module_& m) {
  def_dbscan<double, bool>(m);
  def_dbscan<float, bool>(m);
  def_dbscan<double, uint8_t>(m);
  def_dbscan<float, uint8_t>(m);
}

}  // namespace knoll::python
