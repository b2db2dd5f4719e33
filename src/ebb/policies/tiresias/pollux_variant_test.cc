#include "ebb/policies/tiresias/pollux_variant.h"

#include <gtest/gtest.h>

#include "ebb/policies/tiresias/tiresias.h"
#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using Sizes = std::vector<GpuCount>;
using Set = std::vector<std::pair<std::string, std::string>>;

TestRun two_queues(ClusterSpec cluster, Set set = {}) {
  Registry registry;
  register_tiresias(registry);
  set.emplace_back("variant", "pollux");
  return TestRun(registry.make_scheduler("tiresias", set, std::move(cluster), {}).value());
}

TEST(PolluxTiresias, SmallerJobsPassAndAllTakeTheEmptiestNodes) {
  TestRun run = two_queues(test_cluster(2, 4));
  for (const GpuCount gpus : {3, 6, 4}) run.submit(test_job(gpus));
  EXPECT_EQ(run.tick(0), (std::vector<Decision>{Start{0, {{0, 3}}}, Start{2, {{1, 4}}}}));
  const Reason reason = run.scheduler().explain(1, at(0));
  EXPECT_EQ(reason.code, ReasonCode::lower_priority);
  EXPECT_EQ(reason.needed, 6);
  EXPECT_EQ(run.tick(60), std::vector<Decision>{});
}

TEST(PolluxTiresias, DemotedJobsGoToTheTailAndAreNotMovedAhead) {
  TestRun run = two_queues(test_cluster(2, 4), {{"limits", "60"}});
  for (const GpuCount gpus : {3, 6, 4}) run.submit(test_job(gpus));
  run.tick(0);
  EXPECT_EQ(run.wake(), at(15));  // 60 GPU-s on 4 GPUs
  run.tick(14);
  EXPECT_EQ(run.sizes(), (Sizes{3, 0, 4}));
  run.tick(15);  // job 2 is demoted: job 1 still does not fit beside job 0, and job 2 does
  EXPECT_EQ(run.sizes(), (Sizes{3, 0, 4}));
  run.tick(20);  // job 0 is demoted too, behind job 2
  EXPECT_EQ(run.sizes(), (Sizes{0, 6, 0}));
  EXPECT_EQ(run.state().job(1).allocation, (Allocation{{0, 4}, {1, 2}}));
  run.hear(JobFinished{1, {}});
  run.submit(test_job(4));
  run.tick(25);  // the new job is in the first queue, then job 2, then job 0
  EXPECT_EQ(run.sizes(), (Sizes{0, 0, 4, 4}));
}

TEST(PolluxTiresias, ExecutedTimeCountsPausesAndStandsStillWhileWaiting) {
  TestRun run = two_queues(test_cluster(1, 4), {{"limits", "40"}});
  run.submit(test_job(4));
  run.submit(test_job(4));
  run.tick(0);
  run.tick(10);  // demoted at 10 s
  EXPECT_EQ(run.sizes(), (Sizes{0, 4}));
  run.tick(19);
  EXPECT_EQ(run.sizes(), (Sizes{0, 4}));
  run.tick(20);  // both in the second queue, job 0 first
  EXPECT_EQ(run.sizes(), (Sizes{4, 0}));
  run.tick(1000);
  EXPECT_EQ(run.sizes(), (Sizes{4, 0}));
}

TEST(PolluxTiresias, PriorityGoesBeforeQueues) {
  TestRun run = two_queues(test_cluster(1, 1));
  run.submit(test_job(1));
  run.tick(0);
  JobSpec urgent = test_job(1);
  urgent.priority = 1;
  run.submit(urgent);
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1}));
}

TEST(PolluxTiresias, ElasticJobsHaveTheSizeThatTheyAskedFor) {
  TestRun run = two_queues(test_cluster(2, 4));
  run.submit(elastic_job(100, 1, 8, 6));
  run.submit(elastic_job(100, 1, 8, 3));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{6, 0}));
}

JobSpec task() {
  JobSpec spec;
  spec.kind = JobKind::inference;
  spec.application = "svc";
  spec.gpus = 1;
  spec.run_time = std::chrono::seconds(5);
  return spec;
}

TEST(PolluxTiresias, AShrunkJobKeepsWhatItHasAndCountsInFull) {
  TestRun run = two_queues(test_cluster(1, 4), {{"allow_rigid_shrink", "true"}});
  run.submit(elastic_job(100, 1, 8, 4));
  run.submit(test_job(1));
  run.tick(0);
  ASSERT_EQ(run.sizes(), (Sizes{4, 0}));
  run.tell(JobSubmitted{2, task()}, 5);
  run.tell(Timer{}, 5);
  EXPECT_EQ(run.sizes(), (Sizes{3, 0, 0}));
  run.tell(JobFinished{2, {}}, 10);
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{3, 0, 0}));  // the replica sleeps: its GPU is free, but for job 0 alone
  EXPECT_EQ(run.scheduler().explain(1, at(60)).code, ReasonCode::lower_priority);
  run.hear(JobFinished{0, {}});
  run.tick(120);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1, 0}));
}

TEST(PolluxTiresias, WaitingTasksKeepGpusBack) {
  TestRun run = two_queues(test_cluster(1, 4), {{"place_at_ticks", "false"}});
  run.submit(task());
  run.submit(test_job(4));
  run.submit(test_job(3));
  run.tick(0);
  EXPECT_EQ(run.sizes()[1], 0);
  EXPECT_EQ(run.sizes()[2], 3);
}

TEST(PolluxTiresias, SleepersStayBesideAJobThatWaitsForMore) {
  TestRun run = two_queues(test_cluster(1, 4));
  run.submit(task());
  run.tick(0);
  run.tell(JobFinished{0, {}}, 10);  // its replica sleeps since 40 s
  run.submit(test_job(3));
  run.submit(test_job(2));
  EXPECT_EQ(run.tick(60), (std::vector<Decision>{Start{1, {{0, 3}}}}));
  run.hear(JobFinished{1, {}});
  run.submit(test_job(2));
  EXPECT_EQ(run.tick(120), (std::vector<Decision>{StopReplica{0}, Start{2, {{0, 2}}}, Start{3, {{0, 2}}}}));
}

TEST(PolluxTiresias, AFailedJobKeepsItsPlace) {
  TestRun run = two_queues(test_cluster(2, 4));
  run.submit(test_job(4));
  run.submit(test_job(4));
  run.submit(test_job(4));
  run.tick(0);
  run.hear(NodeFailed{0});
  run.hear(JobFailed{0, {}});
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{4, 0, 0}));
}

// A service takes its GPU at 5 s, which counts as running until the next decision, and then it is held.
TEST(PolluxTiresias, AHeldJobUsesUpNothing) {
  TestRun run = two_queues(test_cluster(1, 1), {{"limits", "40"}});
  run.submit(test_job(1));
  run.tick(0);
  run.tell(JobSubmitted{1, task()}, 5);
  run.tell(Timer{}, 5);
  ASSERT_EQ(run.state().job(0).phase, JobPhase::waiting);
  run.tell(JobHeld{0}, 5);
  run.tell(JobFinished{1, {}}, 10);
  run.tick(100);
  run.tell(JobReleased{0}, 110);
  run.tell(JobSubmitted{2, test_job(1)}, 110);
  run.tick(110);
  EXPECT_EQ(run.sizes(), (Sizes{1, 0, 0}));  // still in the first queue
}

TEST(PolluxTiresias, Options) {
  Registry registry;
  register_tiresias(registry);
  EXPECT_TRUE(registry.make("tiresias", Set{{"variant", "pollux"}, {"limits", "57600"}}));
  EXPECT_FALSE(registry.make("tiresias", Set{{"variant", "pollux"}, {"promote", "1"}}));
  EXPECT_FALSE(registry.make("tiresias", Set{{"variant", "other"}}));
}

}  // namespace
}  // namespace ebb::policies
