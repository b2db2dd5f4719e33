#include "ebb/sim/simulator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <queue>

#include "ebb/base/check.h"
#include "ebb/sched/room.h"
#include "ebb/sim/fault_source.h"
#include "ebb/sim/journal_header.h"
#include "ebb/sim/recorder.h"
#include "ebb/sim/settings.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/journal.h"

namespace ebb::sim {
namespace {

using sched::JobPhase;
using sched::JobState;
using sched::State;

/// So many batches in a row (plus a hundred a node) that start, end or submit no job, while none runs or without any
/// time passing, lead nowhere.
constexpr std::uint64_t kMaxIdleBatches = 100'000;
/// So many stops in a row (plus a hundred a job) without any useful work in between are a livelock.
constexpr std::uint64_t kMaxVainStops = 10'000;
constexpr std::uint64_t kProgressEvery = 4096;

class Engine {
 public:
  Engine(const Workload& workload, const SimOptions& options, const sched::Options& sim_values,
         sched::Scheduler scheduler, FaultSource faults, const SimHooks& hooks)
      : workload_(workload),
        options_(options),
        charge_first_start_(sim_values.get<bool>("charge_first_start")),
        plan_delay_(sim_values.get<Duration>("plan_delay")),
        scheduler_(std::move(scheduler)),
        faults_(std::move(faults)),
        hooks_(hooks),
        recorder_(start_of(workload)) {}

  Result<void> run() {
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

  void fill(SimResult& result) const {
    recorder_.fill(scheduler_.state(), now_, result);
    result.steps = steps_;
    result.events = events_;
  }

 private:
  struct End {
    Time at{};
    JobId job = 0;
    auto key() const { return std::tie(at, job); }
    bool operator>(const End& other) const { return key() > other.key(); }
  };
  struct Answer {
    Time at{};
    PlanReady plan;
    bool operator>(const Answer& other) const { return std::tie(at, plan.plan) > std::tie(other.at, other.plan.plan); }
  };

  static Time start_of(const Workload& workload) {
    return workload.jobs.empty() ? Time() : workload.jobs.front().submit;
  }

  const State& state() const { return scheduler_.state(); }

  std::optional<Time> next_time() {
    if (gave_up_) return std::nullopt;
    while (!ends_.empty() && !is_due(ends_.top())) ends_.pop();  // of incarnations that were stopped
    std::optional<Time> next;
    const auto consider = [&](Time at) {
      if (!next || at < *next) next = at;
    };
    if (arrived_ < workload_.jobs.size()) consider(workload_.jobs[arrived_].submit);
    if (!ends_.empty()) consider(ends_.top().at);
    if (!answers_.empty()) consider(answers_.top().at);
    if (const auto tick = next_tick()) consider(*tick);
    // Faults go on for ever: they count while something else is ahead, or while jobs wait for a repair.
    if (const auto fault = faults_.next(); fault && (next || repair_would_help())) consider(*fault);
    return next;
  }

  // Whether some waiting job lacks GPUs now and could run if every node came back that ever will.
  bool repair_would_help() const {
    if (state().waiting_count() == 0 || !faults_.recovery_ahead()) return false;
    const sched::Capacity& capacity = state().capacity();
    std::vector<GpuCount> group_gpus(capacity.free().group_count());
    for (NodeId n = 0; n < capacity.spec().nodes.size(); ++n) {
      if (!faults_.gone_for_good(n)) group_gpus[capacity.free().group_of(n)] += capacity.spec().nodes[n].gpus;
    }
    for (sched::ClassId id = 0; id < capacity.class_count(); ++id) {
      if (state().waiting_in(id) == 0) continue;
      const sched::JobClass& job_class = capacity.job_class(id);
      const bool now = fits(job_class, [&](sched::GroupId g) { return capacity.free().group_sum(g); });
      if (!now && fits(job_class, [&](sched::GroupId g) { return group_gpus[g]; })) return true;
    }
    return false;
  }

  // Whether some option of the class has enough GPUs, by group.
  template <typename GpusOfGroup>
  static bool fits(const sched::JobClass& job_class, GpusOfGroup&& gpus_of) {
    return std::any_of(job_class.options.begin(), job_class.options.end(), [&](sched::GroupMask option) {
      GpuCount sum = 0;
      for (sched::GroupMask rest = option; rest != 0; rest &= rest - 1) {
        sum += gpus_of(static_cast<sched::GroupId>(std::countr_zero(rest)));
      }
      return sum >= job_class.gpus;
    });
  }

  // The time of the next tick that nothing but the clock causes.
  std::optional<Time> next_tick() const {
    if (!options_.round) return wake_;
    if (state().active_count() == 0) return std::nullopt;
    if (changed_since_tick_) return round_up(now_, /*strictly=*/ticked_at_ == now_);
    if (wake_) return std::max(round_up(*wake_, false), round_up(now_, true));
    return std::nullopt;
  }

  Time round_up(Time t, bool strictly) const {
    const std::int64_t round = options_.round->count();
    const std::int64_t ns = t.time_since_epoch().count();
    return Time(Duration((ns / round + (strictly || ns % round != 0 ? 1 : 0)) * round));
  }

  bool is_due(const End& end) const {
    return finish_at_[end.job] == end.at && state().job(end.job).phase == JobPhase::running;
  }

  // Everything that happens at `now`.
  Result<void> batch(Time now) {
    recorder_.advance(state(), now);
    now_ = now;
    batch_.clear();
    const auto finished = take_ends();
    const std::size_t arrived_before = arrived_;
    const bool idle = state().holding_count() == 0 || now == last_batch_;
    last_batch_ = now;
    take_faults();
    while (!answers_.empty() && answers_.top().at == now) {
      batch_.emplace_back(answers_.top().plan);
      answers_.pop();
    }
    for (; arrived_ < workload_.jobs.size() && workload_.jobs[arrived_].submit == now; ++arrived_) {
      batch_.emplace_back(JobSubmitted{static_cast<JobId>(arrived_), workload_.jobs[arrived_]});
      finish_at_.push_back(kEndOfTime);
      recorder_.submitted(static_cast<JobId>(arrived_));
    }
    const bool tick = !options_.round || (round_up(now, false) == now && ticked_at_ != now);
    idle_batches_ = idle && finished.empty() && arrived_ == arrived_before ? idle_batches_ + 1 : 0;
    changed_since_tick_ = changed_since_tick_ || !batch_.empty();
    if (tick) {
      batch_.emplace_back(Tick{});
      changed_since_tick_ = false;
      ticked_at_ = now;
    }
    for (const JobId job : finished) recorder_.finished(job);
    EBB_RETURN_IF_ERROR(step());
    wake_ = result_.next_wake_at;
    const bool decided = !result_.decisions.empty();
    EBB_RETURN_IF_ERROR(carry_out());
    recorder_.batch_done(state(), now);
    if (hooks_.progress && steps_ % kProgressEvery == 0) {
      hooks_.progress(jobs_done_, workload_.jobs.size());
    }
    if (tick && !decided) EBB_RETURN_IF_ERROR(check_for_stall());
    return check_for_progress();
  }

  std::vector<JobId> take_ends() {
    std::vector<JobId> finished;
    for (; !ends_.empty() && ends_.top().at == now_; ends_.pop()) {
      if (!is_due(ends_.top())) continue;
      finished.push_back(ends_.top().job);
      batch_.emplace_back(JobFinished{ends_.top().job});
      finish_at_[ends_.top().job] = kEndOfTime;
      ++jobs_done_;
      vain_stops_ = 0;
    }
    return finished;
  }

  void take_faults() {
    if (faults_.next() != now_) return;
    std::vector<Event> changes;
    faults_.take(now_, changes);
    std::vector<JobId> broken;
    for (const Event& change : changes) {
      batch_.push_back(change);
      const auto* failed = std::get_if<NodeFailed>(&change);
      if (failed == nullptr) continue;
      for (const JobId id : state().holding()) {
        const auto& shares = state().job(id).allocation;
        const bool hit = std::any_of(shares.begin(), shares.end(),
                                     [&](const NodeShare& share) { return share.node == failed->node; });
        // A job that ends at this very moment has ended (its finish_at_ was taken).
        if (hit && finish_at_[id] != kEndOfTime) broken.push_back(id);
      }
    }
    std::sort(broken.begin(), broken.end());
    broken.erase(std::unique(broken.begin(), broken.end()), broken.end());
    for (const JobId id : broken) {
      finish_at_[id] = kEndOfTime;
      const Duration kept = surviving_progress(state().job(id));
      count_stop(id, kept);
      batch_.emplace_back(JobFailed{id, kept});
    }
  }

  void count_stop(JobId id, Duration kept) { vain_stops_ = kept > state().job(id).progress ? 0 : vain_stops_ + 1; }

  // The run goes on, but nothing comes of it.
  Result<void> check_for_progress() {
    if (vain_stops_ > kMaxVainStops + 100 * state().active_count()) {
      return fail(ErrorCode::aborted,
                  "the run gets nowhere at {} s: the last {} times that a job was stopped it had done no useful work "
                  "since its start. Nodes fail too often for these run times, or policy '{}' preempts jobs before they "
                  "get past the resize cost ({} s): give a larger mtbf or a checkpoint_interval, or lower the cost",
                  format_seconds(now_), vain_stops_, options_.policy, format_seconds(options_.resize_cost));
    }
    if (idle_batches_ > kMaxIdleBatches + 100 * state().capacity().spec().nodes.size()) {
      return fail(
          ErrorCode::aborted,
          "the run gets nowhere at {} s: the scheduler was asked {} times since a job was submitted, started or "
          "ended. {} jobs wait and {} run under policy '{}'; if nodes fail, they may fail too often for the "
          "largest gangs",
          format_seconds(now_), idle_batches_, state().waiting_count(), state().holding_count(), options_.policy);
    }
    return {};
  }

  // What a broken gang keeps: the state saved when it was last preempted, or its last periodic checkpoint.
  Duration surviving_progress(const JobState& job) const {
    const Duration done = job.progress_until(now_);
    if (!options_.faults.checkpoint_interval) return job.progress;
    const Duration interval = *options_.faults.checkpoint_interval;
    if (interval == Duration(0)) return done;
    return std::max(job.progress, done / interval * interval);
  }

  // Gives batch_ to the scheduler and writes down what came of it.
  Result<void> step() {
    ++steps_;
    events_ += batch_.size();
    if (hooks_.journal != nullptr) {
      for (const Event& event : batch_) hooks_.journal->write(now_, event);
    }
    EBB_RETURN_IF_ERROR(scheduler_.step(batch_, now_, result_));
    if (hooks_.journal != nullptr) {
      for (const Decision& decision : result_.decisions) hooks_.journal->write(now_, decision);
    }
    for (const auto& [job, reason] : result_.reasons) {
      recorder_.waits(job, reason.code);
      if (hooks_.journal != nullptr) hooks_.journal->write_waits(now_, job, reason);
    }
    if (hooks_.after_step) EBB_RETURN_IF_ERROR(hooks_.after_step(state(), now_));
    return {};
  }

  // The world obeys at once: what is stopped is gone, then what is started runs.
  Result<void> carry_out() {
    batch_.clear();
    for (const Decision& decision : result_.decisions) {
      if (const auto* preempt = std::get_if<Preempt>(&decision)) {
        finish_at_[preempt->job] = kEndOfTime;
        const Duration kept = state().job(preempt->job).progress_until(now_);
        count_stop(preempt->job, kept);
        batch_.emplace_back(JobStopped{preempt->job, kept});
      } else if (const auto* request = std::get_if<PlanRequest>(&decision)) {
        answers_.push({now_ + plan_delay_, {request->plan, scheduler_.policy().plan(request->input)}});
      } else if (std::holds_alternative<Reject>(decision)) {
        ++jobs_done_;
      }
    }
    if (!batch_.empty()) EBB_RETURN_IF_ERROR(step());
    const std::vector<JobId> launched = scheduler_.take_launchable();
    if (launched.empty()) return {};
    batch_.clear();
    idle_batches_ = 0;
    for (const JobId id : launched) {
      const JobState& job = state().job(id);
      const bool charged = job.incarnations > 1 || charge_first_start_;
      // One sum at a time, each far inside 64 bits; beyond the end of time the run ends with an error.
      const Time productive_at = std::min(charged ? now_ + options_.resize_cost : now_, kEndOfTime);
      finish_at_[id] = std::min(productive_at + (job.spec.run_time - job.progress), kEndOfTime);
      ends_.push({finish_at_[id], id});
      batch_.emplace_back(JobStarted{id, productive_at});
    }
    return step();
  }

  // After a tick without decisions: will anything ever happen?
  Result<void> check_for_stall() {
    if (state().waiting_count() == 0) return {};
    if (wake_ || state().holding_count() > 0 || arrived_ < workload_.jobs.size() || !answers_.empty()) return {};
    if (repair_would_help()) return {};
    std::vector<JobId> fitting;
    const auto counting = sched::make_placement("count");
    for (JobId id = 0; id < state().jobs().size() && fitting.size() < 5; ++id) {
      if (state().job(id).phase != JobPhase::waiting) continue;
      if (sched::find_place(state(), **counting, state().class_of(id))) fitting.push_back(id);
    }
    // Nodes are down: the run ends with these jobs not run. So it does where nodes are gone for good and what is left
    // cannot be used under this policy or placement (a gang at the head that fits nowhere any more).
    gave_up_ = !fitting.empty() && faults_.any_gone_for_good();
    if (fitting.empty() || gave_up_) return {};
    std::string jobs;
    for (const JobId id : fitting) {
      jobs +=
          fmt::format("\n  job {} ('{}'): {}", id, state().job(id).spec.name, describe(scheduler_.explain(id, now_)));
    }
    return fail(ErrorCode::aborted,
                "the run stalled at {} s: policy '{}' leaves {} jobs waiting although nothing runs, {} of {} GPUs are "
                "free and nothing else will happen; for example:{}",
                format_seconds(now_), options_.policy, state().waiting_count(),
                state().capacity().free().sum(~sched::GroupMask{0}), state().capacity().total_gpus(), jobs);
  }

  const Workload& workload_;
  const SimOptions& options_;
  bool charge_first_start_;
  Duration plan_delay_;
  sched::Scheduler scheduler_;
  FaultSource faults_;
  const SimHooks& hooks_;
  Recorder recorder_;

  Time now_{};
  std::size_t arrived_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<Time> finish_at_;  // by job: end of its present incarnation; kEndOfTime if it does not run
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> answers_;
  std::optional<Time> wake_;
  std::optional<Time> ticked_at_;
  bool changed_since_tick_ = false;
  std::vector<Event> batch_;
  sched::StepResult result_;
  std::uint64_t steps_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t jobs_done_ = 0;
  std::uint64_t vain_stops_ = 0;
  std::uint64_t idle_batches_ = 0;
  std::optional<Time> last_batch_;
  bool gave_up_ = false;
};

using Assignments = std::vector<std::pair<std::string, std::string>>;

// --set serves the policy and the simulator: those that are the simulator's, or the others.
Assignments assignments(const Assignments& set, bool of_simulator) {
  Assignments chosen;
  for (const auto& assignment : set) {
    const auto specs = sim_options();
    const bool ours = std::any_of(specs.begin(), specs.end(),
                                  [&](const sched::OptionSpec& spec) { return spec.name == assignment.first; });
    if (ours == of_simulator) chosen.push_back(assignment);
  }
  return chosen;
}

Result<void> check_possible(const ClusterSpec& cluster, const Workload& workload) {
  sched::Capacity capacity(cluster);
  std::size_t count = 0;
  const JobSpec* first = nullptr;
  GpuCount largest = 0;
  for (const JobSpec& job : workload.jobs) {
    const sched::JobClass& job_class = capacity.job_class(capacity.class_of(job));
    if (job_class.possible()) continue;
    if (count++ == 0) {
      first = &job;
      largest = job_class.largest;
    }
  }
  if (count == 0) return {};
  return fail(ErrorCode::invalid_argument,
              "job '{}' needs {} GPUs{}{}, but the cluster has {} that it may use; {} of {} jobs can never run. Use a "
              "larger --cluster, or leave them out with --skip-impossible",
              first->name, first->gpus, first->gpu_type.empty() ? "" : " of type " + first->gpu_type,
              first->pool.empty() ? "" : " in pool " + first->pool, largest, count, workload.jobs.size());
}

Result<Workload> in_quanta(const Workload& workload, Duration quantum) {
  Workload rounded = workload;
  const auto nearest = [&](Duration d) { return (d + quantum / 2) / quantum * quantum; };
  for (JobSpec& job : rounded.jobs) {
    job.submit = Time(nearest(job.submit.time_since_epoch()));
    job.run_time = nearest(job.run_time);
    if (job.requested_time) job.requested_time = nearest(*job.requested_time);
  }
  return rounded;
}

Result<void> check_times(const SimOptions& options, Duration quantum) {
  const auto check = [&](const char* what, Duration d) -> Result<void> {
    if (d % quantum == Duration(0)) return {};
    return fail(ErrorCode::invalid_argument, "{} {} s: with --time seconds it must be whole seconds", what,
                format_seconds(d));
  };
  EBB_RETURN_IF_ERROR(check("--resize-cost", options.resize_cost));
  if (!options.round) return {};
  if (*options.round <= Duration(0)) {
    return fail(ErrorCode::invalid_argument, "--round must be above 0; leave it out to decide at every event");
  }
  return check("--round", *options.round);
}

std::vector<std::string> oracle_warnings(const sched::PolicyInfo& info, const Workload& workload) {
  if (info.oracle == sched::Oracle::yes) {
    return {
        fmt::format("policy '{}' knows the true run time of every job (oracle): no real scheduler does", info.name)};
  }
  if (info.oracle == sched::Oracle::without_requested_time) {
    const auto without = std::count_if(workload.jobs.begin(), workload.jobs.end(),
                                       [](const JobSpec& job) { return !job.requested_time; });
    if (without > 0) {
      return {
          fmt::format("policy '{}' takes the true run time of {} of {} jobs as their estimate (oracle), because the "
                      "trace has no requested time for them",
                      info.name, without, workload.jobs.size())};
    }
  }
  return {};
}

void warn_of_missing_jobs(SimResult& result) {
  const auto rejected =
      static_cast<std::uint64_t>(std::count_if(result.jobs.begin(), result.jobs.end(), [](const JobRecord& job) {
        return job.reason == to_string(ReasonCode::impossible);
      }));
  const std::uint64_t total = result.summary.jobs_total;
  if (rejected > 0) {
    result.summary.warnings.push_back(
        fmt::format("{} of {} jobs are too large for the cluster and were left out", rejected, total));
  }
  if (const std::uint64_t stranded = result.summary.jobs_impossible - rejected; stranded > 0) {
    result.summary.warnings.push_back(
        fmt::format("{} of {} jobs did not complete: nodes that they need never came back", stranded, total));
  }
}

void warn_of_unnamed(const ClusterSpec& cluster, const Workload& workload, SimResult& result) {
  const auto warn = [&](const char* what, auto&& of_node, auto&& of_job) {
    if (std::any_of(cluster.nodes.begin(), cluster.nodes.end(), of_node)) return;
    const auto jobs = std::count_if(workload.jobs.begin(), workload.jobs.end(), of_job);
    if (jobs == 0) return;
    result.summary.warnings.push_back(fmt::format(
        "{} of {} jobs ask for a {}; the cluster names none, so they run anywhere", jobs, workload.jobs.size(), what));
  };
  warn(
      "GPU type", [](const NodeSpec& n) { return !n.gpu_type.empty(); },
      [](const JobSpec& j) { return !j.gpu_type.empty(); });
  warn("pool", [](const NodeSpec& n) { return !n.pool.empty(); }, [](const JobSpec& j) { return !j.pool.empty(); });
}

}  // namespace

std::span<const sched::OptionSpec> sim_options() {
  static const std::vector<sched::OptionSpec> options = {
      {"charge_first_start", false, "charge the resize cost to first starts too, not only to resumes", {}},
      {"plan_delay", Duration(0), "how long the answer to a plan request takes", {}},
  };
  return options;
}

Assignments policy_assignments(const Assignments& set) {
  return assignments(set, /*of_simulator=*/false);
}

Result<SimResult> simulate(const ClusterSpec& cluster, const Workload& given, const SimOptions& options,
                           const sched::Registry& registry, const SimHooks& hooks) {
  EBB_ASSIGN_OR_RETURN(const sched::PolicyInfo* info, registry.find(options.policy));
  EBB_ASSIGN_OR_RETURN(const sched::Options sim_values,
                       sched::Options::parse(sim_options(), assignments(options.set, true)));
  EBB_ASSIGN_OR_RETURN(auto policy, registry.make(options.policy, policy_assignments(options.set)));
  const Duration quantum = quantum_of(options.time);
  EBB_RETURN_IF_ERROR(check_times(options, quantum));
  if (!options.skip_impossible) EBB_RETURN_IF_ERROR(check_possible(cluster, given));
  EBB_ASSIGN_OR_RETURN(FaultSource faults,
                       FaultSource::make(options.faults, cluster.nodes.size(), options.seed, quantum));
  std::optional<Workload> rounded;
  if (options.time == spec::TimeModel::seconds) {
    EBB_ASSIGN_OR_RETURN(rounded, in_quanta(given, quantum));
  }
  const Workload& workload = rounded ? *rounded : given;

  Engine engine(workload, options, sim_values, sched::Scheduler(cluster, std::move(policy), quantum), std::move(faults),
                hooks);
  EBB_RETURN_IF_ERROR(engine.run());

  SimResult result;
  result.policy = options.policy;
  result.policy_summary = info->summary;
  EBB_ASSIGN_OR_RETURN(const sched::Options policy_values,
                       registry.parse_options(options.policy, policy_assignments(options.set)));
  result.settings = settings_of(cluster, workload, options, policy_values, sim_values);
  const std::vector<std::string> oracle = oracle_warnings(*info, workload);
  result.label = oracle.empty() ? options.policy : options.policy + " (oracle)";
  result.cluster = spec::format_cluster(cluster);
  result.cluster_gpus = cluster.total_gpus();
  result.time_zero = workload.time_zero;
  result.summary.warnings = workload.warnings;
  result.summary.warnings.insert(result.summary.warnings.end(), oracle.begin(), oracle.end());
  engine.fill(result);
  warn_of_unnamed(cluster, workload, result);
  warn_of_missing_jobs(result);
  return result;
}

}  // namespace ebb::sim
