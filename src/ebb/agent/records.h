#pragma once

/// The files of a worker as values: JSON to and from text. Errors: invalid_argument, saying what is wrong with it.
///   spec.json    Launch: all that the shim needs; written by the agent, before there is a shim
///   stop.json    the grace time of a stop that was asked for; by the agent
///   status.json  the process id of the command; by the shim
///   exit.json    how it ended; by the shim when all processes are gone, or by the agent for a worker that never ran or
///                that lost its shim
/// and `launched` (empty): the shim is about to run the command, once and for all; `lock`: held by the shim as long as
/// it lives (flock), its process id inside.

#include <string>
#include <string_view>
#include <vector>

#include "ebb/agent/cgroup.h"
#include "ebb/agent/log_file.h"
#include "ebb/model/worker.h"

namespace ebb::agent {

struct Launch {
  WorkerSpec worker;
  std::string agent;  ///< unique to the data folder; in the environment of the worker as EBB_AGENT_ID
  std::vector<std::string> environment;  ///< of the process, complete
  GroupPlan group;
  LogLimits logs;
  bool leased = false;  ///< ends when the deadline in the agent's file `lease` passes
  bool operator==(const Launch&) const = default;
};

/// Names of folders are made of worker ids: [a-z0-9-], 1 to 64 of them.
bool is_valid_worker_id(std::string_view id);

/// Also for text that JSON cannot hold: bytes that are not UTF-8.
Result<std::string> launch_to_json(const Launch& launch);
Result<Launch> launch_from_json(std::string_view text);

std::string exit_to_json(const WorkerId& worker, const WorkerExit& exit);
Result<WorkerExit> exit_from_json(std::string_view text);

std::string stop_to_json(Duration grace);
Result<Duration> stop_from_json(std::string_view text);

std::string status_to_json(std::int64_t pid);
Result<std::int64_t> status_from_json(std::string_view text);

/// The lease: a time of the boot clock.
std::string lease_to_json(Duration deadline);
Result<Duration> lease_from_json(std::string_view text);

/// The last holder of a slot that was accepted.
struct Fence {
  std::uint64_t number = 0;
  WorkerId worker;
  bool operator==(const Fence&) const = default;
};
/// By slot.
std::string fences_to_json(const std::vector<Fence>& fences);
Result<std::vector<Fence>> fences_from_json(std::string_view text);

}  // namespace ebb::agent
