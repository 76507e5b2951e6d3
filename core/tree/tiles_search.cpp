// The search over filtered tiles: all pairs of panels in float32, what the filter cannot decide by the one distance.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/exact_sum.hpp"
#include "common/parallel.hpp"
#include "neighbors/index.hpp"
#include "neighbors/pair_filter_block.hpp"
#include "tree/backends.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Positions are rows here. Keys are squared distances, so coordinates must have squares within float64.
template <class T>
class TilesSearch : public ReachabilitySearch {
 public:
  TilesSearch(View<const T, 2> x, Run run) : x_(x), pairs_(x, run), panels_(x, choose_pivot(x, run), run) {}

  const char* backend() const override { return "tiles"; }
  int64_t size() const override { return x_.shape[0]; }
  int64_t row(int64_t position) const override { return position; }
  double key(int64_t p, int64_t q) const override { return one_distance(x_, p, x_, q); }
  double distance(double key) const override { return std::sqrt(key); }

  // k + 1 nearest, and the row itself is left out. It may be absent where k + 1 others equal it.
  void nearest(int64_t k, int32_t* near, double* farthest, Run run) const override {
    const int64_t n = size(), step = std::max<int64_t>(int64_t{1} << 20, 1) / (k + 1) + 1;
    std::vector<double> d2(static_cast<size_t>(std::min(n, step) * (k + 1)));
    std::vector<int64_t> found(d2.size());
    for (int64_t begin = 0; begin < n; begin += step) {  // a piece at a time: the lists of all rows need not be at once
      const int64_t rows = std::min(step, n - begin);
      const bool all = rows == n;
      pairs_.knn(all ? x_ : x_.rows(begin, begin + rows), matrix_view(d2.data(), rows, k + 1),
                 matrix_view(found.data(), rows, k + 1), run);
      for (int64_t i = 0; i < rows; ++i) {
        int64_t kept = 0;
        for (int64_t rank = 0; rank <= k && kept < k; ++rank) {
          const auto at = static_cast<size_t>(i * (k + 1) + rank);
          if (found[at] == begin + i) continue;
          near[(begin + i) * k + kept++] = static_cast<int32_t>(found[at]);
          farthest[begin + i] = d2[at];
        }
      }
    }
  }

  void weighted_core(View<const double, 1> weights, double mass, double* core, Run run) const override {
    const int64_t n = size();
    for_chunks(n, 8, run, [&](int64_t, int64_t begin, int64_t end) {
      std::vector<std::pair<double, int64_t>> all(static_cast<size_t>(n));
      for (int64_t p = begin; p < end; ++p) {
        run.poll();
        for (int64_t q = 0; q < n; ++q) all[static_cast<size_t>(q)] = {key(p, q), q};
        std::sort(all.begin(), all.end());
        ExactSum sum;
        core[p] = kInfinity;
        for (const auto& [here, q] : all) {
          sum.add(weights(q));
          if (sum.round() < mass) continue;
          core[p] = here;
          break;
        }
      }
    });
  }

  void leave(const RoundState& state, LeastEdges& least, Run run) const override {
    std::vector<int32_t> only(static_cast<size_t>(panels_.count));  // the component of all rows of a panel, −1: several
    std::vector<double> least_core(static_cast<size_t>(panels_.count), kInfinity);
    for (int64_t panel = 0; panel < panels_.count; ++panel) {
      int32_t component = -2;
      for_bits(panels_.used[static_cast<size_t>(panel)], [&](int t) {
        const int64_t row = row_at(panel, t);
        component = component == -2 || component == state.component[row] ? state.component[row] : -1;
        least_core[static_cast<size_t>(panel)] = std::min(least_core[static_cast<size_t>(panel)], state.core[row]);
      });
      only[static_cast<size_t>(panel)] = component;
    }
    std::vector<int64_t> positions;  // of the rows that may have an edge below the best of their component
    for (size_t position = 0; position < panels_.rows.size(); ++position) {
      const int64_t row = panels_.rows[position];
      if (row >= 0 && std::max(state.core[row], state.cleared[row]) < least.key(state.component[row]))
        positions.push_back(static_cast<int64_t>(position));
    }
    for_chunks(static_cast<int64_t>(positions.size()), kPairPanel, run, [&](int64_t, int64_t begin, int64_t end) {
      leave_from(positions.data() + begin, end - begin, state, only, least_core, least, run);
    });
  }

 private:
  int64_t row_at(int64_t panel, int t) const { return panels_.rows[static_cast<size_t>(panel * kPairPanel + t)]; }

  // A block of up to 32 rows against the panels, nearest first, until no panel can hold a smaller edge.
  void leave_from(const int64_t* positions, int64_t count, const RoundState& state, const std::vector<int32_t>& only,
                  const std::vector<double>& least_core, LeastEdges& least, Run run) const {
    Block<T> block(panels_, panels_);
    block.fill(positions, count);
    double limits[kPairPanel], largest = -1;
    int32_t common = -2;
    const auto shrink = [&] {
      largest = -1;
      for (int l = 0; l < block.size(); ++l) {
        limits[l] = least.key(state.component[block.query(l)]);
        block.set_radius(l, std::min(limits[l], std::numeric_limits<double>::max()));
        largest = std::max(largest, limits[l]);
      }
    };
    shrink();
    for (int l = 0; l < block.size(); ++l) {
      const int32_t component = state.component[block.query(l)];
      common = common == -2 || common == component ? component : -1;
    }
    std::vector<double> d2(kPairPanel * kPairPanel);
    for (const auto& candidate : block.candidates(largest, nullptr)) {
      const auto at = static_cast<size_t>(candidate.panel);
      if (candidate.gap > panels_.bounds.reach(largest)) break;
      if ((common >= 0 && only[at] == common) || least_core[at] >= largest) continue;
      run.poll();
      Tile tile;
      block.classify(candidate.panel, tile);
      uint32_t any = 0;
      for (int l = 0; l < block.size(); ++l) {
        const int64_t p = block.query(l);
        uint32_t others = 0;
        for_bits(tile.possible[l], [&](int t) {
          const int64_t q = row_at(candidate.panel, t);
          others |=
              static_cast<uint32_t>(q >= 0 && state.component[q] != state.component[p] && state.core[q] < limits[l])
              << t;
        });
        any |= tile.possible[l] = others;
      }
      if (any == 0) continue;
      block.distances(candidate.panel, tile.possible, d2.data());
      for (int l = 0; l < block.size(); ++l)
        for_bits(tile.possible[l], [&](int t) {
          const int64_t p = block.query(l), q = row_at(candidate.panel, t);
          const double key = std::max({d2[static_cast<size_t>(l * kPairPanel + t)], state.core[p], state.core[q]});
          least.offer(state.component[p], key, static_cast<int32_t>(p), static_cast<int32_t>(q));
          least.offer(state.component[q], key, static_cast<int32_t>(q), static_cast<int32_t>(p));
        });
      shrink();
    }
    shrink();
    for (int l = 0; l < block.size(); ++l) state.cleared[block.query(l)] = limits[l];
  }

  View<const T, 2> x_;
  PairFilter<T> pairs_;
  Panels<T> panels_;
};

}  // namespace

template <class T>
std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const T, 2> x, Run run) {
  check_row_count(x.shape[0]);
  return std::make_unique<TilesSearch<T>>(x, run);
}
template std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const double, 2>, Run);
template std::unique_ptr<ReachabilitySearch> make_tiles_search(View<const float, 2>, Run);

}  // namespace knoll
