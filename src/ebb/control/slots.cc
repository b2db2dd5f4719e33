#include "ebb/control/slots.h"

#include "ebb/base/check.h"

namespace ebb::control {

Slots::Slots(const ClusterSpec& cluster) {
  for (const NodeSpec& node : cluster.nodes)
    nodes_.push_back({std::vector<bool>(static_cast<std::size_t>(node.gpus)), 0});
}

std::vector<std::int32_t> Slots::take(NodeId node, GpuCount count) {
  std::vector<std::int32_t> taken;
  std::vector<bool>& used = nodes_[node].used;
  for (std::size_t slot = 0; slot < used.size() && std::cmp_less(taken.size(), count); ++slot) {
    if (used[slot]) continue;
    used[slot] = true;
    taken.push_back(static_cast<std::int32_t>(slot));
  }
  EBB_CHECK(std::cmp_equal(taken.size(), count));
  return taken;
}

void Slots::give_back(NodeId node, const std::vector<std::int32_t>& slots) {
  for (const std::int32_t slot : slots) nodes_[node].used[static_cast<std::size_t>(slot)] = false;
}

}  // namespace ebb::control
