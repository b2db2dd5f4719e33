#include "ebb/sim/running_jobs.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ebb::sim {

using sched::JobPhase;
using sched::JobState;

namespace {

// Later than `at` by seconds of running, at least so that nothing is left of them.
Time after(Time at, double seconds) {
  if (seconds > to_seconds(kEndOfTime - at)) return kEndOfTime;
  return at + Duration(static_cast<std::int64_t>(std::ceil(seconds * 1e9)));
}

}  // namespace

void RunningJobs::add(const JobSpec& spec) {
  const auto id = static_cast<JobId>(processes_.size());
  finish_at_.push_back(kEndOfTime);
  advanced_to_.emplace_back();
  gpus_before_.push_back(0);
  processes_.emplace_back();
  const perf::Profile* profile = world_.profiles && spec.kind == JobKind::training && spec.batch.known()
                                     ? world_.profiles->find(spec.application)
                                     : nullptr;
  if (profile == nullptr) return;
  processes_.back() = std::make_unique<TrainingProcess>(world_, *profile, spec, id);
  has_profiles_ = true;
}

bool RunningJobs::is_due(const End& end) const {
  const JobPhase phase = state_.job(end.job).phase;
  return finish_at_[end.job] == end.at && (phase == JobPhase::running || phase == JobPhase::resizing);
}

void RunningJobs::end_at(JobId id, Time at) {
  finish_at_[id] = at;
  ends_.push({at, id});
}

std::optional<Time> RunningJobs::next(Time now, std::optional<Time> others, std::optional<Time> fault) {
  if (!completed_.empty() && !polled_) return now;
  while (!ends_.empty() && !is_due(ends_.top())) ends_.pop();  // of incarnations that were stopped
  while (!ends_.empty() && (!others || ends_.top().at < *others || !processes_[ends_.top().job])) {
    const End end = ends_.top();
    if (!is_due(end)) {
      ends_.pop();
      continue;
    }
    // A fault that comes first may break the job before its epoch ends.
    if (!processes_[end.job] || (fault && *fault <= end.at)) return end.at;
    ends_.pop();
    now = std::max(now, end.at);
    advance(end.job, now);
    if (processes_[end.job]->done()) return end.at;
  }
  return std::nullopt;
}

void RunningJobs::take_ends(Time now, std::vector<Event>& batch) {
  while (!ends_.empty() && ends_.top().at == now) {
    const End end = ends_.top();
    ends_.pop();
    if (!is_due(end)) continue;
    if (processes_[end.job]) {
      advance(end.job, now);
    } else {
      batch.emplace_back(JobFinished{end.job, std::nullopt});
      stop(end.job);
    }
  }
  tell_completed(batch);
}

void RunningJobs::tell_completed(std::vector<Event>& batch) {
  for (const JobFinished& finished : completed_) {
    batch.emplace_back(finished);
    stop(finished.job);
  }
  completed_.clear();
}

// Brings a job with a profile up to `now`. Fractional time: its next epoch end goes into ends_.
void RunningJobs::advance(JobId id, Time now) {
  TrainingProcess& process = *processes_[id];
  const JobState& job = state_.job(id);
  if (job.phase != JobPhase::running || process.done()) return;
  const Time from = std::max(advanced_to_[id], job.productive_at);
  if (now > from || polled_) {
    const auto used = now > from ? process.run(to_seconds(now - from)) : std::nullopt;
    advanced_to_[id] = std::max(now, from);
    if (used) {
      stop(id);
      JobFinished finished{id, std::nullopt};
      if (polled_) finished.at = from + Duration(static_cast<std::int64_t>(std::llround(*used * 1e9)));
      completed_.push_back(finished);
      return;
    }
  }
  if (polled_) return;
  const Time resume = std::max(now, job.productive_at);
  const Time end = std::max(after(resume, process.until_epoch_end()), resume + Duration(1));
  if (finish_at_[id] == end && end > now) return;
  end_at(id, end);
}

// Jobs with a profile that hold GPUs and are not done, in order. Most runs have none: they pay nothing for it.
std::vector<JobId> RunningJobs::training_by_profile() const {
  std::vector<JobId> jobs;
  if (!has_profiles_) return jobs;
  for (const JobId id : state_.holding()) {
    if (processes_[id] && !processes_[id]->done()) jobs.push_back(id);
  }
  std::sort(jobs.begin(), jobs.end());
  return jobs;
}

void RunningJobs::advance_training(Time now, std::vector<Event>& batch) {
  for (const JobId id : training_by_profile()) advance(id, now);
  tell_completed(batch);
}

void RunningJobs::report_training(std::vector<Event>& batch) {
  for (const JobId id : training_by_profile()) {
    if (state_.job(id).phase != JobPhase::running || !processes_[id]->has_news()) continue;
    batch.emplace_back(processes_[id]->report());
    processes_[id]->told();
  }
}

void RunningJobs::run(JobId id, Time productive_at, Duration progress, std::vector<Event>& batch) {
  TrainingProcess* process = processes_[id].get();
  if (process == nullptr) return run_plain(id, productive_at, progress, batch);
  process->keep();
  process->place(state_.job(id).allocation);
  advanced_to_[id] = productive_at;
  if (!polled_) end_at(id, std::max(after(productive_at, process->until_epoch_end()), productive_at + Duration(1)));
}

void RunningJobs::run_plain(JobId id, Time productive_at, Duration progress, std::vector<Event>& batch) {
  const JobState& job = state_.job(id);
  Duration left = job.spec.run_time - progress;
  if (job.gpus != job.spec.gpus) {
    const double speed = static_cast<double>(job.gpus) / job.spec.gpus;
    left = Duration(static_cast<std::int64_t>(std::ceil(static_cast<double>(left.count()) / speed)));
  }
  end_at(id, std::min(productive_at + left, kEndOfTime));
  if (job.spec.sizing == Sizing::rigid) return;
  JobReport report;
  report.job = id;
  report.progress = progress;
  report.speed = static_cast<double>(job.gpus) / job.spec.gpus;
  report.fraction_done = job.spec.run_time > Duration(0) ? to_seconds(progress) / to_seconds(job.spec.run_time) : 0;
  report.steps_done = to_seconds(progress) * job.spec.gpus;  // a step takes one GPU one second
  report.most_gpus = std::max(job.report ? job.report->most_gpus : 0, job.gpus);
  batch.emplace_back(report);
}

void RunningJobs::serve(JobId task, Time begin) {
  end_at(task, std::min(begin + state_.job(task).spec.run_time, kEndOfTime));
}

void RunningJobs::mark_interference(Time now) {
  // Nodes with processes of the job: those that it does not reach yet are not among them, those that it leaves are.
  const auto nodes_of = [](const JobState& job) {
    std::set<NodeId> nodes;
    if (!job.incarnate()) return nodes;
    for (const NodeShare& share : job.allocation) {
      const auto arrives = [&](const NodeShare& other) { return other == share; };
      if (std::none_of(job.arriving.begin(), job.arriving.end(), arrives)) nodes.insert(share.node);
    }
    for (const NodeShare& share : job.departing) nodes.insert(share.node);
    return nodes;
  };
  std::vector<int> spread_on(state_.capacity().spec().nodes.size());
  for (const JobId id : state_.holding()) {
    const std::set<NodeId> nodes = nodes_of(state_.job(id));
    if (nodes.size() < 2) continue;
    for (const NodeId node : nodes) ++spread_on[node];
  }
  for (const JobId id : training_by_profile()) {
    const std::set<NodeId> nodes = nodes_of(state_.job(id));
    const bool meets =
        nodes.size() > 1 && std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) { return spread_on[node] > 1; });
    if (processes_[id]->interfered() == meets) continue;
    advance(id, now);
    processes_[id]->set_interfered(meets);
    advance(id, now);  // when its epoch ends now
  }
}

std::map<std::string, ProfileLookups> RunningJobs::lookups() const {
  std::map<std::string, ProfileLookups> all;
  for (JobId id = 0; id < processes_.size(); ++id) {
    if (!processes_[id]) continue;
    const ProfileLookups& of_job = processes_[id]->lookups();
    ProfileLookups& sum = all[state_.job(id).spec.application];
    sum.count += of_job.count;
    sum.clamped += of_job.clamped;
    sum.fitted += of_job.fitted;
  }
  return all;
}

perf::ApplicationCosts RunningJobs::costs_of(JobId id) const {
  return processes_[id] ? processes_[id]->costs() : perf::ApplicationCosts();
}

Duration RunningJobs::progress(JobId id, Time now) const {
  return processes_[id] ? processes_[id]->progress() : state_.job(id).progress_until(now);
}

Duration RunningJobs::surviving_progress(JobId id, Time now, const std::optional<Duration>& checkpoint_interval) {
  const JobState& job = state_.job(id);
  const auto& interval = checkpoint_interval;
  if (processes_[id]) {
    TrainingProcess& process = *processes_[id];
    // A gang that did not run yet, or was killed before it was gone, has nothing more to lose.
    if (!job.incarnate() || !process.placed()) return process.progress();
    const Time until = job.changes() ? job.told_at : now;
    if (!interval) {
      process.fall_back();
    } else if (until > job.productive_at && *interval > Duration(0)) {
      process.lose(to_seconds((until - job.productive_at) % *interval));
    }
    process.place({});
    return process.progress();
  }
  const Duration done = job.progress_until(now);
  if (!interval) return job.progress;
  if (*interval == Duration(0)) return done;
  return std::max(job.progress, done / *interval * *interval);
}

}  // namespace ebb::sim
