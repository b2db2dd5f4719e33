#pragma once

/// Starts the command of a worker: fork, and between fork and exec only what is safe there.
///
/// The child: dies with its parent (PR_SET_PDEATHSIG), leads a session of its own, enters its control groups, has
/// default signal handling, /dev/null to read from and pipes to write to. What goes wrong there comes back through
/// `failure` as a StartFailure; nothing comes, only the end of the pipe, once the program runs.

#include <sys/types.h>

#include <string>
#include <vector>

#include "ebb/agent/disk.h"
#include "ebb/model/worker.h"

namespace ebb::agent {

struct RunningCommand {
  pid_t pid = 0;
  Fd out;  ///< not blocking, like `err`
  Fd err;
  Fd failure;
};

struct StartFailure {
  enum class Stage : int { group, folder, streams, program } stage = Stage::program;
  int error = 0;  ///< errno
};

/// `groups`: cgroup.procs files. Errors: resource_exhausted if the system has no process or descriptor left.
Result<RunningCommand> start_command(const WorkerSpec& worker, const std::vector<std::string>& environment,
                                     const std::vector<Fd>& groups);

/// For an operator: "program 'trian.py' was not found in PATH (/usr/bin:/bin)".
std::string describe(const StartFailure& failure, const WorkerSpec& worker,
                     const std::vector<std::string>& environment);

}  // namespace ebb::agent
