#include "ebb/policies/deepboot/deepboot.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using Sizes = std::vector<GpuCount>;
using Set = std::vector<std::pair<std::string, std::string>>;

class DeepBoot : public ::testing::Test {
 protected:
  static TestRun make(ClusterSpec cluster, const Set& set = {}, Lending lending = Lending::none) {
    Registry registry;
    register_deepboot(registry);
    SchedulerConfig config;
    config.lending = lending;
    return TestRun(registry.make_scheduler("deepboot", set, std::move(cluster), std::move(config)).value());
  }
  static JobSpec job(GpuCount most, int t = 0) {
    JobSpec spec = elastic_job(1000, 1, most);
    spec.submit = at(t);
    return spec;
  }
  // It says that it ran on what it has: it may double.
  static void report(TestRun& run, JobId job) {
    JobReport report;
    report.job = job;
    report.progress = run.state().job(job).progress;
    report.most_gpus = run.state().job(job).gpus;
    run.hear(report);
  }
  // The model of a job that gains little from a second GPU.
  static void report_of_little_gain(TestRun& run, JobId job) {
    JobReport report = report_of_no_gain(job);
    report.most_gpus = 8;
    run.hear(report);
  }
};

TEST_F(DeepBoot, AJobDoublesAsItLearnsUntilTheClusterIsFull) {
  TestRun run = make(test_cluster(2, 4));
  run.submit(job(8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), Sizes{1});
  for (const auto& [t, size] : {std::pair{60, 2}, {120, 4}, {180, 8}, {240, 8}}) {
    report(run, 0);
    run.tick(t);
    EXPECT_EQ(run.sizes(), Sizes{size}) << t;
  }
  EXPECT_EQ(run.state().job(0).resizes, 3U);
}

TEST_F(DeepBoot, GpusGoWhereTheyGainMost) {
  TestRun run = make(test_cluster(1, 8), {{"change_penalty_s", "0"}});
  run.submit(batch_job(1000, 8, 10));
  run.submit(batch_job(1000, 8, 10));
  run.tick(0);
  report_of_little_gain(run, 0);
  JobReport scales = report_of_no_gain(1);
  scales.throughput = ThroughputParams{0, 0.01, 1e-6, 0, 1e-6, 0, 1};
  scales.most_gpus = 8;
  scales.gradient = {1e-9, 1};  // noise: large batches are as good as small ones
  run.hear(scales);
  run.tick(60);
  EXPECT_LT(run.sizes()[0], run.sizes()[1]);
  EXPECT_EQ(run.sizes()[0] + run.sizes()[1], 8);
}

TEST_F(DeepBoot, AChangeMustGainMoreThanItCosts) {
  for (const char* solver : {"exact", "incremental"}) {
    TestRun run = make(test_cluster(1, 4), {{"solver", solver}});
    run.submit(job(4));
    run.tick(0);
    report(run, 0);
    run.tick(5);  // f = 5 / 15: 2 GPUs are worth 2/3 of the one that it has
    EXPECT_EQ(run.sizes(), Sizes{1}) << solver;
    report(run, 0);
    run.tick(30);  // f = 30 / 40
    EXPECT_EQ(run.sizes(), Sizes{2}) << solver;
    report(run, 0);
    run.tick(31);  // f = 21 / 41 for 4
    EXPECT_EQ(run.sizes(), Sizes{4}) << solver;
  }
}

TEST_F(DeepBoot, ANewJobTakesWhatIsLeftAtItsFirstTickAndMoreLater) {
  for (const char* solver : {"exact", "incremental"}) {
    TestRun run = make(test_cluster(1, 4), {{"solver", solver}});
    run.submit(job(4));
    run.tick(0);
    for (const int t : {60, 120}) {
      report(run, 0);
      run.tick(t);
    }
    ASSERT_EQ(run.sizes(), Sizes{4}) << solver;
    run.submit(job(4, 180));
    run.tick(180);  // worth nothing yet
    EXPECT_EQ(run.sizes(), (Sizes{4, 0})) << solver;
    EXPECT_EQ(run.scheduler().explain(1, at(180)).code, ReasonCode::lower_priority);
    // Drivers without rounds are asked for a tick whenever it has grown enough to matter.
    for (const auto& [t, next] : {std::pair{180, 190}, {190, 200}, {200, 220}, {220, 260}, {260, 340}, {340, 500}}) {
      if (t > 180) run.tick(t);
      EXPECT_EQ(run.wake(), at(next)) << solver;
    }
    run.tick(500);
    EXPECT_FALSE(run.wake()) << solver;
    // Both are taken to scale linearly, so that nothing is gained by a change.
    EXPECT_EQ(run.sizes(), (Sizes{4, 0})) << solver;
    run.hear(JobFinished{0, {}});
    run.tick(510);
    EXPECT_EQ(run.sizes(), (Sizes{0, 1})) << solver;
  }
}

TEST_F(DeepBoot, PrioritiesGoFirst) {
  TestRun run = make(test_cluster(1, 4));
  run.submit(job(4));
  run.submit(job(4));
  run.tick(0);
  JobSpec urgent = test_job(4);
  urgent.priority = 1;
  urgent.submit = at(50);
  run.submit(urgent);
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{0, 0, 4}));
}

TEST_F(DeepBoot, RigidGangsGetAllOrNothingAndMoldableOnesStay) {
  TestRun run = make(test_cluster(2, 4));
  run.submit(test_job(6));
  JobSpec moldable = job(2);
  moldable.sizing = Sizing::moldable;
  run.submit(moldable);
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{6, 1}));
  report(run, 1);
  run.tick(6000);
  EXPECT_EQ(run.sizes(), (Sizes{6, 1}));
  EXPECT_EQ(run.state().job(1).resizes, 0U);
}

TEST_F(DeepBoot, TypesAreNeverMixed) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "a100");
  add_nodes(cluster, 1, 4, "t4");
  TestRun run = make(cluster, {{"change_penalty_s", "0"}});
  for (int j = 0; j < 2; ++j) run.submit(job(8));
  for (int t = 0; t <= 240; t += 60) {
    run.tick(t);
    for (const JobId id : {0, 1}) report(run, id);
  }
  EXPECT_EQ(run.sizes(), (Sizes{4, 4}));
}

TEST_F(DeepBoot, LendsWhatServingDoesNotHold) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "", "training");
  add_nodes(cluster, 1, 4, "", "serving");
  for (const auto& [lending, most] : {std::pair{Lending::none, 4}, {Lending::pooled, 8}, {Lending::partitioned, 8}}) {
    TestRun run = make(cluster, {}, lending);
    run.submit(job(8));
    for (int t = 0; t <= 300; t += 60) {
      run.tick(t);
      report(run, 0);
    }
    EXPECT_EQ(run.sizes(), Sizes{most}) << to_string(lending);
    EXPECT_EQ(run.state().gpus_lent(), most - 4) << to_string(lending);
  }
}

// What unchanged jobs keep, what a change moves.
class Placing : public DeepBoot {
 protected:
  // Two gangs and between them, on the node of one of them, a job of 1 that may grow.
  static TestRun played(const char* place) {
    TestRun run = make(test_cluster(2, 4), {{"place", place}, {"change_penalty_s", "0"}});
    run.submit(test_job(2));
    run.submit(job(4));
    run.submit(test_job(3));
    run.tick(0);
    return run;
  }
};

TEST_F(Placing, IncrementalGrowsOnItsOwnNodeFirst) {
  for (const char* place : {"scratch", "incremental"}) {
    TestRun run = played(place);
    const Allocation before = run.state().job(1).allocation;
    ASSERT_EQ(gpus_in(before), 1);
    const NodeId home = before.front().node;
    // The gang that shares the node with it ends, so that both nodes have room.
    for (const JobId id : {0, 2}) {
      if (run.state().job(id).allocation.front().node == home) run.hear(JobFinished{id, {}});
    }
    report(run, 1);
    run.tick(60);
    ASSERT_EQ(run.sizes()[1], 2);
    const Allocation& after = run.state().job(1).allocation;
    ASSERT_EQ(after.size(), 1U);
    EXPECT_TRUE(after.front().node == home || std::string(place) == "scratch");
  }
}

TEST_F(Placing, IncrementalKeepsWhatItHasWhenItShrinks) {
  TestRun run = make(test_cluster(3, 4), {{"place", "incremental"}, {"change_penalty_s", "0"}});
  JobSpec wide = elastic_job(1000, 6, 12);
  run.submit(wide);
  run.tick(0);
  report(run, 0);
  run.tick(60);
  ASSERT_EQ(run.sizes(), Sizes{12});
  JobSpec urgent = test_job(4);
  urgent.priority = 1;
  run.submit(urgent);
  run.tick(120);
  ASSERT_EQ(run.sizes(), (Sizes{8, 4}));
  EXPECT_TRUE(run.state().job(0).arriving.empty());
  EXPECT_EQ(run.state().job(0).allocation.size(), 2U);
}

TEST_F(DeepBoot, ACopyDecidesLikeItsOriginal) {
  TestRun run = make(test_cluster(2, 4), {{"change_cost", "expected"}});
  for (int j = 0; j < 3; ++j) run.submit(job(8));
  run.tick(0);
  for (const JobId id : {0, 1, 2}) report(run, id);
  TestRun copy = run;
  EXPECT_EQ(run.tick(300), copy.tick(300));
  EXPECT_EQ(run.sizes(), copy.sizes());
}

}  // namespace
}  // namespace ebb::policies
