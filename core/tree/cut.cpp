#include "tree/cut.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <vector>

#include "common/parallel.hpp"
#include "neighbors/row_order.hpp"

namespace knoll {
namespace {

constexpr int64_t kGrain = 1 << 14;

// A set of rows, one bit each, so that it stays in the second cache level: n/8 bytes.
class RowSet {
 public:
  explicit RowSet(int64_t n) : words_(static_cast<size_t>(chunk_count(n, 64)) + 1) {}

  void add(int64_t row) { words_[static_cast<size_t>(row / 64)] |= uint64_t{1} << row % 64; }
  bool has(int64_t row) const { return (words_[static_cast<size_t>(row / 64)] >> row % 64 & 1) != 0; }
  void set_word(int64_t word, uint64_t bits) { words_[static_cast<size_t>(word)] = bits; }

  // How many rows of the set come before a row, once they have been counted.
  void count() {
    before_.resize(words_.size());
    int64_t total = 0;
    for (size_t w = 0; w < words_.size(); ++w) {
      before_[w] = static_cast<int32_t>(total);
      total += std::popcount(words_[w]);
    }
  }
  int64_t rank(int64_t row) const {
    const uint64_t lower = words_[static_cast<size_t>(row / 64)] & ((uint64_t{1} << row % 64) - 1);
    return before_[static_cast<size_t>(row / 64)] + std::popcount(lower);
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<int32_t> before_;
};

// The components at eps: intervals of the order between bars > eps, without rows that are not core. A row with c > eps
// is alone at eps, since its bars are at least c: only an interval of one row may be none.
class Intervals {
 public:
  Intervals(View<const int64_t, 1> order, View<const double, 1> bars, View<const double, 1> core, double eps)
      : order_(order), bars_(bars), core_(core), eps_(eps), n_(order.shape[0]) {}

  // each(begin) for those that begin in [from, to).
  template <class Each>
  void for_begins(int64_t from, int64_t to, Each&& each) const {
    for (int64_t i = from; i < to; ++i)
      if ((i == 0 || bars_(i) > eps_) && (goes_on(i + 1) || core_(order_(i)) <= eps_)) each(i);
  }
  // Whether row i of the order is in the interval of the one before it.
  bool goes_on(int64_t i) const { return i < n_ && !(bars_(i) > eps_); }

 private:
  View<const int64_t, 1> order_;
  View<const double, 1> bars_, core_;
  double eps_;
  int64_t n_;
};

}  // namespace

// Components are numbered by their lowest rows, so the number of one is the rank of its lowest row among all of them.
int64_t cut_tree(View<const int64_t, 1> order, View<const double, 1> bars, View<const double, 1> core, double eps,
                 View<int64_t, 1> labels, Run run) {
  const int64_t n = order.shape[0], chunks = chunk_count(n, kGrain);
  const Intervals intervals(order, bars, core, eps);
  // The lowest rows of the intervals that begin in a chunk, as far as they lie in it, and that of the rows before them,
  // which go on an interval of an earlier chunk.
  std::vector<std::vector<int64_t>> lowest(static_cast<size_t>(chunks));
  std::vector<int64_t> before(static_cast<size_t>(chunks), n);
  for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t from, int64_t to) {
    const auto least_from = [&](int64_t i, int64_t least) {
      for (; i < to && intervals.goes_on(i); ++i) least = std::min(least, order(i));
      return least;
    };
    for (int64_t i = from; i < to; ++i) labels(i) = -1;
    if (from > 0) before[static_cast<size_t>(chunk)] = least_from(from, n);
    intervals.for_begins(from, to, [&](int64_t begin) {
      lowest[static_cast<size_t>(chunk)].push_back(least_from(begin + 1, order(begin)));
    });
  });
  // Across chunks: only the last interval of a chunk goes on in the next one, which may have no other.
  int64_t* last = nullptr;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto at = static_cast<size_t>(chunk);
    if (last != nullptr && before[at] < n) *last = std::min(*last, before[at]);
    if (!lowest[at].empty()) last = &lowest[at].back();
  }
  RowSet firsts(n);
  int64_t components = 0;
  for (const auto& rows : lowest) {
    for (const int64_t row : rows) firsts.add(row);
    components += static_cast<int64_t>(rows.size());
  }
  firsts.count();
  last = nullptr;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto at = static_cast<size_t>(chunk);
    if (last != nullptr) before[at] = *last;
    if (!lowest[at].empty()) last = &lowest[at].back();
  }
  for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t from, int64_t to) {
    const auto fill = [&](int64_t i, int64_t row) {
      const int64_t label = firsts.rank(row);
      do labels(order(i)) = label;
      while (++i < to && intervals.goes_on(i));
    };
    if (from > 0 && intervals.goes_on(from)) fill(from, before[static_cast<size_t>(chunk)]);
    const int64_t* row = lowest[static_cast<size_t>(chunk)].data();
    intervals.for_begins(from, to, [&](int64_t begin) { fill(begin, *row++); });
  });
  return components;
}

template <class T>
void attach_borders(View<const T, 2> x, View<const int32_t, 2> near, View<const double, 1> core, double eps,
                    const Metric& metric, View<int64_t, 1> labels, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  RowSet cores(n);
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {  // whole words: kGrain is a multiple of 64
    for (int64_t row = begin; row < end; row += 64) {
      uint64_t bits = 0;
      for (int64_t i = row; i < std::min(row + 64, end); ++i) bits |= uint64_t{core(i) <= eps} << (i - row);
      cores.set_word(row / 64, bits);
    }
  });
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> here(static_cast<size_t>(d)), there(static_cast<size_t>(d));
    const auto copy = [&](int64_t row, std::vector<double>& out) {
      for (int64_t j = 0; j < d; ++j) out[static_cast<size_t>(j)] = static_cast<double>(x(row, j)) + 0.0;
    };
    for (int64_t row = begin; row < end; ++row) {
      if (cores.has(row)) continue;
      int64_t closest = -1;
      double least = eps;
      for (int64_t rank = 0; rank < near.shape[1]; ++rank) {
        const int64_t other = near(row, rank);
        if (other < 0 || other >= n) throw std::invalid_argument("near must be rows");
        if (!cores.has(other)) continue;
        if (closest < 0) copy(row, here);
        copy(other, there);
        const double distance = metric.distance(here.data(), there.data());
        if (distance > least) break;  // the later ones are no nearer
        if (closest < 0 || distance < least || row_before(x, other, closest)) closest = other;
        least = distance;
      }
      labels(row) = closest < 0 ? -1 : labels(closest);
    }
  });
}

template void attach_borders(View<const double, 2>, View<const int32_t, 2>, View<const double, 1>, double,
                             const Metric&, View<int64_t, 1>, Run);
template void attach_borders(View<const float, 2>, View<const int32_t, 2>, View<const double, 1>, double, const Metric&,
                             View<int64_t, 1>, Run);

}  // namespace knoll
