#pragma once

/// The command line of ebb as a testable function.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/sched/registry.h"

namespace ebb::cli {

/// Where a command reads its surroundings and writes to.
struct Streams {
  std::FILE* out = nullptr;  ///< results
  std::FILE* err = nullptr;  ///< errors, warnings, progress
};

/// `ebb up`.
struct UpOptions {
  std::string data_folder;
  std::uint16_t port = 0;  ///< 0 = any free one
  std::optional<std::int32_t> slots;
  std::string policy;                                    ///< "" = backfill, or what the cluster has
  std::vector<std::pair<std::string, std::string>> set;  ///< options of the policy
  std::string log_format = "text";
  std::string log_level = "info";
  double requests_per_second = 1'000;  ///< of one token
};

/// What commands run that is composed elsewhere (apps).
struct Programs {
  std::function<Result<void>(const UpOptions&, const Streams&)> up;
  /// Of the journal of a data folder: copies it into a file, makes a folder of such a file, checks it (number of rows).
  std::function<Result<void>(const std::string& folder, const std::string& file)> backup;
  std::function<Result<void>(const std::string& file, const std::string& folder)> restore;
  std::function<Result<std::uint64_t>(const std::string& folder)> verify;
};

/// Exit codes of every command.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    ///< ran, but did not end well: a stalled run, an expectation not met, a defect
inline constexpr int kExitBadInput = 2;  ///< wrong usage, bad files, places that cannot be written

/// Runs `ebb ARGS...` (without the program's name) and returns its exit code. `check_invariants`: of every simulation,
/// for tests (sim::SimOptions).
int run(const std::vector<std::string>& args, const sched::Registry& registry, const Streams& streams,
        const Programs& programs = {}, bool check_invariants = false);

}  // namespace ebb::cli
