#include "tree/cut.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/parallel.hpp"
#include "neighbors/row_order.hpp"

namespace knoll {
namespace {

constexpr int64_t kGrain = 1 << 14;

}  // namespace

// A row with c > eps is alone at eps: its bars are at least c. So the components of core rows are the intervals between
// bars > eps that begin with a core row, and a pass along the order numbers them; a pass along the rows renumbers them.
int64_t cut_tree(View<const int64_t, 1> order, View<const double, 1> bars, View<const double, 1> core, double eps,
                 View<int64_t, 1> labels, Run run) {
  const int64_t n = order.shape[0];
  for (int64_t row = 0; row < n; ++row) labels(row) = -1;  // where `order` leaves a row out, too
  const auto begins = [&](int64_t i) { return (i == 0 || bars(i) > eps) && core(order(i)) <= eps; };
  std::vector<int64_t> first(static_cast<size_t>(chunk_count(n, kGrain)));  // (chunks) intervals before it
  for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += begins(i);
    first[static_cast<size_t>(chunk)] = count;
  });
  int64_t components = 0;
  for (int64_t& chunk : first) chunk = std::exchange(components, components + chunk);
  for_chunks(n, kGrain, run, [&](int64_t chunk, int64_t begin, int64_t end) {
    int64_t at = first[static_cast<size_t>(chunk)] - 1;
    for (int64_t i = begin; i < end; ++i) {
      at += begins(i);
      labels(order(i)) = core(order(i)) <= eps ? at : -1;
    }
  });
  std::vector<int64_t> number(static_cast<size_t>(components), -1);
  int64_t next = 0;
  for (int64_t row = 0; row < n; ++row) {
    if (labels(row) < 0) continue;
    int64_t& label = number[static_cast<size_t>(labels(row))];
    if (label < 0) label = next++;
    labels(row) = label;
  }
  return components;
}

template <class T>
void attach_borders(View<const T, 2> x, View<const int32_t, 2> near, View<const double, 1> core, double eps,
                    const Metric& metric, View<int64_t, 1> labels, Run run) {
  const int64_t n = x.shape[0], d = x.shape[1];
  for_chunks(n, kGrain, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<double> here(static_cast<size_t>(d)), there(static_cast<size_t>(d));
    const auto copy = [&](int64_t row, std::vector<double>& out) {
      for (int64_t j = 0; j < d; ++j) out[static_cast<size_t>(j)] = static_cast<double>(x(row, j)) + 0.0;
    };
    for (int64_t row = begin; row < end; ++row) {
      if (core(row) <= eps) continue;
      copy(row, here);
      int64_t closest = -1;
      double least = eps;
      for (int64_t rank = 0; rank < near.shape[1]; ++rank) {
        const int64_t other = near(row, rank);
        if (core(other) > eps) continue;
        copy(other, there);
        const double distance = metric.distance(here.data(), there.data());
        if (distance > least) break;  // the later ones are no nearer
        if (closest < 0 || distance < least || row_before(x, other, closest)) closest = other;
        least = distance;
      }
      labels(row) = closest < 0 ? -1 : labels(closest);
    }
  });
}

template void attach_borders(View<const double, 2>, View<const int32_t, 2>, View<const double, 1>, double,
                             const Metric&, View<int64_t, 1>, Run);
template void attach_borders(View<const float, 2>, View<const int32_t, 2>, View<const double, 1>, double, const Metric&,
                             View<int64_t, 1>, Run);

}  // namespace knoll
