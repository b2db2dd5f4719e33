#pragma once

/// Inference services: who needs how many GPUs, and how many requests come when. Single inference tasks (JobSpec with
/// JobKind::inference) name their service as their application.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/model/cluster.h"

namespace ebb {

/// Number of a service in order of appearance, from 0.
using ServiceId = std::uint32_t;
/// Number of a replica in order of its start, from 0; never reused.
using ReplicaId = std::uint32_t;

struct ServiceSpec {
  std::string name;
  GpuCount gpus = 1;          ///< of one replica, on one node
  Duration start_delay{};     ///< from holding the GPUs to serving, when it is not warm
  Duration service_time{};    ///< one request on one replica; 0 for services of single tasks
  Duration target_latency{};  ///< 0 for services of single tasks
  double percentile = 0.99;   ///< share of requests that must meet the target

  bool operator==(const ServiceSpec&) const = default;
};

/// From `at` on, until the next point.
struct RatePoint {
  Time at{};
  double requests_per_s = 0;

  bool operator==(const RatePoint&) const = default;
};

/// A service with its demand over time.
struct ServiceLoad {
  ServiceSpec spec;
  std::vector<RatePoint> requests;  ///< in order of time; the rate is 0 before the first point

  bool operator==(const ServiceLoad&) const = default;
};

/// Whether serving GPUs that are not needed may train, and the other way round.
enum class Lending : std::uint8_t {
  none,         ///< training and serving keep to their pools
  pooled,       ///< both use all GPUs of both pools
  partitioned,  ///< serving keeps to its pool; training borrows there what serving does not need
};
const char* to_string(Lending lending);
/// Errors: invalid_argument listing the names.
Result<Lending> parse_lending(std::string_view name);

}  // namespace ebb
