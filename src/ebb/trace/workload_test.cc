#include "ebb/trace/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kData = EBB_SOURCE_DIR "/testdata/";
constexpr const char* kHeader = "job_id,num_gpu,submit_time,duration\n";

Workload read_ok(std::string text, ReadOptions options = {}) {
  auto result = read_workload_text("t.csv", std::move(text), options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::move(result->workload) : Workload();
}

std::string error_of(std::string text, ReadOptions options = {}) {
  const auto result = read_workload_text("t.csv", std::move(text), options);
  if (result) return "no error";
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  return result.error().message;
}

JobSpec job(std::string name, GpuCount gpus, int submit_s, int run_s) {
  JobSpec spec;
  spec.name = std::move(name);
  spec.gpus = gpus;
  spec.submit = Time(seconds(submit_s));
  spec.run_time = seconds(run_s);
  return spec;
}

TEST(Format, NamesRoundTrip) {
  for (const char* name : {"tiresias", "philly", "swf", "sacct", "ebb-csv", "ebb-jsonl", "pollux", "deepboot"}) {
    EXPECT_STREQ(to_string(parse_format(name).value()), name);
  }
  EXPECT_THAT(parse_format("csv").error().message, HasSubstr("give one of tiresias, philly"));
}

TEST(Tiresias, ReadsTheReferenceList) {
  const auto result = read_workload(kData + "tiresias/philly_2017-10_first1000.csv", {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->report.format, Format::tiresias);
  EXPECT_EQ(result->report.rows_read, 1000u);
  EXPECT_EQ(result->workload.jobs[2], job("2", 1, 296, 53));
  EXPECT_THAT(result->workload.warnings, IsEmpty());
  EXPECT_EQ(result->workload.time_zero, "");
}

TEST(Tiresias, KeepsItsOwnTimeZeroAndIgnoresOtherColumns) {
  const Workload workload = read_ok(
      "model_name,job_id,num_gpu,submit_time,iterations,duration,interval\n"
      "resnet50,a,2,100,1000,60.5,10\n");
  ASSERT_EQ(workload.jobs.size(), 1u);
  EXPECT_EQ(workload.jobs[0].submit, Time(seconds(100)));
  EXPECT_EQ(workload.jobs[0].run_time, Duration(60'500'000'000));
}

TEST(Philly, ReadsTheFirstRowsOfOctober) {
  const auto result = read_workload(kData + "philly/philly_2017-10_first5000.csv", {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->report.format, Format::philly);
  const Workload& workload = result->workload;
  ASSERT_EQ(workload.jobs.size(), 5000u);
  EXPECT_EQ(workload.time_zero, "2017-10-01 00:00:45");
  JobSpec second = job("1", 1, 70, 61);
  second.tenant = "11cb48";
  EXPECT_EQ(workload.jobs[1], second);
  EXPECT_EQ(workload.jobs[4999].name, "4999");
  EXPECT_THAT(workload.warnings, IsEmpty());
}

TEST(Philly, CountsFromTheFirstSubmissionAndNamesRows) {
  const Workload workload = read_ok(
      "timestamp,duration,num_gpus,gpu_time,cluster\n"
      "2017-10-02 00:00:00,10,1,10,b\n"
      "2017-10-01 23:59:00,20,2,40,a\n");
  ASSERT_EQ(workload.jobs.size(), 2u);
  EXPECT_EQ(workload.time_zero, "2017-10-01 23:59:00");
  EXPECT_EQ(workload.jobs[0].name, "1");
  EXPECT_EQ(workload.jobs[0].submit, Time());
  EXPECT_EQ(workload.jobs[1].name, "0");
  EXPECT_EQ(workload.jobs[1].submit, Time(seconds(60)));
  EXPECT_THAT(workload.warnings,
              ElementsAre("1 row is submitted before an earlier row; jobs were sorted by submission"));
}

TEST(Philly, RowNumbersDoNotDependOnSkippedRows) {
  ReadOptions options;
  options.skip_bad_rows = true;
  const Workload workload =
      read_ok("timestamp,duration,num_gpus\n2017-10-01 00:00:00,x,1\n2017-10-01 00:00:00,5,1\n", options);
  EXPECT_EQ(workload.jobs.at(0).name, "1");
}

TEST(Philly, NamesTheColumnOfABadDate) {
  EXPECT_THAT(error_of("timestamp,duration,num_gpus\n2017-02-30 00:00:00,5,1\n"),
              StartsWith("t.csv:2: column 'timestamp': '2017-02-30 00:00:00' is not a date and time that exists"));
}

TEST(EbbCsv, ReadsEveryColumn) {
  const Workload workload = read_ok(
      "# ebb-trace v1\n# time_zero: 2024-01-01 00:00:00\n# made by hand\n"
      "job,submit_s,run_s,gpus,tenant,priority,requested_s,gpu_type,pool,unknown\n"
      "\"a,b\",0.000000001,86400,4,vision,-2,90000.5,a100,training,?\n"
      "c,1,0,1,,,,,,\n");
  JobSpec first = job("a,b", 4, 0, 86400);
  first.submit = Time(Duration(1));
  first.tenant = "vision";
  first.priority = -2;
  first.requested_time = Duration(90'000'500'000'000);
  first.gpu_type = "a100";
  first.pool = "training";
  EXPECT_THAT(workload.jobs, ElementsAre(first, job("c", 1, 1, 0)));
  EXPECT_EQ(workload.time_zero, "2024-01-01 00:00:00");
}

TEST(EbbCsv, NeedsNoCommentAndRefusesLaterVersions) {
  EXPECT_EQ(read_ok("job,submit_s,run_s,gpus\na,0,1,1\n").jobs.size(), 1u);
  EXPECT_THAT(error_of("# ebb-trace v2\njob,submit_s,run_s,gpus\na,0,1,1\n"),
              AllOf(StartsWith("t.csv:1: "), HasSubstr("this is version 2"), HasSubstr("reads up to version 1")));
  EXPECT_THAT(error_of("# ebb-trace vX\njob,submit_s,run_s,gpus\na,0,1,1\n"), HasSubstr("'X' is not a whole number"));
  EXPECT_THAT(error_of("job,submit_s,run_s,gpus,priority\na,0,1,1,high\n"), HasSubstr("column 'priority': 'high'"));
}

TEST(EbbJsonl, ReadsExactNumbersAndSkipsUnknownKeys) {
  const auto result = read_workload_text("t.jsonl",
                                         R"({"format":"ebb-trace","version":1,"time_zero":"2024-01-01 00:00:00"}
{"job":"a","submit_s":3000000000.123456789,"run_s":1e2,"gpus":2,"tags":{"gpus":[9,{"job":"x"}]},"tenant":"v"}
{"job":7,"submit_s":3000000001,"run_s":0,"gpus":1,"tenant":null,"requested_s":60,"priority":3}
)",
                                         {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->report.format, Format::ebb_jsonl);
  const auto& jobs = result->workload.jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].submit, Time(seconds(3'000'000'000) + Duration(123'456'789)));
  EXPECT_EQ(jobs[0].run_time, seconds(100));
  EXPECT_EQ(jobs[0].gpus, 2);
  EXPECT_EQ(jobs[0].tenant, "v");
  EXPECT_EQ(jobs[1].name, "7");
  EXPECT_EQ(jobs[1].priority, 3);
  EXPECT_EQ(jobs[1].requested_time, seconds(60));
  EXPECT_EQ(result->workload.time_zero, "2024-01-01 00:00:00");
}

TEST(EbbJsonl, SaysWhatIsWrongWithALine) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"job":"a","gpus":1})", "the object lacks: submit_s, run_s"},
      {R"({"job":"a","submit_s":"0","run_s":1,"gpus":1})", "key 'submit_s': '0' is not a number"},
      {R"({"job":"a","submit_s":0,"run_s":1,"gpus":1.5})", "key 'gpus': '1.5' is not a whole number"},
      {R"({"job":"a","submit_s":0,"run_s":-1,"gpus":1})", "key 'run_s': '-1' is negative"},
      {R"({"job":["a"],"submit_s":0,"run_s":1,"gpus":1})", "key 'job': the value is not a string"},
      {R"({"job":"a","submit_s":0,"run_s":1,"gpus":1,"gpus":2})", "key 'gpus' appears twice"},
      {R"({"job":"a","submit_s":0,)", "the line is not JSON"},
      {R"({"job":"","submit_s":0,"run_s":1,"gpus":1})", "key 'job' is empty"},
      {R"({"format":"other"})", "key 'format': 'other' is not 'ebb-trace'"},
      {R"({"format":"ebb-trace","version":2})", "this is version 2 of ebb-jsonl"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_THAT(error_of(line), AllOf(StartsWith("t.csv:1: "), HasSubstr(message))) << line;
  }
  ReadOptions options;
  options.format = Format::ebb_jsonl;
  EXPECT_THAT(error_of("[1]\n", options), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of(std::string(100'000, '['), options), HasSubstr("not a JSON object"));
}

TEST(Reading, AcceptsBomCrlfAndBlankLines) {
  const Workload workload =
      read_ok("\xEF\xBB\xBF\r\njob_id,num_gpu,submit_time,duration\r\n\r\n1,1,0,5\r\n  \r\n2,2,3,5");
  EXPECT_THAT(workload.jobs, ElementsAre(job("1", 1, 0, 5), job("2", 2, 3, 5)));
}

TEST(Reading, AcceptsGzip) {
  const auto path = std::filesystem::temp_directory_path() / "ebb_workload_test.csv";
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzputs(file, (std::string(kHeader) + "1,1,0,5\n").c_str());
  gzclose(file);
  const auto result = read_workload(path, {});
  std::filesystem::remove(path);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->workload.jobs.size(), 1u);
}

TEST(Reading, SortsStablyAndSaysSo) {
  const Workload workload = read_ok(std::string(kHeader) + "a,1,9,1\nb,1,3,1\nc,1,3,1\nd,1,9,1\n");
  EXPECT_THAT(workload.jobs, ElementsAre(job("b", 1, 3, 1), job("c", 1, 3, 1), job("a", 1, 9, 1), job("d", 1, 9, 1)));
  EXPECT_THAT(workload.warnings,
              ElementsAre("2 rows are submitted before an earlier row; jobs were sorted by submission"));
}

TEST(Reading, BadRowsNameFileLineColumnValueAndRemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"1,1,0", "the row has 3 fields, the header 4: column 'duration' is missing"},
      {"1,1,0,5,6", "the row has 5 fields, the header 4"},
      {"1,1,0,", "column 'duration': is empty"},
      {",1,0,5", "column 'job_id' is empty"},
      {"1,0,0,5", "column 'num_gpu': '0' is outside 1 to 1000000"},
      {"1,-4,0,5", "column 'num_gpu': '-4' is outside"},
      {"1,1000001,0,5", "column 'num_gpu': '1000001' is outside"},
      {"1,two,0,5", "column 'num_gpu': 'two' is not a whole number"},
      {"1,1,-1,5", "column 'submit_time': '-1' is negative"},
      {"1,1,nan,5", "column 'submit_time': 'nan' is not a finite"},
      {"1,1,0,inf", "column 'duration': 'inf' is not a finite"},
      {"1,1,0,4e9", "column 'duration': '4e9' is more than 100 years"},
      {"1,1,0,5m", "column 'duration': '5m' is not a number"},
      {"\"1,1,0,5", "field 1 begins with a quote"},
      {"\xff,1,0,5", "column 'job_id': '?' is not valid UTF-8"},
      {"0,1,0,5", "job '0' appears a second time"},
  };
  for (const auto& [row, message] : cases) {
    const std::string text = std::string(kHeader) + "0,1,0,1\n" + row + "\n3,1,0,1\n";
    EXPECT_THAT(error_of(text), AllOf(StartsWith("t.csv:3: "), HasSubstr(message), HasSubstr("--skip-bad-rows")))
        << row;
    ReadOptions skip;
    skip.skip_bad_rows = true;
    const auto result = read_workload_text("t.csv", text, skip);
    ASSERT_TRUE(result) << row;
    EXPECT_EQ(result->report.rows_read, 2u);
    EXPECT_EQ(result->report.rows_skipped, 1u);
    EXPECT_THAT(result->report.first_bad_rows, ElementsAre(AllOf(StartsWith("t.csv:3: "), HasSubstr(message))));
    EXPECT_THAT(result->workload.warnings, ElementsAre(StartsWith("1 bad row was left out; the first: t.csv:3:")));
  }
}

TEST(Reading, KeepsTheFirstFiveBadRows) {
  std::string text = std::string(kHeader) + "ok,1,0,1\n";
  for (int i = 0; i < 9; ++i) text += "bad\n";
  ReadOptions skip;
  skip.skip_bad_rows = true;
  const auto result = read_workload_text("t.csv", text, skip);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->report.rows_skipped, 9u);
  EXPECT_EQ(result->report.first_bad_rows.size(), 5u);
}

TEST(Reading, RefusesTracesWithoutJobs) {
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("t.csv: the trace has no jobs"), HasSubstr("it is empty")));
  EXPECT_THAT(error_of(kHeader), HasSubstr("the trace has no jobs (read as tiresias)"));
  ReadOptions skip;
  skip.skip_bad_rows = true;
  EXPECT_THAT(error_of(std::string(kHeader) + "x\n", skip), HasSubstr("all 1 rows are bad; the first: t.csv:2:"));
}

TEST(Reading, AMisspeltHeaderIsReportedEvenWhenBadRowsAreSkipped) {
  ReadOptions skip;
  skip.skip_bad_rows = true;
  EXPECT_THAT(error_of("job_id,gpus,submit_time,duration\n1,1,0,5\n", skip),
              AllOf(StartsWith("t.csv:1: the header lacks: num_gpu; it has: 'job_id', 'gpus'")));
}

TEST(Reading, AnUnknownFormatListsTheFormats) {
  EXPECT_THAT(error_of("what,is,this\n1,2,3\n"),
              AllOf(StartsWith("t.csv:1: cannot tell the format"), HasSubstr("--format"), HasSubstr("ebb-jsonl")));
  EXPECT_THAT(error_of("# notes\n# more\n"), HasSubstr("the trace has no jobs"));
}

TEST(Reading, TheGivenFormatWins) {
  ReadOptions options;
  options.format = Format::philly;
  EXPECT_THAT(error_of(std::string(kHeader) + "1,1,0,5\n", options),
              HasSubstr("the header lacks: timestamp, num_gpus"));
}

TEST(Reading, MissingFilesAndFolders) {
  EXPECT_EQ(read_workload("/nonexistent/trace.csv", {}).error().code, ErrorCode::not_found);
  EXPECT_THAT(read_workload(std::filesystem::temp_directory_path(), {}).error().message, HasSubstr("is a folder"));
}

}  // namespace
}  // namespace ebb::trace
