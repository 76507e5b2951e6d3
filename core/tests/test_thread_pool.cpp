#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"
#include "common/parallel.hpp"
#include "common/processors.hpp"

using namespace knoll;

TEST("pool: every chunk once, for any number of threads and chunks") {
  for (int threads : {1, 2, 3, 8})
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      for_chunks(n, 3, Run{threads}, [&](int64_t chunk, int64_t begin, int64_t end) {
        CHECK(begin == chunk * 3 && end <= n && begin < end);
        for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)]++;
      });
      for (auto& count : seen) CHECK(count == 1);
    }
}

TEST("pool: a reduction has the same bits for any number of threads") {
  std::vector<double> x(100'003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0 / (1.0 + static_cast<double>(i)) - 0.3 * static_cast<double>(i % 7);
  auto sum = [&](int threads) {
    return reduce_chunks<double>(
        static_cast<int64_t>(x.size()), 97,
        [&](int64_t, int64_t b, int64_t e) { return std::accumulate(x.begin() + b, x.begin() + e, 0.0); },
        [](double& total, double partial) { total += partial; }, Run{threads});
  };
  const double one = sum(1);
  for (int threads : {2, 3, 8}) CHECK(sum(threads) == one);
}

TEST("pool: concurrent callers share it") {
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat)
        for_chunks(64, 1, Run{3}, [&](int64_t, int64_t, int64_t) { total++; });
    });
  for (auto& caller : callers) caller.join();
  CHECK(total == 6 * 50 * 64);
}

TEST("pool: a nested call runs in place") {
  std::atomic<int> inner{0};
  for_chunks(8, 1, Run{4}, [&](int64_t, int64_t, int64_t) {
    const auto self = std::this_thread::get_id();
    for_chunks(8, 1, Run{4}, [&](int64_t, int64_t, int64_t) {
      CHECK(std::this_thread::get_id() == self);
      inner++;
    });
  });
  CHECK(inner == 64);
}

TEST("pool: an exception reaches the caller, and the pool lives on") {
  for (int threads : {1, 4}) {
    CHECK_THROWS(std::runtime_error, for_chunks(100, 1, Run{threads}, [](int64_t c, int64_t, int64_t) {
                   if (c == 17) throw std::runtime_error("seventeen");
                 }));
    std::atomic<int> ran{0};
    for_chunks(100, 1, Run{threads}, [&](int64_t, int64_t, int64_t) { ran++; });
    CHECK(ran == 100);
  }
}

TEST("pool: cancellation stops between chunks") {
  std::atomic<bool> cancel{false};
  std::atomic<int> ran{0};
  CHECK_THROWS(Cancelled, for_chunks(1'000'000, 1, Run{3, &cancel}, [&](int64_t, int64_t, int64_t) {
                 if (++ran == 10) cancel = true;
                 std::this_thread::sleep_for(std::chrono::microseconds(50));
               }));
  CHECK_MSG(ran < 20'000, "ran = " << ran.load());  // of a million: what others did while the tenth was on its way
  CHECK_THROWS(Cancelled, for_chunks(1, 1, Run{1, &cancel}, [](int64_t, int64_t, int64_t) {}));
}

TEST("pool: as many threads as requested, also more than there are CPUs") {
  std::atomic<int> inside{0};
  for_chunks(7, 1, Run{7}, [&](int64_t, int64_t, int64_t) {  // each chunk waits until all seven are being worked on
    ++inside;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inside < 7 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK_MSG(inside == 7, "inside = " << inside.load());
  });
}

TEST("pool: no more threads than requested") {
  std::atomic<int> now{0}, most{0};
  for_chunks(64, 1, Run{3}, [&](int64_t, int64_t, int64_t) {
    const int here = ++now;
    int before = most.load();
    while (before < here && !most.compare_exchange_weak(before, here)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --now;
  });
  CHECK_MSG(most <= 3, "most = " << most.load());
}

#ifdef __linux__
TEST("processors: a thread that finds its own taken moves to another, and may go back later") {
  std::thread([] {  // of its own: the moves are no other test's business
    cpu_set_t allowed, after;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;  // more processors than a set holds: none is moved
    int moved = 0;
    for (int tries = 0; tries < 20; ++tries) {
      Processors job;
      CHECK(job.take());
      const int before = sched_getcpu();
      if (job.take()) continue;  // the system moved us between the two
      job.step_aside();
      const int now = sched_getcpu();
      CHECK(CPU_ISSET(now, &allowed));
      moved += now != before ? 1 : 0;
      CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&allowed, &after));
      // With nowhere to go it stays, and nothing else changes.
      cpu_set_t here;
      CPU_ZERO(&here);
      CPU_SET(sched_getcpu(), &here);
      CHECK(sched_setaffinity(0, sizeof here, &here) == 0);
      Processors alone;
      CHECK(alone.take() && !alone.take());
      alone.step_aside();
      CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&here, &after));
      CHECK(sched_setaffinity(0, sizeof allowed, &allowed) == 0);
    }
    CHECK(CPU_COUNT(&allowed) == 1 || moved > 0);  // the system may move us back in between
  })
      .join();
}
#endif
