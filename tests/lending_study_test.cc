// The study of lending (sim/lending_study.h): pairs of runs small enough to compute by hand, and what must not change
// the results. Two nodes of one GPU: node 0 trains, node 1 serves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/policies/all.h"
#include "ebb/sim/lending_output.h"
#include "ebb/sim/lending_page.h"
#include "ebb/spec/cluster.h"

namespace ebb::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

JobSpec job_of(const std::string& name, int run_s, GpuCount gpus = 1) {
  JobSpec job;
  job.name = name;
  job.gpus = gpus;
  job.run_time = seconds(run_s);
  return job;
}

class LendingStudyTest : public ::testing::Test {
 protected:
  LendingStudyTest() {
    common_.policy = "fifo";
    common_.check_invariants = true;
    trace_.jobs.push_back(job_of("a", 1000));
    serve({{Time(), 0}, {Time(hours(12)), 1}});
    options_.loads = {2};
    options_.means = {};
    options_.seeds = {1, 2, 3};
    options_.day_start = Duration(0);
    options_.find_headline = false;
  }

  void serve(const std::vector<RatePoint>& points) {
    ServiceSpec spec;
    spec.name = "chat";
    spec.service_time = milliseconds(200);
    spec.target_latency = milliseconds(600);
    spec.start_delay = seconds(10);
    services_ = {{spec, {make_shape("test", points).value(), 1}}};
  }

  Result<LendingStudy> study(const std::string& cluster = "2x1") const {
    return study_lending(spec::parse_cluster(cluster).value(), trace_, services_, common_, options_, policies::all());
  }
  std::string error(const std::string& cluster = "2x1") const {
    const auto result = study(cluster);
    return result ? "no error" : result.error().message;
  }

  Workload trace_;
  std::vector<StudyService> services_;
  SimOptions common_;
  LendingOptions options_;
};

// Serving needs nothing for the first twelve hours. Two jobs of 1,000 s come at once: one after the other without
// lending (JCT 1,000 and 2,000 s), side by side with it.
TEST_F(LendingStudyTest, IdleServingHalvesTheQueue) {
  const auto result = study();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->halves.training, 1);
  EXPECT_EQ(result->halves.serving, 1);
  ASSERT_EQ(result->cells.size(), 1U);
  ASSERT_EQ(result->runs.size(), 3U);
  const LendingCell& cell = result->cells[0];
  EXPECT_EQ(cell.jobs, 2U);
  EXPECT_DOUBLE_EQ(cell.jct_none_s.mean, 1500);
  EXPECT_DOUBLE_EQ(cell.jct_lending_s.mean, 1000);
  EXPECT_NEAR(cell.jct_change.mean, -1.0 / 3, 1e-12);
  EXPECT_NEAR(cell.jct_change.low, cell.jct_change.high, 1e-12);  // every seed gives the same here
  EXPECT_DOUBLE_EQ(cell.wait_none_s.mean, 500);
  EXPECT_DOUBLE_EQ(cell.run_none_s.mean, 1000);
  EXPECT_NEAR(cell.lent_gpu_h.mean, 1000.0 / 3600, 1e-9);
  EXPECT_NEAR(cell.freed_gpu_h.mean, 1000.0 / 3600, 1e-9);
  EXPECT_NEAR(cell.idle_gpu_h.mean, 1000.0 / 3600, 1e-9);
  EXPECT_NEAR(cell.bound_used.mean, 1, 1e-9);
  EXPECT_EQ(cell.in_target_lending.mean, 1);
  // The run ends with its jobs, not with the week of demand after them.
  EXPECT_DOUBLE_EQ(result->runs[0].none.makespan_s, 2000);
  EXPECT_DOUBLE_EQ(result->runs[0].lending.makespan_s, 1000);
  EXPECT_TRUE(result->warnings.empty());
}

// Demand comes 500 s after the jobs: the second job loses its GPU, waits for the first one and starts again, all of it
// charged to lending.
TEST_F(LendingStudyTest, ALoanThatIsReclaimed) {
  options_.day_start = hours(12) - kWarmUp - seconds(500);
  common_.set = {{"drain", "2s"}};
  options_.lending = Lending::partitioned;
  const auto result = study();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const LendingFigures& lending = result->runs[0].lending;
  EXPECT_EQ(lending.preemptions, 1U);
  EXPECT_EQ(lending.reclaims, 1U);
  EXPECT_DOUBLE_EQ(lending.reclaim_p99_s, 2);
  EXPECT_DOUBLE_EQ(lending.lent_gpu_s, 502);
  EXPECT_DOUBLE_EQ(lending.idle_gpu_s, 500);
  // Done at 1,000 s and at 1,500: 500 s of its work are kept.
  EXPECT_DOUBLE_EQ(lending.mean_jct_s, 1250);
  // Two seconds more than the ten that a replica loads anyway, all requests missed.
  EXPECT_NEAR(1 - lending.in_target_share, 1 - result->runs[0].none.in_target_share, 0.02);
  EXPECT_LT(lending.in_target_share, result->runs[0].none.in_target_share);
}

// k jobs in a row wait (k - 1) / 2 x 1,000 s on average and run 1,000: as long at load 3.
TEST_F(LendingStudyTest, TheHeadlineIsWhereJobsWaitAsLongAsTheyRun) {
  options_.find_headline = true;
  for (const std::vector<double>& loads : {std::vector<double>{2}, {1, 2}, {2, 3, 4}, {12}}) {
    options_.loads = loads;
    const auto result = study();
    ASSERT_TRUE(result.has_value()) << result.error().message;
    ASSERT_TRUE(result->headline.has_value());
    EXPECT_TRUE(result->headline->found);
    EXPECT_NEAR(result->headline->cell.load, 3, 0.5) << loads.front();  // three jobs
    EXPECT_DOUBLE_EQ(result->headline->wait_over_run, 1);
    EXPECT_DOUBLE_EQ(result->headline->cell.jct_none_s.mean, 2000);
    EXPECT_NEAR(result->headline->cell.jct_lending_s.mean, 4000.0 / 3, 1e-6);
    EXPECT_THAT(lending_sentences(*result)[0], HasSubstr("shortens the mean completion time by 33.3 %"));
    EXPECT_THAT(lending_sentences(*result)[0], HasSubstr("at load "));
  }
}

// Jobs that take no time wait for nobody, however many there are.
TEST_F(LendingStudyTest, TheHeadlineMayNotBeFound) {
  trace_.jobs[0].run_time = seconds(0);
  options_.find_headline = true;
  const auto result = study();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_FALSE(result->headline->found);
  EXPECT_THAT(lending_sentences(*result)[0], HasSubstr("No load was found at which jobs wait as long as they run"));
}

TEST_F(LendingStudyTest, ThreadsChangeNothing) {
  serve({{Time(), 1}, {Time(hours(1)), 3}, {Time(hours(2)), 2}});
  for (int i = 1; i < 20; ++i) {
    trace_.jobs.push_back(job_of(fmt::format("{}", i), 300 + 700 * (i % 5), 1 + i % 3));
    trace_.jobs.back().submit = Time(seconds(200 * i));
  }
  options_.means = {0.5, 0.8};
  options_.loads = {0.5, 1.5, 1};
  options_.day_start.reset();
  options_.find_headline = true;
  const auto one = study("4x4");
  options_.threads = 3;
  const auto three = study("4x4");
  ASSERT_TRUE(one.has_value() && three.has_value()) << error("4x4");
  EXPECT_EQ(lending_json(*one).dump(), lending_json(*three).dump());
  EXPECT_EQ(render_lending(*one, {"t", "c", "v"}), render_lending(*three, {"t", "c", "v"}));
  // Columns by rising mean, loads as given, seeds in order; seeds differ.
  ASSERT_EQ(one->columns.size(), 3U);
  EXPECT_LT(one->columns[0].plan.mean_share, one->columns[1].plan.mean_share);
  EXPECT_LT(one->columns[1].plan.mean_share, one->columns[2].plan.mean_share);
  EXPECT_EQ(one->cells[1].load, 1.5);
  EXPECT_EQ(one->runs[1].seed, 2U);
  EXPECT_NE(one->runs[0].none.mean_jct_s, one->runs[1].none.mean_jct_s);
  // Both runs of a pair have the same jobs.
  for (const LendingRun& run : one->runs) EXPECT_EQ(run.none.jobs, run.lending.jobs);
}

TEST_F(LendingStudyTest, ThePageWorksInABrowser) {
  trace_.jobs.push_back(job_of("</script><b>", 500));
  trace_.jobs.back().submit = Time(seconds(100));
  options_.loads = {1, 2};
  options_.find_headline = true;
  const auto result = study();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("ebb_lending_test_{}.html", ::getpid());
  ASSERT_TRUE(write_file_atomically(path, render_lending(*result, {"a <title>", "ebb sim lending", "1"})));
  const std::string command = fmt::format("{}/tests/lending-page '{}'", EBB_SOURCE_DIR, path.string());
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::filesystem::remove(path);
}

TEST_F(LendingStudyTest, IntervalsAreOverPairs) {
  LendingRun a;
  a.none.mean_jct_s = 100;
  a.lending.mean_jct_s = 80;
  LendingRun b;
  b.none.mean_jct_s = 1000;
  b.lending.mean_jct_s = 900;
  const LendingCell cell = cell_of({a, b});
  // Changes of -20 % and -10 %: their mean, not that of the means. s = 7.0711 points, 12.706 s / sqrt(2) = 63.53.
  EXPECT_NEAR(cell.jct_change.mean, -0.15, 1e-12);
  EXPECT_NEAR(cell.jct_change.low, -0.15 - 0.6353, 1e-4);
  EXPECT_NEAR(cell.jct_change.high, -0.15 + 0.6353, 1e-4);
}

TEST_F(LendingStudyTest, WhatCannotBeStudied) {
  EXPECT_THAT(error("1x4"), HasSubstr("at least 2 nodes"));
  EXPECT_THAT(error("2x4@a"), HasSubstr("none is called 'serving'"));
  options_.means = {0.96};
  EXPECT_THAT(error(), HasSubstr("a serving mean of 96 % cannot be reached"));
  options_.means = {};
  options_.power.reset();
  EXPECT_THAT(error(), HasSubstr("at least one load"));
  options_.power = 1;
  options_.lending = Lending::none;
  EXPECT_THAT(error(), HasSubstr("give pooled or partitioned"));
  options_.lending = Lending::pooled;
  options_.loads = {0};
  EXPECT_THAT(error(), HasSubstr("load 0: give a number from 1/64 to 64"));
  options_.loads = {1};
  trace_.jobs.push_back(job_of("wide", 10, 2));
  EXPECT_THAT(error(), HasSubstr("job 'wide' needs 2 GPUs, but the training half has 1"));
  common_.skip_impossible = true;
  const auto result = study();
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_THAT(result->warnings, ::testing::ElementsAre(HasSubstr("1 of 2 jobs are too large")));
  trace_.jobs.erase(trace_.jobs.begin());
  EXPECT_THAT(error(), HasSubstr("no training job"));
}

}  // namespace
}  // namespace ebb::sim
