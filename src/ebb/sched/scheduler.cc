#include "ebb/sched/scheduler.h"

namespace ebb::sched {

void Turn::decide(Decision decision) {
  if (error_) return;
  if (auto folded = state_.fold(decision, now_); !folded) {
    error_ = std::move(folded.error());
    return;
  }
  decisions_.push_back(std::move(decision));
}

Reason reason_for(const State& state, JobId job, ReasonCode code) {
  const JobClass& job_class = state.class_of(job);
  GpuCount available = 0;
  for (const GroupMask option : job_class.options) {
    available = std::max(available, state.capacity().free().sum(option));
  }
  return Reason{code, job_class.gpus, available, std::nullopt, std::nullopt};
}

Scheduler::Scheduler(ClusterSpec cluster, std::unique_ptr<Policy> policy, Duration quantum)
    : state_(std::move(cluster)), policy_(std::move(policy)), quantum_(quantum) {}

Scheduler::Scheduler(const Scheduler& other)
    : state_(other.state_),
      policy_(other.policy_->clone()),
      quantum_(other.quantum_),
      fresh_(other.fresh_),
      wake_(other.wake_) {}

void Scheduler::tell_policy(const Event& event, Time now) {
  struct Tell {
    const State& state;
    Policy& policy;
    std::vector<JobId>& fresh;
    Time at;

    void queued(JobId job, Queued why) const {
      fresh.push_back(job);
      policy.on_queued(state, job, why, at);
    }
    void operator()(const JobSubmitted& e) const { queued(e.job, Queued::submitted); }
    void operator()(const JobStarted& e) const { policy.on_started(state, e.job, at); }
    void operator()(const JobStopped& e) const {
      policy.on_released(state, e.job, at);
      queued(e.job, Queued::stopped);
    }
    void operator()(const JobFailed& e) const {
      policy.on_released(state, e.job, at);
      queued(e.job, Queued::failed);
    }
    void operator()(const JobFinished& e) const { policy.on_released(state, e.job, at); }
    void operator()(const PlanReady& e) const { policy.on_plan_ready(state, e, at); }
    void operator()(const NodeFailed&) const {}
    void operator()(const NodeRepaired&) const {}
    void operator()(const NodeDrained&) const {}
    void operator()(const NodeUndrained&) const {}
    void operator()(const Tick&) const {}
  };
  std::visit(Tell{state_, *policy_, fresh_, now}, event);
}

Result<void> Scheduler::step(std::span<const Event> events, Time now, StepResult& result) {
  result.decisions.clear();
  result.reasons.clear();
  result.next_wake_at = wake_;
  bool tick = false;
  for (const Event& event : events) {
    EBB_RETURN_IF_ERROR(state_.fold(event, now));
    if (const auto* submitted = std::get_if<JobSubmitted>(&event);
        submitted != nullptr && !state_.class_of(submitted->job).possible()) {
      const JobClass& job_class = state_.class_of(submitted->job);
      const Decision reject =
          Reject{submitted->job, {ReasonCode::impossible, job_class.gpus, job_class.largest, {}, {}}};
      EBB_RETURN_IF_ERROR(state_.fold(reject, now));
      result.decisions.push_back(reject);
      continue;
    }
    tell_policy(event, now);
    tick = tick || std::holds_alternative<Tick>(event);
  }
  if (!tick) {
    for (const Event& event : events) explain_new_wait(event, now, result);
    return {};
  }

  Turn turn(state_, now, quantum_, result.decisions);
  policy_->decide(turn);
  if (turn.error()) return tl::unexpected(*turn.error());
  wake_ = turn.wake();
  result.next_wake_at = wake_;
  for (const JobId job : fresh_) {
    if (state_.job(job).phase == JobPhase::waiting) result.reasons.emplace_back(job, explain(job, now));
  }
  fresh_.clear();
  return {};
}

// A job that begins to wait between ticks: a new one waits for the tick, one that was stopped for what took its place.
void Scheduler::explain_new_wait(const Event& event, Time now, StepResult& result) const {
  if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
    if (state_.job(submitted->job).phase != JobPhase::waiting) return;  // rejected
    result.reasons.emplace_back(submitted->job, reason_for(state_, submitted->job, ReasonCode::waiting_for_tick));
  } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
    result.reasons.emplace_back(stopped->job, explain(stopped->job, now));
  } else if (const auto* failed = std::get_if<JobFailed>(&event)) {
    result.reasons.emplace_back(failed->job, explain(failed->job, now));
  }
}

std::vector<JobId> Scheduler::take_launchable() {
  std::vector<JobId> jobs = state_.launchable();
  state_.clear_launchable();
  return jobs;
}

Reason Scheduler::explain(JobId job, Time now) const {
  return policy_->explain(state_, job, now);
}

}  // namespace ebb::sched
