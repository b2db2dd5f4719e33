#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "ebb/cli/command.h"
#include "ebb/cli/validators.h"
#include "ebb/perf/profile.h"
#include "ebb/sim/resolve.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/transform.h"
#include "ebb/trace/workload.h"

namespace ebb::cli {
namespace {

/// How to read the trace that a command works on.
struct Input {
  std::string path;
  std::string format;
  int procs_per_gpu = 1;
  bool skip_bad_rows = false;

  void add_to(CLI::App& command) {
    command.add_option("trace", path, "The trace; may be gzipped")->required();
    command.add_option("--format", format,
                       "tiresias, philly, swf, sacct, pollux, deepboot, ebb-csv or ebb-jsonl; recognised if not given");
    command.add_option("--procs-per-gpu", procs_per_gpu, "swf: processors that count as one GPU (default 1)")
        ->check(CLI::Range(1, 100'000));
    command.add_flag("--skip-bad-rows", skip_bad_rows, "Leave out and count rows that cannot be read");
  }

  Result<trace::ReadResult> read(const Context& context) const {
    trace::ReadOptions options;
    if (!format.empty()) {
      EBB_ASSIGN_OR_RETURN(options.format, trace::parse_format(format));
    }
    options.procs_per_gpu = procs_per_gpu;
    options.skip_bad_rows = skip_bad_rows;
    EBB_ASSIGN_OR_RETURN(trace::ReadResult result, trace::read_workload(path, options));
    for (const std::string& warning : result.workload.warnings) context.warn(warning);  // shows the first bad row
    const auto& bad_rows = result.report.first_bad_rows;
    for (std::size_t i = 1; i < bad_rows.size(); ++i) context.warn(bad_rows[i]);
    return result;
  }
};

/// Where a command writes a trace to.
struct Output {
  std::string path;
  std::string format;
  bool force = false;

  void add_to(CLI::App& command) {
    command.add_option("output", path, "The file to write")->required();
    command.add_option("--to", format, "Format of the output (default: ebb-jsonl for .jsonl, otherwise ebb-csv)");
    command.add_flag("--force", force, "Replace the output if it exists");
  }

  Result<void> write(const Workload& workload, const Context& context) const {
    trace::Format to = path.ends_with(".jsonl") ? trace::Format::ebb_jsonl : trace::Format::ebb_csv;
    if (!format.empty()) {
      EBB_ASSIGN_OR_RETURN(to, trace::parse_format(format));
    }
    // The file is written beside `path` and renamed: what is no file (a device, a folder) must not be replaced.
    std::error_code ignored;
    const auto there = std::filesystem::status(path, ignored).type();
    if (there != std::filesystem::file_type::not_found && there != std::filesystem::file_type::none) {
      if (there != std::filesystem::file_type::regular) {
        return fail(ErrorCode::invalid_argument, "'{}' is not a regular file; give the name of a file", path);
      }
      if (!force) {
        return fail(ErrorCode::already_exists, "'{}' exists; give another name, or --force to replace it", path);
      }
    }
    EBB_RETURN_IF_ERROR(trace::write_workload(path, workload, to));
    context.print(
        fmt::format("{} jobs written to {} ({})\n", with_commas(workload.jobs.size()), path, trace::to_string(to)));
    return {};
  }
};

nlohmann::ordered_json info_json(const trace::ReadResult& read, const trace::WorkloadInfo& info,
                                 std::optional<GpuCount> gpus) {
  nlohmann::ordered_json json;
  json["schema_version"] = 1;
  json["format"] = trace::to_string(read.report.format);
  json["rows_skipped"] = read.report.rows_skipped;
  json["jobs"] = info.jobs;
  json["time_zero"] = read.workload.time_zero;
  json["first_submit_s"] = to_seconds(info.first_submit.time_since_epoch());
  json["last_submit_s"] = to_seconds(info.last_submit.time_since_epoch());
  json["gpu_hours"] = info.gpu_hours;
  json["run_s"] = {
      {"mean", to_seconds(info.run_mean)}, {"p50", to_seconds(info.run_median)}, {"p99", to_seconds(info.run_p99)}};
  json["with_requested_time"] = info.with_requested_time;
  json["gangs"] = nlohmann::ordered_json::array();
  for (const auto& [size, jobs] : info.gangs) json["gangs"].push_back({{"gpus", size}, {"jobs", jobs}});
  json["tenants"] = nlohmann::ordered_json::array();
  for (const auto& tenant : info.tenants) {
    json["tenants"].push_back(
        {{"tenant", tenant.tenant}, {"jobs", tenant.jobs}, {"gpu_hours", tenant.gpu_hours}, {"share", tenant.share}});
  }
  if (gpus) {
    const auto load = trace::offered_load(info, *gpus);
    json["offered_load"] = load ? nlohmann::ordered_json(*load) : nlohmann::ordered_json(nullptr);
  }
  return json;
}

std::string info_text(const trace::ReadResult& read, const trace::WorkloadInfo& info, std::optional<GpuCount> gpus) {
  std::vector<std::vector<std::string>> rows = {
      {"format", trace::to_string(read.report.format)},
      {"jobs", with_commas(info.jobs)},
      {"submitted over", format_human(info.last_submit - info.first_submit)},
      {"GPU-hours", fmt::format("{:.1f}", info.gpu_hours)},
      {"run time, mean", format_human(info.run_mean)},
      {"run time, median", format_human(info.run_median)},
      {"run time, p99", format_human(info.run_p99)},
      {"with requested time", fmt::format("{:.1f} %", 100 * info.with_requested_time)},
  };
  if (!read.workload.time_zero.empty()) rows.insert(rows.begin() + 2, {"time 0", read.workload.time_zero});
  if (gpus) {
    const auto load = trace::offered_load(info, *gpus);
    rows.push_back({fmt::format("offered load on {} GPUs", *gpus), load ? fmt::format("{:.1f} %", 100 * *load) : "-"});
  }
  std::string text = table(rows) + "\n";
  constexpr std::size_t kShown = 12;
  rows = {{"gang", "jobs"}};
  for (const auto& [size, jobs] : info.gangs) {
    if (rows.size() <= kShown) rows.push_back({fmt::format("{} GPUs", size), with_commas(jobs)});
  }
  if (info.gangs.size() > kShown) rows.push_back({fmt::format("and {} larger sizes", info.gangs.size() - kShown)});
  text += table(rows) + "\n";
  rows = {{"tenant", "jobs", "GPU-hours", "share"}};
  for (const auto& tenant : info.tenants) {
    if (rows.size() > kShown) break;
    rows.push_back({tenant.tenant.empty() ? "(none)" : tenant.tenant, with_commas(tenant.jobs),
                    fmt::format("{:.1f}", tenant.gpu_hours), fmt::format("{:.1f} %", 100 * tenant.share)});
  }
  if (info.tenants.size() > kShown) rows.push_back({fmt::format("and {} more", info.tenants.size() - kShown)});
  return text + table(rows);
}

void add_info(CLI::App& trace, Context& context) {
  struct Flags {
    Input input;
    std::string cluster;
    bool json = false;
  };
  CLI::App* command = trace.add_subcommand("info", "What is in a trace: jobs, gangs, run times, tenants, load");
  auto flags = std::make_shared<Flags>();
  flags->input.add_to(*command);
  command->add_option("--cluster", flags->cluster, "Also the offered load on this cluster, for example 80x8");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &context] {
    context.finish([&]() -> Result<void> {
      std::optional<GpuCount> gpus;
      ClusterSpec cluster;
      if (!flags->cluster.empty()) {
        EBB_ASSIGN_OR_RETURN(cluster, spec::parse_cluster(flags->cluster));
        gpus = cluster.total_gpus();
      }
      EBB_ASSIGN_OR_RETURN(trace::ReadResult read, flags->input.read(context));
      // On a cluster the run times of jobs with a profile are known.
      if (gpus && sim::names_applications(read.workload)) {
        EBB_RETURN_IF_ERROR(sim::resolve_profiles(read.workload, perf::ProfileSet::built_in(), cluster, false));
      }
      const trace::WorkloadInfo info = trace::info(read.workload);
      context.print(flags->json ? info_json(read, info, gpus).dump(2) + "\n" : info_text(read, info, gpus));
      return {};
    }());
  });
}

void add_validate(CLI::App& trace, Context& context) {
  CLI::App* command = trace.add_subcommand("validate", "Read every row of a trace and say whether it is sound");
  auto input = std::make_shared<Input>();
  input->add_to(*command);
  command->callback([input, &context] {
    context.finish([&]() -> Result<void> {
      EBB_ASSIGN_OR_RETURN(const trace::ReadResult read, input->read(context));
      context.print(fmt::format("{}: {} jobs, format {}, {} rows left out\n", input->path,
                                with_commas(read.report.rows_read), trace::to_string(read.report.format),
                                with_commas(read.report.rows_skipped)));
      return {};
    }());
  });
}

void add_convert(CLI::App& trace, Context& context) {
  struct Flags {
    Input input;
    Output output;
  };
  CLI::App* command = trace.add_subcommand("convert", "Write a trace in another format");
  auto flags = std::make_shared<Flags>();
  flags->input.add_to(*command);
  flags->output.add_to(*command);
  command->callback([flags, &context] {
    context.finish([&]() -> Result<void> {
      EBB_ASSIGN_OR_RETURN(const trace::ReadResult read, flags->input.read(context));
      return flags->output.write(read.workload, context);
    }());
  });
}

void add_cut(CLI::App& trace, Context& context) {
  struct Flags {
    Input input;
    Output output;
    std::string from;
    std::string to;
    std::optional<std::size_t> first;
    bool shift = false;
  };
  CLI::App* command = trace.add_subcommand("cut", "Write a part of a trace");
  auto flags = std::make_shared<Flags>();
  flags->input.add_to(*command);
  flags->output.add_to(*command);
  command->add_option("--from", flags->from,
                      "Jobs submitted at or after this: a time from time 0 (2d) or a date (2024-03-01)");
  command->add_option("--until", flags->to, "Jobs submitted before this");
  command->add_option("--first", flags->first, "Of these, only the first so many")->check(whole_number());
  command->add_flag("--shift", flags->shift, "Make the first submission that is left time 0");
  command->callback([flags, &context] {
    context.finish([&]() -> Result<void> {
      trace::CutOptions options;
      options.first = flags->first;
      options.shift = flags->shift;
      EBB_ASSIGN_OR_RETURN(const trace::ReadResult read, flags->input.read(context));
      if (!flags->from.empty()) {
        EBB_ASSIGN_OR_RETURN(options.from, trace::parse_time(read.workload, flags->from));
      }
      if (!flags->to.empty()) {
        EBB_ASSIGN_OR_RETURN(options.to, trace::parse_time(read.workload, flags->to));
      }
      EBB_ASSIGN_OR_RETURN(const Workload part, trace::cut(read.workload, options));
      return flags->output.write(part, context);
    }());
  });
}

void add_scale(CLI::App& trace, Context& context) {
  struct Flags {
    Input input;
    Output output;
    double load = 1;
    std::string method = "compress";
    std::uint64_t seed = 1;
  };
  CLI::App* command = trace.add_subcommand("scale", "Write a trace with more or less load");
  auto flags = std::make_shared<Flags>();
  flags->input.add_to(*command);
  flags->output.add_to(*command);
  command->add_option("--load", flags->load, "Factor of the load, for example 1.5")->required();
  command->add_option("--load-method", flags->method, "compress (arrivals closer together) or sample (random jobs)");
  command->add_option("--seed", flags->seed, "For sample (default 1)")->check(whole_number());
  command->callback([flags, &context] {
    context.finish([&]() -> Result<void> {
      EBB_ASSIGN_OR_RETURN(const trace::LoadMethod method, trace::parse_load_method(flags->method));
      EBB_ASSIGN_OR_RETURN(const trace::ReadResult read, flags->input.read(context));
      EBB_ASSIGN_OR_RETURN(const Workload scaled, trace::scale_load(read.workload, flags->load, method, flags->seed));
      return flags->output.write(scaled, context);
    }());
  });
}

}  // namespace

void add_trace(CLI::App& app, Context& context) {
  CLI::App* trace = app.add_subcommand("trace", "Look at, check, convert and change traces of jobs");
  trace->require_subcommand(1);
  add_info(*trace, context);
  add_validate(*trace, context);
  add_convert(*trace, context);
  add_cut(*trace, context);
  add_scale(*trace, context);
}

}  // namespace ebb::cli
