#include "knoll/group_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace knoll {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float above(double v) { return static_cast<float>(v + std::fabs(v) * 0x1p-22); }
float below(double v) { return static_cast<float>(v - std::fabs(v) * 0x1p-22); }

}  // namespace

GroupBounds::GroupBounds(int64_t n, int64_t k)
    : groups((k + kGroup - 1) / kGroup),
      stride((groups + 7) / 8 * 8),
      lower(static_cast<size_t>(n * stride), kInf),
      upper(static_cast<size_t>(n), kInf),
      travel(static_cast<size_t>(groups), 0.0),
      own_travel(static_cast<size_t>(k), 0.0),
      travel_up(static_cast<size_t>(stride), 0.0f),
      travel_down(static_cast<size_t>(stride), 0.0f) {}

void GroupBounds::move(const std::vector<double>& way) {
  std::vector<double> most(travel.size(), 0.0);
  for (size_t c = 0; c < way.size(); ++c) {
    own_travel[c] = (own_travel[c] + way[c]) * (1 + 0x1p-50);
    most[c / kGroup] = std::max(most[c / kGroup], way[c]);
  }
  for (size_t g = 0; g < most.size(); ++g) {
    travel[g] = (travel[g] + most[g]) * (1 + 0x1p-50);
    travel_up[g] = above(travel[g]);
    travel_down[g] = below(travel[g]);
  }
}

std::vector<float> group_lanes(const PackedCenters& centers) {
  const auto k = static_cast<int64_t>(centers.half.size()), d = centers.d;
  std::vector<float> lanes(static_cast<size_t>(k * d));
  for (int64_t c = 0; c < k; ++c)
    for (int64_t j = 0; j < d; ++j)
      lanes[static_cast<size_t>((c / kGroup * d + j) * kGroup + c % kGroup)] =
          centers.blocks[static_cast<size_t>((c / kCenterBlock * d + j) * kCenterBlock + c % kCenterBlock)];
  return lanes;
}

template <class T>
GroupDecider<T>::GroupDecider(View<const T, 2> x, const Frame& frame, const PackedCenters& centers,
                              const std::vector<float>& lanes, GroupBounds& bounds)
    : x_(x),
      frame_(frame),
      centers_(centers),
      lanes_(lanes),
      bounds_(bounds),
      decider_(x, frame, centers),
      y_(static_cast<size_t>(x.shape[1])),
      best_(static_cast<size_t>(bounds.groups * kPanel)),
      second_(best_.size()),
      bound_(kPanel),
      index_(best_.size()),
      failing_(static_cast<size_t>(bounds.stride)) {}

template <class T>
double GroupDecider<T>::upper_bound(float score, float norm2) const {
  const TileBounds& b = centers_.bounds;
  const double size = static_cast<double>(norm2) + static_cast<double>(b.p2);
  const double error = size * static_cast<double>(b.radius) + static_cast<double>(b.floor);
  const double square = std::max(0.0, static_cast<double>(norm2) + 2 * static_cast<double>(score));
  return std::sqrt(square + error) * (1 + 0x1p-21) + std::sqrt(size) * static_cast<double>(b.slack);
}

// Nothing is known any more of this row.
template <class T>
void GroupDecider<T>::forget(int64_t row) {
  bounds_.upper[static_cast<size_t>(row)] = kInf;
  std::fill_n(&bounds_.lower[static_cast<size_t>(row * bounds_.stride)], bounds_.groups, -kInf);
}

template <class T>
void GroupDecider<T>::decide(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run) {
  dense_.clear();
  again_.clear();
  for (int64_t r = 0; r < count; ++r) {
    const auto row = static_cast<size_t>(rows[r]);
    if (r % 1024 == 0) run.poll();
    if (!centers_.certified) {
      again_.push_back(r);
      continue;
    }
    if (label[r] < 0) {
      dense_.push_back(r);
      continue;
    }
    const double upper = static_cast<double>(bounds_.upper[row]) + bounds_.own_travel[static_cast<size_t>(label[r])];
    float least = 0;
    const int64_t failing = kernels().kmeans.failing_groups(&bounds_.lower[row * static_cast<size_t>(bounds_.stride)],
                                                            bounds_.travel_up.data(), bounds_.groups, above(upper),
                                                            failing_.data(), &least);
    if (failing == 0)
      gap[r] = below(static_cast<double>(below(static_cast<double>(least))) - upper);
    else if (failing * 4 > bounds_.groups)
      dense_.push_back(r);
    else if (!decide_alone(rows[r], label[r], gap[r], failing))
      again_.push_back(r);
  }
  for (size_t i = 0; i < dense_.size(); i += kPanel) {
    if (i % (64 * kPanel) == 0) run.poll();
    decide_panel(rows, &dense_[i], std::min<int64_t>(kPanel, static_cast<int64_t>(dense_.size() - i)), label, gap);
  }
  for (size_t i = 0; i < again_.size(); i += kPoints) {
    run.poll();
    const auto some = std::min<int64_t>(kPoints, static_cast<int64_t>(again_.size() - i));
    decider_.decide_again(rows, &again_[i], some, label);
    for (int64_t l = 0; l < some; ++l) {
      const int64_t r = again_[i + static_cast<size_t>(l)];
      forget(rows[r]);
      gap[r] = -kInf;
    }
  }
  counts.evaluations += decider_.counts.evaluations;
  counts.rechecks += decider_.counts.rechecks;
  decider_.counts = {};
}

// One row, with centres in lanes: its own group first, then those that its true distance does not rule out.
template <class T>
bool GroupDecider<T>::decide_alone(int64_t row, int32_t& label, float& gap, int64_t failing) {
  const auto& kernel = kernels().kmeans;
  const int64_t d = x_.shape[1];
  float* const lower = &bounds_.lower[static_cast<size_t>(row * bounds_.stride)];
  const T* const x = decider_.row(row, 0);
  float norm2;
  if constexpr (std::is_same_v<T, double>)
    norm2 = kernel.pack_row_f64(x, d, frame_.pivot.data(), frame_.scale, y_.data());
  else
    norm2 = kernel.pack_row_f32(x, d, frame_.pivot.data(), frame_.scale, y_.data());

  seen_.clear();
  const auto look = [&](int64_t g, int64_t h) {  // at two groups, which may be the same
    float scores[2 * kGroup];
    const auto size = static_cast<size_t>(d * kGroup);
    kernel.group_scores(y_.data(), d, &lanes_[static_cast<size_t>(g) * size],
                        &centers_.half[static_cast<size_t>(g * kGroup)], &lanes_[static_cast<size_t>(h) * size],
                        &centers_.half[static_cast<size_t>(h * kGroup)], scores);
    for (int half = 0; half < (g == h ? 1 : 2); ++half) {
      Seen seen{static_cast<int32_t>(half == 0 ? g : h), 0, kInf, kInf};
      for (int t = 0; t < kGroup; ++t) {
        const float score = scores[half * kGroup + t];
        seen.second = std::min(seen.second, std::max(seen.best, score));
        if (score < seen.best) seen.best = score, seen.index = seen.group * kGroup + t;
      }
      seen_.push_back(seen);
      counts.evaluations += kGroup;
    }
    return scores[label % kGroup];
  };
  const int64_t own = label / kGroup;
  int64_t next = 0;
  const auto other = [&](float limit) {  // the next group but the own whose bound does not clear the limit
    for (; next < failing; ++next) {
      const auto g = static_cast<size_t>(failing_[static_cast<size_t>(next)]);
      if (failing_[static_cast<size_t>(next)] != own && !(lower[g] - bounds_.travel_up[g] > limit))
        return static_cast<int64_t>(failing_[static_cast<size_t>(next++)]);
    }
    return int64_t{-1};
  };
  const int64_t beside = other(kInf);  // an evaluation alone would cost nearly as much as two
  const float own_score = look(own, beside < 0 ? own : beside);
  const float limit = above(upper_bound(own_score, norm2) * (1 + 0x1p-22));
  for (int64_t g = other(limit); g >= 0; g = other(limit)) {
    const int64_t h = other(limit);
    look(g, h < 0 ? g : h);
  }

  const Seen* nearest = &seen_[0];
  for (const Seen& seen : seen_)
    if (seen.best < nearest->best || (seen.best == nearest->best && seen.index < nearest->index)) nearest = &seen;
  float second = nearest->second;
  for (const Seen& seen : seen_)
    if (&seen != nearest) second = std::min(second, seen.best);
  const TileBounds& b = centers_.bounds;
  const float margin = (norm2 + b.p2) * b.margin * (1 + 0x1p-20f) + b.floor;
  if (!(second - nearest->best > margin)) return false;

  const double size = static_cast<double>(norm2) + static_cast<double>(b.p2);
  const double error = size * static_cast<double>(b.radius) + static_cast<double>(b.floor);
  const double slack = std::sqrt(size) * static_cast<double>(b.slack);
  for (const Seen& seen : seen_) {
    const double score = static_cast<double>(&seen == nearest ? seen.second : seen.best);
    const double square = std::max(0.0, static_cast<double>(norm2) + 2 * score - error);
    const auto g = static_cast<size_t>(seen.group);
    lower[g] = below(std::sqrt(square) * (1 - 0x1p-21) - slack + bounds_.travel[g]);
  }
  label = nearest->index;
  const double upper = upper_bound(nearest->best, norm2);
  bounds_.upper[static_cast<size_t>(row)] = above(upper - bounds_.own_travel[static_cast<size_t>(label)]);
  float least = 0;
  kernel.failing_groups(lower, bounds_.travel_up.data(), bounds_.groups, -kInf, failing_.data(), &least);
  gap = below(static_cast<double>(below(static_cast<double>(least))) - upper);
  return true;
}

// Rows of which little is known: all groups, points in lanes.
template <class T>
void GroupDecider<T>::decide_panel(const int64_t* rows, const int64_t* which, int64_t count, int32_t* label,
                                   float* gap) {
  const auto& kernel = kernels().kmeans;
  const int64_t groups = bounds_.groups;
  int64_t members[kPanel];
  float norm2[kPanel], best[kPanel], second[kPanel], gaps[kPanel];
  int32_t index[kPanel];
  for (int64_t l = 0; l < count; ++l) members[l] = rows[which[l]];
  const float* const panel = decider_.pack(members, count, norm2);
  kernel.nearest_two_of_groups(panel, x_.shape[1], centers_.blocks.data(), centers_.half.data(), groups * kGroup,
                               best_.data(), second_.data(), index_.data());
  counts.evaluations += count * centers_.k;
  std::fill_n(best, kPanel, kInf);
  std::fill_n(second, kPanel, kInf);
  std::fill_n(index, kPanel, 0);
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t l = 0; l < kPanel; ++l) {
      const auto at = static_cast<size_t>(g * kPanel + l);
      const bool lower = best_[at] < best[l];
      second[l] = std::min(std::min(second[l], second_[at]), std::max(best[l], best_[at]));
      index[l] = lower ? index_[at] : index[l];
      best[l] = lower ? best_[at] : best[l];
    }
  kernel.gaps(best, second, norm2, &centers_.bounds, gaps);
  for (int64_t l = 0; l < count; ++l) {  // in the nearest centre's group the bound is for the others
    const auto at = static_cast<size_t>(index[l] / kGroup * kPanel + l);
    best_[at] = second_[at];
  }
  for (int64_t g = 0; g < groups; ++g) {
    kernel.lower_bounds(&best_[static_cast<size_t>(g * kPanel)], norm2, &centers_.bounds,
                        bounds_.travel_down[static_cast<size_t>(g)], bound_.data());
    for (int64_t l = 0; l < count; ++l)
      bounds_.lower[static_cast<size_t>(members[l] * bounds_.stride + g)] = bound_[static_cast<size_t>(l)];
  }
  for (int64_t l = 0; l < count; ++l) {
    const int64_t r = which[l];
    label[r] = index[l];
    gap[r] = gaps[l];
    if (gaps[l] == -kInf)
      again_.push_back(r);
    else
      bounds_.upper[static_cast<size_t>(members[l])] =
          above(upper_bound(best[l], norm2[l]) - bounds_.own_travel[static_cast<size_t>(index[l])]);
  }
}

template class GroupDecider<float>;
template class GroupDecider<double>;

}  // namespace knoll
