#pragma once

/// What a policy is to the core. A policy holds only its memory (queues, counters, weights): it is part of the state,
/// copied with it, and changes only by what the core tells it, so that a replay of the journal gives the same
/// decisions. It reads no clock, file or unseeded random number, and looks at no job that the event did not touch
/// unless the decision needs it.
///
/// A policy that takes over a running cluster (Scheduler::replace_policy) is told of every active job in order of their
/// numbers: on_queued() of one that waits, followed by on_withdrawn() if it is held, adopt() of one that holds GPUs.
///
/// Order of calls within one step: the hook of each event after it was folded, then decide() if the step has a Tick.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/event.h"
#include "ebb/sched/estimator.h"
#include "ebb/sched/placement.h"
#include "ebb/sched/serving_options.h"
#include "ebb/sched/state.h"

namespace ebb::sched {

/// Why a job entered the queue.
enum class Queued : std::uint8_t { submitted, failed, stopped, released };

/// One decision round: what a policy may look at and do. Every decision is validated and folded at once, so that the
/// state shows its effect to the next one.
class Turn {
 public:
  struct Context {
    Estimator& estimator;
    const ServingOptions& serving;
    Duration quantum{};
    bool ordered_placements = false;
    bool policy_resizes = false;
  };

  Turn(State& state, Time now, const Context& context, std::vector<Decision>& decisions)
      : state_(state), now_(now), context_(context), decisions_(decisions) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  const State& state() const { return state_; }
  Time now() const { return now_; }
  /// The resolution of the driver's clock: 1 ns, or 1 s where time is counted in whole seconds.
  Duration quantum() const { return context_.quantum; }
  /// What is believed of the speed of jobs.
  Estimator& estimator() const { return context_.estimator; }
  const ServingOptions& serving() const { return context_.serving; }
  /// Whether the same GPUs in another order are another placement (an option of the time model).
  bool ordered_placements() const { return context_.ordered_placements; }
  /// Policy::resizes() of the policy in charge.
  bool policy_resizes() const { return context_.policy_resizes; }

  /// A refused decision ends the round: the error is kept, later decisions are ignored, the step returns it.
  void start(JobId job, Allocation allocation) { decide(Start{job, std::move(allocation)}); }
  void preempt(JobId job) { decide(Preempt{job}); }
  void resize(std::vector<Target> targets) { decide(Resize{std::move(targets)}); }
  void start_replica(ServiceId service, NodeShare place, std::optional<JobId> task, std::optional<Duration> keep_alive,
                     bool warm = false) {
    decide(StartReplica{static_cast<ReplicaId>(state_.replicas().size()), service, place, task, keep_alive, warm});
  }
  void serve(JobId task, ReplicaId replica, std::optional<Duration> keep_alive) {
    decide(Serve{task, replica, keep_alive});
  }
  void wake_replica(ReplicaId replica) { decide(WakeReplica{replica}); }
  void rest_replica(ReplicaId replica, Duration keep_alive) { decide(RestReplica{replica, keep_alive}); }
  void stop_replica(ReplicaId replica) { decide(StopReplica{replica}); }
  void request_plan(std::uint64_t plan, std::string input) { decide(PlanRequest{plan, std::move(input)}); }
  /// The waiting task gets a replica on that node once decide() is done; commit_plan() leaves the GPUs free.
  void place_task(JobId task, NodeId node) { placed_tasks_.emplace_back(task, node); }
  const std::vector<std::pair<JobId, NodeId>>& placed_tasks() const { return placed_tasks_; }
  /// Asks for a tick at `at` (>= now) at the latest, even if nothing happens before.
  void wake_at(Time at) {
    if (!wake_ || at < *wake_) wake_ = at;
  }

  std::optional<Time> wake() const { return wake_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  void decide(Decision decision);

  State& state_;
  Time now_;
  Context context_;
  std::vector<Decision>& decisions_;
  std::vector<std::pair<JobId, NodeId>> placed_tasks_;
  std::optional<Time> wake_;
  std::optional<Error> error_;
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// A copy with all memory: a fork of the state for a what-if question.
  virtual std::unique_ptr<Policy> clone() const = 0;

  /// Whether decide() sizes elastic jobs. If not, it starts every job on its class's gang size, and reclaim takes whole
  /// gangs.
  virtual bool resizes() const { return false; }

  /// Whether decide() counts GPUs of sleeping replicas as free and stops those in its way (plan.h). If not, as many go
  /// before it as waiting jobs could use.
  virtual bool plans_over_sleepers() const { return resizes(); }

  /// The job waits now. Jobs that the cluster can never hold, and inference tasks, are not shown to the policy.
  virtual void on_queued(const State& state, JobId job, Queued why, Time now) = 0;
  /// The job left the queue without a start: it is held until on_queued(..., Queued::released), or was cancelled. It
  /// may not be started, nor is it explained, before it is queued again. `state.job(job)` shows the job after the
  /// event.
  virtual void on_withdrawn(const State& state, JobId job, Time now) = 0;
  /// The start is confirmed: the job runs since now.
  virtual void on_started(const State& /*state*/, JobId /*job*/, Time /*now*/) {}
  /// A resize is confirmed: the job runs on all of its new GPUs since now.
  virtual void on_resized(const State& /*state*/, JobId /*job*/, Time /*now*/) {}
  /// The job no longer holds GPUs because it finished, failed or stopped; for the last two on_queued() follows.
  /// `state.job(job)` shows the job after the event.
  virtual void on_released(const State& /*state*/, JobId /*job*/, Time /*now*/) {}
  /// The runtime of the job said something new of itself: see JobState::report.
  virtual void on_report(const State& /*state*/, JobId /*job*/, Time /*now*/) {}
  /// The policy takes over a cluster on which the job holds GPUs, or will: it goes on as if it had started the job.
  virtual void adopt(const State& /*state*/, JobId /*job*/, Time /*now*/) {}
  virtual void on_plan_ready(const State& /*state*/, const PlanReady& /*answer*/, Time /*now*/) {}

  virtual void decide(Turn& turn) = 0;

  /// Why a waiting job waits, as of the last decide().
  virtual Reason explain(const State& state, JobId job, Time now) const = 0;

  /// The long work behind PlanRequest: a pure function of its input, run outside the step, maybe on another thread.
  virtual std::string plan(const std::string& /*input*/) const { return {}; }
};

/// The GPU counts of a reason for this job.
Reason reason_for(const State& state, JobId job, ReasonCode code);

}  // namespace ebb::sched
