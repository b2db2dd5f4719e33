#pragma once

/// Internal: the event loop of the simulator (simulator.h). Holds the scheduler and plays the world: what is started
/// runs, what is told to stop is gone after its drain time, replicas load, tasks end, epochs pass.

#include <array>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "ebb/sched/scheduler.h"
#include "ebb/sim/confirmations.h"
#include "ebb/sim/demand_source.h"
#include "ebb/sim/fault_source.h"
#include "ebb/sim/recorder.h"
#include "ebb/sim/running_jobs.h"
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
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() = default;

  Result<void> run();
  void fill(SimResult& result) const;

 private:
  void fill_lookups(SimResult& result) const;
  struct Answer {
    Time at{};
    PlanReady plan;
    bool operator>(const Answer& other) const { return std::tie(at, plan.plan) > std::tie(other.at, other.plan.plan); }
  };

  const sched::State& state() const { return scheduler_.state(); }
  bool polled() const { return options_.time == spec::TimeModel::polled; }
  bool serves() const { return !workload_.services.empty() || has_tasks_; }

  std::array<std::optional<Time>, 4> calendar() const;
  std::optional<Time> next_time();
  bool repair_would_help() const;
  std::optional<Time> next_tick() const;
  Time round_up(Time t, bool strictly) const;

  Result<void> batch(Time now);
  bool is_quiet(Time now, bool tick) const;
  void take_training(bool tick);
  void take_confirmations(bool quiet);
  void take_faults();
  std::vector<JobId> jobs_on(NodeId node) const;
  void take_arrivals();
  Result<void> step();
  Result<void> carry_out();
  Result<void> confirm();
  void obey(const Decision& decision);
  void stop_training(JobId id, Event confirmation);
  void launch(const sched::Holder& holder);
  void launch_job(JobId id);

  /// Whoever must give GPUs back is killed before it has.
  bool forces() const { return world_.drain > world_.reclaim_bound; }
  void count_stop(JobId id, Duration kept);
  bool nothing_ahead() const;
  std::vector<JobId> fitting_jobs() const;
  bool gpus_are_gone() const;
  Result<void> check_for_progress();
  Result<void> check_for_stall();

  const Workload& workload_;
  const SimOptions& options_;
  const SimHooks& hooks_;
  WorldOptions world_;
  sched::Scheduler scheduler_;
  bool has_tasks_;
  bool every_round_;  // ticks come at every round while jobs hold GPUs

  // What happens, beside submissions (of jobs from arrived_ on) and the clock.
  FaultSource faults_;
  DemandSource demand_;
  RunningJobs running_;
  Confirmations confirmations_;
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> answers_;
  std::size_t arrived_ = 0;

  Time now_{};
  std::vector<Event> batch_;
  sched::StepResult result_;  // of the last step
  std::optional<Time> ticked_at_;
  bool changed_since_tick_ = false;
  bool tick_decided_ = false;  // the last tick decided something
  bool look_again_ = false;    // without rounds: a tick is wanted now, though nothing happens

  Recorder recorder_;
  std::uint64_t steps_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t jobs_done_ = 0;

  // Whether the run still comes to something (engine_end.cc).
  std::uint64_t vain_stops_ = 0;
  std::uint64_t idle_batches_ = 0;
  std::optional<Time> last_batch_;
  bool gave_up_ = false;
};

}  // namespace ebb::sim
