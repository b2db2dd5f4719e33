#include "ebb/trace/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Workload jobs_at(const std::vector<std::int64_t>& submit_ns) {
  Workload workload;
  for (const std::int64_t submit : submit_ns) {
    JobSpec& job = workload.jobs.emplace_back();
    job.name = std::to_string(workload.jobs.size() - 1);
    job.gpus = 1;
    job.submit = Time(Duration(submit));
    job.run_time = hours(1);
  }
  return workload;
}

std::vector<std::int64_t> submissions(const Workload& workload) {
  std::vector<std::int64_t> out;
  for (const JobSpec& job : workload.jobs) out.push_back(job.submit.time_since_epoch().count());
  return out;
}

TEST(Info, SumsUpAWorkload) {
  Workload workload = jobs_at({10'000'000'000, 20'000'000'000, 3'610'000'000'000});
  workload.jobs[0].gpus = 4;
  workload.jobs[0].tenant = "a";
  workload.jobs[1].run_time = hours(2);
  workload.jobs[1].requested_time = hours(3);
  const WorkloadInfo got = info(workload);
  EXPECT_EQ(got.jobs, 3u);
  EXPECT_THAT(got.gangs, ElementsAre(Pair(1, 2u), Pair(4, 1u)));
  EXPECT_DOUBLE_EQ(got.gpu_hours, 7);
  EXPECT_EQ(got.first_submit, Time(seconds(10)));
  EXPECT_EQ(got.last_submit, Time(seconds(3610)));
  EXPECT_EQ(got.run_mean, seconds(4800));
  EXPECT_EQ(got.run_median, hours(1));
  EXPECT_EQ(got.run_p99, hours(2));
  EXPECT_DOUBLE_EQ(got.with_requested_time, 1.0 / 3);
  ASSERT_EQ(got.tenants.size(), 2u);
  EXPECT_EQ(got.tenants[0].tenant, "a");
  EXPECT_DOUBLE_EQ(got.tenants[0].share, 4.0 / 7);
  EXPECT_EQ(got.tenants[1].jobs, 2u);
  EXPECT_DOUBLE_EQ(offered_load(got, 14).value(), 0.5);  // 7 GPU-hours in one hour
}

TEST(Info, KnowsThePhillySample) {
  const auto read = read_workload(EBB_SOURCE_DIR "/testdata/philly/philly_2017-10_first5000.csv", {});
  ASSERT_TRUE(read) << read.error().message;
  const WorkloadInfo got = info(read->workload);
  EXPECT_NEAR(got.gpu_hours, 56397.2628, 1e-4);
  EXPECT_EQ(got.run_median, seconds(2626));
  EXPECT_EQ(got.run_p99, seconds(128532));
  EXPECT_THAT(got.gangs,
              ElementsAre(Pair(1, 4702u), Pair(2, 89u), Pair(4, 65u), Pair(8, 131u), Pair(16, 2u), Pair(32, 11u)));
  EXPECT_EQ(got.tenants.size(), 10u);
}

TEST(Info, HasNoLoadWithoutATimeSpan) {
  EXPECT_EQ(offered_load(info(jobs_at({5})), 8), std::nullopt);
  EXPECT_EQ(info(Workload()).jobs, 0u);
}

TEST(Cut, ByWindowAndCount) {
  const Workload workload = jobs_at({1, 2, 3, 4, 5});
  CutOptions options;
  options.from = Time(Duration(2));
  options.to = Time(Duration(5));
  EXPECT_THAT(submissions(cut(workload, options).value()), ElementsAre(2, 3, 4));
  options.first = 2;
  EXPECT_THAT(submissions(cut(workload, options).value()), ElementsAre(2, 3));
  options.shift = true;
  EXPECT_THAT(submissions(cut(workload, options).value()), ElementsAre(0, 1));
}

TEST(Cut, MovesTimeZeroAlongWithAShift) {
  Workload workload = jobs_at({0, 75'500'000'000});
  workload.time_zero = "2017-10-01T00:00:45";
  CutOptions options;
  options.from = Time(Duration(1));
  EXPECT_EQ(cut(workload, options)->time_zero, "2017-10-01T00:00:45");
  options.shift = true;
  EXPECT_EQ(cut(workload, options)->time_zero, "2017-10-01T00:02:00.5");
  workload.time_zero = "some Monday";
  EXPECT_EQ(cut(workload, options)->time_zero, "");
}

TEST(Cut, SaysWhenNothingIsLeft) {
  CutOptions options;
  options.from = Time(seconds(100));
  EXPECT_THAT(cut(jobs_at({0, 1'500'000'000}), options).error().message,
              HasSubstr("the workload has 2, submitted from 0 s to 1.5 s"));
}

TEST(Compress, DividesTimesBetweenArrivals) {
  const Workload workload = jobs_at({1000, 1003, 1010, 1300});
  EXPECT_THAT(submissions(scale_load(workload, 2, LoadMethod::compress, 0).value()),
              ElementsAre(1000, 1002, 1005, 1150));
  EXPECT_THAT(submissions(scale_load(workload, 0.5, LoadMethod::compress, 0).value()),
              ElementsAre(1000, 1006, 1020, 1600));
  EXPECT_THAT(submissions(scale_load(workload, 1.5, LoadMethod::compress, 0).value()),
              ElementsAre(1000, 1002, 1007, 1200));
}

TEST(Compress, IsExactAndKeepsOrder) {
  const bool holds = rc::check([] {
    std::vector<std::int64_t> times;
    for (const auto t : *rc::gen::nonEmpty(
             rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, kMaxDuration.count())))) {
      times.push_back(t);
    }
    std::sort(times.begin(), times.end());
    // Factors p / 2^q are doubles without error: the expected quotient needs integers only.
    const int p = *rc::gen::inRange(1, 1024);
    const int q = *rc::gen::inRange(0, 5);
    RC_PRE(p >= (1 << q));
    const auto scaled = scale_load(jobs_at(times), static_cast<double>(p) / (1 << q), LoadMethod::compress, 0);
    RC_ASSERT(scaled.has_value());
    const auto got = submissions(*scaled);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto dividend = static_cast<unsigned __int128>(times[i] - times[0]) << (q + 1);
      const auto expected = static_cast<std::int64_t>((dividend / static_cast<unsigned>(p) + 1) / 2);
      RC_ASSERT(got[i] == times[0] + expected);
    }
    RC_ASSERT(std::is_sorted(got.begin(), got.end()));
  });
  EXPECT_TRUE(holds);
}

TEST(Compress, RefusesToPassAHundredYears) {
  EXPECT_THAT(scale_load(jobs_at({0, kMaxDuration.count()}), 0.5, LoadMethod::compress, 0).error().message,
              HasSubstr("more than 100 years"));
}

TEST(Sample, ThinsWithTheGivenProbability) {
  const Workload workload = jobs_at(std::vector<std::int64_t>(10'000, 5));
  const auto half = scale_load(workload, 0.5, LoadMethod::sample, 7);
  ASSERT_TRUE(half);
  EXPECT_NEAR(static_cast<double>(half->jobs.size()), 5000, 200);  // four standard deviations
  EXPECT_EQ(half->jobs, scale_load(workload, 0.5, LoadMethod::sample, 7)->jobs);
  EXPECT_NE(half->jobs, scale_load(workload, 0.5, LoadMethod::sample, 8)->jobs);
}

TEST(Sample, AddsCopiesWithinAnHour) {
  std::vector<std::int64_t> times;
  for (std::int64_t i = 0; i < 2000; ++i) times.push_back(i * 60'000'000'000);
  const Workload workload = jobs_at(times);
  const auto scaled = scale_load(workload, 2.5, LoadMethod::sample, 1);
  ASSERT_TRUE(scaled);
  EXPECT_NEAR(static_cast<double>(scaled->jobs.size()), 5000, 100);
  std::set<std::string> names;
  for (const JobSpec& job : scaled->jobs) {
    EXPECT_TRUE(names.insert(job.name).second) << job.name;
    const std::size_t plus = job.name.find('+');
    const Time original = workload.jobs.at(std::stoul(job.name.substr(0, plus))).submit;
    if (plus == std::string::npos) {
      EXPECT_EQ(job.submit, original);
    } else {
      EXPECT_GE(job.submit, original);
      EXPECT_LT(job.submit, original + hours(1));
    }
  }
  const auto got = submissions(*scaled);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  EXPECT_TRUE(names.contains("0") && names.contains("0+1"));
}

TEST(Sample, KeepsNamesUniqueAmongNamesThatLookLikeCopies) {
  Workload workload = jobs_at({0, 0});
  workload.jobs[0].name = "12";
  workload.jobs[1].name = "12+1";
  std::set<std::string> names;
  const Workload tripled = scale_load(workload, 3, LoadMethod::sample, 0).value();
  for (const JobSpec& job : tripled.jobs) names.insert(job.name);
  EXPECT_THAT(names, ElementsAre("12", "12+1", "12+1+1", "12+1+2", "12+2", "12+3"));
}

TEST(ScaleLoad, OneChangesNothingAndOddFactorsAreRefused) {
  const Workload workload = jobs_at({3, 9});
  EXPECT_EQ(scale_load(workload, 1, LoadMethod::sample, 0)->jobs, workload.jobs);
  for (const double factor :
       {0.0, -1.0, 1e9, 1e-9, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(scale_load(workload, factor, LoadMethod::compress, 0)) << factor;
  }
  EXPECT_THAT(scale_load(workload, kMinLoadFactor, LoadMethod::sample, 0).error().message, HasSubstr("leaves none"));
  EXPECT_EQ(parse_load_method("sample").value(), LoadMethod::sample);
  EXPECT_THAT(parse_load_method("thin").error().message, HasSubstr("give compress or sample"));
}

TEST(ParseTime, TakesDurationsAndDates) {
  Workload workload;
  EXPECT_EQ(parse_time(workload, "2d").value(), Time(std::chrono::hours(48)));
  EXPECT_EQ(parse_time(workload, "2024-03-01").error().code, ErrorCode::failed_precondition);
  workload.time_zero = "2024-02-28 12:00:00";
  EXPECT_EQ(parse_time(workload, "2024-03-01").value(), Time(std::chrono::hours(36)));  // a leap year
  EXPECT_EQ(parse_time(workload, "2024-02-28T13:00:00").value(), Time(std::chrono::hours(1)));
  EXPECT_FALSE(parse_time(workload, "2024-13-01"));
}

}  // namespace
}  // namespace ebb::trace
