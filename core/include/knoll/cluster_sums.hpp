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
#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

// For each column an exponent above all its magnitudes: |x(i, j)| < 2^result[j].
template <class T>
std::vector<int> column_exponents(View<const T, 2> x,  // in  (n, d)
                                  Run run);

// What the threads have added up so far, and where terms go that cannot wait.
struct ClusterTotals {
  ClusterTotals(int64_t k, int64_t d, View<int64_t, 2> sums);

  int64_t k, d, ld;                // ld: d + 1 columns, the mass the last of them, padded to a multiple of 4
  View<int64_t, 2> limbs;          // in, out (kLimbs, k·(d+1)): all of it
  std::vector<int64_t> high, low;  // (k, ld): the same in units, as long as `in_units`
  bool in_units = true;
  std::mutex mutex;  // guards all of this
};

// What one thread adds up before it goes into the totals. Every term is cut at two powers of two that are fixed for its
// column into integers (high, low) of forty bits, which are added as such; what is left below, if anything, goes to
// the limbs at once.
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
  void to_limbs(double t, int64_t c, int64_t j);

  ClusterTotals& totals_;
  int64_t k_, d_, ld_;
  bool cuts_ = true;                        // every column is cut
  std::vector<double> cut_high_, cut_low_;  // (ld): t + cut − cut is t rounded to a unit; 0: nothing is cut
  std::vector<int> unit_;                   // (ld) exponents of the high unit
  std::vector<int64_t> high_, low_;         // (k, ld)
  std::vector<char> touched_;               // (k)
  int64_t pending_ = 0;                     // rows since the last flush
};

// out[c·(d+1) + …] = the totals as doubles, rounded once; exponents and largest_weight as given to the deltas.
void round_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<double, 1> out,   // out (k·(d+1))
                  View<double, 1> rest,  // out (k·(d+1)) or empty: what that leaves, rounded likewise
                  Run run);

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
