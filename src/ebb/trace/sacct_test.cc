#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// As `sacct --allusers --parsable2 -o JobID,JobName,User,Account,Partition,Submit,Start,End,Elapsed,Timelimit,State,
// AllocTRES,ReqTRES` prints it.
constexpr const char* kSample =
    "JobID|JobName|User|Account|Partition|Submit|Start|End|Elapsed|Timelimit|State|AllocTRES|ReqTRES\n"
    "1001|train \"big\"|ann|vision|gpu|2024-03-01T08:00:00|2024-03-01T08:00:05|2024-03-01T10:00:05|02:00:00|1-00:00:00|"
    "COMPLETED|billing=16,cpu=16,gres/gpu=4,mem=128G,node=1|billing=16,cpu=16,gres/gpu=4,mem=128G,node=1\n"
    "1001.batch|batch||vision||2024-03-01T08:00:05|2024-03-01T08:00:05|2024-03-01T10:00:05|02:00:00||COMPLETED|"
    "cpu=16,gres/gpu=4,mem=128G,node=1|\n"
    "1001.0|python||vision||2024-03-01T08:00:07|2024-03-01T08:00:07|2024-03-01T10:00:05|01:59:58||COMPLETED|"
    "cpu=16,gres/gpu=4,mem=128G,node=1|\n"
    "1002_3|sweep|bob||gpu|2024-03-01T07:59:00|2024-03-01T08:30:00|2024-03-03T09:30:01|2-01:00:01|UNLIMITED|"
    "TIMEOUT|billing=8,cpu=8,gres/gpu:a100=2,mem=64G,node=1|billing=8,cpu=8,gres/gpu:a100=2,mem=64G,node=1\n"
    "1003+0|het|cat|nlp|gpu|2024-03-01T08:10:00|2024-03-01T08:11:00|2024-03-01T08:11:30|00:00:30|Partition_Limit|"
    "FAILED|cpu=8,gres/gpu:a100=2,gres/gpu:h100=1,node=2|cpu=8,node=2\n"
    "1004|cpu only|dan|nlp|cpu|2024-03-01T08:20:00|2024-03-01T08:20:00|2024-03-01T08:21:00|00:01:00|00:30:00|"
    "COMPLETED|billing=4,cpu=4,mem=8G,node=1|billing=4,cpu=4,mem=8G,node=1\n"
    "1005|waits|ann|vision|gpu|2024-03-01T09:00:00|Unknown|Unknown|00:00:00|1-00:00:00|PENDING||"
    "billing=16,cpu=16,gres/gpu=8,mem=128G,node=1\n"
    "1006|runs|ann|vision|gpu|2024-03-01T09:00:00|2024-03-01T09:10:00|Unknown|12:00:00|1-00:00:00|RUNNING|"
    "cpu=16,gres/gpu=8,node=1|cpu=16,gres/gpu=8,node=1\n"
    "1007|gone|ann|vision|gpu|2024-03-01T09:00:00|2024-03-01T09:30:00|2024-03-01T09:30:00|00:00:00|1-00:00:00|"
    "CANCELLED by 1000||cpu=16,gres/gpu=8,node=1\n"
    "1008|killed|ann|vision|gpu|2024-03-01T09:00:00|2024-03-01T09:30:00|2024-03-01T09:30:20|00:00:20|00:30:00|"
    "CANCELLED by 1000|cpu=16,gres/gpu=8,node=1|cpu=16,gres/gpu=8,node=1\n"
    "1009|dies at once|eve|vision|gpu|2024-03-01T09:40:00|2024-03-01T09:41:00|2024-03-01T09:41:00|00:00:00|00:30:00|"
    "FAILED|cpu=1,gres/gpu=1,node=1|cpu=1,gres/gpu=1,node=1\n";

ReadResult read_ok(const std::string& text) {
  auto result = read_workload_text("sacct.txt", text, {});
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::move(*result) : ReadResult();
}

std::string error_of(const std::string& text) {
  const auto result = read_workload_text("sacct.txt", text, {});
  return result ? "no error" : result.error().message;
}

TEST(Sacct, ReadsARealisticListing) {
  const ReadResult result = read_ok(kSample);
  EXPECT_EQ(result.report.format, Format::sacct);
  const auto& jobs = result.workload.jobs;
  ASSERT_EQ(jobs.size(), 5u);
  EXPECT_EQ(result.workload.time_zero, "2024-03-01T07:59:00");

  EXPECT_EQ(jobs[0].name, "1002_3");
  EXPECT_EQ(jobs[0].submit, Time());
  EXPECT_EQ(jobs[0].tenant, "bob");  // no account
  EXPECT_EQ(jobs[0].gpus, 2);
  EXPECT_EQ(jobs[0].gpu_type, "a100");
  EXPECT_EQ(jobs[0].run_time, hours(49) + seconds(1));
  EXPECT_EQ(jobs[0].requested_time, std::nullopt);

  EXPECT_EQ(jobs[1].name, "1001");
  EXPECT_EQ(jobs[1].submit, Time(seconds(60)));
  EXPECT_EQ(jobs[1].tenant, "vision");
  EXPECT_EQ(jobs[1].gpus, 4);
  EXPECT_EQ(jobs[1].gpu_type, "");
  EXPECT_EQ(jobs[1].run_time, hours(2));
  EXPECT_EQ(jobs[1].requested_time, hours(24));

  EXPECT_EQ(jobs[2].name, "1003+0");
  EXPECT_EQ(jobs[2].gpus, 3);
  EXPECT_EQ(jobs[2].gpu_type, "");  // two types
  EXPECT_EQ(jobs[2].requested_time, std::nullopt);

  EXPECT_EQ(jobs[3].name, "1008");  // cancelled, but it ran
  EXPECT_EQ(jobs[4].name, "1009");  // failed within its first second
  EXPECT_EQ(jobs[4].run_time, Duration(0));

  EXPECT_THAT(
      result.workload.warnings,
      ElementsAre(HasSubstr("1 row is submitted before"), "2 rows are job steps and were left out",
                  "1 job held no GPU and was left out", "3 jobs had not ended or never started and were left out"));
}

TEST(Sacct, TakesTheRunTimeFromWhatThereIs) {
  const auto run_time = [](const std::string& columns, const std::string& values) {
    return read_ok("JobID|Submit|AllocTRES|" + columns + "\n1|2024-03-01T08:00:00|gres/gpu=1|" + values + "\n")
        .workload.jobs.at(0)
        .run_time;
  };
  EXPECT_EQ(run_time("ElapsedRaw|Elapsed", "61|09:00:00"), seconds(61));
  EXPECT_EQ(run_time("ElapsedRaw|Elapsed", "|09:00:00"), hours(9));
  EXPECT_EQ(run_time("Elapsed", "01:05"), seconds(65));
  EXPECT_EQ(run_time("Elapsed", "10-00:00:00.5"), hours(240) + std::chrono::milliseconds(500));
  EXPECT_EQ(run_time("Start|End", "2024-03-01T08:00:10|2024-03-02T08:00:00"), hours(24) - seconds(10));
}

TEST(Sacct, ReadsTimeLimits) {
  const auto limit = [](const std::string& column, const std::string& value) {
    return read_ok("JobID|Submit|ReqTRES|ElapsedRaw|" + column + "\n1|2024-03-01T08:00:00|gres/gpu=1|5|" + value + "\n")
        .workload.jobs.at(0)
        .requested_time;
  };
  EXPECT_EQ(limit("TimelimitRaw", "90"), minutes(90));
  EXPECT_EQ(limit("TimelimitRaw", "UNLIMITED"), std::nullopt);
  EXPECT_EQ(limit("TimelimitRaw", ""), std::nullopt);
  EXPECT_EQ(limit("Timelimit", "1-12:30:00"), hours(36) + minutes(30));
  EXPECT_EQ(limit("Timelimit", "Partition_Limit"), std::nullopt);
}

TEST(Sacct, CountsGpusOfTheAllocationFirst) {
  const auto gpus = [](const std::string& allocated, const std::string& requested) {
    const JobSpec job = read_ok("JobID|Submit|ElapsedRaw|AllocTRES|ReqTRES\n1|2024-03-01T08:00:00|5|" + allocated +
                                "|" + requested + "\n")
                            .workload.jobs.at(0);
    return fmt::format("{} {}", job.gpus, job.gpu_type);
  };
  EXPECT_EQ(gpus("cpu=1,gres/gpu=4", "gres/gpu=2"), "4 ");
  EXPECT_EQ(gpus("", "gres/gpu=2"), "2 ");
  EXPECT_EQ(gpus("gres/gpu:a100=4,gres/gpu=4", ""), "4 a100");
  EXPECT_EQ(gpus("gres/gpu:a100=2,gres/gpu:t4=2,gres/gpu=4", ""), "4 ");
  EXPECT_EQ(gpus("gres/gpu:a100=4,gres/gpu:a100=2", ""), "6 a100");
  EXPECT_EQ(gpus("gres/gpumem=80G,gres/gpuutil=0,gres/gpu:t4=1", ""), "1 t4");
}

TEST(Sacct, AcceptsTheTrailingSeparatorOfParsable) {
  EXPECT_EQ(read_ok("JobID|Submit|ElapsedRaw|AllocTRES|\n1|2024-03-01T08:00:00|5|gres/gpu=1|\n").report.rows_read, 1u);
}

TEST(Sacct, SaysWhatIsWrong) {
  const std::string header = "JobID|JobName|Submit|Elapsed|AllocTRES\n";
  const std::pair<const char*, const char*> cases[] = {
      {"1|a|01.03.2024|00:01:00|gres/gpu=1", "column 'Submit': '01.03.2024' is not a time"},
      {"1|a|2024-03-01T08:00:00|1h|gres/gpu=1", "column 'Elapsed': '1h' is not a time [DD-]HH:MM:SS"},
      {"1|a|2024-03-01T08:00:00|00:99:00|gres/gpu=1", "column 'Elapsed': '00:99:00' is not a time"},
      {"1|a|2024-03-01T08:00:00||gres/gpu=1", "column 'Elapsed' is empty"},
      {"1|a|2024-03-01T08:00:00|00:01:00|gres/gpu=many", "column 'AllocTRES': 'gres/gpu=many': 'many' is not a whole"},
      {"1|a|b|2024-03-01T08:00:00|00:01:00|gres/gpu=1", "is there a '|' inside a field?"},
      {"|a|2024-03-01T08:00:00|00:01:00|gres/gpu=1", "column 'JobID' is empty"},
  };
  for (const auto& [row, message] : cases) {
    EXPECT_THAT(error_of(header + row), AllOf(StartsWith("sacct.txt:2: "), HasSubstr(message))) << row;
  }
  EXPECT_THAT(error_of("JobID|Submit|Start|End|AllocTRES\n1|2024-03-01T08:00:00|2024-03-01T08:00:00|"
                       "2024-03-01T07:00:00|gres/gpu=1"),
              HasSubstr("column 'End': '2024-03-01T07:00:00' is before the start"));
  EXPECT_THAT(error_of("JobID|Submit|AllocTRES\n"),
              HasSubstr("the header lacks: ElapsedRaw, Elapsed or Start with End"));
  EXPECT_THAT(error_of("JobID|Submit|Elapsed\n"), HasSubstr("the header lacks: AllocTRES or ReqTRES"));
  EXPECT_THAT(error_of("JobID|Elapsed|AllocTRES\n"), HasSubstr("the header lacks: Submit"));
}

TEST(Sacct, AListingWithoutGpuJobsSaysWhy) {
  EXPECT_THAT(error_of("JobID|Submit|Elapsed|AllocTRES\n1|2024-03-01T08:00:00|00:01:00|cpu=1\n"),
              HasSubstr("the trace has no jobs (read as sacct; 1 job held no GPU and was left out)"));
}

}  // namespace
}  // namespace ebb::trace
