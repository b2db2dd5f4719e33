// Bad input to `ebb sim`: exit code 2, a message that says what, where and what to do, and nothing written.

#include <gtest/gtest.h>
#include <zlib.h>

#include "cli_fixture.h"

namespace ebb {
namespace {

class CliBadInput : public CliTest {
 protected:
  // A run that would be fine but for `more`.
  void expect_bad_flag(const std::vector<std::string>& more, const std::vector<std::string>& words) const {
    std::vector<std::string> args = {"sim", "run", "--trace", trace_, "--cluster", "1x4"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, words);
  }
  void expect_bad_trace(const std::string& text, const std::vector<std::string>& words) const {
    const std::string path = folder_.write("bad.csv", text);
    for (const char* command : {"run", "compare"}) {
      expect_refused({"sim", command, "--trace", path, "--cluster", "1x4"}, words);
    }
  }
};

TEST_F(CliBadInput, OptionsOfThePolicy) {
  expect_bad_flag({"--policy", "tiresias", "--set", "limit=1"}, {"unknown option 'limit'", "limits", "ebb policies"});
  expect_bad_flag({"--policy", "fifo", "--set", "limits=1"}, {"unknown option 'limits'", "placement"});
  expect_bad_flag({"--policy", "tiresias", "--set", "promote=-1"}, {"promote=-1", "at least 0"});
  expect_bad_flag({"--policy", "tiresias", "--set", "promote=1e7"}, {"promote=1e7", "at most 1000000"});
  expect_bad_flag({"--policy", "tiresias", "--set", "promote=nan"}, {"promote=nan", "a number"});
  expect_bad_flag({"--policy", "tiresias", "--set", "promote=often"}, {"promote=often", "a number"});
  expect_bad_flag({"--policy", "tiresias", "--set", "limits=60,a"}, {"limits=60,a", "numbers separated by commas"});
  expect_bad_flag({"--policy", "tiresias", "--set", "limits=0,5"}, {"limits=0,5", "at least 0.001"});
  expect_bad_flag({"--policy", "tiresias", "--set", "limits=60,60"}, {"limits", "60 is not above 60", "rising"});
  expect_bad_flag({"--policy", "tiresias", "--set", "demotion=soon"}, {"demotion=soon", "reference, exact"});
  expect_bad_flag({"--set", "charge_first_start=maybe"}, {"charge_first_start=maybe", "true or false"});
  expect_bad_flag({"--set", "plan_delay=-1s"}, {"plan_delay=-1s", "duration"});
  expect_bad_flag({"--set", "placement"}, {"--set placement", "key=value"});
  expect_bad_flag({"--set", "=count"}, {"--set =count", "key=value"});
}

TEST_F(CliBadInput, NamesThatAreUnknown) {
  expect_bad_flag({"--policy", "lottery"}, {"unknown policy 'lottery'", "fifo, backfill, srtf, srsf, tiresias, drf"});
  expect_bad_flag({"--preset", "gandiva"}, {"unknown preset 'gandiva'", "tiresias-fifo", "tiresias-srsf"});
  expect_bad_flag({"--set", "placement=random"}, {"placement=random", "count, best_fit, consolidate, spread"});
  expect_bad_flag({"--format", "excel"}, {"'excel'", "tiresias, philly, swf, sacct, ebb-csv, ebb-jsonl"});
  expect_bad_flag({"--time", "years"}, {"--time", "years", "fractional", "seconds"});
  expect_bad_flag({"--progress", "always"}, {"--progress", "always", "auto", "never"});
}

TEST_F(CliBadInput, Durations) {
  expect_bad_flag({"--round", "0"}, {"--round must be above 0", "leave it out"});
  expect_bad_flag({"--round", "soon"}, {"--round", "'soon' is not a duration", "30s"});
  expect_bad_flag({"--round=-5s"}, {"--round", "'-5s' is not a duration"});
  expect_bad_flag({"--round", "1e300d"}, {"--round", "not a duration"});
  expect_bad_flag({"--resize-cost", "30 seconds"}, {"--resize-cost", "'30 seconds' is no cost of a resize", "30s"});
  expect_bad_flag({"--resize-cost=-1s"}, {"--resize-cost", "'-1s' is no cost of a resize"});
  expect_bad_flag({"--time", "seconds", "--resize-cost", "1.5s"}, {"--resize-cost 1.5 s", "whole seconds"});
  expect_bad_flag({"--time", "polled", "--round", "60s", "--resize-cost", "1.5s"},
                  {"--resize-cost 1.5 s: with --time polled", "whole seconds"});
  expect_bad_flag({"--time", "seconds", "--round", "500ms"}, {"--round 0.5 s", "whole seconds"});
}

TEST_F(CliBadInput, NumbersAndEmptyValues) {
  expect_bad_flag({"--seed", "-1"}, {"--seed", "'-1'", "whole number"});
  expect_bad_flag({"--seed", "99999999999999999999"}, {"--seed", "99999999999999999999"});
  expect_bad_flag({"--procs-per-gpu", "0"}, {"--procs-per-gpu"});
  for (const char* flag : {"--policy", "--preset", "--format", "--round", "--resize-cost"}) {
    expect_bad_flag({flag, ""}, {flag, "empty"});
  }
  expect_refused_as_is({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--out", ""}, {"--out", "empty"});
}

TEST_F(CliBadInput, Clusters) {
  const auto expect_bad_cluster = [&](const char* text, const std::vector<std::string>& words) {
    expect_refused({"sim", "run", "--trace", trace_, "--cluster", text}, words);
  };
  expect_bad_cluster("0x8", {"'0x8'", "number of nodes from 1", "16x4"});
  expect_bad_cluster("8x0", {"'8x0'", "number of GPUs a node from 1", "\n    ^"});
  expect_bad_cluster("8by8", {"'8by8'", "expected 'x'"});
  expect_bad_cluster("8x8:", {"'8x8:'", "GPU type"});
  expect_bad_cluster("8x8@", {"'8x8@'", "pool"});
  expect_bad_cluster("8x8+", {"'8x8+'", "number of nodes"});
  expect_bad_cluster("8x8 4x4", {"'8x8 4x4'", "expected '+' or the end"});
  expect_bad_cluster("-8x8", {"'-8x8'", "number of nodes"});
  expect_bad_cluster("99999999x8", {"99999999x8", "number of nodes from 1 to"});
}

TEST_F(CliBadInput, WhatIsMissing) {
  expect_refused({"sim", "run", "--cluster", "1x4"}, {"which jobs?", "--trace"});
  expect_refused({"sim", "run", "--trace", trace_}, {"which cluster?", "--cluster 16x4"});
  expect_refused({"sim", "compare", "--cluster", "1x4"}, {"which jobs?", "--trace"});
}

TEST_F(CliBadInput, JobsThatCanNeverRun) {
  expect_refused({"sim", "run", "--trace", trace_, "--cluster", "2x1"},
                 {"job 'a' needs 3 GPUs", "the cluster has 2", "1 of 3 jobs can never run", "--skip-impossible"});
  const std::string typed =
      folder_.write("typed.csv", "job,submit_s,run_s,gpus,gpu_type,pool\na,0,1,1,h100,\nb,0,1,1,,testing\n");
  expect_refused({"sim", "run", "--trace", typed, "--cluster", "1x4:a100@production"},
                 {"job 'a'", "of type h100", "2 of 2 jobs"});
  const std::string pooled = folder_.write("pooled.csv", "job,submit_s,run_s,gpus,pool\na,0,1,1,testing\n");
  expect_refused({"sim", "run", "--trace", pooled, "--cluster", "1x4@production"}, {"job 'a'", "in pool testing"});
}

TEST_F(CliBadInput, SkipImpossibleLeavesThemOutAndCounts) {
  const cli::Outcome some = ebb({"sim", "run", "--trace", trace_, "--cluster", "2x1", "--skip-impossible"});
  EXPECT_EQ(some.code, cli::kExitOk);
  EXPECT_THAT(some.out, HasSubstr("2 of 3 jobs completed"));
  EXPECT_THAT(some.err, HasSubstr("warning: 1 of 3 jobs are too large for the cluster and were left out"));

  for (const std::string& policy : kPolicies) {
    const auto json = run_json({"--trace", trace_, "--cluster", "2x1", "--skip-impossible", "--policy", policy});
    EXPECT_EQ(json["jobs_total"], 3);
    EXPECT_EQ(json["jobs_completed"], 2);
    EXPECT_EQ(json["jobs_impossible"], 1);
    EXPECT_EQ(json["training"]["count"], 2);
    EXPECT_THAT(json["warnings"].dump(), HasSubstr("1 of 3 jobs are too large"));
  }
  const auto rows = run_rows({"--trace", trace_, "--cluster", "2x1", "--skip-impossible", "--policy", "fifo"});
  EXPECT_THAT(rows, ElementsAre("a,training,0,,,,0,0,0,impossible", "b,training,10,10,60,50,0,100,0,",
                                "c,training,20,60,90,70,40,30,0,no_capacity"));
}

TEST_F(CliBadInput, SkipImpossibleWithNothingLeft) {
  const std::string trace = folder_.write("big.csv", "job,submit_s,run_s,gpus\na,0,10,8\nb,5,10,8\n");
  for (const std::string& policy : kPolicies) {
    const auto json = run_json(
        {"--trace", trace, "--cluster", "1x4", "--skip-impossible", "--policy", policy, "--out", folder_ / policy});
    EXPECT_EQ(json["jobs_completed"], 0);
    EXPECT_EQ(json["jobs_impossible"], 2);
    EXPECT_EQ(json["training"]["avg_jct_s"], 0.0);
    EXPECT_EQ(json["makespan_s"], 0.0);
    EXPECT_EQ(json["utilisation"], 0.0);
  }
}

TEST_F(CliBadInput, RowsOfATrace) {
  const std::string head = "job,submit_s,run_s,gpus\na,0,1,1\n";
  expect_bad_trace(head + "b,-1,1,1\n", {"bad.csv:3", "'submit_s'", "'-1' is negative", "--skip-bad-rows"});
  expect_bad_trace(head + "b,1,-1,1\n", {"bad.csv:3", "'run_s'", "'-1' is negative"});
  expect_bad_trace(head + "b,,1,1\n", {"bad.csv:3", "'submit_s'", "is empty"});
  expect_bad_trace(head + "b,1,,1\n", {"bad.csv:3", "'run_s'", "is empty"});
  expect_bad_trace(head + "b,noon,1,1\n", {"bad.csv:3", "'submit_s'", "'noon' is not a number"});
  expect_bad_trace(head + "b,1,inf,1\n", {"bad.csv:3", "'run_s'", "'inf'", "finite"});
  expect_bad_trace(head + "b,1,1,0\n", {"bad.csv:3", "'gpus'", "'0' is outside 1 to"});
  expect_bad_trace(head + "b,1,1,1.5\n", {"bad.csv:3", "'gpus'", "'1.5' is not a whole number"});
  expect_bad_trace(head + "b,1,1\n", {"bad.csv:3", "3 fields, the header 4", "'gpus' is missing"});
  expect_bad_trace(head + "a,1,1,1\n", {"bad.csv:3", "job 'a' appears a second time", "unique"});
  expect_bad_trace(head + ",1,1,1\n", {"bad.csv:3", "'job' is empty"});
}

TEST_F(CliBadInput, FilesThatAreNoTraces) {
  expect_bad_trace("", {"bad.csv", "no jobs", "empty"});
  expect_bad_trace("job,submit_s,run_s,gpus\n", {"bad.csv", "no jobs", "ebb-csv"});
  expect_bad_trace("job,submit_s,gpus\na,0,1\n", {"bad.csv:1", "lacks: run_s"});
  expect_bad_trace("once upon a time\n", {"bad.csv:1", "'once upon a time'", "--format"});
  expect_bad_trace("# ebb-trace v2\njob,submit_s,run_s,gpus\na,0,1,1\n", {"version 2", "up to version 1"});
  const auto expect_bad_path = [&](const std::string& path, const std::vector<std::string>& words) {
    expect_refused({"sim", "run", "--trace", path, "--cluster", "1x4"}, words);
  };
  expect_bad_path(folder_ / "none.csv", {"none.csv", "No such file"});
  expect_bad_path(folder_.path(), {folder_.path(), "is a folder"});
  expect_bad_path(trace_ + "/x", {"/x", "Not a directory"});
}

TEST_F(CliBadInput, TruncatedGzip) {
  const gzFile gz = gzopen((folder_ / "whole.csv.gz").c_str(), "wb");
  gzputs(gz, kThreeJobs);
  gzclose(gz);
  EXPECT_EQ(run_json({"--trace", folder_ / "whole.csv.gz", "--cluster", "1x4"})["jobs_completed"], 3);
  const std::string bytes = folder_.read("whole.csv.gz");
  for (const std::size_t size : {std::size_t{5}, bytes.size() / 2, bytes.size() - 1}) {
    const std::string cut = folder_.write("cut.csv.gz", bytes.substr(0, size));
    expect_refused({"sim", "run", "--trace", cut, "--cluster", "1x4"}, {cut, "gzip stream is damaged or cut off"});
  }
}

TEST_F(CliBadInput, PlacesThatCannotBeWritten) {
  const auto expect_bad_out = [&](const std::string& out, const std::vector<std::string>& words) {
    expect_refused_as_is({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--out", out}, words);
    expect_refused_as_is({"sim", "compare", "--trace", trace_, "--cluster", "1x4", "--out", out}, words);
  };
  expect_bad_out(trace_, {trace_, "is a file", "give a folder"});
  expect_bad_out(trace_ + "/deeper", {trace_ + "/deeper", "Not a directory"});
  expect_bad_out("/proc/ebb", {"/proc/ebb", "cannot make output folder"});
  std::filesystem::create_directory(folder_ / "used");
  folder_.write("used/precious.txt", "mine\n");
  expect_bad_out(folder_ / "used", {"used", "not empty", "--force"});
  EXPECT_EQ(folder_.read("used/precious.txt"), "mine\n");
}

TEST_F(CliBadInput, AFailedRunWithForceLeavesTheOldOutputs) {
  const std::string out = folder_ / "out";
  EXPECT_EQ(ebb({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--out", out}).code, cli::kExitOk);
  const std::string before = folder_.read("out/summary.json");
  expect_refused_as_is({"sim", "run", "--trace", trace_, "--cluster", "2x1", "--out", out, "--force"}, {"job 'a'"});
  EXPECT_EQ(folder_.read("out/summary.json"), before);
}

TEST_F(CliBadInput, BadRowsCanBeSkippedAndAreSaidOnce) {
  const std::string trace = folder_.write("bad.csv", std::string(kThreeJobs) + "d,30,x,1,red\n");
  const cli::Outcome outcome = ebb({"sim", "run", "--trace", trace, "--cluster", "1x4", "--skip-bad-rows"});
  EXPECT_EQ(outcome.code, cli::kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("3 of 3 jobs completed"));
  EXPECT_THAT(outcome.err, HasSubstr("1 bad row was left out; the first: " + trace + ":6"));
  EXPECT_EQ(outcome.err.find("bad.csv:6"), outcome.err.rfind("bad.csv:6")) << outcome.err;
}

}  // namespace
}  // namespace ebb
