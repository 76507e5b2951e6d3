// The Python module knoll._core: converts arguments, releases the GIL, calls the core. Nothing is computed here.
#include "convert.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "common/exact_sum.hpp"
#include "common/finite.hpp"
#include "common/rng.hpp"
#include "common/thread_pool.hpp"
#include "common/tile.hpp"
#include "kmeans/cluster_means.hpp"
#include "mixture/cholesky.hpp"
#include "mixture/mahalanobis.hpp"
#include "mixture/moments.hpp"
#include "simd/kernels.hpp"

// The limit that threadpoolctl sets and reads (knoll/_system.py); 0: none.
static std::atomic<int> thread_limit{0};
// Plain C names: threadpoolctl finds them in the shared object by name.
extern "C" __attribute__((visibility("default"))) int knoll_get_num_threads() { return thread_limit.load(); }
extern "C" __attribute__((visibility("default"))) void knoll_set_num_threads(int n) {
  thread_limit.store(n < 0 ? 0 : n);
}

namespace knoll::python {

// A token in Python. Threads that have entered it share it, so that it outlives its Python object.
struct SharedToken {
  std::shared_ptr<CancelToken> token = std::make_shared<CancelToken>();
};

static void bind_cancel(nb::module_& m) {
  nb::exception<Cancelled>(m, "Cancelled", PyExc_RuntimeError).doc() =
      "A computation was stopped by a token, from another thread or by its deadline.";
  nb::class_<SharedToken>(m, "CancelToken", "A request to stop, from any thread or by the clock.")
      .def(nb::init<>())
      .def(
          "cancel", [](SharedToken& t) { t.token->cancel(); }, "Request the stop; it is never withdrawn.")
      .def(
          "stop_after", [](SharedToken& t, double seconds) { t.token->stop_after(seconds); }, nb::arg("seconds"),
          "Request it so many seconds from now.")
      .def_prop_ro("cancelled", [](const SharedToken& t) { return t.token->cancelled(); }, "Whether it was requested.");
  m.def(
      "enter_token", [](const SharedToken& t) { entered_tokens().push_back(t.token); }, nb::arg("token"),
      "Calls of this thread stop if the token is cancelled, until leave_token.");
  m.def(
      "leave_token",
      [] {
        need(!entered_tokens().empty(), "no token was entered");
        entered_tokens().pop_back();
      },
      "Leave the token that was entered last.");
  m.def("any_cancelled", &any_cancelled, "Whether a token that this thread has entered is cancelled.");
}

// `sums` is additive state: the caller owns it, and blocks or workers are merged by adding it (docs/numerics/sums.md,
// S3).
template <class T>
static void py_add_moments(const In<T, 2>& x, const std::optional<In<double, 1>>& weights, const In<double, 1>& origin,
                           const Out<int64_t, 2>& sums, int threads) {
  const auto points = view<2>(x);
  const auto w = view_or_empty<1>(weights);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("weights", weights), array("origin", origin), array("sums", sums)});
  need(!weights || w.shape[0] == n, "weights must have one entry per row");
  need(static_cast<int64_t>(origin.shape(0)) == d, "origin must have one entry per column");
  need(static_cast<int64_t>(sums.shape(0)) == kSumWords && static_cast<int64_t>(sums.shape(1)) == moment_count(d),
       "sums must be (words, moments)");
  call(threads, static_cast<double>(n) * static_cast<double>(d) * static_cast<double>(d + 4) / 2,
       [&](Run run) { add_moments(points, w, view<1>(origin), view<2>(sums), run); });
}

template <class T>
static void py_mahalanobis2(const In<T, 2>& x, const In<double, 1>& mean, const In<double, 2>& factor,
                            const Out<double, 1>& out, int threads) {
  const auto points = view<2>(x);
  const int64_t n = points.shape[0], d = points.shape[1];
  check_memory({array("x", x), array("mean", mean), array("factor", factor), array("out", out)});
  need(static_cast<int64_t>(mean.shape(0)) == d, "mean must have one entry per column");
  need(static_cast<int64_t>(factor.shape(0)) == d && static_cast<int64_t>(factor.shape(1)) == d,
       "factor must be (d, d)");
  need(static_cast<int64_t>(out.shape(0)) == n, "out must have one entry per row");
  call(threads, static_cast<double>(n) * static_cast<double>(d) * static_cast<double>(d + 4) / 2,
       [&](Run run) { mahalanobis2(points, view<1>(mean), view<2>(factor), view<1>(out), run); });
}

template <class T>
static bool py_all_finite(const In<T, 2>& x, int threads) {
  check_memory({array("x", x)});
  bool finite = true;
  // A pass at the speed of memory: four numbers for the price of an operation.
  call(threads, static_cast<double>(x.size()) / 4, [&](Run run) { finite = all_finite(view<2>(x), run); });
  return finite;
}

static void py_exact_merge(const Out<int64_t, 2>& into, const In<int64_t, 2>& from, int threads) {
  check_memory({array("into", into), array("from_", from)});
  need(into.shape(0) == from.shape(0) && into.shape(1) == from.shape(1) &&
           static_cast<int64_t>(into.shape(0)) == kSumWords,
       "sums must be (words, m) and of one shape");
  call(threads, 100.0 * static_cast<double>(into.shape(1)),
       [&](Run run) { exact_merge_columns(view<2>(into), view<2>(from), run); });
}

static void py_exact_round(const In<int64_t, 2>& sums, const Out<double, 1>& out, int threads,
                           const std::optional<Out<double, 1>>& low) {
  check_memory({array("sums", sums), array("out", out), array("low", low)});
  need(static_cast<int64_t>(sums.shape(0)) == kSumWords && sums.shape(1) == out.shape(0) &&
           (!low || sums.shape(1) == low->shape(0)),
       "sums must be (words, m), out and low (m)");
  call(threads, 300.0 * static_cast<double>(sums.shape(1)),
       [&](Run run) { exact_round_columns(view<2>(sums), view<1>(out), run, view_or_empty<1>(low)); });
}

// One thread: the matrices are small, and the order of operations is part of the result.
static int64_t py_cholesky(const Out<double, 2>& a, double tolerance) {
  check_memory({array("a", a)});
  need(a.shape(0) == a.shape(1), "a must be square");
  int64_t failed = -1;
  const double d = static_cast<double>(a.shape(0));
  call(1, d * d * d / 3, [&](Run run) { failed = cholesky(view<2>(a), tolerance, run); });
  return failed;
}

static void py_invert_lower(const In<double, 2>& l, const Out<double, 2>& out) {
  check_memory({array("l", l), array("out", out)});
  need(l.shape(0) == l.shape(1) && out.shape(0) == l.shape(0) && out.shape(1) == l.shape(0),
       "l and out must be square, of one size");
  const double d = static_cast<double>(l.shape(0));
  call(1, d * d * d / 3, [&](Run run) { invert_lower(view<2>(l), view<2>(out), run); });
}

static void py_colour(const Out<double, 2>& x, const In<double, 1>& mean, const In<double, 2>& lower, int threads) {
  const size_t d = x.shape(1);
  check_memory({array("x", x), array("mean", mean), array("lower", lower)});
  need(mean.shape(0) == d && lower.shape(0) == d && lower.shape(1) == d, "mean must be (d,), lower (d, d)");
  call(threads, static_cast<double>(x.size()) * static_cast<double>(d + 4) / 2,
       [&](Run run) { colour(view<2>(x), view<1>(mean), view<2>(lower), run); });
}

// Any number is a valid purpose: it is part of a counter, not an index.
static void py_fill_normal(uint64_t seed, uint32_t purpose, uint64_t first, const Out<double, 1>& out, int threads) {
  check_memory({array("out", out)});
  call(threads, 20.0 * static_cast<double>(out.shape(0)),
       [&](Run run) { rng::fill_normal(seed, static_cast<rng::Purpose>(purpose), first, view<1>(out), run); });
}

static void unary(void (*kernel)(const double*, double*, int64_t),
                  const nb::ndarray<const double, nb::ndim<1>, nb::c_contig>& x,
                  const nb::ndarray<double, nb::ndim<1>, nb::c_contig>& y) {
  need(x.shape(0) == y.shape(0), "x and y must have one length");
  if (x.data() == y.data())  // entry by entry, so in place too
    check_memory({array("y", y)});
  else
    check_memory({array("x", x), array("y", y)});
  kernel(x.data(), y.data(), static_cast<int64_t>(x.shape(0)));
}

static std::map<std::string, std::string> build_info() {
  std::string known;
  for (const Kernels* k : all_kernels()) known += std::string(known.empty() ? "" : ", ") + k->name;
  return {
      {"version", KNOLL_VERSION},
#if defined(__clang__)
      {"compiler", "clang " __clang_version__},
#else
      {"compiler", "g++ " __VERSION__},
#endif
      {"instruction set", kernels().name},
      {"instruction sets available", known},
  };
}

NB_MODULE(_core, m) {
  m.doc() = "The native core of knoll: kernels over arrays. Its functions are private; use the package's instead.";
#ifdef NDEBUG
  nb::set_leak_warnings(false);  // a process that ends during a fit, in a daemon thread, is no leak to report
#endif
  kernels();  // chosen at load, so that a wrong KNOLL_ISA fails at import

  bind_cancel(m);
  m.attr("version") = KNOLL_VERSION;
  m.attr("SUM_WORDS") = kSumWords;
  m.attr("SCATTER_COLUMNS") = kScatterColumns;
  // Python cuts blocks at multiples of it, so that their sums have the bits of the whole.
  m.attr("GRAIN") = kGrain;
  m.attr("PURPOSE_SAMPLE") = static_cast<uint32_t>(rng::Purpose::sample);
  m.def("build_info", &build_info, "Compiler, version and instruction sets of this build.");
  m.def("get_num_threads", &knoll_get_num_threads, "The limit on threads set through threadpoolctl; 0: none.");
  m.def("set_num_threads", &knoll_set_num_threads, nb::arg("n"), "Set the limit on threads; 0: none.");
  m.def("pool_workers", &pool_workers, "How many worker threads the pool has now.");

  m.def("all_finite", &py_all_finite<double>, nb::arg("x").noconvert(), nb::arg("threads"),
        "Whether every entry of x is finite.");
  m.def("all_finite", &py_all_finite<float>, nb::arg("x").noconvert(), nb::arg("threads"));
  m.def("add_moments", &py_add_moments<double>, nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("origin"),
        nb::arg("sums").noconvert(), nb::arg("threads"),
        "Add the weighted moments of x about origin to exact sums (words, moments).");
  m.def("add_moments", &py_add_moments<float>, nb::arg("x").noconvert(), nb::arg("weights").none(), nb::arg("origin"),
        nb::arg("sums").noconvert(), nb::arg("threads"));
  m.def("exact_merge", &py_exact_merge, nb::arg("into").noconvert(), nb::arg("from_"), nb::arg("threads"),
        "into += from_, column by column.");
  m.def("exact_round", &py_exact_round, nb::arg("sums").noconvert(), nb::arg("out").noconvert(), nb::arg("threads"),
        nb::arg("low").noconvert() = nb::none(),
        "Round each column's exact sum to the nearest double; low gets the remainder, rounded likewise.");
  m.def("mahalanobis2", &py_mahalanobis2<double>, nb::arg("x").noconvert(), nb::arg("mean"), nb::arg("factor"),
        nb::arg("out").noconvert(), nb::arg("threads"), "Squared norms of factor (x - mean), factor lower triangular.");
  m.def("mahalanobis2", &py_mahalanobis2<float>, nb::arg("x").noconvert(), nb::arg("mean"), nb::arg("factor"),
        nb::arg("out").noconvert(), nb::arg("threads"));
  m.def("colour", &py_colour, nb::arg("x").noconvert(), nb::arg("mean"), nb::arg("lower"), nb::arg("threads"),
        "x = mean + lower x, row by row, in place.");
  m.def("cholesky", &py_cholesky, nb::arg("a").noconvert(), nb::arg("tolerance"),
        "Factorise a in place; returns -1, or the pivot that failed.");
  m.def("invert_lower", &py_invert_lower, nb::arg("l"), nb::arg("out").noconvert(),
        "Invert a lower triangular matrix.");
  m.def("fill_normal", &py_fill_normal, nb::arg("seed"), nb::arg("purpose"), nb::arg("first"),
        nb::arg("out").noconvert(), nb::arg("threads"),
        "Fill out with standard normals: a pure function of (seed, purpose, index).");
  m.def(
      "exp",
      [](const nb::ndarray<const double, nb::ndim<1>, nb::c_contig>& x,
         const nb::ndarray<double, nb::ndim<1>, nb::c_contig>& y) { unary(kernels().exp, x, y); },
      nb::arg("x"), nb::arg("y").noconvert(), "y = exp(x).");
  m.def(
      "log",
      [](const nb::ndarray<const double, nb::ndim<1>, nb::c_contig>& x,
         const nb::ndarray<double, nb::ndim<1>, nb::c_contig>& y) { unary(kernels().log, x, y); },
      nb::arg("x"), nb::arg("y").noconvert(), "y = log(x).");

  bind_kmeans(m);
  bind_prototypes(m);
  bind_mixture(m);
  bind_mixed(m);
  bind_index(m);
  bind_tree(m);
  bind_tree_partitions(m);
  bind_comparison(m);
  bind_metrics(m);
  bind_hierarchy(m);
  bind_ascent(m);
  bind_seeding(m);
  bind_kernels(m);
}

}  // namespace knoll::python
