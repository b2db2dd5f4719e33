#include "ebb/sched/knapsack.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ebb/base/random.h"
#include "ebb/sched/knapsack_greedy.h"

namespace ebb::sched {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

using Groups = std::vector<KnapsackGroup>;

// The table as one would write it down, all of it.
std::vector<int> by_the_book(const Groups& groups, int capacity) {
  std::vector<std::vector<double>> best(groups.size() + 1, std::vector<double>(capacity + 1, 0.0));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (int c = 0; c <= capacity; ++c) {
      best[i + 1][c] = best[i][c];
      for (int w = 1; w <= c && w <= static_cast<int>(groups[i].value.size()); ++w) {
        best[i + 1][c] = std::max(best[i + 1][c], best[i][c - w] + groups[i].value[w - 1]);
      }
    }
  }
  std::vector<int> units(groups.size());
  int left = capacity;
  for (std::size_t i = groups.size(); i-- > 0;) {
    for (int w = 1; w <= left && w <= static_cast<int>(groups[i].value.size()); ++w) {
      if (best[i][left - w] + groups[i].value[w - 1] == best[i + 1][left]) {
        units[i] = w;
        break;
      }
    }
    left -= units[i];
  }
  return units;
}

TEST(Knapsack, TakesTheBestCombination) {
  // 3 units: 4 + 4 from the first two beats 7 for all of the third.
  EXPECT_EQ(solve_group_knapsack(Groups{{{4, 5}}, {{1, 4}}, {{2, 3, 7}}}, 3), (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(solve_group_knapsack(Groups{{{4, 5}}, {{1, 4}}, {{2, 3, 9}}}, 3), (std::vector<int>{0, 0, 3}));
}

TEST(Knapsack, EdgesOfItsInput) {
  EXPECT_EQ(solve_group_knapsack({}, 5), std::vector<int>{});
  EXPECT_EQ(solve_group_knapsack(Groups{{{4}}, {{}}}, 0), (std::vector<int>{0, 0}));
  EXPECT_EQ(solve_group_knapsack(Groups{{{4}}, {{}}, {{1, 2}}}, 100), (std::vector<int>{1, 0, 2}));
}

TEST(Knapsack, OfEqualValuesTheFewestUnitsButNotNoneFromTheLastGroup) {
  // All of these are worth 2: the last group takes what attains it with fewest units, although none would do.
  EXPECT_EQ(solve_group_knapsack(Groups{{{2}}, {{2, 2}}}, 1), (std::vector<int>{0, 1}));
  EXPECT_EQ(solve_group_knapsack(Groups{{{0, 0}}}, 2), std::vector<int>{1});
  EXPECT_EQ(solve_group_knapsack(Groups{{{-1, 0}}}, 2), std::vector<int>{2});
  EXPECT_EQ(solve_group_knapsack(Groups{{{-1, -2}}}, 2), std::vector<int>{0});
}

TEST(Knapsack, ItemsThatMayNotBeTakenAreNot) {
  EXPECT_EQ(solve_group_knapsack(Groups{{{kNever, kNever, kNever, 1}}, {{0.5, kNever}}}, 4), (std::vector<int>{4, 0}));
  EXPECT_EQ(solve_group_knapsack(Groups{{{kNever, kNever, kNever, 1}}, {{0.5, kNever}}}, 3), (std::vector<int>{0, 1}));
}

TEST(Knapsack, IsExact) {
  Random random(1, "knapsack test");
  for (int round = 0; round < 200; ++round) {
    const int capacity = static_cast<int>(random.below(70));
    Groups groups(random.below(12));
    for (KnapsackGroup& group : groups) {
      group.value.resize(random.below(20));
      for (double& value : group.value) {
        // Few different values, so that there are ties.
        value = random.below(8) == 0 ? kNever : static_cast<double>(random.below(10)) / 2 - 1;
      }
    }
    EXPECT_EQ(solve_group_knapsack(groups, capacity), by_the_book(groups, capacity)) << round;
  }
}

TEST(Knapsack, IsExactWhenTheTableIsTooLargeToKeep) {
  Random random(2, "knapsack test");
  Groups groups(1500);
  for (KnapsackGroup& group : groups) {
    group.value.resize(1 + random.below(4));
    for (double& value : group.value) value = static_cast<double>(random.below(1000)) / 8;
  }
  for (const int capacity : {2000, 6000}) {
    const std::vector<int> units = solve_group_knapsack(groups, capacity);
    EXPECT_EQ(units, by_the_book(groups, capacity)) << capacity;
  }
}

// All groups the same line: nothing can be left out, every capacity is part of an optimum.
TEST(Knapsack, IsExactWhereEverythingIsTied) {
  Groups groups(1500);
  for (KnapsackGroup& group : groups) {
    for (int w = 1; w <= 8; ++w) group.value.push_back(w / 4.0);
  }
  EXPECT_EQ(solve_group_knapsack(groups, 6000), by_the_book(groups, 6000));
}

// Concave in steps of one or several units, few of them different: where optima abound and only the rule among equals
// tells which one it is. Values are eighths, so that sums are exact in any order.
KnapsackGroup any_concave(Random& random) {
  const std::size_t step = 1 + random.below(3);
  KnapsackGroup group;
  group.value.assign(step * (1 + random.below(12)), kNever);
  double value = 0;
  double gain = static_cast<double>(1 + random.below(8));
  const double fall = static_cast<double>(random.below(3)) / 8;
  for (std::size_t w = step; w <= group.value.size(); w += step) {
    group.value[w - 1] = value += static_cast<double>(step) * gain;
    gain = std::max(gain - fall, 0.0);
  }
  return group;
}

TEST(Knapsack, IsExactWhereGroupsAreAlike) {
  Random random(5, "knapsack test");
  for (int round = 0; round < 300; ++round) {
    Groups kinds(1 + random.below(3));
    for (KnapsackGroup& kind : kinds) {
      kind = any_concave(random);
      // The size that a job has counts more.
      if (random.below(3) == 0) kind.value[random.below(kind.value.size())] += 0.5;
    }
    Groups groups(random.below(60));
    for (KnapsackGroup& group : groups) group = kinds[random.below(kinds.size())];
    const int capacity = static_cast<int>(random.below(400));
    EXPECT_EQ(solve_group_knapsack(groups, capacity), by_the_book(groups, capacity)) << round;
  }
}

// Multiples of 1/3 are tied but for rounding: the rule among equals holds as if they were not rounded.
TEST(Knapsack, RoundingIsNoLoss) {
  Groups groups(3);
  for (KnapsackGroup& group : groups) {
    for (int w = 1; w <= 64; ++w) group.value.push_back(w / 3.0);
  }
  EXPECT_EQ(solve_group_knapsack(groups, 100), (std::vector<int>{64, 35, 1}));
}

TEST(Knapsack, IsExactOnCurvesWithASpikeAtThePresentSize) {
  Random random(3, "knapsack test");
  for (const int capacity : {100, 400, 3000}) {
    Groups groups(150);
    for (KnapsackGroup& group : groups) {
      const double power = 0.5 + random.uniform() / 2;
      const auto present = static_cast<int>(random.below(17));
      const double factor = random.below(10) == 0 ? 0 : random.uniform();
      for (int w = 1; w <= 16; ++w) group.value.push_back(std::pow(w, power) * (w == present ? 1 : factor));
    }
    EXPECT_EQ(solve_group_knapsack(groups, capacity), by_the_book(groups, capacity)) << capacity;
  }
}

// All choices, one by one.
double best_of_all(const Groups& groups, std::size_t i, int left) {
  if (i == groups.size()) return 0;
  double best = best_of_all(groups, i + 1, left);
  for (int w = 1; w <= left && w <= static_cast<int>(groups[i].value.size()); ++w) {
    best = std::max(best, groups[i].value[w - 1] + best_of_all(groups, i + 1, left - w));
  }
  return best;
}

TEST(Knapsack, NoChoiceIsBetterThanTheExactOneNorThanTheBound) {
  EXPECT_TRUE(rc::check([] {
    const int capacity = *rc::gen::inRange(0, 12);
    const auto value = rc::gen::map(rc::gen::inRange(-3, 40), [](int v) { return v < 0 ? kNever : v / 8.0; });
    const auto group = rc::gen::map(rc::gen::resize(6, rc::gen::container<std::vector<double>>(value)),
                                    [](std::vector<double> values) { return KnapsackGroup{std::move(values)}; });
    const auto groups = *rc::gen::resize(5, rc::gen::container<Groups>(group));
    const double best = best_of_all(groups, 0, capacity);
    const std::vector<int> units = solve_group_knapsack(groups, capacity);
    RC_ASSERT(std::accumulate(units.begin(), units.end(), 0) <= capacity);
    RC_ASSERT(knapsack_value(groups, units) == best);
    RC_ASSERT(units == by_the_book(groups, capacity));
    const KnapsackEstimate estimate = estimate_group_knapsack(groups, capacity);
    RC_ASSERT(std::accumulate(estimate.units.begin(), estimate.units.end(), 0) <= capacity);
    RC_ASSERT(estimate.value == knapsack_value(groups, estimate.units));
    RC_ASSERT(estimate.value <= best);
    RC_ASSERT(estimate.bound >= best - 1e-9);
  }));
}

TEST(KnapsackEstimate, ExchangesUnitsThatTheEnvelopeWouldStrand) {
  // The envelope takes 2 for the first group (2.6 a unit), and then has 2 units for items of 3.
  const Groups groups{{{0, 5.2}}, {{0, 0, 6}}, {{1, 2}}};
  const KnapsackEstimate estimate = estimate_group_knapsack(groups, 4);
  EXPECT_EQ(estimate.value, 7.2);
  EXPECT_EQ(estimate.units, (std::vector<int>{2, 0, 2}));
  EXPECT_EQ(estimate_group_knapsack(Groups{{{0, 5.2}}, {{0, 0, 6}}, {{1}}}, 4).units, (std::vector<int>{0, 3, 1}));
}

TEST(KnapsackEstimate, TakesWhatCostsNothing) {
  EXPECT_EQ(estimate_group_knapsack(Groups{{{0, 0}}, {{-1, 0}}, {{3}}}, 4).units, (std::vector<int>{1, 2, 1}));
  EXPECT_EQ(estimate_group_knapsack(Groups{{{0, 0}}, {{-1, 0}}, {{3}}}, 3).units, (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(estimate_group_knapsack(Groups{{{-1, -2}}}, 2).units, std::vector<int>{0});
}

TEST(KnapsackEstimate, IsWithinAPercentOnManyCurves) {
  Random random(4, "knapsack test");
  Groups groups(300);
  for (KnapsackGroup& group : groups) {
    const double power = 0.5 + random.uniform() / 2;
    for (int w = 1; w <= 32; ++w) group.value.push_back(random.below(4) == 0 ? kNever : std::pow(w, power));
  }
  const KnapsackEstimate estimate = estimate_group_knapsack(groups, 1000);
  const double exact = knapsack_value(groups, solve_group_knapsack(groups, 1000));
  EXPECT_GE(estimate.value, 0.99 * exact);
  EXPECT_LE(estimate.bound, 1.01 * exact);
}

}  // namespace
}  // namespace ebb::sched
