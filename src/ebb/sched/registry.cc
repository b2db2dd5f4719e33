#include "ebb/sched/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ebb/base/check.h"

namespace ebb::sched {

void Registry::add(PolicyInfo info) {
  EBB_CHECK(!find(info.name));
  policies_.push_back(std::move(info));
}

Result<const PolicyInfo*> Registry::find(std::string_view name) const {
  std::vector<std::string> known;
  for (const PolicyInfo& info : policies_) {
    if (info.name == name) return &info;
    known.push_back(info.name);
  }
  return fail(ErrorCode::not_found, "unknown policy '{}'; known: {}", name, fmt::join(known, ", "));
}

std::span<const OptionSpec> Registry::common_options() {
  static const std::vector<OptionSpec> options = {
      {"placement",
       std::string("count"),
       "how a gang is placed on nodes",
       {"count", "best_fit", "consolidate", "spread"}},
  };
  return options;
}

Result<Options> Registry::parse_options(std::string_view name,
                                        std::span<const std::pair<std::string, std::string>> assignments) const {
  EBB_ASSIGN_OR_RETURN(const PolicyInfo* info, find(name));
  std::vector<OptionSpec> specs = info->options;
  specs.insert(specs.end(), common_options().begin(), common_options().end());
  return Options::parse(specs, assignments);
}

Result<std::unique_ptr<Policy>> Registry::make(std::string_view name,
                                               std::span<const std::pair<std::string, std::string>> assignments) const {
  EBB_ASSIGN_OR_RETURN(const PolicyInfo* info, find(name));
  PolicyArguments arguments;
  EBB_ASSIGN_OR_RETURN(arguments.options, parse_options(name, assignments));
  EBB_ASSIGN_OR_RETURN(arguments.placement, make_placement(arguments.options.get<std::string>("placement")));
  return info->make(arguments);
}

}  // namespace ebb::sched
