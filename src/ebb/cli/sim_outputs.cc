#include "ebb/cli/sim_outputs.h"

#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/sim/output.h"
#include "ebb/sim/report.h"
#include "ebb/trace/journal.h"
#include "ebb/version.h"

namespace ebb::cli {

namespace {

// "first5000.csv on 80x8": what was simulated.
std::string title_of(std::span<const sim::SimResult> results) {
  const auto& settings = results.front().settings;
  return fmt::format("{} on {}", settings.empty() ? "Jobs" : settings.front().second, results.front().cluster);
}

}  // namespace

Result<void> write_report(const OutputFolder& folder, std::span<const sim::SimResult> results, const Context& context) {
  EBB_ASSIGN_OR_RETURN(const std::string page,
                       sim::render_report(results, {title_of(results), context.command_line, EBB_VERSION}));
  return write_file_atomically(folder.file("report.html"), page);
}

Result<void> write_run_json(const OutputFolder& folder, std::span<const sim::SimResult> results, const Context& context,
                            double started) {
  const sim::RunCost cost = sim::RunCost::of_process(started);
  nlohmann::ordered_json json;
  json["schema_version"] = 1;
  json["command"] = context.command_line;
  json["runs"] = nlohmann::ordered_json::array();
  for (const sim::SimResult& result : results) {
    nlohmann::ordered_json settings;
    for (const auto& [what, value] : result.settings) settings[what] = value;
    json["runs"].push_back({{"label", result.label}, {"settings", std::move(settings)}});
  }
  json["cpu_s"] = cost.cpu_s;
  json["wall_s"] = cost.wall_s;
  json["peak_rss_bytes"] = cost.peak_rss_bytes;
  json["versions"] = {{"ebb", EBB_VERSION},
                      {"compiler", __VERSION__},
                      {"journal", trace::kJournalVersion},
                      {"summary", sim::kSummaryVersion}};
  return write_file_atomically(folder.file("run.json"),
                               json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace ebb::cli
