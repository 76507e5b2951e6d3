// Count, give places, move: one pass per eight bits, each over the same chunks.
#include "knoll/radix.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "knoll/parallel.hpp"

namespace knoll {
namespace {

constexpr int kBits = 8;  // 256 open places to write to: as many as a first-level cache holds lines for
constexpr size_t kBuckets = size_t{1} << kBits;
constexpr int64_t kMostChunks = 64, kLeastGrain = 1 << 14;

using Counts = std::array<int64_t, kBuckets>;

// What one look at all the keys tells: the bits in which they differ, and whether they are in order already.
template <class K>
struct Survey {
  K varying = 0;
  bool ordered = true;
};

template <class K>
Survey<K> survey(const K* keys, int64_t n, int64_t grain, Run run) {
  return reduce_chunks<Survey<K>>(
      n, grain,
      [&](int64_t, int64_t begin, int64_t end) {
        Survey<K> s;
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
      [](Survey<K>& total, const Survey<K>& part) {
        total.varying |= part.varying;
        total.ordered &= part.ordered;
      },
      run);
}

// One pass: (keys, values) into (keys_out, values_out), stably by the eight bits from `shift` on.
template <class K, class V>
void pass(const K* keys, const V* values, K* keys_out, V* values_out, int64_t n, int shift, int64_t grain,
          std::vector<Counts>& place, Run run) {
  const auto bucket = [shift](K key) { return static_cast<size_t>(key >> shift) & (kBuckets - 1); };
  for_chunks(n, grain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    Counts counts{};
    for (int64_t i = begin; i < end; ++i) ++counts[bucket(keys[i])];
    place[static_cast<size_t>(chunk)] = counts;
  });
  // A bucket's places go to the chunks in order: that makes the pass stable.
  int64_t next = 0;
  for (size_t b = 0; b < kBuckets; ++b)
    for (Counts& counts : place) counts[b] = std::exchange(next, next + counts[b]);
  for_chunks(n, grain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    Counts to = place[static_cast<size_t>(chunk)];
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
  const Survey<K> seen = survey(keys, n, grain, run);
  if (seen.ordered) return;

  const auto key_scratch = std::make_unique_for_overwrite<K[]>(static_cast<size_t>(n));
  const auto value_scratch = std::make_unique_for_overwrite<V[]>(static_cast<size_t>(n));
  std::vector<Counts> place(static_cast<size_t>(chunk_count(n, grain)));  // (chunks, buckets)
  K *from = keys, *to = key_scratch.get();
  V *values_from = values, *values_to = value_scratch.get();
  for (int shift = 0; shift < std::numeric_limits<K>::digits && seen.varying >> shift != 0; shift += kBits) {
    // Bits that all keys share need no pass.
    shift += std::countr_zero(static_cast<K>(seen.varying >> shift));
    pass(from, values_from, to, values_to, n, shift, grain, place, run);
    std::swap(from, to);
    std::swap(values_from, values_to);
  }
  if (from != keys)
    for_chunks(n, grain, run, [&](int64_t, int64_t begin, int64_t end) {
      std::copy(from + begin, from + end, keys + begin);
      std::copy(values_from + begin, values_from + end, values + begin);
    });
}

template <class K, class V>
void radix_sort(View<K, 1> keys, View<V, 1> values, Run run) {
  const int64_t n = keys.shape[0];
  const auto packed = [n](auto view) {
    using T = std::remove_reference_t<decltype(view(0))>;
    std::vector<T> copy(view.stride[0] == 1 ? 0 : static_cast<size_t>(n));
    for (size_t i = 0; i < copy.size(); ++i) copy[i] = view(static_cast<int64_t>(i));
    return copy;
  };
  const auto unpack = [](const auto& copy, auto view) {
    for (size_t i = 0; i < copy.size(); ++i) view(static_cast<int64_t>(i)) = copy[i];
  };
  std::vector<K> key_copy = packed(keys);
  std::vector<V> value_copy = packed(values);
  radix_sort(key_copy.empty() ? keys.data : key_copy.data(), value_copy.empty() ? values.data : value_copy.data(), n,
             run);
  unpack(key_copy, keys);
  unpack(value_copy, values);
}

#define KNOLL_RADIX(K, V)                         \
  template void radix_sort(K*, V*, int64_t, Run); \
  template void radix_sort(View<K, 1>, View<V, 1>, Run);
KNOLL_RADIX(uint32_t, int32_t)
KNOLL_RADIX(uint32_t, int64_t)
KNOLL_RADIX(uint64_t, int32_t)
KNOLL_RADIX(uint64_t, int64_t)
#undef KNOLL_RADIX

}  // namespace knoll
