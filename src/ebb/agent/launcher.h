#pragma once

/// Starts the shim of a worker: a process in a session of its own, with every signal that could end it blocked until it
/// looks for them, and no descriptor of the agent but /dev/null and its log. Any thread.

#include <sys/types.h>

#include <filesystem>

#include "ebb/agent/disk.h"
#include "ebb/agent/worker_folder.h"

namespace ebb::agent {

/// The shim's process id; the caller reaps it. Errors: unavailable with the system's reason.
Result<pid_t> launch_shim(const std::filesystem::path& program, const WorkerFolder& folder);

}  // namespace ebb::agent
