#pragma once

/// Internal: the event loop of the simulator (simulator.h). Holds the scheduler and plays the world: what is started
/// runs, what is told to stop is gone after its drain time, replicas load, tasks end, epochs pass.

#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ebb/sched/scheduler.h"
#include "ebb/sim/fault_source.h"
#include "ebb/sim/recorder.h"
#include "ebb/sim/simulator.h"
#include "ebb/sim/training_process.h"

namespace ebb::sim {

/// Options of the simulator (sim_options()) and what follows from the others, ready to use.
struct WorldOptions {
  bool charge_first_start = false;
  Duration plan_delay{};
  Duration drain{};          ///< from the decision to confirmed free GPUs, for training jobs
  Duration reclaim_bound{};  ///< a drain that takes longer is cut short: the job fails
  TrainingWorld training;
};

class Engine {
 public:
  Engine(const Workload& workload, const SimOptions& options, WorldOptions world, sched::Scheduler scheduler,
         FaultSource faults, const SimHooks& hooks);

  Result<void> run();
  void fill(SimResult& result) const;

 private:
  struct End {
    Time at{};
    JobId job = 0;
    auto key() const { return std::tie(at, job); }
    bool operator>(const End& other) const { return key() > other.key(); }
  };
  struct Answer {
    Time at{};
    PlanReady plan;
    bool operator>(const Answer& other) const { return std::tie(at, plan.plan) > std::tie(other.at, other.plan.plan); }
  };
  /// Something that the world confirms later. `stamp`: of its object when it was planned; another one: it is void.
  struct Confirmation {
    Time at{};
    std::uint64_t sequence = 0;
    std::uint64_t stamp = 0;
    Event event;
    bool operator>(const Confirmation& other) const {
      return std::tie(at, sequence) > std::tie(other.at, other.sequence);
    }
  };
  struct Demand {
    Time at{};
    ServiceId service = 0;
    std::int32_t replicas = 0;
    double requests_per_s = 0;
  };

  const sched::State& state() const { return scheduler_.state(); }
  bool polled() const { return options_.time == spec::TimeModel::polled; }
  bool serves() const { return !workload_.services.empty() || has_tasks_; }

  void plan_demand();
  std::optional<Time> next_time();
  void pass_epochs(std::optional<Time>& next);
  bool repair_would_help() const;
  std::optional<Time> next_tick() const;
  Time round_up(Time t, bool strictly) const;
  bool is_due(const End& end) const;
  std::uint64_t stamp_of(const Event& event) const;
  bool is_void(const Confirmation& confirmation) const { return stamp_of(confirmation.event) != confirmation.stamp; }

  bool is_broken(const Event& confirmed) const;

  Result<void> batch(Time now);
  bool is_quiet(Time now, bool tick) const;
  void take_ends();
  std::vector<JobId> training_by_profile() const;
  void advance_training();
  void advance(JobId id);
  void report_training();
  void take_demand();
  void take_faults();
  void take_arrivals();
  void add_service_of(const JobSpec& task);
  void finish(JobId id, std::optional<Time> at);
  Result<void> step();
  Result<void> carry_out();
  void obey(const Decision& decision);
  void stop_training(JobId id, Event confirmation);
  void launch(const sched::Holder& holder);
  void launch_job(JobId id);
  void start_task(JobId id, Time begin);
  void confirm_at(Time at, Event event);
  void run_plain(JobId id, Time productive_at, Duration progress);
  void mark_interference();

  void count_stop(JobId id, Duration kept);
  Duration surviving_progress(JobId id);
  bool nothing_ahead() const;
  std::vector<JobId> fitting_jobs() const;
  bool gpus_are_gone() const;
  Result<void> check_for_progress();
  Result<void> check_for_stall();

  const Workload& workload_;
  const SimOptions& options_;
  WorldOptions world_;
  sched::Scheduler scheduler_;
  FaultSource faults_;
  const SimHooks& hooks_;
  Recorder recorder_;

  Time now_{};
  std::size_t arrived_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  // of jobs; of those with a profile: of epochs
  std::vector<Time> finish_at_;                                      // by job: its entry in ends_; kEndOfTime: none
  std::vector<std::unique_ptr<TrainingProcess>> processes_;          // by job; of those with a profile
  std::vector<Time> advanced_to_;                                    // by job, of those with a profile
  std::vector<GpuCount> gpus_before_;                                // by job: before the resize under way
  std::vector<JobId> completed_;                                     // by pass_epochs(), not told yet
  std::priority_queue<Confirmation, std::vector<Confirmation>, std::greater<>> confirmations_;
  std::uint64_t sequence_ = 0;
  std::vector<Demand> demand_;  // in order of time
  std::size_t demand_taken_ = 0;
  bool has_tasks_ = false;
  bool has_profiles_ = false;  // so far
  std::size_t services_added_ = 0;
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> answers_;
  std::optional<Time> wake_;
  std::optional<Time> serve_at_;
  std::optional<Time> ticked_at_;
  bool every_round_ = false;
  bool changed_since_tick_ = false;
  std::vector<Event> batch_;
  sched::StepResult result_;
  std::uint64_t steps_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t jobs_done_ = 0;
  std::uint64_t vain_stops_ = 0;
  std::uint64_t idle_batches_ = 0;
  std::optional<Time> last_batch_;
  bool gave_up_ = false;
};

}  // namespace ebb::sim
