#include "knoll/frames.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "knoll/slots.hpp"
#include "knoll/tile.hpp"

namespace knoll {
namespace {

constexpr int64_t kMostPlaces = 64;
constexpr int64_t kSome = 256;  // rows that are tried, at most one in kOneIn
constexpr int64_t kOneIn = 16;
constexpr int64_t kLeast = 16;                 // fewer say nothing
constexpr int64_t kMany = 8;                   // one row in so many decided again is too many
constexpr int64_t kPacked = int64_t{1} << 20;  // numbers of all centres, packed for every place
constexpr int64_t kRowsAPlace = 256;           // at least: packing the centres once more must be worth it

std::vector<int64_t> some_rows(int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(std::min(kSome, n / kOneIn)));
  const auto count = static_cast<int64_t>(rows.size());
  for (int64_t s = 0; s < count; ++s) rows[static_cast<size_t>(s)] = (2 * s + 1) * n / (2 * count);
  return rows;
}

// How many of these rows float32 would leave undecided from this place.
template <class T>
int64_t undecided(View<const T, 2> x, const Frame& place, View<const double, 2> centers,
                  const std::vector<int64_t>& rows, Run run) {
  const PackedCenters packed(place, centers);
  if (!packed.certified) return static_cast<int64_t>(rows.size());
  Decider<T> decider(x, place, packed);
  std::vector<int32_t> label(rows.size());
  decider.decide(rows.data(), static_cast<int64_t>(rows.size()), label.data(), nullptr, run);
  return decider.counts.rechecks;
}

// The squared distances between some rows, (m, m).
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

// Rows to look from, one after the other: the next is the one that brings the others nearest, by the sum of the
// logarithms of their distances. So a cloud counts by its rows and by the orders of magnitude they gain, and an outlier
// is one row. Ends where the gain is less than a sixteenfold one (in squares) for one row in 32.
std::vector<size_t> spread_places(const std::vector<double>& d2, size_t m, size_t most) {
  std::vector<double> nearest(m, std::numeric_limits<double>::infinity());
  for (size_t a = 0; a < m; ++a)
    for (size_t b = 0; b < m; ++b)
      if (a != b) nearest[a] = std::min(nearest[a], d2[a * m + b]);
  std::nth_element(nearest.begin(), nearest.begin() + static_cast<int64_t>(m / 2), nearest.end());
  const double least = std::max(nearest[m / 2], std::numeric_limits<double>::min());  // what is nearer is near enough
  std::vector<double> length(m * m);
  std::transform(d2.begin(), d2.end(), length.begin(), [&](double v) { return std::log2(std::max(v, least)); });
  std::vector<double> now(m, *std::max_element(length.begin(), length.end()));
  std::vector<size_t> places;
  while (places.size() < most) {
    size_t best = 0;
    double most_gain = -1;
    for (size_t a = 0; a < m; ++a) {
      double gain = 0;
      for (size_t b = 0; b < m; ++b) gain += std::max(0.0, now[b] - length[a * m + b]);
      if (gain > most_gain) most_gain = gain, best = a;
    }
    if (places.size() > 1 && most_gain < static_cast<double>(m) / 32 * 4) break;
    places.push_back(best);
    for (size_t b = 0; b < m; ++b) now[b] = std::min(now[b], length[best * m + b]);
  }
  return places;
}

// Places at some of these rows, each with the rows that are nearest to it: frames of the scale that there is.
struct Place {
  Frame frame;
  std::vector<int64_t> rows;
};
template <class T>
std::vector<Place> make_places(View<const T, 2> x, const std::vector<int64_t>& rows, size_t most, const Frame& only) {
  const size_t m = rows.size();
  const std::vector<double> d2 = pairs(x, rows);
  const std::vector<size_t> at = spread_places(d2, m, most);
  std::vector<Place> places(at.size());
  std::vector<std::vector<double>> norm2(at.size());
  for (size_t s = 0; s < m; ++s) {
    size_t nearest = 0;
    for (size_t p = 1; p < at.size(); ++p)
      if (d2[at[p] * m + s] < d2[at[nearest] * m + s]) nearest = p;
    places[nearest].rows.push_back(rows[s]);
    norm2[nearest].push_back(d2[at[nearest] * m + s] * only.scale * only.scale);
  }
  for (size_t p = 0; p < at.size(); ++p) {
    Frame& frame = places[p].frame = only;
    for (int64_t j = 0; j < x.shape[1]; ++j)
      frame.pivot[static_cast<size_t>(j)] = static_cast<double>(x(rows[at[p]], j));
    if (std::is_same_v<T, float>) frame.pivot32.assign(frame.pivot.begin(), frame.pivot.end());
    if (norm2[p].empty()) continue;
    const auto middle = norm2[p].begin() + static_cast<int64_t>(norm2[p].size() / 2);
    std::nth_element(norm2[p].begin(), middle, norm2[p].end());
    frame.norm2 = *middle;
  }
  std::erase_if(places, [](const Place& place) { return place.rows.empty(); });  // where one before is, too
  return places;
}

// The nearest place of every row, seen from the only one so far.
template <class T>
std::vector<uint8_t> nearest_places(View<const T, 2> x, const Frame& only, const std::vector<Frame>& places, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], count = static_cast<int64_t>(places.size());
  std::vector<double> pivots;
  for (const Frame& place : places) pivots.insert(pivots.end(), place.pivot.begin(), place.pivot.end());
  const PackedCenters packed(only, matrix_view<const double>(pivots.data(), count, d));
  std::vector<uint8_t> of(static_cast<size_t>(n));
  Slots<Decider<T>> slots([&] { return std::make_unique<Decider<T>>(x, only, packed); });
  for_chunks(n, fair_grain(n, count * d, kGrain), run, [&](int64_t, int64_t begin, int64_t end) {
    typename Slots<Decider<T>>::Loan decider(slots);
    std::vector<int64_t> rows(static_cast<size_t>(end - begin));
    std::vector<int32_t> label(rows.size());
    std::iota(rows.begin(), rows.end(), begin);
    decider->decide(rows.data(), end - begin, label.data(), nullptr, run);
    std::copy(label.begin(), label.end(), of.begin() + begin);
  });
  return of;
}

}  // namespace

template <class T>
bool spread_out(Frames& frames, View<const T, 2> x, View<const double, 2> centers, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1], k = centers.shape[0];
  const int64_t most = std::min({kMostPlaces, kPacked / std::max<int64_t>(k * d, 1), n / kRowsAPlace});
  const std::vector<int64_t> rows = some_rows(n);
  const auto tried = static_cast<int64_t>(rows.size());
  if (frames.several() || frames.scale() == 0 || k < 2 || most < 2 || tried < kLeast) return false;
  const int64_t before = undecided(x, frames.places[0], centers, rows, run);
  if (before < tried / kMany) return false;

  int64_t after = 0;
  std::vector<Frame> places;
  for (Place& place : make_places(x, rows, static_cast<size_t>(most), frames.places[0])) {
    after += undecided(x, place.frame, centers, place.rows, run);
    places.push_back(std::move(place.frame));
  }
  if (places.size() < 2 || 2 * after > before) return false;
  auto of = nearest_places(x, frames.places[0], places, run);
  frames = {std::move(places), std::move(of)};
  return true;
}

template <class T>
Frames choose_frames(View<const T, 2> x, View<const double, 2> centers, Run run) {
  Frames frames{{choose_frame(x, centers)}, {}};
  spread_out(frames, x, centers, run);
  return frames;
}

void part_by_place(const Frames& frames, std::vector<int64_t>& rows, std::vector<int64_t>& from,
                   std::vector<int64_t>& scratch) {
  from.assign(frames.places.size() + 1, 0);
  from.back() = static_cast<int64_t>(rows.size());
  if (!frames.several()) return;
  std::fill(from.begin(), from.end(), 0);
  for (int64_t i : rows) ++from[frames.of[static_cast<size_t>(i)] + size_t{1}];
  std::partial_sum(from.begin(), from.end(), from.begin());
  scratch.resize(rows.size());
  std::vector<int64_t> next(from.begin(), from.end() - 1);
  for (int64_t i : rows) scratch[static_cast<size_t>(next[frames.of[static_cast<size_t>(i)]]++)] = i;
  rows.swap(scratch);
}

#define KNOLL_DENSE(T)                                                         \
  template Frames choose_frames(View<const T, 2>, View<const double, 2>, Run); \
  template bool spread_out(Frames&, View<const T, 2>, View<const double, 2>, Run)
KNOLL_DENSE(float);
KNOLL_DENSE(double);

}  // namespace knoll
