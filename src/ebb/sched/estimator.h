#pragma once

/// What the scheduler believes about the speed of elastic jobs: goodput, speed-up against a fair share, step times,
/// remaining time. Learned from the jobs' reports (JobReport), or with `oracle` read from the true profiles, which only
/// a simulation has. Every policy and the reclaim of lent GPUs value changes with it.
///
/// A job that says nothing of its batch sizes is taken to scale linearly up to its largest size. A job with a model but
/// without a report yet ("never ran") has speed-up gpus / fair share.
///
/// Sizes are counts of GPUs; layouts are packed (as few nodes as possible) unless a number of nodes is given. Times in
/// seconds. Answers are cached until the job reports again. Belongs to one Scheduler: not thread-safe.

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ebb/perf/goodput.h"
#include "ebb/perf/profile.h"
#include "ebb/sched/state.h"

namespace ebb::sched {

struct EstimatorOptions {
  bool oracle = false;       ///< true step times and gradient statistics instead of learned ones
  bool adapt_batch = false;  ///< jobs choose the batch size with the best goodput; else they keep the one asked for
  bool linear = false;       ///< speed-up = gpus / fair share, whatever is known
  bool fair_share_on_one_node = false;  ///< measured on one node whatever its size, as Pollux's simulator does
};

class Estimator {
 public:
  Estimator(const ClusterSpec& cluster, std::shared_ptr<const perf::ProfileSet> profiles, EstimatorOptions options);

  const EstimatorOptions& options() const { return options_; }
  /// GPUs of the largest node: what packed layouts are made of.
  GpuCount node_gpus() const { return node_gpus_; }
  std::int32_t packed_nodes(GpuCount gpus) const { return (gpus + node_gpus_ - 1) / node_gpus_; }

  /// The size against which speed-ups are measured from now on.
  void set_fair_share(GpuCount gpus);
  /// Goodput on `nodes` x `gpus` over that of the fair share; 0 for 0 GPUs.
  double speedup(const State& state, JobId job, std::int32_t nodes, GpuCount gpus);
  double speedup(const State& state, JobId job, const Allocation& allocation) {
    return speedup(state, job, static_cast<std::int32_t>(allocation.size()), gpus_in(allocation));
  }

  /// Efficiency-weighted samples a second; for a job without a model: GPUs.
  double goodput(const State& state, JobId job, std::int32_t nodes, GpuCount gpus);
  /// Samples a second at the batch asked for (at the actual, rounded batch), packed.
  double throughput(const State& state, JobId job, GpuCount gpus);
  /// Seconds of one optimizer step at the batch asked for, packed.
  double step_s(const State& state, JobId job, GpuCount gpus);
  /// Optimizer steps left at the batch asked for.
  double remaining_steps(const State& state, JobId job);
  /// Seconds left if it ran on so many GPUs from now on.
  double remaining_s(const State& state, JobId job, GpuCount gpus) {
    return remaining_steps(state, job) * step_s(state, job, gpus);
  }

  /// The largest legal size worth giving: at most twice what it ever ran on where `double_at_most`, and no more than
  /// its largest batch can feed.
  GpuCount most_gpus(const State& state, JobId job, bool double_at_most) const;

 private:
  struct Entry {
    std::shared_ptr<const JobReport> report;                       // what the cache was computed from
    std::vector<double> packed;                                    // goodput by gpus on a packed layout; < 0: not known
    std::unordered_map<std::uint64_t, double> spread;              // on others, by nodes << 32 | gpus
    std::unordered_map<GpuCount, std::pair<double, double>> step;  // by gpus: step_s, throughput
    double base = 0;                                               // goodput of this fair share:
    std::pair<std::int32_t, GpuCount> base_of{0, 0};               // nodes, GPUs
  };

  Entry& entry(const State& state, JobId job);
  double cached_goodput(Entry& entry, const JobState& job, std::int32_t nodes, GpuCount gpus);
  double compute_goodput(const JobState& job, std::int32_t nodes, GpuCount gpus);
  const std::vector<perf::BatchCandidate>& batches(const BatchLimits& limits, GpuCount gpus);
  std::pair<double, double> compute_step(const JobState& job, GpuCount gpus) const;
  const perf::Profile* truth(const JobState& job) const;
  std::vector<GpuCount> layout(std::int32_t nodes, GpuCount gpus) const;

  std::shared_ptr<const perf::ProfileSet> profiles_;
  EstimatorOptions options_;
  GpuCount node_gpus_ = 1;
  GpuCount fair_gpus_ = 1;
  std::int32_t fair_nodes_ = 1;
  std::vector<Entry> entries_;  // by job; those of finished jobs are empty
  std::map<std::tuple<BatchSize, BatchSize, BatchSize, BatchSize, GpuCount>, std::vector<perf::BatchCandidate>>
      batches_;  // by limits and GPUs
};

}  // namespace ebb::sched
