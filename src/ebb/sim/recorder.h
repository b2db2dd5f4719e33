#pragma once

/// Turns what happened in a run into a SimResult.

#include <string>
#include <vector>

#include "ebb/model/workload.h"
#include "ebb/sched/state.h"
#include "ebb/sim/result.h"
#include "ebb/sim/series.h"

namespace ebb::sim {

class Recorder {
 public:
  explicit Recorder(Time start) : last_(start), gpus_in_use_(start), queue_length_(start) {}

  /// Before the events of a batch are folded: everything was as `state` shows it until `now`.
  void advance(const sched::State& state, Time now);
  void submitted(JobId job);
  void finished(JobId job);
  void waits(JobId job, ReasonCode code);
  /// After the batch and its consequences.
  void batch_done(const sched::State& state, Time now);

  /// Jobs, series and figures. `last_end`: the latest end of a job, or of the run if none ended.
  void fill(const sched::State& state, Time now, SimResult& result) const;

 private:
  Time last_;
  double active_seconds_ = 0;             // integral of the number of active jobs
  std::vector<double> active_at_submit_;  // by job: the integral when it was submitted
  std::vector<double> active_at_end_;
  std::vector<std::uint8_t> waited_for_;  // by job: ReasonCode + 1, 0 = never waited
  SeriesBuilder gpus_in_use_;
  SeriesBuilder queue_length_;
};

/// Mean, median and 99th percentile by nearest rank.
Distribution distribution_of(std::vector<double> seconds);

}  // namespace ebb::sim
