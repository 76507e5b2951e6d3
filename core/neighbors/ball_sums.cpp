#include "neighbors/ball_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/parallel.hpp"
#include "common/rng.hpp"
#include "neighbors/ball_strips.hpp"
#include "simd/kernels.hpp"

namespace knoll {
namespace {

constexpr int64_t kLeaf = 32;     // points of a leaf of the tree
constexpr uint64_t kSeed = 2024;  // of the keys: arbitrary and fixed, so that runs are reproducible

// Distributes sums over slots and distinguishes sets beside the key; it needs no cryptographic strength.
uint64_t mixed(uint64_t h, uint64_t v) {  // a round of multiply and fold, as hashes have them
  h ^= v + 0x9e3779b97f4a7c15;
  h *= 0xff51afd7ed558ccd;
  return h ^ h >> 32;
}

// A sum and four lanes; keys wrap around.
int64_t added(int64_t sum, const int64_t* lanes) {
  auto total = static_cast<uint64_t>(sum);
  for (int64_t lane = 0; lane < kBlock; ++lane) total += static_cast<uint64_t>(lanes[lane]);
  return static_cast<int64_t>(total);
}

int64_t lanes_of(const std::vector<BlockRange>& ranges) {
  int64_t blocks = 0;
  for (const BlockRange& range : ranges) blocks += range.end - range.begin;
  return blocks * kBlock;
}

}  // namespace

BallSums::BallSums(const double* x, const double* weights, int64_t n, int64_t d, double eps, Run run) : d_(d) {
  if (d <= 3)
    strips_ = std::make_unique<BallStrips>(x, n, d, eps, run);
  else
    tree_ = std::make_unique<BlockTree>(x, n, d, kLeaf, run);

  // The range of bits of every column: w·x is a multiple of 2^(low_w + low_x) and below 2^(high_w + high_x).
  BitRange weight;
  std::vector<BitRange> range(static_cast<size_t>(d));
  for (int64_t i = 0; i < n; ++i) {
    BitRange w;
    if (weights != nullptr) w.include(weights[i]);
    weight.include(w);
    for (int64_t j = 0; j < d; ++j) {
      BitRange v;
      v.include(x[i * d + j]);
      if (v.empty()) continue;
      // A product of integers a·2^p and b·2^q is a multiple of 2^(p + q).
      if (weights != nullptr) v = {v.low + w.low, v.high + w.high};
      range[static_cast<size_t>(j)].include(v);
    }
  }
  // plain: every product and every sum of n of them has all its bits within float64, [2^−1074, 2^1023]; then w·x is
  // split into product + fma remainder exactly, and sums are divided as doubles.
  const int carry = static_cast<int>(std::bit_width(static_cast<uint64_t>(n)));
  const auto fits = [&](const BitRange& r) { return r.empty() || (r.low >= -1074 && r.high + carry <= 1023); };
  plain_ = fits(weight) && std::all_of(range.begin(), range.end(), fits);
  width_ = weight_at_;
  if (weights != nullptr) weight_ = Digits(weight.low, weight.high, 2 * n);
  width_ += weight_.count();
  for (const BitRange& r : range) {
    // 2 n terms: a product may enter as two doubles, its value and its rounding error.
    coordinate_.emplace_back(r.low, r.high, 2 * n);
    first_.push_back(width_);
    width_ += coordinate_.back().count();
  }
  stride_ = (width_ + kBlock - 1) / kBlock * kBlock;
  const bool two = std::all_of(coordinate_.begin(), coordinate_.end(), [](const Digits& c) { return c.high() != 0; });
  // Where add_ball_split can make the digits from the coordinates, only the keys are stored: half the bytes to read.
  if (weights == nullptr && d <= 3 && two)
    for (const Digits& c : coordinate_) split_.insert(split_.end(), {c.low(), c.high()});
  make_columns(x, weights, n, run);
}

BallSums::~BallSums() = default;

const Blocks& BallSums::blocks() const { return strips_ ? strips_->blocks() : tree_->blocks(); }

int64_t BallSums::distances() const { return strips_ ? strips_->distances() : 0; }

void BallSums::make_columns(const double* x, const double* weights, int64_t n, Run run) {
  const Blocks& b = blocks();
  const int64_t c = width_ - 1;
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  // A key per row, not per content: equal rows are different members of a set.
  rng::fill_bits(kSeed, rng::Purpose::fingerprint, 0, vector_view(keys.data(), n), run);
  const int64_t kept = split_.empty() ? c : 1;
  columns_.assign(static_cast<size_t>(b.size * kept * kBlock), 0);
  prefix_.assign(static_cast<size_t>((b.size + 1) * stride_), 0);
  // Sums of each block, in parallel; the prefix sum over blocks follows on one thread, a pass of additions.
  for_chunks(b.size, 1024, run, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<int64_t> lanes(static_cast<size_t>(c * kBlock));
    // Column k of the sums is at lanes[k − 1]: the number of rows is counted, not stored.
    const auto column = [&](int64_t k, int64_t lane) { return lanes.data() + (k - 1) * kBlock + lane; };
    for (int64_t block = begin; block < end; ++block) {
      std::fill(lanes.begin(), lanes.end(), 0);
      int64_t* const total = prefix_.data() + (block + 1) * stride_;
      for (int64_t lane = 0; lane < kBlock; ++lane) {
        const int64_t i = b.row[static_cast<size_t>(block * kBlock + lane)];
        if (i < 0) continue;
        ++total[0];
        *column(key_, lane) = std::bit_cast<int64_t>(keys[static_cast<size_t>(i)]);
        if (weights != nullptr) weight_.add(weights[i], column(weight_at_, lane), kBlock);
        for (int64_t j = 0; j < d_; ++j) {
          const Digits& digits = coordinate_[static_cast<size_t>(j)];
          int64_t* const out = column(first_[static_cast<size_t>(j)], lane);
          const double v = x[i * d_ + j];
          if (weights == nullptr) {
            digits.add(v, out, kBlock);
          } else if (plain_) {
            const double product = weights[i] * v;  // w·v = product + fma(w, v, −product), exactly
            digits.add(product, out, kBlock);
            digits.add(std::fma(weights[i], v, -product), out, kBlock);
          } else {
            digits.add_product(weights[i], v, out, kBlock);
          }
        }
      }
      std::copy_n(lanes.begin(), kept * kBlock, columns_.begin() + block * kept * kBlock);
      for (int64_t k = 1; k < width_; ++k) total[k] = added(0, column(k, 0));
    }
  });
  // prefix[b] = sums of blocks 0 … b−1, modulo 2⁶⁴: a difference of two is exact whatever the keys did in between.
  for (int64_t at = stride_; at < static_cast<int64_t>(prefix_.size()); ++at) {
    const auto here = static_cast<size_t>(at), before = static_cast<size_t>(at - stride_);
    prefix_[here] = static_cast<int64_t>(static_cast<uint64_t>(prefix_[here]) + static_cast<uint64_t>(prefix_[before]));
  }
}

// Ranges of blocks within all balls about positions of the box, and those that the sphere of one may cut.
void BallSums::visit(const double* lo, const double* hi, double bound, Scratch& scratch) const {
  scratch.whole.clear();
  scratch.cut.clear();
  const auto inside = [&](int64_t begin, int64_t end) { scratch.whole.push_back({begin, end}); };
  const auto check = [&](int64_t begin, int64_t end) { scratch.cut.push_back({begin, end}); };
  if (strips_)
    strips_->visit(lo, hi, bound, inside, check);
  else
    tree_->visit(lo, hi, bound, scratch.stack, inside, check);
}

// scratch.lanes = the sums of the rows within the ball over ranges of blocks, lane by lane.
void BallSums::add_within(const double* coords, const int64_t* columns, const std::vector<BlockRange>& ranges,
                          const double* y, double bound, Scratch& scratch) const {
  scratch.lanes.assign(static_cast<size_t>(width_ * kBlock), 0);
  int64_t* const lanes = scratch.lanes.data();
  const AscentKernels& kernel = kernels().ascent;
  const auto count = static_cast<int64_t>(ranges.size());
  scratch.distances += lanes_of(ranges);
  if (split_.empty())
    kernel.add_ball(coords, columns, ranges.data(), count, d_, width_ - 1, y, bound, lanes);
  else
    kernel.add_ball_split(coords, columns, ranges.data(), count, d_, y, bound, split_.data(), lanes);
}

// Ranges inside the ball by prefix sums, the others lane by lane. Integers modulo 2⁶⁴: the order does not matter.
void BallSums::sum(const double* y, double bound, Scratch& scratch, int64_t* sums) const {
  visit(y, y, bound, scratch);
  std::fill_n(sums, stride_, 0);
  kernels().ascent.add_prefix(prefix_.data(), stride_, scratch.whole.data(), static_cast<int64_t>(scratch.whole.size()),
                              sums);
  add_within(blocks().coords.data(), columns_.data(), scratch.cut, y, bound, scratch);
  for (int64_t k = 0; k < width_; ++k) sums[k] = added(sums[k], scratch.lanes.data() + k * kBlock);
}

// After a call of sum() for y, whose ranges are still in `scratch`.
// docs/numerics/balls.md, B4. `most` limits C to half of the lanes that the first ball has checked: beyond, each
// further ball would cost as much as on its own.
bool BallSums::prepare(const double* y, double bound, const int64_t* sums, Scratch& scratch, Common& common) const {
  // C, gathered into blocks: rows with near ≤ bound < far, where near and far are the computed squared distances to the
  // nearest and the farthest corner of the box (ball_blocks.hpp: they bound those to all its positions). S follows by
  // subtraction: the sums of the ball about y minus its rows of C.
  const int64_t most = lanes_of(scratch.cut) / kBlock / 2;  // half of what the ball about y has cost
  visit(common.lo.data(), common.hi.data(), bound, scratch);
  const Blocks& all = blocks();
  const int64_t kept = split_.empty() ? width_ - 1 : 1;
  common.blocks = 0;
  common.coords.resize(static_cast<size_t>((most + 1) * d_ * kBlock));
  common.columns.resize(static_cast<size_t>((most + 1) * kept * kBlock));
  int64_t lane = 0;
  const double inf = std::numeric_limits<double>::infinity();
  for (const BlockRange& range : scratch.cut)
    for (int64_t b = range.begin; b < range.end; ++b) {
      scratch.distances += kBlock;
      double near[kBlock] = {}, far[kBlock] = {};
      for (int64_t j = 0; j < d_; ++j) {
        const double* const x = all.coords.data() + (b * d_ + j) * kBlock;
        const double lo = common.lo[static_cast<size_t>(j)], hi = common.hi[static_cast<size_t>(j)];
        for (int64_t l = 0; l < kBlock; ++l) {
          const double gap = std::max(std::max(x[l] - hi, lo - x[l]), 0.0), reach = std::max(hi - x[l], x[l] - lo);
          near[l] += gap * gap;
          far[l] += reach * reach;
        }
      }
      for (int64_t l = 0; l < kBlock; ++l) {
        if (near[l] > bound || far[l] <= bound) continue;
        if (lane == 0) {
          if (common.blocks == most) return false;
          std::fill_n(common.coords.begin() + common.blocks++ * d_ * kBlock, d_ * kBlock, inf);
        }
        double* const x = common.coords.data() + (common.blocks - 1) * d_ * kBlock + lane;
        int64_t* const column = common.columns.data() + (common.blocks - 1) * kept * kBlock + lane;
        for (int64_t j = 0; j < d_; ++j) x[j * kBlock] = all.coord(b, j, l);
        for (int64_t k = 0; k < kept; ++k)
          column[k * kBlock] = columns_[static_cast<size_t>((b * kept + k) * kBlock + l)];
        lane = (lane + 1) % kBlock;
      }
    }
  scratch.cut.assign(1, {0, common.blocks});
  add_within(common.coords.data(), common.columns.data(), scratch.cut, y, bound, scratch);
  common.sums.assign(sums, sums + stride_);
  for (int64_t k = 0; k < width_; ++k) {
    auto& sum = common.sums[static_cast<size_t>(k)];
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) -
                               static_cast<uint64_t>(added(0, scratch.lanes.data() + k * kBlock)));
  }
  return true;
}

// S plus the rows of C within the ball.
void BallSums::sum(const double* y, double bound, const Common& common, Scratch& scratch, int64_t* sums) const {
  scratch.cut.assign(1, {0, common.blocks});
  add_within(common.coords.data(), common.columns.data(), scratch.cut, y, bound, scratch);
  std::fill_n(sums, stride_, 0);
  for (int64_t k = 0; k < width_; ++k)
    sums[k] = added(common.sums[static_cast<size_t>(k)], scratch.lanes.data() + k * kBlock);
}

// All sums count: the number of rows, the keys and the digits.
Fingerprint BallSums::fingerprint(const int64_t* sums) const {
  uint64_t mix = 0;
  for (int64_t k = 0; k < width_; ++k) mix = mixed(mix, static_cast<uint64_t>(sums[k]));
  return {static_cast<uint64_t>(sums[key_]), mix};
}

double BallSums::weight(const int64_t* sums) const {
  return weight_.count() == 0 ? static_cast<double>(sums[0]) : weight_.round(sums + weight_at_);
}

// Each sum is rounded once and then divided, so the mean is that of the set, whatever the order. Where sums leave
// float64 the quotient is taken of 53-bit mantissas, with exponents as integers.
void BallSums::mean(const int64_t* sums, double* point) const {
  const double w = plain_ ? weight(sums) : 0.0;
  for (int64_t j = 0; j < d_; ++j) {
    const auto at = static_cast<size_t>(j);
    if (plain_) {
      // Two roundings and a division: the same for every order and every set of threads (docs/numerics/balls.md, B5).
      point[j] = coordinate_[at].round(sums + first_[at]) / w;
      continue;
    }
    const Digits::Rounded sum = coordinate_[at].nearest(sums + first_[at]);
    const Digits::Rounded mass =
        weight_.count() == 0 ? Digits::Rounded{static_cast<double>(sums[0]), 0} : weight_.nearest(sums + weight_at_);
    point[j] = std::ldexp(sum.whole / mass.whole, sum.power - mass.power);
  }
}

}  // namespace knoll
