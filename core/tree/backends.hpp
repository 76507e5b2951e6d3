// The implementations of ReachabilitySearch.
#pragma once

#include "tree/search.hpp"

namespace knoll {

template <class T>
std::unique_ptr<ReachabilitySearch> make_tree_search(View<const T, 2> x, const Metric& metric, Run run);

// Euclidean only, of coordinates whose squares are well within float64.
template <class T>
std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const T, 2> x, Run run);

}  // namespace knoll
