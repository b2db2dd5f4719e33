#pragma once

/// How many replicas a service needs at a rate of requests, remembered: rates come again, day by day. One object a
/// service; not thread-safe.

#include <cstdint>
#include <map>

#include "ebb/model/service.h"
#include "ebb/perf/queueing.h"

namespace ebb::sim {

class NeededReplicas {
 public:
  /// `most`: what is needed at most, whatever the rate.
  NeededReplicas(const ServiceSpec& spec, std::int32_t most) : spec_(spec), most_(most) {}

  std::int32_t operator()(double requests_per_s) {
    const auto [found, is_new] = known_.try_emplace(requests_per_s, 0);
    if (is_new && requests_per_s > 0) {
      found->second =
          perf::mdc_replicas(requests_per_s, spec_.service_time, spec_.target_latency, spec_.percentile, most_);
    }
    return found->second;
  }

 private:
  const ServiceSpec& spec_;
  std::int32_t most_;
  std::map<double, std::int32_t> known_;
};

}  // namespace ebb::sim
