// The ascent with the Gaussian kernel: y ← Σ κ w x / Σ κ w over all points with κ = exp(−‖x − y‖²/2h²) ≥ 1e-16.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "common/parallel.hpp"
#include "neighbors/ascent.hpp"
#include "simd/kernels.hpp"

namespace knoll {
namespace {

constexpr double kLeast = -36.841361487904734;  // log 1e-16: smaller terms do not change a double sum of size 1
// The kernel reaches 8.6 h (κ = 1e-16), and every point within is summed one by one: long ranges rather than few
// points.
constexpr int64_t kLeaf = 64;
// A mass Σκw below kFaint = 2^−300: κ·w·x may be subnormal and lose bits. Every w near y is then below 2^−300/κ <
// 2^−246, since κ > 2^−54; times kLift = 2^700 it is at most 2^454, and products are normal again. The quotient does
// not change.
constexpr double kFaint = 0x1p-300, kLift = 0x1p700, kHeaviest = 0x1p500;

}  // namespace

GaussianAscent::GaussianAscent(const double* x, const double* weights, int64_t n, int64_t d, double h, Run run)
    : tree_(x, n, d, kLeaf, run), scale_(0.5 / h / h), bound_(-kLeast / scale_) {
  if (weights == nullptr) return;
  for (const int64_t i : tree_.blocks().row) weights_.push_back(i < 0 ? 0.0 : weights[i]);
  if (*std::min_element(weights, weights + n) < kFaint)
    // Capped at 2^500: a heavy row near y makes the mass large, and then these weights are not used.
    for (const double w : weights_) lifted_.push_back(std::min(w * kLift, kHeaviest));
}

// Four chains of sums by lanes, over blocks in the order of the tree, added as (0 + 1) + (2 + 3): one order for all
// threads.
bool GaussianAscent::step(const double* y, Scratch& scratch, double* mass) const {
  const Blocks& blocks = tree_.blocks();
  const int64_t d = blocks.d;
  std::vector<double>& lanes = scratch.lanes;
  const auto total = [&](int64_t k) {
    const double* const lane = lanes.data() + k * kBlock;
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
  };
  const auto summed = [&](const std::vector<double>& weights) {
    lanes.assign(static_cast<size_t>((1 + d) * kBlock), 0.0);
    const auto add = [&](int64_t begin, int64_t end) {
      scratch.distances += (end - begin) * kBlock;
      kernels().ascent.add_gauss(blocks.coords.data() + begin * d * kBlock,
                                 weights.empty() ? nullptr : weights.data() + begin * kBlock, end - begin, d, y, scale_,
                                 kLeast, lanes.data());
    };
    // Ranges inside the ball and ranges that its sphere cuts are summed alike: the kernel tests every lane.
    tree_.visit(y, y, bound_, scratch.stack, add, add);
    return total(0);
  };
  double sum = summed(weights_);
  *mass = sum;
  // docs/numerics/balls.md, B7.
  if (!lifted_.empty() && sum < kFaint) {
    sum = summed(lifted_);
    *mass = sum / kLift;
  }
  if (!(sum > 0)) return false;
  scratch.next.resize(static_cast<size_t>(d));
  for (int64_t j = 0; j < d; ++j) scratch.next[static_cast<size_t>(j)] = total(1 + j) / sum;
  return true;
}

template <class Visit>
End GaussianAscent::climb(double* y, const AscentRules& rules, Scratch& scratch, int64_t* steps, double* mass, Run run,
                          Visit&& visit) const {
  const auto d = static_cast<size_t>(tree_.blocks().d);
  for (*steps = 0; *steps < rules.max_steps;) {
    run.poll();
    if (!step(y, scratch, mass)) return End::empty;
    const std::vector<double>& next = scratch.next;
    // Differences of coordinates of one size; a step whose square underflows is no longer than any tol > 0.
    double moved = 0;
    for (size_t j = 0; j < d; ++j) moved += (next[j] - y[j]) * (next[j] - y[j]);
    std::copy(next.begin(), next.end(), y);
    ++*steps;
    visit();
    if (std::sqrt(moved) <= rules.tol) return End::small;
  }
  return End::unfinished;
}

int64_t GaussianAscent::ascend(View<const double, 2> starts, const AscentRules& rules, const AscentEnds& ends,
                               Run run) const {
  const int64_t d = tree_.blocks().d;
  std::atomic<int64_t> distances = 0;
  for_chunks(starts.shape[0], 16, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> y(static_cast<size_t>(d));
    Scratch scratch;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < d; ++j) y[static_cast<size_t>(j)] = starts(i, j);
      double mass = 0;
      ends.end(i) = static_cast<uint8_t>(climb(y.data(), rules, scratch, &ends.steps(i), &mass, run, [] {}));
      ends.weight(i) = mass;
      for (int64_t j = 0; j < d; ++j) ends.point(i, j) = y[static_cast<size_t>(j)];
    }
    distances.fetch_add(scratch.distances, std::memory_order_relaxed);
  });
  return distances;
}

void GaussianAscent::ascent_path(const double* start, const AscentRules& rules, std::vector<double>& path,
                                 Run run) const {
  std::vector<double> y(start, start + tree_.blocks().d);
  path.insert(path.end(), y.begin(), y.end());
  int64_t steps = 0;
  double mass = 0;
  Scratch scratch;
  climb(y.data(), rules, scratch, &steps, &mass, run, [&] { path.insert(path.end(), y.begin(), y.end()); });
}

}  // namespace knoll
