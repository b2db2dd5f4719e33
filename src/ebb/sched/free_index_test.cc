#include "ebb/sched/free_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace ebb::sched {
namespace {

// The same questions answered by looking at every node.
struct Naive {
  std::vector<GroupId> group_of;
  std::vector<GpuCount> available;

  bool in(GroupMask groups, NodeId n) const { return (groups >> group_of[n] & 1) != 0; }
  GpuCount sum(GroupMask groups) const {
    GpuCount total = 0;
    for (NodeId n = 0; n < available.size(); ++n) total += in(groups, n) ? available[n] : 0;
    return total;
  }
  template <typename Wanted>
  std::optional<NodeId> first(GroupMask groups, NodeId from, Wanted wanted) const {
    for (NodeId n = from; n < available.size(); ++n) {
      if (in(groups, n) && wanted(available[n])) return n;
    }
    return std::nullopt;
  }
  GpuCount level(GroupMask groups, bool tightest, GpuCount bound) const {
    GpuCount best = 0;
    for (NodeId n = 0; n < available.size(); ++n) {
      const GpuCount a = available[n];
      if (!in(groups, n) || a == 0 || (tightest ? a < bound : a > bound)) continue;
      if (best == 0 || (tightest ? a < best : a > best)) best = a;
    }
    return best;
  }
};

RC_GTEST_PROP(FreeIndexProperty, AnswersLikeAScanOfAllNodes, ()) {
  const auto nodes = *rc::gen::inRange<std::size_t>(1, 200);
  const auto groups = *rc::gen::inRange<GroupId>(1, 5);
  Naive naive;
  for (std::size_t n = 0; n < nodes; ++n)
    naive.group_of.push_back(n < groups ? static_cast<GroupId>(n) : *rc::gen::inRange<GroupId>(0, groups));
  naive.available.assign(nodes, 0);
  FreeIndex index(naive.group_of);
  const auto changes = *rc::gen::inRange(1, 100);
  for (int i = 0; i < changes; ++i) {
    const auto node = *rc::gen::inRange<NodeId>(0, static_cast<NodeId>(nodes));
    const auto gpus = *rc::gen::inRange<GpuCount>(0, 9);
    naive.available[node] = gpus;
    index.set_available(node, gpus);
  }
  const auto mask = *rc::gen::inRange<GroupMask>(0, GroupMask{1} << index.group_count());
  const auto from = *rc::gen::inRange<NodeId>(0, static_cast<NodeId>(nodes) + 1);
  const auto level = *rc::gen::inRange<GpuCount>(1, 10);
  RC_ASSERT(index.sum(mask) == naive.sum(mask));
  RC_ASSERT(index.first_at(mask, level, from) == naive.first(mask, from, [&](GpuCount a) { return a == level; }));
  RC_ASSERT(index.first_nonempty(mask, from) == naive.first(mask, from, [](GpuCount a) { return a > 0; }));
  RC_ASSERT(index.tightest_level(mask, level) == naive.level(mask, true, level));
  RC_ASSERT(index.widest_level(mask, level) == naive.level(mask, false, level));
}

}  // namespace
}  // namespace ebb::sched
