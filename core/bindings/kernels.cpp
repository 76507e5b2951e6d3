// Kernel matrices that are never stored, and tall products.
#include "convert.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "kernels/apply.hpp"
#include "kernels/functions.hpp"
#include "kernels/pivoted_cholesky.hpp"
#include "kernels/points.hpp"
#include "kernels/symmetric.hpp"
#include "kernels/tall.hpp"
#include "kernels/tall_sparse.hpp"
#include "kernels/update.hpp"

namespace knoll::python {
namespace {

// Of sizes whose product may leave 64 bits, as a rough amount of work.
double product(std::initializer_list<size_t> sizes) {
  double result = 1;
  for (const size_t size : sizes) result *= static_cast<double>(size);
  return result;
}

template <class T>
void py_kernel_tile(const In<T, 2>& x, const In<T, 2>& y, const std::string& function, double a, double b,
                    const Out<double, 2>& out, int threads) {
  check_memory({array("x", x), array("y", y), array("out", out)});
  need(x.shape(1) == y.shape(1), "x and y must have the same columns");
  need(out.shape(0) == x.shape(0) && out.shape(1) == y.shape(0), "out must be (rows of x, rows of y)");
  const KernelRule rule = kernel_rule(function, a, b);
  // An exponential costs about as much as twenty columns.
  call(threads, product({x.shape(0), y.shape(0), x.shape(1) + 20}),
       [&](Run run) { kernel_tile(view<2>(x), view<2>(y), rule, view<2>(out), run); });
}

template <class T>
void py_kernel_diagonal(const In<T, 2>& x, const std::string& function, double a, double b, const Out<double, 1>& out,
                        int threads) {
  check_memory({array("x", x), array("out", out)});
  need(out.shape(0) == x.shape(0), "out must have one entry per row");
  const KernelRule rule = kernel_rule(function, a, b);
  call(threads, product({x.shape(0), x.shape(1) + 1}),
       [&](Run run) { kernel_diagonal(view<2>(x), rule, view<1>(out), run); });
}

// Holds a copy of the points in the order of a tree, so x need not outlive it.
struct PyKernelOperator {
  KernelRule rule;
  std::unique_ptr<KernelPoints> points;

  size_t n() const { return static_cast<size_t>(points->n); }
  size_t d() const { return static_cast<size_t>(points->d); }

  template <class T>
  static void make(PyKernelOperator* self, const In<T, 2>& x, const std::string& function, double a, double b,
                   double cutoff, int threads) {
    check_memory({array("x", x)});
    need(x.shape(1) > 0, "x must have a column");
    PyKernelOperator made{kernel_rule(function, a, b, cutoff), nullptr};
    call(threads, 100 * product({x.shape(0), x.shape(1)}), [&](Run run) {
      must_be_finite(view<2>(x), "x", run);
      made.points = std::make_unique<KernelPoints>(view<2>(x), made.rule, run);
    });
    new (self) PyKernelOperator(std::move(made));
  }

  int64_t pairs() const {
    int64_t found = 0;
    call(1, product({n(), n()}) / 100, [&](Run run) { found = kernel_pairs(*points, rule, run); });
    return found;
  }

  void apply(const In<double, 2>& b, const Out<double, 2>& out, int threads) const {
    need(b.shape(0) == n(), "b must have one row per row of x");
    need(out.shape(0) == n() && out.shape(1) == b.shape(1), "out must have the shape of b");
    check_memory({array("b", b), array("out", out)});
    // Each pair once, its value used for both triangles: two products per pair.
    call(threads, product({n(), n(), d() + 20 + 2 * b.shape(1)}) / 2,
         [&](Run run) { kernel_apply(*points, rule, view<2>(b), view<2>(out), run); });
  }

  template <class T>
  void apply_rows(const In<T, 2>& y, const In<double, 2>& b, const Out<double, 2>& out, int threads) const {
    need(y.shape(1) == d(), "y must have the columns of x");
    need(b.shape(0) == n(), "b must have one row per row of x");
    need(out.shape(0) == y.shape(0) && out.shape(1) == b.shape(1), "out must be (rows of y, columns of b)");
    check_memory({array("y", y), array("b", b), array("out", out)});
    call(threads, product({n(), y.shape(0), d() + 20 + b.shape(1)}),
         [&](Run run) { kernel_apply_rows(*points, rule, view<2>(y), view<2>(b), view<2>(out), run); });
  }

  void update(const In<int64_t, 1>& rows, const In<int32_t, 1>& old, const In<int32_t, 1>& fresh,
              const std::optional<In<double, 1>>& weights, const Out<double, 2>& g, int threads) const {
    need(old.shape(0) == rows.shape(0) && fresh.shape(0) == rows.shape(0), "rows, old and new must have one length");
    need(!weights || weights->shape(0) == n(), "weights must have one entry per row of x");
    need(g.shape(0) == n(), "g must have one row per row of x");
    const auto listed = view<1>(rows);
    const auto from = view<1>(old), to = view<1>(fresh);
    const auto columns = static_cast<int64_t>(g.shape(1));
    check_memory(
        {array("rows", rows), array("old", old), array("new", fresh), array("weights", weights), array("g", g)});
    // Used as positions in arrays of the core, which trusts them.
    need_range(listed, 0, points->n, "rows must be rows of x");
    need_range(from, INT32_MIN, columns, "old and new must be columns of g, or negative");
    need_range(to, INT32_MIN, columns, "old and new must be columns of g, or negative");
    call(threads, product({n(), rows.shape(0), d() + 20}),
         [&](Run run) { kernel_update(*points, rule, listed, from, to, view_or_empty<1>(weights), view<2>(g), run); });
  }

  using Matrix = nb::ndarray<nb::numpy, double, nb::ndim<2>, nb::c_contig>;
  using Rows = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>, nb::c_contig>;
  using Vector = nb::ndarray<nb::numpy, double, nb::ndim<1>, nb::c_contig>;

  std::tuple<Matrix, Rows, Vector> cholesky(int64_t max_rank, double tol, int threads) const {
    need(max_rank >= 0, "max_rank must be >= 0");
    need_number(tol, "tol");
    auto result = std::make_unique<PivotedCholesky>();
    const auto rank = static_cast<double>(max_rank);
    call(threads, static_cast<double>(n()) * (rank + 1) * (rank + 1) + 5e6,
         [&](Run run) { *result = pivoted_cholesky(*points, rule, max_rank, tol, run); });
    // Three arrays of one result share an owner: it is freed when the last of them is.
    PivotedCholesky* const kept = result.get();
    const nb::capsule owner(result.release(), [](void* p) noexcept { delete static_cast<PivotedCholesky*>(p); });
    const auto r = static_cast<size_t>(kept->rank);
    return {Matrix(kept->factor.get(), {n(), r}, owner), Rows(kept->pivots.data(), {r}, owner),
            Vector(kept->diagonal.data(), {n()}, owner)};
  }
};

template <class T>
void def_points(nb::module_& m, nb::class_<PyKernelOperator>& c) {
  m.def("kernel_tile", &py_kernel_tile<T>, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("function"),
        nb::arg("a"), nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"),
        "out = the values of a kernel: rbf (sigma, power), heaviside (eps), poly (shift, degree) or linear.");
  m.def("kernel_diagonal", &py_kernel_diagonal<T>, nb::arg("x").noconvert(), nb::arg("function"), nb::arg("a"),
        nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"),
        "out = the values of a kernel of each row with itself.");
  c.def("__init__", &PyKernelOperator::make<T>, nb::arg("x").noconvert(), nb::arg("function"), nb::arg("a"),
        nb::arg("b"), nb::arg("cutoff"), nb::arg("threads"));
  c.def("apply_rows", &PyKernelOperator::apply_rows<T>, nb::arg("y").noconvert(), nb::arg("b"),
        nb::arg("out").noconvert(), nb::arg("threads"),
        "out = K(y, x) b; the bits of a row depend on that row, x and b alone.");
}

void py_tall_inner(const In<double, 2>& a, const In<double, 2>& b, const Out<double, 2>& out, int threads) {
  need(a.shape(0) == b.shape(0), "a and b must have the same rows");
  need(out.shape(0) == a.shape(1) && out.shape(1) == b.shape(1), "out must be (columns of a, columns of b)");
  check_memory({array("a", a), array("b", b), array("out", out)});
  call(threads, product({a.shape(0), a.shape(1), b.shape(1)}),
       [&](Run run) { tall_inner(view<2>(a), view<2>(b), view<2>(out), run); });
}

void py_tall_times(const In<double, 2>& a, const In<double, 2>& c, const Out<double, 2>& out, int threads) {
  need(a.shape(1) == c.shape(0), "c must have one row per column of a");
  need(out.shape(0) == a.shape(0) && out.shape(1) == c.shape(1), "out must be (rows of a, columns of c)");
  check_memory({array("a", a), array("c", c), array("out", out)});
  call(threads, product({a.shape(0), a.shape(1), c.shape(1)}),
       [&](Run run) { tall_times(view<2>(a), view<2>(c), view<2>(out), run); });
}

// Compressed rows whose three arrays are consistent; `columns` is how many the matrix has.
Links links_of(const In<int64_t, 1>& begin, const In<int32_t, 1>& column, const In<double, 1>& value, size_t columns) {
  const auto column_view = view<1>(column);
  need(view<1>(begin).stride[0] == 1 && column_view.stride[0] == 1 && view<1>(value).stride[0] == 1,
       "begin, column and value must be contiguous");
  need(begin.shape(0) >= 1 && column.shape(0) == value.shape(0), "begin, column and value must fit together");
  const int64_t entries = column_view.shape[0], n = static_cast<int64_t>(begin.shape(0)) - 1;
  const Links rows{value.data(), column.data(), begin.data(), n, static_cast<int64_t>(columns)};
  const char* const rising = "begin must rise from 0 to the number of entries, and columns lie within the matrix";
  bool rises = rows.begin(0) == 0 && rows.begin(n) == entries;
  for (int64_t i = 0; i < n; ++i) rises &= rows.begin(i) <= rows.end(i);
  need(rises, rising);
  need_range(column_view, 0, static_cast<int64_t>(columns), rising);
  return rows;
}

void py_sparse_times(const In<int64_t, 1>& begin, const In<int32_t, 1>& column, const In<double, 1>& value,
                     const In<double, 2>& b, const Out<double, 2>& out, int threads) {
  check_memory(
      {array("begin", begin), array("column", column), array("value", value), array("b", b), array("out", out)});
  const Links rows = links_of(begin, column, value, b.shape(0));
  need(out.shape(0) + 1 == begin.shape(0) && out.shape(1) == b.shape(1), "out must be (rows, columns of b)");
  call(threads, product({column.shape(0), b.shape(1)}),
       [&](Run run) { sparse_times(rows, view<2>(b), view<2>(out), run); });
}

void py_sparse_chebyshev(const In<int64_t, 1>& begin, const In<int32_t, 1>& column, const In<double, 1>& value,
                         double cut, int64_t degree, const In<double, 2>& b, const Out<double, 2>& out, int threads) {
  check_memory(
      {array("begin", begin), array("column", column), array("value", value), array("b", b), array("out", out)});
  const Links rows = links_of(begin, column, value, b.shape(0));
  need(b.shape(0) + 1 == begin.shape(0), "the matrix must be square, with one row per row of b");
  need(out.shape(0) == b.shape(0) && out.shape(1) == b.shape(1), "out must be of the shape of b");
  need(cut > -1 && cut < 1 && degree >= 1, "cut must lie between -1 and 1, degree be at least 1");
  call(threads, product({column.shape(0), b.shape(1), static_cast<size_t>(degree)}),
       [&](Run run) { sparse_chebyshev(rows, cut, degree, view<2>(b), view<2>(out), run); });
}

void py_tridiagonalise(const In<double, 2>& a, const Out<double, 1>& diagonal, const Out<double, 1>& off_diagonal,
                       const Out<double, 1>& tau, const Out<double, 2>& reflectors) {
  const size_t n = a.shape(0);
  need(n >= 1 && a.shape(1) == n, "a must be square, with at least one row");
  need(diagonal.shape(0) == n && off_diagonal.shape(0) + 1 == n && tau.shape(0) + 1 == n,
       "diagonal must have one entry per row, off_diagonal and tau one less");
  need(reflectors.shape(0) + 1 == n && reflectors.shape(1) == n, "reflectors must be (rows - 1, rows)");
  check_memory({array("a", a), array("diagonal", diagonal), array("off_diagonal", off_diagonal), array("tau", tau),
                array("reflectors", reflectors)});
  call(1, 2 * product({n, n, n}), [&](Run run) {
    tridiagonalise(view<2>(a), view<1>(diagonal), view<1>(off_diagonal), view<1>(tau), view<2>(reflectors), run);
  });
}

struct PySparseCholesky {
  std::unique_ptr<SparseCholesky> factor;

  static void make(PySparseCholesky* self, const In<int64_t, 1>& begin, const In<int32_t, 1>& column,
                   const In<double, 1>& value) {
    check_memory({array("begin", begin), array("column", column), array("value", value)});
    const Links rows = links_of(begin, column, value, begin.shape(0) - 1);
    PySparseCholesky made;
    call(1, 1000 * product({begin.shape(0)}),
         [&](Run run) { made.factor = std::make_unique<SparseCholesky>(rows, run); });
    new (self) PySparseCholesky(std::move(made));
  }

  void solve(const Out<double, 2>& x) const {
    need(static_cast<int64_t>(x.shape(0)) == factor->n(), "x must have one row per row of the matrix");
    need(view<2>(x).rows_contiguous(), "the rows of x must be contiguous");
    check_memory({array("x", x)});
    call(1, 2 * static_cast<double>(factor->entries()) * product({x.shape(1)}),
         [&](Run run) { factor->solve(view<2>(x), run); });
  }
};

}  // namespace

void bind_kernels(nb::module_& m) {
  nb::class_<PyKernelOperator> c(m, "KernelOperator",
                                 "Products with the kernel matrix of the rows of x, which is never stored. cutoff: "
                                 "values of rbf farther than that count as 0; 0 or inf: none does.");
  def_points<double>(m, c);
  def_points<float>(m, c);
  c.def_prop_ro(
       "n", [](const PyKernelOperator& self) { return self.points->n; }, "Rows of x.")
      .def_prop_ro(
          "bytes", [](const PyKernelOperator& self) { return self.points->bytes(); }, "Memory in use.")
      .def_prop_ro("pairs", &PyKernelOperator::pairs,
                   "How many unordered pairs of rows, each with itself among them, apply evaluates.")
      .def("apply", &PyKernelOperator::apply, nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"),
           "out = K b, each pair of rows evaluated once.")
      .def("update", &PyKernelOperator::update, nb::arg("rows"), nb::arg("old"), nb::arg("new"),
           nb::arg("weights").none(), nb::arg("g").noconvert(), nb::arg("threads"),
           "For each listed row j: g[:, new] += w K[:, j], g[:, old] -= w K[:, j]; negative numbers are left out.")
      .def("pivoted_cholesky", &PyKernelOperator::cholesky, nb::arg("max_rank"), nb::arg("tol"), nb::arg("threads"),
           "F, pivots and the diagonal of K - F F^T, with pivots in panels: the first of a panel is the row with the "
           "largest remaining diagonal, the others have at least half of that. Stops at max_rank, or when the largest "
           "is <= tol, or when twice the pace of the later half of the pivots would leave more than "
           "n tol and a tenth of the trace at max_rank.");
  m.def("tall_inner", &py_tall_inner, nb::arg("a"), nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"),
        "out = a^T b, summed over a fixed grid of rows.");
  m.def("tall_times", &py_tall_times, nb::arg("a"), nb::arg("c"), nb::arg("out").noconvert(), nb::arg("threads"),
        "out = a c.");
  m.def("tridiagonalise", &py_tridiagonalise, nb::arg("a"), nb::arg("diagonal").noconvert(),
        nb::arg("off_diagonal").noconvert(), nb::arg("tau").noconvert(), nb::arg("reflectors").noconvert(),
        "a = Q T Q^T, T tridiagonal, Q the product of I - tau_k v_k v_k^T; v_k is row k of reflectors.");
  nb::class_<PySparseCholesky>(m, "SparseCholesky",
                               "The factors L D L^T of a sparse symmetric positive definite matrix, in its order.")
      .def("__init__", &PySparseCholesky::make, nb::arg("begin"), nb::arg("column"), nb::arg("value"))
      .def_prop_ro(
          "entries", [](const PySparseCholesky& self) { return self.factor->entries(); },
          "Entries of L below its diagonal.")
      .def("solve", &PySparseCholesky::solve, nb::arg("x").noconvert(), "x = the solution for the columns of x.");
  m.def("sparse_times", &py_sparse_times, nb::arg("begin"), nb::arg("column"), nb::arg("value"), nb::arg("b"),
        nb::arg("out").noconvert(), nb::arg("threads"), "out = m b, m as compressed rows.");
  m.def("sparse_chebyshev", &py_sparse_chebyshev, nb::arg("begin"), nb::arg("column"), nb::arg("value"), nb::arg("cut"),
        nb::arg("degree"), nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"),
        "out = T_q(x(m)) b / T_q(x(1)), T_q Chebyshev's polynomial and x the line that maps [-1, cut] to [-1, 1].");
}

}  // namespace knoll::python
