#include "ebb/control/views.h"

#include <fmt/format.h>

namespace ebb::control {
namespace {

using wire::JobStatus;

JobStatus status_of(const JobEntry& job) {
  switch (job.outcome) {
    case Outcome::completed:
      return JobStatus::completed;
    case Outcome::failed:
      return JobStatus::failed;
    case Outcome::cancelled:
      return JobStatus::cancelled;
    case Outcome::none:
      break;
  }
  if (job.place == JobEntry::Place::placed) {
    if (job.cancelled || job.preempted || job.first_failure || !job.broken.empty()) return JobStatus::stopping;
    // The core may still wait for GPUs that others give back.
    return job.started ? JobStatus::running : JobStatus::starting;
  }
  if (job.user_held) return JobStatus::held;
  if (job.unmet > 0) return JobStatus::blocked;
  if (job.retry_at) return JobStatus::backing_off;
  return JobStatus::waiting;
}

// Whether the core has heard of the job and has it in its queue.
bool queued_in_core(const Ledger& ledger, JobId id) {
  const auto& jobs = ledger.scheduler().state().jobs();
  return id < jobs.size() && jobs[id].phase == sched::JobPhase::waiting;
}

// Without the policy's own idea of when it starts: it is in the cluster's time, and explain has a forecast.
Reason reason_of(const Ledger& ledger, JobId id, Time now) {
  Reason reason = ledger.scheduler().explain(id, now);
  reason.expected_start.reset();
  return reason;
}

std::string why(const Ledger& ledger, const JobEntry& job, JobId id, JobStatus status, Time now) {
  switch (status) {
    case JobStatus::held:
      return "held until it is released";
    case JobStatus::blocked:
      return fmt::format("waits for {} job{} that it depends on", job.unmet, job.unmet == 1 ? "" : "s");
    case JobStatus::backing_off:
      return fmt::format("retry {} of {} in {}", job.retries, job.request->max_retries,
                         format_human(std::max(Duration(0), *job.retry_at - now)));
    case JobStatus::waiting:
      return queued_in_core(ledger, id) ? describe(reason_of(ledger, id, now)) : "was just submitted";
    default:
      return job.why;
  }
}

}  // namespace

wire::JobView view_job(const Ledger& ledger, JobId id, Time now) {
  const JobEntry& job = ledger.jobs()[id];
  const auto utc = [&](Time t) { return t + Duration(ledger.beginning().epoch); };
  wire::JobView view;
  view.id = id;
  view.name = job.request->name;
  if (job.array_index) view.name += fmt::format("[{}]", *job.array_index);
  view.tenant = job.request->tenant;
  view.status = status_of(job);
  view.reason = why(ledger, job, id, view.status, now);
  view.gpus = job.request->workers * job.request->gpus_per_worker;
  const auto& known = ledger.scheduler().state().jobs();
  if (id < known.size() && known[id].holds()) view.gpus = known[id].gpus;
  view.incarnations = job.incarnation;
  view.retries = job.retries;
  view.submitted = utc(job.submitted);
  if (job.started) view.started = utc(*job.started);
  if (job.ended) view.ended = utc(*job.ended);
  if (job.outcome == Outcome::completed || job.outcome == Outcome::failed) view.exit_code = job.exit_code;
  return view;
}

wire::JobDetail view_detail(const Ledger& ledger, JobId id, Time now) {
  const JobEntry& job = ledger.jobs()[id];
  wire::JobDetail detail{.job = view_job(ledger, id, now), .request = *job.request, .workers = {}, .progress = {}};
  detail.resizing = job.changing;
  detail.revision = job.target.revision;
  detail.generation = job.target.generation;
  detail.progress = job.progress;
  std::int32_t rank = 0;
  for (const WorkerEntry& worker : job.workers) {
    detail.workers.push_back({worker.placed.worker, rank++, ledger.beginning().cluster.nodes[worker.placed.node].name,
                              worker.placed.slots, worker.pid, worker.exit});
  }
  return detail;
}

std::vector<wire::JobView> view_jobs(const Ledger& ledger, const JobFilter& filter, Time now) {
  std::vector<wire::JobView> views;
  const auto& jobs = ledger.jobs();
  for (std::size_t i = filter.after ? std::size_t{*filter.after} + 1 : 0; i < jobs.size(); ++i) {
    if (views.size() == filter.limit) break;
    const JobEntry& job = jobs[i];
    const auto id = static_cast<JobId>(i);
    if (filter.active_only && job.outcome != Outcome::none) continue;
    if (!filter.tenant.empty() && job.request->tenant != filter.tenant) continue;
    if (filter.status && status_of(job) != *filter.status) continue;
    views.push_back(view_job(ledger, id, now));
  }
  return views;
}

wire::Explanation view_explanation(const Ledger& ledger, JobId id, Time now) {
  wire::Explanation explanation;
  explanation.job = view_job(ledger, id, now);
  explanation.code = to_string(explanation.job.status);
  explanation.sentence = explanation.job.reason;
  if (explanation.job.status != JobStatus::waiting || !queued_in_core(ledger, id)) return explanation;
  explanation.code = to_string(reason_of(ledger, id, now).code);
  std::uint32_t position = 1;
  for (JobId before = ledger.scheduler().state().first_active(); before < id; ++before) {
    if (queued_in_core(ledger, before)) ++position;
  }
  explanation.position = position;
  return explanation;
}

void add_forecast(wire::Explanation& explanation, const sched::Forecast& forecast, std::int64_t epoch) {
  const auto start = forecast.starts.find(explanation.job.id);
  if (start == forecast.starts.end()) {
    explanation.basis = forecast.unknown > 0
                            ? fmt::format(
                                  "no forecast: {} active jobs have no time limit, and too few jobs have "
                                  "completed to tell how long they run",
                                  forecast.unknown)
                            : "no forecast: too much has to happen before";
    return;
  }
  explanation.expected_start = start->second + Duration(epoch);
  explanation.basis = "if nobody submits more and jobs run as long as ";
  if (forecast.by_history > 0) {
    explanation.basis += fmt::format("{}{} completed ones did",
                                     forecast.by_request > 0 ? "their time limits say or " : "", forecast.history);
  } else {
    explanation.basis += "their time limits say";
  }
  if (forecast.unknown > 0)
    explanation.basis += fmt::format(" ({} jobs of unknown length never end)", forecast.unknown);
}

std::vector<wire::NodeView> view_nodes(const Ledger& ledger) {
  std::vector<wire::NodeView> views;
  const sched::Capacity& capacity = ledger.scheduler().state().capacity();
  const auto& nodes = ledger.beginning().cluster.nodes;
  for (NodeId node = 0; node < nodes.size(); ++node) {
    const char* state = !capacity.up(node) ? "down" : capacity.draining(node) ? "draining" : "up";
    views.push_back({nodes[node].name, state, nodes[node].gpus, capacity.held(node), nodes[node].gpu_type});
  }
  return views;
}

ClusterGauges view_gauges(const Ledger& ledger, Time now) {
  ClusterGauges gauges;
  const sched::State& state = ledger.scheduler().state();
  const Time latest = std::max(now, state.latest());
  const auto seconds = [](sched::GpuNanoseconds value) { return static_cast<double>(value) / 1e9; };
  for (auto status = JobStatus::held; status <= JobStatus::cancelled;
       status = static_cast<JobStatus>(int(status) + 1)) {
    gauges.jobs[to_string(status)] = 0;
  }
  for (std::size_t id = 0; id < ledger.jobs().size(); ++id) {
    const JobEntry& job = ledger.jobs()[id];
    ++gauges.jobs[to_string(status_of(job))];
    if (id >= state.jobs().size()) continue;  // the core has not heard of it
    gauges.tenant_gpu_seconds[job.request->tenant] += seconds(state.jobs()[id].gpu_time_until(latest));
  }
  gauges.nodes = {{"up", 0}, {"draining", 0}, {"down", 0}};
  for (const wire::NodeView& node : view_nodes(ledger)) {
    ++gauges.nodes[node.state];
    gauges.gpus += node.gpus;
    gauges.gpus_held += node.held;
  }
  const sched::GpuTimes times = state.gpu_times(latest);
  gauges.gpu_seconds = {{"training", seconds(times.training - times.resizing)},
                        {"resizing", seconds(times.resizing)},
                        {"starting", seconds(times.starting)},
                        {"serving", seconds(times.serving)},
                        {"protect", seconds(times.protect)},
                        {"sleep", seconds(times.sleep)}};
  return gauges;
}

}  // namespace ebb::control
