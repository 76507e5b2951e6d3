#include "common/finite.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>
#include <utility>

#include "common/parallel.hpp"
#include "simd/kernels.hpp"

namespace knoll {
namespace {

template <class T>
bool finite_run(const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, double>)
    return kernels().finite_f64(x, n);
  else
    return kernels().finite_f32(x, n);
}

}  // namespace

template <class T>
bool all_finite(View<const T, 2> x, Run run) {
  if (x.stride[0] == 1 && x.stride[1] != 1) {  // Fortran's order: read by columns
    std::swap(x.shape[0], x.shape[1]);
    std::swap(x.stride[0], x.stride[1]);
  }
  const int64_t d = x.shape[1];
  const bool whole = x.rows_contiguous() && (x.stride[0] == d || x.shape[0] <= 1);
  // One run of numbers where rows follow each other without a gap, else row by row. Chunks of 2^17 numbers, a megabyte
  // of doubles: long enough to hide the start of a chunk, short enough to end early.
  const int64_t length = whole ? x.shape[0] * d : x.shape[0];
  const int64_t grain = whole ? int64_t{1} << 17 : std::max<int64_t>(1, (int64_t{1} << 17) / std::max<int64_t>(d, 1));
  std::atomic<bool> bad{false};
  for_chunks(length, grain, run, [&](int64_t, int64_t begin, int64_t end) {
    // A flag that only rises: read late, it costs time, not the answer.
    if (bad.load(std::memory_order_relaxed)) return;
    bool fine = true;
    if (whole) {
      fine = finite_run(x.data + begin, end - begin);
    } else if (x.rows_contiguous()) {
      for (int64_t i = begin; i < end && fine; ++i) fine = finite_run(x.data + i * x.stride[0], d);
    } else {
      for (int64_t i = begin; i < end; ++i)
        // No branch per number: a stride of any sign leaves little else to save.
        for (int64_t j = 0; j < d; ++j) fine &= std::isfinite(x(i, j));
    }
    if (!fine) bad.store(true, std::memory_order_relaxed);
  });
  return !bad;
}

template bool all_finite(View<const float, 2>, Run);
template bool all_finite(View<const double, 2>, Run);

}  // namespace knoll
