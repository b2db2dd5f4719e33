#pragma once

/// Which slots of which node are in use, and the numbers that fence their holders.

#include <cstdint>
#include <vector>

#include "ebb/model/cluster.h"

namespace ebb::control {

class Slots {
 public:
  explicit Slots(const ClusterSpec& cluster);

  /// The lowest free slots of a node, ascending; they are in use now. At least `count` are free.
  std::vector<std::int32_t> take(NodeId node, GpuCount count);
  void give_back(NodeId node, const std::vector<std::int32_t>& slots);
  /// Larger than any before on that node.
  std::uint64_t next_fence(NodeId node) { return ++nodes_[node].fence; }

 private:
  struct Node {
    std::vector<bool> used;
    std::uint64_t fence = 0;
  };
  std::vector<Node> nodes_;
};

}  // namespace ebb::control
