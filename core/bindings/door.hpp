// Between Python and the core: arrays become views, the GIL is let go, signals are looked for while a kernel works.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "knoll/run.hpp"
#include "knoll/view.hpp"

namespace knoll::python {

namespace nb = nanobind;

template <class T, int R>
using In = nb::ndarray<const T, nb::ndim<R>, nb::device::cpu>;
template <class T, int R>
using Out = nb::ndarray<T, nb::ndim<R>, nb::device::cpu>;

template <int R, class T, class... Args>
View<T, R> view(const nb::ndarray<T, Args...>& array) {
  View<T, R> v;
  v.data = array.data();
  for (int r = 0; r < R; ++r) {
    v.shape[r] = static_cast<int64_t>(array.shape(static_cast<size_t>(r)));
    v.stride[r] = array.stride(static_cast<size_t>(r));
  }
  return v;
}

// Runs kernel(run) without the GIL. Work that may take long goes to a thread of its own, while this one wakes up every
// 50 ms to look for signals: Ctrl-C cancels the run, and the exception of the signal's handler is raised once the
// kernel has stopped. `work` is a rough number of arithmetic operations; below kShort a thread would cost more than it
// saves.
constexpr double kShort = 5e6;

template <class Kernel>
void call(int threads, double work, Kernel&& kernel) {
  std::atomic<bool> cancel{false};
  const Run run{threads, &cancel};
  if (work < kShort) {
    nb::gil_scoped_release free;
    kernel(run);
    return;
  }
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr failure;
  std::thread driver([&] {
    try {
      kernel(run);
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard lock(mutex);
    done = true;
    ended.notify_one();
  });
  bool interrupted = false;
  for (bool waiting = true; waiting;) {
    {
      nb::gil_scoped_release free;
      std::unique_lock lock(mutex);
      waiting = !ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; });
    }
    if (waiting && !interrupted && PyErr_CheckSignals() != 0) {
      interrupted = true;
      cancel = true;
    }
  }
  driver.join();
  if (interrupted) throw nb::python_error();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace knoll::python
