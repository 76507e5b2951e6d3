// Many partitions of the same rows.
#include "convert.hpp"

#include "comparison/partitions.hpp"

namespace knoll::python {
namespace {

void need_labels(View<const int32_t, 2> labels, int64_t least, int64_t below) {
  for (int64_t p = 0; p < labels.shape[0]; ++p)
    for (int64_t i = 0; i < labels.shape[1]; ++i)
      need(labels(p, i) >= least && labels(p, i) < below, "labels must be numbers of clusters");
}

void py_partition_overlaps(const In<int32_t, 2>& labels, const Out<double, 2>& overlaps, int threads) {
  check_memory({array("labels", labels), array("overlaps", overlaps)});
  need(overlaps.shape(0) == labels.shape(0) && overlaps.shape(1) == labels.shape(0),
       "overlaps must have one row and one column per partition");
  const auto rows = view<2>(labels);
  const double work = static_cast<double>(labels.shape(0)) * static_cast<double>(labels.size());
  call(threads, work, [&](Run run) {
    need_labels(rows, 0, rows.shape[1]);
    partition_overlaps(rows, view<2>(overlaps), run);
  });
}

void py_inner_prominences(const In<int32_t, 2>& labels, const In<int32_t, 2>& edges, const In<double, 1>& heights,
                          const In<double, 1>& tops, const In<double, 1>& shares, const Out<double, 2>& prominences,
                          int threads) {
  check_memory({array("labels", labels), array("edges", edges), array("heights", heights), array("tops", tops),
                array("shares", shares), array("prominences", prominences)});
  const auto ends = view<2>(edges);
  need(edges.shape(1) == 2 && heights.shape(0) == edges.shape(0), "edges must be pairs, with one height each");
  need(tops.shape(0) == labels.shape(1), "tops must have one entry per row");
  need(labels.shape(1) < (size_t{1} << 31), "there must be fewer than 2^31 rows");
  need(shares.shape(0) > 0, "there must be a share");
  need(prominences.shape(0) == labels.shape(0) && prominences.shape(1) % shares.shape(0) == 0,
       "prominences must have one entry per partition, cluster and share");
  const double work = 8.0 * static_cast<double>(labels.shape(0)) * static_cast<double>(edges.shape(0));
  call(threads, work, [&](Run run) {
    need_labels(view<2>(labels), -1, static_cast<int64_t>(prominences.shape(1) / shares.shape(0)));
    for (int64_t e = 0; e < ends.shape[0]; ++e)
      for (int64_t side = 0; side < 2; ++side)
        need(ends(e, side) >= 0 && ends(e, side) < static_cast<int64_t>(labels.shape(1)), "edges must join rows");
    inner_prominences(view<2>(labels), ends, view<1>(heights), view<1>(tops), view<1>(shares), view<2>(prominences),
                      run);
  });
}

void py_inner_cuts(const In<int64_t, 1>& starts, const In<int32_t, 1>& neighbours, const In<double, 1>& weights,
                   const In<double, 2>& points, const In<int32_t, 2>& labels, int steps, const Out<uint8_t, 2>& sides,
                   const Out<double, 2>& conductances, int threads) {
  check_memory({array("starts", starts), array("neighbours", neighbours), array("weights", weights),
                array("points", points), array("labels", labels), array("sides", sides),
                array("conductances", conductances)});
  const Graph graph{view<1>(starts), view<1>(neighbours), view<1>(weights)};
  const auto rows = static_cast<int64_t>(labels.shape(1)), edges = static_cast<int64_t>(neighbours.shape(0));
  need(static_cast<int64_t>(starts.shape(0)) == rows + 1 && weights.shape(0) == neighbours.shape(0),
       "the graph must have one list per row, with one weight per entry");
  need(static_cast<int64_t>(points.shape(0)) == rows, "points must have one row per label");
  need(sides.shape(0) == labels.shape(0) && static_cast<int64_t>(sides.shape(1)) == rows,
       "sides must have one entry per label");
  need(conductances.shape(0) == labels.shape(0), "conductances must have one row per partition");
  need(steps >= 0 && steps <= 1024, "steps must be from 0 to 1024");  // the diffusion has long settled
  const double work = 8.0 * (steps + 5.0) * static_cast<double>(labels.shape(0)) * static_cast<double>(edges + rows);
  call(threads, work, [&](Run run) {
    need_labels(view<2>(labels), 0, static_cast<int64_t>(conductances.shape(1)));
    need(graph.starts(0) == 0 && graph.starts(rows) == edges, "the lists must cover the entries");
    for (int64_t i = 0; i < rows; ++i) need(graph.starts(i) <= graph.starts(i + 1), "the lists must be in order");
    for (int64_t e = 0; e < edges; ++e)
      need(graph.neighbours(e) >= 0 && graph.neighbours(e) < rows, "neighbours must be rows");
    inner_cuts(graph, view<2>(points), view<2>(labels), steps, view<2>(sides), view<2>(conductances), run);
  });
}

}  // namespace

void bind_comparison(nb::module_& m) {
  m.def("partition_overlaps", &py_partition_overlaps, nb::arg("labels").noconvert(), nb::arg("overlaps").noconvert(),
        nb::arg("threads"), "Fill the sum of the squared counts of the contingency table of each pair of partitions.");
  m.def("inner_prominences", &py_inner_prominences, nb::arg("labels").noconvert(), nb::arg("edges").noconvert(),
        nb::arg("heights"), nb::arg("tops"), nb::arg("shares"), nb::arg("prominences").noconvert(), nb::arg("threads"),
        "Fill the largest prominence of a component inside of each cluster, by the least share of its rows.");
  m.def("inner_cuts", &py_inner_cuts, nb::arg("starts"), nb::arg("neighbours"), nb::arg("weights"), nb::arg("points"),
        nb::arg("labels").noconvert(), nb::arg("steps"), nb::arg("sides").noconvert(),
        nb::arg("conductances").noconvert(), nb::arg("threads"),
        "Divide each cluster of each partition along its slowest direction of diffusion.");
}

}  // namespace knoll::python
