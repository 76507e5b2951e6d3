// The density tree.
#include "convert.hpp"
#include "metric.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "common/parallel.hpp"
#include "tree/condensed_tree.hpp"
#include "tree/cut.hpp"
#include "tree/density_tree.hpp"
#include "tree/selection.hpp"

namespace knoll::python {
namespace {

// Weights as core distances see them: one that reaches `mass` alone counts as `mass`. A running sum of the heaviest
// candidates then stays below 2·mass and keeps its digits when a row is taken out again; one that had contained 1e290
// would be nothing but rounding.
std::vector<double> capped(View<const double, 1> weights, double mass) {
  std::vector<double> out(static_cast<size_t>(weights.shape[0]));
  for (int64_t i = 0; i < weights.shape[0]; ++i) out[static_cast<size_t>(i)] = std::min(weights(i), mass);
  return out;
}

template <class T>
nb::typed<nb::dict, nb::str, nb::object> py_density_tree(const In<T, 2>& x, double min_samples,
                                                         const std::optional<In<double, 1>>& weights,
                                                         const std::string& metric, const MetricParameter& p,
                                                         const Out<int64_t, 1>& order, const Out<double, 1>& bars,
                                                         const Out<double, 1>& core, const Out<int32_t, 2>& near,
                                                         int threads, const std::string& backend,
                                                         const std::optional<Out<int32_t, 1>>& links, double alpha) {
  need(std::isfinite(alpha) && alpha > 0, "alpha must be > 0 and finite");
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  const auto w = view_or_empty<1>(weights);
  check_memory({array("x", x), array("weights", weights), array("order", order), array("bars", bars),
                array("core", core), array("near", near), array("links", links)});
  need(!links || static_cast<int64_t>(links->shape(0)) == n, "links must have one entry per row");
  need(d >= 1, "x must have a column");
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(all_of(w, [](double weight) { return weight >= 0; }), "weights must be >= 0");
  for (const auto size : {order.shape(0), bars.shape(0), core.shape(0), near.shape(0)})
    need(static_cast<int64_t>(size) == n, "order, bars, core and near must have one entry per row");
  need(min_samples > 0 && std::isfinite(min_samples), "min_samples must be finite and > 0");
  need(n == 0 || static_cast<int64_t>(near.shape(1)) < n, "near must have fewer columns than there are rows");
  need(weights || static_cast<double>(near.shape(1)) + 1 == min_samples, "near must have min_samples - 1 columns");
  need(!weights || near.shape(1) == 0, "near must have no column where there are weights");
  const Metric measure = metric_of<T>(metric, p, d);
  DensityTreeReport report;
  call(threads, 1000.0 * static_cast<double>(n) * static_cast<double>(d + 4), [&](Run run) {
    must_be_finite(points, "x", run);
    must_be_finite(w, "weights", run);
    const std::vector<double> masses = capped(w, min_samples);
    const View<const double, 1> each = weights ? vector_view(masses.data(), n) : w;
    report = density_tree(points, min_samples, each, measure, backend, view<1>(order), view<1>(bars), view<1>(core),
                          view<2>(near), view_or_empty<1>(links), alpha, run);
  });
  nb::dict out;
  out["backend"] = report.backend;
  out["rounds"] = report.rounds;
  out["components_after_lists"] = report.components_after_lists;
  return out;
}

template <class T>
void def_density_tree(nb::module_& m) {
  m.def("density_tree", &py_density_tree<T>, nb::arg("x").noconvert(), nb::arg("min_samples"),
        nb::arg("weights").none(), nb::arg("metric"), nb::arg("p"), nb::arg("order").noconvert(),
        nb::arg("bars").noconvert(), nb::arg("core").noconvert(), nb::arg("near").noconvert(), nb::arg("threads"),
        nb::arg("backend") = "auto", nb::arg("links").noconvert().none() = nb::none(), nb::arg("alpha") = 1.0,
        "Fill the order of the rows, the bars between them, core distances and nearest rows of the density tree.");
}

// Rows are numbers of other arrays, so they are checked before they are used.
void need_rows(View<const int64_t, 1> rows, Run run) {
  std::atomic<bool> fits = true;
  for_chunks(rows.shape[0], 1 << 16, run, [&](int64_t, int64_t begin, int64_t end) {
    bool each = true;
    for (int64_t i = begin; i < end; ++i) each &= rows(i) >= 0 && rows(i) < rows.shape[0];
    if (!each) fits = false;
  });
  need(fits, "order must be rows");
}

// Clusters that a row or a cluster refers to.
void need_clusters(View<const int64_t, 1> numbers, int64_t count, const char* what) {
  bool fits = true;
  for (int64_t i = 0; i < numbers.shape[0]; ++i) fits &= numbers(i) >= 0 && numbers(i) < count;
  need(fits, what);
}
void need_parents(View<const int64_t, 1> parent) {
  for (int64_t c = 1; c < parent.shape[0]; ++c)
    need(parent(c) >= 0 && parent(c) < c, "parent must be clusters that come before");
}

int64_t py_cut_tree(const In<int64_t, 1>& order, const In<double, 1>& bars, const In<double, 1>& core, double eps,
                    const Out<int64_t, 1>& labels, int threads) {
  check_memory({array("order", order), array("bars", bars), array("core", core), array("labels", labels)});
  for (const auto size : {bars.shape(0), core.shape(0), labels.shape(0)})
    need(size == order.shape(0), "order, bars, core and labels must have the same length");
  need(static_cast<int64_t>(order.shape(0)) < (int64_t{1} << 31), "there must be fewer than 2^31 rows");
  need(!std::isnan(eps), "eps must be a number");
  int64_t found = 0;
  call(threads, 20.0 * static_cast<double>(order.shape(0)),
       [&](Run run) { found = cut_tree(view<1>(order), view<1>(bars), view<1>(core), eps, view<1>(labels), run); });
  return found;
}

template <class T>
void py_border_heights(const In<T, 2>& x, const In<int32_t, 2>& near, const In<double, 1>& core,
                       const std::string& metric, const MetricParameter& p, const Out<double, 1>& heights,
                       int threads) {
  check_memory({array("x", x), array("near", near), array("core", core), array("heights", heights)});
  need(x.shape(1) >= 1, "x must have a column");
  for (const auto size : {near.shape(0), core.shape(0), heights.shape(0)})
    need(size == x.shape(0), "near, core and heights must have one entry per row");
  const auto rows = view<2>(near);
  const Metric measure = metric_of<T>(metric, p, static_cast<int64_t>(x.shape(1)));
  call(threads, 20.0 * static_cast<double>(x.size() + near.size()),
       [&](Run run) { border_heights(view<2>(x), rows, view<1>(core), measure, view<1>(heights), run); });
}

template <class T>
void py_attach_borders(const In<T, 2>& x, const In<int32_t, 2>& near, const In<double, 1>& core,
                       const In<double, 1>& heights, double eps, const std::string& metric, const MetricParameter& p,
                       const Out<int64_t, 1>& labels, int threads) {
  check_memory(
      {array("x", x), array("near", near), array("core", core), array("heights", heights), array("labels", labels)});
  need(x.shape(1) >= 1, "x must have a column");
  for (const auto size : {near.shape(0), core.shape(0), heights.shape(0), labels.shape(0)})
    need(size == x.shape(0), "near, core, heights and labels must have one entry per row");
  need(!std::isnan(eps), "eps must be a number");
  const auto rows = view<2>(near);
  const Metric measure = metric_of<T>(metric, p, static_cast<int64_t>(x.shape(1)));
  call(threads, 20.0 * static_cast<double>(x.size()), [&](Run run) {
    attach_borders(view<2>(x), rows, view<1>(core), view<1>(heights), eps, measure, view<1>(labels), run);
  });
}

template <class T>
void def_borders(nb::module_& m) {
  m.def("border_heights", &py_border_heights<T>, nb::arg("x").noconvert(), nb::arg("near").noconvert(), nb::arg("core"),
        nb::arg("metric"), nb::arg("p"), nb::arg("heights").noconvert(), nb::arg("threads"),
        "Fill the least eps at which each row is in a cluster; negative where its neighbours tie.");
  m.def("attach_borders", &py_attach_borders<T>, nb::arg("x").noconvert(), nb::arg("near").noconvert(), nb::arg("core"),
        nb::arg("heights"), nb::arg("eps"), nb::arg("metric"), nb::arg("p"), nb::arg("labels").noconvert(),
        nb::arg("threads"), "Give rows that are not core the label of their closest core row within eps.");
}

nb::typed<nb::dict, nb::str, nb::object> py_condense_tree(const In<int64_t, 1>& order, const In<double, 1>& bars,
                                                          const In<double, 1>& core,
                                                          const std::optional<In<double, 1>>& weights, double least,
                                                          const Out<int64_t, 1>& cluster, const Out<double, 1>& leaves,
                                                          int threads) {
  check_memory({array("order", order), array("bars", bars), array("core", core), array("weights", weights),
                array("cluster", cluster), array("leaves", leaves)});
  const auto w = view_or_empty<1>(weights);
  const auto n = static_cast<int64_t>(bars.shape(0));
  for (const auto size : {order.shape(0), core.shape(0), cluster.shape(0), leaves.shape(0)})
    need(static_cast<int64_t>(size) == n, "order, bars, core, cluster and leaves must have the same length");
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(n >= 1 && n < (int64_t{1} << 31), "there must be a row, and fewer than 2^31");
  need_number(least, "least");
  CondensedClusters found;
  call(threads, 20.0 * static_cast<double>(n), [&](Run run) {
    need_rows(view<1>(order), run);
    for (int64_t i = 1; i < n; ++i) need(!std::isnan(bars.data()[i * bars.stride(0)]), "bars must be numbers");
    found = condense(view<1>(bars), view<1>(order), w, view<1>(core), least, view<1>(cluster), view<1>(leaves), run);
  });
  nb::dict out;
  out["parent"] = found.parent;
  out["birth"] = found.birth;
  out["death"] = found.death;
  out["weight"] = found.weight;
  return out;
}

void py_ordered_sums(const In<int64_t, 1>& cluster, const In<double, 1>& values, const In<double, 1>& weights,
                     const Out<double, 1>& sums, int threads) {
  check_memory({array("cluster", cluster), array("values", values), array("weights", weights), array("sums", sums)});
  const auto n = cluster.shape(0);
  need(values.shape(0) == n && weights.shape(0) == n, "cluster, values and weights must have the same length");
  for (int64_t i = 0; i < static_cast<int64_t>(n); ++i)
    need(view<1>(values)(i) == view<1>(values)(i) && view<1>(weights)(i) == view<1>(weights)(i),
         "values and weights must be numbers");
  call(threads, 100.0 * static_cast<double>(n), [&](Run run) {
    need_clusters(view<1>(cluster), static_cast<int64_t>(sums.shape(0)), "cluster must be numbers of clusters");
    ordered_sums(view<1>(cluster), view<1>(values), view<1>(weights), view<1>(sums), run);
  });
}

void py_stabilities(const In<int64_t, 1>& cluster, const In<double, 1>& heights,
                    const std::optional<In<double, 1>>& weights, const In<double, 1>& birth, double unit, double least,
                    double scale, const Out<double, 1>& sums, int threads) {
  check_memory({array("cluster", cluster), array("heights", heights), array("weights", weights), array("birth", birth),
                array("sums", sums)});
  const auto n = cluster.shape(0);
  const auto w = view_or_empty<1>(weights);
  need(heights.shape(0) == n && (!weights || weights->shape(0) == n),
       "cluster, heights and weights must have the same length");
  need(birth.shape(0) == sums.shape(0), "birth and sums must have the same length");
  for (const double number : {unit, least, scale}) need(number > 0, "unit, least and scale must be > 0");
  need(all_of(view<1>(heights), [](double value) { return value == value; }), "heights must be numbers");
  need(all_of(view<1>(birth), [](double value) { return value == value; }), "birth must be numbers");
  need(all_of(w, [](double value) { return value == value; }), "weights must be numbers");
  call(threads, 100.0 * static_cast<double>(n), [&](Run run) {
    need_clusters(view<1>(cluster), static_cast<int64_t>(sums.shape(0)), "cluster must be numbers of clusters");
    stabilities(view<1>(cluster), view<1>(heights), w, view<1>(birth), {unit, least}, scale, view<1>(sums), run);
  });
}

template <class T>
void py_first_rows(const In<T, 2>& x, const In<int64_t, 1>& labels, const Out<int64_t, 1>& rows) {
  check_memory({array("x", x), array("labels", labels), array("rows", rows)});
  need(x.shape(0) == labels.shape(0), "labels must have one entry per row");
  const auto count = static_cast<int64_t>(rows.shape(0));
  need(all_of(view<1>(labels), [=](int64_t label) { return label >= -1 && label < count; }),
       "labels must be clusters, or -1");
  first_rows(view<2>(x), view<1>(labels), view<1>(rows));
}

template <class T>
void def_first_rows(nb::module_& m) {
  m.def("first_rows", &py_first_rows<T>, nb::arg("x").noconvert(), nb::arg("labels"), nb::arg("rows").noconvert(),
        "Fill the lexicographically first row of each label, -1: there is none.");
}

// 0 or 1.
std::vector<uint8_t> bytes_of(const In<bool, 1>& flags) {
  const auto v = byte_view<1>(flags);
  std::vector<uint8_t> out(static_cast<size_t>(v.shape[0]));
  for (int64_t i = 0; i < v.shape[0]; ++i) out[static_cast<size_t>(i)] = v(i) != 0;
  return out;
}

void py_excess_of_mass(const In<int64_t, 1>& parent, const In<double, 1>& stability, const In<double, 1>& weight,
                       double most, bool single, const Out<bool, 1>& chosen) {
  check_memory(
      {array("parent", parent), array("stability", stability), array("weight", weight), array("chosen", chosen)});
  for (const auto size : {stability.shape(0), weight.shape(0), chosen.shape(0)})
    need(size == parent.shape(0), "parent, stability, weight and chosen must have the same length");
  need_parents(view<1>(parent));
  std::vector<uint8_t> found(chosen.shape(0));
  excess_of_mass(view<1>(parent), view<1>(stability), view<1>(weight), most, single, found.data());
  const auto out = view<1>(chosen);
  for (int64_t c = 0; c < out.shape[0]; ++c) out(c) = found[static_cast<size_t>(c)] != 0;
}

void py_enclosing_clusters(const In<int64_t, 1>& parent, const In<bool, 1>& chosen, const Out<int64_t, 1>& around) {
  check_memory({array("parent", parent), array("chosen", chosen), array("around", around)});
  for (const auto size : {chosen.shape(0), around.shape(0)})
    need(size == parent.shape(0), "parent, chosen and around must have the same length");
  need_parents(view<1>(parent));
  enclosing(view<1>(parent), bytes_of(chosen).data(), view<1>(around));
}

std::vector<int64_t> py_number_by_rows(const In<int64_t, 1>& cluster, const In<int64_t, 1>& around,
                                       const Out<int64_t, 1>& labels, int threads) {
  check_memory({array("cluster", cluster), array("around", around), array("labels", labels)});
  need(labels.shape(0) == cluster.shape(0), "cluster and labels must have the same length");
  const auto count = static_cast<int64_t>(around.shape(0));
  const auto outer = view<1>(around);
  for (int64_t c = 0; c < count; ++c) need(outer(c) >= -1 && outer(c) < count, "around must be clusters, or -1");
  std::vector<int64_t> found;
  call(threads, 5.0 * static_cast<double>(cluster.shape(0)), [&](Run run) {
    need_clusters(view<1>(cluster), count, "cluster must be numbers of clusters");
    found = number_by_rows(view<1>(cluster), outer, view<1>(labels), run);
  });
  return found;
}

}  // namespace

void bind_tree(nb::module_& m) {
  def_density_tree<double>(m);
  def_density_tree<float>(m);
  m.def("cut_tree", &py_cut_tree, nb::arg("order"), nb::arg("bars"), nb::arg("core"), nb::arg("eps"),
        nb::arg("labels").noconvert(), nb::arg("threads"),
        "Label the components of the core rows at eps by their lowest row, -1 elsewhere; returns how many.");
  def_borders<double>(m);
  def_borders<float>(m);
  m.def("condense_tree", &py_condense_tree, nb::arg("order"), nb::arg("bars"), nb::arg("core"),
        nb::arg("weights").none(), nb::arg("least"), nb::arg("cluster").noconvert(), nb::arg("leaves").noconvert(),
        nb::arg("threads"),
        "Fill the cluster of each row and the height at which it leaves it; returns the clusters: parent, birth, "
        "death and weight.");
  m.def("ordered_sums", &py_ordered_sums, nb::arg("cluster"), nb::arg("values"), nb::arg("weights"),
        nb::arg("sums").noconvert(), nb::arg("threads"),
        "Sum weight * value over the rows of each cluster, in ascending order of value.");
  m.def("stabilities", &py_stabilities, nb::arg("cluster"), nb::arg("heights"), nb::arg("weights").none(),
        nb::arg("birth"), nb::arg("unit"), nb::arg("least"), nb::arg("scale"), nb::arg("sums").noconvert(),
        nb::arg("threads"),
        "Sum weight / scale * (unit / max(height, least) - birth) over the rows of each cluster, in ascending order.");
  def_first_rows<double>(m);
  def_first_rows<float>(m);
  m.def("excess_of_mass", &py_excess_of_mass, nb::arg("parent"), nb::arg("stability"), nb::arg("weight"),
        nb::arg("most"), nb::arg("single"), nb::arg("chosen").noconvert(),
        "Choose clusters, none inside another, of the largest total stability.");
  m.def("enclosing_clusters", &py_enclosing_clusters, nb::arg("parent"), nb::arg("chosen"),
        nb::arg("around").noconvert(), "Fill the outermost chosen cluster around each cluster, -1: none.");
  m.def("number_by_rows", &py_number_by_rows, nb::arg("cluster"), nb::arg("around"), nb::arg("labels").noconvert(),
        nb::arg("threads"), "Label rows by the clusters around theirs, numbered by first rows; returns the clusters.");
}

}  // namespace knoll::python
