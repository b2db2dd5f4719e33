#include <CLI/CLI.hpp>
#include <memory>

#include "ebb/cli/api_client.h"
#include "ebb/cli/command.h"
#include "ebb/wire/api_json.h"

namespace ebb::cli {
namespace {

struct ClusterFlags {
  std::string data;
  bool json = false;
  std::string node;
};

Result<void> nodes(Context& context, const ClusterFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.get("/v1/nodes"));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<wire::NodeView> views, wire::nodes_from(body));
  std::vector<std::vector<std::string>> rows{{"NODE", "STATE", "TYPE", "SLOTS", "HELD"}};
  for (const wire::NodeView& node : views) {
    rows.push_back({node.name, node.state, node.gpu_type.empty() ? "cpu" : node.gpu_type, fmt::format("{}", node.gpus),
                    fmt::format("{}", node.held)});
  }
  context.print(left_table(rows));
  return {};
}

Result<void> drain(Context& context, const ClusterFlags& flags, bool on) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       api.post("/v1/nodes/" + wire::url_escape(flags.node) + (on ? "/drain" : "/undrain"), ""));
  const char* done = on ? "gets no new work; what runs there runs on" : "gets work again";
  context.print(flags.json ? body + "\n" : fmt::format("node {} {}\n", flags.node, done));
  return {};
}

Result<void> get_policy(Context& context, const ClusterFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.get("/v1/policy"));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const wire::PolicyView policy, wire::policy_from(body));
  context.print(policy.name + "\n");
  for (const auto& [name, value] : policy.options) context.print(fmt::format("  {}={}\n", name, value));
  return {};
}

Result<void> set_policy(Context& context, const ClusterFlags& flags, const std::string& name,
                        const std::vector<std::string>& assignments) {
  wire::PolicyView policy{name, {}};
  EBB_ASSIGN_OR_RETURN(policy.options, parse_assignments(assignments));
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.put("/v1/policy", wire::to_json(policy)));
  context.print(flags.json ? body + "\n" : fmt::format("policy {} decides from now on\n", name));
  return {};
}

// Rows of the journal, one JSON object a line.
Result<void> events(Context& context, const ClusterFlags& flags, std::uint64_t after, bool follow) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  const auto show = [&](const wire::EventView& row) {
    context.print(fmt::format(R"({{"seq":{},"event":{}}})", row.seq, row.json) + "\n");
    std::fflush(context.streams.out);
    return std::ferror(context.streams.out) == 0;
  };
  if (follow) return api.follow_events(after, show);
  while (true) {
    EBB_ASSIGN_OR_RETURN(const std::string body, api.get(fmt::format("/v1/events?after={}&limit=1000", after)));
    EBB_ASSIGN_OR_RETURN(const std::vector<wire::EventView> rows, wire::events_from(body));
    for (const wire::EventView& row : rows) show(row);
    if (rows.empty()) return {};
    after = rows.back().seq;
  }
}

}  // namespace

void add_cluster(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<ClusterFlags>();
  const auto add = [&](const char* name, const char* summary) {
    CLI::App* command = app.add_subcommand(name, summary);
    add_data_flag(*command, flags->data);
    return command;
  };

  CLI::App* command = add("nodes", "List the machines of the running cluster");
  command->add_flag("--json", flags->json, "Print the answer of the API");
  command->callback([&context, flags] { context.finish(nodes(context, *flags)); });
  for (const bool on : {true, false}) {
    command = add(on ? "drain" : "undrain", on ? "Start nothing more on a node" : "Start jobs on a node again");
    command->add_option("NODE", flags->node, "Its name")->required();
    command->add_flag("--json", flags->json, "Print the answer of the API");
    command->callback([&context, flags, on] { context.finish(drain(context, *flags, on)); });
  }

  CLI::App* policy = app.add_subcommand("policy", "The scheduling policy of the running cluster");
  policy->require_subcommand(1);
  const auto add_policy = [&](const char* name, const char* summary) {
    CLI::App* added = policy->add_subcommand(name, summary);
    add_data_flag(*added, flags->data);
    added->add_flag("--json", flags->json, "Print the answer of the API");
    return added;
  };
  command = add_policy("get", "Which one decides, and its options that were set");
  command->callback([&context, flags] { context.finish(get_policy(context, *flags)); });
  const auto name = std::make_shared<std::string>();
  const auto assignments = std::make_shared<std::vector<std::string>>();
  command = add_policy("set", "Let another one decide from now on; what runs goes on");
  command->add_option("NAME", *name, "Its name (ebb policies lists them)")->required();
  command->add_option("--set", *assignments, "An option of it, KEY=VALUE; may be given again")->expected(1);
  command->callback(
      [&context, flags, name, assignments] { context.finish(set_policy(context, *flags, *name, *assignments)); });

  const auto after = std::make_shared<std::uint64_t>(0);
  const auto follow = std::make_shared<bool>(false);
  command = add("events", "Print the journal of the running cluster, one JSON object a line");
  command->add_option("--after", *after, "Only rows after this number");
  command->add_flag("--follow,-f", *follow, "Go on with what is to come");
  command->callback([&context, flags, after, follow] { context.finish(events(context, *flags, *after, *follow)); });

  CLI::App* admin = app.add_subcommand("admin", "Look after the journal of a cluster");
  admin->require_subcommand(1);
  const auto file = std::make_shared<std::string>();
  const auto folder = [flags] { return flags->data.empty() ? default_data_folder().string() : flags->data; };
  command = admin->add_subcommand("backup", "Copy the journal into one new file, also while the cluster runs");
  command->add_option("FILE", *file, "Must not be there yet")->required();
  add_data_flag(*command, flags->data);
  command->callback([&context, file, folder] { context.finish(context.programs.backup(folder(), *file)); });
  command = admin->add_subcommand("restore", "Make a data folder of a backup");
  command->add_option("FILE", *file, "The backup")->required();
  add_data_flag(*command, flags->data);
  command->callback([&context, file, folder] { context.finish(context.programs.restore(*file, folder())); });
  command = admin->add_subcommand("verify", "Check every row of the journal");
  add_data_flag(*command, flags->data);
  command->callback([&context, folder] {
    const auto rows = context.programs.verify(folder());
    if (rows) context.print(fmt::format("{} rows, none damaged or missing\n", *rows));
    if (!rows) context.finish(tl::unexpected(rows.error()));
  });

  const auto up = std::make_shared<UpOptions>();
  command = app.add_subcommand("up", "Run a cluster on this machine: controller, agent and API, until Ctrl-C");
  add_data_flag(*command, up->data_folder);
  command->add_option("--port", up->port, "Port of the API on 127.0.0.1 (default: any free one)");
  command
      ->add_option("--slots", up->slots,
                   "How many CPU slots jobs may use on a machine without GPUs (default: one a CPU)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--policy", up->policy,
                      "Scheduling policy of a new cluster (default: backfill); later: ebb policy set");
  const auto up_set = std::make_shared<std::vector<std::string>>();
  command->add_option("--set", *up_set, "An option of the policy, KEY=VALUE; may be given again")->expected(1);
  command->add_option("--log-format", up->log_format, "Lines of the log: text or json (default: text)")
      ->check(CLI::IsMember({"text", "json"}));
  command->add_option("--log-level", up->log_level, "debug, info, warning or error (default: info)")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  command
      ->add_option("--rate-limit", up->requests_per_second,
                   "Requests a second that the API answers to one token; five times as many at once (default: 1000)")
      ->check(CLI::Range(0.1, 1e6));
  command->callback([&context, up, up_set] {
    if (up->data_folder.empty()) up->data_folder = default_data_folder().string();
    auto set = parse_assignments(*up_set);
    if (!set) return context.finish(tl::unexpected(set.error()));
    up->set = std::move(*set);
    context.finish(context.programs.up(*up, context.streams));
  });
}

}  // namespace ebb::cli
