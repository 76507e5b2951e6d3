// k-means: assignment, sums of the clusters, the steps of one block.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <memory>
#include <tuple>

#include "door.hpp"
#include "knoll/assign.hpp"
#include "knoll/cluster_means.hpp"
#include "knoll/cluster_sums.hpp"
#include "knoll/lloyd.hpp"
#include "knoll/sum.hpp"

namespace knoll::python {

namespace {

template <class T>
using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = std::tuple<int64_t, int64_t>;
using Weights = std::optional<In<double, 1>>;

View<const double, 1> weights_view(const Weights& weights, int64_t n) {
  if (!weights) return {};
  need(static_cast<int64_t>(weights->shape(0)) == n, "weights must have one entry per row");
  return view<1>(*weights);
}

template <class T, class I>
Csr<T, I> sparse(const Flat<T>& data, const Flat<I>& indices, const Flat<I>& indptr, int64_t n_columns) {
  need_csr(view<1>(indices), view<1>(indptr), static_cast<int64_t>(data.shape(0)), n_columns, false);
  return {data.data(), indices.data(), indptr.data(), static_cast<int64_t>(indptr.shape(0)) - 1, n_columns};
}

void need_centers(const In<double, 2>& centers, int64_t d) {
  need(d >= 1, "x must have a column");
  need(static_cast<int64_t>(centers.shape(1)) == d && centers.shape(0) >= 1,
       "centers must be (k, d), with at least one row and the columns of x");
  need(centers.shape(0) <= INT32_MAX, "centers must have fewer than 2^31 rows: labels have 31 bits");
}
void need_sums(const Out<int64_t, 2>& sums, int64_t d) {
  need(static_cast<int64_t>(sums.shape(0)) == kLimbs && static_cast<int64_t>(sums.shape(1)) % (d + 1) == 0,
       "sums must be (limbs, k·(d+1))");
}
void need_labels(View<const int32_t, 1> labels, int64_t n, int64_t k, int32_t least = INT32_MIN) {
  need(labels.shape[0] == n, "labels must have one entry per row");
  need_range(labels, least, k,
             least == 0 ? "labels must lie in [0, k)" : "labels must be below the number of clusters");
}
double work(int64_t n, int64_t k, int64_t d) {
  return static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(d);
}

template <class X>
Counts run_assign(X x, int64_t n, int64_t d, const In<double, 2>& centers, const Out<int32_t, 1>& labels,
                  const std::optional<Out<double, 1>>& distance2, int threads) {
  need_centers(centers, d);
  need(static_cast<int64_t>(labels.shape(0)) == n, "labels must have one entry per row");
  need(!distance2 || static_cast<int64_t>(distance2->shape(0)) == n, "distance2 must have one entry per row");
  AssignCounts counts;
  call(threads, work(n, static_cast<int64_t>(centers.shape(0)), d),
       [&](Run run) { counts = assign(x, view<2>(centers), view<1>(labels), view_or_empty<1>(distance2), run); });
  return {counts.evaluations, counts.rechecks};
}

template <class X>
void run_sums(X x, int64_t n, int64_t d, const Weights& weights, const In<int32_t, 1>& labels,
              const Out<int64_t, 2>& sums, int threads) {
  need_sums(sums, d);
  const auto w = weights_view(weights, n);
  need_labels(view<1>(labels), n, static_cast<int64_t>(sums.shape(1)) / (d + 1));
  call(threads, 8 * work(n, 1, d), [&](Run run) { add_cluster_sums(x, w, view<1>(labels), view<2>(sums), run); });
}

template <class X>
double run_spread(X x, int64_t n, int64_t d, const Weights& weights, const In<double, 1>& origin, int threads) {
  const auto w = weights_view(weights, n);
  need(static_cast<int64_t>(origin.shape(0)) == d, "origin must have one entry per column");
  double result = 0;
  call(threads, 3 * work(n, 1, d), [&](Run run) { result = spread(x, w, view<1>(origin), run); });
  return result;
}

template <class X>
void run_exact_spread(X x, int64_t n, int64_t d, const Weights& weights, const In<double, 1>& origin,
                      const Out<int64_t, 1>& sum, int threads) {
  const auto w = weights_view(weights, n);
  need(static_cast<int64_t>(origin.shape(0)) == d, "origin must have one entry per column");
  need(static_cast<int64_t>(sum.shape(0)) == kLimbs && sum.stride(0) == 1, "sum must be (limbs,), contiguous");
  call(threads, 10 * work(n, 1, d), [&](Run run) { add_exact_spread(x, w, view<1>(origin), sum.data(), run); });
}

template <class X, class O>
void run_distances(X x, int64_t n, int64_t d, const In<double, 2>& centers, const Out<O, 2>& out, int threads) {
  need_centers(centers, d);
  need(static_cast<int64_t>(out.shape(0)) == n && out.shape(1) == centers.shape(0), "out must be (n, k)");
  call(threads, work(n, static_cast<int64_t>(centers.shape(0)), d),
       [&](Run run) { center_distances(x, view<2>(centers), view<2>(out), run); });
}

template <class T>
void bind_dense(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "assign",
      [](const In<T, 2>& x, const In<double, 2>& centers, const Out<int32_t, 1>& labels,
         const std::optional<Out<double, 1>>& distance2, int threads) {
        const auto points = view<2>(x);
        check_memory(
            {array("x", x), array("centers", centers), array("labels", labels), array("distance2", distance2)});
        return run_assign(points, points.shape[0], points.shape[1], centers, labels, distance2, threads);
      },
      "x"_a.noconvert(), "centers"_a, "labels"_a.noconvert(), nb::arg("distance2").noconvert().none(), "threads"_a,
      "Label each row with its nearest centre; returns (evaluations, rechecks).");
  m.def(
      "own_distances",
      [](const In<T, 2>& x, const In<double, 2>& centers, const In<int32_t, 1>& labels, const Out<double, 1>& out,
         int threads) {
        const auto points = view<2>(x);
        const int64_t n = points.shape[0], d = points.shape[1];
        check_memory({array("x", x), array("centers", centers), array("labels", labels), array("out", out)});
        need_centers(centers, d);
        need_labels(view<1>(labels), n, static_cast<int64_t>(centers.shape(0)), 0);
        need(static_cast<int64_t>(out.shape(0)) == n, "out must have one entry per row");
        call(threads, work(n, 1, d),
             [&](Run run) { own_distances(points, view<2>(centers), view<1>(labels), view<1>(out), run); });
      },
      "x"_a.noconvert(), "centers"_a, "labels"_a, "out"_a.noconvert(), "threads"_a,
      "The squared distance of each row to the centre of its label.");
  m.def(
      "add_cluster_sums",
      [](const In<T, 2>& x, const Weights& weights, const In<int32_t, 1>& labels, const Out<int64_t, 2>& sums,
         int threads) {
        const auto points = view<2>(x);
        check_memory({array("x", x), array("weights", weights), array("labels", labels), array("sums", sums)});
        run_sums(points, points.shape[0], points.shape[1], weights, labels, sums, threads);
      },
      "x"_a.noconvert(), nb::arg("weights").none(), "labels"_a, "sums"_a.noconvert(), "threads"_a,
      "Add the rows to the exact sums of their clusters (limbs, k*(d+1)).");
  m.def(
      "spread",
      [](const In<T, 2>& x, const Weights& weights, const In<double, 1>& origin, int threads) {
        const auto points = view<2>(x);
        check_memory({array("x", x), array("weights", weights), array("origin", origin)});
        return run_spread(points, points.shape[0], points.shape[1], weights, origin, threads);
      },
      "x"_a.noconvert(), nb::arg("weights").none(), "origin"_a, "threads"_a,
      "The weighted sum of squared distances to origin.");
  m.def(
      "add_exact_spread",
      [](const In<T, 2>& x, const Weights& weights, const In<double, 1>& origin, const Out<int64_t, 1>& sum,
         int threads) {
        const auto points = view<2>(x);
        check_memory({array("x", x), array("weights", weights), array("origin", origin), array("sum", sum)});
        run_exact_spread(points, points.shape[0], points.shape[1], weights, origin, sum, threads);
      },
      "x"_a.noconvert(), nb::arg("weights").none(), "origin"_a, "sum"_a.noconvert(), "threads"_a,
      "Add spread to an exact sum (limbs,), each row's term in two doubles.");
  const auto distances = [&]<class O>(O) {
    m.def(
        "center_distances",
        [](const In<T, 2>& x, const In<double, 2>& centers, const Out<O, 2>& out, int threads) {
          const auto points = view<2>(x);
          check_memory({array("x", x), array("centers", centers), array("out", out)});
          run_distances(points, points.shape[0], points.shape[1], centers, out, threads);
        },
        "x"_a.noconvert(), "centers"_a, "out"_a.noconvert(), "threads"_a, "Euclidean distances (n, k) to the centres.");
  };
  distances(double{});
  distances(float{});
}

template <class T, class I>
void bind_csr(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "assign_csr",
      [](const Flat<T>& data, const Flat<I>& indices, const Flat<I>& indptr, int64_t n_columns,
         const In<double, 2>& centers, const Out<int32_t, 1>& labels, const std::optional<Out<double, 1>>& distance2,
         int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                      array("centers", centers), array("labels", labels), array("distance2", distance2)});
        const auto x = sparse<T, I>(data, indices, indptr, n_columns);
        return run_assign(x, x.rows, x.columns, centers, labels, distance2, threads);
      },
      "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_columns"_a, "centers"_a,
      "labels"_a.noconvert(), nb::arg("distance2").noconvert().none(), "threads"_a, "assign for compressed rows.");
  m.def(
      "add_cluster_sums_csr",
      [](const Flat<T>& data, const Flat<I>& indices, const Flat<I>& indptr, int64_t n_columns, const Weights& weights,
         const In<int32_t, 1>& labels, const Out<int64_t, 2>& sums, int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                      array("weights", weights), array("labels", labels), array("sums", sums)});
        const auto x = sparse<T, I>(data, indices, indptr, n_columns);
        run_sums(x, x.rows, x.columns, weights, labels, sums, threads);
      },
      "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_columns"_a, nb::arg("weights").none(),
      "labels"_a, "sums"_a.noconvert(), "threads"_a, "add_cluster_sums for compressed rows.");
  m.def(
      "spread_csr",
      [](const Flat<T>& data, const Flat<I>& indices, const Flat<I>& indptr, int64_t n_columns, const Weights& weights,
         const In<double, 1>& origin, int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                      array("weights", weights), array("origin", origin)});
        const auto x = sparse<T, I>(data, indices, indptr, n_columns);
        return run_spread(x, x.rows, x.columns, weights, origin, threads);
      },
      "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_columns"_a, nb::arg("weights").none(),
      "origin"_a, "threads"_a, "spread for compressed rows.");
  m.def(
      "add_exact_spread_csr",
      [](const Flat<T>& data, const Flat<I>& indices, const Flat<I>& indptr, int64_t n_columns, const Weights& weights,
         const In<double, 1>& origin, const Out<int64_t, 1>& sum, int threads) {
        check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                      array("weights", weights), array("origin", origin), array("sum", sum)});
        const auto x = sparse<T, I>(data, indices, indptr, n_columns);
        run_exact_spread(x, x.rows, x.columns, weights, origin, sum, threads);
      },
      "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_columns"_a, nb::arg("weights").none(),
      "origin"_a, "sum"_a.noconvert(), "threads"_a, "add_exact_spread for compressed rows.");
  const auto distances = [&]<class O>(O) {
    m.def(
        "center_distances_csr",
        [](const Flat<T>& data, const Flat<I>& indices, const Flat<I>& indptr, int64_t n_columns,
           const In<double, 2>& centers, const Out<O, 2>& out, int threads) {
          check_memory({array("data", data), array("indices", indices), array("indptr", indptr),
                        array("centers", centers), array("out", out)});
          const auto x = sparse<T, I>(data, indices, indptr, n_columns);
          run_distances(x, x.rows, x.columns, centers, out, threads);
        },
        "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), "n_columns"_a, "centers"_a,
        "out"_a.noconvert(), "threads"_a, "center_distances for compressed rows.");
  };
  distances(double{});
  distances(float{});
}

// A memory changes with every step, so one call at a time may use it.
struct Memory : LloydMemory {
  using LloydMemory::LloydMemory;
  std::atomic_flag busy;
  size_t item = 0;  // bytes of a number of the rows that the last step began with: what is kept of them fits no other
};
class Turn {
 public:
  explicit Turn(Memory& memory) : busy_(memory.busy) {
    need(!busy_.test_and_set(), "this memory is in use by another call");
  }
  ~Turn() { busy_.clear(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic_flag& busy_;
};

const char* name_of(LloydAlgorithm algorithm) {
  switch (algorithm) {
    case LloydAlgorithm::lloyd:
      return "lloyd";
    case LloydAlgorithm::hamerly:
      return "hamerly";
    default:
      return "elkan";
  }
}

LloydAlgorithm algorithm_of(const std::string& name) {
  for (auto algorithm : {LloydAlgorithm::lloyd, LloydAlgorithm::hamerly, LloydAlgorithm::elkan})
    if (name == name_of(algorithm)) return algorithm;
  throw nb::value_error("algorithm must be \"lloyd\", \"hamerly\" or \"elkan\"");
}

template <class T>
std::tuple<int64_t, int64_t, int64_t> py_step(Memory& memory, const In<T, 2>& x, const Weights& weights,
                                              const In<double, 2>& centers, int threads) {
  const auto points = view<2>(x);
  check_memory({array("x", x), array("weights", weights), array("centers", centers)});
  need(points.shape[0] == memory.rows() && points.shape[1] == memory.columns(), "x must be (n, d) of this memory");
  const auto w = weights_view(weights, memory.rows());
  need_centers(centers, memory.columns());
  need(static_cast<int64_t>(centers.shape(0)) == memory.clusters(), "centers must be (k, d) of this memory");
  const Turn turn(memory);
  need(!memory.whole() || memory.item == sizeof(T), "x must have the dtype of the step before");
  memory.item = sizeof(T);
  StepCounts counts;
  call(threads, work(memory.rows(), memory.clusters(), memory.columns()),
       [&](Run run) { counts = memory.step(points, w, view<2>(centers), run); });
  return {counts.changed, counts.assign.evaluations, counts.assign.rechecks};
}

template <class T>
void py_round_moved(Memory& memory, const In<T, 2>& x, const Weights& weights, const In<int64_t, 1>& rows,
                    const In<int32_t, 1>& to, const Out<double, 1>& out, int threads,
                    const std::optional<Out<double, 1>>& rest) {
  const auto points = view<2>(x);
  need(points.shape[0] == memory.rows() && points.shape[1] == memory.columns(), "x must be (n, d) of this memory");
  check_memory({array("x", x), array("weights", weights), array("rows", rows), array("to", to), array("out", out),
                array("rest", rest)});
  const Turn turn(memory);
  need(memory.whole(), "a step must have been made");
  const auto w = weights_view(weights, memory.rows());
  const auto columns = static_cast<size_t>(memory.clusters() * (memory.columns() + 1));
  need(out.shape(0) == columns && (!rest || rest->shape(0) == columns), "out and rest must be (k*(d+1))");
  const auto which = view<1>(rows);
  need(to.shape(0) == rows.shape(0), "rows and to must have one length");
  need_range(view<1>(to), 0, memory.clusters(), "to must lie in [0, k)");
  need_range(which, 0, memory.rows(), "rows must lie in [0, n)");
  call(threads, 20.0 * static_cast<double>(columns),
       [&](Run run) { memory.round_moved(points, w, which, view<1>(to), view<1>(out), run, view_or_empty<1>(rest)); });
}

// The sums (k, d+1) of clusters whose centres are (k, d), as two doubles each, and the spread about an origin.
ClusterSums cluster_sums(const In<double, 2>& high, const In<double, 2>& low, const In<double, 2>& centers) {
  for (const auto& part : {high, low})
    need(part.shape(0) == centers.shape(0) && part.shape(1) == centers.shape(1) + 1, "sums must be (k, d+1)");
  return {view<2>(high), view<2>(low)};
}

Spread spread_of(const In<double, 1>& origin, std::tuple<double, double, double> spread, const In<double, 2>& centers) {
  need(origin.shape(0) == centers.shape(1), "origin must have one entry per column");
  const auto [high, low, error] = spread;
  return {view<1>(origin), {high, low}, error};
}

using Spreads = std::tuple<double, double, double>;

std::tuple<double, double, double> py_cluster_means(const In<double, 2>& high, const In<double, 2>& low,
                                                    const In<double, 2>& before, const In<double, 1>& origin,
                                                    Spreads spread, const Out<double, 2>& centers, int threads) {
  check_memory({array("high", high), array("low", low), array("before", before), array("origin", origin),
                array("centers", centers)});
  const auto sums = cluster_sums(high, low, before);
  const auto about = spread_of(origin, spread, before);
  need(centers.shape(0) == before.shape(0) && centers.shape(1) == before.shape(1), "centers must be (k, d)");
  Objective found;
  call(threads, 100.0 * static_cast<double>(centers.size()),
       [&](Run run) { found = cluster_means(sums, about, view<2>(before), view<2>(centers), run); });
  return {found.value, found.error, found.moved};
}

std::tuple<double, double> py_cluster_objective(const In<double, 2>& high, const In<double, 2>& low,
                                                const In<double, 2>& centers, const In<double, 1>& origin,
                                                Spreads spread, int threads) {
  check_memory({array("high", high), array("low", low), array("centers", centers), array("origin", origin)});
  const auto sums = cluster_sums(high, low, centers);
  const auto about = spread_of(origin, spread, centers);
  Objective found;
  call(threads, 100.0 * static_cast<double>(centers.size()),
       [&](Run run) { found = cluster_objective(sums, about, view<2>(centers), run); });
  return {found.value, found.error};
}

}  // namespace

void bind_kmeans(nb::module_& m) {
  using namespace nb::literals;
  bind_dense<double>(m);
  bind_dense<float>(m);
  bind_csr<double, int32_t>(m);
  bind_csr<double, int64_t>(m);
  bind_csr<float, int32_t>(m);
  bind_csr<float, int64_t>(m);

  nb::class_<Memory>(m, "LloydMemory", "What one block of rows remembers between the steps of k-means.")
      .def(
          "__init__",
          [](Memory* self, int64_t n, int64_t d, int64_t k, const std::string& algorithm) {
            need(n >= 0 && n <= kMostEntries, "n must be >= 0, and no more than memory holds");
            need(d >= 1 && d <= kMostEntries / kLimbs, "d must be >= 1, and no more than memory holds");
            need(k >= 1 && k <= INT32_MAX, "k must lie in [1, 2^31)");
            need(k <= kMostEntries / kLimbs / (d + 1), "k·(d+1) must be no more than memory holds");
            new (self) Memory(n, d, k, algorithm_of(algorithm));
          },
          "n"_a, "d"_a, "k"_a, "algorithm"_a)
      .def("step", &py_step<double>, "x"_a.noconvert(), nb::arg("weights").none(), "centers"_a, "threads"_a,
           "Assign all rows to these centres; labels and sums follow. Returns (changed, evaluations, rechecks).")
      .def("step", &py_step<float>, "x"_a.noconvert(), nb::arg("weights").none(), "centers"_a, "threads"_a)
      .def("round_moved", &py_round_moved<double>, "x"_a.noconvert(), nb::arg("weights").none(), "rows"_a, "to"_a,
           "out"_a.noconvert(), "threads"_a, nb::arg("rest").noconvert() = nb::none(),
           "As round_sums, with some rows in other clusters; labels and sums stay as they are.")
      .def("round_moved", &py_round_moved<float>, "x"_a.noconvert(), nb::arg("weights").none(), "rows"_a, "to"_a,
           "out"_a.noconvert(), "threads"_a, nb::arg("rest").noconvert() = nb::none())
      .def(
          "round_sums",
          [](Memory& self, const Out<double, 1>& out, int threads, const std::optional<Out<double, 1>>& rest) {
            check_memory({array("out", out), array("rest", rest)});
            const auto columns = static_cast<size_t>(self.clusters() * (self.columns() + 1));
            need(out.shape(0) == columns && (!rest || rest->shape(0) == columns), "out and rest must be (k*(d+1))");
            const Turn turn(self);
            call(threads, 20.0 * static_cast<double>(out.shape(0)),
                 [&](Run run) { self.round_sums(view<1>(out), run, view_or_empty<1>(rest)); });
          },
          "out"_a.noconvert(), "threads"_a, nb::arg("rest").noconvert() = nb::none(),
          "What exact_round makes of sums, sooner.")
      .def_prop_ro(
          "labels",
          [](Memory& self) {
            return nb::ndarray<nb::numpy, const int32_t, nb::ndim<1>>(self.labels().data,
                                                                      {static_cast<size_t>(self.rows())}, nb::handle());
          },
          nb::rv_policy::reference_internal,
          "The labels (n,) of the last step: read-only, since the next one trusts them.")
      .def_prop_ro(
          "sums",
          [](Memory& self) {
            const auto columns = self.clusters() * (self.columns() + 1);
            const Turn turn(self);
            auto sums = std::make_unique<int64_t[]>(static_cast<size_t>(kLimbs * columns));
            self.add_sums(matrix_view(sums.get(), kLimbs, columns));
            const nb::capsule owner(sums.get(), [](void* p) noexcept { delete[] static_cast<int64_t*>(p); });
            return nb::ndarray<nb::numpy, int64_t, nb::ndim<2>>(
                sums.release(), {static_cast<size_t>(kLimbs), static_cast<size_t>(columns)}, owner);
          },
          nb::rv_policy::automatic, "The exact sums (limbs, k*(d+1)) of the last step.");
  m.def("cluster_means", &py_cluster_means, "high"_a, "low"_a, "before"_a, "origin"_a, "spread"_a,
        "centers"_a.noconvert(), "threads"_a,
        "Means of clusters from their sums (k, d+1) = high + low; returns the objective, its error, the squared shift. "
        "spread: (high, low, error) of the sum of squares about origin.");
  m.def("cluster_objective", &py_cluster_objective, "high"_a, "low"_a, "centers"_a, "origin"_a, "spread"_a, "threads"_a,
        "The objective of clusters about any centres, from their sums, and its error.");
  m.def(
      "best_lloyd", [](int64_t n, int64_t d, int64_t k) { return std::string(name_of(best_lloyd(n, d, k))); }, "n"_a,
      "d"_a, "k"_a, "The algorithm of LloydMemory that is fastest for such a shape.");
}

}  // namespace knoll::python
