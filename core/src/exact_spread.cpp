// Σ w‖x − o‖² to some hundred bits: what is left of it when the clusters are taken away may be a trillionth part.
#include <algorithm>
#include <array>
#include <vector>

#include "knoll/cluster_means.hpp"
#include "knoll/parallel.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"
#include "knoll/twofold.hpp"

namespace knoll {
namespace {

using Lanes = std::array<double, kPoints>;

// ‖x − o‖² of kPoints rows as high + low, d columns added in their order: plain loops over the lanes, which compilers
// turn into vectors. All of it is exact but the additions to low, which stays below u of the sum: three of them a
// column, and what they leave of the squares, come to less than 4(d + 4)u² of it.
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
      const double rest = low[l] + (sum.low + (square.low + 2 * t.high * t.low));
      high[l] = sum.high + rest;
      low[l] = rest - (high[l] - sum.high);
    }
  }
}

// pack(i, rows, columns) turns `rows` rows from i on.
template <class Pack>
void add_rows(int64_t n, int64_t d, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run,
              Pack&& pack) {
  std::vector<double> center(static_cast<size_t>(d));
  for (int64_t j = 0; j < d; ++j) center[static_cast<size_t>(j)] = origin(j);
  const ExactSum total = reduce_chunks<ExactSum>(
      n, fair_grain(n, 16 * d, kGrain),
      [&](int64_t, int64_t begin, int64_t end) {
        ExactSum part;
        std::vector<double> columns(static_cast<size_t>(d * kPoints));
        Lanes high, low;
        for (int64_t i = begin; i < end; i += kPoints) {
          const int64_t rows = std::min<int64_t>(kPoints, end - i);
          pack(i, rows, columns.data());
          squares(columns.data(), center.data(), d, high, low);
          for (int64_t l = 0; l < rows; ++l)
            for (double term : {high[static_cast<size_t>(l)], low[static_cast<size_t>(l)]}) {
              if (weights.empty())
                part.add(term);
              else
                part.add_product(weights(i + l), term);
            }
        }
        return part;
      },
      [](ExactSum& into, const ExactSum& part) { into.add(part); }, run);
  exact_merge(sum, total.limbs());
}

}  // namespace

template <class T>
void add_exact_spread(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum,
                      Run run) {
  add_rows(x.shape[0], x.shape[1], weights, origin, sum, run,
           [&](int64_t i, int64_t rows, double* columns) { pack_columns(x.rows(i, i + rows), nullptr, columns); });
}

template <class T, class I>
void add_exact_spread(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run) {
  add_rows(x.rows, x.columns, weights, origin, sum, run, [&](int64_t i, int64_t rows, double* columns) {
    for (int64_t l = 0; l < rows; ++l) x.unpack(i + l, columns + l, kPoints);
  });
}

#define KNOLL_CSR(T, I) \
  template void add_exact_spread(Csr<T, I>, View<const double, 1>, View<const double, 1>, int64_t*, Run)
#define KNOLL_DENSE(T) \
  template void add_exact_spread(View<const T, 2>, View<const double, 1>, View<const double, 1>, int64_t*, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
