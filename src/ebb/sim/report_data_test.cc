#include "ebb/sim/report_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ebb::sim {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SimResult labelled(std::string label, std::string policy = "fifo") {
  SimResult run;
  run.policy = std::move(policy);
  run.label = std::move(label);
  run.cluster = "2x8";
  run.cluster_gpus = 16;
  return run;
}

/// A run whose average JCT and p99 pending time are given, all 100 jobs completed.
SimResult judged(std::string label, double jct_s, double pending_s) {
  SimResult run = labelled(std::move(label));
  run.summary.jobs_total = run.summary.jobs_completed = 100;
  run.summary.training.avg_s = jct_s;
  run.summary.queue.p99_s = pending_s;
  return run;
}

Verdict verdict(const std::vector<SimResult>& runs) {
  return verdict_of(runs, views_of(runs).at(0));
}

TEST(Cdf, FewValuesAreAllPointsAndEqualOnesMakeOne) {
  const Cdf cdf = cdf_of({seconds(4), seconds(1), seconds(4), seconds(2)});
  EXPECT_EQ(cdf.count, 4u);
  EXPECT_THAT(cdf.points, ElementsAre(CdfPoint{1, 0.25}, CdfPoint{2, 0.5}, CdfPoint{4, 1}));
  EXPECT_EQ(cdf.zero_share, 0);
}

TEST(Cdf, ZeroShareCountsThoseThatNeverWaited) {
  const Cdf cdf = cdf_of({seconds(0), seconds(3), seconds(0), seconds(0)});
  EXPECT_EQ(cdf.zero_share, 0.75);
  EXPECT_THAT(cdf.points, ElementsAre(CdfPoint{0, 0.75}, CdfPoint{3, 1}));
}

TEST(Cdf, NoValueNoPoint) {
  EXPECT_THAT(cdf_of({}).points, IsEmpty());
  EXPECT_EQ(cdf_of({}).zero_share, 0);
}

TEST(Cdf, ManyValuesKeepBothEndsAndRiseEverywhere) {
  std::vector<Duration> values;
  for (int i = 1; i <= 12345; ++i) values.push_back(seconds((i * 7919) % 12345 + 1));
  const Cdf cdf = cdf_of(values);
  EXPECT_EQ(cdf.points.size(), kCdfPoints);
  EXPECT_EQ(cdf.points.front().value_s, 1);
  EXPECT_EQ(cdf.points.back(), (CdfPoint{12345, 1}));
  for (std::size_t i = 1; i < cdf.points.size(); ++i) {
    EXPECT_LT(cdf.points[i - 1].value_s, cdf.points[i].value_s);
    EXPECT_LT(cdf.points[i - 1].share, cdf.points[i].share);
  }
  // On values 1..n every point is exact: the share of values at most v is v / n.
  for (const CdfPoint& point : cdf.points) EXPECT_DOUBLE_EQ(point.share, point.value_s / 12345);
}

TEST(Cdf, PendingAndJctTakeCompletedJobsOnly) {
  SimResult run;
  JobRecord done;
  done.submit = Time(seconds(10));
  done.end = Time(seconds(70));
  done.pending = seconds(20);
  JobRecord stuck;
  stuck.pending = hours(9);
  run.jobs = {done, stuck};
  EXPECT_THAT(jct_cdf(run).points, ElementsAre(CdfPoint{60, 1}));
  EXPECT_THAT(pending_cdf(run).points, ElementsAre(CdfPoint{20, 1}));
}

TEST(Cdf, InferenceTasksAreInNeither) {
  SimResult run;
  JobRecord task;
  task.kind = JobKind::inference;
  task.end = Time(seconds(70));
  run.jobs = {task};
  EXPECT_EQ(jct_cdf(run).count, 0u);
  EXPECT_EQ(pending_cdf(run).count, 0u);
}

TEST(HistoriesShown, AsManyAsFit) {
  std::vector<SimResult> runs{labelled("a"), labelled("b"), labelled("c")};
  const std::vector<JobSpan> spans(3);
  runs[0].histories = {{0, spans}, {1, spans}};
  runs[1].histories = {{0, spans}, {1, spans}};
  runs[2].histories = {{0, spans}};
  EXPECT_THAT(histories_shown(runs, 15), ElementsAre(true, true, true));
  EXPECT_THAT(histories_shown(runs, 14), ElementsAre(true, true, false));
  EXPECT_THAT(histories_shown(runs, 10), ElementsAre(true, false, true));
  EXPECT_THAT(histories_shown(runs, 0), ElementsAre(false, false, false));
}

TEST(RoundSignificant, KeepsDigitsNotDecimals) {
  EXPECT_EQ(round_significant(123456.7, 4), 123500);
  EXPECT_EQ(round_significant(0.00123456, 3), 0.00123);
  EXPECT_EQ(round_significant(-12.345, 3), -12.3);
  EXPECT_EQ(round_significant(0, 4), 0);
  EXPECT_EQ(round_significant(std::nan(""), 4), 0);
  EXPECT_EQ(round_significant(std::numeric_limits<double>::infinity(), 4), 0);
}

TEST(ParseLabel, LoadAndSeedAreTheCondition) {
  const RunName name = parse_label(labelled("srsf (Oracle), load 1.5, seed 2"));
  EXPECT_EQ(name.contender, "srsf (Oracle)");
  EXPECT_EQ(name.condition, "load 1.5, seed 2");
  EXPECT_TRUE(name.oracle);
}

TEST(ParseLabel, OtherPartsBelongToTheContender) {
  EXPECT_EQ(parse_label(labelled("las, round 60s, seed 2")).contender, "las, round 60s");
  EXPECT_EQ(parse_label(labelled("seed 2", "las")).contender, "las");
  EXPECT_EQ(parse_label(labelled("", "las")).contender, "las");
  EXPECT_FALSE(parse_label(labelled("loading, fifo")).oracle);
}

TEST(Views, OneConditionIsOneView) {
  const std::vector<SimResult> runs{labelled("fifo"), labelled("las")};
  const auto views = views_of(runs);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_THAT(views[0].runs, ElementsAre(0, 1));
  EXPECT_FALSE(views[0].by_label);
}

TEST(Views, SmallSweepIsShownTogetherAndByCondition) {
  const std::vector<SimResult> runs{labelled("fifo, load 1"), labelled("las, load 1"), labelled("fifo, load 2"),
                                    labelled("las, load 2")};
  const auto views = views_of(runs);
  ASSERT_EQ(views.size(), 3u);
  EXPECT_TRUE(views[0].by_label);
  EXPECT_THAT(views[0].runs, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(views[2].name, "load 2");
  EXPECT_THAT(views[2].runs, ElementsAre(2, 3));
  // Runs of different conditions are not ranked against each other.
  EXPECT_THAT(verdict_of(runs, views[0]).sentence, HasSubstr("compare runs of the same load and seed"));
}

TEST(Views, LargeSweepIsShownByConditionOnly) {
  std::vector<SimResult> runs;
  for (int seed = 1; seed <= 3; ++seed) {
    for (const char* policy : {"a", "b", "c"}) runs.push_back(labelled(fmt::format("{}, seed {}", policy, seed)));
  }
  const auto views = views_of(runs);
  ASSERT_EQ(views.size(), 3u);
  EXPECT_EQ(views[1].name, "seed 2");
  EXPECT_THAT(views[1].runs, ElementsAre(3, 4, 5));
}

TEST(Views, ClustersAreConditionsAndLonelyRunsStayTogether) {
  std::vector<SimResult> runs{labelled("fifo"), labelled("fifo")};
  runs[1].cluster = "4x8";
  const auto views = views_of(runs);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_TRUE(views[0].by_label);
  EXPECT_THAT(views_of({}), IsEmpty());
}

TEST(Tenants, TopRowsByTheirSumThenTheRest) {
  std::vector<SimResult> runs{labelled("a"), labelled("b")};
  runs[0].tenant_gpu_seconds = {{"big", 50}, {"mid", 10}, {"x", 2}, {"y", 1}};
  runs[1].tenant_gpu_seconds = {{"mid", 100}, {"y", 3}, {"z", 2}};
  const auto rows = fold_tenants(runs, std::vector<std::size_t>{0, 1}, 2).rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].tenant, "mid");
  EXPECT_THAT(rows[0].gpu_seconds, ElementsAre(10, 100));
  EXPECT_EQ(rows[1].tenant, "big");
  EXPECT_THAT(rows[1].gpu_seconds, ElementsAre(50, 0));
  EXPECT_EQ(rows[2].folded, 3u);
  EXPECT_THAT(rows[2].gpu_seconds, ElementsAre(3, 5));
}

TEST(Tenants, ASingleOtherKeepsItsName) {
  std::vector<SimResult> runs{labelled("a")};
  runs[0].tenant_gpu_seconds = {{"p", 3}, {"", 2}, {"q", 1}};
  const auto rows = fold_tenants(runs, std::vector<std::size_t>{0}, 2).rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].tenant, "q");
  EXPECT_EQ(rows[2].folded, 0u);
  EXPECT_THAT(fold_tenants(runs, {}, 2).rows, IsEmpty());
}

TEST(Warnings, TheSameWarningIsSaidOnce) {
  std::vector<SimResult> runs{labelled("a"), labelled("b")};
  runs[0].summary.warnings = {"w", "w", "only a"};
  runs[1].summary.warnings = {"w"};
  const auto warnings = fold_warnings(runs);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0].runs, ElementsAre(0, 1));
  EXPECT_EQ(warnings[1].text, "only a");
}

TEST(Verdict, NamesBestAndWorstOfBothFigures) {
  const Verdict v = verdict({judged("fifo", 7200, 36000), judged("las", 3600, 18000), judged("sjf", 5000, 9000)});
  EXPECT_EQ(v.sentence,
            "On average jobs completed soonest under las, 60m 00s after submission, 50 % sooner than the 2h 00m under "
            "fifo; 99 % of jobs waited 2h 30m or less under sjf, against 10h 00m under fifo.");
  EXPECT_THAT(v.notes, IsEmpty());
}

TEST(Verdict, FiguresWithinAPercentAreEqual) {
  EXPECT_EQ(
      verdict({judged("fifo", 7200, 0), judged("las", 7210, 0)}).sentence,
      "All 2 policies completed jobs about equally fast, 2h 00m after submission on average; at least 99 % of jobs "
      "never waited under each.");
  EXPECT_THAT(verdict({judged("a", 1000, 5), judged("b", 1005, 5), judged("c", 2000, 5)}).sentence,
              HasSubstr("soonest under a and b, "));
}

TEST(Verdict, OracleKnowledgeIsPointedOutWithTheBestOfTheOthers) {
  const Verdict v = verdict({judged("fifo", 7200, 10), judged("srsf (oracle)", 3600, 5), judged("las", 5400, 8)});
  ASSERT_EQ(v.notes.size(), 1u);
  EXPECT_THAT(v.notes[0], HasSubstr("srsf (oracle) uses the true run times"));
  EXPECT_THAT(v.notes[0], HasSubstr("was 90m 00s, under las."));
}

TEST(Verdict, MissingJobsAreSaid) {
  std::vector<SimResult> runs{judged("fifo", 7200, 10), judged("las", 3600, 5), judged("none", 0, 0)};
  runs[0].summary.jobs_completed = 90;
  runs[2].summary.jobs_completed = 0;
  const Verdict v = verdict(runs);
  ASSERT_EQ(v.notes.size(), 2u);
  EXPECT_EQ(v.notes[0], "No job completed under none.");
  EXPECT_THAT(v.notes[1], HasSubstr("90 under fifo, 100 under las"));
  EXPECT_THAT(v.sentence, HasSubstr("soonest under las"));
}

TEST(Verdict, InferenceIsANoteOfItsOwn) {
  std::vector<SimResult> runs{judged("fifo", 7200, 36000), judged("las", 3600, 18000)};
  for (SimResult& run : runs) {
    run.summary.jobs_total = run.summary.jobs_completed = 130;
    run.summary.inference = {30, 30, 2, 5, 0, 0.9};
  }
  ASSERT_EQ(verdict(runs).notes.size(), 1u);
  EXPECT_EQ(verdict(runs).notes[0],
            "Inference: 90.00 % in target under each; tasks took 2.0 s longer than alone on average.");
  runs[1].summary.inference = {30, 30, 6, 5, 0, 1};
  EXPECT_EQ(verdict(runs).notes[0],
            "Inference: 100 % in target under las, 90.00 % under fifo; tasks took 2.0 s to 6.0 s longer than alone on "
            "average.");
  EXPECT_THAT(verdict({runs[0]}).sentence, HasSubstr("100 of 100 training jobs completed"));
  // A task that completed is no training job that did.
  runs[0].summary.jobs_completed = 30;
  EXPECT_EQ(verdict({runs[0]}).sentence, "No job completed in this run.");
}

TEST(Verdict, SingleRuns) {
  EXPECT_EQ(verdict({judged("fifo", 7200, 60)}).sentence,
            "Under fifo, 100 of 100 jobs completed, on average 2h 00m after they were submitted; 99 % of them waited "
            "60.0 s or less.");
  EXPECT_EQ(verdict({labelled("fifo")}).sentence, "No job completed in this run.");
}

}  // namespace
}  // namespace ebb::sim
