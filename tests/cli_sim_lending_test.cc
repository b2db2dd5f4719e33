// `ebb sim lending`: what it prints and writes, and what it refuses. The study itself: lending_study_test.cc.

#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

class CliSimLending : public CliTest {
 protected:
  /// A small study under fifo: one load, the day as it is, two seeds.
  std::vector<std::string> small(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"sim", "lending"};
    const std::vector<std::pair<std::string, std::string>> base = {{"--trace", trace_},    {"--cluster", "4x4"},
                                                                   {"--policy", "fifo"},   {"--loads", "1"},
                                                                   {"--shape-power", "1"}, {"--seeds", "2"}};
    for (const auto& [flag, value] : base) {
      if (std::find(more.begin(), more.end(), flag) != more.end()) continue;  // given by the test
      args.push_back(flag);
      args.push_back(value);
    }
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  nlohmann::ordered_json json_of(const std::vector<std::string>& more = {}) const {
    auto args = small(more);
    args.emplace_back("--json");
    const cli::Outcome outcome = ebb(args);
    EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    return outcome.code == cli::kExitOk ? nlohmann::ordered_json::parse(outcome.out) : nlohmann::ordered_json();
  }
};

TEST_F(CliSimLending, HelpSaysItsOwnDefaults) {
  const std::string lending = ebb({"sim", "lending", "--help"}).out;
  for (const char* words :
       {"(default: deepboot)", "(default: pooled)", "(default: 60s)", "(default: stop-free)", "if not set, drain=2s"}) {
    EXPECT_THAT(lending, HasSubstr(words));
  }
  const std::string run = ebb({"sim", "run", "--help"}).out;
  for (const char* words : {"(default: backfill)", "(default: none)", "(default: at every event)", "(default: 0)"}) {
    EXPECT_THAT(run, HasSubstr(words));
  }
}

TEST_F(CliSimLending, JsonHasEveryDocumentedKey) {
  const auto json = json_of();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("schema_version", "policy", "lending", "cluster", "training_gpus", "serving_gpus",
                                "seeds", "loads", "columns", "sentences", "headline", "cells", "settings", "warnings"));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["lending"], "pooled");
  EXPECT_EQ(json["training_gpus"], 8);
  EXPECT_EQ(json["serving_gpus"], 8);
  ASSERT_EQ(json["columns"].size(), 1U);
  EXPECT_EQ(json["columns"][0]["shape_power"], 1);
  EXPECT_TRUE(json["columns"][0]["serving_mean_asked"].is_null());
  ASSERT_EQ(json["cells"].size(), 1U);
  keys.clear();
  for (const auto& [key, value] : json["cells"][0].items()) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("load", "serving_mean", "shape_power", "jobs", "seeds", "jct_change", "jct_none_s",
                          "jct_lending_s", "wait_none_s", "run_none_s", "lent_gpu_h", "freed_gpu_h", "idle_gpu_h",
                          "bound_used", "in_target_none", "in_target_lending", "in_target_change", "restarts_none",
                          "restarts_lending", "reclaims", "reclaim_p50_s", "reclaim_p99_s", "forced"));
  EXPECT_TRUE(json["cells"][0]["jct_change"].contains("low"));
  EXPECT_TRUE(json["headline"].contains("found"));
  EXPECT_EQ(json["settings"]["decisions"], "every 60 s");
  EXPECT_EQ(json["settings"]["resize cost"], "stop-free, by application");
  EXPECT_THAT(json["settings"]["simulator options"].get<std::string>(), HasSubstr("drain=2s"));
}

TEST_F(CliSimLending, FilesAndText) {
  const cli::Outcome outcome = ebb(small({"--out", folder_ / "out", "--threads", "2"}));
  ASSERT_EQ(outcome.code, cli::kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("JCT change, %"));
  EXPECT_THAT(outcome.out, HasSubstr("% (as it is)"));
  EXPECT_THAT(outcome.out, HasSubstr("load 1"));
  EXPECT_THAT(outcome.out, HasSubstr("/out/lending.html"));
  EXPECT_THAT(folder_.entries("out"), ElementsAre("cells.csv", "lending.html", "lending.json", "run.json", "runs.csv"));
  EXPECT_EQ(folder_.read("out/lending.json"), ebb(small({"--json", "--threads", "1"})).out);
  EXPECT_THAT(folder_.read("out/cells.csv"), StartsWith("part,load,serving_mean,shape_power,replica_mean,jobs,seeds,"));
  // Two seeds, with and without, in the sweep and at the headline.
  const std::string runs = folder_.read("out/runs.csv");
  EXPECT_THAT(runs, StartsWith("part,load,serving_mean,shape_power,seed,lending,"));
  EXPECT_EQ(std::count(runs.begin(), runs.end(), '\n'), 1 + 4 + 4);
  const std::string page = folder_.read("out/lending.html");
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, HasSubstr("<title>jobs.csv on 4x4</title>"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("href=\"http")));
}

TEST_F(CliSimLending, MeansLoadsAndTheHeadline) {
  const auto json = json_of({"--serving", "50,30", "--loads", "0.5,2", "--headline", "30", "--lending", "partitioned"});
  ASSERT_EQ(json["columns"].size(), 3U);
  EXPECT_NEAR(json["columns"][0]["serving_mean"].get<double>(), 0.3, 1e-6);
  EXPECT_NEAR(json["columns"][1]["serving_mean"].get<double>(), 0.5, 1e-6);
  EXPECT_EQ(json["cells"].size(), 6U);
  EXPECT_NEAR(json["headline"]["serving_mean"].get<double>(), 0.3, 1e-6);
  EXPECT_EQ(json["lending"], "partitioned");
}

TEST_F(CliSimLending, ASeriesOfOnesOwn) {
  const std::string day = folder_.write("day.csv", "start_s,value\n0,5\n43200,10\n");
  const auto json = json_of({"--series", day});
  EXPECT_NEAR(json["columns"][0]["serving_mean"].get<double>(), 0.95 * 0.75, 1e-12);
  expect_refused(small({"--series", folder_.write("none.csv", "start_s,value\n0,0\n")}), {"no value is above 0"});
  expect_refused(small({"--series", folder_.write("less.csv", "start_s,value\n0,-1\n")}),
                 {"less.csv:2", "column 'value'", "'-1' is outside 0"});
  expect_refused(small({"--series", folder_.write("empty.csv", "start_s,value\n")}), {"the file has no values"});
  expect_refused(small({"--series", folder_.write("x.csv", "start_s,x\n0,1\n")}), {"the header lacks: value"});
}

TEST_F(CliSimLending, ServicesBringTheirRates) {
  folder_.write("chat.csv", "start_s,requests_per_s\n0,10\n43200,20\n");
  folder_.write("draw.csv", "start_s,requests_per_s\n0,1\n");
  const std::string services = folder_.write(
      "services.yaml",
      "version: 1\nservices:\n"
      "  - {name: chat, service_time: 50ms, target_latency: 200ms, start_delay: 5s, requests: chat.csv}\n"
      "  - {name: draw, gpus: 2, service_time: 125ms, target_latency: 1s, start_delay: 5s, requests: draw.csv}\n");
  // Weights: 15 x 0.05 = 0.75 GPUs and 1 x 0.125 x 2 = 0.25 on average.
  const auto json = json_of({"--services", services});
  EXPECT_NEAR(json["columns"][0]["serving_mean"].get<double>(), 0.95 * (0.75 * 0.75 + 0.25), 1e-12);
  expect_refused(small({"--services", services, "--series", folder_ / "chat.csv"}), {"not both"});
}

TEST_F(CliSimLending, BadInput) {
  expect_refused(small({"--seeds", "0"}), {"--seeds 0"});
  expect_refused(small({"--seeds", "-1"}), {"--seeds"});
  expect_refused(small({"--serving", "96"}), {"96 % cannot be reached", "to 95.0 %"});
  expect_refused(small({"--serving", "0"}), {"serving mean 0"});
  expect_refused(small({"--serving", "40", "--headline", "50"}), {"--headline 50"});
  expect_refused(small({"--loads", "1,1"}), {"--loads: 1 is given twice"});
  expect_refused(small({"--loads", "-1"}), {"load -1"});
  expect_refused(small({"--cluster", "1x8"}), {"at least 2 nodes"});
  expect_refused(small({"--policy", "nosuch"}), {"nosuch"});
  expect_refused(small({"--lending", "none"}), {"pooled or partitioned"});
  expect_refused(small({"--set", "nosuch=1"}), {"nosuch"});
  expect_refused(small({"--request-noise", "9"}), {"request noise 9"});
  expect_refused(small({"--day-start", "noon"}), {"--day-start"});
  const std::string empty = folder_.write("empty.csv", "# ebb-trace v1\njob,submit_s,run_s,gpus,tenant\n");
  expect_refused(small({"--trace", empty}), {});
}

}  // namespace
}  // namespace ebb
