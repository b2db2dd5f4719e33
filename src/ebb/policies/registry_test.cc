#include <gtest/gtest.h>

#include "ebb/policies/all.h"

namespace ebb::policies {
namespace {

using Set = std::vector<std::pair<std::string, std::string>>;

TEST(Policies, EveryOneHasTheWordsThatEbbPoliciesPrints) {
  const sched::Registry registry = all();
  EXPECT_EQ(registry.policies().size(), 11U);
  for (const sched::PolicyInfo& info : registry.policies()) {
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_FALSE(info.source.empty()) << info.name;
    for (const sched::OptionSpec& option : info.options) EXPECT_FALSE(option.doc.empty()) << info.name << option.name;
    EXPECT_TRUE(registry.make(info.name, Set{})) << info.name;
  }
}

TEST(Policies, UnknownNamesListTheKnownOnes) {
  const auto result = all().make("fair", Set{});
  ASSERT_FALSE(result);
  EXPECT_NE(
      result.error().message.find("fifo, backfill, srtf, srsf, tiresias, drf, optimus, afs, lyra, deepboot, pollux"),
      std::string::npos);
}

TEST(Tiresias, LimitsMustRise) {
  EXPECT_TRUE(all().make("tiresias", Set{{"limits", "10"}}));
  for (const char* limits : {"10,10", "20,10", "0", "-1", "x"}) {
    EXPECT_FALSE(all().make("tiresias", Set{{"limits", limits}})) << limits;
  }
}

}  // namespace
}  // namespace ebb::policies
