// Starts: the data as a multiset of rows, greedy k-means++ and weighted draws without replacement
// (docs/decisions/0009).
//
// A draw must depend neither on the order of the rows nor on whether a row was repeated or weighted. So equal rows are
// first merged into one with their total weight, and the unique rows are put into an order of their contents alone;
// everything below is a function of that order, of the weights and of (seed, restart), for any number of threads.
#pragma once

#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// Rows of a sparse matrix: entries [indptr(i), indptr(i + 1)), columns rising strictly within a row. An entry may be 0.
template <class T, class I>
struct SparseRows {
  View<const T, 1> data;      // (entries)
  View<const I, 1> indices;   // (entries)
  View<const I, 1> indptr;    // (n + 1)
  int64_t shape[2] = {0, 0};  // n, d
};

// The unique rows of weight > 0, each by its lowest index in x, ordered by a hash of the contents, ties by the contents
// themselves. 0 and −0 are equal; a float64 table and its float32 copy, rows of a sparse matrix, all rows times a power
// of two, and rows without their constant columns have one order. `Points` is View<const T, 2> or SparseRows<T, I>, all
// entries finite. Returns the number of unique rows. If `which` is not null, they are in order of first appearance
// instead.
template <class Points>
int64_t unique_rows(const Points& x,                // in  (n, d)
                    View<const double, 1> weights,  // in  (n) or empty: every row counts once
                    int64_t* rows,                  // out (n), the first m of them
                    double* total,                  // out (n), the first m: their weights, summed exactly, rounded once
                    int64_t* which,  // out (n) or null: the unique row that each row equals; −1: of weight 0
                    Run run);

// The work of a k-means++ run: pairs of a point and a candidate.
struct SeedingWork {
  int64_t pairs = 0;      // in total
  int64_t evaluated = 0;  // whose distance was computed
};

// Greedy k-means++ (Arthur and Vassilvitskii 2007): the first centre is drawn by weight; for each further one `trials`
// candidates are drawn by w·D², D the distance to the nearest centre so far, and the one that lowers Σ w·D² most is
// chosen, the first of equal ones. Where all points coincide with a centre, the others are drawn as by random_rows.
// With `skip`, cells of points that gain nothing by the triangle inequality are skipped (Raff 2021); the result is the
// same.
template <class Points>
SeedingWork kmeans_plus_plus(const Points& x,        // in  (n, d)
                             const int64_t* rows,    // in  (m) rows of x, m ≥ 1
                             const double* weights,  // in  (m) > 0 and finite
                             int64_t m, int64_t k, uint64_t seed, uint64_t restart, int64_t trials, bool skip,
                             int64_t* out,  // out (k) positions in `rows`
                             Run run);

// Draws by weight without replacement; after all m have been drawn, it starts over.
void random_rows(const double* weights,  // in  (m) > 0 and finite
                 int64_t m, int64_t k, uint64_t seed, uint64_t restart,
                 int64_t* out,  // out (k) positions
                 Run run);

}  // namespace knoll
