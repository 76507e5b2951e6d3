// Blocks of rows stay in the nearest cache while every prototype passes over them.
#include "kmeans/prototypes.hpp"

#include <algorithm>

#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kBlock = 512;   // rows: 12 columns of them are 48 kB
constexpr int64_t kGrain = 4096;  // rows of a chunk

// Distances of rows [begin, begin + count) to prototype c.
void block_distances(const MixedColumns& rows, const Prototypes& to, int64_t c, int64_t begin, int64_t count,
                     double* __restrict out) {
  std::fill(out, out + count, 0.0);
  for (int64_t j = 0; j < rows.values.shape[0]; ++j) {
    const double mean = to.means(c, j);
    const double* __restrict x = &rows.values(j, begin);
    if (rows.whole(j)) {
      for (int64_t i = 0; i < count; ++i) out[i] += (x[i] - mean) * (x[i] - mean);
    } else {
      const double* __restrict seen = &rows.observed(j, begin);
      for (int64_t i = 0; i < count; ++i) out[i] += (x[i] - mean) * (x[i] - mean) * seen[i];
    }
  }
  if (rows.codes.shape[0] == 0) return;
  int32_t differ[kBlock];
  const int32_t* __restrict gaps = &rows.gaps(begin);
  for (int64_t i = 0; i < count; ++i) differ[i] = -gaps[i];  // what is missing differs from every mode
  for (int64_t j = 0; j < rows.codes.shape[0]; ++j) {
    const int32_t mode = to.modes(c, j);
    const int32_t* __restrict z = &rows.codes(j, begin);
    for (int64_t i = 0; i < count; ++i) differ[i] += z[i] != mode;
  }
  for (int64_t i = 0; i < count; ++i) out[i] += to.gamma * static_cast<double>(differ[i]);
}

}  // namespace

void prototype_distances(MixedColumns rows, Prototypes prototypes, View<double, 2> out, Run run) {
  for_chunks(out.shape[1], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kBlock)
      for (int64_t c = 0; c < out.shape[0]; ++c)
        block_distances(rows, prototypes, c, first, std::min(kBlock, end - first), &out(c, first));
  });
}

void prototype_assign(MixedColumns rows, Prototypes prototypes, View<int64_t, 1> labels, View<double, 1> least,
                      Run run) {
  for_chunks(labels.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    double distance[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      double* __restrict best = &least(first);
      int64_t* __restrict nearest = &labels(first);
      block_distances(rows, prototypes, 0, first, count, best);
      std::fill(nearest, nearest + count, 0);
      for (int64_t c = 1; c < prototypes.means.shape[0]; ++c) {
        block_distances(rows, prototypes, c, first, count, distance);
        for (int64_t i = 0; i < count; ++i) {
          const bool nearer = distance[i] < best[i];
          nearest[i] = nearer ? c : nearest[i];
          best[i] = nearer ? distance[i] : best[i];
        }
      }
    }
  });
}

}  // namespace knoll
