#include "ebb/sim/demand_source.h"

#include <algorithm>
#include <map>

#include "ebb/perf/queueing.h"
#include "ebb/sim/resolve.h"

namespace ebb::sim {

DemandSource::DemandSource(const Workload& workload, GpuCount cluster_gpus)
    : workload_(workload), cluster_gpus_(cluster_gpus) {
  for (ServiceId id = 0; id < workload.services.size(); ++id) {
    const ServiceSpec& spec = workload.services[id].spec;
    std::map<double, ReplicaNeed> known;  // rates come again, day by day
    for (const RatePoint& point : workload.services[id].requests) {
      const auto [found, is_new] = known.try_emplace(point.requests_per_s);
      if (is_new) found->second = need_of(spec, point.requests_per_s);
      demand_.push_back({point.at, id, point.requests_per_s, found->second});
    }
  }
  std::sort(demand_.begin(), demand_.end(),
            [](const Demand& a, const Demand& b) { return a.at != b.at ? a.at < b.at : a.service < b.service; });
}

ReplicaNeed DemandSource::need_of(const ServiceSpec& spec, double requests_per_s) const {
  if (requests_per_s <= 0) return {};
  const std::int32_t most = std::max(1, 2 * cluster_gpus_ / std::max(spec.gpus, 1));
  ReplicaNeed need;
  need.asked = perf::mdc_replicas(requests_per_s, spec.service_time, spec.target_latency, spec.percentile, most);
  need.at_least = need.asked;
  need.capped = need.asked == most;
  // However many it takes, they are more than the requests that are in service at a time.
  const double load = requests_per_s * to_seconds(spec.service_time);
  constexpr double kMost = 1e15;
  if (need.capped) need.at_least = std::max<std::int64_t>(most, static_cast<std::int64_t>(std::min(load, kMost)) + 1);
  return need;
}

std::optional<Time> DemandSource::next() const {
  if (taken_ == demand_.size()) return std::nullopt;
  return demand_[taken_].at;
}

void DemandSource::add(const ServiceSpec& spec, std::vector<Event>& batch) {
  batch.emplace_back(ServiceAdded{static_cast<ServiceId>(added_++), spec});
  names_.insert(spec.name);
}

void DemandSource::take(Time now, std::vector<Event>& batch, Recorder& recorder) {
  for (; next() == now; ++taken_) {
    const Demand& demand = demand_[taken_];
    // The services of the workload come first, at the first moment that anything is known of one.
    while (added_ < workload_.services.size()) add(workload_.services[added_].spec, batch);
    batch.emplace_back(ServiceDemand{demand.service, demand.need.asked});
    recorder.demand(demand.service, workload_.services[demand.service].spec, demand.requests_per_s, demand.need);
  }
}

void DemandSource::add_service_of(const JobSpec& task, const perf::ProfileSet* profiles, std::vector<Event>& batch) {
  while (!names_.contains(task.application)) {
    if (added_ < workload_.services.size()) {
      add(workload_.services[added_].spec, batch);
      continue;
    }
    ServiceSpec spec;
    spec.name = task.application;
    spec.gpus = task.gpus;
    spec.start_delay = start_delay_of(task.application, profiles);
    add(spec, batch);
  }
}

}  // namespace ebb::sim
