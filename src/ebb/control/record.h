#pragma once

/// The rows of the live journal. Three kinds, all one JSON object a line with `t` (nanoseconds since the cluster began)
/// and `type`:
///   - Beginning: the first row; everything beside later rows that the fold depends on
///   - Input: what came from outside, checked before it was accepted
///   - what follows from them and is journalled before anybody acts on it: events and decisions of the core
///     (trace/journal.h) and Intents
/// docs/reference/live-journal.md lists them.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/cluster.h"
#include "ebb/model/job_request.h"
#include "ebb/model/worker.h"
#include "ebb/wire/contract.h"

namespace ebb::control {

inline constexpr int kLiveJournalVersion = 1;

struct Beginning {
  std::int64_t epoch = 0;  ///< time 0 in nanoseconds of UTC since 1970
  ClusterSpec cluster;
  std::string policy;
  std::vector<std::pair<std::string, std::string>> options;
};

/// `request.array_size` jobs (one if it is 0), numbered from `first`.
struct JobAccepted {
  JobId first = 0;
  JobRequest request;
  std::string key;  ///< of idempotency; "" = none
};
struct CancelRequested {
  JobId job = 0;
};
struct HoldRequested {
  JobId job = 0;
};
struct ReleaseRequested {
  JobId job = 0;
};
struct DrainRequested {
  NodeId node = 0;
  bool on = true;
};
/// The back-off of the job is over.
struct RetryDue {
  JobId job = 0;
};
struct WorkerSaid {
  WorkerStatus status;
};
/// A worker reported by the contract: an answer, or now and then its progress.
struct WorkerReported {
  wire::WorkerReport report;
};
/// No answer to this revision of the job's target came in time.
struct TargetTimedOut {
  JobId job = 0;
  std::uint64_t revision = 0;
};
/// Its owner wants so many workers.
struct ResizeRequested {
  JobId job = 0;
  std::int32_t workers = 0;
};
/// From now on this policy decides.
struct PolicySet {
  std::string policy;
  std::vector<std::pair<std::string, std::string>> options;
};
/// The answer of the policy's planner to a PlanRequest.
struct PlanAnswered {
  std::uint64_t plan = 0;
  std::string answer;
};
using Input = std::variant<JobAccepted, CancelRequested, HoldRequested, ReleaseRequested, DrainRequested, RetryDue,
                           WorkerSaid, WorkerReported, TargetTimedOut, ResizeRequested, PolicySet, PlanAnswered>;

/// `worker` shall run with these slots.
struct StartRequested {
  WorkerId worker;
  NodeId node = 0;
  std::vector<std::int32_t> slots;
  std::uint64_t fence = 0;
  std::uint16_t port = 0;  ///< MASTER_PORT of its incarnation
};
struct StopRequested {
  WorkerId worker;
  std::string why;
};
/// The workers of the job shall be told that it runs on these from now on.
struct TargetRequested {
  JobId job = 0;
  std::uint64_t revision = 0;
  std::vector<WorkerId> members;
  Duration within{};
  std::string why;
};
using Intent = std::variant<StartRequested, StopRequested, TargetRequested>;

std::string encode(const Beginning& beginning);
std::string encode(Time at, const Input& input);
std::string encode(Time at, const Intent& intent);

/// Errors (of the three): internal, for what is no row that this ebb writes; unimplemented for a later version.
Result<Beginning> decode_beginning(std::string_view row);
Result<Time> time_of(std::string_view row);
/// Whether the row is an Input: decode_input() reads it.
bool is_input(std::string_view row);
Result<Input> decode_input(std::string_view row);

}  // namespace ebb::control
