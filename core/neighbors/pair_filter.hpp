// All pairs of points in high dimension: which are within a radius, decided exactly at the speed of float32 products.
//
// Points are centred at a pivot, scaled by a power of two and packed as float32 into panels of 32 neighbours. A tile of
// 32 × 32 pairs takes ‖x‖² + ‖y‖² − 2x·y in float32 with a rigorous error bound; a pair within the bound is decided by
// the one distance, D(x, y) = Σ_j (x_j − y_j)² in float64, j in order, never fused. Balls around panels discard whole
// tiles (docs/numerics/pairs.md, P1 to P8). Memory is linear in n; no answer depends on threads, layout or
// instruction set.
//
// PairFilter<GowerRow> has the same methods for rows of float64 under Gower's distance (neighbors/gower.hpp); there D
// is that distance itself, and r2 a radius.
//
// r2 is a bound on D, inclusive. A mask has a byte per row, not 0 for the rows that count; empty means all.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "common/run.hpp"
#include "common/union_find.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// What the rows of a filter are: numbers of a type under the squared Euclidean distance, or rows under Gower's.
struct GowerRow {};
template <class T>
struct PairRow {
  using Number = T;
};
template <>
struct PairRow<GowerRow> {
  using Number = double;
};
template <class T>
using PairNumber = typename PairRow<T>::Number;

// The work of a call. It depends on the instruction set, and with several threads on timing; the answers do not.
struct PairStats {
  int64_t tiles = 0;      // of 32 × 32 pairs that were filtered in float32
  int64_t discarded = 0;  // tiles that were skipped
  int64_t rechecks = 0;   // pairs decided by the one distance
};

template <class T>
struct Panels;

template <class T>
class PairFilter {
 public:
  // Orders and packs x, finite numbers, and keeps the view: the array must outlive this.
  PairFilter(View<const PairNumber<T>, 2> x, Run run);                       // not of GowerRow
  PairFilter(View<const PairNumber<T>, 2> x, const Metric& gower, Run run);  // of GowerRow alone
  ~PairFilter();
  PairFilter(PairFilter&&) noexcept;

  // Queries below may be the view x itself, which is packed already; a row of it is then its own neighbour too.

  // out(i) = min(stop_at, number of rows x_j with D(q_i, x_j) ≤ r2).
  PairStats count(View<const PairNumber<T>, 2> queries,              // in  (m, d)
                  double r2, int64_t stop_at, View<int64_t, 1> out,  // out (m)
                  Run run) const;

  // out(i) = Σ w_j over those rows, the exact sum rounded once. Weights may be negative.
  PairStats weigh(View<const PairNumber<T>, 2> queries,  // in  (m, d)
                  double r2,                             //
                  View<const double, 1> weights,         // in  (n)
                  View<double, 1> out,                   // out (m)
                  Run run) const;

  // Unites all pairs of masked rows of x within r2. A pair that is joined already is skipped: it
  // could not change the components.
  PairStats unite(double r2, View<const uint8_t, 1> mask,  // in  (n) or empty
                  UnionFind<int32_t>& sets,                // in, out (n)
                  Run run) const;

  // body(i, js, count) for query i and `count` of its neighbours js, rows of x, as often as it takes to name each
  // neighbour once. All calls for one i come from one thread, in no promised order.
  template <class Body>
  PairStats for_neighbours(View<const PairNumber<T>, 2> queries,  // in  (m, d)
                           View<const uint8_t, 1> selected,       // in  (m) or empty: which queries
                           double r2,                             //
                           View<const uint8_t, 1> mask,           // in  (n) or empty: which rows may be neighbours
                           Run run, Body&& body) const {
    return neighbours(
        queries, selected, r2, mask, run,
        [](void* p, int64_t i, const int64_t* js, int64_t count) {
          (*static_cast<std::remove_reference_t<Body>*>(p))(i, js, count);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  // The masked row of x with the least D(q_i, x_j) ≤ r2; of equals the one with the lexicographically smallest
  // coordinates, then the lowest index. index(i) = −1 and d2(i) = inf where there is none.
  PairStats nearest(View<const PairNumber<T>, 2> queries,  // in  (m, d)
                    View<const uint8_t, 1> selected,  // in  (m) or empty; the outputs of other queries are not touched
                    double r2,                        //
                    View<const uint8_t, 1> mask,      // in  (n) or empty
                    View<int64_t, 1> index,           // out (m)
                    View<double, 1> d2,               // out (m)
                    Run run) const;

  // The k rows of x with the least D(q_i, x_j), ascending, equals by lowest index. Entries past n rows: −1 and inf.
  PairStats knn(View<const PairNumber<T>, 2> queries,  // in  (m, d)
                View<double, 2> d2,                    // out (m, k)
                View<int64_t, 2> index,                // out (m, k)
                Run run) const;

 private:
  using Visit = void (*)(void* context, int64_t i, const int64_t* js, int64_t count);
  PairStats neighbours(View<const PairNumber<T>, 2> queries, View<const uint8_t, 1> selected, double r2,
                       View<const uint8_t, 1> mask, Run run, Visit visit, void* context) const;

  std::unique_ptr<const Panels<T>> panels_;
};

template <>
PairFilter<double>::PairFilter(View<const double, 2> x, Run run);
template <>
PairFilter<float>::PairFilter(View<const float, 2> x, Run run);
template <>
PairFilter<GowerRow>::PairFilter(View<const double, 2> x, const Metric& gower, Run run);

}  // namespace knoll
