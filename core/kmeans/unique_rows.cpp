// Unique rows: hash each row's contents, sort by the hash, compare the contents only where hashes are equal.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "common/radix_sort.hpp"
#include "kmeans/seeding_rows.hpp"

namespace knoll {
namespace {

constexpr int64_t kRowsAtOnce = 1 << 14;
constexpr int64_t kSign = std::numeric_limits<int64_t>::min();
constexpr int kDropped = 29;     // bits that a float64 has beyond the 24 of a float32
constexpr int64_t kFaint = 100;  // entries below 2^−100 of the largest: float32 may have rounded them to a few bits

// The bits of |x| with an exponent that continues below the smallest normal number, so that for every x ≠ 0
// magnitude(2^s·x) = magnitude(x) + s·2^52, as long as 2^s·x is exact.
int64_t magnitude(double x) {
  const auto bits = static_cast<int64_t>(std::bit_cast<uint64_t>(x) & ~static_cast<uint64_t>(kSign));
  if (bits >> 52 != 0 || bits == 0) return bits;
  const int shift = std::countl_zero(static_cast<uint64_t>(bits)) - 11;  // to where a hidden bit would stand
  return (bits << shift) - (int64_t{shift} << 52);
}

// The order of rows is determined by the 24 leading bits of |x|, rounded as a conversion to float32 does, with an
// unbounded exponent. So a float64 table and its float32 copy have one order.
int64_t leading(double x) {
  const int64_t bits = magnitude(x), odd = bits >> kDropped & 1;
  // Round half to even: adding half a unit minus one, plus the bit that is kept last.
  return (bits + (int64_t{1} << (kDropped - 1)) - 1 + odd) >> kDropped << kDropped;
}

// Steele, Lea and Flood's finaliser ("Fast splittable pseudorandom number generators", 2014).
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The random constants of a column.
struct Column {
  explicit Column(int64_t j = 0)
      : add(mix(static_cast<uint64_t>(2 * j + 1) * 0x9e3779b97f4a7c15)),
        times(mix(static_cast<uint64_t>(2 * j + 2) * 0x9e3779b97f4a7c15) | 1) {}
  uint64_t add, times;
};

// What a value ≠ 0 of this sign and magnitude adds to a row's hash in a column.
uint64_t hash_entry(double x, int64_t magnitude, Column column) {
  __extension__ typedef unsigned __int128 Wide;
  const uint64_t bits = static_cast<uint64_t>(magnitude) ^ (std::bit_cast<uint64_t>(x) & static_cast<uint64_t>(kSign));
  // Sums of such products over the columns do not depend on their order: sparse rows hash like dense ones.
  const Wide product = static_cast<Wide>(bits ^ column.add) * column.times;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The constants of all columns, tabulated for the first ones.
class Columns {
 public:
  explicit Columns(int64_t d) {
    for (int64_t j = 0; j < std::min<int64_t>(d, 4096); ++j) table_.emplace_back(j);
  }
  Column operator[](int64_t j) const {
    return j < static_cast<int64_t>(table_.size()) ? table_[static_cast<size_t>(j)] : Column(j);
  }

 private:
  std::vector<Column> table_;
};

// An entry ≠ 0 of the first row.
struct Entry {
  int64_t column;
  double value;

  bool equals(double x) const {
    return x == value || (std::signbit(x) == std::signbit(value) && x != 0 && leading(x) == leading(value));
  }
};

// Removes the entries (columns rising) that row i does not have as well.
template <class T>
void keep_equal(const View<const T, 2>& x, int64_t i, std::vector<Entry>& entries) {
  std::erase_if(entries, [&](const Entry& e) { return !e.equals(static_cast<double>(x(i, e.column))); });
}
template <class T, class I>
void keep_equal(const SparseRows<T, I>& x, int64_t i, std::vector<Entry>& entries) {
  int64_t at = x.indptr(i);
  const int64_t end = x.indptr(i + 1);
  std::erase_if(entries, [&](const Entry& e) {
    while (at < end && static_cast<int64_t>(x.indices(at)) < e.column) ++at;
    return at == end || static_cast<int64_t>(x.indices(at)) != e.column || !e.equals(static_cast<double>(x.data(at)));
  });
}

// Marks the columns in which all rows have one value ≠ 0; empty if there is none, which a few rows show for most data.
// Such columns do not change distances, so they must not change the order: it is the same without them.
template <class Points>
std::vector<uint8_t> constant_columns(const Points& x, const int64_t* rows, int64_t n, Run run) {
  std::vector<Entry> kept;
  if (n > 0)
    for_entries(x, rows[0], [&](int64_t j, double value) {
      if (value != 0) kept.push_back({j, value});
    });
  for (int64_t i = 1; i < n && !kept.empty(); ++i) {
    if (i % kRowsAtOnce == 0) run.poll();
    keep_equal(x, rows[i], kept);
  }
  std::vector<uint8_t> marks(kept.empty() ? 0 : static_cast<size_t>(x.shape[1]), 0);
  for (const Entry& e : kept) marks[static_cast<size_t>(e.column)] = 1;
  return marks;
}

// The hash of a row's contents. Zeros do not contribute, so that sparse rows hash like dense ones; nor do constant
// columns and, where hashes define an order, entries below 2^−kFaint of the largest. Exponents are relative to that of
// the largest entry, so that scaling by a power of two changes nothing.
template <class Points>
class RowHash {
 public:
  // `ordering`: by leading bits, for an order; else by all bits, for finding equal rows.
  RowHash(const Points& x, const int64_t* rows, int64_t n, bool ordering, Run run)
      : x_(x), columns_(x.shape[1]), ordering_(ordering) {
    if (ordering) constant_ = constant_columns(x, rows, n, run);
    const double largest = reduce_chunks<double>(
        n, kRowsAtOnce,
        [&](int64_t, int64_t begin, int64_t end) {
          double most = 0.0;
          for (int64_t i = begin; i < end; ++i)
            for_entries(x, rows[i], [&](int64_t j, double value) {
              if (counts(j)) most = std::max(most, std::fabs(value));
            });
          return most;
        },
        [](double& total, double chunk) { total = std::max(total, chunk); }, run);
    // The exponent field alone: relative magnitudes are unchanged by a power of two.
    one_ = (ordering ? leading(largest) : magnitude(largest)) >> 52 << 52;
  }

  uint32_t operator()(int64_t row) const {
    uint64_t hash = 0;
    for_entries(x_, row, [&](int64_t j, double value) {
      if (value == 0 || !counts(j)) return;
      const int64_t entry = ordering_ ? leading(value) : magnitude(value);
      if (ordering_ && entry < one_ - (kFaint << 52)) return;
      // The difference leaves int64 where subnormal numbers stand beside the largest: any word will do to find equals.
      const auto relative = static_cast<int64_t>(static_cast<uint64_t>(entry) - static_cast<uint64_t>(one_));
      hash += hash_entry(value, relative, columns_[j]);
    });
    return static_cast<uint32_t>(mix(hash) >> 32);
  }

 private:
  bool counts(int64_t j) const { return constant_.empty() || constant_[static_cast<size_t>(j)] == 0; }

  const Points& x_;
  Columns columns_;
  bool ordering_;
  std::vector<uint8_t> constant_;  // (d), or empty
  int64_t one_ = 0;
};

// first[p] = whether the contents of sorted row p differ from those before; rows of one hash but of several contents
// are sorted by content. A chunk handles the runs of equal hashes that begin in it.
template <class Points>
void mark_first(const Points& x, const uint32_t* hashes, int64_t* rows, int64_t n, uint8_t* first, Run run) {
  for_chunks(n, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    int64_t i = begin;
    while (i < end && i > 0 && hashes[i] == hashes[i - 1]) ++i;  // belongs to the previous chunk
    while (i < end) {
      int64_t stop = i + 1;
      bool alike = true;
      // Rows of one hash are nearly always equal: comparing each with the first is then enough, and nothing is sorted.
      for (; stop < n && hashes[stop] == hashes[i]; ++stop) alike = alike && compare_rows(x, rows[i], rows[stop]) == 0;
      if (!alike)
        std::sort(rows + i, rows + stop, [&](int64_t a, int64_t b) {
          const int sign = compare_rows(x, a, b);
          return sign != 0 ? sign < 0 : a < b;
        });
      for (int64_t p = i; p < stop; ++p) first[p] = p == i || (!alike && compare_rows(x, rows[p - 1], rows[p]) != 0);
      i = stop;
    }
  });
}

// Renumbers the m groups by first appearance. `which` (n) holds the group of each row, −1 for none; `rows` their first
// rows.
void by_appearance(int64_t n, int64_t m, int64_t* rows, double* total, int64_t* which) {
  std::vector<int64_t> rank(static_cast<size_t>(m), -1);
  std::vector<double> sums(total, total + m);
  int64_t next = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (which[i] < 0) continue;
    int64_t& number = rank[static_cast<size_t>(which[i])];
    if (number < 0) {
      total[next] = sums[static_cast<size_t>(which[i])];
      rows[next] = i;
      number = next++;
    }
    which[i] = number;
  }
}

double sum_of(View<const double, 1> weights, const int64_t* rows, int64_t count) {
  if (weights.empty()) return static_cast<double>(count);
  if (count == 1) return weights(rows[0]);
  if (count == 2) return weights(rows[0]) + weights(rows[1]);  // one addition rounds once
  ExactSum sum;
  for (int64_t i = 0; i < count; ++i) sum.add(weights(rows[i]));
  return sum.round();
}

}  // namespace

template <class Points>
int64_t unique_rows(const Points& x, View<const double, 1> weights, int64_t* rows, double* total, int64_t* which,
                    Run run) {
  if (which != nullptr) std::fill(which, which + x.shape[0], -1);
  int64_t n = 0;
  for (int64_t i = 0; i < x.shape[0]; ++i)
    if (weights.empty() || weights(i) > 0) rows[n++] = i;

  const auto hashes = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(n));
  const RowHash<Points> hash(x, rows, n, which == nullptr, run);
  for_chunks(n, kRowsAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) hashes[static_cast<size_t>(i)] = hash(rows[i]);
  });
  radix_sort(hashes.get(), rows, n, run);

  const auto first = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(n));
  mark_first(x, hashes.get(), rows, n, first.get(), run);
  int64_t m = 0;
  for (int64_t i = 0, next = 1; i < n; i = next++) {
    while (next < n && first[static_cast<size_t>(next)] == 0) ++next;
    if ((m & 0xfffff) == 0) run.poll();
    total[m] = sum_of(weights, rows + i, next - i);
    if (which != nullptr)
      for (int64_t p = i; p < next; ++p) which[rows[p]] = m;
    rows[m++] = rows[i];
  }
  if (which != nullptr) by_appearance(x.shape[0], m, rows, total, which);
  return m;
}

#define KNOLL_UNIQUE(Points) \
  template int64_t unique_rows(const Points&, View<const double, 1>, int64_t*, double*, int64_t*, Run);
KNOLL_FOR_POINTS(KNOLL_UNIQUE)
#undef KNOLL_UNIQUE

}  // namespace knoll
