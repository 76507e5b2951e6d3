// Columns of right-hand sides in the order of KernelPoints, in groups as wide as the small products like them: 12, 8 or
// 4 columns side by side, position after position, or one or two columns apart, leaf after leaf.
#pragma once

#include <cstdint>
#include <vector>

#include "knoll/kernel_points.hpp"

namespace knoll {

class KernelColumns {
 public:
  struct Group {
    int64_t first, count;  // columns
    int64_t width;         // 12, 8, 4: (positions, width), free columns are zero; 2, 1: (leaves, width, kPoints)
    int64_t offset;
  };

  KernelColumns(int64_t leaves, int64_t columns);

  const std::vector<Group>& groups() const { return groups_; }
  double* leaf(const Group& g, int64_t leaf) const { return data_.get() + g.offset + leaf * kPoints * g.width; }

  void clear(Run run);
  void pack(const KernelPoints& points, View<const double, 2> b, Run run);      // b (n, m), rows of the data
  void unpack(const KernelPoints& points, View<double, 2> out, Run run) const;  // out (n, m)

 private:
  int64_t leaves_;
  std::vector<Group> groups_;
  LargeArray<double> data_;
};

}  // namespace knoll
