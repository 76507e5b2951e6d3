// The implementations of ReachabilitySearch.
#pragma once

#include "tree/search.hpp"

namespace knoll {

// Null where the lists of 32 rows take more than most_work cycles in the tree, as a sample of its leaves shows;
// infinite: no sample is taken.
template <class T>
std::unique_ptr<ReachabilitySearch> make_tree_search(View<const T, 2> x, const Metric& metric, double most_work,
                                                     Run run);

// Euclidean distances, of coordinates whose squares are well within float64, and cosine distances. Where there are more
// tiles than tiles_kept and than numbers in the panels, what the lists learn of each tile is not kept for the rounds.
constexpr int64_t kTilesKept = int64_t{1} << 21;  // 8 MB
template <class T>
std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const T, 2> x, const Metric& metric, Run run,
                                                      int64_t tiles_kept = kTilesKept);
std::unique_ptr<ReachabilitySearch> make_gower_search(View<const double, 2> x, const Metric& metric, Run run);
// The cycles of all tiles, for 32 rows.
double work_of_tiles(int64_t n, int64_t d);

}  // namespace knoll
