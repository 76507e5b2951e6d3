// Mixtures of Gaussian and categorical blocks: the passes of EM.
#include <nanobind/stl/optional.h>

#include <cmath>

#include "convert.hpp"
#include "mixture/mixed_pass.hpp"

namespace knoll::python {

template <class T>
static void need_rows(const View<T, 2>& table, const char* what) {
  need(table.shape[0] <= 1 || (table.stride[0] == table.shape[1] && (table.shape[1] <= 1 || table.stride[1] == 1)),
       what);
}

static MixedTable rows_of(const In<double, 2>& y, const In<int32_t, 2>& codes,
                          const std::optional<In<double, 1>>& weights, const In<int64_t, 1>& starts,
                          const In<bool, 2>& observed, int64_t levels) {
  const MixedTable rows{view<2>(y), view<2>(codes), view_or_empty<1>(weights), view<1>(starts), byte_view<2>(observed)};
  const int64_t n = rows.y.shape[0], groups = rows.observed.shape[0];
  need_rows(rows.y, "y must be contiguous");
  need_rows(rows.codes, "codes must be contiguous");
  need(rows.codes.shape[0] == n, "codes must have one row per row of y");
  need(!weights || rows.weights.shape[0] == n, "weights must have one entry per row");
  need_range(View<const int32_t, 1>{rows.codes.data, {n * rows.codes.shape[1]}, {1}}, 0, levels,
             "codes must be rows of the table");
  need(groups >= 1 && rows.starts.shape[0] == groups + 1 && rows.observed.shape[1] == rows.y.shape[1],
       "starts and observed must have one entry per group");
  bool fits = rows.starts(0) == 0 && rows.starts(groups) == n;
  for (int64_t g = 0; g < groups; ++g) fits = fits && rows.starts(g) <= rows.starts(g + 1);
  need(fits, "starts must rise from 0 to the number of rows");
  return rows;
}

static MixedParameters parameters_of(const In<double, 1>& log_weights, const In<double, 2>& means,
                                     const In<double, 2>& scales, bool full, const In<double, 2>& table) {
  const MixedParameters model{view<1>(log_weights), view<2>(means), view<2>(scales), full, view<2>(table)};
  const int64_t k = model.means.shape[0], p = model.means.shape[1];
  need(k >= 1, "there must be a component");
  need(model.log_weights.shape[0] == k, "log_weights must have one entry per component");
  need(model.scales.shape[0] == k && model.scales.shape[1] == (full ? p * p : p), "scales must fit the means");
  need(model.table.shape[1] == k, "table must have one column per component");
  // Without a living component log-sum-exp would have no largest term.
  bool alive = false;
  for (int64_t c = 0; c < k; ++c) alive |= model.log_weights(c) > -HUGE_VAL;
  need(alive, "there must be a living component");
  return model;
}

static double work_of(const MixedTable& rows, const MixedParameters& model) {
  const auto p = static_cast<double>(model.means.shape[1]), q = static_cast<double>(rows.codes.shape[1]);
  return static_cast<double>(rows.y.shape[0]) * static_cast<double>(model.means.shape[0]) *
         ((model.full ? p * p : 4 * p) + q + 10);
}

static void py_sum_mixed(const In<double, 2>& y, const In<int32_t, 2>& codes,
                         const std::optional<In<double, 1>>& weights, const In<int64_t, 1>& starts,
                         const In<bool, 2>& observed, const In<double, 1>& log_weights, const In<double, 2>& means,
                         const In<double, 2>& scales, bool full, const In<double, 2>& table,
                         const In<double, 2>& pivots, const Out<double, 1>& head, const Out<double, 2>& moments,
                         const Out<double, 2>& counts, const Out<double, 1>& peaks, int threads) {
  check_memory({array("y", y), array("codes", codes), array("weights", weights), array("starts", starts),
                array("observed", observed), array("log_weights", log_weights), array("means", means),
                array("scales", scales), array("table", table), array("pivots", pivots), array("head", head),
                array("moments", moments), array("counts", counts), array("peaks", peaks)});
  const MixedParameters model = parameters_of(log_weights, means, scales, full, table);
  const int64_t k = model.means.shape[0], p = model.means.shape[1], levels = model.table.shape[0];
  need(static_cast<int64_t>(y.shape(1)) == p, "y must have one column per column of means");
  const MixedTable rows = rows_of(y, codes, weights, starts, observed, levels);
  const auto fits = [](const auto& a, int64_t r, int64_t c) {
    return static_cast<int64_t>(a.shape(0)) == r && static_cast<int64_t>(a.shape(1)) == c;
  };
  need(fits(pivots, k, p), "pivots must be (k, p)");
  need(rows.y.shape[0] >= 1, "there must be a row");
  need(static_cast<int64_t>(head.shape(0)) == 2, "head must have two entries");
  need(fits(moments, k, mixed_component_sums(p, full)), "moments must be (k, sums)");
  need(fits(counts, levels, k), "counts must be shaped like table");
  need(static_cast<int64_t>(peaks.shape(0)) == k, "peaks must have one entry per component");
  call(threads, work_of(rows, model), [&](Run run) {
    sum_mixed(rows, model, view<2>(pivots), view<1>(head), view<2>(moments), view<2>(counts), view<1>(peaks), run);
  });
}

static void py_expect_mixed(const In<double, 2>& y, const In<int32_t, 2>& codes, const In<int64_t, 1>& starts,
                            const In<bool, 2>& observed, const In<double, 1>& log_weights, const In<double, 2>& means,
                            const In<double, 2>& scales, bool full, const In<double, 2>& table,
                            const std::optional<Out<double, 2>>& resp, const std::optional<Out<int64_t, 1>>& labels,
                            const std::optional<Out<double, 1>>& log_prob, const std::optional<Out<double, 2>>& joint,
                            const std::optional<Out<double, 2>>& filled, int threads) {
  check_memory({array("y", y), array("codes", codes), array("starts", starts), array("observed", observed),
                array("log_weights", log_weights), array("means", means), array("scales", scales),
                array("table", table), array("resp", resp), array("labels", labels), array("log_prob", log_prob),
                array("joint", joint), array("filled", filled)});
  const MixedParameters model = parameters_of(log_weights, means, scales, full, table);
  const int64_t k = model.means.shape[0], p = model.means.shape[1];
  need(static_cast<int64_t>(y.shape(1)) == p, "y must have one column per column of means");
  const MixedTable rows = rows_of(y, codes, {}, starts, observed, model.table.shape[0]);
  const int64_t n = rows.y.shape[0];
  const auto lambda = view_or_empty<2>(resp);
  const auto assigned = view_or_empty<1>(labels);
  const auto lp = view_or_empty<1>(log_prob);
  const auto each = view_or_empty<2>(joint);
  const auto values = view_or_empty<2>(filled);
  need(!resp || (lambda.shape[0] == n && lambda.shape[1] == k), "resp must be (n, k)");
  need(!labels || assigned.shape[0] == n, "labels must have one entry per row");
  need(!log_prob || lp.shape[0] == n, "log_prob must have one entry per row");
  need(!joint || (each.shape[0] == n && each.shape[1] == k), "joint must be (n, k)");
  need(!filled || (values.shape[0] == n && values.shape[1] == p), "filled must be (n, p)");
  call(threads, work_of(rows, model),
       [&](Run run) { expect_mixed(rows, model, lambda, assigned, lp, each, values, run); });
}

void bind_mixed(nb::module_& m) {
  m.def("sum_mixed", &py_sum_mixed, nb::arg("y").noconvert(), nb::arg("codes").noconvert(), nb::arg("weights").none(),
        nb::arg("starts").noconvert(), nb::arg("observed").noconvert(), nb::arg("log_weights"), nb::arg("means"),
        nb::arg("scales"), nb::arg("full"), nb::arg("table"), nb::arg("pivots"), nb::arg("head").noconvert(),
        nb::arg("moments").noconvert(), nb::arg("counts").noconvert(), nb::arg("peaks").noconvert(), nb::arg("threads"),
        "One pass of EM over mixed rows with missing values: the sums of the M step.");
  m.def("expect_mixed", &py_expect_mixed, nb::arg("y").noconvert(), nb::arg("codes").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("observed").noconvert(), nb::arg("log_weights"), nb::arg("means"),
        nb::arg("scales"), nb::arg("full"), nb::arg("table"), nb::arg("resp").noconvert().none(),
        nb::arg("labels").noconvert().none(), nb::arg("log_prob").noconvert().none(),
        nb::arg("joint").noconvert().none(), nb::arg("filled").noconvert().none(), nb::arg("threads"),
        "The E step over mixed rows with missing values: fills what is passed.");
}

}  // namespace knoll::python
