#include "knoll/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "knoll/cholesky.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

constexpr int64_t kLane = 4;  // sums by lanes are four doubles, added as hsum of src/simd/lanes.inl adds them
constexpr double kNever = -std::numeric_limits<double>::infinity();

size_t size_of(int64_t n) { return static_cast<size_t>(n); }
double lanes_sum(const double* s) { return (s[0] + s[1]) + (s[2] + s[3]); }

// Points of a tile: what a first cache level holds. Depends on the width alone.
int64_t tile_points(int64_t d) { return d <= 32 ? 64 : 32; }

std::vector<double> row_of(View<const double, 2> matrix, int64_t r) {
  std::vector<double> row(size_of(matrix.shape[1]));
  for (int64_t j = 0; j < matrix.shape[1]; ++j) row[size_of(j)] = matrix(r, j);
  return row;
}

std::vector<double> vector_of(View<const double, 1> v) {
  std::vector<double> out(size_of(v.shape[0]));
  for (int64_t j = 0; j < v.shape[0]; ++j) out[size_of(j)] = v(j);
  return out;
}

// A lower triangle (d·d) in the order that src/simd/mixture.inl reads it.
std::vector<double> blocked(const std::vector<double>& lower, int64_t d) {
  std::vector<double> out;
  if (d <= 3) {
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j <= i; ++j) out.push_back(lower[size_of(i * d + j)]);
    return out;
  }
  for (int64_t i = 0; i < d; i += 4)
    for (int64_t j = 0; j < i + 4; ++j)
      for (int64_t t = i; t < i + 4; ++t) out.push_back(t < d && j <= t ? lower[size_of(t * d + j)] : 0.0);
  return out;
}

// One component as the kernels read it.
struct Component {
  int64_t index;
  std::vector<double> mean, factor;
  double constant;
};

// The living components, laid out for the kernels.
struct Prepared {
  Shape shape;
  int64_t k, d;
  std::vector<Component> alive;
  std::vector<double> common;  // the factor of all, where it is tied
  double noise;

  explicit Prepared(const MixtureModel& model)
      : shape(model.shape), k(model.means.shape[0]), d(model.means.shape[1]), noise(model.noise) {
    if (shape == Shape::tied) common = blocked(row_of(model.factors, 0), d);
    for (int64_t c = 0; c < k; ++c) {
      if (model.constants(c) == kNever) continue;
      Component part{c, row_of(model.means, c), {}, model.constants(c)};
      if (shape != Shape::tied) part.factor = row_of(model.factors, c);
      if (shape == Shape::full) part.factor = blocked(part.factor, d);
      alive.push_back(std::move(part));
    }
  }

  bool has_noise() const { return noise != kNever; }
  int64_t rows() const { return static_cast<int64_t>(alive.size()) + (has_noise() ? 1 : 0); }
};

// A tile of points in the frame, and what is computed of it.
template <class T>
struct Tile {
  int64_t d, points;
  std::vector<double> origin;
  double scale;
  std::vector<double> columns, strips, scratch, other, joint, log_p, weights;

  Tile(int64_t width, Frame frame, int64_t rows, bool with_strips)
      : d(width),
        points(tile_points(width)),
        origin(vector_of(frame.origin)),
        scale(frame.scale),
        columns(size_of(padded(d) * points)),
        strips(with_strips ? columns.size() : 0),
        other(columns.size()),
        joint(size_of(rows * points)),
        log_p(size_of(points)),
        weights(size_of(points)) {}

  double* row(int64_t c) { return joint.data() + c * points; }

  void pack(View<const T, 2> x) {
    const int64_t rows = x.shape[0];
    double* const s = strips.empty() ? nullptr : strips.data();
    if (!x.rows_contiguous()) {
      scratch.resize(size_of(points * d));
      pack_rows(x, scratch.data());
      kernels().mixture.pack_f64(scratch.data(), d, rows, points, d, origin.data(), scale, columns.data(), s);
    } else if constexpr (std::is_same_v<T, double>) {
      kernels().mixture.pack_f64(x.data, x.stride[0], rows, points, d, origin.data(), scale, columns.data(), s);
    } else {
      kernels().mixture.pack_f32(x.data, x.stride[0], rows, points, d, origin.data(), scale, columns.data(), s);
    }
  }

  // weights[l] of the rows, 0 beyond them; returns their sum.
  double weigh(View<const double, 1> given, int64_t from, int64_t rows) {
    double sum = 0;
    for (int64_t l = 0; l < points; ++l) {
      weights[size_of(l)] = l >= rows ? 0.0 : given.empty() ? 1.0 : given(from + l);
      sum += weights[size_of(l)];
    }
    return sum;
  }

  // joint(a, l) = log p(x_l, component a) for those alive, the noise last.
  void fill_joint(const Prepared& model) {
    const MixtureKernels& kernel = kernels().mixture;
    const double* y = columns.data();
    if (model.shape == Shape::tied) {
      kernel.whiten(y, points, d, model.common.data(), other.data());
      y = other.data();
    }
    int64_t a = 0;
    for (const Component& c : model.alive) {
      const double *mean = c.mean.data(), *factor = c.factor.data();
      double* const out = row(a++);
      switch (model.shape) {
        case Shape::full:
          kernel.full(y, points, d, mean, factor, c.constant, other.data(), out);
          break;
        case Shape::tied:
          kernel.round(y, points, d, mean, 1.0, c.constant, out);
          break;
        case Shape::diagonal:
          kernel.diagonal(y, points, d, mean, factor, c.constant, out);
          break;
        case Shape::round:
          kernel.round(y, points, d, mean, factor[0], c.constant, out);
          break;
      }
    }
    if (model.has_noise()) std::fill_n(row(a), points, model.noise);
  }
};

// The plain float64 sums of the M step over one cell of the grid.
class CellSums {
 public:
  CellSums(View<const double, 2> centers, Scatter scatter)
      : k_(centers.shape[0]), d_(centers.shape[1]), ld_(padded(d_)), scatter_(scatter), peaks(size_of(k_), 0.0) {
    const int64_t small = 1 + d_ + d_ * (d_ + 1) / 2, by_column = 1 + 2 * ld_;
    size_ = !strips() ? kLane * (scatter == Scatter::full ? small : by_column) : kLane + ld_ + ld_ * ld_;
    sums_.resize(size_of(k_ * size_));
    for (int64_t c = 0; c < k_; ++c) centers_.push_back(row_of(centers, c));
  }

  // Whether points are needed in strips: for full second moments of wide data.
  bool strips() const { return scatter_ == Scatter::full && d_ > 3; }

  double likelihood = 0, mass = 0, noise = 0;

  void clear() {
    likelihood = mass = noise = 0;
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(peaks.begin(), peaks.end(), 0.0);
  }

  // The tile's points with wλ, for component c.
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
      double *const first = sums + kLane, *const second = first + ld_, *const weighted = tile.other.data();
      kernel.weigh(tile.strips.data(), tile.points, d_, lambda, center, weighted, sums, first);
      kernels().tall_product(weighted, ld_, weighted, ld_, tile.points, tile.points, second, ld_, true, nullptr, 0);
    }
  }

  void add_to(View<int64_t, 2> sums) const {
    int64_t column = 0;
    auto put = [&](double value) { exact_add(&sums(0, column++), value, sums.stride[0]); };
    put(likelihood), put(mass), put(noise);
    for (int64_t c = 0; c < k_; ++c) {
      const double* s = sums_.data() + c * size_;
      put(lanes_sum(s));
      s += kLane;
      if (strips()) {
        for (int64_t j = 0; j < d_; ++j) put(s[j]);
        s += ld_;
        for (int64_t i = 0; i < d_; ++i)
          for (int64_t j = i; j < d_; ++j) put(s[i * ld_ + j]);
        continue;
      }
      for (int64_t j = 0; j < d_; ++j) put(lanes_sum(s + kLane * j));
      s += kLane * (scatter_ == Scatter::full ? d_ : ld_);
      const int64_t rest = mixture_component_sums(d_, scatter_) - 1 - d_;
      for (int64_t j = 0; j < rest; ++j) put(lanes_sum(s + kLane * j));
    }
  }

 private:
  int64_t k_, d_, ld_, size_ = 0;
  Scatter scatter_;
  std::vector<std::vector<double>> centers_;
  std::vector<double> sums_;

 public:
  std::vector<double> peaks;  // (k)
};

// Cells of the grid in parallel: body(tile, cell, from, rows) for each tile of a cell, then the cell is added exactly.
template <class T, class F>
void for_cells(View<const T, 2> x, View<const double, 1> weights, Frame frame, int64_t rows_of_joint,
               View<const double, 2> centers, Scatter scatter, View<int64_t, 2> sums, View<double, 1> peaks, Run run,
               F&& body) {
  std::mutex mutex;
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    CellSums cell(centers, scatter);
    Tile<T> tile(x.shape[1], frame, rows_of_joint, cell.strips());
    for (int64_t from = begin; from < end; from += tile.points) {
      run.poll();
      const int64_t rows = std::min(tile.points, end - from);
      tile.pack(x.rows(from, from + rows));
      cell.mass += tile.weigh(weights, from, rows);
      body(tile, cell, from, rows);
    }
    std::lock_guard lock(mutex);
    cell.add_to(sums);
    for (int64_t c = 0; c < peaks.shape[0]; ++c) peaks(c) = std::max(peaks(c), cell.peaks[size_of(c)]);
  });
}

}  // namespace

template <class T>
void add_mixture(View<const T, 2> x, View<const double, 1> weights, const MixtureModel& model,
                 View<const double, 2> centers, Scatter scatter, View<int64_t, 2> sums, View<double, 1> peaks,
                 Run run) {
  const Prepared prepared(model);
  const int64_t rows_of_joint = prepared.rows();
  auto body = [&](Tile<T>& tile, CellSums& cell, int64_t, int64_t) {
    double likelihood[kLane] = {};
    std::vector<double> peak(size_of(rows_of_joint * kLane), 0.0);
    tile.fill_joint(prepared);
    kernels().mixture.normalise(tile.joint.data(), rows_of_joint, tile.points, tile.weights.data(), tile.log_p.data(),
                                likelihood, peak.data());
    cell.likelihood += lanes_sum(likelihood);
    int64_t a = 0;
    for (const Component& c : prepared.alive) {
      cell.add(tile, c.index, tile.row(a));
      double& top = cell.peaks[size_of(c.index)];
      for (int64_t l = 0; l < kLane; ++l) top = std::max(top, peak[size_of(a * kLane + l)]);
      ++a;
    }
    if (prepared.has_noise())
      for (int64_t l = 0; l < tile.points; ++l) cell.noise += tile.row(a)[l];
  };
  for_cells(x, weights, model.frame, rows_of_joint, centers, scatter, sums, peaks, run, body);
}

template <class T>
void add_given(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> given,
               View<const int64_t, 1> labels, Frame frame, View<const double, 2> centers, Scatter scatter,
               View<int64_t, 2> sums, View<double, 1> peaks, Run run) {
  const int64_t k = centers.shape[0];
  auto body = [&](Tile<T>& tile, CellSums& cell, int64_t from, int64_t rows) {
    std::fill(tile.joint.begin(), tile.joint.end(), 0.0);
    std::vector<double> peak(size_of(k), 0.0);
    for (int64_t l = 0; l < rows; ++l) {
      const double w = tile.weights[size_of(l)];
      auto put = [&](int64_t c, double lambda) {
        tile.row(c)[l] = w * lambda;
        if (w > 0) peak[size_of(c)] = std::max(peak[size_of(c)], lambda);
      };
      if (!labels.empty()) {
        if (labels(from + l) >= 0) put(labels(from + l), 1.0);
      } else {
        for (int64_t c = 0; c < k; ++c) put(c, given(from + l, c));
      }
    }
    for (int64_t c = 0; c < k; ++c) {
      if (!(peak[size_of(c)] > 0)) continue;
      cell.add(tile, c, tile.row(c));
      cell.peaks[size_of(c)] = std::max(cell.peaks[size_of(c)], peak[size_of(c)]);
    }
  };
  for_cells(x, weights, frame, k, centers, scatter, sums, peaks, run, body);
}

template <class T>
void expect_mixture(View<const T, 2> x, const MixtureModel& model, View<double, 2> resp, View<int64_t, 1> labels,
                    View<double, 1> log_prob, View<double, 2> log_joint, Run run) {
  const Prepared prepared(model);
  const int64_t rows_of_joint = prepared.rows(), living = static_cast<int64_t>(prepared.alive.size());
  for_chunks(x.shape[0], kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    Tile<T> tile(x.shape[1], model.frame, rows_of_joint, false);
    std::vector<double> peak(size_of(rows_of_joint * kLane));
    double likelihood[kLane] = {};
    for (int64_t from = begin; from < end; from += tile.points) {
      run.poll();
      const int64_t rows = std::min(tile.points, end - from);
      tile.pack(x.rows(from, from + rows));
      tile.weigh({}, from, rows);
      tile.fill_joint(prepared);
      if (!log_joint.empty())
        for (int64_t l = 0; l < rows; ++l) {
          for (int64_t c = 0; c < prepared.k; ++c) log_joint(from + l, c) = kNever;
          for (int64_t a = 0; a < living; ++a) log_joint(from + l, prepared.alive[size_of(a)].index) = tile.row(a)[l];
        }
      if (!labels.empty())
        for (int64_t l = 0; l < rows; ++l) {
          int64_t best = 0;
          for (int64_t a = 1; a < rows_of_joint; ++a)
            if (tile.row(a)[l] > tile.row(best)[l]) best = a;
          labels(from + l) = best < living ? prepared.alive[size_of(best)].index : -1;
        }
      if (resp.empty() && log_prob.empty()) continue;
      kernels().mixture.normalise(tile.joint.data(), rows_of_joint, tile.points, tile.weights.data(), tile.log_p.data(),
                                  likelihood, peak.data());
      if (!log_prob.empty())
        for (int64_t l = 0; l < rows; ++l) log_prob(from + l) = tile.log_p[size_of(l)];
      if (!resp.empty())
        for (int64_t l = 0; l < rows; ++l) {
          for (int64_t c = 0; c < resp.shape[1]; ++c) resp(from + l, c) = 0.0;
          for (int64_t a = 0; a < living; ++a) resp(from + l, prepared.alive[size_of(a)].index) = tile.row(a)[l];
          if (prepared.has_noise() && resp.shape[1] > prepared.k) resp(from + l, prepared.k) = tile.row(living)[l];
        }
    }
  });
}

void factorise(View<const double, 2> covariances, double tolerance, View<double, 2> whiteners, View<double, 1> log_dets,
               View<int64_t, 1> failed, Run run) {
  const auto d = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(covariances.shape[1]))));
  for_chunks(covariances.shape[0], 1, run, [&](int64_t c, int64_t, int64_t) {
    std::vector<double> lower = row_of(covariances, c);
    const auto l = matrix_view(lower.data(), d, d);
    failed(c) = cholesky(l, tolerance);
    if (failed(c) >= 0) return;
    invert_lower(l, View<double, 2>{&whiteners(c, 0), {d, d}, {d * whiteners.stride[1], whiteners.stride[1]}});
    log_dets(c) = log_det(l);
  });
}

#define KNOLL_MIXTURE(T)                                                                                          \
  template void add_mixture(View<const T, 2>, View<const double, 1>, const MixtureModel&, View<const double, 2>,  \
                            Scatter, View<int64_t, 2>, View<double, 1>, Run);                                     \
  template void add_given(View<const T, 2>, View<const double, 1>, View<const double, 2>, View<const int64_t, 1>, \
                          Frame, View<const double, 2>, Scatter, View<int64_t, 2>, View<double, 1>, Run);         \
  template void expect_mixture(View<const T, 2>, const MixtureModel&, View<double, 2>, View<int64_t, 1>,          \
                               View<double, 1>, View<double, 2>, Run);
KNOLL_MIXTURE(float)
KNOLL_MIXTURE(double)
#undef KNOLL_MIXTURE

}  // namespace knoll
