#pragma once

/// Internal: which of the throughput model's network terms a placement uses, and by how much.

#include <algorithm>
#include <cstdint>

#include "ebb/base/units.h"
#include "ebb/model/training.h"

namespace ebb::perf {

/// Stands for "no time at all" where a logarithm or a power must exist.
inline constexpr double kNoTime = 1e-8;

enum class Network : std::uint8_t { none, node, cluster };

inline Network network_of(std::int32_t nodes, GpuCount replicas) {
  if (nodes > 1) return Network::cluster;
  return replicas > 1 ? Network::node : Network::none;
}

/// The factor of beta: replicas beyond two.
inline double beyond_two(GpuCount replicas) {
  return std::max(static_cast<double>(replicas) - 2, kNoTime);
}

inline double network_time(const ThroughputParams& p, Network network, double beyond) {
  switch (network) {
    case Network::cluster:
      return p.alpha_n + p.beta_n * beyond;
    case Network::node:
      return p.alpha_r + p.beta_r * beyond;
    case Network::none:
      break;
  }
  return kNoTime + kNoTime * beyond;
}

}  // namespace ebb::perf
