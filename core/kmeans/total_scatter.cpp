// Σ w‖x − o‖² to about a hundred bits: J is the difference to the scatter of the centres (eq. 3.9), and may be a
// trillionth of it.
#include <algorithm>
#include <array>
#include <vector>

#include "common/double_double.hpp"
#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "common/tile.hpp"
#include "kmeans/cluster_means.hpp"

namespace knoll {
namespace {

using Lanes = std::array<double, kPoints>;

// ‖x − o‖² of kPoints rows as high + low, d columns added in order: plain loops over the lanes, which compilers
// vectorise. two_sum and two_product are exact, so only the additions to low round; |low| ≤ u·sum, three additions per
// column, and the squares of the low parts are dropped: the error is below 4(d + 4)u² of the sum.
void squares(const double* columns,  // in  (d, kPoints)
             const double* origin,   // in  (d)
             int64_t d, Lanes& high, Lanes& low) {
  high.fill(0);
  low.fill(0);
  for (int64_t j = 0; j < d; ++j) {
    const double o = origin[j];
    for (size_t l = 0; l < kPoints; ++l) {
      const Twofold t = two_sum(columns[static_cast<size_t>(j) * kPoints + l], -o);
      const Split split(t.high);
      const Twofold square = two_product(t.high, split, t.high, split), sum = two_sum(high[l], square.high);
      const double below = low[l] + (sum.low + (square.low + 2 * t.high * t.low));
      high[l] = sum.high + below;
      low[l] = below - (high[l] - sum.high);
    }
  }
}

// pack(i, rows, columns) transposes `rows` rows from i on.
template <class Pack>
void add_rows(int64_t n, int64_t d, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run,
              Pack&& pack) {
  std::vector<double> center(static_cast<size_t>(d));
  for (int64_t j = 0; j < d; ++j) center[static_cast<size_t>(j)] = origin(j);
  const ExactSum total = reduce_chunks<ExactSum>(
      n, fair_grain(n, 16 * d, kGrain),
      [&](int64_t, int64_t begin, int64_t end) {
        ExactSum partial;
        std::vector<double> columns(static_cast<size_t>(d * kPoints));
        Lanes high, low;
        for (int64_t i = begin; i < end; i += kPoints) {
          const int64_t rows = std::min<int64_t>(kPoints, end - i);
          pack(i, rows, columns.data());
          squares(columns.data(), center.data(), d, high, low);
          for (int64_t l = 0; l < rows; ++l)
            for (double term : {high[static_cast<size_t>(l)], low[static_cast<size_t>(l)]}) {
              if (weights.empty())
                partial.add(term);
              else
                partial.add_product(weights(i + l), term);
            }
        }
        return partial;
      },
      [](ExactSum& into, const ExactSum& partial) { into.add(partial); }, run);
  exact_merge(sum, total.words());
}

}  // namespace

template <class T>
void add_exact_scatter(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum,
                       Run run) {
  add_rows(x.shape[0], x.shape[1], weights, origin, sum, run,
           [&](int64_t i, int64_t rows, double* columns) { pack_columns(x.rows(i, i + rows), nullptr, columns); });
}

template <class T, class I>
void add_exact_scatter(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum,
                       Run run) {
  add_rows(x.rows, x.columns, weights, origin, sum, run, [&](int64_t i, int64_t rows, double* columns) {
    for (int64_t l = 0; l < rows; ++l) x.unpack(i + l, columns + l, kPoints);
  });
}

#define KNOLL_CSR(T, I) \
  template void add_exact_scatter(Csr<T, I>, View<const double, 1>, View<const double, 1>, int64_t*, Run)
#define KNOLL_DENSE(T) \
  template void add_exact_scatter(View<const T, 2>, View<const double, 1>, View<const double, 1>, int64_t*, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
