#include "ebb/sim/estimate.h"

#include <gtest/gtest.h>

namespace ebb::sim {
namespace {

TEST(Estimate, ByHand) {
  // Variance (2.25 + 0.25 + 0.25 + 2.25) / 3 = 5 / 3; 3.182 x sqrt(5 / 3 / 4) = 2.0540.
  const Estimate e = estimate_of({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(e.mean, 2.5);
  EXPECT_NEAR(e.low, 2.5 - 2.0540, 1e-4);
  EXPECT_NEAR(e.high, 2.5 + 2.0540, 1e-4);
  EXPECT_EQ(e.count, 4U);
}

TEST(Estimate, OneValueHasNoInterval) {
  const Estimate e = estimate_of({7});
  EXPECT_EQ(e.mean, 7);
  EXPECT_EQ(e.low, 7);
  EXPECT_EQ(e.high, 7);
  EXPECT_EQ(estimate_of({}).count, 0U);
}

TEST(Estimate, StudentsT) {
  EXPECT_EQ(student_t(1), 12.706);
  EXPECT_EQ(student_t(9), 2.262);
  EXPECT_NEAR(student_t(11), 2.201, 5e-4);
  EXPECT_NEAR(student_t(30), 2.042, 5e-4);
  EXPECT_NEAR(student_t(100), 1.984, 5e-4);
  EXPECT_NEAR(student_t(1'000'000), 1.960, 5e-4);
}

}  // namespace
}  // namespace ebb::sim
