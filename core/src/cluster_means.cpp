#include "knoll/cluster_means.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "knoll/parallel.hpp"

namespace knoll {
namespace {

constexpr double kUnit = 0x1p-53;
// Far below all that data near one gives: where J is not far above it, products have lost digits.
constexpr double kFloor = 0x1p-800;

struct Part {       // of one cluster
  Twofold between;  // Σ_j (c − o)(m(c + o) − 2s)
  double size = 0;  // Σ_j |c − o|(m|c + o| + 2|s|)
  double moved = 0;
};

// Adds column j of eq. 3.9. c − o and c + o are exact; the second factor is off by 16u² of its parts' magnitude, and
// the product by 36u² of the size.
void add_column(Twofold mass, Twofold sum, double center, double origin, Part& part) {
  const Twofold offset = two_sum(center, -origin), both = two_sum(center, origin);
  const Twofold pull = two_product(mass.high, both.high), inner = two_sum(pull.high, -2 * sum.high);
  const double inner_low = inner.low + ((pull.low + (mass.high * both.low + mass.low * both.high)) - 2 * sum.low);
  const Twofold product = two_product(offset.high, inner.high);
  part.between =
      part.between + two_sum(product.high, product.low + (offset.high * inner_low + offset.low * inner.high));
  part.size += std::fabs(offset.high) * (mass.high * std::fabs(both.high) + 2 * std::fabs(sum.high));
}

// part(c) -> Part for each cluster, added up in their order.
template <class F>
Objective collect(int64_t k, int64_t d, Spread about, Run run, F&& part) {
  std::vector<Part> parts(static_cast<size_t>(k));
  for_chunks(k, std::max<int64_t>(1, 4096 / (d + 1)), run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) parts[static_cast<size_t>(c)] = part(c);
  });
  Twofold value = about.value;
  Objective result;
  double size = about.value.high;
  for (const Part& p : parts) {
    value = value + p.between;
    size += p.size;
    result.moved += p.moved;
  }
  result.value = std::max(value.high, 0.0);
  // Eq. 3.10: inputs and products 36u², d + k + 1 additions 3u² each, the rest for the rounding of size itself.
  const double additions = static_cast<double>(d + k);
  result.error = (64 + 4 * additions) * kUnit * kUnit * size + about.error + kUnit * result.value + kFloor;
  return result;
}

Twofold at(ClusterSums sums, int64_t c, int64_t column) { return {sums.high(c, column), sums.low(c, column)}; }

}  // namespace

Objective cluster_means(ClusterSums sums, Spread about, View<const double, 2> before, View<double, 2> centers,
                        Run run) {
  const int64_t k = before.shape[0], d = before.shape[1];
  return collect(k, d, about, run, [&](int64_t c) {
    Part part;
    const Twofold mass = at(sums, c, 0);
    for (int64_t j = 0; j < d; ++j) {
      const Twofold sum = at(sums, c, j + 1);
      const double old = before(c, j), center = mass.high > 0 ? divide(sum, mass) : old;
      centers(c, j) = center;
      part.moved += (center - old) * (center - old);
      add_column(mass, sum, center, about.origin(j), part);
    }
    return part;
  });
}

Objective cluster_objective(ClusterSums sums, Spread about, View<const double, 2> centers, Run run) {
  const int64_t k = centers.shape[0], d = centers.shape[1];
  return collect(k, d, about, run, [&](int64_t c) {
    Part part;
    const Twofold mass = at(sums, c, 0);
    for (int64_t j = 0; j < d; ++j) add_column(mass, at(sums, c, j + 1), centers(c, j), about.origin(j), part);
    return part;
  });
}

}  // namespace knoll
