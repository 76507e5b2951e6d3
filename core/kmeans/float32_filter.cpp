#include "kmeans/float32_filter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/prefetch.hpp"
#include "common/tile.hpp"

namespace knoll {
namespace {

constexpr double kUnit = 0x1p-24;  // u of eq. 2: half a unit in the last place of 1 in float32
constexpr float kInf = std::numeric_limits<float>::infinity();
// |log₂ scale| up to this keeps squares in float64 and float32 away from overflow and underflow; for float32 data the
// scale is a float32 itself.
template <class T>
constexpr int kScaleRange = std::is_same_v<T, double> ? 480 : 120;
constexpr int64_t kWidest = int64_t{1} << 18;  // columns: beyond, the float64 term of eq. 6 exceeds u
constexpr int64_t kTileCenters = 64;
// For ‖p‖² ≥ kBeyond and ‖y‖² ≤ kWithin: ‖y − p‖ ≥ ¾·2⁵⁰, so ‖y‖² + 2·kBeyondScore ≤ 2⁹⁶ + 2⁹⁸ < 9/16·2¹⁰⁰ lies below
// the true squared distance.
constexpr double kBeyond = 0x1p100;
constexpr float kBeyondScore = 0x1p97f, kWithin = 0x1p96f;
constexpr double kFar = 16;  // times a typical ‖y‖²: a centre with a larger ‖p‖² has a P² of its own

float round_up(double v) {
  const auto f = static_cast<float>(v);
  return static_cast<double>(f) < v ? std::nextafter(f, kInf) : f;
}

// Evenly spaced rows: for choices that affect speed, not results.
template <class T>
std::vector<std::vector<double>> sample_rows(View<const T, 2> x) {
  constexpr int64_t kNumbers = 1 << 16, kRows = 33, kFewRows = 9;
  const int64_t n = x.shape[0],
                count = std::min(n, std::clamp(kNumbers / std::max<int64_t>(x.shape[1], 1), kFewRows, kRows));
  std::vector<std::vector<double>> rows;
  for (int64_t s = 0; s < count; ++s) {
    const int64_t i = (2 * s + 1) * n / (2 * count);
    rows.emplace_back();
    for (int64_t j = 0; j < x.shape[1]; ++j) rows.back().push_back(static_cast<double>(x(i, j)));
  }
  return rows;
}

double median(std::vector<double>& v) {
  const auto middle = v.begin() + static_cast<int64_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

// The median of each column as origin, and the power of two that brings the median of the rows' largest coordinates
// into [½, 1): then ‖y‖² is near d for most rows, and eq. 6 compares scores of like magnitude.
template <class T>
Pivot choose_pivot(View<const T, 2> x, View<const double, 2> centers) {
  const int64_t d = x.shape[1];
  Pivot pivot;
  pivot.origin.assign(static_cast<size_t>(d), 0.0);
  const auto rows = sample_rows(x);
  if (rows.empty() || d > kWidest) return pivot;
  std::vector<double> column(rows.size()), reach(rows.size(), 0.0);
  for (size_t j = 0; j < pivot.origin.size(); ++j) {  // medians: a few outliers do not move them
    for (size_t s = 0; s < rows.size(); ++s) column[s] = rows[s][j];
    pivot.origin[j] = median(column);
    for (size_t s = 0; s < rows.size(); ++s) reach[s] = std::max(reach[s], std::fabs(rows[s][j] - pivot.origin[j]));
  }
  double size = median(reach);
  std::vector<double> norm2;
  for (const auto& row : rows) {
    double sum = 0;
    for (size_t j = 0; j < pivot.origin.size(); ++j) sum += (row[j] - pivot.origin[j]) * (row[j] - pivot.origin[j]);
    norm2.push_back(sum);
  }
  // Where more than half of the sampled rows equal the origin, the centres give the scale.
  for (int64_t c = 0; c < centers.shape[0] && size == 0; ++c)
    for (int64_t j = 0; j < d; ++j)
      size = std::max(size, std::fabs(centers(c, j) - pivot.origin[static_cast<size_t>(j)]));
  int exponent = 0;
  std::frexp(size, &exponent);
  // A power of two: scaling is exact (eq. 2).
  if (size > 0 && std::isfinite(size) && std::abs(exponent) <= kScaleRange<T>) pivot.scale = std::ldexp(1.0, -exponent);
  pivot.norm2 = median(norm2) * pivot.scale * pivot.scale;
  if (std::is_same_v<T, float>)
    pivot.origin32.assign(pivot.origin.begin(), pivot.origin.end());  // exact: from the data
  return pivot;
}

// Eq. 2 to 8 for these centres. Coordinates are negated, so that the kernel adds; padding centres have half = +inf.
PackedCenters::PackedCenters(const Pivot& pivot, View<const double, 2> centers, int64_t multiple, const int32_t* slots)
    : k(centers.shape[0]),
      d(centers.shape[1]),
      exact(static_cast<size_t>(k * d)),
      certified(pivot.scale != 0),
      widest(kInf),
      bounds{} {
  pack_rows(centers, exact.data());
  if (!certified) return;
  const int64_t padded_k = (k + multiple - 1) / multiple * multiple;
  blocks.assign(static_cast<size_t>(padded_k * d), 0.0f);
  half.assign(static_cast<size_t>(padded_k), kInf);                  // centres that do not exist never win
  const double length = static_cast<double>(additions_of_score(d));  // in place of d in eq. 4, 6 and 7
  const double inflate = 1.01;
  // Eq. 6, 7 and 8; 1 % covers the rounding of the bounds themselves.
  bounds.margin = round_up((2 * length + 12) * kUnit * inflate);
  bounds.radius = round_up((3 * length + 24) * kUnit * inflate);
  bounds.slack = round_up(6 * kUnit);
  bounds.floor = 0x1p-100f;
  const double far = kFar * pivot.norm2;
  double largest_near = 0;
  p2.assign(static_cast<size_t>(padded_k), 0.0f);
  for (int64_t c = 0; c < k; ++c) {
    double norm2 = 0;
    const int64_t slot = slots == nullptr ? c : slots[c];
    for (int64_t j = 0; j < d; ++j) {
      const double p = (centers(c, j) - pivot.origin[static_cast<size_t>(j)]) * pivot.scale;
      norm2 += p * p;
    }
    // Eq. 13. Not `>=`: a NaN or an overflow counts as beyond.
    if (!(norm2 < kBeyond)) {
      widest = kWithin;
      half[static_cast<size_t>(slot)] = kBeyondScore;
      p2[static_cast<size_t>(slot)] = kInf;
      continue;
    }
    norm2 = 0;
    float* const block = &blocks[static_cast<size_t>(slot / kCenterBlock * kCenterBlock * d + slot % kCenterBlock)];
    for (int64_t j = 0; j < d; ++j) {
      const auto p = static_cast<float>((centers(c, j) - pivot.origin[static_cast<size_t>(j)]) * pivot.scale);
      norm2 += static_cast<double>(p) * static_cast<double>(p);
      block[j * kCenterBlock] = -p;
    }
    // ‖p̂‖² of the rounded coordinates, in float64: half errs by its rounding to float32 alone (eq. 4).
    // Lowering the score of a far centre by 2·radius·‖p‖² outweighs every error term that grows with its ‖p‖².
    const bool near = norm2 <= far;
    const double lowered = near ? 0.0 : 2 * static_cast<double>(bounds.radius) * norm2;
    half[static_cast<size_t>(slot)] = static_cast<float>(norm2 / 2 - lowered);
    p2[static_cast<size_t>(slot)] = near ? 0.0f : round_up(8 * norm2 * inflate);  // 8·P²: covers the lowering too
    if (near) largest_near = std::max(largest_near, norm2);
  }
  bounds.p2 = round_up(largest_near * inflate);
  for (float& one : p2) {
    one = one == 0.0f ? bounds.p2 : one;
    max_p2 = std::max(max_p2, one == kInf ? 0.0f : one);
  }
}

template <class T>
FilteredAssigner<T>::FilteredAssigner(View<const T, 2> x, const Pivot& pivot, const PackedCenters& centers)
    : x_(x),
      pivot_(pivot),
      centers_(centers),
      copies_(x.rows_contiguous() ? 0 : static_cast<size_t>(kPanel * x.shape[1])) {}

template <class T>
const T* FilteredAssigner<T>::row(int64_t i, int64_t slot) {
  if (x_.rows_contiguous()) return &x_(i, 0);
  T* const copy = &copies_[static_cast<size_t>(slot * x_.shape[1])];
  for (int64_t j = 0; j < x_.shape[1]; ++j) copy[j] = x_(i, j);
  return copy;
}

// Rows of any layout into a panel; norm2 becomes +inf for rows that no bound covers (PackedCenters::widest), and then
// gaps() decides nothing for them.
template <class T>
void FilteredAssigner<T>::pack(const int64_t* rows, int64_t count, float* norm2) {
  panel_.resize(static_cast<size_t>(kPanel * x_.shape[1]));
  const T* row_of[kPanel];
  for (int64_t l = 0; l < count; ++l) row_of[l] = row(rows[l], l);
  const auto& kernel = kernels().kmeans;
  if constexpr (std::is_same_v<T, double>)
    kernel.pack_f64(row_of, count, x_.shape[1], pivot_.origin.data(), pivot_.scale, panel_.data(), norm2);
  else
    kernel.pack_f32(row_of, count, x_.shape[1], pivot_.origin32.data(), static_cast<float>(pivot_.scale), panel_.data(),
                    norm2);
  if (centers_.widest < kInf)
    for (int64_t l = 0; l < kPanel; ++l) norm2[l] = centers_.norm2(norm2[l]);
}

// A row is decided where gaps() finds the two lowest scores further apart than eq. 6 requires; all others, and all rows
// where float32 cannot be used, go to recheck().
template <class T>
void FilteredAssigner<T>::assign(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run) {
  const auto& kernel = kernels().kmeans;
  const int64_t d = x_.shape[1], k = centers_.k;
  undecided_.clear();
  if (!centers_.certified) {
    for (int64_t i = 0; i < count; ++i) undecided_.push_back(i);
    if (gap != nullptr) std::fill_n(gap, count, -kInf);
  }
  for (int64_t first = 0; first < count && centers_.certified; first += kPanel) {
    const int64_t here = std::min<int64_t>(kPanel, count - first);
    float norm2[kPanel], best[kPanel], second[kPanel], p2[kPanel], gaps[kPanel];
    int32_t index[kPanel];
    pack(rows + first, here, norm2);
    for (int64_t i = first + here; i < std::min(count, first + here + kPanel); ++i)
      prefetch(&x_(rows[i], 0), x_.rows_contiguous() ? d : 1);
    kernel.nearest_two(panel_.data(), d, centers_.blocks.data(), centers_.half.data(),
                       static_cast<int64_t>(centers_.half.size()), best, second, index);
    // Eq. 12: a row whose lowest score is a far centre's is judged with that centre's P². The second one needs none:
    // its score was lowered by more than it may err.
    for (int64_t l = 0; l < kPanel; ++l) p2[l] = centers_.p2[static_cast<size_t>(index[l])];
    kernel.gaps(best, second, norm2, p2, &centers_.bounds, gaps);
    counts.evaluations += here * k;
    for (int64_t l = 0; l < here; ++l) {
      label[first + l] = index[l];
      if (gaps[l] == -kInf) undecided_.push_back(first + l);
    }
    if (gap != nullptr) std::copy_n(gaps, here, gap + first);
    if (first % (64 * kPanel) == 0) run.poll();
  }
  for (size_t i = 0; i < undecided_.size(); i += kPoints) {
    run.poll();
    recheck(rows, &undecided_[i], std::min<int64_t>(kPoints, static_cast<int64_t>(undecided_.size() - i)), label);
  }
}

// The one distance to every centre, ties to the lowest index: the definition of the label.
template <class T>
void FilteredAssigner<T>::recheck(const int64_t* rows, const int64_t* which, int64_t count, int32_t* label) {
  const int64_t d = x_.shape[1], k = centers_.k;
  // Lanes without a row repeat the first one; distance_tile is the one distance, column by column, without fma.
  columns_.resize(static_cast<size_t>(kPoints * d));
  tile_.resize(static_cast<size_t>(kPoints * kTileCenters));
  for (int64_t j = 0; j < d; ++j)
    for (int64_t l = 0; l < kPoints; ++l)
      columns_[static_cast<size_t>(j * kPoints + l)] = static_cast<double>(x_(rows[which[l < count ? l : 0]], j));
  double best[kPoints];
  int32_t index[kPoints];
  for (int64_t c = 0; c < k; c += kTileCenters) {
    const int64_t width = std::min(kTileCenters, k - c);
    kernels().distance_tile(columns_.data(), &centers_.exact[static_cast<size_t>(c * d)], d, width, d, tile_.data());
    if (c == 0) {
      std::copy_n(tile_.begin(), kPoints, best);
      std::fill_n(index, kPoints, 0);
    }
    for (int64_t t = 0; t < width; ++t)
      for (int64_t l = 0; l < kPoints; ++l) {
        const double value = tile_[static_cast<size_t>(t * kPoints + l)];
        // Strict, c rising: ties stay with the lowest index.
        const bool lower = value < best[l];
        best[l] = lower ? value : best[l];
        index[l] = lower ? static_cast<int32_t>(c + t) : index[l];
      }
  }
  for (int64_t l = 0; l < count; ++l) label[which[l]] = index[l];
  counts.evaluations += count * k;
  counts.rechecks += centers_.certified ? count : 0;
}

template Pivot choose_pivot(View<const float, 2>, View<const double, 2>);
template Pivot choose_pivot(View<const double, 2>, View<const double, 2>);
template class FilteredAssigner<float>;
template class FilteredAssigner<double>;

}  // namespace knoll
