#pragma once

/// What lending idle serving GPUs to training gives: the same workloads with and without lending, under the same
/// policy, over training load x serving mean x seeds (`ebb sim lending`; docs/reference/lending.md).
///
/// A column is one power of the demand's shape, that is one serving mean; a cell is a column at one load. For every
/// cell and seed one workload (lending_workload.h) is simulated twice, with two halves that keep to themselves and with
/// lending, and figures are compared seed by seed. A run lasts from its first submission to the end of its last job.
///
/// The headline is the cell at which, without lending, jobs wait as long as they run (means over jobs, then over
/// seeds): on its column the load is doubled or halved from the sweep's ends until that lies between, then bisected
/// (the ratio to within 2 %, at most 8 steps), each time with runs of all seeds; what is reported, of the load that
/// came nearest, is simulated, not interpolated. Mean run time = mean JCT - mean pending time.
///
/// The headline at an equal share of requests in target: with the least headroom (`serving_headroom`) in the runs with
/// lending at which, on average over the seeds, no smaller share of the requests is in target than without lending.
/// Doubled until that is so, then bisected: where the share does not grow with the headroom it is one such headroom.
///
/// Runs go over several threads; results do not depend on how many. Errors: those of simulate(), with the cell in
/// front.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/sim/estimate.h"
#include "ebb/sim/lending_workload.h"
#include "ebb/sim/simulator.h"

namespace ebb::sim {

struct LendingOptions {
  std::vector<double> loads = {0.5, 0.75, 1, 1.25, 1.5};
  std::vector<double> means = {0.2, 0.3, 0.4, 0.5, 0.6, 0.7};  ///< serving means, shares of the serving GPUs
  std::optional<double> power = 1;      ///< one more column, the headline's: the shape with this power
  std::optional<double> headline_mean;  ///< the headline's column among `means` where there is no `power`; nullopt: the
                                        ///< middle one
  bool find_headline = true;
  bool equal_share = false;  ///< also the headline at an equal share of requests in target
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  Lending lending = Lending::pooled;
  double request_noise = 0;           ///< see LendingWorkloadOptions
  std::optional<Duration> day_start;  ///< see LendingWorkloadOptions
  unsigned threads = 1;
};

/// Figures of one run.
struct LendingFigures {
  double mean_jct_s = 0;
  double p99_jct_s = 0;
  double mean_wait_s = 0;  ///< pending
  double mean_run_s = 0;   ///< mean JCT - mean pending
  double makespan_s = 0;
  double lent_gpu_s = 0;   ///< GPUs of the serving pool held by training
  double freed_gpu_s = 0;  ///< of these, net of replicas on other GPUs (LoanFigures::net_gpu_seconds)
  double idle_gpu_s = 0;   ///< GPUs of the serving pool that no service needed: the most that could be freed
  double in_target_share = 1;
  double requests = 0;
  double reclaim_p50_s = 0;
  double reclaim_p99_s = 0;
  std::uint64_t reclaims = 0;
  std::uint64_t forced = 0;
  std::uint64_t restarts = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t jobs = 0;
  bool past_demand = false;  ///< the run went on after the end of the planned demand
};

struct LendingRun {
  std::size_t column = 0;
  double load = 1;
  std::uint64_t seed = 1;
  LendingFigures none;
  LendingFigures lending;
};

struct LendingColumn {
  std::optional<double> asked;  ///< mean asked for; nullopt for the column of LendingOptions::power
  DemandPlan plan;
};

/// Over the seeds.
struct LendingCell {
  std::size_t column = 0;
  double load = 1;
  std::uint64_t jobs = 0;  ///< of each run
  Estimate jct_change;     ///< mean JCT with lending / without - 1, by seed
  Estimate jct_none_s;
  Estimate jct_lending_s;
  Estimate lent_gpu_h;  ///< of the runs with lending, as are the next two
  Estimate freed_gpu_h;
  Estimate idle_gpu_h;  ///< the upper bound
  Estimate bound_used;  ///< freed / idle, by seed
  Estimate in_target_none;
  Estimate in_target_lending;
  Estimate in_target_change;  ///< by seed
  Estimate wait_none_s;
  Estimate run_none_s;
  Estimate restarts_none;
  Estimate restarts_lending;
  Estimate reclaims;
  double reclaim_p50_s = 0;  ///< mean over the runs that reclaimed anything
  double reclaim_p99_s = 0;
  std::uint64_t forced = 0;  ///< over all runs
};

/// The headline's cell with headroom; without lending there is none, and the runs are the headline's own.
struct LendingEqualShare {
  std::int32_t headroom = 0;  ///< replicas of each service
  bool reached = false;       ///< false: not even with as many as the serving pool holds; figures are of those
  LendingCell cell;
  std::vector<LendingRun> runs;
};

struct LendingHeadline {
  std::size_t column = 0;
  bool found = false;  ///< wait and run differ by less than 10 %; false: no load within reach comes as near
  double wait_over_run = 0;
  LendingCell cell;
  std::vector<LendingRun> runs;
  std::optional<LendingEqualShare> equal_share;  ///< if asked for
};

struct LendingStudy {
  LendingOptions options;
  Halves halves;
  std::vector<LendingColumn> columns;  ///< by rising mean
  std::vector<LendingCell> cells;      ///< by column, then by load
  std::vector<LendingRun> runs;        ///< in the order of the cells, then of the seeds
  std::optional<LendingHeadline> headline;
  std::size_t day_column = 0;  ///< of `day`
  double day_load = 1;
  SimResult day;  ///< with lending, first seed, middle load, the headline's column
  std::vector<std::string> warnings;
};

/// `trace`: its inference tasks and services are left out, `services` are the services. `common`: everything but
/// lending and seed. `progress`: share done, 0..1, called from one thread at a time.
/// Errors: invalid_argument for options outside their range, a cluster without two halves, no training job, a job that
/// the training half can never hold (unless common.skip_impossible), a mean that cannot be reached.
Result<LendingStudy> study_lending(const ClusterSpec& cluster, const Workload& trace,
                                   const std::vector<StudyService>& services, const SimOptions& common,
                                   const LendingOptions& options, const sched::Registry& registry,
                                   const std::function<void(double)>& progress = {});

/// The cell of some runs, which have column, load and seeds in common.
LendingCell cell_of(const std::vector<LendingRun>& runs);

}  // namespace ebb::sim
