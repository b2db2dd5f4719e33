// The published runs of Pollux's artifact (OSDI 2021) under Tiresias and Optimus: four loads x eight workloads, every
// job's completion time to the second.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/policies/all.h"
#include "ebb/sim/scenario_options.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/scenario.h"
#include "ebb/trace/workload.h"

namespace ebb {
namespace {

struct PublishedRun {
  const char* policy;
  const char* load;
  int workload;
};

// How GoogleTest names a run.
void PrintTo(const PublishedRun& run, std::ostream* out) {
  *out << fmt::format("{} at load {}, workload {}", run.policy, run.load, run.workload);
}

std::vector<PublishedRun> published_runs() {
  std::vector<PublishedRun> runs;
  for (const char* policy : {"tiresias", "optimus"}) {
    for (const char* load : {"0.5", "1.0", "1.5", "2.0"}) {
      for (int workload = 1; workload <= 8; ++workload) runs.push_back({policy, load, workload});
    }
  }
  return runs;
}

class PolluxReference : public ::testing::TestWithParam<PublishedRun> {
 protected:
  const PublishedRun& run_ = GetParam();
  const std::string folder_ = fmt::format("{}/testdata/pollux", EBB_SOURCE_DIR);
  const std::string name_ = fmt::format("workload-{}", run_.workload);

  std::string workload_path() const {
    const std::string load = run_.load == std::string("1.0") ? "" : fmt::format("-{}", run_.load);
    return fmt::format("{}/workloads{}/{}.csv", folder_, load, name_);
  }
  nlohmann::json published() const {
    const std::string path =
        fmt::format("{}/published_results/results-jobload/{}-{}.json", folder_, run_.policy, run_.load);
    return nlohmann::json::parse(read_file(path).value());
  }
  sim::SimOptions preset() const {
    const auto preset =
        spec::read_scenario(fmt::format("{}/scenarios/reference/pollux-{}.yaml", EBB_SOURCE_DIR, run_.policy)).value();
    sim::SimOptions options = sim::options_of(preset).value();
    options.check_invariants = true;
    return options;
  }
};

TEST_P(PolluxReference, EveryJobTakesAsLong) {
  const auto workload = trace::read_workload(workload_path(), {}).value().workload;
  const nlohmann::json expected = published();
  const auto result = sim::simulate(spec::parse_cluster("16x4").value(), workload, preset(), policies::all());
  ASSERT_TRUE(result) << result.error().message;
  const auto& jcts = expected.at("jcts").at(name_);
  ASSERT_EQ(result->jobs.size(), jcts.size());
  for (const sim::JobRecord& job : result->jobs) {
    ASSERT_TRUE(job.end) << job.name;
    EXPECT_EQ(to_seconds(*job.jct()), jcts.at(job.name).get<double>()) << job.name;
  }
  const double average = expected.at("avgs").at(name_);
  EXPECT_NEAR(result->summary.training.avg_s, average, 1e-6 * average);
}

INSTANTIATE_TEST_SUITE_P(Published, PolluxReference, ::testing::ValuesIn(published_runs()), [](const auto& test) {
  std::string name = fmt::format("{}_{}_{}", test.param.policy, test.param.load, test.param.workload);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace ebb
