// How a kernel is run: on how many threads, and how it is cancelled.
// Every kernel takes a Run as its last argument; cancellation is polled once per chunk, and
// within a chunk where it may be long.
#pragma once

#include <atomic>
#include <exception>

namespace knoll {

// Thrown out of a kernel whose Run was cancelled. What it had begun to write is unspecified.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "knoll: the computation was cancelled"; }
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
