#pragma once

/// The state of the scheduler core: a fold of events and decisions (model/event.h) in journal order. fold() checks each
/// of them against the state and refuses what would break an invariant, so a defect of a policy or a driver is an error
/// with a name, never a GPU that two jobs hold. The cost of a fold does not grow with the number of jobs.
///
/// Invariants, checked as a whole by check_invariants():
///   - no GPU is held or promised twice; a node never holds more than it has
///   - a gang holds all of its GPUs or none, an elastic job a legal number, on nodes of one type that it may use
///   - nothing new is placed on a node that failed or is draining
///   - GPUs are free only after JobStopped, JobShrunk, JobFailed, JobFinished or ReplicaStopped of their holder
///   - a replica is in one phase; the GPUs of one that serves or is protected are nobody else's
///   - GPU-seconds are conserved: those held over time are those of the jobs

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/event.h"
#include "ebb/sched/capacity.h"

namespace ebb::sched {

enum class JobPhase : std::uint8_t {
  waiting,
  held,      ///< out of the queue until it is released
  starting,  ///< decided, not confirmed
  running,
  resizing,  ///< running on the GPUs that it keeps, told to change the others
  stopping,  ///< told to stop, GPUs still held
  finished,
  rejected,
  cancelled,
};
const char* to_string(JobPhase phase);

/// GPUs x time; may exceed 64 bits.
__extension__ using GpuNanoseconds = __int128;

struct JobState {
  JobSpec spec;
  ClassId job_class = 0;
  JobPhase phase = JobPhase::waiting;
  std::uint32_t incarnations = 0;  ///< starts decided
  std::uint32_t preemptions = 0;
  std::uint32_t failures = 0;
  std::uint32_t resizes = 0;
  GpuCount gpus = 0;      ///< of its allocation; the last one's while it waits
  GpuCount promised = 0;  ///< GPUs of its start or resize that are not free yet
  std::optional<Time> first_start;
  Time waiting_since{};  ///< while waiting
  Time held_since{};     ///< while it holds GPUs: when the present incarnation was started
  Time productive_at{};  ///< while it runs: when useful work goes on after its last start or resize
  Time useful_since{};   ///< while it runs: from when `progress` grows with `speed`
  Time told_at{};        ///< while resizing or stopping: when it was told to; it has done nothing useful since
  double speed = 1;      ///< useful seconds a second, as last reported
  std::optional<Time> end;
  Duration pending{};                       ///< waiting, over all closed waits
  Duration held{};                          ///< holding GPUs, over all closed incarnations
  Duration progress{};                      ///< useful run time as of the last event that told it
  Allocation allocation;                    ///< while starting, running, resizing or stopping; of a resize: the new one
  Allocation departing;                     ///< while resizing: what it gives back and still holds
  Allocation arriving;                      ///< while resizing: what of `allocation` it is not on yet
  GpuCount occupied = 0;                    ///< GPUs on which its processes are
  Time occupied_since{};                    ///< since when so many
  GpuNanoseconds gpu_time = 0;              ///< GPUs occupied over time, up to `occupied_since`
  std::shared_ptr<const JobReport> report;  ///< the last one, if any
  ServiceId service = 0;                    ///< of an inference task
  std::optional<ReplicaId> replica;         ///< of an inference task: what serves it, or will

  /// May still run.
  bool active() const { return phase < JobPhase::finished; }
  bool training() const { return spec.kind == JobKind::training; }
  bool holds() const { return phase >= JobPhase::starting && phase <= JobPhase::stopping; }
  /// Its processes exist.
  bool incarnate() const { return phase >= JobPhase::running && phase <= JobPhase::stopping; }
  /// It was told to give up GPUs or to move.
  bool changes() const { return phase == JobPhase::resizing || phase == JobPhase::stopping; }
  /// Time it held its GPUs, up to now.
  Duration held_until(Time now) const { return incarnate() ? held + (now - held_since) : held; }
  GpuNanoseconds gpu_time_until(Time now) const {
    return gpu_time + static_cast<GpuNanoseconds>((now - occupied_since).count()) * occupied;
  }
  /// Of it, since `occupied_since`: without progress, because it is not productive yet or told to leave or change GPUs.
  GpuNanoseconds unproductive_until(Time now) const {
    const Time until = phase == JobPhase::running ? std::min(productive_at, now) : now;
    return until <= occupied_since ? 0 : static_cast<GpuNanoseconds>((until - occupied_since).count()) * occupied;
  }
  /// Useful run time done, up to now.
  Duration progress_until(Time now) const {
    if (changes()) now = std::min(now, told_at);
    if (!incarnate() || now <= useful_since) return progress;
    const Duration since = now - useful_since;
    if (speed == 1) return progress + since;
    return progress + Duration(static_cast<std::int64_t>(static_cast<double>(since.count()) * speed));
  }
  /// Starts beyond the first, and changes of GPUs while it ran.
  std::uint32_t restarts() const { return (incarnations > 1 ? incarnations - 1 : 0) + resizes; }
};

enum class ReplicaPhase : std::uint8_t {
  starting,  ///< decided or loading
  serving,
  protect,   ///< warm, and its GPUs are nobody else's yet
  sleep,     ///< warm, until somebody needs its GPUs
  stopping,  ///< told to stop, GPUs still held
  gone,
};
const char* to_string(ReplicaPhase phase);

/// RestReplica::keep_alive of a replica that is held: protected until the scheduler says otherwise.
inline constexpr Duration kHeld = kMaxDuration;

struct ReplicaState {
  ServiceId service = 0;
  NodeShare place;
  GpuCount promised = 0;               ///< GPUs of its start that are not free yet
  std::uint32_t hits = 0;              ///< reuses while protected, since it last slept
  std::optional<JobId> task;           ///< bound to it
  bool warm = false;                   ///< it starts without a delay
  std::optional<Duration> keep_alive;  ///< after what it serves now; nullopt: it is not reused
  Time since{};                        ///< of the phase that was last folded
  Time protect_until{};                ///< while it rests

  /// Its phase at `now`: rest turns from protect to sleep as time passes.
  ReplicaPhase phase(Time now) const {
    return folded == ReplicaPhase::protect && now >= protect_until ? ReplicaPhase::sleep : folded;
  }
  bool alive() const { return folded != ReplicaPhase::gone; }
  /// Warm, and free to serve.
  bool rests() const { return folded == ReplicaPhase::protect; }
  bool held() const { return rests() && keep_alive == kHeld; }

  ReplicaPhase folded = ReplicaPhase::starting;  ///< protect stands for protect and sleep
};

struct ServiceState {
  ServiceSpec spec;
  std::int32_t demand = 0;          ///< replicas wanted; services of tasks have none
  std::int32_t serving = 0;         ///< replicas that serve or start without a task
  std::vector<ReplicaId> replicas;  ///< alive, in order of start
  std::set<JobId> waiting;          ///< tasks that no replica serves or was started for
  /// Replicas that rest, as (-hits, number): the most reused first, the oldest among equals.
  std::set<std::pair<std::int64_t, ReplicaId>> resting;
};

/// GPU-time spent by what the GPUs did.
struct GpuTimes {
  GpuNanoseconds training = 0;  ///< under processes of training jobs
  GpuNanoseconds resizing = 0;  ///< of it, without progress because of a start, a stop or a resize
  GpuNanoseconds lent = 0;      ///< of `training`, on GPUs of the serving pool
  GpuNanoseconds starting = 0;  ///< replicas that load
  GpuNanoseconds serving = 0;
  GpuNanoseconds protect = 0;
  GpuNanoseconds sleep = 0;  ///< replicas asleep (and those being stopped)
};

class State {
 public:
  explicit State(ClusterSpec cluster, Lending lending = Lending::none);

  /// Errors: internal, naming event and object, if the event cannot happen in this state. The state is then unchanged.
  Result<void> fold(const Event& event, Time now);
  /// Errors: internal, naming decision and job, if it would break an invariant. The state is then unchanged.
  Result<void> fold(const Decision& decision, Time now);

  const Capacity& capacity() const { return capacity_; }
  const std::vector<JobState>& jobs() const { return jobs_; }
  const JobState& job(JobId id) const { return jobs_[id]; }
  const JobClass& class_of(JobId id) const { return capacity_.job_class(jobs_[id].job_class); }

  /// No job with a lower number is active; moves up as jobs end.
  JobId first_active() const { return first_active_; }
  /// Training jobs.
  std::size_t waiting_count() const { return waiting_; }
  std::size_t waiting_in(ClassId id) const { return id < waiting_in_.size() ? waiting_in_[id] : 0; }
  std::size_t holding_count() const { return holding_.size(); }
  /// Jobs that wait or hold GPUs; those in phase `held` are not among them.
  std::size_t active_count() const { return waiting_ + holding_.size(); }
  /// Training jobs that are starting, running, resizing or stopping, in no particular but reproducible order.
  const std::vector<JobId>& holding() const { return holding_; }
  /// Elastic jobs that hold GPUs and whose owner asked for so many since they were started.
  const std::map<JobId, GpuCount>& asked() const { return asked_; }
  /// The job holds no GPUs any more: what its owner asked for meanwhile is what it starts on next.
  void take_asked_size(JobId job);
  /// GPUs that training jobs hold or are promised.
  GpuCount gpus_held() const { return gpus_held_; }
  /// Jobs whose start is decided but not confirmed.
  std::size_t starting_count() const { return starting_; }
  /// GPU-nanoseconds held by running and stopping jobs so far, up to the last event.
  GpuNanoseconds gpu_time() const { return gpu_time_; }
  Time latest() const { return latest_; }
  /// Jobs in `starting` or `resizing` and replicas in `starting` whose last GPU became free since the last clear; the
  /// driver launches them.
  const std::vector<Holder>& launchable() const { return launchable_; }
  void clear_launchable() { launchable_.clear(); }

  const std::vector<ServiceState>& services() const { return services_; }
  /// nullopt if no such service was added and no task named it.
  std::optional<ServiceId> find_service(std::string_view name) const;
  /// GPUs of a replica for this task.
  GpuCount gpus_of_task(JobId task) const { return services_[jobs_[task].service].spec.gpus; }
  const std::vector<ReplicaState>& replicas() const { return replicas_; }
  const ReplicaState& replica(ReplicaId id) const { return replicas_[id]; }
  /// Replicas that are not gone, in order of their number.
  const std::vector<ReplicaId>& live_replicas() const { return live_replicas_; }
  /// Inference tasks that no replica serves or was started for, in order of their number.
  const std::set<JobId>& waiting_tasks() const { return waiting_tasks_; }
  /// How often a task lost its replica and waited again.
  std::uint64_t tasks_returned() const { return tasks_returned_; }
  /// Whether a task waits, or a service has fewer replicas than it wants.
  bool lacks_replicas() const;
  /// Tasks that are not finished.
  std::size_t active_tasks() const { return active_tasks_; }
  /// GPUs on which processes of training jobs are, and those of replicas that have all of theirs. Nothing is in both:
  /// what is promised counts for who still holds it.
  GpuCount gpus_occupied() const { return gpus_occupied_; }
  GpuCount gpus_serving() const { return gpus_serving_; }
  /// GPUs of the serving pool on which training jobs run now, and how many ever were lent.
  GpuCount gpus_lent() const { return gpus_lent_; }
  std::uint64_t loans() const { return loans_; }
  /// Up to `now`, which is not before the last event.
  GpuTimes gpu_times(Time now) const;

 private:
  Result<void> apply(const JobSubmitted& e, Time now);
  Result<void> apply(const JobStarted& e, Time now);
  Result<void> apply(const JobStopped& e, Time now);
  Result<void> apply(const JobFailed& e, Time now);
  Result<void> apply(const JobFinished& e, Time now);
  Result<void> apply(const JobHeld& e, Time now);
  Result<void> apply(const JobReleased& e, Time now);
  Result<void> apply(const JobSizeAsked& e, Time now);
  Result<void> apply(const JobCancelled& e, Time now);
  Result<void> apply(const JobShrunk& e, Time now);
  Result<void> apply(const JobResized& e, Time now);
  Result<void> apply(const JobReport& e, Time now);
  Result<void> apply(const NodeFailed& e, Time now);
  Result<void> apply(const NodeRepaired& e, Time now);
  Result<void> apply(const NodeDrained& e, Time now);
  Result<void> apply(const NodeUndrained& e, Time now);
  Result<void> apply(const PlanReady& e, Time now);
  Result<void> apply(const ServiceAdded& e, Time now);
  Result<void> apply(const ServiceDemand& e, Time now);
  Result<void> apply(const ReplicaReady& e, Time now);
  Result<void> apply(const ReplicaStopped& e, Time now);
  Result<void> apply(const Timer& e, Time now);
  Result<void> apply(const Tick& e, Time now);
  Result<void> apply(const Start& d, Time now);
  Result<void> apply(const Preempt& d, Time now);
  Result<void> apply(const Reject& d, Time now);
  Result<void> apply(const PlanRequest& d, Time now);
  Result<void> apply(const Resize& d, Time now);
  Result<void> apply(const StartReplica& d, Time now);
  Result<void> apply(const Serve& d, Time now);
  Result<void> apply(const WakeReplica& d, Time now);
  Result<void> apply(const RestReplica& d, Time now);
  Result<void> apply(const StopReplica& d, Time now);

  Result<void> require_job(JobId job, const char* what) const;
  Result<void> require_phase(JobId job, const char* what, bool allowed) const;
  Result<void> require_node(NodeId node, const char* what) const;
  Result<void> require_replica(ReplicaId replica, const char* what) const;
  Result<void> require_rest(ReplicaId replica, const char* what) const;
  /// Checks nodes, size and eligibility of an allocation, not whether its GPUs are available.
  Result<void> check_allocation(JobId job, const Allocation& allocation) const;
  Result<void> check_available(JobId job, NodeShare share, GpuCount available) const;
  void submit_task(JobId job);
  void begin_task(JobId job, Time now);
  void finish_task(JobId job, Time now);
  void let_go(JobId job, Time now);
  void tell_met(const MetPromises& met, Time now);
  void occupy(JobId job, const Allocation& allocation, int sign, Time now);
  void settle(JobState& job, Time now);
  static Allocation kept_of(const JobState& job);
  void add_waiting(JobId job);
  void remove_waiting(JobId job);
  void withdraw(JobId job, Time now);
  void skip_ended();
  void add_holding(JobId job);
  void remove_holding(JobId job);
  static void add_phase(const ReplicaState& replica, Time now, GpuTimes& times);
  void close_phase(ReplicaState& replica, Time now);
  void wait_again(JobId task, Time now);
  void add_waiting_task(JobId task);
  void remove_waiting_task(JobId task);
  void begin_rest(ReplicaId replica);
  void end_rest(ReplicaId replica);

  Capacity capacity_;
  std::vector<JobState> jobs_;
  JobId first_active_ = 0;
  std::vector<JobId> holding_;
  std::map<JobId, GpuCount> asked_;
  std::vector<std::uint32_t> holding_at_;  // by job: its place in holding_
  std::vector<Holder> launchable_;
  std::size_t waiting_ = 0;
  std::vector<std::size_t> waiting_in_;  // by class
  std::size_t starting_ = 0;
  GpuCount gpus_occupied_ = 0;  // by processes of training jobs
  GpuNanoseconds gpu_time_ = 0;
  GpuCount gpus_held_ = 0;
  Time latest_{};

  std::vector<ServiceState> services_;
  std::map<std::string, ServiceId, std::less<>> service_names_;
  std::vector<ReplicaState> replicas_;
  std::vector<ReplicaId> live_replicas_;
  std::set<JobId> waiting_tasks_;
  std::uint64_t tasks_returned_ = 0;
  std::size_t active_tasks_ = 0;
  GpuCount gpus_serving_ = 0;
  GpuCount gpus_lent_ = 0;
  std::uint64_t loans_ = 0;
  GpuTimes times_;  // `training` is gpu_time_; jobs up to `occupied_since`, phases of replicas up to their `since`
};

/// Recomputes everything that State maintains incrementally and compares. Errors: internal, naming the invariant.
Result<void> check_invariants(const State& state);

}  // namespace ebb::sched
