#include "ebb/sim/output.h"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "ebb/base/files.h"

namespace ebb::sim {

nlohmann::ordered_json summary_json(const Summary& summary) {
  nlohmann::ordered_json json;
  json["jobs_total"] = summary.jobs_total;
  json["jobs_completed"] = summary.jobs_completed;
  json["jobs_impossible"] = summary.jobs_impossible;
  json["training"] = {{"count", summary.training.count},
                      {"avg_jct_s", summary.training.avg_s},
                      {"p50_jct_s", summary.training.p50_s},
                      {"p99_jct_s", summary.training.p99_s}};
  json["queue"] = {{"avg_pending_s", summary.queue.avg_s},
                   {"p50_pending_s", summary.queue.p50_s},
                   {"p99_pending_s", summary.queue.p99_s}};
  const InferenceFigures& inference = summary.inference;
  json["inference"] = {{"count", inference.count},
                       {"avg_extra_s", inference.avg_extra_s},
                       {"p99_extra_s", inference.p99_extra_s},
                       {"requests", inference.requests},
                       {"in_target_share", inference.in_target_share}};
  const LoanFigures& loans = summary.loans;
  json["loans"] = {{"count", loans.count},
                   {"gpu_seconds", loans.gpu_seconds},
                   {"reclaims", loans.reclaims},
                   {"reclaim_p50_s", loans.reclaim_p50_s},
                   {"reclaim_p99_s", loans.reclaim_p99_s},
                   {"forced", loans.forced},
                   {"late", loans.late}};
  const GpuSeconds& states = summary.gpu_seconds_by_state;
  json["gpu_seconds_by_state"] = {{"training", states.training}, {"resizing", states.resizing},
                                  {"starting", states.starting}, {"serving", states.serving},
                                  {"protected", states.protect}, {"sleeping", states.sleeping},
                                  {"idle", states.idle}};
  const ProfileLookups& lookups = summary.profile_lookups;
  json["profile_lookups"] = {{"count", lookups.count}, {"clamped", lookups.clamped}, {"fitted", lookups.fitted}};
  json["makespan_s"] = summary.makespan_s;
  json["utilisation"] = summary.utilisation;
  json["gpu_seconds"] = summary.gpu_seconds;
  json["restarts"] = summary.restarts;
  json["preemptions"] = summary.preemptions;
  json["max_rho"] = summary.max_rho;
  json["warnings"] = summary.warnings;
  return json;
}

Result<double> figure(const Summary& summary, const std::string& path) {
  const nlohmann::ordered_json json = summary_json(summary).flatten();
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  const auto found = json.find(pointer);
  if (found != json.end() && found->is_number()) return found->get<double>();
  std::vector<std::string> known;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_number()) continue;
    known.push_back(key.substr(1));
    std::replace(known.back().begin(), known.back().end(), '/', '.');
  }
  return fail(ErrorCode::not_found, "no figure is called '{}'; known: {}", path, fmt::join(known, ", "));
}

namespace {

void append_csv_field(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

}  // namespace

Result<void> write_jobs_csv(const std::filesystem::path& path, const SimResult& result) {
  EBB_ASSIGN_OR_RETURN(FileWriter file, FileWriter::create(path));
  std::string line = "job,kind,submit_s,start_s,end_s,jct_s,pending_s,gpu_seconds,restarts,reason\n";
  for (const JobRecord& job : result.jobs) {
    file.write(line);
    line.clear();
    append_csv_field(line, job.name);
    fmt::format_to(std::back_inserter(line), ",{},{},{},{},{},{},{},{},{}\n",
                   job.kind == JobKind::training ? "training" : "inference", format_seconds(job.submit),
                   job.start ? format_seconds(*job.start) : "", job.end ? format_seconds(*job.end) : "",
                   job.end ? format_seconds(*job.jct()) : "", format_seconds(job.pending), job.gpu_seconds,
                   job.restarts, job.reason);
  }
  file.write(line);
  return file.close();
}

RunCost RunCost::of_process(double started_s) {
  RunCost cost;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  cost.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  cost.peak_rss_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  cost.wall_s = monotonic_seconds() - started_s;
  return cost;
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ebb::sim
