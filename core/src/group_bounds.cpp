#include "knoll/group_bounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "knoll/outward.hpp"
#include "knoll/parallel.hpp"
#include "knoll/prefetch.hpp"

namespace knoll {
namespace {

constexpr int64_t kAhead = 12;  // rows
constexpr uint16_t kMostUnits = 0xffff;
constexpr float kInf = std::numeric_limits<float>::infinity();

// At least v units for every v that rounding has changed by less than 2⁻⁴⁰; the most there are where v is no number.
uint16_t units_above(double v) {
  return v < kMostUnits - 1 ? static_cast<uint16_t>(std::max(v, 0.0) + 0x1p-20) + 1 : kMostUnits;
}

}  // namespace

Ruler ruler_between(double from, double to) {
  Ruler ruler;
  ruler.from = from;
  ruler.from_up = above(from);
  ruler.unit = std::max((to - from) / kMostUnits, 0x1p-100);
  ruler.per_unit = 1 / ruler.unit;
  ruler.per_unit_down = below(ruler.per_unit);
  return ruler;
}

std::vector<int32_t> fast_together(const std::vector<double>& way) {
  std::vector<int32_t> order(way.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return way[static_cast<size_t>(a)] > way[static_cast<size_t>(b)]; });
  return order;
}

std::vector<int32_t> neighbours_together(View<const double, 2> centers, const std::vector<double>& way, Run run) {
  std::vector<int32_t> left = fast_together(way), order;
  std::vector<double> length2(way.size());
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

GroupBounds::GroupBounds(int64_t n, std::vector<int32_t> order, Ruler on, Run run)
    : GroupBounds(static_cast<int64_t>(order.size())) {
  ruler = on;
  center = std::move(order);
  for (size_t s = 0; s < center.size(); ++s) slot[static_cast<size_t>(center[s])] = static_cast<int32_t>(s);
  lower = make_large_array<uint16_t>(static_cast<size_t>(n * stride));
  upper.assign(static_cast<size_t>(n), kInf);
  for_chunks(n, 4096, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::fill_n(&lower[static_cast<size_t>(i * stride)], groups, uint16_t{0});
      std::fill_n(&lower[static_cast<size_t>(i * stride + groups)], stride - groups, kMostUnits);
    }
  });
}

GroupBounds::GroupBounds(int64_t k)
    : groups((k + kGroup - 1) / kGroup),
      stride((groups + kBoundLanes - 1) / kBoundLanes * kBoundLanes),
      center(static_cast<size_t>(k)),
      slot(static_cast<size_t>(k)),
      travel(static_cast<size_t>(groups), 0.0),
      own_travel(static_cast<size_t>(k), 0.0),
      travel_up(static_cast<size_t>(stride), 0),
      travel_down(static_cast<size_t>(groups), 0.0f) {
  std::iota(center.begin(), center.end(), 0);
  std::iota(slot.begin(), slot.end(), 0);
}

void GroupBounds::move(const std::vector<double>& way) {
  std::vector<double> most(travel.size(), 0.0);
  for (size_t c = 0; c < way.size(); ++c) {
    own_travel[c] = (own_travel[c] + way[c]) * (1 + 0x1p-50);
    double& fastest = most[static_cast<size_t>(slot[c] / kGroup)];
    fastest = std::max(fastest, way[c]);
  }
  for (size_t g = 0; g < most.size(); ++g) {
    travel[g] = (travel[g] + most[g]) * (1 + 0x1p-50);
    travel_up[g] = units_above(travel[g] * ruler.per_unit);
    travel_down[g] = below(travel[g] * ruler.per_unit);
  }
}

void GroupBounds::rebase(Run run) {
  const auto longest = *std::max_element(travel.begin(), travel.end());
  if (longest <= kMostUnits / 8 * ruler.unit) return;
  const int64_t rows = static_cast<int64_t>(upper.size());
  for_chunks(rows, 4096, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint16_t* const bound = &lower[static_cast<size_t>(i * stride)];
      for (int64_t g = 0; g < stride; ++g) {
        const uint16_t there = bound[g], way = travel_up[static_cast<size_t>(g)];
        bound[g] = there > way ? static_cast<uint16_t>(there - way) : uint16_t{0};
      }
    }
  });
  std::fill(travel.begin(), travel.end(), 0.0);
  std::fill(travel_up.begin(), travel_up.end(), uint16_t{0});
  std::fill(travel_down.begin(), travel_down.end(), 0.0f);
}

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
GroupDecider<T>::GroupDecider(View<const T, 2> x, const Frame& frame, const PackedCenters& centers,
                              const std::vector<float>& rows, GroupBounds& bounds, Shorts shorts)
    : x_(x),
      frame_(frame),
      centers_(centers),
      rows_(rows),
      bounds_(bounds),
      shorts_(shorts),
      decider_(x, frame, centers),
      taken_(x.shape[1]),
      open_(x.shape[1]),
      panel_(static_cast<size_t>(kPanel * x.shape[1])),
      best_(static_cast<size_t>(bounds.groups * kPanel)),
      second_(best_.size()),
      travel_(static_cast<size_t>(bounds.groups)),
      bound_(best_.size()),
      slot_(static_cast<size_t>(bounds.groups), -1),
      mask_(static_cast<size_t>(bounds.stride / kBoundLanes)),
      wanted_(mask_.size(), 0) {}

// The P² of the centres of a panel.
template <class T>
void GroupDecider<T>::find_p2(const int32_t* slots, float* p2) const {
  for (int64_t l = 0; l < kPanel; ++l) p2[l] = centers_.p2[static_cast<size_t>(std::max(slots[l], 0))];
}

// Nothing is known any more of this row.
template <class T>
void GroupDecider<T>::forget(int64_t row) {
  bounds_.upper[static_cast<size_t>(row)] = kInf;
  std::fill_n(&bounds_.lower[static_cast<size_t>(row * bounds_.stride)], bounds_.groups, uint16_t{0});
}

// Whether a group may have a centre nearer than `upper`, mask_ tells which; all are at least `least` away.
template <class T>
bool GroupDecider<T>::failing(int64_t row, double upper, double& least) {
  uint16_t units = 0;
  const bool some = kernels().kmeans.failing_groups(
      &bounds_.lower[static_cast<size_t>(row * bounds_.stride)], bounds_.travel_up.data(), bounds_.stride,
      units_above((upper - bounds_.ruler.from) * bounds_.ruler.per_unit), mask_.data(), &units);
  least = units == 0 ? 0.0 : bounds_.ruler.from + units * bounds_.ruler.unit;
  return some;
}

template <class T>
void GroupDecider<T>::decide(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run) {
  const int64_t d = x_.shape[1];
  again_.clear();
  for (int64_t r = 0; r < count; ++r) {
    if (r % 1024 == 0) run.poll();
    if (!centers_.certified) {
      again_.push_back(r);
      continue;
    }
    if (r + kAhead < count) {
      const int64_t ahead = rows[r + kAhead];
      if (bounds_.remember()) ask_for(&bounds_.lower[static_cast<size_t>(ahead * bounds_.stride)], bounds_.stride);
      if (shorts_.rows != nullptr)
        ask_for(&shorts_.rows->y[static_cast<size_t>(ahead * d)], d);
      else
        ask_for(&x_(ahead, 0), x_.rows_contiguous() ? d : 1);
    }
    const int32_t own = label[r] < 0 ? -1 : bounds_.slot[static_cast<size_t>(label[r])];
    if (!bounds_.remember()) {
      take(open_, r, rows[r], own);
      if (open_.count == kPanel) decide_panel(label, gap);
      continue;
    }
    const double upper = static_cast<double>(bounds_.upper[static_cast<size_t>(rows[r])]) +
                         bounds_.own_travel[static_cast<size_t>(label[r])];
    double least = 0;
    if (!failing(rows[r], upper, least)) {
      gap[r] = below(least - upper);
      continue;
    }
    take(taken_, r, rows[r], own);
    if (taken_.count == kPanel) tighten(label, gap);
  }
  tighten(label, gap);
  decide_panel(label, gap);
  for (size_t i = 0; i < again_.size(); i += kPoints) {
    run.poll();
    const auto some = std::min<int64_t>(kPoints, static_cast<int64_t>(again_.size() - i));
    decider_.decide_again(rows, &again_[i], some, label);
    for (int64_t l = 0; l < some; ++l) {
      const int64_t r = again_[i + static_cast<size_t>(l)];
      if (bounds_.remember()) forget(rows[r]);
      gap[r] = -kInf;
    }
  }
  counts += decider_.counts;
  decider_.counts = {};
}

// Packs a row and computes the score of its own centre, if it has one.
template <class T>
void GroupDecider<T>::take(Batch& to, int64_t place, int64_t row, int32_t own) {
  const auto& kernel = kernels().kmeans;
  const int64_t d = x_.shape[1], l = to.count++;
  if (shorts_.rows != nullptr) {
    to.y[l] = &shorts_.rows->y[static_cast<size_t>(row * d)];
    to.norm2[l] = shorts_.rows->y2[static_cast<size_t>(row)];
  } else {
    float* const y = &to.copies[static_cast<size_t>(l * d)];
    const T* const x = decider_.row(row, 0);
    to.y[l] = y;
    if constexpr (std::is_same_v<T, double>)
      to.norm2[l] = kernel.pack_row_f64(x, d, frame_.pivot.data(), frame_.scale, y);
    else
      to.norm2[l] = kernel.pack_row_f32(x, d, frame_.pivot32.data(), static_cast<float>(frame_.scale), y);
  }
  to.norm2[l] = centers_.norm2(to.norm2[l]);
  to.place[l] = place;
  to.row[l] = row;
  to.own[l] = own;
  to.score[l] = kInf;
  if (own < 0) return;
  to.score[l] =
      kernel.score_row(to.y[l], d, &rows_[static_cast<size_t>(own * d)], centers_.half[static_cast<size_t>(own)]);
  counts.evaluations += bounds_.remember();
}

// A row is `upper` away from its centre, and at least `least` from all others.
template <class T>
void GroupDecider<T>::remember(int64_t row, int32_t label, float upper, double least, float& gap) {
  bounds_.upper[static_cast<size_t>(row)] =
      above(static_cast<double>(upper) - bounds_.own_travel[static_cast<size_t>(label)]);
  gap = below(least - static_cast<double>(upper));
}

// Now that the distance to the own centre is known, many groups are out of reach; rows with others wait for company.
template <class T>
void GroupDecider<T>::tighten(int32_t* label, float* gap) {
  if (taken_.count == 0) return;
  const int64_t d = x_.shape[1];
  float upper[kPanel], p2[kPanel];
  find_p2(taken_.own, p2);
  kernels().kmeans.upper_bounds(taken_.score, taken_.norm2, p2, &centers_.bounds, upper);
  for (int64_t l = 0; l < taken_.count; ++l) {
    double least = 0;
    if (!failing(taken_.row[l], static_cast<double>(upper[l]), least)) {
      remember(taken_.row[l], label[taken_.place[l]], upper[l], least, gap[taken_.place[l]]);
      continue;
    }
    for (size_t b = 0; b < mask_.size(); ++b) wanted_[b] |= mask_[b];
    const int64_t to = open_.count++;
    open_.y[to] = taken_.y[l];
    if (shorts_.rows == nullptr) {
      float* const copy = &open_.copies[static_cast<size_t>(to * d)];
      std::copy_n(taken_.y[l], d, copy);
      open_.y[to] = copy;
    }
    open_.place[to] = taken_.place[l];
    open_.row[to] = taken_.row[l];
    open_.own[to] = taken_.own[l];
    open_.norm2[to] = taken_.norm2[l];
    open_.score[to] = taken_.score[l];
    if (open_.count == kPanel) decide_panel(label, gap);
  }
  taken_.count = 0;
}

// The groups that one of the rows of a panel wants.
template <class T>
void GroupDecider<T>::choose_groups() {
  for (int32_t g : groups_) slot_[static_cast<size_t>(g)] = -1;
  groups_.clear();
  if (!bounds_.remember()) std::fill(wanted_.begin(), wanted_.end(), ~uint32_t{0});
  for (size_t b = 0; b < wanted_.size(); ++b)
    for (uint32_t bits = wanted_[b]; bits != 0; bits &= bits - 1) {
      const auto g = static_cast<int32_t>(b * kBoundLanes) + std::countr_zero(bits);
      if (g >= bounds_.groups) break;
      slot_[static_cast<size_t>(g)] = static_cast<int32_t>(groups_.size());
      travel_[groups_.size()] = bounds_.travel_down[static_cast<size_t>(g)];
      groups_.push_back(g);
    }
  std::fill(wanted_.begin(), wanted_.end(), uint32_t{0});
}

// A panel of rows looks at every group that one of them wants.
template <class T>
void GroupDecider<T>::decide_panel(int32_t* label, float* gap) {
  if (open_.count == 0) return;
  choose_groups();
  Found found;
  if (shorts_.rows != nullptr)
    look_by_grid(found);
  else
    look(found);
  const auto count = static_cast<int64_t>(groups_.size());
  counts.evaluations += open_.count * (bounds_.remember() ? count * kGroup : centers_.k);
  for (int64_t l = 0; l < open_.count; ++l) {
    const int64_t place = open_.place[l];
    if (found.gaps[l] == -kInf) {
      again_.push_back(place);
      continue;
    }
    label[place] = bounds_.center[static_cast<size_t>(found.index[l])];
    if (!bounds_.remember()) {
      gap[place] = found.gaps[l];
      continue;
    }
    uint16_t* const lower = &bounds_.lower[static_cast<size_t>(open_.row[l] * bounds_.stride)];
    for (int64_t e = 0; e < count; ++e)
      lower[groups_[static_cast<size_t>(e)]] = bound_[static_cast<size_t>(e * kPanel + l)];
    double least = 0;
    failing(open_.row[l], 0, least);
    remember(open_.row[l], label[place], found.upper[l], least, gap[place]);
  }
  open_.count = 0;
}

// In float32, all centres of the groups.
template <class T>
void GroupDecider<T>::look(Found& found) {
  const auto& kernel = kernels().kmeans;
  const auto count = static_cast<int64_t>(groups_.size());
  std::copy_n(open_.score, kPanel, found.lowest);
  std::copy_n(open_.own, kPanel, found.index);
  std::fill_n(found.next, kPanel, kInf);
  kernel.turn_rows(open_.copies.data(), x_.shape[1], panel_.data());
  kernel.nearest_of_groups(panel_.data(), x_.shape[1], centers_.blocks.data(), centers_.half.data(), groups_.data(),
                           count, open_.own, best_.data(), second_.data(), found.lowest, found.next, found.index);
  float p2[kPanel];
  find_p2(found.index, p2);
  kernel.gaps(found.lowest, found.next, open_.norm2, p2, &centers_.bounds, found.gaps);
  kernel.upper_bounds(found.lowest, open_.norm2, p2, &centers_.bounds, found.upper);
  confirmed_.clear();
  for (int64_t l = 0; l < open_.count; ++l) {
    if (found.index[l] == open_.own[l]) continue;
    // The bound of its new group is for the others there; its old centre is one of the others now.
    const auto to = static_cast<size_t>(slot_[static_cast<size_t>(found.index[l] / kGroup)] * kPanel + l);
    best_[to] = second_[to];
    confirmed_.push_back({static_cast<int32_t>(l), open_.own[l], open_.score[l]});
  }
  kernel.lower_bounds(best_.data(), count, open_.norm2, &centers_.bounds, travel_.data(), bounds_.ruler.from_up,
                      bounds_.ruler.per_unit_down, bound_.data());
  bound_confirmed(found);
}

template class GroupDecider<float>;
template class GroupDecider<double>;

}  // namespace knoll
