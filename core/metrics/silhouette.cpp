#include "metrics/silhouette.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "common/double_double.hpp"
#include "common/exact_sum.hpp"
#include "common/tile.hpp"

namespace knoll {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double mass_of(View<const double, 1> weights, int64_t begin, int64_t end) {
  ExactSum sum;
  for (int64_t i = begin; i < end; ++i) sum.add(weights(i));
  return sum.round();
}

std::vector<double> masses_of(View<const double, 1> weights, View<const int64_t, 1> starts, Run run) {
  const int64_t k = starts.shape[0] - 1;
  std::vector<double> mass(static_cast<size_t>(k));
  for_chunks(k, 64, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) mass[static_cast<size_t>(c)] = mass_of(weights, starts(c), starts(c + 1));
  });
  return mass;
}

int64_t cluster_of(View<const int64_t, 1> starts, int64_t row) {
  int64_t low = 0, high = starts.shape[0] - 1;  // starts(low) ≤ row < starts(high)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (starts(middle) <= row ? low : high) = middle;
  }
  return low;
}

// What one point has found so far.
struct Point {
  int64_t home = 0;
  double own = -1;          // a; −1: it is alone
  double next = kInfinity;  // b

  void meet(int64_t cluster, double sum, double mass) {
    if (cluster != home)
      next = std::min(next, sum / mass);
    else if (mass > 1)
      own = sum / (mass - 1);  // over the others: the point itself adds 0 to the sum
  }
  double silhouette() const {
    const double larger = std::max(own, next);
    return own < 0 || larger == 0 ? 0.0 : (next - own) / larger;
  }
};

// Σ_t w[t]·tile[t, l] for the lanes l, t in order.
void weighted_sums(const double* tile, const double* w, int64_t m, double* sums) {
  for (int64_t t = 0; t < m; ++t, tile += kPoints)
    for (int64_t l = 0; l < kPoints; ++l) sums[l] += w[t] * tile[l];
}

// Σ w·distance of row i over the columns [begin, end) but its own, rounded once.
double sum_of(View<const double, 2> distances, int64_t i, int64_t own, View<const double, 1> weights, int64_t begin,
              int64_t end) {
  if (end - begin == 1) return begin == own ? 0.0 : weights(begin) * distances(i, begin);  // the same, without 70 words
  ExactSum sum;
  for (int64_t j = begin; j < end; ++j)
    if (j != own) sum.add_product(weights(j), distances(i, j));
  return sum.round();
}

// Sums of distances from up to kPoints points to rows, up to kPoints of them at a time.
class Distances {
 public:
  Distances(View<const double, 2> x, const Metric& metric)
      : x_(x),
        metric_(metric),
        euclidean_(metric.name() == MetricName::euclidean),
        tiled_(metric.direct() && metric.has_kernels()),
        columns_(size()),
        rows_(size()),
        others_(size()),
        tile_(static_cast<size_t>(kPoints * kPoints)) {}

  void stand_at(int64_t begin, int64_t end) {
    points_ = end - begin;
    pack_columns(x_.rows(begin, end), nullptr, columns_.data());
    pack_rows(x_.rows(begin, end), rows_.data());
  }

  // sums[l] = Σ w·distance over the rows [begin, end), in order.
  void add_up(int64_t begin, int64_t end, const double* w, double* sums) {
    const auto others = x_.rows(begin, end);
    const int64_t d = x_.shape[1], m = end - begin;
    std::fill(sums, sums + kPoints, 0.0);
    if (euclidean_ && x_.rows_contiguous()) {
      kernels().distance_sums(columns_.data(), others.data, x_.stride[0], m, d, w, sums);
    } else if (euclidean_) {
      pack_rows(others, others_.data());
      kernels().distance_sums(columns_.data(), others_.data(), d, m, d, w, sums);
    } else {
      measure(others);
      weighted_sums(tile_.data(), w, m, sums);
    }
  }

 private:
  size_t size() const { return static_cast<size_t>(x_.shape[1] * kPoints); }

  void measure(View<const double, 2> others) {
    const int64_t d = x_.shape[1], m = others.shape[0];
    if (tiled_) {
      pack_columns(others, nullptr, others_.data());
      kernels().index.tile[metric_.anywhere({}).reduction](columns_.data(), others_.data(), d, m, 1.0, tile_.data());
      return;
    }
    pack_rows(others, others_.data());
    for (int64_t t = 0; t < m; ++t)
      for (int64_t l = 0; l < points_; ++l)
        tile_[static_cast<size_t>(t * kPoints + l)] = metric_.distance(rows_.data() + l * d, others_.data() + t * d);
  }

  View<const double, 2> x_;
  const Metric& metric_;
  bool euclidean_, tiled_;  // by kernels, else pair by pair
  int64_t points_ = 0;
  std::vector<double> columns_, rows_, others_, tile_;
};

}  // namespace

void silhouette(View<const double, 2> x, View<const double, 1> weights, View<const int64_t, 1> starts,
                const Metric& metric, View<double, 1> out, Run run) {
  const std::vector<double> mass = masses_of(weights, starts, run);
  for_chunks(x.shape[0], kPoints, run, [&](int64_t, int64_t begin, int64_t end) {
    Distances distances(x, metric);
    distances.stand_at(begin, end);
    std::array<Point, kPoints> points;
    for (int64_t l = 0, c = cluster_of(starts, begin); l < end - begin; ++l) {
      while (begin + l >= starts(c + 1)) ++c;
      points[static_cast<size_t>(l)].home = c;
    }
    // The rows of a cluster lie one after the other; j rises through all of them, so bits do not depend on chunks.
    double w[kPoints], part[kPoints];
    for (int64_t c = 0; c + 1 < starts.shape[0]; ++c) {
      std::array<Twofold, kPoints> sums{};
      for (int64_t j = starts(c); j < starts(c + 1); j += kPoints) {
        if ((j / kPoints) % 64 == 0) run.poll();
        const int64_t last = std::min(j + kPoints, starts(c + 1));
        for (int64_t t = j; t < last; ++t) w[t - j] = weights(t);
        distances.add_up(j, last, w, part);
        for (size_t l = 0; l < kPoints; ++l) sums[l] = sums[l] + Twofold{part[l], 0};
      }
      for (int64_t l = 0; l < end - begin; ++l)
        points[static_cast<size_t>(l)].meet(c, sums[static_cast<size_t>(l)].high, mass[static_cast<size_t>(c)]);
    }
    for (int64_t l = 0; l < end - begin; ++l) out(begin + l) = points[static_cast<size_t>(l)].silhouette();
  });
}

void silhouette_of_distances(View<const double, 2> distances, int64_t first, View<const double, 1> weights,
                             View<const int64_t, 1> starts, View<double, 1> out, Run run) {
  const int64_t m = distances.shape[0], k = starts.shape[0] - 1;
  const std::vector<double> mass = masses_of(weights, starts, run);
  for_chunks(m, 1, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Point point;
      point.home = cluster_of(starts, first + i);
      for (int64_t c = 0; c < k; ++c) {
        if (c % 1024 == 0) run.poll();
        point.meet(c, sum_of(distances, i, first + i, weights, starts(c), starts(c + 1)), mass[static_cast<size_t>(c)]);
      }
      out(i) = point.silhouette();
    }
  });
}

}  // namespace knoll
