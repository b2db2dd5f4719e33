#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "ebb/base/files.h"
#include "ebb/base/output_folder.h"
#include "ebb/cli/sim_outputs.h"
#include "ebb/cli/sim_setup.h"
#include "ebb/cli/validators.h"
#include "ebb/sim/compare.h"
#include "ebb/sim/output.h"

namespace ebb::cli {
namespace {

struct CompareFlags {
  SimFlags common;
  std::vector<std::string> policies;
  std::vector<double> loads = {1.0};
  std::vector<std::uint64_t> seeds = {1};
  std::string load_method = "compress";
  unsigned threads = 0;
};

// "srsf-load1.5-seed2": the name of a run in file names.
std::string file_stem(const sim::CompareRun& run, const CompareFlags& flags) {
  std::string stem = run.result.policy;
  if (flags.loads.size() > 1) stem += fmt::format("-load{}", run.load);
  if (flags.seeds.size() > 1) stem += fmt::format("-seed{}", run.seed);
  return stem;
}

nlohmann::ordered_json json_of(const std::vector<sim::CompareRun>& runs) {
  nlohmann::ordered_json json;
  json["schema_version"] = sim::kSummaryVersion;
  json["runs"] = nlohmann::ordered_json::array();
  for (const sim::CompareRun& run : runs) {
    nlohmann::ordered_json entry = {{"policy", run.result.policy}, {"load", run.load}, {"seed", run.seed}};
    entry.update(sim::summary_json(run.result.summary));
    json["runs"].push_back(std::move(entry));
  }
  return json;
}

std::string table_of(const std::vector<sim::CompareRun>& runs) {
  std::vector<std::vector<std::string>> rows = {{"policy", "mean JCT", "p50 JCT", "p99 JCT", "mean pending",
                                                 "p99 pending", "makespan", "utilisation", "preempted", "max rho",
                                                 "jobs"}};
  const auto any = [&](auto&& has) {
    return std::any_of(runs.begin(), runs.end(), [&](const sim::CompareRun& run) { return has(run.result.summary); });
  };
  const bool tasks = any([](const sim::Summary& s) { return s.inference.submitted > 0; });
  const bool inference = any([](const sim::Summary& s) { return s.inference.any(); });
  const bool loans = any([](const sim::Summary& s) { return s.loans.any(); });
  const auto add = [](std::vector<std::string>& row, bool wanted, std::vector<std::string> more) {
    if (wanted) row.insert(row.end(), more.begin(), more.end());
  };
  add(rows[0], tasks, {"tasks", "mean extra", "p99 extra"});
  add(rows[0], inference, {"in target"});
  add(rows[0], loans, {"lent GPU-h", "p50 reclaim", "p99 reclaim"});
  for (const sim::CompareRun& run : runs) {
    const sim::Summary& s = run.result.summary;
    rows.push_back({run.result.label, human_seconds(s.training.avg_s), human_seconds(s.training.p50_s),
                    human_seconds(s.training.p99_s), human_seconds(s.queue.avg_s), human_seconds(s.queue.p99_s),
                    human_seconds(s.makespan_s), fmt::format("{:.1f} %", 100 * s.utilisation),
                    with_commas(s.preemptions), fmt::format("{:.1f}", s.max_rho), with_commas(s.training_completed())});
    add(rows.back(), tasks,
        {with_commas(s.inference.count), human_seconds(s.inference.avg_extra_s),
         human_seconds(s.inference.p99_extra_s)});
    add(rows.back(), inference, {fmt::format("{:.2f} %", 100 * s.inference.in_target_share)});
    add(rows.back(), loans,
        {fmt::format("{:.1f}", s.loans.gpu_seconds / 3600), human_seconds(s.loans.reclaim_p50_s),
         human_seconds(s.loans.reclaim_p99_s)});
  }
  return table(rows);
}

Result<void> write_outputs(const CompareFlags& flags, const std::vector<sim::CompareRun>& runs, OutputFolder& folder,
                           const Context& context, double started) {
  std::vector<sim::SimResult> results;
  for (const sim::CompareRun& run : runs) {
    EBB_RETURN_IF_ERROR(sim::write_jobs_csv(folder.file("jobs-" + file_stem(run, flags) + ".csv"), run.result));
    results.push_back(run.result);
  }
  EBB_RETURN_IF_ERROR(write_file_atomically(
      folder.file("summary.json"), json_of(runs).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  EBB_RETURN_IF_ERROR(write_report(folder, results, context));
  EBB_RETURN_IF_ERROR(write_run_json(folder, results, context, started));
  return folder.commit();
}

// The same value twice would be two runs of one name, of which only one file would be left.
Result<void> check_sweep(const CompareFlags& flags) {
  const auto check = [](const char* flag, const auto& values) -> Result<void> {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
          values.begin() + static_cast<std::ptrdiff_t>(i)) {
        return fail(ErrorCode::invalid_argument, "{}: {} is given twice; each run needs a name of its own", flag,
                    values[i]);
      }
    }
    return {};
  };
  EBB_RETURN_IF_ERROR(check("--policies", flags.policies));
  EBB_RETURN_IF_ERROR(check("--loads", flags.loads));
  return check("--seeds", flags.seeds);
}

// All options that some of the policies or the simulator has.
Result<std::set<std::string>> option_names(const std::vector<std::string>& policies, const sched::Registry& registry) {
  std::set<std::string> names;
  const auto add = [&](std::span<const sched::OptionSpec> specs) {
    for (const sched::OptionSpec& spec : specs) names.insert(spec.name);
  };
  add(sched::Registry::common_options());
  add(sim::sim_options());
  for (const std::string& policy : policies) {
    EBB_ASSIGN_OR_RETURN(const sched::PolicyInfo* info, registry.find(policy));
    add(info->options);
  }
  return names;
}

Result<void> run_compare(CompareFlags flags, Context& context) {
  const double started = sim::monotonic_seconds();
  if (flags.policies.empty()) {
    for (const sched::PolicyInfo& info : context.registry.policies()) flags.policies.push_back(info.name);
  }
  EBB_RETURN_IF_ERROR(check_sweep(flags));
  // The setup checks options against one policy; here they are for whichever has them, which compare() checks. Those of
  // a scenario or preset are left out if its own policy is not compared, nor any other that has them.
  SimFlags common = flags.common;
  common.set.clear();
  EBB_ASSIGN_OR_RETURN(SimSetup setup, make_setup(common, "", context));
  EBB_ASSIGN_OR_RETURN(const auto names, option_names(flags.policies, context.registry));
  std::erase_if(setup.options.set, [&](const auto& assignment) { return !names.contains(assignment.first); });
  for (const std::string& text : flags.common.set) {
    EBB_ASSIGN_OR_RETURN(auto assignment, parse_assignment(text));
    setup.options.set.push_back(std::move(assignment));
  }
  sim::CompareOptions options;
  options.policies = flags.policies;
  options.loads = flags.loads;
  options.seeds = flags.seeds;
  EBB_ASSIGN_OR_RETURN(options.load_method, trace::parse_load_method(flags.load_method));
  options.threads = flags.threads != 0 ? flags.threads : std::max(1U, std::thread::hardware_concurrency());
  std::optional<OutputFolder> folder;
  if (!flags.common.out.empty()) {
    EBB_ASSIGN_OR_RETURN(folder, OutputFolder::create(flags.common.out, flags.common.force));
  }
  std::vector<sim::CompareRun> runs;
  {
    Progress progress(context.streams.err, flags.common.progress,
                      fmt::format("{} runs", options.policies.size() * options.loads.size() * options.seeds.size()));
    EBB_ASSIGN_OR_RETURN(runs, sim::compare(setup.cluster, setup.workload, setup.options, options, context.registry,
                                            [&](double share) { progress.update(share); }));
  }
  const bool draws = std::any_of(options.policies.begin(), options.policies.end(), [&](const std::string& name) {
    const auto info = context.registry.find(name);
    return info && (*info)->draws;
  });
  if (flags.seeds.size() > 1 && !setup.options.faults.mtbf && !draws &&
      (options.load_method == trace::LoadMethod::compress || flags.loads == std::vector<double>{1.0})) {
    context.warn(
        "nothing in these runs is random, so the seeds give equal results (random are: faults with an mtbf, "
        "--load-method sample, and the search of pollux)");
  }
  if (folder) EBB_RETURN_IF_ERROR(write_outputs(flags, runs, *folder, context, started));
  if (flags.common.json) {
    context.print(json_of(runs).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return {};
  }
  context.print(table_of(runs));
  if (folder) context.print(fmt::format("\nreport: {}/report.html\n", flags.common.out));
  std::set<std::string> said;
  for (const sim::CompareRun& run : runs) {
    for (const std::string& warning : run.result.summary.warnings) {
      if (said.insert(warning).second) context.warn(warning);
    }
  }
  return {};
}

}  // namespace

void add_sim_compare(CLI::App& sim, Context& context) {
  CLI::App* command = sim.add_subcommand("compare", "Replay a trace under several policies, loads and seeds");
  auto flags = std::make_shared<CompareFlags>();
  flags->common.add_to(*command);
  command->add_option("--policy,--policies", flags->policies, "Policies, separated by commas (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--load,--loads", flags->loads, "Factors of the trace's load, separated by commas (default 1)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--load-method", flags->load_method, "compress (arrivals closer together) or sample (random jobs)")
      ->check(CLI::IsMember({"compress", "sample"}));
  command->add_option("--seed,--seeds", flags->seeds, "Seeds, separated by commas (default 1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number());
  command->add_option("--threads", flags->threads, "Runs at a time (default: all cores)")->check(CLI::Range(1, 1024));
  command->callback([flags, &context] { context.finish(run_compare(*flags, context)); });
}

}  // namespace ebb::cli
