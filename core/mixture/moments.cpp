// Plain sums within chunks of kGrain rows, exact sums over chunks (docs/numerics/rounding.md, D6).
#include "mixture/moments.hpp"

#include <mutex>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/tile.hpp"

namespace knoll {
namespace {

// The plain float64 sums over one chunk of kGrain rows.
struct CellMoments {
  int64_t d, ld;
  double mass = 0;
  std::vector<double> first, second;  // (ld), (ld, ld): the upper triangle counts

  explicit CellMoments(int64_t width)
      : d(width), ld(padded(width)), first(static_cast<size_t>(ld)), second(static_cast<size_t>(ld * ld)) {}

  void clear() {
    mass = 0;
    std::fill(first.begin(), first.end(), 0.0);
    std::fill(second.begin(), second.end(), 0.0);
  }

  // The upper triangle row by row, which is the order of moment_count.
  void add_to(View<int64_t, 2> sums) const {
    int64_t column = 0;
    auto add = [&](double value) { exact_add(&sums(0, column++), value, sums.stride[0]); };
    add(mass);
    for (int64_t j = 0; j < d; ++j) add(first[static_cast<size_t>(j)]);
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = i; j < d; ++j) add(second[static_cast<size_t>(i * ld + j)]);
  }
};

}  // namespace

// One pass: rows are centred, weighted and summed while they are packed, then multiplied as a tall product XᵀWX, of
// which only the upper triangle is kept.
template <class T>
void add_moments(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, View<int64_t, 2> sums,
                 Run run) {
  // x − origin: an origin near the mean keeps the digits that the subtraction of eq. 1.7 would lose.
  const int64_t d = x.shape[1], ld = padded(d), step = tile_rows(ld);
  std::vector<double> center(static_cast<size_t>(ld), 0.0);
  for (int64_t j = 0; j < d; ++j) center[static_cast<size_t>(j)] = origin(j);

  std::mutex mutex;
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    // Within a chunk the order of additions is fixed; exact sums are order-free, so chunks may finish in any order.
    CellMoments cell(d);
    const size_t size = static_cast<size_t>(step * ld), weighted_size = weights.empty() ? 0 : size;
    std::vector<double> tile(size), weighted(weighted_size), scratch(x.rows_contiguous() ? 0 : size), w(weighted_size);
    for (int64_t from = begin; from < end; from += step) {
      run.poll();
      const int64_t rows = std::min(step, end - from);
      for (int64_t r = 0; r < rows && !weights.empty(); ++r) {
        w[static_cast<size_t>(r)] = weights(from + r);
        cell.mass += weights(from + r);
      }
      center_rows(x.rows(from, from + rows), center.data(), weights.empty() ? nullptr : w.data(), tile.data(),
                  weighted.data(), step, cell.first.data(), scratch.data());
      // The next rows are prefetched during the product, which is bound by arithmetic (docs/decisions/0007).
      const double* left = weights.empty() ? tile.data() : weighted.data();
      const int64_t next = std::min(from + rows, x.shape[0]), more = std::min(step, x.shape[0] - next);
      const int64_t ahead_size = x.rows_contiguous() ? more * x.stride[0] * static_cast<int64_t>(sizeof(T)) : 0;
      kernels().tall_product(left, ld, tile.data(), ld, step, rows, cell.second.data(), ld, true,
                             x.data + next * x.stride[0], ahead_size);
    }
    // A count needs no additions, and is exact.
    if (weights.empty()) cell.mass = static_cast<double>(end - begin);
    std::lock_guard lock(mutex);
    cell.add_to(sums);
  });
}

template void add_moments(View<const float, 2>, View<const double, 1>, View<const double, 1>, View<int64_t, 2>, Run);
template void add_moments(View<const double, 2>, View<const double, 1>, View<const double, 1>, View<int64_t, 2>, Run);

}  // namespace knoll
