#pragma once

/// The state of the scheduler core: a fold of events and decisions (model/event.h) in journal order. fold() checks each
/// of them against the state and refuses what would break an invariant, so a defect of a policy or a driver is an error
/// with a name, never a GPU that two jobs hold. The cost of a fold does not grow with the number of jobs.
///
/// Invariants, checked as a whole by check_invariants():
///   - no GPU is held or promised twice; a node never holds more than it has
///   - a gang holds all of its GPUs or none, on nodes of one type that it may use
///   - nothing new is placed on a node that failed or is draining
///   - GPUs are free only after JobStopped, JobFailed or JobFinished of their holder
///   - GPU-seconds are conserved: those held over time are those of the jobs

#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/event.h"
#include "ebb/sched/capacity.h"

namespace ebb::sched {

enum class JobPhase : std::uint8_t {
  waiting,
  starting,  ///< decided, not confirmed
  running,
  stopping,  ///< told to stop, GPUs still held
  finished,
  rejected,
};
const char* to_string(JobPhase phase);

struct JobState {
  JobSpec spec;
  ClassId job_class = 0;
  JobPhase phase = JobPhase::waiting;
  std::uint32_t incarnations = 0;  ///< starts decided
  std::uint32_t preemptions = 0;
  std::uint32_t failures = 0;
  GpuCount promised = 0;  ///< GPUs of its start that are not free yet; it can be launched at 0
  std::optional<Time> first_start;
  Time waiting_since{};  ///< while waiting
  Time held_since{};     ///< while it holds GPUs: when the present incarnation was started
  Time productive_at{};  ///< while it runs: when useful work of this incarnation began or begins
  std::optional<Time> end;
  Duration pending{};     ///< waiting, over all closed waits
  Duration held{};        ///< holding GPUs, over all closed incarnations
  Duration progress{};    ///< useful run time kept by all closed incarnations
  Allocation allocation;  ///< while starting, running or stopping

  bool active() const { return phase < JobPhase::finished; }
  bool holds() const {
    return phase == JobPhase::starting || phase == JobPhase::running || phase == JobPhase::stopping;
  }
  /// Its processes exist.
  bool incarnate() const { return phase == JobPhase::running || phase == JobPhase::stopping; }
  /// Time it held its GPUs, up to now.
  Duration held_until(Time now) const { return incarnate() ? held + (now - held_since) : held; }
  /// Useful run time done, up to now.
  Duration progress_until(Time now) const {
    return incarnate() && now > productive_at ? progress + (now - productive_at) : progress;
  }
};

/// GPUs x time; may exceed 64 bits.
__extension__ using GpuNanoseconds = __int128;

class State {
 public:
  explicit State(ClusterSpec cluster);

  /// Errors: internal, naming event and object, if the event cannot happen in this state. The state is then unchanged.
  Result<void> fold(const Event& event, Time now);
  /// Errors: internal, naming decision and job, if it would break an invariant. The state is then unchanged.
  Result<void> fold(const Decision& decision, Time now);

  const Capacity& capacity() const { return capacity_; }
  const std::vector<JobState>& jobs() const { return jobs_; }
  const JobState& job(JobId id) const { return jobs_[id]; }
  const JobClass& class_of(JobId id) const { return capacity_.job_class(jobs_[id].job_class); }

  std::size_t waiting_count() const { return waiting_; }
  std::size_t waiting_in(ClassId id) const { return id < waiting_in_.size() ? waiting_in_[id] : 0; }
  std::size_t holding_count() const { return holding_.size(); }
  std::size_t active_count() const { return waiting_ + holding_.size(); }
  /// Jobs that are starting, running or stopping, in no particular but reproducible order.
  const std::vector<JobId>& holding() const { return holding_; }
  GpuCount gpus_held() const { return gpus_held_; }
  /// Jobs whose start is decided but not confirmed.
  std::size_t starting_count() const { return starting_; }
  /// GPU-nanoseconds held by running and stopping jobs so far, up to the last event.
  GpuNanoseconds gpu_time() const { return gpu_time_; }
  Time latest() const { return latest_; }
  /// Jobs in `starting` whose last promised GPU became free since the last clear; the driver launches them.
  const std::vector<JobId>& launchable() const { return launchable_; }
  void clear_launchable() { launchable_.clear(); }

 private:
  Result<void> apply(const JobSubmitted& e, Time now);
  Result<void> apply(const JobStarted& e, Time now);
  Result<void> apply(const JobStopped& e, Time now);
  Result<void> apply(const JobFailed& e, Time now);
  Result<void> apply(const JobFinished& e, Time now);
  Result<void> apply(const NodeFailed& e, Time now);
  Result<void> apply(const NodeRepaired& e, Time now);
  Result<void> apply(const NodeDrained& e, Time now);
  Result<void> apply(const NodeUndrained& e, Time now);
  Result<void> apply(const PlanReady& e, Time now);
  Result<void> apply(const Tick& e, Time now);
  Result<void> apply(const Start& d, Time now);
  Result<void> apply(const Preempt& d, Time now);
  Result<void> apply(const Reject& d, Time now);
  Result<void> apply(const PlanRequest& d, Time now);

  Result<void> require_job(JobId job, const char* what) const;
  Result<void> require_phase(JobId job, const char* what, bool allowed) const;
  Result<void> require_node(NodeId node, const char* what) const;
  void let_go(JobId job, Time now);
  void add_waiting(JobId job);
  void remove_waiting(JobId job);
  void add_holding(JobId job);
  void remove_holding(JobId job);

  Capacity capacity_;
  std::vector<JobState> jobs_;
  std::vector<JobId> holding_;
  std::vector<std::uint32_t> holding_at_;  // by job: its place in holding_
  std::vector<JobId> launchable_;
  std::size_t waiting_ = 0;
  std::vector<std::size_t> waiting_in_;  // by class
  std::size_t starting_ = 0;
  GpuCount gpus_occupied_ = 0;  // of running and stopping jobs
  GpuNanoseconds gpu_time_ = 0;
  GpuCount gpus_held_ = 0;
  Time latest_{};
};

/// Recomputes everything that State maintains incrementally and compares. Errors: internal, naming the invariant.
Result<void> check_invariants(const State& state);

}  // namespace ebb::sched
