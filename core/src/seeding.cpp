// Greedy k-means++ over cells of points: what a cell cannot gain is left out, what it gains is summed cell by cell.
//
// A candidate's worth is its gain Σ w·(D² − d²)₊, not the potential that it leaves: a point that gains nothing adds an
// exact zero, so leaving it out cannot change a bit. Cells stand in an order that the contents alone decide, and their
// gains are added in that order: no bit depends on threads, on the layout or on the instruction set.
#include "knoll/seeding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "knoll/parallel.hpp"
#include "knoll/radix.hpp"
#include "knoll/rng.hpp"
#include "knoll/tile.hpp"
#include "seeding_rows.hpp"

namespace knoll {
namespace {

constexpr int64_t kTiles = 2, kCell = kTiles * kPoints;  // points in a cell
constexpr int64_t kCellsAtOnce = 32;
constexpr int64_t kFirstGrouping = 8;  // centres when points are first grouped by them; then at 8 times as many

uint64_t draw_index(uint64_t restart, int64_t step, int64_t trial) {
  return restart << 48 | static_cast<uint64_t>(step) << 16 | static_cast<uint64_t>(trial);
}

// Weights times the power of two that brings the largest of some near 2^400: far from overflow when multiplied by
// squared distances and summed, and as far as can be from underflow. Those larger than these some are cut off at the
// largest double.
class WeightScale {
 public:
  explicit WeightScale(double largest) {
    int exponent;
    std::frexp(largest, &exponent);
    const int shift = 400 - exponent;
    half_ = std::ldexp(1.0, shift / 2);
    rest_ = std::ldexp(1.0, shift - shift / 2);
  }
  double operator()(double weight) const {
    return std::min(weight * half_ * rest_, std::numeric_limits<double>::max());
  }

 private:
  double half_, rest_;
};

// Which of some masses a number u in [0, 1) falls on, given the sums of their cells: the first whose running sum
// exceeds u times the whole.
template <class Mass>
int64_t pick(double u, const std::vector<double>& sums, int64_t n, int64_t cell_size, Mass&& mass) {
  double whole = 0.0;
  for (double sum : sums) whole += sum;
  const double target = u * whole;
  double before = 0.0;
  size_t cell = 0, last = 0;
  for (; cell < sums.size(); ++cell) {
    if (sums[cell] > 0) last = cell;
    if (target < before + sums[cell]) break;
    before += sums[cell];
  }
  if (cell == sums.size()) cell = last;  // u times the whole was rounded up to the whole
  const int64_t begin = static_cast<int64_t>(cell) * cell_size, end = std::min(n, begin + cell_size);
  int64_t picked = begin;
  double within = 0.0;
  for (int64_t i = begin; i < end; ++i) {
    const double one = mass(i);
    if (!(one > 0)) continue;
    picked = i;
    within += one;
    if (target - before < within) break;
  }
  return picked;
}

// Draws by weight without replacement.
class Urn {
 public:
  Urn(const double* weights, int64_t m) : weights_(weights), m_(m), taken_(static_cast<size_t>(m)) { fill(); }

  void take(int64_t i) {
    taken_[static_cast<size_t>(i)] = 1;
    --left_;
    masses_[static_cast<size_t>(i)] = 0.0;
    add_up(i / kUrnCell);
  }
  int64_t draw(double u) {
    if (left_ == 0) {  // all were drawn: all are there again
      std::fill(taken_.begin(), taken_.end(), uint8_t{0});
      fill();
    } else if (std::all_of(sums_.begin(), sums_.end(), [](double sum) { return !(sum > 0); })) {
      fill();  // those left were too light beside those taken
    }
    const int64_t i = pick(u, sums_, m_, kUrnCell, [&](int64_t p) { return masses_[static_cast<size_t>(p)]; });
    take(i);
    return i;
  }

 private:
  static constexpr int64_t kUrnCell = 1024;

  void fill() {
    double largest = 0.0;
    left_ = 0;
    for (int64_t i = 0; i < m_; ++i) {
      if (taken_[static_cast<size_t>(i)] != 0) continue;
      largest = std::max(largest, weights_[i]);
      ++left_;
    }
    const WeightScale scale(largest);
    masses_.resize(static_cast<size_t>(m_));
    for (int64_t i = 0; i < m_; ++i)
      masses_[static_cast<size_t>(i)] = taken_[static_cast<size_t>(i)] != 0 ? 0.0 : scale(weights_[i]);
    sums_.resize(static_cast<size_t>(chunk_count(m_, kUrnCell)));
    for (int64_t cell = 0; cell < static_cast<int64_t>(sums_.size()); ++cell) add_up(cell);
  }
  void add_up(int64_t cell) {
    double sum = 0.0;
    for (int64_t i = cell * kUrnCell; i < std::min(m_, (cell + 1) * kUrnCell); ++i)
      sum += masses_[static_cast<size_t>(i)];
    sums_[static_cast<size_t>(cell)] = sum;
  }

  const double* weights_;
  int64_t m_, left_ = 0;
  std::vector<uint8_t> taken_;  // (m)
  std::vector<double> masses_;  // (m) 0 once taken
  std::vector<double> sums_;    // (cells)
};

// The power of two that brings the largest |x| into [1, 2); 1 where no square can overflow or underflow anyway.
class Range {
 public:
  void see(double x) {
    const double size = std::fabs(x);
    if (size > largest_) largest_ = size;
    if (size < smallest_ && size > 0) smallest_ = size;
  }
  void see(const Range& other) {
    largest_ = std::max(largest_, other.largest_);
    smallest_ = std::min(smallest_, other.smallest_);
  }
  std::array<double, 2> scale() const {  // as two factors: it may be beyond the range of a double
    if (largest_ == 0 || (smallest_ >= 0x1p-200 && largest_ <= 0x1p200)) return {1.0, 1.0};
    const int shift = -std::ilogb(largest_);
    return {std::ldexp(1.0, shift / 2), std::ldexp(1.0, shift - shift / 2)};
  }

 private:
  double largest_ = 0.0, smallest_ = std::numeric_limits<double>::infinity();
};

// The points of the cells. Dense ones are copied, as column tiles of float64.
template <class Points>
class Cloud;

template <class T>
class Cloud<View<const T, 2>> {
 public:
  using Center = std::vector<double>;  // (d)

  Cloud(const View<const T, 2>& x, const int64_t* rows, int64_t m)
      : x_(x), rows_(rows), m_(m), d_(x.shape[1]), height_(chunk_count(m, kCell) * kCell) {}

  // Lets go of the copy, then makes it anew with point order[i] at place i.
  void forget() { tiles_.reset(); }
  void arrange(const int32_t* order, Run run) {
    tiles_ = std::make_unique_for_overwrite<double[]>(static_cast<size_t>(height_ * d_));
    const Range seen = reduce_chunks<Range>(
        height_, kCellsAtOnce * kCell,
        [&](int64_t, int64_t begin, int64_t end) {
          Range range;
          for (int64_t i = begin; i < end; ++i) {
            double* const to = tiles_.get() + i / kPoints * kPoints * d_ + i % kPoints;
            if (i >= m_) {
              for (int64_t j = 0; j < d_; ++j) to[j * kPoints] = 0.0;
              continue;
            }
            const T* const from = &x_(rows_[order[i]], 0);
            for (int64_t j = 0; j < d_; ++j) {
              const auto value = static_cast<double>(from[j * x_.stride[1]]);
              range.see(value);
              to[j * kPoints] = value;
            }
          }
          return range;
        },
        [](Range& total, const Range& part) { total.see(part); }, run);
    const auto [half, rest] = seen.scale();
    if (half * rest != 1.0)
      for_chunks(height_ * d_, 1 << 16, run, [&, half = half, rest = rest](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          tiles_[static_cast<size_t>(i)] = tiles_[static_cast<size_t>(i)] * half * rest;
      });
  }
  Center take(int64_t place) const {
    Center center(static_cast<size_t>(d_));
    const double* const from = tiles_.get() + place / kPoints * kPoints * d_ + place % kPoints;
    for (int64_t j = 0; j < d_; ++j) center[static_cast<size_t>(j)] = from[j * kPoints];
    return center;
  }
  // out[l] = the one distance of the cell's points to the centre.
  void distances(int64_t cell, const Center& center, double* out) const {
    for (int64_t t = 0; t < kTiles; ++t)
      kernels().distance_tile(tiles_.get() + (cell * kTiles + t) * kPoints * d_, center.data(), d_, 1, d_,
                              out + t * kPoints);
  }
  double between(const Center& a, const Center& b) const {
    double sum = 0.0;
    for (size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
  }

 private:
  View<const T, 2> x_;
  const int64_t* rows_;
  int64_t m_, d_, height_;           // height: m and the empty places of the last cell
  std::unique_ptr<double[]> tiles_;  // (height / kPoints, d, kPoints)
};

template <class T, class I>
class Cloud<SparseRows<T, I>> {
 public:
  using Center = int64_t;  // a row

  Cloud(const SparseRows<T, I>& x, const int64_t* rows, int64_t m) : x_(x), rows_(rows), m_(m) {}

  void forget() {}
  void arrange(const int32_t* order, Run run) {
    order_ = order;
    const Range seen = reduce_chunks<Range>(
        m_, kCellsAtOnce * kCell,
        [&](int64_t, int64_t begin, int64_t end) {
          Range range;
          for (int64_t i = begin; i < end; ++i)
            for_entries(x_, rows_[i], [&](int64_t, double value) { range.see(value); });
          return range;
        },
        [](Range& total, const Range& part) { total.see(part); }, run);
    scale_ = seen.scale();
  }
  Center take(int64_t place) const { return rows_[order_[place]]; }
  void distances(int64_t cell, Center center, double* out) const {
    for (int64_t l = 0; l < kCell; ++l) {
      const int64_t place = cell * kCell + l;
      out[l] = place < m_ ? between(rows_[order_[place]], center) : 0.0;
    }
  }
  double between(Center a, Center b) const {
    double sum = 0.0;
    for_columns(x_, a, b, [&](double u, double v) {
      const double difference = u * scale_[0] * scale_[1] - v * scale_[0] * scale_[1];
      sum += difference * difference;
      return true;
    });
    return sum;
  }

 private:
  SparseRows<T, I> x_;
  const int64_t* rows_;
  int64_t m_;
  const int32_t* order_ = nullptr;
  std::array<double, 2> scale_{1.0, 1.0};
};

// What is known of a cell: how far its points are from a reference point, and from their nearest centres.
struct Cell {
  int32_t reference = -1;        // −1: none
  double near = 0.0, far = 0.0;  // the range of distances to the reference
  double reach = 0.0;            // the largest distance to a nearest centre
};

template <class Points>
class PlusPlus {
 public:
  PlusPlus(const Points& x, const int64_t* rows, const double* weights, int64_t m, bool skip, Run run)
      : cloud_(x, rows, m),
        weights_(weights),
        m_(m),
        cells_count_(chunk_count(m, kCell)),
        // Every computed distance is within (d + 4)·2^−53 of the true one, relatively, but for the squares that
        // underflow: those err by less than 2^−500 in the root. Twice that, for the operations of the test itself.
        slack_(static_cast<double>(x.shape[1] + 8) * 0x1p-52),
        skip_(skip),
        run_(run) {
    const auto height = static_cast<size_t>(cells_count_ * kCell);
    order_.resize(static_cast<size_t>(m));
    std::iota(order_.begin(), order_.end(), 0);
    cloud_.arrange(order_.data(), run_);
    distance2_.assign(height, 1.0);
    nearest_.assign(height, 0);
    scaled_.assign(height, 0.0);
    cells_.resize(static_cast<size_t>(cells_count_));
    masses_.resize(static_cast<size_t>(cells_count_));
    scale_weights(*std::max_element(weights_, weights_ + m_));
  }

  SeedingWork run(int64_t k, uint64_t seed, uint64_t restart, int64_t trials, int64_t* out) {
    const auto u = [&](int64_t step, int64_t trial) {
      return rng::uniform(seed, rng::Purpose::start, draw_index(restart, step, trial));
    };
    int64_t place = draw(u(0, 0));  // all distances are still 1: by weight
    out[0] = order_[static_cast<size_t>(place)];
    if (k > 1) begin(place);
    for (int64_t j = 1; j < k; ++j) {
      run_.poll();
      if (!something_left()) {
        Urn urn(weights_, m_);
        for (int64_t i = 0; i < j; ++i) urn.take(out[i]);
        for (; j < k; ++j) out[j] = urn.draw(u(j, 0));
        break;
      }
      std::vector<int64_t> places(static_cast<size_t>(trials));
      for (int64_t t = 0; t < trials; ++t) places[static_cast<size_t>(t)] = draw(u(j, t));
      const size_t best = weigh(places);
      out[j] = order_[static_cast<size_t>(places[best])];
      if (j + 1 == k) break;
      accept(best, places[best]);
      if (j + 1 == next_grouping_) group();
    }
    return work_;
  }

 private:
  using Center = typename Cloud<Points>::Center;

  void scale_weights(double largest) {
    const WeightScale scale(largest);
    featherweights_ = scale(*std::min_element(weights_, weights_ + m_)) < 1.0;  // else w·x > 0 where x > 0
    for_chunks(m_, kCell * kCellsAtOnce, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        scaled_[static_cast<size_t>(i)] = scale(weights_[order_[static_cast<size_t>(i)]]);
      for (int64_t cell = begin / kCell; cell * kCell < end; ++cell) add_up(cell);
    });
  }
  void add_up(int64_t cell) {
    const double *w = scaled_.data() + cell * kCell, *d2 = distance2_.data() + cell * kCell;
    double sum = 0.0, most = 0.0;
    for (int64_t l = 0; l < kCell; ++l) {
      sum += w[l] * d2[l];
      most = std::max(most, d2[l]);
    }
    masses_[static_cast<size_t>(cell)] = sum;
    cells_[static_cast<size_t>(cell)].reach = std::sqrt(most);
  }
  int64_t draw(double u) const {
    return pick(u, masses_, m_, kCell,
                [&](int64_t i) { return scaled_[static_cast<size_t>(i)] * distance2_[static_cast<size_t>(i)]; });
  }

  // Is there a mass to draw from? Where it has underflown beside weights that are no longer in play, they are scaled.
  bool something_left() {
    const auto massive = [&] {
      return std::any_of(masses_.begin(), masses_.end(), [](double mass) { return mass > 0; });
    };
    if (massive()) return true;
    double largest = 0.0;
    for (int64_t i = 0; i < m_; ++i)
      if (distance2_[static_cast<size_t>(i)] > 0) largest = std::max(largest, weights_[order_[static_cast<size_t>(i)]]);
    if (largest == 0) return false;
    scale_weights(largest);
    return massive();
  }

  template <class F>
  void for_cells(F&& f) {
    for_chunks(cells_count_, kCellsAtOnce, run_, [&](int64_t, int64_t first, int64_t end) {
      for (int64_t cell = first; cell < end; ++cell) f(cell);
    });
  }

  void begin(int64_t place) {
    const Center center = cloud_.take(place);
    for_cells([&](int64_t cell) {
      double* const d2 = distance2_.data() + cell * kCell;
      cloud_.distances(cell, center, d2);
      for (int64_t l = m_ - cell * kCell; l < kCell; ++l) d2[l] = 0.0;  // empty places
      add_up(cell);
    });
    centers_.push_back(center);
  }

  // Whether no point of the cell can be nearer to a candidate than to its centre, given how far the candidate is from
  // the cell's reference.
  bool beyond(const Cell& cell, double away) const {
    const double more = 1.0 + slack_, less = 1.0 - slack_;
    const double nearest = std::max(away * less - cell.far * more, cell.near * less - away * more);
    return nearest * less > cell.reach * more + 0x1p-500;
  }

  // The gains of all candidates in one sweep; returns the best of them.
  size_t weigh(const std::vector<int64_t>& places) {
    const size_t trials = places.size();
    std::vector<Center> candidates;
    std::vector<double> away(references_.size() * trials);  // (references, trials)
    for (int64_t place : places) candidates.push_back(cloud_.take(place));
    for (size_t r = 0; r < references_.size(); ++r)
      for (size_t t = 0; t < trials; ++t)
        away[r * trials + t] = std::sqrt(cloud_.between(references_[r], candidates[t]));

    gains_.assign(static_cast<size_t>(cells_count_) * trials, 0.0);
    const int64_t skipped = reduce_chunks<int64_t>(
        cells_count_, kCellsAtOnce,
        [&](int64_t, int64_t first, int64_t end) {
          double d2[kCell];
          int64_t left_out = 0;
          for (int64_t c = first; c < end; ++c) {
            const Cell& cell = cells_[static_cast<size_t>(c)];
            for (size_t t = 0; t < trials; ++t) {
              if (cell.reference >= 0 && beyond(cell, away[static_cast<size_t>(cell.reference) * trials + t])) {
                ++left_out;
                if (skip_) continue;
              }
              cloud_.distances(c, candidates[t], d2);
              gains_[static_cast<size_t>(c) * trials + t] = gain(c, d2);
            }
          }
          return left_out;
        },
        [](int64_t& total, int64_t part) { total += part; }, run_);
    const int64_t looked_at = cells_count_ * static_cast<int64_t>(trials);
    work_.pairs += looked_at * kCell;
    work_.evaluated += (looked_at - (skip_ ? skipped : 0)) * kCell;
    looked_at_ += looked_at;
    skipped_ += skipped;

    std::vector<double> whole(trials, 0.0);
    for (size_t c = 0; c < static_cast<size_t>(cells_count_); ++c)
      for (size_t t = 0; t < trials; ++t) whole[t] += gains_[c * trials + t];
    return static_cast<size_t>(std::max_element(whole.begin(), whole.end()) - whole.begin());
  }
  double gain(int64_t cell, const double* d2) const {
    const double *w = scaled_.data() + cell * kCell, *now = distance2_.data() + cell * kCell;
    double sums[8] = {};
    for (int64_t l = 0; l < kCell; l += 8)
      for (int64_t s = 0; s < 8; ++s) {
        const double less = now[l + s] - d2[l + s];
        sums[s] += w[l + s] * (less > 0.0 ? less : 0.0);
      }
    const double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    if (sum == 0 && featherweights_)  // a gain that underflows is still one: the cell must be brought up to date
      for (int64_t l = 0; l < kCell; ++l)
        if (d2[l] < now[l]) return std::numeric_limits<double>::denorm_min();
    return sum;
  }

  // Makes candidate `best` a centre: only the cells that gain by it are touched.
  void accept(size_t best, int64_t place) {
    const Center center = cloud_.take(place);
    const size_t trials = gains_.size() / static_cast<size_t>(cells_count_);
    const auto number = static_cast<int32_t>(centers_.size());
    for_cells([&](int64_t cell) {
      if (!(gains_[static_cast<size_t>(cell) * trials + best] > 0)) return;
      double d2[kCell];
      cloud_.distances(cell, center, d2);
      double* const now = distance2_.data() + cell * kCell;
      int32_t* const nearest = nearest_.data() + cell * kCell;
      for (int64_t l = 0; l < kCell; ++l) {
        if (!(d2[l] < now[l])) continue;
        now[l] = d2[l];
        nearest[l] = number;
      }
      add_up(cell);
    });
    centers_.push_back(center);
  }

  // Puts points of one centre side by side, from near to far, and takes the centres as references of their cells. Where
  // the last grouping let nothing be left out, as in many dimensions, none is made any more.
  void group() {
    next_grouping_ *= 8;
    if (!references_.empty() && skipped_ * 10 < looked_at_) return;
    looked_at_ = skipped_ = 0;
    cloud_.forget();
    const auto count = static_cast<size_t>(m_);
    const auto keys = std::make_unique_for_overwrite<uint64_t[]>(count);
    std::vector<int32_t> from(count);
    std::iota(from.begin(), from.end(), 0);
    for_chunks(m_, 1 << 14, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        keys[i] = static_cast<uint64_t>(nearest_[i]) << 16 | std::bit_cast<uint64_t>(distance2_[i]) >> 48;
    });
    radix_sort(keys.get(), from.data(), m_, run_);
    reorder(from, order_);
    reorder(from, distance2_);
    reorder(from, scaled_);
    reorder(from, nearest_);
    cloud_.arrange(order_.data(), run_);
    references_ = centers_;
    for_cells([&](int64_t c) {
      const int64_t begin = c * kCell, end = std::min(m_, begin + kCell);
      Cell& cell = cells_[static_cast<size_t>(c)];
      cell.reference = nearest_[static_cast<size_t>(begin)];
      double d2[kCell];
      cloud_.distances(c, references_[static_cast<size_t>(cell.reference)], d2);
      const auto [least, most] = std::minmax_element(d2, d2 + (end - begin));
      cell.near = std::sqrt(*least);
      cell.far = std::sqrt(*most);
      add_up(c);
    });
  }
  template <class V>
  void reorder(const std::vector<int32_t>& from, std::vector<V>& values) {
    std::vector<V> moved(values.size(), V{});
    for_chunks(m_, 1 << 14, run_, [&](int64_t, int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        moved[i] = values[static_cast<size_t>(from[i])];
    });
    values.swap(moved);
  }

  Cloud<Points> cloud_;
  const double* weights_;  // (m)
  int64_t m_, cells_count_;
  double slack_;
  bool skip_, featherweights_ = false;
  Run run_;
  std::vector<int32_t> order_;     // (m) the multiset's place of each of ours
  std::vector<double> distance2_;  // (height) to the nearest centre; 0 in empty places
  std::vector<int32_t> nearest_;   // (height)
  std::vector<double> scaled_;     // (height) weights; 0 in empty places
  std::vector<Cell> cells_;        // (cells)
  std::vector<double> masses_;     // (cells) Σ w·D²
  std::vector<double> gains_;      // (cells, trials)
  std::vector<Center> centers_, references_;
  int64_t next_grouping_ = kFirstGrouping;
  int64_t looked_at_ = 0, skipped_ = 0;  // since the last grouping, whether or not we skip
  SeedingWork work_;
};

}  // namespace

template <class Points>
SeedingWork kmeans_plus_plus(const Points& x, const int64_t* rows, const double* weights, int64_t m, int64_t k,
                             uint64_t seed, uint64_t restart, int64_t trials, bool skip, int64_t* out, Run run) {
  if (m > std::numeric_limits<int32_t>::max())
    throw std::length_error("k-means++ takes at most 2^31 - 1 distinct rows. Seed from a sample of the rows.");
  if (k < 1) return {};
  return PlusPlus<Points>(x, rows, weights, m, skip, run).run(k, seed, restart, trials, out);
}

void random_rows(const double* weights, int64_t m, int64_t k, uint64_t seed, uint64_t restart, int64_t* out, Run run) {
  Urn urn(weights, m);
  for (int64_t j = 0; j < k; ++j) {
    if (j % 1024 == 0) run.poll();
    out[j] = urn.draw(rng::uniform(seed, rng::Purpose::start, draw_index(restart, j, 0)));
  }
}

#define KNOLL_PLUS_PLUS(Points)                                                                                   \
  template SeedingWork kmeans_plus_plus(const Points&, const int64_t*, const double*, int64_t, int64_t, uint64_t, \
                                        uint64_t, int64_t, bool, int64_t*, Run);
using DenseF64 = View<const double, 2>;
using DenseF32 = View<const float, 2>;
using SparseF64 = SparseRows<double, int32_t>;
using SparseF32 = SparseRows<float, int32_t>;
using LongSparseF64 = SparseRows<double, int64_t>;
using LongSparseF32 = SparseRows<float, int64_t>;
KNOLL_PLUS_PLUS(DenseF64)
KNOLL_PLUS_PLUS(DenseF32)
KNOLL_PLUS_PLUS(SparseF64)
KNOLL_PLUS_PLUS(SparseF32)
KNOLL_PLUS_PLUS(LongSparseF64)
KNOLL_PLUS_PLUS(LongSparseF32)
#undef KNOLL_PLUS_PLUS

}  // namespace knoll
