#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSample =
    "; Version: 2.2\n"
    ";   Computer: a cluster of accelerators\n"
    "; UnixStartTime: 1506816000\n"
    ";\n"
    "    1     10      5    100    8  95.2  -1    8   3600  -1  1   17   3   -1  1  2  -1  -1\n"
    "; a comment between rows\n"
    "    2     20     -1     30    6    -1  -1   -1     -1  -1  0   -1  -1   -1 -1 -1  -1  -1\n"
    "    3     20\t    0      0    1    -1  -1    9      0  -1  5    4  -1   -1 -1 -1   1  10\n";

std::string error_of(const std::string& text) {
  const auto result = read_workload_text("t.swf", text, {});
  return result ? "no error" : result.error().message;
}

TEST(Swf, ReadsJobsAndRoundsProcessorsUp) {
  ReadOptions options;
  options.procs_per_gpu = 4;
  const auto result = read_workload_text("t.swf", kSample, options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->report.format, Format::swf);
  EXPECT_EQ(result->report.rows_read, 3u);
  const auto& jobs = result->workload.jobs;
  EXPECT_EQ(jobs[0].name, "1");
  EXPECT_EQ(jobs[0].submit, Time(seconds(10)));
  EXPECT_EQ(jobs[0].run_time, seconds(100));
  EXPECT_EQ(jobs[0].gpus, 2);
  EXPECT_EQ(jobs[0].requested_time, seconds(3600));
  EXPECT_EQ(jobs[0].tenant, "user17");
  EXPECT_EQ(jobs[1].gpus, 2);  // no request: 6 allocated processors
  EXPECT_EQ(jobs[1].requested_time, std::nullopt);
  EXPECT_EQ(jobs[1].tenant, "");
  EXPECT_EQ(jobs[2].gpus, 3);  // 9 requested, not 1 allocated
  EXPECT_EQ(jobs[2].run_time, Duration(0));
  EXPECT_EQ(jobs[2].requested_time, std::nullopt);
  EXPECT_EQ(result->workload.time_zero, "2017-10-01 00:00:00");
}

TEST(Swf, IsRecognisedWithoutComments) {
  const auto result = read_workload_text("t", "7 0 0 5 2 0 0 2 9 0 1 1 1 1 1 1 0 0\n", {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->report.format, Format::swf);
  EXPECT_EQ(result->workload.time_zero, "");
}

TEST(Swf, SaysWhatIsWrongWithARow) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 0 0 5 2 0 0 2 9 0 1", "the row has 11 fields, the format 18: field 12 is missing"},
      {"1 0 0 -1 2 0 0 2 9 0 1 1 1 1 1 1 0 0", "column '4 run time': '-1': the run time is unknown"},
      {"1 0 0 5 -1 0 0 -1 9 0 1 1 1 1 1 1 0 0", "'-1' and '-1': the number of processors is unknown"},
      {"1 -1 0 5 2 0 0 2 9 0 1 1 1 1 1 1 0 0", "column '2 submit time': '-1' is negative"},
      {"x 0 0 5 2 0 0 2 9 0 1 1 1 1 1 1 0 0", "column '1 job number': 'x'"},
      {"1 0 0 5 2 0 0 2000000 9 0 1 1 1 1 1 1 0 0", "column '8 requested processors': '2000000' is outside"},
      {"1 0 0 5 2 0 0 2 soon 0 1 1 1 1 1 1 0 0", "column '9 requested time': 'soon'"},
      {"1 0 0 5 2 0 0 2 9 0 1 root 1 1 1 1 0 0", "column '12 user id': 'root'"},
  };
  for (const auto& [row, message] : cases) {
    EXPECT_THAT(error_of(std::string("; x\n") + row), AllOf(StartsWith("t.swf:2: "), HasSubstr(message))) << row;
  }
}

TEST(Swf, RefusesAnImpossibleRatio) {
  ReadOptions options;
  options.procs_per_gpu = 0;
  EXPECT_THAT(read_workload_text("t", kSample, options).error().message, HasSubstr("processors a GPU"));
}

}  // namespace
}  // namespace ebb::trace
