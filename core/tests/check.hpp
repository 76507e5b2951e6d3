// A very small test harness: TEST("name") { CHECK(x == y); }. A failing check reports where and goes on.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace knoll_test {

struct Case {
  const char* name;
  void (*body)();
  bool is_long;
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
inline int& failures() {
  static int count = 0;
  return count;
}
struct Register {
  Register(const char* name, void (*body)(), bool is_long) { cases().push_back({name, body, is_long}); }
};
inline void fail(const char* file, int line, const std::string& what) {
  ++failures();
  std::printf("%s:%d: %s\n", file, line, what.c_str());
}

// Where a processor is emulated or watched (KNOLL_TEST_QUICK), a test may take fewer sizes.
inline bool quick() {
  static const bool set = std::getenv("KNOLL_TEST_QUICK") != nullptr;
  return set;
}

}  // namespace knoll_test

#define KNOLL_JOIN2(a, b) a##b
#define KNOLL_JOIN(a, b) KNOLL_JOIN2(a, b)
#define KNOLL_TEST(name, is_long)                                                                                \
  static void KNOLL_JOIN(test_, __LINE__)();                                                                     \
  static const knoll_test::Register KNOLL_JOIN(register_, __LINE__){name, KNOLL_JOIN(test_, __LINE__), is_long}; \
  static void KNOLL_JOIN(test_, __LINE__)()
#define TEST(name) KNOLL_TEST(name, false)
// For what takes more than a second and has a smaller sister: left out where a processor is emulated.
#define TEST_LONG(name) KNOLL_TEST(name, true)
#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) knoll_test::fail(__FILE__, __LINE__, "CHECK failed: " #condition); \
  } while (0)
// As CHECK, with a message: CHECK_MSG(a < b, "i = " << i).
#define CHECK_MSG(condition, message)                         \
  do {                                                        \
    if (!(condition)) {                                       \
      std::ostringstream text;                                \
      text << "CHECK failed: " #condition << "; " << message; \
      knoll_test::fail(__FILE__, __LINE__, text.str());       \
    }                                                         \
  } while (0)
#define CHECK_THROWS(type, expression)                                                      \
  do {                                                                                      \
    bool caught = false;                                                                    \
    try {                                                                                   \
      expression;                                                                           \
    } catch (const type&) {                                                                 \
      caught = true;                                                                        \
    }                                                                                       \
    if (!caught) knoll_test::fail(__FILE__, __LINE__, #expression " did not throw " #type); \
  } while (0)
