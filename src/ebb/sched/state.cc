#include "ebb/sched/state.h"

#include <algorithm>
#include <bit>

#include "ebb/base/check.h"

namespace ebb::sched {

const char* to_string(JobPhase phase) {
  switch (phase) {
    case JobPhase::waiting:
      return "waiting";
    case JobPhase::starting:
      return "starting";
    case JobPhase::running:
      return "running";
    case JobPhase::stopping:
      return "stopping";
    case JobPhase::finished:
      return "finished";
    case JobPhase::rejected:
      return "rejected";
  }
  return "unknown";
}

State::State(ClusterSpec cluster) : capacity_(std::move(cluster)) {}

Result<void> State::fold(const Event& event, Time now) {
  if (now < latest_) {
    return fail(ErrorCode::internal, "an event at {} s after one at {} s: time runs backwards", format_seconds(now),
                format_seconds(latest_));
  }
  const GpuCount occupied = gpus_occupied_;
  EBB_RETURN_IF_ERROR(std::visit([&](const auto& e) { return apply(e, now); }, event));
  gpu_time_ += static_cast<GpuNanoseconds>(occupied) * (now - latest_).count();
  latest_ = now;
  return {};
}

Result<void> State::fold(const Decision& decision, Time now) {
  return std::visit([&](const auto& d) { return apply(d, now); }, decision);
}

Result<void> State::require_job(JobId job, const char* what) const {
  if (job < jobs_.size()) return {};
  return fail(ErrorCode::internal, "{} of job {}, which was never submitted", what, job);
}

Result<void> State::require_phase(JobId job, const char* what, bool allowed) const {
  if (allowed) return {};
  return fail(ErrorCode::internal, "{} of job {} ('{}'), which is {}", what, job, jobs_[job].spec.name,
              to_string(jobs_[job].phase));
}

Result<void> State::require_node(NodeId node, const char* what) const {
  if (node < capacity_.spec().nodes.size()) return {};
  return fail(ErrorCode::internal, "{} of node {}; the cluster has {} nodes", what, node,
              capacity_.spec().nodes.size());
}

Result<void> State::apply(const JobSubmitted& e, Time now) {
  if (e.job != jobs_.size()) {
    return fail(ErrorCode::internal, "submission of job {}, but the next number is {}", e.job, jobs_.size());
  }
  if (e.spec.gpus < 1) {
    return fail(ErrorCode::internal, "submission of job {} ('{}') with {} GPUs", e.job, e.spec.name, e.spec.gpus);
  }
  JobState& job = jobs_.emplace_back();
  job.spec = e.spec;
  job.job_class = capacity_.class_of(e.spec);
  job.waiting_since = now;
  holding_at_.push_back(0);
  add_waiting(e.job);
  return {};
}

Result<void> State::apply(const JobStarted& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "start"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "start", job.phase == JobPhase::starting && job.promised == 0));
  job.phase = JobPhase::running;
  --starting_;
  std::erase(launchable_, e.job);
  gpus_occupied_ += job.spec.gpus;
  job.held_since = now;
  job.productive_at = e.productive_at;
  job.pending += now - job.waiting_since;
  if (!job.first_start) job.first_start = now;
  return {};
}

// The job gives up its GPUs; it has been accounted for up to now.
void State::let_go(JobId id, Time now) {
  JobState& job = jobs_[id];
  std::vector<std::pair<JobId, GpuCount>> met;
  if (job.phase == JobPhase::starting) {
    capacity_.cancel(id, job.allocation, met);
    --starting_;
    job.promised = 0;
    std::erase(launchable_, id);
  } else {
    job.held += now - job.held_since;
    gpus_occupied_ -= job.spec.gpus;
    capacity_.release(job.allocation, job.phase == JobPhase::stopping, met);
  }
  for (const auto& [other, gpus] : met) {
    jobs_[other].promised -= gpus;
    if (jobs_[other].promised == 0) launchable_.push_back(other);
  }
  job.allocation.clear();
  remove_holding(id);
}

Result<void> State::apply(const JobStopped& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "stop"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "stop", job.phase == JobPhase::stopping));
  let_go(e.job, now);
  job.phase = JobPhase::waiting;
  job.waiting_since = now;
  job.progress = e.progress;
  add_waiting(e.job);
  return {};
}

Result<void> State::apply(const JobFailed& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "failure"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "failure", job.holds()));
  // A start that never came to run goes on waiting as before.
  if (job.phase != JobPhase::starting) job.waiting_since = now;
  let_go(e.job, now);
  job.phase = JobPhase::waiting;
  job.progress = e.progress;
  ++job.failures;
  add_waiting(e.job);
  return {};
}

Result<void> State::apply(const JobFinished& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "end"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "end", job.phase == JobPhase::running || job.phase == JobPhase::stopping));
  job.progress = job.spec.run_time;
  let_go(e.job, now);
  job.phase = JobPhase::finished;
  job.end = now;
  return {};
}

Result<void> State::apply(const NodeFailed& e, Time) {
  EBB_RETURN_IF_ERROR(require_node(e.node, "failure"));
  capacity_.set_up(e.node, false);
  return {};
}

Result<void> State::apply(const NodeRepaired& e, Time) {
  EBB_RETURN_IF_ERROR(require_node(e.node, "repair"));
  capacity_.set_up(e.node, true);
  return {};
}

Result<void> State::apply(const NodeDrained& e, Time) {
  EBB_RETURN_IF_ERROR(require_node(e.node, "draining"));
  capacity_.set_draining(e.node, true);
  return {};
}

Result<void> State::apply(const NodeUndrained& e, Time) {
  EBB_RETURN_IF_ERROR(require_node(e.node, "end of draining"));
  capacity_.set_draining(e.node, false);
  return {};
}

Result<void> State::apply(const PlanReady&, Time) {
  return {};
}
Result<void> State::apply(const Tick&, Time) {
  return {};
}
Result<void> State::apply(const PlanRequest&, Time) {
  return {};
}

Result<void> State::apply(const Start& d, Time now) {
  EBB_RETURN_IF_ERROR(require_job(d.job, "decision to start"));
  JobState& job = jobs_[d.job];
  EBB_RETURN_IF_ERROR(require_phase(d.job, "decision to start", job.phase == JobPhase::waiting));
  if (gpus_in(d.allocation) != job.spec.gpus) {
    return fail(ErrorCode::internal, "job {} ('{}') needs {} GPUs, the decision gives it {}: a gang is whole or not",
                d.job, job.spec.name, job.spec.gpus, gpus_in(d.allocation));
  }
  const JobClass& job_class = capacity_.job_class(job.job_class);
  std::optional<NodeId> previous;
  GroupMask groups = 0;
  for (const NodeShare& share : d.allocation) {
    EBB_RETURN_IF_ERROR(require_node(share.node, "use"));
    if (share.gpus < 1 || (previous && share.node <= *previous)) {
      return fail(ErrorCode::internal, "job {} ('{}'): the allocation is not in order of node with 1 or more GPUs each",
                  d.job, job.spec.name);
    }
    if (share.gpus > capacity_.available(share.node)) {
      return fail(ErrorCode::internal, "job {} ('{}') would take {} GPUs of node {}, which has {} to give{}", d.job,
                  job.spec.name, share.gpus, capacity_.spec().nodes[share.node].name, capacity_.available(share.node),
                  capacity_.up(share.node) ? "" : " (it failed)");
    }
    previous = share.node;
    groups |= GroupMask{1} << capacity_.free().group_of(share.node);
  }
  const bool eligible = std::any_of(job_class.options.begin(), job_class.options.end(),
                                    [&](GroupMask option) { return (groups & ~option) == 0; });
  if (!eligible) {
    return fail(ErrorCode::internal, "job {} ('{}') may not run on those nodes (type '{}', pool '{}', one type a gang)",
                d.job, job.spec.name, job.spec.gpu_type, job.spec.pool);
  }
  job.promised = capacity_.take(d.job, d.allocation);
  job.allocation = d.allocation;
  job.phase = JobPhase::starting;
  job.held_since = now;
  ++job.incarnations;
  ++starting_;
  remove_waiting(d.job);
  add_holding(d.job);
  if (job.promised == 0) launchable_.push_back(d.job);
  return {};
}

Result<void> State::apply(const Preempt& d, Time) {
  EBB_RETURN_IF_ERROR(require_job(d.job, "decision to preempt"));
  JobState& job = jobs_[d.job];
  EBB_RETURN_IF_ERROR(require_phase(d.job, "decision to preempt", job.phase == JobPhase::running));
  job.phase = JobPhase::stopping;
  ++job.preemptions;
  capacity_.begin_release(job.allocation);
  return {};
}

Result<void> State::apply(const Reject& d, Time) {
  EBB_RETURN_IF_ERROR(require_job(d.job, "decision to reject"));
  JobState& job = jobs_[d.job];
  EBB_RETURN_IF_ERROR(require_phase(d.job, "decision to reject", job.phase == JobPhase::waiting));
  job.phase = JobPhase::rejected;
  remove_waiting(d.job);
  return {};
}

void State::add_waiting(JobId job) {
  const ClassId id = jobs_[job].job_class;
  if (waiting_in_.size() <= id) waiting_in_.resize(id + 1, 0);
  ++waiting_in_[id];
  ++waiting_;
}

void State::remove_waiting(JobId job) {
  --waiting_in_[jobs_[job].job_class];
  --waiting_;
}

void State::add_holding(JobId job) {
  holding_at_[job] = static_cast<std::uint32_t>(holding_.size());
  holding_.push_back(job);
  gpus_held_ += jobs_[job].spec.gpus;
}

void State::remove_holding(JobId job) {
  const std::uint32_t at = holding_at_[job];
  holding_[at] = holding_.back();
  holding_at_[holding_[at]] = at;
  holding_.pop_back();
  gpus_held_ -= jobs_[job].spec.gpus;
}

}  // namespace ebb::sched
