#pragma once

/// Scenarios: one YAML file that says what to simulate (trace, cluster, policy and its options, rounds, resize cost),
/// what breaks (faults) and, where it pins a known result, what is expected. Every key is optional except `version`:
/// the command line may give or override the rest. docs/reference/scenarios.md describes every key.
///
/// Errors: file, line and column with what is wrong; an unknown key names the nearest known one. Files above 1 MiB are
/// refused. Functions are free of shared state: call them from any thread.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/model/service.h"

namespace ebb::spec {

/// A node that goes away at a known time.
struct NodeOutage {
  Time at{};
  std::uint32_t node = 0;         ///< index in the cluster
  std::optional<Duration> lasts;  ///< for good if not given
  bool drain = false;             ///< false: it fails, with what runs on it; true: nothing new is placed on it
  bool operator==(const NodeOutage&) const = default;
};

struct Faults {
  std::vector<NodeOutage> outages;              ///< in the order of the file
  std::optional<Duration> mtbf;                 ///< mean time between failures of one node (exponential), >= 1 s
  Duration mttr{};                              ///< mean time to repair after such a failure; given whenever mtbf is
  std::optional<Duration> checkpoint_interval;  ///< a failed job goes on from its last checkpoint; above 0
  bool operator==(const Faults&) const = default;
};

/// fractional: exact times. seconds: whole-second steps, as the simulators of some papers have them. polled: as
/// `seconds`, and what ended is noticed at the next round only; it holds its GPUs until then.
enum class TimeModel { fractional, seconds, polled };
const char* to_string(TimeModel model);
/// What times are multiples of.
Duration quantum_of(TimeModel model);

struct Scenario {
  std::optional<std::string> description;
  std::optional<std::string> trace;     ///< path, resolved against the scenario's folder
  std::optional<std::string> services;  ///< path of a services file (services.h), resolved as the trace's
  std::optional<std::string> profiles;  ///< path of the applications' profiles, resolved as the trace's
  std::optional<std::string> format;
  std::optional<std::string> cluster;  ///< as parse_cluster takes it (checked)
  std::optional<std::string> policy;
  std::optional<int> procs_per_gpu;
  std::vector<std::pair<std::string, std::string>> options;  ///< of the policy, in the order of the file
  std::optional<Duration> round;                             ///< above 0
  std::optional<std::string> resize_cost;                    ///< a duration, "restart", "afe" or "stop-free" (checked)
  std::optional<Lending> lending;
  std::optional<Duration> target_extra;  ///< longest wait of an inference task that still meets its target
  std::optional<TimeModel> time;
  std::optional<std::uint64_t> seed;
  Faults faults;
  std::vector<std::pair<std::string, double>> expect;  ///< figure and value, for example training.avg_jct_s
  bool operator==(const Scenario&) const = default;
};

Result<Scenario> read_scenario(const std::filesystem::path& path);
/// From text; `name` is the file for messages, and its folder the one that paths are relative to.
Result<Scenario> parse_scenario(std::string name, const std::string& text);

}  // namespace ebb::spec
