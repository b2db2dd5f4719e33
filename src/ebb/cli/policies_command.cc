#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ebb/cli/command.h"
#include "ebb/sim/simulator.h"

namespace ebb::cli {
namespace {

using sched::OptionSpec;
using sched::PolicyInfo;

std::string_view oracle_text(sched::Oracle oracle) {
  switch (oracle) {
    case sched::Oracle::no:
      return "no";
    case sched::Oracle::without_requested_time:
      return "for jobs without a requested time";
    case sched::Oracle::yes:
      return "yes";
  }
  return "no";
}

std::string options_text(std::span<const OptionSpec> options) {
  std::string text;
  for (const OptionSpec& option : options) {
    const std::string kind =
        option.choices.empty() ? std::string(type_name(option)) : fmt::format("{}", fmt::join(option.choices, "|"));
    text += fmt::format("    {} = {}  ({})\n        {}\n", option.name, sched::format_option(option.default_value),
                        kind, option.doc);
  }
  return text;
}

std::string text_of(const Context& context) {
  std::string text;
  for (const PolicyInfo& info : context.registry.policies()) {
    text += fmt::format("{}\n    {}\n    Source: {}.\n    Preemptive: {}. Uses true run times (oracle): {}.\n",
                        info.name, info.summary, info.source, info.preemptive ? "yes" : "no", oracle_text(info.oracle));
    text += options_text(info.options) + "\n";
  }
  text += "Every policy also takes\n" + options_text(sched::Registry::common_options());
  text += "\nand the simulator\n" + options_text(sim::sim_options());
  return text;
}

nlohmann::ordered_json json_of(std::span<const OptionSpec> options) {
  auto list = nlohmann::ordered_json::array();
  for (const OptionSpec& option : options) {
    list.push_back({{"name", option.name},
                    {"type", type_name(option)},
                    {"default", sched::format_option(option.default_value)},
                    {"choices", option.choices},
                    {"doc", option.doc}});
  }
  return list;
}

std::string json_text_of(const Context& context) {
  nlohmann::ordered_json json;
  json["schema_version"] = 1;
  json["policies"] = nlohmann::ordered_json::array();
  for (const PolicyInfo& info : context.registry.policies()) {
    json["policies"].push_back({{"name", info.name},
                                {"summary", info.summary},
                                {"source", info.source},
                                {"preemptive", info.preemptive},
                                {"oracle", oracle_text(info.oracle)},
                                {"options", json_of(info.options)}});
  }
  json["common_options"] = json_of(sched::Registry::common_options());
  json["simulator_options"] = json_of(sim::sim_options());
  return json.dump(2) + "\n";
}

}  // namespace

void add_policies(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("policies", "List the policies and their options");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object");
  command->callback([json, &context] { context.print(*json ? json_text_of(context) : text_of(context)); });
}

}  // namespace ebb::cli
