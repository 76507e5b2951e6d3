// A spatial index over the rows of an array: counts within a radius, nearest rows, connected components.
//
// Queries are points of the same space; nothing is known about whether they are rows. Every answer is a function of the
// rows and the query alone: the structure behind it ("tree" or "tiles") changes the time, not the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/run.hpp"
#include "common/view.hpp"
#include "neighbors/metric.hpp"

namespace knoll {

// Rows are numbered in 31 bits. Throws std::length_error where there are more.
void check_row_count(int64_t n);

class Index {
 public:
  virtual ~Index() = default;

  // Keeps the view x: the array must outlive the index. backend: auto, tree or tiles; auto chooses by the
  // shape and by the radius of the coming queries (0: not known, tree).
  template <class T>
  static std::unique_ptr<Index> make(View<const T, 2> x, double radius_hint, const Metric& metric,
                                     const std::string& backend, Run run);

  virtual std::string backend() const = 0;
  virtual int64_t size() const = 0;
  const Metric& metric() const { return metric_; }

  // out(i) = the number of rows within `radius` of query i, or, with weights, their exact sum rounded once. Without
  // weights counting may stop at stop_at: then out(i) is at least that.
  virtual void count(View<const double, 2> queries, double radius, double stop_at, View<const double, 1> weights,
                     View<double, 1> out, Run run) const = 0;

  // The k nearest rows of each query, nearest first, ties to the lowest row; −1 at infinity past the last row.
  virtual void knn(View<const double, 2> queries, View<double, 2> distance, View<int64_t, 2> row, Run run) const = 0;

  // The nearest of the rows that the mask allows (empty: all) within `radius`; ties to the lexicographically smallest
  // coordinates, then to the lowest row; −1 at infinity: none.
  virtual void nearest(View<const double, 2> queries, double radius, View<const uint8_t, 1> mask, View<int64_t, 1> row,
                       View<double, 1> distance, Run run) const = 0;

  // The lowest row within `radius` of each query; −1: none.
  virtual void first(View<const double, 2> queries, double radius, View<int64_t, 1> row, Run run) const = 0;

  // Connected components of the rows that the mask allows, joined where they are within `radius`, numbered by their
  // lowest row; −1 off the mask. Returns how many.
  virtual int64_t components(double radius, View<const uint8_t, 1> mask, View<int64_t, 1> labels, Run run) const = 0;

 protected:
  explicit Index(const Metric& metric) : metric_(metric) {}
  Metric metric_;
};

}  // namespace knoll
