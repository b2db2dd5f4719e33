#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/job_columns.h"
#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

tl::unexpected<Error> cannot_hold(const JobSpec& job, std::string_view what, Format format) {
  return fail(ErrorCode::invalid_argument, "job {} has {}, which the {} format cannot hold; write ebb-csv or ebb-jsonl",
              shown(job.name), what, to_string(format));
}

/// What no foreign format here has a column for, although it decides where and when a job runs.
Result<void> check_foreign(const JobSpec& job, Format format) {
  if (job.priority != 0) return cannot_hold(job, fmt::format("priority {}", job.priority), format);
  if (!job.gpu_type.empty()) return cannot_hold(job, fmt::format("GPU type '{}'", job.gpu_type), format);
  if (!job.pool.empty()) return cannot_hold(job, fmt::format("pool '{}'", job.pool), format);
  if (job.kind != JobKind::training) return cannot_hold(job, fmt::format("kind {}", to_name(job.kind)), format);
  if (job.sizing != Sizing::rigid) return cannot_hold(job, fmt::format("sizing {}", to_string(job.sizing)), format);
  if (!job.application.empty()) return cannot_hold(job, fmt::format("application '{}'", job.application), format);
  return {};
}

bool whole_seconds(Duration d) {
  return d % std::chrono::seconds(1) == Duration::zero();
}

std::int64_t seconds_of(Duration d) {
  return d / std::chrono::seconds(1);
}

Result<std::string> write_ebb_csv(const Workload& workload) {
  std::string out = "# ebb-trace v1\n";
  if (!workload.time_zero.empty()) out += fmt::format("# time_zero: {}\n", workload.time_zero);
  out += "job,submit_s,run_s,gpus,tenant,priority,requested_s,gpu_type,pool";
  std::vector<const JobColumn*> further;  // those that some job needs
  for (const JobColumn& column : job_columns()) {
    const auto needs = [&](const JobSpec& job) { return !column.get(job).empty(); };
    if (std::any_of(workload.jobs.begin(), workload.jobs.end(), needs)) further.push_back(&column);
  }
  for (const JobColumn* column : further) out += fmt::format(",{}", column->name);
  out += '\n';
  for (const JobSpec& job : workload.jobs) {
    append_field(out, job.name);
    fmt::format_to(std::back_inserter(out), ",{},{},{},", format_seconds(job.submit), format_seconds(job.run_time),
                   job.gpus);
    append_field(out, job.tenant);
    fmt::format_to(std::back_inserter(out), ",{},{},", job.priority,
                   job.requested_time ? format_seconds(*job.requested_time) : "");
    append_field(out, job.gpu_type);
    out += ',';
    append_field(out, job.pool);
    for (const JobColumn* column : further) {
      out += ',';
      append_field(out, column->get(job));
    }
    out += '\n';
  }
  return out;
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump();  // check_job has seen to it that this is UTF-8
}

Result<std::string> write_ebb_jsonl(const Workload& workload) {
  std::string out = R"({"format":"ebb-trace","version":1)";
  if (!workload.time_zero.empty()) out += fmt::format(R"(,"time_zero":{})", json_string(workload.time_zero));
  out += "}\n";
  for (const JobSpec& job : workload.jobs) {
    fmt::format_to(std::back_inserter(out), R"({{"job":{},"submit_s":{},"run_s":{},"gpus":{})", json_string(job.name),
                   format_seconds(job.submit), format_seconds(job.run_time), job.gpus);
    if (!job.tenant.empty()) out += fmt::format(R"(,"tenant":{})", json_string(job.tenant));
    if (job.priority != 0) out += fmt::format(R"(,"priority":{})", job.priority);
    if (job.requested_time) out += fmt::format(R"(,"requested_s":{})", format_seconds(*job.requested_time));
    if (!job.gpu_type.empty()) out += fmt::format(R"(,"gpu_type":{})", json_string(job.gpu_type));
    if (!job.pool.empty()) out += fmt::format(R"(,"pool":{})", json_string(job.pool));
    for (const JobColumn& column : job_columns()) {
      const std::string value = column.get(job);
      if (value.empty()) continue;
      out += fmt::format(R"(,"{}":{})", column.name, column.is_text ? json_string(value) : value);
    }
    out += "}\n";
  }
  return out;
}

Result<std::string> write_tiresias(const Workload& workload) {
  std::string out = "job_id,num_gpu,submit_time,duration\n";
  for (const JobSpec& job : workload.jobs) {
    EBB_RETURN_IF_ERROR(check_foreign(job, Format::tiresias));
    append_field(out, job.name);
    fmt::format_to(std::back_inserter(out), ",{},{},{}\n", job.gpus, format_seconds(job.submit),
                   format_seconds(job.run_time));
  }
  return out;
}

Result<std::string> write_philly(const Workload& workload) {
  const auto zero = parse_timestamp(workload.time_zero);
  if (!zero) {
    return fail(ErrorCode::invalid_argument,
                "the philly format has dates, but the workload has none ({}); write ebb-csv or tiresias",
                workload.time_zero.empty() ? "its times are relative" : zero.error().message);
  }
  std::string out = "timestamp,duration,num_gpus,gpu_time,cluster\n";
  for (const JobSpec& job : workload.jobs) {
    EBB_RETURN_IF_ERROR(check_foreign(job, Format::philly));
    const Time submit = *zero + job.submit.time_since_epoch();
    const std::string timestamp = format_timestamp(submit, ' ');
    if (!parse_timestamp(timestamp)) return cannot_hold(job, "a submission after 2069", Format::philly);
    // GPU-seconds fit: 100 years x 1,000,000 GPUs in whole seconds is 3e15.
    const double gpu_time = to_seconds(job.run_time) * job.gpus;
    fmt::format_to(std::back_inserter(out), "{},{},{},{},", timestamp, format_seconds(job.run_time), job.gpus,
                   gpu_time);
    append_field(out, job.tenant);
    out += '\n';
  }
  return out;
}

/// The number in `user<id>`, -1 for other tenants.
std::int64_t user_id(std::string_view tenant) {
  if (!tenant.starts_with("user")) return -1;
  const auto id = parse_integer(tenant.substr(4), 0, INT64_MAX);
  return id && fmt::format("user{}", *id) == tenant ? *id : -1;
}

Result<std::string> write_swf(const Workload& workload) {
  std::string out = "; Version: 2.2\n";
  if (const auto zero = parse_timestamp(workload.time_zero)) {
    out += fmt::format("; UnixStartTime: {}\n", seconds_of(zero->time_since_epoch()));
  }
  out += "; Note: processors are GPUs\n";
  for (const JobSpec& job : workload.jobs) {
    EBB_RETURN_IF_ERROR(check_foreign(job, Format::swf));
    const auto number = parse_integer(job.name, 0, INT64_MAX);
    if (!number || fmt::format_int(*number).str() != job.name) {
      return cannot_hold(job, "a name that is not a number", Format::swf);
    }
    if (!whole_seconds(job.submit.time_since_epoch()) || !whole_seconds(job.run_time) ||
        (job.requested_time && !whole_seconds(*job.requested_time))) {
      return cannot_hold(job, "times with fractions of a second", Format::swf);
    }
    fmt::format_to(std::back_inserter(out), "{} {} -1 {} {} -1 -1 {} {} -1 -1 {} -1 -1 -1 -1 -1 -1\n", *number,
                   seconds_of(job.submit.time_since_epoch()), seconds_of(job.run_time), job.gpus, job.gpus,
                   job.requested_time ? seconds_of(*job.requested_time) : -1, user_id(job.tenant));
  }
  return out;
}

}  // namespace

Result<std::string> write_workload_text(const Workload& workload, Format format) {
  if (workload.jobs.empty()) return fail(ErrorCode::invalid_argument, "the workload has no jobs to write");
  if (!workload.services.empty()) {
    return fail(ErrorCode::invalid_argument, "the workload has services, which no format of a trace holds");
  }
  if (auto ok = check_text(workload.time_zero); !ok) {
    return fail(ErrorCode::invalid_argument, "time_zero {}", ok.error().message);
  }
  for (const JobSpec& job : workload.jobs) EBB_RETURN_IF_ERROR(check_job(job));
  switch (format) {
    case Format::tiresias:
      return write_tiresias(workload);
    case Format::philly:
      return write_philly(workload);
    case Format::swf:
      return write_swf(workload);
    case Format::ebb_csv:
      return write_ebb_csv(workload);
    case Format::ebb_jsonl:
      return write_ebb_jsonl(workload);
    case Format::sacct:
    case Format::pollux:
    case Format::deepboot:
      break;
  }
  return fail(ErrorCode::invalid_argument,
              "the {} format can be read but not written; write ebb-csv, ebb-jsonl, tiresias, philly or swf",
              to_string(format));
}

Result<void> write_workload(const std::filesystem::path& path, const Workload& workload, Format format) {
  EBB_ASSIGN_OR_RETURN(const std::string text, write_workload_text(workload, format));
  return write_file_atomically(path, text);
}

}  // namespace ebb::trace
