#pragma once

/// Finding and ending processes without hitting a stranger whose number is the same. Any thread.

#include <sys/types.h>

#include <string>
#include <vector>

#include "ebb/agent/disk.h"

namespace ebb::agent {

/// A descriptor of the process, or none if there is no such process; readable once it ended.
Fd open_process(pid_t pid);
void signal_process(const Fd& process, int signal);

/// The children of this process, of its only thread. Nobody else can reap them: their numbers are safe to kill.
std::vector<pid_t> own_children();

/// True if it ended, or if there was none.
bool has_ended(const Fd& process);

/// SIGKILL to every process whose environment, as it was at its start, has all these entries ("NAME=value"). Those that
/// it was sent to; those of other users cannot be seen.
std::vector<Fd> kill_by_environment(const std::vector<std::string>& entries);

}  // namespace ebb::agent
