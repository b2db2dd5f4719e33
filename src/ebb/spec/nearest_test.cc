#include "ebb/spec/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace ebb::spec {
namespace {

constexpr std::array<std::string_view, 4> kKnown{"round", "resize_cost", "cluster", "at"};

TEST(Nearest, FindsMisspeltWords) {
  EXPECT_EQ(nearest("ruond", kKnown), "round");
  EXPECT_EQ(nearest("rounds", kKnown), "round");
  EXPECT_EQ(nearest("resize-cost", kKnown), "resize_cost");
  EXPECT_EQ(nearest("clster", kKnown), "cluster");
  EXPECT_EQ(nearest("att", kKnown), "at");
}

TEST(Nearest, SaysNothingOfOtherWords) {
  EXPECT_EQ(nearest("policy", kKnown), "");
  EXPECT_EQ(nearest("", kKnown), "");
  EXPECT_EQ(nearest(std::string(100'000, 'r'), kKnown), "");
  EXPECT_EQ(nearest("round", {}), "");
}

}  // namespace
}  // namespace ebb::spec
