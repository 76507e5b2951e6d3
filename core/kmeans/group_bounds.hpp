// A bound per row and group of centres: where one centre moves far, only its group is evaluated again. The bounds are
// those of docs/numerics/kmeans.md, eq. 10; labels are those of assign.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "kmeans/float32_filter.hpp"
#include "kmeans/int8_filter.hpp"

namespace knoll {

// Distances in whole units of 16 bits: v ↦ (v − from)/unit, clipped to [0, 65535]. Lower bounds are rounded down, upper
// bounds and shifts up, so lower − shift > upper in units implies it for the distances. 0 is no bound.
struct BoundQuantizer {
  double from = 0, unit = 1, per_unit = 1;
  float from_up = 0, per_unit_down = 1;  // rounded so that a lower bound in float32 stays one
};
BoundQuantizer quantizer_between(double from, double to);

// Orders of the centres (k) from which consecutive ones form groups; shift (k) is how far each moved last. Either fast
// centres share groups, so that they loosen few bounds; or neighbours do, each group gathered around the fastest centre
// left, so that a row is near to few groups.
std::vector<int32_t> group_by_shift(const std::vector<double>& shift);
std::vector<int32_t> group_neighbours(View<const double, 2> centers, const std::vector<double>& shift, Run run);

// The bounds of n rows (eq. 10). For every centre of group g other than the row's own,
//     distance ≥ from + unit · (lower[i, g] − shift_up[g])   where lower[i, g] > shift_up[g],
// and the distance to the own centre is ≤ upper[i] + own_shift[label]. Centre c is in slot[c], its group is
// slot[c] / kGroup.
struct GroupBounds {
  GroupBounds() = default;
  // No bounds yet for n rows. order (k): the centres, those of a group one after the other.
  GroupBounds(int64_t n, std::vector<int32_t> order, BoundQuantizer on, Run run);

  explicit GroupBounds(int64_t k);  // groups alone, in the order of the centres, without bounds

  bool has_bounds() const { return !upper.empty(); }
  void move(const std::vector<double>& shift);  // in (k): how far each centre has moved, rounded up
  void rebase(Run run);                         // subtracts the shifts from lower before they use up the range

  int64_t groups = 0, stride = 0;  // stride: groups, padded to a multiple of kBoundLanes
  BoundQuantizer quantizer;
  std::vector<int32_t> center, slot;  // (k), (k): the centre of each slot, the slot of each centre
  LargeArray<uint16_t> lower;         // (n, stride)
  std::vector<float> upper;           // (n)
  std::vector<double> group_shift;    // (groups): Σ over the steps of the largest shift in the group
  std::vector<double> own_shift;      // (k): Σ over the steps of the shift
  std::vector<uint16_t> shift_up;     // (stride): group_shift in units, rounded up
  std::vector<float> shift_down;      // (groups): the same, rounded down
};

// Rows and centres in int8, if they are used.
struct Int8Filter {
  const Int8Rows* rows = nullptr;
  const Int8Centers* centers = nullptr;
};

// Assigns rows by groups; one per thread. PackedCenters must be padded to kGroup and ordered by the slots of the
// bounds. Groups without bounds are for int8 only.
template <class T>
class GroupAssigner {
 public:
  GroupAssigner(View<const T, 2> x, const Pivot& pivot, const PackedCenters& centers, const std::vector<float>& rows,
                GroupBounds& bounds, Int8Filter int8);

  // label[r]: in, the current label of row rows[r], −1 if none; out, the nearest centre. gap as in FilteredAssigner.
  void assign(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run);

  AssignCounts counts;
  int64_t confirmed = 0;  // distances that int8 could not rule out

 private:
  // Up to kPanel rows that wait for the next stage.
  struct Batch {
    explicit Batch(int64_t d) : copies(static_cast<size_t>(kPanel * d), 0.0f) {}
    int64_t count = 0;
    std::vector<float> copies;                  // (kPanel, d): rows that are stored nowhere else in float32
    const float* y[kPanel]{};                   // (d) each
    int64_t position[kPanel]{}, row[kPanel]{};  // in label and gap; in x
    int32_t own[kPanel]{};                      // the slot of the own centre, −1: none
    float norm2[kPanel]{}, score[kPanel]{};     // ‖y‖², the score of the own centre
  };
  // What a panel finds: the lowest score and its slot, the second lowest, and what they imply.
  struct Found {
    float lowest[kPanel], next[kPanel], gaps[kPanel], upper[kPanel];
    int32_t index[kPanel];
  };
  [[gnu::always_inline]] inline void prefetch_row(int64_t row) const;
  void pack(Batch& to, int64_t position, int64_t row, int32_t own);
  void tighten(int32_t* label, float* gap);
  void queue(int64_t lane);
  void assign_panel(int32_t* label, float* gap);
  void recheck(const int64_t* rows, int32_t* label, float* gap, Run run);
  void choose_groups();
  void score_groups(Found& found);
  void score_groups_int8(Found& found);
  void tile_int8(int32_t* norm2, float* error, int32_t* tried);
  void confirm(Found& found, int64_t lane, int32_t slot);
  void bound_confirmed(const Found& found);
  void store_bounds(int64_t row, int32_t label, float upper, double least, float& gap);
  bool failing(int64_t row, double upper, double& least);
  void forget(int64_t row);
  void find_p2(const int32_t* slots, float* p2) const;

  View<const T, 2> x_;
  const Pivot& pivot_;
  const PackedCenters& centers_;
  const std::vector<float>& rows_;  // (k′, d)
  GroupBounds& bounds_;
  Int8Filter int8_;
  FilteredAssigner<T> assigner_;
  Batch tightening_, pending_;  // rows whose own distance was just computed; rows with groups left to evaluate
  std::vector<float> panel_, best_, second_, shift_;
  std::vector<uint16_t> bound_;
  std::vector<int32_t> groups_, entry_;  // the groups a panel evaluates; the entry of each group among them, −1: none
  std::vector<uint32_t> mask_, wanted_;  // bits of groups: failing for a row; for some row of the panel
  std::vector<int64_t> undecided_;

  // For int8: packed words of the panel, scores (groups·kGroup, kPanel), the least of those ruled out in each group
  // (groups, kPanel), and the distances confirmed in float32.
  struct Confirmed {
    int32_t lane, slot;
    float score;
  };
  std::vector<float> words_;
  std::vector<int32_t> scores_, least_;
  std::vector<Int8Hit> hits_;
  std::vector<Confirmed> confirmed_;
};

// Centres one after the other: (k′, d), with the minus sign of PackedCenters.
std::vector<float> center_rows_of(const PackedCenters& centers);

}  // namespace knoll
