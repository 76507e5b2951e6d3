#include "kmeans/cluster_means.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr double kUnit = 0x1p-53;  // u
// Covers underflow: products below 2^−960 lose digits. Far below any J of data near one.
constexpr double kFloor = 0x1p-800;

struct ClusterTerm {  // of eq. 3.9
  Twofold between;    // Σ_j (c − o)(m(c + o) − 2s)
  double size = 0;    // Σ_j |c − o|(m|c + o| + 2|s|)
  double moved = 0;
};

// A block of columns of one cluster, in plain loops that compilers vectorise; zeros past the last column add nothing.
class Columns {
 public:
  static constexpr int64_t kWidth = 8;

  Columns(ClusterSums sums, View<const double, 1> origin, int64_t c)
      : sums_(sums), origin_(origin), c_(c), mass_{sums.high(c, 0), sums.low(c, 0)}, mass_split_(mass_.high) {}

  void load(int64_t first, int64_t width) {
    for (int64_t l = 0; l < kWidth; ++l) {
      const bool inside = l < width;
      sum_[l] = inside ? sums_.high(c_, first + l + 1) : 0.0;
      sum_low_[l] = inside ? sums_.low(c_, first + l + 1) : 0.0;
      origin_at_[l] = inside ? origin_(first + l) : 0.0;
      center[l] = 0.0;
    }
  }

  // center = sum / mass, rounded as by `divide`; by `divide` itself where an intermediate result over- or underflows.
  void average() {
    for (int64_t l = 0; l < kWidth; ++l) {
      const double quotient = sum_[l] / mass_.high;
      // The remainder sum − quotient·mass is exact in back; dividing it once more corrects the quotient to the nearest
      // double.
      const Twofold back = two_product(quotient, Split(quotient), mass_.high, mass_split_);
      const double left = ((sum_[l] - back.high) - back.low) + (sum_low_[l] - quotient * mass_.low);
      center[l] = quotient + left / mass_.high;
    }
    for (int64_t l = 0; l < kWidth; ++l)
      // A sum of 0, as of most columns of sparse rows, is divided exactly above.
      if ((!(std::fabs(sum_[l]) >= kSmallDividend) && sum_[l] != 0) || !std::isfinite(center[l]))
        center[l] = divide({sum_[l], sum_low_[l]}, mass_);
  }

  // Adds (c − o)(m(c + o) − 2s) of these columns (eq. 3.9). c − o and c + o are exact in two doubles; the second factor
  // errs by at most 16u² of the magnitude of its terms, the product by 36u² of `size`.
  void add() {
    for (int64_t l = 0; l < kWidth; ++l) {
      const Twofold offset = two_sum(center[l], -origin_at_[l]), both = two_sum(center[l], origin_at_[l]);
      const Twofold pull = two_product(mass_.high, mass_split_, both.high, Split(both.high));
      const Twofold inner = two_sum(pull.high, -2 * sum_[l]);
      const double inner_low =
          inner.low + ((pull.low + (mass_.high * both.low + mass_.low * both.high)) - 2 * sum_low_[l]);
      const Twofold product = two_product(offset.high, inner.high);
      const Twofold term = two_sum(product.high, product.low + (offset.high * inner_low + offset.low * inner.high));
      // Eight independent sums per cluster, joined in total(): a fixed order, so fixed bits.
      const Twofold total = Twofold{high_[l], low_[l]} + term;
      high_[l] = total.high;
      low_[l] = total.low;
      // The magnitude that eq. 3.10 multiplies by u².
      size_[l] += std::fabs(offset.high) * (mass_.high * std::fabs(both.high) + 2 * std::fabs(sum_[l]));
    }
  }

  ClusterTerm total() const {
    ClusterTerm term;
    for (int64_t l = 0; l < kWidth; ++l) {
      term.between = term.between + Twofold{high_[l], low_[l]};
      term.size += size_[l];
    }
    return term;
  }

  Twofold mass() const { return mass_; }

  double center[kWidth] = {};

 private:
  ClusterSums sums_;
  View<const double, 1> origin_;
  int64_t c_;
  Twofold mass_;
  Split mass_split_;
  double sum_[kWidth] = {}, sum_low_[kWidth] = {}, origin_at_[kWidth] = {};
  double high_[kWidth] = {}, low_[kWidth] = {}, size_[kWidth] = {};
};

// J = Σ w‖x − o‖² + Σ_c term(c) (eq. 3.9), added in the order of the clusters.
template <class F>
Objective collect(int64_t k, int64_t d, TotalScatter scatter, Run run, F&& term) {
  std::vector<ClusterTerm> terms(static_cast<size_t>(k));
  for_chunks(k, std::max<int64_t>(1, 4096 / (d + 1)), run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) terms[static_cast<size_t>(c)] = term(c);
  });
  Twofold value = scatter.value;
  Objective result;
  double size = scatter.value.high;
  for (const ClusterTerm& one : terms) {
    value = value + one.between;
    size += one.size;
    result.moved += one.moved;
  }
  result.value = std::max(value.high, 0.0);
  // Eq. 3.10: inputs and products 36u², d/8 + 8 + k + 1 additions of 3u² each; the margin covers the rounding of size.
  const double additions = static_cast<double>(d + k);
  result.error = (64 + 4 * additions) * kUnit * kUnit * size + scatter.error + kUnit * result.value + kFloor;
  return result;
}

// body(first, width) for blocks of columns.
template <class F>
void for_columns(int64_t d, F&& body) {
  for (int64_t first = 0; first < d; first += Columns::kWidth) body(first, std::min(Columns::kWidth, d - first));
}

}  // namespace

Objective cluster_means(ClusterSums sums, TotalScatter scatter, View<const double, 2> before, View<double, 2> centers,
                        Run run) {
  const int64_t k = before.shape[0], d = before.shape[1];
  return collect(k, d, scatter, run, [&](int64_t c) {
    Columns columns(sums, scatter.origin, c);
    const bool has_mass = columns.mass().high > 0;
    double moved = 0;
    for_columns(d, [&](int64_t first, int64_t width) {
      columns.load(first, width);
      if (has_mass) columns.average();
      for (int64_t l = 0; l < width; ++l) {
        const double old = before(c, first + l);
        double& center = columns.center[l];
        // s = m = 0: its term of eq. 3.9 vanishes for any centre.
        if (!has_mass) center = old;
        centers(c, first + l) = center;
        moved += (center - old) * (center - old);
      }
      columns.add();
    });
    ClusterTerm term = columns.total();
    term.moved = moved;
    return term;
  });
}

Objective cluster_objective(ClusterSums sums, TotalScatter scatter, View<const double, 2> centers, Run run) {
  const int64_t k = centers.shape[0], d = centers.shape[1];
  return collect(k, d, scatter, run, [&](int64_t c) {
    Columns columns(sums, scatter.origin, c);
    for_columns(d, [&](int64_t first, int64_t width) {
      columns.load(first, width);
      for (int64_t l = 0; l < width; ++l) columns.center[l] = centers(c, first + l);
      columns.add();
    });
    return columns.total();
  });
}

}  // namespace knoll
