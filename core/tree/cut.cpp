#include "tree/cut.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
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
      int64_t least = order_(from), at = 0, high = 0;
      for (int64_t i = from; i < to; ++i) {  // without a branch: intervals are short
        const int64_t row = order_(i), starts = i > from && begins(i);
        at += starts;
        least = starts ? row : std::min(least, row);
        high |= row | (n_ - 1 - row);  // the sign: not in 0 … n − 1
        out[at] = static_cast<int32_t>(least);
      }
      if (high < 0) fits = false;
      counts_[static_cast<size_t>(chunk)] = at + 1;
    });
    if (!fits) throw std::invalid_argument("order must be rows");
    join_chunks();
  }

  // each(lowest row) for the intervals of all chunks; its result, an int32, takes the place of the row.
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
      for (int64_t i = from; i < to; ++i) {
        value += i > from && begins(i);
        out(order_(i)) = *value;
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

// The border rows of 64 rows at a time: their core neighbours are fetched from memory while the others are looked for.
template <class T>
class Borders {
 public:
  Borders(View<const T, 2> x, View<const int32_t, 2> near, const RowSet& cores, const RowSet& beside, double eps,
          const Metric& metric)
      : x_(x),
        near_(near),
        cores_(cores),
        beside_(beside),
        eps_(eps),
        metric_(metric),
        here_(static_cast<size_t>(x.shape[1])),
        there_(static_cast<size_t>(x.shape[1])) {}

  void attach(int64_t word, View<int64_t, 1> labels) {
    struct Row {
      int64_t row;
      uint64_t cores;  // among the first 64 of its list
    } rows[64];
    const int64_t first = 64 * word, left = std::min<int64_t>(64, x_.shape[0] - first);
    int64_t count = 0;
    const uint64_t noise = ~cores_.word(word) & ~uint64_t{0} >> (64 - left);
    for (uint64_t others = noise; others != 0; others &= others - 1) labels(first + std::countr_zero(others)) = -1;
    for (uint64_t others = noise & beside_.word(word); others != 0; others &= others - 1) {
      const int64_t row = first + std::countr_zero(others);
      const uint64_t cores = cores_among(row, 0);
      rows[count] = {row, cores};
      count += static_cast<int64_t>(cores != 0 || near_.shape[1] > 64);
      if (cores == 0) continue;
      const int32_t nearest = near_(row, std::countr_zero(cores));
      prefetch(&x_(nearest, 0), x_.shape[1]);
      prefetch(&labels(nearest), 1);
      if (const uint64_t later = cores & (cores - 1); later != 0)
        prefetch(&x_(near_(row, std::countr_zero(later)), 0), x_.shape[1]);
    }
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t closest = closest_core(rows[i].row, rows[i].cores); closest >= 0)
        labels(rows[i].row) = labels(closest);
  }

 private:
  // A bit for each core row among the entries rank … rank + 63 of a list; without a branch for each.
  uint64_t cores_among(int64_t row, int64_t rank) const {
    const int64_t count = std::min<int64_t>(64, near_.shape[1] - rank), n = x_.shape[0];
    uint64_t bits = 0;
    bool fits = true;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t other = near_(row, rank + k);
      const bool is_row = other >= 0 && other < n;
      fits &= is_row;
      bits |= uint64_t{cores_.has(is_row ? other : 0)} << k;
    }
    if (!fits) throw std::invalid_argument("near must be rows");
    return bits;
  }

  // −1: none within eps. Lists ascend, so no row after one that is too far is nearer.
  int64_t closest_core(int64_t row, uint64_t cores) {
    copy(row, here_);
    int64_t closest = -1;
    double least = eps_;
    for (int64_t rank = 0;;) {
      for (; cores != 0; cores &= cores - 1) {
        const int64_t other = near_(row, rank + std::countr_zero(cores));
        copy(other, there_);
        const double distance = metric_.distance(here_.data(), there_.data());
        if (distance > least) return closest;
        if (closest < 0 || distance < least || row_before(x_, other, closest)) closest = other;
        least = distance;
      }
      rank += 64;
      if (rank >= near_.shape[1]) return closest;
      cores = cores_among(row, rank);
    }
  }
  void copy(int64_t row, std::vector<double>& out) const {
    for (int64_t j = 0; j < x_.shape[1]; ++j) out[static_cast<size_t>(j)] = static_cast<double>(x_(row, j)) + 0.0;
  }

  View<const T, 2> x_;
  View<const int32_t, 2> near_;
  const RowSet &cores_, &beside_;
  double eps_;
  const Metric& metric_;
  std::vector<double> here_, there_;
};

// The rows that may be within eps of a core row. By the triangle inequality they are within 2 eps of the min_samples
// rows that are within eps of it, so c ≤ 2 eps; the margin covers the rounding of distances, and there is none for
// numbers that have lost digits to underflow.
RowSet beside_cores(View<const double, 1> core, double eps, const Metric& metric, Run run) {
  const bool bounds = metric.obeys_triangles() && eps > 0x1p-900;
  return core_rows(core, bounds ? 2 * eps * (1 + 0x1p-20) : std::numeric_limits<double>::infinity(), run);
}

}  // namespace

// Labels of core rows are read and those of others written, so threads do not meet.
template <class T>
void attach_borders(View<const T, 2> x, View<const int32_t, 2> near, View<const double, 1> core, double eps,
                    const Metric& metric, View<int64_t, 1> labels, Run run) {
  const RowSet cores = core_rows(core, eps, run), beside = beside_cores(core, eps, metric, run);
  for_chunks(chunk_count(x.shape[0], 64), kGrain / 64, run, [&](int64_t, int64_t begin, int64_t end) {
    Borders<T> borders(x, near, cores, beside, eps, metric);
    for (int64_t word = begin; word < end; ++word) borders.attach(word, labels);
  });
}

template void attach_borders(View<const double, 2>, View<const int32_t, 2>, View<const double, 1>, double,
                             const Metric&, View<int64_t, 1>, Run);
template void attach_borders(View<const float, 2>, View<const int32_t, 2>, View<const double, 1>, double, const Metric&,
                             View<int64_t, 1>, Run);

}  // namespace knoll
