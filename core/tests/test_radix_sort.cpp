// The radix sort against std::stable_sort, and order_key against < of doubles.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "common/radix_sort.hpp"

using namespace knoll;

namespace {

// Every input of n keys, by name.
template <class K>
std::vector<std::pair<std::string, std::vector<K>>> inputs(std::mt19937_64& random, int64_t n) {
  const auto filled = [n](auto&& key) {
    std::vector<K> keys(static_cast<size_t>(n));
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<K>(key(i));
    return keys;
  };
  const int top = std::numeric_limits<K>::digits - 3;
  return {
      {"random", filled([&](size_t) { return random(); })},
      {"few different", filled([&](size_t) { return (random() % 5) * 0x01010101; })},
      {"all equal", filled([](size_t) { return 77; })},
      {"sorted", filled([](size_t i) { return i * 3; })},
      {"reverse", filled([n](size_t i) { return static_cast<size_t>(n) - i; })},
      {"the last one falls", filled([n](size_t i) { return i + 1 < static_cast<size_t>(n) ? i + 5 : 0; })},
      {"falls only where a chunk begins", filled([](size_t i) { return i < 16'384 ? i + 10 : i; })},
      {"only the highest bits vary", filled([&](size_t) { return (random() % 8) << top | 9; })},
      {"two far digits vary", filled([&](size_t) { return (random() % 3) << top | (random() % 4) << 5; })},
      {"extremes", filled([&](size_t) { return random() % 2 == 0 ? 0 : ~uint64_t{0}; })},
  };
}

template <class K, class V>
void against_stable_sort(int64_t n, std::initializer_list<int> thread_counts, size_t n_inputs = 99) {
  std::mt19937_64 random(static_cast<uint64_t>(n) + 1);
  auto all = inputs<K>(random, n);
  all.resize(std::min(n_inputs, all.size()));
  for (const auto& [name, keys] : all) {
    std::vector<V> order(keys.size());
    std::iota(order.begin(), order.end(), V{0});
    std::vector<V> expected = order;
    const K* key = keys.data();
    std::stable_sort(expected.begin(), expected.end(), [key](V a, V b) { return key[a] < key[b]; });
    for (int threads : thread_counts) {
      std::vector<K> sorted = keys;
      std::vector<V> moved = order;
      radix_sort(sorted.data(), moved.data(), n, Run{threads});
      CHECK_MSG(moved == expected, name << ", n = " << n << ", threads = " << threads);
      bool along = true;
      for (size_t i = 0; i < moved.size(); ++i) along &= sorted[i] == keys[static_cast<size_t>(moved[i])];
      CHECK_MSG(along, name << ", n = " << n);
    }
  }
}

}  // namespace

TEST("radix: sorts stably as std::stable_sort does, for any number of threads") {
  for (int64_t n : {0, 1, 2, 3, 100, 40'001}) {
    against_stable_sort<uint64_t, int64_t>(n, {1, 2, 3, 8});
    against_stable_sort<uint32_t, int32_t>(n, {1, 3});
  }
  against_stable_sort<uint64_t, int32_t>(20'000, {2});
  against_stable_sort<uint32_t, int64_t>(20'000, {2});
}

TEST("radix: so many keys that the chunks grow") {  // more than 64 of 16384
  against_stable_sort<uint64_t, int64_t>(1'060'000, {2}, 2);
}

TEST("radix: cancellation throws") {
  std::vector<uint64_t> keys{3, 1, 2};
  std::vector<int64_t> values{0, 1, 2};
  const std::atomic<bool> cancel{true};
  CHECK_THROWS(Cancelled, radix_sort(keys.data(), values.data(), 3, Run{2, &cancel}));
}

template <class T>
static void key_orders_like_numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x{T{0}, Limits::denorm_min(), Limits::min(),     std::nextafter(T{1}, T{0}),
                   T{1}, Limits::max(),        Limits::infinity()};
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i)
    x.push_back(std::ldexp(static_cast<T>(random() % 1000), static_cast<int>(random() % 200) - 100));
  for (size_t i = x.size(); i-- > 0;) x.push_back(-x[i]);
  for (T a : x) {
    for (T b : x) {
      CHECK((a < b) == (order_key(a) < order_key(b)));
      CHECK((a == b) == (order_key(a) == order_key(b)));
    }
    CHECK(order_key(a) < order_key(Limits::quiet_NaN()));
  }
  CHECK(order_key(-T{0}) == order_key(T{0}));
  CHECK(order_key(-Limits::quiet_NaN()) == order_key(Limits::quiet_NaN()));
}

TEST("radix: order_key orders like the numbers, zeros alike, NaN last") {
  key_orders_like_numbers<double>();
  key_orders_like_numbers<float>();
}
