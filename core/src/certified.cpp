#include "knoll/certified.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "knoll/prefetch.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

constexpr double kUnit = 0x1p-24;  // half a unit in the last place of 1 in float32
constexpr float kInf = std::numeric_limits<float>::infinity();
// Scales within these keep squares of float64 and of float32 away from overflow and underflow; for float32 data they
// are numbers of that kind themselves.
template <class T>
constexpr int kScaleRange = std::is_same_v<T, double> ? 480 : 120;
constexpr int64_t kWidest = int64_t{1} << 18;  // columns for which the bounds below are worth anything
constexpr int64_t kTileCenters = 64;
// A centre with a squared norm from kBeyond on is only known to have a score above kBeyondScore, for rows whose squared
// norm is at most kWithin.
constexpr double kBeyond = 0x1p100;
constexpr float kBeyondScore = 0x1p97f, kWithin = 0x1p96f;
constexpr double kFar = 16;  // times the squared norm of a typical row: a centre beyond has bounds of its own

float round_up(double v) {
  const auto f = static_cast<float>(v);
  return static_cast<double>(f) < v ? std::nextafter(f, kInf) : f;
}

// Some rows, evenly spread: for choices that may be wrong but not slow.
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

template <class T>
Frame choose_frame(View<const T, 2> x, View<const double, 2> centers) {
  const int64_t d = x.shape[1];
  Frame frame;
  frame.pivot.assign(static_cast<size_t>(d), 0.0);
  const auto rows = sample_rows(x);
  if (rows.empty() || d > kWidest) return frame;
  std::vector<double> column(rows.size()), reach(rows.size(), 0.0);
  for (size_t j = 0; j < frame.pivot.size(); ++j) {  // medians: a few outliers do not move them
    for (size_t s = 0; s < rows.size(); ++s) column[s] = rows[s][j];
    frame.pivot[j] = median(column);
    for (size_t s = 0; s < rows.size(); ++s) reach[s] = std::max(reach[s], std::fabs(rows[s][j] - frame.pivot[j]));
  }
  double size = median(reach);
  std::vector<double> norm2;
  for (const auto& row : rows) {
    double sum = 0;
    for (size_t j = 0; j < frame.pivot.size(); ++j) sum += (row[j] - frame.pivot[j]) * (row[j] - frame.pivot[j]);
    norm2.push_back(sum);
  }
  for (int64_t c = 0; c < centers.shape[0] && size == 0; ++c)
    for (int64_t j = 0; j < d; ++j)
      size = std::max(size, std::fabs(centers(c, j) - frame.pivot[static_cast<size_t>(j)]));
  int exponent = 0;
  std::frexp(size, &exponent);
  if (size > 0 && std::isfinite(size) && std::abs(exponent) <= kScaleRange<T>) frame.scale = std::ldexp(1.0, -exponent);
  frame.norm2 = median(norm2) * frame.scale * frame.scale;
  if (std::is_same_v<T, float>) frame.pivot32.assign(frame.pivot.begin(), frame.pivot.end());  // exact: from the data
  return frame;
}

PackedCenters::PackedCenters(const Frame& frame, View<const double, 2> centers, int64_t multiple, const int32_t* slots)
    : k(centers.shape[0]),
      d(centers.shape[1]),
      exact(static_cast<size_t>(k * d)),
      certified(frame.scale != 0),
      widest(kInf),
      bounds{} {
  pack_rows(centers, exact.data());
  if (!certified) return;
  const int64_t padded_k = (k + multiple - 1) / multiple * multiple;
  blocks.assign(static_cast<size_t>(padded_k * d), 0.0f);
  half.assign(static_cast<size_t>(padded_k), kInf);  // centres that do not exist never win
  const int64_t additions = d <= kSumColumns ? d : kSumColumns + (d + kSumColumns - 1) / kSumColumns;
  const double length = static_cast<double>(additions), inflate = 1.01;
  bounds.margin = round_up((2 * length + 12) * kUnit * inflate);
  bounds.radius = round_up((3 * length + 24) * kUnit * inflate);
  bounds.slack = round_up(6 * kUnit);
  bounds.floor = 0x1p-100f;
  const double far = kFar * frame.norm2;
  double largest_near = 0;
  p2.assign(static_cast<size_t>(padded_k), 0.0f);
  for (int64_t c = 0; c < k; ++c) {
    double norm2 = 0;
    const int64_t slot = slots == nullptr ? c : slots[c];
    for (int64_t j = 0; j < d; ++j) {
      const double p = (centers(c, j) - frame.pivot[static_cast<size_t>(j)]) * frame.scale;
      norm2 += p * p;
    }
    if (!(norm2 < kBeyond)) {
      widest = kWithin;
      half[static_cast<size_t>(slot)] = kBeyondScore;
      p2[static_cast<size_t>(slot)] = kInf;
      continue;
    }
    norm2 = 0;
    float* const block = &blocks[static_cast<size_t>(slot / kCenterBlock * kCenterBlock * d + slot % kCenterBlock)];
    for (int64_t j = 0; j < d; ++j) {
      const auto p = static_cast<float>((centers(c, j) - frame.pivot[static_cast<size_t>(j)]) * frame.scale);
      norm2 += static_cast<double>(p) * static_cast<double>(p);
      block[j * kCenterBlock] = -p;
    }
    const bool near = norm2 <= far;
    const double lowered = near ? 0.0 : 2 * static_cast<double>(bounds.radius) * norm2;
    half[static_cast<size_t>(slot)] = static_cast<float>(norm2 / 2 - lowered);
    p2[static_cast<size_t>(slot)] = near ? 0.0f : round_up(8 * norm2 * inflate);
    if (near) largest_near = std::max(largest_near, norm2);
  }
  bounds.p2 = round_up(largest_near * inflate);
  for (float& one : p2) {
    one = one == 0.0f ? bounds.p2 : one;
    most_p2 = std::max(most_p2, one == kInf ? 0.0f : one);
  }
}

template <class T>
Decider<T>::Decider(View<const T, 2> x, const Frame& frame, const PackedCenters& centers)
    : x_(x),
      frame_(frame),
      centers_(centers),
      copies_(x.rows_contiguous() ? 0 : static_cast<size_t>(kPanel * x.shape[1])) {}

template <class T>
const T* Decider<T>::row(int64_t i, int64_t slot) {
  if (x_.rows_contiguous()) return &x_(i, 0);
  T* const copy = &copies_[static_cast<size_t>(slot * x_.shape[1])];
  for (int64_t j = 0; j < x_.shape[1]; ++j) copy[j] = x_(i, j);
  return copy;
}

template <class T>
const float* Decider<T>::pack(const int64_t* rows, int64_t count, float* norm2) {
  panel_.resize(static_cast<size_t>(kPanel * x_.shape[1]));
  const T* row_of[kPanel];
  for (int64_t l = 0; l < count; ++l) row_of[l] = row(rows[l], l);
  const auto& kernel = kernels().kmeans;
  if constexpr (std::is_same_v<T, double>)
    kernel.pack_f64(row_of, count, x_.shape[1], frame_.pivot.data(), frame_.scale, panel_.data(), norm2);
  else
    kernel.pack_f32(row_of, count, x_.shape[1], frame_.pivot32.data(), static_cast<float>(frame_.scale), panel_.data(),
                    norm2);
  if (centers_.widest < kInf)
    for (int64_t l = 0; l < kPanel; ++l) norm2[l] = centers_.norm2(norm2[l]);
  return panel_.data();
}

template <class T>
void Decider<T>::decide(const int64_t* rows, int64_t count, int32_t* label, float* gap, Run run) {
  const auto& kernel = kernels().kmeans;
  const int64_t d = x_.shape[1], k = centers_.k;
  again_.clear();
  if (!centers_.certified) {
    for (int64_t i = 0; i < count; ++i) again_.push_back(i);
    if (gap != nullptr) std::fill_n(gap, count, -kInf);
  }
  for (int64_t first = 0; first < count && centers_.certified; first += kPanel) {
    const int64_t here = std::min<int64_t>(kPanel, count - first);
    float norm2[kPanel], best[kPanel], second[kPanel], p2[kPanel], gaps[kPanel];
    int32_t index[kPanel];
    pack(rows + first, here, norm2);
    for (int64_t i = first + here; i < std::min(count, first + here + kPanel); ++i)
      ask_for(&x_(rows[i], 0), x_.rows_contiguous() ? d : 1);
    kernel.nearest_two(panel_.data(), d, centers_.blocks.data(), centers_.half.data(),
                       static_cast<int64_t>(centers_.half.size()), best, second, index);
    for (int64_t l = 0; l < kPanel; ++l) p2[l] = centers_.p2[static_cast<size_t>(index[l])];
    kernel.gaps(best, second, norm2, p2, &centers_.bounds, gaps);
    counts.evaluations += here * k;
    for (int64_t l = 0; l < here; ++l) {
      label[first + l] = index[l];
      if (gaps[l] == -kInf) again_.push_back(first + l);
    }
    if (gap != nullptr) std::copy_n(gaps, here, gap + first);
    if (first % (64 * kPanel) == 0) run.poll();
  }
  for (size_t i = 0; i < again_.size(); i += kPoints) {
    run.poll();
    decide_again(rows, &again_[i], std::min<int64_t>(kPoints, static_cast<int64_t>(again_.size() - i)), label);
  }
}

template <class T>
void Decider<T>::decide_again(const int64_t* rows, const int64_t* which, int64_t count, int32_t* label) {
  const int64_t d = x_.shape[1], k = centers_.k;
  columns_.resize(static_cast<size_t>(kPoints * d));
  tile_.resize(static_cast<size_t>(kPoints * kTileCenters));
  for (int64_t j = 0; j < d; ++j)
    for (int64_t l = 0; l < kPoints; ++l)
      columns_[static_cast<size_t>(j * kPoints + l)] = static_cast<double>(x_(rows[which[l < count ? l : 0]], j));
  double best[kPoints];
  int32_t index[kPoints];
  for (int64_t c = 0; c < k; c += kTileCenters) {
    const int64_t some = std::min(kTileCenters, k - c);
    kernels().distance_tile(columns_.data(), &centers_.exact[static_cast<size_t>(c * d)], d, some, d, tile_.data());
    if (c == 0) {
      std::copy_n(tile_.begin(), kPoints, best);
      std::fill_n(index, kPoints, 0);
    }
    for (int64_t t = 0; t < some; ++t)
      for (int64_t l = 0; l < kPoints; ++l) {
        const double value = tile_[static_cast<size_t>(t * kPoints + l)];
        const bool lower = value < best[l];
        best[l] = lower ? value : best[l];
        index[l] = lower ? static_cast<int32_t>(c + t) : index[l];
      }
  }
  for (int64_t l = 0; l < count; ++l) label[which[l]] = index[l];
  counts.evaluations += count * k;
  counts.rechecks += centers_.certified ? count : 0;
}

template Frame choose_frame(View<const float, 2>, View<const double, 2>);
template Frame choose_frame(View<const double, 2>, View<const double, 2>);
template class Decider<float>;
template class Decider<double>;

}  // namespace knoll
