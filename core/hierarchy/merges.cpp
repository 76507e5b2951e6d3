#include "hierarchy/merges.hpp"

#include <algorithm>
#include <numeric>

namespace knoll {

void sort_merges(std::vector<Merge>& merges, int64_t n, View<int64_t, 2> children, View<double, 1> heights) {
  const auto height_of = [&](int32_t cluster) {
    return cluster < n ? 0.0 : merges[static_cast<size_t>(cluster - n)].height;
  };
  for (Merge& merge : merges) merge.height = std::max({merge.height, height_of(merge.a), height_of(merge.b)});
  std::vector<int32_t> order(merges.size()), number(merges.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t s, int32_t t) {
    return merges[static_cast<size_t>(s)].height < merges[static_cast<size_t>(t)].height;
  });
  for (size_t t = 0; t < order.size(); ++t) number[static_cast<size_t>(order[t])] = static_cast<int32_t>(t);
  const auto numbered = [&](int32_t cluster) -> int64_t {
    return cluster < n ? cluster : n + number[static_cast<size_t>(cluster - n)];
  };
  for (size_t t = 0; t < order.size(); ++t) {
    const Merge& merge = merges[static_cast<size_t>(order[t])];
    const int64_t a = numbered(merge.a), b = numbered(merge.b), row = static_cast<int64_t>(t);
    children(row, 0) = std::min(a, b), children(row, 1) = std::max(a, b);
    heights(row) = merge.height;
  }
}

}  // namespace knoll
