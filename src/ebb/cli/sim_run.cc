#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "ebb/base/output_folder.h"
#include "ebb/cli/sim_outputs.h"
#include "ebb/cli/sim_setup.h"
#include "ebb/cli/validators.h"
#include "ebb/sim/journal_header.h"
#include "ebb/sim/output.h"
#include "ebb/trace/journal.h"

namespace ebb::cli {
namespace {

struct RunFlags {
  SimFlags common;
  std::string policy;
};

// Inference and loans, where there are any; apart from training.
std::string serving_text(const sim::Summary& s) {
  std::vector<std::vector<std::string>> rows;
  const sim::InferenceFigures& inference = s.inference;
  if (inference.submitted > 0) {
    rows.push_back({"inference tasks",
                    fmt::format("{} of {} completed", with_commas(inference.count), with_commas(inference.submitted))});
    rows.push_back({"extra latency", fmt::format("mean {}, p99 {}", human_seconds(inference.avg_extra_s),
                                                 human_seconds(inference.p99_extra_s))});
  }
  if (inference.requests > 0) {
    rows.push_back({"requests", with_commas(static_cast<std::uint64_t>(std::llround(inference.requests)))});
  }
  if (inference.any()) rows.push_back({"in target", fmt::format("{:.2f} %", 100 * inference.in_target_share)});
  const sim::LoanFigures& loans = s.loans;
  if (loans.count > 0) {
    rows.push_back(
        {"GPUs lent", fmt::format("{}, {:.1f} GPU-hours", with_commas(loans.count), loans.gpu_seconds / 3600)});
  }
  if (loans.reclaims > 0) {
    rows.push_back({"reclaims", fmt::format("{}, p50 {}, p99 {}", with_commas(loans.reclaims),
                                            human_seconds(loans.reclaim_p50_s), human_seconds(loans.reclaim_p99_s))});
  }
  if (loans.forced > 0) rows.push_back({"killed at the bound", with_commas(loans.forced)});
  return rows.empty() ? "" : "\n" + table(rows);
}

// The figures of one run for people.
std::string figures_text(const sim::SimResult& result) {
  const sim::Summary& s = result.summary;
  std::string text =
      fmt::format("{} on {} ({} GPUs): {} of {} {} completed\n\n", result.label, result.cluster,
                  with_commas(static_cast<std::uint64_t>(result.cluster_gpus)), with_commas(s.training_completed()),
                  with_commas(s.training_total()), s.inference.any() ? "training jobs" : "jobs");
  text += table(
      {{"", "mean", "median", "p99"},
       {"job completion time", human_seconds(s.training.avg_s), human_seconds(s.training.p50_s),
        human_seconds(s.training.p99_s)},
       {"pending time", human_seconds(s.queue.avg_s), human_seconds(s.queue.p50_s), human_seconds(s.queue.p99_s)}});
  text += "\n";
  text += table({{"makespan", human_seconds(s.makespan_s)},
                 {"utilisation", fmt::format("{:.1f} %", 100 * s.utilisation)},
                 {"GPU-hours held", fmt::format("{:.1f}", s.gpu_seconds / 3600)},
                 {"preemptions", with_commas(s.preemptions)},
                 {"restarts", with_commas(s.restarts)},
                 {"max rho", fmt::format("{:.2f}", s.max_rho)}});
  return text + serving_text(s);
}

Result<void> check_expectations(const SimSetup& setup, const sim::Summary& summary) {
  std::string unmet;
  for (const auto& [path, expected] : setup.expect) {
    EBB_ASSIGN_OR_RETURN(const double actual, sim::figure(summary, path));
    if (std::abs(actual - expected) > 1e-6 * std::max(1.0, std::abs(expected))) {
      unmet += fmt::format("\n  {}: expected {}, got {}", path, expected, actual);
    }
  }
  if (unmet.empty()) return {};
  return fail(ErrorCode::aborted, "the scenario's expectations are not met:{}", unmet);
}

Result<void> run_one(const RunFlags& flags, Context& context) {
  const double started = sim::monotonic_seconds();
  EBB_ASSIGN_OR_RETURN(const SimSetup setup, make_setup(flags.common, flags.policy, context));
  for (const auto& [path, expected] : setup.expect) EBB_RETURN_IF_ERROR(sim::figure(sim::Summary(), path));
  std::optional<OutputFolder> folder;
  std::optional<trace::JournalWriter> journal;
  if (!flags.common.out.empty()) {
    EBB_ASSIGN_OR_RETURN(folder, OutputFolder::create(flags.common.out, flags.common.force));
    EBB_ASSIGN_OR_RETURN(
        journal, trace::JournalWriter::create(folder->file("events.jsonl"),
                                              sim::journal_header(setup.cluster, setup.workload, setup.options)));
  }
  sim::SimHooks hooks;
  hooks.journal = journal ? &*journal : nullptr;
  Progress progress(context.streams.err, flags.common.progress, "simulating");
  hooks.progress = [&](std::uint64_t done, std::uint64_t total) {
    progress.update(static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
  };
  EBB_ASSIGN_OR_RETURN(const sim::SimResult result,
                       sim::simulate(setup.cluster, setup.workload, setup.options, context.registry, hooks));
  nlohmann::ordered_json summary;
  summary["schema_version"] = sim::kSummaryVersion;
  summary.update(sim::summary_json(result.summary));
  const std::string summary_text = summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (folder) {
    EBB_RETURN_IF_ERROR(journal->close());
    EBB_RETURN_IF_ERROR(sim::write_jobs_csv(folder->file("jobs.csv"), result));
    EBB_RETURN_IF_ERROR(write_file_atomically(folder->file("summary.json"), summary_text));
    EBB_RETURN_IF_ERROR(write_report(*folder, {&result, 1}, context));
    EBB_RETURN_IF_ERROR(write_run_json(*folder, {&result, 1}, context, started));
    EBB_RETURN_IF_ERROR(folder->commit());
  }
  if (flags.common.json) {
    context.print(summary_text);
  } else {
    context.print(figures_text(result));
    if (folder) context.print(fmt::format("\nreport: {}/report.html\n", flags.common.out));
  }
  if (!flags.common.json) {
    for (const std::string& warning : result.summary.warnings) context.warn(warning);
  }
  return check_expectations(setup, result.summary);
}

}  // namespace

void add_sim_run(CLI::App& sim, Context& context) {
  CLI::App* command = sim.add_subcommand("run", "Replay a trace of jobs under one policy");
  auto flags = std::make_shared<RunFlags>();
  flags->common.add_to(*command);
  command
      ->add_option("--policy", flags->policy, fmt::format("See 'ebb policies' (default: {})", sim::SimOptions().policy))
      ->check(not_empty());
  command
      ->add_option("--seed", flags->common.seed, "Of random draws: faults, measure_noise, reclaim=random (default 1)")
      ->check(whole_number());
  command->callback([flags, &context] { context.finish(run_one(*flags, context)); });
}

void add_sim_replay(CLI::App& sim, Context& context) {
  CLI::App* command =
      sim.add_subcommand("replay", "Feed the events of a journal to the scheduler again and compare every decision");
  auto path = std::make_shared<std::string>();
  command->add_option("journal", *path, "The events.jsonl of a run, plain or gzipped")->required();
  command->callback([path, &context] {
    const auto compared = sim::replay(*path, context.registry);
    if (compared) {
      context.print(fmt::format("{} decisions, all taken again\n", with_commas(*compared)));
    } else {
      context.finish(tl::unexpected(compared.error()));
    }
  });
}

}  // namespace ebb::cli
