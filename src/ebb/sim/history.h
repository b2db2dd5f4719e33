#pragma once

/// The GPUs of every training job over time, for the chart of a run's jobs. Kept only where there are few jobs and few
/// changes (result.h); a large run pays one comparison a step.

#include <vector>

#include "ebb/model/event.h"
#include "ebb/sched/state.h"
#include "ebb/sim/result.h"

namespace ebb::sim {

class History {
 public:
  explicit History(std::size_t training_jobs) : kept_(training_jobs <= kMaxHistories) {}

  /// After the events were folded.
  void heard(const sched::State& state, const std::vector<Event>& events, Time now);
  /// The reason of a wait that begins.
  void waits(JobId job, ReasonCode code);
  void fill(const sched::State& state, Time now, SimResult& result) const;

 private:
  void note(const sched::State& state, JobId job, Time now);

  bool kept_;
  std::size_t spans_ = 0;
  std::vector<std::vector<JobSpan>> by_job_;  // by JobId; the last span of each is open
};

}  // namespace ebb::sim
