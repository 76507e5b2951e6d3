// Pivots of float32 coordinates (docs/numerics/kmeans.md, eq. 14). One serves as a rule. Where clusters lie so
// far apart that float32 about one origin cannot separate the centres within a cluster, each row uses the nearest of
// several. All have one scale, so a distance has the same value about each, and bounds carry over.
#pragma once

#include <cstdint>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "kmeans/float32_filter.hpp"

namespace knoll {

struct Pivots {
  std::vector<Pivot> list;
  std::vector<uint8_t> of_row;  // (n): the pivot of each row; empty if there is only one

  double scale() const { return list[0].scale; }
  bool several() const { return list.size() > 1; }
};

template <class T>
Pivots choose_pivots(View<const T, 2> x,             // in  (n, d)
                     View<const double, 2> centers,  // in  (k, d)
                     Run run);

// Replaces the only pivot by several if it leaves too many rows of a sample to recheck for these centres, and several
// leave less than half as many; returns whether it did.
template <class T>
bool add_pivots(Pivots& pivots,                 // in, out
                View<const T, 2> x,             // in  (n, d)
                View<const double, 2> centers,  // in  (k, d)
                Run run);

// Sorts rows stably by pivot: afterwards those of pivot p are rows[from[p]] … rows[from[p + 1] − 1].
void group_by_pivot(const Pivots& pivots, std::vector<int64_t>& rows, std::vector<int64_t>& from,
                    std::vector<int64_t>& scratch);

}  // namespace knoll
