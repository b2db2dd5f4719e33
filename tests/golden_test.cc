// Every golden scenario beside a policy: its `expect:` figures are computed by hand in its comments.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ebb/cli/testing.h"
#include "ebb/policies/all.h"
#include "ebb/spec/scenario.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> golden_scenarios() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(std::string(EBB_SOURCE_DIR) + "/src/ebb/policies")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("golden") && name.ends_with(".yaml")) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, MeetsItsExpectations) {
  const auto scenario = spec::read_scenario(GetParam());
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_GE(scenario->expect.size(), 8U) << "a golden scenario expects figures";
  const cli::Outcome outcome = cli::run_in_process({"sim", "run", GetParam()}, policies::all());
  EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(Policies, Golden, ::testing::ValuesIn(golden_scenarios()), [](const auto& test) {
  const fs::path path(test.param);
  return path.parent_path().filename().string() + "_" + path.stem().string();
});

TEST(Golden, EveryPolicyHasOne) {
  std::vector<std::string> covered;
  for (const std::string& path : golden_scenarios())
    covered.push_back(spec::read_scenario(path).value().policy.value());
  const sched::Registry registry = policies::all();
  for (const sched::PolicyInfo& info : registry.policies()) {
    EXPECT_TRUE(std::find(covered.begin(), covered.end(), info.name) != covered.end()) << info.name;
  }
}

}  // namespace
}  // namespace ebb
