#pragma once

/// The workload generator of `ebb sim lending`: many workloads like a given one, beside services whose demand follows a
/// day. docs/reference/lending.md says what it assumes.
///
/// Training jobs (a smoothed bootstrap of the trace's training jobs): job i of a workload is a copy of a job drawn
/// uniformly with replacement; its submission is drawn from the trace's own submissions, smoothed: with the submissions
/// a_0 <= ... <= a_(n-1) in order and u uniform in [0, 1), it is the value at u (n - 1) of the line through the points
/// (k, a_k). A load L gives round(L n) jobs. All draws come from the seed, stream "lending.jobs", two a job in order of
/// i: a workload of a larger load and the same seed has all the jobs of a smaller one, at the same times.
///
/// Services: one period of demand is planned in whole replicas (demand_shape.h) and unrolled from time 0 on. Where in
/// its period a run begins is another place for every seed, evenly spread: the fractional part of seed x 0.618034.
/// Training begins kWarmUp later, so that replicas do not all load with the first job.
///
/// Deterministic; any thread.

#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/cluster.h"
#include "ebb/model/workload.h"
#include "ebb/sim/demand_shape.h"

namespace ebb::sim {

/// Between the start of the services and the trace's first submission.
inline constexpr Duration kWarmUp = std::chrono::minutes(15);

/// A service of the study: what it is, how its demand goes over the day, and its part of the serving GPUs.
struct StudyService {
  ServiceSpec spec;
  WeightedShape demand;
};

/// One period of the demand of all services at one power.
struct DemandPlan {
  double power = 1;
  double mean_share = 0;     ///< of s(t)
  double replica_share = 0;  ///< GPUs of the whole replicas over the serving GPUs, mean over the period
  struct Step {
    Duration at{};
    std::int32_t replicas = 0;
    double requests_per_s = 0;
  };
  std::vector<std::vector<Step>> steps;  ///< by service
};

/// GPUs of the serving pool, and of all others.
struct Halves {
  GpuCount training = 0;
  GpuCount serving = 0;
};
/// `cluster`: with pools (cluster_for of simulator.h). Errors: invalid_argument where there are fewer than two nodes,
/// no pool "serving", or nothing beside it.
Result<Halves> halves_of(const ClusterSpec& cluster);

/// Replicas of `gpus` GPUs that the serving pool can hold.
std::int32_t most_replicas(const ClusterSpec& cluster, GpuCount gpus);

/// Errors: invalid_argument if some service never needs a replica.
Result<DemandPlan> plan_demand(const ClusterSpec& cluster, const std::vector<StudyService>& services, double power);

struct LendingWorkloadOptions {
  double load = 1;  ///< factor of the number of jobs
  std::uint64_t seed = 1;
  double request_noise = 0;           ///< standard deviation of the log of a rate, drawn anew every five minutes
  std::optional<Duration> day_start;  ///< where in its period the demand begins; nullopt: by the seed
  Duration tail = std::chrono::hours(7 * 24);  ///< demand goes on so long after the last submission
};

/// `trace`: training jobs only, at least one. Never more replicas than the serving pool holds.
Workload lending_workload(const ClusterSpec& cluster, const Workload& trace, const std::vector<StudyService>& services,
                          const DemandPlan& plan, const LendingWorkloadOptions& options);

/// GPU-seconds of the serving pool that no service needs, between two times: what could be lent at most.
double idle_gpu_seconds(const ClusterSpec& cluster, const std::vector<ServiceLoad>& services, Time from, Time to);

}  // namespace ebb::sim
