#pragma once

/// What the tests of the command line with all policies share.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ebb/cli/testing.h"
#include "ebb/policies/all.h"

namespace ebb {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Those that size no jobs: quick on any trace.
inline const std::vector<std::string> kPolicies = {"fifo", "backfill", "srtf", "srsf", "tiresias", "drf"};

/// Three jobs for four GPUs; src/ebb/policies/*/golden.yaml compute by hand what the policies make of them.
inline constexpr const char* kThreeJobs =
    "# ebb-trace v1\n"
    "job,submit_s,run_s,gpus,tenant\n"
    "a,0,100,3,red\n"
    "b,10,50,2,blue\n"
    "c,20,30,1,red\n";

class CliTest : public ::testing::Test {
 protected:
  static cli::Outcome ebb(const std::vector<std::string>& args) { return cli::run_in_process(args, policies::all()); }

  /// `ebb sim run`, which must end well.
  static nlohmann::json run_json(std::vector<std::string> args) {
    args.insert(args.begin(), {"sim", "run", "--json"});
    const cli::Outcome outcome = ebb(args);
    EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    return outcome.code == cli::kExitOk ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }

  /// The rows of jobs.csv of `ebb sim run`, without the header.
  std::vector<std::string> run_rows(std::vector<std::string> args) const {
    args.insert(args.begin(), {"sim", "run", "--force", "--out", folder_ / "rows"});
    const cli::Outcome outcome = ebb(args);
    EXPECT_EQ(outcome.code, cli::kExitOk) << outcome.err;
    std::vector<std::string> rows;
    if (outcome.code != cli::kExitOk) return rows;
    auto reader = LineReader::from_text("jobs.csv", folder_.read("rows/jobs.csv"));
    std::string_view line;
    while (reader.next(line).value()) rows.emplace_back(line);
    EXPECT_EQ(rows.front(), "job,kind,submit_s,start_s,end_s,jct_s,pending_s,gpu_seconds,restarts,reason");
    rows.erase(rows.begin());
    return rows;
  }

  /// `ebb ARGS --out ...` is refused: exit code 2, nothing on stdout, all of these words on stderr, nothing written.
  void expect_refused(std::vector<std::string> args, const std::vector<std::string>& words) const {
    args.insert(args.end(), {"--out", folder_ / "refused"});
    expect_refused_as_is(args, words);
  }
  void expect_refused_as_is(const std::vector<std::string>& args, const std::vector<std::string>& words) const {
    const auto before = folder_.entries();
    const cli::Outcome outcome = ebb(args);
    EXPECT_EQ(outcome.code, cli::kExitBadInput) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("ebb: "));
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_EQ(folder_.entries(), before);
  }

  cli::TestFolder folder_;
  std::string trace_ = folder_.write("jobs.csv", kThreeJobs);
};

}  // namespace ebb
