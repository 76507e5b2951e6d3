// Asking for memory before it is needed, where no processor foresees what comes next.
#pragma once

#include <algorithm>
#include <cstdint>

namespace knoll {

// The first lines of an array. Inlined always: a function that does nothing but this has no effect as compilers see it,
// and they leave out its calls.
[[gnu::always_inline]] inline void ask_for(const void* array, int64_t bytes) {
  constexpr int64_t kLine = 64, kMost = 512;  // what lies beyond follows by itself
  for (int64_t at = 0; at < std::min(bytes, kMost); at += kLine)
    __builtin_prefetch(static_cast<const char*>(array) + at);
}

template <class T>
[[gnu::always_inline]] inline void ask_for(const T* array, int64_t count) {
  ask_for(static_cast<const void*>(array), count * static_cast<int64_t>(sizeof(T)));
}

}  // namespace knoll
