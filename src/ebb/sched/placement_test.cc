#include "ebb/sched/placement.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ebb/sched/capacity.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::sched {
namespace {

// Nodes of 8 GPUs with these many free.
struct Cluster {
  explicit Cluster(const std::vector<GpuCount>& free)
      : capacity(test_cluster(free.size(), 8)), index(std::vector<GroupId>(free.size(), 0)) {
    for (NodeId n = 0; n < free.size(); ++n) index.set_available(n, free[n]);
  }
  std::optional<Allocation> place(const char* strategy, GpuCount gpus) const {
    return make_placement(strategy).value()->place(index, capacity, 1, gpus);
  }
  Capacity capacity;
  FreeIndex index;
};

TEST(Placement, CountTakesTheLowestNodes) {
  const Cluster c({2, 0, 3, 8});
  EXPECT_EQ(c.place("count", 4), (Allocation{{0, 2}, {2, 2}}));
  EXPECT_EQ(c.place("count", 13), (Allocation{{0, 2}, {2, 3}, {3, 8}}));
  EXPECT_FALSE(c.place("count", 14));
}

TEST(Placement, BestFitFillsTheTightestNode) {
  const Cluster c({8, 3, 5, 4});
  EXPECT_EQ(c.place("best_fit", 4), (Allocation{{3, 4}}));
  EXPECT_EQ(c.place("best_fit", 1), (Allocation{{1, 1}}));
  EXPECT_EQ(c.place("best_fit", 6), (Allocation{{0, 6}}));
  // No node holds 11: the emptiest as a whole, the rest where it fits most tightly.
  EXPECT_EQ(c.place("best_fit", 11), (Allocation{{0, 8}, {1, 3}}));
}

TEST(Placement, ConsolidateWaitsForRoomTogether) {
  EXPECT_FALSE(Cluster({3, 3, 3}).place("consolidate", 8));
  EXPECT_EQ(Cluster({3, 8, 3}).place("consolidate", 8), (Allocation{{1, 8}}));
  EXPECT_EQ(Cluster({4, 8, 8}).place("consolidate", 12), (Allocation{{0, 4}, {1, 8}}));
  EXPECT_FALSE(Cluster({4, 4, 8}).place("consolidate", 16));
  EXPECT_EQ(Cluster({4, 4, 8}).place("best_fit", 16), (Allocation{{0, 4}, {1, 4}, {2, 8}}));
}

TEST(Placement, SpreadUsesAsManyNodesAsItCan) {
  const Cluster c({1, 8, 2, 8});
  EXPECT_EQ(c.place("spread", 2), (Allocation{{1, 1}, {3, 1}}));
  EXPECT_EQ(c.place("spread", 4), (Allocation{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(c.place("spread", 9), (Allocation{{0, 1}, {1, 3}, {2, 2}, {3, 3}}));
}

TEST(Placement, UnknownNameListsTheKnownOnes) {
  const auto result = make_placement("tetris");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("count|best_fit|consolidate|spread"), std::string::npos);
}

RC_GTEST_PROP(PlacementProperty, GivesWholeGangsWithinWhatIsFree, ()) {
  const auto free = *rc::gen::nonEmpty(rc::gen::container<std::vector<GpuCount>>(rc::gen::inRange<GpuCount>(0, 9)));
  const auto gpus = *rc::gen::inRange<GpuCount>(1, 70);
  const Cluster c(free);
  GpuCount total = 0;
  std::size_t usable = 0;
  for (const GpuCount f : free) {
    total += f;
    usable += f > 0 ? 1 : 0;
  }
  for (const char* strategy : {"count", "best_fit", "consolidate", "spread"}) {
    const auto place = c.place(strategy, gpus);
    const bool strict = make_placement(strategy).value()->strict();
    if (!place) {
      RC_ASSERT(strict || gpus > total);
      continue;
    }
    RC_ASSERT(gpus_in(*place) == gpus);
    RC_ASSERT(std::is_sorted(place->begin(), place->end(), [](auto& a, auto& b) { return a.node < b.node; }));
    for (const NodeShare& share : *place) RC_ASSERT(share.gpus >= 1 && share.gpus <= free[share.node]);
    const auto least = static_cast<std::size_t>((gpus + 7) / 8);
    if (strict) RC_ASSERT(place->size() == least);
    if (std::string(strategy) == "spread")
      RC_ASSERT(place->size() == std::min<std::size_t>(usable, static_cast<std::size_t>(gpus)));
  }
}

}  // namespace
}  // namespace ebb::sched
