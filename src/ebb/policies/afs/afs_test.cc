#include "ebb/policies/afs/afs.h"

#include <gtest/gtest.h>

#include "ebb/base/random.h"
#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using Sizes = std::vector<GpuCount>;
using Set = std::vector<std::pair<std::string, std::string>>;

TestRun afs(ClusterSpec cluster, const Set& set = {}) {
  Registry registry;
  register_afs(registry);
  return TestRun(registry.make_scheduler("afs", set, std::move(cluster), {}).value());
}

TEST(Afs, ShortestJobsHaveTheFirstGpu) {
  TestRun run = afs(test_cluster(1, 2));
  for (const int seconds : {300, 100, 200}) run.submit(elastic_job(seconds, 1, 8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1, 1}));
  EXPECT_EQ(run.scheduler().explain(0, at(0)).code, ReasonCode::lower_priority);
}

TEST(Afs, OfEqualJobsTheLaterWins) {
  TestRun run = afs(test_cluster(1, 3));
  for (int i = 0; i < 2; ++i) run.submit(elastic_job(100, 1, 8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{1, 2}));
}

TEST(Afs, PriorityGoesBeforeLength) {
  TestRun run = afs(test_cluster(1, 1));
  run.submit(elastic_job(100, 1, 8));
  JobSpec urgent = elastic_job(1000, 1, 8);
  urgent.priority = 1;
  run.submit(urgent);
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1}));
}

TEST(Afs, GpusGoWhereTheyAddMost) {
  TestRun run = afs(test_cluster(1, 8));
  const JobId flat = run.submit(batch_job(100, 8, 10));
  run.submit(elastic_job(1000, 1, 8));
  run.submit(elastic_job(10, 1, 8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{2, 3, 3}));
  run.hear(report_of_no_gain(flat));
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{1, 3, 4}));
}

TEST(Afs, TheBatchLimitsAJobUnlessToldNotTo) {
  for (const bool respect_max : {true, false}) {
    TestRun run = afs(test_cluster(1, 8), {{"respect_max", respect_max ? "true" : "false"}});
    run.submit(batch_job(100, 8, 50));
    run.tick(0);
    EXPECT_EQ(run.sizes(), Sizes{respect_max ? 2 : 8});
  }
}

TEST(Afs, GangsAndStepsAreWhole) {
  TestRun run = afs(test_cluster(1, 8));
  run.submit(test_job(6));
  JobSpec by_two = elastic_job(10, 2, 8);
  by_two.gpu_step = 2;
  run.submit(by_two);
  run.submit(elastic_job(50, 1, 8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{0, 4, 4}));  // the gang came last of those without GPUs, when 5 were left
}

// The rule as the reference states it: a walk over all jobs for each GPU.
TEST(Afs, TheHeapGivesWhatTheTournamentGives) {
  Random random(1, "afs test");
  for (int round = 0; round < 50; ++round) {
    const auto gpus = static_cast<GpuCount>(1 + random.below(30));
    TestRun run = afs(test_cluster(1, gpus));
    std::vector<int> seconds;
    for (std::size_t i = 0; i < 1 + random.below(8); ++i) {
      seconds.push_back(static_cast<int>(1 + random.below(3)) * 100);
      run.submit(elastic_job(seconds.back(), 1, 64));
    }
    run.tick(0);
    Sizes expected(seconds.size());
    const auto weight = [&](std::size_t i) { return (expected[i] + 1.0 - expected[i]) / (expected[i] + 1.0); };
    for (GpuCount g = 0; g < gpus; ++g) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < seconds.size(); ++i) {
        bool stays = false;
        if (expected[best] == 0 && expected[i] == 0) {
          stays = seconds[best] < seconds[i];
        } else if (expected[best] < expected[i]) {
          stays = weight(i) <= weight(best);
        } else {
          stays = weight(best) > weight(i);
        }
        if (!stays) best = i;
      }
      ++expected[best];
    }
    EXPECT_EQ(run.sizes(), expected) << round;
  }
}

}  // namespace
}  // namespace ebb::policies
