#pragma once

/// Multiple-choice knapsack: each group takes at most one of its items, item w weighs w units. Exact: a dynamic program
/// over groups and capacity, limited to what can be part of an optimum. A good choice and the price of a unit
/// (knapsack_greedy.h) bound that: an item, or a capacity after so many groups, whose loss against the linear
/// relaxation exceeds the gap between the two is left out. The inner loop has no branch and no dependence, so that
/// compilers vectorise it.
///
/// Where no item that is left loses anything (all jobs scale alike: every optimum is one of very many), sums of units
/// tell an optimum, and values are not added: a bit for each sum that the first groups can make. A loss below 1e-12 of
/// the group's largest value counts as rounding there.
///
/// Cost: near O(items) where gains differ; O(items x capacity / 64) where all are tied; O(items x capacity), as without
/// bounds, where neither holds (the bound is loose: few, large sizes). Memory: 64 MiB and a few rows at most; rows
/// beyond are computed twice.
///
/// Of several optima: going back from the last group, each takes the fewest units > 0 with which the optimum is still
/// attained, and 0 only where none does (an item of no value at no loss is therefore taken).

#include <span>
#include <vector>

namespace ebb::sched {

struct KnapsackGroup {
  std::vector<double> value;  ///< value[w - 1] of taking w units, w = 1 ..; -infinity for w that may not be taken
};

/// Units for each group; their sum is at most `capacity` (>= 0). Values are finite or -infinity.
std::vector<int> solve_group_knapsack(std::span<const KnapsackGroup> groups, int capacity);

}  // namespace ebb::sched
