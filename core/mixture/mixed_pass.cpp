// Groups of rows are processed chunk by chunk, pieces of at most kPiece rows at a time; the kernels see one pattern of
// missing values and components in lanes (mixture/mixed_pass-inl.hpp).
#include "mixture/mixed_pass.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/parallel.hpp"
#include "simd/kernels.hpp"

namespace knoll {
namespace {

constexpr int64_t kPiece = 64;    // rows of a piece: kMixedRows of the kernels
constexpr int64_t kChunk = 2048;  // rows of a chunk: a group that goes on in the next is factorised there again
constexpr int64_t kNarrow = 4, kWide = 8;  // components side by side

size_t size_of(int64_t count) { return static_cast<size_t>(count); }

// The parameters with components in lanes.
struct Packed {
  int64_t k, p, levels, blocks, width;
  bool full;
  std::vector<double> constants, means, pivots, scales, table;

  Packed(const MixedParameters& model, View<const double, 2> about)
      : k(model.means.shape[0]),
        p(model.means.shape[1]),
        levels(model.table.shape[0]),
        blocks(0),
        width(k <= kNarrow ? kNarrow : kWide),
        full(model.full) {
    blocks = (k + width - 1) / width;
    constants.assign(size_of(lanes()), -std::numeric_limits<double>::infinity());
    for (int64_t c = 0; c < k; ++c) constants[size_of(c)] = model.log_weights(c);
    means = packed(p, 0.0, [&](int64_t c, int64_t j) { return model.means(c, j); });
    if (!about.empty()) pivots = packed(p, 0.0, [&](int64_t c, int64_t j) { return about(c, j); });
    // Lanes beyond the last component have Σ = I: whatever is computed in them is finite.
    const int64_t side = full ? p * p : p;
    scales = packed(side, 1.0, [&](int64_t c, int64_t j) { return model.scales(c, j); });
    table = packed(levels, 0.0, [&](int64_t c, int64_t j) { return model.table(j, c); });
  }

  int64_t lanes() const { return blocks * width; }
  size_t at(int64_t c, int64_t entries, int64_t j) const {
    return size_of((c / width * entries + j) * width + c % width);
  }
  int64_t moments() const { return mixed_component_sums(p, full); }

  MixedModel view() const {
    return {blocks,        width,        p,     full, means.data(), pivots.empty() ? means.data() : pivots.data(),
            scales.data(), table.data(), levels};
  }

 private:
  template <class F>
  std::vector<double> packed(int64_t entries, double fill, F&& value) const {
    std::vector<double> out(size_of(lanes() * entries), fill);
    const int64_t diagonal = full && fill == 1.0 ? p + 1 : 0;
    for (int64_t c = k; diagonal > 0 && c < lanes(); ++c)
      for (int64_t j = 0; j < entries; ++j) out[at(c, entries, j)] = j % diagonal == 0 ? 1.0 : 0.0;
    for (int64_t c = 0; c < k; ++c)
      for (int64_t j = 0; j < entries; ++j) out[at(c, entries, j)] = value(c, j);
    return out;
  }
};

// One thread's workspace, and the pattern that it is set to.
struct Workspace {
  std::vector<int32_t> columns;
  std::vector<double> log_norms, factors, regression, conditional, square, scratch, joint, log_p, filled;
  MixedPattern pattern{};

  explicit Workspace(const Packed& model)
      : columns(size_of(model.p)),
        log_norms(size_of(model.lanes())),
        scratch(size_of((3 * model.p + 2) * model.width)),
        joint(size_of(kPiece * model.lanes())),
        log_p(size_of(kPiece)) {}

  void set(const Packed& model, const View<const uint8_t, 2>& observed, int64_t group) {
    const int64_t p = model.p;
    int64_t o = 0;
    for (int64_t j = 0; j < p; ++j)
      if (observed(group, j) != 0) columns[size_of(o++)] = static_cast<int32_t>(j);
    const int64_t m = p - o;
    int64_t next = o;
    for (int64_t j = 0; j < p; ++j)
      if (observed(group, j) == 0) columns[size_of(next++)] = static_cast<int32_t>(j);
    if (model.full) {
      factors.resize(size_of(model.lanes() * o * (o + 1) / 2));
      regression.resize(size_of(model.lanes() * m * o));
      conditional.resize(size_of(model.lanes() * m * (m + 1) / 2));
      square.resize(size_of(model.width * std::max<int64_t>(o * o, 1)));
    }
    pattern = {
        o, m, columns.data(), log_norms.data(), factors.data(), regression.data(), conditional.data(), square.data()};
    kernels().mixture.mixed_prepare(model.view(), pattern);
  }
};

// body(workspace, rows, first row) for every piece of the rows [begin, end), λ not yet computed. The matrices of a
// group depend on its pattern alone, so a group that two chunks share has the same ones in both.
template <class F>
void for_pieces(const MixedTable& table, const Packed& model, int64_t begin, int64_t end, Run run, F&& body) {
  Workspace work(model);
  const int64_t groups = table.observed.shape[0], q = table.codes.shape[1];
  int64_t low = 0, high = groups;  // the last group that starts at or before `begin`
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (table.starts(middle) <= begin ? low : high) = middle;
  }
  for (int64_t group = low; group < groups && table.starts(group) < end; ++group) {
    const int64_t first = std::max(begin, table.starts(group)), last = std::min(end, table.starts(group + 1));
    if (first >= last) continue;
    work.set(model, table.observed, group);
    for (int64_t from = first; from < last; from += kPiece) {
      run.poll();
      const int64_t rows = std::min(kPiece, last - from);
      body(work, MixedRows{rows, q, table.y.data + from * model.p, table.codes.data + from * q}, from);
    }
  }
}

// What a chunk adds: the arrays of MixedSums, then log-likelihood, mass and peaks. Sums are rounded, so chunks are
// added in their order, which no number of threads changes.
struct Partial {
  std::vector<double> moments, counts, peaks;
  double likelihood = 0, mass = 0;

  void add(const Partial& other) {
    if (moments.empty()) {
      *this = other;
      return;
    }
    for (size_t i = 0; i < moments.size(); ++i) moments[i] += other.moments[i];
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    for (size_t i = 0; i < peaks.size(); ++i) peaks[i] = std::max(peaks[i], other.peaks[i]);
    likelihood += other.likelihood;
    mass += other.mass;
  }
};

// λ becomes λ·w, and the largest λ and the likelihood are kept.
void weigh(const MixedTable& table, int64_t from, int64_t rows, int64_t lanes, Workspace& work, Partial& sums) {
  for (int64_t r = 0; r < rows; ++r) {
    double* lambda = work.joint.data() + r * lanes;
    const double weight = table.weights.empty() ? 1.0 : table.weights(from + r);
    if (weight > 0)
      for (int64_t c = 0; c < lanes; ++c) sums.peaks[size_of(c)] = std::max(sums.peaks[size_of(c)], lambda[c]);
    if (!table.weights.empty())
      for (int64_t c = 0; c < lanes; ++c) lambda[c] *= weight;
    sums.likelihood += weight * work.log_p[size_of(r)];
    sums.mass += weight;
  }
}

Partial chunk_sums(const MixedTable& table, const Packed& model, int64_t begin, int64_t end, Run run) {
  Partial sums;
  sums.moments.resize(size_of(model.lanes() * model.moments()));
  sums.counts.resize(size_of(model.lanes() * model.levels));
  sums.peaks.resize(size_of(model.lanes()));
  const MixtureKernels& kernel = kernels().mixture;
  const MixedModel view = model.view();
  for_pieces(table, model, begin, end, run, [&](Workspace& work, const MixedRows& rows, int64_t from) {
    kernel.mixed_joint(view, work.pattern, model.constants.data(), rows, work.scratch.data(), work.joint.data());
    kernel.mixed_normalise(work.joint.data(), rows.rows, model.lanes(), work.log_p.data());
    weigh(table, from, rows.rows, model.lanes(), work, sums);
    kernel.mixed_sums(view, work.pattern, rows, work.joint.data(),
                      {sums.moments.data(), sums.counts.data(), work.scratch.data()});
  });
  return sums;
}

int64_t best_of(const double* joint, int64_t k) {
  return std::max_element(joint, joint + k) - joint;  // the first of equal ones
}

}  // namespace

void sum_mixed(const MixedTable& rows, const MixedParameters& parameters, View<const double, 2> pivots,
               View<double, 1> head, View<double, 2> moments, View<double, 2> counts, View<double, 1> peaks, Run run) {
  const Packed model(parameters, pivots);
  const Partial sums = reduce_chunks<Partial>(
      rows.y.shape[0], kChunk,
      [&](int64_t, int64_t begin, int64_t end) { return chunk_sums(rows, model, begin, end, run); },
      [](Partial& total, Partial&& partial) { total.add(partial); }, run);
  head(0) = sums.likelihood;
  head(1) = sums.mass;
  for (int64_t c = 0; c < model.k; ++c) {
    peaks(c) = sums.peaks[size_of(c)];
    for (int64_t j = 0; j < model.moments(); ++j) moments(c, j) = sums.moments[model.at(c, model.moments(), j)];
    for (int64_t j = 0; j < model.levels; ++j) counts(j, c) = sums.counts[model.at(c, model.levels, j)];
  }
}

void expect_mixed(const MixedTable& rows, const MixedParameters& parameters, View<double, 2> resp,
                  View<int64_t, 1> labels, View<double, 1> log_prob, View<double, 2> joint, View<double, 2> filled,
                  Run run) {
  const Packed model(parameters, {});
  const MixtureKernels& kernel = kernels().mixture;
  const MixedModel view = model.view();
  const int64_t lanes = model.lanes(), k = model.k;
  for_chunks(rows.y.shape[0], kChunk, run, [&](int64_t, int64_t begin, int64_t end) {
    for_pieces(rows, model, begin, end, run, [&](Workspace& work, const MixedRows& piece, int64_t from) {
      double* const lambda = work.joint.data();
      kernel.mixed_joint(view, work.pattern, model.constants.data(), piece, work.scratch.data(), lambda);
      for (int64_t r = 0; r < piece.rows; ++r) {
        if (!labels.empty()) labels(from + r) = best_of(lambda + r * lanes, k);
        for (int64_t c = 0; c < k && !joint.empty(); ++c) joint(from + r, c) = lambda[r * lanes + c];
      }
      kernel.mixed_normalise(lambda, piece.rows, lanes, work.log_p.data());
      for (int64_t r = 0; r < piece.rows; ++r) {
        if (!log_prob.empty()) log_prob(from + r) = work.log_p[size_of(r)];
        for (int64_t c = 0; c < k && !resp.empty(); ++c) resp(from + r, c) = lambda[r * lanes + c];
      }
      const int64_t m = work.pattern.missing;
      if (filled.empty() || m == 0) return;
      work.filled.assign(size_of(kPiece * m), 0.0);
      kernel.mixed_fill(view, work.pattern, piece, lambda, work.scratch.data(), work.filled.data());
      for (int64_t r = 0; r < piece.rows; ++r)
        for (int64_t i = 0; i < m; ++i)
          filled(from + r, work.columns[size_of(work.pattern.observed + i)]) = work.filled[size_of(r * m + i)];
    });
  });
}

}  // namespace knoll
