#pragma once

/// Waiting jobs of one class in queue order, each with an estimated run time, answering "the first one that is
/// estimated to take at most x" in logarithmic time: a balanced tree in which every subtree knows its least estimate.

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>
#include <optional>

#include "ebb/base/units.h"
#include "ebb/sched/queue_key.h"

namespace ebb::policies {

namespace internal {

template <typename ConstNode, typename Node, typename Compare, typename Allocator>
struct LeastEstimate {
  using metadata_type = Duration;

  virtual ~LeastEstimate() = default;
  virtual ConstNode node_begin() const = 0;
  virtual ConstNode node_end() const = 0;

  void operator()(Node node, ConstNode end) const {
    Duration least = (*node)->second;
    for (const ConstNode child : {ConstNode(node.get_l_child()), ConstNode(node.get_r_child())}) {
      if (child != end) least = std::min(least, child.get_metadata());
    }
    const_cast<Duration&>(node.get_metadata()) = least;
  }

  std::optional<sched::QueueKey> first_at_most(Duration limit) const {
    ConstNode node = node_begin();
    const ConstNode end = node_end();
    if (node == end || node.get_metadata() > limit) return std::nullopt;
    while (true) {
      const ConstNode left = node.get_l_child();
      if (left != end && left.get_metadata() <= limit) {
        node = left;
      } else if ((*node)->second <= limit) {
        return (*node)->first;
      } else {
        node = node.get_r_child();
      }
    }
  }
};

}  // namespace internal

using EstimateQueue = __gnu_pbds::tree<sched::QueueKey, Duration, std::less<sched::QueueKey>, __gnu_pbds::rb_tree_tag,
                                       internal::LeastEstimate>;

}  // namespace ebb::policies
