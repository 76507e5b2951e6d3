// The index over a tree, query by query, and over filtered tiles, all queries at once.
#include "neighbors/index.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "neighbors/bits.hpp"
#include "neighbors/dbscan_backends.hpp"
#include "neighbors/kd_tree.hpp"
#include "neighbors/pair_filter.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A query is a traversal of microseconds; 64 are worth a chunk.
constexpr int64_t kQueriesAtOnce = 64;

// Components are DBSCAN with min_samples = 1 on the rows that the mask allows: every row is core.
template <class T>
int64_t components_of(View<const T, 2> x, double radius, View<const uint8_t, 1> mask, const Metric& metric,
                      View<int64_t, 1> labels, Run run) {
  const int64_t d = x.shape[1];
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < x.shape[0]; ++i)
    if (mask.empty() || mask(i) != 0) rows.push_back(i);
  const auto m = static_cast<int64_t>(rows.size());
  std::vector<T> packed;
  if (!mask.empty()) {
    packed.resize(static_cast<size_t>(m * d));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < d; ++j) packed[static_cast<size_t>(i * d + j)] = x(rows[static_cast<size_t>(i)], j);
    x = matrix_view<const T>(packed.data(), m, d);
  }
  std::vector<int64_t> found(static_cast<size_t>(m));
  std::vector<uint8_t> core(static_cast<size_t>(m));
  // Through DBSCAN, so that components use the grid where it is the fastest.
  const DbscanReport report = dbscan(x, radius, 1, {}, metric, Border::noise, "auto", vector_view(found.data(), m),
                                     vector_view(core.data(), m), run);
  // Rows keep their order, so the numbering by lowest row carries over.
  for (int64_t i = 0; i < labels.shape[0]; ++i) labels(i) = -1;
  for (int64_t i = 0; i < m; ++i) labels(rows[static_cast<size_t>(i)]) = found[static_cast<size_t>(i)];
  return report.clusters;
}

// A query in the coordinates of the tree.
struct Query {
  Query(const KdTree& tree, View<const double, 2> queries, int64_t i)
      : raw(static_cast<size_t>(tree.metric().columns())),
        coords(static_cast<size_t>(tree.dims())),
        column(static_cast<size_t>(tree.dims() * kPoints)),
        largest(tree.largest()) {
    for (int64_t j = 0; j < tree.metric().columns(); ++j) {
      // −0 becomes 0: equal points have equal bits, and unit vectors of them, too.
      raw[static_cast<size_t>(j)] = queries(i, j) + 0.0;
      largest = std::max(largest, std::fabs(queries(i, j)));
    }
    tree.metric().embed(raw.data(), coords.data());
    for (size_t j = 0; j < coords.size(); ++j) column[j * kPoints] = coords[j];
  }
  std::vector<double> raw, coords, column;  // (d), (dims), (dims, kPoints) of which the first lane is the query
  double largest;                           // |coordinate| of data and query
};

template <class T>
class TreeIndex : public Index {
 public:
  TreeIndex(View<const T, 2> x, const Metric& metric, Run run) : Index(metric), x_(x), tree_(x, metric, run) {}

  std::string backend() const override { return "tree"; }
  int64_t size() const override { return tree_.size(); }

  // A node within the radius as a whole counts without its points, unless they have weights of their own.
  void count(View<const double, 2> queries, double radius, double stop_at, View<const double, 1> weights,
             View<double, 1> out, Run run) const override {
    each(queries, run, [&](int64_t i, const Query& query) {
      // A query may lie farther out than all data: the band of angles depends on it.
      const Within w = metric_.within(radius, query.largest);
      ExactSum sum;
      int64_t found = 0;
      // Exact, so the order of the traversal does not matter, and rounded once (docs/numerics/sums.md, S4).
      const auto weigh = [&](int64_t position) { sum.add(weights(tree_.row(position))); };
      traverse(
          query, w, [](int32_t, double) { return false; },
          [&](int32_t node) {
            const auto& box = tree_.nodes()[static_cast<size_t>(node)];
            found += tree_.end(box) - tree_.begin(box);
            if (!weights.empty())
              for (int64_t p = tree_.begin(box); p < tree_.end(box); ++p) weigh(p);
            return weights.empty() && static_cast<double>(found) >= stop_at;
          },
          [&](int64_t leaf) {
            const uint32_t bits = bits_at(query, leaf, w);
            // A leaf at a time: the count may pass `stop_at`.
            found += std::popcount(bits);
            if (!weights.empty()) for_bits(bits, [&](int t) { weigh(leaf * kPoints + t); });
            return weights.empty() && static_cast<double>(found) >= stop_at;
          });
      out(i) = weights.empty() ? static_cast<double>(found) : sum.round();
    });
  }

  void knn(View<const double, 2> queries, View<double, 2> distance, View<int64_t, 2> row, Run run) const override {
    const int64_t k = row.shape[1];
    each(queries, run, [&](int64_t i, const Query& query) {
      Within w = metric_.anywhere({query.largest});
      // Rounds after the first search the `finer` nearest rows again; the others keep their positions. X7 of
      // docs/numerics/index.md.
      for (int64_t wanted = k, finer = 0; wanted > 0; wanted = finer) {
        const std::vector<Found> found = closest(query, w, static_cast<size_t>(wanted));
        for (int64_t c = 0; c < wanted; ++c) {
          const auto at = static_cast<size_t>(c);
          row(i, c) = at < found.size() ? found[at].second : -1;
          distance(i, c) = at >= found.size()   ? kInfinity
                           : metric_.has_band() ? found[at].first
                                                : metric_.distance(found[at].first, w);
        }
        // In the scale of the largest coordinate, squares of tiny differences underflow. Those rows are searched again
        // in a scale 2^400 finer, where the squares of the others may be infinite: they are not among the nearest.
        finer = vanished(query, found);
        if (finer > 0) w.reduction = kSumScaledSquares, w.scale = std::min(w.scale * 0x1p400, 0x1p1000);
      }
    });
  }

  void nearest(View<const double, 2> queries, double radius, View<const uint8_t, 1> mask, View<int64_t, 1> row,
               View<double, 1> distance, Run run) const override {
    // Children come after their parents, so going backwards both flags are known.
    std::vector<uint8_t> allowed;  // (nodes) has a row that the mask allows
    if (!mask.empty()) {
      allowed.assign(tree_.nodes().size(), 0);
      for (size_t node = allowed.size(); node-- > 0;) {
        const auto& box = tree_.nodes()[node];
        if (box.child >= 0)
          // A node without an allowed row is skipped like one that is too far away.
          allowed[node] = allowed[static_cast<size_t>(box.child)] | allowed[static_cast<size_t>(box.child) + 1];
        else
          for (int64_t p = tree_.begin(box); p < tree_.end(box); ++p) allowed[node] |= mask(tree_.row(p)) != 0;
      }
    }
    // `limit` falls with the best key so far, so the search narrows; a key equal to the best is compared by
    // coordinates.
    each(queries, run, [&](int64_t i, const Query& query) {
      Within w = radius == kInfinity ? metric_.anywhere({query.largest}) : metric_.within(radius, query.largest);
      double limit, best;
      int64_t at;
      const auto again = [&] {
        limit = w.outside, best = kInfinity, at = -1;
        search(
            query, w, limit, [&](int32_t node) { return mask.empty() || allowed[static_cast<size_t>(node)] != 0; },
            [&](int32_t r) { return mask.empty() || mask(r) != 0; },
            [&](double key, int64_t position) {
              // The limit is that of the reduced distance; the decision at the radius is the metric's own.
              const bool within = key <= (metric_.has_band() ? radius : w.inside);
              if (!within || key > best) return;
              if (key == best && at >= 0) {
                const int order = tree_.compare(position, at);
                if (order > 0 || (order == 0 && tree_.row(position) > tree_.row(at))) return;
              }
              best = key, at = position;
              limit = std::min(limit, reduced_limit(best, w, query));
            });
      };
      again();
      // Squares of differences far below the radius underflow: such rows are searched again in finer scales, as in knn.
      // All that are below 2^−480 radii are within it.
      while (at >= 0 && vanished(query, {{best, tree_.row(at)}}) > 0) {
        w.radius = w.inside = w.outside = kInfinity;
        w.reduction = kSumScaledSquares, w.scale = std::min(w.scale * 0x1p400, 0x1p1000);
        again();
      }
      row(i) = at < 0 ? -1 : tree_.row(at);
      distance(i) = at < 0 ? kInfinity : metric_.has_band() ? best : metric_.distance(best, w);
    });
  }

  // A node whose lowest row is not below the best so far is skipped.
  void first(View<const double, 2> queries, double radius, View<int64_t, 1> row, Run run) const override {
    std::vector<int32_t> lowest(tree_.nodes().size(), kNoRow);  // (nodes) row
    for (size_t node = lowest.size(); node-- > 0;) {
      const auto& box = tree_.nodes()[node];
      if (box.child >= 0)
        lowest[node] = std::min(lowest[static_cast<size_t>(box.child)], lowest[static_cast<size_t>(box.child) + 1]);
      else
        for (int64_t p = tree_.begin(box); p < tree_.end(box); ++p) lowest[node] = std::min(lowest[node], tree_.row(p));
    }
    each(queries, run, [&](int64_t i, const Query& query) {
      const Within w = metric_.within(radius, query.largest);
      int32_t best = kNoRow;
      traverse(
          query, w, [&](int32_t node, double) { return lowest[static_cast<size_t>(node)] >= best; },
          [&](int32_t node) {
            best = std::min(best, lowest[static_cast<size_t>(node)]);
            return false;
          },
          [&](int64_t leaf) {
            for_bits(bits_at(query, leaf, w), [&](int t) { best = std::min(best, tree_.row(leaf * kPoints + t)); });
            return false;
          });
      row(i) = best == kNoRow ? -1 : best;
    });
  }

  int64_t components(double radius, View<const uint8_t, 1> mask, View<int64_t, 1> labels, Run run) const override {
    return components_of(x_, radius, mask, metric_, labels, run);
  }

 private:
  static constexpr int32_t kNoRow = std::numeric_limits<int32_t>::max();

  template <class F>
  void each(View<const double, 2> queries, Run run, F&& body) const {
    for_chunks(queries.shape[0], kQueriesAtOnce, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run.poll();
        body(i, Query(tree_, queries, i));
      }
    });
  }

  template <class Skip, class Whole, class Leaf>
  void traverse(const Query& query, const Within& w, Skip&& skip, Whole&& whole, Leaf&& at_leaf) const {
    tree_.traverse(query.coords.data(), query.coords.data(), 0, w, skip, whole, at_leaf);
  }

  // body(key, position) for all rows that may be among the nearest: those with a reduced distance ≤ limit, which body
  // may lower. Nodes come nearest first, and one with `near` > limit is skipped. The key is the reduced distance, or
  // the distance itself where there is a band.
  template <class Node, class Row, class Body>
  void search(const Query& query, const Within& w, const double& limit, Node&& node_allowed, Row&& row_allowed,
              Body&& body) const {
    const auto at_leaf = [&](int64_t leaf) {
      double reduced[kPoints];
      reduced_at(query, leaf, w, reduced);
      for (int64_t t = 0; t < tree_.points_in(leaf); ++t) {
        const int64_t position = leaf * kPoints + t;
        // `limit` is a reference: body lowers it as better rows are found.
        if (reduced[t] <= limit && row_allowed(tree_.row(position)))
          body(metric_.has_band() ? metric_.distance(query.raw.data(), tree_.raw(position)) : reduced[t], position);
      }
      return false;
    };
    Within open = w;
    // Reduced distances are ≥ 0.
    open.inside = -1;  // no node counts as a whole: every traversal goes down to the leaves
    traverse(
        query, open, [&](int32_t node, double near) { return near > limit || !node_allowed(node); },
        [](int32_t) { return false; }, at_leaf);
  }

  using Found = std::pair<double, int32_t>;  // key and row

  // The k rows with the smallest (key, row), in order: a heap of the best k, whose worst bounds the search.
  std::vector<Found> closest(const Query& query, const Within& w, size_t k) const {
    std::vector<Found> heap;   // the largest on top
    double limit = kInfinity;  // of reduced distances that may still get in
    search(
        query, w, limit, [](int32_t) { return true; }, [](int32_t) { return true; },
        [&](double key, int64_t position) {
          const Found candidate{key, tree_.row(position)};
          if (heap.size() == k) {
            // Pairs compare by key, then by row: ties go to the lowest row, whatever the order of the traversal.
            if (candidate >= heap.front()) return;
            std::pop_heap(heap.begin(), heap.end());
            heap.pop_back();
          }
          heap.push_back(candidate);
          std::push_heap(heap.begin(), heap.end());
          // Before there are k rows any row gets in.
          if (heap.size() == k) limit = reduced_limit(heap.front().first, w, query);
        });
    std::sort_heap(heap.begin(), heap.end());
    return heap;
  }

  // How many of the nearest rows have a squared distance below 2^−960, whose terms may have lost bits to underflow; 0
  // where all of those rows equal the query.
  int64_t vanished(const Query& query, const std::vector<Found>& found) const {
    if (metric_.name() != MetricName::euclidean) return 0;
    int64_t count = 0;
    bool differs = false;
    for (; count < static_cast<int64_t>(found.size()) && found[static_cast<size_t>(count)].first < 0x1p-960; ++count)
      for (int64_t j = 0; j < x_.shape[1] && !differs; ++j)
        differs =
            static_cast<double>(x_(found[static_cast<size_t>(count)].second, j)) != query.raw[static_cast<size_t>(j)];
    return differs ? count : 0;
  }

  // The reduced distance beyond which no point has a key at most `key`.
  double reduced_limit(double key, const Within& w, const Query& query) const {
    // Inclusive: a row at the same distance with a lower number must still be found.
    return metric_.has_band() ? metric_.reduced_limit(key, w, query.largest) : key;
  }

  // Reduced distances of a query to the points of a leaf.
  void reduced_at(const Query& query, int64_t leaf, const Within& w, double* out) const {
    if (metric_.has_kernels()) {
      kernels().index.tile[w.reduction](tree_.tile(leaf), query.column.data(), tree_.dims(), 1, w.scale, out);
      return;
    }
    for (int64_t t = 0; t < tree_.points_in(leaf); ++t)
      out[t] = metric_.reduced(query.coords.data(), 1, tree_.tile(leaf) + t, kPoints, w);
  }

  // Which points of a leaf are within w of a query.
  uint32_t bits_at(const Query& query, int64_t leaf, const Within& w) const {
    const int64_t m = tree_.points_in(leaf);
    uint32_t bits = 0;
    // inside = outside: one comparison in the kernel decides.
    if (!metric_.has_band()) {
      kernels().index.bits[w.reduction](tree_.tile(leaf), query.column.data(), tree_.dims(), 1, w.scale, w.inside,
                                        &bits);
      return m == kPoints ? bits : bits & ((uint32_t{1} << m) - 1);
    }
    double reduced[kPoints];
    reduced_at(query, leaf, w, reduced);
    for (int64_t t = 0; t < m; ++t) {
      const bool within =
          reduced[t] <= w.inside ||
          (reduced[t] <= w.outside && metric_.distance(query.raw.data(), tree_.raw(leaf * kPoints + t)) <= w.radius);
      bits |= static_cast<uint32_t>(within) << t;
    }
    return bits;
  }

  View<const T, 2> x_;
  KdTree tree_;
};

// What the pair filter calls D, and the bound on D that a radius is.
struct SquaredDistances {
  using Row = double;
  static PairFilter<Row> filter(View<const double, 2> x, const Metric&, Run run) { return {x, run}; }
  // The filter compares squares, which must be normal numbers; an infinite radius has no square to lose.
  static double bound(double radius) {
    if (radius < 0x1p-450 || (radius > 0x1p450 && radius < kInfinity))
      // The tree scales differences instead (docs/numerics/index.md, X6).
      throw std::invalid_argument("the square of the radius is no normal number: use backend tree");
    return radius == kInfinity ? kInfinity : largest_square(radius);
  }
  // Rows are sorted by D, and √ is monotone: the order stays (docs/numerics/rounding.md, D3).
  static double distance(double found) { return std::sqrt(found); }
};
struct GowerDistances {
  using Row = GowerRow;
  static PairFilter<Row> filter(View<const double, 2> x, const Metric& metric, Run run) { return {x, metric, run}; }
  static double bound(double radius) { return radius; }
  static double distance(double found) { return found; }
};

// Over the pair filter in float64, the type of the queries: float32 rows are widened, which is exact.
template <class T, class Distances>
class TilesIndex : public Index {
 public:
  // Members are made in the order of their declaration: copy_, which widened() fills, comes before pairs_.
  TilesIndex(View<const T, 2> x, const Metric& metric, Run run)
      : Index(metric), x_(x), rows_(widened(x)), pairs_(Distances::filter(rows_, metric, run)) {}

  std::string backend() const override { return "tiles"; }
  int64_t size() const override { return x_.shape[0]; }

  void count(View<const double, 2> queries, double radius, double stop_at, View<const double, 1> weights,
             View<double, 1> out, Run run) const override {
    const double bound = Distances::bound(radius);
    if (!weights.empty()) {
      pairs_.weigh(queries, bound, weights, out, run);
      return;
    }
    const int64_t m = queries.shape[0];
    std::vector<int64_t> counts(static_cast<size_t>(m));
    // More than there can be rows; a level of ∞ counts all.
    const double most = static_cast<double>(std::numeric_limits<int32_t>::max());
    pairs_.count(queries, bound, static_cast<int64_t>(std::ceil(std::clamp(stop_at, 0.0, most))),
                 vector_view(counts.data(), m), run);
    for (int64_t i = 0; i < m; ++i) out(i) = static_cast<double>(counts[static_cast<size_t>(i)]);
  }

  void knn(View<const double, 2> queries, View<double, 2> distance, View<int64_t, 2> row, Run run) const override {
    pairs_.knn(queries, distance, row, run);
    for (int64_t i = 0; i < distance.shape[0]; ++i)
      for (int64_t c = 0; c < distance.shape[1]; ++c) distance(i, c) = Distances::distance(distance(i, c));
  }

  void nearest(View<const double, 2> queries, double radius, View<const uint8_t, 1> mask, View<int64_t, 1> row,
               View<double, 1> distance, Run run) const override {
    pairs_.nearest(queries, {}, Distances::bound(radius), mask, row, distance, run);
    for (int64_t i = 0; i < distance.shape[0]; ++i) distance(i) = Distances::distance(distance(i));
  }

  void first(View<const double, 2> queries, double radius, View<int64_t, 1> row, Run run) const override {
    for (int64_t i = 0; i < row.shape[0]; ++i) row(i) = -1;
    pairs_.for_neighbours(queries, {}, Distances::bound(radius), {}, run,
                          [&](int64_t i, const int64_t* js, int64_t count) {
                            // Calls for one query come from one thread, in any order: a minimum does not depend on it.
                            const int64_t lowest = *std::min_element(js, js + count);
                            if (row(i) < 0 || lowest < row(i)) row(i) = lowest;
                          });
  }

  int64_t components(double radius, View<const uint8_t, 1> mask, View<int64_t, 1> labels, Run run) const override {
    return components_of(x_, radius, mask, metric_, labels, run);
  }

 private:
  View<const double, 2> widened(View<const T, 2> x) {
    if constexpr (std::is_same_v<T, double>) {
      return x;
    } else {
      copy_.resize(static_cast<size_t>(x.shape[0] * x.shape[1]));
      pack_rows(x, copy_.data());
      return matrix_view<const double>(copy_.data(), x.shape[0], x.shape[1]);
    }
  }

  View<const T, 2> x_;
  std::vector<double> copy_;
  View<const double, 2> rows_;
  PairFilter<typename Distances::Row> pairs_;
};

}  // namespace

void check_row_count(int64_t n) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - 4;  // positions are padded by up to four
  if (n > kMost)
    throw std::length_error("X has " + std::to_string(n) + " rows, and rows are numbered in 31 bits: at most " +
                            std::to_string(kMost) + ". Fit a sample of the rows and predict the others.");
}

// Both structures give the same answers; prefer_tiles only compares their costs.
template <class T>
std::unique_ptr<Index> Index::make(View<const T, 2> x, double radius_hint, const Metric& metric,
                                   const std::string& backend, Run run) {
  if (backend != "auto" && backend != "tree" && backend != "tiles")
    throw std::invalid_argument("backend must be auto, tree or tiles");
  check_row_count(x.shape[0]);
  if (metric.name() == MetricName::gower) {
    if constexpr (std::is_same_v<T, double>)
      if (backend != "tree") return std::make_unique<TilesIndex<T, GowerDistances>>(x, metric, run);
    throw std::invalid_argument("gower is for tiles and rows of float64");
  }
  if (backend == "tiles" && metric.name() != MetricName::euclidean)
    throw std::invalid_argument("tiles are for the euclidean metric");
  if (backend == "tiles" || (backend == "auto" && prefer_tiles(x, metric, radius_hint, run)))
    return std::make_unique<TilesIndex<T, SquaredDistances>>(x, metric, run);
  return std::make_unique<TreeIndex<T>>(x, metric, run);
}

template std::unique_ptr<Index> Index::make(View<const double, 2>, double, const Metric&, const std::string&, Run);
template std::unique_ptr<Index> Index::make(View<const float, 2>, double, const Metric&, const std::string&, Run);

}  // namespace knoll
