#include "ebb/trace/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(ParseSeconds, IsExactToTheNanosecond) {
  EXPECT_EQ(parse_seconds("0").value(), Duration(0));
  EXPECT_EQ(parse_seconds(" 30.0 ").value(), seconds(30));
  EXPECT_EQ(parse_seconds(".5").value(), Duration(500'000'000));
  EXPECT_EQ(parse_seconds("5.").value(), seconds(5));
  EXPECT_EQ(parse_seconds("3000000000.123456789").value(), seconds(3'000'000'000) + Duration(123'456'789));
  EXPECT_EQ(parse_seconds("1e3").value(), seconds(1000));
  EXPECT_EQ(parse_seconds("-0").value(), Duration(0));
}

TEST(ParseSeconds, RoundsFurtherDigitsHalfUp) {
  EXPECT_EQ(parse_seconds("0.0000000014").value(), Duration(1));
  EXPECT_EQ(parse_seconds("0.0000000015").value(), Duration(2));
  EXPECT_EQ(parse_seconds("1.9999999999").value(), seconds(2));
}

TEST(ParseSeconds, RefusesWhatIsNoTime) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "is empty"},
      {"abc", "'abc' is not a number"},
      {"1 2", "is not a number"},
      {"1:30", "is not a number"},
      {"-5", "'-5' is negative"},
      {"-1e-9", "is negative"},
      {"nan", "is not a finite number"},
      {"inf", "is not a finite number"},
      {"1e999", "too large or too small"},
      {"1e300", "more than 100 years"},
      {"3153600001", "more than 100 years"},
      {"3153600000.000000001", "more than 100 years"},
      {"99999999999999999999999999", "more than 100 years"},
  };
  for (const auto& [text, message] : cases) {
    const auto result = parse_seconds(text);
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error().message, HasSubstr(message)) << text;
  }
  EXPECT_TRUE(parse_seconds("3153600000"));
}

TEST(ParseSeconds, UndoesFormatSeconds) {
  const bool holds = rc::check([] {
    const Duration d(*rc::gen::inRange<std::int64_t>(0, kMaxDuration.count()));
    RC_ASSERT(parse_seconds(format_seconds(d)).value() == d);
  });
  EXPECT_TRUE(holds);
}

TEST(ParseInteger, TakesWholeNumbersWithinLimits) {
  EXPECT_EQ(parse_gpus("8").value(), 8);
  EXPECT_EQ(parse_gpus("8.0").value(), 8);
  EXPECT_EQ(parse_gpus("1000000").value(), 1'000'000);
  for (const char* text : {"0", "-1", "1000001", "99999999999999999999"}) {
    EXPECT_THAT(parse_gpus(text).error().message, HasSubstr("is outside 1 to 1000000")) << text;
  }
  for (const char* text : {"1.5", "x", "8 GPUs", "1e3", "nan", "8."}) {
    EXPECT_THAT(parse_gpus(text).error().message, HasSubstr("is not a whole number")) << text;
  }
}

TEST(ParseTimestamp, ReadsDatesWithoutAZone) {
  EXPECT_EQ(parse_timestamp("1980-01-01 00:00:01").value().time_since_epoch(), seconds(315532801));
  EXPECT_EQ(parse_timestamp("2017-10-01T00:02:01").value(), parse_timestamp("2017-10-01 00:02:01").value());
  EXPECT_EQ(parse_timestamp("2020-02-29 23:59:59.25").value() - parse_timestamp("2020-03-01 00:00:00").value(),
            Duration(-750'000'000));
}

TEST(ParseTimestamp, RefusesDatesThatDoNotExist) {
  for (const char* text : {"2017-02-29 00:00:00", "2017-13-01 00:00:00", "2017-00-01 00:00:00", "2017-01-01 24:00:00",
                           "2017-01-01 00:60:00"}) {
    EXPECT_THAT(parse_timestamp(text).error().message, HasSubstr("not a date and time that exists")) << text;
  }
  for (const char* text : {"", "2017-10-01", "01/10/2017 00:00:00", "2017-10-01 00:00:0x", "2017-10-01 00:00:00.",
                           "2017-10-01 00:00:00.1234567891", "2017-10-01 00:00:00Z", "+017-10-01 00:00:00"}) {
    EXPECT_THAT(parse_timestamp(text).error().message, HasSubstr("is not a time YYYY-MM-DD HH:MM:SS")) << text;
  }
  EXPECT_THAT(parse_timestamp("1970-01-01 00:00:00").error().message, HasSubstr("outside 1980 to 2069"));
}

TEST(ParseTimestamp, UndoesFormatTimestamp) {
  const bool holds = rc::check([] {
    const Time t(Duration(*rc::gen::inRange<std::int64_t>(315532800'000000000, 3155759999'999999999)));
    RC_ASSERT(parse_timestamp(format_timestamp(t, ' ')).value() == t);
  });
  EXPECT_TRUE(holds);
}

TEST(CheckText, RefusesWhatTerminalsAndJsonCannotShow) {
  EXPECT_TRUE(check_text("Grüße, 日本, \U0001F600"));
  for (const char* text : {"a\nb", "\x1b[1m", "\x7f"}) {
    EXPECT_THAT(check_text(text).error().message, HasSubstr("control character"));
  }
  for (const char* text : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"}) {
    EXPECT_THAT(check_text(text).error().message, HasSubstr("not valid UTF-8"));
  }
  EXPECT_FALSE(check_text(std::string(kMaxTextBytes + 1, 'a')));
}

TEST(Shown, IsShortAndPrintable) {
  EXPECT_EQ(shown("abc"), "'abc'");
  EXPECT_EQ(shown("a\x01\xff!"),
            "'a?"
            "?!'");
  EXPECT_EQ(shown(std::string(1000, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_TRUE(check_text(shown(std::string(59, 'x') + "\U0001F600y")));
}

}  // namespace
}  // namespace ebb::trace
