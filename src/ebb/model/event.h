#pragma once

/// Everything that the scheduler core hears (Event) and says (Decision). The state of the core is a fold of both, in
/// the order in which they are journalled. Several events may carry the same time; the batch ends with a Tick when a
/// decision is wanted (without rounds every batch has one).
///
/// A job's life: JobSubmitted, then per incarnation Start (decision) -> JobStarted, and one of JobFinished, JobFailed,
/// or Preempt (decision) -> JobStopped. Between Preempt and JobStopped the GPUs are still held: they may be promised
/// to a new Start, but are never counted as free.
///
/// A job that waits may leave the queue: JobHeld until JobReleased, JobCancelled for good. A job that holds GPUs gives
/// them up first; one batch may hold JobFailed and JobHeld or JobCancelled of one job, or JobSubmitted and JobHeld.
///
/// An elastic job changes its GPUs while it runs: Resize (decision) -> JobShrunk once the GPUs that it leaves are
/// confirmed free (only if it leaves any) -> JobResized once it runs on all the new ones.
///
/// A replica's life: StartReplica (decision) -> ReplicaReady -> serving; then keep-alive (protect: nobody may take its
/// GPUs), then sleep (lendable), until Serve or WakeReplica reuses it or StopReplica -> ReplicaStopped takes its GPUs.
/// An inference task (a job with JobKind::inference) is served by one replica: bound to it by StartReplica or Serve,
/// ended by JobFinished.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/cluster.h"
#include "ebb/model/job.h"
#include "ebb/model/reason.h"
#include "ebb/model/service.h"
#include "ebb/model/training.h"

namespace ebb {

struct JobSubmitted {
  JobId job = 0;
  JobSpec spec;
  bool operator==(const JobSubmitted&) const = default;
};

/// The gang holds its GPUs; useful work begins at `productive_at` (later than now by the resize cost).
struct JobStarted {
  JobId job = 0;
  Time productive_at{};
  bool operator==(const JobStarted&) const = default;
};

/// The last process of a preempted job is gone. `progress` = useful run time kept, over all incarnations.
struct JobStopped {
  JobId job = 0;
  Duration progress{};
  bool operator==(const JobStopped&) const = default;
};

/// The gang broke (node failure, crash); it waits again. `progress` = useful run time that survives.
struct JobFailed {
  JobId job = 0;
  Duration progress{};
  bool operator==(const JobFailed&) const = default;
};

/// A waiting training job leaves the queue until it is released: its owner holds it, a job that it depends on is not
/// done, or it backs off before a retry.
struct JobHeld {
  JobId job = 0;
  bool operator==(const JobHeld&) const = default;
};

/// A held job waits again, at the place that its order of submission gives.
struct JobReleased {
  JobId job = 0;
  bool operator==(const JobReleased&) const = default;
};

/// A waiting or held training job leaves for good: its owner does not want it any more, or it failed too often.
struct JobCancelled {
  JobId job = 0;
  bool operator==(const JobCancelled&) const = default;
};

/// The owner of a job that is not rigid wants this many GPUs, a legal size, instead of what it asked for before. A held
/// job starts on them; an elastic one that holds GPUs is resized, unless the policy sizes jobs by itself.
struct JobSizeAsked {
  JobId job = 0;
  GpuCount gpus = 0;
  bool operator==(const JobSizeAsked&) const = default;
};

/// `at`: when it ended, if the driver noticed later (it held its GPUs until now).
struct JobFinished {
  JobId job = 0;
  std::optional<Time> at;
  bool operator==(const JobFinished&) const = default;
};

/// The GPUs that a Resize took away are confirmed free.
struct JobShrunk {
  JobId job = 0;
  bool operator==(const JobShrunk&) const = default;
};

/// The job runs on the GPUs of its Resize; useful work goes on at `productive_at`.
struct JobResized {
  JobId job = 0;
  Time productive_at{};
  Duration progress{};  ///< useful run time kept, over all incarnations
  bool operator==(const JobResized&) const = default;
};

/// What a training job's runtime says of itself now and then. Everything is as of this report.
struct JobReport {
  JobId job = 0;
  Duration progress{};                         ///< useful run time done, in terms of JobSpec::run_time
  double speed = 1;                            ///< useful seconds gained a second while it is productive
  std::int32_t epoch = 0;                      ///< passes over the data completed
  double fraction_done = 0;                    ///< of all its epochs, counting whole and part ones; 0..1
  double steps_done = 0;                       ///< optimizer steps so far, as many as at the batch asked for
  GpuCount most_gpus = 0;                      ///< the largest size that it ever measured
  GradientStats gradient;                      ///< of this moment; 0, 0 = not known
  std::optional<ThroughputParams> throughput;  ///< fitted to what it measured
  bool operator==(const JobReport&) const = default;
};

struct ServiceAdded {
  ServiceId service = 0;
  ServiceSpec spec;
  bool operator==(const ServiceAdded&) const = default;
};

/// How many replicas the service needs from now on.
struct ServiceDemand {
  ServiceId service = 0;
  std::int32_t replicas = 0;
  bool operator==(const ServiceDemand&) const = default;
};

/// The replica serves: its start delay is over. A task bound to it begins now.
struct ReplicaReady {
  ReplicaId replica = 0;
  bool operator==(const ReplicaReady&) const = default;
};

/// The replica is gone (evicted, or broken) and its GPUs are confirmed free. A task bound to it waits again.
struct ReplicaStopped {
  ReplicaId replica = 0;
  bool operator==(const ReplicaStopped&) const = default;
};

struct NodeFailed {
  NodeId node = 0;
  bool operator==(const NodeFailed&) const = default;
};

struct NodeRepaired {
  NodeId node = 0;
  bool operator==(const NodeRepaired&) const = default;
};

/// Nothing new is placed on the node; what runs there runs on.
struct NodeDrained {
  NodeId node = 0;
  bool operator==(const NodeDrained&) const = default;
};

struct NodeUndrained {
  NodeId node = 0;
  bool operator==(const NodeUndrained&) const = default;
};

/// The answer to a PlanRequest.
struct PlanReady {
  std::uint64_t plan = 0;
  std::string answer;
  bool operator==(const PlanReady&) const = default;
};

/// Time passed: what was to happen by now can (a replica's keep-alive ended). Serving is looked after; no policy
/// decides.
struct Timer {
  bool operator==(const Timer&) const = default;
};

/// "Decide now." The driver sends it at every event, or at k x round only.
struct Tick {
  bool operator==(const Tick&) const = default;
};

using Event =
    std::variant<JobSubmitted, JobStarted, JobStopped, JobFailed, JobFinished, NodeFailed, NodeRepaired, NodeDrained,
                 NodeUndrained, PlanReady, JobShrunk, JobResized, JobReport, ServiceAdded, ServiceDemand, ReplicaReady,
                 ReplicaStopped, JobHeld, JobReleased, JobCancelled, JobSizeAsked, Timer, Tick>;

/// Start a gang on these GPUs. Where some are still held by a job being stopped, the driver launches it once they are
/// confirmed free.
struct Start {
  JobId job = 0;
  Allocation allocation;
  bool operator==(const Start&) const = default;
};

/// Stop a running job and put it back into the queue.
struct Preempt {
  JobId job = 0;
  bool operator==(const Preempt&) const = default;
};

/// The GPUs that an elastic job shall run on from now.
struct Target {
  JobId job = 0;
  Allocation allocation;
  bool operator==(const Target&) const = default;
};

/// Change the GPUs of running elastic jobs, all in one: the plan as a whole must fit, so that jobs may exchange GPUs.
struct Resize {
  std::vector<Target> targets;
  bool operator==(const Resize&) const = default;
};

/// Start a replica of a service on a node, for a waiting task if one is named. `keep_alive`: how long nobody may take
/// its GPUs after it served; nullopt: it is stopped at once. `warm`: one of this service was evicted a moment ago, so
/// that nothing needs to be loaded.
struct StartReplica {
  ReplicaId replica = 0;
  ServiceId service = 0;
  NodeShare place;
  std::optional<JobId> task;
  std::optional<Duration> keep_alive;
  bool warm = false;
  bool operator==(const StartReplica&) const = default;
};

/// Let a warm replica serve a waiting task, at once.
struct Serve {
  JobId task = 0;
  ReplicaId replica = 0;
  std::optional<Duration> keep_alive;
  bool operator==(const Serve&) const = default;
};

/// A warm replica of a service with a demand serves again, at once.
struct WakeReplica {
  ReplicaId replica = 0;
  bool operator==(const WakeReplica&) const = default;
};

/// A serving replica of a service with a demand is not needed now, or a warm one is kept for another time: from now on
/// it is kept alive for so long, then sleeps.
struct RestReplica {
  ReplicaId replica = 0;
  Duration keep_alive{};
  bool operator==(const RestReplica&) const = default;
};

/// Take the GPUs of a replica that neither serves nor is protected.
struct StopReplica {
  ReplicaId replica = 0;
  bool operator==(const StopReplica&) const = default;
};

/// The job can never run on this cluster; it leaves the queue.
struct Reject {
  JobId job = 0;
  Reason reason;
  bool operator==(const Reject&) const = default;
};

/// Work too long for a step. The driver runs the policy's planner on `input` elsewhere and sends PlanReady.
struct PlanRequest {
  std::uint64_t plan = 0;
  std::string input;
  bool operator==(const PlanRequest&) const = default;
};

using Decision = std::variant<Start, Preempt, Reject, PlanRequest, Resize, StartReplica, Serve, WakeReplica,
                              RestReplica, StopReplica>;

}  // namespace ebb
