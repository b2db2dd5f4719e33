#pragma once

/// The machines: nodes with GPUs of one type, each in at most one pool.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/units.h"

namespace ebb {

/// Index of a node in ClusterSpec::nodes.
using NodeId = std::uint32_t;

/// The pools that lending and services know by name.
inline constexpr std::string_view kTrainingPool = "training";
inline constexpr std::string_view kServingPool = "serving";

struct NodeSpec {
  std::string name;      ///< unique, for example "node-0007"
  GpuCount gpus = 0;     ///< at least 1
  std::string gpu_type;  ///< "" = unnamed; otherwise for example "a100"
  std::string pool;      ///< "" = none; otherwise for example "training"

  bool operator==(const NodeSpec&) const = default;
};

struct ClusterSpec {
  std::vector<NodeSpec> nodes;

  GpuCount total_gpus() const;
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace ebb
