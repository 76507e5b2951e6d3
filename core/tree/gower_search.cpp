// The search under Gower's distance: filtered tiles of all pairs of panels, since no triangle inequality rules out any.
// Positions are rows, and keys are distances.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "common/parallel.hpp"
#include "neighbors/gower.hpp"
#include "neighbors/index.hpp"
#include "tree/backends.hpp"

namespace knoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class GowerSearch : public ReachabilitySearch {
 public:
  GowerSearch(View<const double, 2> x, const Metric& metric, Run run)
      : panels_(x, std::make_shared<const GowerLayout>(x, metric), run) {}

  const char* backend() const override { return "tiles"; }
  int64_t size() const override { return panels_.x.shape[0]; }
  int64_t row(int64_t position) const override { return position; }
  double key(int64_t p, int64_t q) const override {
    return panels_.pivot->metric.distance(panels_.row(p), panels_.row(q));
  }
  double distance(double key) const override { return key; }

  void nearest(int64_t k, int32_t* near, double* farthest, Run run) const override {
    for_chunks(panels_.count, 1, run, [&](int64_t, int64_t panel, int64_t) {
      List lists[kPairPanel];
      for (List& list : lists) list.assign(static_cast<size_t>(k), {kInfinity, -1});
      Block<GowerRow> block(panels_, panels_);
      block.fill_panel(panel);
      for (int l = 0; l < block.size(); ++l) block.set_radius(l, kInfinity);
      std::vector<double> keys(kPairPanel * kPairPanel);
      // Its own panel and those after it first: neighbours in a sorted table are near.
      for (int64_t step = 0; step < panels_.count; ++step)
        search_panel(block, (panel + step) % panels_.count, lists, keys.data(), run);
      for (int l = 0; l < block.size(); ++l) {
        int32_t* out = near + block.query(l) * k;
        for (const auto& [key, row] : lists[l]) *out++ = row;
        farthest[block.query(l)] = lists[l].back().first;
      }
    });
  }

  // Rows against all panels that hold other components, until no edge can be smaller.
  void leave(const RoundState& state, LeastEdges& least, Run run) const override {
    std::vector<int32_t> only(static_cast<size_t>(panels_.count));  // the component of all rows of a panel; −1: several
    std::vector<double> least_core(static_cast<size_t>(panels_.count), kInfinity);
    for (int64_t p = 0; p < size(); ++p) {
      const auto panel = static_cast<size_t>(p / kPairPanel);
      if (p % kPairPanel == 0) only[panel] = state.component[p];
      if (only[panel] != state.component[p]) only[panel] = -1;
      least_core[panel] = std::min(least_core[panel], state.core[p]);
    }
    std::vector<int64_t> positions;
    for (int64_t p = 0; p < size(); ++p)
      if (state.component[p] != state.largest &&
          std::max(state.core[p], state.cleared[p]) < least.key(state.component[p]))
        positions.push_back(p);
    for_chunks(static_cast<int64_t>(positions.size()), kPairPanel, run, [&](int64_t, int64_t begin, int64_t end) {
      Block<GowerRow> block(panels_, panels_);
      block.fill(positions.data() + begin, end - begin);
      leave_from(block, state, only, least_core, least, run);
    });
  }

 private:
  using List = std::vector<std::pair<double, int32_t>>;  // ascending by key and row: no order of offers changes it

  void search_panel(Block<GowerRow>& block, int64_t panel, List* lists, double* keys, Run run) const {
    run.poll();
    Tile tile;
    block.classify(panel, tile);
    for (int l = 0; l < block.size(); ++l)
      if (block.query(l) / kPairPanel == panel) tile.possible[l] &= ~(uint32_t{1} << (block.query(l) % kPairPanel));
    block.distances(panel, tile.possible, keys);
    for (int l = 0; l < block.size(); ++l) {
      if (tile.possible[l] == 0) continue;
      List& list = lists[l];
      for_bits(tile.possible[l], [&](int t) {
        const std::pair<double, int32_t> entry{keys[l * kPairPanel + t], static_cast<int32_t>(panel * kPairPanel + t)};
        if (list.back().second >= 0 && !(entry < list.back())) return;
        list.pop_back();
        list.insert(std::upper_bound(list.begin(), list.end(), entry,
                                     [](const auto& a, const auto& b) { return b.second < 0 || a < b; }),
                    entry);
      });
      block.set_radius(l, list.back().first);
    }
  }

  void leave_from(Block<GowerRow>& block, const RoundState& state, const std::vector<int32_t>& only,
                  const std::vector<double>& least_core, LeastEdges& least, Run run) const {
    double limits[kPairPanel], largest = -1;
    int32_t common = state.component[block.query(0)];
    for (int l = 1; l < block.size(); ++l)
      if (state.component[block.query(l)] != common) common = -1;
    const auto shrink = [&] {
      largest = -1;
      for (int l = 0; l < block.size(); ++l) {
        limits[l] = least.key(state.component[block.query(l)]);
        block.set_radius(l, limits[l]);
        largest = std::max(largest, limits[l]);
      }
    };
    shrink();
    std::vector<double> keys(kPairPanel * kPairPanel);
    for (int64_t panel = 0; panel < panels_.count; ++panel) {
      const auto at = static_cast<size_t>(panel);
      if ((common >= 0 && only[at] == common) || least_core[at] >= largest) continue;
      run.poll();
      Tile tile;
      block.classify(panel, tile);
      uint32_t any = 0;
      for (int l = 0; l < block.size(); ++l) {
        for_bits(tile.possible[l], [&](int t) {
          const int64_t q = panel * kPairPanel + t;
          if (state.component[q] == state.component[block.query(l)] || state.core[q] >= limits[l])
            tile.possible[l] &= ~(uint32_t{1} << t);
        });
        any |= tile.possible[l];
      }
      if (any == 0) continue;
      block.distances(panel, tile.possible, keys.data());
      for (int l = 0; l < block.size(); ++l)
        for_bits(tile.possible[l], [&](int t) {
          const int64_t p = block.query(l), q = panel * kPairPanel + t;
          const double key = std::max({keys[static_cast<size_t>(l * kPairPanel + t)], state.core[p], state.core[q]});
          least.offer(state.component[p], key, static_cast<int32_t>(p), static_cast<int32_t>(q));
          least.offer(state.component[q], key, static_cast<int32_t>(q), static_cast<int32_t>(p));
        });
      shrink();
    }
    shrink();
    for (int l = 0; l < block.size(); ++l) state.cleared[block.query(l)] = limits[l];
  }

  Panels<GowerRow> panels_;
};

}  // namespace

std::unique_ptr<ReachabilitySearch> make_gower_search(View<const double, 2> x, const Metric& metric, Run run) {
  check_row_count(x.shape[0]);
  return std::make_unique<GowerSearch>(x, metric, run);
}

}  // namespace knoll
