// Exact sums of clusters: mass and coordinate sums as integers, so that adding a row and taking it away again leaves
// nothing behind, and any order of rows gives the same mean (docs/decisions/0004, 0008).
//
// Sums of k clusters in d columns are an array (kLimbs, k·(d+1)) of exact sums: column c·(d+1) is the mass of cluster
// c, the next d its coordinate sums. The value of a column is exact; its limbs depend on the route.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "knoll/csr.hpp"
#include "knoll/large_array.hpp"
#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

// For each column an exponent above its magnitudes, |x(i, j)| < 2^result[j], or above most of them, where the others
// are so large that the digits of most would lie below the units.
template <class T>
std::vector<int> column_exponents(View<const T, 2> x,  // in  (n, d)
                                  bool& beyond,        // out: some magnitudes are not below
                                  Run run);

// What the threads have added up so far: in units that are fixed for each column, and in limbs what these do not hold;
// or all of it in limbs, where the caller has them or units might overflow.
struct ClusterTotals {
  ClusterTotals(int64_t k, int64_t d);                         // in units
  ClusterTotals(int64_t k, int64_t d, View<int64_t, 2> sums);  // in these limbs (kLimbs, k·(d+1))

  int64_t k, d, ld;                // ld: d + 1 columns, the mass the last of them, padded to a multiple of 4
  View<int64_t, 2> limbs;          // (kLimbs, k·(d+1)); empty: nobody has needed them
  std::vector<int64_t> high, low;  // (k, ld) in units, and
  std::vector<int64_t> least;      // (k, ld) below them (empty: nothing)
  std::vector<char> in_limbs;      // (k, ld): sums of which limbs hold a part
  bool in_units = true;
  bool beyond = false;    // rows may have terms that are too large for the units; set before any delta is made
  int64_t additions = 0;  // to the limbs, since the last carries
  std::mutex mutex;       // guards all of this

  View<int64_t, 2>& room();  // limbs, made ready: zeros that nobody has touched take no memory; under the mutex
  // Tells of additions to the limbs; under the mutex.
  void added(int64_t terms);

 private:
  LargeArray<int64_t> own;
};

// What one thread adds up before it goes into the totals. Every term is cut at two powers of two that are fixed for its
// column into integers (high, low) of forty bits, which are added as such; what is left below, if anything, is cut once
// more (least). Terms too large for that and what is left of the smallest wait to be added to the limbs.
class ClusterDelta {
 public:
  ClusterDelta(const std::vector<int>& exponents, double largest_weight, ClusterTotals& totals);

  // The row x of d values, `stride` apart, joins cluster c with weight w; with weight −w it leaves.
  template <class T>
  void add(const T* x, int64_t stride, double w, int64_t c);
  template <class T, class I>
  void add(const T* data, const I* indices, int64_t count, double w, int64_t c);

  // Brings what was added into the totals, and starts anew.
  void flush();

 private:
  void term(double t, int64_t c, int64_t j);
  void product(double w, double x, int64_t c, int64_t j);
  void below_units(double t, int64_t c, int64_t j);
  void to_limbs(double t, int64_t c, int64_t j);
  void bring_waiting();  // under the mutex
  template <class T>
  bool within(const T* x) const;
  template <class T>
  void add_finely(const T* x, double w, int64_t c);  // any row: all three units, weights, terms of any size

  struct Waiting {
    double t;
    int64_t c, j;
  };

  ClusterTotals& totals_;
  int64_t k_, d_, ld_;
  bool cuts_ = true;                                    // every column is cut
  std::vector<double> cut_high_, cut_low_, cut_least_;  // (ld): t + cut − cut is t rounded to a unit
  std::vector<double> limit_;                           // (ld): terms are cut below that; 0: none is
  std::vector<double> rest_;                            // scratch (2, ld): what a row leaves
  std::vector<double> row_;                             // scratch (d)
  std::vector<int> unit_;                               // (ld) exponents of the high unit
  std::vector<int64_t> high_, low_;                     // (k, ld)
  std::vector<int64_t> least_;                          // (k, ld), empty before the first
  std::vector<Waiting> waiting_;
  std::vector<char> touched_;     // (k)
  int64_t pending_ = 0;           // rows since the last flush
  int64_t rows_ = 0, rests_ = 0;  // rows cut at two units; those of them that left something
};

// out[c·(d+1) + …] = the totals as doubles, rounded once; exponents and largest_weight as given to the deltas.
void round_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<double, 1> out,   // out (k·(d+1))
                  View<double, 1> rest,  // out (k·(d+1)) or empty: what that leaves, rounded likewise
                  Run run);

// sums += all of the totals, as limbs.
void whole_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<int64_t, 2> sums);  // in, out (kLimbs, k·(d+1))

// sums += the rows of x, each in its cluster; rows whose label is negative are left out.
template <class T>
void add_cluster_sums(View<const T, 2> x,             // in  (n, d)
                      View<const double, 1> weights,  // in  (n) or empty
                      View<const int32_t, 1> labels,  // in  (n), each < k
                      View<int64_t, 2> sums,          // in, out (kLimbs, k·(d+1))
                      Run run);
template <class T, class I>
void add_cluster_sums(Csr<T, I> x, View<const double, 1> weights, View<const int32_t, 1> labels, View<int64_t, 2> sums,
                      Run run);

// Σ w ‖x − origin‖²: each row's term is its weight times the one distance, and the terms are summed exactly.
template <class T>
double spread(View<const T, 2> x,             // in  (n, d)
              View<const double, 1> weights,  // in  (n) or empty
              View<const double, 1> origin,   // in  (d)
              Run run);
template <class T, class I>
double spread(Csr<T, I> x, View<const double, 1> weights, View<const double, 1> origin, Run run);

}  // namespace knoll
