// How a kernel is run: on how many threads, and how it is cancelled.
// Every kernel takes a Run as its last argument; cancellation is polled once per chunk, and
// within a chunk where it may be long.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>

namespace knoll {

// Thrown out of a kernel whose Run was cancelled. What it had begun to write is unspecified.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "the computation was cancelled"; }
};

// A request to stop: made by any thread, or by the clock once the deadline has passed. Never withdrawn.
class CancelToken {
 public:
  void cancel() { requested_.store(true, std::memory_order_relaxed); }
  void stop_after(double seconds) {
    const double at = static_cast<double>(now()) + 1e9 * seconds;
    deadline_ = at < 9e18 ? static_cast<int64_t>(at) : std::numeric_limits<int64_t>::max();
  }
  bool cancelled() const { return requested_.load(std::memory_order_relaxed) || now() >= deadline_; }

 private:
  static int64_t now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  }
  std::atomic<bool> requested_{false};
  std::atomic<int64_t> deadline_{std::numeric_limits<int64_t>::max()};
};

struct Run {
  int threads = 1;
  const std::atomic<bool>* cancel = nullptr;

  bool cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
  void poll() const {  // for chunks that may take long by themselves
    if (cancelled()) throw Cancelled();
  }
};

}  // namespace knoll
