// The construction of the tree, and the bounds and tiles of its traversals.
#include "neighbors/kd_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "common/large_array.hpp"
#include "common/parallel.hpp"
#include "common/prefetch.hpp"
#include "common/radix_sort.hpp"
#include "common/tile.hpp"
#include "neighbors/index.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LargeArray<double> doubles(int64_t n) { return make_large_array<double>(static_cast<size_t>(n)); }

// Per coordinate, the least (0 if the intervals overlap) and the largest difference of points of two intervals.
// fl(gap) ≤ fl|x − y| ≤ fl(span), since rounding is monotone (docs/numerics/rounding.md, D3).
double gap(double low, double high, double low2, double high2) { return std::max({0.0, low2 - high, low - high2}); }
double span(double low, double high, double low2, double high2) { return std::max(high2 - low, high - low2); }

// The reduced distance over gaps or spans, in the order of the kernels: fl Σ gap² ≤ fl Σ (x−y)² ≤ fl Σ span².
template <double (*Side)(double, double, double, double)>
double bound(const Metric& metric, const double* low, const double* high, const double* box, int64_t dims,
             const Within& w) {
  double sum = 0;
  // The common case without a branch per coordinate; the other formula is Metric::add, operation by operation.
  if (metric.has_kernels() && w.reduction == kSumSquares)
    for (int64_t j = 0; j < dims; ++j) {
      const double side = Side(low[j], high[j], box[j], box[dims + j]);
      sum += side * side;
    }
  else
    for (int64_t j = 0; j < dims; ++j) sum = metric.add(sum, Side(low[j], high[j], box[j], box[dims + j]), w);
  return sum;
}

}  // namespace

template <class T>
KdTree::KdTree(View<const T, 2> x, const Metric& metric, Run run)
    : metric_(metric), n_(x.shape[0]), dims_(metric.dims()), leaves_(chunk_count(n_, kPoints)) {
  check_row_count(n_);
  const int64_t d = metric.columns();
  const auto embedded = doubles(n_ * dims_);  // (n, dims)
  std::mutex mutex;
  for_chunks(n_, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(d));
    Magnitudes magnitudes;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        row[static_cast<size_t>(j)] = static_cast<double>(x(i, j)) + 0.0;  // no −0: equal points have equal bits
        magnitudes.add(row[static_cast<size_t>(j)]);
      }
      metric.embed(row.data(), embedded.get() + i * dims_);
    }
    std::lock_guard lock(mutex);
    magnitudes_.add(magnitudes);  // extremes: the order of chunks does not matter
  });
  rows_ = make_large_array<int32_t>(static_cast<size_t>(n_));
  if (n_ == 0) return;
  make_nodes();
  tiles_ = doubles(leaves_ * dims_ * kPoints);
  boxes_ = doubles(static_cast<int64_t>(nodes_.size()) * 2 * dims_);
  cut(embedded.get(), run);
  // For angles the tree holds unit vectors; the band is decided on the data itself.
  if (metric.has_band()) {
    raw_ = doubles(n_ * d);
    for_chunks(n_, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t j = 0; j < d; ++j) raw_[static_cast<size_t>(p * d + j)] = static_cast<double>(x(row(p), j)) + 0.0;
    });
  }
  for (size_t node = nodes_.size(); node-- > 0;) {  // children come after their parents
    // The box of two children is the smallest around both, so bounds are never looser than the points allow.
    const int32_t child = nodes_[node].child;
    if (child < 0) continue;
    double* const low = boxes_.get() + static_cast<int64_t>(node) * 2 * dims_;
    const double *left = box(child), *right = box(child + 1);
    for (int64_t j = 0; j < dims_; ++j) {
      low[j] = std::min(left[j], right[j]);
      low[dims_ + j] = std::max(left[dims_ + j], right[dims_ + j]);
    }
  }
}

namespace {

// A point by its coordinate along one axis, as integers that order like it. A total order, ties by row: a set of least
// points is one set, however it is found.
struct AxisKey {
  uint64_t at, row_slot;  // row·2³² + slot: where the coordinates are

  int32_t row() const { return static_cast<int32_t>(row_slot >> 32); }
  int32_t slot() const { return static_cast<int32_t>(row_slot & 0xffffffff); }
  // Without a branch: half of the comparisons with a median are true.
  friend bool operator<(const AxisKey& a, const AxisKey& b) {
    return (static_cast<unsigned>(a.at < b.at) |
            (static_cast<unsigned>(a.at == b.at) & static_cast<unsigned>(a.row_slot < b.row_slot))) != 0;
  }
};
AxisKey axis_key(int64_t row, int64_t slot) {
  return {0, static_cast<uint64_t>(row) << 32 | static_cast<uint64_t>(slot)};
}

// A pivot for the nth of [begin, end): an order statistic of evenly spaced keys, one standard deviation to the far side
// of the nth, so that it is mostly in the smaller side.
AxisKey* choose_pivot(AxisKey* begin, const AxisKey* nth, AxisKey* end) {
  const int64_t n = end - begin, rank = nth - begin;
  const int64_t m = n > 4096 ? 63 : n > 512 ? 15 : 5, deviation = m / 15;
  AxisKey* sample[63];
  for (int64_t i = 0; i < m; ++i) sample[i] = begin + (2 * i + 1) * n / (2 * m);
  int64_t at = rank * m / n;
  at = std::clamp<int64_t>(2 * rank < n ? at + deviation : at - deviation, 0, m - 1);
  std::nth_element(sample, sample + at, sample + m, [](const AxisKey* a, const AxisKey* b) { return *a < *b; });
  return sample[at];
}

// As std::nth_element, without a branch for each key. scratch: as many keys as there are.
void select(AxisKey* begin, AxisKey* nth, AxisKey* end, AxisKey* scratch) {
  for (int round = 0; end - begin > 12; ++round) {
    if (round == 64) return std::nth_element(begin, nth, end);  // an order of the keys that defeats the samples
    std::swap(*choose_pivot(begin, nth, end), end[-1]);
    const AxisKey pivot = end[-1];
    // Every key is written to both sides, and one of the two advances. [begin, left) never passes the key just read.
    AxisKey *left = begin, *right = scratch;
    for (const AxisKey* i = begin; i < end - 1; ++i) {
      const AxisKey key = *i;
      const auto below = static_cast<int>(key < pivot);
      left->at = right->at = key.at;
      left->row_slot = right->row_slot = key.row_slot;
      left += below;
      right += 1 - below;
    }
    *left = pivot;
    std::copy(scratch, right, left + 1);
    if (left == nth) return;
    (nth < left ? end : begin) = nth < left ? left : left + 1;
  }
  std::sort(begin, end);
}

// The longest side of the box of up to 1024 evenly spaced keys, the first of equally long ones. No bound depends on it.
int64_t longest_side(const AxisKey* begin, const AxisKey* end, const double* coords, int64_t dims) {
  const int64_t n = end - begin, step = (n + 1023) / 1024;
  int64_t longest = 0;
  double length = -1;
  for (int64_t j = 0; j < dims; ++j) {
    double low = kInfinity, high = -kInfinity;
    for (int64_t i = 0; i < n; i += step) {
      const double value = coords[int64_t{begin[i].slot()} * dims + j];
      low = std::min(low, value), high = std::max(high, value);
    }
    const double side = 0.5 * high - 0.5 * low;  // cannot overflow
    if (side > length) length = side, longest = j;
  }
  return longest;
}

}  // namespace

// How many nodes there are and their leaves depend on n alone.
void KdTree::make_nodes() {
  nodes_.reserve(static_cast<size_t>(2 * leaves_));
  nodes_.push_back({0, static_cast<int32_t>(leaves_), -1, -1});
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const auto [from, to, child, parent] = nodes_[node];
    if (to - from < 2) continue;
    nodes_[node].child = static_cast<int32_t>(nodes_.size());
    // Whole leaves on the left: all leaves but the last are full.
    const int32_t middle = from + (to - from + 1) / 2;
    nodes_.push_back({from, middle, -1, static_cast<int32_t>(node)});
    nodes_.push_back({middle, to, -1, static_cast<int32_t>(node)});
  }
  leaf_node_.resize(static_cast<size_t>(leaves_));
  for (size_t node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].child < 0) leaf_node_[static_cast<size_t>(nodes_[node].begin)] = static_cast<int32_t>(node);
}

// Nodes that are too large for the second cache level one level after the other, those of a level concurrently; then
// whole subtrees, with a copy of their coordinates.
void KdTree::cut(const double* embedded, Run run) {
  constexpr int32_t kSubtree = 256;  // leaves
  const auto size = static_cast<size_t>(n_);
  const auto keys = make_large_array<AxisKey>(size), scratch = make_large_array<AxisKey>(size);
  for_chunks(n_, kGrain, run, [&](int64_t, int64_t first, int64_t last) {
    for (auto i = static_cast<int32_t>(first); i < last; ++i) keys[static_cast<size_t>(i)] = axis_key(i, i);
  });
  // Moves the points of the first child before those of the second; `coords` has the rows of the keys' slots.
  const auto split = [&](const Node& node, const double* coords) {
    AxisKey *const first = keys.get() + begin(node), *const last = keys.get() + end(node);
    const double* const column = coords + longest_side(first, last, coords, dims_);
    constexpr int64_t kAhead = 16;
    for (AxisKey* key = first; key < last; ++key) {
      if (last - key > kAhead) prefetch(column + int64_t{key[kAhead].slot()} * dims_, 1);
      key->at = order_key(column[int64_t{key->slot()} * dims_]);
    }
    select(first, keys.get() + end(nodes_[static_cast<size_t>(node.child)]), last, scratch.get() + begin(node));
  };
  std::vector<int32_t> roots, level{0}, large;  // of the subtrees, of a level, those to be split
  while (!level.empty()) {
    large.clear();
    for (const int32_t node : level) {
      const auto& [from, to, child, parent] = nodes_[static_cast<size_t>(node)];
      (to - from > kSubtree ? large : roots).push_back(node);
    }
    level.clear();
    for (const int32_t node : large)
      for (const int32_t side : {0, 1}) level.push_back(nodes_[static_cast<size_t>(node)].child + side);
    for_chunks(static_cast<int64_t>(large.size()), 1, run, [&](int64_t, int64_t i, int64_t) {
      run.poll();
      split(nodes_[static_cast<size_t>(large[static_cast<size_t>(i)])], embedded);
    });
  }
  for_chunks(static_cast<int64_t>(roots.size()), 1, run, [&](int64_t, int64_t i, int64_t) {
    run.poll();
    const Node& root = nodes_[static_cast<size_t>(roots[static_cast<size_t>(i)])];
    const int64_t from = begin(root), m = end(root) - from;
    AxisKey* const its = keys.get() + from;
    std::vector<double> coords(static_cast<size_t>(m * dims_));
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t j = 0; j < dims_; ++j)
        coords[static_cast<size_t>(k * dims_ + j)] = embedded[int64_t{its[k].row()} * dims_ + j];
      its[k] = axis_key(its[k].row(), k);
    }
    std::vector<int32_t> open{roots[static_cast<size_t>(i)]};
    while (!open.empty()) {
      const Node& node = nodes_[static_cast<size_t>(open.back())];
      open.pop_back();
      if (node.child < 0) continue;
      split(node, coords.data());
      open.insert(open.end(), {node.child, node.child + 1});
    }
    std::vector<int32_t> slots(static_cast<size_t>(m));
    for (int64_t k = 0; k < m; ++k) {
      rows_[static_cast<size_t>(from + k)] = its[k].row();
      slots[static_cast<size_t>(k)] = its[k].slot();
    }
    for (int64_t leaf = root.begin; leaf < root.end; ++leaf)
      pack(leaf, coords.data(), slots.data() + (leaf - root.begin) * kPoints);
  });
}

// A leaf as a column tile with its box. Lanes past the last point are infinite: no radius contains them, and they do
// not widen the box.
void KdTree::pack(int64_t leaf, const double* coords, const int32_t* slots) {
  const int64_t m = points_in(leaf);
  double* const out = tiles_.get() + leaf * dims_ * kPoints;
  double* const box_of_leaf = boxes_.get() + int64_t{leaf_node(leaf)} * 2 * dims_;
  for (int64_t j = 0; j < dims_; ++j) {
    double low = kInfinity, high = -kInfinity;
    for (int64_t t = 0; t < m; ++t) {
      const double value = coords[int64_t{slots[t]} * dims_ + j];
      out[j * kPoints + t] = value;
      low = std::min(low, value), high = std::max(high, value);
    }
    std::fill(out + j * kPoints + m, out + (j + 1) * kPoints, kInfinity);
    box_of_leaf[j] = low, box_of_leaf[dims_ + j] = high;
  }
}

double KdTree::nearest(const double* low, const double* high, int32_t node, const Within& w) const {
  return bound<gap>(metric_, low, high, box(node), dims_, w);
}
double KdTree::farthest(const double* low, const double* high, int32_t node, const Within& w) const {
  return bound<span>(metric_, low, high, box(node), dims_, w);
}

void KdTree::reduced_tile(const double* a, int64_t leaf, const Within& w, double* out) const {
  const int64_t m = points_in(leaf);
  if (metric_.has_kernels()) {
    kernels().index.tile[w.reduction](a, tile(leaf), dims_, m, w.scale, out);
    return;
  }
  for (int64_t t = 0; t < m; ++t)
    for (int64_t l = 0; l < kPoints; ++l)
      out[t * kPoints + l] = metric_.reduced(a + l, kPoints, tile(leaf) + t, kPoints, w);
}

// Without a band one comparison decides. With one: reduced ≤ inside is within, reduced > outside is not, and between
// the two, where rounding could tip the scale, the metric's own formula decides.
void KdTree::within_bits(const double* a, int64_t lanes, const double* raw_a, int64_t leaf, const Within& w,
                         uint32_t* bits, int64_t& rechecks) const {
  const int64_t m = points_in(leaf);
  if (!metric_.has_band()) {
    kernels().index.bits[w.reduction](a, tile(leaf), dims_, m, w.scale, w.inside, bits);
    return;
  }
  double distances[kPoints * kPoints];
  reduced_tile(a, leaf, w, distances);
  for (int64_t t = 0; t < m; ++t) {
    bits[t] = 0;
    for (int64_t l = 0; l < lanes; ++l) {
      const double reduced = distances[t * kPoints + l];
      bool within = reduced <= w.inside;
      // The band (docs/numerics/index.md, X5).
      if (!within && reduced <= w.outside) {
        ++rechecks;
        within = metric_.distance(raw_a + l * metric_.columns(), raw(leaf * kPoints + t)) <= w.radius;
      }
      bits[t] |= static_cast<uint32_t>(within) << l;
    }
  }
}

// On the data points themselves, also where the tree holds unit vectors.
int KdTree::compare(int64_t position, int64_t other) const {
  const bool direct = metric_.direct();
  const double *x = direct ? coords(position) : raw(position), *y = direct ? coords(other) : raw(other);
  const int64_t step = direct ? kPoints : 1;
  for (int64_t j = 0; j < metric_.columns(); ++j)
    // By value: −0 was made 0 when the tree was built, and there is no NaN.
    if (x[j * step] != y[j * step]) return x[j * step] < y[j * step] ? -1 : 1;
  return 0;
}

template KdTree::KdTree(View<const double, 2>, const Metric&, Run);
template KdTree::KdTree(View<const float, 2>, const Metric&, Run);

}  // namespace knoll
