#include "tree/cut.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/prefetch.hpp"
#include "neighbors/row_order.hpp"

namespace knoll {
namespace {

constexpr int64_t kGrain = 1 << 14;

// A set of rows, one bit each, so that it stays in the second cache level: n/8 bytes.
class RowSet {
 public:
  explicit RowSet(int64_t n) : words_(static_cast<size_t>(chunk_count(n, 64)) + 1) {}

  // Several threads may add rows at once.
  void add(int64_t row) {
    std::atomic_ref(words_[static_cast<size_t>(row / 64)]).fetch_or(uint64_t{1} << row % 64, std::memory_order_relaxed);
  }
  bool has(int64_t row) const { return (word(row / 64) >> row % 64 & 1) != 0; }
  uint64_t word(int64_t w) const { return words_[static_cast<size_t>(w)]; }
  void set_word(int64_t w, uint64_t bits) { words_[static_cast<size_t>(w)] = bits; }

  // How many rows of the set come before a row, once they have been counted. Returns their number.
  int64_t count() {
    before_.resize(words_.size());
    int64_t total = 0;
    for (size_t w = 0; w < words_.size(); ++w) {
      before_[w] = static_cast<int32_t>(total);
      total += std::popcount(words_[w]);
    }
    return total;
  }
  int64_t rank(int64_t row) const {
    return before_[static_cast<size_t>(row / 64)] + std::popcount(word(row / 64) & ((uint64_t{1} << row % 64) - 1));
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<int32_t> before_;
};

RowSet core_rows(View<const double, 1> core, double eps, Run run) {
  RowSet cores(core.shape[0]);
  for_chunks(core.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {  // kGrain is a multiple of 64
    for (int64_t row = begin; row < end; row += 64) {
      uint64_t bits = 0;
      for (int64_t i = row; i < std::min(row + 64, end); ++i) bits |= uint64_t{core(i) <= eps} << (i - row);
      cores.set_word(row / 64, bits);
    }
  });
  return cores;
}

// The components at eps: intervals of the order between bars > eps. A row with c > eps is alone there, since its bars
// are at least c; so an interval is a cluster iff its lowest row is core.
//
// A chunk has the lowest row of each of its intervals, as far as they lie in it. Its first one goes on an interval of
// an earlier chunk unless it begins there: then both have the same lowest row in the end.
class Intervals {
 public:
  Intervals(View<const int64_t, 1> order, View<const double, 1> bars, double eps, Run run)
      : order_(order),
        bars_(bars),
        eps_(eps),
        n_(order.shape[0]),
        lowest_(make_large_array<int32_t>(static_cast<size_t>(n_))),
        counts_(static_cast<size_t>(chunk_count(n_, kGrain))) {
    std::atomic<bool> fits = true;
    for_chunks(n_, kGrain, run, [&](int64_t chunk, int64_t from, int64_t to) {
      int32_t* const out = lowest_.get() + from;
      const auto rows = order_;
      const auto heights = bars_;
      const double limit = eps_;
      const int64_t last = n_ - 1;
      // Negative where row is not in 0 … n − 1; without a sign, since last − row may leave int64.
      const auto signs = [last](int64_t row) {
        return row | static_cast<int64_t>(static_cast<uint64_t>(last) - static_cast<uint64_t>(row));
      };
      int64_t least = rows(from), at = 0, high = signs(least);
      out[0] = static_cast<int32_t>(least);
      for (int64_t i = from + 1; i < to; ++i) {  // without a branch: intervals are short
        const int64_t row = rows(i);
        const bool starts = heights(i) > limit;
        at += starts;
        least = starts ? row : std::min(least, row);
        high |= signs(row);
        out[at] = static_cast<int32_t>(least);
      }
      if (high < 0) fits = false;
      counts_[static_cast<size_t>(chunk)] = at + 1;
    });
    if (!fits) throw std::invalid_argument("order must be rows");
    join_chunks();
  }

  // each(lowest row) for the intervals of all chunks; its result, an int32, replaces the row.
  template <class Each>
  void replace(Run run, Each&& each) {
    for_chunks(n_, kGrain, run, [&](int64_t chunk, int64_t from, int64_t) {
      int32_t* const values = lowest_.get() + from;
      for (int64_t k = 0; k < counts_[static_cast<size_t>(chunk)]; ++k) values[k] = each(values[k]);
    });
  }
  // Gives every row what its interval has.
  void scatter(View<int64_t, 1> out, Run run) const {
    for_chunks(n_, kGrain, run, [&](int64_t, int64_t from, int64_t to) {
      const int32_t* value = lowest_.get() + from;
      // Copies: a label that is written might be a member, as far as the compiler knows.
      const auto rows = order_;
      const auto heights = bars_;
      const auto labels = out;
      const double limit = eps_;
      labels(rows(from)) = *value;
      for (int64_t i = from + 1; i < to; ++i) {
        value += heights(i) > limit;
        labels(rows(i)) = *value;
      }
    });
  }

 private:
  bool begins(int64_t i) const { return i == 0 || bars_(i) > eps_; }

  // Forwards the least so far of an interval that goes on, backwards the least of all of it.
  void join_chunks() {
    const auto chunks = static_cast<int64_t>(counts_.size());
    const auto first = [&](int64_t chunk) -> int32_t& { return lowest_[static_cast<size_t>(chunk * kGrain)]; };
    const auto last = [&](int64_t chunk) -> int32_t& {
      return lowest_[static_cast<size_t>(chunk * kGrain + counts_[static_cast<size_t>(chunk)] - 1)];
    };
    for (int64_t chunk = 1; chunk < chunks; ++chunk)
      if (!begins(chunk * kGrain)) first(chunk) = std::min(first(chunk), last(chunk - 1));
    for (int64_t chunk = chunks - 1; chunk > 0; --chunk)
      if (!begins(chunk * kGrain)) last(chunk - 1) = first(chunk);
  }

  View<const int64_t, 1> order_;
  View<const double, 1> bars_;
  double eps_;
  int64_t n_;
  LargeArray<int32_t> lowest_;   // (chunks, kGrain), of which a chunk has so many
  std::vector<int64_t> counts_;  // (chunks)
};

}  // namespace

// Clusters are numbered by their lowest rows, so the number of one is the rank of its lowest row among all of them.
int64_t cut_tree(View<const int64_t, 1> order, View<const double, 1> bars, View<const double, 1> core, double eps,
                 View<int64_t, 1> labels, Run run) {
  if (order.shape[0] == 0) return 0;
  const RowSet cores = core_rows(core, eps, run);
  Intervals intervals(order, bars, eps, run);
  RowSet firsts(order.shape[0]);
  intervals.replace(run, [&](int32_t row) {
    if (!cores.has(row)) return int32_t{-1};
    firsts.add(row);
    return row;
  });
  const int64_t clusters = firsts.count();
  intervals.replace(run, [&](int32_t row) { return row < 0 ? row : static_cast<int32_t>(firsts.rank(row)); });
  intervals.scatter(labels, run);
  return clusters;
}

namespace {

// Rows of the data beside each other, and their distances.
template <class T>
class Pairs {
 public:
  Pairs(View<const T, 2> x, const Metric& metric)
      : x_(x), metric_(metric), here_(static_cast<size_t>(x.shape[1])), there_(static_cast<size_t>(x.shape[1])) {}
  void start(int64_t row) { copy(row, here_); }
  double distance_to(int64_t row) {
    copy(row, there_);
    return metric_.distance(here_.data(), there_.data());
  }

 private:
  void copy(int64_t row, std::vector<double>& out) const {
    for (int64_t j = 0; j < x_.shape[1]; ++j) out[static_cast<size_t>(j)] = static_cast<double>(x_(row, j)) + 0.0;
  }
  View<const T, 2> x_;
  const Metric& metric_;
  std::vector<double> here_, there_;
};

// See border_heights, of one row. Entries of a list with c(q) ≥ c(p) are no core rows where p is none, and no entry at
// c(p) or beyond is within eps < c(p); `near` ascends.
template <class T>
double border_height(int64_t row, const int32_t* near, int64_t count, View<const double, 1> core, Pairs<T>& pairs) {
  const double own = core(row);
  double height = own, before = -1;
  bool ties = false;
  pairs.start(row);
  for (int64_t k = 0; k < count; ++k) {
    const double its = core(near[k]);
    if (its >= own) continue;
    const double distance = pairs.distance_to(near[k]);
    if (distance >= own) break;
    ties |= distance == before;
    before = distance;
    height = std::min(height, std::max(its, distance));
  }
  return ties ? -height : height;
}

}  // namespace

template <class T>
void border_heights(View<const T, 2> x, View<const int32_t, 2> near, View<const double, 1> core, const Metric& metric,
                    View<double, 1> heights, Run run) {
  constexpr int64_t kRows = 32;  // whose lists, and then whose candidates, are fetched together
  const int64_t n = x.shape[0], width = near.shape[1];
  for_chunks(chunk_count(n, kRows), kGrain / kRows, run, [&](int64_t, int64_t from, int64_t to) {
    Pairs<T> pairs(x, metric);
    std::vector<int32_t> lists(static_cast<size_t>(kRows * width));
    for (int64_t block = from; block < to; ++block) {
      const int64_t first = block * kRows, last = std::min(first + kRows, n);
      bool fits = true;
      for (int64_t row = first; row < last; ++row)
        for (int64_t k = 0; k < width; ++k) {
          const int32_t other = near(row, k);
          lists[static_cast<size_t>((row - first) * width + k)] = other;
          const bool is_row = other >= 0 && other < n;
          fits &= is_row;
          if (is_row) prefetch(&core(other), 1), prefetch(&x(other, 0), x.shape[1]);
        }
      if (!fits) throw std::invalid_argument("near must be rows");
      for (int64_t row = first; row < last; ++row)
        heights(row) = border_height(row, lists.data() + (row - first) * width, width, core, pairs);
    }
  });
}

namespace {

// The border rows of a chunk, in passes: their lists, and then the labels of their closest core rows, are fetched from
// memory while rows before them are read.
template <class T>
class Borders {
 public:
  Borders(View<const T, 2> x, View<const int32_t, 2> near, View<const double, 1> heights, const RowSet& cores,
          double eps, const Metric& metric)
      : x_(x), near_(near), heights_(heights), cores_(cores), eps_(eps), pairs_(x, metric) {}

  // Rows begin … end − 1; begin is a multiple of 64.
  void attach(int64_t begin, int64_t end, View<int64_t, 1> labels) {
    constexpr size_t kAhead = 16;
    struct Border {
      int32_t row, closest;
    };
    std::vector<Border> found;
    found.reserve(static_cast<size_t>(end - begin));
    for (int64_t first = begin; first < end; first += 64)
      for (uint64_t rows = ~cores_.word(first / 64) & attached(first, std::min(first + 64, end)); rows != 0;
           rows &= rows - 1)
        found.push_back({static_cast<int32_t>(first + std::countr_zero(rows)), 0});
    for (size_t i = 0; i < found.size(); ++i) {
      if (i + kAhead < found.size()) prefetch(&near_(found[i + kAhead].row, 0), near_.shape[1]);
      auto& [row, closest] = found[i];
      closest = static_cast<int32_t>(std::signbit(heights_(row)) ? closest_of_ties(row) : first_core(row, 0).row);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (i + kAhead < found.size()) prefetch(&labels(found[i + kAhead].closest), 1);
      labels(found[i].row) = labels(found[i].closest);
    }
  }

 private:
  struct Entry {
    int64_t rank, row;
  };

  // A bit for each row that is within eps of a row that is core at eps.
  uint64_t attached(int64_t first, int64_t last) const {
    uint64_t bits = 0;
    for (int64_t row = first; row < last; ++row) bits |= uint64_t{std::fabs(heights_(row)) <= eps_} << (row - first);
    return bits;
  }

  // The first core row of a list from an entry on; without a branch for each of 64 entries.
  Entry first_core(int64_t row, int64_t rank) const {
    const int64_t n = x_.shape[0], width = near_.shape[1];
    for (; rank < width; rank += 64) {
      uint64_t bits = 0;
      bool fits = true;
      for (int64_t k = 0; k < std::min<int64_t>(64, width - rank); ++k) {
        const int64_t other = near_(row, rank + k);
        const bool is_row = other >= 0 && other < n;
        fits &= is_row;
        bits |= uint64_t{cores_.has(is_row ? other : 0)} << k;
      }
      if (!fits) throw std::invalid_argument("near must be rows");
      if (bits == 0) continue;
      rank += std::countr_zero(bits);
      return {rank, near_(row, rank)};
    }
    return {width, row};
  }

  // Of the core rows that are as near as the first one, that of the smallest coordinates.
  int64_t closest_of_ties(int64_t row) {
    Entry entry = first_core(row, 0);
    int64_t closest = entry.row;
    pairs_.start(row);
    const double least = pairs_.distance_to(closest);
    while ((entry = first_core(row, entry.rank + 1)).rank < near_.shape[1] && pairs_.distance_to(entry.row) == least)
      if (row_before(x_, entry.row, closest)) closest = entry.row;
    return closest;
  }

  View<const T, 2> x_;
  View<const int32_t, 2> near_;
  View<const double, 1> heights_;
  const RowSet& cores_;
  double eps_;
  Pairs<T> pairs_;
};

}  // namespace

// Labels of core rows are read and those of others written, so threads do not conflict.
template <class T>
void attach_borders(View<const T, 2> x, View<const int32_t, 2> near, View<const double, 1> core,
                    View<const double, 1> heights, double eps, const Metric& metric, View<int64_t, 1> labels, Run run) {
  const RowSet cores = core_rows(core, eps, run);
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    Borders<T>(x, near, heights, cores, eps, metric).attach(begin, end, labels);
  });
}

template void border_heights(View<const double, 2>, View<const int32_t, 2>, View<const double, 1>, const Metric&,
                             View<double, 1>, Run);
template void attach_borders(View<const double, 2>, View<const int32_t, 2>, View<const double, 1>,
                             View<const double, 1>, double, const Metric&, View<int64_t, 1>, Run);
template void border_heights(View<const float, 2>, View<const int32_t, 2>, View<const double, 1>, const Metric&,
                             View<double, 1>, Run);
template void attach_borders(View<const float, 2>, View<const int32_t, 2>, View<const double, 1>, View<const double, 1>,
                             double, const Metric&, View<int64_t, 1>, Run);

}  // namespace knoll
