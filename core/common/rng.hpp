// Random numbers without a state: each is a pure function of (seed, purpose, index).
//
// Who needs the i-th number of a purpose computes it, on any thread, in any order, so a result does not
// depend on threads, on chunking or on how many numbers somebody else has drawn. The function is
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) with the
// seed as its key and (index / 2, purpose, 0) as its counter; even and odd indices take the two halves of
// a block. All values, the normal ones too, have the same bits on every machine and instruction set: integer
// operations, then +, −, ·, /, √ alone, never fused.
#pragma once

#include <array>
#include <cstdint>

#include "common/run.hpp"
#include "common/view.hpp"

namespace knoll::rng {

// What the numbers are for. Two purposes of one seed are independent streams; the numbers are part of the
// meaning of a seed, so an entry is never renumbered.
enum class Purpose : uint32_t {
  sample = 1,       // coordinates of points drawn from a fitted model
  component = 2,    // which component such a point comes from
  start = 3,        // the first centres, labels or responsibilities of a fit
  restart = 4,      // the seed of each of several runs
  shuffle = 5,      // an order of rows
  fingerprint = 6,  // keys that stand for points in sums over sets
  direction = 7,    // vectors that an iterative solver begins with
};

// The bare Philox4x32 with ten rounds.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

uint64_t bits(uint64_t seed, Purpose purpose, uint64_t index);        // 64 uniform bits
double uniform(uint64_t seed, Purpose purpose, uint64_t index);       // a multiple of 2^-53 in [0, 1)
double uniform_open(uint64_t seed, Purpose purpose, uint64_t index);  // an odd multiple of 2^-53 in (0, 1)
double normal(uint64_t seed, Purpose purpose, uint64_t index);        // N(0, 1): normal_quantile(uniform_open(…))

// The z with Φ(z) = p, to about 1e-15: ∓inf at p = 0 and 1, NaN outside [0, 1].
double normal_quantile(double p);

// out(i), i < n, is the number of index first_index + i, with the bits that the functions above give.
void fill_bits(uint64_t seed, Purpose purpose, uint64_t first_index, View<uint64_t, 1> out,  // out (n)
               Run run);
void fill_uniform(uint64_t seed, Purpose purpose, uint64_t first_index, View<double, 1> out,  // out (n)
                  Run run);
void fill_normal(uint64_t seed, Purpose purpose, uint64_t first_index, View<double, 1> out,  // out (n)
                 Run run);

}  // namespace knoll::rng
