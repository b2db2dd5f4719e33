#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "ebb/cli/api_client.h"
#include "ebb/cli/command.h"
#include "ebb/wire/api_json.h"

namespace ebb::cli {
namespace {

using wire::JobStatus;
using wire::JobView;

constexpr std::size_t kBar = 40;
constexpr std::size_t kMaxRows = 1'000;

struct TopFlags {
  std::string data;
  bool once = false;
  double interval = 1;
  std::size_t rows = 30;
};

std::string bar(GpuCount held, GpuCount all) {
  const auto full = all == 0 ? 0 : kBar * static_cast<std::size_t>(held) / static_cast<std::size_t>(all);
  return "[" + std::string(full, '#') + std::string(kBar - full, '.') + "]";
}

/// What runs first, then what waits, each in order of submission.
std::string job_table(std::vector<JobView> jobs, std::size_t rows) {
  const auto group = [](const JobView& job) { return job.started && job.status != JobStatus::backing_off ? 0 : 1; };
  std::sort(jobs.begin(), jobs.end(),
            [&](const JobView& a, const JobView& b) { return std::pair(group(a), a.id) < std::pair(group(b), b.id); });
  std::vector<std::vector<std::string>> table{{"JOB", "NAME", "TENANT", "STATUS", "GPUS", "AGE", "RUN", "WHY"}};
  for (const JobView& job : jobs) {
    if (table.size() > rows) break;
    table.push_back({fmt::format("{}", job.id), job.name, job.tenant, to_string(job.status),
                     fmt::format("{}", job.gpus), age(job.submitted), job.started ? age(*job.started) : "-",
                     job.reason});
  }
  std::string text = left_table(table);
  if (jobs.size() > rows) text += fmt::format("... and {} more\n", jobs.size() - rows);
  return text;
}

Result<std::string> frame(ApiClient& api, std::size_t rows) {
  EBB_ASSIGN_OR_RETURN(const std::string node_text, api.get("/v1/nodes"));
  EBB_ASSIGN_OR_RETURN(const std::vector<wire::NodeView> nodes, wire::nodes_from(node_text));
  EBB_ASSIGN_OR_RETURN(const std::string policy_text, api.get("/v1/policy"));
  EBB_ASSIGN_OR_RETURN(const wire::PolicyView policy, wire::policy_from(policy_text));
  EBB_ASSIGN_OR_RETURN(const std::string job_text, api.get(fmt::format("/v1/jobs?active=true&limit={}", kMaxRows)));
  EBB_ASSIGN_OR_RETURN(std::vector<JobView> jobs, wire::jobs_from(job_text));
  GpuCount all = 0;
  GpuCount held = 0;
  std::size_t up = 0;
  for (const wire::NodeView& node : nodes) {
    all += node.gpus;
    held += node.held;
    if (node.state == "up") ++up;
  }
  std::size_t running = 0;
  for (const JobView& job : jobs) running += job.status == JobStatus::running ? 1 : 0;
  std::string text = fmt::format("ebb, policy {}: {} of {} slots held, {} of {} nodes up\n{}\n", policy.name, held, all,
                                 up, nodes.size(), bar(held, all));
  text += fmt::format("{}{} jobs, {} running\n\n", jobs.size(), jobs.size() == kMaxRows ? " or more" : "", running);
  return text + job_table(std::move(jobs), rows);
}

Result<void> top(Context& context, const TopFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  const bool terminal = isatty(fileno(context.streams.out)) != 0;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const std::string text, frame(api, flags.rows));
    if (terminal && !flags.once) std::fputs("\033[H\033[2J", context.streams.out);
    context.print(text);
    std::fflush(context.streams.out);
    if (flags.once || std::ferror(context.streams.out) != 0) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval));
  }
}

}  // namespace

void add_top(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<TopFlags>();
  CLI::App* command = app.add_subcommand("top", "Watch the cluster: slots, running and waiting jobs; Ctrl-C ends it");
  add_data_flag(*command, flags->data);
  command->add_flag("--once", flags->once, "Print it once");
  command->add_option("--interval", flags->interval, "Seconds between looks (default: 1)")
      ->check(CLI::Range(0.1, 3600.0));
  command->add_option("--rows", flags->rows, "Jobs that are shown (default: 30)")->check(CLI::Range(1, 1000));
  command->callback([&context, flags] { context.finish(top(context, *flags)); });
}

}  // namespace ebb::cli
