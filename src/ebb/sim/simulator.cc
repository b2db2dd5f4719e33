#include "ebb/sim/simulator.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "ebb/sim/engine.h"
#include "ebb/sim/resolve.h"
#include "ebb/sim/settings.h"
#include "ebb/spec/cluster.h"

namespace ebb::sim {
namespace {

using Assignments = std::vector<std::pair<std::string, std::string>>;

// --set serves the policy and the simulator: those that are the simulator's, or the others.
Assignments assignments(const Assignments& set, bool of_simulator) {
  Assignments chosen;
  for (const auto& assignment : set) {
    const auto specs = sim_options();
    const bool ours = std::any_of(specs.begin(), specs.end(),
                                  [&](const sched::OptionSpec& spec) { return spec.name == assignment.first; });
    if (ours == of_simulator) chosen.push_back(assignment);
  }
  return chosen;
}

Result<void> check_possible(const ClusterSpec& cluster, const Workload& workload, Lending lending) {
  sched::Capacity capacity(cluster, lending);
  std::size_t count = 0;
  const JobSpec* first = nullptr;
  GpuCount largest = 0;
  for (const JobSpec& job : workload.jobs) {
    if (job.kind != JobKind::training) continue;
    const sched::JobClass& job_class = capacity.job_class(capacity.class_of(job));
    if (job_class.possible()) continue;
    if (count++ == 0) {
      first = &job;
      largest = job_class.largest;
    }
  }
  if (count == 0) return {};
  return fail(ErrorCode::invalid_argument,
              "job '{}' needs {} GPUs{}{}, but the cluster has {} that it may use; {} of {} jobs can never run. Use a "
              "larger --cluster, or leave them out with --skip-impossible",
              first->name, first->gpus, first->gpu_type.empty() ? "" : " of type " + first->gpu_type,
              first->pool.empty() ? "" : " in pool " + first->pool, largest, count, workload.jobs.size());
}

// The largest node that replicas may use.
GpuCount largest_serving_node(const sched::Capacity& capacity) {
  GpuCount largest = 0;
  for (NodeId n = 0; n < capacity.spec().nodes.size(); ++n) {
    if (!capacity.may_serve(n)) continue;
    largest = std::max(largest, capacity.spec().nodes[n].gpus);
  }
  return largest;
}

Result<void> check_services(const ClusterSpec& cluster, const Workload& workload, Lending lending) {
  const GpuCount largest = largest_serving_node(sched::Capacity(cluster, lending));
  for (const ServiceLoad& service : workload.services) {
    if (service.spec.gpus <= largest) continue;
    return fail(ErrorCode::invalid_argument,
                "a replica of service '{}' needs {} GPUs on one node; the largest node that serves has {}",
                service.spec.name, service.spec.gpus, largest);
  }
  std::map<std::string_view, std::pair<std::string, GpuCount>> replicas;  // by service: who says so, and GPUs
  for (const ServiceLoad& service : workload.services) {
    replicas.try_emplace(service.spec.name, fmt::format("service '{}'", service.spec.name), service.spec.gpus);
  }
  for (const JobSpec& job : workload.jobs) {
    if (job.kind != JobKind::inference) continue;
    if (job.gpus > largest) {
      return fail(ErrorCode::invalid_argument,
                  "inference task '{}' needs {} GPUs on one node; the largest node that serves has {}", job.name,
                  job.gpus, largest);
    }
    const auto found = replicas.find(job.application);
    if (found == replicas.end()) {
      replicas.try_emplace(job.application, fmt::format("task '{}' of it", job.name), job.gpus);
      continue;
    }
    const auto& [who, gpus] = found->second;
    if (gpus == job.gpus) continue;
    return fail(
        ErrorCode::invalid_argument,
        "inference task '{}' asks for {} GPUs of service '{}', but {} has {}: all replicas of a service have as "
        "many",
        job.name, job.gpus, job.application, who, gpus);
  }
  return {};
}

Workload in_quanta(const Workload& workload, Duration quantum) {
  Workload rounded = workload;
  const auto nearest = [&](Duration d) { return (d + quantum / 2) / quantum * quantum; };
  for (JobSpec& job : rounded.jobs) {
    job.submit = Time(nearest(job.submit.time_since_epoch()));
    job.run_time = nearest(job.run_time);
    if (job.requested_time) job.requested_time = nearest(*job.requested_time);
  }
  return rounded;
}

Result<void> check_times(const SimOptions& options, Duration quantum) {
  const auto check = [&](const char* what, Duration d) -> Result<void> {
    if (d % quantum == Duration(0)) return {};
    return fail(ErrorCode::invalid_argument, "{} {} s: with --time {} it must be whole seconds", what,
                format_seconds(d), spec::to_string(options.time));
  };
  if (options.resize_cost.kind == perf::ResizeClass::fixed) {
    EBB_RETURN_IF_ERROR(check("--resize-cost", options.resize_cost.fixed));
  }
  if (options.time == spec::TimeModel::polled && !options.round) {
    return fail(ErrorCode::invalid_argument, "--time polled notices what happened at rounds: give --round too");
  }
  if (!options.round) return {};
  if (*options.round <= Duration(0)) {
    return fail(ErrorCode::invalid_argument, "--round must be above 0; leave it out to decide at every event");
  }
  return check("--round", *options.round);
}

std::vector<std::string> oracle_warnings(const sched::PolicyInfo& info, const Workload& workload) {
  if (info.oracle == sched::Oracle::yes) {
    return {
        fmt::format("policy '{}' knows the true run time of every job (oracle): no real scheduler does", info.name)};
  }
  if (info.oracle == sched::Oracle::without_requested_time) {
    const auto without = std::count_if(workload.jobs.begin(), workload.jobs.end(),
                                       [](const JobSpec& job) { return !job.requested_time; });
    if (without > 0) {
      return {
          fmt::format("policy '{}' takes the true run time of {} of {} jobs as their estimate (oracle), because the "
                      "trace has no requested time for them",
                      info.name, without, workload.jobs.size())};
    }
  }
  return {};
}

void warn_of_missing_jobs(bool services, SimResult& result) {
  const auto rejected =
      static_cast<std::uint64_t>(std::count_if(result.jobs.begin(), result.jobs.end(), [](const JobRecord& job) {
        return job.reason == to_string(ReasonCode::impossible);
      }));
  const std::uint64_t total = result.summary.jobs_total;
  if (rejected > 0) {
    result.summary.warnings.push_back(
        fmt::format("{} of {} jobs are too large for the cluster and were left out", rejected, total));
  }
  const auto unserved =
      static_cast<std::uint64_t>(std::count_if(result.jobs.begin(), result.jobs.end(), [](const JobRecord& job) {
        return job.kind == JobKind::inference && !job.end;
      }));
  if (unserved > 0) {
    result.summary.warnings.push_back(fmt::format(
        "{} of {} jobs are inference tasks that were never served: no GPU that may serve came free", unserved, total));
  }
  if (const std::uint64_t stranded = result.summary.jobs_impossible - rejected - unserved; stranded > 0) {
    result.summary.warnings.push_back(
        fmt::format("{} of {} jobs did not complete: nodes that they need never came back{}", stranded, total,
                    services ? ", or services keep the GPUs" : ""));
  }
}

void warn_of_unnamed(const ClusterSpec& cluster, const Workload& workload, SimResult& result) {
  const auto warn = [&](const char* what, auto&& of_node, auto&& of_job) {
    if (std::any_of(cluster.nodes.begin(), cluster.nodes.end(), of_node)) return;
    const auto jobs = std::count_if(workload.jobs.begin(), workload.jobs.end(), of_job);
    if (jobs == 0) return;
    result.summary.warnings.push_back(fmt::format(
        "{} of {} jobs ask for a {}; the cluster names none, so they run anywhere", jobs, workload.jobs.size(), what));
  };
  warn(
      "GPU type", [](const NodeSpec& n) { return !n.gpu_type.empty(); },
      [](const JobSpec& j) { return !j.gpu_type.empty(); });
  warn("pool", [](const NodeSpec& n) { return !n.pool.empty(); }, [](const JobSpec& j) { return !j.pool.empty(); });
}

}  // namespace

std::span<const sched::OptionSpec> sim_options() {
  static const std::vector<sched::OptionSpec> options = {
      {"charge_first_start", false, "charge the resize cost to first starts too, not only to resumes", {}},
      {"plan_delay", Duration(0), "how long the answer to a plan request takes", {}},
      {"drain", Duration(0), "how long training takes to give GPUs back once told to", {}},
      {"reclaim_bound",
       Duration(std::chrono::seconds(30)),
       "a job that takes longer to give GPUs back is killed at this bound and goes on from its last checkpoint",
       {}},
      {"placement_change",
       std::string("multiset"),
       "what counts as another placement: other GPUs, or also the same in another order",
       {"multiset", "ordered"}},
      {"largest_size",
       std::string("profile"),
       "how far jobs with a profile can grow that say no largest size: as the profile allows, or to the whole cluster",
       {"profile", "cluster"}},
      {"measure_noise", 0.0, "standard deviation of the log of measured step times against the true ones", {}, 0, 2},
      {"interference", 0.0, "share of speed that multi-node jobs lose while they share a node", {}, 0, 0.95},
      {"fit_scale", 1.0, "factor of the start point of the throughput fit, to see what hangs on it", {}, 0.5, 2},
  };
  return options;
}

Assignments policy_assignments(const Assignments& set) {
  return assignments(set, /*of_simulator=*/false);
}

namespace {

// Whether any part of the workload is about services.
bool serves(const Workload& workload) {
  return !workload.services.empty() || has_tasks(workload);
}

// The built-in profiles belong to the program: nobody deletes them.
std::shared_ptr<const perf::ProfileSet> profiles_of(const SimOptions& options, bool needed) {
  if (options.profiles || !needed) return options.profiles;
  return {std::shared_ptr<void>(), &perf::ProfileSet::built_in()};
}

}  // namespace

ClusterSpec cluster_for(const ClusterSpec& cluster, const Workload& workload, Lending lending) {
  return lending != Lending::none || serves(workload) ? in_halves(cluster) : cluster;
}

Result<sched::Scheduler> make_scheduler(const ClusterSpec& cluster, const SimOptions& options, bool profiles,
                                        const sched::Registry& registry) {
  EBB_ASSIGN_OR_RETURN(const sched::Options sim_values,
                       sched::Options::parse(sim_options(), assignments(options.set, true)));
  sched::SchedulerConfig config;
  config.quantum = spec::quantum_of(options.time);
  config.lending = options.lending;
  config.ordered_placements = sim_values.get<std::string>("placement_change") == "ordered";
  config.profiles = profiles_of(options, profiles);
  config.serving.seed = options.seed;
  return registry.make_scheduler(options.policy, policy_assignments(options.set), cluster, std::move(config));
}

Result<SimResult> simulate(const ClusterSpec& given_cluster, const Workload& given, const SimOptions& options,
                           const sched::Registry& registry, const SimHooks& hooks) {
  EBB_ASSIGN_OR_RETURN(const sched::PolicyInfo* info, registry.find(options.policy));
  EBB_ASSIGN_OR_RETURN(const sched::Options sim_values,
                       sched::Options::parse(sim_options(), assignments(options.set, true)));
  const ClusterSpec cluster = cluster_for(given_cluster, given, options.lending);
  const bool profiled = names_applications(given);
  EBB_ASSIGN_OR_RETURN(sched::Scheduler scheduler, make_scheduler(cluster, options, profiled, registry));
  const Duration quantum = spec::quantum_of(options.time);
  EBB_RETURN_IF_ERROR(check_times(options, quantum));
  if (!scheduler.config().serving.place_at_ticks && !options.round) {
    return fail(ErrorCode::invalid_argument,
                "--set place_at_ticks=false starts replicas between rounds only: give --round too");
  }
  std::optional<Workload> changed;
  if (profiled) {
    changed = given;
    EBB_RETURN_IF_ERROR(resolve_profiles(*changed, *scheduler.config().profiles, cluster,
                                         sim_values.get<std::string>("largest_size") == "cluster"));
  }
  if (options.time != spec::TimeModel::fractional) {
    changed = in_quanta(changed ? *changed : given, quantum);
  }
  const Workload& workload = changed ? *changed : given;
  if (!options.skip_impossible) EBB_RETURN_IF_ERROR(check_possible(cluster, workload, options.lending));
  EBB_RETURN_IF_ERROR(check_services(cluster, workload, options.lending));
  EBB_ASSIGN_OR_RETURN(FaultSource faults,
                       FaultSource::make(options.faults, cluster.nodes.size(), options.seed, quantum));

  const sched::EstimatorOptions& estimator = scheduler.config().estimator;
  WorldOptions world;
  world.charge_first_start = sim_values.get<bool>("charge_first_start");
  world.plan_delay = sim_values.get<Duration>("plan_delay");
  world.drain = sim_values.get<Duration>("drain");
  world.reclaim_bound = sim_values.get<Duration>("reclaim_bound");
  world.training = {.profiles = scheduler.config().profiles,
                    .adapt_batch = estimator.adapt_batch,
                    .whole_epochs = options.time == spec::TimeModel::polled,
                    .learn = estimator.adapt_batch || !(estimator.oracle || estimator.linear),
                    .noise = sim_values.get<double>("measure_noise"),
                    .interference = sim_values.get<double>("interference"),
                    .fit_scale = sim_values.get<double>("fit_scale"),
                    .seed = options.seed};
  Engine engine(workload, options, std::move(world), std::move(scheduler), std::move(faults), hooks);
  EBB_RETURN_IF_ERROR(engine.run());

  SimResult result;
  result.policy = options.policy;
  result.policy_summary = info->summary;
  EBB_ASSIGN_OR_RETURN(const sched::Options policy_values,
                       registry.parse_options(options.policy, policy_assignments(options.set)));
  result.settings = settings_of(cluster, workload, options, policy_values, sim_values);
  std::vector<std::string> oracle = oracle_warnings(*info, workload);
  if (estimator.oracle && oracle.empty()) {
    oracle.push_back(
        fmt::format("policy '{}' reads the true speed of every job (oracle): no real scheduler can", options.policy));
  }
  result.label = oracle.empty() ? options.policy : options.policy + " (oracle)";
  result.cluster = spec::format_cluster(cluster);
  result.cluster_gpus = cluster.total_gpus();
  result.time_zero = workload.time_zero;
  result.summary.warnings = workload.warnings;
  result.summary.warnings.insert(result.summary.warnings.end(), oracle.begin(), oracle.end());
  engine.fill(result);
  warn_of_unnamed(cluster, workload, result);
  warn_of_missing_jobs(!workload.services.empty(), result);
  return result;
}

}  // namespace ebb::sim
