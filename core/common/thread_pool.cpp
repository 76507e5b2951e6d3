#include "common/thread_pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include "common/processors.hpp"

namespace knoll {
namespace {

// One call of pool_run. Lives on the caller's stack; `users` shows the caller when the last worker has let go of it.
struct Job {
  Job(int64_t chunks_, Run run_, void (*body_)(void*, int64_t), void* context_, int seats_)
      : chunks(chunks_), run(run_), body(body_), context(context_), seats(seats_) {}

  int64_t chunks;
  Run run;
  void (*body)(void*, int64_t);
  void* context;
  // The number of the next chunk. fetch_add gives each number to one thread, so each chunk runs once; the order may be
  // relaxed because results are published by the pool's mutex (docs/numerics/concurrency.md, T1).
  std::atomic<int64_t> next{0};
  std::atomic<bool> stop{false};

  std::mutex mutex;  // guards what follows
  int64_t failed_chunk = std::numeric_limits<int64_t>::max();
  std::exception_ptr failure;

  // guarded by the pool's mutex
  int seats;      // workers that may still join
  int users = 0;  // workers that have joined and not left
  Processors processors;

  // Takes chunks until there are none, or somebody failed or cancelled. A chunk that was taken is run even if another
  // has failed.
  void work() {
    for (;;) {
      if (stop.load(std::memory_order_relaxed)) return;
      if (run.cancelled()) {
        stop.store(true, std::memory_order_relaxed);
        return;
      }
      const int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunks) return;
      try {
        body(context, chunk);
      } catch (...) {
        std::lock_guard lock(mutex);
        // Of several failures that of the lowest chunk is kept, so that the message does not depend on timing more than
        // it must.
        if (chunk < failed_chunk) failed_chunk = chunk, failure = std::current_exception();
        stop.store(true, std::memory_order_relaxed);
      }
    }
  }
};

// Whether this thread is in the body of a job. Work that such a body starts runs on its own thread: workers that wait
// for workers could all be waiting.
thread_local bool inside_job = false;

struct InsideJob {
  bool before = inside_job;
  InsideJob() { inside_job = true; }
  ~InsideJob() { inside_job = before; }
};

class Pool {
 public:
  // The job lives on the caller's stack, so it may not return while a worker has a pointer to it. Workers join and
  // leave under mutex_; once the job is off the list and users is 0, none has one (docs/numerics/concurrency.md, T2).
  void run(Job& job) {
    const int seats = job.seats;  // the job's own count falls as soon as the lock is let go
    {
      std::lock_guard lock(mutex_);
      try {
        while (static_cast<int>(workers_.size()) < seats) workers_.emplace_back([this] { serve(); });
      } catch (const std::system_error&) {  // no more threads are to be had: go on with those there are
      }
      (void)job.processors.take();
      jobs_.push_back(&job);
    }
    // One notice per seat and not notify_all: workers beyond the seats would wake for nothing.
    for (int i = 0; i < seats; ++i) wake_.notify_one();
    {
      InsideJob mark;
      job.work();
    }
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);  // no worker may join from here on
    left_.wait(lock, [&] { return job.users == 0; });
  }

  int workers() {
    std::lock_guard lock(mutex_);
    return static_cast<int>(workers_.size());
  }

 private:
  void serve() {
    InsideJob mark;
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = nullptr;  // searched once: a moment later its last chunk may be taken
      wake_.wait(lock, [&] { return (job = open_job()) != nullptr; });
      --job->seats;
      ++job->users;
      if (!job->processors.take()) {
        const Processors processors = job->processors;
        lock.unlock();
        processors.step_aside();
        lock.lock();
        (void)job->processors.take();  // where it is now, for those who come after it
      }
      lock.unlock();
      // Without the lock: bodies may be long. `users` keeps the job alive meanwhile.
      job->work();
      lock.lock();
      if (--job->users == 0) left_.notify_all();
    }
  }

  // A job that has a free seat and chunks left; the oldest first.
  Job* open_job() {
    for (Job* job : jobs_)
      if (job->seats > 0 && job->next.load(std::memory_order_relaxed) < job->chunks && !job->stop.load()) return job;
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable wake_, left_;
  std::deque<Job*> jobs_;
  std::vector<std::thread> workers_;
};

// The pool is never destroyed: workers of a process that is ending must not wait for static destructors of others, and
// a child of fork() has none of its parent's threads, so it abandons the copy and makes a new pool at its first call.
std::atomic<Pool*> the_pool{nullptr};
std::mutex making;

void forget_pool_in_child() {
  the_pool.store(nullptr);
  // The lock may have been held by a thread that the child does not have: it is made anew, never unlocked.
  new (&making) std::mutex;
}

Pool& pool() {
  // Acquire pairs with the release below: a thread that sees the pointer sees the pool behind it. Tested again
  // under the lock, since another caller may have made the pool in between.
  if (Pool* p = the_pool.load(std::memory_order_acquire)) return *p;
  std::lock_guard lock(making);
  if (Pool* p = the_pool.load(std::memory_order_acquire)) return *p;
#if defined(__unix__) || defined(__APPLE__)
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
  (void)registered;
#endif
  Pool* p = new Pool;
  the_pool.store(p, std::memory_order_release);
  return *p;
}

}  // namespace

void pool_run(int64_t chunks, Run run, void (*body)(void*, int64_t), void* context) {
  if (run.cancelled()) throw Cancelled();
  if (chunks <= 0) return;
  // No more helpers than chunks: the caller takes one itself.
  const int64_t helpers = inside_job ? 0 : std::min<int64_t>(run.threads - 1, chunks - 1);
  Job job(chunks, run, body, context, static_cast<int>(std::max<int64_t>(helpers, 0)));
  if (job.seats > 0) {
    pool().run(job);
  } else {
    job.work();
  }
  if (job.failure) std::rethrow_exception(job.failure);
  if (job.stop.load()) throw Cancelled();
}

int pool_workers() {
  Pool* p = the_pool.load(std::memory_order_acquire);
  return p == nullptr ? 0 : p->workers();
}

}  // namespace knoll
