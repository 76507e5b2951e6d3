// Where float32 looks at the rows from (docs/decisions/0008, "Several places"): one frame as a rule; where clouds lie
// so far apart that from one place float32 cannot tell the centres of a cloud from each other, several, and each row
// looks from the nearest. All have one scale, so that a distance is the same number from everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/certified.hpp"
#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll {

struct Frames {
  std::vector<Frame> places;
  std::vector<uint8_t> of;  // (n): the place of each row; empty where there is but one

  double scale() const { return places[0].scale; }
  bool several() const { return places.size() > 1; }
};

template <class T>
Frames choose_frames(View<const T, 2> x,             // in  (n, d)
                     View<const double, 2> centers,  // in  (k, d)
                     Run run);

// Makes several places of the only one, if from there too many rows would have to be decided again for these centres,
// and from several far fewer; returns whether it did.
template <class T>
bool spread_out(Frames& frames,                 // in, out
                View<const T, 2> x,             // in  (n, d)
                View<const double, 2> centers,  // in  (k, d)
                Run run);

// Rows by their places: after the call, those of place p are rows[from[p]] … rows[from[p + 1] − 1], in their order.
void part_by_place(const Frames& frames, std::vector<int64_t>& rows, std::vector<int64_t>& from,
                   std::vector<int64_t>& scratch);

}  // namespace knoll
