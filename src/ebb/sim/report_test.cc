#include "ebb/sim/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "ebb/base/files.h"

namespace ebb::sim {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

const ReportOptions kOptions{"A cluster", "ebb simulate trace.csv", "0.1.0"};

/// A run with a job every 100 s that waits i mod 7 minutes, series and tenants to match.
SimResult sample(const std::string& label, int jobs) {
  SimResult run;
  run.policy = "fifo";
  run.label = label;
  run.cluster = "2x8";
  run.cluster_gpus = 16;
  run.time_zero = "2017-10-03 00:00:00";
  Summary& s = run.summary;
  for (int i = 0; i < jobs; ++i) {
    JobRecord job;
    job.name = fmt::format("job-{}", i);
    job.tenant = fmt::format("tenant-{}", i % 14);
    job.gpus = 1;
    job.submit = Time(seconds(100 * i));
    job.pending = seconds(60 * (i % 7));
    job.gpu_seconds = (600 + i) * job.gpus;
    job.start = job.submit + job.pending;
    job.end = *job.start + seconds(600 + i);
    run.jobs.push_back(job);
  }
  s.jobs_total = s.jobs_completed = static_cast<std::uint64_t>(jobs);
  s.training = {static_cast<std::size_t>(jobs), 900, 800, 1500};
  s.queue = {static_cast<std::size_t>(jobs), 180, 180, 360};
  s.makespan_s = 100.0 * jobs + 1000;
  s.utilisation = 0.5;
  run.gpus_in_use = {Time(seconds(0)), seconds(100), {}};
  run.queue_length = run.gpus_in_use;
  for (int i = 0; i < 1000; ++i) {
    run.gpus_in_use.values.push_back(8 + 8 * std::sin(i / 30.0));
    run.queue_length.values.push_back(i % 50 / 3.0);
  }
  for (int i = 0; i < 14; ++i) run.tenant_gpu_seconds.emplace_back(fmt::format("tenant-{}", i), 1000.0 / (i + 1));
  return run;
}

/// The same with 40 elastic jobs over time, services and loans.
SimResult serving_sample(const std::string& label) {
  SimResult run = sample(label, 40);
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    const JobRecord& job = run.jobs[i];
    JobHistory history{i, {}};
    if (*job.start > job.submit) history.spans.push_back({job.submit, *job.start, 0, ReasonCode::no_capacity});
    const Time middle = *job.start + seconds(200);
    history.spans.push_back({*job.start, middle, static_cast<GpuCount>(1 + i % 9), {}});
    history.spans.push_back({middle, *job.end, static_cast<GpuCount>(2 + i % 9), {}});
    run.histories.push_back(std::move(history));
  }
  Summary& s = run.summary;
  s.jobs_total += 12;
  s.jobs_completed += 10;
  s.inference = {12, 10, 1.5, 9.25, 1e6, 0.995};
  s.loans = {.count = 7, .gpu_seconds = 3600, .reclaims = 5, .reclaim_p50_s = 2, .reclaim_p99_s = 8, .forced = 1};
  s.gpu_seconds_by_state = {5000, 100, 50, 2000, 300, 400, 1000};
  run.gpus_serving = run.gpus_in_use;
  run.gpus_lent = run.queue_length;
  return run;
}

std::string render(const std::vector<SimResult>& runs, const ReportOptions& options = kOptions) {
  const auto page = render_report(runs, options);
  EXPECT_TRUE(page.has_value());
  return page.value_or("");
}

/// What the page's script will read.
nlohmann::json data_of(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="data">)";
  const std::size_t start = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(start, page.find("</script>", start) - start));
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Report, NeedsARun) {
  const auto page = render_report({}, kOptions);
  ASSERT_FALSE(page.has_value());
  EXPECT_EQ(page.error().code, ErrorCode::invalid_argument);
}

TEST(Report, LoadsNothing) {
  const std::string page = render({sample("fifo", 20)});
  // No attribute, import or url() that would fetch; the policy in the page forbids it as well.
  EXPECT_FALSE(std::regex_search(page, std::regex(R"re(\s(src|action|data|poster)\s*=\s*["'])re")));
  EXPECT_FALSE(std::regex_search(page, std::regex(R"re(href\s*=\s*["'][^#])re")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(Report, CarriesTheLicenceOfTheChartLibrary) {
  EXPECT_THAT(render({sample("fifo", 2)}), HasSubstr("The MIT License (MIT)\n\nCopyright (c) 2022 Leon Sorokin"));
}

TEST(Report, HostileNamesStayText) {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--{{data}}";
  SimResult run = sample(evil, 3);
  run.policy = run.cluster = run.time_zero = evil;
  run.jobs[0].name = run.jobs[0].tenant = run.jobs[0].reason = evil;
  run.tenant_gpu_seconds = {{evil, 5}};
  run.summary.warnings = {evil};
  const std::string page = render({run}, {evil, evil, evil});
  EXPECT_EQ(count(page, "<script"), count(render({sample("fifo", 3)}), "<script"));
  EXPECT_EQ(count(page, "</script"), count(render({sample("fifo", 3)}), "</script"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;"));
  const auto data = data_of(page);
  EXPECT_EQ(data["runs"][0]["label"], evil);
  EXPECT_EQ(data["views"][0]["tenants"][0]["tenant"], evil);
}

TEST(Report, BytesThatAreNotUtf8AreReplaced) {
  SimResult run = sample("fifo \xff", 2);
  run.tenant_gpu_seconds = {{"\xc3(", 1}};
  const auto data = data_of(render({run}, {"\xfe", "\xfe", "0"}));
  EXPECT_EQ(data["runs"][0]["label"], "fifo \uFFFD");
}

TEST(Report, SameResultsSameBytes) {
  const std::vector<SimResult> runs{sample("fifo", 500), sample("las", 400)};
  EXPECT_EQ(render(runs), render(runs));
}

TEST(Report, SixLongRunsStaySmall) {
  std::vector<SimResult> runs;
  for (const char* policy : {"a", "b", "c", "d", "e", "f"}) runs.push_back(sample(policy, 5000));
  EXPECT_LT(render(runs).size(), 400'000u);
}

TEST(Report, ValuesThatAreNotFiniteStillMakeValidData) {
  SimResult run = sample("fifo", 2);
  run.summary.max_rho = std::nan("");
  run.gpus_in_use.values[0] = INFINITY;
  run.gpus_in_use.values[1] = 1e300;
  EXPECT_TRUE(data_of(render({run}))["runs"][0]["summary"]["max_rho"].is_null());
}

TEST(Report, TrainingAndInferenceAreApart) {
  SimResult run = serving_sample("fifo");
  JobRecord task;
  task.kind = JobKind::inference;
  task.end = Time(seconds(1));
  run.jobs.push_back(task);
  const auto data = data_of(render({run}))["runs"][0];
  EXPECT_EQ(data["summary"]["jobs_total"], 40);
  EXPECT_EQ(data["summary"]["jobs_completed"], 40);
  EXPECT_EQ(data["jct"]["count"], 40);
  EXPECT_EQ(data["pending"]["count"], 40);
  EXPECT_EQ(data["inference"]["submitted"], 12);
  EXPECT_EQ(data["loans"]["forced"], 1);
  EXPECT_EQ(data["gpu_seconds_by_state"]["protected"], 300);
  EXPECT_EQ(data["gpus_lent"]["values"].size(), 1000u);
}

TEST(Report, WithoutServicesNothingIsSaidOfThem) {
  const auto data = data_of(render({sample("fifo", 3)}))["runs"][0];
  EXPECT_TRUE(data["inference"].is_null());
  EXPECT_TRUE(data["loans"].is_null());
  EXPECT_TRUE(data["gpus_serving"].is_null());
  EXPECT_TRUE(data["gpus_lent"].is_null());
}

TEST(Report, HistoriesAreSpansByTheirEnds) {
  SimResult run = sample("fifo", 1);
  const auto at = [](int s) { return Time(seconds(s)); };
  run.histories = {{0, {{at(5), at(8), 0, ReasonCode::no_capacity}, {at(8), at(20), 4, {}}, {at(20), at(21), 0, {}}}}};
  EXPECT_EQ(data_of(render({run}))["runs"][0]["histories"].dump(),
            R"([["job-0",5,[8,0,"no_capacity",20,4,0,21,0,0]]])");
  run.histories.clear();
  EXPECT_EQ(data_of(render({run}))["runs"][0]["histories"].dump(), "[]");
  run.histories_left_out = true;
  const auto without = data_of(render({run}));
  EXPECT_TRUE(without["runs"][0]["histories"].is_null());
  // The page says which runs have them.
  EXPECT_EQ(without["history_limits"].dump(), fmt::format(R"({{"jobs":{},"spans":{}}})", kMaxHistories, kMaxSpans));
}

class ReportPage : public ::testing::Test {
 protected:
  /// Opens the page in chromium; tests/report-page says what it checks.
  static void open(const std::vector<SimResult>& runs, const ReportOptions& options = kOptions) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / fmt::format("ebb_report_test_{}.html", ::getpid());
    ASSERT_TRUE(write_file_atomically(path, render(runs, options)));
    const std::string command = fmt::format("{}/tests/report-page '{}'", EBB_SOURCE_DIR, path.string());
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    std::filesystem::remove(path);
  }
};

TEST_F(ReportPage, WorksInABrowser) {
  SimResult other = sample("las (oracle)", 900);
  other.gpus_in_use.bucket = seconds(130);
  other.tenant_gpu_seconds.front().second = 4000;
  open({sample("fifo", 1000), other});
}

TEST_F(ReportPage, SweepWorksInABrowser) {
  std::vector<SimResult> runs;
  for (int seed = 1; seed <= 4; ++seed) {
    for (const char* policy : {"fifo", "las", "srsf"}) {
      runs.push_back(sample(fmt::format("{}, load 1.5, seed {}", policy, seed), 100 * seed));
    }
  }
  open(runs);
}

TEST_F(ReportPage, ServicesLoansAndJobsOverTime) {
  SimResult other = serving_sample("las");
  other.histories.clear();
  other.histories_left_out = true;
  open({serving_sample("fifo"), other, serving_sample("srsf")});
}

TEST_F(ReportPage, ServicesUnderSomeConditionsOnly) {
  open({serving_sample("fifo, load 1"), serving_sample("las, load 1"), sample("fifo, load 2", 30),
        sample("las, load 2", 30)});
}

TEST_F(ReportPage, HostileNamesDoNotRun) {
  const std::string evil = "<img src=x onerror=\"document.body.dataset.errors='ran'\">" + std::string(300, 'W');
  SimResult run = serving_sample(evil);
  for (JobRecord& job : run.jobs) job.name = evil;
  run.cluster = run.time_zero = evil;
  run.tenant_gpu_seconds = {{evil, 5}, {"", 3}};
  run.summary.warnings = {evil};
  open({run, sample("fifo", 5)}, {evil, evil, evil});
}

TEST_F(ReportPage, OneJobOfARunWithoutADate) {
  SimResult run = sample("fifo", 1);
  run.time_zero = "";
  open({run});
}

TEST_F(ReportPage, NothingCompletedNoTenantNoSeries) {
  SimResult run;
  run.policy = "fifo";
  run.summary.jobs_total = run.summary.jobs_impossible = 1;
  open({run});
}

}  // namespace
}  // namespace ebb::sim
