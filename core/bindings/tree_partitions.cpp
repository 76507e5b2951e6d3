// Partitions of a density tree into a given number of clusters.
#include "convert.hpp"
#include "metric.hpp"

#include <algorithm>
#include <cmath>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "tree/centers.hpp"
#include "tree/condensed_tree.hpp"
#include "tree/genie.hpp"
#include "tree/modes.hpp"

namespace knoll::python {
namespace {

// Rows are numbers of other arrays, so they are checked before they are used.
template <class I, int R>
void need_rows(View<const I, R> rows, int64_t n, const char* what) {
  if constexpr (R == 1) {
    for (int64_t i = 0; i < rows.shape[0]; ++i) need(rows(i) >= 0 && rows(i) < n, what);
  } else {
    for (int64_t i = 0; i < rows.shape[0]; ++i)
      for (int64_t j = 0; j < rows.shape[1]; ++j) need(rows(i, j) >= 0 && rows(i, j) < n, what);
  }
}

template <class T>
nb::typed<nb::dict, nb::str, nb::object> py_reachability_edges(const In<T, 2>& x, const In<double, 1>& core,
                                                               const std::string& metric, const MetricParameter& p,
                                                               const In<int32_t, 2>& edges,
                                                               const In<int64_t, 1>& starts, const In<int32_t, 1>& near,
                                                               int threads) {
  check_memory(
      {array("x", x), array("core", core), array("edges", edges), array("starts", starts), array("near", near)});
  const auto points = view<2>(x);
  const int64_t n = points.shape[0];
  need(points.shape[1] >= 1, "x must have a column");
  need(n < (int64_t{1} << 30), "x must have fewer than 2^30 rows");
  need(static_cast<int64_t>(core.shape(0)) == n, "core must have one entry per row");
  need(edges.shape(1) == 2, "edges must have two columns");
  need(static_cast<int64_t>(starts.shape(0)) == n + 1, "starts must have one entry more than there are rows");
  const auto offsets = view<1>(starts);
  const Metric measure = metric_of<T>(metric, p, points.shape[1]);
  ReachabilityEdges found;
  call(threads, 100.0 * static_cast<double>(x.size()), [&](Run run) {
    must_be_finite(points, "x", run);
    for (int64_t i = 0; i < n; ++i) need(!std::isnan(view<1>(core)(i)), "core must be numbers");
    need(offsets(0) >= 0 && offsets(n) <= static_cast<int64_t>(near.shape(0)), "starts must lie within near");
    for (int64_t i = 0; i < n; ++i) need(offsets(i) <= offsets(i + 1), "starts must not fall");
    need_rows(view<2>(edges), n, "edges must be rows");
    need_rows(view<1>(near), n, "near must be rows");
    found = reachability_edges(points, view<1>(core), measure, view<2>(edges), offsets, view<1>(near), run);
  });
  nb::dict out;
  out["a"] = found.a;
  out["b"] = found.b;
  out["height"] = found.height;
  out["ties"] = found.tied;
  return out;
}

template <class T>
void def_reachability_edges(nb::module_& m) {
  m.def("reachability_edges", &py_reachability_edges<T>, nb::arg("x").noconvert(), nb::arg("core"), nb::arg("metric"),
        nb::arg("p"), nb::arg("edges"), nb::arg("starts"), nb::arg("near"), nb::arg("threads"),
        "The minimum spanning tree of distinct rows by mutual reachability, then distance, then coordinates: a, b, "
        "height, and whether edges are tied.");
}

void py_genie(const In<int32_t, 1>& a, const In<int32_t, 1>& b, const In<double, 1>& weights, double threshold,
              const Out<int64_t, 1>& order, const Out<int64_t, 1>& steps, int threads) {
  check_memory({array("a", a), array("b", b), array("weights", weights), array("order", order), array("steps", steps)});
  const auto n = static_cast<int64_t>(weights.shape(0));
  need(a.shape(0) == b.shape(0) && static_cast<int64_t>(a.shape(0)) < std::max<int64_t>(n, 1),
       "a and b must have the same length, less than that of weights");
  need(order.shape(0) == weights.shape(0) && steps.shape(0) == weights.shape(0),
       "order and steps must have the length of weights");
  need(n < (int64_t{1} << 30), "there must be fewer than 2^30 rows");
  need_number(threshold, "threshold");
  call(threads, 500.0 * static_cast<double>(n), [&](Run run) {
    need_rows(view<1>(a), n, "a must be rows");
    need_rows(view<1>(b), n, "b must be rows");
    for (int64_t i = 0; i < n; ++i) need(view<1>(weights)(i) > 0, "weights must be > 0");
    genie(view<1>(a), view<1>(b), view<1>(weights), threshold, view<1>(order), view<1>(steps), run);
  });
}

template <class T>
void py_tree_centers(const In<double, 1>& bars, const std::optional<In<double, 1>>& weights, const In<T, 2>& x,
                     const In<int64_t, 1>& order, double power, const Out<int64_t, 1>& ranked,
                     const Out<int64_t, 1>& above, const Out<double, 1>& saved, int threads) {
  check_memory({array("bars", bars), array("weights", weights), array("x", x), array("order", order),
                array("ranked", ranked), array("above", above), array("saved", saved)});
  const auto n = static_cast<int64_t>(bars.shape(0));
  const auto w = view_or_empty<1>(weights);
  for (const auto size : {order.shape(0), ranked.shape(0), above.shape(0), saved.shape(0)})
    need(static_cast<int64_t>(size) == n, "bars, order, ranked, above and saved must have the same length");
  need(!weights || w.shape[0] == n, "weights must have one entry per bar");
  need(n >= 1 && n < (int64_t{1} << 31), "there must be a row, and fewer than 2^31");
  need(power > 0, "power must be > 0");
  call(threads, 200.0 * static_cast<double>(n), [&](Run run) {
    need_rows(view<1>(order), static_cast<int64_t>(x.shape(0)), "order must be rows");
    for (int64_t i = 1; i < n; ++i) need(!std::isnan(view<1>(bars)(i)), "bars must be numbers");
    for (int64_t i = 0; i < w.shape[0]; ++i) need(w(i) > 0, "weights must be > 0");
    must_be_finite(view<2>(x), "x", run);
    tree_centers(view<1>(bars), w, view<2>(x), view<1>(order), power, view<1>(ranked), view<1>(above), view<1>(saved),
                 run);
  });
}

template <class T>
void def_tree_centers(nb::module_& m) {
  m.def("tree_centers", &py_tree_centers<T>, nb::arg("bars"), nb::arg("weights").none(), nb::arg("x").noconvert(),
        nb::arg("order"), nb::arg("power"), nb::arg("ranked").noconvert(), nb::arg("above").noconvert(),
        nb::arg("saved").noconvert(), nb::arg("threads"),
        "Fill the positions by what a centre there saves, the position whose cluster each leaves, and its saving.");
}

template <class T>
void py_tree_modes(const In<double, 1>& bars, const In<double, 1>& core, const In<T, 2>& x, const In<int64_t, 1>& order,
                   const Out<double, 1>& deaths, int threads) {
  check_memory(
      {array("bars", bars), array("core", core), array("x", x), array("order", order), array("deaths", deaths)});
  const auto n = static_cast<int64_t>(bars.shape(0));
  for (const auto size : {core.shape(0), order.shape(0), deaths.shape(0)})
    need(static_cast<int64_t>(size) == n, "bars, core, order and deaths must have the same length");
  need(n >= 1 && n < (int64_t{1} << 31), "there must be a row, and fewer than 2^31");
  call(threads, 100.0 * static_cast<double>(n), [&](Run run) {
    need_rows(view<1>(order), static_cast<int64_t>(x.shape(0)), "order must be rows");
    for (int64_t i = 0; i < n; ++i) need(!std::isnan(view<1>(core)(i)), "core must be numbers");
    for (int64_t i = 1; i < n; ++i) need(!std::isnan(view<1>(bars)(i)), "bars must be numbers");
    tree_modes(view<1>(bars), view<1>(core), view<2>(x), view<1>(order), view<1>(deaths), run);
  });
}

template <class T>
void def_tree_modes(nb::module_& m) {
  m.def("tree_modes", &py_tree_modes<T>, nb::arg("bars"), nb::arg("core"), nb::arg("x").noconvert(), nb::arg("order"),
        nb::arg("deaths").noconvert(), nb::arg("threads"),
        "Fill the height at which the component of a row merges with one of a smaller core distance.");
}

int64_t py_tree_nodes(const In<double, 1>& bars, const Out<double, 1>& height, const Out<int64_t, 1>& parent,
                      const Out<int64_t, 1>& begin, const Out<int64_t, 1>& end, const Out<int64_t, 1>& leaf_parent,
                      int threads) {
  check_memory({array("bars", bars), array("height", height), array("parent", parent), array("begin", begin),
                array("end", end), array("leaf_parent", leaf_parent)});
  const auto n = static_cast<int64_t>(bars.shape(0));
  for (const auto size : {height.shape(0), parent.shape(0), begin.shape(0), end.shape(0), leaf_parent.shape(0)})
    need(static_cast<int64_t>(size) == n, "all arrays must have the same length");
  need(n >= 1 && n < (int64_t{1} << 31), "there must be a row, and fewer than 2^31");
  int64_t count = 0;
  call(threads, 20.0 * static_cast<double>(n), [&](Run run) {
    for (int64_t i = 1; i < n; ++i) need(!std::isnan(view<1>(bars)(i)), "bars must be numbers");
    const TreeNodes nodes = tree_nodes(view<1>(bars), run);
    count = static_cast<int64_t>(nodes.height.size());
    for (int64_t v = 0; v < count; ++v) {
      const auto at = static_cast<size_t>(v);
      view<1>(height)(v) = nodes.height[at], view<1>(parent)(v) = nodes.parent[at];
      view<1>(begin)(v) = nodes.begin[at], view<1>(end)(v) = nodes.end[at];
    }
    for (int64_t i = 0; i < n; ++i) view<1>(leaf_parent)(i) = nodes.leaf_parent[static_cast<size_t>(i)];
  });
  return count;
}

}  // namespace

void bind_tree_partitions(nb::module_& m) {
  def_tree_modes<double>(m);
  def_tree_modes<float>(m);
  m.def("tree_nodes", &py_tree_nodes, nb::arg("bars"), nb::arg("height").noconvert(), nb::arg("parent").noconvert(),
        nb::arg("begin").noconvert(), nb::arg("end").noconvert(), nb::arg("leaf_parent").noconvert(),
        nb::arg("threads"),
        "Fill the nodes of the tree, children first, and the node above each position; returns how many nodes.");
  def_reachability_edges<double>(m);
  def_reachability_edges<float>(m);
  m.def("genie", &py_genie, nb::arg("a"), nb::arg("b"), nb::arg("weights"), nb::arg("threshold"),
        nb::arg("order").noconvert(), nb::arg("steps").noconvert(), nb::arg("threads"),
        "Join clusters along edges in ascending order, the smallest first where the Gini index of weights exceeds the "
        "threshold; fill the order of the rows and the number of the join between neighbours.");
  def_tree_centers<double>(m);
  def_tree_centers<float>(m);
}

}  // namespace knoll::python
