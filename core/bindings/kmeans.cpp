// k-means: assignment, sums of the clusters, the steps of one block.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <memory>
#include <tuple>

#include "common/exact_sum.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/cluster_means.hpp"
#include "kmeans/cluster_sums.hpp"
#include "kmeans/lloyd.hpp"
#include "rows.hpp"

namespace knoll::python {

namespace {

using Counts = std::tuple<int64_t, int64_t>;
using Weights = std::optional<In<double, 1>>;

View<const double, 1> weights_view(const Weights& weights, int64_t n) {
  if (!weights) return {};
  need(static_cast<int64_t>(weights->shape(0)) == n, "weights must have one entry per row");
  return view<1>(*weights);
}

void need_centers(const In<double, 2>& centers, int64_t d) {
  need(d >= 1, "x must have a column");
  need(static_cast<int64_t>(centers.shape(1)) == d && centers.shape(0) >= 1,
       "centers must be (k, d), with at least one row and the columns of x");
  need(centers.shape(0) <= INT32_MAX, "centers must have fewer than 2^31 rows: labels have 31 bits");
}
void need_origin(const In<double, 1>& origin, int64_t d) {
  need(static_cast<int64_t>(origin.shape(0)) == d, "origin must have one entry per column");
}
void need_labels(View<const int32_t, 1> labels, int64_t n, int64_t k, int32_t least = INT32_MIN) {
  need(labels.shape[0] == n, "labels must have one entry per row");
  need_range(labels, least, k,
             least == 0 ? "labels must lie in [0, k)" : "labels must be below the number of clusters");
}
double work(int64_t n, int64_t k, int64_t d) {
  return static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(d);
}

template <class Rows>
Counts py_assign(const Rows& x, const In<double, 2>& centers, const Out<int32_t, 1>& labels,
                 const std::optional<Out<double, 1>>& distance2, int threads) {
  x.check_memory({array("centers", centers), array("labels", labels), array("distance2", distance2)});
  const auto points = x.points();
  const auto [n, d] = shape_of(points);
  need_centers(centers, d);
  need(static_cast<int64_t>(labels.shape(0)) == n, "labels must have one entry per row");
  need(!distance2 || static_cast<int64_t>(distance2->shape(0)) == n, "distance2 must have one entry per row");
  AssignCounts counts;
  call(threads, work(n, static_cast<int64_t>(centers.shape(0)), d),
       [&](Run run) { counts = assign(points, view<2>(centers), view<1>(labels), view_or_empty<1>(distance2), run); });
  return {counts.evaluations, counts.rechecks};
}

template <class Rows>
void py_add_cluster_sums(const Rows& x, const Weights& weights, const In<int32_t, 1>& labels,
                         const Out<int64_t, 2>& sums, int threads) {
  x.check_memory({array("weights", weights), array("labels", labels), array("sums", sums)});
  const auto points = x.points();
  const auto [n, d] = shape_of(points);
  need(static_cast<int64_t>(sums.shape(0)) == kSumWords && static_cast<int64_t>(sums.shape(1)) % (d + 1) == 0,
       "sums must be (words, k·(d+1))");
  const auto w = weights_view(weights, n);
  need_labels(view<1>(labels), n, static_cast<int64_t>(sums.shape(1)) / (d + 1));
  call(threads, 8 * work(n, 1, d), [&](Run run) { add_cluster_sums(points, w, view<1>(labels), view<2>(sums), run); });
}

template <bool kExact, class Rows>
void py_add_scatter(const Rows& x, const Weights& weights, const In<double, 1>& origin, const Out<int64_t, 1>& sum,
                    int threads) {
  x.check_memory({array("weights", weights), array("origin", origin), array("sum", sum)});
  const auto points = x.points();
  const auto [n, d] = shape_of(points);
  const auto w = weights_view(weights, n);
  need_origin(origin, d);
  need(static_cast<int64_t>(sum.shape(0)) == kSumWords && sum.stride(0) == 1, "sum must be (words,), contiguous");
  call(threads, (kExact ? 10 : 3) * work(n, 1, d), [&](Run run) {
    if constexpr (kExact)
      add_exact_scatter(points, w, view<1>(origin), sum.data(), run);
    else
      add_scatter(points, w, view<1>(origin), sum.data(), run);
  });
}

template <class O, class Rows>
void py_center_distances(const Rows& x, const In<double, 2>& centers, const Out<O, 2>& out, int threads) {
  x.check_memory({array("centers", centers), array("out", out)});
  const auto points = x.points();
  const auto [n, d] = shape_of(points);
  need_centers(centers, d);
  need(static_cast<int64_t>(out.shape(0)) == n && out.shape(1) == centers.shape(0), "out must be (n, k)");
  call(threads, work(n, static_cast<int64_t>(centers.shape(0)), d),
       [&](Run run) { center_distances(points, view<2>(centers), view<2>(out), run); });
}

template <class T>
void py_own_distances(const DenseRows<T>& x, const In<double, 2>& centers, const In<int32_t, 1>& labels,
                      const Out<double, 1>& out, int threads) {
  x.check_memory({array("centers", centers), array("labels", labels), array("out", out)});
  const auto points = x.points();
  const auto [n, d] = shape_of(points);
  need_centers(centers, d);
  need_labels(view<1>(labels), n, static_cast<int64_t>(centers.shape(0)), 0);
  need(static_cast<int64_t>(out.shape(0)) == n, "out must have one entry per row");
  call(threads, work(n, 1, d),
       [&](Run run) { own_distances(points, view<2>(centers), view<1>(labels), view<1>(out), run); });
}

template <class Rows>
void bind_rows(nb::module_& m) {
  using namespace nb::literals;
  Rows::def(m, "assign", "Label each row with its nearest centre; returns (evaluations, rechecks).", &py_assign<Rows>,
            "centers"_a, "labels"_a.noconvert(), nb::arg("distance2").noconvert().none(), "threads"_a);
  Rows::def(m, "add_cluster_sums", "Add the rows to the exact sums of their clusters (words, k*(d+1)).",
            &py_add_cluster_sums<Rows>, nb::arg("weights").none(), "labels"_a, "sums"_a.noconvert(), "threads"_a);
  Rows::def(m, "add_scatter", "Add the weighted sum of squared distances to origin to an exact sum (words,).",
            &py_add_scatter<false, Rows>, nb::arg("weights").none(), "origin"_a, "sum"_a.noconvert(), "threads"_a);
  Rows::def(m, "add_exact_scatter", "The same, each row's term in two doubles.", &py_add_scatter<true, Rows>,
            nb::arg("weights").none(), "origin"_a, "sum"_a.noconvert(), "threads"_a);
  const char* const distances = "Euclidean distances (n, k) to the centres.";
  Rows::def(m, "center_distances", distances, &py_center_distances<double, Rows>, "centers"_a, "out"_a.noconvert(),
            "threads"_a);
  Rows::def(m, "center_distances", distances, &py_center_distances<float, Rows>, "centers"_a, "out"_a.noconvert(),
            "threads"_a);
}

template <class T>
void bind_own_distances(nb::module_& m) {
  using namespace nb::literals;
  DenseRows<T>::def(m, "own_distances", "The squared distance of each row to the centre of its label.",
                    &py_own_distances<T>, "centers"_a, "labels"_a, "out"_a.noconvert(), "threads"_a);
}

// A memory changes with every step, so one call at a time may use it.
struct Memory : LloydMemory {
  using LloydMemory::LloydMemory;
  std::atomic_flag busy;
  size_t format = 0;  // of the rows of the last step: what is remembered fits no other dtype
};
class ExclusiveUse {
 public:
  explicit ExclusiveUse(Memory& memory) : busy_(memory.busy) {
    need(!busy_.test_and_set(), "this memory is in use by another call");
  }
  ~ExclusiveUse() { busy_.clear(); }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

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
      return "elkan";  // scikit-learn's name for bounds that exclude centres
  }
}

LloydAlgorithm algorithm_of(const std::string& name) {
  for (auto algorithm : {LloydAlgorithm::lloyd, LloydAlgorithm::hamerly, LloydAlgorithm::group_bounds})
    if (name == name_of(algorithm)) return algorithm;
  throw nb::value_error("algorithm must be \"lloyd\", \"hamerly\" or \"elkan\"");
}

// What is remembered of the rows of a step: the entries' size, and whether they are sparse.
template <class T>
size_t format_of(const DenseRows<T>&) {
  return sizeof(T);
}
template <class Data, class Index, class Points>
size_t format_of(const CsrRows<Data, Index, Points>&) {
  return 16 + sizeof(typename Data::Scalar);
}

template <class Rows>
std::tuple<int64_t, int64_t, int64_t> py_step(Memory& memory, const Rows& x, const Weights& weights,
                                              const In<double, 2>& centers, int threads) {
  const auto points = x.points();
  x.check_memory({array("weights", weights), array("centers", centers)});
  need(shape_of(points) == std::pair(memory.rows(), memory.columns()), "x must be (n, d) of this memory");
  const auto w = weights_view(weights, memory.rows());
  need_centers(centers, memory.columns());
  need(static_cast<int64_t>(centers.shape(0)) == memory.clusters(), "centers must be (k, d) of this memory");
  const ExclusiveUse use(memory);
  need(!memory.started() || memory.format == format_of(x), "x must have the dtype and format of the previous step");
  memory.format = format_of(x);
  StepCounts counts;
  call(threads, work(memory.rows(), memory.clusters(), memory.columns()),
       [&](Run run) { counts = memory.step(points, w, view<2>(centers), run); });
  return {counts.changed, counts.assign.evaluations, counts.assign.rechecks};
}

template <class Rows>
void py_round_moved(Memory& memory, const Rows& x, const Weights& weights, const In<int64_t, 1>& rows,
                    const In<int32_t, 1>& to, const Out<double, 1>& out, int threads,
                    const std::optional<Out<double, 1>>& low) {
  const auto points = x.points();
  need(shape_of(points) == std::pair(memory.rows(), memory.columns()), "x must be (n, d) of this memory");
  x.check_memory(
      {array("weights", weights), array("rows", rows), array("to", to), array("out", out), array("low", low)});
  const ExclusiveUse use(memory);
  need(memory.started(), "a step must have been made");
  const auto w = weights_view(weights, memory.rows());
  const auto columns = static_cast<size_t>(memory.clusters() * (memory.columns() + 1));
  need(out.shape(0) == columns && (!low || low->shape(0) == columns), "out and low must be (k*(d+1))");
  const auto which = view<1>(rows);
  need(to.shape(0) == rows.shape(0), "rows and to must have one length");
  need_range(view<1>(to), 0, memory.clusters(), "to must lie in [0, k)");
  need_range(which, 0, memory.rows(), "rows must lie in [0, n)");
  call(threads, 20.0 * static_cast<double>(columns),
       [&](Run run) { memory.round_moved(points, w, which, view<1>(to), view<1>(out), run, view_or_empty<1>(low)); });
}

// step and round_moved for rows of one dtype and format.
template <class Rows>
void bind_steps(nb::class_<Memory>& memory) {
  using namespace nb::literals;
  Rows::def(memory, "step",
            "Assign all rows to these centres; labels and sums follow. Returns (changed, evaluations, rechecks).",
            &py_step<Rows>, nb::arg("weights").none(), "centers"_a, "threads"_a);
  Rows::def(memory, "round_moved", "As round_sums, with some rows in other clusters; labels and sums stay as they are.",
            &py_round_moved<Rows>, nb::arg("weights").none(), "rows"_a, "to"_a, "out"_a.noconvert(), "threads"_a,
            nb::arg("low").noconvert() = nb::none());
}

// The sums (k, d+1) of clusters whose centres are (k, d), as two doubles each.
ClusterSums cluster_sums(const In<double, 2>& high, const In<double, 2>& low, const In<double, 2>& centers) {
  for (const auto& sums : {high, low})
    need(sums.shape(0) == centers.shape(0) && sums.shape(1) == centers.shape(1) + 1, "sums must be (k, d+1)");
  return {view<2>(high), view<2>(low)};
}

using Scatter = std::tuple<double, double, double>;  // high, low, error

TotalScatter scatter_about(const In<double, 1>& origin, Scatter scatter, const In<double, 2>& centers) {
  need_origin(origin, static_cast<int64_t>(centers.shape(1)));
  const auto [high, low, error] = scatter;
  return {view<1>(origin), {high, low}, error};
}

std::tuple<double, double, double> py_cluster_means(const In<double, 2>& high, const In<double, 2>& low,
                                                    const In<double, 2>& before, const In<double, 1>& origin,
                                                    Scatter scatter, const Out<double, 2>& centers, int threads) {
  check_memory({array("high", high), array("low", low), array("before", before), array("origin", origin),
                array("centers", centers)});
  const auto sums = cluster_sums(high, low, before);
  const auto about = scatter_about(origin, scatter, before);
  need(centers.shape(0) == before.shape(0) && centers.shape(1) == before.shape(1), "centers must be (k, d)");
  Objective found;
  call(threads, 100.0 * static_cast<double>(centers.size()),
       [&](Run run) { found = cluster_means(sums, about, view<2>(before), view<2>(centers), run); });
  return {found.value, found.error, found.moved};
}

std::tuple<double, double> py_cluster_objective(const In<double, 2>& high, const In<double, 2>& low,
                                                const In<double, 2>& centers, const In<double, 1>& origin,
                                                Scatter scatter, int threads) {
  check_memory({array("high", high), array("low", low), array("centers", centers), array("origin", origin)});
  const auto sums = cluster_sums(high, low, centers);
  const auto about = scatter_about(origin, scatter, centers);
  Objective found;
  call(threads, 100.0 * static_cast<double>(centers.size()),
       [&](Run run) { found = cluster_objective(sums, about, view<2>(centers), run); });
  return {found.value, found.error};
}

}  // namespace

void bind_kmeans(nb::module_& m) {
  using namespace nb::literals;
  for_row_types<AnyCsr>([&]<class Rows>() { bind_rows<Rows>(m); });
  bind_own_distances<double>(m);
  bind_own_distances<float>(m);

  nb::class_<Memory> memory(m, "LloydMemory", "What one block of rows remembers between the steps of k-means.");
  for_row_types<AnyCsr>([&]<class Rows>() { bind_steps<Rows>(memory); });
  memory
      .def(
          "__init__",
          [](Memory* self, int64_t n, int64_t d, int64_t k, const std::string& algorithm) {
            need(n >= 0 && n <= kMostEntries, "n must be >= 0, and no more than memory holds");
            need(d >= 1 && d <= kMostEntries / kSumWords, "d must be >= 1, and no more than memory holds");
            need(k >= 1 && k <= INT32_MAX, "k must lie in [1, 2^31)");
            need(k <= kMostEntries / kSumWords / (d + 1), "k·(d+1) must be no more than memory holds");
            new (self) Memory(n, d, k, algorithm_of(algorithm));
          },
          "n"_a, "d"_a, "k"_a, "algorithm"_a)
      .def(
          "round_sums",
          [](Memory& self, const Out<double, 1>& out, int threads, const std::optional<Out<double, 1>>& low) {
            check_memory({array("out", out), array("low", low)});
            const auto columns = static_cast<size_t>(self.clusters() * (self.columns() + 1));
            need(out.shape(0) == columns && (!low || low->shape(0) == columns), "out and low must be (k*(d+1))");
            const ExclusiveUse use(self);
            call(threads, 20.0 * static_cast<double>(out.shape(0)),
                 [&](Run run) { self.round_sums(view<1>(out), run, view_or_empty<1>(low)); });
          },
          "out"_a.noconvert(), "threads"_a, nb::arg("low").noconvert() = nb::none(),
          "The same as exact_round of sums, but faster.")
      .def_prop_ro(
          "labels",
          [](Memory& self) {
            return nb::ndarray<nb::numpy, const int32_t, nb::ndim<1>>(self.labels().data,
                                                                      {static_cast<size_t>(self.rows())}, nb::handle());
          },
          nb::rv_policy::reference_internal,
          "The labels (n,) of the last step: read-only, since the next one relies on them.")
      .def_prop_ro(
          "sums",
          [](Memory& self) {
            const auto columns = self.clusters() * (self.columns() + 1);
            const ExclusiveUse use(self);
            auto sums = std::make_unique<int64_t[]>(static_cast<size_t>(kSumWords * columns));
            self.add_sums(matrix_view(sums.get(), kSumWords, columns));
            const nb::capsule owner(sums.get(), [](void* p) noexcept { delete[] static_cast<int64_t*>(p); });
            return nb::ndarray<nb::numpy, int64_t, nb::ndim<2>>(
                sums.release(), {static_cast<size_t>(kSumWords), static_cast<size_t>(columns)}, owner);
          },
          nb::rv_policy::automatic, "The exact sums (words, k*(d+1)) of the last step.");
  m.def("cluster_means", &py_cluster_means, "high"_a, "low"_a, "before"_a, "origin"_a, "scatter"_a,
        "centers"_a.noconvert(), "threads"_a,
        "Means of clusters from their sums (k, d+1) = high + low; returns the objective, its error, the squared shift. "
        "scatter: (high, low, error) of the sum of squares about origin.");
  m.def("cluster_objective", &py_cluster_objective, "high"_a, "low"_a, "centers"_a, "origin"_a, "scatter"_a,
        "threads"_a, "The objective of clusters about any centres, from their sums, and its error.");
  m.def(
      "best_lloyd", [](int64_t n, int64_t d, int64_t k) { return std::string(name_of(best_lloyd(n, d, k))); }, "n"_a,
      "d"_a, "k"_a, "The algorithm of LloydMemory that is fastest for such a shape.");
}

}  // namespace knoll::python
