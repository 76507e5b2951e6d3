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

}  // namespace

void bind_comparison(nb::module_& m) {
  m.def("partition_overlaps", &py_partition_overlaps, nb::arg("labels").noconvert(), nb::arg("overlaps").noconvert(),
        nb::arg("threads"), "Fill the sum of the squared counts of the contingency table of each pair of partitions.");
  m.def("inner_prominences", &py_inner_prominences, nb::arg("labels").noconvert(), nb::arg("edges").noconvert(),
        nb::arg("heights"), nb::arg("tops"), nb::arg("shares"), nb::arg("prominences").noconvert(), nb::arg("threads"),
        "Fill the largest prominence of a component inside of each cluster, by the least share of its rows.");
}

}  // namespace knoll::python
