// The passes of EM that sum: with the model's responsibilities, or with ones that are passed in.
//
// Sums are plain float64 within a chunk of kGrain rows (here a *cell*) and exact between cells, so their bits are the
// same for any number of threads and any blocks that are cut at multiples of kGrain.
#include "mixture/em_pass.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <vector>

#include "common/exact_sum.hpp"
#include "mixture/em_tile.hpp"

namespace knoll {
namespace {

using namespace mixture;

// The plain float64 sums of the M step over a cell, or a piece of it.
class CellSums {
 public:
  CellSums(View<const double, 2> centers, Scatter scatter)
      : k_(centers.shape[0]), d_(centers.shape[1]), ld_(padded(d_)), scatter_(scatter), peaks(size_of(k_), 0.0) {
    const int64_t small = 1 + d_ + d_ * (d_ + 1) / 2, by_column = 1 + 2 * ld_;
    // Sums by lanes (four of each) up to three columns and for variances; else one of each, summed in strips.
    size_ = !strips() ? kLane * (scatter == Scatter::full ? small : by_column) : kLane + ld_ + ld_ * ld_;
    sums_.resize(size_of(k_ * size_));
    reach_.resize(size_of(strips() ? 2 * ld_ : 0));
    spent_.resize(size_of(k_));
    for (int64_t c = 0; c < k_; ++c) {
      centers_.push_back(row_of(centers, c));
      zero_.push_back(std::all_of(centers_.back().begin(), centers_.back().end(), [](double o) { return o == 0; }));
    }
  }

  // Whether points are needed in strips: for full second moments of wide data.
  bool strips() const { return scatter_ == Scatter::full && d_ > 3; }

  double likelihood = 0, mass = 0, noise = 0;

  void clear() {
    likelihood = mass = noise = 0;
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(peaks.begin(), peaks.end(), 0.0);
    std::fill(reach_.begin(), reach_.end(), 0.0);
    std::fill(spent_.begin(), spent_.end(), 0.0);
  }

  // To be called for each tile before it is added: least_share bounds a dropped point by the reach of all tiles so far.
  template <class T>
  void update_reach(const Tile<T>& tile) {
    if (strips()) kernels().mixture.reach(tile.columns.data(), tile.points, d_, reach_.data());
  }

  // Adds the tile's points with weights wλ to component c.
  template <class T>
  void add(Tile<T>& tile, int64_t c, const double* lambda) {
    const MixtureKernels& kernel = kernels().mixture;
    double* const sums = sums_.data() + c * size_;
    const double* const center = centers_[size_of(c)].data();
    if (scatter_ != Scatter::full) {
      kernel.column_sums(tile.columns.data(), tile.points, d_, lambda, center, scatter_ == Scatter::columns, sums);
    } else if (!strips()) {
      kernel.small_sums(tile.columns.data(), tile.points, d_, lambda, center, sums);
    } else {
      double* const first = sums + kLane;
      kernel.scatter(tile.strips.data(), tile.points, d_, lambda, zero_[size_of(c)] ? nullptr : center, reach_.data(),
                     tile.centered.data(), tile.other.data(), &spent_[size_of(c)], sums, first, first + ld_);
    }
  }

  // Adds the next piece of the same cell.
  // reach_ and spent_ stay those of each piece: the budget of what is left out is one per piece (M6).
  void add(const CellSums& next) {
    likelihood += next.likelihood, mass += next.mass, noise += next.noise;
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += next.sums_[i];
    for (size_t c = 0; c < peaks.size(); ++c) peaks[c] = std::max(peaks[c], next.peaks[c]);
  }

  // The sums in the order of the exact ones (mixture_component_sums).
  void list(std::vector<double>& out) const {
    out.assign({likelihood, mass, noise});
    for (int64_t c = 0; c < k_; ++c) {
      const double* s = sums_.data() + c * size_;
      out.push_back(lanes_sum(s));
      s += kLane;
      if (strips()) {
        out.insert(out.end(), s, s + d_);
        s += ld_;
        for (int64_t i = 0; i < d_; ++i, s += ld_) out.insert(out.end(), s + i, s + d_);
        continue;
      }
      for (int64_t j = 0; j < d_; ++j) out.push_back(lanes_sum(s + kLane * j));
      s += kLane * (scatter_ == Scatter::full ? d_ : ld_);
      const int64_t second = mixture_component_sums(d_, scatter_) - 1 - d_;
      for (int64_t j = 0; j < second; ++j) out.push_back(lanes_sum(s + kLane * j));
    }
  }

 private:
  int64_t k_, d_, ld_, size_ = 0;
  Scatter scatter_;
  std::vector<std::vector<double>> centers_;
  std::vector<bool> zero_;  // (k) whether the centre is the origin, so that no difference needs to be taken
  AlignedVector<double> sums_;
  std::vector<double> reach_;  // (2, ld) the largest |y_j| of the tiles so far and 1 / y_j², where strips are summed
  std::vector<double> spent_;  // (k) what was left out of the second moments, as a sum of λ

 public:
  std::vector<double> peaks;  // (k)
};

// The exact sums of all cells, whose words are cleared when they come into use.
struct Total {
  View<int64_t, 2> sums;
  View<int64_t, 1> used;

  void add(const std::vector<double>& values) {
    // A double occupies three words of 32 bits, from (exponent − 1) / 32 on; what is not finite is counted in the last.
    // The smallest and the largest exponent of what is added, hence the words that are touched. A subnormal counts as
    // exponent 0, whose word is that of the smallest normal number.
    uint64_t least = kBeyond, most = 0;
    for (const double value : values) {
      const uint64_t exponent = std::bit_cast<uint64_t>(value) >> 52 & kBeyond;
      least = std::min(least, value == 0 ? kBeyond : exponent);
      most = std::max(most, exponent);
    }
    if (least > most) return;  // zeros
    auto word = [](uint64_t exponent) { return static_cast<int64_t>(exponent - (exponent != 0 ? 1 : 0)) / 32; };
    use(std::min<int64_t>(word(least), kFiniteWords), most == kBeyond ? kSumWords : word(most) + 3);
    for (size_t j = 0; j < values.size(); ++j)
      if (values[j] != 0) exact_add(&sums(0, static_cast<int64_t>(j)), values[j], sums.stride[0]);
  }

 private:
  static constexpr uint64_t kBeyond = 0x7ff;  // the exponent of what is not finite

  // Extends [used(0), used(1)) and clears what comes in, so that fresh memory outside stays untouched.
  void use(int64_t first, int64_t last) {
    if (used(0) >= used(1)) used(0) = used(1) = first;
    while (used(0) > first) clear(--used(0));
    while (used(1) < last) clear(used(1)++);
  }
  void clear(int64_t word) {
    for (int64_t j = 0; j < sums.shape[1]; ++j) sums(word, j) = 0;
  }
};

// Wide points take long, and few cells balance badly over threads. So a cell is cut into pieces of whole tiles, at
// fixed rows, and the thread that finishes the last of them adds them in their order: the bits depend on no schedule.
// 22 tiles are 2112 or 1056 rows: two or four pieces to a cell. The grid is a function of d alone (M10).
inline int64_t piece_rows(int64_t d) { return d <= 12 ? kGrain : 22 * tile_points(d); }

// Accumulators of pieces: finished ones wait for the others of their cell, free ones are reused.
class Pieces {
 public:
  Pieces(const CellSums& empty, int64_t rows, int64_t in_cell, int64_t piece)
      : empty_(empty), in_cell_(in_cell), left_(size_of(chunk_count(rows, kGrain))) {
    for (size_t cell = 0; cell < left_.size(); ++cell)
      left_[cell] = chunk_count(std::min(kGrain, rows - static_cast<int64_t>(cell) * kGrain), piece);
    done_.resize(left_.size() * size_of(in_cell));
  }

  // Reused, since one has about k·d² sums, and fresh memory costs more than clearing it.
  std::unique_ptr<CellSums> take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto sums = std::move(free_.back());
        free_.pop_back();
        sums->clear();
        return sums;
      }
    }
    return std::make_unique<CellSums>(empty_);
  }

  // Stores a finished piece; the last one of a cell adds the cell to the exact total. acq_rel: it must see the sums
  // that other threads stored before they counted down.
  void put(int64_t index, std::unique_ptr<CellSums> sums, Total total, View<double, 1> peaks) {
    const int64_t cell = index / in_cell_;
    done_[size_of(index)] = std::move(sums);
    if (left_[size_of(cell)].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    auto* const pieces = &done_[size_of(cell * in_cell_)];
    // In the order of the rows, whoever finished first: plain sums depend on it (docs/numerics/concurrency.md, T8).
    for (int64_t p = 1; p < in_cell_ && pieces[p]; ++p) pieces[0]->add(*pieces[p]);
    std::vector<double> values;
    pieces[0]->list(values);
    std::lock_guard lock(mutex_);
    // Exact from here on, so cells may come in any order.
    total.add(values);
    for (int64_t c = 0; c < peaks.shape[0]; ++c) peaks(c) = std::max(peaks(c), pieces[0]->peaks[size_of(c)]);
    for (int64_t p = 0; p < in_cell_ && pieces[p]; ++p) free_.push_back(std::move(pieces[p]));
  }

 private:
  const CellSums& empty_;
  int64_t in_cell_;
  std::vector<std::atomic<int64_t>> left_;       // (cells) pieces that are not done
  std::vector<std::unique_ptr<CellSums>> done_;  // (cells · in_cell)
  std::mutex mutex_;                             // guards free_ and the total
  std::vector<std::unique_ptr<CellSums>> free_;
};

// Pieces of all cells in parallel: body(tile, sums, from, rows) for each tile of a piece. Sums start as `empty`.
template <class T, class F>
void for_cells(View<const T, 2> x, View<const double, 1> weights, Centering centering, int64_t rows_of_joint,
               const CellSums& empty, Total total, View<double, 1> peaks, Run run, F&& body) {
  const int64_t n = x.shape[0], d = x.shape[1], piece = piece_rows(d);
  const int64_t in_cell = chunk_count(kGrain, piece);
  Pieces pieces(empty, n, in_cell, piece);
  for_chunks(chunk_count(n, kGrain) * in_cell, 1, run, [&](int64_t index, int64_t, int64_t) {
    const int64_t cell = index / in_cell * kGrain, begin = cell + index % in_cell * piece;
    const int64_t end = std::min({begin + piece, cell + kGrain, n});
    // The last cell may have fewer pieces.
    if (begin >= end) return;
    auto sums = pieces.take();
    Tile<T> tile(d, centering, rows_of_joint, sums->strips());
    for (int64_t from = begin; from < end; from += tile.points) {
      run.poll();
      const int64_t rows = std::min(tile.points, end - from);
      tile.pack(x.rows(from, from + rows));
      // What is prefetched may belong to the next piece, which another thread may take: only time is lost.
      tile.expect_next(x, from + rows);
      sums->mass += tile.weigh(weights, from, rows);
      sums->update_reach(tile);
      body(tile, *sums, from, rows);
    }
    pieces.put(index, std::move(sums), total, peaks);
  });
}

}  // namespace

template <class T>
void add_mixture(View<const T, 2> x, View<const double, 1> weights, const MixtureModel& model,
                 View<const double, 2> centers, Scatter scatter, View<int64_t, 2> sums, View<int64_t, 1> used,
                 View<double, 1> peaks, Run run) {
  const Prepared prepared(model);
  const int64_t rows_of_joint = prepared.rows();
  // E and M steps of a tile while it is in the first cache level: nothing of size n × k is stored.
  auto body = [&](Tile<T>& tile, CellSums& cell, int64_t, int64_t) {
    double likelihood[kLane] = {};
    tile.fill_joint(prepared);
    tile.normalise(likelihood, false);
    cell.likelihood += lanes_sum(likelihood);
    // Only living components have a row of responsibilities; dead ones keep sums of zero.
    int64_t a = 0;
    for (const Component& c : prepared.alive) {
      cell.add(tile, c.index, tile.row(a));
      const double* const peak = tile.peaks.data() + kLane * a++;
      cell.peaks[size_of(c.index)] = std::max({cell.peaks[size_of(c.index)], peak[0], peak[1], peak[2], peak[3]});
    }
    if (prepared.has_noise())
      for (int64_t l = 0; l < tile.points; ++l) cell.noise += tile.row(a)[l];
  };
  for_cells(x, weights, model.centering, rows_of_joint, CellSums(centers, scatter), {sums, used}, peaks, run, body);
}

template <class T>
void add_responsibilities(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> resp,
                          View<const int64_t, 1> labels, Centering centering, View<const double, 2> centers,
                          Scatter scatter, View<int64_t, 2> sums, View<int64_t, 1> used, View<double, 1> peaks,
                          Run run) {
  const int64_t k = centers.shape[0];
  auto body = [&](Tile<T>& tile, CellSums& cell, int64_t from, int64_t rows) {
    std::fill(tile.joint.begin(), tile.joint.end(), 0.0);
    std::vector<double> peak(size_of(k), 0.0);
    for (int64_t l = 0; l < rows; ++l) {
      const double w = tile.weighted ? tile.weights[size_of(l)] : 1.0;
      auto put = [&](int64_t c, double lambda) {
        tile.row(c)[l] = w * lambda;
        // As in mixture_normalise: a row without weight keeps nobody alive.
        if (w > 0) peak[size_of(c)] = std::max(peak[size_of(c)], lambda);
      };
      if (!labels.empty()) {
        if (labels(from + l) >= 0) put(labels(from + l), 1.0);
      } else {
        for (int64_t c = 0; c < k; ++c) put(c, resp(from + l, c));
      }
    }
    // A component without a responsibility in the tile adds zeros only.
    for (int64_t c = 0; c < k; ++c) {
      if (!(peak[size_of(c)] > 0)) continue;
      cell.add(tile, c, tile.row(c));
      cell.peaks[size_of(c)] = std::max(cell.peaks[size_of(c)], peak[size_of(c)]);
    }
  };
  for_cells(x, weights, centering, k, CellSums(centers, scatter), {sums, used}, peaks, run, body);
}

#define KNOLL_MIXTURE(T)                                                                                         \
  template void add_mixture(View<const T, 2>, View<const double, 1>, const MixtureModel&, View<const double, 2>, \
                            Scatter, View<int64_t, 2>, View<int64_t, 1>, View<double, 1>, Run);                  \
  template void add_responsibilities(View<const T, 2>, View<const double, 1>, View<const double, 2>,             \
                                     View<const int64_t, 1>, Centering, View<const double, 2>, Scatter,          \
                                     View<int64_t, 2>, View<int64_t, 1>, View<double, 1>, Run);
KNOLL_MIXTURE(float)
KNOLL_MIXTURE(double)
#undef KNOLL_MIXTURE

}  // namespace knoll
