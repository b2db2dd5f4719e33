#include "ebb/sim/training_process.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/sim/test_profile.h"

namespace ebb::sim {
namespace {

constexpr double kTiny = 1e-9;

class TrainingProcessTest : public ::testing::Test {
 protected:
  TrainingProcessTest() {
    world_.profiles = std::make_shared<const perf::ProfileSet>(test_profiles());
    spec_.application = "toy";
    spec_.gpus = 1;
    spec_.batch = profile().limits();
    spec_.batch_size = 10;
    spec_.run_time = std::chrono::seconds(200);
  }

  const perf::Profile& profile() const { return *world_.profiles->find("toy"); }
  TrainingProcess on(const Allocation& allocation) const {
    TrainingProcess process(world_, profile(), spec_, 7);
    process.place(allocation);
    return process;
  }

  TrainingWorld world_;
  JobSpec spec_;
};

TEST_F(TrainingProcessTest, EpochsPassAtTheSpeedOfTheTables) {
  TrainingProcess process = on({{0, 1}});
  EXPECT_NEAR(process.until_epoch_end(), 100, kTiny);
  EXPECT_FALSE(process.run(50));
  EXPECT_NEAR(process.fraction_done(), 0.25, kTiny);
  EXPECT_NEAR(process.until_epoch_end(), 50, kTiny);
  EXPECT_FALSE(process.run(100));
  EXPECT_EQ(process.report().epoch, 1);
  EXPECT_NEAR(process.fraction_done(), 0.75, kTiny);
  EXPECT_NEAR(to_seconds(process.progress()), 150, 1e-6);
  EXPECT_NEAR(process.speed(), 1, kTiny);
  EXPECT_NEAR(process.report().steps_done, 150, 1e-6);
  const auto end = process.run(100);
  ASSERT_TRUE(end);
  EXPECT_NEAR(*end, 50, 1e-6);
  EXPECT_TRUE(process.done());
  EXPECT_EQ(process.fraction_done(), 1);
  EXPECT_EQ(process.progress(), spec_.run_time);
  EXPECT_FALSE(process.run(10));
  EXPECT_TRUE(std::isinf(process.until_epoch_end()));
}

TEST_F(TrainingProcessTest, PlacementAndBatchSetTheSpeed) {
  spec_.batch_size = 20;
  // 10 samples each: 1.25 s on one node, 1.5 on two; each iteration counts 4/3.
  EXPECT_NEAR(on({{0, 2}}).until_epoch_end(), 100 * 1.25 * 3 / 4, kTiny);
  EXPECT_NEAR(on({{0, 1}, {3, 1}}).until_epoch_end(), 100 * 1.5 * 3 / 4, kTiny);
  // One GPU compares two micro-steps of 10.
  EXPECT_NEAR(on({{0, 1}}).until_epoch_end(), 100 * 2.0 * 3 / 4, kTiny);
  // Without a batch asked for, the initial one: 5 each are too few, 10 it is.
  spec_.batch_size = 0;
  EXPECT_NEAR(on({{0, 2}}).until_epoch_end(), 100 * 1.25 * 3 / 4, kTiny);
}

TEST_F(TrainingProcessTest, WithoutGpusNothingHappens) {
  TrainingProcess process = on({{0, 1}});
  process.run(30);
  process.place({});
  EXPECT_FALSE(process.placed());
  EXPECT_FALSE(process.run(1000));
  EXPECT_TRUE(std::isinf(process.until_epoch_end()));
  process.place({{1, 1}});
  EXPECT_NEAR(process.until_epoch_end(), 70, kTiny);
}

TEST_F(TrainingProcessTest, EpochsOfWholeSeconds) {
  spec_.batch_size = 20;
  TrainingProcess exact = on({{0, 2}});
  EXPECT_NEAR(exact.run(1000).value(), 187.5, 1e-6);
  world_.whole_epochs = true;  // 93.75 s are 94
  TrainingProcess whole = on({{0, 2}});
  EXPECT_EQ(whole.run(1000).value(), 188);
  // Counted from the call in which the epoch ends.
  TrainingProcess cut = on({{0, 2}});
  EXPECT_FALSE(cut.run(60));
  EXPECT_EQ(cut.run(1000).value(), 34 + 94);
}

TEST_F(TrainingProcessTest, LosesBackToTheLastKeptPoint) {
  TrainingProcess process = on({{0, 1}});
  process.run(150);
  process.lose(60);
  EXPECT_NEAR(process.until_epoch_end(), 10, 1e-6);
  EXPECT_EQ(process.report().epoch, 0);
  process.keep();
  process.run(80);
  EXPECT_EQ(process.report().epoch, 1);
  process.fall_back();
  EXPECT_NEAR(to_seconds(process.progress()), 90, 1e-6);
  process.run(5);
  process.lose(1000);
  EXPECT_NEAR(to_seconds(process.progress()), 90, 1e-6);
}

TEST_F(TrainingProcessTest, InterferenceTakesItsShare) {
  world_.interference = 0.5;
  TrainingProcess process = on({{0, 1}, {1, 1}});
  const double alone = process.until_epoch_end();
  process.set_interfered(true);
  EXPECT_NEAR(process.until_epoch_end(), 2 * alone, kTiny);
  process.run(30);
  process.set_interfered(false);
  EXPECT_NEAR(process.until_epoch_end(), alone - 15, 1e-6);
}

TEST_F(TrainingProcessTest, TellsNewsOnce) {
  TrainingProcess process = on({{0, 1}});
  process.run(10);
  EXPECT_TRUE(process.has_news());
  const JobReport report = process.report();
  EXPECT_EQ(report.job, 7U);
  EXPECT_EQ(report.most_gpus, 1);
  EXPECT_EQ(report.gradient, (GradientStats{1, 1}));
  EXPECT_TRUE(report.throughput);
  process.told();
  process.run(10);
  EXPECT_FALSE(process.has_news());
  process.run(100);  // another epoch
  EXPECT_TRUE(process.has_news());
}

TEST_F(TrainingProcessTest, LearnsNothingWhereNobodyLooks) {
  world_.learn = false;
  TrainingProcess process = on({{0, 1}});
  process.run(10);
  EXPECT_FALSE(process.report().throughput);
}

TEST_F(TrainingProcessTest, AdaptedBatchesAreLegal) {
  world_.adapt_batch = true;
  for (const Allocation& allocation : {Allocation{{0, 1}}, Allocation{{0, 2}}, Allocation{{0, 1}, {1, 1}}}) {
    TrainingProcess process = on(allocation);
    const auto end = process.run(100'000);
    ASSERT_TRUE(end);
    // Between the speed of the initial batch and twice that of the largest one.
    EXPECT_LE(*end, 200 * 1.5);
    EXPECT_GE(*end, 100);
  }
}

TEST_F(TrainingProcessTest, NoiseIsSeeded) {
  const auto measured = [&](std::uint64_t seed, double noise, JobId id) {
    world_.seed = seed;
    world_.noise = noise;
    TrainingProcess process(world_, profile(), spec_, id);
    process.place({{0, 1}});
    process.run(1);
    return process.report().throughput.value();
  };
  EXPECT_EQ(measured(1, 0.3, 7), measured(1, 0.3, 7));
  EXPECT_NE(measured(1, 0.3, 7), measured(2, 0.3, 7));
  EXPECT_NE(measured(1, 0.3, 7), measured(1, 0.3, 8));
  EXPECT_EQ(measured(1, 0, 7), measured(2, 0, 8));
}

TEST_F(TrainingProcessTest, TimeAlone) {
  EXPECT_NEAR(to_seconds(time_alone(profile(), spec_, 4)), 200, 1e-6);
  spec_.gpus = 2;
  spec_.batch_size = 20;
  EXPECT_NEAR(to_seconds(time_alone(profile(), spec_, 4)), 187.5, 1e-6);
  EXPECT_NEAR(to_seconds(time_alone(profile(), spec_, 1)), 225, 1e-6);  // on two nodes
}

}  // namespace
}  // namespace ebb::sim
