#pragma once

/// The command line of ebb as a testable function.

#include <string>
#include <vector>

#include "ebb/sched/registry.h"

namespace ebb::cli {

/// Where a command reads its surroundings and writes to.
struct Streams {
  std::FILE* out = nullptr;  ///< results
  std::FILE* err = nullptr;  ///< errors, warnings, progress
};

/// Exit codes of every command.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    ///< ran, but did not end well: a stalled run, an expectation not met, a defect
inline constexpr int kExitBadInput = 2;  ///< wrong usage, bad files, places that cannot be written

/// Runs `ebb ARGS...` (without the program's name) and returns its exit code. `check_invariants`: of every simulation,
/// for tests (sim::SimOptions).
int run(const std::vector<std::string>& args, const sched::Registry& registry, const Streams& streams,
        bool check_invariants = false);

}  // namespace ebb::cli
