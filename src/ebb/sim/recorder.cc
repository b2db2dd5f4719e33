#include "ebb/sim/recorder.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ebb::sim {

using sched::JobPhase;
using sched::JobState;
using sched::State;

Distribution distribution_of(std::vector<double> seconds) {
  Distribution d;
  d.count = seconds.size();
  if (seconds.empty()) return d;
  double sum = 0;
  for (const double s : seconds) sum += s;
  d.avg_s = sum / static_cast<double>(seconds.size());
  std::sort(seconds.begin(), seconds.end());
  const auto rank = [&](double share) {
    const auto n = static_cast<std::size_t>(std::ceil(share * static_cast<double>(seconds.size())));
    return seconds[std::max<std::size_t>(n, 1) - 1];
  };
  d.p50_s = rank(0.50);
  d.p99_s = rank(0.99);
  return d;
}

void Recorder::advance(const State& state, Time now) {
  if (now <= last_) return;
  active_seconds_ += static_cast<double>(state.active_count()) * to_seconds(now - last_);
  last_ = now;
}

void Recorder::submitted(JobId job) {
  active_at_submit_.resize(job + 1, active_seconds_);
  active_at_end_.resize(job + 1, 0);
  waited_for_.resize(job + 1, 0);
}

void Recorder::finished(JobId job) {
  active_at_end_[job] = active_seconds_;
}

void Recorder::waits(JobId job, ReasonCode code) {
  waited_for_[job] = static_cast<std::uint8_t>(code) + 1;
}

void Recorder::batch_done(const State& state, Time now) {
  gpus_in_use_.set(now, static_cast<double>(state.gpus_held()));
  queue_length_.set(now, static_cast<double>(state.waiting_count()));
}

void Recorder::fill(const State& state, Time now, SimResult& result) const {
  Summary& summary = result.summary;
  const double gpus = state.capacity().total_gpus();
  std::vector<double> jct;
  std::vector<double> pending;
  std::map<std::string, double> tenants;
  std::optional<Time> first_submit;
  std::optional<Time> last_end;
  result.jobs.reserve(state.jobs().size());
  for (JobId id = 0; id < state.jobs().size(); ++id) {
    const JobState& job = state.job(id);
    JobRecord record;
    record.name = job.spec.name;
    record.tenant = job.spec.tenant;
    record.gpus = job.spec.gpus;
    record.submit = job.spec.submit;
    record.start = job.first_start;
    record.end = job.end;
    record.pending = job.phase == JobPhase::waiting ? job.pending + (now - job.waiting_since) : job.pending;
    record.held = job.held_until(now);
    record.restarts = job.incarnations > 1 ? job.incarnations - 1 : 0;
    if (job.phase == JobPhase::rejected) {
      record.reason = to_string(ReasonCode::impossible);
    } else if (waited_for_[id] > 0) {
      record.reason = to_string(static_cast<ReasonCode>(waited_for_[id] - 1));
    }
    if (job.phase == JobPhase::waiting && job.incarnations > 0) {
      // Never completed: its last run ended when it began to wait for the last time.
      last_end = std::max(last_end.value_or(job.waiting_since), job.waiting_since);
    }
    if (!first_submit || record.submit < *first_submit) first_submit = record.submit;
    const double gpu_seconds = to_seconds(record.held) * record.gpus;
    summary.gpu_seconds += gpu_seconds;
    tenants[record.tenant] += gpu_seconds;
    summary.restarts += record.restarts;
    summary.preemptions += job.preemptions;
    if (job.end) {
      last_end = std::max(last_end.value_or(*job.end), *job.end);
      const double seconds = to_seconds(*record.jct());
      jct.push_back(seconds);
      pending.push_back(to_seconds(record.pending));
      if (seconds > 0 && job.spec.run_time > Duration(0)) {
        const double mean_active = (active_at_end_[id] - active_at_submit_[id]) / seconds;
        record.rho = seconds / (to_seconds(job.spec.run_time) * std::max(1.0, record.gpus * mean_active / gpus));
        summary.max_rho = std::max(summary.max_rho, record.rho);
      }
    }
    result.jobs.push_back(std::move(record));
  }
  summary.jobs_total = result.jobs.size();
  summary.jobs_completed = jct.size();
  summary.jobs_impossible = summary.jobs_total - summary.jobs_completed;
  summary.training = distribution_of(std::move(jct));
  summary.queue = distribution_of(std::move(pending));
  if (first_submit && last_end) summary.makespan_s = to_seconds(*last_end - *first_submit);
  if (summary.makespan_s > 0) summary.utilisation = summary.gpu_seconds / (gpus * summary.makespan_s);
  // The end of the picture is the last end: what is left after it (jobs that can never run) changes nothing.
  SeriesBuilder in_use = gpus_in_use_;
  SeriesBuilder queue = queue_length_;
  const Time end = std::max(last_end.value_or(now), last_);
  result.gpus_in_use = in_use.finish(end);
  result.queue_length = queue.finish(end);
  result.tenant_gpu_seconds.assign(tenants.begin(), tenants.end());
  std::sort(result.tenant_gpu_seconds.begin(), result.tenant_gpu_seconds.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
}

}  // namespace ebb::sim
