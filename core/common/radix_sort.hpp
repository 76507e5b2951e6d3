// A stable radix sort of integer keys that carry a payload: the parallel sort of the core.
//
// Least significant digit first, 8 bits a pass, over the bits in which the keys differ at all. A stable sort
// has one answer, so the number of threads cannot change it.
#pragma once

#include <bit>
#include <cstdint>

#include "common/run.hpp"

namespace knoll {

// Sorts keys upward and moves values along with them; equal keys keep their order. Takes n·(sizeof K + sizeof
// V) bytes of scratch. K: uint32_t or uint64_t; V: int32_t or int64_t.
template <class K, class V>
void radix_sort(K* keys,    // in, out (n)
                V* values,  // in, out (n)
                int64_t n,
                Run run);  // threads, cancellation

// An integer that orders like the number: −inf < … < −0 = +0 < … < +inf < NaN, every NaN alike.
inline uint64_t order_key(double x) {
  if (x != x) return ~uint64_t{0};
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);  // −0 + 0 is +0
  const uint64_t sign = uint64_t{1} << 63;
  return (bits & sign) != 0 ? ~bits : bits | sign;  // larger magnitudes come first below zero, last above
}
inline uint32_t order_key(float x) {
  if (x != x) return ~uint32_t{0};
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
  const uint32_t sign = uint32_t{1} << 31;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

}  // namespace knoll
