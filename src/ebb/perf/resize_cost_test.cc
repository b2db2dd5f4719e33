#include "ebb/perf/resize_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace ebb::perf {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const ApplicationCosts kBert{.restart_s = 103, .afe_next_s = 5, .stop_free_s = 1.5, .cold_start_s = 8};

TEST(ResizeCost, ReadsAndPrintsEveryForm) {
  for (const char* text : {"restart", "afe", "stop-free", "30s", "0.5s", "0s"}) {
    EXPECT_EQ(ResizeCost::parse(text).value().to_string(), text);
  }
  EXPECT_EQ(ResizeCost::parse("1m").value(), (ResizeCost{ResizeClass::fixed, seconds(60)}));
}

TEST(ResizeCost, RefusesTheRestWithAListOfForms) {
  for (const char* text : {"", "fast", "AFE", "stop_free", "-3s"}) {
    const auto result = ResizeCost::parse(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(result.error().message.find("30s, or one of restart, afe, stop-free"), std::string::npos);
  }
}

TEST(ResizeCost, FixedAndRestartCostTheSameAtEveryChange) {
  const ResizeCost fixed{ResizeClass::fixed, milliseconds(2500)};
  const ResizeCost restart{ResizeClass::restart};
  for (const auto& [before, after] : {std::pair{0, 4}, {4, 8}, {8, 4}, {4, 4}}) {
    EXPECT_EQ(fixed.of(kBert, before, after), milliseconds(2500));
    EXPECT_EQ(restart.of(kBert, before, after), seconds(103));
  }
}

TEST(ResizeCost, AutoFastElastic) {
  const ResizeCost afe{ResizeClass::afe};
  EXPECT_EQ(afe.of(kBert, 0, 4), seconds(103));
  EXPECT_EQ(afe.of(kBert, 4, 8), seconds(5 + 49));  // (103 - 5) x 4 / 8
  EXPECT_EQ(afe.of(kBert, 2, 3), seconds(5 + 32));  // 98 / 3 = 32.67
  EXPECT_EQ(afe.of(kBert, 1, 7), seconds(5 + 84));  // 98 x 6 / 7, exactly
  EXPECT_EQ(afe.of(kBert, 8, 7), seconds(5));
  EXPECT_EQ(afe.of(kBert, 8, 8), seconds(103));
}

TEST(ResizeCost, StopFree) {
  const ResizeCost stop_free{ResizeClass::stop_free};
  EXPECT_EQ(stop_free.of(kBert, 0, 4), seconds(103));
  EXPECT_EQ(stop_free.of(kBert, 4, 8), milliseconds(1500));
  EXPECT_EQ(stop_free.of(kBert, 8, 4), milliseconds(1500));
}

TEST(ResizeCost, CostsThatAreNoDurationsAreCut) {
  const ApplicationCosts odd{.restart_s = 1e30, .afe_next_s = -1};
  EXPECT_EQ(ResizeCost{ResizeClass::restart}.of(odd, 1, 2), kMaxDuration);
  EXPECT_EQ(ResizeCost{ResizeClass::afe}.of(odd, 2, 1), seconds(0));
}

RC_GTEST_PROP(ResizeCost, AfeCountsWholeSecondsAsIntegersDo, ()) {
  const int first = *rc::gen::inRange(0, 300);
  const int next = *rc::gen::inRange(0, first + 1);
  const GpuCount before = *rc::gen::inRange(1, 512);
  const GpuCount after = before + *rc::gen::inRange(1, 512);
  const ApplicationCosts costs{.restart_s = static_cast<double>(first), .afe_next_s = static_cast<double>(next)};
  RC_ASSERT((ResizeCost{ResizeClass::afe}.of(costs, before, after) ==
             seconds(next + (first - next) * (after - before) / after)));
}

RC_GTEST_PROP(ResizeCost, NoGpusCostNothing, ()) {
  const auto kind = static_cast<ResizeClass>(*rc::gen::inRange(0, 4));
  RC_ASSERT((ResizeCost{kind, seconds(30)}.of(kBert, *rc::gen::inRange(0, 64), 0) == seconds(0)));
}

}  // namespace
}  // namespace ebb::perf
