#include "kmeans/assign.hpp"

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/one_distance.hpp"
#include "common/scratch_pool.hpp"
#include "common/tile.hpp"
#include "kmeans/float32_filter.hpp"
#include "kmeans/pivots.hpp"
#include "kmeans/sparse_centers.hpp"

namespace knoll {
namespace {

constexpr int64_t kCenters = 64;  // centres a tile of distances

// The rows of the centres one after the other, as distance_tile reads them.
std::vector<double> contiguous(View<const double, 2> centers) {
  std::vector<double> rows(static_cast<size_t>(centers.shape[0] * centers.shape[1]));
  pack_rows(centers, rows.data());
  return rows;
}

// The points of a chunk, kPoints at a time: pack(first, rows, columns) fills the column tile of rows first … of the
// chunk, epilogue(first, rows, center, count, tile) gets the squared distances to a block of centres, in
// order.
template <class Pack, class Epilogue>
void for_tiles(int64_t begin, int64_t end, const double* centers, int64_t k, int64_t d, Run run, Pack&& pack,
               Epilogue&& epilogue) {
  std::vector<double> columns(static_cast<size_t>(d * kPoints)), tile(static_cast<size_t>(kCenters * kPoints));
  for (int64_t i = begin; i < end; i += kPoints) {
    run.poll();
    const int64_t rows = std::min<int64_t>(kPoints, end - i);
    pack(i, rows, columns.data());
    for (int64_t c = 0; c < k; c += kCenters) {
      const int64_t count = std::min(kCenters, k - c);
      kernels().distance_tile(columns.data(), centers + c * d, d, count, d, tile.data());
      epilogue(i, rows, c, count, tile.data());
    }
  }
}

// √ of the one distance, correctly rounded, to all centres.
template <class O, class Pack>
void roots(int64_t n, View<const double, 2> centers, View<O, 2> out, Run run, Pack&& pack) {
  const int64_t k = centers.shape[0], d = centers.shape[1];
  const auto rows_of_centers = contiguous(centers);
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for_tiles(begin, end, rows_of_centers.data(), k, d, run, pack,
              [&](int64_t i, int64_t rows, int64_t c, int64_t count, const double* tile) {
                for (int64_t l = 0; l < rows; ++l)
                  for (int64_t t = 0; t < count; ++t)
                    out(i + l, c + t) = static_cast<O>(std::sqrt(tile[t * kPoints + l]));
              });
  });
}

// Column tiles of dense and of compressed rows; entries that name the same column add up.
template <class T>
auto packer(View<const T, 2> x) {
  return [x](int64_t i, int64_t rows, double* columns) { pack_columns(x.rows(i, i + rows), nullptr, columns); };
}
template <class T, class I>
auto packer(Csr<T, I> x) {
  return [x](int64_t i, int64_t rows, double* columns) {
    std::fill_n(columns, x.columns * kPoints, 0.0);
    for (int64_t l = 0; l < rows; ++l)
      for (int64_t p = x.begin(i + l); p < x.end(i + l); ++p)
        columns[static_cast<int64_t>(x.indices[p]) * kPoints + l] += static_cast<double>(x.data[p]);
  };
}

}  // namespace

template <class T>
AssignCounts assign(View<const T, 2> x, View<const double, 2> centers, View<int32_t, 1> labels,
                    View<double, 1> distance2, Run run) {
  const Pivots pivots = choose_pivots(x, centers, run);
  std::vector<PackedCenters> packed;
  for (const Pivot& pivot : pivots.list) packed.emplace_back(pivot, centers);
  const int64_t d = x.shape[1];
  struct Worker {
    std::vector<FilteredAssigner<T>> assigners;
    std::vector<int64_t> rows, from, scratch;
    std::vector<int32_t> label;
  };
  ScratchPool<Worker> pool([&] {
    auto worker = std::make_unique<Worker>();
    for (size_t p = 0; p < packed.size(); ++p) worker->assigners.emplace_back(x, pivots.list[p], packed[p]);
    return worker;
  });
  const int64_t grain = fair_grain(x.shape[0], packed[0].k * d, kGrain);
  for_chunks(x.shape[0], grain, run, [&](int64_t, int64_t begin, int64_t end) {
    typename ScratchPool<Worker>::Lease worker(pool);
    auto& rows = worker->rows;
    rows.resize(static_cast<size_t>(end - begin));
    worker->label.resize(rows.size());
    std::iota(rows.begin(), rows.end(), begin);
    group_by_pivot(pivots, rows, worker->from, worker->scratch);
    for (size_t p = 0; p < packed.size(); ++p) {
      const int64_t from = worker->from[p], count = worker->from[p + 1] - from;
      worker->assigners[p].assign(rows.data() + from, count, worker->label.data() + from, nullptr, run);
    }
    for (size_t r = 0; r < rows.size(); ++r) labels(rows[r]) = worker->label[r];
    if (distance2.empty()) return;
    one_distances(
        x, end - begin, [&](int64_t r) { return rows[static_cast<size_t>(r)]; },
        [&](int64_t r) { return &packed[0].exact[static_cast<size_t>(worker->label[static_cast<size_t>(r)] * d)]; },
        [&](int64_t r, double value) { distance2(rows[static_cast<size_t>(r)]) = value; });
  });
  AssignCounts counts;
  pool.for_each([&](const Worker& worker) {
    for (const FilteredAssigner<T>& assigner : worker.assigners) counts += assigner.counts;
  });
  return counts;
}

template <class T, class I>
AssignCounts assign(Csr<T, I> x, View<const double, 2> centers, View<int32_t, 1> labels, View<double, 1> distance2,
                    Run run) {
  const SparseCenters sparse(centers);
  std::atomic<int64_t> rechecks{0};
  for_chunks(x.rows, SparseCenters::kRows, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> dense(static_cast<size_t>(x.columns), 0.0), score(static_cast<size_t>(sparse.k));
    for (int64_t i = begin; i < end; ++i) {
      run.poll();
      int64_t label = sparse.nearest(x, i, dense.data(), score.data()).label;
      if (label < 0 || !distance2.empty()) {
        x.unpack(i, dense.data(), 1);
        if (label < 0) {
          label = sparse.nearest_exactly(dense.data());
          ++rechecks;
        }
        if (!distance2.empty()) distance2(i) = sparse.distance2(dense.data(), label);
        std::fill(dense.begin(), dense.end(), 0.0);
      }
      labels(i) = static_cast<int32_t>(label);
    }
  });
  return {(x.rows + rechecks) * sparse.k, rechecks};
}

template <class T>
void own_distances(View<const T, 2> x, View<const double, 2> centers, View<const int32_t, 1> labels,
                   View<double, 1> out, Run run) {
  const auto rows_of_centers = contiguous(centers);
  const int64_t n = x.shape[0], d = x.shape[1];
  for_chunks(n, fair_grain(n, d, kGrain), run, [&](int64_t, int64_t begin, int64_t end) {
    one_distances(
        x, end - begin, [&](int64_t l) { return begin + l; },
        [&](int64_t l) { return &rows_of_centers[static_cast<size_t>(labels(begin + l) * d)]; },
        [&](int64_t l, double value) { out(begin + l) = value; });
  });
}

template <class T, class O>
void center_distances(View<const T, 2> x, View<const double, 2> centers, View<O, 2> out, Run run) {
  roots(x.shape[0], centers, out, run, packer(x));
}
template <class T, class I, class O>
void center_distances(Csr<T, I> x, View<const double, 2> centers, View<O, 2> out, Run run) {
  roots(x.rows, centers, out, run, packer(x));
}

#define KNOLL_DENSE(T)                                                                                                \
  template AssignCounts assign(View<const T, 2>, View<const double, 2>, View<int32_t, 1>, View<double, 1>, Run);      \
  template void own_distances(View<const T, 2>, View<const double, 2>, View<const int32_t, 1>, View<double, 1>, Run); \
  template void center_distances(View<const T, 2>, View<const double, 2>, View<float, 2>, Run);                       \
  template void center_distances(View<const T, 2>, View<const double, 2>, View<double, 2>, Run)
#define KNOLL_CSR(T, I)                                                                                   \
  template AssignCounts assign(Csr<T, I>, View<const double, 2>, View<int32_t, 1>, View<double, 1>, Run); \
  template void center_distances(Csr<T, I>, View<const double, 2>, View<float, 2>, Run);                  \
  template void center_distances(Csr<T, I>, View<const double, 2>, View<double, 2>, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
