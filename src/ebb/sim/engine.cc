#include "ebb/sim/engine.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ebb/base/check.h"
#include "ebb/sched/room.h"
#include "ebb/sim/replica_need.h"
#include "ebb/sim/resolve.h"
#include "ebb/trace/journal.h"

namespace ebb::sim {
namespace {

using sched::Holder;
using sched::JobPhase;
using sched::JobState;

constexpr std::uint64_t kProgressEvery = 4096;

// Later than `at` by seconds of running, at least so that nothing is left of them.
Time after(Time at, double seconds) {
  if (seconds > to_seconds(kEndOfTime - at)) return kEndOfTime;
  return at + Duration(static_cast<std::int64_t>(std::ceil(seconds * 1e9)));
}

}  // namespace

Engine::Engine(const Workload& workload, const SimOptions& options, WorldOptions world, sched::Scheduler scheduler,
               FaultSource faults, const SimHooks& hooks)
    : workload_(workload),
      options_(options),
      world_(std::move(world)),
      scheduler_(std::move(scheduler)),
      faults_(std::move(faults)),
      hooks_(hooks),
      recorder_(workload, options.target_extra) {
  has_tasks_ = has_tasks(workload);
  every_round_ = polled() || scheduler_.policy().resizes();
  plan_demand();
}

// How many replicas each service needs when.
void Engine::plan_demand() {
  for (ServiceId id = 0; id < workload_.services.size(); ++id) {
    const ServiceSpec& spec = workload_.services[id].spec;
    const auto most =
        static_cast<std::int32_t>(std::max(1, 2 * state().capacity().total_gpus() / std::max(spec.gpus, 1)));
    ReplicaNeed need(spec, most);
    for (const RatePoint& point : workload_.services[id].requests) {
      demand_.push_back({point.at, id, need(point.requests_per_s), point.requests_per_s});
    }
  }
  std::sort(demand_.begin(), demand_.end(),
            [](const Demand& a, const Demand& b) { return a.at != b.at ? a.at < b.at : a.service < b.service; });
}

Result<void> Engine::run() {
  while (true) {
    const std::optional<Time> next = next_time();
    if (!next) return {};
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
  result.steps = steps_;
  result.events = events_;
}

std::optional<Time> Engine::next_time() {
  if (gave_up_) return std::nullopt;
  if (options_.end_with_jobs && arrived_ == workload_.jobs.size() && state().active_count() == 0 &&
      state().active_tasks() == 0) {
    return std::nullopt;
  }
  while (!ends_.empty() && !is_due(ends_.top())) ends_.pop();  // of incarnations that were stopped
  while (!confirmations_.empty() && is_void(confirmations_.top())) confirmations_.pop();
  std::optional<Time> next;
  const auto consider = [&](Time at) {
    if (!next || at < *next) next = at;
  };
  if (arrived_ < workload_.jobs.size()) consider(workload_.jobs[arrived_].submit);
  if (demand_taken_ < demand_.size()) consider(demand_[demand_taken_].at);
  if (!confirmations_.empty()) consider(confirmations_.top().at);
  if (!answers_.empty()) consider(answers_.top().at);
  if (const auto tick = next_tick()) consider(*tick);
  if (serve_at_) consider(std::max(*serve_at_, now_));
  pass_epochs(next);
  // Faults go on for ever: they count while something else is ahead, or while jobs wait for a repair.
  if (const auto fault = faults_.next(); fault && (next || repair_would_help())) consider(*fault);
  return next;
}

// Epochs that end before anything else happens concern nobody but the job; the end of a job is something that happens.
void Engine::pass_epochs(std::optional<Time>& next) {
  while (!ends_.empty() && (!next || ends_.top().at < *next || !processes_[ends_.top().job])) {
    const End end = ends_.top();
    if (!is_due(end)) {
      ends_.pop();
      continue;
    }
    // A fault that comes first may break the job before its epoch ends.
    const auto fault = faults_.next();
    if (!processes_[end.job] || (fault && *fault <= end.at)) {
      if (!next || end.at < *next) next = end.at;
      return;
    }
    ends_.pop();
    now_ = std::max(now_, end.at);
    advance(end.job);
    if (processes_[end.job]->done()) {
      next = end.at;
      return;
    }
  }
}

// The time of the next tick that nothing but the clock causes.
std::optional<Time> Engine::next_tick() const {
  if (!options_.round) return wake_;
  if (state().active_count() == 0) return std::nullopt;
  if (changed_since_tick_ || (every_round_ && state().holding_count() > 0)) {
    return round_up(now_, /*strictly=*/ticked_at_ == now_);
  }
  if (wake_) return std::max(round_up(*wake_, false), round_up(now_, true));
  return std::nullopt;
}

Time Engine::round_up(Time t, bool strictly) const {
  const std::int64_t round = options_.round->count();
  const std::int64_t ns = t.time_since_epoch().count();
  return Time(Duration((ns / round + (strictly || ns % round != 0 ? 1 : 0)) * round));
}

bool Engine::is_due(const End& end) const {
  const JobPhase phase = state().job(end.job).phase;
  return finish_at_[end.job] == end.at && (phase == JobPhase::running || phase == JobPhase::resizing);
}

// What a confirmation is about, as a number that changes whenever it is about something else.
std::uint64_t Engine::stamp_of(const Event& event) const {
  const auto of_job = [&](JobId id) {
    const JobState& job = state().job(id);
    return (std::uint64_t{job.incarnations} << 32 | std::uint64_t{job.failures} << 20 | job.resizes) << 4 |
           static_cast<std::uint64_t>(job.phase);
  };
  const auto of_replica = [&](ReplicaId id) { return static_cast<std::uint64_t>(state().replica(id).folded); };
  if (const auto* stopped = std::get_if<JobStopped>(&event)) return of_job(stopped->job);
  if (const auto* shrunk = std::get_if<JobShrunk>(&event)) return of_job(shrunk->job);
  if (const auto* failed = std::get_if<JobFailed>(&event)) return of_job(failed->job);
  if (const auto* ready = std::get_if<ReplicaReady>(&event)) return of_replica(ready->replica);
  return 0;
}

// Whether a fault of this very moment makes a confirmation void.
bool Engine::is_broken(const Event& confirmed) const {
  const auto any_in_batch = [&](const auto& test) { return std::any_of(batch_.begin(), batch_.end(), test); };
  const auto of_job = [&](JobId id) {
    return any_in_batch([&](const Event& event) {
      const auto* failed = std::get_if<JobFailed>(&event);
      return failed != nullptr && failed->job == id;
    });
  };
  if (const auto* stopped = std::get_if<JobStopped>(&confirmed)) return of_job(stopped->job);
  if (const auto* shrunk = std::get_if<JobShrunk>(&confirmed)) return of_job(shrunk->job);
  if (const auto* failed = std::get_if<JobFailed>(&confirmed)) return of_job(failed->job);
  const auto* ready = std::get_if<ReplicaReady>(&confirmed);
  return ready != nullptr && any_in_batch([&](const Event& event) {
           const auto* lost = std::get_if<ReplicaStopped>(&event);
           return lost != nullptr && lost->replica == ready->replica;
         });
}

// Nothing but replicas that become ready: no business of the scheduler.
bool Engine::is_quiet(Time now, bool tick) const {
  const bool due = tick || (arrived_ < workload_.jobs.size() && workload_.jobs[arrived_].submit == now) ||
                   (demand_taken_ < demand_.size() && demand_[demand_taken_].at == now) ||
                   (!answers_.empty() && answers_.top().at == now) || faults_.next() == now ||
                   (serve_at_ && *serve_at_ <= now) || (!options_.round && wake_ && *wake_ <= now) ||
                   (!ends_.empty() && ends_.top().at == now) || !completed_.empty();
  if (due) return false;
  return !confirmations_.empty() && std::holds_alternative<ReplicaReady>(confirmations_.top().event);
}

// Everything that happens at `now`.
Result<void> Engine::batch(Time now) {
  recorder_.advance(state(), now);
  now_ = now;
  batch_.clear();
  const std::size_t arrived_before = arrived_;
  const std::size_t demand_before = demand_taken_;
  const std::uint64_t done_before = jobs_done_;
  const bool nobody_works = state().holding_count() == 0 && state().active_tasks() == state().waiting_tasks().size();
  const bool idle = nobody_works || now == last_batch_;
  last_batch_ = now;
  const bool planned = !answers_.empty() && answers_.top().at == now;
  const bool on_round = options_.round && round_up(now, false) == now;
  const bool tick = !options_.round ? !is_quiet(now, false) : on_round && (ticked_at_ != now || planned);
  const bool quiet = is_quiet(now, tick);
  if (!quiet) {
    take_ends();
    // Whoever a fault breaks has run until then.
    if (tick || serves() || faults_.next() == now) advance_training();
    if (tick || serves()) report_training();
  }
  take_faults();
  for (; !answers_.empty() && answers_.top().at == now; answers_.pop()) batch_.emplace_back(answers_.top().plan);
  while (!confirmations_.empty() && confirmations_.top().at == now) {
    Confirmation confirmation = confirmations_.top();
    confirmations_.pop();
    if (is_void(confirmation) || is_broken(confirmation.event)) continue;
    if (const auto* ready = std::get_if<ReplicaReady>(&confirmation.event)) {
      if (const auto task = state().replica(ready->replica).task) start_task(*task, now);
    }
    batch_.push_back(std::move(confirmation.event));
    if (quiet && !(!confirmations_.empty() && std::holds_alternative<ReplicaReady>(confirmations_.top().event))) break;
  }
  take_demand();
  take_arrivals();
  const bool nothing_new = jobs_done_ == done_before && arrived_ == arrived_before && demand_taken_ == demand_before;
  idle_batches_ = idle && nothing_new ? idle_batches_ + 1 : 0;
  changed_since_tick_ = changed_since_tick_ || !batch_.empty();
  if (tick) {
    batch_.emplace_back(Tick{});
    changed_since_tick_ = false;
    ticked_at_ = now;
  } else if (!quiet && serves()) {
    batch_.emplace_back(Timer{});
  }
  EBB_RETURN_IF_ERROR(step());
  const bool decided = !result_.decisions.empty();
  EBB_RETURN_IF_ERROR(carry_out());
  // Whoever was stopped, and nobody was started in its place, is looked at again.
  if (decided && state().holding_count() == 0 && state().waiting_count() > 0) changed_since_tick_ = true;
  recorder_.batch_done(state(), now);
  if (hooks_.progress && steps_ % kProgressEvery == 0) hooks_.progress(jobs_done_, workload_.jobs.size());
  if (tick && !decided) EBB_RETURN_IF_ERROR(check_for_stall());
  return check_for_progress();
}

void Engine::finish(JobId id, std::optional<Time> at) {
  batch_.emplace_back(JobFinished{id, at});
  finish_at_[id] = kEndOfTime;
  recorder_.finished(id);
  ++jobs_done_;
  vain_stops_ = 0;
}

void Engine::take_ends() {
  while (!ends_.empty() && ends_.top().at == now_) {
    const End end = ends_.top();
    ends_.pop();
    if (!is_due(end)) continue;
    if (processes_[end.job]) {
      advance(end.job);
    } else {
      finish(end.job, std::nullopt);
    }
  }
  for (const JobId id : completed_) finish(id, std::nullopt);
  completed_.clear();
}

// Brings a job with a profile up to now_. Fractional time: its next epoch end goes into ends_.
void Engine::advance(JobId id) {
  TrainingProcess& process = *processes_[id];
  const JobState& job = state().job(id);
  if (job.phase != JobPhase::running || process.done()) return;
  const Time from = std::max(advanced_to_[id], job.productive_at);
  if (now_ > from || polled()) {
    const auto used = now_ > from ? process.run(to_seconds(now_ - from)) : std::nullopt;
    advanced_to_[id] = std::max(now_, from);
    if (used) {
      finish_at_[id] = kEndOfTime;
      if (polled()) {
        finish(id, from + Duration(static_cast<std::int64_t>(std::llround(*used * 1e9))));
      } else {
        completed_.push_back(id);
      }
      return;
    }
  }
  if (polled()) return;
  const Time resume = std::max(now_, job.productive_at);
  const Time end = std::max(after(resume, process.until_epoch_end()), resume + Duration(1));
  if (finish_at_[id] == end && end > now_) return;
  finish_at_[id] = end;
  ends_.push({end, id});
}

// Jobs with a profile that hold GPUs and are not done, in order. Most runs have none: they pay nothing for it.
std::vector<JobId> Engine::training_by_profile() const {
  std::vector<JobId> jobs;
  if (!has_profiles_) return jobs;
  for (const JobId id : state().holding()) {
    if (processes_[id] && !processes_[id]->done()) jobs.push_back(id);
  }
  std::sort(jobs.begin(), jobs.end());
  return jobs;
}

void Engine::advance_training() {
  for (const JobId id : training_by_profile()) advance(id);
  for (const JobId id : completed_) finish(id, std::nullopt);
  completed_.clear();
}

// What running jobs have to say that is new.
void Engine::report_training() {
  for (const JobId id : training_by_profile()) {
    if (state().job(id).phase != JobPhase::running || !processes_[id]->has_news()) continue;
    batch_.emplace_back(processes_[id]->report());
    processes_[id]->told();
  }
}

void Engine::take_demand() {
  for (; demand_taken_ < demand_.size() && demand_[demand_taken_].at == now_; ++demand_taken_) {
    const Demand& demand = demand_[demand_taken_];
    // The services of the workload come first, at the first moment that anything is known of one.
    for (; services_added_ < workload_.services.size(); ++services_added_) {
      batch_.emplace_back(
          ServiceAdded{static_cast<ServiceId>(services_added_), workload_.services[services_added_].spec});
    }
    batch_.emplace_back(ServiceDemand{demand.service, demand.replicas});
    recorder_.demand(demand.service, workload_.services[demand.service].spec, demand.requests_per_s);
  }
}

void Engine::take_arrivals() {
  for (; arrived_ < workload_.jobs.size() && workload_.jobs[arrived_].submit == now_; ++arrived_) {
    const auto id = static_cast<JobId>(arrived_);
    const JobSpec& spec = workload_.jobs[arrived_];
    if (spec.kind == JobKind::inference) add_service_of(spec);
    batch_.emplace_back(JobSubmitted{id, spec});
    finish_at_.push_back(kEndOfTime);
    advanced_to_.emplace_back();
    gpus_before_.push_back(0);
    processes_.emplace_back();
    const perf::Profile* profile = world_.training.profiles && spec.kind == JobKind::training && spec.batch.known()
                                       ? world_.training.profiles->find(spec.application)
                                       : nullptr;
    if (profile != nullptr) {
      processes_.back() = std::make_unique<TrainingProcess>(world_.training, *profile, spec, id);
      has_profiles_ = true;
    }
    recorder_.submitted(id);
  }
}

// The first task of a service brings the service.
void Engine::add_service_of(const JobSpec& task) {
  if (state().find_service(task.application)) return;
  const bool in_batch = std::any_of(batch_.begin(), batch_.end(), [&](const Event& event) {
    const auto* added = std::get_if<ServiceAdded>(&event);
    return added != nullptr && added->spec.name == task.application;
  });
  if (in_batch) return;
  for (; services_added_ < workload_.services.size(); ++services_added_) {
    batch_.emplace_back(
        ServiceAdded{static_cast<ServiceId>(services_added_), workload_.services[services_added_].spec});
    if (workload_.services[services_added_].spec.name == task.application) {
      ++services_added_;
      return;
    }
  }
  ServiceSpec spec;
  spec.name = task.application;
  spec.gpus = task.gpus;
  spec.start_delay = start_delay_of(task.application, world_.training.profiles.get());
  batch_.emplace_back(ServiceAdded{static_cast<ServiceId>(services_added_++), spec});
}

void Engine::take_faults() {
  if (faults_.next() != now_) return;
  std::vector<Event> changes;
  faults_.take(now_, changes);
  std::vector<JobId> broken;
  std::vector<ReplicaId> lost;
  for (const Event& change : changes) {
    batch_.push_back(change);
    const auto* failed = std::get_if<NodeFailed>(&change);
    if (failed == nullptr) continue;
    const auto on_node = [&](const NodeShare& share) { return share.node == failed->node; };
    for (const JobId id : state().holding()) {
      const JobState& job = state().job(id);
      const bool hit = std::any_of(job.allocation.begin(), job.allocation.end(), on_node) ||
                       std::any_of(job.departing.begin(), job.departing.end(), on_node);
      // A job that ends at this very moment has ended.
      const bool ended = std::any_of(batch_.begin(), batch_.end(), [&](const Event& event) {
        const auto* finished = std::get_if<JobFinished>(&event);
        return finished != nullptr && finished->job == id;
      });
      if (hit && !ended) broken.push_back(id);
    }
    for (const ReplicaId id : state().live_replicas()) {
      if (on_node(state().replica(id).place)) lost.push_back(id);
    }
  }
  std::sort(broken.begin(), broken.end());
  broken.erase(std::unique(broken.begin(), broken.end()), broken.end());
  for (const JobId id : broken) {
    const Duration kept = surviving_progress(id);
    finish_at_[id] = kEndOfTime;
    count_stop(id, kept);
    batch_.emplace_back(JobFailed{id, kept});
  }
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  for (const ReplicaId id : lost) {
    if (const auto task = state().replica(id).task) finish_at_[*task] = kEndOfTime;
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
  wake_ = result_.next_wake_at;
  serve_at_ = result_.serve_at;
  if (hooks_.journal != nullptr) {
    for (const Decision& decision : result_.decisions) hooks_.journal->write(now_, decision);
  }
  if (hooks_.journal != nullptr) {
    for (const auto& [job, reason] : result_.reasons) hooks_.journal->write_waits(now_, job, reason);
  }
  recorder_.heard(state(), batch_, now_);
  for (const auto& [job, reason] : result_.reasons) recorder_.waits(job, reason.code);
  recorder_.decided(state(), result_.decisions, now_);
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
      if (!polled() && !state().waiting_tasks().empty()) batch_.emplace_back(Timer{});
      EBB_RETURN_IF_ERROR(step());
      if (!result_.decisions.empty()) continue;
    }
    const std::vector<Holder> launched = scheduler_.take_launchable();
    if (launched.empty()) return {};
    batch_.clear();
    idle_batches_ = 0;
    for (const Holder& holder : launched) launch(holder);
    if (world_.training.interference > 0) mark_interference();
    if (batch_.empty()) return {};
    EBB_RETURN_IF_ERROR(step());
  }
}

void Engine::obey(const Decision& decision) {
  if (const auto* preempt = std::get_if<Preempt>(&decision)) {
    const JobId id = preempt->job;
    const Duration kept = processes_[id] ? processes_[id]->progress() : state().job(id).progress_until(now_);
    count_stop(id, kept);
    stop_training(id, JobStopped{id, kept});
  } else if (const auto* resize = std::get_if<Resize>(&decision)) {
    for (const Target& target : resize->targets) {
      const JobState& job = state().job(target.job);
      gpus_before_[target.job] = job.occupied;
      if (!job.departing.empty()) {
        stop_training(target.job, JobShrunk{target.job});
      } else {
        finish_at_[target.job] = kEndOfTime;
      }
    }
  } else if (const auto* request = std::get_if<PlanRequest>(&decision)) {
    answers_.push({now_ + world_.plan_delay, {request->plan, scheduler_.policy().plan(request->input)}});
  } else if (std::holds_alternative<Reject>(decision)) {
    ++jobs_done_;
  } else if (const auto* stop = std::get_if<StopReplica>(&decision)) {
    batch_.emplace_back(ReplicaStopped{stop->replica});
  } else if (const auto* serve = std::get_if<Serve>(&decision)) {
    start_task(serve->task, now_);
  }
}

// The job's processes leave GPUs: at once, after the drain time, or by force when that takes too long.
void Engine::stop_training(JobId id, Event confirmation) {
  finish_at_[id] = kEndOfTime;
  if (world_.drain == Duration(0)) {
    batch_.push_back(std::move(confirmation));
  } else if (world_.drain <= world_.reclaim_bound) {
    confirm_at(now_ + world_.drain, std::move(confirmation));
  } else {
    recorder_.forced();
    confirm_at(now_ + world_.reclaim_bound, JobFailed{id, surviving_progress(id)});
  }
}

void Engine::confirm_at(Time at, Event event) {
  const std::uint64_t stamp = stamp_of(event);
  confirmations_.push({std::min(at, kEndOfTime), sequence_++, stamp, std::move(event)});
}

void Engine::start_task(JobId id, Time begin) {
  finish_at_[id] = std::min(begin + workload_.jobs[id].run_time, kEndOfTime);
  ends_.push({finish_at_[id], id});
}

void Engine::launch(const Holder& holder) {
  if (holder.kind == Holder::Kind::job) return launch_job(holder.id);
  const sched::ReplicaState& replica = state().replica(holder.id);
  recorder_.replica_launched(holder.id, now_);
  const Duration delay = replica.warm ? Duration(0) : state().services()[replica.service].spec.start_delay;
  if (delay > Duration(0)) {
    confirm_at(now_ + delay, ReplicaReady{holder.id});
  } else {
    if (replica.task) start_task(*replica.task, now_);
    batch_.emplace_back(ReplicaReady{holder.id});
  }
}

void Engine::launch_job(JobId id) {
  const JobState& job = state().job(id);
  TrainingProcess* process = processes_[id].get();
  const perf::ApplicationCosts costs = process != nullptr ? process->costs() : perf::ApplicationCosts();
  const bool starts = job.phase == JobPhase::starting;
  const bool charged = !starts || job.incarnations > 1 || world_.charge_first_start;
  const Duration cost = charged ? options_.resize_cost.of(costs, starts ? 0 : gpus_before_[id], job.gpus) : Duration(0);
  // One sum at a time, each far inside 64 bits; beyond the end of time the run ends with an error.
  const Time productive_at = std::min(now_ + cost, kEndOfTime);
  const Duration progress = process != nullptr ? process->progress() : job.progress_until(now_);
  if (starts) {
    batch_.emplace_back(JobStarted{id, productive_at});
  } else {
    batch_.emplace_back(JobResized{id, productive_at, progress});
  }
  if (process == nullptr) return run_plain(id, productive_at, progress);
  process->keep();
  process->place(job.allocation);
  advanced_to_[id] = productive_at;
  if (polled()) return;
  finish_at_[id] = std::max(after(productive_at, process->until_epoch_end()), productive_at + Duration(1));
  ends_.push({finish_at_[id], id});
}

// Jobs without a profile: linear in the number of GPUs against the number asked for.
void Engine::run_plain(JobId id, Time productive_at, Duration progress) {
  const JobState& job = state().job(id);
  Duration left = job.spec.run_time - progress;
  if (job.gpus != job.spec.gpus) {
    const double speed = static_cast<double>(job.gpus) / job.spec.gpus;
    left = Duration(static_cast<std::int64_t>(std::ceil(static_cast<double>(left.count()) / speed)));
  }
  finish_at_[id] = std::min(productive_at + left, kEndOfTime);
  ends_.push({finish_at_[id], id});
  if (job.spec.sizing == Sizing::rigid) return;
  JobReport report;
  report.job = id;
  report.progress = progress;
  report.speed = static_cast<double>(job.gpus) / job.spec.gpus;
  report.fraction_done = job.spec.run_time > Duration(0) ? to_seconds(progress) / to_seconds(job.spec.run_time) : 0;
  report.steps_done = to_seconds(progress) * job.spec.gpus;  // a step takes one GPU one second
  report.most_gpus = std::max(job.report ? job.report->most_gpus : 0, job.gpus);
  batch_.emplace_back(report);
}

// Multi-node jobs that share a node slow each other down.
void Engine::mark_interference() {
  std::vector<int> spread_on(state().capacity().spec().nodes.size());
  for (const JobId id : state().holding()) {
    const Allocation& allocation = state().job(id).allocation;
    if (allocation.size() < 2) continue;
    for (const NodeShare& share : allocation) ++spread_on[share.node];
  }
  for (const JobId id : state().holding()) {
    if (!processes_[id]) continue;
    const Allocation& allocation = state().job(id).allocation;
    const bool meets = allocation.size() > 1 && std::any_of(allocation.begin(), allocation.end(),
                                                            [&](const auto& s) { return spread_on[s.node] > 1; });
    processes_[id]->set_interfered(meets);
  }
}

void Engine::count_stop(JobId id, Duration kept) {
  vain_stops_ = kept > state().job(id).progress ? 0 : vain_stops_ + 1;
}

// What a broken gang keeps: the state saved when it was last preempted or resized, or its last periodic checkpoint.
Duration Engine::surviving_progress(JobId id) {
  const JobState& job = state().job(id);
  const auto& interval = options_.faults.checkpoint_interval;
  if (processes_[id]) {
    TrainingProcess& process = *processes_[id];
    // A gang that did not run yet, or was killed before it was gone, has nothing more to lose.
    if (!job.incarnate() || !process.placed()) return process.progress();
    const Time until = job.changes() ? job.told_at : now_;
    if (!interval) {
      process.fall_back();
    } else if (until > job.productive_at && *interval > Duration(0)) {
      process.lose(to_seconds((until - job.productive_at) % *interval));
    }
    process.place({});
    return process.progress();
  }
  const Duration done = job.progress_until(now_);
  if (!interval) return job.progress;
  if (*interval == Duration(0)) return done;
  return std::max(job.progress, done / *interval * *interval);
}

}  // namespace ebb::sim
