// Starts: the data as a multiset of rows, greedy k-means++ and weighted draws without replacement
// (docs/decisions/0009).
//
// A draw must not see the order of the rows, nor whether a row was repeated or weighed. So equal rows are first
// gathered into one that bears their weight, and the distinct rows are put into an order of their contents alone;
// everything below is a function of that order, of the weights and of (seed, restart), the same on any number of
// threads.
#pragma once

#include <cstdint>

#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

// Rows of a sparse matrix: entries [indptr(i), indptr(i + 1)), columns rising strictly within a row. An entry may be 0.
template <class T, class I>
struct SparseRows {
  View<const T, 1> data;      // (entries)
  View<const I, 1> indices;   // (entries)
  View<const I, 1> indptr;    // (n + 1)
  int64_t shape[2] = {0, 0};  // n, d
};

// The distinct rows of weight > 0, each by the lowest number that it has in x, ordered by a hash of its contents, ties
// by the contents themselves. 0 and −0 are equal; a float64 table and its float32 copy, rows of a sparse matrix, all
// rows times a power of two, and rows without their constant columns have one order. `Points` is View<const T, 2> or
// SparseRows<T, I>, all entries finite. Returns how many distinct rows there are. Where it is asked which of them each
// row equals, they stand in the order of their first appearance instead.
template <class Points>
int64_t distinct_rows(const Points& x,                // in  (n, d)
                      View<const double, 1> weights,  // in  (n) or empty: every row counts once
                      int64_t* rows,                  // out (n), the first m of them
                      double* total,   // out (n), the first m: their weights, summed exactly, rounded once
                      int64_t* which,  // out (n) or null: the distinct row that each row equals; −1: of weight 0
                      Run run);

// What a run of k-means++ has looked at: pairs of a point and a candidate.
struct SeedingWork {
  int64_t pairs = 0;      // with nothing left out
  int64_t evaluated = 0;  // whose distance was computed
};

// Greedy k-means++ (Arthur and Vassilvitskii 2007): the first centre is drawn by weight; for each further one `trials`
// candidates are drawn by w·D², D the distance to the nearest centre so far, and the one that lowers Σ w·D² most is
// taken, the first of equal ones. Where no point is left at a distance, the rest are drawn as random_rows does.
// With `skip`, cells of points that the triangle inequality shows to gain nothing are left out (Raff 2021); the result
// is the same.
template <class Points>
SeedingWork kmeans_plus_plus(const Points& x,        // in  (n, d)
                             const int64_t* rows,    // in  (m) rows of x, m ≥ 1
                             const double* weights,  // in  (m) > 0 and finite
                             int64_t m, int64_t k, uint64_t seed, uint64_t restart, int64_t trials, bool skip,
                             int64_t* out,  // out (k) places in `rows`
                             Run run);

// Draws by weight without replacement; when all m have been drawn, all are there again.
void random_rows(const double* weights,  // in  (m) > 0 and finite
                 int64_t m, int64_t k, uint64_t seed, uint64_t restart,
                 int64_t* out,  // out (k) places
                 Run run);

}  // namespace knoll
