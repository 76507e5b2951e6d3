// Loops and reductions over a fixed grid of chunks. The grid depends on n and grain alone, never on the number of
// threads, so whatever is computed per chunk and merged in chunk order has the same bits on any machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/thread_pool.hpp"

namespace knoll {

inline int64_t chunk_count(int64_t n, int64_t grain) { return n <= 0 ? 0 : (n - 1) / grain + 1; }

// body(chunk, begin, end) for every chunk of [0, n).
template <class F>
void for_chunks(int64_t n, int64_t grain, Run run, F&& body) {
  // The pool takes a plain function and a pointer, so that it is compiled once and not for every body.
  struct Context {
    std::remove_reference_t<F>& body;
    int64_t n, grain;
  } context{body, n, grain};
  pool_run(
      chunk_count(n, grain), run,
      [](void* p, int64_t chunk) {
        auto& c = *static_cast<Context*>(p);
        const int64_t begin = chunk * c.grain;
        c.body(chunk, begin, std::min(begin + c.grain, c.n));
      },
      &context);
}

// A grain for results that do not depend on the grid: enough chunks for the threads to share, unless a chunk would be
// trivial; at most `most`. work: multiplications per row.
inline int64_t fair_grain(int64_t n, int64_t work, int64_t most) {
  return std::clamp<int64_t>(std::max(n / 16, (int64_t{1} << 18) / std::max<int64_t>(work, 1)), 64, most);
}

// make(chunk, begin, end) -> S for every chunk; merge(S& total, S&& partial) in chunk order. Holds at most a few
// partial results per thread: chunks run in waves, and a wave is merged before the next begins.
template <class S, class F, class M>
S reduce_chunks(int64_t n, int64_t grain, F&& make, M&& merge, Run run) {
  const int64_t chunks = chunk_count(n, grain);
  // Four chunks per thread in a wave: threads of unequal speed still balance, and memory stays bounded. The merge is in
  // chunk order whatever the wave, so its length does not reach the bits.
  const int64_t wave = std::max<int64_t>(1, 4 * static_cast<int64_t>(run.threads));
  S total{};
  std::vector<S> partials;
  for (int64_t first = 0; first < chunks; first += wave) {
    const int64_t count = std::min(wave, chunks - first);
    partials.assign(static_cast<size_t>(count), S{});
    for_chunks(count, 1, run, [&](int64_t, int64_t begin, int64_t) {
      const int64_t from = (first + begin) * grain;
      partials[static_cast<size_t>(begin)] = make(first + begin, from, std::min(from + grain, n));
    });
    for (auto& partial : partials) merge(total, std::move(partial));
  }
  return total;
}

}  // namespace knoll
