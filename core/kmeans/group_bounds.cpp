#include "kmeans/group_bounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/parallel.hpp"
#include "common/prefetch.hpp"
#include "common/rounding.hpp"

namespace knoll {
namespace {

constexpr int64_t kAhead = 12;  // rows prefetched ahead (measured: docs/decisions/0008)
constexpr uint16_t kMaxUnits = 0xffff;
constexpr float kInf = std::numeric_limits<float>::infinity();

// An integer ≥ v for every v that rounding has changed by less than 2⁻⁴⁰; kMaxUnits where v is NaN.
uint16_t units_above(double v) {
  return v < kMaxUnits - 1 ? static_cast<uint16_t>(std::max(v, 0.0) + 0x1p-20) + 1 : kMaxUnits;
}

}  // namespace

// unit ≥ 2⁻¹⁰⁰ keeps per_unit finite where all distances are equal.
BoundQuantizer quantizer_between(double from, double to) {
  BoundQuantizer quantizer;
  quantizer.from = from;
  quantizer.from_up = above(from);
  quantizer.unit = std::max((to - from) / kMaxUnits, 0x1p-100);
  quantizer.per_unit = 1 / quantizer.unit;
  quantizer.per_unit_down = below(quantizer.per_unit);
  return quantizer;
}

// A group loosens its bounds by its largest shift (eq. 10), so a fast centre spoils the bounds of seven others. Sorted
// by shift, the fast ones spoil only each other.
std::vector<int32_t> group_by_shift(const std::vector<double>& shift) {
  std::vector<int32_t> order(shift.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return shift[static_cast<size_t>(a)] > shift[static_cast<size_t>(b)]; });
  return order;
}

// Greedy: the fastest centre left gathers its kGroup − 1 nearest, ties to the lower index. O(k²d/kGroup), once per fit.
std::vector<int32_t> group_neighbours(View<const double, 2> centers, const std::vector<double>& shift, Run run) {
  std::vector<int32_t> left = group_by_shift(shift), order;
  std::vector<double> length2(shift.size());
  while (!left.empty()) {
    run.poll();
    for (int32_t c : left) {
      double& sum = length2[static_cast<size_t>(c)] = 0;
      for (int64_t j = 0; j < centers.shape[1]; ++j) {
        const double difference = centers(c, j) - centers(left[0], j);
        sum += difference * difference;
      }
    }
    const int64_t count = std::min<int64_t>(kGroup, static_cast<int64_t>(left.size()));
    std::vector<int32_t> by_length = left;
    const auto end = by_length.begin() + count;
    std::partial_sort(by_length.begin(), end, by_length.end(), [&](int32_t a, int32_t b) {
      const double here = length2[static_cast<size_t>(a)], there = length2[static_cast<size_t>(b)];
      return here < there || (here == there && a < b);
    });
    order.insert(order.end(), by_length.begin(), end);
    std::sort(by_length.begin(), end);
    std::erase_if(left, [&](int32_t c) { return std::binary_search(by_length.begin(), end, c); });
  }
  return order;
}

// lower = 0 is no bound; padding groups have the largest bound, so they never fail unless upper is as large.
GroupBounds::GroupBounds(int64_t n, std::vector<int32_t> order, BoundQuantizer on, Run run)
    : GroupBounds(static_cast<int64_t>(order.size())) {
  quantizer = on;
  center = std::move(order);
  for (size_t s = 0; s < center.size(); ++s) slot[static_cast<size_t>(center[s])] = static_cast<int32_t>(s);
  lower = make_large_array<uint16_t>(static_cast<size_t>(n * stride));
  upper.assign(static_cast<size_t>(n), kInf);
  for_chunks(n, 4096, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::fill_n(&lower[static_cast<size_t>(i * stride)], groups, uint16_t{0});
      std::fill_n(&lower[static_cast<size_t>(i * stride + groups)], stride - groups, kMaxUnits);
    }
  });
}

// Consecutive centres in their own order; slot and center are inverse permutations of each other.
GroupBounds::GroupBounds(int64_t k)
    : groups((k + kGroup - 1) / kGroup),
      stride((groups + kBoundLanes - 1) / kBoundLanes * kBoundLanes),
      center(static_cast<size_t>(k)),
      slot(static_cast<size_t>(k)),
      group_shift(static_cast<size_t>(groups), 0.0),
      own_shift(static_cast<size_t>(k), 0.0),
      shift_up(static_cast<size_t>(stride), 0),
      shift_down(static_cast<size_t>(groups), 0.0f) {
  std::iota(center.begin(), center.end(), 0);
  std::iota(slot.begin(), slot.end(), 0);
}

// Eq. 10: a centre of group g has come nearer by at most the largest shift in g, the own centre has gone farther by at
// most its own shift. Both are sums over the steps; 2⁻⁵⁰ covers the rounding of an addition.
void GroupBounds::move(const std::vector<double>& shift) {
  std::vector<double> most(group_shift.size(), 0.0);
  for (size_t c = 0; c < shift.size(); ++c) {
    own_shift[c] = (own_shift[c] + shift[c]) * (1 + 0x1p-50);
    double& fastest = most[static_cast<size_t>(slot[c] / kGroup)];
    fastest = std::max(fastest, shift[c]);
  }
  for (size_t g = 0; g < most.size(); ++g) {
    group_shift[g] = (group_shift[g] + most[g]) * (1 + 0x1p-50);
    // A bound b is stored as b + shift_down(then) and read as that − shift_up(now): at most b − (shift now − shift
    // then), so rounding only loosens it.
    shift_up[g] = units_above(group_shift[g] * quantizer.per_unit);
    shift_down[g] = below(group_shift[g] * quantizer.per_unit);
  }
}

// lower − shift_up is unchanged when both lose shift_up; where it would be negative, 0 is no bound, as before.
void GroupBounds::rebase(Run run) {
  // The range has 65535 units. A stored bound holds distance + shift, and is clipped at the far end: with the shifts
  // below an eighth of the range, distances up to seven eighths of it still have a bound of their own.
  const auto longest = *std::max_element(group_shift.begin(), group_shift.end());
  if (longest <= kMaxUnits / 8 * quantizer.unit) return;
  const int64_t rows = static_cast<int64_t>(upper.size());
  for_chunks(rows, 4096, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint16_t* const bound = &lower[static_cast<size_t>(i * stride)];
      for (int64_t g = 0; g < stride; ++g) {
        const uint16_t there = bound[g], shift = shift_up[static_cast<size_t>(g)];
        bound[g] = there > shift ? static_cast<uint16_t>(there - shift) : uint16_t{0};
      }
    }
  });
  std::fill(group_shift.begin(), group_shift.end(), 0.0);
  std::fill(shift_up.begin(), shift_up.end(), uint16_t{0});
  std::fill(shift_down.begin(), shift_down.end(), 0.0f);
}

// Row-major copies for score_row, which multiplies one row by one centre; blocks are for panels.
std::vector<float> center_rows_of(const PackedCenters& centers) {
  const auto k = static_cast<int64_t>(centers.half.size()), d = centers.d;
  std::vector<float> rows(static_cast<size_t>(k * d));
  for (int64_t c = 0; c < k; ++c)
    for (int64_t j = 0; j < d; ++j)
      rows[static_cast<size_t>(c * d + j)] =
          centers.blocks[static_cast<size_t>((c / kCenterBlock * d + j) * kCenterBlock + c % kCenterBlock)];
  return rows;
}

template <class T>
GroupAssigner<T>::GroupAssigner(View<const T, 2> x, const Pivot& pivot, const PackedCenters& centers,
                                const std::vector<float>& rows, GroupBounds& bounds, Int8Filter int8)
    : x_(x),
      pivot_(pivot),
      centers_(centers),
      rows_(rows),
      bounds_(bounds),
      int8_(int8),
      assigner_(x, pivot, centers),
      tightening_(x.shape[1]),
      pending_(x.shape[1]),
      panel_(static_cast<size_t>(kPanel * x.shape[1])),
      best_(static_cast<size_t>(bounds.groups * kPanel)),
      second_(best_.size()),
      shift_(static_cast<size_t>(bounds.groups)),
      bound_(best_.size()),
      entry_(static_cast<size_t>(bounds.groups), -1),
      mask_(static_cast<size_t>(bounds.stride / kBoundLanes)),
      wanted_(mask_.size(), 0) {}

// P² (TileBounds) of the centre of each lane.
template <class T>
void GroupAssigner<T>::find_p2(const int32_t* slots, float* p2) const {
  for (int64_t l = 0; l < kPanel; ++l) p2[l] = centers_.p2[static_cast<size_t>(std::max(slots[l], 0))];
}

// The trivial bounds: upper = ∞, lower = 0.
template <class T>
void GroupAssigner<T>::forget(int64_t row) {
  bounds_.upper[static_cast<size_t>(row)] = kInf;
  std::fill_n(&bounds_.lower[static_cast<size_t>(row * bounds_.stride)], bounds_.groups, uint16_t{0});
}

// Whether some group may have a centre within `upper`, that is lower[g] − shift_up[g] ≤ upper in units; mask_ has a bit
// for each. `least` is a lower bound of the distance to all other centres.
template <class T>
bool GroupAssigner<T>::failing(int64_t row, double upper, double& least) {
  const BoundQuantizer& quantizer = bounds_.quantizer;
  uint16_t units = 0;
  // upper is rounded up to units and bounds were rounded down, so a group that passes in units passes in distances. An
  // infinite upper becomes kMaxUnits: then every group fails.
  const bool any = kernels().kmeans.failing_groups(
      &bounds_.lower[static_cast<size_t>(row * bounds_.stride)], bounds_.shift_up.data(), bounds_.stride,
      units_above((upper - quantizer.from) * quantizer.per_unit), mask_.data(), &units);
  least = units == 0 ? 0.0 : quantizer.from + units * quantizer.unit;
  return any;
}

template <class T>
void GroupAssigner<T>::prefetch_row(int64_t row) const {
  const int64_t d = x_.shape[1];
  if (bounds_.has_bounds()) prefetch(&bounds_.lower[static_cast<size_t>(row * bounds_.stride)], bounds_.stride);
  if (int8_.rows != nullptr)
    prefetch(&int8_.rows->y[static_cast<size_t>(row * d)], d);
  else
    prefetch(&x_(row, 0), x_.rows_contiguous() ? d : 1);
}

// Each row goes through up to three stages, and leaves once its label is certain: the stored bounds; the bounds with
// the distance to its own centre computed (tighten); the groups that still fail, in panels of kPanel rows
// (assign_panel). What float32 cannot decide is rechecked at the end.
template <class T>
void GroupAssigner<T>::assign(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run) {
  undecided_.clear();
  for (int64_t r = 0; r < count; ++r) {
    if (r % 1024 == 0) run.poll();
    if (!centers_.certified) {
      undecided_.push_back(r);
      continue;
    }
    if (r + kAhead < count) prefetch_row(rows[r + kAhead]);
    const int32_t own = label[r] < 0 ? -1 : bounds_.slot[static_cast<size_t>(label[r])];
    if (!bounds_.has_bounds()) {
      pack(pending_, r, rows[r], own);
      if (pending_.count == kPanel) assign_panel(label, gap);
      continue;
    }
    // Stage 1, eq. 10: if every lower bound exceeds upper, no other centre is nearer, and the label stays. Their
    // difference is a gap as in eq. 9: at the next step it may decide without reading the bounds of the groups.
    const double upper = static_cast<double>(bounds_.upper[static_cast<size_t>(rows[r])]) +
                         bounds_.own_shift[static_cast<size_t>(label[r])];
    double least = 0;
    if (!failing(rows[r], upper, least)) {
      gap[r] = below(least - upper);
      continue;
    }
    pack(tightening_, r, rows[r], own);
    if (tightening_.count == kPanel) tighten(label, gap);
  }
  tighten(label, gap);
  assign_panel(label, gap);
  recheck(rows, label, gap, run);
}

template <class T>
void GroupAssigner<T>::recheck(const int64_t* rows, int32_t* label, float* gap, Run run) {
  for (size_t i = 0; i < undecided_.size(); i += kPoints) {
    run.poll();
    const auto count = std::min<int64_t>(kPoints, static_cast<int64_t>(undecided_.size() - i));
    assigner_.recheck(rows, &undecided_[i], count, label);
    for (int64_t l = 0; l < count; ++l) {
      const int64_t r = undecided_[i + static_cast<size_t>(l)];
      // One distance determines which centre is nearest, but float32 has no bound that would be valid at the next step.
      if (bounds_.has_bounds()) forget(rows[r]);
      gap[r] = -kInf;
    }
  }
  counts += assigner_.counts;
  assigner_.counts = {};
}

// Adds a row in float32, with the score of its own centre if it has one.
template <class T>
void GroupAssigner<T>::pack(Batch& to, int64_t position, int64_t row, int32_t own) {
  const auto& kernel = kernels().kmeans;
  const int64_t d = x_.shape[1], l = to.count++;
  if (int8_.rows != nullptr) {
    to.y[l] = &int8_.rows->y[static_cast<size_t>(row * d)];
    to.norm2[l] = int8_.rows->y2[static_cast<size_t>(row)];
  } else {
    float* const y = &to.copies[static_cast<size_t>(l * d)];
    const T* const x = assigner_.row(row, 0);
    to.y[l] = y;
    if constexpr (std::is_same_v<T, double>)
      to.norm2[l] = kernel.pack_row_f64(x, d, pivot_.origin.data(), pivot_.scale, y);
    else
      to.norm2[l] = kernel.pack_row_f32(x, d, pivot_.origin32.data(), static_cast<float>(pivot_.scale), y);
  }
  // +inf where eq. 13 does not cover the row: gaps() then decides nothing, and the row is rechecked.
  to.norm2[l] = centers_.norm2(to.norm2[l]);
  to.position[l] = position;
  to.row[l] = row;
  to.own[l] = own;
  to.score[l] = kInf;
  if (own < 0) return;
  to.score[l] =
      kernel.score_row(to.y[l], d, &rows_[static_cast<size_t>(own * d)], centers_.half[static_cast<size_t>(own)]);
  counts.evaluations += bounds_.has_bounds();
}

// The row is at most `upper` from its centre and at least `least` from all others. The stored bound is read as
// upper + own_shift, so the shift so far is subtracted.
template <class T>
void GroupAssigner<T>::store_bounds(int64_t row, int32_t label, float upper, double least, float& gap) {
  bounds_.upper[static_cast<size_t>(row)] =
      above(static_cast<double>(upper) - bounds_.own_shift[static_cast<size_t>(label)]);
  gap = below(least - static_cast<double>(upper));
}

// With the distance to the own centre computed, upper is tight and most groups pass; rows that still fail are queued.
template <class T>
void GroupAssigner<T>::tighten(int32_t* label, float* gap) {
  if (tightening_.count == 0) return;
  float upper[kPanel], p2[kPanel];
  find_p2(tightening_.own, p2);
  kernels().kmeans.upper_bounds(tightening_.score, tightening_.norm2, p2, &centers_.bounds, upper);
  for (int64_t l = 0; l < tightening_.count; ++l) {
    double least = 0;
    if (!failing(tightening_.row[l], static_cast<double>(upper[l]), least)) {
      const int64_t position = tightening_.position[l];
      store_bounds(tightening_.row[l], label[position], upper[l], least, gap[position]);
      continue;
    }
    // Stage 3 evaluates the groups that fail for any row of the panel, not only this one: the others of the panel get
    // tighter bounds from it for free.
    for (size_t b = 0; b < mask_.size(); ++b) wanted_[b] |= mask_[b];
    queue(l);
    if (pending_.count == kPanel) assign_panel(label, gap);
  }
  tightening_.count = 0;
}

// Moves a lane from tightening_ to pending_.
template <class T>
void GroupAssigner<T>::queue(int64_t lane) {
  const int64_t to = pending_.count++;
  pending_.y[to] = tightening_.y[lane];
  if (int8_.rows == nullptr) {
    float* const copy = &pending_.copies[static_cast<size_t>(to * x_.shape[1])];
    std::copy_n(tightening_.y[lane], x_.shape[1], copy);
    pending_.y[to] = copy;
  }
  pending_.position[to] = tightening_.position[lane];
  pending_.row[to] = tightening_.row[lane];
  pending_.own[to] = tightening_.own[lane];
  pending_.norm2[to] = tightening_.norm2[lane];
  pending_.score[to] = tightening_.score[lane];
}

// The union of the groups that fail for a row of the panel: points are in lanes, so one group serves all of them.
template <class T>
void GroupAssigner<T>::choose_groups() {
  for (int32_t g : groups_) entry_[static_cast<size_t>(g)] = -1;
  groups_.clear();
  if (!bounds_.has_bounds()) std::fill(wanted_.begin(), wanted_.end(), ~uint32_t{0});
  for (size_t b = 0; b < wanted_.size(); ++b)
    // The bits that are set, from the lowest: groups_ rises, and entry_ is its inverse.
    for (uint32_t bits = wanted_[b]; bits != 0; bits &= bits - 1) {
      const auto g = static_cast<int32_t>(b * kBoundLanes) + std::countr_zero(bits);
      if (g >= bounds_.groups) break;
      entry_[static_cast<size_t>(g)] = static_cast<int32_t>(groups_.size());
      shift_[groups_.size()] = bounds_.shift_down[static_cast<size_t>(g)];
      groups_.push_back(g);
    }
  std::fill(wanted_.begin(), wanted_.end(), uint32_t{0});
}

// Assigns the pending rows, and renews their bounds for the groups that were evaluated.
template <class T>
void GroupAssigner<T>::assign_panel(int32_t* label, float* gap) {
  if (pending_.count == 0) return;
  choose_groups();
  Found found;
  if (int8_.rows != nullptr)
    score_groups_int8(found);
  else
    score_groups(found);
  const auto count = static_cast<int64_t>(groups_.size());
  counts.evaluations += pending_.count * (bounds_.has_bounds() ? count * kGroup : centers_.k);
  for (int64_t l = 0; l < pending_.count; ++l) {
    const int64_t position = pending_.position[l];
    if (found.gaps[l] == -kInf) {
      undecided_.push_back(position);
      continue;
    }
    label[position] = bounds_.center[static_cast<size_t>(found.index[l])];
    if (!bounds_.has_bounds()) {
      gap[position] = found.gaps[l];
      continue;
    }
    // Only groups that were evaluated have new bounds; the others keep theirs, which is valid: a row that changes its
    // centre adds its old one to that group's bound (bound_confirmed), and the new one only leaves a bound.
    uint16_t* const lower = &bounds_.lower[static_cast<size_t>(pending_.row[l] * bounds_.stride)];
    for (int64_t e = 0; e < count; ++e)
      lower[groups_[static_cast<size_t>(e)]] = bound_[static_cast<size_t>(e * kPanel + l)];
    double least = 0;
    // For `least` alone: the bound over all groups, evaluated now or before.
    failing(pending_.row[l], 0, least);
    store_bounds(pending_.row[l], label[position], found.upper[l], least, gap[position]);
  }
  pending_.count = 0;
}

// float32 scores of all centres of the groups. A lower bound excludes the row's own centre, so for a row that changes
// its centre the new one is taken out of its group's bound (second instead of best), and the old one enters its own
// (confirmed_).
template <class T>
void GroupAssigner<T>::score_groups(Found& found) {
  const auto& kernel = kernels().kmeans;
  const auto count = static_cast<int64_t>(groups_.size());
  std::copy_n(pending_.score, kPanel, found.lowest);
  std::copy_n(pending_.own, kPanel, found.index);
  std::fill_n(found.next, kPanel, kInf);
  kernel.transpose_rows(pending_.copies.data(), x_.shape[1], panel_.data());
  kernel.nearest_of_groups(panel_.data(), x_.shape[1], centers_.blocks.data(), centers_.half.data(), groups_.data(),
                           count, pending_.own, best_.data(), second_.data(), found.lowest, found.next, found.index);
  float p2[kPanel];
  find_p2(found.index, p2);
  kernel.gaps(found.lowest, found.next, pending_.norm2, p2, &centers_.bounds, found.gaps);
  kernel.upper_bounds(found.lowest, pending_.norm2, p2, &centers_.bounds, found.upper);
  confirmed_.clear();
  for (int64_t l = 0; l < pending_.count; ++l) {
    if (found.index[l] == pending_.own[l]) continue;
    const auto to = static_cast<size_t>(entry_[static_cast<size_t>(found.index[l] / kGroup)] * kPanel + l);
    // The nearest centre of the group is the own one from now on: the bound is for the others.
    best_[to] = second_[to];
    confirmed_.push_back({static_cast<int32_t>(l), pending_.own[l], pending_.score[l]});
  }
  kernel.lower_bounds(best_.data(), count, pending_.norm2, &centers_.bounds, shift_.data(), bounds_.quantizer.from_up,
                      bounds_.quantizer.per_unit_down, bound_.data());
  bound_confirmed(found);
}

template class GroupAssigner<float>;
template class GroupAssigner<double>;

}  // namespace knoll
