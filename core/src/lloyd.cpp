#include "knoll/lloyd.hpp"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "knoll/cluster_sums.hpp"
#include "knoll/parallel.hpp"
#include "knoll/slots.hpp"
#include "knoll/sum.hpp"
#include "knoll/tile.hpp"

namespace knoll {

void LloydMemory::Free::operator()(int64_t* p) const { std::free(p); }

LloydMemory::LloydMemory(int64_t n, int64_t d, int64_t k, LloydAlgorithm algorithm)
    : n_(n), d_(d), k_(k), algorithm_(algorithm), labels_(static_cast<size_t>(n), -1) {
  sums_.reset(static_cast<int64_t*>(std::calloc(static_cast<size_t>(kLimbs * k * (d + 1)), sizeof(int64_t))));
  if (sums_ == nullptr) throw std::bad_alloc();
}

View<int64_t, 2> LloydMemory::sums() { return matrix_view(sums_.get(), kLimbs, k_ * (d_ + 1)); }

template <class T>
StepCounts LloydMemory::step(View<const T, 2> x, View<const double, 1> weights, View<const double, 2> centers,
                             Run run) {
  if (!whole_) {
    std::fill(labels_.begin(), labels_.end(), -1);
    std::fill_n(sums_.get(), kLimbs * k_ * (d_ + 1), 0);
    exponents_ = column_exponents(x, run);
    if (!weights.empty()) {
      largest_weight_ = 0;
      for (int64_t i = 0; i < n_; ++i) largest_weight_ = std::max(largest_weight_, std::fabs(weights(i)));
    }
  }
  whole_ = false;
  std::mutex mutex;
  std::atomic<int64_t> changed{0};
  Slots<ClusterDelta> slots(
      [&] { return std::make_unique<ClusterDelta>(k_, d_, exponents_, largest_weight_, sums(), mutex); });
  StepCounts counts;
  std::vector<int32_t> before = labels_;
  counts.assign = assign(x, centers, labels(), {}, run);
  for_chunks(n_, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    Slots<ClusterDelta>::Loan delta(slots);
    int64_t here = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t old = before[static_cast<size_t>(i)], now = labels_[static_cast<size_t>(i)];
      if (old == now) continue;
      ++here;
      const double w = weights.empty() ? 1.0 : weights(i);
      if (old >= 0) delta->add(&x(i, 0), x.stride[1], -w, old);
      delta->add(&x(i, 0), x.stride[1], w, now);
    }
    changed += here;
  });
  slots.for_each([](ClusterDelta& delta) { delta.flush(); });
  counts.changed = changed;
  whole_ = true;
  return counts;
}

template StepCounts LloydMemory::step(View<const float, 2>, View<const double, 1>, View<const double, 2>, Run);
template StepCounts LloydMemory::step(View<const double, 2>, View<const double, 1>, View<const double, 2>, Run);

LloydAlgorithm best_lloyd(int64_t, int64_t d, int64_t k) {
  return d * k <= 4096 ? LloydAlgorithm::hamerly : LloydAlgorithm::elkan;
}

}  // namespace knoll
