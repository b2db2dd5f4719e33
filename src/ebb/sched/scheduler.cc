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

Scheduler::Scheduler(ClusterSpec cluster, std::unique_ptr<Policy> policy, SchedulerConfig config)
    : config_(std::move(config)),
      state_(std::move(cluster), config_.lending),
      policy_(std::move(policy)),
      estimator_(state_.capacity().spec(), config_.profiles, config_.estimator),
      serving_(config_.serving) {}

Scheduler::Scheduler(const Scheduler& other)
    : config_(other.config_),
      state_(other.state_),
      policy_(other.policy_->clone()),
      estimator_(other.estimator_),
      serving_(other.serving_),
      fresh_(other.fresh_),
      wake_(other.wake_) {}

void Scheduler::replace_policy(std::unique_ptr<Policy> policy, const SchedulerConfig& config, Time now) {
  policy_ = std::move(policy);
  config_.estimator = config.estimator;
  config_.serving = config.serving;
  estimator_ = Estimator(state_.capacity().spec(), config_.profiles, config_.estimator);
  serving_ = Serving(config_.serving);
  fresh_.clear();
  wake_.reset();
  for (JobId id = state_.first_active(); id < state_.jobs().size(); ++id) {
    const JobState& job = state_.job(id);
    if (!job.training()) continue;
    if (job.holds()) policy_->adopt(state_, id, now);
    if (job.phase != JobPhase::waiting && job.phase != JobPhase::held) continue;
    policy_->on_queued(state_, id, Queued::submitted, now);
    if (job.phase == JobPhase::held) policy_->on_withdrawn(state_, id, now);
  }
}

namespace {

// The job of an event that changes who is in the queue and nothing else.
std::optional<JobId> moved_job(const Event& event) {
  if (const auto* held = std::get_if<JobHeld>(&event)) return held->job;
  if (const auto* released = std::get_if<JobReleased>(&event)) return released->job;
  if (const auto* cancelled = std::get_if<JobCancelled>(&event)) return cancelled->job;
  if (const auto* asked = std::get_if<JobSizeAsked>(&event)) return asked->job;
  return std::nullopt;
}

bool rejects(const std::vector<Decision>& decisions, JobId job) {
  return std::any_of(decisions.begin(), decisions.end(), [&](const Decision& decision) {
    const auto* reject = std::get_if<Reject>(&decision);
    return reject != nullptr && reject->job == job;
  });
}

}  // namespace

// `withdrawn`: the event is about a job that waited and does not any more.
void Scheduler::tell_policy(const Event& event, bool withdrawn, Time now) {
  struct Tell {
    State& state;
    Policy& policy;
    Serving& serving;
    std::vector<JobId>& fresh;
    bool withdrawn;
    Time at;

    void queued(JobId job, Queued why) const {
      fresh.push_back(job);
      policy.on_queued(state, job, why, at);
    }
    void leaves_queue(JobId job) const {
      if (!withdrawn) return;  // a held job was cancelled: it left before
      std::erase(fresh, job);
      policy.on_withdrawn(state, job, at);
    }
    void operator()(const JobSubmitted& e) const {
      if (state.job(e.job).training()) {
        queued(e.job, Queued::submitted);
      } else {
        serving.on_task(state, e.job, at);
      }
    }
    void operator()(const JobStarted& e) const { policy.on_started(state, e.job, at); }
    void operator()(const JobStopped& e) const {
      policy.on_released(state, e.job, at);
      state.take_asked_size(e.job);
      queued(e.job, Queued::stopped);
    }
    void operator()(const JobFailed& e) const {
      policy.on_released(state, e.job, at);
      state.take_asked_size(e.job);
      queued(e.job, Queued::failed);
    }
    void operator()(const JobFinished& e) const {
      if (state.job(e.job).training()) policy.on_released(state, e.job, at);
      state.take_asked_size(e.job);
    }
    void operator()(const JobHeld& e) const { leaves_queue(e.job); }
    void operator()(const JobReleased& e) const { queued(e.job, Queued::released); }
    void operator()(const JobCancelled& e) const { leaves_queue(e.job); }
    void operator()(const JobSizeAsked&) const {}
    void operator()(const JobShrunk&) const {}
    void operator()(const JobResized& e) const { policy.on_resized(state, e.job, at); }
    void operator()(const JobReport& e) const { policy.on_report(state, e.job, at); }
    void operator()(const ServiceAdded&) const {}
    void operator()(const ServiceDemand& e) const { serving.on_demand(e.service, e.replicas, at); }
    void operator()(const ReplicaReady&) const {}
    void operator()(const ReplicaStopped&) const {}
    void operator()(const Timer&) const {}
    void operator()(const PlanReady& e) const { policy.on_plan_ready(state, e, at); }
    void operator()(const NodeFailed&) const {}
    void operator()(const NodeRepaired&) const {}
    void operator()(const NodeDrained&) const {}
    void operator()(const NodeUndrained&) const {}
    void operator()(const Tick&) const {}
  };
  std::visit(Tell{state_, *policy_, serving_, fresh_, withdrawn, now}, event);
}

Result<void> Scheduler::step(std::span<const Event> events, Time now, StepResult& result) {
  result.decisions.clear();
  result.reasons.clear();
  result.next_wake_at = wake_;
  bool tick = false;
  bool timer = false;
  for (const Event& event : events) {
    const std::optional<JobId> moved = moved_job(event);
    if (moved && rejects(result.decisions, *moved)) continue;  // decided a moment ago: the driver could not know
    const bool waited = moved && *moved < state_.jobs().size() && state_.job(*moved).phase == JobPhase::waiting;
    EBB_RETURN_IF_ERROR(state_.fold(event, now));
    if (const auto* submitted = std::get_if<JobSubmitted>(&event);
        submitted != nullptr && state_.job(submitted->job).training() && !state_.class_of(submitted->job).possible()) {
      const JobClass& job_class = state_.class_of(submitted->job);
      const Decision reject =
          Reject{submitted->job, {ReasonCode::impossible, job_class.gpus, job_class.largest, {}, {}}};
      EBB_RETURN_IF_ERROR(state_.fold(reject, now));
      result.decisions.push_back(reject);
      continue;
    }
    tell_policy(event, waited, now);
    tick = tick || std::holds_alternative<Tick>(event);
    timer = timer || std::holds_alternative<Timer>(event);
  }
  const Turn::Context context{.estimator = estimator_,
                              .serving = serving_.options(),
                              .quantum = config_.quantum,
                              .ordered_placements = config_.ordered_placements,
                              .policy_resizes = policy_->resizes()};
  Turn turn(state_, now, context, result.decisions);
  if ((tick || timer) && !state_.services().empty()) {
    serving_.run(turn, !tick || serving_.options().place_at_ticks);
  }
  if (tick) {
    const bool resizes = context.policy_resizes;
    const bool yields = !policy_->plans_over_sleepers();
    if (yields) yield_sleepers(turn, /*free_counts=*/true);
    policy_->decide(turn);
    if (!resizes) grant_asked(turn);
    serving_.start_placed(turn);
    // What a service keeps protected is there for training once it is asleep.
    const bool wants = state_.waiting_count() > 0 || (resizes && state_.active_count() > 0);
    if (const auto asleep = wants ? Serving::next_sleep(state_, now) : std::nullopt) turn.wake_at(*asleep);
    // Enough is free, but not where it helps: what sleeps beside it goes too, and the policy decides again.
    if (yields && yield_sleepers(turn, /*free_counts=*/false)) turn.wake_at(now);
  }
  if (turn.error()) return tl::unexpected(*turn.error());
  if (tick && serving_.options().warm_after_eviction) {
    for (const Decision& decision : result.decisions) {
      const auto* stop = std::get_if<StopReplica>(&decision);
      if (stop != nullptr) serving_.on_evicted(state_.replica(stop->replica).service);
    }
  }
  result.serve_at = serving_.next_wake(state_, now);
  if (!tick) {
    for (const Event& event : events) explain_new_wait(event, now, result);
    return {};
  }
  wake_ = turn.wake();
  result.next_wake_at = wake_;
  for (const JobId job : fresh_) {
    if (state_.job(job).phase == JobPhase::waiting) result.reasons.emplace_back(job, explain(job, now));
  }
  fresh_.clear();
  return {};
}

// A job that begins to wait between ticks: a new or released one waits for the tick, one that was stopped for what took
// its place.
void Scheduler::explain_new_wait(const Event& event, Time now, StepResult& result) const {
  // Not those that were rejected, held or cancelled, nor tasks: they are no business of the policy.
  const auto waits = [&](JobId job) {
    return state_.job(job).phase == JobPhase::waiting && state_.job(job).training();
  };
  const auto waits_for_tick = [&](JobId job) {
    if (waits(job)) result.reasons.emplace_back(job, reason_for(state_, job, ReasonCode::waiting_for_tick));
  };
  const auto waits_for_others = [&](JobId job) {
    if (waits(job)) result.reasons.emplace_back(job, explain(job, now));
  };
  if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
    waits_for_tick(submitted->job);
  } else if (const auto* released = std::get_if<JobReleased>(&event)) {
    waits_for_tick(released->job);
  } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
    waits_for_others(stopped->job);
  } else if (const auto* failed = std::get_if<JobFailed>(&event)) {
    waits_for_others(failed->job);
  }
}

// Sizes that owners asked for, where the policy leaves sizes alone: less at once; more from what no waiting job could
// use.
void Scheduler::grant_asked(Turn& turn) const {
  for (const auto& [id, gpus] : state_.asked()) {
    const JobState& job = state_.job(id);
    if (job.phase != JobPhase::running) continue;
    Allocation allocation = job.allocation;
    if (gpus < job.gpus) {
      shrink(allocation, job.gpus - gpus);
    } else if (state_.waiting_count() == 0) {
      const GpuCount more = job.spec.legal_size(std::min(gpus, job.gpus + reachable(id))) - job.gpus;
      if (more > 0) grow(allocation, id, more);
    }
    if (allocation != job.allocation) turn.resize({{id, std::move(allocation)}});
  }
}

// The groups that the job may use without mixing GPU types.
GroupMask Scheduler::groups_of(JobId id) const {
  const GroupId own = state_.capacity().free().group_of(state_.job(id).allocation.front().node);
  for (const GroupMask option : state_.class_of(id).options) {
    if ((option >> own & 1) != 0) return option;
  }
  return GroupMask{1} << own;
}

GpuCount Scheduler::reachable(JobId id) const {
  return state_.capacity().free().sum(groups_of(id));
}

void Scheduler::grow(Allocation& allocation, JobId id, GpuCount more) const {
  const FreeIndex& free = state_.capacity().free();
  for (NodeShare& share : allocation) {
    const GpuCount taken = std::min(more, free.available(share.node));
    share.gpus += taken;
    more -= taken;
  }
  for (auto node = free.first_nonempty(groups_of(id)); node && more > 0;
       node = free.first_nonempty(groups_of(id), *node + 1)) {
    const bool own = std::any_of(allocation.begin(), allocation.end(), [&](const auto& s) { return s.node == *node; });
    if (own) continue;
    allocation.push_back({*node, std::min(more, free.available(*node))});
    more -= allocation.back().gpus;
  }
}

void Scheduler::shrink(Allocation& allocation, GpuCount less) {
  while (less > 0) {
    const GpuCount taken = std::min(less, allocation.back().gpus);
    allocation.back().gpus -= taken;
    less -= taken;
    if (allocation.back().gpus == 0) allocation.pop_back();
  }
}

// Policies that know nothing of replicas see only free GPUs: as many sleeping replicas go as waiting jobs could use.
bool Scheduler::yield_sleepers(Turn& turn, bool free_counts) const {
  if (state_.live_replicas().empty() || state_.waiting_count() == 0) return false;
  const Capacity& capacity = state_.capacity();
  std::int64_t wanted = 0;
  GroupMask groups = 0;
  for (ClassId id = 0; id < capacity.class_count(); ++id) {
    if (state_.waiting_in(id) == 0) continue;
    wanted += static_cast<std::int64_t>(state_.waiting_in(id)) * capacity.job_class(id).gpus;
    for (const GroupMask option : capacity.job_class(id).options) groups |= option;
  }
  if (free_counts) wanted -= capacity.free().sum(groups);
  bool any = false;
  const std::vector<ReplicaId> replicas = state_.live_replicas();
  for (const ReplicaId id : replicas) {
    if (wanted <= 0) break;
    const ReplicaState& replica = state_.replica(id);
    const bool useful = (groups >> capacity.free().group_of(replica.place.node) & 1) != 0;
    if (!useful || replica.phase(turn.now()) != ReplicaPhase::sleep) continue;
    wanted -= replica.place.gpus;
    turn.stop_replica(id);
    any = true;
  }
  return any;
}

std::vector<Holder> Scheduler::take_launchable() {
  std::vector<Holder> jobs = state_.launchable();
  state_.clear_launchable();
  return jobs;
}

Reason Scheduler::explain(JobId job, Time now) const {
  return policy_->explain(state_, job, now);
}

}  // namespace ebb::sched
