#include <numeric>

#include "knoll/ball_blocks.hpp"
#include "knoll/parallel.hpp"
#include "knoll/union_find.hpp"

namespace knoll {

double ball_bound(double eps, bool closed) {
  const auto outside = [&](double s) { return closed ? std::sqrt(s) > eps : std::sqrt(s) >= eps; };
  if (!closed && eps == 0) return -1.0;
  double s = eps * eps;
  while (outside(s)) s = std::nextafter(s, -1.0);
  for (double up = std::nextafter(s, HUGE_VAL); !outside(up); up = std::nextafter(up, HUGE_VAL)) s = up;
  return s;
}

void Blocks::pack(const double* x, const std::vector<int64_t>& order, const std::vector<int64_t>& ends) {
  size = 0;
  group_end.clear();
  int64_t from = 0;
  for (const int64_t end : ends) {
    size += (end - from + kBlock - 1) / kBlock;
    group_end.push_back(size);
    from = end;
  }
  coords.assign(static_cast<size_t>(size * d * kBlock), std::numeric_limits<double>::infinity());
  row.assign(static_cast<size_t>(size * kBlock), -1);
  int64_t block = 0, at = 0;
  for (const int64_t end : ends) {
    for (; at < end; ++block)
      for (int64_t lane = 0; lane < kBlock && at < end; ++lane, ++at) {
        const int64_t i = order[static_cast<size_t>(at)];
        row[static_cast<size_t>(block * kBlock + lane)] = i;
        for (int64_t j = 0; j < d; ++j) coords[static_cast<size_t>((block * d + j) * kBlock + lane)] = x[i * d + j];
      }
  }
}

BlockTree::BlockTree(const double* x, int64_t n, int64_t d, int64_t leaf, Run run) {
  std::vector<int64_t> order(static_cast<size_t>(n)), ends;
  std::iota(order.begin(), order.end(), 0);
  blocks_.d = d;

  // Depth first, so that groups come in the order of their rows; nodes hold ranges of groups for now.
  struct Task {
    int64_t begin, end;
    int32_t node;
  };
  nodes_.push_back({});
  std::vector<Task> tasks{{0, n, 0}};
  while (!tasks.empty()) {
    run.poll();
    const Task task = tasks.back();
    tasks.pop_back();
    boxes_.resize(nodes_.size() * static_cast<size_t>(2 * d));
    double* const box = boxes_.data() + static_cast<int64_t>(task.node) * 2 * d;
    int64_t widest = 0;
    double width = -1;
    for (int64_t j = 0; j < d; ++j) {
      double low = HUGE_VAL, high = -HUGE_VAL;
      for (int64_t i = task.begin; i < task.end; ++i) {
        const double v = x[order[static_cast<size_t>(i)] * d + j];
        low = std::min(low, v);
        high = std::max(high, v);
      }
      box[2 * j] = low;
      box[2 * j + 1] = high;
      if (high - low > width) width = high - low, widest = j;
    }
    Node& node = nodes_[static_cast<size_t>(task.node)];
    if (task.end - task.begin <= leaf || !(width > 0)) {  // equal points stay together, however many
      node = {static_cast<int64_t>(ends.size()), static_cast<int64_t>(ends.size()) + 1, -1};
      ends.push_back(task.end);
      continue;
    }
    // Whole leaves on both sides, the row number breaking ties: one answer, whatever the library's selection does.
    const int64_t middle = task.begin + (task.end - task.begin + 2 * leaf - 1) / (2 * leaf) * leaf;
    const auto before = [&](int64_t a, int64_t b) {
      const double u = x[a * d + widest], v = x[b * d + widest];
      return u < v || (u == v && a < b);
    };
    const auto at = [&](int64_t i) { return order.begin() + i; };
    std::nth_element(at(task.begin), at(middle), at(task.end), before);
    const auto child = static_cast<int32_t>(nodes_.size());
    node.child = child;
    nodes_.push_back({});
    nodes_.push_back({});
    tasks.push_back({middle, task.end, child + 1});
    tasks.push_back({task.begin, middle, child});
  }
  // Children come after their parents, so going backwards every node's range is known before its parent asks.
  for (auto at = static_cast<int64_t>(nodes_.size()) - 1; at >= 0; --at) {
    Node& node = nodes_[static_cast<size_t>(at)];
    if (node.child < 0) continue;
    node.begin = nodes_[static_cast<size_t>(node.child)].begin;
    node.end = nodes_[static_cast<size_t>(node.child) + 1].end;
  }
  blocks_.pack(x, order, ends);
  const auto block = [&](int64_t group) {
    return group == 0 ? int64_t{0} : blocks_.group_end[static_cast<size_t>(group - 1)];
  };
  for (Node& node : nodes_) node = {block(node.begin), block(node.end), node.child};
}

namespace {

double lane_distance(const Blocks& blocks, int64_t block, int64_t lane, const double* y) {
  double sum = 0;
  for (int64_t j = 0; j < blocks.d; ++j) {
    const double difference = blocks.coord(block, j, lane) - y[j];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

int64_t BlockTree::nearest(const double* y, std::vector<int32_t>& stack, double* d2) const {
  double best = HUGE_VAL;
  int64_t found = -1;
  const auto near = [&](int32_t at) {
    const double* const box = box_of(at);
    double sum = 0;
    for (int64_t j = 0; j < blocks_.d; ++j) {
      const double gap = std::max(std::max(box[2 * j] - y[j], y[j] - box[2 * j + 1]), 0.0);
      sum += gap * gap;
    }
    return sum;
  };
  stack.assign(1, 0);
  while (!stack.empty()) {
    const int32_t at = stack.back();
    stack.pop_back();
    if (near(at) > best) continue;
    const Node& node = nodes_[static_cast<size_t>(at)];
    if (node.child >= 0) {  // the nearer child on top
      const bool first = near(node.child) <= near(node.child + 1);
      stack.push_back(first ? node.child + 1 : node.child);
      stack.push_back(first ? node.child : node.child + 1);
      continue;
    }
    for (int64_t b = node.begin; b < node.end; ++b)
      for (int64_t lane = 0; lane < kBlock; ++lane) {
        const int64_t i = blocks_.row[static_cast<size_t>(b * kBlock + lane)];
        if (i < 0) continue;
        const double sum = lane_distance(blocks_, b, lane, y);
        if (found < 0 || sum < best || (sum == best && i < found)) best = sum, found = i;
      }
  }
  *d2 = best;
  return found;
}

int64_t BlockTree::components(const double* x, double bound, int64_t* label, Run run) const {
  const int64_t n = static_cast<int64_t>(blocks_.row.size());  // lanes; absent ones stay alone and are skipped below
  UnionFind<int64_t> lanes(n);
  // A clump is a node whose points are all within the ball of each other: joined at once, and met by one of them.
  std::vector<char> clump(nodes_.size(), 0);
  std::vector<int32_t> walk{0};
  const auto first_lane = [&](const Node& node) { return node.begin * kBlock; };
  const auto unite_range = [&](int64_t from, int64_t begin, int64_t end) {
    for (int64_t lane = begin * kBlock; lane < end * kBlock; ++lane)
      if (blocks_.row[static_cast<size_t>(lane)] >= 0) lanes.unite_shared(from, lane);
  };
  while (!walk.empty()) {
    const int32_t at = walk.back();
    walk.pop_back();
    const Node& node = nodes_[static_cast<size_t>(at)];
    const double* const box = box_of(at);
    double diagonal = 0;
    for (int64_t j = 0; j < blocks_.d; ++j) {
      const double side = box[2 * j + 1] - box[2 * j];
      diagonal += side * side;
    }
    if (diagonal <= bound) {
      clump[static_cast<size_t>(at)] = 1;
      unite_range(first_lane(node), node.begin, node.end);
    } else if (node.child >= 0) {
      walk.push_back(node.child);
      walk.push_back(node.child + 1);
    }
  }
  for_chunks(n, 256, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<int32_t> stack;
    for (int64_t lane = begin; lane < end; ++lane) {
      const int64_t i = blocks_.row[static_cast<size_t>(lane)];
      if (i < 0) continue;
      if (lane % 32 == 0) run.poll();
      const double* const y = x + i * blocks_.d;
      stack.assign(1, 0);
      while (!stack.empty()) {
        const int32_t at = stack.back();
        stack.pop_back();
        const Node& node = nodes_[static_cast<size_t>(at)];
        const double* const box = box_of(at);
        double near = 0;
        for (int64_t j = 0; j < blocks_.d; ++j) {
          const double gap = std::max(std::max(box[2 * j] - y[j], y[j] - box[2 * j + 1]), 0.0);
          near += gap * gap;
        }
        if (near > bound) continue;
        const bool one = clump[static_cast<size_t>(at)] != 0;
        if (one && lanes.same_shared(lane, first_lane(node))) continue;
        if (!one && node.child >= 0) {
          stack.push_back(node.child + 1);
          stack.push_back(node.child);
          continue;
        }
        for (int64_t b = node.begin, joined = 0; b < node.end && !joined; ++b)
          for (int64_t other = 0; other < kBlock; ++other) {
            if (blocks_.row[static_cast<size_t>(b * kBlock + other)] < 0) continue;
            if (lane_distance(blocks_, b, other, y) > bound) continue;
            lanes.unite_shared(lane, b * kBlock + other);
            if (one) {
              joined = 1;
              break;
            }
          }
      }
    }
  });
  // Numbered by lowest rows, not by lowest lanes.
  int64_t rows = 0;
  for (const int64_t i : blocks_.row) rows = std::max(rows, i + 1);
  std::vector<int64_t> lane_of(static_cast<size_t>(rows)), number(static_cast<size_t>(n), -1);
  for (int64_t lane = 0; lane < n; ++lane)
    if (const int64_t i = blocks_.row[static_cast<size_t>(lane)]; i >= 0) lane_of[static_cast<size_t>(i)] = lane;
  int64_t count = 0;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t& c = number[static_cast<size_t>(lanes.find(lane_of[static_cast<size_t>(i)]))];
    if (c < 0) c = count++;
    label[i] = c;
  }
  return count;
}

}  // namespace knoll
