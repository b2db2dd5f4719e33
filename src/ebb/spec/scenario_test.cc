#include "ebb/spec/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ebb::spec {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  const auto result = parse_scenario("s.yaml", text);
  return result ? "no error" : result.error().message;
}

TEST(Scenario, ReadsEveryKey) {
  const auto result = parse_scenario("scenarios/reference/t.yaml", R"(
version: 1
description: Tiresias on the Philly sample
trace: ../../testdata/tiresias/jobs.csv
format: tiresias
procs_per_gpu: 2
services: services.yaml
profiles: ../../testdata/pollux/profiles
cluster: 8x8:a100@training+4x4
policy: tiresias
options: {queues: 3, limits: "3250,7200"}
round: 60s
resize_cost: 0
lending: pooled
target_extra: 2s
time: seconds
seed: 18446744073709551615
faults:
  outages:
    - {at: 1h, node: 3, lasts: 30m}
    - at: 90
      node: node-0011
      kind: drain
  mtbf: 30d
  mttr: 4h
  checkpoint_interval: 10m
expect:
  training.avg_jct_s: 16257.883
  jobs_completed: 1000
)");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->description, "Tiresias on the Philly sample");
  EXPECT_EQ(result->trace, "testdata/tiresias/jobs.csv");
  EXPECT_EQ(result->format, "tiresias");
  EXPECT_EQ(result->procs_per_gpu, 2);
  EXPECT_EQ(result->services, "scenarios/reference/services.yaml");
  EXPECT_EQ(result->profiles, "testdata/pollux/profiles");
  EXPECT_EQ(result->cluster, "8x8:a100@training+4x4");
  EXPECT_EQ(result->policy, "tiresias");
  EXPECT_THAT(result->options, ElementsAre(Pair("queues", "3"), Pair("limits", "3250,7200")));
  EXPECT_EQ(result->round, seconds(60));
  EXPECT_EQ(result->resize_cost, "0");
  EXPECT_EQ(result->lending, Lending::pooled);
  EXPECT_EQ(result->target_extra, seconds(2));
  EXPECT_EQ(result->time, TimeModel::seconds);
  EXPECT_EQ(result->seed, UINT64_MAX);
  EXPECT_THAT(result->faults.outages, ElementsAre(NodeOutage{Time(hours(1)), 3, minutes(30), false},
                                                  NodeOutage{Time(seconds(90)), 11, {}, true}));
  EXPECT_EQ(result->faults.mtbf, hours(720));
  EXPECT_EQ(result->faults.mttr, hours(4));
  EXPECT_EQ(result->faults.checkpoint_interval, minutes(10));
  EXPECT_THAT(result->expect, ElementsAre(Pair("training.avg_jct_s", 16257.883), Pair("jobs_completed", 1000)));
}

TEST(Scenario, NeedsOnlyItsVersion) {
  const auto result = parse_scenario("s.yaml", "version: 1\n");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(*result, Scenario());
}

TEST(Scenario, TakesEveryWordOfAKey) {
  const auto value = [](const std::string& line) { return parse_scenario("s.yaml", "version: 1\n" + line).value(); };
  for (const TimeModel model : {TimeModel::fractional, TimeModel::seconds, TimeModel::polled}) {
    EXPECT_EQ(value(fmt::format("time: {}", to_string(model))).time, model);
  }
  for (const Lending lending : {Lending::none, Lending::pooled, Lending::partitioned}) {
    EXPECT_EQ(value(fmt::format("lending: {}", to_string(lending))).lending, lending);
  }
  for (const char* cost : {"30s", "1m30s", "restart", "afe", "stop-free"}) {
    EXPECT_EQ(value(fmt::format("resize_cost: {}", cost)).resize_cost, cost);
  }
}

TEST(Scenario, ReadsFilesAndResolvesTheTraceAgainstThem) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto path = folder / "ebb_scenario_test.yaml";
  std::ofstream(path) << "version: 1\ntrace: jobs.csv\n";
  EXPECT_EQ(read_scenario(path)->trace, (folder / "jobs.csv").string());
  std::ofstream(path) << "version: 1\ntrace: /data/jobs.csv\n";
  EXPECT_EQ(read_scenario(path)->trace, "/data/jobs.csv");
  std::filesystem::remove(path);
  EXPECT_EQ(read_scenario(path).error().code, ErrorCode::not_found);
}

TEST(Scenario, PlacesEveryError) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "s.yaml: the scenario is empty"},
      {"~", "s.yaml: the scenario is empty"},
      {"- 1", "s.yaml:1:1: the scenario must be a map"},
      {"seed: 1", "s.yaml:1:1: the key 'version' is missing"},
      {"version: 2", "s.yaml:1:10: the scenario has version 2; this ebb reads up to version 1"},
      {"version: one", "s.yaml:1:10: 'version': 'one' is not a whole number"},
      {"version: 1\nclutser: 4x4", "s.yaml:2:1: unknown key 'clutser'; did you mean 'cluster'?"},
      {"version: 1\nwhatever: 4x4", "s.yaml:2:1: unknown key 'whatever'; the scenario has: version, description"},
      {"version: 1\nseed: 1\nseed: 2", "s.yaml:3:1: key 'seed' appears twice"},
      {"version: 1\n[a]: 2", "a key must be a plain word"},
      {"version: 1\ntrace:", "'trace' needs a value"},
      {"version: 1\npolicy: [a]", "s.yaml:2:9: 'policy' needs a value"},
      {"version: 1\ncluster: 4y4", "s.yaml:2:10: not a cluster: '4y4'"},
      {"version: 1\nprocs_per_gpu: 0", "s.yaml:2:16: 'procs_per_gpu': '0' is not a whole number from 1"},
      {"version: 1\nround: fast", "s.yaml:2:8: 'round': 'fast' is not a duration"},
      {"version: 1\nround: 0", "s.yaml:2:8: 'round' must be longer than 0"},
      {"version: 1\nround: 200000d", "s.yaml:2:8: 'round': '200000d' is not a duration"},
      {"version: 1\nresize_cost: -1",
       "s.yaml:2:14: 'resize_cost': '-1' is none of restart, afe, stop-free, nor a duration"},
      {"version: 1\nresize_cost: [afe]", "s.yaml:2:14: 'resize_cost' needs a value"},
      {"version: 1\nlending: some", "s.yaml:2:10: 'lending': 'some' is none of none, pooled, partitioned"},
      {"version: 1\ntarget_extra: soon", "s.yaml:2:15: 'target_extra': 'soon' is not a duration"},
      {"version: 1\nservices: {a: 1}", "s.yaml:2:11: 'services' needs a value"},
      {"version: 1\ntime: hours", "s.yaml:2:7: 'time': 'hours' is none of fractional, seconds, polled"},
      {"version: 1\nseed: -1", "s.yaml:2:7: 'seed': '-1' is not a whole number"},
      {"version: 1\nseed: 18446744073709551616", "'seed': '18446744073709551616' is not a whole number"},
      {"version: 1\noptions: 3", "s.yaml:2:10: 'options' must be a map"},
      {"version: 1\noptions: {a: [1]}", "s.yaml:2:14: 'a' needs a value"},
      {"version: 1\noptions: {a: 1, a: 2}", "'options': 'a' appears twice"},
      {"version: 1\nexpect: {a: fast}", "s.yaml:2:13: 'expect': 'a': 'fast' is not a number"},
      {"version: 1\nexpect: {a: nan}", "'nan' is not a number"},
      {"version: 1\nfaults: {mtfb: 1h}", "s.yaml:2:10: unknown key 'mtfb'; did you mean 'mtbf'?"},
      {"version: 1\nfaults: {mtbf: 1h}", "'mtbf' needs 'mttr'"},
      {"version: 1\nfaults: {mttr: 1h}", "'mttr' has no effect without 'mtbf'"},
      {"version: 1\nfaults: {mtbf: 0, mttr: 1h}", "'mtbf' must be longer than 0"},
      {"version: 1\nfaults: {checkpoint_interval: 0}", "'checkpoint_interval' must be longer than 0"},
      {"version: 1\nfaults: {outages: 3}", "'outages' must be a list"},
      {"version: 1\nfaults: {outages: [3]}", "an outage must be a map"},
      {"version: 1\nfaults: {outages: [{at: 1}]}", "the outage lacks 'node'"},
      {"version: 1\nfaults: {outages: [{node: 1}]}", "the outage lacks 'at'"},
      {"version: 1\nfaults: {outages: [{at: 1, node: x}]}", "'node': 'x' is neither a node's index nor its name"},
      {"version: 1\nfaults: {outages: [{at: 1, node: node-}]}", "neither a node's index"},
      {"version: 1\ncluster: 4x4\nfaults: {outages: [{at: 1, node: 4}]}",
       "there is no node 4; the cluster's nodes are 0 to 3"},
      {"version: 1\nfaults: {outages: [{at: 1, node: 0, kind: burn}]}", "'kind': 'burn' is neither fail nor drain"},
      {"version: 1\nfaults: {outages: [{at: 1, node: 0, lasts: 0}]}", "'lasts' must be longer than 0"},
      {"version: 1\n---\nversion: 1", "something follows the first YAML document"},
      {",b: *x}\n", "something follows the first YAML document"},
      {"{version: 1} more", "something follows the first YAML document"},
      {"version: [1", "not valid YAML"},
      {"version: 1\n\tseed: 2", "s.yaml:2:1: not valid YAML"},
      {"version: *x", "s.yaml:1:10: not valid YAML: the referenced anchor is not defined"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of(text), AllOf(StartsWith("s.yaml:"), HasSubstr(message))) << text;
  }
}

TEST(Scenario, SurvivesHostileDocuments) {
  EXPECT_THAT(error_of("version: 1\n" + std::string(1 << 20, '#')), HasSubstr("larger than 1048576 bytes"));
  EXPECT_NE(error_of("version: " + std::string(500'000, '[')), "no error");
  EXPECT_NE(error_of(std::string(500'000, '{')), "no error");
  std::string nested = "version: 1\noptions:\n";
  for (int i = 1; i < 1000; ++i) nested += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_NE(error_of(nested), "no error");
  std::string bomb = "version: 1\noptions:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += fmt::format("  a{}: &a{} [*a{}, *a{}, *a{}, *a{}, *a{}, *a{}]\n", i, i, i - 1, i - 1, i - 1, i - 1, i - 1,
                        i - 1);
  }
  EXPECT_THAT(error_of(bomb), HasSubstr("'a0' needs a value"));
  EXPECT_NE(error_of("version: 1\noptions: &a {b: *a}\n"), "no error");
}

}  // namespace
}  // namespace ebb::spec
