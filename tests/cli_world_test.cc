// Whole runs in which the world answers late or jobs stand in each other's way, small enough to compute by hand.

#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

constexpr const char* kTaskColumns = "# ebb-trace v1\njob,submit_s,run_s,gpus,kind,application\n";
constexpr const char* kProfileColumns = "# ebb-trace v1\njob,submit_s,run_s,gpus,application,batch_size\n";

class CliWorld : public CliTest {
 protected:
  std::vector<std::string> on(const std::string& text, std::vector<std::string> args) const {
    args.insert(args.begin(), {"--trace", folder_.write("world.csv", text)});
    return args;
  }
  void expect_bad(std::vector<std::string> args, const std::vector<std::string>& words) const {
    args.insert(args.begin(), {"sim", "run"});
    expect_refused(args, words);
  }
  std::string error_of(std::vector<std::string> args) const {
    args.insert(args.begin(), {"sim", "run"});
    const cli::Outcome outcome = ebb(args);
    EXPECT_NE(outcome.code, cli::kExitOk);
    return outcome.err;
  }
};

// A gives way to B from 100 s on; B is out of reach until it runs at 110 s. Then it gives its GPUs back within 10 s,
// and the replica loads for 6 s.
TEST_F(CliWorld, ServicesAreLookedAfterOnceAJobInTheirWayRuns) {
  const std::string jobs = std::string(kTaskColumns) +
                           "A,0,100000,8,training,\n"
                           "B,100,7200,8,training,\n"
                           "q,105,1,1,inference,chat\n";
  const auto args = on(jobs, {"--cluster", "2x4", "--lending", "pooled", "--policy", "srtf", "--set", "drain=10s"});
  EXPECT_THAT(run_rows(args)[2], StartsWith("q,inference,105,126,127,"));
  EXPECT_EQ(run_json(args)["loans"]["late"], 0);
}

// With polled time that is noticed at the next round only: B runs from 610 s on, q is placed at 1200 s.
TEST_F(CliWorld, DemandThatTrainingKeepsWaitingIsCounted) {
  const std::string jobs = std::string(kTaskColumns) +
                           "A,0,100000,8,training,\n"
                           "B,100,7200,8,training,\n"
                           "q,605,1,1,inference,chat\n";
  const auto args = on(jobs, {"--cluster", "2x4", "--lending", "pooled", "--policy", "srtf", "--set", "drain=10s",
                              "--time", "polled", "--round", "600s"});
  const auto json = run_json(args);
  EXPECT_EQ(json["loans"]["late"], 1);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("1 replicas waited longer than reclaim_bound (30 s)"));
}

// The last replica is stopped for the jobs that wait.
TEST_F(CliWorld, TheLastSleeperOfANodeLeavesItToTraining) {
  const std::string jobs = std::string(kTaskColumns) +
                           "q,0,10,1,inference,chat\n"
                           "a,5,100,4,training,\n"
                           "b,6,50,1,training,\n";
  for (const char* policy : {"optimus", "afs", "lyra"}) {
    const auto json = run_json(on(jobs, {"--cluster", "1x4", "--policy", policy, "--set", "strip=true"}));
    EXPECT_EQ(json["jobs_completed"], 3) << policy;
  }
}

// Alone A takes 1273.4 s. Beside B, on one of its nodes, it is half as fast: 600 s of it count as 300.
TEST_F(CliWorld, InterferenceEndsWithTheNeighbour) {
  const std::string both = std::string(kProfileColumns) + "A,0,0,6,cifar10,1024\nB,0,600,6,,\n";
  const auto rows = run_rows(on(both, {"--cluster", "3x4", "--policy", "fifo", "--set", "interference=0.5"}));
  EXPECT_THAT(rows[0], StartsWith("A,training,0,0,1573.4"));
}

TEST_F(CliWorld, BeingKilledAtEveryTurnIsNotProgress) {
  const std::string jobs = std::string(kTaskColumns) + "a,0,1000,1,training,\nb,0,1000,1,training,\n";
  const std::vector<std::string> turns = {"--cluster",  "1x1",   "--policy",  "tiresias", "--set",
                                          "limits=100", "--set", "promote=1", "--set"};
  auto args = turns;
  args.emplace_back("drain=40s");
  const std::string error = error_of(on(jobs, args));
  EXPECT_THAT(error, HasSubstr("gets nowhere"));
  EXPECT_THAT(error, HasSubstr("drain, 40 s"));
  args.back() = "drain=30s";
  EXPECT_EQ(run_json(on(jobs, args))["jobs_completed"], 2);
}

// Both have nothing left to do but to start: whoever runs goes on.
TEST_F(CliWorld, JobsWithNothingLeftDoNotTakeTurns) {
  const std::string jobs = std::string(kTaskColumns) + "a,0,0,2,training,\nb,0,0,2,training,\nc,10,0,1,training,\n";
  for (const char* policy : {"srtf", "srsf"}) {
    const auto json = run_json(on(jobs, {"--cluster", "1x2", "--policy", policy, "--round", "1s", "--time", "polled",
                                         "--resize-cost", "30s", "--set", "charge_first_start=true"}));
    EXPECT_EQ(json["jobs_completed"], 3) << policy;
    EXPECT_EQ(json["preemptions"], 0) << policy;
  }
}

TEST_F(CliWorld, ReplicasOfAServiceHaveOneSize) {
  const std::string tasks = std::string(kTaskColumns) + "q,0,10,1,inference,chat\nr,5,10,2,inference,chat\n";
  expect_bad(on(tasks, {"--cluster", "2x4", "--policy", "fifo"}),
             {"task 'r' asks for 2 GPUs of service 'chat'", "task 'q' of it has 1"});
  folder_.write("rates.csv", "start_s,requests_per_s\n0,1\n100,0\n");
  const std::string services = folder_.write("services.yaml",
                                             "version: 1\nservices:\n"
                                             "  - {name: chat, gpus: 2, service_time: 200ms, target_latency: 600ms, "
                                             "start_delay: 5s, requests: rates.csv}\n");
  expect_bad(on(std::string(kTaskColumns) + "q,0,10,1,inference,chat\n",
                {"--cluster", "2x4", "--policy", "fifo", "--services", services}),
             {"task 'q' asks for 1 GPUs", "service 'chat' has 2"});
}

TEST_F(CliWorld, StepTimesThatWereNotMeasuredAreCounted) {
  const auto lookups = [&](const std::string& job, const std::string& cluster) {
    return run_json(on(kProfileColumns + job, {"--cluster", cluster, "--policy", "fifo"}));
  };
  const auto measured = lookups("A,0,0,1,cifar10,128\n", "1x4");
  EXPECT_EQ(measured["profile_lookups"]["clamped"], 0);
  EXPECT_EQ(measured["profile_lookups"]["fitted"], 0);
  EXPECT_GT(measured["profile_lookups"]["count"], 0);
  const auto beyond = lookups("A,0,0,64,cifar10,4096\n", "1x64");
  EXPECT_GT(beyond["profile_lookups"]["clamped"].get<int>() + beyond["profile_lookups"]["fitted"].get<int>(), 0);
  EXPECT_THAT(beyond["warnings"].dump(), HasSubstr("cifar10"));
}

// Both are gangs that a policy of fixed size holds: what each did since its start counts, not its number of GPUs.
TEST_F(CliWorld, TheGangThatDidLeastIsTakenBack) {
  const std::string jobs = std::string(kTaskColumns) +
                           "big,0,20000,4,training,\n"
                           "old,0,20000,1,training,\n"
                           "young,9490,20000,3,training,\n"
                           "q,9500,5,1,inference,chat\n";
  const auto rows = run_rows(on(jobs, {"--cluster", "1x8@serving", "--policy", "fifo", "--lending", "partitioned"}));
  EXPECT_THAT(rows[1], StartsWith("old,training,0,0,20000,"));
  EXPECT_THAT(rows[2], HasSubstr(",1,"));
}

}  // namespace
}  // namespace ebb
