// Points as float32 panels of 32 neighbours, and the bounds on their rounding (docs/numerics/pairs.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/run.hpp"
#include "common/view.hpp"
#include "simd/kernels.hpp"

namespace knoll {

// x̂ = float((x − center)·2^exponent): the median of a sample and its typical size, so that a few far rows move
// neither. Not the Pivot of kmeans/float32_filter.hpp, which gives the reason.
struct PairPivot {
  std::vector<double> center;  // (d)
  int exponent = 0;
};
template <class T>
PairPivot choose_pivot(View<const T, 2> x, Run run);

// The thresholds that products p ≈ x̂·ŷ are compared with (docs/numerics/pairs.md, P4 to P6). With N = ‖x̂‖², M = ‖ŷ‖²
// and R = r²·4^exponent,
//     high(y) = M/2 + κM + t,                    low(y) = M/2 − κM − t,
//     high(x) = (N − R)/2 + κN + t + λR + η,     low(x) = (N − R)/2 − κN − t − λR − η,
// where κ covers the rounding of x̂, of the product's chain and of N, λ that of R and of the one distance, and t and η
// what underflow hides. Then p ≥ high(x) + high(y) ⟹ D ≤ r², and p < low(x) + low(y) ⟹ D > r².
struct FilterBounds {
  FilterBounds(int64_t d, int exponent);

  struct Range {
    float high, low;
  };
  Range column(double norm) const;          // of M; inf where float32 cannot hold the point
  Range row(double norm, double r2) const;  // of N and r², in the units of the data
  double reach(double r2) const;            // x̂'s farther apart than this are not within r²

  // The nearness of a tile is the largest p − (low(x) + low(y)) of its pairs, without radii; or it comes from a lower
  // bound on their distances in units of x̂. Where it is below that of r², all pairs have D > r² (P10).
  float nearness(double r2) const;
  float nearness_beyond(double gap) const;

  // A bound on ‖x' − c‖ for the exact point x' = (x − center)·2^exponent: ‖x̂ − c‖, computed as √d2, plus the storing
  // error u·‖x̂‖.
  double around(double d2, double norm) const;

  double relative;          // (d + 16)·2^−52: error of float64 sums of d squares, and of what follows
  double per_norm, per_r2;  // κ, λ
  double constant, hidden;  // t, η
  int exponent;
};

// Balls with their centres as column tiles, (balls/32, width, 32).
struct Balls {
  std::vector<double> centers, radii;  // a radius is inf where a row is too far out for float32
  void resize(int64_t count, int64_t width);
  void set(int64_t ball, const std::vector<double>& center, double radius);
};

// Which rows share a panel: those that a tree of cuts along main axes puts together; or first those of a group of near
// rows, for data of many columns that are searched for the nearest rows.
enum class PanelOrder { cuts, groups };

// The n rows of flat (n, width), near ones near each other.
std::vector<int64_t> order_by_groups(const std::vector<float>& flat, int64_t width, int64_t n, Run run);

template <class T>
struct Panels {
  Panels(View<const T, 2> x, PairPivot pivot, Run run, PanelOrder order = PanelOrder::cuts,
         const std::function<void()>& stored = {});  // called as soon as x is not read any more

  View<const T, 2> x;
  PairPivot pivot;
  FilterBounds bounds;
  int64_t width;                 // d, at least 1
  int64_t count;                 // of panels
  std::vector<int64_t> rows;     // (count, 32) rows of x, −1 at free positions
  std::vector<uint32_t> used;    // (count) a bit for every occupied position
  std::vector<float> columns;    // (count, width, 32)
  std::vector<double> norms;     // (count, 32) ‖x̂‖²
  std::vector<float> high, low;  // (count, 32)
  Balls balls, groups;           // around each panel, and around each 32 panels in a row

 private:
  void pack(const std::vector<float>& flat, const std::vector<uint8_t>& far, Run run);
  void enclose();  // the groups
};

}  // namespace knoll
