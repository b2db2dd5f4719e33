#pragma once

/// Multiple-choice knapsack: each group takes at most one of its items, item w weighs w units. Exact dynamic program
/// over groups and capacity; O(groups x capacity x items of a group), with an inner loop over capacities that has no
/// branch and no dependence, so that compilers vectorise it. Memory: O(groups x capacity) bits of choice, as 2 bytes.
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
