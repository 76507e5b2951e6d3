#include "kmeans/lloyd.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "common/rounding.hpp"
#include "common/scratch_pool.hpp"
#include "common/tile.hpp"
#include "kmeans/cluster_sums.hpp"
#include "kmeans/sparse_centers.hpp"

namespace knoll {
namespace {

constexpr int64_t kSweep = 8192;  // rows, at most, whose bounds a thread tests before it assigns those that fail
// While more than one row in kSettled changes its label, centres move too far for bounds by group to pay.
constexpr int64_t kSettled = 8;
// Below so many columns float32 products are as fast as int8.
constexpr int64_t kInt8Columns = 32;
// int8 is dropped once it leaves more than one distance in kMaxConfirmed to float32.
constexpr int64_t kMaxConfirmed = 8;
// Gaps are rebased once the cumulative shift is so many times as long as the largest shift of a step.
constexpr double kRebaseAfter = 64;
// Several pivots are tried after a step that rechecked more than one row in kMaxRechecks, at most kPivotTries times.
constexpr int64_t kMaxRechecks = 8;
constexpr int kPivotTries = 4;
// Above the relative error of every float64 computation here, and of the one distance.
constexpr double kInflate = 1 + 0x1p-20;

}  // namespace

struct LloydMemory::StepCenters {
  std::vector<PackedCenters> packed;     // one per pivot
  std::vector<std::vector<float>> rows;  // one per pivot: (k′, d) where rows are assigned by groups, else empty
  Int8Centers int8;
};

struct LloydMemory::Chunk {
  explicit Chunk(ClusterDelta sums) : delta(std::move(sums)), failing(kSweep) {}

  ClusterDelta delta;
  std::vector<int32_t> failing, label;
  std::vector<int64_t> rows;  // to assign
  std::vector<float> gap;
  int64_t changed = 0;
};

template <class T>
struct LloydMemory::Worker : Chunk {
  using Chunk::Chunk;

  std::vector<FilteredAssigner<T>> assigners;     // one per pivot, or
  std::vector<GroupAssigner<T>> group_assigners;  // these
  std::vector<int64_t> from, scratch;             // the rows of pivot p begin at from[p]
};

LloydMemory::LloydMemory(int64_t n, int64_t d, int64_t k, LloydAlgorithm algorithm)
    : n_(n),
      d_(d),
      k_(k),
      algorithm_(algorithm),
      labels_(static_cast<size_t>(n), -1),
      totals_(std::make_unique<ClusterTotals>(k, d)),
      exponents_(static_cast<size_t>(d), 0) {}

void LloydMemory::add_sums(View<int64_t, 2> sums) const { add_totals(*totals_, exponents_, largest_weight_, sums); }

void LloydMemory::round_sums(View<double, 1> out, Run run, View<double, 1> low) {
  round_totals(*totals_, exponents_, largest_weight_, out, low, run);
}

template <class Add>
void LloydMemory::round_moved_by(Add&& add, View<const double, 1> weights, View<const int64_t, 1> rows,
                                 View<const int32_t, 1> to, View<double, 1> out, Run run, View<double, 1> low) {
  const auto move = [&](double sign) {  // 1: to the new clusters, −1: back; exact sums return to the same value
    ClusterDelta delta(exponents_, largest_weight_, *totals_);
    for (int64_t r = 0; r < rows.shape[0]; ++r) {
      const int64_t i = rows(r);
      const double w = sign * (weights.empty() ? 1.0 : weights(i));
      add(delta, i, -w, labels_[static_cast<size_t>(i)]);
      add(delta, i, w, to(r));
    }
    delta.flush();
  };
  const Phase phase = std::exchange(phase_, Phase::unstarted);  // in case it is cancelled halfway
  move(1);
  round_totals(*totals_, exponents_, largest_weight_, out, low, run);
  move(-1);
  phase_ = phase;
}

namespace {

template <class T>
auto adder(View<const T, 2> x) {
  return [x](ClusterDelta& delta, int64_t i, double w, int64_t c) { delta.add(&x(i, 0), x.stride[1], w, c); };
}
template <class T, class I>
auto adder(Csr<T, I> x) {
  return [x](ClusterDelta& delta, int64_t i, double w, int64_t c) {
    delta.add(x.data + x.begin(i), x.indices + x.begin(i), x.end(i) - x.begin(i), w, c);
  };
}

}  // namespace

template <class T>
void LloydMemory::round_moved(View<const T, 2> x, View<const double, 1> weights, View<const int64_t, 1> rows,
                              View<const int32_t, 1> to, View<double, 1> out, Run run, View<double, 1> low) {
  round_moved_by(adder(x), weights, rows, to, out, run, low);
}

template <class T, class I>
void LloydMemory::round_moved(Csr<T, I> x, View<const double, 1> weights, View<const int64_t, 1> rows,
                              View<const int32_t, 1> to, View<double, 1> out, Run run, View<double, 1> low) {
  round_moved_by(adder(x), weights, rows, to, out, run, low);
}

// ---- the first step ---------------------------------------------------------------------------------------

template <class T>
void LloydMemory::begin(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers, Run run) {
  begin_sums(column_exponents(x, run), weights);
  pivots_ = choose_pivots(x, centers, run);
  pivot_tries_ = 0;
  groups_ = GroupBounds();
  int8_ = Int8Rows();
  if (algorithm_ == LloydAlgorithm::lloyd) return;
  begin_gaps();
  if (algorithm_ == LloydAlgorithm::group_bounds) choose_int8(x, run);
}

void LloydMemory::begin_sums(std::vector<int> exponents, View<const double, 1> weights) {
  std::fill(labels_.begin(), labels_.end(), -1);
  centers_.clear();
  totals_ = std::make_unique<ClusterTotals>(k_, d_);
  totals_->in_units = n_ <= int64_t{1} << 20;  // beyond, n terms of 40 bits might overflow an int64
  exponents_ = std::move(exponents);
  if (weights.empty()) return;
  largest_weight_ = 0;
  for (int64_t i = 0; i < n_; ++i) largest_weight_ = std::max(largest_weight_, std::fabs(weights(i)));
}

void LloydMemory::begin_gaps() {
  gap_.assign(static_cast<size_t>(n_), 0.0f);
  total_shift_.assign(static_cast<size_t>(k_), 0.0);
  limit_.assign(static_cast<size_t>(k_), 0.0f);
}

// int8 pays for wide data seen from one pivot, where the instruction set has fast products of bytes.
template <class T>
void LloydMemory::choose_int8(View<const T, 2> x, Run run) {
  if (d_ < kInt8Columns || !kernels().kmeans.has_fast_int8 || pivots_.several()) return;
  const Int8Grid grid = choose_grid(x, pivots_.list[0]);
  if (grid.step == 0) return;
  int8_ = Int8Rows(x, pivots_.list[0], grid, run);
  plain_groups_ = GroupBounds(k_);
}

// ---- bounds, after the centres have moved --------------------------------------------------------------------

template <class T>
void LloydMemory::update_bounds(Phase phase, View<const T, 2> x, View<const double, 2> centers, Run run) {
  measure_shifts(centers, pivots_.scale());
  add_shifts(run);
  if (phase == Phase::groups) {
    groups_.move(shift_);
    groups_.rebase(run);
  } else if (phase == Phase::settled) {
    // In wide data all centres are about equally far, so those of like speed share a group; else neighbours do.
    auto order = uses_int8() ? group_by_shift(shift_) : group_neighbours(centers, shift_, run);
    groups_ = GroupBounds(n_, std::move(order), quantizer_for(x, centers), run);
  }
}

void LloydMemory::measure_shifts(View<const double, 2> centers, double scale) {
  shift_.resize(static_cast<size_t>(k_));
  for (int64_t c = 0; c < k_; ++c) {
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference = (centers(c, j) - centers_[static_cast<size_t>(c * d_ + j)]) * scale;
      sum += difference * difference;
    }
    // An upper bound of the true shift: d + 3 roundings of 2⁻⁵³ are below 2⁻²⁰ for every d that the filter accepts.
    shift_[static_cast<size_t>(c)] = std::sqrt(sum) * kInflate;
  }
}

// Eq. 9 of docs/numerics/kmeans.md. By the triangle inequality the distance to the own centre a has grown by at most
// shift_a, and that to any other centre has shrunk by at most the largest other shift. So a gap of g shrinks to no less
// than g − (shift_a + max_{b≠a} shift_b): instead of every gap, total_shift_a is updated.
void LloydMemory::add_shifts(Run run) {
  double first = 0, second = 0;  // the two largest shifts
  int64_t fastest = -1;
  for (int64_t c = 0; c < k_; ++c) {
    const double here = shift_[static_cast<size_t>(c)];
    if (here > first)
      second = first, first = here, fastest = c;
    else
      second = std::max(second, here);
  }
  // A gap in float32 has an error of 2⁻²⁴ of gap + total_shift. Rebasing keeps that below 2⁻¹⁸ of a step's shift.
  if (*std::max_element(total_shift_.begin(), total_shift_.end()) > kRebaseAfter * first) rebase_gaps(run);
  for (int64_t c = 0; c < k_; ++c) {
    const auto at = static_cast<size_t>(c);
    // 2⁻⁵⁰ covers the two additions of this line, so the sum stays an upper bound.
    total_shift_[at] = (total_shift_[at] + shift_[at] + (c == fastest ? second : first)) * (1 + 0x1p-50);
    limit_[at] = above(total_shift_[at]);
  }
}

// gap > total_shift is unchanged when both lose total_shift. It keeps the digits of the gaps, which float32 would round
// off beside a large cumulative shift.
void LloydMemory::rebase_gaps(Run run) {
  for_chunks(n_, kSweep, run, [&](int64_t, int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      gap_[i] = below(static_cast<double>(gap_[i]) - total_shift_[static_cast<size_t>(labels_[i])]);
  });
  std::fill(total_shift_.begin(), total_shift_.end(), 0.0);
}

// Covers the distances of a sample of rows from their centres with a margin, but not those of a few outliers: they
// would make the units too long for the others. Any range is correct, since what lies beyond it is clipped.
template <class T>
BoundQuantizer LloydMemory::quantizer_for(View<const T, 2> x, View<const double, 2> centers) const {
  constexpr int64_t kSample = 65;
  std::vector<double> lengths;
  for (int64_t s = 0, count = std::min(n_, kSample); s < count; ++s) {
    const int64_t i = (2 * s + 1) * n_ / (2 * count);
    double sum = 0;
    for (int64_t j = 0; j < d_; ++j) {
      const double difference =
          (static_cast<double>(x(i, j)) - centers(labels_[static_cast<size_t>(i)], j)) * pivots_.scale();
      sum += difference * difference;
    }
    lengths.push_back(std::sqrt(sum));
  }
  std::sort(lengths.begin(), lengths.end());
  const double nearest = lengths.front(), ninth = lengths[lengths.size() * 9 / 10];
  const double farthest = ninth > 0 ? std::min(lengths.back(), 4 * ninth) : lengths.back();
  // Bounds to the other centres are larger than distances to the own one; how much depends on the data.
  const double margin = farthest - nearest + farthest / 8;
  return quantizer_between(std::max(nearest - margin / 2, 0.0), farthest + margin);
}

// ---- one step -----------------------------------------------------------------------------------------------

template <class T>
StepCounts LloydMemory::step(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers,
                             Run run) {
  const Phase phase = std::exchange(phase_, Phase::unstarted);
  if (phase == Phase::unstarted)
    begin(x, weights, centers, run);
  else if (phase != Phase::exhaustive)
    update_bounds(phase, x, centers, run);

  StepCenters packed = pack_centers(phase, centers);
  ScratchPool<Worker<T>> pool([&] { return make_worker(phase, x, packed); });
  for_chunks(n_, fair_grain(n_, k_ * d_, kSweep), run, [&](int64_t, int64_t from, int64_t to) {
    typename ScratchPool<Worker<T>>::Lease worker(pool);
    select_rows(phase, from, to, *worker);
    if (worker->rows.empty()) return;
    assign_rows(*worker, run);
    record_labels(*worker, weights, adder(x));
  });

  StepCounts counts;
  int64_t confirmed = 0;
  pool.for_each([&](Worker<T>& worker) {
    worker.delta.flush();
    counts.changed += worker.changed;
    for (const GroupAssigner<T>& assigner : worker.group_assigners) {
      confirmed += assigner.confirmed;
      counts.assign += assigner.counts;
    }
    for (const FilteredAssigner<T>& assigner : worker.assigners) counts.assign += assigner.counts;
  });
  // Shifts of the next step are measured from these very centres.
  centers_ = std::move(packed.packed[0].exact);
  adapt_filters(counts, confirmed, x, centers, run);
  phase_ = next_phase(phase, counts.changed);
  return counts;
}

LloydMemory::StepCenters LloydMemory::pack_centers(Phase phase, View<const double, 2> centers) const {
  const bool by_groups = grouped(phase) || uses_int8();
  StepCenters step;
  for (const Pivot& pivot : pivots_.list) {
    step.packed.emplace_back(pivot, centers, by_groups ? kGroup : kCenterBlock,
                             grouped(phase) ? groups_.slot.data() : nullptr);
    step.rows.push_back(by_groups ? center_rows_of(step.packed.back()) : std::vector<float>());
  }
  if (uses_int8()) step.int8 = Int8Centers(step.packed[0], step.rows[0], int8_);
  return step;
}

template <class T>
std::unique_ptr<LloydMemory::Worker<T>> LloydMemory::make_worker(Phase phase, View<const T, 2> x,
                                                                 const StepCenters& centers) {
  auto worker = std::make_unique<Worker<T>>(ClusterDelta(exponents_, largest_weight_, *totals_));
  const Int8Filter int8 = uses_int8() ? Int8Filter{&int8_, &centers.int8} : Int8Filter{};
  for (size_t p = 0; p < pivots_.list.size(); ++p)
    if (grouped(phase) || uses_int8())
      worker->group_assigners.emplace_back(x, pivots_.list[p], centers.packed[p], centers.rows[p],
                                           grouped(phase) ? groups_ : plain_groups_, int8);
    else
      worker->assigners.emplace_back(x, pivots_.list[p], centers.packed[p]);
  return worker;
}

// The rows of [from, to) whose label may change: all without bounds, else those with gap ≤ total_shift[label].
void LloydMemory::select_rows(Phase phase, int64_t from, int64_t to, Chunk& chunk) const {
  if (phase == Phase::unstarted || phase == Phase::exhaustive) {
    chunk.rows.resize(static_cast<size_t>(to - from));
    std::iota(chunk.rows.begin(), chunk.rows.end(), from);
    return;
  }
  const int64_t count =
      kernels().kmeans.survivors(&gap_[static_cast<size_t>(from)], &labels_[static_cast<size_t>(from)], to - from,
                                 limit_.data(), chunk.failing.data());
  chunk.rows.resize(static_cast<size_t>(count));
  for (size_t r = 0; r < chunk.rows.size(); ++r) chunk.rows[r] = from + chunk.failing[r];
}

// label and gap of worker.rows, which are reordered by pivot.
template <class T>
void LloydMemory::assign_rows(Worker<T>& worker, Run run) const {
  worker.label.resize(worker.rows.size());
  worker.gap.resize(worker.rows.size());
  group_by_pivot(pivots_, worker.rows, worker.from, worker.scratch);
  const bool by_groups = !worker.group_assigners.empty();
  if (by_groups)  // they start from the label so far
    for (size_t r = 0; r < worker.rows.size(); ++r) worker.label[r] = labels_[static_cast<size_t>(worker.rows[r])];
  for (size_t p = 0; p < pivots_.list.size(); ++p) {
    const int64_t begin = worker.from[p], count = worker.from[p + 1] - begin;
    const int64_t* const rows = worker.rows.data() + begin;
    if (by_groups)
      worker.group_assigners[p].assign(rows, count, worker.label.data() + begin, worker.gap.data() + begin, run);
    else
      worker.assigners[p].assign(rows, count, worker.label.data() + begin, worker.gap.data() + begin, run);
  }
}

// Stores the labels and bounds of chunk.rows, and moves rows with a new label between the sums.
template <class Add>
void LloydMemory::record_labels(Chunk& chunk, View<const double, 1> weights, Add&& add) {
  for (size_t r = 0; r < chunk.rows.size(); ++r) {
    const int64_t i = chunk.rows[r];
    const int32_t now = chunk.label[r];
    if (algorithm_ != LloydAlgorithm::lloyd)
      // Eq. 9: gap + W(then) is stored, so that later steps only compare it with W(now). Rounded down.
      gap_[static_cast<size_t>(i)] = below(static_cast<double>(chunk.gap[r]) + total_shift_[static_cast<size_t>(now)]);
    int32_t& label = labels_[static_cast<size_t>(i)];
    if (label == now) continue;
    ++chunk.changed;
    const double w = weights.empty() ? 1.0 : weights(i);
    // Sums are exact, so subtracting a row undoes its addition to the bit, whenever and on whichever thread it was
    // added.
    if (label >= 0) add(chunk.delta, i, -w, label);
    add(chunk.delta, i, w, now);
    label = now;
  }
}

// Drops int8 where it filters too little, and tries several pivots where float32 does. Bounds stay valid: all pivots
// have one scale. int8 is relative to a single pivot, so it goes with it.
template <class T>
void LloydMemory::adapt_filters(const StepCounts& counts, int64_t confirmed, View<const T, 2> x,
                                View<const double, 2> centers, Run run) {
  bool drop = uses_int8() && confirmed > counts.assign.evaluations / kMaxConfirmed;
  if (counts.assign.rechecks > n_ / kMaxRechecks && pivot_tries_++ < kPivotTries &&
      add_pivots(pivots_, x, centers, run))
    drop = true;
  if (drop) int8_ = Int8Rows();
}

LloydMemory::Phase LloydMemory::next_phase(Phase phase, int64_t changed) const {
  if (algorithm_ == LloydAlgorithm::lloyd) return Phase::exhaustive;
  if (grouped(phase)) return Phase::groups;
  const bool settled = n_ > 0 && changed <= n_ / kSettled;
  return algorithm_ == LloydAlgorithm::group_bounds && settled ? Phase::settled : Phase::gaps;
}

// ---- sparse rows ------------------------------------------------------------------------------------------

template <class T, class I>
StepCounts LloydMemory::step(Csr<T, I> x, View<const double, 1> weights, View<const double, 2> centers, Run run) {
  const Phase phase = std::exchange(phase_, Phase::unstarted);
  const bool bounded = algorithm_ != LloydAlgorithm::lloyd;
  if (phase == Phase::unstarted) {
    begin_sums(column_exponents(x), weights);
    if (bounded) begin_gaps();
  } else if (bounded) {
    measure_shifts(centers, 1.0);
    add_shifts(run);
  }

  struct SparseWorker : Chunk {
    using Chunk::Chunk;
    std::vector<double> dense, score;
    int64_t assigned = 0, rechecks = 0;
  };
  SparseCenters packed(centers);
  ScratchPool<SparseWorker> pool([&] {
    auto worker = std::make_unique<SparseWorker>(ClusterDelta(exponents_, largest_weight_, *totals_));
    worker->dense.assign(static_cast<size_t>(d_), 0.0);
    worker->score.resize(static_cast<size_t>(k_));
    return worker;
  });
  for_chunks(n_, SparseCenters::kRows, run, [&](int64_t, int64_t from, int64_t to) {
    typename ScratchPool<SparseWorker>::Lease worker(pool);
    select_rows(phase, from, to, *worker);
    worker->label.resize(worker->rows.size());
    worker->gap.resize(worker->rows.size());
    worker->assigned += static_cast<int64_t>(worker->rows.size());
    for (size_t r = 0; r < worker->rows.size(); ++r) {
      run.poll();
      const int64_t i = worker->rows[r];
      auto [label, gap] = packed.nearest(x, i, worker->dense.data(), worker->score.data());
      if (label < 0) {
        x.unpack(i, worker->dense.data(), 1);
        label = packed.nearest_exactly(worker->dense.data());
        std::fill(worker->dense.begin(), worker->dense.end(), 0.0);
        ++worker->rechecks;
      }
      worker->label[r] = static_cast<int32_t>(label);
      worker->gap[r] = below(gap);
    }
    record_labels(*worker, weights, adder(x));
  });

  StepCounts counts;
  pool.for_each([&](SparseWorker& worker) {
    worker.delta.flush();
    counts.changed += worker.changed;
    counts.assign += AssignCounts{(worker.assigned + worker.rechecks) * k_, worker.rechecks};
  });
  centers_ = std::move(packed.rows);  // shifts of the next step are measured from these
  phase_ = bounded ? Phase::gaps : Phase::exhaustive;
  return counts;
}

#define KNOLL_LLOYD(T)                                                                                        \
  template StepCounts LloydMemory::step(View<const T, 2>, View<const double, 1>, View<const double, 2>, Run); \
  template void LloydMemory::round_moved(View<const T, 2>, View<const double, 1>, View<const int64_t, 1>,     \
                                         View<const int32_t, 1>, View<double, 1>, Run, View<double, 1>)
#define KNOLL_LLOYD_CSR(T, I)                                                                          \
  template StepCounts LloydMemory::step(Csr<T, I>, View<const double, 1>, View<const double, 2>, Run); \
  template void LloydMemory::round_moved(Csr<T, I>, View<const double, 1>, View<const int64_t, 1>,     \
                                         View<const int32_t, 1>, View<double, 1>, Run, View<double, 1>)
KNOLL_LLOYD(float);
KNOLL_LLOYD(double);
KNOLL_LLOYD_CSR(float, int32_t);
KNOLL_LLOYD_CSR(float, int64_t);
KNOLL_LLOYD_CSR(double, int32_t);
KNOLL_LLOYD_CSR(double, int64_t);

// Measured for 3 to 128 columns and 64 to 1000 centres (docs/decisions/0008).
LloydAlgorithm best_lloyd(int64_t, int64_t d, int64_t k) {
  const auto centers = static_cast<double>(k), columns = static_cast<double>(d);
  return centers * centers * columns < 3.5e6 ? LloydAlgorithm::hamerly : LloydAlgorithm::group_bounds;
}

}  // namespace knoll
