// Memory for many numbers, not initialised, in large pages where the system has them: the first touch of an array costs
// as much as a pass over it, and most of that is the number of pages.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace knoll {

struct FreeMemory {
  void operator()(void* p) const { std::free(p); }
};

template <class T>
using LargeArray = std::unique_ptr<T[], FreeMemory>;

template <class T>
LargeArray<T> make_large_array(size_t n) {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>);
  constexpr size_t kPage = size_t{1} << 21, kLeast = kPage / 4;  // below, small pages cost no more than a large one
  if (n > static_cast<size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
  const size_t bytes = n * sizeof(T), rounded = (bytes + kPage - 1) / kPage * kPage;
  void* p = bytes < kLeast ? std::malloc(bytes + 1) : std::aligned_alloc(kPage, rounded);
  if (p == nullptr) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes >= kLeast) (void)madvise(p, rounded, MADV_HUGEPAGE);  // advice: without it all is as before
#endif
  return LargeArray<T>(static_cast<T*>(p));
}

}  // namespace knoll
