#include "ebb/base/units.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Duration, ParsesNumbersWithUnitsAndSums) {
  EXPECT_EQ(parse_duration("0").value(), Duration(0));
  EXPECT_EQ(parse_duration("90").value(), seconds(90));
  EXPECT_EQ(parse_duration("30s").value(), seconds(30));
  EXPECT_EQ(parse_duration("500ms").value(), milliseconds(500));
  EXPECT_EQ(parse_duration("1.5h").value(), seconds(5400));
  EXPECT_EQ(parse_duration("2m30s").value(), seconds(150));
  EXPECT_EQ(parse_duration("1d").value(), hours(24));
}

TEST(Duration, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "x", "5 s", "-1", "-0", "1e99", "nan", "inf", "5x", "s", "1h-2m", "1e300d"}) {
    const auto result = parse_duration(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(result.error().message.find("for example 30s"), std::string::npos);
  }
}

TEST(Duration, PrintsExactSeconds) {
  EXPECT_EQ(format_seconds(Duration(0)), "0");
  EXPECT_EQ(format_seconds(seconds(12)), "12");
  EXPECT_EQ(format_seconds(milliseconds(500)), "0.5");
  EXPECT_EQ(format_seconds(-seconds(3) - Duration(1)), "-3.000000001");
  EXPECT_EQ(format_seconds(Duration::min()), "-9223372036.854775808");
}

TEST(Duration, FromSecondsKeepsNanosecondsAndRefusesOddValues) {
  EXPECT_EQ(duration_from_seconds(0.1).value(), milliseconds(100));
  EXPECT_EQ(duration_from_seconds(2982937.25).value(), seconds(2982937) + milliseconds(250));
  EXPECT_FALSE(duration_from_seconds(-1));
  EXPECT_FALSE(duration_from_seconds(1e12));
  EXPECT_FALSE(duration_from_seconds(std::numeric_limits<double>::quiet_NaN()));
}

TEST(Duration, PrintsForPeople) {
  EXPECT_EQ(format_human(milliseconds(120)), "120 ms");
  EXPECT_EQ(format_human(seconds(45)), "45.0 s");
  EXPECT_EQ(format_human(seconds(3725)), "62m 05s");
  EXPECT_EQ(format_human(hours(5)), "5h 00m");
  EXPECT_EQ(format_human(hours(76)), "3d 04h");
}

}  // namespace
}  // namespace ebb
