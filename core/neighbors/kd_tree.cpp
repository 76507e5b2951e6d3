// The construction of the tree, and the bounds and tiles of its walks.
#include "neighbors/kd_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "common/parallel.hpp"
#include "common/tile.hpp"
#include "neighbors/index.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::unique_ptr<double[]> doubles(int64_t n) {
  return std::make_unique_for_overwrite<double[]>(static_cast<size_t>(n));
}

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
    double largest = 0;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < d; ++j) {
        row[static_cast<size_t>(j)] = static_cast<double>(x(i, j)) + 0.0;  // no −0: equal points have equal bits
        largest = std::max(largest, std::fabs(row[static_cast<size_t>(j)]));
      }
      metric.embed(row.data(), embedded.get() + i * dims_);
    }
    // A maximum: the order of chunks does not matter.
    std::lock_guard lock(mutex);
    largest_ = std::max(largest_, largest);
  });
  rows_.resize(static_cast<size_t>(n_));
  std::iota(rows_.begin(), rows_.end(), 0);
  if (n_ == 0) return;
  cut(embedded.get(), run);

  tiles_ = doubles(leaves_ * dims_ * kPoints);
  boxes_ = doubles(static_cast<int64_t>(nodes_.size()) * 2 * dims_);
  // For angles the tree holds unit vectors; the band is decided on the data itself.
  if (!metric.direct()) raw_ = doubles(n_ * d);
  leaf_node_.resize(static_cast<size_t>(leaves_));
  for (size_t node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].child < 0) leaf_node_[static_cast<size_t>(nodes_[node].begin)] = static_cast<int32_t>(node);
  // Leaves as column tiles with their boxes. Lanes past the last point are infinite: no radius contains them, and they
  // do not widen the box.
  for_chunks(leaves_, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t leaf = begin; leaf < end; ++leaf) {
      const int64_t m = points_in(leaf);
      double* const out = tiles_.get() + leaf * dims_ * kPoints;
      double* const low = boxes_.get() + int64_t{leaf_node(leaf)} * 2 * dims_;
      // An empty box: the first point sets both ends.
      std::fill(low, low + dims_, kInfinity);
      std::fill(low + dims_, low + 2 * dims_, -kInfinity);
      for (int64_t t = 0; t < kPoints; ++t) {
        const int64_t i = t < m ? row(leaf * kPoints + t) : -1;
        for (int64_t j = 0; j < dims_; ++j) {
          const double value = i < 0 ? kInfinity : embedded[static_cast<size_t>(i * dims_ + j)];
          out[j * kPoints + t] = value;
          if (i < 0) continue;
          low[j] = std::min(low[j], value);
          low[dims_ + j] = std::max(low[dims_ + j], value);
        }
        if (i >= 0 && raw_)
          for (int64_t j = 0; j < d; ++j)
            raw_[static_cast<size_t>((leaf * kPoints + t) * d + j)] = static_cast<double>(x(i, j)) + 0.0;
      }
    }
  });
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

// Orders rows_ and makes the nodes, level by level: the nodes of a level are cut concurrently. The comparison is a
// total order (ties by row), so both halves are the same sets whatever std::nth_element does.
void KdTree::cut(const double* embedded, Run run) {
  // A binary tree over `leaves` has 2·leaves − 1 nodes: no reallocation while a level is cut.
  nodes_.reserve(static_cast<size_t>(2 * leaves_));
  nodes_.push_back({0, static_cast<int32_t>(leaves_), -1});
  for (size_t first = 0; first < nodes_.size();) {
    const size_t last = nodes_.size();
    for (size_t node = first; node < last; ++node) {
      const auto [from, to, none] = nodes_[node];
      if (to - from < 2) continue;
      nodes_[node].child = static_cast<int32_t>(nodes_.size());
      // Whole leaves on the left: all leaves but the last are full.
      const int32_t middle = from + (to - from + 1) / 2;
      nodes_.push_back({from, middle, -1});
      nodes_.push_back({middle, to, -1});
    }
    for_chunks(static_cast<int64_t>(last - first), 1, run, [&](int64_t, int64_t chunk, int64_t) {
      const Node& node = nodes_[first + static_cast<size_t>(chunk)];
      if (node.child < 0) return;
      run.poll();
      int32_t *from = rows_.data() + begin(node), *to = rows_.data() + end(node);
      std::vector<double> low(static_cast<size_t>(dims_), kInfinity), high(static_cast<size_t>(dims_), -kInfinity);
      for (const int32_t* i = from; i < to; ++i)
        for (int64_t j = 0; j < dims_; ++j) {
          const double value = embedded[int64_t{*i} * dims_ + j];
          low[static_cast<size_t>(j)] = std::min(low[static_cast<size_t>(j)], value);
          high[static_cast<size_t>(j)] = std::max(high[static_cast<size_t>(j)], value);
        }
      int64_t longest = 0;
      double length = -1;
      for (int64_t j = 0; j < dims_; ++j) {
        // The first of equally long sides: the tree is a function of the points alone.
        const double side = 0.5 * high[static_cast<size_t>(j)] - 0.5 * low[static_cast<size_t>(j)];  // cannot overflow
        if (side > length) length = side, longest = j;
      }
      const double* const column = embedded + longest;
      // A total order, ties by row, so the two sets do not depend on the algorithm behind nth_element.
      std::nth_element(from, rows_.data() + end(nodes_[static_cast<size_t>(node.child)]), to,
                       [&](int32_t a, int32_t b) {
                         const double u = column[int64_t{a} * dims_], v = column[int64_t{b} * dims_];
                         return u < v || (u == v && a < b);
                       });
    });
    first = last;
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
        within = metric_.direct()
                     ? metric_.distance(reduced, w) <= w.radius
                     : metric_.distance(raw_a + l * metric_.columns(), raw(leaf * kPoints + t)) <= w.radius;
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
