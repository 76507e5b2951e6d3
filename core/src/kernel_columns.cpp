#include "knoll/kernel_columns.hpp"

#include <algorithm>

#include "knoll/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kLeaves = 64;  // of a chunk

// The width of the next group when so many columns are left.
int64_t group_width(int64_t left) {
  if (left >= 11) return 12;
  if (left >= 7) return 8;
  if (left >= 3) return 4;
  return left;
}

// body(row, offset within the leaf, column) for every number of a leaf's group that belongs to a row.
template <class F>
void for_places(const KernelPoints& points, const KernelColumns::Group& g, int64_t leaf, F&& body) {
  const bool apart = g.width <= 2;
  for (int64_t l = 0; l < points.count(leaf); ++l) {
    const int64_t row = points.rows[static_cast<size_t>(leaf * kPoints + l)];
    for (int64_t c = 0; c < g.count; ++c) body(row, apart ? c * kPoints + l : l * g.width + c, g.first + c);
  }
}

}  // namespace

KernelColumns::KernelColumns(int64_t leaves, int64_t columns) : leaves_(leaves) {
  int64_t offset = 0;
  for (int64_t first = 0; first < columns;) {
    const int64_t width = group_width(columns - first), count = std::min(width, columns - first);
    groups_.push_back({first, count, width, offset});
    offset += leaves * kPoints * width;
    first += count;
  }
  data_ = make_large_array<double>(static_cast<size_t>(offset));
}

void KernelColumns::clear(Run run) {
  for_chunks(leaves_, kLeaves, run, [&](int64_t, int64_t begin, int64_t end) {
    for (const Group& g : groups_) std::fill(leaf(g, begin), leaf(g, end), 0.0);
  });
}

void KernelColumns::pack(const KernelPoints& points, View<const double, 2> b, Run run) {
  for_chunks(leaves_, kLeaves, run, [&](int64_t, int64_t begin, int64_t end) {
    for (const Group& g : groups_)
      for (int64_t at = begin; at < end; ++at) {
        double* const to = leaf(g, at);
        if (g.count < g.width || points.count(at) < kPoints) std::fill(to, to + g.width * kPoints, 0.0);
        for_places(points, g, at, [&](int64_t row, int64_t place, int64_t column) { to[place] = b(row, column); });
      }
  });
}

void KernelColumns::unpack(const KernelPoints& points, View<double, 2> out, Run run) const {
  for_chunks(leaves_, kLeaves, run, [&](int64_t, int64_t begin, int64_t end) {
    for (const Group& g : groups_)
      for (int64_t at = begin; at < end; ++at) {
        const double* const from = leaf(g, at);
        for_places(points, g, at, [&](int64_t row, int64_t place, int64_t column) { out(row, column) = from[place]; });
      }
  });
}

}  // namespace knoll
