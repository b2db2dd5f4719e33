#include "ebb/control/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "ebb/base/check.h"
#include "ebb/control/launch.h"
#include "ebb/trace/journal.h"

namespace ebb::control {
namespace {

constexpr std::uint16_t kFirstPort = 20'000;
constexpr std::uint64_t kPorts = 10'000;

// The machine's fault, not the job's.
bool of_the_machine(const WorkerExit& exit) {
  return exit.cause == WorkerExit::Cause::lost || exit.cause == WorkerExit::Cause::fenced;
}

bool stopped(const WorkerExit& exit) {
  return exit.cause == WorkerExit::Cause::stopped;
}

Duration backoff(const JobRequest& request, std::uint32_t retries) {
  Duration delay = request.retry_backoff;
  for (std::uint32_t k = 1; k < retries && delay < kMaxDuration / 2; ++k) delay *= 2;
  return delay;
}

}  // namespace

Result<Ledger> Ledger::begin(Beginning beginning, const sched::Registry& registry) {
  EBB_ASSIGN_OR_RETURN(sched::Scheduler scheduler,
                       registry.make_scheduler(beginning.policy, beginning.options, beginning.cluster, {}));
  return Ledger(std::move(beginning), std::move(scheduler), registry);
}

Ledger::Ledger(Beginning beginning, sched::Scheduler scheduler, const sched::Registry& registry)
    : beginning_(std::move(beginning)),
      registry_(registry),
      policy_{beginning_.policy, beginning_.options},
      scheduler_(std::move(scheduler)),
      slots_(beginning_.cluster) {}

Result<void> Ledger::check(const JobRequest& request) const {
  const std::int64_t gpus = std::int64_t{request.workers} * request.gpus_per_worker;
  const GpuCount total = beginning_.cluster.total_gpus();
  if (gpus > total) {
    return fail(ErrorCode::invalid_argument,
                "'{}' needs {} GPUs ({} workers x {}), the cluster has {}: ask for fewer workers", request.name, gpus,
                request.workers, request.gpus_per_worker, total);
  }
  for (const Dependency& on : request.dependencies) {
    if (on.job >= jobs_.size()) return fail(ErrorCode::not_found, "it depends on job {}, which does not exist", on.job);
  }
  const auto& nodes = beginning_.cluster.nodes;
  if (!request.node.empty() &&
      std::none_of(nodes.begin(), nodes.end(), [&](const NodeSpec& node) { return node.name == request.node; })) {
    return fail(ErrorCode::not_found, "no node is called '{}'; `ebb nodes` lists them", request.node);
  }
  return {};
}

void Ledger::apply(Time at, const Input& input) {
  struct Apply {
    Ledger& ledger;
    Time at;

    void operator()(const JobAccepted& in) const { ledger.accept(at, in); }
    void operator()(const CancelRequested& in) const { ledger.cancel(in.job, "cancelled by its owner", at); }
    void operator()(const HoldRequested& in) const { hold(in.job, true); }
    void operator()(const ReleaseRequested& in) const { hold(in.job, false); }
    void operator()(const DrainRequested& in) const {
      ledger.heard_.push_back(in.on ? Event(NodeDrained{in.node}) : Event(NodeUndrained{in.node}));
    }
    void operator()(const RetryDue& in) const {
      JobEntry& job = ledger.jobs_[in.job];
      if (!job.retry_at) return;
      ledger.retries_.erase({*job.retry_at, in.job});
      job.retry_at.reset();
      ledger.sync_hold(in.job);
    }
    void operator()(const WorkerSaid& in) const { ledger.hear(in.status, at); }
    void operator()(const WorkerReported& in) const { ledger.report(in.report, at); }
    void operator()(const TargetTimedOut& in) const { ledger.time_out(in, at); }
    void operator()(const ResizeRequested& in) const { ledger.resize_asked(in); }
    void operator()(const PolicySet& in) const { ledger.set_policy(in, at); }
    void operator()(const PlanAnswered& in) const {
      // Of a policy that is not in charge any more nobody waits for it.
      if (ledger.open_plans_.erase(in.plan) > 0) ledger.heard_.emplace_back(PlanReady{in.plan, in.answer});
    }

    void hold(JobId id, bool on) const {
      ledger.jobs_[id].user_held = on;
      ledger.sync_hold(id);
    }
  };
  std::visit(Apply{*this, at}, input);
  tell_dependents(at);
}

Result<void> Ledger::check_policy(const PolicySet& set) const {
  EBB_ASSIGN_OR_RETURN(const auto policy, registry_.make(set.policy, set.options));
  return {};
}

void Ledger::set_policy(const PolicySet& set, Time at) {
  // Checked when it was accepted; an ebb without this policy cannot fold this journal.
  const Result<void> replaced = registry_.replace_policy(scheduler_, set.policy, set.options, at);
  EBB_CHECK(replaced.has_value());
  policy_ = set;
  ++reign_;
  policy_changed_ = true;
  open_plans_.clear();
}

void Ledger::accept(Time at, const JobAccepted& accepted) {
  const auto request = std::make_shared<const JobRequest>(accepted.request);
  const auto count = static_cast<std::size_t>(std::max(1, request->array_size));
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<JobId>(jobs_.size());
    JobEntry& job = jobs_.emplace_back();
    job.request = request;
    if (request->array_size > 0) job.array_index = static_cast<std::int32_t>(i);
    job.submitted = at;
    job.user_held = request->hold;
    heard_.emplace_back(JobSubmitted{id, spec_of(*request, at)});
    for (const Dependency& on : request->dependencies) depend(id, on, at);
    sync_hold(id);
  }
  if (!accepted.key.empty()) keys_[accepted.key] = {accepted.first, count};
}

void Ledger::depend(JobId id, const Dependency& on, Time at) {
  JobEntry& before = jobs_[on.job];
  if (before.outcome == Outcome::none) {
    before.dependents.emplace_back(id, on.when);
    ++jobs_[id].unmet;
  } else if (on.when == Dependency::When::after_ok && before.outcome != Outcome::completed) {
    cancel(id, fmt::format("job {}, which it depends on, did not complete", on.job), at);
  }
}

// A job that may not start is kept out of the core's queue.
void Ledger::sync_hold(JobId id) {
  JobEntry& job = jobs_[id];
  const bool held = job.user_held || job.unmet > 0 || job.retry_at.has_value();
  if (job.place == JobEntry::Place::queued && held) {
    heard_.emplace_back(JobHeld{id});
    job.place = JobEntry::Place::held;
  } else if (job.place == JobEntry::Place::held && !held) {
    heard_.emplace_back(JobReleased{id});
    job.place = JobEntry::Place::queued;
  }
}

void Ledger::cancel(JobId id, const std::string& why, Time at) {
  JobEntry& job = jobs_[id];
  if (job.outcome != Outcome::none) return;
  job.cancelled = true;
  if (job.place == JobEntry::Place::placed && !job.workers.empty()) {
    job.why = why;
    stop_workers(id, why);
    return;
  }
  if (job.place == JobEntry::Place::placed) heard_.emplace_back(JobFailed{id, {}});  // decided, not launched
  heard_.emplace_back(JobCancelled{id});
  finish(id, Outcome::cancelled, why, 0, at);
}

void Ledger::stop_workers(JobId id, const std::string& why) {
  for (WorkerEntry& worker : jobs_[id].workers) stop_worker(worker, why);
}

void Ledger::stop_worker(WorkerEntry& worker, const std::string& why) {
  if (worker.exit || worker.stopping) return;
  worker.stopping = true;
  stops_.emplace_back(worker.placed.worker, why);
}

void Ledger::hear(const WorkerStatus& status, Time at) {
  const auto found = live_.find(status.id);
  if (found == live_.end()) return;  // said before
  const JobId id = found->second;
  JobEntry& job = jobs_[id];
  WorkerEntry& worker = *find_entry(id, status.id);
  if (status.pid != 0) worker.pid = status.pid;
  const auto runs = [](const WorkerEntry& each) { return each.pid != 0; };
  if (std::all_of(job.workers.begin(), job.workers.end(), runs)) all_run(id, at);
  if (!status.exit) return;
  worker.exit = status.exit;
  live_.erase(found);
  slots_.give_back(worker.placed.node, worker.placed.slots);
  if (worker.leaves) {
    leaver_gone(id, status.id, at);
  } else {
    end_worker(id, worker);
  }
  const auto gone = [](const WorkerEntry& each) { return each.exit.has_value(); };
  if (std::all_of(job.workers.begin(), job.workers.end(), gone)) settle(id, at);
}

void Ledger::all_run(JobId id, Time at) {
  JobEntry& job = jobs_[id];
  if (!job.started) {
    job.started = at;
    heard_.emplace_back(JobStarted{id, at});
    if (job.incarnation == 1) started_.emplace_back(id, at);
  }
  advance(id, at);
}

// A worker that did not leave ended: if not well, all others of its incarnation are stopped.
void Ledger::end_worker(JobId id, const WorkerEntry& worker) {
  JobEntry& job = jobs_[id];
  if (worker.exit->ok()) return;
  const auto rank = static_cast<std::size_t>(&worker - job.workers.data());
  if (!stopped(*worker.exit) && !job.first_failure) job.first_failure = rank;
  stop_workers(id, fmt::format("worker {} {}", rank, describe(*worker.exit)));
}

WorkerEntry* Ledger::find_entry(JobId job, const WorkerId& worker) {
  const auto rank = rank_of(job, worker);
  return rank ? &jobs_[job].workers[*rank] : nullptr;
}

void Ledger::settle(JobId id, Time at) {
  JobEntry& job = jobs_[id];
  answered(id);
  const auto ok = [](const WorkerEntry& each) { return each.exit->ok(); };
  if (std::all_of(job.workers.begin(), job.workers.end(), ok)) {
    if (!job.started) heard_.emplace_back(JobStarted{id, at});
    heard_.emplace_back(JobFinished{id, {}});
    finish(id, Outcome::completed, "", 0, at);
    return;
  }
  if (job.restarting && !job.cancelled && !job.first_failure) return restarted(id, at);
  if (job.preempted) reclaims_.push_back(at - scheduler_.state().job(id).told_at);
  if (!job.cancelled && job.preempted) {
    heard_.emplace_back(JobStopped{id, {}});
    job.place = JobEntry::Place::queued;
    return;
  }
  heard_.emplace_back(JobFailed{id, {}});
  job.place = JobEntry::Place::queued;
  if (job.cancelled) {
    heard_.emplace_back(JobCancelled{id});
    finish(id, Outcome::cancelled, job.why, 0, at);
  } else if (job.first_failure) {
    if (!of_the_machine(*job.workers[*job.first_failure].exit)) fail_job(id, *job.workers[*job.first_failure].exit, at);
  } else if (!job.broken.empty()) {
    fail_job(id, {WorkerExit::Cause::exited, 1, ""}, at);
  }
}

void Ledger::fail_job(JobId id, const WorkerExit& exit, Time at) {
  JobEntry& job = jobs_[id];
  if (std::cmp_less(job.retries, job.request->max_retries)) {
    ++job.retries;
    job.retry_at = at + backoff(*job.request, job.retries);
    retries_.insert({*job.retry_at, id});
    sync_hold(id);
    return;
  }
  heard_.emplace_back(JobCancelled{id});
  const int code = exit.cause == WorkerExit::Cause::signalled ? 128 + exit.code : exit.code;
  std::string why = job.first_failure ? describe(exit) : job.broken;
  if (job.first_failure && job.workers.size() > 1) why = fmt::format("worker {}: {}", *job.first_failure, why);
  finish(id, Outcome::failed, std::move(why), code != 0 ? code : 1, at);
}

void Ledger::finish(JobId id, Outcome outcome, std::string why, int exit_code, Time at) {
  JobEntry& job = jobs_[id];
  job.place = JobEntry::Place::gone;
  job.outcome = outcome;
  job.why = std::move(why);
  job.exit_code = exit_code;
  job.ended = at;
  if (job.retry_at) retries_.erase({*job.retry_at, id});
  job.retry_at.reset();
  answered(id);
  relaunch_.erase(id);
  finished_.push_back(id);
}

// One by one, not from within finish(): a chain of dependent jobs may be as long as there are jobs.
void Ledger::tell_dependents(Time at) {
  while (!finished_.empty()) {
    const JobId id = finished_.back();
    finished_.pop_back();
    const auto dependents = std::move(jobs_[id].dependents);
    const bool completed = jobs_[id].outcome == Outcome::completed;
    for (const auto& [next, when] : dependents) {
      if (jobs_[next].outcome != Outcome::none) continue;
      if (when == Dependency::When::after_ok && !completed) {
        cancel(next, fmt::format("job {}, which it depends on, did not complete", id), at);
      } else {
        --jobs_[next].unmet;
        sync_hold(next);
      }
    }
  }
}

Result<void> Ledger::step(Time now, Consequences& out) {
  std::vector<Event> events = std::move(heard_);
  heard_.clear();
  policy_changed_ = false;
  events.emplace_back(Tick{});
  for (const Event& event : events) out.rows.push_back(trace::encode(now, event));
  EBB_RETURN_IF_ERROR(scheduler_.step(events, now, result_));
  for (const Decision& decision : result_.decisions) {
    out.rows.push_back(trace::encode(now, decision));
    decided(decision, out, now);
  }
  tell_dependents(now);
  for (const sched::Holder& holder : scheduler_.take_launchable()) {
    if (holder.kind == sched::Holder::Kind::job) gpus_free(holder.id, out, now);
  }
  relaunch_now_ = false;
  for (const JobId job : std::set<JobId>(relaunch_)) {
    if (jobs_[job].gpus_ready) launch(job, out, now);
  }
  for (auto& [worker, why] : stops_) {
    if (!live_.contains(worker)) continue;  // it has ended since
    out.rows.push_back(encode(now, Intent(StopRequested{worker, why})));
    out.actions.emplace_back(StopWorker{worker, grace_of(worker)});
  }
  stops_.clear();
  return {};
}

void Ledger::decided(const Decision& decision, Consequences& out, Time now) {
  if (const auto* start = std::get_if<Start>(&decision)) {
    JobEntry& job = jobs_[start->job];
    job.place = JobEntry::Place::placed;
    job.preempted = false;
    job.changing = job.restarting = job.gpus_ready = false;
    job.broken.clear();
    job.workers.clear();
    job.first_failure.reset();
    job.started.reset();
  } else if (const auto* preempt = std::get_if<Preempt>(&decision)) {
    jobs_[preempt->job].preempted = true;
    stop_workers(preempt->job, "its GPUs go to another job");
  } else if (const auto* plan = std::get_if<PlanRequest>(&decision)) {
    open_plans_[plan->plan] = plan->input;
    out.actions.emplace_back(RunPlan{plan->plan, plan->input});
  } else if (const auto* resize = std::get_if<Resize>(&decision)) {
    for (const Target& target : resize->targets) begin_change(target.job, out, now);
  } else if (const auto* reject = std::get_if<Reject>(&decision)) {
    finish(reject->job, Outcome::failed, describe(reject->reason), 1, now);
  }
}

// A new incarnation on all GPUs of the job.
void Ledger::launch(JobId id, Consequences& out, Time now) {
  JobEntry& job = jobs_[id];
  if (job.place != JobEntry::Place::placed) return;  // it was cancelled in this step
  relaunch_.erase(id);
  ++job.incarnation;
  job.restarting = false;
  job.next_worker = 0;
  job.workers.clear();
  job.target = {};
  start_workers(id, scheduler_.state().job(id).allocation, out, now);
  // An allocation that cuts a worker in two would lose part of the job.
  EBB_CHECK(std::cmp_equal(job.workers.size() * static_cast<std::size_t>(job.request->gpus_per_worker),
                           scheduler_.state().job(id).gpus));
  if (job.request->elasticity == Elasticity::contract) {
    order_target(id, job.request->resize_timeout, "start", out, now);
  }
}

// Further workers on these GPUs, with the next ranks.
void Ledger::start_workers(JobId id, const Allocation& where, Consequences& out, Time now) {
  JobEntry& job = jobs_[id];
  const GpuCount each = job.request->gpus_per_worker;
  const std::size_t first = job.workers.size();
  std::uint16_t port = first > 0 ? job.workers.front().placed.port : std::uint16_t{0};
  for (const NodeShare& share : where) {
    for (GpuCount used = 0; used + each <= share.gpus; used += each) {
      StartRequested start{worker_id(id, job.incarnation, job.next_worker++), share.node, slots_.take(share.node, each),
                           slots_.next_fence(share.node), 0};
      if (port == 0) port = static_cast<std::uint16_t>(kFirstPort + start.fence % kPorts);
      start.port = port;
      live_[start.worker] = id;
      out.rows.push_back(encode(now, Intent(start)));
      job.workers.push_back({.placed = std::move(start), .exit = {}, .joins = first > 0});
    }
  }
  for (std::size_t rank = first; rank < job.workers.size(); ++rank) {
    out.actions.emplace_back(StartWorker{spec_of_worker(job.workers[rank].placed.worker)});
  }
}

std::optional<Time> Ledger::next_wake() const {
  std::optional<Time> wake = result_.next_wake_at;
  const auto first = [](const std::set<std::pair<Time, JobId>>& times) {
    return times.empty() ? std::nullopt : std::optional(times.begin()->first);
  };
  for (const std::optional<Time>& other : {result_.serve_at, first(retries_), first(target_deadlines_)}) {
    if (other && (!wake || *other < *wake)) wake = other;
  }
  return wake;
}

std::vector<JobId> Ledger::due_retries(Time now) const {
  std::vector<JobId> due;
  for (const auto& [at, job] : retries_) {
    if (at > now) break;
    due.push_back(job);
  }
  return due;
}

std::optional<std::pair<JobId, std::size_t>> Ledger::find_key(const std::string& key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<JobId> Ledger::job_of(const WorkerId& worker) const {
  const auto found = live_.find(worker);
  return found == live_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<WorkerId> Ledger::live_workers() const {
  std::vector<WorkerId> workers;
  workers.reserve(live_.size());
  for (const auto& [worker, key] : live_) workers.push_back(worker);
  std::sort(workers.begin(), workers.end());
  return workers;
}

const WorkerEntry* Ledger::find_worker(const WorkerId& id) const {
  const auto found = live_.find(id);
  if (found == live_.end()) return nullptr;
  const auto rank = rank_of(found->second, id);
  return rank ? &jobs_[found->second].workers[*rank] : nullptr;
}

std::optional<std::size_t> Ledger::rank_of(JobId job, const WorkerId& worker) const {
  const std::vector<WorkerEntry>& workers = jobs_[job].workers;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    if (workers[rank].placed.worker == worker) return rank;
  }
  return std::nullopt;
}

WorkerSpec Ledger::spec_of_worker(const WorkerId& id) const {
  const JobId job = live_.at(id);
  return make_worker(beginning_.cluster, jobs_[job], job, rank_of(job, id).value());
}

Duration Ledger::grace_of(const WorkerId& id) const {
  return jobs_[live_.at(id)].request->grace_time;
}

}  // namespace ebb::control
