// Usage, help, and what needs no policy: `ebb trace`.

#include "ebb/cli/cli.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "ebb/cli/command.h"
#include "ebb/cli/testing.h"

namespace ebb::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kTrace =
    "# ebb-trace v1\n"
    "job,submit_s,run_s,gpus,tenant\n"
    "a,0,100,2,red\n"
    "b,10,50,1,blue\n"
    "c,30,10,1,red\n";

Outcome ebb(const std::vector<std::string>& args) {
  return run_in_process(args, sched::Registry());
}

// Refused as wrong usage or bad input: exit code 2, nothing on stdout, all of these words on stderr.
void expect_refused(const std::vector<std::string>& args, const std::vector<std::string>& words) {
  const Outcome outcome = ebb(args);
  EXPECT_EQ(outcome.code, kExitBadInput) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("ebb: "));
  for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
}

TEST(Usage, VersionGoesToStdout) {
  const Outcome outcome = ebb({"--version"});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex("ebb [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(outcome.err, "");
}

TEST(Usage, HelpAtEveryLevelGoesToStdoutAndNamesTheCommand) {
  const std::vector<std::vector<std::string>> commands = {
      {},        {"sim"},           {"sim", "run"},        {"sim", "compare"},   {"sim", "replay"}, {"policies"},
      {"trace"}, {"trace", "info"}, {"trace", "validate"}, {"trace", "convert"}, {"trace", "cut"},  {"trace", "scale"}};
  for (std::vector<std::string> args : commands) {
    std::string name = "ebb";
    for (const std::string& arg : args) name += " " + arg;
    for (const char* flag : {"--help", "-h"}) {
      args.push_back(flag);
      const Outcome outcome = ebb(args);
      args.pop_back();
      EXPECT_EQ(outcome.code, kExitOk) << name;
      EXPECT_THAT(outcome.out, HasSubstr("Usage: " + name + " ")) << name;
      EXPECT_EQ(outcome.err, "") << name;
    }
  }
}

TEST(Usage, AWrongCommandIsNamedWithTheKnownOnes) {
  expect_refused({"simulate"}, {"'simulate' is no command", "sim, policies, trace", "--help"});
  expect_refused({"sim", "walk"}, {"'walk' is no command", "'ebb sim'", "run, compare, lending, replay"});
  expect_refused({"trace", "cat", "x"}, {"'cat' is no command", "info, validate, convert, cut, scale"});
  expect_refused({}, {"no command is given", "sim, policies, trace"});
  expect_refused({"sim"}, {"no command is given", "'ebb sim'", "run, compare, lending, replay"});
}

TEST(Usage, AWrongFlagIsNamed) {
  expect_refused({"sim", "run", "--bogus"}, {"--bogus"});
  expect_refused({"policies", "--bogus"}, {"--bogus"});
  expect_refused({"trace", "info"}, {"trace", "required"});
  expect_refused({"sim", "run", "a.yaml", "b.yaml"}, {"b.yaml"});
}

TEST(Usage, AnOutputThatCannotBeWrittenIsAnError) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--version"}, {"--help"}, {"policies"}}) {
    std::FILE* full = std::fopen("/dev/full", "w");
    ASSERT_NE(full, nullptr);
    std::FILE* err = std::tmpfile();
    EXPECT_EQ(run(args, sched::Registry(), {full, err}), kExitBadInput) << args.front();
    EXPECT_THAT(take_text(err), HasSubstr("cannot write to standard output")) << args.front();
    std::fclose(full);
  }
}

TEST(Usage, ALongOutputThatFailedOnTheWayIsAnErrorTooWhenTheRestWasWritten) {
  // Unbuffered: each write fails on its own, and nothing is left for the flush at the end.
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  std::setvbuf(full, nullptr, _IONBF, 0);
  std::FILE* err = std::tmpfile();
  EXPECT_EQ(run({"policies"}, sched::Registry(), {full, err}), kExitBadInput);
  EXPECT_THAT(take_text(err), HasSubstr("cannot write to standard output"));
  std::fclose(full);
}

TEST(Text, TableAlignsColumns) {
  EXPECT_EQ(table({{"", "x"}, {"abc", "10"}, {"d", ""}}), "      x\nabc  10\nd\n");
}

TEST(Text, ProgressIsSilentWhereThereIsNoTerminal) {
  std::FILE* stream = std::tmpfile();
  {
    Progress progress(stream, "auto", "working");
    progress.update(0.5);
  }
  EXPECT_EQ(take_text(stream), "");
}

class TraceCommands : public ::testing::Test {
 protected:
  TestFolder folder_;
  std::string trace_ = folder_.write("jobs.csv", kTrace);
};

TEST_F(TraceCommands, InfoShowsTheFigures) {
  const Outcome outcome = ebb({"trace", "info", trace_, "--cluster", "1x4"});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("ebb-csv"));
  EXPECT_THAT(outcome.out, HasSubstr("offered load on 4 GPUs"));
  // 2 x 100 + 50 + 10 = 260 GPU-seconds over 30 s of submissions on 4 GPUs.
  EXPECT_THAT(outcome.out, HasSubstr("216.7 %"));
}

TEST_F(TraceCommands, InfoAsJsonIsOneObject) {
  const Outcome outcome = ebb({"trace", "info", trace_, "--json"});
  EXPECT_EQ(outcome.code, kExitOk);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("schema_version"), 1);
  EXPECT_EQ(json.at("jobs"), 3);
  EXPECT_EQ(json.at("format"), "ebb-csv");
  EXPECT_EQ(json.at("last_submit_s"), 30.0);
  EXPECT_EQ(json.at("run_s").at("p50"), 50.0);
  EXPECT_EQ(json.at("gangs").size(), 2);
  EXPECT_EQ(json.at("tenants").at(0).at("tenant"), "red");
  EXPECT_FALSE(json.contains("offered_load"));
}

TEST_F(TraceCommands, ValidateCountsAndSaysWhatIsWrong) {
  const Outcome sound = ebb({"trace", "validate", trace_});
  EXPECT_EQ(sound.code, kExitOk);
  EXPECT_EQ(sound.out, trace_ + ": 3 jobs, format ebb-csv, 0 rows left out\n");

  const std::string bad = folder_.write("bad.csv", std::string(kTrace) + "d,40,x,1,red\ne,50,1,0,red\nf,60,1,1,red\n");
  expect_refused({"trace", "validate", bad}, {bad + ":6", "'run_s'", "'x'", "--skip-bad-rows"});

  const Outcome skipped = ebb({"trace", "validate", bad, "--skip-bad-rows"});
  EXPECT_EQ(skipped.code, kExitOk);
  EXPECT_THAT(skipped.out, HasSubstr("4 jobs, format ebb-csv, 2 rows left out"));
  EXPECT_THAT(skipped.err, HasSubstr("2 bad rows were left out; the first: " + bad + ":6"));
  EXPECT_THAT(skipped.err, HasSubstr("warning: " + bad + ":7: column 'gpus'"));
  EXPECT_EQ(skipped.err.find(":6:"), skipped.err.rfind(":6:")) << "each bad row once: " << skipped.err;
}

TEST_F(TraceCommands, ConvertGoesThereAndBack) {
  const std::string jsonl = folder_ / "jobs.jsonl";
  const Outcome there = ebb({"trace", "convert", trace_, jsonl});
  EXPECT_EQ(there.code, kExitOk);
  EXPECT_EQ(there.out, "3 jobs written to " + jsonl + " (ebb-jsonl)\n");
  EXPECT_EQ(ebb({"trace", "convert", jsonl, folder_ / "back.csv"}).code, kExitOk);
  EXPECT_EQ(folder_.read("back.csv"),
            "# ebb-trace v1\n"
            "job,submit_s,run_s,gpus,tenant,priority,requested_s,gpu_type,pool\n"
            "a,0,100,2,red,0,,,\n"
            "b,10,50,1,blue,0,,,\n"
            "c,30,10,1,red,0,,,\n");
  EXPECT_EQ(ebb({"trace", "convert", trace_, folder_ / "t.csv", "--to", "tiresias"}).code, kExitOk);
  EXPECT_THAT(folder_.read("t.csv"), StartsWith("job_id,num_gpu,submit_time,duration\na,2,0,100\n"));
}

TEST_F(TraceCommands, AnExistingFileIsReplacedOnlyWithForce) {
  const std::string out = folder_.write("there.csv", "precious\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"convert"}, {"cut", "--first", "1"}, {"scale", "--load", "2"}}) {
    std::vector<std::string> args = {"trace", command[0], trace_, out};
    args.insert(args.end(), command.begin() + 1, command.end());
    expect_refused(args, {out, "exists", "--force"});
    EXPECT_EQ(folder_.read("there.csv"), "precious\n");
  }
  EXPECT_EQ(ebb({"trace", "convert", trace_, out, "--force"}).code, kExitOk);
  EXPECT_THAT(folder_.read("there.csv"), StartsWith("# ebb-trace v1\n"));
}

TEST_F(TraceCommands, WhatIsNoFileIsNeverReplaced) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", folder_ / "null");
  std::filesystem::create_directory(folder_ / "folder");
  const auto before = folder_.entries();
  for (const char* name : {"pipe", "null", "folder"}) {
    expect_refused({"trace", "convert", trace_, folder_ / name, "--force"}, {folder_ / name, "not a regular file"});
  }
  EXPECT_EQ(folder_.entries(), before);
  EXPECT_TRUE(std::filesystem::is_fifo(folder_ / "pipe"));
  EXPECT_TRUE(std::filesystem::is_character_file(folder_ / "null"));
}

TEST_F(TraceCommands, CutTakesAPart) {
  EXPECT_EQ(ebb({"trace", "cut", trace_, folder_ / "cut.csv", "--from", "5s", "--until", "30s"}).code, kExitOk);
  EXPECT_THAT(folder_.read("cut.csv"), HasSubstr("\nb,10,50,1,blue"));
  EXPECT_THAT(folder_.read("cut.csv"), Not(HasSubstr("\nc,")));
  EXPECT_EQ(ebb({"trace", "cut", trace_, folder_ / "s.csv", "--from", "10s", "--first", "1", "--shift"}).code, kExitOk);
  EXPECT_THAT(folder_.read("s.csv"), HasSubstr("\nb,0,50,1,blue"));
}

TEST_F(TraceCommands, ScaleChangesTheLoad) {
  EXPECT_EQ(ebb({"trace", "scale", trace_, folder_ / "x2.csv", "--load", "2"}).code, kExitOk);
  EXPECT_THAT(folder_.read("x2.csv"), HasSubstr("\nb,5,50,1,blue"));
  const auto sample = [&](const char* name, const char* seed) {
    const std::vector<std::string> args = {"trace", "scale",         trace_,   folder_ / name, "--load",
                                           "3",     "--load-method", "sample", "--seed",       seed};
    EXPECT_EQ(ebb(args).code, kExitOk);
    return folder_.read(name);
  };
  const std::string once = sample("s1.csv", "1");
  EXPECT_EQ(once, sample("s1again.csv", "1"));
  EXPECT_NE(once, sample("s2.csv", "2"));
}

TEST_F(TraceCommands, BadArgumentsWriteNothing) {
  const std::string out = folder_ / "out.csv";
  const auto before = folder_.entries();
  expect_refused({"trace", "convert", folder_ / "no.csv", out}, {"no.csv", "No such file"});
  expect_refused({"trace", "convert", folder_.path(), out}, {folder_.path(), "folder"});
  expect_refused({"trace", "convert", trace_, out, "--to", "excel"}, {"'excel'", "philly", "ebb-jsonl"});
  expect_refused({"trace", "convert", trace_, out, "--to", "sacct"}, {"sacct", "not written", "ebb-csv"});
  expect_refused({"trace", "convert", trace_, out, "--to", "philly"}, {"philly", "dates", "ebb-csv"});
  expect_refused({"trace", "convert", trace_, out, "--format", "excel"}, {"'excel'", "philly"});
  expect_refused({"trace", "convert", trace_, folder_ / "no/out.csv"}, {"no/out.csv", "No such file"});
  expect_refused({"trace", "cut", trace_, out, "--from", "soon"}, {"'soon'", "not a duration", "30s"});
  expect_refused({"trace", "cut", trace_, out, "--first", "-1"}, {"--first", "'-1'"});
  expect_refused({"trace", "cut", trace_, out, "--from", "1h"}, {"leaves no job", "3"});
  expect_refused({"trace", "scale", trace_, out, "--load", "0"}, {"load factor 0", "1/1024 to 1024"});
  expect_refused({"trace", "scale", trace_, out, "--load", "nan"}, {"load factor", "1/1024 to 1024"});
  expect_refused({"trace", "scale", trace_, out, "--load", "2", "--load-method", "guess"}, {"'guess'", "compress"});
  expect_refused({"trace", "scale", trace_, out, "--load", "2", "--seed", "-3"}, {"--seed", "'-3'"});
  expect_refused({"trace", "scale", trace_, out}, {"--load", "required"});
  expect_refused({"trace", "info", trace_, "--cluster", "0x8"}, {"'0x8'", "1 to", "16x4"});
  EXPECT_EQ(folder_.entries(), before);
}

TEST_F(TraceCommands, TruncatedGzipIsSaidToBeThat) {
  std::string text = "job,submit_s,run_s,gpus\n";
  for (int i = 0; i < 2000; ++i) text += fmt::format("job{},{},{},1\n", i, i, (i * 7919) % 1000);
  const gzFile gz = gzopen((folder_ / "whole.csv.gz").c_str(), "wb");
  gzwrite(gz, text.data(), static_cast<unsigned>(text.size()));
  gzclose(gz);
  const Outcome whole = ebb({"trace", "validate", folder_ / "whole.csv.gz"});
  EXPECT_THAT(whole.out, HasSubstr("2,000 jobs"));
  const std::string bytes = folder_.read("whole.csv.gz");
  const std::string cut = folder_.write("cut.csv.gz", bytes.substr(0, bytes.size() / 2));
  expect_refused({"trace", "validate", cut}, {cut, "gzip stream is damaged or cut off after line", "fetch"});
}

TEST(Replay, WhatIsNoJournalIsRefused) {
  const TestFolder folder;
  const std::string trace = folder.write("jobs.csv", kTrace);
  expect_refused({"sim", "replay", folder / "none.jsonl"}, {"none.jsonl", "No such file"});
  expect_refused({"sim", "replay", trace}, {trace + ":1", "not a journal"});
  const std::string other = folder.write("other.jsonl", "{\"type\":\"journal\",\"version\":1,\"driver\":\"live\"}\n");
  expect_refused({"sim", "replay", other}, {"not written by the simulator"});
}

}  // namespace
}  // namespace ebb::cli
