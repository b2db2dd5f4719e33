// `ebb sim compare`: sweeps over policies, loads and seeds.

#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

class CliCompare : public CliTest {
 protected:
  static nlohmann::ordered_json compare_json(std::vector<std::string> args) {
    args.insert(args.begin(), {"sim", "compare", "--json"});
    const cli::Outcome outcome = ebb(args);
    EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    return outcome.code == cli::kExitOk ? nlohmann::ordered_json::parse(outcome.out) : nlohmann::ordered_json();
  }
};

TEST_F(CliCompare, AllPoliciesInTheOrderOfTheList) {
  std::vector<std::string> all;
  const sched::Registry registry = policies::all();
  for (const sched::PolicyInfo& info : registry.policies()) all.push_back(info.name);
  const cli::Outcome text = ebb({"sim", "compare", "--trace", trace_, "--cluster", "1x4"});
  EXPECT_EQ(text.code, cli::kExitOk);
  std::size_t at = 0;
  for (const std::string& policy : all) {
    const auto found = text.out.find("\n" + policy, at);
    ASSERT_NE(found, std::string::npos) << policy << "\n" << text.out;
    at = found;
  }
  const auto json = compare_json({"--trace", trace_, "--cluster", "1x4"});
  EXPECT_EQ(json["schema_version"], 1);
  ASSERT_EQ(json["runs"].size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& run = json["runs"][i];
    EXPECT_EQ(run["policy"], all[i]);
    EXPECT_EQ(run["load"], 1.0);
    EXPECT_EQ(run["seed"], 1);
    // Each run is what `sim run` gives.
    auto alone = run_json({"--trace", trace_, "--cluster", "1x4", "--policy", all[i]});
    for (const auto& [key, value] : alone.items()) {
      if (key == "schema_version") continue;
      EXPECT_EQ(nlohmann::json(run[key]), value) << all[i] << " " << key;
    }
  }
}

TEST_F(CliCompare, LoadsAndSeedsAreSwept) {
  const auto json = compare_json({"--trace", trace_, "--cluster", "1x4", "--policies", "fifo,drf", "--loads", "1,2",
                                  "--seeds", "1,2", "--load-method", "sample", "--out", folder_ / "out"});
  std::vector<std::string> runs;
  for (const auto& run : json["runs"]) {
    runs.push_back(
        fmt::format("{} {} {}", run["policy"].get<std::string>(), run["load"].get<double>(), run["seed"].get<int>()));
  }
  EXPECT_THAT(runs,
              ElementsAre("fifo 1 1", "drf 1 1", "fifo 1 2", "drf 1 2", "fifo 2 1", "drf 2 1", "fifo 2 2", "drf 2 2"));
  EXPECT_EQ(json["runs"][4]["jobs_total"], 6);  // every job and one copy
  EXPECT_THAT(
      folder_.entries("out"),
      ElementsAre("jobs-drf-load1-seed1.csv", "jobs-drf-load1-seed2.csv", "jobs-drf-load2-seed1.csv",
                  "jobs-drf-load2-seed2.csv", "jobs-fifo-load1-seed1.csv", "jobs-fifo-load1-seed2.csv",
                  "jobs-fifo-load2-seed1.csv", "jobs-fifo-load2-seed2.csv", "report.html", "run.json", "summary.json"));
  EXPECT_EQ(nlohmann::ordered_json::parse(folder_.read("out/summary.json")), json);
}

TEST_F(CliCompare, CompressedArrivalsComeSooner) {
  const auto json = compare_json({"--trace", trace_, "--cluster", "1x4", "--policies", "fifo", "--loads", "1,2"});
  // At load 2 b comes at 5 and c at 10; both still start at 100.
  EXPECT_EQ(json["runs"][0]["training"]["p99_jct_s"], 140);
  EXPECT_EQ(json["runs"][1]["training"]["p99_jct_s"], 145);
}

TEST_F(CliCompare, ThreadsDoNotChangeAByte) {
  ASSERT_EQ(ebb({"trace", "cut", std::string(EBB_SOURCE_DIR) + "/testdata/philly/philly_2017-10_first5000.csv",
                 folder_ / "part.csv", "--first", "400"})
                .code,
            cli::kExitOk);
  const std::string scenario = folder_.write("s.yaml",
                                             "version: 1\ntrace: part.csv\ncluster: 8x8\n"
                                             "faults: {mtbf: 5d, mttr: 2h, checkpoint_interval: 30m}\n");
  const auto run = [&](const std::string& threads) {
    const cli::Outcome outcome =
        ebb({"sim", "compare", scenario, "--policies", "fifo,backfill,srtf,srsf,tiresias,drf,afs", "--skip-impossible",
             "--loads", "0.5,1,2", "--seeds", "1,2", "--load-method", "sample", "--threads", threads, "--json", "--out",
             folder_ / ("t" + threads)});
    EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(run("1"), run("2"));
  const auto files = folder_.entries("t1");
  EXPECT_EQ(files, folder_.entries("t2"));
  EXPECT_EQ(files.size(), 7U * 3 * 2 + 3);
  for (const std::string& file : files) {
    if (file == "run.json" || file == "report.html") continue;  // these show the command line
    EXPECT_EQ(folder_.read("t1/" + file), folder_.read("t2/" + file)) << file;
  }
}

TEST_F(CliCompare, SeedsThatChangeNothingAreSaidSo) {
  const std::vector<std::string> args = {"sim", "compare",    "--trace", trace_,    "--cluster",
                                         "1x4", "--policies", "fifo",    "--seeds", "1,2"};
  EXPECT_THAT(ebb(args).err, HasSubstr("nothing in these runs is random"));
  std::vector<std::string> sampled = args;
  sampled.insert(sampled.end(), {"--load-method", "sample", "--loads", "2"});
  EXPECT_THAT(ebb(sampled).err, Not(HasSubstr("random")));
}

TEST_F(CliCompare, OptionsGoToThePoliciesThatHaveThem) {
  const auto json =
      compare_json({"--trace", trace_, "--cluster", "1x4", "--policies", "fifo,tiresias", "--set", "limits=60"});
  EXPECT_EQ(json["runs"][0]["preemptions"], 0);
  EXPECT_EQ(json["runs"][1]["preemptions"], 2);
}

TEST_F(CliCompare, OptionsOfAScenarioGoToThePoliciesThatHaveThemInAnyOrder) {
  const std::string scenario =
      folder_.write("s.yaml", "version: 1\ntrace: jobs.csv\ncluster: 1x4\npolicy: tiresias\noptions: {limits: 60}\n");
  const auto preemptions = [&](const std::string& policies, std::size_t run) {
    return compare_json({scenario, "--policies", policies})["runs"][run]["preemptions"].get<int>();
  };
  EXPECT_EQ(preemptions("tiresias,fifo", 0), 2);
  EXPECT_EQ(preemptions("fifo,tiresias", 1), 2);
  EXPECT_EQ(preemptions("fifo,drf", 0), 0);
  // A preset counts whole seconds for all of them.
  const std::string fine = folder_.write("fine.csv", "job,submit_s,run_s,gpus\na,0,10.6,1\n");
  const auto json = compare_json({"--preset", "tiresias-las", "--trace", fine, "--cluster", "1x4"});
  for (const auto& run : json["runs"]) EXPECT_EQ(run["makespan_s"], 11);
}

TEST_F(CliCompare, BadSweepsAreRefused) {
  const auto expect_bad = [&](const std::vector<std::string>& more, const std::vector<std::string>& words) {
    std::vector<std::string> args = {"sim", "compare", "--trace", trace_, "--cluster", "1x4"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, words);
  };
  expect_bad({"--policies", "fifo,lottery"}, {"unknown policy 'lottery'", "tiresias"});
  expect_bad({"--policies", "fifo,drf,fifo"}, {"--policies", "fifo is given twice"});
  expect_bad({"--loads", "1,2,1.0"}, {"--loads", "1 is given twice"});
  expect_bad({"--seeds", "3,3"}, {"--seeds", "3 is given twice"});
  expect_bad({"--seeds", "1,-1"}, {"--seed", "'-1'"});
  expect_bad({"--loads", "0"}, {"load factor 0", "1/1024 to 1024"});
  expect_bad({"--loads=-1"}, {"load factor -1", "1/1024 to 1024"});
  expect_bad({"--loads", "nan"}, {"load factor nan"});
  expect_bad({"--loads", "heavy"}, {"--load", "heavy"});
  expect_bad({"--load-method", "guess"}, {"--load-method", "guess", "compress", "sample"});
  expect_bad({"--threads", "0"}, {"--threads"});
  expect_bad({"--set", "foo=1"}, {"option foo=1", "none of the policies has it"});
  expect_bad({"--set", "limits=a"}, {"tiresias", "limits=a"});
  expect_bad({"--policies", "fifo,drf", "--set", "limits=60"}, {"limits=60", "none of the policies has it"});
  expect_bad({"--round", "0"}, {"--round must be above 0"});
}

}  // namespace
}  // namespace ebb
