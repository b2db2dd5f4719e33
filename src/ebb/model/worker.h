#pragma once

/// A worker: one process of one incarnation of a job, with the slots of one node that it holds. Its id is never reused
/// and it runs at most once, ever.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/job.h"

namespace ebb {

/// "j17-2-0": job 17, its second incarnation, worker 0. Safe as a file name.
using WorkerId = std::string;
WorkerId worker_id(JobId job, std::uint32_t incarnation, std::int32_t index);

/// All that a node agent needs to start a worker.
struct WorkerSpec {
  WorkerId id;
  NodeId node = 0;
  std::vector<std::int32_t> slots;       ///< of the node, ascending
  std::uint64_t fence = 0;               ///< larger than that of any earlier holder of any of these slots
  std::vector<std::string> command;      ///< program and arguments; looked up in PATH
  std::vector<std::string> environment;  ///< "NAME=value", complete but for what the agent knows (devices, sockets)
  std::string working_directory;
  std::optional<std::int64_t> memory_bytes;
  std::optional<Duration> time_limit;
  bool contract = false;  ///< it speaks the worker contract: its agent tells it how to connect
  Duration grace_time{};  ///< from SIGTERM to SIGKILL when the time limit or a lease ends
  bool operator==(const WorkerSpec&) const = default;
};

/// How a worker ended.
struct WorkerExit {
  enum class Cause : std::uint8_t {
    exited,         ///< by itself; `code` is its exit code
    signalled,      ///< by signal `code` that ebb did not send
    stopped,        ///< because it was told to (whatever its code)
    timed_out,      ///< at its time limit
    out_of_memory,  ///< killed at its memory limit
    fenced,         ///< its lease ran out
    not_started,    ///< it never ran: `message` says why
    lost,           ///< it may have run; its shim or machine is gone, and with it the exit code
  };
  Cause cause = Cause::exited;
  int code = 0;
  std::string message;
  bool ok() const { return cause == Cause::exited && code == 0; }
  bool operator==(const WorkerExit&) const = default;
};
const char* to_string(WorkerExit::Cause cause);
std::optional<WorkerExit::Cause> exit_cause_from(std::string_view name);
/// "exit code 3", "signal 11 (Segmentation fault)", "timed out", ...
std::string describe(const WorkerExit& exit);

/// What an agent says of a worker; `exit` once its processes are gone and their slots are free.
struct WorkerStatus {
  WorkerId id;
  std::int64_t pid = 0;  ///< 0 before it runs
  std::optional<WorkerExit> exit;
  bool operator==(const WorkerStatus&) const = default;
};

/// A part of what a worker wrote. Offsets count all that it ever wrote, also what is no longer kept.
struct LogChunk {
  std::uint64_t offset = 0;  ///< of its first byte: the one asked for, or that of the oldest byte that is kept
  std::string bytes;         ///< "" at the end
};

}  // namespace ebb
