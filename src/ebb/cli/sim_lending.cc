#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "ebb/base/files.h"
#include "ebb/base/output_folder.h"
#include "ebb/cli/sim_outputs.h"
#include "ebb/cli/sim_setup.h"
#include "ebb/cli/validators.h"
#include "ebb/sim/lending_output.h"
#include "ebb/sim/lending_page.h"
#include "ebb/sim/lending_study.h"
#include "ebb/sim/output.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/rates.h"
#include "ebb/version.h"

namespace ebb::cli {
namespace {

struct LendingFlags {
  SimFlags common;
  std::string policy;
  std::string series;
  std::vector<double> loads = {0.5, 0.75, 1, 1.25, 1.5};
  std::vector<double> serving;
  std::optional<double> shape_power;
  std::optional<double> headline;
  std::uint64_t seeds = 10;
  double request_noise = 0;
  std::string day_start;
  unsigned threads = 0;
};

constexpr std::uint64_t kMostSeeds = 1000;

/// What stands for a service where no services file says what it is.
ServiceSpec default_service() {
  using namespace std::chrono_literals;
  ServiceSpec spec;
  spec.name = "service";
  spec.start_delay = 10s;
  spec.service_time = 200ms;
  spec.target_latency = 600ms;
  spec.percentile = 0.99;
  return spec;
}

/// The services of the study, each with its shape and its part of the serving half (by mean offered GPU time).
Result<std::vector<sim::StudyService>> study_services(const LendingFlags& flags, const Workload& workload) {
  if (!flags.series.empty() && !workload.services.empty()) {
    return fail(ErrorCode::invalid_argument,
                "give --series or --services, not both: the services have request rates of their own");
  }
  std::vector<sim::StudyService> services;
  if (workload.services.empty()) {
    sim::DemandShape shape = sim::built_in_shape();
    if (!flags.series.empty()) {
      EBB_ASSIGN_OR_RETURN(const auto points, trace::read_shape(flags.series));
      EBB_ASSIGN_OR_RETURN(shape, sim::make_shape(flags.series, points));
    }
    services.push_back({default_service(), {std::move(shape), 1}});
    return services;
  }
  double total = 0;
  for (const ServiceLoad& service : workload.services) {
    EBB_ASSIGN_OR_RETURN(sim::DemandShape shape,
                         sim::make_shape(fmt::format("service '{}'", service.spec.name), service.requests));
    const double weight =
        sim::mean_share(shape, 1) * shape.peak * to_seconds(service.spec.service_time) * service.spec.gpus;
    total += weight;
    services.push_back({service.spec, {std::move(shape), weight}});
  }
  for (sim::StudyService& service : services) service.demand.weight /= total;
  return services;
}

Result<void> check_once(const char* flag, const std::vector<double>& values) {
  std::set<double> seen;
  for (const double value : values) {
    if (!seen.insert(value).second) {
      return fail(ErrorCode::invalid_argument, "{}: {} is given twice", flag, value);
    }
  }
  return {};
}

Result<sim::LendingOptions> study_options(const LendingFlags& flags, const SimSetup& setup) {
  EBB_RETURN_IF_ERROR(check_once("--loads", flags.loads));
  EBB_RETURN_IF_ERROR(check_once("--serving", flags.serving));
  sim::LendingOptions options;
  options.loads = flags.loads;
  if (!flags.serving.empty()) options.means = flags.serving;
  for (double& mean : options.means) mean = flags.serving.empty() ? mean : mean / 100;
  if (flags.shape_power) {
    options.power = flags.shape_power;
    if (flags.serving.empty()) options.means.clear();
  }
  if (flags.headline) {
    options.headline_mean = *flags.headline / 100;
    if (std::find(options.means.begin(), options.means.end(), *options.headline_mean) == options.means.end()) {
      return fail(ErrorCode::invalid_argument, "--headline {}: give one of the means of --serving", *flags.headline);
    }
    if (!flags.shape_power) options.power.reset();
  }
  if (flags.seeds < 1 || flags.seeds > kMostSeeds) {
    return fail(ErrorCode::invalid_argument, "--seeds {}: give how many seeds to run, 1 to {}", flags.seeds,
                kMostSeeds);
  }
  options.seeds.resize(flags.seeds);
  std::iota(options.seeds.begin(), options.seeds.end(), flags.common.seed.value_or(1));
  options.lending = setup.options.lending;
  options.request_noise = flags.request_noise;
  if (!flags.day_start.empty()) {
    auto start = parse_duration(flags.day_start);
    if (!start) return fail(ErrorCode::invalid_argument, "--day-start: {}", start.error().message);
    options.day_start = *start;
  }
  options.threads = flags.threads != 0 ? flags.threads : std::max(1U, std::thread::hardware_concurrency());
  return options;
}

/// A table of one figure: a row a load, a column a serving mean.
std::string surface(const sim::LendingStudy& study, const std::string& title,
                    const std::function<std::string(const sim::LendingCell&)>& text) {
  std::vector<std::vector<std::string>> rows(1 + study.options.loads.size());
  rows[0].push_back(title);
  for (const sim::LendingColumn& column : study.columns) rows[0].push_back(sim::column_name(column));
  for (std::size_t i = 0; i < study.options.loads.size(); ++i) {
    rows[i + 1].push_back(fmt::format("load {}", study.options.loads[i]));
    for (std::size_t c = 0; c < study.columns.size(); ++c) {
      rows[i + 1].push_back(text(study.cells[c * study.options.loads.size() + i]));
    }
  }
  return table(rows);
}

std::string text_of(const sim::LendingStudy& study) {
  std::string text;
  for (const std::string& sentence : sim::lending_sentences(study)) text += sentence + "\n";
  text += "\n" + surface(study, "JCT change, %", [](const sim::LendingCell& cell) {
            const double half = 50 * (cell.jct_change.high - cell.jct_change.low);
            return half > 0 ? fmt::format("{:+.1f} ±{:.1f}", 100 * cell.jct_change.mean, half)
                            : fmt::format("{:+.1f}", 100 * cell.jct_change.mean);
          });
  text += "\n" + surface(study, "GPU-hours freed",
                         [](const sim::LendingCell& cell) { return fmt::format("{:.0f}", cell.freed_gpu_h.mean); });
  text += "\n" + surface(study, "% of idle ones", [](const sim::LendingCell& cell) {
            return fmt::format("{:.0f}", 100 * cell.bound_used.mean);
          });
  text += "\n" + surface(study, "in target, %", [](const sim::LendingCell& cell) {
            return fmt::format("{:.3f}", 100 * cell.in_target_lending.mean);
          });
  text += "\n" + surface(study, "  without", [](const sim::LendingCell& cell) {
            return fmt::format("{:.3f}", 100 * cell.in_target_none.mean);
          });
  text += "\n" + surface(study, "reclaim p99, s", [](const sim::LendingCell& cell) {
            return cell.reclaims.mean > 0 ? fmt::format("{:.1f}", cell.reclaim_p99_s) : std::string("-");
          });
  return text;
}

std::string json_text(const sim::LendingStudy& study) {
  return sim::lending_json(study).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<void> write_outputs(const sim::LendingStudy& study, const SimSetup& setup, OutputFolder& folder,
                           const Context& context, double started) {
  EBB_RETURN_IF_ERROR(write_file_atomically(folder.file("lending.json"), json_text(study)));
  EBB_RETURN_IF_ERROR(sim::write_lending_cells(folder.file("cells.csv"), study));
  EBB_RETURN_IF_ERROR(sim::write_lending_runs(folder.file("runs.csv"), study));
  const std::string title = fmt::format("{} on {}", setup.options.trace_name, spec::format_cluster(setup.cluster));
  EBB_RETURN_IF_ERROR(write_file_atomically(folder.file("lending.html"),
                                            sim::render_lending(study, {title, context.command_line, EBB_VERSION})));
  EBB_RETURN_IF_ERROR(write_run_json(folder, {&study.day, 1}, context, started));
  return folder.commit();
}

Result<void> run_lending(const LendingFlags& flags, Context& context) {
  const double started = sim::monotonic_seconds();
  EBB_ASSIGN_OR_RETURN(SimSetup setup, make_setup(flags.common, flags.policy, context));
  EBB_ASSIGN_OR_RETURN(const auto services, study_services(flags, setup.workload));
  EBB_ASSIGN_OR_RETURN(const sim::LendingOptions options, study_options(flags, setup));
  std::optional<OutputFolder> folder;
  if (!flags.common.out.empty()) {
    EBB_ASSIGN_OR_RETURN(folder, OutputFolder::create(flags.common.out, flags.common.force));
  }
  sim::LendingStudy study;
  {
    const std::size_t columns = options.means.size() + (options.power ? 1 : 0);
    Progress progress(context.streams.err, flags.common.progress,
                      fmt::format("{} pairs of runs", columns * options.loads.size() * options.seeds.size()));
    EBB_ASSIGN_OR_RETURN(study, sim::study_lending(setup.cluster, setup.workload, services, setup.options, options,
                                                   context.registry, [&](double share) { progress.update(share); }));
  }
  if (folder) EBB_RETURN_IF_ERROR(write_outputs(study, setup, *folder, context, started));
  if (flags.common.json) {
    context.print(json_text(study));
    return {};
  }
  context.print(text_of(study));
  if (folder) context.print(fmt::format("\nreport: {}/lending.html\n", flags.common.out));
  for (const std::string& warning : study.warnings) context.warn(warning);
  return {};
}

}  // namespace

void add_sim_lending(CLI::App& sim, Context& context) {
  CLI::App* command = sim.add_subcommand(
      "lending", "What lending idle serving GPUs to training gives: training load x serving load, with and without");
  auto flags = std::make_shared<LendingFlags>();
  flags->common.defaults.policy = "deepboot";
  flags->common.defaults.round = "60s";
  flags->common.defaults.resize_cost = "stop-free";
  flags->common.defaults.lending = "pooled";
  flags->common.defaults.set = {"drain=2s"};
  flags->common.add_to(*command);
  command
      ->add_option("--policy", flags->policy,
                   fmt::format("See 'ebb policies' (default: {})", flags->common.defaults.policy))
      ->check(not_empty());
  command
      ->add_option("--series", flags->series,
                   "How demand goes over the day: a table start_s,value (default: a built-in day)")
      ->check(not_empty());
  command
      ->add_option("--load,--loads", flags->loads,
                   "Factors of the trace's number of jobs, separated by commas (default 0.5,0.75,1,1.25,1.5)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--serving", flags->serving,
                   "Mean share of the serving GPUs that serving needs, per cent (default 20,30,40,50,60,70)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--shape-power", flags->shape_power,
                      "One more serving mean, that of the headline: the shape with this power (default 1; alone: no "
                      "other means)");
  command->add_option("--headline", flags->headline, "The serving mean of the headline: one of --serving");
  command->add_option("--seeds", flags->seeds, "How many seeds (default 10)")->check(whole_number());
  command->add_option("--seed", flags->common.seed, "The first seed (default 1)")->check(whole_number());
  command->add_option("--request-noise", flags->request_noise,
                      "Standard deviation of the log of request rates, drawn every five minutes (default 0)");
  command->add_option("--day-start", flags->day_start,
                      "Where in the day runs begin, for example 8h (default: elsewhere for every seed)");
  command->add_option("--threads", flags->threads, "Runs at a time (default: all cores)")->check(CLI::Range(1, 1024));
  command->callback([flags, &context] { context.finish(run_lending(*flags, context)); });
}

}  // namespace ebb::cli
