#include "kmeans/pivots.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/scratch_pool.hpp"
#include "common/tile.hpp"

namespace knoll {
namespace {

constexpr int64_t kMaxPivots = 64;
constexpr int64_t kSampleRows = 256;  // at most, and at most one row in kOneIn
constexpr int64_t kOneIn = 16;
constexpr int64_t kMinSample = 16;             // fewer rows are no sample
constexpr int64_t kMaxRechecks = 8;            // one row in so many to recheck is too many
constexpr int64_t kPacked = int64_t{1} << 20;  // entries of all centres, packed for every pivot
constexpr int64_t kRowsPerPivot = 256;         // at least: packing the centres once more must pay

std::vector<int64_t> sample_rows(int64_t n) {  // evenly spaced
  std::vector<int64_t> rows(static_cast<size_t>(std::min(kSampleRows, n / kOneIn)));
  const auto count = static_cast<int64_t>(rows.size());
  for (int64_t s = 0; s < count; ++s) rows[static_cast<size_t>(s)] = (2 * s + 1) * n / (2 * count);
  return rows;
}

// How many of these rows float32 would leave to recheck about this pivot.
template <class T>
int64_t count_rechecks(View<const T, 2> x, const Pivot& pivot, View<const double, 2> centers,
                       const std::vector<int64_t>& rows, Run run) {
  // The filter itself is the judge: what it rechecks here is what a step would recheck.
  const PackedCenters packed(pivot, centers);
  if (!packed.certified) return static_cast<int64_t>(rows.size());
  FilteredAssigner<T> assigner(x, pivot, packed);
  std::vector<int32_t> label(rows.size());
  assigner.assign(rows.data(), static_cast<int64_t>(rows.size()), label.data(), nullptr, run);
  return assigner.counts.rechecks;
}

// The squared distances between rows of the sample, (m, m).
template <class T>
std::vector<double> pairs(View<const T, 2> x, const std::vector<int64_t>& rows) {
  const size_t m = rows.size();
  std::vector<double> d2(m * m, 0.0);
  for (size_t a = 0; a < m; ++a)
    for (size_t b = 0; b < a; ++b) {
      double sum = 0;
      for (int64_t j = 0; j < x.shape[1]; ++j) {
        const double difference = static_cast<double>(x(rows[a], j)) - static_cast<double>(x(rows[b], j));
        sum += difference * difference;
      }
      d2[a * m + b] = d2[b * m + a] = sum;
    }
  return d2;
}

// Rows of the sample to use as origins, chosen greedily: the next is the one that lowers Σ_b log₂ d²(b, nearest origin)
// most. So a cluster counts by its rows and by the orders of magnitude they gain, and an outlier counts as one row.
// Stops when the gain is below a factor of 16 (in squares) for one row in 32.
std::vector<size_t> choose_origins(const std::vector<double>& d2, size_t m, size_t most) {
  std::vector<double> nearest(m, std::numeric_limits<double>::infinity());
  for (size_t a = 0; a < m; ++a)
    for (size_t b = 0; b < m; ++b)
      if (a != b) nearest[a] = std::min(nearest[a], d2[a * m + b]);
  std::nth_element(nearest.begin(), nearest.begin() + static_cast<int64_t>(m / 2), nearest.end());
  const double least = std::max(nearest[m / 2], std::numeric_limits<double>::min());  // nearer gains nothing
  std::vector<double> length(m * m);
  std::transform(d2.begin(), d2.end(), length.begin(), [&](double v) { return std::log2(std::max(v, least)); });
  std::vector<double> now(m, *std::max_element(length.begin(), length.end()));
  std::vector<size_t> origins;
  while (origins.size() < most) {
    size_t best = 0;
    double most_gain = -1;
    for (size_t a = 0; a < m; ++a) {
      double gain = 0;
      for (size_t b = 0; b < m; ++b) gain += std::max(0.0, now[b] - length[a * m + b]);
      if (gain > most_gain) most_gain = gain, best = a;
    }
    // log₂ 16 = 4 per row, for m/32 rows.
    if (origins.size() > 1 && most_gain < static_cast<double>(m) / 32 * 4) break;
    origins.push_back(best);
    for (size_t b = 0; b < m; ++b) now[b] = std::min(now[b], length[best * m + b]);
  }
  return origins;
}

// A pivot at a row of the sample, and the sampled rows that are nearest to it.
struct Candidate {
  Pivot pivot;
  std::vector<int64_t> rows;
};
template <class T>
std::vector<Candidate> candidates(View<const T, 2> x, const std::vector<int64_t>& rows, size_t most,
                                  const Pivot& only) {
  const size_t m = rows.size();
  const std::vector<double> d2 = pairs(x, rows);
  const std::vector<size_t> at = choose_origins(d2, m, most);
  std::vector<Candidate> found(at.size());
  std::vector<std::vector<double>> norm2(at.size());
  for (size_t s = 0; s < m; ++s) {
    size_t nearest = 0;
    for (size_t p = 1; p < at.size(); ++p)
      if (d2[at[p] * m + s] < d2[at[nearest] * m + s]) nearest = p;
    found[nearest].rows.push_back(rows[s]);
    norm2[nearest].push_back(d2[at[nearest] * m + s] * only.scale * only.scale);
  }
  for (size_t p = 0; p < at.size(); ++p) {
    Pivot& pivot = found[p].pivot = only;  // the same scale
    for (int64_t j = 0; j < x.shape[1]; ++j)
      pivot.origin[static_cast<size_t>(j)] = static_cast<double>(x(rows[at[p]], j));
    if (std::is_same_v<T, float>) pivot.origin32.assign(pivot.origin.begin(), pivot.origin.end());
    if (norm2[p].empty()) continue;
    const auto middle = norm2[p].begin() + static_cast<int64_t>(norm2[p].size() / 2);
    std::nth_element(norm2[p].begin(), middle, norm2[p].end());
    pivot.norm2 = *middle;
  }
  std::erase_if(found, [](const Candidate& one) { return one.rows.empty(); });  // duplicates of an earlier origin
  return found;
}

// The nearest pivot of every row: an assignment to their origins, about the pivot used so far.
template <class T>
std::vector<uint8_t> nearest_pivots(View<const T, 2> x, const Pivot& only, const std::vector<Pivot>& list, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], count = static_cast<int64_t>(list.size());
  std::vector<double> origins;
  for (const Pivot& pivot : list) origins.insert(origins.end(), pivot.origin.begin(), pivot.origin.end());
  const PackedCenters packed(only, matrix_view<const double>(origins.data(), count, d));
  std::vector<uint8_t> of_row(static_cast<size_t>(n));
  ScratchPool<FilteredAssigner<T>> pool([&] { return std::make_unique<FilteredAssigner<T>>(x, only, packed); });
  for_chunks(n, fair_grain(n, count * d, kGrain), run, [&](int64_t, int64_t begin, int64_t end) {
    typename ScratchPool<FilteredAssigner<T>>::Lease assigner(pool);
    std::vector<int64_t> rows(static_cast<size_t>(end - begin));
    std::vector<int32_t> label(rows.size());
    std::iota(rows.begin(), rows.end(), begin);
    assigner->assign(rows.data(), end - begin, label.data(), nullptr, run);
    std::copy(label.begin(), label.end(), of_row.begin() + begin);
  });
  return of_row;
}

}  // namespace

// The only pivot serves unless it leaves one row of the sample in kMaxRechecks undecided. The number of pivots is
// limited by the memory of packed centres and by the rows that share one.
template <class T>
bool add_pivots(Pivots& pivots, View<const T, 2> x, View<const double, 2> centers, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], k = centers.shape[0];
  const int64_t most = std::min({kMaxPivots, kPacked / std::max<int64_t>(k * d, 1), n / kRowsPerPivot});
  const std::vector<int64_t> rows = sample_rows(n);
  const auto tried = static_cast<int64_t>(rows.size());
  if (pivots.several() || pivots.scale() == 0 || k < 2 || most < 2 || tried < kMinSample) return false;
  const int64_t before = count_rechecks(x, pivots.list[0], centers, rows, run);
  if (before < tried / kMaxRechecks) return false;

  int64_t after = 0;
  std::vector<Pivot> list;
  for (Candidate& candidate : candidates(x, rows, static_cast<size_t>(most), pivots.list[0])) {
    after += count_rechecks(x, candidate.pivot, centers, candidate.rows, run);
    list.push_back(std::move(candidate.pivot));
  }
  // Several pivots cost a packing of the centres each, and a sort of the rows: they must halve the rechecks.
  if (list.size() < 2 || 2 * after > before) return false;  // ties, for example, stay undecided about any pivot
  auto of_row = nearest_pivots(x, pivots.list[0], list, run);
  pivots = {std::move(list), std::move(of_row)};
  return true;
}

template <class T>
Pivots choose_pivots(View<const T, 2> x, View<const double, 2> centers, Run run) {
  Pivots pivots{{choose_pivot(x, centers)}, {}};
  add_pivots(pivots, x, centers, run);
  return pivots;
}

void group_by_pivot(const Pivots& pivots, std::vector<int64_t>& rows, std::vector<int64_t>& from,
                    std::vector<int64_t>& scratch) {
  from.assign(pivots.list.size() + 1, 0);
  from.back() = static_cast<int64_t>(rows.size());
  if (!pivots.several()) return;
  std::fill(from.begin(), from.end(), 0);
  // A counting sort: stable, so rows of one pivot stay in order of memory.
  for (int64_t i : rows) ++from[pivots.of_row[static_cast<size_t>(i)] + size_t{1}];
  std::partial_sum(from.begin(), from.end(), from.begin());
  scratch.resize(rows.size());
  std::vector<int64_t> next(from.begin(), from.end() - 1);
  for (int64_t i : rows) scratch[static_cast<size_t>(next[pivots.of_row[static_cast<size_t>(i)]]++)] = i;
  rows.swap(scratch);
}

#define KNOLL_DENSE(T)                                                         \
  template Pivots choose_pivots(View<const T, 2>, View<const double, 2>, Run); \
  template bool add_pivots(Pivots&, View<const T, 2>, View<const double, 2>, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);

}  // namespace knoll
