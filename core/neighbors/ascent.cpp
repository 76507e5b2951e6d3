#include "neighbors/ascent.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>

#include "common/parallel.hpp"
#include "common/radix_sort.hpp"
#include "neighbors/metric.hpp"

namespace knoll {
namespace {

// Starts that take their steps in turn: their balls are read from the caches, and 128 share what is common to them.
constexpr int64_t kStarts = 128;  // of a chunk
constexpr size_t kTogether = 8;   // paths from which on sharing the common rows of their balls pays
constexpr double kNear = 0.05;    // the diagonal of their box for that, in ε
constexpr uint8_t kOpen = 0xff;   // an end that is not known yet

// A cache of visited sets: by which path, after how many steps. One entry per slot, the last one wins; a lost entry
// costs time only. At most 2¹⁸ slots, 10 MB.
class SetCache {
 public:
  struct Entry {
    Fingerprint set;
    int64_t path = -1, step = 0;
  };

  explicit SetCache(int64_t starts)
      : slots_(std::bit_ceil(static_cast<size_t>(std::clamp<int64_t>(4 * starts, 1 << 8, 1 << 18)))) {}

  // A hit compares all 128 bits, so two sets in one slot are distinguished.
  const Entry* find(const Fingerprint& set) const {
    const Entry& entry = slots_[slot(set)];
    return entry.path >= 0 && entry.set == set ? &entry : nullptr;
  }
  void insert(const Fingerprint& set, int64_t path, int64_t step) { slots_[slot(set)] = {set, path, step}; }
  void erase(const Fingerprint& set, int64_t path) {
    Entry& entry = slots_[slot(set)];
    if (entry.path == path) entry = {};
  }

 private:
  // key is a sum of random numbers and mix a hash: any bits of them are as good as others.
  size_t slot(const Fingerprint& set) const { return static_cast<size_t>(set.mix ^ set.key) & (slots_.size() - 1); }

  std::vector<Entry> slots_;
};

// The state of one path.
struct Path {
  std::vector<double> y, before;  // (d) the current and the previous position
  // Of this path alone, without limit: a cycle must be found whatever the shared table has lost.
  std::vector<Fingerprint> visited;  // the fingerprint of N_ε at every position
  int64_t steps = 0;
  double weight = 0;
  int64_t leader = -1, joined = 0;  // its last set is the leader's after `joined` steps
  bool moving = true, cycle = false;
  End end = End::unfinished;

  void stop(End why) {
    moving = false;
    end = why;
  }
};

// One thread's points, scratch and cache.
struct AscentWorker {
  const BallSums& points;
  const AscentRules& rules;
  double bound;
  BallSums::Scratch scratch;
  std::vector<int64_t> sums;
  std::vector<Path> paths;
  BallSums::Common common;
  SetCache cache;

  AscentWorker(const BallSums& all, const AscentRules& how, int64_t starts)
      : points(all),
        rules(how),
        bound(largest_square(how.eps)),
        sums(static_cast<size_t>(all.width())),
        paths(static_cast<size_t>(std::min(starts, kStarts))),
        cache(starts) {}

  template <class Coordinate>
  void begin(Path& path, Coordinate&& coordinate) const {
    path.visited.clear();
    path.y.resize(static_cast<size_t>(points.dimension()));
    for (size_t j = 0; j < path.y.size(); ++j) path.y[j] = coordinate(static_cast<int64_t>(j));
    path.steps = 0;
    path.weight = 0;
    path.leader = -1;
    path.moving = true;
    path.cycle = false;
  }

  // Sums the ball about the current position and takes one step, unless the path ends there. visited_before(path) is
  // called for every new set, the last of path.visited; true ends the path.
  template <class Lookup>
  void advance(Path& path, Lookup&& visited_before) {
    points.sum(path.y.data(), bound, scratch, sums.data());
    decide(path, visited_before);
  }

  // The same, once `sums` are those of the ball.
  template <class Lookup>
  void decide(Path& path, Lookup&& visited_before) {
    if (rules.tol > 0) return advance_until_small(path);
    if (sums[0] == 0) {
      // No point within ε. Where ε is below the rounding of the coordinates, that can happen to a mean: the previous
      // position stays.
      if (path.steps > 0) {
        --path.steps;
        std::swap(path.y, path.before);
      }
      return path.stop(End::empty);
    }
    path.weight = points.weight(sums.data());
    // Before the set is searched: a path that begins inside the level makes no step.
    if (rules.level > 0 && path.weight >= rules.level) return path.stop(End::level);
    const Fingerprint set = points.fingerprint(sums.data());
    // The set repeats: a fixed point if it was the last one. An earlier one is a cycle, which only rounding makes: in
    // exact arithmetic every step that changes the set raises f (eq. 6.1).
    // Linear, because paths have about ten steps.
    const auto same = std::find(path.visited.begin(), path.visited.end(), set);
    if (same != path.visited.end()) {
      path.cycle = same + 1 != path.visited.end();
      return path.stop(End::fixed);
    }
    path.visited.push_back(set);
    if (visited_before(path)) return path.stop(End::fixed);
    if (path.steps == rules.max_steps) return path.stop(End::unfinished);
    move(path);
    ++path.steps;
  }

  // The stopping rule of scikit-learn: ‖y' − y‖ ≤ tol. The last step is taken and not counted.
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

  // Sets the box of the paths' positions; whether its diagonal is small beside ε, so that their balls share most rows.
  // Where the box is 0.05 ε wide, only rows near the sphere, in a shell of about that width, differ from ball to ball.
  bool box(const std::vector<int64_t>& members) {
    common.lo = common.hi = paths[static_cast<size_t>(members[0])].y;
    for (const int64_t k : members)
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

  // y ← mean of the ball, a function of the set alone.
  void move(Path& path) {
    path.before.resize(path.y.size());
    std::swap(path.y, path.before);
    points.mean(sums.data(), path.y.data());
  }
};

bool never(const Path&) { return false; }  // for a path that uses no cache

// The starts along a Z-curve through grid cells of the first three coordinates, so that neighbours follow each other
// and find balls and visited sets of the path before in the caches. No result depends on the order.
std::vector<int64_t> along_curve(View<const double, 2> starts, double eps, Run run) {
  const int64_t m = starts.shape[0], d = std::min<int64_t>(starts.shape[1], 3);
  std::vector<int64_t> order(static_cast<size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  if (m <= kStarts || !(eps > 0)) return order;
  constexpr double kCells = 128, kWrap = 0x1p20;  // grid cells per ε; 20 bits for each coordinate, modulo
  std::vector<uint64_t> keys(order.size());
  for_chunks(m, 4096, run, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t key = 0;
      for (int64_t j = 0; j < d; ++j) {
        // 128 cells to ε: starts of one cell soon share their sets. Numbers wrap around, which may put far starts next
        // to each other and costs time only.
        const double cell = std::floor(starts(i, j) / eps * kCells);
        const auto number = static_cast<uint64_t>(cell - std::floor(cell / kWrap) * kWrap) & 0xfffff;
        // Bits of the coordinates interleaved: starts that agree in the leading bits of all are neighbours.
        for (int64_t bit = 0; bit < 20; ++bit) key |= (number >> bit & 1) << (bit * d + j);
      }
      keys[static_cast<size_t>(i)] = key;
    }
  });
  radix_sort(keys.data(), order.data(), m, run);
  return order;
}

// Ascends from a batch of neighbouring starts, one step each in turn: their balls share most rows, which are summed
// once (BallSums::prepare) or at least found in the caches.
void ascend_batch(AscentWorker& c, View<const double, 2> starts, const int64_t* rows, int64_t count,
                  const AscentEnds& ends, Run run) {
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
  // A known set ends the path: from there on it coincides with the leader's. A new one is entered for later paths.
  const auto visited_before = [&](int64_t k) {
    return [&c, row = rows[k]](Path& p) {
      if (const SetCache::Entry* entry = c.cache.find(p.visited.back()); entry != nullptr) {
        p.leader = entry->path;
        p.joined = entry->step;
        return true;
      }
      c.cache.insert(p.visited.back(), row, p.steps);
      return false;
    };
  };
  while (!moving.empty()) {
    // The first path of a round sums its whole ball; if the others are near, its rows are split into S and C
    // (BallSums::Common), and each further ball checks C alone.
    // Below eight paths the gathering of C costs more than it saves.
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
      c.decide(path, visited_before(k));
      return !path.moving;
    });
  }
  // A path that reached a leader's set ends where the leader ends, after steps + (leader's steps − joined). A leader of
  // this batch may follow another one, so ends are filled in until nothing changes. A leader without an end of its own
  // (a cycle, whose last position depends on where it was entered, or too many steps), one that stayed where it was
  // because the mean is off the data, or one beyond max_steps cannot be followed: such paths run again, without the
  // cache.
  std::vector<int64_t> waiting;
  for (int64_t k = 0; k < count; ++k) {
    ends.end(rows[k]) = kOpen;
    waiting.push_back(k);
  }
  for (bool progress = true; progress;) {
    progress = std::erase_if(waiting, [&](int64_t k) {
                 Path& path = c.paths[static_cast<size_t>(k)];
                 if (path.leader < 0) {
                   // docs/numerics/balls.md, B6: entries of such a path must not lead others to its end.
                   const bool open = path.cycle || path.end == End::unfinished;
                   if (open || path.end == End::empty)
                     for (const Fingerprint& set : path.visited) c.cache.erase(set, rows[k]);
                   if (!open) write(k);
                   return !open;
                 }
                 const int64_t i = rows[k], leader = path.leader;
                 if (ends.end(leader) == kOpen || ends.end(leader) == static_cast<uint8_t>(End::empty)) return false;
                 // Steps are counted as if the path had gone on by itself, so results do not depend on who came first.
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
    for (const Fingerprint& set : path.visited) c.cache.erase(set, rows[k]);
    if (path.leader >= 0) {
      begin(k);
      while (path.moving) {
        run.poll();
        c.advance(path, never);
      }
    }
    write(k);
  }
}

}  // namespace

int64_t ascend(const BallSums& points, View<const double, 2> starts, const AscentRules& rules, const AscentEnds& ends,
               Run run) {
  const int64_t m = starts.shape[0];
  const std::vector<int64_t> order = along_curve(starts, rules.eps, run);
  std::mutex mutex;
  // A table per thread: sharing one would need locks, and a lost entry costs time only.
  std::vector<std::unique_ptr<AscentWorker>> idle;  // one per active thread, with its cache
  for_chunks(m, kStarts, run, [&](int64_t, int64_t begin, int64_t end) {
    std::unique_ptr<AscentWorker> worker;
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        worker = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!worker) worker = std::make_unique<AscentWorker>(points, rules, m);
    ascend_batch(*worker, starts, order.data() + begin, end - begin, ends, run);
    std::lock_guard lock(mutex);
    idle.push_back(std::move(worker));
  });
  int64_t distances = points.distances();
  for (const auto& worker : idle) distances += worker->scratch.distances;
  return distances;
}

void ascent_path(const BallSums& points, const double* start, const AscentRules& rules, std::vector<double>& path,
                 Run run) {
  AscentWorker c(points, rules, 1);
  Path& p = c.paths[0];
  c.begin(p, [&](int64_t j) { return start[j]; });
  const auto keep = [&] { path.insert(path.end(), p.y.begin(), p.y.end()); };
  keep();
  for (int64_t kept = 0; p.moving;) {
    run.poll();
    c.advance(p, never);
    // The last step under `tol` is taken and not counted, so it is counted here; a step back from an empty ball is
    // removed.
    const int64_t steps = p.steps + (rules.tol > 0 && p.end != End::empty && !p.moving ? 1 : 0);
    if (steps > kept) keep();
    if (steps < kept) path.resize(path.size() - p.y.size());
    kept = steps;
  }
}

// A point with computed distance exactly ε is in the closed ball and not in the open one: the counts differ.
void on_sphere(const BallSums& points, View<const double, 2> y, double eps, View<uint8_t, 1> out, Run run) {
  const double closed = largest_square(eps), open = largest_square(eps, false);
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
