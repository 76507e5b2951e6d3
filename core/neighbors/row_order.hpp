// The order of rows that ties are decided by: it does not depend on how the rows are numbered.
#pragma once

#include <cstdint>

#include "common/view.hpp"

namespace knoll {

// Whether row a of x comes before row b: in lexicographic order, equal ones by index.
template <class T>
bool row_before(View<const T, 2> x, int64_t a, int64_t b) {
  for (int64_t j = 0; j < x.shape[1]; ++j)
    if (x(a, j) != x(b, j)) return x(a, j) < x(b, j);
  return a < b;
}

}  // namespace knoll
