#include "tree/selection.hpp"

#include <algorithm>
#include <utility>

#include "common/large_array.hpp"
#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kGrain = 1 << 14;
constexpr int64_t kRangesAtOnce = 64;
constexpr int64_t kLongest = 1 << 15;  // of a range that one thread sorts

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Sorts every range, long ones by several threads: halves of a range are separated by their median, level by level.
template <class T>
void sort_ranges(T* values, std::vector<Range> ranges, Run run) {
  std::vector<Range> whole;
  while (!ranges.empty()) {
    std::vector<Range> large;
    for (const Range& range : ranges) (range.size() > kLongest ? large : whole).push_back(range);
    for_chunks(static_cast<int64_t>(large.size()), 1, run, [&](int64_t, int64_t i, int64_t) {
      run.poll();
      const auto [begin, end] = large[static_cast<size_t>(i)];
      std::nth_element(values + begin, values + (begin + end) / 2, values + end);
    });
    ranges.clear();
    for (const auto& [begin, end] : large) {
      ranges.push_back({begin, (begin + end) / 2});
      ranges.push_back({(begin + end) / 2, end});
    }
  }
  for_chunks(static_cast<int64_t>(whole.size()), kRangesAtOnce, run, [&](int64_t, int64_t first, int64_t last) {
    run.poll();
    for (int64_t i = first; i < last; ++i) {
      const auto [begin, end] = whole[static_cast<size_t>(i)];
      std::sort(values + begin, values + end);
    }
  });
}

// T: what is sorted of a row; term(i) makes it, value(term) is added.
template <class T, class Term, class Value>
void sums_of_terms(View<const int64_t, 1> cluster, View<double, 1> sums, Run run, Term&& term, Value&& value) {
  const int64_t n = cluster.shape[0], count = sums.shape[0];
  std::vector<Range> ranges(static_cast<size_t>(count));
  for (int64_t i = 0; i < n; ++i) ++ranges[static_cast<size_t>(cluster(i))].end;
  int64_t begin = 0;
  for (auto& range : ranges) range.begin = std::exchange(begin, begin + range.end), range.end = range.begin;
  const auto terms = make_large_array<T>(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    if (i % kGrain == 0) run.poll();
    terms[static_cast<size_t>(ranges[static_cast<size_t>(cluster(i))].end++)] = term(i);
  }
  sort_ranges(terms.get(), ranges, run);
  for_chunks(count, kRangesAtOnce, run, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const auto [from, to] = ranges[static_cast<size_t>(c)];
      double sum = 0;
      for (int64_t i = from; i < to; ++i) sum += value(terms[static_cast<size_t>(i)]);
      sums(c) = sum;
    }
  });
}

}  // namespace

void level_sums(View<const int64_t, 1> cluster, View<const double, 1> height, View<const double, 1> weights,
                double least, View<double, 1> sums, Run run) {
  const auto level = [&](int64_t i) { return 1.0 / std::max(height(i), least); };
  if (weights.empty()) return sums_of_terms<double>(cluster, sums, run, level, [](double x) { return x; });
  struct Weighted {
    double level, weight;
    bool operator<(const Weighted& other) const {
      return level < other.level || (level == other.level && weight < other.weight);
    }
  };
  sums_of_terms<Weighted>(
      cluster, sums, run, [&](int64_t i) { return Weighted{level(i), weights(i)}; },
      [](const Weighted& x) { return x.weight * x.level; });
}

// best[c] is the largest total of a selection in the subtree of c. Children come after their parents.
void excess_of_mass(View<const int64_t, 1> parent, View<const double, 1> stability, View<const double, 1> weight,
                    double most, bool single, uint8_t* chosen) {
  const int64_t count = parent.shape[0];
  std::vector<double> below(static_cast<size_t>(count));  // Σ best of the children
  for (int64_t c = count; c-- > 0;) {
    const double inside = below[static_cast<size_t>(c)];
    const bool taken = (c > 0 || single) && weight(c) <= most && inside <= stability(c);
    chosen[c] = static_cast<uint8_t>(taken);
    if (c > 0) below[static_cast<size_t>(parent(c))] += taken ? stability(c) : inside;
  }
  std::vector<uint8_t> covered(static_cast<size_t>(count));  // inside of a chosen cluster
  for (int64_t c = 1; c < count; ++c) {
    const auto up = static_cast<size_t>(parent(c));
    covered[static_cast<size_t>(c)] = covered[up] | chosen[up];
    chosen[c] &= static_cast<uint8_t>(covered[static_cast<size_t>(c)] ^ 1);
  }
}

void enclosing(View<const int64_t, 1> parent, const uint8_t* chosen, View<int64_t, 1> around) {
  for (int64_t c = 0; c < parent.shape[0]; ++c) {
    const int64_t outer = c > 0 ? around(parent(c)) : -1;
    around(c) = outer >= 0 ? outer : chosen[c] != 0 ? c : -1;
  }
}

std::vector<int64_t> number_by_rows(View<const int64_t, 1> cluster, View<const int64_t, 1> around,
                                    View<int64_t, 1> labels, Run run) {
  const int64_t n = cluster.shape[0], count = around.shape[0];
  // Clusters in the order of their first rows: every row that comes before the first of a cluster has a lower number.
  std::vector<int64_t> number(static_cast<size_t>(count), -1), found;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = around(cluster(i));
    if (c < 0 || number[static_cast<size_t>(c)] >= 0) continue;
    number[static_cast<size_t>(c)] = static_cast<int64_t>(found.size());
    found.push_back(c);
  }
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = around(cluster(i));
      labels(i) = c < 0 ? -1 : number[static_cast<size_t>(c)];
    }
  });
  return found;
}

}  // namespace knoll
