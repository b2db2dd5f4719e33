#pragma once

/// Internal: what services of a workload need over time, as events in order of time, and the services themselves: each
/// is added before the first event about it.
///
/// A rate of requests becomes the number of replicas at which the service meets its target (perf/queueing.h), at most
/// twice as many as all GPUs of the cluster hold: asking for more would change nothing.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ebb/model/event.h"
#include "ebb/model/workload.h"
#include "ebb/perf/profile.h"
#include "ebb/sim/recorder.h"

namespace ebb::sim {

class DemandSource {
 public:
  DemandSource(const Workload& workload, GpuCount cluster_gpus);

  std::optional<Time> next() const;
  /// Events taken so far.
  std::size_t taken() const { return taken_; }
  /// Takes all that is due at `now`, and tells the recorder the rates.
  void take(Time now, std::vector<Event>& batch, Recorder& recorder);
  /// The first task of a service brings the service.
  void add_service_of(const JobSpec& task, const perf::ProfileSet* profiles, std::vector<Event>& batch);

 private:
  struct Demand {
    Time at{};
    ServiceId service = 0;
    double requests_per_s = 0;
    ReplicaNeed need;
  };

  ReplicaNeed need_of(const ServiceSpec& spec, double requests_per_s) const;
  void add(const ServiceSpec& spec, std::vector<Event>& batch);

  const Workload& workload_;
  GpuCount cluster_gpus_;
  std::vector<Demand> demand_;  // in order of time
  std::size_t taken_ = 0;
  std::size_t added_ = 0;        // services
  std::set<std::string> names_;  // of these
};

}  // namespace ebb::sim
