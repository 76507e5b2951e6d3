// The modes of a density tree: rows whose core distance is least around them, and how prominent they are.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// A row is born at its core distance. Where components fuse, the one with the least birth goes on and the modes of the
// others die at that height; of equal births the row with the smallest coordinates goes on. deaths(p) is infinite for
// the last mode.
template <class T>
void tree_modes(View<const double, 1> bars, View<const double, 1> core,  // in  (n) by position in the tree's order
                View<const T, 2> x, View<const int64_t, 1> order,        // in  (n, d); (n)
                View<double, 1> deaths, Run run);                        // out (n) by position

}  // namespace knoll
