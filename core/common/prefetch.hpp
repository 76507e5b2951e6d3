// Prefetching, where the hardware cannot predict the next address.
#pragma once

#include <algorithm>
#include <cstdint>

namespace knoll {

// The first lines of an array. The empty assembly is an effect that compilers respect: they consider a function that
// only prefetches to have none, and drop its calls.
[[gnu::always_inline]] inline void prefetch(const void* array, int64_t bytes) {
  constexpr int64_t kLine = 64, kMost = 512;  // the hardware prefetches what follows
  for (int64_t at = 0; at < std::min(bytes, kMost); at += kLine)
    __builtin_prefetch(static_cast<const char*>(array) + at);
  asm volatile("" : :);
}

template <class T>
[[gnu::always_inline]] inline void prefetch(const T* array, int64_t count) {
  prefetch(static_cast<const void*>(array), count * static_cast<int64_t>(sizeof(T)));
}

}  // namespace knoll
