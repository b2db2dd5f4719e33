// What the commands say of inference and loans, and that they say nothing of it where there is none.

#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

class CliServing : public CliTest {
 protected:
  // See src/ebb/policies/fifo/golden_lending.yaml.
  static std::vector<std::string> lending(std::vector<std::string> args) {
    const std::string path = std::string(EBB_SOURCE_DIR) + "/src/ebb/policies/fifo/golden_lending.csv";
    args.insert(args.end(), {"--trace", path, "--cluster", "2x1", "--lending", "partitioned", "--set", "drain=5s"});
    return args;
  }
};

TEST_F(CliServing, TheTextTellsThemApartFromTraining) {
  const cli::Outcome outcome = ebb(lending({"sim", "run", "--policy", "fifo"}));
  ASSERT_EQ(outcome.code, cli::kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out,
            "fifo on 1x1@training+1x1@serving (2 GPUs): 2 of 2 training jobs completed\n"
            "\n"
            "                        mean  median     p99\n"
            "job completion time  105.0 s  60.0 s  2m 30s\n"
            "pending time          22.5 s     0 s  45.0 s\n"
            "\n"
            "makespan        2m 30s\n"
            "utilisation     55.0 %\n"
            "GPU-hours held     0.0\n"
            "preemptions          1\n"
            "restarts             1\n"
            "max rho           1.50\n"
            "\n"
            "inference tasks         1 of 1 completed\n"
            "extra latency    mean 11.0 s, p99 11.0 s\n"
            "in target                         0.00 %\n"
            "GPUs lent               1, 0.0 GPU-hours\n"
            "reclaims         1, p50 5.0 s, p99 5.0 s\n");
}

TEST_F(CliServing, TheTargetIsAFlag) {
  EXPECT_EQ(run_json(lending({"--target-extra", "10.9s"}))["inference"]["in_target_share"], 0);
  EXPECT_EQ(run_json(lending({"--target-extra", "11s"}))["inference"]["in_target_share"], 1);
  expect_refused(lending({"sim", "run", "--target-extra", "soon"}), {"--target-extra", "soon"});
}

TEST_F(CliServing, TheTableHasColumnsForThem) {
  const cli::Outcome outcome = ebb(lending({"sim", "compare", "--policies", "fifo,srtf"}));
  ASSERT_EQ(outcome.code, cli::kExitOk) << outcome.err;
  const std::string head = outcome.out.substr(0, outcome.out.find('\n'));
  EXPECT_THAT(head, HasSubstr("jobs  tasks  mean extra  p99 extra  in target  lent GPU-h  p50 reclaim  p99 reclaim"));
}

TEST_F(CliServing, WithoutServicesNothingIsSaidOfThem) {
  const std::vector<std::string> workload = {"--trace", trace_, "--cluster", "1x4"};
  for (const char* command : {"run", "compare"}) {
    std::vector<std::string> args = {"sim", command};
    args.insert(args.end(), workload.begin(), workload.end());
    const cli::Outcome outcome = ebb(args);
    ASSERT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    for (const char* word : {"training", "inference", "extra", "target", "lent", "reclaim", "tasks"}) {
      EXPECT_THAT(outcome.out, Not(HasSubstr(word))) << command;
    }
  }
}

TEST_F(CliServing, JobsCsvTellsTheKind) {
  const auto rows = run_rows(lending({"--policy", "fifo"}));
  EXPECT_THAT(rows, ElementsAre("a,training,0,0,60,60,0,60,0,", "b,training,0,0,150,150,45,105,1,no_capacity",
                                "question,inference,10,21,41,31,11,20,0,"));
}

}  // namespace
}  // namespace ebb
