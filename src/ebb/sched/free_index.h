#pragma once

/// How many GPUs are available on each node, indexed for placement: nodes are kept in bit sets by group and by number
/// of available GPUs, so that "the lowest node with room", "the tightest node that holds 4" and "the emptiest node"
/// cost a scan of a few machine words. Copyable: what-if questions work on a copy.
///
/// A group is all nodes with the same (GPU type, pool); at most 64 of them.

#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/cluster.h"
#include "ebb/model/job.h"

namespace ebb::sched {

using GroupId = std::uint32_t;
/// A set of groups: bit g stands for group g.
using GroupMask = std::uint64_t;
inline constexpr std::size_t kMaxGroups = 64;

class FreeIndex {
 public:
  /// `group_of[node]` for every node; all nodes start with 0 available GPUs.
  explicit FreeIndex(std::vector<GroupId> group_of);

  GpuCount available(NodeId node) const { return available_[node]; }
  GroupId group_of(NodeId node) const { return group_of_[node]; }
  std::size_t group_count() const { return groups_.size(); }
  void set_available(NodeId node, GpuCount gpus);
  void remove(const Allocation& allocation);

  /// Available GPUs in the groups (bits beyond the last group are ignored).
  GpuCount sum(GroupMask groups) const;
  GpuCount group_sum(GroupId group) const { return groups_[group].sum; }

  /// The lowest node in the groups that has exactly `level` >= 1 GPUs available and an index >= `from`.
  std::optional<NodeId> first_at(GroupMask groups, GpuCount level, NodeId from = 0) const;
  /// The lowest node in the groups with any GPU available and an index >= `from`.
  std::optional<NodeId> first_nonempty(GroupMask groups, NodeId from = 0) const;
  /// The smallest number of available GPUs >= `at_least` (>= 1) that some node in the groups has; 0 if there is none.
  GpuCount tightest_level(GroupMask groups, GpuCount at_least) const;
  /// The largest number of available GPUs <= `at_most` that some node in the groups has; 0 if there is none.
  GpuCount widest_level(GroupMask groups, GpuCount at_most) const;

 private:
  using Bits = std::vector<std::uint64_t>;
  struct Group {
    GpuCount sum = 0;
    Bits nonempty;
    std::vector<Bits> at_level;           // by level, empty until used
    std::vector<std::uint32_t> count_at;  // nodes by level
  };

  std::vector<GroupId> group_of_;
  std::vector<GpuCount> available_;
  std::vector<Group> groups_;
};

}  // namespace ebb::sched
