#pragma once

/// What one does to a workload before simulating it: look at it, cut a part out, make it heavier or lighter.
/// Everything is deterministic: random choices come from the seed given. Pure functions, callable from any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/workload.h"

namespace ebb::trace {

struct TenantShare {
  std::string tenant;
  std::size_t jobs = 0;
  double gpu_hours = 0;
  double share = 0;  ///< of all GPU-hours, 0..1; of all jobs if no job has a run time
};

struct WorkloadInfo {
  std::size_t jobs = 0;
  std::vector<std::pair<GpuCount, std::size_t>> gangs;  ///< gang size and how many jobs have it, by size
  double gpu_hours = 0;                                 ///< sum of GPUs x run time
  Time first_submit{};
  Time last_submit{};
  Duration run_mean{};
  Duration run_median{};             ///< nearest rank: the smallest run time that half of the jobs do not exceed
  Duration run_p99{};                ///< nearest rank
  std::vector<TenantShare> tenants;  ///< most GPU-hours first, then by name
  double with_requested_time = 0;    ///< share of jobs, 0..1
};

WorkloadInfo info(const Workload& workload);

/// GPU-seconds asked for over GPU-seconds that `gpus` GPUs offer from first to last submission. nullopt where that
/// time is zero.
std::optional<double> offered_load(const WorkloadInfo& info, GpuCount gpus);

/// Sorts by submission; jobs with the same time keep their order.
void sort_by_submission(std::vector<JobSpec>& jobs);

/// A point of time in a workload: a duration from its time 0 ("2d"), or, where it is dated, a date or date and time
/// ("2024-03-01", "2024-03-01 08:00:00"). Errors: invalid_argument; failed_precondition for a date and no time_zero.
Result<Time> parse_time(const Workload& workload, std::string_view text);

struct CutOptions {
  std::optional<Time> from;          ///< jobs submitted at or after this
  std::optional<Time> to;            ///< and before this
  std::optional<std::size_t> first;  ///< and of those only the first N
  bool shift = false;                ///< make the first submission that is left time 0 (moves time_zero along)
};

/// Errors: invalid_argument if no job is left, with the range of submissions there is.
Result<Workload> cut(const Workload& workload, const CutOptions& options);

enum class LoadMethod { compress, sample };
/// "compress" or "sample". Errors: invalid_argument listing both.
Result<LoadMethod> parse_load_method(std::string_view name);
const char* to_string(LoadMethod method);

/// The smallest and the largest factor of scale_load.
inline constexpr double kMinLoadFactor = 1.0 / 1024;
inline constexpr double kMaxLoadFactor = 1024;

/// A workload with `factor` times the load; 1 changes nothing.
///
/// compress: every time between arrivals is divided by the factor: submit' = first + (submit - first) / factor. The
///   quotient is exact (128-bit integers, the factor taken as the binary fraction that a double is) and rounded to the
///   nearest nanosecond, half up, so that no rounding adds up along the trace.
/// sample: below 1, each job stays with probability `factor`. Above 1, each job appears floor(factor) times and once
///   more with the probability of the fraction; further copies are called `name+1`, `name+2`, ... (skipping names that
///   are taken) and are submitted later by a uniform draw of less than an hour. The result is sorted by submission.
///
/// Errors: invalid_argument for a factor outside the limits, if no job is left, or if a time would pass 100 years;
/// resource_exhausted above 20,000,000 jobs.
Result<Workload> scale_load(const Workload& workload, double factor, LoadMethod method, std::uint64_t seed);

}  // namespace ebb::trace
