#pragma once

/// The scheduler core: state, policy, and the step function that both drivers use (sim with virtual, control with wall
/// time). It never sleeps, reads a clock, opens a file or draws an unseeded random number.
///
///   step(events of one time, now) -> decisions, reasons, next_wake_at, serve_at
///
/// A step folds its events; if one of them is a Timer or a Tick, looks after services and inference tasks (serving.h);
/// if one is a Tick, lets the policy decide; and folds the decisions. Feeding the recorded events to a fresh Scheduler
/// gives the recorded decisions again. A job that the cluster can never hold is rejected when it is submitted; JobHeld,
/// JobReleased, JobSizeAsked and JobCancelled of it in the same step are skipped, because the driver could not know.
/// Copying a Scheduler forks it. Not thread-safe; different Schedulers are independent.

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/event.h"
#include "ebb/sched/policy.h"
#include "ebb/sched/serving.h"
#include "ebb/sched/state.h"

namespace ebb::sched {

struct StepResult {
  std::vector<Decision> decisions;
  /// Jobs that began to wait and were not started by this step, with the reason; explain() tells it at any later time.
  std::vector<std::pair<JobId, Reason>> reasons;
  /// When the policy wants to decide, or a replica falls asleep whose GPUs a waiting job could use, even if nothing
  /// happens before; stands until the next tick.
  std::optional<Time> next_wake_at;
  /// When services want to be looked after (by a Timer event, no tick) even if nothing happens before.
  std::optional<Time> serve_at;
};

/// Everything beside cluster and policy that decisions depend on.
struct SchedulerConfig {
  Duration quantum{1};  ///< see Turn::quantum()
  Lending lending = Lending::none;
  bool ordered_placements = false;                   ///< see Turn::ordered_placements()
  std::shared_ptr<const perf::ProfileSet> profiles;  ///< the truth, for EstimatorOptions::oracle
  EstimatorOptions estimator;
  ServingOptions serving;
};

class Scheduler {
 public:
  Scheduler(ClusterSpec cluster, std::unique_ptr<Policy> policy, SchedulerConfig config = {});
  Scheduler(const Scheduler& other);
  Scheduler(Scheduler&&) noexcept = default;
  Scheduler& operator=(const Scheduler&) = delete;
  Scheduler& operator=(Scheduler&&) noexcept = default;
  ~Scheduler() = default;

  /// Clears and fills `result`. Errors: internal, if an event does not fit the state or the policy decided something
  /// that would break an invariant; the scheduler must not be used on after that.
  Result<void> step(std::span<const Event> events, Time now, StepResult& result);

  /// From now on another policy decides, with its estimator and its options of serving; the state is the same. What the
  /// old one, the estimator and the services' traffic had learned is gone. The next step should have a Tick.
  void replace_policy(std::unique_ptr<Policy> policy, const SchedulerConfig& config, Time now);

  const State& state() const { return state_; }
  const Policy& policy() const { return *policy_; }
  const SchedulerConfig& config() const { return config_; }
  /// Takes the jobs and replicas that can be launched now: started or resized, and every promised GPU is free.
  std::vector<Holder> take_launchable();
  /// Why a waiting job waits. Not for held jobs: their driver knows why.
  Reason explain(JobId job, Time now) const;

 private:
  void tell_policy(const Event& event, bool withdrawn, Time now);
  void explain_new_wait(const Event& event, Time now, StepResult& result) const;

  void grant_asked(Turn& turn) const;
  GroupMask groups_of(JobId job) const;
  GpuCount reachable(JobId job) const;
  void grow(Allocation& allocation, JobId job, GpuCount more) const;
  static void shrink(Allocation& allocation, GpuCount less);
  bool yield_sleepers(Turn& turn, bool free_counts) const;

  SchedulerConfig config_;
  State state_;
  std::unique_ptr<Policy> policy_;
  Estimator estimator_;
  Serving serving_;
  std::vector<JobId> fresh_;  // queued since the last tick
  std::optional<Time> wake_;  // asked for by the last tick
};

}  // namespace ebb::sched
