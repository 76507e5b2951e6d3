// Memory for many numbers, not initialised, in large pages where the system has them: the first touch of an array costs
// as much as a pass over it, on virtual machines far more. It goes back to the system as soon as it is freed; the C
// library would keep arrays of up to 32 MB, one heap for each thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "common/parallel.hpp"

namespace knoll {

constexpr size_t kLargePage = size_t{1} << 21, kSmallPage = size_t{1} << 12;

struct FreeMemory {
  size_t mapped = 0;  // bytes; 0: from the C library
  void operator()(void* p) const {
#ifdef __linux__
    if (mapped > 0) {
      (void)munmap(p, mapped);
      return;
    }
#endif
    std::free(p);
  }
};

#ifdef __linux__
// So many bytes from the system, aligned to large pages; null where there are none.
inline void* map_memory(size_t bytes) {
  void* const found = mmap(nullptr, bytes + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(found), begin = (first + kLargePage - 1) / kLargePage * kLargePage;
  if (begin > first) (void)munmap(found, begin - first);
  const uintptr_t end = begin + bytes;  // a multiple of small pages
  if (first + bytes + kLargePage > end) (void)munmap(reinterpret_cast<void*>(end), first + kLargePage - begin);
  return reinterpret_cast<void*>(begin);
}
#endif

template <class T>
using LargeArray = std::unique_ptr<T[], FreeMemory>;

template <class T>
LargeArray<T> make_large_array(size_t n) {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>);
  if (n > static_cast<size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
  const size_t bytes = n * sizeof(T), large = bytes / kLargePage * kLargePage;
#ifdef __linux__
  if (large > 0) {  // the tail is in small pages: what is not used is not touched
    const size_t mapped = (bytes + kSmallPage - 1) / kSmallPage * kSmallPage;
    void* const p = map_memory(mapped);
    if (p == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    (void)madvise(p, large, MADV_HUGEPAGE);  // advice only
#endif
    return LargeArray<T>(static_cast<T*>(p), FreeMemory{mapped});
  }
#endif
  void* const p = std::malloc(bytes + 1);  // malloc(0) may return null, which is no failure
  if (p == nullptr) throw std::bad_alloc();
  return LargeArray<T>(static_cast<T*>(p));
}

// Touches all pages of an array that holds nothing yet, each by one thread. Threads that write all over an array come
// to its pages at the same time, and the system may make a large page ready once for each, to throw all but one away.
// A chunk is one large page of the address space, so no page is begun by two threads; within it one byte of every small
// page is written, which is enough where the system has small pages only.
inline void touch_pages(void* array, size_t bytes, Run run) {
  const auto first = reinterpret_cast<uintptr_t>(array), end = first + bytes, base = first / kLargePage * kLargePage;
  for_chunks(static_cast<int64_t>(end - base), static_cast<int64_t>(kLargePage), run,
             [&](int64_t, int64_t from, int64_t to) {
               uintptr_t at = std::max(first, base + static_cast<uintptr_t>(from));
               for (; at < base + static_cast<uintptr_t>(to); at = (at / kSmallPage + 1) * kSmallPage)
                 *reinterpret_cast<volatile char*>(at) = 0;
             });
}

}  // namespace knoll
