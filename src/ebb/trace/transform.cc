#include "ebb/trace/transform.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "ebb/base/check.h"
#include "ebb/base/random.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr std::uint64_t kNanosPerHour = 3'600'000'000'000;

double gpu_hours_of(const JobSpec& job) {
  return to_seconds(job.run_time) * job.gpus / kSecondsPerHour;
}

// A factor within the limits is mantissa x 2^-shift with a mantissa of 53 bits; the shift is then 42 to 62, and a
// dividend of less than 2^62 shifted by it stays within 128 bits.
struct Divisor {
  std::uint64_t mantissa = 0;
  int shift = 0;
};

Divisor divisor_of(double factor) {
  int exponent = 0;
  const double fraction = std::frexp(factor, &exponent);  // in [0.5, 1)
  return {static_cast<std::uint64_t>(std::ldexp(fraction, 53)), 53 - exponent};
}

// dividend / divisor to the nearest integer, half up; nullopt above kMaxDuration.
std::optional<Duration> divide(Duration dividend, Divisor divisor) {
  EBB_CHECK(dividend >= Duration::zero() && dividend.count() < (std::int64_t{1} << 62));
  using Wide = unsigned __int128;
  const Wide scaled = static_cast<Wide>(dividend.count()) << divisor.shift;
  const Wide quotient = (scaled + divisor.mantissa / 2) / divisor.mantissa;
  if (quotient > static_cast<Wide>(kMaxDuration.count())) return std::nullopt;
  return Duration(static_cast<std::int64_t>(quotient));
}

Result<Workload> compress(const Workload& workload, double factor) {
  Workload scaled = workload;
  const Divisor divisor = divisor_of(factor);
  const Time first = workload.jobs.front().submit;
  for (JobSpec& job : scaled.jobs) {
    const auto offset = divide(job.submit - first, divisor);
    if (!offset || first.time_since_epoch() + *offset > kMaxDuration) {
      return fail(ErrorCode::invalid_argument,
                  "with load factor {} job {} would be submitted after more than 100 years", factor, shown(job.name));
    }
    job.submit = first + *offset;
  }
  return scaled;
}

Workload thin(const Workload& workload, double factor, Random& random) {
  Workload scaled;
  for (const JobSpec& job : workload.jobs) {
    if (random.uniform() < factor) scaled.jobs.push_back(job);
  }
  return scaled;
}

Workload multiply(const Workload& workload, double factor, Random& random) {
  Workload scaled;
  std::unordered_set<std::string> names;
  for (const JobSpec& job : workload.jobs) names.insert(job.name);
  const auto whole = static_cast<std::size_t>(factor);
  const double fraction = factor - static_cast<double>(whole);
  for (const JobSpec& job : workload.jobs) {
    scaled.jobs.push_back(job);
    const std::size_t copies = whole - 1 + (random.uniform() < fraction ? 1 : 0);
    std::size_t suffix = 0;
    for (std::size_t i = 0; i < copies; ++i) {
      JobSpec copy = job;
      do {
        copy.name = fmt::format("{}+{}", job.name, ++suffix);
      } while (!names.insert(copy.name).second);
      const Time shifted = job.submit + Duration(static_cast<std::int64_t>(random.below(kNanosPerHour)));
      copy.submit = std::min(shifted, Time(kMaxDuration));
      scaled.jobs.push_back(std::move(copy));
    }
  }
  sort_by_submission(scaled.jobs);
  return scaled;
}

}  // namespace

// std::stable_sort warns under clang with libstdc++ (its temporary buffer is deprecated): sort positions instead.
void sort_by_submission(std::vector<JobSpec>& jobs) {
  std::vector<std::pair<Time, std::size_t>> order;
  order.reserve(jobs.size());
  for (const JobSpec& job : jobs) order.emplace_back(job.submit, order.size());
  std::sort(order.begin(), order.end());
  std::vector<JobSpec> sorted;
  sorted.reserve(jobs.size());
  for (const auto& [submit, position] : order) sorted.push_back(std::move(jobs[position]));
  jobs = std::move(sorted);
}

WorkloadInfo info(const Workload& workload) {
  WorkloadInfo out;
  out.jobs = workload.jobs.size();
  if (out.jobs == 0) return out;
  out.first_submit = kEndOfTime;
  std::map<GpuCount, std::size_t> gangs;
  std::map<std::string_view, TenantShare> tenants;
  std::vector<Duration> run_times;
  run_times.reserve(out.jobs);
  std::size_t with_requested_time = 0;
  double run_seconds = 0;
  for (const JobSpec& job : workload.jobs) {
    ++gangs[job.gpus];
    out.gpu_hours += gpu_hours_of(job);
    out.first_submit = std::min(out.first_submit, job.submit);
    out.last_submit = std::max(out.last_submit, job.submit);
    run_times.push_back(job.run_time);
    run_seconds += to_seconds(job.run_time);
    with_requested_time += job.requested_time ? 1 : 0;
    TenantShare& tenant = tenants[job.tenant];
    ++tenant.jobs;
    tenant.gpu_hours += gpu_hours_of(job);
  }
  const auto n = static_cast<double>(out.jobs);
  out.gangs.assign(gangs.begin(), gangs.end());
  out.run_mean = duration_from_seconds(run_seconds / n).value_or(kMaxDuration);
  std::sort(run_times.begin(), run_times.end());
  // Nearest rank: element ceil(p x n), counted from 1.
  out.run_median = run_times[(out.jobs + 1) / 2 - 1];
  out.run_p99 = run_times[(out.jobs * 99 + 99) / 100 - 1];
  out.with_requested_time = static_cast<double>(with_requested_time) / n;
  for (auto& [name, tenant] : tenants) {
    tenant.tenant = name;
    tenant.share = out.gpu_hours > 0 ? tenant.gpu_hours / out.gpu_hours : static_cast<double>(tenant.jobs) / n;
    out.tenants.push_back(std::move(tenant));
  }
  std::sort(out.tenants.begin(), out.tenants.end(), [](const TenantShare& a, const TenantShare& b) {
    return a.gpu_hours != b.gpu_hours ? a.gpu_hours > b.gpu_hours : a.tenant < b.tenant;
  });
  return out;
}

std::optional<double> offered_load(const WorkloadInfo& info, GpuCount gpus) {
  const Duration span = info.last_submit - info.first_submit;
  if (span <= Duration::zero() || gpus < 1) return std::nullopt;
  return info.gpu_hours * kSecondsPerHour / (to_seconds(span) * gpus);
}

Result<Time> parse_time(const Workload& workload, std::string_view text) {
  if (text.find('-') == std::string_view::npos) {
    EBB_ASSIGN_OR_RETURN(const Duration duration, parse_duration(text));
    return Time(duration);
  }
  if (workload.time_zero.empty()) {
    return fail(ErrorCode::failed_precondition,
                "'{}': this trace has no dates; give a time from its time 0, such as 2d", text);
  }
  const std::string full = text.size() == 10 ? std::string(text) + " 00:00:00" : std::string(text);
  EBB_ASSIGN_OR_RETURN(const Time date, parse_timestamp(full));
  EBB_ASSIGN_OR_RETURN(const Time zero, parse_timestamp(workload.time_zero));
  return Time(date - zero);
}

Result<Workload> cut(const Workload& workload, const CutOptions& options) {
  Workload out;
  out.time_zero = workload.time_zero;
  out.warnings = workload.warnings;
  for (const JobSpec& job : workload.jobs) {
    if (options.first && out.jobs.size() >= *options.first) break;
    if (options.from && job.submit < *options.from) continue;
    if (options.to && job.submit >= *options.to) continue;
    out.jobs.push_back(job);
  }
  if (out.jobs.empty()) {
    const WorkloadInfo all = info(workload);
    return fail(ErrorCode::invalid_argument, "the cut leaves no job; the workload has {}, submitted from {} s to {} s",
                all.jobs, format_seconds(all.first_submit), format_seconds(all.last_submit));
  }
  if (options.shift) {
    const Duration shift = out.jobs.front().submit.time_since_epoch();
    for (JobSpec& job : out.jobs) job.submit -= shift;
    // A wall time that ebb cannot read, or that the shift moves out of range, would be wrong now.
    const auto zero = parse_timestamp(out.time_zero);
    const char separator = zero && out.time_zero.find('T') != std::string::npos ? 'T' : ' ';
    const std::string moved = zero ? format_timestamp(*zero + shift, separator) : "";
    out.time_zero = parse_timestamp(moved) ? moved : "";
  }
  return out;
}

Result<LoadMethod> parse_load_method(std::string_view name) {
  for (const LoadMethod method : {LoadMethod::compress, LoadMethod::sample}) {
    if (name == to_string(method)) return method;
  }
  return fail(ErrorCode::invalid_argument, "{} is not a way to scale the load: give compress or sample", shown(name));
}

const char* to_string(LoadMethod method) {
  return method == LoadMethod::compress ? "compress" : "sample";
}

Result<Workload> scale_load(const Workload& workload, double factor, LoadMethod method, std::uint64_t seed) {
  if (!(factor >= kMinLoadFactor && factor <= kMaxLoadFactor)) {
    return fail(ErrorCode::invalid_argument, "load factor {} is outside 1/1024 to 1024", factor);
  }
  if (workload.jobs.empty() || factor == 1) return workload;
  if (method == LoadMethod::compress) return compress(workload, factor);
  if (factor > 1 && static_cast<double>(workload.jobs.size()) * std::ceil(factor) > static_cast<double>(kMaxJobs)) {
    return fail(ErrorCode::resource_exhausted, "load factor {} would make more than {} jobs of {}", factor, kMaxJobs,
                workload.jobs.size());
  }
  Random random(seed, "trace.sample");
  Workload scaled = factor < 1 ? thin(workload, factor, random) : multiply(workload, factor, random);
  if (scaled.jobs.empty()) {
    return fail(ErrorCode::invalid_argument,
                "load factor {} leaves none of {} jobs; take another seed or cut a longer "
                "part of the trace",
                factor, workload.jobs.size());
  }
  scaled.time_zero = workload.time_zero;
  scaled.warnings = workload.warnings;
  return scaled;
}

}  // namespace ebb::trace
