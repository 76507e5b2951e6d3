// The spatial index and the DBSCAN that runs over it.
#include "convert.hpp"
#include "metric.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <memory>
#include <utility>

#include "neighbors/dbscan.hpp"
#include "neighbors/gower.hpp"
#include "neighbors/index.hpp"
#include "neighbors/metric.hpp"

namespace knoll::python {
namespace {

Border border_named(const std::string& name) {
  if (name == "closest") return Border::closest;
  if (name == "first") return Border::first;
  if (name == "noise") return Border::noise;
  throw nb::value_error("border must be closest, first or noise");
}

// A view of numpy's bool as bytes.
// NumPy stores a bool as one byte, 0 or 1, and the core writes no other values.
template <class B>
View<uint8_t, 1> bytes(const Out<B, 1>& array) {
  static_assert(sizeof(B) == 1);
  const auto v = view<1>(array);
  return {reinterpret_cast<uint8_t*>(v.data), {v.shape[0]}, {v.stride[0]}};
}

template <class T, class B>
nb::typed<nb::dict, nb::str, nb::object> py_dbscan(const In<T, 2>& x, double eps, double min_samples,
                                                   const std::optional<In<double, 1>>& weights,
                                                   const std::string& metric, const MetricParameter& p,
                                                   const std::string& border, const Out<int64_t, 1>& labels,
                                                   const Out<B, 1>& core, int threads, const std::string& backend,
                                                   const std::optional<Out<double, 1>>& columns,
                                                   const std::optional<Out<int64_t, 1>>& entries) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  const auto w = view_or_empty<1>(weights);
  check_memory({array("x", x), array("weights", weights), array("labels", labels), array("core", core),
                array("columns", columns), array("entries", entries)});
  need(d >= 1, "x must have a column");
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(static_cast<int64_t>(labels.shape(0)) == n && static_cast<int64_t>(core.shape(0)) == n,
       "labels and core must have one entry per row");
  // Also refuses NaN, which no comparison holds for.
  need(eps > 0, "eps must be > 0");
  need_number(min_samples, "min_samples");
  need(!columns || (static_cast<int64_t>(columns->shape(0)) == d * (n + 4) && columns->stride(0) == 1),
       "columns must be contiguous with n_features * (n_samples + 4) entries");
  need(!entries || (static_cast<int64_t>(entries->shape(0)) == n && entries->stride(0) == 1),
       "entries must be contiguous with one entry per row");
  // Memory that the caller lends: page faults of fresh arrays cost more than a pass over them (decision 0011).
  const GridWorkspace workspace{columns ? columns->data() : nullptr, entries ? entries->data() : nullptr};
  const Metric measure = metric_of<T>(metric, p, d);
  const Border rule = border_named(border);
  DbscanReport report;
  // An assumed hundred candidates a row; only compared with kShort.
  call(threads, 100.0 * static_cast<double>(n) * static_cast<double>(d + 4), [&](Run run) {
    must_be_finite(points, "x", run);
    must_be_finite(w, "weights", run);
    report = dbscan(points, eps, min_samples, w, measure, rule, backend, view<1>(labels), bytes(core), run, workspace);
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
        nb::arg("columns").noconvert().none() = nb::none(), nb::arg("entries").noconvert().none() = nb::none(),
        "Fill labels and core by DBSCAN; returns counts of the work. border: closest, first or noise. columns and "
        "entries lend memory to work in.");
}

template <class T>
void py_split_rows(const In<T, 2>& x, const In<bool, 1>& mask, const Out<int64_t, 1>& numbers, const Out<T, 2>& taken,
                   const Out<T, 2>& others, int threads) {
  check_memory(
      {array("x", x), array("mask", mask), array("numbers", numbers), array("taken", taken), array("others", others)});
  need(mask.shape(0) == x.shape(0), "mask must have one entry per row");
  need(taken.shape(1) == x.shape(1) && others.shape(1) == x.shape(1), "taken and others must have the columns of x");
  call(threads, 4.0 * static_cast<double>(x.size()), [&](Run run) {
    split_rows(view<2>(x), byte_view<1>(mask), view<1>(numbers), view<2>(taken), view<2>(others), run);
  });
}

template <class T>
void def_split_rows(nb::module_& m) {
  m.def("split_rows", &py_split_rows<T>, nb::arg("x").noconvert(), nb::arg("mask"), nb::arg("numbers").noconvert(),
        nb::arg("taken").noconvert(), nb::arg("others").noconvert(), nb::arg("threads"),
        "Copy the rows of x where the mask is true into taken, with their numbers, and the others into others.");
}

// An index and the array that it refers to. Queries are converted to float64.
struct PyIndex {
  std::unique_ptr<Index> index;
  nb::object kept;                        // the array, kept alive
  std::function<void(Run)> still_finite;  // its owner may have written to it since

  template <class T>
  static void make(PyIndex* self, const In<T, 2>& x, double radius_hint, const std::string& metric,
                   const MetricParameter& p, const std::string& backend, int threads) {
    const auto points = view<2>(x);
    check_memory({array("x", x)});
    need(x.shape(1) >= 1, "x must have a column");
    need_number(radius_hint, "radius_hint");
    const Metric measure = metric_of<T>(metric, p, points.shape[1]);
    // Made aside, so that an exception leaves no half-made object behind.
    auto made = std::make_unique<PyIndex>();
    made->kept = nb::cast(x);
    made->still_finite = [points](Run run) { must_be_finite(points, "x", run); };
    call(threads, 100.0 * static_cast<double>(x.size()), [&](Run run) {
      made->still_finite(run);
      made->index = Index::make(points, radius_hint, measure, backend, run);
    });
    new (self) PyIndex(std::move(*made));
  }

  View<const double, 2> check(const In<double, 2>& queries) const {
    need(static_cast<int64_t>(queries.shape(1)) == index->metric().columns(), "queries must have the index's columns");
    return view<2>(queries);
  }
  View<const uint8_t, 1> check_mask(const std::optional<In<bool, 1>>& mask) const {
    if (!mask) return {};
    need(static_cast<int64_t>(mask->shape(0)) == index->size(), "mask must have one entry per row");
    return byte_view<1>(*mask);
  }

  // Answers for queries, which must be finite as the rows are.
  // The index itself was finite when it was made and holds copies; components read x again, hence still_finite there.
  template <class Kernel>
  void answer(View<const double, 2> queries, int threads, Kernel&& kernel) const {
    const double work = 1000.0 * static_cast<double>(queries.shape[0]) * static_cast<double>(queries.shape[1]);
    call(threads, work, [&](Run run) {
      must_be_finite(queries, "queries", run);
      kernel(run);
    });
  }

  void count(const In<double, 2>& queries, double radius, double stop_at, const std::optional<In<double, 1>>& weights,
             const Out<double, 1>& out, int threads) const {
    check_memory({array("queries", queries), array("weights", weights), array("out", out)});
    need_radius(radius, "radius");
    // ∞ counts all rows.
    need_number(stop_at, "stop_at");
    const auto q = check(queries);
    need(!weights || static_cast<int64_t>(weights->shape(0)) == index->size(), "weights must have one entry per row");
    need(out.shape(0) == queries.shape(0), "out must have one entry per query");
    const auto w = view_or_empty<1>(weights);
    answer(q, threads, [&](Run run) { index->count(q, radius, stop_at, w, view<1>(out), run); });
  }

  void knn(const In<double, 2>& queries, int64_t k, const Out<double, 2>& distances, const Out<int64_t, 2>& indices,
           int threads) const {
    check_memory({array("queries", queries), array("distances", distances), array("indices", indices)});
    const auto q = check(queries);
    for (const auto shape : {std::pair{distances.shape(0), distances.shape(1)}, {indices.shape(0), indices.shape(1)}})
      need(shape.first == queries.shape(0) && static_cast<int64_t>(shape.second) == k,
           "distances and indices must be (queries, k)");
    answer(q, threads, [&](Run run) { index->knn(q, view<2>(distances), view<2>(indices), run); });
  }

  void nearest(const In<double, 2>& queries, double radius, const std::optional<In<bool, 1>>& mask,
               const Out<int64_t, 1>& indices, const Out<double, 1>& distance, int threads) const {
    check_memory(
        {array("queries", queries), array("mask", mask), array("indices", indices), array("distance", distance)});
    need_radius(radius, "radius");
    const auto q = check(queries);
    const auto allowed = check_mask(mask);
    need(indices.shape(0) == queries.shape(0) && distance.shape(0) == queries.shape(0),
         "indices and distance must have one entry per query");
    answer(q, threads, [&](Run run) { index->nearest(q, radius, allowed, view<1>(indices), view<1>(distance), run); });
  }

  void first(const In<double, 2>& queries, double radius, const Out<int64_t, 1>& out, int threads) const {
    check_memory({array("queries", queries), array("out", out)});
    need_radius(radius, "radius");
    const auto q = check(queries);
    need(out.shape(0) == queries.shape(0), "out must have one entry per query");
    answer(q, threads, [&](Run run) { index->first(q, radius, view<1>(out), run); });
  }

  int64_t components(double radius, const std::optional<In<bool, 1>>& mask, const Out<int64_t, 1>& labels,
                     int threads) const {
    check_memory({array("mask", mask), array("labels", labels)});
    need_radius(radius, "radius");
    const auto allowed = check_mask(mask);
    need(static_cast<int64_t>(labels.shape(0)) == index->size(), "labels must have one entry per row");
    int64_t found = 0;
    call(threads, 1000.0 * static_cast<double>(index->size()), [&](Run run) {
      still_finite(run);
      found = index->components(radius, allowed, view<1>(labels), run);
    });
    return found;
  }
};

template <class T>
void def_make(nb::class_<PyIndex>& c) {
  c.def("__init__", &PyIndex::make<T>, nb::arg("x").noconvert(), nb::arg("radius_hint"), nb::arg("metric"),
        nb::arg("p"), nb::arg("backend") = "auto", nb::arg("threads") = 1);
}

void py_gower_distances(const In<double, 2>& x, const In<double, 2>& y, const In<double, 1>& weights,
                        const Out<double, 2>& out, int threads) {
  check_memory({array("x", x), array("y", y), array("weights", weights), array("out", out)});
  need(x.shape(1) >= 1, "x must have a column");
  need(y.shape(1) == x.shape(1), "y must have the columns of x");
  need(out.shape(0) == x.shape(0) && out.shape(1) == y.shape(0), "out must have a row for each of x, a column of y");
  need(out.stride(1) == 1 && (out.shape(0) <= 1 || out.stride(0) == static_cast<int64_t>(out.shape(1))),
       "out must be contiguous");
  const Metric measure = metric_of<double>("gower", weights, static_cast<int64_t>(x.shape(1)));
  call(threads, 2.0 * static_cast<double>(out.size()) * static_cast<double>(x.shape(1)),
       [&](Run run) { gower_distances(view<2>(x), view<2>(y), measure, out.data(), run); });
}

}  // namespace

void bind_index(nb::module_& m) {
  m.def("gower_distances", &py_gower_distances, nb::arg("x"), nb::arg("y"), nb::arg("weights"),
        nb::arg("out").noconvert(), nb::arg("threads"), "Fill out with Gower's distances of the rows of x and of y.");
  nb::class_<PyIndex> index(m, "Index", "A spatial index over the rows of x, which it keeps alive.");
  def_make<double>(index);
  def_make<float>(index);
  index
      .def_prop_ro(
          "backend", [](const PyIndex& self) { return self.index->backend(); }, "What answers: tree or tiles.")
      .def("count", &PyIndex::count, nb::arg("queries"), nb::arg("radius"), nb::arg("stop_at"),
           nb::arg("weights").none(), nb::arg("out").noconvert(), nb::arg("threads"),
           "out = how many rows are within radius of each query (at least stop_at once there are so many), or the "
           "sum of their weights.")
      .def("knn", &PyIndex::knn, nb::arg("queries"), nb::arg("k"), nb::arg("distances").noconvert(),
           nb::arg("indices").noconvert(), nb::arg("threads"),
           "The k nearest rows of each query, nearest first, ties to the lowest row.")
      .def("nearest", &PyIndex::nearest, nb::arg("queries"), nb::arg("radius"), nb::arg("mask").none(),
           nb::arg("indices").noconvert(), nb::arg("distance").noconvert(), nb::arg("threads"),
           "The nearest row that the mask allows within radius, -1: none; ties to the smallest coordinates.")
      .def("first", &PyIndex::first, nb::arg("queries"), nb::arg("radius"), nb::arg("out").noconvert(),
           nb::arg("threads"), "out = the lowest row within radius of each query, -1: none.")
      .def("components", &PyIndex::components, nb::arg("radius"), nb::arg("mask").none(), nb::arg("labels").noconvert(),
           nb::arg("threads"),
           "Label the components of the rows that the mask allows, joined within radius; returns how many.");

  def_dbscan<double, bool>(m);
  def_dbscan<float, bool>(m);
  def_dbscan<double, uint8_t>(m);
  def_dbscan<float, uint8_t>(m);
  def_split_rows<double>(m);
  def_split_rows<float>(m);
}

}  // namespace knoll::python
