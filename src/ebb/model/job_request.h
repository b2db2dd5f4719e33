#pragma once

/// A job as its owner submits it to a cluster: what to run, with what, and how often. `spec/job_file.h` reads it from
/// YAML or JSON; the scheduler core sees the JobSpec that spec_of() makes of it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/job.h"

namespace ebb {

struct Dependency {
  enum class When : std::uint8_t {
    after_ok,   ///< it completed; if it ended in any other way, this job is cancelled
    after_any,  ///< it ended, in whatever way
  };
  JobId job = 0;
  When when = When::after_ok;
  bool operator==(const Dependency&) const = default;
};
const char* to_string(Dependency::When when);

/// How a job changes its number of workers while it runs.
enum class Elasticity : std::uint8_t {
  none,      ///< it does not
  restart,   ///< its workers are ended (SIGTERM, grace time) and started again, as many as it has GPUs for
  contract,  ///< its workers are told, and switch without a stop (docs/reference/worker-contract.md)
};
const char* to_string(Elasticity elasticity);
std::optional<Elasticity> elasticity_from(std::string_view name);

struct JobRequest {
  std::string name;
  std::vector<std::string> command;                ///< program and arguments; no shell
  std::map<std::string, std::string> environment;  ///< added to what ebb sets
  std::string working_directory;                   ///< absolute
  std::string tenant;
  int priority = 0;
  std::int32_t workers = 1;      ///< processes, started and ended together; of an elastic job as many as it wants
  std::int32_t min_workers = 0;  ///< > 0: it also runs on fewer or more: min, min + step, ... up to max
  std::int32_t max_workers = 0;
  std::int32_t worker_step = 1;
  Elasticity elasticity = Elasticity::none;
  Duration resize_timeout = std::chrono::minutes(10);  ///< contract: for joining workers to be ready and switched to
  std::string checkpoint_folder;                       ///< told to its workers; "" = none
  GpuCount gpus_per_worker = 1;                        ///< GPUs, or CPU slots on machines without GPUs
  std::optional<std::int64_t> memory_bytes;            ///< of each worker; more is killed as out of memory
  std::string gpu_type;                                ///< "" = any
  std::string node;                                    ///< run on this node only; "" = any
  std::optional<Duration> time_limit;                  ///< of each run; longer ones are ended as timed out
  Duration grace_time = std::chrono::seconds(10);      ///< from SIGTERM to SIGKILL
  std::int32_t max_retries = 0;  ///< further runs after failures of the job itself (not of the machine)
  Duration retry_backoff = std::chrono::seconds(1);  ///< before the first; doubles each time
  std::int32_t array_size = 0;                       ///< > 0: so many jobs, told apart by EBB_ARRAY_INDEX
  std::vector<Dependency> dependencies;
  bool hold = false;  ///< wait until released
  bool operator==(const JobRequest&) const = default;
};

/// Limits of a request; larger ones are refused when it is read.
inline constexpr std::int32_t kMaxWorkers = 65'536;
inline constexpr std::int32_t kMaxRetries = 1'000;
inline constexpr std::int32_t kMaxArraySize = 100'000;

/// What the scheduler core is told of it: workers x gpus_per_worker, rigid, or if it has a range of workers moldable or
/// elastic.
JobSpec spec_of(const JobRequest& request, Time submit);

}  // namespace ebb
