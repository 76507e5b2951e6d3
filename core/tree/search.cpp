#include "tree/search.hpp"

#include <limits>
#include <stdexcept>

#include "tree/backends.hpp"

namespace knoll {

LeastEdges::LeastEdges(int64_t components)
    : keys_(std::make_unique<std::atomic<double>[]>(static_cast<size_t>(components))),
      locks_(std::make_unique<std::atomic_flag[]>(static_cast<size_t>(components))),
      ends_(static_cast<size_t>(components), Ends{-1, -1}) {
  for (int64_t c = 0; c < components; ++c) keys_[static_cast<size_t>(c)] = std::numeric_limits<double>::infinity();
}

// A lock for a few instructions: it is taken only by an edge that is smaller than all before it.
void LeastEdges::offer(int32_t component, double key, int32_t a, int32_t b) {
  const auto c = static_cast<size_t>(component);
  if (key >= keys_[c].load(std::memory_order_relaxed)) return;
  while (locks_[c].test_and_set(std::memory_order_acquire)) {
  }
  if (key < keys_[c].load(std::memory_order_relaxed)) {
    ends_[c] = {a, b};
    keys_[c].store(key, std::memory_order_relaxed);
  }
  locks_[c].clear(std::memory_order_release);
}

LeastEdges::Edge LeastEdges::edge(int32_t component) const {
  const auto c = static_cast<size_t>(component);
  return {keys_[c].load(std::memory_order_relaxed), ends_[c].a, ends_[c].b};
}

template <class T>
std::unique_ptr<ReachabilitySearch> ReachabilitySearch::make(View<const T, 2> x, const Metric& metric,
                                                             const std::string& backend, Run run) {
  if (backend != "auto" && backend != "tree") throw std::invalid_argument("backend must be auto or tree");
  return make_tree_search(x, metric, run);
}
template std::unique_ptr<ReachabilitySearch> ReachabilitySearch::make(View<const double, 2>, const Metric&,
                                                                      const std::string&, Run);
template std::unique_ptr<ReachabilitySearch> ReachabilitySearch::make(View<const float, 2>, const Metric&,
                                                                      const std::string&, Run);

}  // namespace knoll
