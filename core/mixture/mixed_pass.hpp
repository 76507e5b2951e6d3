// Mixtures whose components are products of a Gaussian block and categorical blocks, with missing values integrated out
// (docs/theory/02-gaussian-mixture.md, eq. 2.15–2.20).
//
// Rows are grouped by the columns that are missing: within a group the submatrices of Σ_c are factorised once. A
// missing category is a level whose log-probability is 0 in every component.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

struct MixedTable {
  View<const double, 2> y;          // (n, p) contiguous; what is missing is not read
  View<const int32_t, 2> codes;     // (n, q) contiguous rows of `MixedParameters::table`
  View<const double, 1> weights;    // (n), or empty for ones
  View<const int64_t, 1> starts;    // (groups + 1) the first row of each group of equal patterns, then n
  View<const uint8_t, 2> observed;  // (groups, p)
};

struct MixedParameters {
  View<const double, 1> log_weights;  // (k) log π_c; −inf: the component is dead
  View<const double, 2> means;        // (k, p)
  View<const double, 2> scales;       // (k, p) 1/σ_cj of diagonal covariances, or (k, p·p) Σ_c
  bool full = false;                  // which of the two
  View<const double, 2> table;        // (levels, k) log θ, all categories one after the other; zeros where missing
};

// How many sums of moments a component has: mass, the mass and the first moment of each column, second moments.
inline int64_t mixed_component_sums(int64_t p, bool full) { return 1 + 2 * p + (full ? p * (p + 1) / 2 : p); }

// One pass of EM: the sums of the M step. Full covariances have the expected moments of complete rows, diagonal ones
// the moments of what is observed. Sums of chunks are added in their order, so that no thread changes a bit.
void sum_mixed(const MixedTable& rows, const MixedParameters& model,
               View<const double, 2> pivots,  // in  (k, p) about which moments are taken
               View<double, 1> head,          // out (2) Σ w log p(x), Σ w
               View<double, 2> moments,       // out (k, mixed_component_sums) second moments: lower triangles by rows
               View<double, 2> counts,        // out (levels, k) Σ w λ of the rows that have a level
               View<double, 1> peaks,         // out (k) the largest λ of a row of positive weight
               Run run);

// The E step: fills those outputs that are not empty.
void expect_mixed(const MixedTable& rows, const MixedParameters& model, View<double, 2> resp,  // out (n, k)
                  View<int64_t, 1> labels,   // out (n) the most likely component, ties to the lowest
                  View<double, 1> log_prob,  // out (n) log p(x_i)
                  View<double, 2> joint,     // out (n, k) log π_c p(x_i | c)
                  View<double, 2> filled,    // out (n, p) E[y | what is observed] in the missing columns alone
                  Run run);

}  // namespace knoll
