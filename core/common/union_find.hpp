// Union-find whose answer does not depend on the order of the unions: the root of a component is its lowest
// member.
//
// A link always points to a smaller index, so a parent only ever falls and the last root of a tree is its
// minimum. That holds for concurrent unions too: the *_shared functions may be called by several threads at
// once (and mixed with each other, not with the plain ones), and the components, roots and labels are those
// of the plain ones.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/view.hpp"

namespace knoll {

template <class I>
class UnionFind {
 public:
  explicit UnionFind(int64_t n) : size_(n), parent_(make_large_array<I>(checked(n))) {
    std::iota(parent_.get(), parent_.get() + n, I{0});
  }

  int64_t size() const { return size_; }

  // The lowest member of i's component. Every node passed is hung two steps higher (path halving).
  // parent ≤ child on the whole way, so the loop ends at the lowest member (docs/numerics/concurrency.md, T4).
  I find(I i) {
    while (at(i) != i) {
      at(i) = at(at(i));
      i = at(i);
    }
    return i;
  }

  // Joins two components; were they two?
  bool unite(I i, I j) {
    i = find(i);
    j = find(j);
    if (i == j) return false;
    // The larger root goes below the smaller one.
    if (i < j) std::swap(i, j);
    at(i) = j;
    return true;
  }

  bool same(I i, I j) { return find(i) == find(j); }

  // As find, while other threads unite: a root of i that was its root at some time during the call.
  // Parents only fall and are at least 0, so the loop ends whatever other threads do (docs/numerics/concurrency.md,
  // T5).
  I find_shared(I i) {
    for (;;) {
      // `above` may be stale: it was an ancestor of i at some time, and ancestors are of one set for good.
      I up = load(i);
      const I above = load(up);
      if (up == above) return up;
      // Lost races are as good: whoever changed it has hung it lower still.
      shared(i).compare_exchange_weak(up, above, std::memory_order_relaxed);
      i = above;
    }
  }

  // As unite; of several calls that would join the same two components one returns true.
  bool unite_shared(I i, I j) {
    for (;;) {
      i = find_shared(i);
      j = find_shared(j);
      if (i == j) return false;
      if (i < j) std::swap(i, j);
      I root = i;  // still a root when the link is made, or else once more
      if (shared(i).compare_exchange_strong(root, j, std::memory_order_relaxed)) return true;
    }
  }

  // As same: true for good; false as of a moment during the call.
  // If the larger root is still a root, j's root at that moment is at most j < larger: two sets
  // (docs/numerics/concurrency.md, T6).
  bool same_shared(I i, I j) {
    for (;;) {
      i = find_shared(i);
      j = find_shared(j);
      if (i == j) return true;
      const I larger = std::max(i, j);  // the one that a union would have linked
      if (load(larger) == larger) return false;
    }
  }

  // The number of components.
  int64_t count(Run run = {}) const {
    return reduce_chunks<int64_t>(
        size(), kGrain, [&](int64_t, int64_t begin, int64_t end) { return roots(begin, end); },
        [](int64_t& total, int64_t chunk) { total += chunk; }, run);
  }

  // Numbers the components 0 … c−1 by their lowest members; returns c.
  template <class L>
  int64_t labels(View<L, 1> out,  // out (n)
                 Run run = {}) {
    const int64_t n = size();
    // The label of each chunk's first root.
    std::vector<int64_t> first(static_cast<size_t>(chunk_count(n, kGrain)));  // (chunks)
    for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
      first[static_cast<size_t>(chunk)] = roots(begin, end);
    });
    // From counts to the label of each chunk's first root: roots are numbered upward over all chunks.
    int64_t components = 0;
    for (int64_t& chunk : first) chunk = std::exchange(components, components + chunk);

    for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
      int64_t label = first[static_cast<size_t>(chunk)];
      for (int64_t i = begin; i < end; ++i)
        if (parent_[static_cast<size_t>(i)] == static_cast<I>(i)) out(i) = static_cast<L>(label++);
    });
    for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const I root = find_shared(static_cast<I>(i));
        if (root != static_cast<I>(i)) out(i) = out(static_cast<int64_t>(root));  // roots are only read here
      }
    });
    return components;
  }

 private:
  static constexpr int64_t kGrain = 1 << 16;

  static size_t checked(int64_t n) {
    if (n < 0 || n - 1 > static_cast<int64_t>(std::numeric_limits<I>::max()))
      throw std::length_error("UnionFind: the number of nodes does not fit the index type");
    return static_cast<size_t>(n);
  }

  int64_t roots(int64_t begin, int64_t end) const {
    int64_t total = 0;
    for (int64_t i = begin; i < end; ++i) total += parent_[static_cast<size_t>(i)] == static_cast<I>(i);
    return total;
  }

  I& at(I i) { return parent_[static_cast<size_t>(i)]; }
  std::atomic_ref<I> shared(I i) { return std::atomic_ref<I>(parent_[static_cast<size_t>(i)]); }
  // Only the links themselves are shared, nothing is published through them: relaxed order is enough.
  I load(I i) { return shared(i).load(std::memory_order_relaxed); }

  int64_t size_;
  LargeArray<I> parent_;  // (n) parent_[i] ≤ i, equal at a root
};

}  // namespace knoll
