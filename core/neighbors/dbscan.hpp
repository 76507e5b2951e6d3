// DBSCAN: core points have at least min_samples points (or so much weight) within ε, themselves included; clusters are
// the connected components of core points within ε of each other; what is left is a border point or noise
// (docs/theory: eq. 5.11).
//
// Memory is linear in the number of rows for every ε. The answer depends on nothing but the rows: not on threads,
// layout, instruction set or the structure that finds the neighbours.
#pragma once

#include <cstdint>
#include <string>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/grid.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// The cluster of a row that is not core but has core rows within ε:
//   closest  that of its closest core row, ties to the lexicographically smallest coordinates
//   first    the lowest-numbered one that has a core row within ε
//   noise    none
enum class Border { closest, first, noise };

struct DbscanReport {
  std::string backend;
  int64_t clusters = 0;
  int64_t distances = 0;  // evaluated
  int64_t rechecks = 0;   // of them decided a second time, by the metric's own formula
};

// Clusters are numbered by their lowest core row; −1 is noise. weights may be empty (every row counts 1) or negative;
// their exact sum is rounded once and compared with min_samples. backend: auto, grid, tree or tiles.
template <class T>
DbscanReport dbscan(View<const T, 2> x,             // in  (n, d)
                    double eps,                     // > 0
                    double min_samples,             //
                    View<const double, 1> weights,  // in  (n) or empty
                    const Metric& metric,           //
                    Border border,                  //
                    const std::string& backend,     //
                    View<int64_t, 1> labels,        // out (n)
                    View<uint8_t, 1> core,          // out (n)
                    Run run,                        //
                    GridWorkspace workspace = {});  // used by the grid

// Splits the rows of x: those where the mask is not 0, with their numbers, and the others, both in order.
template <class T>
void split_rows(View<const T, 2> x,           // in  (n, d)
                View<const uint8_t, 1> mask,  // in  (n)
                View<int64_t, 1> numbers,     // out (m), m of the mask
                View<T, 2> taken,             // out (m, d)
                View<T, 2> others,            // out (n − m, d)
                Run run);

}  // namespace knoll
