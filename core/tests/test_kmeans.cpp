#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "common/exact_sum.hpp"
#include "common/tile.hpp"
#include "exact_words.hpp"
#include "kmeans/assign.hpp"
#include "kmeans/cluster_sums.hpp"
#include "kmeans/float32_filter.hpp"
#include "kmeans/group_bounds.hpp"
#include "kmeans/lloyd.hpp"

using namespace knoll;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double one_distance(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t j = 0; j < d; ++j) {
    const volatile double difference = x[j] - y[j];  // volatile: no compiler may fuse it with what follows
    const volatile double square = difference * difference;
    sum = sum + square;
  }
  return sum;
}

std::vector<int32_t> nearest(const std::vector<double>& x, const std::vector<double>& centers, int64_t d) {
  std::vector<int32_t> labels;
  for (size_t i = 0; i < x.size(); i += static_cast<size_t>(d)) {
    double best = one_distance(&x[i], centers.data(), d);
    int32_t label = 0;
    for (int32_t c = 1; c < static_cast<int32_t>(centers.size()) / d; ++c) {
      const double here = one_distance(&x[i], &centers[static_cast<size_t>(c * d)], d);
      if (here < best) best = here, label = c;
    }
    labels.push_back(label);
  }
  return labels;
}

const std::vector<std::string> kDatasets = {"normal",        "lattice", "duplicates",  "shifted",     "far",
                                            "huge",          "tiny",    "subnormal",   "outlier",     "near ties",
                                            "columns apart", "denorm",  "heavy tails", "ties far out"};

// n points whose nearest centres are easy, hard or impossible to distinguish in float32.
std::vector<double> points(const std::string& dataset, int64_t n, int64_t d, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(n * d));
  for (auto& v : x) v = normal(random);
  for (size_t i = 0; i < x.size(); ++i) {
    double& v = x[i];
    if (dataset == "lattice") v = std::round(v);
    if (dataset == "duplicates") v = x[i % static_cast<size_t>(d * std::min<int64_t>(n, 5))];
    if (dataset == "shifted") v += 1e8;
    if (dataset == "far") v += 1e15;
    if (dataset == "huge") v *= 1e150;
    if (dataset == "tiny") v *= 1e-150;
    if (dataset == "subnormal") v *= 1e-160;
    if (dataset == "denorm") v *= 1e-310;
    if (dataset == "columns apart") v *= std::ldexp(1.0, static_cast<int>(i % static_cast<size_t>(d) % 10) * 7 - 20);
    if (dataset == "near ties") {  // a lattice, each value off by an ulp at most
      v = std::round(v);
      const auto off = random() % 3;
      v = off == 0 ? v : std::nextafter(v, off == 1 ? 9.0 : -9.0);
    }
  }
  for (size_t i = 0; dataset == "heavy tails" && i < x.size(); ++i) x[i] /= normal(random);
  for (size_t i = 0; dataset == "ties far out" && i < x.size() / 5; ++i) x[i] = 3000 + std::round(2 * x[i]) / 1024;
  if (dataset == "outlier") x[0] = 1e30, x[x.size() / 2] = -1e25;
  return x;
}

std::vector<double> random_rows(const std::vector<double>& x, int64_t d, int64_t k, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<double> rows;
  for (int64_t c = 0; c < k; ++c) {
    const auto i = random() % (x.size() / static_cast<size_t>(d)) * static_cast<size_t>(d);
    rows.insert(rows.end(), x.begin() + static_cast<int64_t>(i), x.begin() + static_cast<int64_t>(i) + d);
  }
  return rows;
}

View<const double, 2> matrix(const std::vector<double>& x, int64_t d) {
  return matrix_view(x.data(), static_cast<int64_t>(x.size()) / d, d);
}

}  // namespace

TEST("kmeans: panels are centred, scaled, transposed and padded, on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 5, 8, 11, 300})
    for (int64_t count : {1, 7, 8, 23, 24}) {
      const auto x = points("normal", kPanel, d, 1), pivot = points("normal", 1, d, 2);
      const double scale = 0.25;
      const std::vector<float> x32(x.begin(), x.end()), pivot32(pivot.begin(), pivot.end());
      for (const Kernels* table : all_kernels())
        for (bool narrow : {false, true}) {
          std::vector<float> panel(static_cast<size_t>(d * kPanel), 7.0f), norm2(kPanel, 7.0f);
          const double* rows[kPanel] = {};
          const float* rows32[kPanel] = {};
          for (int64_t l = 0; l < count; ++l)
            rows[l] = &x[static_cast<size_t>(l * d)], rows32[l] = &x32[static_cast<size_t>(l * d)];
          if (narrow)
            table->kmeans.pack_f32(rows32, count, d, pivot32.data(), 0.25f, panel.data(), norm2.data());
          else
            table->kmeans.pack_f64(rows, count, d, pivot.data(), scale, panel.data(), norm2.data());
          for (int64_t l = 0; l < kPanel; ++l) {
            double sum = 0;
            for (int64_t j = 0; j < d; ++j) {
              const auto at = static_cast<size_t>(l * d + j);
              const auto column = static_cast<size_t>(j);
              const float y = l >= count ? 0.0f
                              : narrow   ? (x32[at] - pivot32[column]) * 0.25f
                                         : static_cast<float>((x[at] - pivot[column]) * scale);
              CHECK(panel[static_cast<size_t>(j * kPanel + l)] == y);
              sum += static_cast<double>(y) * static_cast<double>(y);
            }
            CHECK(std::fabs(static_cast<double>(norm2[static_cast<size_t>(l)]) - sum) <=
                  0x1p-24 * static_cast<double>(d + 1) * sum);
          }
        }
    }
}

TEST("kmeans: the additions that the bounds allow for are those of the longest chain of blocks") {
  for (int64_t d : {1, 2, 255, 256, 257, 512, 513, 1100, 1 << 18}) {
    const int64_t blocks = (d + kSumColumns - 1) / kSumColumns;
    int64_t columns = 0, longest = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t here = columns_in_block(b * kSumColumns, d);
      columns += here;
      longest = std::max(longest, here + (b == 0 ? blocks - 1 : blocks - b));  // and a sum for each block after it
    }
    CHECK(columns == d);
    CHECK(longest <= additions_of_score(d) && additions_of_score(d) <= longest + 1);
  }
}

TEST("kmeans: the two lowest scores and the first index, infinite padding included, on every instruction set") {
  std::mt19937_64 random(3);
  for (int64_t d : {1, 2, 3, 4, 17, 300, 512, 1100})
    for (int64_t k : {1, 3, 4, 9, 50}) {
      const int64_t padded_k = (k + 3) / 4 * 4;
      std::vector<float> panel(static_cast<size_t>(d * kPanel)), centers(static_cast<size_t>(padded_k * d), 0.0f);
      std::vector<float> half(static_cast<size_t>(padded_k), kInf);
      // Small integers: every sum is exact, so ties are ties and the order of addition is nothing.
      for (auto& v : panel) v = static_cast<float>(static_cast<int>(random() % 5) - 2);
      for (int64_t c = 0; c < k; ++c) {
        half[static_cast<size_t>(c)] = static_cast<float>(random() % 4);
        for (int64_t j = 0; j < d; ++j)
          centers[static_cast<size_t>((c / 4 * d + j) * 4 + c % 4)] =
              static_cast<float>(static_cast<int>(random() % 3) - 1);
      }
      for (const Kernels* table : all_kernels()) {
        float best[kPanel], second[kPanel];
        int32_t index[kPanel];
        table->kmeans.nearest_two(panel.data(), d, centers.data(), half.data(), padded_k, best, second, index);
        for (int l = 0; l < kPanel; ++l) {
          float low = kInf, next = kInf;
          int32_t at = 0;
          for (int64_t c = 0; c < k; ++c) {
            float score = half[static_cast<size_t>(c)];
            for (int64_t j = 0; j < d; ++j)
              score += panel[static_cast<size_t>(j * kPanel + l)] *
                       centers[static_cast<size_t>((c / 4 * d + j) * 4 + c % 4)];
            if (score < low)
              next = low, low = score, at = static_cast<int32_t>(c);
            else
              next = std::min(next, score);
          }
          CHECK(best[l] == low && second[l] == next && index[l] == at);
        }
      }
    }
}

TEST("kmeans: a row alone and groups of centres give what panels give, on every instruction set") {
  std::mt19937_64 random(16);
  for (int64_t d : {1, 3, 7, 8, 13, 300})
    for (const Kernels* table : all_kernels()) {
      const auto x = points("normal", 1, d, 17), pivot = points("normal", 1, d, 18);
      const std::vector<float> x32(x.begin(), x.end()), pivot32(pivot.begin(), pivot.end());
      std::vector<float> y(static_cast<size_t>(d)), y32(y.size());
      const auto norm = static_cast<double>(table->kmeans.pack_row_f64(x.data(), d, pivot.data(), 0.5, y.data()));
      table->kmeans.pack_row_f32(x32.data(), d, pivot32.data(), 0.5f, y32.data());
      double sum = 0;
      for (size_t j = 0; j < y.size(); ++j) {
        CHECK(y[j] == static_cast<float>((x[j] - pivot[j]) * 0.5));
        CHECK(y32[j] == (x32[j] - pivot32[j]) * 0.5f);
        sum += static_cast<double>(y[j]) * static_cast<double>(y[j]);
      }
      CHECK(std::fabs(norm - sum) <= 0x1p-24 * static_cast<double>(d + 1) * sum);

      // Small integers again, so that every shift of adding gives the same.
      constexpr int64_t kGroups = 4, k = kGroups * kGroup;
      const auto width = static_cast<size_t>(d);
      std::vector<float> rows(static_cast<size_t>(kPanel * d)), panel(rows.size());
      std::vector<float> blocks(static_cast<size_t>(k * d)), centers(blocks.size()), half(k);
      for (auto& v : rows) v = static_cast<float>(static_cast<int>(random() % 5) - 2);
      table->kmeans.transpose_rows(rows.data(), d, panel.data());
      for (size_t l = 0; l < kPanel; ++l)
        for (size_t j = 0; j < width; ++j) CHECK(panel[j * kPanel + l] == rows[l * width + j]);
      for (int64_t c = 0; c < k; ++c) {
        half[static_cast<size_t>(c)] = c == k - 1 ? kInf : static_cast<float>(random() % 4);
        for (int64_t j = 0; j < d; ++j)
          blocks[static_cast<size_t>((c / 4 * d + j) * 4 + c % 4)] = centers[static_cast<size_t>(c * d + j)] =
              static_cast<float>(static_cast<int>(random() % 3) - 1);
      }
      const std::vector<int32_t> groups{0, 3};
      float best[2 * kPanel], second[2 * kPanel], lowest[kPanel], next[kPanel];
      int32_t own[kPanel], index[kPanel];
      std::vector<std::vector<float>> scores(kPanel, std::vector<float>(k));
      for (size_t l = 0; l < kPanel; ++l) {
        own[l] = index[l] = static_cast<int32_t>(random() % (k - 1));
        for (size_t c = 0; c < k; ++c) {
          float& score = scores[l][c] = half[c];
          for (size_t j = 0; j < width; ++j) score += rows[l * width + j] * centers[c * width + j];
          CHECK(table->kmeans.score_row(&rows[l * width], d, &centers[c * width], half[c]) == score);
        }
        lowest[l] = scores[l][static_cast<size_t>(own[l])];
        next[l] = kInf;
      }
      table->kmeans.nearest_of_groups(panel.data(), d, blocks.data(), half.data(), groups.data(), 2, own, best, second,
                                      lowest, next, index);
      for (size_t l = 0; l < kPanel; ++l) {
        const auto mine = static_cast<size_t>(own[l]);
        std::vector<float> all{scores[l][mine]};
        for (size_t e = 0; e < 2; ++e) {
          std::vector<float> here;
          for (auto c = static_cast<size_t>(groups[e] * kGroup), end = c + kGroup; c < end; ++c)
            here.push_back(c == mine ? kInf : scores[l][c]);
          all.insert(all.end(), here.begin(), here.end());
          std::sort(here.begin(), here.end());
          CHECK(best[e * kPanel + l] == here[0] && second[e * kPanel + l] == here[1]);
        }
        std::sort(all.begin(), all.end());
        CHECK(lowest[l] == all[0] && next[l] == all[1]);
        CHECK(scores[l][static_cast<size_t>(index[l])] == all[0]);
      }
    }
}

TEST("kmeans: groups fail whose bound is not above, on every instruction set") {
  std::mt19937_64 random(19);
  for (int64_t stride : {kBoundLanes, 3 * kBoundLanes})
    for (int most : {3, 40, 0xffff}) {
      const auto draw = [&] { return static_cast<uint16_t>(random() % static_cast<uint64_t>(most + 1)); };
      std::vector<uint16_t> lower(static_cast<size_t>(stride)), group_shift(lower.size());
      for (auto& v : lower) v = draw();
      for (auto& v : group_shift) v = static_cast<uint16_t>(draw() / 2);
      lower[7] = 0, lower[9] = 0xffff, group_shift[9] = 0, lower[11] = 0xffff, group_shift[11] = 0xffff;
      for (uint16_t upper : {uint16_t{0}, draw(), uint16_t{0xffff}})
        for (const Kernels* table : all_kernels()) {
          std::vector<uint32_t> mask(static_cast<size_t>(stride / kBoundLanes), 0xabcdef);
          uint16_t least = 1;
          const bool found =
              table->kmeans.failing_groups(lower.data(), group_shift.data(), stride, upper, mask.data(), &least);
          int lowest = 0xffff;
          bool any = false;
          for (size_t g = 0; g < lower.size(); ++g) {
            const int bound = std::max(lower[g] - group_shift[g], 0);
            lowest = std::min(lowest, bound);
            any = any || bound <= upper;
            CHECK((mask[g / kBoundLanes] >> g % kBoundLanes & 1) == (bound <= upper ? 1u : 0u));
          }
          CHECK(found == any && least == lowest);
        }
    }
}

TEST("kmeans: bounds hold the truth between them, on every instruction set") {
  for (const Kernels* table : all_kernels()) {
    const TileBounds bounds{4.0f, 1e-5f, 1e-5f, 4e-7f, 0x1p-100f};
    const float from = 2.0f, per_unit = 1000.0f, nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> far{10.5f, 0.0f, 60000.0f};
    std::vector<float> score(3 * kPanel), norm2(kPanel, 3.0f), upper(kPanel);
    std::vector<uint16_t> bound(score.size());
    for (size_t l = 0; l < score.size(); ++l) score[l] = static_cast<float>(l % kPanel) - 1.5f;
    const std::vector<float> p2(kPanel, bounds.p2);
    table->kmeans.upper_bounds(score.data(), norm2.data(), p2.data(), &bounds, upper.data());
    score[5] = kInf, score[6] = nan;
    table->kmeans.lower_bounds(score.data(), 3, norm2.data(), &bounds, far.data(), from, per_unit, bound.data());
    for (size_t l = 0; l < score.size(); ++l) {
      if (l == 5) CHECK(bound[l] == 0xffff);
      if (l == 6) CHECK(bound[l] <= 10);
      if (l == 5 || l == 6) continue;
      const double truth = std::sqrt(3.0 + 2 * static_cast<double>(score[l]));
      const double units = std::max(truth - 2.0, 0.0) * 1000 + static_cast<double>(far[l / kPanel]);
      CHECK(bound[l] <= units && (bound[l] == 0xffff || bound[l] > units - 1.5));
      if (l < kPanel) CHECK(static_cast<double>(upper[l]) > truth && static_cast<double>(upper[l]) < truth + 1e-2);
    }
  }
}

TEST("kmeans: groups hold every centre once, fast ones or neighbours together") {
  const std::vector<double> shift{0.5, 3, 1, 3, 0, 2};
  CHECK(group_by_shift(shift) == (std::vector<int32_t>{1, 3, 5, 2, 0, 4}));
  const int64_t k = 3 * kGroup + 5;
  std::vector<double> centers(static_cast<size_t>(k)), shifts(centers.size(), 1.0);
  for (int64_t c = 0; c < k; ++c) centers[static_cast<size_t>(c)] = static_cast<double>(c * 7 % k);  // on a line
  shifts[3] = 2;
  const std::vector<int32_t> order = group_neighbours(matrix(centers, 1), shifts, Run{});
  CHECK(order[0] == 3);
  double reach = 0;  // of the fastest one's group: half of it stands on either side of 21
  for (size_t s = 0; s < kGroup; ++s)
    reach = std::max(reach, std::fabs(centers[static_cast<size_t>(order[s])] - centers[3]));
  CHECK(reach == kGroup / 2);
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t c = 0; c < k; ++c) CHECK(sorted[static_cast<size_t>(c)] == c);
}

TEST("kmeans: bounds by groups survive long shifts, and a rebase changes none by more than a unit") {
  const int64_t n = 5, k = 2 * kGroup;
  const BoundQuantizer quantizer = quantizer_between(1.0, 3.0);
  GroupBounds bounds(n, group_by_shift(std::vector<double>(static_cast<size_t>(k), 0.0)), quantizer, Run{2});
  for (int64_t i = 0; i < n; ++i) {
    CHECK(bounds.lower[static_cast<size_t>(i * bounds.stride)] == 0);
    CHECK(bounds.lower[static_cast<size_t>(i * bounds.stride + 2)] == 0xffff);  // no such group
    bounds.lower[static_cast<size_t>(i * bounds.stride)] = static_cast<uint16_t>(10000 * (i + 1));
    bounds.lower[static_cast<size_t>(i * bounds.stride + 1)] = static_cast<uint16_t>(10000 * (i + 1));
  }
  std::vector<double> shift(static_cast<size_t>(k), 0.0);
  shift[1] = 1e-3;
  bounds.move(shift);
  bounds.rebase(Run{2});
  CHECK(bounds.group_shift[0] > 0.99e-3 && bounds.lower[0] == 10000);  // too short a shift for a rebase
  shift[1] = 0.5;
  bounds.move(shift);
  const int taken = bounds.shift_up[0];
  CHECK(taken * quantizer.unit >= 0.501 && (taken - 2) * quantizer.unit < 0.501);
  bounds.rebase(Run{2});
  CHECK(bounds.group_shift[0] == 0 && bounds.shift_up[0] == 0 && bounds.shift_down[0] == 0);
  CHECK(bounds.own_shift[1] >= 0.501);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i * bounds.stride);
    CHECK(bounds.lower[at] == std::max<int64_t>(10000 * (i + 1) - taken, 0));
    CHECK(bounds.lower[at + 1] == 10000 * (i + 1) - 1 || bounds.lower[at + 1] == 10000 * (i + 1));
    CHECK(bounds.lower[at + 2] == 0xffff || bounds.lower[at + 2] == 0xfffe);
  }
}

TEST("kmeans: a gap is below the true one, and −inf where float32 cannot decide, on every instruction set") {
  const TileBounds bounds{4.0f, 1e-5f, 1e-5f, 4e-7f, 0x1p-100f};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> best(kPanel, -1.0f), second(kPanel), norm2(kPanel, 3.0f), p2(kPanel, bounds.p2);
  for (int l = 0; l < kPanel; ++l) second[static_cast<size_t>(l)] = -1.0f + static_cast<float>(l) * 1.1e-5f;
  second[20] = kInf, second[21] = nan, norm2[22] = kInf, norm2[23] = nan;
  for (const Kernels* table : all_kernels()) {
    std::vector<float> gap(kPanel);
    table->kmeans.gaps(best.data(), second.data(), norm2.data(), p2.data(), &bounds, gap.data());
    for (size_t l = 0; l < 20; ++l) {
      const double margin = 7e-5, difference = static_cast<double>(second[l]) - static_cast<double>(best[l]);
      if (difference < margin * 0.99) CHECK(gap[l] == -kInf);
      if (difference > margin * 1.01) {
        const double truth =
            std::sqrt(3.0 + 2 * static_cast<double>(second[l])) - std::sqrt(3.0 + 2 * static_cast<double>(best[l]));
        CHECK(static_cast<double>(gap[l]) < truth && static_cast<double>(gap[l]) > truth - 1e-4);
      }
    }
    CHECK(gap[20] == kInf);
    for (size_t l : {21u, 22u, 23u}) CHECK(gap[l] == -kInf);
  }
}

TEST("kmeans: survivors are those whose gap the limit has reached, on every instruction set") {
  std::mt19937_64 random(4);
  for (int64_t n : {0, 1, 7, 8, 9, 1000}) {
    std::vector<float> gap(static_cast<size_t>(n)), limit{1.0f, 2.0f, 3.0f, kInf};
    std::vector<int32_t> label(gap.size());
    for (size_t i = 0; i < gap.size(); ++i)
      gap[i] = static_cast<float>(random() % 5), label[i] = static_cast<int32_t>(random() % 4);
    if (n > 8) gap[3] = -kInf, gap[4] = kInf, label[4] = 1;
    std::vector<int32_t> expected;
    for (size_t i = 0; i < gap.size(); ++i)
      if (gap[i] <= limit[static_cast<size_t>(label[i])]) expected.push_back(static_cast<int32_t>(i));
    for (const Kernels* table : all_kernels()) {
      std::vector<int32_t> out(gap.size());
      out.resize(static_cast<size_t>(table->kmeans.survivors(gap.data(), label.data(), n, limit.data(), out.data())));
      CHECK(out == expected);
    }
  }
}

TEST("kmeans: rows split into units add up to the rows, on every instruction set") {
  for (int64_t d : {1, 2, 3, 4, 7, 16}) {
    const auto x = points("normal", 1, d, 5);
    const std::vector<float> x32(x.begin(), x.end());
    const auto ld = static_cast<size_t>(padded(d));
    const std::vector<double> high_cut(ld, std::ldexp(1.5, 52 - 36)), low_cut(ld, std::ldexp(1.5, 52 - 77));
    for (const Kernels* table : all_kernels())
      for (double sign : {1.0, -1.0}) {
        std::vector<int64_t> high(ld, 5), low(ld, 6);
        CHECK(table->kmeans.add_row_f64(x.data(), d, sign, high_cut.data(), low_cut.data(), high.data(), low.data()));
        CHECK(
            table->kmeans.add_row_f32(x32.data(), d, -sign, high_cut.data(), low_cut.data(), high.data(), low.data()));
        for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
          ExactSum sum, expected;
          sum.add(std::ldexp(static_cast<double>(high[j] - 5), -36));
          sum.add(std::ldexp(static_cast<double>(low[j] - 6), -77));
          expected.add(sign * x[j]);
          expected.add(-sign * static_cast<double>(x32[j]));
          CHECK(sum == expected);
        }
        const std::vector<double> fine(static_cast<size_t>(d), 0x1p-90);  // below the units: it must be reported
        CHECK(
            !table->kmeans.add_row_f64(fine.data(), d, sign, high_cut.data(), low_cut.data(), high.data(), low.data()));
      }
  }
}

TEST("kmeans: products split into two units, with their remainders, add up, on every instruction set") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> hard{1.0,     0x1p-90, 0x1.fffffffffffffp19, -0x1p20, 1e300, 0.0, -0.0, 0x1p-1074,
                                 -3e-320, 7e15};
  for (int64_t d : {1, 2, 3, 4, 7, 16}) {
    const auto ld = static_cast<size_t>(padded(d));
    std::vector<double> limit(ld, 0x1p20);
    if (d > 2) limit[2] = 0.0;  // such a column is not cut
    const auto cut = [&](int unit) { return std::vector<double>(ld, std::ldexp(1.5, 52 + unit)); };
    const auto high_cut = cut(-20), low_cut = cut(-61);
    const SumUnits units{limit.data(), high_cut.data(), low_cut.data()};
    auto x = points("normal", 1, d, 6);
    for (unsigned round = 0; round < 2 * hard.size(); ++round) {
      for (size_t j = 0; round > 0 && j < x.size(); ++j)
        if (j % 2 == round % 2) x[j] = hard[(j + round) % hard.size()];
      const std::vector<float> x32(x.begin(), x.end());
      for (const Kernels* table : all_kernels())
        for (double w : {1.0, -1.0, 1.0 / 3, -0x1.23456789abcdep7, 1e10, 1e-200})
          for (bool narrow : {false, true}) {
            std::vector<int64_t> high(ld, 5), low(ld, 6);
            std::vector<double> remainder(2 * ld, 9.0);
            const bool all = narrow ? table->kmeans.add_products_f32(x32.data(), d, w, &units, high.data(), low.data(),
                                                                     remainder.data())
                                    : table->kmeans.add_products_f64(x.data(), d, w, &units, high.data(), low.data(),
                                                                     remainder.data());
            bool none = true;
            for (size_t j = 0; j < static_cast<size_t>(d); ++j) {
              ExactSum sum, expected;
              sum.add(std::ldexp(static_cast<double>(high[j] - 5), -20));
              sum.add(std::ldexp(static_cast<double>(low[j] - 6), -61));
              sum.add(remainder[j]);
              sum.add(remainder[ld + j]);
              expected.add_product(w, narrow ? static_cast<double>(x32[j]) : x[j]);
              CHECK_MSG(sum == expected, "d " << d << ", column " << j << ", round " << round << ", w " << w);
              const int64_t most = int64_t{1} << 40;
              CHECK(std::abs(high[j] - 5) <= most && std::abs(low[j] - 6) <= 2 * most);
              none = none && remainder[j] == 0 && remainder[ld + j] == 0;
            }
            CHECK(all == none);
          }
    }
    for (const Kernels* table : all_kernels()) {  // an infinite product leaves nothing beside it
      std::vector<double> infinite(static_cast<size_t>(d), inf), remainder(2 * ld);
      std::vector<int64_t> high(ld, 0), low(ld, 0);
      CHECK(
          !table->kmeans.add_products_f64(infinite.data(), d, 0.5, &units, high.data(), low.data(), remainder.data()));
      for (size_t j = 0; j < static_cast<size_t>(d); ++j)
        CHECK(remainder[j] == inf && remainder[ld + j] == 0 && high[j] == 0);
    }
  }
}

TEST("kmeans: labels are those of direct differences, on data that float32 cannot resolve") {
  for (const auto& dataset : kDatasets)
    for (int64_t d : {1, 2, 3, 9, 300})
      for (int64_t k : {1, 2, 5, 8, 13, 40}) {
        const int64_t n = d == 300 ? 60 : 131;
        const auto x = points(dataset, n, d, 6), centers = random_rows(x, d, k, 7);
        std::vector<int32_t> labels(static_cast<size_t>(n));
        std::vector<double> distance2(labels.size());
        const auto counts = assign(matrix(x, d), matrix(centers, d), vector_view(labels.data(), n),
                                   vector_view(distance2.data(), n), Run{1});
        CHECK_MSG(labels == nearest(x, centers, d), dataset << ", d " << d << ", k " << k);
        CHECK(counts.evaluations >= n * k && counts.rechecks <= n);
        for (size_t i = 0; i < labels.size(); ++i)
          CHECK(distance2[i] ==
                one_distance(&x[i * static_cast<size_t>(d)], &centers[static_cast<size_t>(labels[i] * d)], d));
      }
}

TEST_LONG("kmeans: every algorithm takes the plain path, on any number of threads, with centres that jump") {
  for (const auto& dataset : kDatasets)
    for (int64_t d : {1, 2, 5})
      for (int64_t k : {1, 3, 11, 24}) {
        const int64_t n = 8192 + 777;
        auto x = points(dataset, 200, d, 8);
        while (static_cast<int64_t>(x.size()) < n * d) x.push_back(x[x.size() - static_cast<size_t>(200 * d)] * 1.0625);
        std::mt19937_64 random(9);
        auto centers = random_rows(x, d, k, 10);
        std::vector<LloydMemory> memories;
        const std::array<int, 4> threads{1, 2, 3, 8};
        for (auto algorithm :
             {LloydAlgorithm::lloyd, LloydAlgorithm::hamerly, LloydAlgorithm::group_bounds, LloydAlgorithm::hamerly})
          memories.emplace_back(n, d, k, algorithm);
        for (int step = 0; step < 6; ++step) {
          const auto expected = nearest(x, centers, d);
          std::vector<double> sums(static_cast<size_t>(k * (d + 1))), first;
          for (size_t m = 0; m < memories.size(); ++m) {
            memories[m].step(matrix(x, d), {}, matrix(centers, d), Run{threads[m]});
            const auto labels = memories[m].labels();
            CHECK_MSG(std::equal(expected.begin(), expected.end(), labels.data),
                      dataset << ", algorithm " << m << ", step " << step);
            exact_round_columns(matrix_view<const int64_t>(words_of(memories[m]).data(), kSumWords, k * (d + 1)),
                                vector_view(sums.data(), k * (d + 1)));
            if (m == 0) first = sums;
            CHECK(sums == first);
            memories[m].round_sums(vector_view(sums.data(), k * (d + 1)), Run{threads[m]});
            CHECK(sums == first);
          }
          for (int64_t c = 0; c < k; ++c)
            for (int64_t j = 0; j < d && first[static_cast<size_t>(c * (d + 1))] > 0; ++j)
              centers[static_cast<size_t>(c * d + j)] =
                  first[static_cast<size_t>(c * (d + 1) + j + 1)] / first[static_cast<size_t>(c * (d + 1))];
          if (step == 2)
            std::copy_n(&x[random() % static_cast<size_t>(n) * static_cast<size_t>(d)], d, centers.begin());
        }
      }
}

TEST("kmeans: sums of clusters are exact, weighted ones too, over all magnitudes") {
  std::mt19937_64 random(11);
  for (const auto& dataset : kDatasets) {
    const int64_t n = 500, d = 3, k = 4;
    const auto x = points(dataset, n, d, 12);
    std::vector<double> weights(static_cast<size_t>(n));
    std::vector<int32_t> labels(weights.size());
    for (auto& w : weights) w = static_cast<double>(random() % 1000) / 7;
    for (auto& l : labels) l = static_cast<int32_t>(random() % 5) - 1;
    for (bool weighted : {false, true}) {
      std::vector<int64_t> words(static_cast<size_t>(kSumWords * k * (d + 1)), 0);
      const auto sums = matrix_view(words.data(), kSumWords, k * (d + 1));
      const auto w = weighted ? vector_view<const double>(weights.data(), n) : View<const double, 1>{};
      add_cluster_sums(matrix(x, d), w, vector_view<const int32_t>(labels.data(), n), sums, Run{2});
      std::vector<ExactSum> expected(static_cast<size_t>(k * (d + 1)));
      for (size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] < 0) continue;
        ExactSum* const mine = &expected[static_cast<size_t>(labels[i] * (d + 1))];
        mine[0].add(weighted ? weights[i] : 1.0);
        for (size_t j = 0; j < static_cast<size_t>(d); ++j)
          mine[j + 1].add_product(weighted ? weights[i] : 1.0, x[i * static_cast<size_t>(d) + j]);
      }
      std::vector<double> rounded(expected.size());
      exact_round_columns(sums, vector_view(rounded.data(), k * (d + 1)));
      for (size_t c = 0; c < expected.size(); ++c)
        CHECK_MSG(rounded[c] == expected[c].round(), dataset << ", column " << c);
    }
  }
}

TEST("kmeans: after a cancelled step the next one starts from scratch") {
  const int64_t n = 20'000, d = 2, k = 5;
  const auto x = points("normal", n, d, 13), centers = random_rows(x, d, k, 14), others = random_rows(x, d, k, 15);
  for (auto algorithm : {LloydAlgorithm::lloyd, LloydAlgorithm::hamerly, LloydAlgorithm::group_bounds}) {
    LloydMemory memory(n, d, k, algorithm), fresh(n, d, k, algorithm);
    memory.step(matrix(x, d), {}, matrix(centers, d), Run{2});
    const std::atomic<bool> cancel{true};
    CHECK_THROWS(Cancelled, memory.step(matrix(x, d), {}, matrix(others, d), Run{2, &cancel}));
    const auto counts = memory.step(matrix(x, d), {}, matrix(others, d), Run{2});
    fresh.step(matrix(x, d), {}, matrix(others, d), Run{2});
    CHECK(counts.changed == n);
    CHECK(std::equal(memory.labels().data, memory.labels().data + n, fresh.labels().data));
    std::vector<double> a(static_cast<size_t>(k * (d + 1))), b(a.size());
    memory.round_sums(vector_view(a.data(), k * (d + 1)), Run{1});
    fresh.round_sums(vector_view(b.data(), k * (d + 1)), Run{1});
    CHECK(a == b);
  }
}
