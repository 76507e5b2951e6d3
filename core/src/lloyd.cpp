#include "knoll/lloyd.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>

#include "knoll/cluster_sums.hpp"
#include "knoll/parallel.hpp"
#include "knoll/slots.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

constexpr int64_t kSweep = 8192;  // rows a thread looks at before it decides those that survive
// While more than one row in kCalm changes its label, centres move too far for bounds by groups to be worth writing.
constexpr int64_t kCalm = 8;
// Fewer columns than this are multiplied in float32 as fast as on a grid.
constexpr int64_t kGridColumns = 32;
// The grid is given up once it leaves more than one distance in kVague to float32.
constexpr int64_t kVague = 8;
// A relative error above that of anything computed in float64 here, and above what the one distance may be off by.
constexpr double kInflate = 1 + 0x1p-20;

float above(double v) { return static_cast<float>(v + std::fabs(v) * 0x1p-22); }
float below(double v) { return static_cast<float>(v - std::fabs(v) * 0x1p-22); }

template <class T>
struct Worker {
  Decider<T> decider;
  GroupDecider<T> by_groups;
  ClusterDelta delta;
  std::vector<int32_t> alive, label;
  std::vector<int64_t> rows;
  std::vector<float> gap;
  int64_t changed = 0;
};

}  // namespace

void LloydMemory::Free::operator()(int64_t* p) const { std::free(p); }

LloydMemory::LloydMemory(int64_t n, int64_t d, int64_t k, LloydAlgorithm algorithm)
    : n_(n), d_(d), k_(k), algorithm_(algorithm), labels_(static_cast<size_t>(n), -1) {
  sums_.reset(static_cast<int64_t*>(std::calloc(static_cast<size_t>(kLimbs * k * (d + 1)), sizeof(int64_t))));
  if (sums_ == nullptr) throw std::bad_alloc();
}

View<int64_t, 2> LloydMemory::sums() { return matrix_view(sums_.get(), kLimbs, k_ * (d_ + 1)); }

void LloydMemory::round_sums(View<double, 1> out, Run run, View<double, 1> rest) {
  if (whole_)
    round_totals(*totals_, exponents_, largest_weight_, out, rest, run);
  else
    exact_round_columns(sums(), out, run, rest);
}

template <class T>
void LloydMemory::begin(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers, Run run) {
  std::fill(labels_.begin(), labels_.end(), -1);
  int64_t* const limbs = sums_.get();
  for (int64_t i = 0; i < kLimbs * k_ * (d_ + 1); ++i)
    if (limbs[i] != 0) limbs[i] = 0;  // reading alone leaves untouched pages untouched
  totals_ = std::make_unique<ClusterTotals>(k_, d_, sums());
  totals_->in_units = n_ <= int64_t{1} << 20;  // beyond, the units might overflow
  exponents_ = column_exponents(x, run);
  if (!weights.empty()) {
    largest_weight_ = 0;
    for (int64_t i = 0; i < n_; ++i) largest_weight_ = std::max(largest_weight_, std::fabs(weights(i)));
  }
  frame_ = choose_frame(x, centers);
  centers_.clear();
  if (algorithm_ == LloydAlgorithm::lloyd) return;
  key_.assign(static_cast<size_t>(n_), 0.0f);
  travel_.assign(static_cast<size_t>(k_), 0.0);
  limit_.assign(static_cast<size_t>(k_), 0.0f);
  groups_ = GroupBounds();
  grouped_ = calm_ = by_grid_ = false;
  if (algorithm_ != LloydAlgorithm::elkan || d_ < kGridColumns || !kernels().kmeans.has_fast_shorts) return;
  const ShortGrid grid = choose_grid(x, frame_);
  if (grid.step == 0) return;
  shorts_ = ShortRows(x, frame_, grid, run);
  plain_ = GroupBounds(k_);
  by_grid_ = true;
}

// By the triangle inequality a row's distance to its centre has grown by at most the way of that centre, and that to
// any other has shrunk by at most the way of the fastest other one (docs/decisions/0008, eq. 9).
void LloydMemory::move(View<const double, 2> centers) {
  way_.resize(static_cast<size_t>(k_));
  double first = 0, second = 0;
  int64_t fastest = -1;
  for (int64_t c = 0; c < k_; ++c) {
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference = (centers(c, j) - centers_[static_cast<size_t>(c * d_ + j)]) * frame_.scale;
      sum += difference * difference;
    }
    const double here = std::sqrt(sum) * kInflate;
    way_[static_cast<size_t>(c)] = here;
    if (here > first)
      second = first, first = here, fastest = c;
    else
      second = std::max(second, here);
  }
  for (int64_t c = 0; c < k_; ++c) {
    const auto at = static_cast<size_t>(c);
    travel_[at] = (travel_[at] + way_[at] + (c == fastest ? second : first)) * (1 + 0x1p-50);
    limit_[at] = above(travel_[at]);
  }
  if (grouped_) groups_.move(way_);
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
          (static_cast<double>(x(i, j)) - centers(labels_[static_cast<size_t>(i)], j)) * frame_.scale;
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
  if (!first && bounded) move(centers);
  whole_ = false;

  if (grouped_) groups_.rebase(run);
  if (algorithm_ == LloydAlgorithm::elkan && calm_ && !grouped_) {
    groups_ = GroupBounds(n_, by_grid_ ? fast_together(way_) : neighbours_together(centers, way_, run),
                          ruler_for(x, centers), run);
    grouped_ = true;
  }
  const bool by_groups = grouped_ || by_grid_;
  const PackedCenters packed(frame_, centers, by_groups ? kGroup : kCenterBlock,
                             grouped_ ? groups_.slot.data() : nullptr);
  const std::vector<float> center_rows = by_groups ? center_rows_of(packed) : std::vector<float>();
  const ShortCenters short_centers = by_grid_ ? ShortCenters(packed, center_rows, shorts_) : ShortCenters();
  const Shorts shorts = by_grid_ ? Shorts{&shorts_, &short_centers} : Shorts{};
  Slots<Worker<T>> slots([&] {
    return std::unique_ptr<Worker<T>>(
        new Worker<T>{Decider<T>(x, frame_, packed),
                      GroupDecider<T>(x, frame_, packed, center_rows, grouped_ ? groups_ : plain_, shorts),
                      ClusterDelta(exponents_, largest_weight_, *totals_),
                      std::vector<int32_t>(kSweep),
                      {},
                      {},
                      {}});
  });
  for_chunks(n_, kSweep, run, [&](int64_t, int64_t from, int64_t to) {
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
    if (by_groups) {
      for (size_t r = 0; r < worker.rows.size(); ++r) worker.label[r] = labels_[static_cast<size_t>(worker.rows[r])];
      worker.by_groups.decide(worker.rows.data(), count, worker.label.data(), worker.gap.data(), run);
    } else {
      worker.decider.decide(worker.rows.data(), count, worker.label.data(), worker.gap.data(), run);
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
    confirmed += worker.by_groups.confirmed;
    for (const AssignCounts& part : {worker.decider.counts, worker.by_groups.counts}) {
      counts.assign.evaluations += part.evaluations;
      counts.assign.rechecks += part.rechecks;
    }
  });
  centers_ = packed.exact;
  calm_ = counts.changed <= n_ / kCalm;
  whole_ = true;
  if (by_grid_ && confirmed > counts.assign.evaluations / kVague) {
    by_grid_ = false;
    shorts_ = ShortRows();
  }
  return counts;
}

template StepCounts LloydMemory::step(View<const float, 2>, View<const double, 1>, View<const double, 2>, Run);
template StepCounts LloydMemory::step(View<const double, 2>, View<const double, 1>, View<const double, 2>, Run);

LloydAlgorithm best_lloyd(int64_t, int64_t d, int64_t k) {
  return d * k <= 4096 ? LloydAlgorithm::hamerly : LloydAlgorithm::elkan;
}

}  // namespace knoll
