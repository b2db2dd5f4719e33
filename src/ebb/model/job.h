#pragma once

/// A job as its owner describes it. Here: rigid gangs, which hold all their GPUs or none. Elastic sizes (min, max,
/// step), services and loans join JobSpec and Allocation when they are built.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/cluster.h"

namespace ebb {

/// Number of a job in order of submission, from 0; never reused.
using JobId = std::uint32_t;

/// Priorities are within +-kMaxPriority.
inline constexpr int kMaxPriority = 1'000'000;

/// What is asked for when a job is submitted.
struct JobSpec {
  std::string name;                        ///< the owner's name of it; unique within a trace
  std::string tenant;                      ///< who pays; "" = nobody in particular
  GpuCount gpus = 0;                       ///< gang size, at least 1
  Time submit{};                           ///< submission
  int priority = 0;                        ///< higher first under every policy (drf: within the tenant)
  std::string gpu_type;                    ///< run only on this type; "" = any (a gang never mixes types)
  std::string pool;                        ///< run only in this pool; "" = see ebb::sched::Capacity
  std::optional<Duration> requested_time;  ///< what the owner asked for (a time limit), if known
  Duration run_time{};                     ///< true run time on these GPUs: known in a simulation only ("oracle")

  bool operator==(const JobSpec&) const = default;
};

/// GPUs held on one node.
struct NodeShare {
  NodeId node = 0;
  GpuCount gpus = 0;

  bool operator==(const NodeShare&) const = default;
};

/// The GPUs of a job, one entry a node, in order of node.
using Allocation = std::vector<NodeShare>;

/// Sum over the nodes.
GpuCount gpus_in(const Allocation& allocation);

}  // namespace ebb
