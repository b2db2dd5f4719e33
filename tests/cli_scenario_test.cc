// `ebb sim run` with scenarios and presets: precedence, expectations, faults, heterogeneous clusters, priorities.

#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

class CliScenario : public CliTest {
 protected:
  // A scenario on jobs.csv unless it names another trace.
  std::string scenario(const std::string& text) const {
    return folder_.write(
        "scenario.yaml",
        std::string("version: 1\n") + (text.find("trace:") == std::string::npos ? "trace: jobs.csv\n" : "") + text);
  }
  void expect_bad_scenario(const std::string& text, const std::vector<std::string>& words) const {
    expect_refused({"sim", "run", folder_.write("bad.yaml", text)}, words);
  }
  // Where each start in the journal of run_rows() put its job: "0 on 1" in order.
  std::vector<std::string> starts() const {
    std::vector<std::string> found;
    auto reader = LineReader::from_text("events.jsonl", folder_.read("rows/events.jsonl"));
    std::string_view line;
    while (reader.next(line).value()) {
      const auto json = nlohmann::json::parse(line);
      if (json["type"] != "start") continue;
      std::string text = fmt::format("{} on", json["job"].get<int>());
      for (const auto& share : json["allocation"]) text += fmt::format(" {}", share[0].get<int>());
      found.push_back(text);
    }
    return found;
  }
};

TEST_F(CliScenario, FlagsOverrideIt) {
  const std::string path = scenario("cluster: 1x4\npolicy: tiresias\noptions: {limits: 60}\n");
  const std::vector<std::string> tiresias = run_rows({path});
  EXPECT_THAT(tiresias[0], StartsWith("a,training,0,0,130,"));
  EXPECT_THAT(run_rows({path, "--set", "limits=7200"})[0], StartsWith("a,training,0,0,100,"));
  // Another policy starts from its own defaults: the scenario's options are not its.
  EXPECT_THAT(run_rows({path, "--policy", "fifo"})[2], StartsWith("c,training,20,100,130,"));
  EXPECT_THAT(run_rows({path, "--cluster", "1x8"})[0], StartsWith("a,training,0,0,100,"));
  EXPECT_THAT(run_rows({path, "--round", "1000s"})[1], StartsWith("b,training,10,1000,"));
}

TEST_F(CliScenario, ItsTraceIsFoundBesideIt) {
  std::filesystem::create_directory(folder_ / "deeper");
  const std::string path = folder_.write("deeper/s.yaml", "version: 1\ntrace: ../jobs.csv\ncluster: 1x4\n");
  EXPECT_EQ(run_json({path})["jobs_completed"], 3);
}

TEST_F(CliScenario, ErrorsNameLineAndColumn) {
  expect_bad_scenario("version: 1\ntrace: jobs.csv\npolcy: fifo\n", {"bad.yaml:3:1", "'polcy'", "'policy'"});
  expect_bad_scenario("version: 1\ncluster: 1x0\n", {"bad.yaml:2:10", "'1x0'", "number of GPUs"});
  expect_bad_scenario("version: 1\nround: soon\n", {"bad.yaml:2:8", "'soon' is not a duration"});
  expect_bad_scenario("version: 1\nround: 0\n", {"bad.yaml:2:8", "longer than 0"});
  expect_bad_scenario("version: 1\nseed: -1\n", {"bad.yaml:2:7", "'-1' is not a whole number"});
  expect_bad_scenario("version: 1\ntime: years\n", {"bad.yaml:2:7", "is none of fractional, seconds, polled"});
  expect_bad_scenario("version: 2\n", {"bad.yaml:1:10", "version 2", "up to version 1"});
  expect_bad_scenario("trace: jobs.csv\n", {"bad.yaml:1:1", "'version' is missing"});
  expect_bad_scenario("version: 1\nexpect: {restarts: few}\n", {"bad.yaml:2:20", "'few' is not a number"});
  expect_bad_scenario("version: 1\ncluster: 1x4\nfaults:\n  outages:\n    - {at: 5, node: 7}\n",
                      {"bad.yaml:5:21", "no node 7", "0 to 0"});
  expect_bad_scenario("version: 1\nfaults: {mtbf: 1d}\n", {"bad.yaml:2:16", "'mttr'"});
  expect_bad_scenario("version: 1\noptions: [a\n", {"bad.yaml:3:1", "not valid YAML"});
  expect_bad_scenario("", {"bad.yaml", "empty", "version: 1"});
  expect_refused({"sim", "run", folder_ / "none.yaml"}, {"none.yaml", "No such file"});
  expect_refused({"sim", "run", folder_.path()}, {"is a folder"});
}

TEST_F(CliScenario, WhatItNamesMustFitTogether) {
  expect_refused({"sim", "run", scenario("cluster: 1x4\npolicy: lottery\n")}, {"unknown policy 'lottery'"});
  expect_refused({"sim", "run", scenario("cluster: 1x4\npolicy: fifo\noptions: {limits: 60}\n")},
                 {"unknown option 'limits'"});
  expect_refused({"sim", "run", scenario("trace: none.csv\ncluster: 1x4\n")}, {"none.csv", "No such file"});
  // The cluster of the flag is smaller than that of the scenario's fault.
  expect_refused(
      {"sim", "run", scenario("cluster: 9x4\nfaults:\n  outages:\n    - {at: 5, node: 7}\n"), "--cluster", "2x4"},
      {"outage of node 7", "nodes 0 to 1"});
}

TEST_F(CliScenario, APresetFixesPolicyAndTimeModelButNoTraceOrCluster) {
  const std::string path = scenario("cluster: 1x4\n");
  expect_refused({"sim", "run", path, "--preset", "tiresias-las"}, {"scenario", "--preset", "not both"});
  expect_refused({"sim", "run", "--preset", "tiresias-las", "--trace", trace_}, {"which cluster?"});
  expect_refused({"sim", "run", "--preset", "tiresias-las", "--cluster", "1x4"}, {"which jobs?"});

  const std::string fine = folder_.write("fine.csv", "job,submit_s,run_s,gpus\na,0,10.6,1\n");
  const auto rows = run_rows({"--preset", "tiresias-srtf", "--trace", fine, "--cluster", "1x4"});
  EXPECT_THAT(rows, ElementsAre("a,training,0,0,11,11,0,11,0,"));
  EXPECT_THAT(folder_.read("rows/events.jsonl"), HasSubstr(R"("policy":"srtf")"));
  EXPECT_THAT(run_rows({"--preset", "tiresias-srtf", "--trace", fine, "--cluster", "1x4", "--time", "fractional"}),
              ElementsAre("a,training,0,0,10.6,10.6,0,10.6,0,"));
  for (const char* preset :
       {"tiresias-fifo", "tiresias-las", "tiresias-las-promote", "tiresias-srtf", "tiresias-srsf"}) {
    EXPECT_EQ(run_json({"--preset", preset, "--trace", trace_, "--cluster", "1x4"})["jobs_completed"], 3);
  }
}

TEST_F(CliScenario, ExpectationsThatAreMetOrNot) {
  const std::string met = scenario("cluster: 1x4\npolicy: fifo\nexpect: {makespan_s: 150, queue.p99_pending_s: 90}\n");
  EXPECT_EQ(ebb({"sim", "run", met}).code, cli::kExitOk);

  const std::string unmet =
      scenario("cluster: 1x4\npolicy: fifo\nexpect: {makespan_s: 151, restarts: 0, max_rho: 9}\n");
  const cli::Outcome outcome = ebb({"sim", "run", unmet, "--out", folder_ / "out"});
  EXPECT_EQ(outcome.code, cli::kExitFailed);
  EXPECT_THAT(outcome.err, HasSubstr("makespan_s: expected 151, got 150"));
  EXPECT_THAT(outcome.err, HasSubstr("max_rho: expected 9, got 3.66"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("restarts")));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/summary.json")) << "the outputs show why";
}

TEST_F(CliScenario, AFigureThatDoesNotExistIsRefusedBeforeTheRun) {
  expect_refused({"sim", "run", scenario("cluster: 1x4\nexpect: {training.mean: 1}\n")},
                 {"'training.mean'", "training.avg_jct_s", "max_rho"});
}

TEST_F(CliScenario, AnOutageKillsTheWholeGangAndItStartsAgain) {
  folder_.write("gang.csv", "job,submit_s,run_s,gpus\na,0,100,4\n");
  const std::string outage =
      "trace: gang.csv\ncluster: 2x2\npolicy: fifo\nfaults:\n  outages:\n"
      "    - {at: 30, node: node-0001, lasts: 10}\n";
  // 30 s are lost; it starts again at 40.
  EXPECT_THAT(run_rows({scenario(outage)}), ElementsAre("a,training,0,0,140,140,10,520,1,no_capacity"));
  const auto json = run_json({scenario(outage)});
  EXPECT_EQ(json["restarts"], 1);
  EXPECT_EQ(json["preemptions"], 0);
  EXPECT_EQ(json["gpu_seconds"], 4 * (30 + 100));
  // Of 30 s, 20 are in the last checkpoint: 80 s are left.
  EXPECT_THAT(run_rows({scenario(outage + "  checkpoint_interval: 20s\n")}),
              ElementsAre("a,training,0,0,120,120,10,440,1,no_capacity"));
  // And the restart costs 7 s.
  EXPECT_THAT(run_rows({scenario(outage + "  checkpoint_interval: 20s\n"), "--resize-cost", "7s"}),
              ElementsAre("a,training,0,0,127,127,10,468,1,no_capacity"));
}

TEST_F(CliScenario, AnOutageLeavesOtherNodesAlone) {
  folder_.write("three.csv", "job,submit_s,run_s,gpus\na,0,100,2\nb,10,50,2\nc,20,10,2\n");
  // a loses node 0 at 15, keeps its place at the head and starts again at 25; b runs on on node 1; c follows b at 60.
  EXPECT_THAT(run_rows({scenario("trace: three.csv\ncluster: 2x2\npolicy: fifo\nfaults:\n  outages:\n"
                                 "    - {at: 15, node: 0, lasts: 10}\n")}),
              ElementsAre("a,training,0,0,125,125,10,230,1,no_capacity", "b,training,10,10,60,50,0,100,0,",
                          "c,training,20,60,70,50,40,20,0,behind_head"));
}

TEST_F(CliScenario, AnOutageBeforeTheFirstSubmission) {
  folder_.write("late.csv", "job,submit_s,run_s,gpus\na,100,10,2\n");
  EXPECT_THAT(run_rows({scenario("trace: late.csv\ncluster: 1x2\npolicy: fifo\nfaults:\n  outages:\n"
                                 "    - {at: 5, node: 0, lasts: 3}\n")}),
              ElementsAre("a,training,100,100,110,10,0,20,0,"));
}

TEST_F(CliScenario, ARepairAheadIsNoStall) {
  folder_.write("head.csv", "job,submit_s,run_s,gpus\nwide,0,300,4\nsmall,100,300,1\n");
  EXPECT_THAT(run_rows({scenario("trace: head.csv\ncluster: 2x2\npolicy: fifo\nfaults:\n  outages:\n"
                                 "    - {at: 50, node: 0, lasts: 500}\n    - {at: 60, node: 1, lasts: 100}\n")}),
              ElementsAre("wide,training,0,0,850,850,500,1400,1,no_capacity",
                          "small,training,100,850,1150,1050,750,300,0,behind_head"));
}

TEST_F(CliScenario, NobodyIsPreemptedWhereAnotherGroupIsIdle) {
  folder_.write("two.csv", "job,submit_s,run_s,gpus\nwide,0,100,3\nsmall,10,1,1\n");
  for (const std::string& policy : kPolicies) {
    const auto json = run_json({scenario("trace: two.csv\ncluster: 3x1:t4+4x4:a100\n"), "--policy", policy});
    EXPECT_EQ(json["preemptions"], 0) << policy;
  }
}

TEST_F(CliScenario, TypesThatTheClusterDoesNotNameAreWarnedOf) {
  folder_.write("typed.csv", "job,submit_s,run_s,gpus,gpu_type\na,0,100,2,a100\nb,0,100,2,\n");
  const auto json = run_json({scenario("trace: typed.csv\ncluster: 2x2\npolicy: fifo\n")});
  EXPECT_EQ(json["jobs_completed"], 2);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("1 of 2 jobs ask for a GPU type; the cluster names none"));
}

TEST_F(CliScenario, JobsWhoseNodesNeverComeBackAreToldApart) {
  folder_.write("lost.csv", "job,submit_s,run_s,gpus\na,0,10,2\nb,0,100,2\n");
  const auto json =
      run_json({scenario("trace: lost.csv\ncluster: 1x2\npolicy: fifo\nfaults:\n  outages:\n"
                         "    - {at: 60, node: 0}\n")});
  EXPECT_EQ(json["jobs_completed"], 1);
  EXPECT_EQ(json["makespan_s"], 60);  // b held its GPUs until then
  EXPECT_EQ(json["utilisation"], 1.0);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("1 of 2 jobs did not complete: nodes that they need never came back"));
}

TEST_F(CliScenario, ADrainedNodeRunsOutAndTakesNothingNew) {
  folder_.write("three.csv", "job,submit_s,run_s,gpus\na,0,100,2\nb,10,10,2\nc,30,10,2\n");
  // b on node 1 is not disturbed at 15; c waits for the end of the drain at 65, though node 1 is idle since 20.
  EXPECT_THAT(run_rows({scenario("trace: three.csv\ncluster: 2x2\npolicy: fifo\nfaults:\n  outages:\n"
                                 "    - {at: 15, node: 1, lasts: 50, kind: drain}\n")}),
              ElementsAre("a,training,0,0,100,100,0,200,0,", "b,training,10,10,20,10,0,20,0,",
                          "c,training,30,65,75,45,35,20,0,no_capacity"));
}

TEST_F(CliScenario, RandomFaultsDependOnTheSeedOnly) {
  std::string text = "job,submit_s,run_s,gpus\n";
  for (int i = 0; i < 50; ++i) text += fmt::format("j{},{},5000,2\n", i, i * 100);
  folder_.write("many.csv", text);
  const std::string path = scenario("trace: many.csv\ncluster: 4x4\npolicy: fifo\nfaults: {mtbf: 4h, mttr: 10m}\n");
  const auto first = run_rows({path, "--seed", "1"});
  EXPECT_EQ(first, run_rows({path, "--seed", "1"}));
  EXPECT_NE(first, run_rows({path, "--seed", "2"}));
  EXPECT_GT(run_json({path, "--seed", "1"})["restarts"], 0);
}

TEST_F(CliScenario, JobsWithoutAPoolRunInTraining) {
  folder_.write("pools.csv", "job,submit_s,run_s,gpus,pool\na,0,10,2,\nb,0,10,2,\nc,0,10,2,serving\n");
  // Node 0 serves. a and b take turns on node 1; c has node 0 to itself.
  EXPECT_THAT(run_rows({scenario("trace: pools.csv\ncluster: 1x2@serving+1x2@training\npolicy: drf\n")}),
              ElementsAre("a,training,0,0,10,10,0,20,0,", "b,training,0,10,20,20,10,20,0,no_capacity",
                          "c,training,0,0,10,10,0,20,0,"));
  EXPECT_THAT(starts(), ElementsAre("0 on 1", "2 on 0", "1 on 1"));
  // Without a pool "training" they run in all that does not serve.
  run_rows({scenario("trace: pools.csv\ncluster: 1x2@serving+1x2@other\npolicy: fifo\n")});
  EXPECT_THAT(starts(), ElementsAre("0 on 1", "1 on 1", "2 on 0"));
  // A gang of 4 is larger than the pool, not than the cluster.
  folder_.write("pools.csv", "job,submit_s,run_s,gpus\na,0,10,4\n");
  expect_refused({"sim", "run", scenario("trace: pools.csv\ncluster: 1x2@serving+1x2@training\n")},
                 {"job 'a' needs 4 GPUs", "has 2 that it may use"});
}

TEST_F(CliScenario, AGangNeverMixesGpuTypes) {
  folder_.write("types.csv", "job,submit_s,run_s,gpus,gpu_type\na,0,10,2,t4\nb,0,10,2,\nc,0,10,4,a100\n");
  const auto rows = run_rows({scenario("trace: types.csv\ncluster: 2x2:a100+1x2:t4\npolicy: fifo\n")});
  EXPECT_THAT(starts(), ElementsAre("0 on 2", "1 on 0", "2 on 0 1"));
  EXPECT_THAT(rows[2], StartsWith("c,training,0,10,20,"));
  folder_.write("types.csv", "job,submit_s,run_s,gpus\na,0,10,6\n");
  expect_refused({"sim", "run", scenario("trace: types.csv\ncluster: 2x2:a100+1x2:t4\n")},
                 {"job 'a' needs 6 GPUs", "has 4 that it may use"});
}

TEST_F(CliScenario, PrioritiesGoFirstUnderEveryPolicy) {
  folder_.write("prio.csv", "job,submit_s,run_s,gpus,priority\na,0,10,1,0\nb,1,10,1,0\nc,2,20,1,7\nd,3,5,1,-1\n");
  for (const std::string& policy : kPolicies) {
    run_rows({scenario("trace: prio.csv\ncluster: 1x1\n"), "--policy", policy});
    const auto order = starts();
    const auto place = [&](int job) {
      return std::find(order.begin(), order.end(), fmt::format("{} on 0", job)) - order.begin();
    };
    EXPECT_LT(place(2), place(1)) << policy;
    EXPECT_LT(place(1), place(3)) << policy;
  }
  // Preemptive policies take the GPU from a at once.
  EXPECT_THAT(run_rows({scenario("trace: prio.csv\ncluster: 1x1\n"), "--policy", "srtf"})[2],
              StartsWith("c,training,2,2,22,"));
  EXPECT_THAT(run_rows({scenario("trace: prio.csv\ncluster: 1x1\n"), "--policy", "fifo"})[2],
              StartsWith("c,training,2,10,30,"));
}

}  // namespace
}  // namespace ebb
