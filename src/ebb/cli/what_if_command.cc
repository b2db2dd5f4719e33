#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>

#include "ebb/cli/api_client.h"
#include "ebb/cli/command.h"
#include "ebb/spec/job_file.h"
#include "ebb/wire/api_json.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kShown = 20;

struct WhatIfFlags {
  std::string data;
  bool json = false;
  std::string policy;
  std::vector<std::string> set;
  std::string job;
};

Result<std::string> target_of(const WhatIfFlags& flags) {
  if (flags.policy.empty()) {
    if (flags.set.empty()) return std::string("/v1/what-if");
    return fail(ErrorCode::invalid_argument, "--set needs --policy: it sets an option of that policy");
  }
  std::string target = "/v1/what-if?policy=" + wire::url_escape(flags.policy);
  EBB_ASSIGN_OR_RETURN(const auto options, parse_assignments(flags.set));
  for (const auto& [name, value] : options) {
    target += "&option." + wire::url_escape(name) + "=" + wire::url_escape(value);
  }
  return target;
}

std::string in_time(const std::optional<Time>& at) {
  return at ? "in " + ahead(*at) : "?";
}

std::string text_of(const std::optional<Duration>& duration) {
  return duration ? format_human(*duration) : "-";
}

std::string job_table(const wire::Outlook& as_is, const wire::Outlook& changed) {
  std::map<JobId, const wire::Outlook::Job*> before;
  for (const auto& job : as_is.jobs) before[job.id] = &job;
  std::vector<std::vector<std::string>> rows{{"JOB", "NAME", "START", "WITH THE CHANGE", "END", "WITH THE CHANGE"}};
  for (const wire::Outlook::Job& job : changed.jobs) {
    if (rows.size() > kShown) break;
    const auto old = before.find(job.id);
    const bool known = old != before.end();
    // What runs has no start to come.
    const bool waits = job.start || (known && old->second->start);
    rows.push_back({known ? fmt::format("{}", job.id) : "new", job.name,
                    !known  ? "-"
                    : waits ? in_time(old->second->start)
                            : "runs",
                    waits ? in_time(job.start) : "runs", known ? in_time(old->second->end) : "-", in_time(job.end)});
  }
  std::string text = left_table(rows);
  if (changed.jobs.size() > kShown)
    text += fmt::format("... and {} more (--json has all)\n", changed.jobs.size() - kShown);
  return text;
}

Result<void> what_if(Context& context, const WhatIfFlags& flags) {
  if (flags.policy.empty() && flags.job.empty()) {
    return fail(ErrorCode::invalid_argument, "what-if of what? Give --policy, --job or both");
  }
  EBB_ASSIGN_OR_RETURN(const std::string target, target_of(flags));
  std::string body;
  if (!flags.job.empty()) {
    EBB_ASSIGN_OR_RETURN(const JobRequest job, spec::read_job(flags.job, std::filesystem::current_path()));
    body = spec::format_job(job);
  }
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string answer, api.post(target, body));
  if (flags.json) {
    context.print(answer + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const auto outlooks, wire::outlooks_from(answer));
  const auto& [as_is, changed] = outlooks;
  context.print(
      left_table({{"", "AS IT IS", "WITH THE CHANGE"},
                  {"policy", as_is.policy, changed.policy},
                  {"mean wait until start", text_of(as_is.mean_wait), text_of(changed.mean_wait)},
                  {"mean time to completion", text_of(as_is.mean_jct), text_of(changed.mean_jct)},
                  {"all done", in_time(as_is.all_done), in_time(changed.all_done)}}) +
      "\n" + job_table(as_is, changed) +
      "\nA forecast: jobs run as long as their time limits say, or as completed ones did; nobody submits more.\n");
  return {};
}

}  // namespace

void add_what_if(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<WhatIfFlags>();
  CLI::App* command =
      app.add_subcommand("what-if", "What another policy, or one more job, would make of the jobs of the cluster");
  add_data_flag(*command, flags->data);
  command->add_option("--policy", flags->policy, "Another policy");
  command->add_option("--set", flags->set, "An option of it, KEY=VALUE; may be given again")->expected(1);
  command->add_option("--job", flags->job, "A job file: one job more");
  command->add_flag("--json", flags->json, "Print the answer of the API");
  command->callback([&context, flags] { context.finish(what_if(context, *flags)); });
}

}  // namespace ebb::cli
