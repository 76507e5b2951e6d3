// Starts: the multiset of rows, k-means++, random rows, and the farthest points for clusters that begin anew.
#include "knoll/seeding.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "door.hpp"
#include "knoll/farthest.hpp"

namespace knoll::python {

template <class T>
using Line = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Rows in canonical format: the core compares two of them column by column.
template <class T, class I>
static SparseRows<T, I> sparse(const In<T, 1>& data, const In<I, 1>& indices, const In<I, 1>& indptr,
                               int64_t n_columns) {
  const SparseRows<T, I> x{
      view<1>(data), view<1>(indices), view<1>(indptr), {static_cast<int64_t>(indptr.shape(0)) - 1, n_columns}};
  need_csr(x.indices, x.indptr, x.data.shape[0], n_columns, true);
  return x;
}

// Rows are ordered by their contents, and draws are made by their distances.
template <class T>
static void points_must_be_finite(const View<const T, 2>& x, Run run) {
  must_be_finite(x, "x", run);
}
template <class T, class I>
static void points_must_be_finite(const SparseRows<T, I>& x, Run run) {
  must_be_finite(x.data, "data", run);
}

template <class Points>
static int64_t distinct(const Points& x, const std::optional<In<double, 1>>& weights, const Line<int64_t>& rows,
                        const Line<double>& total, const std::optional<Line<int64_t>>& which, int threads) {
  const size_t n = static_cast<size_t>(x.shape[0]);
  const auto w = view_or_empty<1>(weights);
  need(!weights || weights->shape(0) == n, "weights must have one entry per row");
  need(rows.shape(0) == n && total.shape(0) == n && (!which || which->shape(0) == n),
       "rows, total and which must have one entry per row");
  int64_t count = 0;
  call(threads, static_cast<double>(n) * (30.0 + 3.0 * static_cast<double>(x.shape[1])), [&](Run run) {
    points_must_be_finite(x, run);
    count = distinct_rows(x, w, rows.data(), total.data(), which ? which->data() : nullptr, run);
  });
  return count;
}

template <class Points>
static std::pair<int64_t, int64_t> plus_plus(const Points& x, const Line<const int64_t>& rows,
                                             const Line<const double>& weights, uint64_t seed, uint64_t restart,
                                             int64_t trials, bool skip, const Line<int64_t>& out, int threads) {
  const auto m = static_cast<int64_t>(rows.shape(0)), k = static_cast<int64_t>(out.shape(0));
  need(m >= 1 && weights.shape(0) == rows.shape(0), "rows and weights must be of one length, at least 1");
  need(trials >= 1 && trials < 1 << 16, "trials must lie in [1, 2^16)");  // a draw has 16 bits for them
  need_range(view<1>(rows), 0, x.shape[0], "rows must be rows of x");
  need_positive(view<1>(weights), "weights must be > 0 and finite");
  SeedingWork work;
  call(threads, 3.0 * static_cast<double>(m) * static_cast<double>(k * trials) * static_cast<double>(x.shape[1] + 2),
       [&](Run run) {
         points_must_be_finite(x, run);
         work = kmeans_plus_plus(x, rows.data(), weights.data(), m, k, seed, restart, trials, skip, out.data(), run);
       });
  return {work.pairs, work.evaluated};
}

template <class Points>
static int64_t farthest(const Points& x, const std::optional<In<double, 1>>& weights, const In<double, 1>& distance2,
                        const Line<int64_t>& rows, const Line<int64_t>& ends, int threads) {
  const size_t n = static_cast<size_t>(x.shape[0]);
  const auto w = view_or_empty<1>(weights);
  need((!weights || weights->shape(0) == n) && distance2.shape(0) == n && rows.shape(0) == n,
       "weights, distance2 and rows must have one entry per row");
  need(ends.shape(0) >= 1, "ends must have at least one entry");
  int64_t count = 0;
  call(threads, 10.0 * static_cast<double>(n), [&](Run run) {
    points_must_be_finite(x, run);
    count =
        farthest_points(x, w, view<1>(distance2), static_cast<int64_t>(ends.shape(0)), rows.data(), ends.data(), run);
  });
  return count;
}

static void py_random_rows(const Line<const double>& weights, uint64_t seed, uint64_t restart,
                           const Line<int64_t>& out) {
  const auto m = static_cast<int64_t>(weights.shape(0)), k = static_cast<int64_t>(out.shape(0));
  check_memory({array("weights", weights), array("out", out)});
  need(m >= 1, "weights must not be empty");
  need_positive(view<1>(weights), "weights must be > 0 and finite");
  call(1, 3.0 * static_cast<double>(m) + static_cast<double>(k) * (300.0 + static_cast<double>(m) / 60),
       [&](Run run) { random_rows(weights.data(), m, k, seed, restart, out.data(), run); });
}

template <class T>
static void bind_dense(nb::module_& m) {
  m.def(
      "distinct_rows",
      [](const In<T, 2>& x, const std::optional<In<double, 1>>& weights, const Line<int64_t>& rows,
         const Line<double>& total, const std::optional<Line<int64_t>>& which, int threads) {
        check_memory({array("x", x), array("weights", weights), array("rows", rows), array("total", total),
                      array("which", which)});
        return distinct(view<2>(x), weights, rows, total, which, threads);
      },
      nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("rows").noconvert(), nb::arg("total").noconvert(),
      nb::arg("which").noconvert().none(), nb::arg("threads"),
      "Gather equal rows; returns how many distinct ones of weight > 0 there are, in an order of their contents, or of "
      "their appearance where `which` is filled.");
  m.def(
      "kmeans_plus_plus",
      [](const In<T, 2>& x, const Line<const int64_t>& rows, const Line<const double>& weights, uint64_t seed,
         uint64_t restart, int64_t trials, bool skip, const Line<int64_t>& out, int threads) {
        check_memory({array("x", x), array("rows", rows), array("weights", weights), array("out", out)});
        return plus_plus(view<2>(x), rows, weights, seed, restart, trials, skip, out, threads);
      },
      nb::arg("x").noconvert(), nb::arg("rows"), nb::arg("weights"), nb::arg("seed"), nb::arg("restart"),
      nb::arg("trials"), nb::arg("skip"), nb::arg("out").noconvert(), nb::arg("threads"),
      "Greedy k-means++: places in rows; returns (pairs, evaluated pairs).");
  m.def(
      "farthest_points",
      [](const In<T, 2>& x, const std::optional<In<double, 1>>& weights, const In<double, 1>& distance2,
         const Line<int64_t>& rows, const Line<int64_t>& ends, int threads) {
        check_memory({array("x", x), array("weights", weights), array("distance2", distance2), array("rows", rows),
                      array("ends", ends)});
        return farthest(view<2>(x), weights, distance2, rows, ends, threads);
      },
      nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("distance2"), nb::arg("rows").noconvert(),
      nb::arg("ends").noconvert(), nb::arg("threads"),
      "The farthest distinct points, and the rows of each; returns how many, at most the length of ends.");
}

template <class T, class I>
static void bind_sparse(nb::module_& m) {
  m.def(
      "distinct_rows_csr",
      [](const In<T, 1>& data, const In<I, 1>& indices, const In<I, 1>& indptr, int64_t n_columns,
         const std::optional<In<double, 1>>& weights, const Line<int64_t>& rows, const Line<double>& total,
         const std::optional<Line<int64_t>>& which, int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                      array("weights", weights), array("rows", rows), array("total", total), array("which", which)});
        return distinct(sparse(data, indices, indptr, n_columns), weights, rows, total, which, threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_columns"),
      nb::arg("weights").none(), nb::arg("rows").noconvert(), nb::arg("total").noconvert(),
      nb::arg("which").noconvert().none(), nb::arg("threads"),
      "As distinct_rows, of a CSR matrix in canonical format.");
  m.def(
      "kmeans_plus_plus_csr",
      [](const In<T, 1>& data, const In<I, 1>& indices, const In<I, 1>& indptr, int64_t n_columns,
         const Line<const int64_t>& rows, const Line<const double>& weights, uint64_t seed, uint64_t restart,
         int64_t trials, bool skip, const Line<int64_t>& out, int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr), array("rows", rows),
                      array("weights", weights), array("out", out)});
        return plus_plus(sparse(data, indices, indptr, n_columns), rows, weights, seed, restart, trials, skip, out,
                         threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_columns"),
      nb::arg("rows"), nb::arg("weights"), nb::arg("seed"), nb::arg("restart"), nb::arg("trials"), nb::arg("skip"),
      nb::arg("out").noconvert(), nb::arg("threads"), "As kmeans_plus_plus, of a CSR matrix in canonical format.");
  m.def(
      "farthest_points_csr",
      [](const In<T, 1>& data, const In<I, 1>& indices, const In<I, 1>& indptr, int64_t n_columns,
         const std::optional<In<double, 1>>& weights, const In<double, 1>& distance2, const Line<int64_t>& rows,
         const Line<int64_t>& ends, int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                      array("weights", weights), array("distance2", distance2), array("rows", rows),
                      array("ends", ends)});
        return farthest(sparse(data, indices, indptr, n_columns), weights, distance2, rows, ends, threads);
      },
      nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_columns"),
      nb::arg("weights").none(), nb::arg("distance2"), nb::arg("rows").noconvert(), nb::arg("ends").noconvert(),
      nb::arg("threads"), "As farthest_points, of a CSR matrix in canonical format.");
}

void bind_seeding(nb::module_& m) {
  bind_dense<double>(m);
  bind_dense<float>(m);
  bind_sparse<double, int32_t>(m);
  bind_sparse<float, int32_t>(m);
  bind_sparse<double, int64_t>(m);
  bind_sparse<float, int64_t>(m);
  m.def("random_rows", &py_random_rows, nb::arg("weights"), nb::arg("seed"), nb::arg("restart"),
        nb::arg("out").noconvert(), "Draw places by weight, without replacement.");
}

}  // namespace knoll::python
