// Exact sums of clusters: mass and coordinate sums as integers, so that adding a row and subtracting it again
// restores the sum, and any order of rows gives the same mean (docs/numerics/kmeans.md, eq. 16 and 17;
// docs/decisions/0004).
//
// Sums of k clusters in d columns are an array (kSumWords, k·(d+1)) of exact sums: column c·(d+1) is the mass of
// cluster c, the next d its coordinate sums. The value of a column is exact; its accumulator words depend on the order
// of the additions.
//
// Why not those words alone: a term takes three additions at computed positions in 560 bytes per sum, one term at a
// time under a lock; units of a fixed exponent take four terms at once into 16 bytes per sum, and hold nearly all of
// them. Words remain for what the units cannot hold, and for sums that leave the core.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "common/csr.hpp"
#include "common/large_array.hpp"
#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll {

// For each column an exponent above its magnitudes, |x(i, j)| < 2^result[j]. Any exponents give the same sums.
template <class T>
std::vector<int> column_exponents(View<const T, 2> x,  // in  (n, d)
                                  Run run);
template <class T, class I>
std::vector<int> column_exponents(Csr<T, I> x);

// The sums of all threads: integers in units that are fixed for each column, plus exact accumulator words
// (exact_sum.hpp) for what the units cannot hold; or words alone, where the caller provides them or units might
// overflow.
struct ClusterTotals {
  ClusterTotals(int64_t k, int64_t d);                         // in units
  ClusterTotals(int64_t k, int64_t d, View<int64_t, 2> sums);  // in the words of sums (kSumWords, k·(d+1))

  int64_t k, d, ld;                // ld: d + 1 columns, the mass the last of them, padded to a multiple of 4
  View<int64_t, 2> words;          // (kSumWords, k·(d+1)); empty: not needed so far
  std::vector<int64_t> high, low;  // (k, ld) in units
  std::vector<char> in_words;      // (k, ld): nonzero where a term went to the words
  bool in_units = true;
  int64_t additions = 0;  // to the words, since the last carries
  std::mutex mutex;       // guards all of this

  // Under the mutex: the words, allocated on first use (untouched pages take no memory).
  View<int64_t, 2>& allocated_words();
  // Under the mutex: counts additions to the words, and carries in time.
  void count_additions(int64_t terms);

 private:
  LargeArray<int64_t> own;
};

// The sums of one thread, flushed into the totals now and then. With |t| < 2^e, a term t is split exactly as
//     t = high·2^(e − 40) + low·2^(e − 81) + remainder,
// integers of at most 40 bits that are added as int64 (eq. 16). Remainders, and terms that are not below 2^e, wait in a
// list to be added to the words.
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
  void to_words(double t, int64_t c, int64_t j);
  void flush_waiting();  // under the mutex
  template <class T>
  void add_products(const T* x, double w, int64_t c);  // any row: weights, terms of any size

  struct Waiting {
    double t;
    int64_t c, j;
  };

  ClusterTotals& totals_;
  int64_t k_, d_, ld_;
  bool splits_ = true;                      // every column is split into units
  std::vector<double> cut_high_, cut_low_;  // (ld): t + cut − cut is t rounded to a unit
  std::vector<double> limit_;               // (ld): terms below it are split; 0: none
  std::vector<double> remainder_;           // scratch (2, ld): of one row
  std::vector<double> row_;                 // scratch (d)
  std::vector<int> unit_;                   // (ld) exponents of the high unit
  std::vector<int64_t> high_, low_;         // (k, ld)
  std::vector<Waiting> waiting_;
  std::vector<char> touched_;  // (k)
  int64_t pending_ = 0;        // rows since the last flush
};

// out[c·(d+1) + …] = the totals as doubles, rounded once; exponents and largest_weight as in the deltas.
void round_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                  View<double, 1> out,  // out (k·(d+1))
                  View<double, 1> low,  // out (k·(d+1)) or empty: sum − out, rounded likewise
                  Run run);

// sums += the totals.
void add_totals(const ClusterTotals& totals, const std::vector<int>& exponents, double largest_weight,
                View<int64_t, 2> sums);  // in, out (kSumWords, k·(d+1))

// sums += the rows of x, each in its cluster; rows whose label is negative are left out.
template <class T>
void add_cluster_sums(View<const T, 2> x,             // in  (n, d)
                      View<const double, 1> weights,  // in  (n) or empty
                      View<const int32_t, 1> labels,  // in  (n), each < k
                      View<int64_t, 2> sums,          // in, out (kSumWords, k·(d+1))
                      Run run);
template <class T, class I>
void add_cluster_sums(Csr<T, I> x, View<const double, 1> weights, View<const int32_t, 1> labels, View<int64_t, 2> sums,
                      Run run);

}  // namespace knoll
