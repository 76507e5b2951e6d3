// Nearest rows of every row, and the nearest rows of other components: what a density tree needs of an index.
//
// Rows are numbered by *position*, the order in which the index stores them, so that neighbours in space are neighbours
// in memory. A *key* orders like the distance and decides like it: the reduced distance where the metric has no band,
// else the distance by the metric's formula. The mutual reachability key of two rows is
//     m(p, q) = max(c(p), c(q), key(p, q)),        c(p) = the key of the min_samples-th nearest row, p included.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/large_array.hpp"
#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// The least edge that leaves each component, as found so far. Several threads may offer edges at once; keys only fall.
// Which of several equal edges is kept depends on timing: no height of the tree does.
class LeastEdges {
 public:
  struct Edge {
    double key;
    int32_t a, b;  // positions, in the component and outside
  };

  explicit LeastEdges(int64_t components);

  // A bound for pruning: a stale value is larger, so it costs time, never an edge.
  double key(int32_t component) const { return keys_[static_cast<size_t>(component)].load(std::memory_order_relaxed); }
  void offer(int32_t component, double key, int32_t a, int32_t b);
  Edge edge(int32_t component) const;

 private:
  struct Ends {
    int32_t a, b;
  };
  std::unique_ptr<std::atomic<double>[]> keys_;
  std::unique_ptr<std::atomic_flag[]> locks_;
  std::vector<Ends> ends_;
};

// What a round of Borůvka's algorithm knows of the rows, by position.
struct RoundState {
  const int32_t* component;  // (n)
  const double* core;        // (n) c(p)
  double* cleared;           // (n) no row of another component has m(p, ·) below this, but those of p's list; it holds
                             //     for later rounds too, since components only grow
  int32_t largest;           // the component whose rows do not search
};

class ReachabilitySearch {
 public:
  virtual ~ReachabilitySearch() = default;

  // backend: auto, tree or tiles. Keeps the view.
  template <class T>
  static std::unique_ptr<ReachabilitySearch> make(View<const T, 2> x, const Metric& metric, const std::string& backend,
                                                  Run run);

  virtual const char* backend() const = 0;
  virtual int64_t size() const = 0;
  virtual int64_t row(int64_t position) const = 0;  // of the data
  virtual double key(int64_t p, int64_t q) const = 0;
  virtual double distance(double key) const = 0;

  // The k < n nearest other rows of each row, nearest first: near (n, k) positions. farthest (n): the key of the last.
  // A row that is not in the list of p has a key of at least farthest(p).
  // Of equally near rows any may be kept, the same for every number of threads.
  virtual void nearest(int64_t k, int32_t* near, double* farthest, Run run) const = 0;

  // core(p) = the least key within which lies a weight of at least `mass`, that of p included; where it is ≥ 0, it is
  // known already. By the keys of all pairs, where a search has nothing better.
  virtual void weighted_core(View<const double, 1> weights,  // in  (n) by row
                             double mass, double* core,      // in, out (n)
                             Run run) const;

  // Offers every component but the largest an edge (p, q) of least m(p, q) to another component, unless it has an edge
  // as small; edges of the lists need not be offered.
  virtual void leave(const RoundState& state, LeastEdges& least, Run run) const = 0;
};

}  // namespace knoll
