// Union-find against a breadth-first search, and its concurrent form against the plain one.
#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.hpp"
#include "common/union_find.hpp"

using namespace knoll;

namespace {

using Edges = std::vector<std::pair<int64_t, int64_t>>;

Edges random_edges(std::mt19937_64& random, int64_t n, int64_t m) {
  Edges edges(static_cast<size_t>(n == 0 ? 0 : m));
  for (auto& [a, b] : edges) {
    a = static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    b = static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  }
  return edges;
}

// Components numbered in the order of their lowest members: a search from every node not yet seen, in index
// order.
std::vector<int64_t> searched(int64_t n, const Edges& edges) {
  std::vector<std::vector<int64_t>> next(static_cast<size_t>(n));
  for (auto [a, b] : edges) {
    next[static_cast<size_t>(a)].push_back(b);
    next[static_cast<size_t>(b)].push_back(a);
  }
  std::vector<int64_t> label(static_cast<size_t>(n), -1), queue;
  int64_t components = 0;
  for (int64_t start = 0; start < n; ++start) {
    if (label[static_cast<size_t>(start)] >= 0) continue;
    queue = {start};
    label[static_cast<size_t>(start)] = components;
    for (size_t head = 0; head < queue.size(); ++head)
      for (int64_t to : next[static_cast<size_t>(queue[head])])
        if (label[static_cast<size_t>(to)] < 0) {
          label[static_cast<size_t>(to)] = components;
          queue.push_back(to);
        }
    ++components;
  }
  return label;
}

template <class I>
std::vector<int64_t> labels(UnionFind<I>& sets, Run run = {}) {
  std::vector<int64_t> out(static_cast<size_t>(sets.size()), -1);
  const int64_t components = sets.labels(vector_view(out.data(), sets.size()), run);
  CHECK(components == sets.count(run));
  CHECK(components == (out.empty() ? 0 : 1 + *std::max_element(out.begin(), out.end())));
  return out;
}

template <class I>
void against_search() {
  std::mt19937_64 random(1);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const auto n = static_cast<int64_t>(random() % 80);
    const Edges edges = random_edges(random, n, static_cast<int64_t>(random() % 100));
    const std::vector<int64_t> expected = searched(n, edges);
    UnionFind<I> sets(n);
    int64_t joined = 0;
    for (auto [a, b] : edges) joined += sets.unite(static_cast<I>(a), static_cast<I>(b));
    CHECK(labels(sets) == expected);
    CHECK(sets.count() == n - joined);
    for (int64_t i = 0; i < n; ++i) {
      const auto label = expected[static_cast<size_t>(i)];
      const int64_t lowest = std::find(expected.begin(), expected.end(), label) - expected.begin();
      CHECK(sets.find(static_cast<I>(i)) == static_cast<I>(lowest));
      const auto other = static_cast<int64_t>(random() % static_cast<uint64_t>(n));
      const bool together = label == expected[static_cast<size_t>(other)];
      CHECK(sets.same(static_cast<I>(i), static_cast<I>(other)) == together);
      CHECK(sets.same_shared(static_cast<I>(i), static_cast<I>(other)) == together);
    }
  }
}

}  // namespace

TEST("union-find: components, roots and labels as a search finds them") {
  against_search<int32_t>();
  against_search<int64_t>();
}

TEST("union-find: concurrent unions give what one thread gives") {
  std::mt19937_64 random(2);
  // Many small components, a giant one with dust, nearly connected.
  for (int64_t m : {10'000, 30'000, 200'000}) {
    const int64_t n = 50'000;
    const Edges edges = random_edges(random, n, m);
    UnionFind<int32_t> plain(n);
    for (auto [a, b] : edges) plain.unite(static_cast<int32_t>(a), static_cast<int32_t>(b));
    const std::vector<int64_t> expected = labels(plain);
    CHECK(expected == searched(n, edges));
    for (int threads : {1, 2, 3, 8}) {
      UnionFind<int32_t> shared(n);
      std::atomic<int64_t> joined{0};
      for_chunks(m, 500, Run{threads}, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; ++e) {
          const auto [a, b] = edges[static_cast<size_t>(e)];
          joined += shared.unite_shared(static_cast<int32_t>(a), static_cast<int32_t>(b));
          CHECK(shared.same_shared(static_cast<int32_t>(a), static_cast<int32_t>(b)));
        }
      });
      CHECK(labels(shared, Run{threads}) == expected);
      CHECK(joined == n - shared.count());
      for (int32_t i = 0; i < n; ++i) CHECK(shared.find(i) == plain.find(i));
    }
  }
}

TEST("union-find: threads that fight over one star") {
  const int64_t n = 30'000;
  for (int threads : {2, 3, 8})
    for (int64_t times : {1, 4}) {  // how often every union is requested
      UnionFind<int64_t> sets(n);
      std::atomic<int64_t> joined{0};
      // Downward, so that the root keeps moving and all threads want to link the same one.
      for_chunks(times * n, 1, Run{threads},
                 [&](int64_t, int64_t e, int64_t) { joined += sets.unite_shared(n - 1, n - 1 - e % n); });
      CHECK(joined == n - 1);
      CHECK(sets.count() == 1);
      for (int64_t i = 0; i < n; ++i) CHECK(sets.find(i) == 0);
    }
}

TEST("union-find: a chain of a million, from either end") {
  const int64_t n = 1'000'000;
  for (bool upward : {true, false}) {
    UnionFind<int32_t> sets(n);
    for (int64_t i = 0; i + 1 < n; ++i) {
      const auto a = static_cast<int32_t>(upward ? i : n - 2 - i);
      sets.unite(a, a + 1);
    }
    CHECK(sets.find(static_cast<int32_t>(n - 1)) == 0);
    CHECK(labels(sets, Run{2}) == std::vector<int64_t>(static_cast<size_t>(n), 0));
  }
}

TEST("union-find: labels go into any view, and nothing into none") {
  UnionFind<int32_t> sets(4);
  sets.unite(3, 1);
  std::vector<int32_t> wide(8, -1);
  CHECK(sets.labels(View<int32_t, 1>{wide.data(), {4}, {2}}) == 3);
  CHECK(wide == (std::vector<int32_t>{0, -1, 1, -1, 2, -1, 1, -1}));
  UnionFind<int64_t> none(0);
  CHECK(none.count() == 0 && labels(none).empty());
  CHECK_THROWS(std::length_error, UnionFind<int32_t>(int64_t{1} << 40));
  CHECK_THROWS(std::length_error, UnionFind<int64_t>(-1));
}
