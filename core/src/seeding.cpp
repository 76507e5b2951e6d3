// Greedy k-means++ over cells of points: what a cell cannot gain is left out, what it gains is summed cell by cell.
//
// A candidate's worth is its gain Σ w·(D² − d²)₊, not the potential that it leaves: a point that gains nothing adds an
// exact zero, so leaving it out cannot change a bit. Cells stand in an order that the contents alone decide, and their
// gains are added in that order: no bit depends on threads, on the layout or on the instruction set.
#include "knoll/seeding.hpp"

#include <algorithm>
#include <array>
#include <atomic>
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
#include "knoll/simd.hpp"
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

// Which of some masses a number u in [0, 1) falls on, given the running sums of their cells: the first whose own
// running sum exceeds u times the whole.
template <class Mass>
int64_t pick(double u, const std::vector<double>& running, int64_t n, int64_t cell_size, Mass&& mass) {
  const double target = u * running.back();
  auto cell = std::upper_bound(running.begin(), running.end(), target);
  // u times the whole may be rounded up to the whole: then the last cell that has a mass.
  if (cell == running.end()) cell = std::lower_bound(running.begin(), running.end(), running.back());
  const double before = cell == running.begin() ? 0.0 : *(cell - 1);
  const int64_t begin = (cell - running.begin()) * cell_size, end = std::min(n, begin + cell_size);
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
    std::partial_sum(sums_.begin(), sums_.end(), running_.begin());
    const int64_t i = pick(u, running_, m_, kUrnCell, [&](int64_t p) { return masses_[static_cast<size_t>(p)]; });
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
    running_.resize(sums_.size());
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
  std::vector<uint8_t> taken_;          // (m)
  std::vector<double> masses_;          // (m) 0 once taken
  std::vector<double> sums_, running_;  // (cells)
};

// The power of two that brings the largest |x| into [1, 2), as two factors: it may be beyond the range of a double.
using Scale = std::array<double, 2>;
double scaled(double x, Scale scale) { return x * scale[0] * scale[1]; }

template <class Points>
Scale scale_of(const Points& x, const int64_t* rows, int64_t m, Run run) {
  const double largest = reduce_chunks<double>(
      m, kCellsAtOnce * kCell,
      [&](int64_t, int64_t begin, int64_t end) {
        double most = 0.0;
        for (int64_t i = begin; i < end; ++i)
          for_entries(x, rows[i], [&](int64_t, double value) { most = std::max(most, std::fabs(value)); });
        return most;
      },
      [](double& total, double part) { total = std::max(total, part); }, run);
  const int shift = largest > 0 ? -std::ilogb(largest) : 0;
  return {std::ldexp(1.0, shift / 2), std::ldexp(1.0, shift - shift / 2)};
}

// The points of the cells, and their distances to candidates. `filter` sets a bit for each point of a tile that may be
// nearer to a candidate than the root of what `expect` was told last; a bit too many costs time, nothing else.
template <class Points>
class Cloud;

// Dense points are copied as they are, row by row, and once more as float32 column tiles about an origin, for the
// filter: d² < D² only if  x·c − |c|²/2 ≥ (|x|² − D²)/2.  With u = 2^−24, the left side in float32 errs by at most
// (d + 2)u·(|x|²/2 + |c|²) for the sum, 1.1u·(|x|² + |c|²) for the rounded coordinates and u|c|²/2 for the bias, the
// right side by u(|x|² + D²); κ = 2(d + 8)u times (|x|² + D² + |c|²) is more than all of it. Coordinates below 2^−126
// lose less than kTiny.
template <class T>
class Cloud<View<const T, 2>> {
 public:
  struct Batch {
    std::vector<double> centers;    // (trials, d)
    std::vector<float> candidates;  // (groups, d, kAtOnce) about the origin
    std::vector<float> bias;        // (groups, kAtOnce)
  };

  Cloud(const View<const T, 2>& x, const int64_t* rows, int64_t m, Run run)
      : x_(x),
        rows_(rows),
        m_(m),
        d_(x.shape[1]),
        height_(chunk_count(m, kCell) * kCell),
        kappa_(static_cast<double>(d_ + 8) * 0x1p-23),
        scale_(scale_of(x, rows, m, run)),
        origin_(static_cast<size_t>(d_)) {
    const int64_t look = std::min<int64_t>(m, 1024);
    for (int64_t i = 0; i < look; ++i)
      for (int64_t j = 0; j < d_; ++j)
        origin_[static_cast<size_t>(j)] +=
            scaled(static_cast<double>(x(rows[i], j)), scale_) / static_cast<double>(look);
  }

  // Lets go of the copies, then makes them anew with point order[i] at place i.
  void forget() {
    copy_.reset();
    tiles_.reset();
    threshold_.reset();
    norm2_.reset();
  }
  void arrange(const int32_t* order, Run run) {
    copy_ = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(m_ * d_));
    tiles_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(height_ * d_));
    threshold_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(height_));
    norm2_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(height_));
    for_chunks(height_, kCellsAtOnce * kCell, run, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* const to = tile(i / kPoints) + i % kPoints;
        threshold_[static_cast<size_t>(i)] = std::numeric_limits<float>::infinity();  // an empty place is never hit
        if (i >= m_) {
          for (int64_t j = 0; j < d_; ++j) to[j * kPoints] = 0.0f;
          continue;
        }
        const T* const from = x_.data + rows_[order[i]] * x_.stride[0];
        T* const row = copy_.get() + i * d_;
        double norm2 = 0.0;
        for (int64_t j = 0; j < d_; ++j) {
          row[j] = from[j * x_.stride[1]];
          const float about = near_origin(scaled(static_cast<double>(row[j]), scale_), j);
          to[j * kPoints] = about;
          norm2 += static_cast<double>(about) * static_cast<double>(about);
        }
        norm2_[static_cast<size_t>(i)] = static_cast<float>(norm2);
      }
    });
  }

  Batch take(const std::vector<int64_t>& places) const {
    const auto count = static_cast<int64_t>(places.size()), groups = chunk_count(count, kAtOnce);
    Batch batch;
    batch.centers.resize(static_cast<size_t>(count * d_));
    batch.candidates.assign(static_cast<size_t>(groups * d_ * kAtOnce), 0.0f);
    batch.bias.assign(static_cast<size_t>(groups * kAtOnce), -std::numeric_limits<float>::infinity());
    for (int64_t t = 0; t < count; ++t) {
      double norm2 = 0.0;
      for (int64_t j = 0; j < d_; ++j) {
        const double value =
            scaled(static_cast<double>(copy_[static_cast<size_t>(places[static_cast<size_t>(t)] * d_ + j)]), scale_);
        const double about = value - origin_[static_cast<size_t>(j)];
        norm2 += about * about;
        batch.centers[static_cast<size_t>(t * d_ + j)] = value;
        batch.candidates[static_cast<size_t>((t / kAtOnce * d_ + j) * kAtOnce + t % kAtOnce)] = near_origin(value, j);
      }
      batch.bias[static_cast<size_t>(t)] = static_cast<float>(-norm2 / 2 + kappa_ * norm2);
    }
    return batch;
  }
  void filter(int64_t tile_number, const Batch& batch, uint32_t* hits) const {
    kernels().seeding.filter_tile(tile(tile_number), d_, batch.candidates.data(), batch.bias.data(),
                                  static_cast<int64_t>(batch.bias.size()) / kAtOnce,
                                  threshold_.get() + tile_number * kPoints, hits);
  }
  void expect(int64_t place, double distance2) {
    const double norm2 = norm2_[static_cast<size_t>(place)];
    threshold_[static_cast<size_t>(place)] =
        static_cast<float>((norm2 - distance2) / 2 - kappa_ * (norm2 + distance2) - kTiny);
  }
  // Asks for a row that will be looked at soon: rows that pass the filter lie far apart.
  void prefetch(int64_t place) const {
    const char* const row = reinterpret_cast<const char*>(copy_.get() + place * d_);
    for (int64_t byte = 0; byte < std::min<int64_t>(512, d_ * static_cast<int64_t>(sizeof(T))); byte += 64)
      __builtin_prefetch(row + byte);
  }
  // The one distance.
  double distance2(int64_t place, const Batch& batch, size_t t) const {
    const T* const row = copy_.get() + place * d_;
    const double* const center = batch.centers.data() + static_cast<int64_t>(t) * d_;
    double sum = 0.0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference = scaled(static_cast<double>(row[j]), scale_) - center[j];
      sum += difference * difference;
    }
    return sum;
  }
  double between(const Batch& a, size_t s, const Batch& b, size_t t) const {
    double sum = 0.0;
    for (size_t j = 0, d = static_cast<size_t>(d_); j < d; ++j) {
      const double difference = a.centers[s * d + j] - b.centers[t * d + j];
      sum += difference * difference;
    }
    return sum;
  }

 private:
  static constexpr double kTiny = 0x1p-100;

  float* tile(int64_t number) const { return tiles_.get() + number * kPoints * d_; }
  float near_origin(double value, int64_t j) const {
    return static_cast<float>(value - origin_[static_cast<size_t>(j)]);
  }

  View<const T, 2> x_;
  const int64_t* rows_;
  int64_t m_, d_, height_;  // height: m and the empty places of the last cell
  double kappa_;
  Scale scale_;
  std::vector<double> origin_;          // (d) of the filter: any will do, the middle is best
  std::unique_ptr<T[]> copy_;           // (m, d)
  std::unique_ptr<float[]> tiles_;      // (height / kPoints, d, kPoints)
  std::unique_ptr<float[]> threshold_;  // (height)
  std::unique_ptr<float[]> norm2_;      // (height) about the origin
};

// Sparse points stay where they are, and the filter lets all of them pass.
template <class T, class I>
class Cloud<SparseRows<T, I>> {
 public:
  using Batch = std::vector<int64_t>;  // rows

  Cloud(const SparseRows<T, I>& x, const int64_t* rows, int64_t m, Run run)
      : x_(x), rows_(rows), scale_(scale_of(x, rows, m, run)) {}

  void forget() {}
  void arrange(const int32_t* order, Run) { order_ = order; }
  Batch take(const std::vector<int64_t>& places) const {
    Batch batch;
    for (int64_t place : places) batch.push_back(rows_[order_[place]]);
    return batch;
  }
  void filter(int64_t, const Batch& batch, uint32_t* hits) const { std::fill_n(hits, batch.size(), ~uint32_t{0}); }
  void expect(int64_t, double) {}
  void prefetch(int64_t) const {}
  double distance2(int64_t place, const Batch& batch, size_t t) const {
    return row_distance2(rows_[order_[place]], batch[t]);
  }
  double between(const Batch& a, size_t s, const Batch& b, size_t t) const { return row_distance2(a[s], b[t]); }

 private:
  double row_distance2(int64_t a, int64_t b) const {
    double sum = 0.0;
    for_columns(x_, a, b, [&](double u, double v) {
      const double difference = scaled(u, scale_) - scaled(v, scale_);
      sum += difference * difference;
      return true;
    });
    return sum;
  }

  SparseRows<T, I> x_;
  const int64_t* rows_;
  const int32_t* order_ = nullptr;
  Scale scale_;
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
      : cloud_(x, rows, m, run),
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
    distance2_.assign(height, 1.0);
    nearest_.assign(height, 0);
    scaled_.assign(height, 0.0);
    cells_.resize(static_cast<size_t>(cells_count_));
    masses_.resize(static_cast<size_t>(cells_count_));
    running_.resize(masses_.size());
    scale_weights(*std::max_element(weights_, weights_ + m_));
    cloud_.arrange(order_.data(), run_);
  }

  SeedingWork run(int64_t k, uint64_t seed, uint64_t restart, int64_t trials, int64_t* out) {
    const auto u = [&](int64_t step, int64_t trial) {
      return rng::uniform(seed, rng::Purpose::start, draw_index(restart, step, trial));
    };
    something_left();
    std::vector<int64_t> places{draw(u(0, 0))};  // all distances are still 1: by weight
    out[0] = order_[static_cast<size_t>(places[0])];
    if (k > 1) begin(places);
    for (int64_t j = 1; j < k; ++j) {
      run_.poll();
      if (!something_left()) {
        Urn urn(weights_, m_);
        for (int64_t i = 0; i < j; ++i) urn.take(out[i]);
        for (; j < k; ++j) out[j] = urn.draw(u(j, 0));
        break;
      }
      places.resize(static_cast<size_t>(trials));
      for (int64_t t = 0; t < trials; ++t) places[static_cast<size_t>(t)] = draw(u(j, t));
      const Batch candidates = cloud_.take(places);
      const size_t best = weigh(candidates, static_cast<size_t>(trials));
      chosen_.push_back(places[best]);
      out[j] = order_[static_cast<size_t>(places[best])];
      if (j + 1 == k) break;
      accept(candidates, best, static_cast<size_t>(trials), j);
      if (j + 1 == next_grouping_) group();
    }
    return work_;
  }

 private:
  using Batch = typename Cloud<Points>::Batch;

  void scale_weights(double largest) {
    const WeightScale scale(largest);
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
    return pick(u, running_, m_, kCell,
                [&](int64_t i) { return scaled_[static_cast<size_t>(i)] * distance2_[static_cast<size_t>(i)]; });
  }

  // Is there a mass to draw from? Where it has underflown beside weights that are no longer in play, they are scaled.
  bool something_left() {
    const auto massive = [&] {
      std::partial_sum(masses_.begin(), masses_.end(), running_.begin());
      return running_.back() > 0;
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

  void begin(const std::vector<int64_t>& places) {
    const Batch center = cloud_.take(places);
    chosen_ = places;
    for_cells([&](int64_t cell) {
      for (int64_t i = cell * kCell; i < (cell + 1) * kCell; ++i) {
        distance2_[static_cast<size_t>(i)] = i < m_ ? cloud_.distance2(i, center, 0) : 0.0;
        if (i < m_) cloud_.expect(i, distance2_[static_cast<size_t>(i)]);
      }
      add_up(cell);
    });
  }

  // Whether no point of the cell can be nearer to a candidate than to its centre, given how far the candidate is from
  // the cell's reference.
  bool beyond(const Cell& cell, double away) const {
    const double more = 1.0 + slack_, less = 1.0 - slack_;
    const double nearest = std::max(away * less - cell.far * more, cell.near * less - away * more);
    return nearest * less > cell.reach * more + 0x1p-500;
  }

  // Finds in one sweep what all candidates gain, and which points; returns the best candidate.
  size_t weigh(const Batch& candidates, size_t trials) {
    std::vector<double> away(static_cast<size_t>(references_count_) * trials);  // (references, trials)
    for (size_t r = 0; r < static_cast<size_t>(references_count_); ++r)
      for (size_t t = 0; t < trials; ++t)
        away[r * trials + t] = std::sqrt(cloud_.between(references_, r, candidates, t));

    gains_.assign(static_cast<size_t>(cells_count_) * trials, 0.0);
    hits_.assign(static_cast<size_t>(cells_count_ * kTiles) * trials, 0);
    struct Seen {
      int64_t beyond = 0, evaluated = 0;
    };
    std::atomic<int64_t> beyond_count{0}, evaluated_count{0};
    for_chunks(cells_count_, kCellsAtOnce, run_, [&](int64_t, int64_t first, int64_t end) {
      Seen part;
      std::vector<uint32_t> hit(static_cast<size_t>(chunk_count(static_cast<int64_t>(trials), kAtOnce) * kAtOnce));
      std::vector<uint8_t> out_of_reach(trials);
      for (int64_t c = first; c < end; ++c) {
        const Cell& cell = cells_[static_cast<size_t>(c)];
        size_t count = 0;
        for (size_t t = 0; t < trials; ++t) {
          out_of_reach[t] = cell.reference >= 0 && beyond(cell, away[static_cast<size_t>(cell.reference) * trials + t]);
          count += out_of_reach[t];
        }
        part.beyond += static_cast<int64_t>(count);
        if (skip_ && count == trials) continue;
        for (int64_t tile = c * kTiles; tile < (c + 1) * kTiles; ++tile) {
          if (skip_)
            cloud_.filter(tile, candidates, hit.data());
          else
            std::fill(hit.begin(), hit.end(), ~uint32_t{0});
          uint32_t some = 0;
          for (size_t t = 0; t < trials; ++t) {
            const uint32_t points = skip_ && out_of_reach[t] ? 0 : hit[t] & occupied(tile);
            hits_[static_cast<size_t>(tile) * trials + t] = points;
            some |= points;
          }
          for (; some != 0; some &= some - 1) cloud_.prefetch(tile * kPoints + std::countr_zero(some));
        }
      }
      for (int64_t tile = first * kTiles; tile < end * kTiles; ++tile)
        for (size_t t = 0; t < trials; ++t)
          gains_[static_cast<size_t>(tile / kTiles) * trials + t] +=
              gain(tile, hits_[static_cast<size_t>(tile) * trials + t], candidates, t, part.evaluated);
      beyond_count += part.beyond;
      evaluated_count += part.evaluated;
    });
    const int64_t pairs = cells_count_ * static_cast<int64_t>(trials);
    work_.pairs += m_ * static_cast<int64_t>(trials);
    work_.evaluated += evaluated_count;
    looked_at_ += pairs;
    beyond_ += beyond_count;

    std::vector<double> whole(trials, 0.0);
    for (size_t c = 0; c < static_cast<size_t>(cells_count_); ++c)
      for (size_t t = 0; t < trials; ++t) whole[t] += gains_[c * trials + t];
    return static_cast<size_t>(std::max_element(whole.begin(), whole.end()) - whole.begin());
  }
  uint32_t occupied(int64_t tile) const {
    const int64_t count = std::clamp<int64_t>(m_ - tile * kPoints, 0, kPoints);
    return static_cast<uint32_t>((uint64_t{1} << count) - 1);
  }
  // Points that gain nothing add nothing, so it does not matter which of them are looked at.
  double gain(int64_t tile, uint32_t points, const Batch& candidates, size_t t, int64_t& evaluated) const {
    double sum = 0.0;
    for (; points != 0; points &= points - 1, ++evaluated) {
      const int64_t i = tile * kPoints + std::countr_zero(points);
      const double less = distance2_[static_cast<size_t>(i)] - cloud_.distance2(i, candidates, t);
      sum += scaled_[static_cast<size_t>(i)] * (less > 0.0 ? less : 0.0);
    }
    return sum;
  }

  // Makes candidate `best` centre number j: only the points that it hit are looked at.
  void accept(const Batch& candidates, size_t best, size_t trials, int64_t j) {
    for_cells([&](int64_t cell) {
      bool changed = false;
      for (int64_t tile = cell * kTiles; tile < (cell + 1) * kTiles; ++tile)
        for (uint32_t points = hits_[static_cast<size_t>(tile) * trials + best]; points != 0; points &= points - 1) {
          const int64_t i = tile * kPoints + std::countr_zero(points);
          const double d2 = cloud_.distance2(i, candidates, best);
          if (!(d2 < distance2_[static_cast<size_t>(i)])) continue;
          distance2_[static_cast<size_t>(i)] = d2;
          nearest_[static_cast<size_t>(i)] = static_cast<int32_t>(j);
          cloud_.expect(i, d2);
          changed = true;
        }
      if (changed) add_up(cell);
    });
  }

  // Puts points of one centre side by side, from near to far, and takes the centres as references of their cells. Where
  // the last grouping let little be left out, as in many dimensions, none is made any more.
  void group() {
    next_grouping_ *= 8;
    if (references_count_ > 0 && beyond_ * 10 < looked_at_) return;
    looked_at_ = beyond_ = 0;
    references_ = cloud_.take(chosen_);
    references_count_ = static_cast<int64_t>(chosen_.size());
    cloud_.forget();
    const auto count = static_cast<size_t>(m_);
    std::vector<int32_t> from(count);
    std::iota(from.begin(), from.end(), 0);
    {
      const auto keys = std::make_unique_for_overwrite<uint64_t[]>(count);
      for_chunks(m_, 1 << 14, run_, [&](int64_t, int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          keys[i] = static_cast<uint64_t>(nearest_[i]) << 16 | std::bit_cast<uint64_t>(distance2_[i]) >> 48;
      });
      radix_sort(keys.get(), from.data(), m_, run_);
    }
    reorder(from, order_);
    reorder(from, distance2_);
    reorder(from, scaled_);
    reorder(from, nearest_);
    std::vector<int32_t> to(count);
    for (size_t i = 0; i < count; ++i) to[static_cast<size_t>(from[i])] = static_cast<int32_t>(i);
    for (int64_t& place : chosen_) place = to[static_cast<size_t>(place)];
    cloud_.arrange(order_.data(), run_);
    for_cells([&](int64_t c) {
      Cell& cell = cells_[static_cast<size_t>(c)];
      cell.reference = nearest_[static_cast<size_t>(c * kCell)];
      double least = std::numeric_limits<double>::infinity(), most = 0.0;
      for (int64_t i = c * kCell; i < std::min(m_, (c + 1) * kCell); ++i) {
        const double d2 = cloud_.distance2(i, references_, static_cast<size_t>(cell.reference));
        least = std::min(least, d2);
        most = std::max(most, d2);
        cloud_.expect(i, distance2_[static_cast<size_t>(i)]);
      }
      cell.near = std::sqrt(least);
      cell.far = std::sqrt(most);
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
  bool skip_;
  Run run_;
  std::vector<int32_t> order_;     // (m) the multiset's place of each of ours
  std::vector<double> distance2_;  // (height) to the nearest centre; 0 in empty places
  std::vector<int32_t> nearest_;   // (height)
  std::vector<double> scaled_;     // (height) weights; 0 in empty places
  std::vector<Cell> cells_;        // (cells)
  std::vector<double> masses_;     // (cells) Σ w·D²
  std::vector<double> running_;    // (cells) their running sums
  std::vector<double> gains_;      // (cells, trials)
  std::vector<uint32_t> hits_;     // (tiles, trials) the points that may have gained
  std::vector<int64_t> chosen_;    // places of the centres so far
  Batch references_;
  int64_t references_count_ = 0;
  int64_t next_grouping_ = kFirstGrouping;
  int64_t looked_at_ = 0, beyond_ = 0;  // pairs of a cell and a candidate since the last grouping
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
