// Vectors whose numbers begin with a cache line, so that no lane of a kernel lies across two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace knoll {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  // A vector of 32 bytes at an address of 16 modulo 32 crosses a line every second time: two loads for one.
  static constexpr std::align_val_t kLine{64};

  AlignedAllocator() = default;
  template <class U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(size_t n) {
    // Half of the address space at most, so that n * sizeof(T) does not wrap around.
    if (n > static_cast<size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(::operator new(n * sizeof(T), kLine));
  }
  void deallocate(T* p, size_t) { ::operator delete(p, kLine); }

  bool operator==(const AlignedAllocator&) const = default;
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace knoll
