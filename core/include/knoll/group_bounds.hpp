// A bound a row and group of centres: where one centre moves far, only its group is looked at again. The bounds
// are those of docs/decisions/0008, eq. 10; what is decided is what assign.hpp says.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/certified.hpp"
#include "knoll/certified_shorts.hpp"

namespace knoll {

// Distances between two ends in 65535 whole units: 0 stands for a distance of which nothing is known.
struct Ruler {
  double from = 0, unit = 1, per_unit = 1;
  float from_up = 0, per_unit_down = 1;
};
Ruler ruler_between(double from, double to);

// How to part centres into groups; way (k) is how far they have moved last. Either fast ones share groups, so that they
// spoil few bounds; or neighbours do, each group gathered by the fastest centre left, so that a row is near to few.
std::vector<int32_t> fast_together(const std::vector<double>& way);
std::vector<int32_t> neighbours_together(View<const double, 2> centers, const std::vector<double>& way, Run run);

// What is remembered of n rows: every centre of group g but the row's own is farther than lower[i, g] − travel_up[g] on
// the ruler, if that is not 0, and its own is nearer than upper[i] + own_travel[label]. Centre c stands in slot[c], its
// group is slot[c] / kGroup.
struct GroupBounds {
  GroupBounds() = default;
  // Nothing is known of n rows yet. order (k): the centres, those of a group one after the other.
  GroupBounds(int64_t n, std::vector<int32_t> order, Ruler on, Run run);

  explicit GroupBounds(int64_t k);  // groups alone, in the order of the centres: nothing is remembered

  bool remember() const { return !upper.empty(); }
  void move(const std::vector<double>& way);  // in (k): how far each centre has moved, rounded up
  void rebase(Run run);                       // takes long ways off the bounds, before they use up the ruler

  int64_t groups = 0, stride = 0;  // stride: groups, padded to a multiple of kBoundLanes
  Ruler ruler;
  std::vector<int32_t> center, slot;       // (k), (k): which centre stands where, and where each stands
  LargeArray<uint16_t> lower;              // (n, stride)
  std::vector<float> upper;                // (n)
  std::vector<double> travel, own_travel;  // (groups), (k): all steps together
  std::vector<uint16_t> travel_up;         // (stride): travel in units, rounded up
  std::vector<float> travel_down;          // (groups): rounded down
};

// Rows and centres on a grid, if there is one.
struct Shorts {
  const ShortRows* rows = nullptr;
  const ShortCenters* centers = nullptr;
};

// Decides rows by groups; one a thread. PackedCenters must be padded to kGroup and stand as the bounds say. Bounds that
// remember nothing are for rows on a grid only.
template <class T>
class GroupDecider {
 public:
  GroupDecider(View<const T, 2> x, const Frame& frame, const PackedCenters& centers, const std::vector<float>& rows,
               GroupBounds& bounds, Shorts shorts);

  // label[r]: in, the label so far of row rows[r], −1 if none; out, the nearest centre. gap as in Decider.
  void decide(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run);

  AssignCounts counts;
  int64_t confirmed = 0;  // distances that the grid could not leave out

 private:
  // Up to kPanel rows on their way.
  struct Batch {
    explicit Batch(int64_t d) : copies(static_cast<size_t>(kPanel * d), 0.0f) {}
    int64_t count = 0;
    std::vector<float> copies;  // (kPanel, d): rows that nobody else has in float32
    const float* y[kPanel]{};   // (d) each
    int64_t place[kPanel]{}, row[kPanel]{};
    int32_t own[kPanel]{};                   // slots
    float norm2[kPanel]{}, score[kPanel]{};  // of the own centre
  };
  void take(Batch& to, int64_t place, int64_t row, int32_t own);
  void tighten(int32_t* label, float* gap);
  void decide_panel(int32_t* label, float* gap);
  // What a panel learns: best and second (groups, kPanel) become bounds of the other centres, lowest and index are the
  // closest, gaps how certain that is.
  struct Found {
    float lowest[kPanel], next[kPanel], gaps[kPanel], upper[kPanel];
    int32_t index[kPanel];
  };
  void choose_groups();
  void look(Found& found);
  void look_by_grid(Found& found);
  void confirm(Found& found, int64_t lane, int32_t slot);
  void bound_confirmed(const Found& found);
  void remember(int64_t row, int32_t label, float upper, double least, float& gap);
  bool failing(int64_t row, double upper, double& least);
  void forget(int64_t row);
  void find_p2(const int32_t* slots, float* p2) const;

  View<const T, 2> x_;
  const Frame& frame_;
  const PackedCenters& centers_;
  const std::vector<float>& rows_;  // (k′, d)
  GroupBounds& bounds_;
  Shorts shorts_;
  Decider<T> decider_;
  Batch taken_, open_;  // rows whose own distance is new; rows that still have groups to look at
  std::vector<float> panel_, best_, second_, travel_;
  std::vector<uint16_t> bound_;
  std::vector<int32_t> groups_, slot_;  // what a panel looks at; where a group is among them
  std::vector<uint32_t> mask_, wanted_;
  std::vector<int64_t> again_;

  // On a grid: scores (groups·kGroup, kPanel), the least of those left out, and distances that were confirmed.
  struct Confirmed {
    int32_t lane, slot;
    float score;
  };
  std::vector<float> words_;
  std::vector<int32_t> scores_, least_;
  std::vector<ShortHit> hits_;
  std::vector<Confirmed> confirmed_;
};

// Centres one after the other: (k′, d), with the minus sign of PackedCenters.
std::vector<float> center_rows_of(const PackedCenters& centers);

}  // namespace knoll
