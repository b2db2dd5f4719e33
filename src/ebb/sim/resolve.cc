#include "ebb/sim/resolve.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ebb/sim/training_process.h"

namespace ebb::sim {
namespace {

// Whether so many GPUs can work on a batch of the range in whole passes of legal size.
bool size_fits(const BatchLimits& batch, GpuCount gpus) {
  const std::int64_t most = std::int64_t{gpus} * std::max<std::int64_t>(batch.local_max, 1);
  const std::int64_t passes = std::max<std::int64_t>(1, (batch.initial + most - 1) / most);
  return passes * gpus * batch.local_min <= batch.largest;
}

// Whether some legal number of GPUs can.
bool some_size_fits(const JobSpec& job) {
  for (GpuCount gpus = job.smallest(); gpus <= job.largest(); gpus += job.gpu_step) {
    if (size_fits(job.batch, gpus)) return true;
  }
  return false;
}

Result<void> resolve_job(JobSpec& job, const perf::ProfileSet& profiles, GpuCount node_gpus, GpuCount cluster_gpus,
                         bool up_to_cluster) {
  const perf::Profile* profile = profiles.find(job.application);
  if (profile == nullptr) {
    if (job.run_time > Duration(0) || job.application.empty()) {
      if (job.max_gpus == 0 && job.sizing != Sizing::rigid) job.max_gpus = std::max(job.gpus, job.min_gpus);
      return {};
    }
    return fail(ErrorCode::invalid_argument,
                "job '{}' is of application '{}' and says no run time, but there is no profile of it (profiles: {}); "
                "give a folder with one with --profiles",
                job.name, job.application, fmt::join(profiles.names(), ", "));
  }
  if (!job.batch.known()) job.batch = profile->limits();
  const BatchLimits& batch = job.batch;
  if (job.batch_size > batch.largest) {
    return fail(ErrorCode::invalid_argument, "job '{}' asks for batches of {} samples; '{}' trains with at most {}",
                job.name, job.batch_size, job.application, batch.largest);
  }
  if (batch.largest / job.smallest() < batch.local_min) {
    return fail(
        ErrorCode::invalid_argument,
        "job '{}' runs on at least {} GPUs with at least {} samples on each, but '{}' trains with at most {} in "
        "all: no number of GPUs fits",
        job.name, job.smallest(), batch.local_min, job.application, batch.largest);
  }
  if (job.sizing != Sizing::rigid && job.max_gpus == 0) {
    const GpuCount fed = std::max(batch.largest / std::max(batch.local_min, 1), 1);
    const GpuCount own = profile->max_gpus() > 0 ? std::min(fed, profile->max_gpus()) : fed;
    job.max_gpus = std::max(up_to_cluster ? cluster_gpus : std::min(own, cluster_gpus), job.min_gpus);
  }
  if (!some_size_fits(job)) {
    return fail(ErrorCode::invalid_argument,
                "job '{}' trains with batches of {} to {} samples, {} to {} on each GPU at a time: no number of GPUs "
                "from {} to {} fits",
                job.name, batch.initial, batch.largest, batch.local_min, batch.local_max, job.smallest(),
                job.largest());
  }
  // What policies of fixed size give it.
  if (!size_fits(batch, job.gpus)) {
    return fail(
        ErrorCode::invalid_argument,
        "job '{}' asks for {} GPUs and trains with batches of {} to {} samples, {} to {} on each GPU at a time: "
        "so many GPUs are too many; give it fewer, or a larger batch",
        job.name, job.gpus, batch.initial, batch.largest, batch.local_min, batch.local_max);
  }
  // What the trace says of it was on other GPUs, or at another batch size.
  job.run_time = std::max(time_alone(*profile, job, node_gpus), Duration(1));
  return {};
}

}  // namespace

bool has_tasks(const Workload& workload) {
  return std::any_of(workload.jobs.begin(), workload.jobs.end(),
                     [](const JobSpec& job) { return job.kind == JobKind::inference; });
}

bool names_applications(const Workload& workload) {
  return std::any_of(workload.jobs.begin(), workload.jobs.end(),
                     [](const JobSpec& job) { return !job.application.empty(); });
}

Result<void> resolve_profiles(Workload& workload, const perf::ProfileSet& profiles, const ClusterSpec& cluster,
                              bool up_to_cluster) {
  GpuCount node_gpus = 1;
  for (const NodeSpec& node : cluster.nodes) node_gpus = std::max(node_gpus, node.gpus);
  for (JobSpec& job : workload.jobs) {
    if (job.kind != JobKind::training) continue;
    EBB_RETURN_IF_ERROR(resolve_job(job, profiles, node_gpus, cluster.total_gpus(), up_to_cluster));
  }
  return {};
}

Duration start_delay_of(std::string_view service, const perf::ProfileSet* profiles) {
  perf::ApplicationCosts costs;
  if (profiles != nullptr) {
    for (const std::string& name : profiles->names()) {
      if (service.find(name) != std::string_view::npos) costs = profiles->find(name)->costs();
    }
  }
  return Duration(static_cast<std::int64_t>(std::llround(costs.cold_start_s * 1e9)));
}

ClusterSpec in_halves(ClusterSpec cluster) {
  const bool named =
      std::any_of(cluster.nodes.begin(), cluster.nodes.end(), [](const NodeSpec& node) { return !node.pool.empty(); });
  if (named) return cluster;
  const std::size_t half = cluster.nodes.size() / 2;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n)
    cluster.nodes[n].pool = n < half ? kTrainingPool : kServingPool;
  return cluster;
}

}  // namespace ebb::sim
