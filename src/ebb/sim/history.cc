#include "ebb/sim/history.h"

namespace ebb::sim {
namespace {

// The training job whose GPUs an event may have changed.
struct ChangedJob {
  std::optional<JobId> operator()(const JobSubmitted& e) const { return e.job; }
  std::optional<JobId> operator()(const JobStarted& e) const { return e.job; }
  std::optional<JobId> operator()(const JobStopped& e) const { return e.job; }
  std::optional<JobId> operator()(const JobFailed& e) const { return e.job; }
  std::optional<JobId> operator()(const JobFinished& e) const { return e.job; }
  std::optional<JobId> operator()(const JobCancelled& e) const { return e.job; }
  std::optional<JobId> operator()(const JobShrunk& e) const { return e.job; }
  std::optional<JobId> operator()(const JobResized& e) const { return e.job; }
  template <typename Other>
  std::optional<JobId> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

void History::heard(const sched::State& state, const std::vector<Event>& events, Time now) {
  if (!kept_) return;
  for (const Event& event : events) {
    const auto job = std::visit(ChangedJob{}, event);
    if (job && kept_ && state.job(*job).training()) note(state, *job, now);
  }
}

void History::note(const sched::State& state, JobId id, Time now) {
  if (by_job_.size() <= id) by_job_.resize(id + 1);
  std::vector<JobSpan>& spans = by_job_[id];
  const sched::JobState& job = state.job(id);
  const Time at = job.end.value_or(now);
  if (!spans.empty()) {
    if (job.active() && spans.back().gpus == job.occupied) return;
    spans.back().to = at;
    if (spans.back().from >= at) {
      spans.pop_back();
      --spans_;
    }
    // What was cut short to nothing may have been all that kept two equal spans apart.
    if (!spans.empty() && job.active() && spans.back().gpus == job.occupied && job.occupied > 0) return;
  }
  if (!job.active()) return;
  spans.push_back({at, at, job.occupied, {}});
  if (++spans_ > kMaxSpans) {
    kept_ = false;
    by_job_ = {};
  }
}

void History::waits(JobId job, ReasonCode code) {
  if (job >= by_job_.size() || by_job_[job].empty()) return;
  JobSpan& last = by_job_[job].back();
  if (last.gpus == 0 && (!last.reason || *last.reason == ReasonCode::waiting_for_tick)) last.reason = code;
}

void History::fill(const sched::State& state, Time now, SimResult& result) const {
  result.histories_left_out = !kept_;
  for (JobId id = 0; id < by_job_.size(); ++id) {
    if (state.job(id).phase == sched::JobPhase::rejected) continue;
    std::vector<JobSpan> spans = by_job_[id];
    if (state.job(id).active() && !spans.empty()) {
      spans.back().to = now;
      if (spans.back().from >= now) spans.pop_back();
    }
    if (!spans.empty()) result.histories.push_back({id, std::move(spans)});
  }
}

}  // namespace ebb::sim
