// The farthest unique points in one pass: the farthest so far are kept in order, each with its rows. Once there are
// enough, a row nearer than the last of them is skipped, as most are.
#include "kmeans/farthest.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "kmeans/seeding_rows.hpp"

namespace knoll {

template <class Points>
int64_t farthest_points(const Points& x, View<const double, 1> weights, View<const double, 1> distance2, int64_t count,
                        int64_t* rows, int64_t* ends, Run run) {
  const auto before = [&](int64_t a, int64_t b) {
    if (distance2(a) != distance2(b)) return distance2(a) > distance2(b);
    return a != b && compare_rows(x, a, b) < 0;
  };
  std::map<int64_t, std::vector<int64_t>, decltype(before)> points(before);  // by their first rows
  double least = 0;                                                          // nearer rows do not count
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    if ((i & 0xffff) == 0) run.poll();
    if (!(distance2(i) > 0) || distance2(i) < least || (!weights.empty() && !(weights(i) > 0))) continue;
    // `before` is a total order of contents: distance first, then coordinates, so the order of rows does not matter.
    const bool enough = static_cast<int64_t>(points.size()) == count;
    if (enough && before(points.rbegin()->first, i)) continue;
    const auto [at, fresh] = points.try_emplace(i);
    at->second.push_back(i);
    if (enough && fresh) points.erase(std::prev(points.end()));  // its copies are skipped from now on
    if (static_cast<int64_t>(points.size()) == count) least = distance2(points.rbegin()->first);
  }
  int64_t found = 0, end = 0;
  for (const auto& [first, copies] : points) {
    std::copy(copies.begin(), copies.end(), rows + end);
    ends[found++] = end += static_cast<int64_t>(copies.size());
  }
  return found;
}

#define KNOLL_FARTHEST(Points)                                                                                     \
  template int64_t farthest_points(const Points&, View<const double, 1>, View<const double, 1>, int64_t, int64_t*, \
                                   int64_t*, Run);
KNOLL_FOR_POINTS(KNOLL_FARTHEST)
#undef KNOLL_FARTHEST

}  // namespace knoll
