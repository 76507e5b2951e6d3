#include <exception>

#include "check.hpp"

// core_tests [part of a name]: runs the cases whose name has it, prints a line each, exits 1 if any check failed.
int main(int argc, char** argv) {
  int run = 0, failed = 0;
  for (const auto& test : knoll_test::cases()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    const int before = knoll_test::failures();
    try {
      test.body();
    } catch (const std::exception& error) {
      knoll_test::fail(test.name, 0, std::string("threw: ") + error.what());
    }
    ++run;
    const bool ok = knoll_test::failures() == before;
    failed += ok ? 0 : 1;
    std::printf("%-4s %s\n", ok ? "ok" : "FAIL", test.name);
  }
  std::printf("%d passed, %d failed\n", run - failed, failed);
  return failed == 0 && run > 0 ? 0 : 1;
}
