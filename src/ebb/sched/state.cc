#include "ebb/sched/state.h"

#include <algorithm>
#include <bit>

#include "ebb/base/check.h"

namespace ebb::sched {

const char* to_string(JobPhase phase) {
  switch (phase) {
    case JobPhase::waiting:
      return "waiting";
    case JobPhase::held:
      return "held";
    case JobPhase::starting:
      return "starting";
    case JobPhase::running:
      return "running";
    case JobPhase::resizing:
      return "resizing";
    case JobPhase::stopping:
      return "stopping";
    case JobPhase::finished:
      return "finished";
    case JobPhase::rejected:
      return "rejected";
    case JobPhase::cancelled:
      return "cancelled";
  }
  return "unknown";
}

State::State(ClusterSpec cluster, Lending lending) : capacity_(std::move(cluster), lending) {}

Result<void> State::fold(const Event& event, Time now) {
  if (now < latest_) {
    return fail(ErrorCode::internal, "an event at {} s after one at {} s: time runs backwards", format_seconds(now),
                format_seconds(latest_));
  }
  const GpuCount occupied = gpus_occupied_;
  const GpuCount lent = gpus_lent_;
  EBB_RETURN_IF_ERROR(std::visit([&](const auto& e) { return apply(e, now); }, event));
  gpu_time_ += static_cast<GpuNanoseconds>(occupied) * (now - latest_).count();
  times_.lent += static_cast<GpuNanoseconds>(lent) * (now - latest_).count();
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
  if (e.spec.sizing != Sizing::rigid &&
      (e.spec.min_gpus < 1 || e.spec.max_gpus < e.spec.min_gpus || e.spec.gpu_step < 1)) {
    return fail(ErrorCode::internal, "submission of job {} ('{}') with sizes {} to {} in steps of {}", e.job,
                e.spec.name, e.spec.min_gpus, e.spec.max_gpus, e.spec.gpu_step);
  }
  JobState& job = jobs_.emplace_back();
  job.spec = e.spec;
  job.waiting_since = now;
  holding_at_.push_back(0);
  if (job.training()) {
    job.job_class = capacity_.class_of(e.spec);
    add_waiting(e.job);
  } else {
    submit_task(e.job);
  }
  return {};
}

Result<void> State::apply(const JobStarted& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "start"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(
      require_phase(e.job, "start", job.training() && job.phase == JobPhase::starting && job.promised == 0));
  job.phase = JobPhase::running;
  --starting_;
  std::erase(launchable_, Holder::job(e.job));
  occupy(e.job, job.allocation, 1, now);
  job.held_since = now;
  job.productive_at = e.productive_at;
  job.useful_since = e.productive_at;
  job.pending += now - job.waiting_since;
  if (!job.first_start) job.first_start = now;
  return {};
}

// The processes of a job come to be on GPUs (sign 1) or leave them (sign -1).
void State::occupy(JobId id, const Allocation& allocation, int sign, Time now) {
  JobState& job = jobs_[id];
  settle(job, now);
  for (const NodeShare& share : allocation) {
    job.occupied += sign * share.gpus;
    gpus_occupied_ += sign * share.gpus;
    if (!capacity_.in_serving_pool(share.node)) continue;
    gpus_lent_ += sign * share.gpus;
    if (sign > 0) loans_ += static_cast<std::uint64_t>(share.gpus);
  }
}

// Accounts for the GPUs that the job's processes were on so far, in the phase that it was in so far.
void State::settle(JobState& job, Time now) {
  times_.resizing += job.unproductive_until(now);
  job.gpu_time = job.gpu_time_until(now);
  job.occupied_since = now;
}

void State::tell_met(const MetPromises& met, Time now) {
  for (const auto& [holder, gpus] : met) {
    bool whole = false;
    if (holder.kind == Holder::Kind::replica) {
      ReplicaState& replica = replicas_[holder.id];
      replica.promised -= gpus;
      whole = replica.promised == 0;
      replica.since = now;
      if (whole) gpus_serving_ += replica.place.gpus;
    } else {
      JobState& job = jobs_[holder.id];
      job.promised -= gpus;
      whole = job.promised == 0 && job.departing.empty();
    }
    if (whole) launchable_.push_back(holder);
  }
}

// The job gives up its GPUs; it has been accounted for up to now.
void State::let_go(JobId id, Time now) {
  JobState& job = jobs_[id];
  MetPromises met;
  if (job.phase == JobPhase::starting) {
    capacity_.cancel(Holder::job(id), job.allocation, met);
    --starting_;
  } else {
    job.held += now - job.held_since;
    if (job.phase == JobPhase::resizing) {
      // It is on what it keeps and on what it still gives back.
      const Allocation kept = kept_of(job);
      occupy(id, kept, -1, now);
      occupy(id, job.departing, -1, now);
      capacity_.release(job.departing, /*releasing=*/true, met);
      capacity_.cancel(Holder::job(id), job.allocation, met);
      job.departing.clear();
      job.arriving.clear();
    } else {
      occupy(id, job.allocation, -1, now);
      capacity_.release(job.allocation, job.phase == JobPhase::stopping, met);
    }
  }
  job.promised = 0;
  std::erase(launchable_, Holder::job(id));
  tell_met(met, now);
  remove_holding(id);
  job.allocation.clear();
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
  EBB_RETURN_IF_ERROR(require_phase(e.job, "failure", job.holds() && job.training()));
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
  EBB_RETURN_IF_ERROR(require_phase(e.job, "end", job.incarnate()));
  if (e.at && (*e.at > now || *e.at < job.spec.submit)) {
    return fail(ErrorCode::internal, "job {} ('{}') ended at {} s, it is {} s", e.job, job.spec.name,
                format_seconds(*e.at), format_seconds(now));
  }
  if (job.training()) {
    let_go(e.job, now);
  } else {
    finish_task(e.job, now);
  }
  job.progress = job.spec.run_time;
  job.phase = JobPhase::finished;
  job.end = e.at.value_or(now);
  skip_ended();
  return {};
}

Result<void> State::apply(const JobHeld& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "hold"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "hold", job.phase == JobPhase::waiting && job.training()));
  withdraw(e.job, now);
  job.phase = JobPhase::held;
  return {};
}

Result<void> State::apply(const JobReleased& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "release"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "release", job.phase == JobPhase::held));
  job.phase = JobPhase::waiting;
  job.waiting_since = now;
  add_waiting(e.job);
  return {};
}

Result<void> State::apply(const JobSizeAsked& e, Time) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "wish for another size"));
  JobState& job = jobs_[e.job];
  const bool may = job.phase == JobPhase::held || (job.holds() && job.spec.sizing == Sizing::elastic);
  EBB_RETURN_IF_ERROR(require_phase(e.job, "wish for another size", may && job.training()));
  if (job.spec.sizing == Sizing::rigid || job.spec.legal_size(e.gpus) != e.gpus) {
    return fail(ErrorCode::internal, "job {} ('{}') is to have {} GPUs, which is none of its sizes", e.job,
                job.spec.name, e.gpus);
  }
  if (job.holds()) {
    // What policies keep of a job that holds GPUs hangs on its class.
    asked_[e.job] = e.gpus;
  } else {
    job.spec.gpus = e.gpus;
    job.job_class = capacity_.class_of(job.spec);
  }
  return {};
}

void State::take_asked_size(JobId id) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return;
  JobState& job = jobs_[id];
  const bool waits = job.phase == JobPhase::waiting;
  if (waits) remove_waiting(id);
  job.spec.gpus = asked->second;
  job.job_class = capacity_.class_of(job.spec);
  if (waits) add_waiting(id);
  asked_.erase(asked);
}

Result<void> State::apply(const JobCancelled& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "cancellation"));
  JobState& job = jobs_[e.job];
  const bool may = job.phase == JobPhase::waiting || job.phase == JobPhase::held;
  EBB_RETURN_IF_ERROR(require_phase(e.job, "cancellation", may && job.training()));
  if (job.phase == JobPhase::waiting) withdraw(e.job, now);
  job.phase = JobPhase::cancelled;
  job.end = now;
  skip_ended();
  return {};
}

Result<void> State::apply(const JobShrunk& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "shrinking"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "shrinking", job.phase == JobPhase::resizing && !job.departing.empty()));
  occupy(e.job, job.departing, -1, now);
  MetPromises met;
  capacity_.release(job.departing, /*releasing=*/true, met);
  job.departing.clear();
  if (job.promised == 0) launchable_.push_back(Holder::job(e.job));
  tell_met(met, now);
  return {};
}

Result<void> State::apply(const JobResized& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "resizing"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(
      require_phase(e.job, "resizing", job.phase == JobPhase::resizing && job.departing.empty() && job.promised == 0));
  occupy(e.job, job.arriving, 1, now);
  job.arriving.clear();
  job.productive_at = e.productive_at;
  job.useful_since = e.productive_at;
  job.progress = e.progress;
  job.phase = JobPhase::running;
  std::erase(launchable_, Holder::job(e.job));
  return {};
}

Result<void> State::apply(const JobReport& e, Time now) {
  EBB_RETURN_IF_ERROR(require_job(e.job, "report"));
  JobState& job = jobs_[e.job];
  EBB_RETURN_IF_ERROR(require_phase(e.job, "report", job.incarnate() && job.training()));
  job.report = std::make_shared<const JobReport>(e);
  job.progress = e.progress;
  job.speed = e.speed;
  job.useful_since = std::max(job.productive_at, now);
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
Result<void> State::apply(const Timer&, Time) {
  return {};
}
Result<void> State::apply(const Tick&, Time) {
  return {};
}
Result<void> State::apply(const PlanRequest&, Time) {
  return {};
}

Result<void> State::check_allocation(JobId id, const Allocation& allocation) const {
  const JobState& job = jobs_[id];
  const GpuCount gpus = gpus_in(allocation);
  const JobClass& job_class = capacity_.job_class(job.job_class);
  if (gpus < 1 || job.spec.legal_size(gpus) != gpus) {
    return fail(ErrorCode::internal, "job {} ('{}') runs on {} to {} GPUs ({}), the decision gives it {}", id,
                job.spec.name, job.spec.smallest(), job.spec.largest(), to_string(job.spec.sizing), gpus);
  }
  GroupMask groups = 0;
  for (std::size_t i = 0; i < allocation.size(); ++i) {
    const NodeShare& share = allocation[i];
    EBB_RETURN_IF_ERROR(require_node(share.node, "use"));
    const bool twice = std::any_of(allocation.begin(), allocation.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const NodeShare& other) { return other.node == share.node; });
    // Most allocations are in order: no pair needs a look then.
    if (share.gpus < 1 || (i > 0 && allocation[i - 1].node >= share.node && twice)) {
      return fail(ErrorCode::internal, "job {} ('{}'): the allocation names a node twice or with no GPU", id,
                  job.spec.name);
    }
    groups |= GroupMask{1} << capacity_.free().group_of(share.node);
  }
  const bool eligible = std::any_of(job_class.options.begin(), job_class.options.end(),
                                    [&](GroupMask option) { return (groups & ~option) == 0; });
  if (!eligible) {
    return fail(ErrorCode::internal, "job {} ('{}') may not run on those nodes (type '{}', pool '{}', one type a gang)",
                id, job.spec.name, job.spec.gpu_type, job.spec.pool);
  }
  return {};
}

Result<void> State::check_available(JobId id, NodeShare share, GpuCount available) const {
  if (share.gpus <= available) return {};
  return fail(ErrorCode::internal, "job {} ('{}') would take {} GPUs of node {}, which has {} to give{}", id,
              jobs_[id].spec.name, share.gpus, capacity_.spec().nodes[share.node].name, available,
              capacity_.up(share.node) ? "" : " (it failed)");
}

Result<void> State::apply(const Start& d, Time now) {
  EBB_RETURN_IF_ERROR(require_job(d.job, "decision to start"));
  JobState& job = jobs_[d.job];
  EBB_RETURN_IF_ERROR(require_phase(d.job, "decision to start", job.phase == JobPhase::waiting && job.training()));
  EBB_RETURN_IF_ERROR(check_allocation(d.job, d.allocation));
  for (const NodeShare& share : d.allocation) {
    EBB_RETURN_IF_ERROR(check_available(d.job, share, capacity_.available(share.node)));
  }
  job.promised = capacity_.take(Holder::job(d.job), d.allocation);
  job.allocation = d.allocation;
  job.gpus = gpus_in(d.allocation);
  job.phase = JobPhase::starting;
  job.held_since = now;
  ++job.incarnations;
  ++starting_;
  remove_waiting(d.job);
  add_holding(d.job);
  if (job.promised == 0) launchable_.push_back(Holder::job(d.job));
  return {};
}

namespace {

// What `a` has and `b` has not, node by node.
Allocation difference(const Allocation& a, const Allocation& b) {
  Allocation rest;
  for (const NodeShare& share : a) {
    const auto other = std::find_if(b.begin(), b.end(), [&](const NodeShare& s) { return s.node == share.node; });
    const GpuCount gpus = share.gpus - (other == b.end() ? 0 : std::min(share.gpus, other->gpus));
    if (gpus > 0) rest.push_back({share.node, gpus});
  }
  return rest;
}

}  // namespace

Allocation State::kept_of(const JobState& job) {
  return difference(job.allocation, job.arriving);
}

// All targets together: first everything that is given back, then everything that is taken.
Result<void> State::apply(const Resize& d, Time now) {
  struct Change {
    Allocation departing;
    Allocation arriving;
  };
  std::vector<Change> changes;
  std::map<NodeId, GpuCount> balance;  // given back less taken
  std::vector<JobId> seen;
  for (const Target& target : d.targets) {
    EBB_RETURN_IF_ERROR(require_job(target.job, "decision to resize"));
    const JobState& job = jobs_[target.job];
    EBB_RETURN_IF_ERROR(require_phase(target.job, "decision to resize", job.phase == JobPhase::running));
    EBB_RETURN_IF_ERROR(check_allocation(target.job, target.allocation));
    Change& change = changes.emplace_back();
    change.departing = difference(job.allocation, target.allocation);
    change.arriving = difference(target.allocation, job.allocation);
    for (const NodeShare& share : change.departing) {
      if (capacity_.usable(share.node)) balance[share.node] += share.gpus;
    }
    seen.push_back(target.job);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return fail(ErrorCode::internal, "a decision to resize names a job twice");
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (const NodeShare& share : changes[i].arriving) {
      GpuCount& left = balance.try_emplace(share.node, 0).first->second;
      EBB_RETURN_IF_ERROR(check_available(d.targets[i].job, share, capacity_.available(share.node) + left));
      left -= share.gpus;
    }
  }
  for (const Change& change : changes) capacity_.begin_release(change.departing);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    JobState& job = jobs_[d.targets[i].job];
    job.promised = capacity_.take(Holder::job(d.targets[i].job), changes[i].arriving);
    gpus_held_ -= job.gpus;
    job.allocation = d.targets[i].allocation;
    job.gpus = gpus_in(job.allocation);
    gpus_held_ += job.gpus;
    job.departing = std::move(changes[i].departing);
    job.arriving = std::move(changes[i].arriving);
    settle(job, now);
    job.told_at = now;
    job.phase = JobPhase::resizing;
    ++job.resizes;
    if (job.departing.empty() && job.promised == 0) launchable_.push_back(Holder::job(d.targets[i].job));
  }
  return {};
}

Result<void> State::apply(const Preempt& d, Time now) {
  EBB_RETURN_IF_ERROR(require_job(d.job, "decision to preempt"));
  JobState& job = jobs_[d.job];
  EBB_RETURN_IF_ERROR(require_phase(d.job, "decision to preempt", job.phase == JobPhase::running && job.training()));
  settle(job, now);
  job.told_at = now;
  job.phase = JobPhase::stopping;
  ++job.preemptions;
  capacity_.begin_release(job.allocation);
  return {};
}

Result<void> State::apply(const Reject& d, Time) {
  EBB_RETURN_IF_ERROR(require_job(d.job, "decision to reject"));
  JobState& job = jobs_[d.job];
  EBB_RETURN_IF_ERROR(require_phase(d.job, "decision to reject", job.phase == JobPhase::waiting && job.training()));
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

// The job waits no longer, without a start.
void State::withdraw(JobId id, Time now) {
  JobState& job = jobs_[id];
  job.pending += now - job.waiting_since;
  remove_waiting(id);
}

void State::skip_ended() {
  while (first_active_ < jobs_.size() && !jobs_[first_active_].active()) ++first_active_;
}

void State::add_holding(JobId job) {
  holding_at_[job] = static_cast<std::uint32_t>(holding_.size());
  holding_.push_back(job);
  gpus_held_ += jobs_[job].gpus;
}

void State::remove_holding(JobId job) {
  const std::uint32_t at = holding_at_[job];
  holding_[at] = holding_.back();
  holding_at_[holding_[at]] = at;
  holding_.pop_back();
  gpus_held_ -= jobs_[job].gpus;
}

}  // namespace ebb::sched
