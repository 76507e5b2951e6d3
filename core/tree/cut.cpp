#include "tree/cut.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

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

// The components at eps are the intervals of the order between bars > eps. Bars are at least the core distances of both
// rows beside them, so every row of an interval of two or more is core, and one alone is a cluster iff it is core.
//
// A chunk has the pieces of clusters that lie in it. Its first one goes on the last one of the chunk before where the
// bar between them is not above eps; then both have the same lowest row in the end.
class Pieces {
 public:
  Pieces(View<const int64_t, 1> order, View<const double, 1> bars, View<const double, 1> core, double eps,
         View<int64_t, 1> labels, Run run)
      : order_(order), bars_(bars), eps_(eps), n_(order.shape[0]), chunks_(chunk_count(n_, kCutGrain)) {
    std::atomic<int64_t> alone = 0;  // core rows less those in pieces
    for_chunks(n_, kCutGrain, run, [&](int64_t chunk, int64_t from, int64_t to) {
      int64_t cores = 0;
      for (int64_t row = from; row < to; ++row) labels(row) = -1;
      for (int64_t row = from; row < to; ++row) cores += core(row) <= eps;
      auto& pieces = chunks_[static_cast<size_t>(chunk)].pieces;
      find(from, to, pieces);
      for (auto& each : pieces) each.lowest = lowest_of(each), cores -= each.end - each.begin;
      alone.fetch_add(cores, std::memory_order_relaxed);
    });
    join_chunks();
    if (alone != 0) find_single_rows(core, labels, run);
  }

  // Numbers the clusters by their lowest rows and labels their rows; returns how many there are.
  int64_t label(View<int64_t, 1> labels, Run run) {
    RowSet firsts(n_);
    for_chunks(n_, kCutGrain, run, [&](int64_t chunk, int64_t, int64_t) {
      for (const auto& piece : chunks_[static_cast<size_t>(chunk)].pieces) firsts.add(piece.lowest);
      for (const int32_t row : chunks_[static_cast<size_t>(chunk)].single) firsts.add(row);
    });
    const int64_t clusters = firsts.count();
    for_chunks(n_, kCutGrain, run, [&](int64_t chunk, int64_t, int64_t) {
      for (const auto& piece : chunks_[static_cast<size_t>(chunk)].pieces)
        write(piece, firsts.rank(piece.lowest), labels);
      for (const int32_t row : chunks_[static_cast<size_t>(chunk)].single) labels(row) = firsts.rank(row);
    });
    return clusters;
  }

 private:
  static constexpr int64_t kCutGrain = 1 << 13;

  struct Piece {
    int32_t begin, end;  // positions in the order; there are fewer than 2³¹
    int32_t lowest;      // row
  };
  static Piece piece(int64_t begin, int64_t end) { return {static_cast<int32_t>(begin), static_cast<int32_t>(end), 0}; }

  // One bit for each of 64 positions: whether an interval starts there. Past the last row all do.
  uint64_t starts_at(int64_t word) const {
    const int64_t first = word * 64, count = std::clamp<int64_t>(n_ - first, 0, 64);
    uint64_t bits = count < 64 ? ~uint64_t{0} << count : 0;
    const auto heights = bars_;
    for (int64_t i = 0; i < count; ++i) bits |= uint64_t{heights(first + i) > eps_} << i;
    return word == 0 ? bits | 1 : bits;
  }

  // The pieces of two or more rows, and one row that goes on in another chunk. A piece opens at a start whose next row
  // is none, and closes at a start whose row before is none.
  void find(int64_t from, int64_t to, std::vector<Piece>& pieces) const {
    int64_t begin = from;
    uint64_t bits = starts_at(from / 64);
    bool open = (bits & 1) == 0,
         before = true;  // before: whether the row before starts an interval; none closes at from
    for (int64_t word = from / 64; word * 64 < to; ++word) {
      const uint64_t after = starts_at(word + 1);
      const uint64_t opens = bits & ~(bits >> 1 | after << 63), closes = bits & ~(bits << 1 | uint64_t{before});
      for (uint64_t events = opens | closes; events != 0; events &= events - 1) {
        const int64_t i = word * 64 + std::countr_zero(events);
        if (open) pieces.push_back(piece(begin, i));
        open = (opens & events & -events) != 0, begin = i;
      }
      before = bits >> 63 != 0, bits = after;
    }
    if (open) pieces.push_back(piece(begin, to));
  }

  int32_t lowest_of(const Piece& of) const {
    int64_t least = order_(of.begin), signs = 0;
    const int64_t last = n_ - 1;
    for (int64_t i = of.begin; i < of.end; ++i) {
      const int64_t row = order_(i);
      least = std::min(least, row);
      // Negative where row is not in 0 … n − 1; without a sign, since last − row may leave int64.
      signs |= row | static_cast<int64_t>(static_cast<uint64_t>(last) - static_cast<uint64_t>(row));
    }
    if (signs < 0) throw std::invalid_argument("order must be rows");
    return static_cast<int32_t>(least);
  }

  void write(const Piece& piece, int64_t number, View<int64_t, 1> labels) const {
    const auto rows = order_;  // a copy: a label that is written might be a member, as far as the compiler knows
    for (int64_t i = piece.begin; i < piece.end; ++i) labels(rows(i)) = number;
  }

  // Core rows that no piece has: each is a cluster. They are few, and found by rows, which lie one after the other.
  void find_single_rows(View<const double, 1> core, View<int64_t, 1> labels, Run run) {
    for_chunks(n_, kCutGrain, run, [&](int64_t chunk, int64_t, int64_t) {
      for (const auto& piece : chunks_[static_cast<size_t>(chunk)].pieces) write(piece, 0, labels);
    });
    for_chunks(n_, kCutGrain, run, [&](int64_t chunk, int64_t from, int64_t to) {
      auto& single = chunks_[static_cast<size_t>(chunk)].single;
      for (int64_t first = from; first < to; first += 64) {
        uint64_t found = 0;  // without a branch: one row in two may be core, in any order
        for (int64_t row = first; row < std::min(first + 64, to); ++row)
          found |= (uint64_t{core(row) <= eps_} & uint64_t{labels(row) < 0}) << (row - first);
        for (; found != 0; found &= found - 1) single.push_back(static_cast<int32_t>(first + std::countr_zero(found)));
      }
    });
  }

  // Forwards the least so far of a cluster that goes on, backwards the least of all of it.
  void join_chunks() {
    const auto goes_on = [&](size_t chunk) { return !(bars_(static_cast<int64_t>(chunk) * kCutGrain) > eps_); };
    for (size_t chunk = 1; chunk < chunks_.size(); ++chunk)
      if (goes_on(chunk)) {
        auto& first = chunks_[chunk].pieces.front();
        first.lowest = std::min(first.lowest, chunks_[chunk - 1].pieces.back().lowest);
      }
    for (size_t chunk = chunks_.size(); chunk-- > 1;)
      if (goes_on(chunk)) chunks_[chunk - 1].pieces.back().lowest = chunks_[chunk].pieces.front().lowest;
  }

  View<const int64_t, 1> order_;
  View<const double, 1> bars_;
  double eps_;
  int64_t n_;
  struct Chunk {
    std::vector<Piece> pieces;    // of the positions of the chunk
    std::vector<int32_t> single;  // of its rows
  };
  std::vector<Chunk> chunks_;
};

}  // namespace

// Clusters are numbered by their lowest rows, so the number of one is the rank of its lowest row among all of them.
int64_t cut_tree(View<const int64_t, 1> order, View<const double, 1> bars, View<const double, 1> core, double eps,
                 View<int64_t, 1> labels, Run run) {
  if (order.shape[0] == 0) return 0;
  return Pieces(order, bars, core, eps, labels, run).label(labels, run);
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
