#include "ebb/trace/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHeader = "start_s,requests_per_s\n";

std::string error_of(const std::string& text) {
  const auto points = read_rates_text("r.csv", text);
  return points ? "no error" : points.error().message;
}

TEST(Rates, ReadsPoints) {
  const auto points = read_rates_text("r.csv",
                                      "\xEF\xBB\xBF# a day\r\n\r\n"
                                      "requests_per_s,note,start_s\r\n"
                                      "12.5,night,0\r\n"
                                      "0,,3600.25\r\n"
                                      "1e3,\"day, rush\",7200\r\n");
  ASSERT_TRUE(points) << points.error().message;
  EXPECT_THAT(*points, ElementsAre(RatePoint{Time(seconds(0)), 12.5}, RatePoint{Time(Duration(3'600'250'000'000)), 0},
                                   RatePoint{Time(seconds(7200)), 1000}));
}

TEST(Rates, ReadsFiles) {
  const auto path = std::filesystem::temp_directory_path() / "ebb_rates_test.csv";
  std::ofstream(path) << kHeader << "5,1\n";
  EXPECT_THAT(read_rates(path).value(), ElementsAre(RatePoint{Time(seconds(5)), 1}));
  std::filesystem::remove(path);
  EXPECT_EQ(read_rates(path).error().code, ErrorCode::not_found);
}

TEST(Rates, PlacesEveryError) {
  const std::string header = kHeader;
  EXPECT_EQ(error_of(header + "0,1\n0.0,2\n"),
            "r.csv:3: column 'start_s': '0.0' is not after 0, the start of the row before");
  EXPECT_EQ(error_of(header + "5,1\n\n4,2\n"),
            "r.csv:4: column 'start_s': '4' is not after 5, the start of the row before");
  EXPECT_EQ(error_of(header + "0,-1\n"),
            "r.csv:2: column 'requests_per_s': '-1' is outside 0 to 1000000000 requests a second");
  for (const char* rate : {"nan", "inf", "1e10"}) {
    EXPECT_THAT(error_of(header + "0," + rate + "\n"), HasSubstr("is outside 0 to 1000000000 requests")) << rate;
  }
  EXPECT_EQ(error_of(header + "0,many\n"), "r.csv:2: column 'requests_per_s': 'many' is not a number");
  EXPECT_THAT(error_of(header + "0,\n"), HasSubstr("column 'requests_per_s': is empty"));
  EXPECT_EQ(error_of(header + "-1,1\n"), "r.csv:2: column 'start_s': '-1' is negative");
  EXPECT_THAT(error_of(header + "1\n"), StartsWith("r.csv:2: the row has 1 fields, the header 2"));
  EXPECT_THAT(error_of("start,rate\n0,1\n"), StartsWith("r.csv:1: the header lacks: start_s, requests_per_s"));
  EXPECT_THAT(error_of(header), StartsWith("r.csv: the file has no request rates"));
  EXPECT_THAT(error_of(""), StartsWith("r.csv: the file has no request rates"));
}

TEST(Rates, ShapesAreValuesInAnyUnit) {
  const std::vector<RatePoint> points = {{Time(), 3}, {Time(std::chrono::hours(1)), 0.5}};
  EXPECT_EQ(read_shape_text("s.csv", "start_s,value\n0,3\n3600,0.5\n").value(), points);
  EXPECT_EQ(read_shape_text("s.csv", "start_s,requests_per_s\n0,3\n3600,0.5\n").value(), points);
  EXPECT_EQ(read_shape_text("s.csv", "requests_per_s,start_s,value\n9,0,3\n9,3600,0.5\n").value(), points);
  const auto error = [](const std::string& text) { return read_shape_text("s.csv", text).error().message; };
  EXPECT_EQ(error("start_s,value\n0,-3\n"), "s.csv:2: column 'value': '-3' is outside 0 to 1000000000");
  EXPECT_EQ(error("start_s,value\n0,\n"), "s.csv:2: column 'value': is empty; a number is needed");
  EXPECT_EQ(error("start_s,x\n0,1\n"), "s.csv:1: the header lacks: value; it has: 'start_s', 'x'");
  EXPECT_EQ(error("start_s,value\n"), "s.csv: the file has no values; it needs the header start_s,value and a row");
}

TEST(Rates, WhatIsWrittenInFullReadsBackTheSame) {
  const bool holds = rc::check([] {
    std::vector<RatePoint> points;
    Duration at{};
    for (int i = *rc::gen::inRange(1, 20); i > 0; --i) {
      at += Duration(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000'000));
      points.push_back({Time(at), static_cast<double>(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000)) / 7});
    }
    std::string text = kHeader;
    for (const RatePoint& point : points) {
      text += fmt::format("{},{}\n", format_seconds(point.at), point.requests_per_s);
    }
    const auto back = read_rates_text("r.csv", text);
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == points);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace ebb::trace
