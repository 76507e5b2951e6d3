// K ≈ F Fᵀ by a Cholesky factorisation with pivots, of a kernel matrix that is never stored.
//
// Pivots come in panels, so that the work is products of matrices. A panel's candidates are the rows with the largest
// remaining diagonal in each of 256 regions of the tree. A factorisation among them takes the largest remaining
// diagonal repeatedly (ties: the lowest row), as long as it is at least half of the largest of all rows at the panel's
// start. So the first pivot of a panel is that of the greedy method, and no pivot is below half of the greedy one's
// diagonal.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/points.hpp"

namespace knoll {

struct PivotedCholesky {
  int64_t rank = 0;
  LargeArray<double> factor;     // (n, rank), rows of the data
  std::vector<int64_t> pivots;   // (rank) rows of the data
  std::vector<double> diagonal;  // (n) of K − F Fᵀ, ≥ 0
};

// Stops at max_rank, or when the largest remaining diagonal is ≤ tol, or when it is hopeless: when twice the pace at
// which the later half of the pivots brought the trace down (in logarithms, per pivot) would leave more than a tenth of
// it, and more than n·tol, at max_rank. Holds at most n·(max_rank + 96) numbers.
PivotedCholesky pivoted_cholesky(const KernelPoints& points, const KernelRule& rule, int64_t max_rank, double tol,
                                 Run run);

}  // namespace knoll
