// Greedy k-means++ over cells of points: a certified sieve compares the candidates, the one distance decides.
//
// A candidate is judged by its gain Σ w·(D² − d²)₊, not by the potential that it leaves: a point that gains nothing
// adds an exact zero, so skipping it cannot change a bit. One sweep in float32 gives an interval for the gain of every
// candidate of a step; only where intervals overlap are gains computed exactly, cell by cell, in an order that depends
// on the contents alone. So the choice is always the exact one, and no bit depends on threads, layout or instruction
// set.
#include "kmeans/seeding.hpp"

#include <atomic>
#include <bit>
#include <stdexcept>

#include "common/radix_sort.hpp"
#include "common/rng.hpp"
#include "kmeans/seeding_cloud.hpp"
#include "kmeans/seeding_draw.hpp"

namespace knoll {
namespace {

constexpr int64_t kTiles = 2, kCell = kTiles * kPoints;  // points in a cell
constexpr int64_t kCellsAtOnce = 32;
constexpr int64_t kFirstGrouping = 32;   // centres when points are first grouped by them; then at 8 times as many
constexpr int64_t kWorthGrouping = 400;  // candidates still to come, for a grouping to pay (docs/decisions/0009)
constexpr int64_t kAhead = 16;           // points prefetched ahead
// Sums of float32 gains: at most kCell·kCellsAtOnce/8 = 256 additions in a lane and a handful of roundings, each 2^−24;
// the margin is for the float64 sums that these are compared with.
constexpr double kGainSlack = 0x1p-15;
constexpr double kGainTiny = 0x1p-120;  // bounds the underflow of a float32 product

// Distances of the points of a cell from a reference point, and from their nearest centres.
struct Cell {
  int32_t reference = 0;
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
        sieves_(skip && cloud_.sieves()),
        run_(run) {
    const auto cells = static_cast<size_t>(cells_count_);
    distance2_.assign(cells * kCell, 0.0);
    std::fill_n(distance2_.begin(), m, 1.0);
    cells_.resize(cells);
    masses_.resize(cells);
    running_.resize(cells);
    tile_error_.resize(cells * kTiles);
    const auto [least, most] = std::minmax_element(weights, weights + m);
    if (*least != *most) {
      scaled_.assign(cells * kCell, 0.0);
      scaled32_.assign(cells * kCell, 0.0f);
    } else {
      scaled32_.assign(kPoints, 0.0f);  // one tile of weights serves all
    }
    scale_weights(*most);
  }

  SeedingWork run(int64_t k, uint64_t seed, uint64_t restart, int64_t trials, int64_t* out) {
    const auto u = [&](int64_t step, int64_t trial) {
      return rng::uniform(seed, rng::Purpose::start, draw_index(restart, step, trial));
    };
    if (worth_grouping(kFirstGrouping, k, trials)) {
      order_.resize(static_cast<size_t>(m_));
      std::iota(order_.begin(), order_.end(), 0);
      nearest_.assign(distance2_.size(), 0);
    }
    has_mass();
    chosen_.push_back(draw(u(0, 0)));  // all distances are still 1: by weight
    out[0] = chosen_[0];
    if (k > 1) begin();
    std::vector<int64_t> points(static_cast<size_t>(trials));
    for (int64_t j = 1, next_grouping = kFirstGrouping; j < k; ++j) {
      run_.poll();
      if (!has_mass()) {
        Urn urn(weights_, m_);
        for (int64_t i = 0; i < j; ++i) urn.take(out[i]);
        for (; j < k; ++j) out[j] = urn.draw(u(j, 0));
        break;
      }
      for (int64_t t = 0; t < trials; ++t) points[static_cast<size_t>(t)] = draw(u(j, t));
      const Batch candidates = cloud_.take(points);
      const size_t best = weigh(candidates, points);
      chosen_.push_back(points[best]);
      out[j] = points[best];
      if (j + 1 == k) break;
      accept(candidates, best, j);
      if (j + 1 == 2 * references_count_ && beyond_ * 10 < tested_) references_count_ = next_grouping = 0;
      if (j + 1 == next_grouping && worth_grouping(j + 1, k, trials)) {
        group();
        next_grouping *= 8;
      }
    }
    return work_;
  }

 private:
  using Batch = typename Cloud<Points>::Batch;

  // Sorting the points pays only if enough candidates are still to be evaluated.
  static bool worth_grouping(int64_t j, int64_t k, int64_t trials) { return (k - j) * trials >= kWorthGrouping; }

  // The point of the multiset at a position, and its weight.
  int64_t point(int64_t position) const { return order_.empty() ? position : order_[static_cast<size_t>(position)]; }
  double weight(int64_t position) const {
    return scaled_.empty() ? one_weight_ : scaled_[static_cast<size_t>(position)];
  }
  const float* weights32(int64_t tile) const { return scaled32_.data() + (scaled_.empty() ? 0 : tile * kPoints); }

  template <class F>
  void for_cells(F&& f) {
    for_chunks(cells_count_, kCellsAtOnce, run_, [&](int64_t, int64_t first, int64_t end) {
      for (int64_t cell = first; cell < end; ++cell) f(cell);
    });
  }

  // Weights near 2^400 for exact gains, near 1 for the sieve. Those clipped to 1 belong to points with D = 0.
  void scale_weights(double largest) {
    const WeightScale scale(largest);
    const auto small = [](double w) { return static_cast<float>(std::min(w * 0x1p-400, 1.0)); };
    one_weight_ = scale(largest);
    if (scaled_.empty()) std::fill(scaled32_.begin(), scaled32_.end(), small(one_weight_));
    for_cells([&](int64_t cell) {
      for (int64_t i = cell * kCell; !scaled_.empty() && i < std::min(m_, (cell + 1) * kCell); ++i) {
        const double w = scale(weights_[point(i)]);
        scaled_[static_cast<size_t>(i)] = w;
        scaled32_[static_cast<size_t>(i)] = small(w);
      }
      if (!chosen_.empty()) set_sieve(cell);
      add_up(cell);
    });
    largest_ = largest;
  }

  // Sets the thresholds of a cell, and the largest error of the gain at a hit, over the points of a tile.
  void set_sieve(int64_t cell) {
    for (int64_t tile = cell * kTiles; tile < (cell + 1) * kTiles; ++tile) {
      double worst = 0.0;
      for (int64_t i = tile * kPoints; i < std::min(m_, (tile + 1) * kPoints); ++i) {
        const double w32 = weights32(tile)[i % kPoints], d2 = distance2_[static_cast<size_t>(i)];
        const double lost = d2 > 0 ? std::fabs(w32 - weight(i) * 0x1p-400) * d2 : 0.0;
        worst = std::max(worst, w32 * cloud_.set_threshold(i, d2) + lost);
      }
      tile_error_[static_cast<size_t>(tile)] = worst * (1 + 0x1p-20);
    }
  }

  // Σ w·D² of a cell in four interleaved sums (a fixed order, so fixed bits), and the largest distance to a centre.
  void add_up(int64_t cell) {
    const double* const d2 = distance2_.data() + cell * kCell;
    double sum[4] = {};
    for (int64_t l = 0; l < kCell; l += 4)
      for (int64_t s = 0; s < 4; ++s) sum[s] += weight(cell * kCell + l + s) * d2[l + s];
    masses_[static_cast<size_t>(cell)] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    Cell& known = cells_[static_cast<size_t>(cell)];
    if (references_count_ > 0) known.reach = std::sqrt(*std::max_element(d2, d2 + kCell));
  }
  int64_t draw(double u) const {
    return point(
        pick(u, running_, m_, kCell, [&](int64_t i) { return weight(i) * distance2_[static_cast<size_t>(i)]; }));
  }

  // Whether there is a mass to draw from. Where it has underflowed beside weights of points with D = 0, the others are
  // scaled again.
  bool has_mass() {
    const auto massive = [&] {
      std::partial_sum(masses_.begin(), masses_.end(), running_.begin());
      return running_.back() > 0;
    };
    if (massive()) return true;
    double largest = 0.0;
    for (int64_t i = 0; i < m_; ++i)
      if (distance2_[static_cast<size_t>(i)] > 0) largest = std::max(largest, weights_[point(i)]);
    if (largest == 0 || largest == largest_) return false;
    scale_weights(largest);
    return massive();
  }

  // Puts the points of a cell into the tiles; visit(position) while its row is in the cache.
  template <class F>
  void fill_cell(int64_t cell, F&& visit) {
    for (int64_t i = cell * kCell; i < (cell + 1) * kCell; ++i) {
      if (i + kAhead < m_) cloud_.prefetch_point(point(i + kAhead));
      if (i < m_) {
        cloud_.put(i, point(i));
        visit(i);
      } else {
        cloud_.put_none(i);
      }
    }
    set_sieve(cell);
    add_up(cell);
  }

  // D² to the first centre, for all points.
  void begin() {
    const Batch center = cloud_.take(chosen_);
    cloud_.allocate(cells_count_ * kCell);
    for_cells([&](int64_t cell) {
      fill_cell(cell, [&](int64_t i) { distance2_[static_cast<size_t>(i)] = cloud_.distance2(i, center, 0); });
    });
  }

  // Whether no point of the cell can be nearer to a candidate than to its centre. A candidate at distance a from the
  // reference is at least max(a − far, near − a) from every point of the cell; if that exceeds reach, none gains.
  // slack_ and 2^−500 cover the rounding of all distances.
  bool beyond(const Cell& cell, double away) const {
    const double more = 1.0 + slack_, less = 1.0 - slack_;
    const double nearest = std::max(away * less - cell.far * more, cell.near * less - away * more);
    return nearest * less > cell.reach * more + 0x1p-500;
  }

  // The best candidate, the first of equal ones. A candidate whose interval ends below the largest lower end cannot be
  // best; the exact gains of the others decide.
  size_t weigh(const Batch& candidates, const std::vector<int64_t>& points) {
    const size_t trials = points.size();
    work_.pairs += m_ * static_cast<int64_t>(trials);
    const std::vector<Gain> found = sieve(candidates, trials);
    std::vector<size_t> contenders;
    // Eq. 19.
    double least = 0.0;  // a lower bound of the best gain
    for (const Gain& gain : found) least = std::max(least, gain.about - gain.error);
    for (size_t t = 0; t < trials; ++t) {
      const bool again = sieves_ && std::find(points.begin(), points.begin() + static_cast<int64_t>(t), points[t]) !=
                                        points.begin() + static_cast<int64_t>(t);
      if (!again && found[t].about + found[t].error >= least) contenders.push_back(t);
    }
    evaluated_best_ = contenders.size() > 1 || !skip_;
    if (!evaluated_best_) return contenders[0];
    const std::vector<double> gains = exact_gains(candidates, contenders, trials);
    return contenders[static_cast<size_t>(std::max_element(gains.begin(), gains.end()) - gains.begin())];
  }

  // A candidate's gain / 2^401, in [about − error, about + error].
  struct Gain {
    double about = 0.0, error = 0.0;
  };

  // One sweep that finds which points the candidates may gain, and approximately how much.
  std::vector<Gain> sieve(const Batch& candidates, size_t trials) {
    std::vector<double> away(static_cast<size_t>(references_count_) * trials);  // (references, trials)
    for (size_t r = 0; r < static_cast<size_t>(references_count_); ++r)
      for (size_t t = 0; t < trials; ++t)
        away[r * trials + t] = std::sqrt(cloud_.between(references_, r, candidates, t));

    hits_.resize(static_cast<size_t>(cells_count_ * kTiles) * trials);
    std::vector<Gain> partials(static_cast<size_t>(chunk_count(cells_count_, kCellsAtOnce)) * trials);
    std::atomic<int64_t> beyond_count{0};
    for_chunks(cells_count_, kCellsAtOnce, run_, [&](int64_t chunk, int64_t first, int64_t end) {
      std::vector<float> gains(trials * kGainLanes);
      std::vector<double> errors(trials);
      const auto scan = [&](int64_t cell, int64_t stop) {  // cells [cell, stop)
        const int64_t tile = cell * kTiles, tiles = (stop - cell) * kTiles;
        uint32_t* const hits = hits_.data() + static_cast<size_t>(tile) * trials;
        if (sieves_)
          cloud_.weigh(tile, tiles, candidates, weights32(tile), scaled_.empty() ? 0 : kPoints,
                       tile_error_.data() + tile, hits, gains.data(), errors.data());
        else
          for (int64_t i = 0; i < tiles; ++i)
            std::fill_n(hits + static_cast<size_t>(i) * trials, trials, occupied(tile + i));
      };
      if (references_count_ == 0) {
        scan(first, end);
      } else {
        std::vector<uint8_t> out_of_reach(trials);
        int64_t all = 0;
        for (int64_t c = first; c < end; ++c) {
          const Cell& cell = cells_[static_cast<size_t>(c)];
          uint32_t* const hits = hits_.data() + static_cast<size_t>(c * kTiles) * trials;
          size_t count = 0;
          for (size_t t = 0; t < trials; ++t) {
            out_of_reach[t] = beyond(cell, away[static_cast<size_t>(cell.reference) * trials + t]);
            count += out_of_reach[t];
          }
          all += static_cast<int64_t>(count);
          if (!skip_ || count < trials) scan(c, c + 1);
          for (size_t t = 0; skip_ && t < trials; ++t)
            for (size_t tile = 0; out_of_reach[t] != 0 && tile < kTiles; ++tile) hits[tile * trials + t] = 0;
        }
        beyond_count += all;
      }
      Gain* const partial = partials.data() + static_cast<size_t>(chunk) * trials;
      for (size_t t = 0; t < trials; ++t) {
        for (size_t l = 0; l < kGainLanes; ++l) partial[t].about += static_cast<double>(gains[t * kGainLanes + l]);
        partial[t].error = errors[t];
      }
    });
    if (references_count_ > 0) tested_ += cells_count_ * static_cast<int64_t>(trials);
    beyond_ += beyond_count;

    std::vector<Gain> whole(trials);
    for (size_t p = 0; p < partials.size(); ++p) {
      whole[p % trials].about += partials[p].about;
      whole[p % trials].error += partials[p].error;
    }
    for (Gain& gain : whole)
      gain.error = sieves_
                       ? gain.error * (1 + kGainSlack) + gain.about * kGainSlack + static_cast<double>(m_) * kGainTiny
                       : std::numeric_limits<double>::infinity();
    return whole;
  }
  // A bit for every point of a tile; the last tile may be partly empty.
  uint32_t occupied(int64_t tile) const {
    const int64_t count = std::clamp<int64_t>(m_ - tile * kPoints, 0, kPoints);
    return static_cast<uint32_t>((uint64_t{1} << count) - 1);
  }

  // The exact gains of the contenders, from the points that the sieve did not rule out.
  std::vector<double> exact_gains(const Batch& candidates, const std::vector<size_t>& contenders, size_t trials) {
    const size_t count = contenders.size();
    std::vector<double> gains(static_cast<size_t>(cells_count_) * count);
    std::atomic<int64_t> evaluated{0};
    for_cells([&](int64_t cell) {
      int64_t seen = 0;
      for (size_t s = 0; s < count; ++s)
        for (int64_t tile = cell * kTiles; tile < (cell + 1) * kTiles; ++tile) {
          const uint32_t points = hits_[static_cast<size_t>(tile) * trials + contenders[s]];
          gains[static_cast<size_t>(cell) * count + s] += gain(tile, points, candidates, contenders[s]);
          seen += std::popcount(points);
        }
      evaluated.fetch_add(seen, std::memory_order_relaxed);
    });
    work_.evaluated += evaluated;
    std::vector<double> whole(count, 0.0);
    for (size_t c = 0; c < static_cast<size_t>(cells_count_); ++c)
      for (size_t s = 0; s < count; ++s) whole[s] += gains[c * count + s];
    return whole;
  }
  // Points that gain nothing add an exact 0, so the result does not depend on which of them are evaluated.
  double gain(int64_t tile, uint32_t points, const Batch& candidates, size_t t) const {
    if (points == 0) return 0.0;
    int64_t hit[kPoints] = {}, count = 0;
    double d2[kPoints] = {}, sum = 0.0;
    for (; points != 0; points &= points - 1) hit[count++] = tile * kPoints + std::countr_zero(points);
    cloud_.distances2(hit, count, candidates, t, distance2_.data(), d2);
    for (int64_t h = 0; h < count; ++h) {
      const double less = distance2_[static_cast<size_t>(hit[h])] - d2[h];
      sum += weight(hit[h]) * (less > 0.0 ? less : 0.0);
    }
    return sum;
  }

  // Makes candidate `best` centre number j: only the points that it hit can come nearer.
  void accept(const Batch& candidates, size_t best, int64_t j) {
    const size_t trials = hits_.size() / static_cast<size_t>(cells_count_ * kTiles);
    const auto hits = [&](int64_t tile) { return hits_[static_cast<size_t>(tile) * trials + best]; };
    std::atomic<int64_t> evaluated{0};
    for_cells([&](int64_t cell) {
      int64_t hit[kCell] = {}, count = 0;
      double d2[kCell] = {};
      for (int64_t tile = cell * kTiles; tile < (cell + 1) * kTiles; ++tile)
        for (uint32_t points = hits(tile); points != 0; points &= points - 1)
          hit[count++] = tile * kPoints + std::countr_zero(points);
      if (count == 0) return;
      if (cell + 1 < cells_count_)
        for (int64_t tile = (cell + 1) * kTiles; tile < (cell + 2) * kTiles; ++tile)
          for (uint32_t points = hits(tile); points != 0; points &= points - 1)
            cloud_.prefetch_position(tile * kPoints + std::countr_zero(points));
      cloud_.distances2(hit, count, candidates, best, distance2_.data(), d2);
      bool changed = false;
      for (int64_t h = 0; h < count; ++h) {
        const int64_t i = hit[h];
        // Strict: of equally near centres the earlier stays, so nearest_ does not depend on what was skipped.
        if (!(d2[h] < distance2_[static_cast<size_t>(i)])) continue;
        distance2_[static_cast<size_t>(i)] = d2[h];
        if (!nearest_.empty()) nearest_[static_cast<size_t>(i)] = static_cast<int32_t>(j);
        cloud_.set_threshold(i, d2[h]);
        changed = true;
      }
      if (changed) add_up(cell);
      evaluated.fetch_add(count, std::memory_order_relaxed);
    });
    if (!evaluated_best_) work_.evaluated += evaluated;
  }

  // Sorts the points by centre, from near to far, and makes the centres the references of their cells.
  void group() {
    tested_ = beyond_ = 0;
    references_ = cloud_.take(chosen_);
    references_count_ = static_cast<int64_t>(chosen_.size());
    const auto count = static_cast<size_t>(m_);
    std::vector<int32_t> from(count);
    std::iota(from.begin(), from.end(), 0);
    {
      const auto keys = std::make_unique_for_overwrite<uint64_t[]>(count);
      for_chunks(m_, 1 << 14, run_, [&](int64_t, int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          // The order of bits of a nonnegative double is that of its value: 16 leading bits sort by distance, roughly.
          // The sort is stable, so positions depend on contents alone.
          keys[i] = static_cast<uint64_t>(nearest_[i]) << 16 | std::bit_cast<uint64_t>(distance2_[i]) >> 48;
      });
      radix_sort(keys.get(), from.data(), m_, run_);
    }
    reorder(from, order_);
    reorder(from, distance2_);
    reorder(from, nearest_);
    for_cells([&](int64_t c) {
      Cell& cell = cells_[static_cast<size_t>(c)];
      cell.reference = nearest_[static_cast<size_t>(c * kCell)];
      double least = std::numeric_limits<double>::infinity(), most = 0.0;
      fill_cell(c, [&](int64_t i) {
        const double d2 = cloud_.distance2(i, references_, static_cast<size_t>(cell.reference));
        least = std::min(least, d2);
        most = std::max(most, d2);
      });
      cell.near = std::sqrt(least);
      cell.far = std::sqrt(most);
    });
    if (!scaled_.empty()) scale_weights(largest_);
  }
  // values[i] = values[from[i]].
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
  bool skip_, sieves_;
  Run run_;
  std::vector<int32_t> order_;     // (m) the point at each position; empty: the identity
  std::vector<double> distance2_;  // (height) to the nearest centre; 0 in empty positions
  std::vector<int32_t> nearest_;   // (height) centres; empty if points are never grouped
  std::vector<double> scaled_;     // (height) weights; empty: all are one_weight_
  std::vector<float> scaled32_;    // (height) over 2^400; one tile where all are equal
  double one_weight_ = 0.0, largest_ = 0.0;
  std::vector<double> tile_error_;  // (tiles) of the gain at a hit
  std::vector<Cell> cells_;         // (cells)
  std::vector<double> masses_;      // (cells) Σ w·D²
  std::vector<double> running_;     // (cells) cumulative masses
  std::vector<uint32_t> hits_;      // (tiles, trials) the points that may have gained
  std::vector<int64_t> chosen_;     // the centres so far, as points of the multiset
  bool evaluated_best_ = false;     // by exact_gains
  Batch references_;
  int64_t references_count_ = 0;
  int64_t tested_ = 0, beyond_ = 0;  // pairs of a cell and a candidate since the last grouping
  SeedingWork work_;
};

}  // namespace

template <class Points>
SeedingWork kmeans_plus_plus(const Points& x, const int64_t* rows, const double* weights, int64_t m, int64_t k,
                             uint64_t seed, uint64_t restart, int64_t trials, bool skip, int64_t* out, Run run) {
  if (m > std::numeric_limits<int32_t>::max())
    throw std::length_error("k-means++ takes at most 2^31 - 1 unique rows. Seed from a sample of the rows.");
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
KNOLL_FOR_POINTS(KNOLL_PLUS_PLUS)
#undef KNOLL_PLUS_PLUS

}  // namespace knoll
