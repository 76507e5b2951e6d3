#include "comparison/partitions.hpp"

#include <algorithm>
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

// Components with their peaks and sizes; the root of a component is the row of its peak.
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

}  // namespace knoll
