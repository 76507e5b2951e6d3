#include "knoll/climb.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>

#include "knoll/parallel.hpp"
#include "knoll/radix.hpp"

namespace knoll {
namespace {

constexpr int64_t kStarts = 128;  // of a chunk
constexpr size_t kTogether = 8;   // paths from which on it pays to look for what their balls have in common
constexpr double kNear = 0.05;    // how far apart they may stand for that, in ε
constexpr uint8_t kOpen = 0xff;   // an end that is not known yet

// Sets met before: by which path, after how many steps. One entry per slot, the last one wins.
class Memo {
 public:
  struct Entry {
    SetName name;
    int64_t path = -1, step = 0;
  };

  explicit Memo(int64_t starts)
      : slots_(std::bit_ceil(static_cast<size_t>(std::clamp<int64_t>(4 * starts, 1 << 8, 1 << 18)))) {}

  const Entry* find(const SetName& name) const {
    const Entry& entry = slots_[slot(name)];
    return entry.path >= 0 && entry.name == name ? &entry : nullptr;
  }
  void keep(const SetName& name, int64_t path, int64_t step) { slots_[slot(name)] = {name, path, step}; }
  void forget(const SetName& name, int64_t path) {
    Entry& entry = slots_[slot(name)];
    if (entry.path == path) entry = {};
  }

 private:
  size_t slot(const SetName& name) const { return static_cast<size_t>(name.mix ^ name.key) & (slots_.size() - 1); }

  std::vector<Entry> slots_;
};

// A path on its way.
struct Path {
  std::vector<double> y, before;  // (d) where it stands, and stood
  std::vector<SetName> met;       // the sets it has seen, one per position
  int64_t steps = 0;
  double weight = 0;
  int64_t leader = -1, joined = 0;  // it met, as its last, a set that the leader had met after `joined` steps
  bool moving = true, cycle = false;
  End end = End::unfinished;

  void stop(End why) {
    moving = false;
    end = why;
  }
};

// What one thread needs while it climbs.
struct Climber {
  const BallSums& points;
  const ClimbRules& rules;
  double bound;
  BallSums::Scratch scratch;
  std::vector<int64_t> sums;
  std::vector<Path> paths;
  BallSums::Common common;
  Memo memo;

  Climber(const BallSums& all, const ClimbRules& how, int64_t starts)
      : points(all),
        rules(how),
        bound(ball_bound(how.eps)),
        sums(static_cast<size_t>(all.width())),
        paths(static_cast<size_t>(std::min(starts, kStarts))),
        memo(starts) {}

  template <class Coordinate>
  void begin(Path& path, Coordinate&& coordinate) const {
    path.met.clear();
    path.y.resize(static_cast<size_t>(points.dimension()));
    for (size_t j = 0; j < path.y.size(); ++j) path.y[j] = coordinate(static_cast<int64_t>(j));
    path.steps = 0;
    path.weight = 0;
    path.leader = -1;
    path.moving = true;
    path.cycle = false;
  }

  // Looks around from where the path stands, and takes one step unless it is at its end. met_before(path) is asked of
  // every new set, the last of path.met; where it says yes the path ends there.
  template <class Lookup>
  void advance(Path& path, Lookup&& met_before) {
    points.sum(path.y.data(), bound, scratch, sums.data());
    decide(path, met_before);
  }

  // The same, once `sums` are those of the ball.
  template <class Lookup>
  void decide(Path& path, Lookup&& met_before) {
    if (rules.tol > 0) return advance_until_small(path);
    if (sums[0] == 0) {
      // Off the data. Where ε is below the rounding of the coordinates even a mean may be: then the point stays.
      if (path.steps > 0) {
        --path.steps;
        std::swap(path.y, path.before);
      }
      return path.stop(End::empty);
    }
    path.weight = points.weight(sums.data());
    if (rules.level > 0 && path.weight >= rules.level) return path.stop(End::level);
    const SetName name = points.name(sums.data());
    const auto same = std::find(path.met.begin(), path.met.end(), name);
    if (same != path.met.end()) {
      path.cycle = same + 1 != path.met.end();
      return path.stop(End::fixed);
    }
    path.met.push_back(name);
    if (met_before(path)) return path.stop(End::fixed);
    if (path.steps == rules.max_steps) return path.stop(End::unfinished);
    move(path);
    ++path.steps;
  }

  // The rule of a small step: the last step is taken and not counted.
  void advance_until_small(Path& path) {
    path.weight = points.weight(sums.data());
    if (sums[0] == 0) return path.stop(End::empty);
    move(path);
    double sum = 0;
    for (size_t j = 0; j < path.y.size(); ++j) sum += (path.y[j] - path.before[j]) * (path.y[j] - path.before[j]);
    if (std::sqrt(sum) <= rules.tol) return path.stop(End::small);
    if (path.steps == rules.max_steps) return path.stop(End::unfinished);
    ++path.steps;
  }

  // The box in which some paths stand; is it small beside the ball?
  bool box(const std::vector<int64_t>& some) {
    common.lo = common.hi = paths[static_cast<size_t>(some[0])].y;
    for (const int64_t k : some)
      for (size_t j = 0; j < common.lo.size(); ++j) {
        const double v = paths[static_cast<size_t>(k)].y[j];
        common.lo[j] = std::min(common.lo[j], v);
        common.hi[j] = std::max(common.hi[j], v);
      }
    double diagonal = 0;
    for (size_t j = 0; j < common.lo.size(); ++j)
      diagonal += (common.hi[j] - common.lo[j]) * (common.hi[j] - common.lo[j]);
    return std::sqrt(diagonal) <= kNear * rules.eps;
  }

  void move(Path& path) {
    path.before.resize(path.y.size());
    std::swap(path.y, path.before);
    points.mean(sums.data(), path.y.data());
  }
};

bool alone(const Path&) { return false; }

// The starts in an order in which neighbours follow each other, so that what one path has brought into the caches (and
// into the memo) serves the next: along a Z-curve through cells of the first three coordinates. No result hangs on it.
std::vector<int64_t> along_curve(View<const double, 2> starts, double eps, Run run) {
  const int64_t m = starts.shape[0], d = std::min<int64_t>(starts.shape[1], 3);
  std::vector<int64_t> order(static_cast<size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  if (m <= kStarts || !(eps > 0)) return order;
  constexpr double kCells = 128, kWrap = 0x1p20;  // cells in an ε; 20 bits for each coordinate, again and again
  std::vector<uint64_t> keys(order.size());
  for_chunks(m, 4096, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t key = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double cell = std::floor(starts(i, j) / eps * kCells);
        const auto number = static_cast<uint64_t>(cell - std::floor(cell / kWrap) * kWrap) & 0xfffff;
        for (int64_t bit = 0; bit < 20; ++bit) key |= (number >> bit & 1) << (bit * d + j);
      }
      keys[static_cast<size_t>(i)] = key;
    }
  });
  radix_sort(keys.data(), order.data(), m, run);
  return order;
}

// Climbs from some neighbouring starts at once, a step each in turn: their balls are nearly the same, so what the first
// has brought into the caches serves the others.
void climb_together(Climber& c, View<const double, 2> starts, const int64_t* rows, int64_t count, const ClimbEnds& ends,
                    Run run) {
  const auto begin = [&](int64_t k) {
    c.begin(c.paths[static_cast<size_t>(k)], [&](int64_t j) { return starts(rows[k], j); });
  };
  const auto write = [&](int64_t k) {
    const Path& path = c.paths[static_cast<size_t>(k)];
    const int64_t i = rows[k];
    ends.steps(i) = path.steps;
    ends.weight(i) = path.weight;
    ends.end(i) = static_cast<uint8_t>(path.end);
    for (int64_t j = 0; j < starts.shape[1]; ++j) ends.point(i, j) = path.y[static_cast<size_t>(j)];
  };
  std::vector<int64_t> moving(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    begin(k);
    moving[static_cast<size_t>(k)] = k;
  }
  const auto met_before = [&](int64_t k) {
    return [&c, row = rows[k]](Path& p) {
      if (const Memo::Entry* entry = c.memo.find(p.met.back()); entry != nullptr) {
        p.leader = entry->path;
        p.joined = entry->step;
        return true;
      }
      c.memo.keep(p.met.back(), row, p.steps);
      return false;
    };
  };
  while (!moving.empty()) {
    const bool near = moving.size() >= kTogether && c.box(moving);
    bool first = true, shared = false;
    std::erase_if(moving, [&](int64_t k) {
      run.poll();
      Path& path = c.paths[static_cast<size_t>(k)];
      if (shared) {
        c.points.sum(path.y.data(), c.bound, c.common, c.scratch, c.sums.data());
      } else {
        c.points.sum(path.y.data(), c.bound, c.scratch, c.sums.data());
        if (near && first) shared = c.points.prepare(path.y.data(), c.bound, c.sums.data(), c.scratch, c.common);
      }
      first = false;
      c.decide(path, met_before(k));
      return !path.moving;
    });
  }
  // Those that joined another path end where it ends. A leader of this batch may have joined one itself; its own end is
  // written first. Who joined a path that has no end of its own (a cycle, or too many steps), or would take too many
  // steps behind it, goes again alone.
  std::vector<int64_t> waiting;
  for (int64_t k = 0; k < count; ++k) {
    ends.end(rows[k]) = kOpen;
    waiting.push_back(k);
  }
  for (bool progress = true; progress;) {
    progress = std::erase_if(waiting, [&](int64_t k) {
                 Path& path = c.paths[static_cast<size_t>(k)];
                 if (path.leader < 0) {
                   if (path.cycle || path.end == End::unfinished)
                     for (const SetName& name : path.met) c.memo.forget(name, rows[k]);
                   else
                     write(k);
                   return !path.cycle && path.end != End::unfinished;
                 }
                 const int64_t i = rows[k], leader = path.leader;
                 if (ends.end(leader) == kOpen) return false;
                 const int64_t steps = path.steps + ends.steps(leader) - path.joined;
                 if (steps > c.rules.max_steps) return false;
                 ends.steps(i) = steps;
                 ends.weight(i) = ends.weight(leader);
                 ends.end(i) = ends.end(leader);
                 for (int64_t j = 0; j < starts.shape[1]; ++j) ends.point(i, j) = ends.point(leader, j);
                 return true;
               }) > 0;
  }
  for (const int64_t k : waiting) {
    Path& path = c.paths[static_cast<size_t>(k)];
    for (const SetName& name : path.met) c.memo.forget(name, rows[k]);
    if (path.leader >= 0) {
      begin(k);
      while (path.moving) {
        run.poll();
        c.advance(path, alone);
      }
    }
    write(k);
  }
}

}  // namespace

int64_t climb(const BallSums& points, View<const double, 2> starts, const ClimbRules& rules, const ClimbEnds& ends,
              Run run) {
  const int64_t m = starts.shape[0];
  const std::vector<int64_t> order = along_curve(starts, rules.eps, run);
  std::mutex mutex;
  std::vector<std::unique_ptr<Climber>> idle;  // one per thread at work, kept with what it has learnt
  for_chunks(m, kStarts, run, [&](int64_t, int64_t begin, int64_t end) {
    std::unique_ptr<Climber> climber;
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        climber = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!climber) climber = std::make_unique<Climber>(points, rules, m);
    climb_together(*climber, starts, order.data() + begin, end - begin, ends, run);
    std::lock_guard lock(mutex);
    idle.push_back(std::move(climber));
  });
  int64_t distances = points.distances();
  for (const auto& climber : idle) distances += climber->scratch.distances;
  return distances;
}

void climb_path(const BallSums& points, const double* start, const ClimbRules& rules, std::vector<double>& path,
                Run run) {
  Climber c(points, rules, 1);
  Path& p = c.paths[0];
  c.begin(p, [&](int64_t j) { return start[j]; });
  const auto keep = [&] { path.insert(path.end(), p.y.begin(), p.y.end()); };
  keep();
  for (int64_t kept = 0; p.moving;) {
    run.poll();
    c.advance(p, alone);
    const int64_t steps = p.steps + (rules.tol > 0 && p.end != End::empty && !p.moving ? 1 : 0);
    if (steps > kept) keep();
    if (steps < kept) path.resize(path.size() - p.y.size());
    kept = steps;
  }
}

void on_sphere(const BallSums& points, View<const double, 2> y, double eps, View<uint8_t, 1> out, Run run) {
  const double closed = ball_bound(eps), open = ball_bound(eps, false);
  const int64_t d = points.dimension();
  for_chunks(y.shape[0], kStarts, run, [&](int64_t, int64_t begin, int64_t end) {
    BallSums::Scratch scratch;
    std::vector<int64_t> sums(static_cast<size_t>(points.width()));
    std::vector<double> at(static_cast<size_t>(d));
    for (int64_t i = begin; i < end; ++i) {
      run.poll();
      for (int64_t j = 0; j < d; ++j) at[static_cast<size_t>(j)] = y(i, j);
      points.sum(at.data(), closed, scratch, sums.data());
      const int64_t rows = sums[0];
      points.sum(at.data(), open, scratch, sums.data());
      out(i) = rows != sums[0];
    }
  });
}

}  // namespace knoll
