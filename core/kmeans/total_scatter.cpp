// Σ w‖x − o‖², to about fifty bits a row or to about a hundred: J is the difference to the scatter of the centres
// (eq. 3.9), and may be a trillionth of it.
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

constexpr int64_t kBlock = kScatterColumns;

// ‖x − o‖² of L rows in one double: the one distance within a block.
template <size_t L>
struct OneDouble {
  static constexpr int64_t kCost = 1;
  std::array<double, L> sum{};

  // Adds `width` columns of L rows, (width, L), to sums of 0.
  void add_columns(const double* columns, const double* origin, int64_t width) {
    if constexpr (L == static_cast<size_t>(kPoints)) {
      kernels().distance_tile(columns, origin, width, 1, width, sum.data());
      return;
    }
    for (int64_t j = 0; j < width; ++j) {
      const double o = origin[j];
      for (size_t l = 0; l < L; ++l) {
        const double difference = columns[static_cast<size_t>(j) * L + l] - o;
        sum[l] += difference * difference;
      }
    }
  }
  void add_block(const OneDouble& block) {
    for (size_t l = 0; l < L; ++l) sum[l] += block.sum[l];
  }
  std::array<double, 1> terms(size_t l) const { return {sum[l]}; }
};

// The same as high + low: plain loops over the lanes, which compilers vectorise. two_sum and two_product are exact, so
// only the additions to low round; |low| ≤ u·sum, three additions per column, and the squares of the low parts are
// dropped: the error is below 4(d + 4)u² of the sum.
template <size_t L>
struct TwoDoubles {
  static constexpr int64_t kCost = 16;
  std::array<double, L> high{}, low{};

  void add_columns(const double* columns, const double* origin, int64_t width) {
    for (int64_t j = 0; j < width; ++j) {
      const double o = origin[j];
      for (size_t l = 0; l < L; ++l) {
        const Twofold t = two_sum(columns[static_cast<size_t>(j) * L + l], -o);
        const Split split(t.high);
        const Twofold square = two_product(t.high, split, t.high, split);
        add(l, square.high, square.low + 2 * t.high * t.low);
      }
    }
  }
  void add_block(const TwoDoubles& block) {
    for (size_t l = 0; l < L; ++l) add(l, block.high[l], block.low[l]);
  }
  void add(size_t l, double more, double below_more) {
    const Twofold sum = two_sum(high[l], more);
    const double below = low[l] + (sum.low + below_more);
    high[l] = sum.high + below;
    low[l] = below - (high[l] - sum.high);
  }
  std::array<double, 2> terms(size_t l) const { return {high[l], low[l]}; }
};

// Adds the terms of row i.
template <size_t N>
void add_terms(ExactSum& total, std::array<double, N> terms, View<const double, 1> weights, int64_t i) {
  for (double term : terms) {
    if (weights.empty())
      total.add(term);
    else
      total.add_product(weights(i), term);
  }
}

std::vector<double> contiguous(View<const double, 1> origin) {
  std::vector<double> center(static_cast<size_t>(origin.shape[0]));
  for (size_t j = 0; j < center.size(); ++j) center[j] = origin(static_cast<int64_t>(j));
  return center;
}

template <template <size_t> class Squares, class T>
void add_rows(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  const std::vector<double> center = contiguous(origin);
  using Lanes = Squares<static_cast<size_t>(kPoints)>;
  const ExactSum total = reduce_chunks<ExactSum>(
      n, fair_grain(n, Lanes::kCost * d, kGrain),
      [&](int64_t, int64_t begin, int64_t end) {
        ExactSum partial;
        std::vector<double> columns(static_cast<size_t>(d * kPoints));
        for (int64_t i = begin; i < end; i += kPoints) {
          const int64_t rows = std::min<int64_t>(kPoints, end - i);
          pack_columns(x.rows(i, i + rows), nullptr, columns.data());
          Lanes squares;
          for (int64_t j = 0; j < d; j += kBlock) {
            Lanes block;
            block.add_columns(&columns[static_cast<size_t>(j * kPoints)], &center[static_cast<size_t>(j)],
                              std::min(kBlock, d - j));
            squares.add_block(block);
          }
          for (int64_t l = 0; l < rows; ++l) add_terms(partial, squares.terms(static_cast<size_t>(l)), weights, i + l);
        }
        return partial;
      },
      [](ExactSum& into, const ExactSum& partial) { into.add(partial); }, run);
  exact_merge(sum, total.words());
}

template <template <size_t> class Squares, class T, class I>
void add_rows(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run) {
  const int64_t d = x.columns, blocks = (d + kBlock - 1) / kBlock;
  const std::vector<double> center = contiguous(origin);
  const auto add_block = [&](auto& squares, const double* dense, int64_t b) {
    squares.add_columns(dense, &center[static_cast<size_t>(b * kBlock)], std::min(kBlock, d - b * kBlock));
  };
  std::vector<Squares<1>> without(static_cast<size_t>(blocks));  // of a row without an entry in the block
  const std::array<double, static_cast<size_t>(kBlock)> zeros{};
  for (int64_t b = 0; b < blocks; ++b) add_block(without[static_cast<size_t>(b)], zeros.data(), b);

  const ExactSum total = reduce_chunks<ExactSum>(
      x.rows, fair_grain(x.rows, Squares<1>::kCost * blocks, kGrain),
      [&](int64_t, int64_t begin, int64_t end) {
        ExactSum partial;
        std::vector<double> dense(static_cast<size_t>(blocks * kBlock), 0.0);
        std::vector<char> touched(static_cast<size_t>(blocks), 0);
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t p = x.begin(i); p < x.end(i); ++p) {
            const auto j = static_cast<int64_t>(x.indices[p]);
            dense[static_cast<size_t>(j)] += static_cast<double>(x.data[p]);
            touched[static_cast<size_t>(j / kBlock)] = 1;
          }
          Squares<1> squares;
          for (int64_t b = 0; b < blocks; ++b) {
            const auto at = static_cast<size_t>(b);
            if (touched[at] == 0) {
              squares.add_block(without[at]);
              continue;
            }
            Squares<1> block;
            add_block(block, &dense[at * static_cast<size_t>(kBlock)], b);
            squares.add_block(block);
            std::fill_n(&dense[at * static_cast<size_t>(kBlock)], kBlock, 0.0);
            touched[at] = 0;
          }
          add_terms(partial, squares.terms(0), weights, i);
        }
        return partial;
      },
      [](ExactSum& into, const ExactSum& partial) { into.add(partial); }, run);
  exact_merge(sum, total.words());
}

}  // namespace

template <class T>
void add_scatter(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum,
                 Run run) {
  add_rows<OneDouble>(x, weights, origin, sum, run);
}
template <class T, class I>
void add_scatter(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum, Run run) {
  add_rows<OneDouble>(x, weights, origin, sum, run);
}

template <class T>
void add_exact_scatter(View<const T, 2> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum,
                       Run run) {
  add_rows<TwoDoubles>(x, weights, origin, sum, run);
}
template <class T, class I>
void add_exact_scatter(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, int64_t* sum,
                       Run run) {
  add_rows<TwoDoubles>(x, weights, origin, sum, run);
}

#define KNOLL_CSR(T, I)                                                                              \
  template void add_scatter(Csr<T, I>, View<const double, 1>, View<const double, 1>, int64_t*, Run); \
  template void add_exact_scatter(Csr<T, I>, View<const double, 1>, View<const double, 1>, int64_t*, Run)
#define KNOLL_DENSE(T)                                                                                      \
  template void add_scatter(View<const T, 2>, View<const double, 1>, View<const double, 1>, int64_t*, Run); \
  template void add_exact_scatter(View<const T, 2>, View<const double, 1>, View<const double, 1>, int64_t*, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);
KNOLL_CSR(float, int32_t);
KNOLL_CSR(float, int64_t);
KNOLL_CSR(double, int32_t);
KNOLL_CSR(double, int64_t);

}  // namespace knoll
