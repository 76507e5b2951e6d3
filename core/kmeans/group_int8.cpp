// A panel of rows in int8: integer scores rule out nearly all centres, float32 confirms the others
// (docs/numerics/kmeans.md, eq. 11).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/rounding.hpp"
#include "kmeans/group_bounds.hpp"

namespace knoll {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A score s = ‖q − m‖² − ‖q‖² rules a centre out if step·√(norm2 + s) − error > upper. This is a limit at or above the
// largest s that does not: s > limit implies s > ((upper + error)/step)² − norm2.
int32_t score_limit(float upper, float error, float step, int32_t norm2) {
  const double length = (static_cast<double>(upper) + static_cast<double>(error)) / static_cast<double>(step);
  // 2⁻¹⁸ exceeds the rounding of these lines.
  const double most = length * length * (1 + 0x1p-18) - norm2;
  return most < kNoScore - 2 ? static_cast<int32_t>(std::max(most, -0x1p30)) + 1 : kNoScore - 1;
}

}  // namespace

// Adds the float32 score of one more centre to what was found.
template <class T>
void GroupAssigner<T>::confirm(Found& found, int64_t lane, int32_t slot) {
  const int64_t d = x_.shape[1];
  const float score = slot == pending_.own[lane]
                          ? pending_.score[lane]
                          : kernels().kmeans.score_row(pending_.y[lane], d, &rows_[static_cast<size_t>(slot * d)],
                                                       centers_.half[static_cast<size_t>(slot)]);
  confirmed_.push_back({static_cast<int32_t>(lane), slot, score});
  // Strict: of equal scores the first stays. Equal scores are not decided by eq. 6 anyway.
  if (score < found.lowest[lane]) {
    found.next[lane] = found.lowest[lane];
    found.lowest[lane] = score;
    found.index[lane] = slot;
  } else {
    found.next[lane] = std::min(found.next[lane], score);
  }
}

// The integer scores of all centres of the groups; tried (kPanel) is the slot of the lowest. norm2 and error (kPanel)
// are ‖q‖² and the rounding error of each row.
template <class T>
void GroupAssigner<T>::tile_int8(int32_t* norm2, float* error, int32_t* tried) {
  const auto& kernel = kernels().kmeans;
  const Int8Rows& rows = *int8_.rows;
  const Int8Centers& centers = *int8_.centers;
  const int64_t words = rows.quads;
  words_.resize(static_cast<size_t>(2 * kPanel * words));
  scores_.resize(static_cast<size_t>(bounds_.groups * kGroup * kPanel));
  float* const panel = &words_[static_cast<size_t>(kPanel * words)];
  for (int64_t l = 0; l < kPanel; ++l) {  // lanes without a row repeat the first one, and are not read
    const auto row = static_cast<size_t>(pending_.row[l < pending_.count ? l : 0]);
    std::memcpy(&words_[static_cast<size_t>(l * words)], &rows.q[row * static_cast<size_t>(words * kQuad)],
                static_cast<size_t>(words * kQuad));
    norm2[l] = rows.norm2[row];
    error[l] = rows.error[row];
  }
  // A word of four bytes is moved like a float: nothing computes with it.
  kernel.transpose_rows(words_.data(), words, panel);
  int32_t lowest[kPanel];
  kernel.int8_tile(reinterpret_cast<const uint8_t*>(panel), words, centers.blocks.data(), centers.offset.data(),
                   groups_.data(), static_cast<int64_t>(groups_.size()), centers.widen, scores_.data(), lowest, tried);
}

// Eq. 11: scale·√D ≥ step·‖q − m‖ − (row error + largest centre error + slack). A centre for which this exceeds the
// upper bound of one known to be near is farther by the one distance.
template <class T>
void GroupAssigner<T>::score_groups_int8(Found& found) {
  const auto& kernel = kernels().kmeans;
  const float step = int8_.rows->grid.step;
  const auto count = static_cast<int64_t>(groups_.size());
  least_.resize(static_cast<size_t>(bounds_.groups * kPanel));
  hits_.resize(static_cast<size_t>(bounds_.groups * kGroup + 1));
  float error[kPanel], p2[kPanel];
  int32_t norm2[kPanel], limit[kPanel], tried[kPanel], least_of_all[kPanel];
  tile_int8(norm2, error, tried);

  // The own centre and the lowest in int8 are confirmed first: they make the upper bound tight for the others.
  confirmed_.clear();
  std::fill_n(found.lowest, kPanel, kInf);
  std::fill_n(found.next, kPanel, kInf);
  std::fill_n(found.index, kPanel, 0);
  for (int64_t l = 0; l < pending_.count; ++l) {
    if (pending_.own[l] >= 0) confirm(found, l, pending_.own[l]);
    if (tried[l] != pending_.own[l]) confirm(found, l, tried[l]);
  }
  find_p2(found.index, p2);
  kernel.upper_bounds(found.lowest, pending_.norm2, p2, &centers_.bounds, found.upper);
  for (int64_t l = 0; l < kPanel; ++l) {
    // a + max b + slack of eq. 11, with the largest finite P²: the slack must hold for the centre ruled out, far ones
    // included. Centres beyond float32 stand at the pivot, which is nearer than they are (eq. 13).
    const double size = static_cast<double>(pending_.norm2[l]) + static_cast<double>(centers_.max_p2);
    error[l] = static_cast<float>((static_cast<double>(error[l]) + static_cast<double>(int8_.centers->error) +
                                   std::sqrt(size) * static_cast<double>(centers_.bounds.slack)) *
                                  (1 + 0x1p-20));
    limit[l] = l < pending_.count ? score_limit(found.upper[l], error[l], step, norm2[l]) : INT32_MIN;
  }
  // score ≤ limit: may be nearer than the upper bound, so float32 computes it. All others are farther than the centre
  // that gave the upper bound, hence neither first nor a tie; the least of them bounds their distances from below.
  const int64_t hits = kernel.int8_sweep(scores_.data(), count, limit, least_.data(), least_of_all, hits_.data());
  for (int64_t h = 0; h < hits; ++h) {
    const Int8Hit& hit = hits_[static_cast<size_t>(h)];
    const int32_t slot = groups_[static_cast<size_t>(hit.position / kGroup)] * kGroup + hit.position % kGroup;
    for (uint32_t lanes = hit.lanes; lanes != 0; lanes &= lanes - 1) {
      const int l = std::countr_zero(lanes);
      if (slot != pending_.own[l] && slot != tried[l]) confirm(found, l, slot);
    }
  }
  confirmed += static_cast<int64_t>(confirmed_.size());

  find_p2(found.index, p2);
  kernel.gaps(found.lowest, found.next, pending_.norm2, p2, &centers_.bounds, found.gaps);
  kernel.upper_bounds(found.lowest, pending_.norm2, p2, &centers_.bounds, found.upper);
  if (bounds_.has_bounds()) {
    kernel.int8_bounds(least_.data(), count, norm2, error, step, shift_.data(), bounds_.quantizer.from_up,
                       bounds_.quantizer.per_unit_down, bound_.data());
    bound_confirmed(found);
    return;
  }
  float others[kPanel];  // lower bounds of the distances to the centres ruled out
  kernel.int8_lengths(least_of_all, norm2, error, step, others);
  for (int64_t l = 0; l < pending_.count; ++l)  // −inf stays: float32 has not decided
    found.gaps[l] =
        std::min(found.gaps[l], below(static_cast<double>(others[l]) - static_cast<double>(found.upper[l])));
}

// The bounds of the groups must hold for the confirmed centres too, unless that is the row's own now: eq. 8 in float64,
// s√D ≥ √(‖y‖² + 2·score − error)·(1 − 2⁻²¹) − slack·√(‖y‖² + P²), in units rounded down, plus the group's shift.
template <class T>
void GroupAssigner<T>::bound_confirmed(const Found& found) {
  const TileBounds& b = centers_.bounds;
  const BoundQuantizer& quantizer = bounds_.quantizer;
  for (const Confirmed& one : confirmed_) {
    const auto l = static_cast<size_t>(one.lane);
    if (found.gaps[l] == -kInf || one.slot == found.index[l]) continue;
    const double y2 = static_cast<double>(pending_.norm2[l]), size = y2 + static_cast<double>(b.p2);
    const double error = size * static_cast<double>(b.radius) + static_cast<double>(b.floor);
    const double length = std::sqrt(std::max(0.0, y2 + 2 * static_cast<double>(one.score) - error)) * (1 - 0x1p-21) -
                          std::sqrt(size) * static_cast<double>(b.slack);
    const int32_t group = one.slot / kGroup, e = entry_[static_cast<size_t>(group)];
    // A row that was evaluated for other groups only (e < 0) has its old centre in a group whose bound is stored
    // already.
    uint16_t& lower = e >= 0 ? bound_[static_cast<size_t>(e * kPanel) + l]
                             : bounds_.lower[static_cast<size_t>(pending_.row[l] * bounds_.stride + group)];
    const double units = std::max(length - quantizer.from, 0.0) / quantizer.unit * (1 - 0x1p-40) +
                         static_cast<double>(bounds_.shift_down[static_cast<size_t>(group)]);
    if (units < lower) lower = static_cast<uint16_t>(units);
  }
}

template class GroupAssigner<float>;
template class GroupAssigner<double>;

}  // namespace knoll
