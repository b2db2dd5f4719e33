#include "ebb/sched/placement.h"

#include <algorithm>

#include "ebb/sched/capacity.h"

namespace ebb::sched {
namespace {

void in_order_of_node(Allocation& allocation) {
  std::sort(allocation.begin(), allocation.end(),
            [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
}

class CountPlacement final : public Placement {
 public:
  std::optional<Allocation> place(const FreeIndex& free, const Capacity&, GroupMask groups,
                                  GpuCount gpus) const override {
    if (free.sum(groups) < gpus) return std::nullopt;
    Allocation allocation;
    NodeId from = 0;
    while (gpus > 0) {
      const NodeId node = *free.first_nonempty(groups, from);
      const GpuCount taken = std::min(gpus, free.available(node));
      allocation.push_back({node, taken});
      gpus -= taken;
      from = node + 1;
    }
    return allocation;
  }
};

class BestFitPlacement final : public Placement {
 public:
  explicit BestFitPlacement(bool consolidate) : consolidate_(consolidate) {}

  bool strict() const override { return consolidate_; }

  std::optional<Allocation> place(const FreeIndex& free, const Capacity& capacity, GroupMask groups,
                                  GpuCount gpus) const override {
    if (free.sum(groups) < gpus) return std::nullopt;
    if (consolidate_) {
      const std::size_t least = capacity.least_nodes(groups, gpus);
      if (least == 0 || nodes_needed(free, groups, gpus) > least) return std::nullopt;
    }
    Allocation allocation;
    GpuCount level = free.widest_level(groups, gpus);
    NodeId from = 0;
    while (gpus > 0) {
      // One node for all that is left, the tightest that this gang does not use yet.
      if (const auto last = tightest_unused(free, groups, gpus, allocation)) {
        allocation.push_back({*last, gpus});
        break;
      }
      // Otherwise the emptiest node as a whole.
      std::optional<NodeId> node;
      while (!(node = free.first_at(groups, level, from))) {
        level = free.widest_level(groups, level - 1);
        from = 0;
      }
      allocation.push_back({*node, level});
      gpus -= level;
      from = *node + 1;
    }
    in_order_of_node(allocation);
    return allocation;
  }

 private:
  // Nodes that the emptiest-first filling would use.
  static std::size_t nodes_needed(const FreeIndex& free, GroupMask groups, GpuCount gpus) {
    std::size_t nodes = 0;
    GpuCount level = free.widest_level(groups, std::numeric_limits<GpuCount>::max());
    NodeId from = 0;
    while (gpus > 0) {
      const auto node = free.first_at(groups, level, from);
      if (!node) {
        level = free.widest_level(groups, level - 1);
        from = 0;
        continue;
      }
      ++nodes;
      gpus -= std::min(gpus, level);
      from = *node + 1;
    }
    return nodes;
  }

  static std::optional<NodeId> tightest_unused(const FreeIndex& free, GroupMask groups, GpuCount gpus,
                                               const Allocation& used) {
    for (GpuCount level = free.tightest_level(groups, gpus); level > 0;
         level = free.tightest_level(groups, level + 1)) {
      for (auto node = free.first_at(groups, level); node; node = free.first_at(groups, level, *node + 1)) {
        if (std::none_of(used.begin(), used.end(), [&](const NodeShare& share) { return share.node == *node; })) {
          return node;
        }
      }
    }
    return std::nullopt;
  }

  bool consolidate_;
};

class SpreadPlacement final : public Placement {
 public:
  std::optional<Allocation> place(const FreeIndex& free, const Capacity&, GroupMask groups,
                                  GpuCount gpus) const override {
    if (free.sum(groups) < gpus) return std::nullopt;
    // The `gpus` emptiest nodes at most; then one GPU a node in turn until the gang is whole.
    Allocation allocation;
    GpuCount level = free.widest_level(groups, std::numeric_limits<GpuCount>::max());
    for (NodeId from = 0; level > 0 && allocation.size() < static_cast<std::size_t>(gpus);) {
      const auto node = free.first_at(groups, level, from);
      if (!node) {
        level = free.widest_level(groups, level - 1);
        from = 0;
        continue;
      }
      allocation.push_back({*node, 0});
      from = *node + 1;
    }
    while (gpus > 0) {
      for (NodeShare& share : allocation) {
        if (gpus > 0 && share.gpus < free.available(share.node)) {
          ++share.gpus;
          --gpus;
        }
      }
    }
    in_order_of_node(allocation);
    return allocation;
  }
};

}  // namespace

Result<std::shared_ptr<const Placement>> make_placement(std::string_view name) {
  if (name == "count") return std::make_shared<CountPlacement>();
  if (name == "best_fit") return std::make_shared<BestFitPlacement>(/*consolidate=*/false);
  if (name == "consolidate") return std::make_shared<BestFitPlacement>(/*consolidate=*/true);
  if (name == "spread") return std::make_shared<SpreadPlacement>();
  return fail(ErrorCode::invalid_argument, "unknown placement '{}'; known: {}", name, placement_names());
}

std::string_view placement_names() {
  return "count|best_fit|consolidate|spread";
}

}  // namespace ebb::sched
