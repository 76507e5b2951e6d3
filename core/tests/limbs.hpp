// The exact sums of a memory, as limbs.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/lloyd.hpp"
#include "knoll/sum.hpp"

namespace knoll {

inline std::vector<int64_t> limbs_of(const LloydMemory& memory) {
  const int64_t columns = memory.clusters() * (memory.columns() + 1);
  std::vector<int64_t> limbs(static_cast<size_t>(kLimbs * columns), 0);
  memory.add_sums(matrix_view(limbs.data(), kLimbs, columns));
  return limbs;
}

}  // namespace knoll
