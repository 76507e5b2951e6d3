// A metric as an argument of a binding: its name, and what it depends on.
#pragma once

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <nanobind/stl/variant.h>

#include "convert.hpp"
#include "neighbors/metric.hpp"

namespace knoll::python {

// The power of minkowski; for gower the weights of the columns, negative ones of categories.
using MetricParameter = std::variant<In<double, 1>, double>;

// The metric for rows of T. Missing values are numbers of float64, so gower has no other rows.
template <class T>
Metric metric_of(const std::string& name, const MetricParameter& p, int64_t d) {
  if (name != "gower") {
    need(std::holds_alternative<double>(p), "p must be a number");
    return Metric(Metric::named(name), std::get<double>(p), d);
  }
  need((std::is_same_v<T, double>), "gower takes rows of float64");
  need(std::holds_alternative<In<double, 1>>(p), "p must be an array of weights for gower");
  const auto& parameters = std::get<In<double, 1>>(p);
  check_memory({array("p", parameters)});
  const auto weights = view<1>(parameters);
  need(weights.shape[0] == d, "p must have one entry per column");
  std::vector<double> each;
  for (int64_t j = 0; j < d; ++j) each.push_back(weights(j));
  return Metric(std::move(each));
}

}  // namespace knoll::python
