#include "knoll/climb.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

#include "knoll/parallel.hpp"

namespace knoll {
namespace {

constexpr int64_t kStarts = 64;  // of a chunk

// Sets met before: which path met it, and how many steps that path went on for. One entry per slot, the last one wins.
class Memo {
 public:
  struct Entry {
    SetName name;
    int64_t path = -1, left = 0;
  };

  explicit Memo(int64_t starts)
      : slots_(std::bit_ceil(static_cast<size_t>(std::clamp<int64_t>(4 * starts, 1 << 8, 1 << 18)))) {}

  const Entry* find(const SetName& name) const {
    const Entry& entry = slots_[slot(name)];
    return entry.path >= 0 && entry.name == name ? &entry : nullptr;
  }
  void keep(const SetName& name, int64_t path, int64_t left) { slots_[slot(name)] = {name, path, left}; }

 private:
  size_t slot(const SetName& name) const { return static_cast<size_t>(name.mix ^ name.key) & (slots_.size() - 1); }

  std::vector<Entry> slots_;
};

// What one thread needs while it climbs.
struct Climber {
  const BallSums& points;
  const ClimbRules& rules;
  double bound;
  BallSums::Scratch scratch;
  std::vector<int64_t> sums;
  std::vector<double> y, next;
  std::vector<SetName> met;
  Memo memo;

  Climber(const BallSums& all, const ClimbRules& how, int64_t starts)
      : points(all),
        rules(how),
        bound(ball_bound(how.eps)),
        sums(static_cast<size_t>(all.width())),
        y(static_cast<size_t>(all.dimension())),
        next(y),
        memo(starts) {}

  void look(const std::vector<double>& at) { points.sum(at.data(), bound, scratch, sums.data()); }
  bool high() const { return rules.level > 0 && points.weight(sums.data()) >= rules.level; }

  bool small_step() const {
    double sum = 0;
    for (size_t j = 0; j < y.size(); ++j) sum += (next[j] - y[j]) * (next[j] - y[j]);
    return std::sqrt(sum) <= rules.tol;
  }
};

struct Walk {
  End end;
  int64_t steps;
  double weight;
  bool cycle = false;  // the set that repeats is not the last one: where the path ends hangs on where it came from
};

// Climbs from c.y, which becomes the end. lookup(name, steps) may know the rest: then the walk ends there, as
// End::fixed with c.met holding the sets up to that one. visit() sees every new position.
template <class Lookup, class Visit>
Walk walk(Climber& c, Run run, Lookup&& lookup, Visit&& visit) {
  c.met.clear();
  c.look(c.y);
  for (int64_t steps = 0;; ++steps) {
    run.poll();
    if (c.sums[0] == 0) return {End::empty, steps, 0.0};
    const double weight = c.points.weight(c.sums.data());
    if (c.high()) return {End::level, steps, weight};
    const SetName name = c.points.name(c.sums.data());
    if (c.rules.tol == 0) {
      const auto same = std::find(c.met.begin(), c.met.end(), name);
      if (same != c.met.end()) return {End::fixed, steps, weight, same + 1 != c.met.end()};
      c.met.push_back(name);
      if (lookup(name, steps)) return {End::fixed, steps, weight};
    }
    if (steps == c.rules.max_steps && c.rules.tol == 0) return {End::unfinished, steps, weight};
    c.points.mean(c.sums.data(), c.next.data());
    const bool small = c.rules.tol > 0 && c.small_step();
    if (!small && !(c.rules.tol > 0 && steps == c.rules.max_steps)) {
      c.look(c.next);
      // Where ε is below the rounding of the coordinates, a mean may have no neighbour: then the point stays.
      if (c.sums[0] == 0 && c.rules.tol == 0) return {End::empty, steps, weight};
    }
    std::swap(c.y, c.next);
    visit();
    if (small) return {End::small, steps, weight};
    if (c.rules.tol > 0 && steps == c.rules.max_steps) return {End::unfinished, steps, weight};
  }
}

}  // namespace

void climb(const BallSums& points, View<const double, 2> starts, const ClimbRules& rules, const ClimbEnds& ends,
           Run run) {
  const int64_t m = starts.shape[0], d = points.dimension();
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
    Climber& c = *climber;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < d; ++j) c.y[static_cast<size_t>(j)] = starts(i, j);
      const Memo::Entry* known = nullptr;
      const Walk way = walk(
          c, run,
          [&](const SetName& name, int64_t steps) {
            known = c.memo.find(name);
            if (known != nullptr && steps + known->left > rules.max_steps) known = nullptr;
            return known != nullptr;
          },
          [] {});
      ends.steps(i) = way.steps;
      ends.weight(i) = way.weight;
      ends.end(i) = static_cast<uint8_t>(way.end);
      for (int64_t j = 0; j < d; ++j) ends.point(i, j) = c.y[static_cast<size_t>(j)];
      if (known != nullptr) {
        const int64_t k = known->path;
        ends.steps(i) += known->left;
        ends.weight(i) = ends.weight(k);
        ends.end(i) = ends.end(k);
        for (int64_t j = 0; j < d; ++j) ends.point(i, j) = ends.point(k, j);
      }
      if (way.cycle || way.end == End::unfinished) continue;
      for (size_t t = 0; t < c.met.size(); ++t)
        c.memo.keep(c.met[t], i, ends.steps(i) - static_cast<int64_t>(t));
    }
    std::lock_guard lock(mutex);
    idle.push_back(std::move(climber));
  });
}

void climb_path(const BallSums& points, const double* start, const ClimbRules& rules, std::vector<double>& path,
                Run run) {
  Climber c(points, rules, 1);
  std::copy_n(start, points.dimension(), c.y.begin());
  path.insert(path.end(), c.y.begin(), c.y.end());
  walk(
      c, run, [](const SetName&, int64_t) { return false; }, [&] { path.insert(path.end(), c.y.begin(), c.y.end()); });
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
