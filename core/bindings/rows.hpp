// Rows as arguments of a binding: a dense array x, or the arrays of a CSR matrix. A function is written once, as a
// template f(const Rows& x, others…) over the two, and Rows::def binds it: under its name for dense rows, with "_csr"
// for CSR.
#pragma once

#include <string>
#include <utility>

#include "common/csr.hpp"
#include "convert.hpp"
#include "kmeans/seeding.hpp"

namespace knoll::python {

template <class T>
struct DenseRows {
  In<T, 2> x;

  void check_memory(std::initializer_list<Extent> others) const { python::check_memory({array("x", x)}, others); }
  View<const T, 2> points() const { return view<2>(x); }

  // In a module, or in a class C whose methods are functions f(C&, rows, …). noconvert: an array of another dtype must
  // choose another overload, not be copied.
  template <class R, class... Args, class... Extra>
  static void def(nb::module_& m, const char* name, const char* doc, R (*f)(const DenseRows&, Args...),
                  const Extra&... extra) {
    m.def(
        name, [f](const In<T, 2>& x, Args... args) { return f({x}, args...); }, nb::arg("x").noconvert(), extra...,
        doc);
  }
  template <class C, class R, class... Args, class... Extra>
  static void def(nb::class_<C>& c, const char* name, const char* doc, R (*f)(C&, const DenseRows&, Args...),
                  const Extra&... extra) {
    c.def(
        name, [f](C& self, const In<T, 2>& x, Args... args) { return f(self, {x}, args...); }, nb::arg("x").noconvert(),
        extra..., doc);
  }
};

// `Points` is Csr<T, I>, or SparseRows<T, I> for rows in canonical format.
template <class Data, class Index, class Points>
struct CsrRows {
  Data data;
  Index indices, indptr;
  int64_t n_columns;

  void check_memory(std::initializer_list<Extent> others) const {
    python::check_memory({array("data", data), array("indices", indices), array("indptr", indptr)}, others);
  }
  Points points() const {
    // Rows are compared entry by entry there, which needs one order of columns and no duplicates.
    constexpr bool canonical = requires(Points p) { p.shape; };
    const int64_t n = static_cast<int64_t>(indptr.shape(0)) - 1;
    need_csr(view<1>(indices), view<1>(indptr), static_cast<int64_t>(data.shape(0)), n_columns, canonical);
    if constexpr (canonical)
      return {view<1>(data), view<1>(indices), view<1>(indptr), {n, n_columns}};
    else
      return {data.data(), indices.data(), indptr.data(), n, n_columns};
  }

  template <class R, class... Args, class... Extra>
  static void def(nb::module_& m, const char* name, const char*, R (*f)(const CsrRows&, Args...),
                  const Extra&... extra) {
    m.def((std::string(name) + "_csr").c_str(),
          [f](const Data& data, const Index& indices, const Index& indptr, int64_t n_columns, Args... args) {
            return f({data, indices, indptr, n_columns}, args...);
          },
          nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
          nb::arg("n_columns"), extra..., (std::string(name) + " for compressed rows.").c_str());
  }
  template <class C, class R, class... Args, class... Extra>
  static void def(nb::class_<C>& c, const char* name, const char*, R (*f)(C&, const CsrRows&, Args...),
                  const Extra&... extra) {
    c.def((std::string(name) + "_csr").c_str(),
          [f](C& self, const Data& data, const Index& indices, const Index& indptr, int64_t n_columns, Args... args) {
            return f(self, {data, indices, indptr, n_columns}, args...);
          },
          nb::arg("data").noconvert(), nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(),
          nb::arg("n_columns"), extra..., (std::string(name) + " for compressed rows.").c_str());
  }
};

template <class T>
using Flat = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T, class I>
using AnyCsr = CsrRows<Flat<const T>, Flat<const I>, Csr<T, I>>;  // duplicates and any order within a row
template <class T, class I>
using CanonicalCsr = CsrRows<In<T, 1>, In<I, 1>, SparseRows<T, I>>;

// bind<Rows>() for rows of every dtype and index type.
template <template <class, class> class Sparse, class Bind>
void for_row_types(Bind&& bind) {
  bind.template operator()<DenseRows<double>>();
  bind.template operator()<DenseRows<float>>();
  bind.template operator()<Sparse<double, int32_t>>();
  bind.template operator()<Sparse<double, int64_t>>();
  bind.template operator()<Sparse<float, int32_t>>();
  bind.template operator()<Sparse<float, int64_t>>();
}

// The shape of points of either form.
template <class Points>
std::pair<int64_t, int64_t> shape_of(const Points& points) {
  if constexpr (requires { points.shape; })
    return {points.shape[0], points.shape[1]};
  else
    return {points.rows, points.columns};
}

}  // namespace knoll::python
