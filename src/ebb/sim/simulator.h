#pragma once

/// The discrete-event simulator: drives the scheduler core (sched) with virtual time over a workload. All that happens
/// at one time is one batch: ends of jobs and tasks first, then reports of jobs, failures and repairs of nodes with
/// what they break, answers to plans, confirmations that took time, demands of services, submissions in file order, and
/// (without rounds: always, unless only replicas became ready) a tick, else a timer if anything serves. The world obeys
/// at once, or after the option `drain`: a preempted job is gone, then what is started runs, productive later by the
/// resize cost; replicas serve after their start delay.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/workload.h"
#include "ebb/perf/profile.h"
#include "ebb/perf/resize_cost.h"
#include "ebb/sched/registry.h"
#include "ebb/sched/scheduler.h"
#include "ebb/sim/result.h"
#include "ebb/spec/scenario.h"

namespace ebb::trace {
class JournalWriter;
}

namespace ebb::sim {

struct SimOptions {
  std::string policy = "backfill";
  std::vector<std::pair<std::string, std::string>> set;  ///< options of the policy, and those of sim_options()
  std::optional<Duration> round;                         ///< ticks at k x round only
  perf::ResizeCost resize_cost;                          ///< charged to a job at each resume or changed placement
  Lending lending = Lending::none;
  std::shared_ptr<const perf::ProfileSet> profiles;  ///< nullptr: the built-in ones, if jobs name applications
  std::string profiles_name;                         ///< the folder, "" = built in
  Duration target_extra = std::chrono::seconds(1);   ///< an inference task is in target if it waited no longer
  spec::TimeModel time = spec::TimeModel::fractional;
  std::uint64_t seed = 1;  ///< for random faults
  spec::Faults faults;
  std::string trace_name;         ///< what reports call the workload; "" if it has no name
  bool skip_impossible = false;   ///< leave out jobs that the cluster can never hold, instead of an error
  bool end_with_jobs = false;     ///< the run ends with its last job, whatever demand of services is left
  bool check_invariants = false;  ///< sched::check_invariants() after every step, for tests: costs as many steps x jobs
};

/// Options of the simulator that --set takes beside those of the policy.
std::span<const sched::OptionSpec> sim_options();
/// Those assignments of --set that are the policy's.
std::vector<std::pair<std::string, std::string>> policy_assignments(
    const std::vector<std::pair<std::string, std::string>>& set);

/// The cluster as it is simulated: where there are services or GPUs are lent, a cluster that names no pools has its
/// first half of nodes for training and the rest for serving.
ClusterSpec cluster_for(const ClusterSpec& cluster, const Workload& workload, Lending lending);

/// The scheduler of a run. `profiles`: whether jobs name applications. Errors: not_found or invalid_argument for policy
/// and options.
Result<sched::Scheduler> make_scheduler(const ClusterSpec& cluster, const SimOptions& options, bool profiles,
                                        const sched::Registry& registry);

/// What looks at a run while it goes on; every member may be empty.
struct SimHooks {
  trace::JournalWriter* journal = nullptr;
  /// Called after every step with the state, for tests and benchmarks. An error ends the run.
  std::function<Result<void>(const sched::State&, Time)> after_step;
  /// Called now and then with jobs finished or rejected so far.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

/// Runs the workload to its end.
/// Errors: not_found or invalid_argument for policy and options; invalid_argument for a job that can never run (unless
/// skip_impossible) or faults on unknown nodes; aborted, with the state in the message, if the run stalls (jobs wait,
/// GPUs that fit are free, and nothing will ever happen) or gets nowhere (jobs are stopped again and again before they
/// do anything, or wait for nodes that fail too often); failed_precondition if it passes kEndOfTime; internal for a
/// defect. Where nodes are gone for good, jobs that cannot run on the rest are left over, not an error. Deterministic.
Result<SimResult> simulate(const ClusterSpec& cluster, const Workload& workload, const SimOptions& options,
                           const sched::Registry& registry, const SimHooks& hooks = {});

/// Feeds the events of a journal to a fresh scheduler made from its header and compares every decision. Returns the
/// number of decisions compared. Errors: invalid_argument for a journal that cannot be read or has no simulator header;
/// aborted at the first decision that differs, naming line and time.
Result<std::uint64_t> replay(const std::string& journal_path, const sched::Registry& registry);

}  // namespace ebb::sim
