// Groups of kPoints rows in lanes; a row's value is one chain of operations, whatever group it is in.
#include "mixture/mahalanobis.hpp"

#include <vector>

#include "common/tile.hpp"

namespace knoll {

namespace {

// A mean and a lower triangle as the kernels read them: plain arrays, zeros above the diagonal.
struct Affine {
  std::vector<double> center, lower;

  Affine(View<const double, 1> mean, View<const double, 2> matrix)
      : center(static_cast<size_t>(mean.shape[0])), lower(center.size() * center.size()) {
    const int64_t d = mean.shape[0];
    for (int64_t i = 0; i < d; ++i) {
      center[static_cast<size_t>(i)] = mean(i);
      for (int64_t j = 0; j <= i; ++j) lower[static_cast<size_t>(i * d + j)] = matrix(i, j);
    }
  }
};

// body(from, rows) for groups of at most kPoints rows, in parallel; make_body() makes one with scratch for each chunk.
// Scratch is made once per chunk of kGrain rows, not per group.
template <class F>
void for_point_groups(int64_t n, Run run, F&& make_body) {
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    auto body = make_body();
    for (int64_t from = begin; from < end; from += kPoints) {
      run.poll();
      body(from, std::min<int64_t>(kPoints, end - from));
    }
  });
}

}  // namespace

// Differences x − mean come first, so the error is relative to the distance, not to the offset of the data. A row's
// value does not depend on the rows beside it.
template <class T>
void mahalanobis2(View<const T, 2> x, View<const double, 1> mean, View<const double, 2> factor, View<double, 1> out,
                  Run run) {
  const int64_t d = x.shape[1];
  const Affine map(mean, factor);
  for_point_groups(x.shape[0], run, [&] {
    return [&, columns = std::vector<double>(static_cast<size_t>(d * kPoints))](int64_t from, int64_t rows) mutable {
      double norms[kPoints];
      pack_columns(x.rows(from, from + rows), map.center.data(), columns.data());
      kernels().whitened_norms(columns.data(), d, map.lower.data(), norms);
      for (int64_t l = 0; l < rows; ++l) out(from + l) = norms[l];
    };
  });
}

void colour(View<double, 2> x, View<const double, 1> mean, View<const double, 2> lower, Run run) {
  const int64_t d = x.shape[1];
  const Affine map(mean, lower);
  for_point_groups(x.shape[0], run, [&] {
    const auto size = static_cast<size_t>(d * kPoints);
    return
        [&, columns = std::vector<double>(size), out = std::vector<double>(size)](int64_t from, int64_t rows) mutable {
          // A copy, since x is overwritten: entry i of L x needs entries 0 … i of the old x.
          pack_columns<double>(x.rows(from, from + rows), nullptr, columns.data());
          kernels().lower_product(columns.data(), d, map.lower.data(), out.data());
          for (int64_t j = 0; j < d; ++j)
            for (int64_t l = 0; l < rows; ++l)
              x(from + l, j) = map.center[static_cast<size_t>(j)] + out[static_cast<size_t>(j * kPoints + l)];
        };
  });
}

template void mahalanobis2(View<const float, 2>, View<const double, 1>, View<const double, 2>, View<double, 1>, Run);
template void mahalanobis2(View<const double, 2>, View<const double, 1>, View<const double, 2>, View<double, 1>, Run);

}  // namespace knoll
