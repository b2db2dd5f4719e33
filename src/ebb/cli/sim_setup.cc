#include "ebb/cli/sim_setup.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "ebb/base/embedded.h"
#include "ebb/cli/validators.h"
#include "ebb/sim/scenario_options.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/services.h"
#include "ebb/trace/rates.h"
#include "ebb/trace/workload.h"

namespace ebb::embedded {
extern const std::span<const EmbeddedFile> preset_files;
}

namespace ebb::cli {
namespace {

constexpr std::string_view kPresetSuffix = ".yaml";

Result<spec::Scenario> read_preset(const std::string& name) {
  const EmbeddedFile* file = find_embedded(embedded::preset_files, name + std::string(kPresetSuffix));
  if (file == nullptr) {
    std::vector<std::string_view> known;
    for (const EmbeddedFile& preset : embedded::preset_files) {
      known.push_back(preset.name.substr(0, preset.name.size() - kPresetSuffix.size()));
    }
    return fail(ErrorCode::not_found, "unknown preset '{}'; known: {}", name, fmt::join(known, ", "));
  }
  EBB_ASSIGN_OR_RETURN(spec::Scenario preset, spec::parse_scenario(std::string(file->name), std::string(file->bytes)));
  if (preset.trace || preset.cluster) {
    return fail(ErrorCode::internal, "preset '{}' names a trace or a cluster", name);
  }
  return preset;
}

template <typename T>
Result<T> named(const char* flag, Result<T> result) {
  if (!result) result.error().message = fmt::format("{}: {}", flag, result.error().message);
  return result;
}

Result<spec::Scenario> read_base(const SimFlags& flags) {
  if (!flags.scenario.empty() && !flags.preset.empty()) {
    return fail(ErrorCode::invalid_argument, "give a scenario file or --preset, not both");
  }
  if (!flags.scenario.empty()) return spec::read_scenario(flags.scenario);
  if (!flags.preset.empty()) return read_preset(flags.preset);
  return spec::Scenario();
}

// Options of the policy and the simulator: those of the scenario, of --set, and defaults for what neither says.
Result<void> overlay_set(const SimFlags& flags, spec::Scenario& scenario) {
  for (const std::string& text : flags.set) {
    EBB_ASSIGN_OR_RETURN(auto assignment, parse_assignment(text));
    scenario.options.push_back(std::move(assignment));
  }
  for (const std::string& text : flags.defaults.set) {
    EBB_ASSIGN_OR_RETURN(auto assignment, parse_assignment(text));
    const bool said = std::any_of(scenario.options.begin(), scenario.options.end(),
                                  [&](const auto& given) { return given.first == assignment.first; });
    if (!said) scenario.options.push_back(std::move(assignment));
  }
  return {};
}

// The scenario with what the flags say in its place, and the command's defaults where neither says anything.
Result<spec::Scenario> overlay(const SimFlags& flags, const std::string& policy, spec::Scenario scenario) {
  // Options belong to their policy: another policy on the command line starts from its own defaults.
  if (!policy.empty() && policy != scenario.policy) scenario.options.clear();
  if (!policy.empty()) scenario.policy = policy;
  if (!scenario.policy && !flags.defaults.policy.empty()) scenario.policy = flags.defaults.policy;
  EBB_RETURN_IF_ERROR(overlay_set(flags, scenario));
  const std::string round = flags.round.empty() && !scenario.round ? flags.defaults.round : flags.round;
  if (!round.empty()) {
    EBB_ASSIGN_OR_RETURN(scenario.round, named("--round", parse_duration(round)));
  }
  if (!flags.resize_cost.empty()) {
    EBB_RETURN_IF_ERROR(named("--resize-cost", perf::ResizeCost::parse(flags.resize_cost)));
    scenario.resize_cost = flags.resize_cost;
  }
  if (!scenario.resize_cost) scenario.resize_cost = flags.defaults.resize_cost;
  if (!flags.lending.empty() || !scenario.lending) {
    const std::string& lending = !flags.lending.empty() ? flags.lending : flags.defaults.lending;
    EBB_ASSIGN_OR_RETURN(scenario.lending, named("--lending", parse_lending(lending)));
  }
  if (!flags.profiles.empty()) scenario.profiles = flags.profiles;
  if (!flags.target_extra.empty()) {
    EBB_ASSIGN_OR_RETURN(scenario.target_extra, named("--target-extra", parse_duration(flags.target_extra)));
  }
  for (const auto time : {spec::TimeModel::fractional, spec::TimeModel::seconds, spec::TimeModel::polled}) {
    if (flags.time == to_string(time)) scenario.time = time;
  }
  if (flags.seed) scenario.seed = flags.seed;
  return scenario;
}

Result<sim::SimOptions> make_options(const SimFlags& flags, const std::string& policy, const spec::Scenario& base) {
  EBB_ASSIGN_OR_RETURN(const spec::Scenario scenario, overlay(flags, policy, base));
  // All the rest has been parsed.
  EBB_ASSIGN_OR_RETURN(sim::SimOptions options, named("--profiles", sim::options_of(scenario)));
  options.skip_impossible = flags.skip_impossible;
  return options;
}

}  // namespace

void SimFlags::add_to(CLI::App& command) {
  command.add_option("scenario", scenario, "A scenario file (YAML) with any of what the flags say");
  command.add_option("--preset", preset, "Policy, options and time model of a published comparison");
  command.add_option("--trace", trace, "The jobs; may be gzipped");
  command.add_option("--format", format,
                     "tiresias, philly, swf, sacct, pollux, deepboot, ebb-csv or ebb-jsonl; recognised if not given");
  command.add_option("--procs-per-gpu", procs_per_gpu, "swf: processors that count as one GPU (default 1)")
      ->check(CLI::Range(1, 100'000));
  command.add_flag("--skip-bad-rows", skip_bad_rows, "Leave out and count rows of the trace that cannot be read");
  command.add_flag("--skip-impossible", skip_impossible, "Leave out and count jobs that the cluster can never hold");
  command.add_option("--cluster", cluster, "Nodes x GPUs, for example 16x4 or 8x8:a100@training+4x4:t4@serving");
  command
      .add_option("--set", set,
                  "key=value: an option of the policy or the simulator (see 'ebb policies')" +
                      (defaults.set.empty() ? "" : fmt::format("; if not set, {}", fmt::join(defaults.set, ", "))))
      ->allow_extra_args(false);
  command.add_option("--round", round,
                     fmt::format("Decide only every so often, for example 60s (default: {})",
                                 defaults.round.empty() ? "at every event" : defaults.round));
  command.add_option(
      "--resize-cost", resize_cost,
      fmt::format("Time lost at each resume or changed placement: 30s, or by application restart, afe or "
                  "stop-free (default: {})",
                  defaults.resize_cost));
  command
      .add_option("--time", time,
                  "fractional (exact, default), seconds (whole seconds, as some simulators) or polled (seconds, and "
                  "training advances at rounds and events only)")
      ->check(CLI::IsMember({"fractional", "seconds", "polled"}));
  command.add_option(
      "--lending", lending,
      fmt::format("none, pooled or partitioned: whether training uses serving GPUs (default: {})", defaults.lending));
  command.add_option("--services", services, "A services file (YAML): services with a demand of requests over time");
  command.add_option("--profiles", profiles, "Folder with one profile an application (default: built in)");
  command.add_option("--target-extra", target_extra,
                     "Extra latency up to which an inference task is in target (default 1s)");
  command.add_option("--out", out, "Folder for the results; must be new or empty");
  command.add_flag("--force", force, "Replace files in --out");
  command.add_flag("--json", json, "Print one JSON object");
  command.add_option("--progress", progress, "auto (on a terminal) or never")->check(CLI::IsMember({"auto", "never"}));
  for (const char* name : {"scenario", "--preset", "--trace", "--format", "--cluster", "--round", "--resize-cost",
                           "--lending", "--services", "--profiles", "--target-extra", "--out"}) {
    command.get_option(name)->check(not_empty());
  }
}

Result<SimSetup> make_setup(const SimFlags& flags, const std::string& policy, const Context& context) {
  SimSetup setup;
  EBB_ASSIGN_OR_RETURN(const spec::Scenario base, read_base(flags));
  EBB_ASSIGN_OR_RETURN(setup.options, make_options(flags, policy, base));
  setup.options.check_invariants = context.check_invariants;
  setup.expect = base.expect;
  // Policy and options first: cheap to check, and no trace is read in vain.
  EBB_RETURN_IF_ERROR(context.registry.make(setup.options.policy, sim::policy_assignments(setup.options.set)));

  const std::string cluster = !flags.cluster.empty() ? flags.cluster : base.cluster.value_or("");
  if (cluster.empty()) {
    return fail(ErrorCode::invalid_argument, "which cluster? Give --cluster, for example --cluster 16x4");
  }
  EBB_ASSIGN_OR_RETURN(setup.cluster, spec::parse_cluster(cluster));

  const std::string path = !flags.trace.empty() ? flags.trace : base.trace.value_or("");
  if (path.empty()) {
    return fail(ErrorCode::invalid_argument, "which jobs? Give --trace FILE, or a scenario that names a trace");
  }
  trace::ReadOptions read;
  // A format in the scenario is that of the scenario's trace.
  const std::string format = !flags.format.empty() ? flags.format : flags.trace.empty() ? base.format.value_or("") : "";
  if (!format.empty()) {
    EBB_ASSIGN_OR_RETURN(read.format, trace::parse_format(format));
  }
  read.procs_per_gpu = flags.procs_per_gpu.value_or(base.procs_per_gpu.value_or(1));
  read.skip_bad_rows = flags.skip_bad_rows;
  EBB_ASSIGN_OR_RETURN(trace::ReadResult result, trace::read_workload(path, read));
  setup.options.trace_name = std::filesystem::path(path).filename().string();
  setup.workload = std::move(result.workload);
  const std::string services = !flags.services.empty() ? flags.services : base.services.value_or("");
  if (!services.empty()) {
    EBB_ASSIGN_OR_RETURN(const auto files, spec::read_services(services));
    for (const spec::ServiceEntry& file : files) {
      EBB_ASSIGN_OR_RETURN(auto requests, trace::read_rates(file.requests));
      setup.workload.services.push_back({file.spec, std::move(requests)});
    }
  }
  // The workload's own warnings, which the result repeats, say how many rows these are and show the first.
  const auto& bad_rows = result.report.first_bad_rows;
  for (std::size_t i = 1; i < bad_rows.size(); ++i) context.warn(bad_rows[i]);
  return setup;
}

}  // namespace ebb::cli
