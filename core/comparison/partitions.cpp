#include "comparison/partitions.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/parallel.hpp"

namespace knoll {
namespace {

int32_t largest(View<const int32_t, 2> labels, int64_t p) {
  int32_t most = 0;
  for (int64_t i = 0; i < labels.shape[1]; ++i) most = std::max(most, labels(p, i));
  return most;
}

// Components with their peaks and sizes; the root of a component is the row of its peak. Every parent has a peak at
// least as high, so paths end, and halving them on the way changes no root.
struct Components {
  std::vector<int32_t> parent, size;

  explicit Components(int64_t rows) : parent(static_cast<size_t>(rows)), size(static_cast<size_t>(rows)) {}

  void reset() {
    for (size_t i = 0; i < parent.size(); ++i) parent[i] = static_cast<int32_t>(i);
    std::fill(size.begin(), size.end(), 1);
  }

  int32_t root(int32_t row) {
    while (parent[static_cast<size_t>(row)] != row) {
      int32_t& up = parent[static_cast<size_t>(row)];
      up = parent[static_cast<size_t>(up)];
      row = up;
    }
    return row;
  }

  void join(int32_t high, int32_t low) {
    parent[static_cast<size_t>(low)] = high;
    size[static_cast<size_t>(high)] += size[static_cast<size_t>(low)];
  }
};

// One partition: each cluster is divided in two, by a vector y that diffuses over the edges within it. Edges between
// clusters do not count, so all clusters diffuse at once, each as a graph of its own.
class Division {
 public:
  Division(Graph graph, View<const double, 2> points, View<const int32_t, 2> labels, int64_t clusters)
      : graph_(graph),
        points_(points),
        labels_(labels),
        clusters_(clusters),
        y_(size(labels.shape[1])),
        next_(y_.size()),
        degree_(y_.size()),
        volume_(size(clusters)),
        mean_(size(clusters)),
        count_(size(clusters)) {}

  void divide(int64_t p, int steps, View<uint8_t, 2> sides, View<double, 2> conductances) {
    partition_ = p;
    measure_degrees();
    project();
    for (int step = 0; step < steps; ++step) diffuse();
    for (int64_t i = 0; i < rows(); ++i) sides(p, i) = y_[size(i)] > 0;
    cut(sides, conductances);
  }

 private:
  static size_t size(int64_t count) { return static_cast<size_t>(count); }
  int64_t rows() const { return labels_.shape[1]; }
  size_t cluster(int64_t row) const { return size(labels_(partition_, row)); }

  template <class F>
  void for_inner(int64_t row, F&& visit) const {  // edges to rows of the same cluster
    for (int64_t e = graph_.starts(row); e < graph_.starts(row + 1); ++e)
      if (cluster(graph_.neighbours(e)) == cluster(row)) visit(graph_.neighbours(e), graph_.weights(e));
  }

  void measure_degrees() {
    std::fill(volume_.begin(), volume_.end(), 0.0);
    std::fill(count_.begin(), count_.end(), 0.0);
    for (int64_t i = 0; i < rows(); ++i) {
      double sum = 0;
      for_inner(i, [&](int32_t, double weight) { sum += weight; });
      degree_[size(i)] = sum;
      volume_[cluster(i)] += sum;
      count_[cluster(i)] += 1;
    }
  }

  // y = the projection on the first principal axis, by steps of the power method: a start that already separates what
  // lies far apart. From any row's side of the mean the axis is found up to its sign, which divides alike.
  void project() {
    const int64_t d = points_.shape[1];
    std::vector<double> means(size(clusters_ * d), 0.0), axes(size(clusters_ * d));
    for (int64_t i = 0; i < rows(); ++i)
      for (int64_t j = 0; j < d; ++j) means[cluster(i) * size(d) + size(j)] += points_(i, j);
    for (size_t c = 0; c < count_.size(); ++c)
      for (size_t j = 0; j < size(d); ++j) means[c * size(d) + j] /= std::max(1.0, count_[c]);
    const auto centred = [&](int64_t i, int64_t j) { return points_(i, j) - means[cluster(i) * size(d) + size(j)]; };
    for (int64_t i = 0; i < rows(); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < d; ++j) sum += centred(i, j);
      y_[size(i)] = sum >= 0 ? 1.0 : -1.0;
    }
    for (int step = 0; step < 5; ++step) {
      std::fill(axes.begin(), axes.end(), 0.0);
      for (int64_t i = 0; i < rows(); ++i)
        for (int64_t j = 0; j < d; ++j) axes[cluster(i) * size(d) + size(j)] += centred(i, j) * y_[size(i)];
      for (size_t c = 0; c < count_.size(); ++c) normalise(axes.data() + c * size(d), d);
      for (int64_t i = 0; i < rows(); ++i) {
        double sum = 0;
        for (int64_t j = 0; j < d; ++j) sum += centred(i, j) * axes[cluster(i) * size(d) + size(j)];
        y_[size(i)] = sum;
      }
    }
  }

  static void normalise(double* axis, int64_t d) {
    double square = 0;
    for (int64_t j = 0; j < d; ++j) square += axis[j] * axis[j];
    for (int64_t j = 0; j < d && square > 0; ++j) axis[j] /= std::sqrt(square);
  }

  // y ← ½(y + D⁻¹W y), of length one about the mean 0, both weighted by the degrees D. D⁻¹W has eigenvalues in [−1, 1],
  // so half of it and of the identity has them in [0, 1]: no step oscillates, and what decays slowest is the
  // eigenvector next to the constant one, which the mean is taken out for. Its sign is the relaxed cut of least
  // conductance.
  void diffuse() {
    std::fill(mean_.begin(), mean_.end(), 0.0);
    for (int64_t i = 0; i < rows(); ++i) {
      double sum = 0;
      for_inner(i, [&](int32_t other, double weight) { sum += weight * y_[size(other)]; });
      next_[size(i)] = 0.5 * (y_[size(i)] + sum / std::max(degree_[size(i)], 1e-9));
      mean_[cluster(i)] += degree_[size(i)] * next_[size(i)];
    }
    y_.swap(next_);
    for (size_t c = 0; c < mean_.size(); ++c) mean_[c] /= std::max(volume_[c], 1e-9);
    std::vector<double> square(mean_.size(), 0.0);
    for (int64_t i = 0; i < rows(); ++i) {
      y_[size(i)] -= mean_[cluster(i)];
      square[cluster(i)] += degree_[size(i)] * y_[size(i)] * y_[size(i)];
    }
    for (int64_t i = 0; i < rows(); ++i) y_[size(i)] /= std::sqrt(square[cluster(i)]) + 1e-12;
  }

  // Conductance: the weight between the sides over the volume of the smaller one, in [0, 1]; 1 where a side is empty.
  void cut(View<uint8_t, 2> sides, View<double, 2> conductances) {
    std::vector<double> between(volume_.size(), 0.0), left(volume_.size(), 0.0);
    for (int64_t i = 0; i < rows(); ++i) {
      if (sides(partition_, i)) left[cluster(i)] += degree_[size(i)];
      for_inner(i, [&](int32_t other, double weight) {
        if (sides(partition_, other) < sides(partition_, i)) between[cluster(i)] += weight;
      });
    }
    for (int64_t c = 0; c < clusters_; ++c) {
      const double smaller = std::min(left[size(c)], volume_[size(c)] - left[size(c)]);
      conductances(partition_, c) = smaller > 0 ? between[size(c)] / smaller : 1.0;
    }
  }

  Graph graph_;
  View<const double, 2> points_;
  View<const int32_t, 2> labels_;
  int64_t clusters_, partition_ = 0;
  std::vector<double> y_, next_, degree_, volume_, mean_, count_;
};

}  // namespace

void partition_overlaps(View<const int32_t, 2> labels, View<double, 2> overlaps, Run run) {
  const int64_t count = labels.shape[0], rows = labels.shape[1];
  for_chunks(count, 1, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<int64_t> table;
    for (int64_t a = begin; a < end; ++a)
      for (int64_t b = 0; b <= a; ++b) {
        const int64_t width = largest(labels, b) + 1;
        table.assign(static_cast<size_t>((largest(labels, a) + 1) * width), 0);
        for (int64_t i = 0; i < rows; ++i) ++table[static_cast<size_t>(labels(a, i) * width + labels(b, i))];
        double sum = 0;  // of whole numbers < 2^53: exact
        for (const int64_t cell : table) sum += static_cast<double>(cell) * static_cast<double>(cell);
        overlaps(a, b) = sum;
      }
  });
  for (int64_t a = 0; a < count; ++a)
    for (int64_t b = 0; b < a; ++b) overlaps(b, a) = overlaps(a, b);
}

void inner_prominences(View<const int32_t, 2> labels, View<const int32_t, 2> edges, View<const double, 1> heights,
                       View<const double, 1> tops, View<const double, 1> shares, View<double, 2> prominences, Run run) {
  const int64_t rows = labels.shape[1], count = shares.shape[0], clusters = prominences.shape[1] / count;
  for_chunks(labels.shape[0], 1, run, [&](int64_t, int64_t begin, int64_t end) {
    Components components(rows);
    std::vector<int64_t> sizes(static_cast<size_t>(clusters));
    for (int64_t p = begin; p < end; ++p) {
      components.reset();
      std::fill(sizes.begin(), sizes.end(), 0);
      for (int64_t i = 0; i < rows; ++i)
        if (labels(p, i) >= 0) ++sizes[static_cast<size_t>(labels(p, i))];
      for (int64_t at = 0; at < clusters * count; ++at) prominences(p, at) = -1;
      for (int64_t e = 0; e < edges.shape[0]; ++e) {
        const int32_t cluster = labels(p, edges(e, 0));
        if (cluster < 0 || cluster != labels(p, edges(e, 1))) continue;
        int32_t high = components.root(edges(e, 0)), low = components.root(edges(e, 1));
        if (high == low) continue;
        if (tops(high) < tops(low) || (tops(high) == tops(low) && low < high)) std::swap(high, low);
        const double prominence = tops(low) - heights(e);
        const auto mass = static_cast<double>(components.size[static_cast<size_t>(low)]);
        for (int64_t s = 0; s < count; ++s) {
          double& largest_so_far = prominences(p, cluster * count + s);
          if (mass >= shares(s) * static_cast<double>(sizes[static_cast<size_t>(cluster)]))
            largest_so_far = std::max(largest_so_far, prominence);
        }
        components.join(high, low);
      }
    }
  });
}

void inner_cuts(Graph graph, View<const double, 2> points, View<const int32_t, 2> labels, int steps,
                View<uint8_t, 2> sides, View<double, 2> conductances, Run run) {
  for_chunks(labels.shape[0], 1, run, [&](int64_t, int64_t begin, int64_t end) {
    Division division(graph, points, labels, conductances.shape[1]);
    for (int64_t p = begin; p < end; ++p) division.divide(p, steps, sides, conductances);
  });
}

}  // namespace knoll
