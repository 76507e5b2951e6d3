// Between Python and the core: arrays become views, the GIL is released, signals are polled while a kernel runs.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "checks.hpp"
#include "common/run.hpp"

namespace knoll::python {

// Arrays of any strides on the CPU. `const` makes nanobind accept read-only arrays.
template <class T, int R>
using In = nb::ndarray<const T, nb::ndim<R>, nb::device::cpu>;
template <class T, int R>
using Out = nb::ndarray<T, nb::ndim<R>, nb::device::cpu>;

// Each family of functions has a file of its own; core.cpp calls them.
void bind_kmeans(nb::module_& m);
void bind_prototypes(nb::module_& m);
void bind_mixture(nb::module_& m);
void bind_mixed(nb::module_& m);
void bind_index(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_tree_partitions(nb::module_& m);
void bind_comparison(nb::module_& m);
void bind_metrics(nb::module_& m);
void bind_hierarchy(nb::module_& m);
void bind_ascent(nb::module_& m);
void bind_seeding(nb::module_& m);
void bind_kernels(nb::module_& m);

// Releases the GIL, and acquires it again at the end. A thread that asks for the GIL while the interpreter is shutting
// down is ended by CPython (before 3.14) with pthread_exit, which unwinds the stack: through functions that must not
// throw, so the whole process would be aborted. Such a thread is blocked here instead, as 3.14 does; it dies with the
// process.
class FreeGil {
 public:
  FreeGil() : state_(PyEval_SaveThread()) {}
  ~FreeGil() { take_back(); }
  FreeGil(const FreeGil&) = delete;
  FreeGil& operator=(const FreeGil&) = delete;

 private:
  void take_back() noexcept {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {  // nothing but that unwinding comes from there
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }
  PyThreadState* state_;
};

// The tokens that this thread has entered.
inline std::vector<std::shared_ptr<const CancelToken>>& entered_tokens() {
  thread_local std::vector<std::shared_ptr<const CancelToken>> tokens;
  return tokens;
}

inline bool any_cancelled() {
  for (const auto& token : entered_tokens())
    if (token->cancelled()) return true;
  return false;
}

// Runs kernel(run) without the GIL. Work that may take long goes to a thread of its own, while this one wakes up every
// 50 ms to check for signals: Ctrl-C cancels the run, and the exception of the signal's handler is raised once the
// kernel has stopped. So does a token that this thread has entered, with Cancelled. `work` is a rough number of
// arithmetic operations; below kShort a thread would cost more than it saves.
constexpr double kShort = 5e6;

template <class Kernel>
void call(int threads, double work, Kernel&& kernel) {
  need(threads >= 1, "threads must be >= 1");
  if (any_cancelled()) throw Cancelled();
  std::atomic<bool> cancel{false};
  const Run run{threads, &cancel};
  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by the mutex; `failure` is read after join, which orders it.
  bool done = false;
  std::exception_ptr failure;
  std::thread driver;
  if (work >= kShort) {
    try {
      driver = std::thread([&] {
        try {
          kernel(run);
        } catch (...) {
          failure = std::current_exception();
        }
        std::lock_guard lock(mutex);
        done = true;
        ended.notify_one();
      });
    } catch (const std::system_error&) {  // no more threads are to be had: then without one
    }
  }
  if (!driver.joinable()) {
    FreeGil free;
    kernel(run);
    return;
  }
  bool interrupted = false;
  for (bool waiting = true; waiting;) {
    {
      FreeGil free;
      std::unique_lock lock(mutex);
      waiting = !ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; });
    }
    // Only the main thread runs handlers; in others the call returns 0. Once it has failed, the exception is pending
    // and must not be replaced while the kernel comes to its end.
    if (waiting && !interrupted && PyErr_CheckSignals() != 0) {
      interrupted = true;
      cancel = true;
    }
    if (waiting && any_cancelled()) cancel = true;
  }
  // The kernel refers to this frame, so it must have ended before the frame does, interrupted or not.
  driver.join();
  if (interrupted) throw nb::python_error();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace knoll::python
