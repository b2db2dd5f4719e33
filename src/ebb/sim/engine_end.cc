// Whether a run can still come to something.

#include <algorithm>
#include <bit>
#include <utility>

#include "ebb/sched/room.h"
#include "ebb/sim/engine.h"

namespace ebb::sim {

using sched::JobPhase;
using sched::ReplicaPhase;

namespace {

/// So many batches in a row (plus a hundred a node) that start, end or submit no job, while none runs or without any
/// time passing, lead nowhere.
constexpr std::uint64_t kMaxIdleBatches = 100'000;
/// So many stops in a row (plus a hundred a job) without any useful work in between are a livelock.
constexpr std::uint64_t kMaxVainStops = 10'000;
/// How often a policy may ask for ticks in vain before it is looked at whether anybody can run at all.
constexpr std::uint64_t kPatience = 1'000;

}  // namespace

// Whether some waiting job lacks GPUs now and could run if every node came back that ever will.
bool Engine::repair_would_help() const {
  if (state().waiting_count() == 0 && state().waiting_tasks().empty()) return false;
  if (!faults_.recovery_ahead()) return false;
  if (!state().waiting_tasks().empty()) return true;
  const sched::Capacity& capacity = state().capacity();
  std::vector<GpuCount> group_gpus(capacity.free().group_count());
  for (NodeId n = 0; n < capacity.spec().nodes.size(); ++n) {
    if (!faults_.gone_for_good(n)) group_gpus[capacity.free().group_of(n)] += capacity.spec().nodes[n].gpus;
  }
  // Whether some option of the class has enough GPUs, by group.
  const auto fits = [](const sched::JobClass& job_class, auto&& gpus_of) {
    return std::any_of(job_class.options.begin(), job_class.options.end(), [&](sched::GroupMask option) {
      GpuCount sum = 0;
      for (sched::GroupMask rest = option; rest != 0; rest &= rest - 1) {
        sum += gpus_of(static_cast<sched::GroupId>(std::countr_zero(rest)));
      }
      return sum >= job_class.gpus;
    });
  };
  for (sched::ClassId id = 0; id < capacity.class_count(); ++id) {
    if (state().waiting_in(id) == 0) continue;
    const sched::JobClass& job_class = capacity.job_class(id);
    const bool now = fits(job_class, [&](sched::GroupId g) { return capacity.free().group_sum(g); });
    if (!now && fits(job_class, [&](sched::GroupId g) { return group_gpus[g]; })) return true;
  }
  return false;
}

// The run goes on, but nothing comes of it.
Result<void> Engine::check_for_progress() {
  if (vain_stops_ > kMaxVainStops + 100 * state().active_count()) {
    const std::string forced =
        forces() ? fmt::format(
                       ", or jobs are killed because they give GPUs back (drain, {} s) more slowly than "
                       "reclaim_bound ({} s) and keep nothing",
                       format_seconds(world_.drain), format_seconds(world_.reclaim_bound))
                 : "";
    return fail(ErrorCode::aborted,
                "the run gets nowhere at {} s: the last {} times that a job was stopped it had done no useful work "
                "since its start. Nodes fail too often for these run times, or policy '{}' preempts jobs before they "
                "get past the resize cost ({}){}: give a larger mtbf or a checkpoint_interval, or lower the cost",
                format_seconds(now_), vain_stops_, options_.policy, options_.resize_cost.to_string(), forced);
  }
  if (idle_batches_ > kMaxIdleBatches + 100 * state().capacity().spec().nodes.size()) {
    return fail(ErrorCode::aborted,
                "the run gets nowhere at {} s: the scheduler was asked {} times since a job was submitted, started or "
                "ended. {} jobs wait and {} run under policy '{}'; if nodes fail, they may fail too often for the "
                "largest gangs",
                format_seconds(now_), idle_batches_, state().waiting_count(), state().holding_count(), options_.policy);
  }
  // A policy that asks for ticks for ever, although those who wait can never run.
  const bool patient = idle_batches_ == 0 || idle_batches_ % kPatience != 0;
  if (!patient && nothing_ahead()) gave_up_ = fitting_jobs().empty() || gpus_are_gone();
  return {};
}

// Nobody runs, and nothing will come but ticks, faults and answers to plans.
bool Engine::nothing_ahead() const {
  return state().holding_count() == 0 && arrived_ == workload_.jobs.size() && !demand_.next() &&
         confirmations_.empty() && running_.empty() && !repair_would_help();
}

// Some waiting jobs that could start now if GPUs were only counted.
std::vector<JobId> Engine::fitting_jobs() const {
  std::vector<JobId> fitting;
  const auto counting = sched::make_placement("count");
  for (JobId id = state().first_active(); id < state().jobs().size() && fitting.size() < 5; ++id) {
    if (state().job(id).phase != JobPhase::waiting || !state().job(id).training()) continue;
    sched::JobClass least = state().class_of(id);
    if (scheduler_.policy().resizes()) least.gpus = least.smallest;
    if (sched::find_place(state(), **counting, least)) fitting.push_back(id);
  }
  return fitting;
}

// Nodes are gone for good, or services keep GPUs.
bool Engine::gpus_are_gone() const {
  const auto& replicas = state().live_replicas();
  return faults_.any_gone_for_good() || std::any_of(replicas.begin(), replicas.end(), [&](ReplicaId id) {
           return state().replica(id).phase(now_) == ReplicaPhase::serving || state().replica(id).held();
         });
}

// After a tick, or when nothing is ahead: will anything ever happen?
Result<void> Engine::check_for_stall() {
  if (gave_up_ || state().waiting_count() == 0 || result_.next_wake_at || result_.serve_at || !answers_.empty() ||
      !nothing_ahead()) {
    return {};
  }
  // What was decided may have made room for those who wait. (With rounds the next one looks at them.)
  if (std::exchange(tick_decided_, false)) {
    look_again_ = !options_.round;
    return {};
  }
  // Where none of them fits, the run ends with these jobs not run. So it does where GPUs are gone and what is left
  // cannot be used under this policy or placement (a gang at the head that fits nowhere any more).
  const std::vector<JobId> fitting = fitting_jobs();
  gave_up_ = !fitting.empty() && gpus_are_gone();
  if (fitting.empty() || gave_up_) return {};
  std::string jobs;
  for (const JobId id : fitting) {
    jobs += fmt::format("\n  job {} ('{}'): {}", id, state().job(id).spec.name, describe(scheduler_.explain(id, now_)));
  }
  return fail(ErrorCode::aborted,
              "the run stalled at {} s: policy '{}' leaves {} jobs waiting although nothing runs, {} of {} GPUs are "
              "free and nothing else will happen; for example:{}",
              format_seconds(now_), options_.policy, state().waiting_count(),
              state().capacity().free().sum(~sched::GroupMask{0}), state().capacity().total_gpus(), jobs);
}

}  // namespace ebb::sim
