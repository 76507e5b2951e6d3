// The exact sums of a memory, as accumulator words.
#pragma once

#include <cstdint>
#include <vector>

#include "common/exact_sum.hpp"
#include "kmeans/lloyd.hpp"

namespace knoll {

inline std::vector<int64_t> words_of(const LloydMemory& memory) {
  const int64_t columns = memory.clusters() * (memory.columns() + 1);
  std::vector<int64_t> words(static_cast<size_t>(kSumWords * columns), 0);
  memory.add_sums(matrix_view(words.data(), kSumWords, columns));
  return words;
}

}  // namespace knoll
