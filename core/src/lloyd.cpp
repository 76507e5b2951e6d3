#include "knoll/lloyd.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "knoll/cluster_sums.hpp"
#include "knoll/outward.hpp"
#include "knoll/parallel.hpp"
#include "knoll/slots.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

constexpr int64_t kSweep = 8192;  // rows, at most, that a thread looks at before it decides those that survive
// While more than one row in kCalm changes its label, centres move too far for bounds by groups to be worth writing.
constexpr int64_t kCalm = 8;
// Fewer columns than this are multiplied in float32 as fast as on a grid.
constexpr int64_t kGridColumns = 32;
// The grid is given up once it leaves more than one distance in kVague to float32.
constexpr int64_t kVague = 8;
// Ways all together so many times as long as those of a step are taken off the keys.
constexpr double kLongWay = 64;
// Once one row in kMany was decided again, the next step may look from several places.
constexpr int64_t kMany = 8;
constexpr int kTries = 4;
// A relative error above that of anything computed in float64 here, and above what the one distance may be off by.
constexpr double kInflate = 1 + 0x1p-20;

template <class T>
struct Worker {
  explicit Worker(ClusterDelta sums) : delta(std::move(sums)), alive(kSweep) {}

  std::vector<Decider<T>> deciders;        // one a place, or
  std::vector<GroupDecider<T>> by_groups;  // these
  ClusterDelta delta;
  std::vector<int32_t> alive, label;
  std::vector<int64_t> rows, from, scratch;
  std::vector<float> gap;
  int64_t changed = 0;
};

}  // namespace

LloydMemory::LloydMemory(int64_t n, int64_t d, int64_t k, LloydAlgorithm algorithm)
    : n_(n),
      d_(d),
      k_(k),
      algorithm_(algorithm),
      labels_(static_cast<size_t>(n), -1),
      totals_(std::make_unique<ClusterTotals>(k, d)),
      exponents_(static_cast<size_t>(d), 0) {}

void LloydMemory::add_sums(View<int64_t, 2> sums) const { whole_totals(*totals_, exponents_, largest_weight_, sums); }

void LloydMemory::round_sums(View<double, 1> out, Run run, View<double, 1> rest) {
  round_totals(*totals_, exponents_, largest_weight_, out, rest, run);
}

template <class T>
void LloydMemory::round_moved(View<const T, 2> x, View<const double, 1> weights, View<const int64_t, 1> rows,
                              View<const int32_t, 1> to, View<double, 1> out, Run run, View<double, 1> rest) {
  const auto move = [&](double sign) {  // there, or back
    ClusterDelta delta(exponents_, largest_weight_, *totals_);
    for (int64_t r = 0; r < rows.shape[0]; ++r) {
      const int64_t i = rows(r);
      const double w = sign * (weights.empty() ? 1.0 : weights(i));
      delta.add(&x(i, 0), x.stride[1], -w, labels_[static_cast<size_t>(i)]);
      delta.add(&x(i, 0), x.stride[1], w, to(r));
    }
    delta.flush();
  };
  whole_ = false;  // should it be cancelled on the way
  move(1);
  round_totals(*totals_, exponents_, largest_weight_, out, rest, run);
  move(-1);
  whole_ = true;
}

template <class T>
void LloydMemory::begin(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers, Run run) {
  std::fill(labels_.begin(), labels_.end(), -1);
  totals_ = std::make_unique<ClusterTotals>(k_, d_);
  totals_->in_units = n_ <= int64_t{1} << 20;  // beyond, the units might overflow
  exponents_ = column_exponents(x, totals_->beyond, run);
  if (!weights.empty()) {
    largest_weight_ = 0;
    for (int64_t i = 0; i < n_; ++i) largest_weight_ = std::max(largest_weight_, std::fabs(weights(i)));
  }
  frames_ = choose_frames(x, centers, run);
  tries_ = 0;
  centers_.clear();
  if (algorithm_ == LloydAlgorithm::lloyd) return;
  key_.assign(static_cast<size_t>(n_), 0.0f);
  travel_.assign(static_cast<size_t>(k_), 0.0);
  limit_.assign(static_cast<size_t>(k_), 0.0f);
  groups_ = GroupBounds();
  grouped_ = calm_ = by_grid_ = false;
  if (algorithm_ != LloydAlgorithm::elkan || d_ < kGridColumns || !kernels().kmeans.has_fast_shorts) return;
  if (frames_.several()) return;
  const ShortGrid grid = choose_grid(x, frames_.places[0]);
  if (grid.step == 0) return;
  shorts_ = ShortRows(x, frames_.places[0], grid, run);
  plain_ = GroupBounds(k_);
  by_grid_ = true;
}

// By the triangle inequality a row's distance to its centre has grown by at most the way of that centre, and that to
// any other has shrunk by at most the way of the fastest other one (docs/decisions/0008, eq. 9).
void LloydMemory::move(View<const double, 2> centers, Run run) {
  way_.resize(static_cast<size_t>(k_));
  double first = 0, second = 0;
  int64_t fastest = -1;
  for (int64_t c = 0; c < k_; ++c) {
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference = (centers(c, j) - centers_[static_cast<size_t>(c * d_ + j)]) * frames_.scale();
      sum += difference * difference;
    }
    const double here = std::sqrt(sum) * kInflate;
    way_[static_cast<size_t>(c)] = here;
    if (here > first)
      second = first, first = here, fastest = c;
    else
      second = std::max(second, here);
  }
  if (*std::max_element(travel_.begin(), travel_.end()) > kLongWay * first) rebase_keys(run);
  for (int64_t c = 0; c < k_; ++c) {
    const auto at = static_cast<size_t>(c);
    travel_[at] = (travel_[at] + way_[at] + (c == fastest ? second : first)) * (1 + 0x1p-50);
    limit_[at] = above(travel_[at]);
  }
  if (grouped_) groups_.move(way_);
}

// Takes the ways so far off the keys: beside long ones, float32 would lose the gaps.
void LloydMemory::rebase_keys(Run run) {
  for_chunks(n_, kSweep, run, [&](int64_t, int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      key_[i] = below(static_cast<double>(key_[i]) - travel_[static_cast<size_t>(labels_[i])]);
  });
  std::fill(travel_.begin(), travel_.end(), 0.0);
}

// A ruler for distances like those of some rows from their centres, and for some more, but not for those of a few rows
// far out: they would make its units too long for the others.
template <class T>
Ruler LloydMemory::ruler_for(View<const T, 2> x, View<const double, 2> centers) const {
  constexpr int64_t kSome = 65;
  std::vector<double> lengths;
  for (int64_t s = 0, count = std::min(n_, kSome); s < count; ++s) {
    const int64_t i = (2 * s + 1) * n_ / (2 * count);
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference =
          (static_cast<double>(x(i, j)) - centers(labels_[static_cast<size_t>(i)], j)) * frames_.scale();
      sum += difference * difference;
    }
    lengths.push_back(std::sqrt(sum));
  }
  std::sort(lengths.begin(), lengths.end());
  const double nearest = lengths.front(), most = lengths[lengths.size() * 9 / 10];
  const double farthest = most > 0 ? std::min(lengths.back(), 4 * most) : lengths.back();
  const double more = farthest - nearest + farthest / 8;
  return ruler_between(std::max(nearest - more / 2, 0.0), farthest + more);
}

template <class T>
StepCounts LloydMemory::step(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers,
                             Run run) {
  if (!whole_) begin(x, weights, centers, run);
  const bool first = !whole_, bounded = algorithm_ != LloydAlgorithm::lloyd;
  whole_ = false;
  if (!first && bounded) move(centers, run);

  if (grouped_) groups_.rebase(run);
  if (algorithm_ == LloydAlgorithm::elkan && calm_ && !grouped_) {
    groups_ = GroupBounds(n_, by_grid_ ? fast_together(way_) : neighbours_together(centers, way_, run),
                          ruler_for(x, centers), run);
    grouped_ = true;
  }
  const bool by_groups = grouped_ || by_grid_;
  std::vector<PackedCenters> packed;
  std::vector<std::vector<float>> center_rows;
  for (const Frame& place : frames_.places) {
    packed.emplace_back(place, centers, by_groups ? kGroup : kCenterBlock, grouped_ ? groups_.slot.data() : nullptr);
    center_rows.push_back(by_groups ? center_rows_of(packed.back()) : std::vector<float>());
  }
  const ShortCenters short_centers = by_grid_ ? ShortCenters(packed[0], center_rows[0], shorts_) : ShortCenters();
  const Shorts shorts = by_grid_ ? Shorts{&shorts_, &short_centers} : Shorts{};
  Slots<Worker<T>> slots([&] {
    auto worker = std::make_unique<Worker<T>>(ClusterDelta(exponents_, largest_weight_, *totals_));
    for (size_t p = 0; p < packed.size(); ++p)
      if (by_groups)
        worker->by_groups.emplace_back(x, frames_.places[p], packed[p], center_rows[p], grouped_ ? groups_ : plain_,
                                       shorts);
      else
        worker->deciders.emplace_back(x, frames_.places[p], packed[p]);
    return worker;
  });
  for_chunks(n_, fair_grain(n_, k_ * d_, kSweep), run, [&](int64_t, int64_t from, int64_t to) {
    typename Slots<Worker<T>>::Loan loan(slots);
    Worker<T>& worker = *loan;
    int64_t count = to - from;
    if (first || !bounded) {
      worker.rows.resize(static_cast<size_t>(count));
      std::iota(worker.rows.begin(), worker.rows.end(), from);
    } else {
      count = kernels().kmeans.survivors(&key_[static_cast<size_t>(from)], &labels_[static_cast<size_t>(from)], count,
                                         limit_.data(), worker.alive.data());
      if (count == 0) return;
      worker.rows.resize(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i)
        worker.rows[static_cast<size_t>(i)] = from + worker.alive[static_cast<size_t>(i)];
    }
    worker.label.resize(static_cast<size_t>(count));
    worker.gap.resize(static_cast<size_t>(count));
    part_by_place(frames_, worker.rows, worker.from, worker.scratch);
    if (by_groups)
      for (size_t r = 0; r < worker.rows.size(); ++r) worker.label[r] = labels_[static_cast<size_t>(worker.rows[r])];
    for (size_t p = 0; p < packed.size(); ++p) {
      const int64_t begin = worker.from[p], here = worker.from[p + 1] - begin;
      const int64_t* const rows = worker.rows.data() + begin;
      if (by_groups)
        worker.by_groups[p].decide(rows, here, worker.label.data() + begin, worker.gap.data() + begin, run);
      else
        worker.deciders[p].decide(rows, here, worker.label.data() + begin, worker.gap.data() + begin, run);
    }
    for (int64_t r = 0; r < count; ++r) {
      const int64_t i = worker.rows[static_cast<size_t>(r)];
      const int32_t now = worker.label[static_cast<size_t>(r)];
      if (bounded)
        key_[static_cast<size_t>(i)] =
            below(static_cast<double>(worker.gap[static_cast<size_t>(r)]) + travel_[static_cast<size_t>(now)]);
      int32_t& label = labels_[static_cast<size_t>(i)];
      if (label == now) continue;
      ++worker.changed;
      const double w = weights.empty() ? 1.0 : weights(i);
      if (label >= 0) worker.delta.add(&x(i, 0), x.stride[1], -w, label);
      worker.delta.add(&x(i, 0), x.stride[1], w, now);
      label = now;
    }
  });

  StepCounts counts;
  int64_t confirmed = 0;
  slots.for_each([&](Worker<T>& worker) {
    worker.delta.flush();
    counts.changed += worker.changed;
    for (const GroupDecider<T>& decider : worker.by_groups) {
      confirmed += decider.confirmed;
      counts.assign += decider.counts;
    }
    for (const Decider<T>& decider : worker.deciders) counts.assign += decider.counts;
  });
  centers_ = std::move(packed[0].exact);
  calm_ = counts.changed <= n_ / kCalm;
  bool vague = by_grid_ && confirmed > counts.assign.evaluations / kVague;
  if (counts.assign.rechecks > n_ / kMany && tries_++ < kTries && spread_out(frames_, x, centers, run)) vague = true;
  if (vague) {
    by_grid_ = false;
    shorts_ = ShortRows();
  }
  whole_ = true;
  return counts;
}

template StepCounts LloydMemory::step(View<const float, 2>, View<const double, 1>, View<const double, 2>, Run);
template StepCounts LloydMemory::step(View<const double, 2>, View<const double, 1>, View<const double, 2>, Run);

template void LloydMemory::round_moved(View<const float, 2>, View<const double, 1>, View<const int64_t, 1>,
                                       View<const int32_t, 1>, View<double, 1>, Run, View<double, 1>);
template void LloydMemory::round_moved(View<const double, 2>, View<const double, 1>, View<const int64_t, 1>,
                                       View<const int32_t, 1>, View<double, 1>, Run, View<double, 1>);

// Measured for 3 to 128 columns and 64 to 1000 centres (docs/decisions/0008).
LloydAlgorithm best_lloyd(int64_t, int64_t d, int64_t k) {
  const auto centers = static_cast<double>(k), columns = static_cast<double>(d);
  return centers * centers * columns < 3.5e6 ? LloydAlgorithm::hamerly : LloydAlgorithm::elkan;
}

}  // namespace knoll
