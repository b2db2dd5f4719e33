#include "ebb/policies/lyra/lyra.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using Sizes = std::vector<GpuCount>;
using Set = std::vector<std::pair<std::string, std::string>>;

TestRun lyra(ClusterSpec cluster, const Set& set = {}) {
  Registry registry;
  register_lyra(registry);
  return TestRun(registry.make_scheduler("lyra", set, std::move(cluster), {}).value());
}

TEST(Lyra, TheRestGoesWhereItSavesMost) {
  TestRun run = lyra(test_cluster(1, 6));
  run.submit(elastic_job(100, 1, 4));
  run.submit(elastic_job(400, 1, 4));
  run.tick(0);
  // Beyond one each: 50 + 300 s saved by 1 + 3 GPUs, 67 + 267 s by 2 + 2.
  EXPECT_EQ(run.sizes(), (Sizes{2, 4}));
}

TEST(Lyra, RunningJobsKeepTheirLeastSizeAndGiveTheRest) {
  TestRun run = lyra(test_cluster(1, 4));
  run.submit(elastic_job(1000, 2, 4));
  run.tick(0);
  EXPECT_EQ(run.sizes(), Sizes{4});
  run.submit(elastic_job(100, 2, 4));
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{2, 2}));
  run.submit(elastic_job(1, 1, 4));
  run.tick(120);
  EXPECT_EQ(run.sizes(), (Sizes{2, 2, 0}));
  EXPECT_EQ(run.scheduler().explain(2, at(120)).code, ReasonCode::lower_priority);
  EXPECT_EQ(run.state().job(0).preemptions + run.state().job(1).preemptions, 0U);
}

TEST(Lyra, ShortestWaitingJobFirstWithinItsPriority) {
  TestRun run = lyra(test_cluster(1, 2));
  run.submit(elastic_job(300, 1, 1));
  run.submit(elastic_job(100, 1, 1));
  JobSpec urgent = elastic_job(500, 1, 1);
  urgent.priority = 1;
  run.submit(urgent);
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1, 1}));
}

TEST(Lyra, NothingWhereNothingIsSaved) {
  TestRun run = lyra(test_cluster(1, 8));
  const JobId job = run.submit(batch_job(100, 8, 10));
  run.submit(test_job(3));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{5, 3}));
  run.hear(report_of_no_gain(job));
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{1, 3}));
}

TEST(Lyra, StepsAreWhole) {
  TestRun run = lyra(test_cluster(1, 8));
  JobSpec by_three = elastic_job(100, 2, 8);
  by_three.gpu_step = 3;
  run.submit(by_three);
  run.submit(elastic_job(100, 1, 8));
  run.tick(0);
  // 60 + 67 s saved by 3 + 2 more, 0 + 83 by none + 5 more.
  EXPECT_EQ(run.sizes(), (Sizes{5, 3}));
}

TEST(Lyra, TypesAreSharedOutOneByOne) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "a100");
  add_nodes(cluster, 1, 4, "t4");
  for (const char* value : {"lyra", "aryl"}) {
    TestRun run = lyra(cluster, {{"value", value}});
    JobSpec job = elastic_job(100, 1, 8, 8);
    run.submit(job);
    job.gpu_type = "t4";
    run.submit(job);
    run.tick(0);
    EXPECT_EQ(run.sizes(), (Sizes{4, 4})) << value;
  }
}

TEST(Aryl, AllGpusByRemainingTime) {
  TestRun run = lyra(test_cluster(1, 4), {{"value", "aryl"}});
  run.submit(elastic_job(100, 1, 4, 4));  // 400 s on one GPU: worth 200, 267, 300, 320
  run.submit(elastic_job(300, 1, 8, 1));  // asks for one: worth all of its 300
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{3, 1}));
  run.submit(elastic_job(90, 1, 8, 1));
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{2, 1, 1}));
}

TEST(Aryl, NobodyHasALeastSize) {
  TestRun run = lyra(test_cluster(1, 1), {{"value", "aryl"}});
  run.submit(elastic_job(100, 1, 1));
  run.tick(0);
  run.submit(elastic_job(200, 1, 1));
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1}));
}

}  // namespace
}  // namespace ebb::policies
