#include "ebb/spec/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace ebb::spec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ParseCluster, OneGroup) {
  const ClusterSpec cluster = parse_cluster("16x4").value();
  ASSERT_EQ(cluster.nodes.size(), 16u);
  EXPECT_EQ(cluster.nodes[0], (NodeSpec{"node-0000", 4, "", ""}));
  EXPECT_EQ(cluster.nodes[15], (NodeSpec{"node-0015", 4, "", ""}));
  EXPECT_EQ(cluster.total_gpus(), 64);
}

TEST(ParseCluster, GroupsWithTypesAndPools) {
  const ClusterSpec cluster = parse_cluster("2x8:a100@training+1x4:t4@serving+3x1@training").value();
  ASSERT_EQ(cluster.nodes.size(), 6u);
  EXPECT_EQ(cluster.nodes[1], (NodeSpec{"node-0001", 8, "a100", "training"}));
  EXPECT_EQ(cluster.nodes[2], (NodeSpec{"node-0002", 4, "t4", "serving"}));
  EXPECT_EQ(cluster.nodes[5], (NodeSpec{"node-0005", 1, "", "training"}));
}

TEST(ParseCluster, NamesGetAsManyDigitsAsTheLastNeeds) {
  EXPECT_EQ(parse_cluster("10000x1")->nodes[9999].name, "node-9999");
  EXPECT_EQ(parse_cluster("10001x1")->nodes[7].name, "node-00007");
}

TEST(ParseCluster, PointsAtWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "'': expected a number of nodes here\n  \n  ^\n"},
      {"16", "expected 'x' between the number of nodes and GPUs\n  16\n    ^\n"},
      {"16x", "expected a number of GPUs a node here\n  16x\n     ^\n"},
      {"x4", "expected a number of nodes here\n  x4\n  ^\n"},
      {"-1x4", "expected a number of nodes here"},
      {"0x4", "expected a number of nodes from 1 to 1000000 here"},
      {"16x4097", "expected a number of GPUs a node from 1 to 4096 here"},
      {"99999999999999999999x1", "expected a number of nodes from 1 to 1000000 here"},
      {"16x4:", "expected a GPU type here"},
      {"16x4@", "expected the name of a pool here"},
      {"16x4:a100@p q", "expected '+' or the end here\n  16x4:a100@p q\n             ^\n"},
      {"16x4+", "expected a number of nodes here"},
      {"16x4@p:a100", "expected '+' or the end here"},
      {"16X4", "expected 'x'"},
      {"2x4+1000000x1", "more than 1000000 nodes\n  2x4+1000000x1\n      ^\n"},
      {"3000x4000", "more than 10000000 GPUs"},
      {"1x1:\n", "expected a GPU type here"},
  };
  for (const auto& [text, message] : cases) {
    const auto result = parse_cluster(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr(message), HasSubstr("NODESxGPUS[:TYPE][@POOL]"))) << text;
  }
}

TEST(ParseCluster, LimitsDifferentGroupsAndText) {
  std::string text = "1x1:t0";
  for (int i = 1; i < 64; ++i) text += fmt::format("+1x1:t{}", i);
  EXPECT_TRUE(parse_cluster(text + "+1x1:t0"));
  EXPECT_THAT(parse_cluster(text + "+1x1:t64").error().message, HasSubstr("more than 64 different pairs"));
  const auto longest = parse_cluster(std::string(10'000'000, '+'));
  EXPECT_LT(longest.error().message.size(), 500u);
  EXPECT_LT(parse_cluster(std::string(10'000, '7')).error().message.size(), 700u);
}

TEST(FormatCluster, UndoesParseCluster) {
  EXPECT_EQ(format_cluster(parse_cluster("8x8:a100@training+4x4:t4@serving").value()),
            "8x8:a100@training+4x4:t4@serving");
  EXPECT_EQ(format_cluster(parse_cluster("2x4+3x4").value()), "5x4");
  const bool holds = rc::check([] {
    std::string text;
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
      text += fmt::format("{}{}x{}{}{}", text.empty() ? "" : "+", *rc::gen::inRange(1, 50), *rc::gen::inRange(1, 17),
                          *rc::gen::element<std::string>("", ":a100", ":t4"),
                          *rc::gen::element<std::string>("", "@training", "@b.c_d-e"));
    }
    const ClusterSpec cluster = parse_cluster(text).value();
    RC_ASSERT(parse_cluster(format_cluster(cluster)).value() == cluster);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace ebb::spec
