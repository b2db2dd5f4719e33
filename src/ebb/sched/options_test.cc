#include "ebb/sched/options.h"

#include <gtest/gtest.h>

namespace ebb::sched {
namespace {

const std::vector<OptionSpec> kSpecs = {
    {"on", false, "a switch", {}},
    {"count", std::int64_t{3}, "a count", {}, 0, 10},
    {"share", 0.5, "a share", {}, 0, 1},
    {"wait", Duration(std::chrono::seconds(5)), "a time", {}},
    {"mode", std::string("a"), "a mode", {"a", "b"}},
    {"limits", std::vector<double>{1, 2}, "limits", {}, 0.5, 100},
};

TEST(Options, HaveTheirDefaultsAndTypes) {
  const Options options = Options::parse(kSpecs, {}).value();
  EXPECT_FALSE(options.get<bool>("on"));
  EXPECT_EQ(options.get<std::int64_t>("count"), 3);
  EXPECT_EQ(options.get<std::vector<double>>("limits"), (std::vector<double>{1, 2}));
}

TEST(Options, LaterAssignmentsWin) {
  const std::vector<std::pair<std::string, std::string>> set = {{"on", "true"},   {"count", "7"}, {"count", "8"},
                                                                {"wait", "1.5m"}, {"mode", "b"},  {"limits", "3,4.5"}};
  const Options options = Options::parse(kSpecs, set).value();
  EXPECT_TRUE(options.get<bool>("on"));
  EXPECT_EQ(options.get<std::int64_t>("count"), 8);
  EXPECT_EQ(options.get<Duration>("wait"), Duration(std::chrono::seconds(90)));
  EXPECT_EQ(options.get<std::string>("mode"), "b");
  EXPECT_EQ(options.get<std::vector<double>>("limits"), (std::vector<double>{3, 4.5}));
}

TEST(Options, RefuseWhatIsOutOfTypeOrRange) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"on", "maybe"},  {"count", "1.5"}, {"count", "11"},   {"count", ""},   {"share", "nan"}, {"share", "2"},
      {"wait", "soon"}, {"mode", "c"},    {"limits", "1,x"}, {"limits", "0"}, {"limits", ",1"}};
  for (const auto& assignment : bad) {
    const auto options = Options::parse(kSpecs, {&assignment, 1});
    ASSERT_FALSE(options) << assignment.first << "=" << assignment.second;
    EXPECT_EQ(options.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(options.error().message.find(assignment.first), std::string::npos);
  }
  const std::pair<std::string, std::string> unknown("nothing", "1");
  EXPECT_NE(Options::parse(kSpecs, {&unknown, 1}).error().message.find("on, count, share, wait, mode, limits"),
            std::string::npos);
}

TEST(Options, PrintAsSetWouldReadThem) {
  const Options options = Options::parse(kSpecs, {}).value();
  for (const OptionSpec& spec : kSpecs) {
    const std::pair<std::string, std::string> again(spec.name, format_option(spec.default_value));
    EXPECT_EQ(Options::parse(kSpecs, {&again, 1}).value().values(), options.values());
  }
}

}  // namespace
}  // namespace ebb::sched
