#pragma once

/// What the public API says (docs/reference/api.md): plain values, the same for server and clients. api_json.h turns
/// them into JSON and back; keys are the names of the fields.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/job_request.h"
#include "ebb/model/worker.h"
#include "ebb/wire/contract.h"

namespace ebb::wire {

/// Where a job is in its life, for people.
enum class JobStatus : std::uint8_t {
  held,         ///< until released
  blocked,      ///< by a dependency
  backing_off,  ///< before a retry
  waiting,      ///< in the queue
  starting,     ///< its workers are being started
  running,
  stopping,   ///< its workers were told to end
  completed,  ///< every worker exited with 0
  failed,
  cancelled,
};
const char* to_string(JobStatus status);
std::optional<JobStatus> job_status_from(std::string_view name);
/// It will not change any more.
bool ended(JobStatus status);

struct WorkerView {
  WorkerId id;
  std::int32_t rank = 0;
  std::string node;
  std::vector<std::int32_t> slots;
  std::int64_t pid = 0;
  std::optional<WorkerExit> exit;
};

struct JobView {
  JobId id = 0;
  std::string name;
  std::string tenant;
  JobStatus status = JobStatus::waiting;
  std::string reason;  ///< why it waits, or how it failed; "" if there is nothing to say
  GpuCount gpus = 0;   ///< that it has; asked for, if it has none
  std::uint32_t incarnations = 0;
  std::uint32_t retries = 0;    ///< of max_retries
  Time submitted{};             ///< all times: nanoseconds of UTC since 1970
  std::optional<Time> started;  ///< of its latest incarnation
  std::optional<Time> ended;
  std::optional<int> exit_code;  ///< once it ended: 0, that of the first worker that failed, 128 + signal
};

struct JobDetail {
  JobView job;
  JobRequest request;
  std::vector<WorkerView> workers;   ///< of its latest incarnation
  bool resizing = false;             ///< its GPUs are being changed
  std::uint64_t revision = 0;        ///< of the target that its workers were told last (contract); 0 = none
  std::uint64_t generation = 0;      ///< that they said at the last switch
  std::optional<Progress> progress;  ///< as its workers said lately
};

/// Why a job waits, in full.
struct Explanation {
  JobView job;
  std::string code;  ///< of model/reason.h, or held, blocked, backing_off
  std::string sentence;
  std::optional<std::uint32_t> position;  ///< in the order of submission among waiting jobs, from 1
  std::optional<Time> expected_start;     ///< by a forecast (sched/forecast.h); nullopt: there is none
  std::string basis;                      ///< what it rests on, or why there is none
};

struct NodeView {
  std::string name;
  std::string state;  ///< "up", "down"; "draining" if nothing new is placed there
  GpuCount gpus = 0;
  GpuCount held = 0;
  std::string gpu_type;
};

struct PolicyView {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;
};

/// What would come of the jobs that are there, by a forecast.
struct Outlook {
  struct Job {
    JobId id = 0;
    std::string name;
    std::optional<Time> start;  ///< of one that waits
    std::optional<Time> end;
  };
  std::string policy;
  std::vector<Job> jobs;              ///< active ones, in order of their numbers
  std::optional<Duration> mean_wait;  ///< from submission to the forecast start, of those that wait and will start
  std::optional<Duration> mean_jct;   ///< from submission to the forecast end, of those that will end
  std::optional<Time> all_done;       ///< nullopt: not all end within the forecast
};

/// A question: the same jobs under another policy, or with one more.
struct WhatIf {
  std::optional<PolicyView> policy;
  std::optional<JobRequest> job;
};

/// What the owner of a token may do (control/access.h).
enum class Role : std::uint8_t { viewer, user, admin };
const char* to_string(Role role);
std::optional<Role> role_from(std::string_view name);

struct TokenView {
  std::string name;
  Role role = Role::viewer;
  std::string tenant;  ///< "" = bound to none
};

/// A row of the journal.
struct EventView {
  std::uint64_t seq = 0;
  std::string json;
};

}  // namespace ebb::wire
