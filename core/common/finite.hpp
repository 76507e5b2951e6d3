// Whether every number of an array is finite, at the speed of memory.
#pragma once

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

template <class T>
bool all_finite(View<const T, 2> x,  // in  (n, d)
                Run run);

}  // namespace knoll
