// A panel of rows on a grid looks at its groups: whole numbers leave out nearly all centres, float32 confirms the
// others (docs/decisions/0008, eq. 11).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "knoll/group_bounds.hpp"
#include "knoll/outward.hpp"

namespace knoll {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The highest score on the grid whose lower bound step·√(norm2 + score) − reach is not above `upper`; at least that.
int32_t limit_of(float upper, float reach, float step, int32_t norm2) {
  const double length = (static_cast<double>(upper) + static_cast<double>(reach)) / static_cast<double>(step);
  const double most = length * length * (1 + 0x1p-18) - norm2;
  return most < kShortNone - 2 ? static_cast<int32_t>(std::max(most, -0x1p30)) + 1 : kShortNone - 1;
}

}  // namespace

// The score of one more centre, in float32.
template <class T>
void GroupDecider<T>::confirm(Found& found, int64_t lane, int32_t slot) {
  const int64_t d = x_.shape[1];
  const float score = slot == open_.own[lane]
                          ? open_.score[lane]
                          : kernels().kmeans.score_row(open_.y[lane], d, &rows_[static_cast<size_t>(slot * d)],
                                                       centers_.half[static_cast<size_t>(slot)]);
  confirmed_.push_back({static_cast<int32_t>(lane), slot, score});
  if (score < found.lowest[lane]) {
    found.next[lane] = found.lowest[lane];
    found.lowest[lane] = score;
    found.index[lane] = slot;
  } else {
    found.next[lane] = std::min(found.next[lane], score);
  }
}

template <class T>
void GroupDecider<T>::look_by_grid(Found& found) {
  const auto& kernel = kernels().kmeans;
  const ShortRows& rows = *shorts_.rows;
  const ShortCenters& centers = *shorts_.centers;
  const auto count = static_cast<int64_t>(groups_.size());
  const int64_t words = rows.quads;
  words_.resize(static_cast<size_t>(2 * kPanel * words));
  scores_.resize(static_cast<size_t>(bounds_.groups * kGroup * kPanel));
  least_.resize(static_cast<size_t>(bounds_.groups * kPanel));
  hits_.resize(static_cast<size_t>(bounds_.groups * kGroup + 1));
  float* const panel = &words_[static_cast<size_t>(kPanel * words)];
  float reach[kPanel];
  int32_t norm2[kPanel], limit[kPanel], lowest[kPanel], tried[kPanel], rest[kPanel];
  for (int64_t l = 0; l < kPanel; ++l) {  // lanes without a row repeat one, and are not looked at
    const auto row = static_cast<size_t>(open_.row[l < open_.count ? l : 0]);
    std::memcpy(&words_[static_cast<size_t>(l * words)], &rows.q[row * static_cast<size_t>(words * kQuad)],
                static_cast<size_t>(words * kQuad));
    norm2[l] = rows.norm2[row];
    reach[l] = rows.off[row];
  }
  kernel.turn_rows(words_.data(), words, panel);
  kernel.short_tile(reinterpret_cast<const uint8_t*>(panel), words, centers.blocks.data(), centers.offset.data(),
                    groups_.data(), count, centers.widen, scores_.data(), lowest, tried);

  // What is near on the grid is near: it makes the upper bound tight before the others are judged.
  confirmed_.clear();
  std::fill_n(found.lowest, kPanel, kInf);
  std::fill_n(found.next, kPanel, kInf);
  std::fill_n(found.index, kPanel, 0);
  for (int64_t l = 0; l < open_.count; ++l) {
    if (open_.own[l] >= 0) confirm(found, l, open_.own[l]);
    if (tried[l] != open_.own[l]) confirm(found, l, tried[l]);
  }
  float p2[kPanel];
  find_p2(found.index, p2);
  kernel.upper_bounds(found.lowest, open_.norm2, p2, &centers_.bounds, found.upper);
  for (int64_t l = 0; l < kPanel; ++l) {
    const double size = static_cast<double>(open_.norm2[l]) + static_cast<double>(centers_.most_p2);
    reach[l] = static_cast<float>((static_cast<double>(reach[l]) + static_cast<double>(centers.off) +
                                   std::sqrt(size) * static_cast<double>(centers_.bounds.slack)) *
                                  (1 + 0x1p-20));
    limit[l] = l < open_.count ? limit_of(found.upper[l], reach[l], rows.grid.step, norm2[l]) : INT32_MIN;
  }
  const int64_t hits = kernel.short_sweep(scores_.data(), count, limit, least_.data(), rest, hits_.data());
  for (int64_t h = 0; h < hits; ++h) {
    const ShortHit& hit = hits_[static_cast<size_t>(h)];
    const int32_t slot = groups_[static_cast<size_t>(hit.place / kGroup)] * kGroup + hit.place % kGroup;
    for (uint32_t lanes = hit.lanes; lanes != 0; lanes &= lanes - 1) {
      const int l = std::countr_zero(lanes);
      if (slot != open_.own[l] && slot != tried[l]) confirm(found, l, slot);
    }
  }
  confirmed += static_cast<int64_t>(confirmed_.size());
  find_p2(found.index, p2);
  kernel.gaps(found.lowest, found.next, open_.norm2, p2, &centers_.bounds, found.gaps);
  kernel.upper_bounds(found.lowest, open_.norm2, p2, &centers_.bounds, found.upper);
  if (bounds_.remember()) {
    kernel.short_bounds(least_.data(), count, norm2, reach, rows.grid.step, travel_.data(), bounds_.ruler.from_up,
                        bounds_.ruler.per_unit_down, bound_.data());
    bound_confirmed(found);
    return;
  }
  float others[kPanel];
  kernel.short_lengths(rest, norm2, reach, rows.grid.step, others);
  for (int64_t l = 0; l < open_.count; ++l)  // where float32 cannot tell, it stays so
    found.gaps[l] =
        std::min(found.gaps[l], below(static_cast<double>(others[l]) - static_cast<double>(found.upper[l])));
}

// Bounds of the groups hold for centres whose score float32 has told, too, unless it is the row's own by now.
template <class T>
void GroupDecider<T>::bound_confirmed(const Found& found) {
  const TileBounds& b = centers_.bounds;
  for (const Confirmed& one : confirmed_) {
    const auto l = static_cast<size_t>(one.lane);
    if (found.gaps[l] == -kInf || one.slot == found.index[l]) continue;
    const double y2 = static_cast<double>(open_.norm2[l]), size = y2 + static_cast<double>(b.p2);
    const double error = size * static_cast<double>(b.radius) + static_cast<double>(b.floor);
    const double length = std::sqrt(std::max(0.0, y2 + 2 * static_cast<double>(one.score) - error)) * (1 - 0x1p-21) -
                          std::sqrt(size) * static_cast<double>(b.slack);
    const int32_t group = one.slot / kGroup, e = slot_[static_cast<size_t>(group)];
    uint16_t& lower = e >= 0 ? bound_[static_cast<size_t>(e * kPanel) + l]
                             : bounds_.lower[static_cast<size_t>(open_.row[l] * bounds_.stride + group)];
    const double units = std::max(length - bounds_.ruler.from, 0.0) / bounds_.ruler.unit * (1 - 0x1p-40) +
                         static_cast<double>(bounds_.travel_down[static_cast<size_t>(group)]);
    if (units < lower) lower = static_cast<uint16_t>(units);
  }
}

template class GroupDecider<float>;
template class GroupDecider<double>;

}  // namespace knoll
