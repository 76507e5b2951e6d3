// k-prototypes: distances of rows of numbers and categories to prototypes.
#include "convert.hpp"

#include "kmeans/prototypes.hpp"

namespace knoll::python {
namespace {

template <class T>
View<const T, 2> columns_view(const In<T, 2>& array, int64_t n, const char* message) {
  const auto found = view<2>(array);
  // an array without an entry has any strides
  need(found.shape[1] == n && (found.stride[1] == 1 || n <= 1 || found.shape[0] == 0), message);
  return found;
}

// The arguments of both functions, checked.
struct Arguments {
  MixedColumns rows;
  Prototypes prototypes;
  int64_t n, k;
  double work;
};

Arguments checked(const In<double, 2>& values, const In<double, 2>& observed, const In<uint8_t, 1>& whole,
                  const In<int32_t, 2>& codes, const In<int32_t, 1>& gaps, const In<double, 2>& means,
                  const In<int32_t, 2>& modes, double gamma) {
  const auto n = static_cast<int64_t>(gaps.shape(0)), k = static_cast<int64_t>(means.shape(0));
  const size_t p = values.shape(0), q = codes.shape(0);
  Arguments found;
  found.rows.values = columns_view(values, n, "values must have one contiguous entry per row");
  found.rows.observed = columns_view(observed, n, "observed must have one contiguous entry per row");
  found.rows.codes = columns_view(codes, n, "codes must have one contiguous entry per row");
  found.rows.whole = view<1>(whole);
  found.rows.gaps = view<1>(gaps);
  need(n <= 1 || found.rows.gaps.stride[0] == 1, "gaps must be contiguous");
  need_range(found.rows.gaps, 0, static_cast<int64_t>(q) + 1, "gaps must lie in [0, columns of codes]");
  need(observed.shape(0) == p && whole.shape(0) == p, "observed and whole must have one entry per column of numbers");
  need(k >= 1 && means.shape(1) == p, "means must be (k, p), with at least one row");
  need(modes.shape(0) == means.shape(0) && modes.shape(1) == q, "modes must be (k, q)");
  found.prototypes = {view<2>(means), view<2>(modes), gamma};
  found.n = n, found.k = k;
  found.work = static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(p + q + 1);
  return found;
}

void py_distances(const In<double, 2>& values, const In<double, 2>& observed, const In<uint8_t, 1>& whole,
                  const In<int32_t, 2>& codes, const In<int32_t, 1>& gaps, const In<double, 2>& means,
                  const In<int32_t, 2>& modes, double gamma, const Out<double, 2>& out, int threads) {
  check_memory({array("values", values), array("observed", observed), array("whole", whole), array("codes", codes),
                array("gaps", gaps), array("means", means), array("modes", modes), array("out", out)});
  const Arguments all = checked(values, observed, whole, codes, gaps, means, modes, gamma);
  const auto target = view<2>(out);
  need(target.shape[0] == all.k && target.shape[1] == all.n && (target.stride[1] == 1 || all.n <= 1),
       "out must be (k, n), with contiguous rows");
  call(threads, all.work, [&](Run run) { prototype_distances(all.rows, all.prototypes, target, run); });
}

void py_assign(const In<double, 2>& values, const In<double, 2>& observed, const In<uint8_t, 1>& whole,
               const In<int32_t, 2>& codes, const In<int32_t, 1>& gaps, const In<double, 2>& means,
               const In<int32_t, 2>& modes, double gamma, const Out<int64_t, 1>& labels, const Out<double, 1>& least,
               int threads) {
  check_memory({array("values", values), array("observed", observed), array("whole", whole), array("codes", codes),
                array("gaps", gaps), array("means", means), array("modes", modes), array("labels", labels),
                array("least", least)});
  const Arguments all = checked(values, observed, whole, codes, gaps, means, modes, gamma);
  const auto nearest = view<1>(labels);
  const auto best = view<1>(least);
  need(nearest.shape[0] == all.n && best.shape[0] == all.n, "labels and least must have one entry per row");
  need(all.n <= 1 || (nearest.stride[0] == 1 && best.stride[0] == 1), "labels and least must be contiguous");
  call(threads, all.work, [&](Run run) { prototype_assign(all.rows, all.prototypes, nearest, best, run); });
}

}  // namespace

void bind_prototypes(nb::module_& m) {
  m.def("prototype_distances", &py_distances, nb::arg("values").noconvert(), nb::arg("observed").noconvert(),
        nb::arg("whole").noconvert(), nb::arg("codes").noconvert(), nb::arg("gaps").noconvert(), nb::arg("means"),
        nb::arg("modes"), nb::arg("gamma"), nb::arg("out").noconvert(), nb::arg("threads"),
        "Fill the partial distance of each row to each prototype.");
  m.def("prototype_assign", &py_assign, nb::arg("values").noconvert(), nb::arg("observed").noconvert(),
        nb::arg("whole").noconvert(), nb::arg("codes").noconvert(), nb::arg("gaps").noconvert(), nb::arg("means"),
        nb::arg("modes"), nb::arg("gamma"), nb::arg("labels").noconvert(), nb::arg("least").noconvert(),
        nb::arg("threads"), "Find the nearest prototype of each row, ties to the lowest number, and its distance.");
}

}  // namespace knoll::python
