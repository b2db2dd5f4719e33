#pragma once

/// The files and JSON objects that runs leave: docs/reference/figures.md and docs/reference/outputs.md specify them.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/sim/result.h"

namespace ebb::sim {

/// Version of summary.json and of what --json prints.
inline constexpr int kSummaryVersion = 1;

/// The figures of a run, without schema_version.
nlohmann::ordered_json summary_json(const Summary& summary);

/// A figure by its path in the JSON object, for example "training.avg_jct_s". Errors: not_found listing the figures.
Result<double> figure(const Summary& summary, const std::string& path);

/// jobs.csv: job,kind,submit_s,start_s,end_s,jct_s,pending_s,gpu_seconds,restarts,reason.
Result<void> write_jobs_csv(const std::filesystem::path& path, const SimResult& result);

/// What running cost and with what it ran: run.json. Not part of what is compared byte by byte.
struct RunCost {
  double cpu_s = 0;
  double wall_s = 0;
  std::int64_t peak_rss_bytes = 0;

  /// Of this process since its start; wall time since `started_s` on the monotonic clock.
  static RunCost of_process(double started_s);
};
/// Seconds on the monotonic clock.
double monotonic_seconds();

}  // namespace ebb::sim
