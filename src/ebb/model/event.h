#pragma once

/// Everything that the scheduler core hears (Event) and says (Decision). The state of the core is a fold of both, in
/// the order in which they are journalled. Several events may carry the same time; the batch ends with a Tick when a
/// decision is wanted (without rounds every batch has one).
///
/// A job's life: JobSubmitted, then per incarnation Start (decision) -> JobStarted, and one of JobFinished, JobFailed,
/// or Preempt (decision) -> JobStopped. Between Preempt and JobStopped the GPUs are still held: they may be promised
/// to a new Start, but are never counted as free.

#include <cstdint>
#include <string>
#include <variant>

#include "ebb/base/units.h"
#include "ebb/model/cluster.h"
#include "ebb/model/job.h"
#include "ebb/model/reason.h"

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

struct JobFinished {
  JobId job = 0;
  bool operator==(const JobFinished&) const = default;
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

/// "Decide now." The driver sends it at every event, or at k x round only.
struct Tick {
  bool operator==(const Tick&) const = default;
};

using Event = std::variant<JobSubmitted, JobStarted, JobStopped, JobFailed, JobFinished, NodeFailed, NodeRepaired,
                           NodeDrained, NodeUndrained, PlanReady, Tick>;

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

using Decision = std::variant<Start, Preempt, Reject, PlanRequest>;

}  // namespace ebb
