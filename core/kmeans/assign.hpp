// Assignment: label_i = argmin_c ‖x_i − μ_c‖² by the one distance (docs/decisions/0003), ties to the lowest index.
#pragma once

#include <cstdint>

#include "common/csr.hpp"
#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

struct AssignCounts {
  int64_t evaluations = 0;  // point–centre distances computed, by whatever arithmetic
  int64_t rechecks = 0;     // rows rechecked by the one distance

  AssignCounts& operator+=(const AssignCounts& other) {
    evaluations += other.evaluations;
    rechecks += other.rechecks;
    return *this;
  }
};

template <class T>
AssignCounts assign(View<const T, 2> x,             // in  (n, d)
                    View<const double, 2> centers,  // in  (k, d)
                    View<int32_t, 1> labels,        // out (n)
                    View<double, 1> distance2,      // out (n) or empty: the one distance to the chosen centre
                    Run run);
template <class T, class I>
AssignCounts assign(Csr<T, I> x, View<const double, 2> centers, View<int32_t, 1> labels, View<double, 1> distance2,
                    Run run);

// out(i) = the one distance of row i to centre labels(i).
template <class T>
void own_distances(View<const T, 2> x,             // in  (n, d)
                   View<const double, 2> centers,  // in  (k, d)
                   View<const int32_t, 1> labels,  // in  (n), each in [0, k)
                   View<double, 1> out,            // out (n)
                   Run run);

// out(i, c) = ‖x_i − μ_c‖: roots of the one distance.
template <class T, class O>
void center_distances(View<const T, 2> x,             // in  (n, d)
                      View<const double, 2> centers,  // in  (k, d)
                      View<O, 2> out,                 // out (n, k)
                      Run run);
template <class T, class I, class O>
void center_distances(Csr<T, I> x, View<const double, 2> centers, View<O, 2> out, Run run);

}  // namespace knoll
