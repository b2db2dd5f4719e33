#include "ebb/sched/knapsack.h"

#include <gtest/gtest.h>

#include <limits>

#include "ebb/base/random.h"

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

}  // namespace
}  // namespace ebb::sched
