#include "ebb/sched/free_index.h"

#include <algorithm>
#include <bit>

#include "ebb/base/check.h"

namespace ebb::sched {
namespace {

constexpr std::uint32_t kWordBits = 64;

void set_bit(std::vector<std::uint64_t>& bits, NodeId node, bool value) {
  const std::uint64_t bit = std::uint64_t{1} << (node % kWordBits);
  std::uint64_t& word = bits[node / kWordBits];
  word = value ? word | bit : word & ~bit;
}

std::optional<NodeId> first_bit(const std::vector<std::uint64_t>& bits, NodeId from) {
  std::size_t i = from / kWordBits;
  if (i >= bits.size()) return std::nullopt;
  std::uint64_t word = bits[i] & (~std::uint64_t{0} << (from % kWordBits));
  while (word == 0) {
    if (++i == bits.size()) return std::nullopt;
    word = bits[i];
  }
  return static_cast<NodeId>(i * kWordBits + static_cast<std::size_t>(std::countr_zero(word)));
}

template <typename Visit>
void for_each_group(GroupMask groups, Visit&& visit) {
  for (; groups != 0; groups &= groups - 1) visit(static_cast<GroupId>(std::countr_zero(groups)));
}

std::optional<NodeId> lower(std::optional<NodeId> a, std::optional<NodeId> b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

}  // namespace

FreeIndex::FreeIndex(std::vector<GroupId> group_of) : group_of_(std::move(group_of)), available_(group_of_.size(), 0) {
  for (const GroupId group : group_of_) {
    if (group >= groups_.size()) groups_.resize(group + 1);
  }
  EBB_CHECK(groups_.size() <= kMaxGroups);
  for (Group& group : groups_) group.nonempty.resize((group_of_.size() + kWordBits - 1) / kWordBits);
}

void FreeIndex::set_available(NodeId node, GpuCount gpus) {
  EBB_CHECK(gpus >= 0);
  Group& group = groups_[group_of_[node]];
  GpuCount& current = available_[node];
  if (current == gpus) return;
  if (current > 0) {
    set_bit(group.at_level[static_cast<std::size_t>(current)], node, false);
    --group.count_at[static_cast<std::size_t>(current)];
  }
  if (gpus > 0) {
    const auto level = static_cast<std::size_t>(gpus);
    if (level >= group.at_level.size()) {
      group.at_level.resize(level + 1);
      group.count_at.resize(level + 1, 0);
    }
    if (group.at_level[level].empty()) group.at_level[level].resize(group.nonempty.size());
    set_bit(group.at_level[level], node, true);
    ++group.count_at[level];
  }
  if ((current > 0) != (gpus > 0)) set_bit(group.nonempty, node, gpus > 0);
  group.sum += gpus - current;
  current = gpus;
}

void FreeIndex::remove(const Allocation& allocation) {
  for (const NodeShare& share : allocation) set_available(share.node, available_[share.node] - share.gpus);
}

GpuCount FreeIndex::sum(GroupMask groups) const {
  GpuCount total = 0;
  for (GroupId g = 0; g < groups_.size(); ++g) {
    if ((groups >> g & 1) != 0) total += groups_[g].sum;
  }
  return total;
}

std::optional<NodeId> FreeIndex::first_at(GroupMask groups, GpuCount level, NodeId from) const {
  std::optional<NodeId> first;
  const auto index = static_cast<std::size_t>(level);
  for_each_group(groups, [&](GroupId g) {
    const Group& group = groups_[g];
    if (index < group.count_at.size() && group.count_at[index] > 0) {
      first = lower(first, first_bit(group.at_level[index], from));
    }
  });
  return first;
}

std::optional<NodeId> FreeIndex::first_nonempty(GroupMask groups, NodeId from) const {
  std::optional<NodeId> first;
  for_each_group(groups, [&](GroupId g) {
    if (groups_[g].sum > 0) first = lower(first, first_bit(groups_[g].nonempty, from));
  });
  return first;
}

GpuCount FreeIndex::tightest_level(GroupMask groups, GpuCount at_least) const {
  GpuCount best = 0;
  for_each_group(groups, [&](GroupId g) {
    const Group& group = groups_[g];
    for (auto level = static_cast<std::size_t>(at_least); level < group.count_at.size(); ++level) {
      if (group.count_at[level] > 0) {
        const auto found = static_cast<GpuCount>(level);
        best = best == 0 ? found : std::min(best, found);
        break;
      }
    }
  });
  return best;
}

GpuCount FreeIndex::widest_level(GroupMask groups, GpuCount at_most) const {
  GpuCount best = 0;
  for_each_group(groups, [&](GroupId g) {
    const Group& group = groups_[g];
    if (group.count_at.empty()) return;
    for (auto level = std::min(static_cast<std::size_t>(at_most), group.count_at.size() - 1); level > 0; --level) {
      if (group.count_at[level] > 0) {
        best = std::max(best, static_cast<GpuCount>(level));
        break;
      }
    }
  });
  return best;
}

}  // namespace ebb::sched
