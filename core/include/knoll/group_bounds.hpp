// A bound a row and group of eight centres: where one centre moves far, only its group is looked at again. The bounds
// are those of docs/decisions/0008, eq. 10; what is decided is what assign.hpp says.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/certified.hpp"

namespace knoll {

// What is remembered of n rows: every centre of group g but the row's own is farther than lower[i, g] − travel[g], and
// its own is nearer than upper[i] + travel_of_center[label].
struct GroupBounds {
  GroupBounds() = default;
  GroupBounds(int64_t n, int64_t k);

  void move(const std::vector<double>& way);  // in (k): how far each centre has moved, rounded up

  int64_t groups = 0, stride = 0;             // stride: groups, padded to a multiple of 8
  std::vector<float> lower;                   // (n, stride)
  std::vector<float> upper;                   // (n)
  std::vector<double> travel, own_travel;     // (groups), (k): all steps together
  std::vector<float> travel_up, travel_down;  // (stride), travel rounded up and down
};

// Decides rows by groups; one a thread. PackedCenters must be padded to kGroup.
template <class T>
class GroupDecider {
 public:
  GroupDecider(View<const T, 2> x, const Frame& frame, const PackedCenters& centers, const std::vector<float>& lanes,
               GroupBounds& bounds);

  // label[r]: in, the label so far of row rows[r] or −1; out, the nearest centre. gap as in Decider.
  void decide(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run);

  AssignCounts counts;

 private:
  struct Seen {  // a group that was looked at
    int32_t group, index;
    float best, second;
  };
  bool decide_alone(int64_t row, int32_t& label, float& gap, int64_t failing);
  void decide_panel(const int64_t* rows, const int64_t* which, int64_t count, int32_t* label, float* gap);
  void forget(int64_t row);
  double upper_bound(float score, float norm2) const;

  View<const T, 2> x_;
  const Frame& frame_;
  const PackedCenters& centers_;
  const std::vector<float>& lanes_;  // (groups, d, kGroup)
  GroupBounds& bounds_;
  Decider<T> decider_;
  std::vector<float> y_, best_, second_, bound_;
  std::vector<int32_t> index_, failing_;
  std::vector<Seen> seen_;
  std::vector<int64_t> dense_, again_;
};

// Centres eight side by side: (groups, d, kGroup), with the minus sign of PackedCenters.
std::vector<float> group_lanes(const PackedCenters& centers);

}  // namespace knoll
