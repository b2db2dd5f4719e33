// What `ebb sim run` prints and writes, against an example computed by hand.

#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

// What becomes of the three jobs on four GPUs.
struct ByHand {
  const char* policy;
  std::vector<std::string> set;
  std::vector<std::string> rows;
  double avg_jct_s, p50_jct_s, p99_jct_s;
  double avg_pending_s, p50_pending_s, p99_pending_s;
  int restarts;
  double max_rho;
};

std::ostream& operator<<(std::ostream& out, const ByHand& example) {
  return out << example.policy;
}

class CliByHand : public CliTest, public ::testing::WithParamInterface<ByHand> {};

TEST_P(CliByHand, FiguresAndRows) {
  const ByHand& want = GetParam();
  std::vector<std::string> args = {"--trace", trace_, "--cluster", "1x4", "--policy", want.policy};
  for (const std::string& set : want.set) args.insert(args.end(), {"--set", set});
  const auto json = run_json(args);
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["jobs_total"], 3);
  EXPECT_EQ(json["jobs_completed"], 3);
  EXPECT_EQ(json["jobs_impossible"], 0);
  EXPECT_EQ(json["training"]["count"], 3);
  EXPECT_NEAR(json["training"]["avg_jct_s"], want.avg_jct_s, 1e-9);
  EXPECT_EQ(json["training"]["p50_jct_s"], want.p50_jct_s);
  EXPECT_EQ(json["training"]["p99_jct_s"], want.p99_jct_s);
  EXPECT_NEAR(json["queue"]["avg_pending_s"], want.avg_pending_s, 1e-9);
  EXPECT_EQ(json["queue"]["p50_pending_s"], want.p50_pending_s);
  EXPECT_EQ(json["queue"]["p99_pending_s"], want.p99_pending_s);
  EXPECT_EQ(json["makespan_s"], 150);
  EXPECT_EQ(json["gpu_seconds"], 430);  // 3 x 100 + 2 x 50 + 1 x 30
  EXPECT_NEAR(json["utilisation"], 430.0 / (4 * 150), 1e-12);
  EXPECT_EQ(json["restarts"], want.restarts);
  EXPECT_EQ(json["preemptions"], want.restarts);
  EXPECT_NEAR(json["max_rho"], want.max_rho, 1e-12);
  const auto rows = run_rows(args);
  ASSERT_EQ(rows.size(), want.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // The reason of a job that resumes at the decision after its preemption: see AJobThatWaitedHasAReason.
    EXPECT_THAT(rows[i], want.rows[i].ends_with('*') ? testing::Matcher<std::string>(
                                                           StartsWith(want.rows[i].substr(0, want.rows[i].size() - 1)))
                                                     : testing::Matcher<std::string>(want.rows[i]));
  }
}

// rho = jct / (run time x max(1, GPUs of the job x mean active jobs in its life / 4)).
INSTANTIATE_TEST_SUITE_P(
    Policies, CliByHand,
    ::testing::Values(
        // a 0-100; b, the head, needs 2 of the 1 free until then; c is behind it. rho of c: 110 / 30.
        ByHand{"fifo",
               {},
               {"a,training,0,0,100,100,0,300,0,", "b,training,10,100,150,140,90,100,0,no_capacity",
                "c,training,20,100,130,110,80,30,0,behind_head"},
               350.0 / 3,
               110,
               140,
               170.0 / 3,
               80,
               90,
               0,
               110.0 / 30},
        // c runs 20-50 beside a, before b can start at 100. rho of b: active jobs over 10-150 are 90 s of a, 140 s of b
        // and 30 s of c, 260 / 140 in the mean; its fair share is below 2 GPUs' worth, so 140 / 50.
        ByHand{"backfill",
               {},
               {"a,training,0,0,100,100,0,300,0,", "b,training,10,100,150,140,90,100,0,no_capacity",
                "c,training,20,20,50,30,0,30,0,"},
               90,
               100,
               140,
               30,
               0,
               90,
               0,
               140.0 / 50},
        // At 10 b has 50 s left, a 90: a is preempted, and resumes when b ends at 60. rho of a: active over 0-150 are
        // 150 + 50 + 30 = 230, 230 / 150 in the mean; 150 / (100 x 3 x 230 / 150 / 4) = 1.304...; of b: 50 / 50 at
        // most.
        ByHand{"srtf",
               {},
               {"a,training,0,0,150,150,50,300,1,lower_priority", "b,training,10,10,60,50,0,100,0,",
                "c,training,20,20,50,30,0,30,0,"},
               230.0 / 3,
               50,
               150,
               50.0 / 3,
               0,
               50,
               1,
               150 / (100 * (3 * (230.0 / 150) / 4))},
        // At 10: b 2 x 50 = 100, a 3 x 90 = 270. The same schedule.
        ByHand{"srsf",
               {},
               {"a,training,0,0,150,150,50,300,1,lower_priority", "b,training,10,10,60,50,0,100,0,",
                "c,training,20,20,50,30,0,30,0,"},
               230.0 / 3,
               50,
               150,
               50.0 / 3,
               0,
               50,
               1,
               150 / (100 * (3 * (230.0 / 150) / 4))},
        // See tiresias/golden.yaml. rho of b: active over 10-150 are 120 s of a, 140 s of b, 30 s of c, 290 / 140 in
        // the mean; 140 / (50 x 2 x 290 / 140 / 4).
        ByHand{"tiresias",
               {"limits=60"},
               {"a,training,0,0,130,130,30,300,1,*", "b,training,10,20,150,140,90,100,1,lower_priority",
                "c,training,20,20,50,30,0,30,0,"},
               100,
               130,
               140,
               40,
               30,
               90,
               2,
               140 / (50 * (2 * (290.0 / 140) / 4))},
        // c fits while b is passed.
        ByHand{"drf",
               {},
               {"a,training,0,0,100,100,0,300,0,", "b,training,10,100,150,140,90,100,0,no_capacity",
                "c,training,20,20,50,30,0,30,0,"},
               90,
               100,
               140,
               30,
               0,
               90,
               0,
               140.0 / 50}),
    [](const auto& test) { return std::string(test.param.policy); });

class CliOutputs : public CliTest {};

TEST_F(CliOutputs, AJobThatWaitedHasAReason) {
  const auto rows = run_rows({"--trace", trace_, "--cluster", "1x4", "--policy", "tiresias", "--set", "limits=60"});
  EXPECT_EQ(rows[0], "a,training,0,0,130,130,30,300,1,lower_priority");
}

TEST_F(CliOutputs, EveryPlacementUnderEveryPolicy) {
  const std::string trace = std::string(EBB_SOURCE_DIR) + "/testdata/philly/philly_2017-10_first5000.csv";
  for (const std::string& policy : kPolicies) {
    for (const char* placement : {"count", "best_fit", "consolidate", "spread"}) {
      const auto json = run_json(
          {"--trace", trace, "--cluster", "40x8", "--policy", policy, "--set", fmt::format("placement={}", placement)});
      EXPECT_EQ(json["jobs_completed"], 5000) << policy << ", " << placement;
    }
  }
}

TEST_F(CliOutputs, JsonIsOneObjectWithTheDocumentedKeysOnly) {
  const cli::Outcome outcome = ebb({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--json"});
  ASSERT_EQ(outcome.code, cli::kExitOk);
  const auto json = nlohmann::ordered_json::parse(outcome.out);  // fails on anything before or behind
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    return names;
  };
  EXPECT_THAT(keys(json),
              ElementsAre("schema_version", "jobs_total", "jobs_completed", "jobs_impossible", "training", "queue",
                          "inference", "loans", "gpu_seconds_by_state", "profile_lookups", "makespan_s", "utilisation",
                          "gpu_seconds", "restarts", "preemptions", "max_rho", "warnings"));
  EXPECT_THAT(keys(json["training"]), ElementsAre("count", "avg_jct_s", "p50_jct_s", "p99_jct_s"));
  EXPECT_THAT(keys(json["queue"]), ElementsAre("avg_pending_s", "p50_pending_s", "p99_pending_s"));
  EXPECT_THAT(keys(json["inference"]),
              ElementsAre("count", "avg_extra_s", "p99_extra_s", "requests", "in_target_share"));
  EXPECT_THAT(keys(json["loans"]),
              ElementsAre("count", "gpu_seconds", "reclaims", "reclaim_p50_s", "reclaim_p99_s", "forced", "late"));
  EXPECT_THAT(keys(json["gpu_seconds_by_state"]),
              ElementsAre("training", "resizing", "starting", "serving", "protected", "sleeping", "idle"));
  EXPECT_THAT(keys(json["profile_lookups"]), ElementsAre("count", "clamped", "fitted"));
  EXPECT_TRUE(json["warnings"].is_array());
}

TEST_F(CliOutputs, TheFolderHoldsTheDocumentedFiles) {
  const cli::Outcome outcome =
      ebb({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--out", folder_ / "new/and/deep"});
  ASSERT_EQ(outcome.code, cli::kExitOk) << outcome.err;
  EXPECT_THAT(folder_.entries("new/and/deep"),
              ElementsAre("events.jsonl", "jobs.csv", "report.html", "run.json", "summary.json"));
  EXPECT_THAT(folder_.entries("new/and"), Not(::testing::Contains(HasSubstr("partial"))));
  EXPECT_THAT(outcome.out, HasSubstr("report: " + folder_ / "new/and/deep" + "/report.html\n"));

  const auto run = nlohmann::json::parse(folder_.read("new/and/deep/run.json"));
  EXPECT_GT(run.at("cpu_s"), 0.0);
  EXPECT_GT(run.at("peak_rss_bytes"), 0);
  EXPECT_GE(run.at("wall_s"), 0.0);
  EXPECT_TRUE(run.at("versions").contains("ebb"));
  EXPECT_THAT(run.at("command").get<std::string>(), StartsWith("ebb sim run --trace "));
}

TEST_F(CliOutputs, JsonAndSummaryFileAreTheSame) {
  const cli::Outcome outcome =
      ebb({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--json", "--out", folder_ / "out"});
  EXPECT_EQ(outcome.out, folder_.read("out/summary.json"));
}

TEST_F(CliOutputs, AnEmptyFolderIsUsedAndForceKeepsOtherFiles) {
  std::filesystem::create_directory(folder_ / "out");
  const std::vector<std::string> args = {"sim", "run", "--trace", trace_, "--cluster", "1x4", "--out", folder_ / "out"};
  ASSERT_EQ(ebb(args).code, cli::kExitOk);
  folder_.write("out/notes.txt", "mine\n");
  folder_.write("out/jobs.csv", "old\n");
  std::vector<std::string> forced = args;
  forced.push_back("--force");
  ASSERT_EQ(ebb(forced).code, cli::kExitOk);
  EXPECT_THAT(folder_.entries("out"),
              ElementsAre("events.jsonl", "jobs.csv", "notes.txt", "report.html", "run.json", "summary.json"));
  EXPECT_THAT(folder_.read("out/jobs.csv"), StartsWith("job,kind,"));
  EXPECT_EQ(folder_.read("out/notes.txt"), "mine\n");
}

TEST_F(CliOutputs, WarningsGoToStderrOrIntoTheJson) {
  const cli::Outcome text = ebb({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--policy", "srtf"});
  EXPECT_THAT(text.err, HasSubstr("warning: policy 'srtf' knows the true run time of every job (oracle)"));
  const cli::Outcome json = ebb({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--policy", "srtf", "--json"});
  EXPECT_EQ(json.err, "");
  EXPECT_THAT(json.out, HasSubstr("oracle"));
}

TEST_F(CliOutputs, NamesThatNeedQuotesSurviveInJobsCsv) {
  const std::string trace = folder_.write("names.csv", "job,submit_s,run_s,gpus\n\"x, \"\"y\"\"\",0,1,1\n");
  EXPECT_THAT(run_rows({"--trace", trace, "--cluster", "1x4", "--policy", "fifo"}),
              ElementsAre("\"x, \"\"y\"\"\",training,0,0,1,1,0,1,0,"));
}

TEST_F(CliOutputs, CrlfUnsortedRowsUnknownColumnsAndALateFirstArrival) {
  const std::string trace =
      folder_.write("odd.csv", "job,submit_s,run_s,gpus,colour\r\nb,40,10,1,red\r\na,30,10,1,blue\r\n");
  EXPECT_THAT(run_rows({"--trace", trace, "--cluster", "1x1", "--policy", "fifo"}),
              ElementsAre("a,training,30,30,40,10,0,10,0,", "b,training,40,40,50,10,0,10,0,"));
  const auto json = run_json({"--trace", trace, "--cluster", "1x1", "--policy", "fifo"});
  EXPECT_EQ(json["makespan_s"], 20);  // from the first submission, not from time 0
  EXPECT_EQ(json["utilisation"], 1);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("sorted by submission"));
}

TEST_F(CliOutputs, TicksAreAtMultiplesOfTheRoundFromTimeZero) {
  // Relative times are not shifted: a, submitted at 30, starts at the tick at 60; b, submitted at a tick, at once.
  const std::string trace = folder_.write("late.csv", "job,submit_s,run_s,gpus\na,30,10,1\nb,120,10,1\n");
  EXPECT_THAT(run_rows({"--trace", trace, "--cluster", "1x1", "--policy", "fifo", "--round", "60s"}),
              ElementsAre("a,training,30,60,70,40,30,10,0,waiting_for_tick", "b,training,120,120,130,10,0,10,0,"));
  // Dated ones are: the first submission is time 0.
  const std::string dated = folder_.write("dated.csv",
                                          "timestamp,duration,num_gpus,gpu_time,cluster\n"
                                          "2017-10-01 00:00:30,10,1,10,vc1\n2017-10-01 00:00:50,10,1,10,vc1\n");
  EXPECT_THAT(run_rows({"--trace", dated, "--cluster", "1x1", "--policy", "fifo", "--round", "60s"}),
              ElementsAre("0,training,0,0,10,10,0,10,0,", "1,training,20,60,70,50,40,10,0,waiting_for_tick"));
}

TEST_F(CliOutputs, ResizeCostIsChargedToResumesAndIfAskedToFirstStarts) {
  // srtf: a is preempted at 10 and resumes at 60; its last 90 s begin 5 s later.
  const std::vector<std::string> args = {"--trace",  trace_, "--cluster",     "1x4",
                                         "--policy", "srtf", "--resize-cost", "5s"};
  EXPECT_THAT(run_rows(args), ElementsAre("a,training,0,0,155,155,50,315,1,lower_priority",
                                          "b,training,10,10,60,50,0,100,0,", "c,training,20,20,50,30,0,30,0,"));
  std::vector<std::string> first = args;
  first.insert(first.end(), {"--set", "charge_first_start=true"});
  // a is productive 5-10 and keeps 5 s; b 15-65, c 25-55; a resumes at 65 and needs 5 + 95 s.
  EXPECT_THAT(run_rows(first), ElementsAre("a,training,0,0,165,165,55,330,1,lower_priority",
                                           "b,training,10,10,65,55,0,110,0,", "c,training,20,20,55,35,0,35,0,"));
}

TEST_F(CliOutputs, WholeSecondsRoundTheTrace) {
  const std::string trace = folder_.write("fine.csv", "job,submit_s,run_s,gpus\na,0.4,10.6,1\n");
  EXPECT_THAT(run_rows({"--trace", trace, "--cluster", "1x1", "--time", "seconds"}),
              ElementsAre("a,training,0,0,11,11,0,11,0,"));
  EXPECT_THAT(run_rows({"--trace", trace, "--cluster", "1x1"}), ElementsAre("a,training,0.4,0.4,11,10.6,0,10.6,0,"));
}

class CliReplay : public CliTest {
 protected:
  std::string journal(const std::vector<std::string>& args) const {
    std::vector<std::string> all = {"sim", "run", "--force", "--out", folder_ / "out"};
    all.insert(all.end(), args.begin(), args.end());
    const cli::Outcome outcome = ebb(all);
    EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    return folder_ / "out/events.jsonl";
  }
  std::string scenario_ = folder_.write("faults.yaml",
                                        "version: 1\n"
                                        "trace: part.csv\n"
                                        "cluster: 4x8:a100@training+2x4:t4@serving+2x8:t4@training\n"
                                        "faults:\n"
                                        "  mtbf: 2d\n"
                                        "  mttr: 1h\n"
                                        "  checkpoint_interval: 10m\n"
                                        "  outages:\n"
                                        "    - {at: 2h, node: 1, lasts: 3h, kind: drain}\n"
                                        "    - {at: 3h, node: 0, lasts: 30m}\n");
};

TEST_F(CliReplay, EveryJournalIsTakenAgain) {
  ASSERT_EQ(ebb({"trace", "cut", std::string(EBB_SOURCE_DIR) + "/testdata/philly/philly_2017-10_first5000.csv",
                 folder_ / "part.csv", "--first", "300"})
                .code,
            cli::kExitOk);
  const std::vector<std::vector<std::string>> models = {{},
                                                        {"--round", "7m"},
                                                        {"--resize-cost", "30s"},
                                                        {"--round", "60s", "--resize-cost", "30s", "--time", "seconds"},
                                                        {"--set", "placement=best_fit"}};
  std::uint64_t restarts = 0;
  for (const std::string& policy : kPolicies) {
    for (const auto& model : models) {
      std::vector<std::string> args = {scenario_, "--policy", policy, "--skip-impossible"};
      args.insert(args.end(), model.begin(), model.end());
      const cli::Outcome replayed = ebb({"sim", "replay", journal(args)});
      EXPECT_EQ(replayed.code, cli::kExitOk) << policy << ": " << replayed.err;
      EXPECT_THAT(replayed.out, HasSubstr("decisions, all taken again"));
      restarts += nlohmann::json::parse(folder_.read("out/summary.json"))["restarts"].get<std::uint64_t>();
    }
  }
  EXPECT_GT(restarts, 100U) << "the faults hit nothing";
}

TEST_F(CliReplay, AChangedDecisionIsFound) {
  const std::string text =
      read_file(journal({"--trace", trace_, "--cluster", "1x4", "--policy", "tiresias", "--set", "limits=60"})).value();
  ASSERT_EQ(ebb({"sim", "replay", folder_ / "out/events.jsonl"}).code, cli::kExitOk);
  std::vector<std::string> lines(1);
  for (const char c : text) {
    lines.back() += c;
    if (c == '\n') lines.emplace_back();
  }
  lines.pop_back();
  const auto expect_found = [&](const std::vector<std::string>& changed, std::size_t line) {
    std::string journal;
    for (const std::string& l : changed) journal += l;
    const std::string path = folder_.write("changed.jsonl", journal);
    const cli::Outcome outcome = ebb({"sim", "replay", path});
    EXPECT_EQ(outcome.code, cli::kExitFailed) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("ebb: " + path + ":" + std::to_string(line + 1) + ": "));
  };
  int tried = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto change = [&](const std::string& from, const std::string& to) {
      const auto at = lines[i].find(from);
      if (at == std::string::npos) return;
      auto changed = lines;
      changed[i].replace(at, from.size(), to);
      expect_found(changed, i);
      ++tried;
    };
    if (lines[i].find(R"("type":"start")") != std::string::npos) {
      change("[[0,2]]", "[[0,1]]");
      change(R"("job":2)", R"("job":1)");
    }
    if (lines[i].find(R"("type":"preempt")") != std::string::npos) {
      change(R"("job":0)", R"("job":2)");
      // Left out: noticed at the next line that is held against a decision.
      auto changed = lines;
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
      expect_found(changed, i);
      ++tried;
    }
  }
  EXPECT_GE(tried, 5);
}

}  // namespace
}  // namespace ebb
