// Symmetric matrices whose bits must not depend on the threads of a BLAS: the tridiagonal form of a full one, and the
// factors of a sparse one. LAPACK and SuperLU call a BLAS that can be limited for the whole process only.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "kernels/tall_sparse.hpp"

namespace knoll {

// A = Q T Qᵀ with Q = H_0 H_1 … H_{n−2} and H_k = I − τ_k v_k v_kᵀ (Householder); v_k is zero up to row k, one in row
// k + 1. Entries of A are of the order of one: their squares must neither over- nor underflow.
void tridiagonalise(View<const double, 2> a,       // in  (n, n)
                    View<double, 1> diagonal,      // out (n)      of T
                    View<double, 1> off_diagonal,  // out (n − 1)  of T
                    View<double, 1> tau,           // out (n − 1)
                    View<double, 2> reflectors,    // out (n − 1, n): v_k is row k
                    Run run);

// M = L D Lᵀ of a sparse symmetric positive definite M, in the order of its rows: L has ones on its diagonal. The
// caller chooses an order of little fill.
class SparseCholesky {
 public:
  SparseCholesky(const Links& m, Run run);  // throws std::invalid_argument where a pivot is not positive

  int64_t n() const { return static_cast<int64_t>(pivot_.size()); }
  int64_t entries() const { return static_cast<int64_t>(value_.size()); }  // of L below its diagonal

  // x = M⁻¹ x, column by column.
  void solve(View<double, 2> x, Run run) const;

 private:
  void count_entries(const Links& m, std::vector<int32_t>& parent, Run run);

  std::vector<int64_t> begin_;  // (n + 1): of the columns of L
  std::vector<int32_t> row_;    // rising within a column
  std::vector<double> value_;   // of L
  std::vector<double> pivot_;   // (n): D
};

}  // namespace knoll
