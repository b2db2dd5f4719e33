// docs/reference/policies.md names every policy and every option with its default.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ebb/base/files.h"
#include "ebb/policies/all.h"
#include "ebb/sim/simulator.h"

namespace ebb {
namespace {

/// The rows of all tables of the page, each as its cells without what surrounds them.
std::vector<std::vector<std::string>> rows() {
  std::vector<std::vector<std::string>> all;
  auto reader = LineReader::open(std::string(EBB_SOURCE_DIR) + "/docs/reference/policies.md").value();
  std::string_view line;
  while (reader.next(line).value()) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    for (std::string_view rest = line.substr(2); !rest.empty();) {
      const auto end = rest.find(" |");
      if (end == std::string_view::npos) break;
      cells.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), end + 3));
    }
    all.push_back(std::move(cells));
  }
  return all;
}

std::string code(std::string_view text) {
  return fmt::format("`{}`", text);
}

/// The option's row has its default, and all that it may be.
void expect_option(const std::string& owner, const sched::OptionSpec& option) {
  const auto all = rows();
  const auto row = std::find_if(all.begin(), all.end(), [&](const auto& cells) {
    return cells.size() >= 5 && cells[0] == owner && cells[1] == code(option.name);
  });
  ASSERT_NE(row, all.end()) << owner << " " << option.name << ": no row";
  EXPECT_EQ((*row)[2], code(sched::format_option(option.default_value))) << owner << " " << option.name;
  for (const std::string& choice : option.choices) {
    EXPECT_NE((*row)[3].find(code(choice)), std::string::npos) << owner << " " << option.name << ": " << choice;
  }
}

TEST(PoliciesPage, NamesEveryPolicyWithItsOptions) {
  const auto all = rows();
  const sched::Registry registry = policies::all();
  for (const sched::PolicyInfo& info : registry.policies()) {
    const auto row = std::find_if(all.begin(), all.end(), [&](const auto& cells) {
      return cells.size() >= 4 && cells[0] == code(info.name) && (cells[2] == "yes" || cells[2] == "no");
    });
    ASSERT_NE(row, all.end()) << info.name << ": no row";
    EXPECT_EQ((*row)[2], info.preemptive ? "yes" : "no") << info.name;
    for (const sched::OptionSpec& option : info.options) {
      EXPECT_TRUE(row->size() > 4 && (*row)[4].find(code(option.name)) != std::string::npos)
          << info.name << ": " << option.name;
      expect_option(code(info.name), option);
    }
  }
}

TEST(PoliciesPage, NamesWhatEveryPolicyAndTheSimulatorTake) {
  for (const sched::OptionSpec& option : sched::Registry::common_options()) expect_option("all", option);
  for (const sched::OptionSpec& option : sim::sim_options()) expect_option("simulator", option);
}

TEST(PoliciesPage, NamesNothingElse) {
  std::set<std::string> known;
  const auto add = [&](const std::string& owner, std::span<const sched::OptionSpec> options) {
    for (const sched::OptionSpec& option : options) known.insert(owner + " " + code(option.name));
  };
  const sched::Registry registry = policies::all();
  for (const sched::PolicyInfo& info : registry.policies()) add(code(info.name), info.options);
  add("all", sched::Registry::common_options());
  add("simulator", sim::sim_options());
  bool options = false;
  for (const auto& cells : rows()) {
    if (cells.size() < 2) continue;
    if (cells[0] == "policy") options = cells[1] == "option";
    if (!options || cells[0] == "policy") continue;
    EXPECT_TRUE(known.contains(cells[0] + " " + cells[1])) << cells[1];
  }
}

}  // namespace
}  // namespace ebb
