#include <chrono>
#include <cstdlib>
#include <exception>

#include "check.hpp"

// core_tests [part of a name]: runs the cases whose name has it, prints a line each, exits 1 if any check failed.
// With KNOLL_TEST_QUICK in the environment, as on an emulated processor, those marked TEST_LONG are left out. With
// KNOLL_TEST_SHARD=i/n every n-th case from the i-th on (0 ≤ i < n) is run, for n processes side by side.
int main(int argc, char** argv) {
  int shard = 0, shards = 1;
  if (const char* share = std::getenv("KNOLL_TEST_SHARD")) {
    if (std::sscanf(share, "%d/%d", &shard, &shards) != 2 || shard < 0 || shard >= shards) {
      std::printf("KNOLL_TEST_SHARD must be i/n with 0 <= i < n, got %s\n", share);
      return 1;
    }
  }
  int run = 0, failed = 0, index = 0;
  for (const auto& test : knoll_test::cases()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    if (index++ % shards != shard) continue;
    if (test.is_long && knoll_test::quick()) {
      std::printf("skip %s\n", test.name);
      continue;
    }
    const int before = knoll_test::failures();
    const auto begun = std::chrono::steady_clock::now();
    try {
      test.body();
    } catch (const std::exception& error) {
      knoll_test::fail(test.name, 0, std::string("threw: ") + error.what());
    }
    ++run;
    const bool ok = knoll_test::failures() == before;
    failed += ok ? 0 : 1;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::printf("%-4s %s (%.2f s)\n", ok ? "ok" : "FAIL", test.name, took.count());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", run - failed, failed);
  return failed == 0 && run > 0 ? 0 : 1;
}
