#pragma once

/// The group knapsack of knapsack.h, nearly: a choice that is usually within one item of the optimum, with a bound that
/// says how near. Upper concave envelope of each group, segments taken by gain a unit (O(items + taken log groups)),
/// then repair: what is left is filled, and pairs of groups exchange units while that gains (O(items) a round). Items
/// of no value are taken as the exact solver does, where there is room.
///
/// The bound is that of the linear relaxation: no choice is worth more. `price` is its dual value, the gain of a unit
/// more. It also narrows the exact solver to what can be part of an optimum.

#include <span>
#include <vector>

#include "ebb/sched/knapsack.h"

namespace ebb::sched {

struct KnapsackEstimate {
  std::vector<int> units;  ///< by group; their sum is within the capacity
  double value = 0;        ///< of `units`
  double bound = 0;        ///< >= the optimum >= value
  double price = 0;        ///< >= 0
};

/// Of segments with equal gains a unit the one of the earlier group is taken first.
KnapsackEstimate estimate_group_knapsack(std::span<const KnapsackGroup> groups, int capacity);

/// Sum of the values of a choice, in order of the groups.
double knapsack_value(std::span<const KnapsackGroup> groups, std::span<const int> units);

}  // namespace ebb::sched
