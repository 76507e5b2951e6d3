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

// What one thread adds up before it goes into the shared limbs. Every term is cut at two powers of two that are fixed
// for its column into integers (high, low) of forty bits, which are added as such; what is left below, if anything,
// goes to the limbs at once.
class ClusterDelta {
 public:
  ClusterDelta(int64_t k, int64_t d, const std::vector<int>& exponents, double largest_weight, View<int64_t, 2> sums,
               std::mutex& mutex);

  // The row x of d values, `stride` apart, joins cluster c with weight w; with weight −w it leaves.
  template <class T>
  void add(const T* x, int64_t stride, double w, int64_t c);
  template <class T, class I>
  void add(const T* data, const I* indices, int64_t count, double w, int64_t c);

  // Brings what was added into the shared limbs, and starts anew.
  void flush();

 private:
  void term(double t, int64_t c, int64_t j);
  void product(double w, double x, int64_t c, int64_t j);

  int64_t k_, d_;
  std::vector<double> cut_high_, cut_low_;  // (d+1): t + cut − cut is t rounded to a unit; 0: nothing is cut
  std::vector<int> unit_;                   // (d+1) exponents of the high unit
  std::vector<int64_t> high_, low_;         // (k, d+1)
  int64_t pending_ = 0;                     // rows since the last flush
  View<int64_t, 2> sums_;                   // the shared limbs
  std::mutex& mutex_;                       // guards them
};

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
