// Points as float32 panels of 32 that lie close together, with what is known about the rounding
// (docs/decisions/0012-certified-pairs.md).
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/run.hpp"
#include "knoll/simd.hpp"
#include "knoll/view.hpp"

namespace knoll {

// x̂ = float((x − center)·2^exponent): median and size of a sample, so that a few far rows do not matter.
struct Frame {
  std::vector<double> center;  // (d)
  int exponent = 0;
};
template <class T>
Frame frame_of(View<const T, 2> x, Run run);

// Thresholds that products of rounded points are compared with, eq. 4 to 6 of the decision.
struct Certificate {
  Certificate(int64_t d, int exponent);

  struct Range {
    float high, low;
  };
  Range column(double norm) const;          // ‖x̂‖², or inf where x̂ is not to be had
  Range row(double norm, double r2) const;  // r2 in the units of the data
  double reach(double r2) const;            // x̂'s farther apart than this are not within r2

  // How far a point may be from c, where ‖x̂ − c‖² was computed as d2 and ‖x̂‖² as norm.
  double around(double d2, double norm) const;

  double relative;          // of the one distance and of norms in float64
  double per_norm, per_r2;  // κ, λ
  double constant, hidden;  // what underflow may hide: in float32, and in the one distance
  int exponent;
};

// Balls with their centres as column tiles, (balls/32, width, 32).
struct Balls {
  std::vector<double> centers, radii;  // a radius is inf where a row is too far out for float32
  void resize(int64_t count, int64_t width);
  void set(int64_t ball, const std::vector<double>& center, double radius);
};

template <class T>
struct Panels {
  Panels(View<const T, 2> x, Frame frame, Run run);

  View<const T, 2> x;
  Frame frame;
  Certificate certificate;
  int64_t width;                 // d, at least 1
  int64_t count;                 // of panels
  std::vector<int64_t> rows;     // (count, 32) rows of x, −1 in places left free
  std::vector<uint32_t> used;    // (count) a bit for every place that is not free
  std::vector<float> columns;    // (count, width, 32)
  std::vector<double> norms;     // (count, 32) ‖x̂‖²
  std::vector<float> high, low;  // (count, 32)
  Balls balls, groups;           // around each panel, and around each 32 panels in a row

 private:
  void pack(const std::vector<float>& flat, const std::vector<uint8_t>& far, Run run);
  void enclose();  // the groups
};

}  // namespace knoll
