// Count, compute offsets, move: one pass per eight bits, each over the same chunks.
#include "common/radix_sort.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "common/large_array.hpp"
#include "common/parallel.hpp"

namespace knoll {
namespace {

constexpr int kBits = 8;  // 256 write positions: as many as a first-level cache holds lines for
constexpr size_t kBuckets = size_t{1} << kBits;
// Counts of at most 64 chunks are 128 KB, within the second cache level; a chunk has at least as many keys as make its
// 256 counts cheap.
constexpr int64_t kMostChunks = 64, kLeastGrain = 1 << 14;

using Counts = std::array<int64_t, kBuckets>;

// The bits in which the keys differ, and whether they are in order already.
template <class K>
struct KeySummary {
  K varying = 0;
  bool ordered = true;
};

template <class K>
KeySummary<K> summarize(const K* keys, int64_t n, int64_t grain, Run run) {
  return reduce_chunks<KeySummary<K>>(
      n, grain,
      [&](int64_t, int64_t begin, int64_t end) {
        KeySummary<K> s;
        // The key before the chunk, so that a fall between two chunks is seen too.
        K last = keys[std::max<int64_t>(0, begin - 1)];
        bool falls = false;
        for (int64_t i = begin; i < end; ++i) {
          s.varying |= keys[i] ^ keys[0];
          falls |= keys[i] < last;
          last = keys[i];
        }
        s.ordered = !falls;
        return s;
      },
      [](KeySummary<K>& total, const KeySummary<K>& chunk) {
        total.varying |= chunk.varying;
        total.ordered &= chunk.ordered;
      },
      run);
}

// One pass: (keys, values) into (keys_out, values_out), stably by the eight bits from `shift` on.
// Chunks write to disjoint positions: those of bucket b that were counted for it. No two threads share one, and no lock
// is needed.
template <class K, class V>
void pass(const K* keys, const V* values, K* keys_out, V* values_out, int64_t n, int shift, int64_t grain,
          std::vector<Counts>& offsets, Run run) {
  const auto bucket = [shift](K key) { return static_cast<size_t>(key >> shift) & (kBuckets - 1); };
  for_chunks(n, grain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    Counts counts{};
    for (int64_t i = begin; i < end; ++i) ++counts[bucket(keys[i])];
    offsets[static_cast<size_t>(chunk)] = counts;
  });
  // The positions of a bucket go to the chunks in order: that makes the pass stable.
  int64_t next = 0;
  for (size_t b = 0; b < kBuckets; ++b)
    for (Counts& counts : offsets) counts[b] = std::exchange(next, next + counts[b]);
  for_chunks(n, grain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    Counts to = offsets[static_cast<size_t>(chunk)];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = to[bucket(keys[i])]++;
      keys_out[at] = keys[i];
      values_out[at] = values[i];
    }
  });
}

}  // namespace

template <class K, class V>
void radix_sort(K* keys, V* values, int64_t n, Run run) {
  if (n < 2) return;
  const int64_t grain = std::max(kLeastGrain, (n - 1) / kMostChunks + 1);
  const KeySummary<K> summary = summarize(keys, n, grain, run);
  // Keys that are in order, equal ones included, are their own stable sort.
  if (summary.ordered) return;

  const auto key_scratch = make_large_array<K>(static_cast<size_t>(n));
  const auto value_scratch = make_large_array<V>(static_cast<size_t>(n));
  std::vector<Counts> offsets(static_cast<size_t>(chunk_count(n, grain)));  // (chunks, buckets)
  // Passes go back and forth between the two arrays; an odd number of them ends in the scratch.
  K *from = keys, *to = key_scratch.get();
  V *values_from = values, *values_to = value_scratch.get();
  for (int shift = 0; shift < std::numeric_limits<K>::digits && summary.varying >> shift != 0; shift += kBits) {
    // Bits that all keys share need no pass.
    shift += std::countr_zero(static_cast<K>(summary.varying >> shift));
    // Eight bits from the lowest that varies on. Higher bits among them that do not vary cost nothing.
    pass(from, values_from, to, values_to, n, shift, grain, offsets, run);
    std::swap(from, to);
    std::swap(values_from, values_to);
  }
  if (from != keys)
    for_chunks(n, grain, run, [&](int64_t, int64_t begin, int64_t end) {
      std::copy(from + begin, from + end, keys + begin);
      std::copy(values_from + begin, values_from + end, values + begin);
    });
}

#define KNOLL_RADIX(K, V) template void radix_sort(K*, V*, int64_t, Run);
KNOLL_RADIX(uint32_t, int32_t)
KNOLL_RADIX(uint32_t, int64_t)
KNOLL_RADIX(uint64_t, int32_t)
KNOLL_RADIX(uint64_t, int64_t)
#undef KNOLL_RADIX

}  // namespace knoll
