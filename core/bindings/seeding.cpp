// Starts: the multiset of rows, k-means++, random rows, and the farthest points for clusters that lost all their rows.
#include "kmeans/seeding.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "kmeans/farthest.hpp"
#include "rows.hpp"

namespace knoll::python {

// Rows are ordered by their contents, and draws are made by their distances.
template <class T>
static void points_must_be_finite(const View<const T, 2>& x, Run run) {
  must_be_finite(x, "x", run);
}
template <class T, class I>
static void points_must_be_finite(const SparseRows<T, I>& x, Run run) {
  must_be_finite(x.data, "data", run);
}

template <class Rows>
static int64_t py_unique_rows(const Rows& x, const std::optional<In<double, 1>>& weights, const Flat<int64_t>& rows,
                              const Flat<double>& total, const std::optional<Flat<int64_t>>& which, int threads) {
  x.check_memory({array("weights", weights), array("rows", rows), array("total", total), array("which", which)});
  const auto points = x.points();
  const size_t n = static_cast<size_t>(points.shape[0]);
  const auto w = view_or_empty<1>(weights);
  need(!weights || weights->shape(0) == n, "weights must have one entry per row");
  need(rows.shape(0) == n && total.shape(0) == n && (!which || which->shape(0) == n),
       "rows, total and which must have one entry per row");
  int64_t count = 0;
  // A hash over the columns, then equal rows are grouped.
  call(threads, static_cast<double>(n) * (30.0 + 3.0 * static_cast<double>(points.shape[1])), [&](Run run) {
    points_must_be_finite(points, run);
    count = unique_rows(points, w, rows.data(), total.data(), which ? which->data() : nullptr, run);
  });
  return count;
}

template <class Rows>
static std::pair<int64_t, int64_t> py_kmeans_plus_plus(const Rows& x, const Flat<const int64_t>& rows,
                                                       const Flat<const double>& weights, uint64_t seed,
                                                       uint64_t restart, int64_t trials, bool skip,
                                                       const Flat<int64_t>& out, int threads) {
  x.check_memory({array("rows", rows), array("weights", weights), array("out", out)});
  const auto points = x.points();
  const auto m = static_cast<int64_t>(rows.shape(0)), k = static_cast<int64_t>(out.shape(0));
  need(m >= 1 && weights.shape(0) == rows.shape(0), "rows and weights must be of one length, at least 1");
  need(trials >= 1 && trials < 1 << 16, "trials must lie in [1, 2^16)");  // a draw has 16 bits for them
  need_range(view<1>(rows), 0, points.shape[0], "rows must be rows of x");
  // Draws search cumulative weights: a weight of 0 or NaN would never be reached, or never be passed.
  need_positive(view<1>(weights), "weights must be > 0 and finite");
  SeedingWork work;
  const double pairs = static_cast<double>(m) * static_cast<double>(k * trials);
  call(threads, 3.0 * pairs * static_cast<double>(points.shape[1] + 2), [&](Run run) {
    points_must_be_finite(points, run);
    work = kmeans_plus_plus(points, rows.data(), weights.data(), m, k, seed, restart, trials, skip, out.data(), run);
  });
  return {work.pairs, work.evaluated};
}

template <class Rows>
static int64_t py_farthest_points(const Rows& x, const std::optional<In<double, 1>>& weights,
                                  const In<double, 1>& distance2, const Flat<int64_t>& rows, const Flat<int64_t>& ends,
                                  int threads) {
  x.check_memory({array("weights", weights), array("distance2", distance2), array("rows", rows), array("ends", ends)});
  const auto points = x.points();
  const size_t n = static_cast<size_t>(points.shape[0]);
  const auto w = view_or_empty<1>(weights);
  need((!weights || weights->shape(0) == n) && distance2.shape(0) == n && rows.shape(0) == n,
       "weights, distance2 and rows must have one entry per row");
  need(ends.shape(0) >= 1, "ends must have at least one entry");
  const auto most = static_cast<int64_t>(ends.shape(0));
  int64_t count = 0;
  call(threads, 10.0 * static_cast<double>(n), [&](Run run) {
    points_must_be_finite(points, run);
    count = farthest_points(points, w, view<1>(distance2), most, rows.data(), ends.data(), run);
  });
  return count;
}

static void py_random_rows(const Flat<const double>& weights, uint64_t seed, uint64_t restart,
                           const Flat<int64_t>& out) {
  const auto m = static_cast<int64_t>(weights.shape(0)), k = static_cast<int64_t>(out.shape(0));
  check_memory({array("weights", weights), array("out", out)});
  need(m >= 1, "weights must not be empty");
  need_positive(view<1>(weights), "weights must be > 0 and finite");
  call(1, 3.0 * static_cast<double>(m) + static_cast<double>(k) * (300.0 + static_cast<double>(m) / 60),
       [&](Run run) { random_rows(weights.data(), m, k, seed, restart, out.data(), run); });
}

template <class Rows>
static void bind_rows(nb::module_& m) {
  using namespace nb::literals;
  Rows::def(
      m, "unique_rows",
      "Merge equal rows; returns how many unique ones of weight > 0 there are, in an order of their contents, or of "
      "their appearance where `which` is filled.",
      &py_unique_rows<Rows>, nb::arg("weights").none(), "rows"_a.noconvert(), "total"_a.noconvert(),
      nb::arg("which").noconvert().none(), "threads"_a);
  Rows::def(m, "kmeans_plus_plus", "Greedy k-means++: positions in rows; returns (pairs, evaluated pairs).",
            &py_kmeans_plus_plus<Rows>, "rows"_a, "weights"_a, "seed"_a, "restart"_a, "trials"_a, "skip"_a,
            "out"_a.noconvert(), "threads"_a);
  Rows::def(m, "farthest_points",
            "The farthest unique points, and the rows of each; returns how many, at most the length of ends.",
            &py_farthest_points<Rows>, nb::arg("weights").none(), "distance2"_a, "rows"_a.noconvert(),
            "ends"_a.noconvert(), "threads"_a);
}

void bind_seeding(nb::module_& m) {
  for_row_types<CanonicalCsr>([&]<class Rows>() { bind_rows<Rows>(m); });
  m.def("random_rows", &py_random_rows, nb::arg("weights"), nb::arg("seed"), nb::arg("restart"),
        nb::arg("out").noconvert(), "Draw positions by weight, without replacement.");
}

}  // namespace knoll::python
