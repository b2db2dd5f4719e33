#pragma once

/// Internal: what to simulate, put together from a scenario file or a preset and the flags beside it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/cli/command.h"
#include "ebb/model/workload.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/scenario.h"

namespace ebb::cli {

/// What holds where neither flags nor scenario or preset say anything.
struct SimDefaults {
  std::string policy;
  std::string round;
  std::string resize_cost = "0";
  std::string lending = "none";
  std::vector<std::string> set;
};

/// The flags that the commands of `sim` have in common, as typed.
struct SimFlags {
  SimDefaults defaults;
  std::string scenario;
  std::string preset;
  std::string trace;
  std::string format;
  std::optional<int> procs_per_gpu;
  bool skip_bad_rows = false;
  bool skip_impossible = false;
  std::string cluster;
  std::vector<std::string> set;
  std::string round;
  std::string resize_cost;
  std::string lending;
  std::string services;
  std::string profiles;
  std::string target_extra;
  std::string time;
  std::optional<std::uint64_t> seed;
  std::string out;
  bool force = false;
  bool json = false;
  std::string progress = "auto";

  void add_to(CLI::App& command);
};

struct SimSetup {
  ClusterSpec cluster;
  Workload workload;
  sim::SimOptions options;
  std::vector<std::pair<std::string, double>> expect;
};

/// Errors: invalid_argument or not_found naming flag or key and what to do; those of reading scenario and trace.
/// `policy`: the flag, "" if not given. Warnings about the trace go to the context's error stream.
Result<SimSetup> make_setup(const SimFlags& flags, const std::string& policy, const Context& context);

}  // namespace ebb::cli
