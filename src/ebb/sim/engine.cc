#include "ebb/sim/engine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ebb/sim/resolve.h"
#include "ebb/trace/journal.h"

namespace ebb::sim {
namespace {

using sched::Holder;
using sched::JobPhase;
using sched::JobState;

constexpr std::uint64_t kProgressEvery = 4096;

}  // namespace

Engine::Engine(const Workload& workload, const SimOptions& options, WorldOptions world, sched::Scheduler scheduler,
               FaultSource faults, const SimHooks& hooks)
    : workload_(workload),
      options_(options),
      hooks_(hooks),
      world_(std::move(world)),
      scheduler_(std::move(scheduler)),
      has_tasks_(has_tasks(workload)),
      every_round_(polled() || scheduler_.policy().resizes()),
      faults_(std::move(faults)),
      demand_(workload, state().capacity().total_gpus()),
      running_(state(), world_.training, polled()),
      confirmations_(state()),
      recorder_(workload, options.target_extra, world_.reclaim_bound) {}

Result<void> Engine::run() {
  while (true) {
    const std::optional<Time> next = next_time();
    if (!next) {
      EBB_RETURN_IF_ERROR(check_for_stall());
      if (look_again_) continue;
      return {};
    }
    if (*next >= kEndOfTime) {
      return fail(ErrorCode::failed_precondition,
                  "the schedule runs past {} years; are the run times of the trace in seconds?",
                  std::chrono::duration_cast<std::chrono::hours>(kEndOfTime.time_since_epoch()).count() / 24 / 365);
    }
    EBB_RETURN_IF_ERROR(batch(*next));
  }
}

void Engine::fill(SimResult& result) const {
  recorder_.fill(state(), now_, result);
  fill_lookups(result);
  result.steps = steps_;
  result.events = events_;
}

void Engine::fill_lookups(SimResult& result) const {
  ProfileLookups& sum = result.summary.profile_lookups;
  std::vector<std::string> outside;
  for (const auto& [application, lookups] : running_.lookups()) {
    sum.count += lookups.count;
    sum.clamped += lookups.clamped;
    sum.fitted += lookups.fitted;
    if (lookups.clamped + lookups.fitted > 0) outside.push_back(application);
  }
  if (outside.empty()) return;
  result.summary.warnings.push_back(fmt::format(
      "{} of {} step times were not measured: {} were taken at the end of the measured local batches, {} from a fit, "
      "outside the measured placements. Applications: {}",
      sum.clamped + sum.fitted, sum.count, sum.clamped, sum.fitted, fmt::join(outside, ", ")));
}

// When each thing that is known beforehand happens next: a submission, a demand, an answer to a plan, and services that
// want to be looked after.
std::array<std::optional<Time>, 4> Engine::calendar() const {
  std::array<std::optional<Time>, 4> times;
  if (arrived_ < workload_.jobs.size()) times[0] = workload_.jobs[arrived_].submit;
  times[1] = demand_.next();
  if (!answers_.empty()) times[2] = answers_.top().at;
  if (result_.serve_at) times[3] = std::max(*result_.serve_at, now_);
  return times;
}

std::optional<Time> Engine::next_time() {
  if (gave_up_) return std::nullopt;
  if (options_.end_with_jobs && arrived_ == workload_.jobs.size() && state().active_count() == 0 &&
      state().active_tasks() == 0) {
    return std::nullopt;
  }
  std::optional<Time> next;
  const auto consider = [&](std::optional<Time> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  for (const std::optional<Time>& at : calendar()) consider(at);
  consider(confirmations_.next());
  consider(next_tick());
  const std::optional<Time> fault = faults_.next();
  consider(running_.next(now_, next, fault));
  // Faults go on for ever: they count while something else is ahead, or while jobs wait for a repair.
  if (fault && (next || repair_would_help())) consider(fault);
  return next;
}

// The time of the next tick that nothing but the clock causes.
std::optional<Time> Engine::next_tick() const {
  if (!options_.round) return look_again_ ? now_ : result_.next_wake_at;
  if (state().active_count() == 0) return std::nullopt;
  if (changed_since_tick_ || (every_round_ && state().holding_count() > 0)) {
    return round_up(now_, /*strictly=*/ticked_at_ == now_);
  }
  if (result_.next_wake_at) return std::max(round_up(*result_.next_wake_at, false), round_up(now_, true));
  return std::nullopt;
}

Time Engine::round_up(Time t, bool strictly) const {
  const std::int64_t round = options_.round->count();
  const std::int64_t ns = t.time_since_epoch().count();
  return Time(Duration((ns / round + (strictly || ns % round != 0 ? 1 : 0)) * round));
}

// Nothing but replicas that become ready: no business of the scheduler.
bool Engine::is_quiet(Time now, bool tick) const {
  const auto planned = calendar();
  const bool due = tick || faults_.next() == now || running_.due(now) ||
                   (!options_.round && next_tick().value_or(kEndOfTime) <= now) ||
                   std::any_of(planned.begin(), planned.end(), [&](const auto& at) { return at == now; });
  return !due && confirmations_.replica_next();
}

// Everything that happens at `now`.
Result<void> Engine::batch(Time now) {
  recorder_.advance(state(), now);
  now_ = now;
  batch_.clear();
  const std::size_t arrived_before = arrived_;
  const std::size_t demand_before = demand_.taken();
  const std::uint64_t done_before = jobs_done_;
  const bool nobody_works = state().holding_count() == 0 && state().active_tasks() == state().waiting_tasks().size();
  const bool idle = nobody_works || now == last_batch_;
  last_batch_ = now;
  const bool planned = !answers_.empty() && answers_.top().at == now;
  const bool on_round = options_.round && round_up(now, false) == now;
  const bool tick = !options_.round ? !is_quiet(now, false) : on_round && (ticked_at_ != now || planned);
  const bool quiet = is_quiet(now, tick);
  if (!quiet) take_training(tick);
  take_faults();
  for (; !answers_.empty() && answers_.top().at == now; answers_.pop()) batch_.emplace_back(answers_.top().plan);
  take_confirmations(quiet);
  demand_.take(now, batch_, recorder_);
  take_arrivals();
  const bool nothing_new = jobs_done_ == done_before && arrived_ == arrived_before && demand_.taken() == demand_before;
  idle_batches_ = idle && nothing_new ? idle_batches_ + 1 : 0;
  changed_since_tick_ = changed_since_tick_ || !batch_.empty();
  if (tick) {
    batch_.emplace_back(Tick{});
    changed_since_tick_ = false;
    look_again_ = false;
    ticked_at_ = now;
  } else if (!quiet && serves()) {
    batch_.emplace_back(Timer{});
  }
  EBB_RETURN_IF_ERROR(step());
  const bool decided = !result_.decisions.empty();
  EBB_RETURN_IF_ERROR(carry_out());
  if (world_.training.interference > 0) running_.mark_interference(now);
  // Whoever was stopped, and nobody was started in its place, is looked at again.
  if (decided && state().holding_count() == 0 && state().waiting_count() > 0) changed_since_tick_ = true;
  recorder_.batch_done(state(), now);
  if (hooks_.progress && steps_ % kProgressEvery == 0) hooks_.progress(jobs_done_, workload_.jobs.size());
  if (tick) {
    tick_decided_ = decided;
    EBB_RETURN_IF_ERROR(check_for_stall());
  }
  return check_for_progress();
}

// Training up to now_: what ended, and what it has to say.
void Engine::take_training(bool tick) {
  running_.take_ends(now_, batch_);
  // Whoever a fault breaks has run until then.
  if (tick || serves() || faults_.next() == now_) running_.advance_training(now_, batch_);
  if (tick || serves()) running_.report_training(batch_);
  for (const Event& event : batch_) {
    const auto* finished = std::get_if<JobFinished>(&event);
    if (finished == nullptr) continue;
    recorder_.finished(finished->job);
    ++jobs_done_;
    vain_stops_ = 0;
  }
}

// What was planned for now_. In a quiet batch only up to the next one that is not quiet: that is another batch.
void Engine::take_confirmations(bool quiet) {
  while (std::optional<Event> confirmed = confirmations_.take(now_, batch_)) {
    if (const auto* ready = std::get_if<ReplicaReady>(&*confirmed)) {
      if (const auto task = state().replica(ready->replica).task) running_.serve(*task, now_);
    }
    batch_.push_back(std::move(*confirmed));
    if (quiet && !confirmations_.replica_next()) return;
  }
}

void Engine::take_arrivals() {
  for (; arrived_ < workload_.jobs.size() && workload_.jobs[arrived_].submit == now_; ++arrived_) {
    const auto id = static_cast<JobId>(arrived_);
    const JobSpec& spec = workload_.jobs[arrived_];
    if (spec.kind == JobKind::inference) demand_.add_service_of(spec, world_.training.profiles.get(), batch_);
    batch_.emplace_back(JobSubmitted{id, spec});
    running_.add(spec);
    recorder_.submitted(id);
  }
}

// Jobs with processes on the node, but for those that end at this very moment: they have ended.
std::vector<JobId> Engine::jobs_on(NodeId node) const {
  const auto on_node = [&](const NodeShare& share) { return share.node == node; };
  std::vector<JobId> jobs;
  for (const JobId id : state().holding()) {
    const JobState& job = state().job(id);
    const bool hit = std::any_of(job.allocation.begin(), job.allocation.end(), on_node) ||
                     std::any_of(job.departing.begin(), job.departing.end(), on_node);
    const bool ended = std::any_of(batch_.begin(), batch_.end(), [&](const Event& event) {
      const auto* finished = std::get_if<JobFinished>(&event);
      return finished != nullptr && finished->job == id;
    });
    if (hit && !ended) jobs.push_back(id);
  }
  return jobs;
}

void Engine::take_faults() {
  if (faults_.next() != now_) return;
  std::vector<Event> changes;
  faults_.take(now_, changes);
  std::set<JobId> broken;
  std::set<ReplicaId> lost;
  for (const Event& change : changes) {
    batch_.push_back(change);
    const auto* failed = std::get_if<NodeFailed>(&change);
    if (failed == nullptr) continue;
    for (const JobId id : jobs_on(failed->node)) broken.insert(id);
    for (const ReplicaId id : state().live_replicas()) {
      if (state().replica(id).place.node == failed->node) lost.insert(id);
    }
  }
  for (const JobId id : broken) {
    const Duration kept = running_.surviving_progress(id, now_, options_.faults.checkpoint_interval);
    running_.stop(id);
    count_stop(id, kept);
    batch_.emplace_back(JobFailed{id, kept});
  }
  for (const ReplicaId id : lost) {
    if (const auto task = state().replica(id).task) running_.stop(*task);
    batch_.emplace_back(ReplicaStopped{id});
  }
}

// Gives batch_ to the scheduler and writes down what came of it.
Result<void> Engine::step() {
  ++steps_;
  events_ += batch_.size();
  if (hooks_.journal != nullptr) {
    for (const Event& event : batch_) hooks_.journal->write(now_, event);
  }
  EBB_RETURN_IF_ERROR(scheduler_.step(batch_, now_, result_));
  if (hooks_.journal != nullptr) {
    for (const Decision& decision : result_.decisions) hooks_.journal->write(now_, decision);
    for (const auto& [job, reason] : result_.reasons) hooks_.journal->write_waits(now_, job, reason);
  }
  recorder_.heard(state(), batch_, now_);
  for (const auto& [job, reason] : result_.reasons) recorder_.waits(job, reason.code);
  recorder_.decided(state(), result_.decisions, now_);
  if (options_.check_invariants) EBB_RETURN_IF_ERROR(sched::check_invariants(state()));
  if (hooks_.after_step) EBB_RETURN_IF_ERROR(hooks_.after_step(state(), now_));
  return {};
}

// The world obeys: what is stopped is gone (after its drain time), then what is started or resized runs.
Result<void> Engine::carry_out() {
  while (true) {
    batch_.clear();
    for (const Decision& decision : result_.decisions) obey(decision);
    if (!batch_.empty()) {
      // GPUs that came free and are promised to nobody may serve what still waits.
      EBB_RETURN_IF_ERROR(confirm());
      if (!result_.decisions.empty()) continue;
    }
    const std::vector<Holder> launched = scheduler_.take_launchable();
    if (launched.empty()) return {};
    batch_.clear();
    idle_batches_ = 0;
    for (const Holder& holder : launched) launch(holder);
    if (batch_.empty()) return {};
    // So may those of a job that runs from now on: while it started or changed its GPUs they were out of reach.
    EBB_RETURN_IF_ERROR(confirm());
  }
}

// A step about what became of decisions. Services that lack replicas are looked after (polled time: at rounds only).
Result<void> Engine::confirm() {
  const bool timer = !polled() && state().lacks_replicas();
  if (timer) batch_.emplace_back(Timer{});
  EBB_RETURN_IF_ERROR(step());
  // Training that lost its GPUs may find others.
  const bool took = std::any_of(result_.decisions.begin(), result_.decisions.end(), [](const Decision& decision) {
    return std::holds_alternative<Preempt>(decision) || std::holds_alternative<Resize>(decision);
  });
  if (took) changed_since_tick_ = look_again_ = true;
  return {};
}

void Engine::obey(const Decision& decision) {
  if (const auto* preempt = std::get_if<Preempt>(&decision)) {
    const JobId id = preempt->job;
    const Duration kept = running_.progress(id, now_);
    if (!forces()) count_stop(id, kept);
    stop_training(id, JobStopped{id, kept});
  } else if (const auto* resize = std::get_if<Resize>(&decision)) {
    for (const Target& target : resize->targets) {
      running_.will_resize(target.job);
      if (!state().job(target.job).departing.empty()) {
        stop_training(target.job, JobShrunk{target.job});
      } else {
        running_.stop(target.job);
      }
    }
  } else if (const auto* request = std::get_if<PlanRequest>(&decision)) {
    answers_.push({now_ + world_.plan_delay, {request->plan, scheduler_.policy().plan(request->input)}});
  } else if (std::holds_alternative<Reject>(decision)) {
    ++jobs_done_;
  } else if (const auto* stop = std::get_if<StopReplica>(&decision)) {
    batch_.emplace_back(ReplicaStopped{stop->replica});
  } else if (const auto* serve = std::get_if<Serve>(&decision)) {
    running_.serve(serve->task, now_);
  }
}

// The job's processes leave GPUs: at once, after the drain time, or by force when that takes too long.
void Engine::stop_training(JobId id, Event confirmation) {
  running_.stop(id);
  if (world_.drain == Duration(0)) {
    batch_.push_back(std::move(confirmation));
  } else if (!forces()) {
    confirmations_.add(now_ + world_.drain, std::move(confirmation));
  } else {
    recorder_.forced();
    const Duration kept = running_.surviving_progress(id, now_, options_.faults.checkpoint_interval);
    count_stop(id, kept);
    confirmations_.add(now_ + world_.reclaim_bound, JobFailed{id, kept});
  }
}

void Engine::launch(const Holder& holder) {
  if (holder.kind == Holder::Kind::job) return launch_job(holder.id);
  const sched::ReplicaState& replica = state().replica(holder.id);
  recorder_.replica_launched(holder.id, now_);
  const Duration delay = replica.warm ? Duration(0) : state().services()[replica.service].spec.start_delay;
  if (delay > Duration(0)) {
    confirmations_.add(now_ + delay, ReplicaReady{holder.id});
  } else {
    if (replica.task) running_.serve(*replica.task, now_);
    batch_.emplace_back(ReplicaReady{holder.id});
  }
}

void Engine::launch_job(JobId id) {
  const JobState& job = state().job(id);
  const bool starts = job.phase == JobPhase::starting;
  const bool charged = !starts || job.incarnations > 1 || world_.charge_first_start;
  const GpuCount before = starts ? 0 : running_.gpus_before(id);
  const Duration cost = charged ? options_.resize_cost.of(running_.costs_of(id), before, job.gpus) : Duration(0);
  // One sum at a time, each far inside 64 bits; beyond the end of time the run ends with an error.
  const Time productive_at = std::min(now_ + cost, kEndOfTime);
  const Duration progress = running_.progress(id, now_);
  if (starts) {
    batch_.emplace_back(JobStarted{id, productive_at});
  } else {
    batch_.emplace_back(JobResized{id, productive_at, progress});
  }
  running_.run(id, productive_at, progress, batch_);
}

void Engine::count_stop(JobId id, Duration kept) {
  vain_stops_ = kept > state().job(id).progress ? 0 : vain_stops_ + 1;
}

}  // namespace ebb::sim
