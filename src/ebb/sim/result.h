#pragma once

/// What one simulated run gives: figures, a record for every job, and time series. The definitions of every figure are
/// in docs/reference/figures.md.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/job.h"
#include "ebb/model/reason.h"

namespace ebb::sim {

/// One row of jobs.csv.
struct JobRecord {
  std::string name;
  JobKind kind = JobKind::training;
  std::string tenant;
  GpuCount gpus = 0;
  Time submit{};
  std::optional<Time> start;   ///< first time it held its GPUs
  std::optional<Time> end;     ///< completion; absent for a job that never completed
  Duration pending{};          ///< all time submitted but not running (until the end of the run if it never completed)
  double gpu_seconds = 0;      ///< GPUs x time held
  std::uint32_t restarts = 0;  ///< resumes after a preemption or a failure, and changes of GPUs while it ran
  std::string reason;          ///< why it waited, when it last began to; "" if it never did
  double rho = 0;              ///< finish-time fairness; 0 if it never completed or has no run time

  std::optional<Duration> jct() const { return end ? std::optional(*end - submit) : std::nullopt; }
};

/// Mean, median and 99th percentile (nearest rank), seconds.
struct Distribution {
  std::size_t count = 0;
  double avg_s = 0;
  double p50_s = 0;
  double p99_s = 0;
};

/// Inference tasks, and the requests of services with a demand.
struct InferenceFigures {
  std::uint64_t submitted = 0;  ///< tasks
  std::uint64_t count = 0;      ///< tasks completed
  double avg_extra_s = 0;       ///< of these: end - submission - run time (waiting and cold start)
  double p99_extra_s = 0;
  double requests = 0;         ///< expected number of requests of services with a demand
  double in_target_share = 1;  ///< of tasks and requests, 0..1; 1 if there were none

  bool any() const { return submitted > 0 || requests > 0; }
};

/// GPUs of the serving pool that trained.
struct LoanFigures {
  std::uint64_t count = 0;  ///< GPUs lent, each time one was
  double gpu_seconds = 0;
  double net_gpu_seconds = 0;  ///< of these, beyond what the other pools have: replicas there take GPUs the other way
  std::uint64_t reclaims = 0;  ///< replicas that waited for GPUs of training
  double reclaim_p50_s = 0;    ///< from the decision to confirmed free GPUs
  double reclaim_p99_s = 0;
  std::uint64_t forced = 0;  ///< jobs killed because they took longer than the bound
  std::uint64_t late = 0;    ///< replicas that waited longer than the bound until GPUs were asked back for them

  bool any() const { return count > 0 || reclaims > 0 || forced > 0 || late > 0; }
};

/// Step times that training jobs had from their profiles, each time one came to another placement or local batch.
struct ProfileLookups {
  std::uint64_t count = 0;
  std::uint64_t clamped = 0;  ///< of these, at the end of the measured local batches instead
  std::uint64_t fitted = 0;   ///< of these, from the fit of the table, outside the measured placements
};

/// What the GPUs did, GPU-seconds; together GPUs x time from the first submission (or demand of a service) to the end
/// of the run.
struct GpuSeconds {
  double training = 0;  ///< training jobs that are productive
  double resizing = 0;  ///< training jobs without progress because of a start, a stop or a resize
  double starting = 0;  ///< replicas that load
  double serving = 0;
  double protect = 0;   ///< warm replicas that nobody may take
  double sleeping = 0;  ///< warm replicas that anybody may take
  double idle = 0;      ///< nobody's, promised or reserved to somebody who waits for more, or on failed nodes

  double sum() const { return training + resizing + starting + serving + protect + sleeping + idle; }
};

/// The figures of a run, as --json prints them.
struct Summary {
  std::uint64_t jobs_total = 0;
  std::uint64_t jobs_completed = 0;
  std::uint64_t jobs_impossible = 0;
  Distribution training;  ///< JCT of the completed training jobs
  Distribution queue;     ///< pending time of the completed training jobs
  InferenceFigures inference;
  LoanFigures loans;
  GpuSeconds gpu_seconds_by_state;
  ProfileLookups profile_lookups;
  double makespan_s = 0;   ///< last end - first submission
  double utilisation = 0;  ///< GPU-seconds held / (GPUs x makespan), 0..1
  double gpu_seconds = 0;  ///< GPU-seconds held by training jobs
  std::uint64_t restarts = 0;
  std::uint64_t preemptions = 0;
  double max_rho = 0;
  std::vector<std::string> warnings;

  std::uint64_t training_total() const { return jobs_total - inference.submitted; }
  std::uint64_t training_completed() const { return jobs_completed - inference.count; }
};

/// A quantity over time as time-weighted means of equal buckets from `start`.
struct Series {
  Time start{};
  Duration bucket{};
  std::vector<double> values;
};

/// So long a training job was on so many GPUs, or waited.
struct JobSpan {
  Time from{};
  Time to{};
  GpuCount gpus = 0;                 ///< on which its processes were; 0: it waited
  std::optional<ReasonCode> reason;  ///< of a wait: why, when it began

  bool operator==(const JobSpan&) const = default;
};

/// The life of a training job without gaps, from submission to its end (that of the run if it never completed).
struct JobHistory {
  std::size_t job = 0;  ///< index into SimResult::jobs
  std::vector<JobSpan> spans;
};

/// Runs of more training jobs, or with more spans, have no histories.
inline constexpr std::size_t kMaxHistories = 400;
inline constexpr std::size_t kMaxSpans = 20'000;

struct SimResult {
  std::string policy;          ///< registry name
  std::string policy_summary;  ///< what it does, one sentence
  /// All that decides the result beside the program itself, effective values: what and value, for people and JSON.
  std::vector<std::pair<std::string, std::string>> settings;
  std::string label;    ///< how reports call the run, for example "srsf, load 1.5, seed 2"
  std::string cluster;  ///< as given, for example "80x8"
  GpuCount cluster_gpus = 0;
  std::string time_zero;  ///< wall time of time 0, "" if the trace has relative times
  Summary summary;
  std::vector<JobRecord> jobs;                                     ///< in order of submission
  Series gpus_in_use;                                              ///< under training jobs
  Series queue_length;                                             ///< waiting training jobs
  Series gpus_serving;                                             ///< under replicas: loading, serving, warm
  Series gpus_lent;                                                ///< of the serving pool, training
  std::vector<JobHistory> histories;                               ///< of training jobs, in order of submission
  bool histories_left_out = false;                                 ///< there are none because there would be too many
  std::vector<std::pair<std::string, double>> tenant_gpu_seconds;  ///< most first
  std::uint64_t steps = 0;                                         ///< decisions asked of the scheduler
  std::uint64_t events = 0;                                        ///< events it heard
};

}  // namespace ebb::sim
