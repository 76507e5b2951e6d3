// Agglomerative clustering, and the ordering of OPTICS.
#include "convert.hpp"
#include "metric.hpp"

#include <cmath>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "hierarchy/graph.hpp"
#include "hierarchy/linkage.hpp"
#include "hierarchy/ward.hpp"
#include "neighbors/optics.hpp"

namespace knoll::python {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 30;  // clusters, twice as many, are numbered by 32 bits

// What all functions here write to: a tree of n rows.
void need_tree(const Out<int64_t, 2>& children, const Out<double, 1>& heights, int64_t n) {
  need(n >= 1 && n < kMostRows, "there must be a row, and fewer than 2^30");
  need(static_cast<int64_t>(children.shape(0)) == n - 1 && children.shape(1) == 2, "children must be (rows - 1, 2)");
  need(static_cast<int64_t>(heights.shape(0)) == n - 1, "heights must have one entry less than there are rows");
}

void need_weights(const std::optional<In<double, 1>>& weights, int64_t n) {
  if (!weights) return;
  need(static_cast<int64_t>(weights->shape(0)) == n, "weights must have one entry per row");
  // Sums and inverses of weights must be numbers.
  need(all_of(view<1>(*weights), [](double w) { return w >= 0x1p-1022 && w <= 0x1p900; }),
       "weights must lie in [2^-1022, 2^900]");
}

template <class T>
nb::typed<nb::dict, nb::str, nb::object> py_ward(const In<T, 2>& x, const std::optional<In<double, 1>>& weights,
                                                 const Out<int64_t, 2>& children, const Out<double, 1>& rise,
                                                 int threads) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("weights", weights), array("children", children), array("rise", rise)});
  need(d >= 1, "x must have a column");
  need_tree(children, rise, n);
  need_weights(weights, n);
  WardReport report;
  call(threads, 1000.0 * static_cast<double>(n) * static_cast<double>(d + 4), [&](Run run) {
    must_be_finite(points, "x", run);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < d; ++j)
        need(std::abs(static_cast<double>(points(i, j))) <= 0x1p480, "x must have squares within float64");
    report = ward(points, view_or_empty<1>(weights), view<2>(children), view<1>(rise), run);
  });
  nb::dict out;
  out["rounds"] = report.rounds;
  out["searches"] = report.searches;
  return out;
}

using Triangle = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void need_triangle(const Triangle& distances, int64_t n) {
  need(n >= 1 && n < kMostRows && static_cast<int64_t>(distances.shape(0)) == pair_count(n),
       "distances must have one entry for each pair of rows");
}

template <class T>
void py_pair_distances(const In<T, 2>& x, const std::string& metric, const MetricParameter& p, const Triangle& out,
                       int threads) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("out", out)});
  need(d >= 1, "x must have a column");
  need_triangle(out, n);
  const Metric measure = metric_of<T>(metric, p, d);
  call(threads, static_cast<double>(out.shape(0)) * static_cast<double>(d + 4),
       [&](Run run) { pair_distances(points, measure, out.data(), run); });
}

Linkage linkage_named(const std::string& name) {
  if (name == "average") return Linkage::average;
  if (name == "complete") return Linkage::complete;
  need(name == "single", "linkage must be average, complete or single");
  return Linkage::single;
}

void py_link_matrix(const Triangle& distances, const std::optional<In<double, 1>>& weights, const std::string& linkage,
                    const Out<int64_t, 2>& children, const Out<double, 1>& heights, int threads) {
  check_memory({array("distances", distances), array("weights", weights), array("children", children),
                array("heights", heights)});
  const auto n = static_cast<int64_t>(heights.shape(0)) + 1;
  need_tree(children, heights, n);
  need_triangle(distances, n);
  need_weights(weights, n);
  const Linkage rule = linkage_named(linkage);
  call(threads, 10.0 * static_cast<double>(distances.shape(0)), [&](Run run) {
    need(all_of(View<const double, 1>(view<1>(distances)), [](double v) { return v >= 0 && v < HUGE_VAL; }),
         "distances must be finite and >= 0");
    link_matrix(distances.data(), view_or_empty<1>(weights), rule, view<2>(children), view<1>(heights), run);
  });
}

GraphLinkage graph_linkage_named(const std::string& name) {
  if (name == "ward") return GraphLinkage::ward;
  if (name == "average") return GraphLinkage::average;
  if (name == "complete") return GraphLinkage::complete;
  need(name == "single", "linkage must be ward, average, complete or single");
  return GraphLinkage::single;
}

int64_t py_link_graph(const In<double, 2>& x, const std::optional<In<double, 1>>& weights, const In<int64_t, 2>& edges,
                      const std::optional<In<double, 1>>& costs, const std::string& linkage,
                      const Out<int64_t, 2>& children, const Out<double, 1>& heights, int threads) {
  const auto n = static_cast<int64_t>(x.shape(0)), most = static_cast<int64_t>(heights.shape(0));
  const GraphLinkage rule = graph_linkage_named(linkage);
  check_memory({array("x", x), array("weights", weights), array("edges", edges), array("costs", costs),
                array("children", children), array("heights", heights)});
  need(n >= 1 && n < kMostRows && most < n, "there must be a row, fewer than 2^30, and fewer merges than rows");
  need(static_cast<int64_t>(children.shape(0)) == most && children.shape(1) == 2, "children must be (merges, 2)");
  need_weights(weights, n);
  need(edges.shape(1) == 2, "edges must be (edges, 2)");
  const auto pairs = view<2>(edges);
  for (int64_t e = 0; e < pairs.shape[0]; ++e)
    need(pairs(e, 0) >= 0 && pairs(e, 0) < n && pairs(e, 1) >= 0 && pairs(e, 1) < n && pairs(e, 0) != pairs(e, 1),
         "edges must be pairs of different rows");
  need(costs.has_value() != (rule == GraphLinkage::ward), "costs are for all linkages but ward");
  need(!costs || costs->shape(0) == edges.shape(0), "costs must have one entry per edge");
  int64_t merges = 0;
  call(threads, 1000.0 * static_cast<double>(edges.shape(0)), [&](Run run) {
    must_be_finite(view<2>(x), "x", run);
    must_be_finite(view_or_empty<1>(costs), "costs", run);
    merges = link_graph(view<2>(x), view_or_empty<1>(weights), pairs, view_or_empty<1>(costs), rule, most,
                        view<2>(children), view<1>(heights), run);
  });
  return merges;
}

void py_link_bars(const In<double, 1>& bars, const Out<int64_t, 2>& children, const Out<double, 1>& heights,
                  int threads) {
  const auto n = static_cast<int64_t>(bars.shape(0));
  check_memory({array("bars", bars), array("children", children), array("heights", heights)});
  need_tree(children, heights, n);
  const auto b = view<1>(bars);
  call(threads, 50.0 * static_cast<double>(n), [&](Run run) {
    for (int64_t i = 1; i < n; ++i) need(b(i) == b(i), "bars must be numbers");
    link_bars(b, view<2>(children), view<1>(heights), run);
  });
}

template <class T>
void py_optics_order(const In<T, 2>& x, const In<double, 1>& core, double max_eps, const std::string& metric,
                     const Out<int64_t, 1>& order, const Out<double, 1>& reach, const Out<int64_t, 1>& predecessor,
                     int threads) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("core", core), array("order", order), array("reach", reach),
                array("predecessor", predecessor)});
  need(d >= 1, "x must have a column");
  for (const auto size : {core.shape(0), order.shape(0), reach.shape(0), predecessor.shape(0)})
    need(static_cast<int64_t>(size) == n, "core, order, reach and predecessor must have one entry per row");
  need_radius(max_eps, "max_eps");
  const Metric measure(Metric::named(metric), 2.0, d);
  need(measure.direct() && measure.has_kernels(), "metric must be euclidean, manhattan or chebyshev");
  call(threads, 1000.0 * static_cast<double>(n) * static_cast<double>(d + 4), [&](Run run) {
    must_be_finite(points, "x", run);
    optics_order(points, view<1>(core), max_eps, measure, view<1>(order), view<1>(reach), view<1>(predecessor), run);
  });
}

template <class T>
void def_rows(nb::module_& m) {
  m.def("ward", &py_ward<T>, nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("children").noconvert(),
        nb::arg("rise").noconvert(), nb::arg("threads"),
        "Fill Ward's tree of rows that differ: children, and the rise of the sum of squares at each merge.");
  m.def("pair_distances", &py_pair_distances<T>, nb::arg("x").noconvert(), nb::arg("metric"), nb::arg("p"),
        nb::arg("out").noconvert(), nb::arg("threads"),
        "Fill the distances of all pairs of rows: of row 1 to row 0, of row 2 to rows 0 and 1, and so on.");
  m.def("optics_order", &py_optics_order<T>, nb::arg("x").noconvert(), nb::arg("core"), nb::arg("max_eps"),
        nb::arg("metric"), nb::arg("order").noconvert(), nb::arg("reach").noconvert(),
        nb::arg("predecessor").noconvert(), nb::arg("threads"),
        "Fill the order in which OPTICS visits the rows, their reachabilities and predecessors.");
}

}  // namespace

void bind_hierarchy(nb::module_& m) {
  def_rows<double>(m);
  def_rows<float>(m);
  m.def("link_matrix", &py_link_matrix, nb::arg("distances").noconvert(), nb::arg("weights").none(), nb::arg("linkage"),
        nb::arg("children").noconvert(), nb::arg("heights").noconvert(), nb::arg("threads"),
        "Fill the tree of average, complete or single linkage; the distances, as of pair_distances, are overwritten.");
  m.def("link_graph", &py_link_graph, nb::arg("x"), nb::arg("weights").none(), nb::arg("edges"),
        nb::arg("costs").none(), nb::arg("linkage"), nb::arg("children").noconvert(), nb::arg("heights").noconvert(),
        nb::arg("threads"), "Merge neighbours in a graph, the least cost first; returns how many merges there are.");
  m.def("link_bars", &py_link_bars, nb::arg("bars"), nb::arg("children").noconvert(), nb::arg("heights").noconvert(),
        nb::arg("threads"), "Fill the binary tree of positions with bars between them, the lowest bar first.");
}

}  // namespace knoll::python
