#include "tree/selection.hpp"

#include <algorithm>
#include <utility>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "neighbors/row_order.hpp"

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

// Empty ranges, one after the other, for the members of each group; `group` has no other numbers than 0 … count − 1.
std::vector<Range> ranges_of(View<const int64_t, 1> group, int64_t count) {
  std::vector<Range> ranges(static_cast<size_t>(count));
  for (int64_t i = 0; i < group.shape[0]; ++i) ++ranges[static_cast<size_t>(group(i))].end;
  int64_t begin = 0;
  for (auto& range : ranges) range.begin = std::exchange(begin, begin + range.end), range.end = range.begin;
  return ranges;
}

// sums(c) = Σ w v over the terms term(i) of the rows of cluster c, in ascending order.
template <class Terms>
void sum_in_order(View<const int64_t, 1> cluster, const Terms& terms_of, View<double, 1> sums, Run run) {
  using Term = typename Terms::Term;
  const int64_t n = cluster.shape[0], count = sums.shape[0];
  std::vector<Range> ranges = ranges_of(cluster, count);
  const auto terms = make_large_array<Term>(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    if (i % kGrain == 0) run.poll();
    terms[static_cast<size_t>(ranges[static_cast<size_t>(cluster(i))].end++)] = terms_of.term(i);
  }
  sort_ranges(terms.get(), ranges, run);
  for_chunks(count, kRangesAtOnce, run, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const auto [from, to] = ranges[static_cast<size_t>(c)];
      double sum = 0;
      for (int64_t i = from; i < to; ++i) sum += terms_of.product(terms[static_cast<size_t>(i)]);
      sums(c) = sum;
    }
  });
}

struct WeightedTerm {
  double value, weight;
  bool operator<(const WeightedTerm& other) const {
    return value < other.value || (value == other.value && weight < other.weight);
  }
};

// Values and weights, the weights divided by `scale`.
template <class Values>
struct WeightedTerms {
  using Term = WeightedTerm;
  Values values;
  View<const double, 1> weights;
  double scale;
  Term term(int64_t i) const { return {values(i), weights(i) / scale}; }
  double product(const Term& term) const { return term.weight * term.value; }
};

// Values of one weight: half the memory.
template <class Values>
struct EqualTerms {
  using Term = double;
  Values values;
  double weight;
  Term term(int64_t i) const { return values(i); }
  double product(Term term) const { return weight * term; }
};

}  // namespace

void ordered_sums(View<const int64_t, 1> cluster, View<const double, 1> values, View<const double, 1> weights,
                  View<double, 1> sums, Run run) {
  sum_in_order(cluster, WeightedTerms<View<const double, 1>>{values, weights, 1.0}, sums, run);
}

void stabilities(View<const int64_t, 1> cluster, View<const double, 1> heights, View<const double, 1> weights,
                 View<const double, 1> birth, LevelScale levels, double scale, View<double, 1> sums, Run run) {
  const auto stay = [=](int64_t i) { return levels.unit / std::max(heights(i), levels.least) - birth(cluster(i)); };
  if (weights.empty())
    sum_in_order(cluster, EqualTerms<decltype(stay)>{stay, 1 / scale}, sums, run);
  else
    sum_in_order(cluster, WeightedTerms<decltype(stay)>{stay, weights, scale}, sums, run);
}

template <class T>
void first_rows(View<const T, 2> x, View<const int64_t, 1> labels, View<int64_t, 1> rows) {
  for (int64_t k = 0; k < rows.shape[0]; ++k) rows(k) = -1;
  for (int64_t i = 0; i < labels.shape[0]; ++i) {
    if (labels(i) < 0) continue;
    int64_t& first = rows(labels(i));
    if (first < 0 || row_before(x, i, first)) first = i;
  }
}
template void first_rows(View<const double, 2>, View<const int64_t, 1>, View<int64_t, 1>);
template void first_rows(View<const float, 2>, View<const int64_t, 1>, View<int64_t, 1>);

// The best total of a subtree is that of the cluster itself, or of the subtrees of its children, which come after it.
void excess_of_mass(View<const int64_t, 1> parent, View<const double, 1> stability, View<const double, 1> weight,
                    double most, bool single, uint8_t* chosen) {
  const int64_t count = parent.shape[0];
  if (count == 0) return;
  std::vector<Range> ranges = ranges_of(parent.rows(1, count), count);  // of the totals of the children of each cluster
  std::vector<double> totals(static_cast<size_t>(count - 1));
  for (int64_t c = count; c-- > 0;) {
    const auto [begin, end] = ranges[static_cast<size_t>(c)];
    std::sort(totals.begin() + begin, totals.begin() + end);
    double inside = 0;
    for (int64_t i = begin; i < end; ++i) inside += totals[static_cast<size_t>(i)];
    const bool taken = (c > 0 || single) && weight(c) <= most && inside <= stability(c);
    chosen[c] = static_cast<uint8_t>(taken);
    if (c > 0)
      totals[static_cast<size_t>(ranges[static_cast<size_t>(parent(c))].end++)] = taken ? stability(c) : inside;
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
