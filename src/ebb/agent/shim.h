#pragma once

/// ebb-shim: the parent of one worker's processes. It outlives agents and controllers.
///
///   1. takes the lock of the folder; leaves if the command was launched before
///   2. takes the disk space for status.json and exit.json, makes the control groups, marks the folder `launched`
///   3. starts the command; copies its output to log files; status.json says its process id
///   4. ends it when it is told to (SIGTERM, with stop.json), at its time limit, and when its lease has passed: SIGTERM
///   to
///      its process group, SIGKILL to all that is left after the grace time. When the command ends by itself, what it
///      leaves behind is killed at once
///   5. when all processes are gone, as child subreaper it knows, writes exit.json and lets the lock go
///
/// Its own words go to stderr, which the agent leads to shim.log. One thread; the process is its own.

#include <filesystem>

namespace ebb::agent {

/// The whole life of a shim; returns the exit code of the process. `folder`: of the worker, absolute.
int run_shim(const std::filesystem::path& folder);

}  // namespace ebb::agent
