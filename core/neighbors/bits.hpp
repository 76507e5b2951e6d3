// Sets of up to 32 lanes as the bits of a number, the lowest for lane 0.
#pragma once

#include <bit>
#include <cstdint>

namespace knoll {

// body(lane) for each bit that is set, upward: v & (v − 1) clears the lowest one.
template <class F>
void for_bits(uint32_t bits, F&& body) {
  for (; bits != 0; bits &= bits - 1) body(std::countr_zero(bits));
}

// The number of bits set. std::popcount calls a function where the baseline instruction set has no such instruction;
// this adds pairs, nibbles and bytes side by side.
inline int count_bits(uint32_t v) {
  v -= v >> 1 & 0x55555555;
  v = (v & 0x33333333) + (v >> 2 & 0x33333333);
  return static_cast<int>(((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24);
}

}  // namespace knoll
