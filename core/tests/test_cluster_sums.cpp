// Sums of clusters are exact whatever the terms: rows far out, tiny rows, weights, and rows that join and leave.
#include "kmeans/cluster_sums.hpp"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "common/csr.hpp"
#include "common/exact_sum.hpp"

using namespace knoll;

namespace {

const std::vector<std::string> kDatasets = {"normal",         "outliers 1e9", "outliers 1e30", "outliers 1e300",
                                            "all magnitudes", "two clouds",   "lognormal",     "tiny",
                                            "zeros",          "integers",     "one column out"};

std::vector<double> numbers(const std::string& dataset, int64_t n, int64_t d, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n * d));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto row = i / static_cast<size_t>(d), column = i % static_cast<size_t>(d);
    const bool out = row % 97 == 5;
    double v = normal(random);
    if (dataset == "outliers 1e9" && out) v *= 1e9;
    if (dataset == "outliers 1e30" && out) v *= 1e30;
    if (dataset == "outliers 1e300" && out) v *= 1e300;
    if (dataset == "all magnitudes") v = std::ldexp(v, static_cast<int>(random() % 2040) - 1050);
    if (dataset == "two clouds" && row % 2 == 0) v *= 1e14;
    if (dataset == "lognormal") v = std::exp(10 * v);
    if (dataset == "tiny") v *= 1e-310;
    if (dataset == "zeros") v = out ? 1e18 * v : 0.0;
    if (dataset == "integers") v = out ? 1e15 : std::round(9 * v);
    if (dataset == "one column out" && column == 1 && out) v = -1e200;
    x[i] = v;
  }
  return x;
}

// The totals of k clusters, added to by several deltas in turn, as threads do.
class Sums {
 public:
  template <class T>
  Sums(View<const T, 2> x, int64_t k, double largest_weight) : d_(x.shape[1]), largest_(largest_weight) {
    totals = std::make_unique<ClusterTotals>(k, d_);
    exponents_ = column_exponents(x, Run{2});
    for (int t = 0; t < 3; ++t) deltas.push_back(std::make_unique<ClusterDelta>(exponents_, largest_, *totals));
  }
  // Rounded from the units where they hold everything; the words must give the same.
  std::vector<double> rounded() {
    for (auto& delta : deltas) delta->flush();
    const auto count = totals->k * (d_ + 1);
    std::vector<double> fast(static_cast<size_t>(count), 7.0), slow(fast.size(), 8.0), fast_low = fast, slow_low = slow;
    round_totals(*totals, exponents_, largest_, vector_view(fast.data(), count), vector_view(fast_low.data(), count),
                 Run{1});
    std::vector<int64_t> words(static_cast<size_t>(kSumWords * count), 0);
    add_totals(*totals, exponents_, largest_, matrix_view(words.data(), kSumWords, count));
    exact_round_columns(matrix_view<const int64_t>(words.data(), kSumWords, count), vector_view(slow.data(), count),
                        Run{1}, vector_view(slow_low.data(), count));
    CHECK(fast == slow);
    CHECK(fast_low == slow_low);
    return fast;
  }

  std::unique_ptr<ClusterTotals> totals;
  std::vector<std::unique_ptr<ClusterDelta>> deltas;

 private:
  int64_t d_;
  double largest_;
  std::vector<int> exponents_;
};

template <class T>
void join_and_leave(const std::string& dataset, int64_t d, bool weighted, bool by_columns) {
  const int64_t n = 400, k = 5;
  const auto wide = numbers(dataset, n, d, 3);
  std::vector<T> x(wide.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j) {
      const double v = wide[static_cast<size_t>(i * d + j)];
      const bool fits = !(std::fabs(v) > static_cast<double>(std::numeric_limits<T>::max()));
      x[static_cast<size_t>(by_columns ? j * n + i : i * d + j)] = fits ? static_cast<T>(v) : T{1};
    }
  const View<const T, 2> view{x.data(), {n, d}, {by_columns ? 1 : d, by_columns ? n : 1}};
  std::mt19937_64 random(4);
  std::vector<double> weights(static_cast<size_t>(n), 1.0);
  for (auto& w : weights)
    if (weighted) w = static_cast<double>(random() % 1000) / 7;
  Sums sums(view, k, weighted ? 143.0 : 1.0);
  std::vector<int64_t> label(static_cast<size_t>(n), -1);
  std::vector<ExactSum> expected(static_cast<size_t>(k * (d + 1)));
  const auto move = [&](int64_t i, int64_t to) {
    int64_t& from = label[static_cast<size_t>(i)];
    for (auto [c, sign] : {std::pair{from, -1.0}, std::pair{to, 1.0}}) {
      if (c < 0) continue;
      const double w = sign * weights[static_cast<size_t>(i)];
      sums.deltas[random() % 3]->add(&view(i, 0), view.stride[1], w, c);
      expected[static_cast<size_t>(c * (d + 1))].add(w);
      for (int64_t j = 0; j < d; ++j)
        expected[static_cast<size_t>(c * (d + 1) + 1 + j)].add_product(w, static_cast<double>(view(i, j)));
    }
    from = to;
  };
  const auto check = [&] {
    const auto got = sums.rounded();
    for (size_t c = 0; c < got.size(); ++c)
      CHECK_MSG(got[c] == expected[c].round(),
                dataset << (weighted ? ", weighted" : "") << (sizeof(T) == 4 ? ", float32" : "") << ", d " << d);
  };
  for (int64_t i = 0; i < n; ++i) move(i, static_cast<int64_t>(random() % static_cast<uint64_t>(k)));
  check();
  for (int round = 0; round < 3; ++round) {
    for (int64_t i = 0; i < n; ++i)
      if (random() % 3 == 0) move(i, static_cast<int64_t>(random() % static_cast<uint64_t>(k)));
    check();
  }
  for (int64_t i = n; i-- > 0;) move(i, -1);
  for (double sum : sums.rounded()) CHECK(sum == 0);  // everybody has left
}

}  // namespace

TEST("cluster sums: rows join and leave, and nothing is left behind, over all magnitudes") {
  for (const auto& dataset : kDatasets)
    for (int64_t d : {1, 3, 4, 6})
      for (bool weighted : {false, true})
        for (bool by_columns : {false, true}) {
          join_and_leave<double>(dataset, d, weighted, by_columns);
          join_and_leave<float>(dataset, d, weighted, by_columns);
        }
}

TEST("cluster sums: compressed rows add up to what dense rows do, over all magnitudes") {
  const int64_t n = 700, d = 3, k = 4;
  std::mt19937_64 random(6);
  std::vector<int32_t> labels(static_cast<size_t>(n));
  std::vector<double> weights(labels.size());
  for (auto& l : labels) l = static_cast<int32_t>(random() % 5) - 1;
  for (auto& w : weights) w = static_cast<double>(random() % 1000) / 7;
  std::vector<int32_t> indices, indptr{0};
  for (int32_t i = 0; i < n; ++i) {
    for (int32_t j = 0; j < d; ++j) indices.push_back((j + i) % static_cast<int32_t>(d));
    indptr.push_back((i + 1) * static_cast<int32_t>(d));
  }
  for (const auto& dataset : kDatasets) {
    const auto x = numbers(dataset, n, d, 7);
    std::vector<double> data;
    for (size_t p = 0; p < indices.size(); ++p) data.push_back(x[p / 3 * 3 + static_cast<size_t>(indices[p])]);
    const Csr<double, int32_t> sparse{data.data(), indices.data(), indptr.data(), n, d};
    for (bool weighted : {false, true}) {
      const auto w = weighted ? vector_view<const double>(weights.data(), n) : View<const double, 1>{};
      std::vector<std::vector<double>> rounded(2, std::vector<double>(static_cast<size_t>(k * (d + 1))));
      for (size_t form = 0; form < 2; ++form) {
        std::vector<int64_t> words(static_cast<size_t>(kSumWords * k * (d + 1)), 0);
        const auto sums = matrix_view(words.data(), kSumWords, k * (d + 1));
        if (form == 0)
          add_cluster_sums(matrix_view(x.data(), n, d), w, vector_view<const int32_t>(labels.data(), n), sums, Run{2});
        else
          add_cluster_sums(sparse, w, vector_view<const int32_t>(labels.data(), n), sums, Run{2});
        exact_round_columns(sums, vector_view(rounded[form].data(), k * (d + 1)));
      }
      CHECK_MSG(rounded[0] == rounded[1], dataset);
    }
  }
}

TEST("cluster sums: what lies below the units alone decides a tie") {
  for (double sign : {1.0, -1.0})
    for (double least : {0.0, 0x1p-110, -0x1p-110}) {
      std::vector<double> x(8, sign);
      x.push_back(sign * 0x1p-50);  // half a unit in the last place of 8
      x.push_back(sign * least);
      const auto view = matrix_view<const double>(x.data(), 10, 1);
      Sums sums(view, 1, 1.0);
      for (int64_t i = 0; i < 10; ++i) sums.deltas[0]->add(&view(i, 0), 1, 1.0, 0);
      CHECK(sums.rounded()[1] == sign * (least > 0 ? 8 + 0x1p-49 : 8.0));
      CHECK((sums.totals->in_words[0] != 0) == (least != 0));
    }
}
