#pragma once

/// Internal: the jobs and tasks that run, as the world knows them: when each ends, or, of a job with a profile, when
/// its epoch does (training_process.h), and what each has done so far.
///
/// Jobs without a profile progress linearly in the number of GPUs against the number asked for. Under polled time
/// epochs are no events: jobs with a profile advance when they are looked at.

#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "ebb/model/event.h"
#include "ebb/sched/state.h"
#include "ebb/sim/training_process.h"

namespace ebb::sim {

class RunningJobs {
 public:
  /// Both outlive this object.
  RunningJobs(const sched::State& state, const TrainingWorld& world, bool polled)
      : state_(state), world_(world), polled_(polled) {}

  /// A job was submitted: the next JobId.
  void add(const JobSpec& spec);
  bool empty() const { return ends_.empty(); }

  /// When the next of them concerns others: it ends, or its epoch ends where `others` (the next of all else but faults)
  /// or `fault` come first or at the same time. Epochs that end before concern nobody but the job: they pass.
  std::optional<Time> next(Time now, std::optional<Time> others, std::optional<Time> fault);
  /// Whether some job ends at `now`, or ended while epochs passed and was not told yet.
  bool due(Time now) const { return (!ends_.empty() && ends_.top().at == now) || !completed_.empty(); }
  /// Jobs and epochs that end at `now`; the ends of jobs go to `batch`.
  void take_ends(Time now, std::vector<Event>& batch);
  /// Brings jobs with a profile up to `now`; the ends of jobs go to `batch`.
  void advance_training(Time now, std::vector<Event>& batch);
  /// What running jobs have to say that is new.
  void report_training(std::vector<Event>& batch);

  /// The job runs no more, or not on these GPUs: what was planned of it is void.
  void stop(JobId id) { finish_at_[id] = kEndOfTime; }
  /// It was told to change its GPUs.
  void will_resize(JobId id) { gpus_before_[id] = state_.job(id).occupied; }
  /// GPUs before the resize under way.
  GpuCount gpus_before(JobId id) const { return gpus_before_[id]; }
  /// The job runs on the GPUs that the state says, productive from then on, and goes on from progress(); what it
  /// reports at once goes to `batch`.
  void run(JobId id, Time productive_at, Duration progress, std::vector<Event>& batch);
  /// The task is served for as long as it takes.
  void serve(JobId task, Time begin);
  /// Multi-node jobs that share a node slow each other down: to be called whenever jobs came, went or moved. Until
  /// `now` they ran as they were marked.
  void mark_interference(Time now);
  /// Step times that the jobs so far had from their profiles, by application.
  std::map<std::string, ProfileLookups> lookups() const;

  perf::ApplicationCosts costs_of(JobId id) const;
  /// In terms of the job's run time.
  Duration progress(JobId id, Time now) const;
  /// The progress that a broken gang keeps: the state saved when it was last preempted or resized, or its last periodic
  /// checkpoint. It is on no GPUs after that.
  Duration surviving_progress(JobId id, Time now, const std::optional<Duration>& checkpoint_interval);

 private:
  struct End {
    Time at{};
    JobId job = 0;
    auto key() const { return std::tie(at, job); }
    bool operator>(const End& other) const { return key() > other.key(); }
  };

  bool is_due(const End& end) const;
  void end_at(JobId id, Time at);
  void tell_completed(std::vector<Event>& batch);
  void advance(JobId id, Time now);
  std::vector<JobId> training_by_profile() const;
  void run_plain(JobId id, Time productive_at, Duration progress, std::vector<Event>& batch);

  const sched::State& state_;
  const TrainingWorld& world_;
  bool polled_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  // of jobs; of those with a profile: of epochs
  std::vector<JobFinished> completed_;                               // of those with a profile, not told yet
  bool has_profiles_ = false;                                        // so far
  // By job:
  std::vector<Time> finish_at_;  // its entry in ends_; kEndOfTime: none
  std::vector<GpuCount> gpus_before_;
  std::vector<std::unique_ptr<TrainingProcess>> processes_;  // of those with a profile
  std::vector<Time> advanced_to_;                            // of those with a profile
};

}  // namespace ebb::sim
