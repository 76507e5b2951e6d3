// Partial distances of rows to prototypes of numbers and categories: Σⱼ (xⱼ − mⱼ)² + γ·#{j : zⱼ ≠ modeⱼ}, both sums
// over what the row has. Columns are added one by one, in order, so that the bits are those of the reference.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Columns lie one after the other, so that a loop over rows is a loop over neighbours in memory.
struct MixedColumns {
  View<const double, 2> values;    // (p, n) 0 where one is missing
  View<const double, 2> observed;  // (p, n) 1 or 0
  View<const uint8_t, 1> whole;    // (p) whether a column has every value
  View<const int32_t, 2> codes;    // (q, n) where one is missing, a number that no mode has
  View<const int32_t, 1> gaps;     // (n) how many categories are missing
};

struct Prototypes {
  View<const double, 2> means;   // (k, p)
  View<const int32_t, 2> modes;  // (k, q)
  double gamma = 0;
};

void prototype_distances(MixedColumns rows, Prototypes prototypes, View<double, 2> out,  // out (k, n)
                         Run run);

// The nearest prototype of each row, ties to the lowest number, and its distance.
void prototype_assign(MixedColumns rows, Prototypes prototypes, View<int64_t, 1> labels,  // out (n)
                      View<double, 1> least,                                              // out (n)
                      Run run);

}  // namespace knoll
