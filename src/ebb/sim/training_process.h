#pragma once

/// The true life of a training job with a profile, as the simulator plays it: epochs, progress, the batch size it
/// chooses, what it measures and what its runtime learns from that (perf/goodput.h).
///
/// Time is given in seconds of running (pauses of starts and resizes are the engine's). At every end of an epoch and at
/// every call of run() the batch size is chosen again, by the model as it is then. Source: the simulator of Pollux
/// (OSDI 2021).

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "ebb/base/random.h"
#include "ebb/model/event.h"
#include "ebb/model/job.h"
#include "ebb/perf/goodput.h"
#include "ebb/perf/profile.h"
#include "ebb/sim/result.h"

namespace ebb::sim {

/// How all training jobs of a run behave.
struct TrainingWorld {
  std::shared_ptr<const perf::ProfileSet> profiles;
  bool adapt_batch = false;   ///< jobs choose their batch size by goodput, else keep the one asked for
  bool whole_epochs = false;  ///< an epoch ends on a whole second (to nearest) after the call of run() it ends in
  bool learn = true;          ///< jobs fit their model; else nobody looks at it
  double noise = 0;           ///< standard deviation of the log of what a job measures against the truth
  double interference = 0;    ///< share of speed lost by multi-node jobs that share a node
  double fit_scale = 1;       ///< perf::FitOptions::start_scale
  std::uint64_t seed = 1;     ///< of the noise
};

class TrainingProcess {
 public:
  TrainingProcess(const TrainingWorld& world, const perf::Profile& profile, const JobSpec& spec, JobId id);

  /// The job is on these GPUs now (in the order of ranks), or on none.
  void place(const Allocation& allocation);
  bool placed() const { return replicas_ > 0; }
  bool interfered() const { return interfered_; }
  void set_interfered(bool interfered) { interfered_ = interfered; }

  /// Runs for so many seconds. If it completes within them, returns after how many.
  std::optional<double> run(double seconds);
  /// Seconds of running until the present epoch ends, at the present speed; infinite without GPUs.
  double until_epoch_end() const;

  /// What it would lose of its progress if it went back by so many seconds of running.
  void lose(double seconds);
  /// Forgets everything since the last keep().
  void fall_back();
  /// A point to fall back to: a checkpoint.
  void keep();

  bool done() const { return epoch_ >= profile_.epochs(); }
  double fraction_done() const;
  /// Progress in terms of the job's run time.
  Duration progress() const;
  double speed() const;
  JobReport report() const;
  /// Whether report() would tell something new, apart from progress.
  bool has_news() const { return news_; }
  void told() { news_ = false; }

  /// Step times read from the profile.
  const ProfileLookups& lookups() const { return lookups_; }

  const perf::ApplicationCosts& costs() const { return profile_.costs(); }

 private:
  void measure();
  void choose_batch();
  double rate() const;  // progress a second
  double batch() const { return static_cast<double>(perf::global_batch(replicas_, choice_)); }

  const TrainingWorld& world_;
  const perf::Profile& profile_;
  JobSpec spec_;
  JobId id_;
  Random random_;

  std::vector<GpuCount> placement_;
  GpuCount replicas_ = 0;
  bool interfered_ = false;
  ProfileLookups lookups_;
  BatchSize looked_up_ = 0;  // the local batch of the last lookup on this placement; 0: none
  BatchChoice choice_;
  perf::StepTimes times_;
  double rate_ = 0;

  std::int32_t epoch_ = 0;  // passed
  double progress_ = 0;     // iterations at the initial batch size
  double steps_ = 0;        // optimizer steps, as many as at the batch asked for
  std::int32_t kept_epoch_ = 0;
  double kept_progress_ = 0;

  std::vector<perf::Observation> observations_;
  std::optional<ThroughputParams> throughput_;
  GradientStats gradient_;
  GpuCount most_gpus_ = 0;
  bool news_ = true;
  bool model_changed_ = true;
};

/// How long the job runs alone on the GPUs and at the batch that it asks for, packed on nodes of `node_gpus`.
Duration time_alone(const perf::Profile& profile, const JobSpec& spec, GpuCount node_gpus);

}  // namespace ebb::sim
