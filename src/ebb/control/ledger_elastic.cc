// How elastic jobs change their GPUs: see ledger.h.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ebb/base/check.h"
#include "ebb/control/ledger.h"

namespace ebb::control {
namespace {

/// It is to end, whatever becomes of its GPUs.
bool ends(const JobEntry& job) {
  return job.cancelled || job.preempted || job.first_failure || !job.broken.empty();
}

bool speaks_contract(const JobEntry& job) {
  return job.request->elasticity == Elasticity::contract;
}

// Who runs and shall run on.
std::vector<WorkerId> members_of(const JobEntry& job) {
  std::vector<WorkerId> members;
  for (const WorkerEntry& worker : job.workers) {
    if (!worker.leaves && !worker.exit) members.push_back(worker.placed.worker);
  }
  return members;
}

// Whether these are the members that the target named; who has ended since may be left out.
bool named_rightly(const JobEntry& job, const std::vector<WorkerId>& said) {
  const std::set<WorkerId> named(said.begin(), said.end());
  const std::set<WorkerId> told(job.target.members.begin(), job.target.members.end());
  const std::vector<WorkerId> live = members_of(job);
  return std::includes(told.begin(), told.end(), named.begin(), named.end()) &&
         std::all_of(live.begin(), live.end(), [&](const WorkerId& worker) { return named.contains(worker); });
}

}  // namespace

Result<void> Ledger::check_resize(JobId id, std::int32_t workers) const {
  const JobEntry& job = jobs_[id];
  const JobRequest& request = *job.request;
  if (job.outcome != Outcome::none || job.cancelled) {
    return fail(ErrorCode::failed_precondition, "job {} has ended, or is about to", id);
  }
  if (request.min_workers == 0) {
    return fail(ErrorCode::invalid_argument, "job {} runs on {} workers only: its file gives no range of workers", id,
                request.workers);
  }
  if (workers < request.min_workers || workers > request.max_workers ||
      (workers - request.min_workers) % request.worker_step != 0) {
    return fail(ErrorCode::invalid_argument, "job {} runs on {} to {} workers in steps of {}, not on {}", id,
                request.min_workers, request.max_workers, request.worker_step, workers);
  }
  if (std::int64_t{workers} * request.gpus_per_worker > beginning_.cluster.total_gpus()) {
    return fail(ErrorCode::invalid_argument, "{} workers of {} GPUs are more than the {} of the cluster", workers,
                request.gpus_per_worker, beginning_.cluster.total_gpus());
  }
  if (job.place != JobEntry::Place::placed) return {};
  if (request.elasticity == Elasticity::none) {
    return fail(ErrorCode::failed_precondition, "job {} has its GPUs, and 'elasticity: none'", id);
  }
  if (scheduler_.policy().resizes()) {
    return fail(ErrorCode::failed_precondition, "policy '{}' chooses the sizes of running jobs by itself",
                policy_.policy);
  }
  return {};
}

void Ledger::resize_asked(const ResizeRequested& input) {
  // What was folded since it was accepted may have changed the job.
  if (!check_resize(input.job, input.workers)) return;
  JobEntry& job = jobs_[input.job];
  auto request = std::make_shared<JobRequest>(*job.request);
  request->workers = input.workers;
  job.request = std::move(request);
  const bool queued = job.place == JobEntry::Place::queued;
  if (queued) heard_.emplace_back(JobHeld{input.job});
  heard_.emplace_back(JobSizeAsked{input.job, job.request->workers * job.request->gpus_per_worker});
  if (queued) heard_.emplace_back(JobReleased{input.job});
}

// A Resize was decided.
void Ledger::begin_change(JobId id, Consequences& out, Time now) {
  JobEntry& job = jobs_[id];
  job.changing = true;
  job.shrunk = false;
  job.gpus_ready = false;
  if (ends(job)) return;  // the core will hear so
  const sched::JobState& state = scheduler_.state().job(id);
  // A target that is not answered yet would have to be undone first.
  if (!speaks_contract(job) || job.restarting || !job.target.answered) return restart(id, "its GPUs change");
  if (state.departing.empty()) return;
  for (const NodeShare& share : state.departing) {
    GpuCount left = share.gpus;
    for (std::size_t rank = job.workers.size(); rank-- > 0 && left > 0;) {
      WorkerEntry& worker = job.workers[rank];
      if (worker.leaves || worker.placed.node != share.node) continue;
      worker.leaves = true;
      left -= job.request->gpus_per_worker;
    }
    EBB_CHECK(left == 0);  // as in launch()
  }
  // Who has ended already is gone; nobody will say so again.
  std::erase_if(job.workers, [](const WorkerEntry& worker) { return worker.leaves && worker.exit; });
  if (std::none_of(job.workers.begin(), job.workers.end(), [](const auto& each) { return each.leaves; })) {
    shrunk(id, now);
  }
  order_target(id, job.request->grace_time, fmt::format("gives back {} GPUs", gpus_in(state.departing)), out, now);
}

// All GPUs of a start or a resize are free.
void Ledger::gpus_free(JobId id, Consequences& out, Time now) {
  JobEntry& job = jobs_[id];
  if (!job.changing) return launch(id, out, now);
  job.gpus_ready = true;
  if (ends(job) || job.restarting || relaunch_.contains(id)) return;
  const Allocation& arriving = scheduler_.state().job(id).arriving;
  if (arriving.empty()) return;  // advance() said so, or waits for an answer
  start_workers(id, arriving, out, now);
  order_target(id, job.request->resize_timeout, fmt::format("gets {} GPUs more", gpus_in(arriving)), out, now);
}

void Ledger::order_target(JobId id, Duration within, std::string why, Consequences& out, Time now) {
  JobEntry& job = jobs_[id];
  answered(id);
  job.target.revision += 1;
  job.target.why = std::move(why);
  job.target.members = members_of(job);
  job.target.answered = false;
  job.target.answer_by = now + within;
  target_deadlines_.insert({job.target.answer_by, id});
  out.rows.push_back(
      encode(now, Intent(TargetRequested{id, job.target.revision, job.target.members, within, job.target.why})));
  for (const WorkerEntry& worker : job.workers) {
    if (!worker.exit) out.actions.emplace_back(TellWorker{worker.placed.worker, *target_of(worker.placed.worker, now)});
  }
}

std::optional<wire::TargetOrder> Ledger::target_of(const WorkerId& worker, Time now) const {
  const auto found = live_.find(worker);
  if (found == live_.end()) return std::nullopt;
  const JobEntry& job = jobs_[found->second];
  if (job.target.revision == 0) return std::nullopt;
  wire::TargetOrder order{job.target.revision, {}, std::max(Duration(0), job.target.answer_by - now), job.target.why};
  for (const WorkerEntry& each : job.workers) {
    const std::vector<WorkerId>& members = job.target.members;
    if (std::find(members.begin(), members.end(), each.placed.worker) == members.end()) continue;
    order.members.push_back(
        {each.placed.worker, beginning_.cluster.nodes[each.placed.node].name, each.placed.slots, each.joins});
  }
  return order;
}

std::vector<std::pair<JobId, std::uint64_t>> Ledger::due_targets(Time now) const {
  std::vector<std::pair<JobId, std::uint64_t>> due;
  for (const auto& [at, job] : target_deadlines_) {
    if (at > now) break;
    due.emplace_back(job, jobs_[job].target.revision);
  }
  return due;
}

// Nothing is waited for any more.
void Ledger::answered(JobId id) {
  TargetEntry& target = jobs_[id].target;
  if (!target.answered) target_deadlines_.erase({target.answer_by, id});
  target.answered = true;
}

void Ledger::report(const wire::WorkerReport& said, Time at) {
  const auto found = live_.find(said.worker);
  if (found == live_.end()) return;  // it has ended
  const JobId id = found->second;
  JobEntry& job = jobs_[id];
  if (const auto* progress = std::get_if<wire::Progress>(&said.report)) {
    job.progress = *progress;
  } else if (std::holds_alternative<wire::Ready>(said.report)) {
    find_entry(id, said.worker)->ready = true;
    advance(id, at);
  } else if (const auto* switched = std::get_if<wire::Switched>(&said.report)) {
    answer_target(id, *switched, at);
  } else if (const auto* refused = std::get_if<wire::Refused>(&said.report)) {
    if (refused->revision == job.target.revision && !job.target.answered) {
      give_up_target(id, fmt::format("refused: {}", refused->why));
    }
  } else if (const auto* drained = std::get_if<wire::Drained>(&said.report)) {
    WorkerEntry* leaver = find_entry(id, drained->worker);
    if (leaver != nullptr && leaver->leaves) stop_worker(*leaver, "it left its job");
  }
}

void Ledger::answer_target(JobId id, const wire::Switched& switched, Time at) {
  JobEntry& job = jobs_[id];
  if (switched.revision != job.target.revision || job.target.answered) return;  // late, or said again
  if (!named_rightly(job, switched.members)) return give_up_target(id, "answered with other members");
  answered(id);
  job.target.generation = switched.generation;
  for (WorkerEntry& worker : job.workers) {
    if (worker.leaves) stop_worker(worker, "it left its job");
  }
  advance(id, at);
}

void Ledger::time_out(const TargetTimedOut& input, Time) {
  JobEntry& job = jobs_[input.job];
  if (input.revision != job.target.revision || job.target.answered) return;
  give_up_target(input.job, "not answered in time");
}

// The contract failed: the job is ended, and if it was to change, started again on its new GPUs.
void Ledger::give_up_target(JobId id, const std::string& what) {
  JobEntry& job = jobs_[id];
  answered(id);
  if (ends(job)) return;
  const std::string why = fmt::format("target {} was {}", job.target.revision, what);
  // One that a restart began with, too: the job has failed then, and its retries count.
  if (job.changing && job.target.revision > 1) return restart(id, why);
  job.broken = why;
  stop_workers(id, why);
}

void Ledger::restart(JobId id, const std::string& why) {
  JobEntry& job = jobs_[id];
  answered(id);
  job.restarting = true;
  for (WorkerEntry& worker : job.workers) worker.leaves = false;
  stop_workers(id, why);
}

// The last worker of a job that is to run on other GPUs is gone.
void Ledger::restarted(JobId id, Time at) {
  JobEntry& job = jobs_[id];
  job.restarting = false;
  job.workers.clear();
  relaunch_.insert(id);
  relaunch_now_ = relaunch_now_ || job.gpus_ready;
  if (!scheduler_.state().job(id).departing.empty() && !job.shrunk) shrunk(id, at);
}

void Ledger::shrunk(JobId id, Time at) {
  jobs_[id].shrunk = true;
  heard_.emplace_back(JobShrunk{id});
  reclaims_.push_back(at - scheduler_.state().job(id).told_at);
}

// A worker that is no member of the target is gone: when it was the last one, so are the GPUs.
void Ledger::leaver_gone(JobId id, const WorkerId& gone, Time at) {
  JobEntry& job = jobs_[id];
  const std::size_t rank = rank_of(id, gone).value();
  job.workers.erase(job.workers.begin() + static_cast<std::ptrdiff_t>(rank));
  if (job.first_failure && *job.first_failure > rank) --*job.first_failure;
  const bool more = std::any_of(job.workers.begin(), job.workers.end(), [](const auto& each) { return each.leaves; });
  if (more || !job.changing || job.shrunk) return;
  shrunk(id, at);
  advance(id, at);
}

// Whether the job runs on its new GPUs.
void Ledger::advance(JobId id, Time at) {
  JobEntry& job = jobs_[id];
  if (!job.changing || job.restarting || ends(job) || job.place != JobEntry::Place::placed) return;
  if (relaunch_.contains(id)) return;
  const sched::JobState& state = scheduler_.state().job(id);
  const auto settled = [](const WorkerEntry& each) {
    return !each.leaves && (each.exit || (each.pid != 0 && (!each.joins || each.ready)));
  };
  if (!std::all_of(job.workers.begin(), job.workers.end(), settled) || !job.target.answered) return;
  if (std::cmp_not_equal(job.workers.size() * static_cast<std::size_t>(job.request->gpus_per_worker), state.gpus))
    return;
  for (WorkerEntry& worker : job.workers) worker.joins = false;
  job.changing = false;
  heard_.emplace_back(JobResized{id, at, state.progress_until(at)});
}

}  // namespace ebb::control
