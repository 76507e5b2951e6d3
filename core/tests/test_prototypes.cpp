#include "kmeans/prototypes.hpp"

#include <random>
#include <vector>

#include "check.hpp"

using namespace knoll;

TEST("prototypes: distances and nearest prototypes equal a plain loop, for any number of threads") {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  const int64_t n = 5000, p = 3, q = 2, k = 5;
  std::vector<double> values(p * n), observed(p * n, 1.0), means(k * p);
  std::vector<uint8_t> whole{1, 0, 1};
  std::vector<int32_t> codes(q * n), gaps(n, 0), modes(k * q);
  for (double& x : values) x = normal(engine);
  for (double& x : means) x = normal(engine);
  for (int32_t& z : modes) z = static_cast<int32_t>(engine() % 3);
  for (int64_t i = 0; i < n; ++i) {
    if (i % 7 == 0) values[n + i] = observed[n + i] = 0;  // column 1 has gaps
    for (int64_t j = 0; j < q; ++j) {
      const bool missing = (i + j) % 11 == 0;
      codes[j * n + i] = missing ? 3 : static_cast<int32_t>(engine() % 3);
      gaps[i] += missing;
    }
  }
  const MixedColumns rows{matrix_view<const double>(values.data(), p, n),
                          matrix_view<const double>(observed.data(), p, n), vector_view<const uint8_t>(whole.data(), p),
                          matrix_view<const int32_t>(codes.data(), q, n), vector_view<const int32_t>(gaps.data(), n)};
  const Prototypes to{matrix_view<const double>(means.data(), k, p), matrix_view<const int32_t>(modes.data(), k, q),
                      0.7};
  for (int threads : {1, 3}) {
    std::vector<double> out(k * n), least(n);
    std::vector<int64_t> labels(n);
    prototype_distances(rows, to, matrix_view(out.data(), k, n), Run{threads});
    prototype_assign(rows, to, vector_view(labels.data(), n), vector_view(least.data(), n), Run{threads});
    for (int64_t i = 0; i < n; ++i) {
      int64_t best = 0;
      for (int64_t c = 0; c < k; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < p; ++j) {
          const double away = values[j * n + i] - means[c * p + j];
          sum += away * away * observed[j * n + i];
        }
        int differ = 0;
        for (int64_t j = 0; j < q; ++j) differ += codes[j * n + i] != 3 && codes[j * n + i] != modes[c * q + j];
        sum += 0.7 * differ;
        CHECK(out[c * n + i] == sum);
        if (out[c * n + i] < out[best * n + i]) best = c;
      }
      CHECK(labels[i] == best);
      CHECK(least[i] == out[best * n + i]);
    }
  }
}
