#include "ebb/policies/optimus/optimus.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using Sizes = std::vector<GpuCount>;

using Set = std::vector<std::pair<std::string, std::string>>;

TestRun optimus(ClusterSpec cluster, const Set& set = {}) {
  Registry registry;
  register_optimus(registry);
  return TestRun(registry.make_scheduler("optimus", set, std::move(cluster), {}).value());
}

JobSpec task(const std::string& service) {
  JobSpec job = test_job(1, 5);
  job.kind = JobKind::inference;
  job.application = service;
  return job;
}

TEST(Optimus, OneForAllThenToTheLargestGain) {
  TestRun run = optimus(test_cluster(2, 4));
  for (const int seconds : {100, 400, 100}) run.submit(elastic_job(seconds, 1, 8));
  // Step n -> n + 1 saves seconds / (n (n + 1)): 200 and 67 for job 1, 50 for job 0 and job 2, 33 for job 1.
  const auto decisions = run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{2, 4, 2}));
  // The small ones first, each on the emptiest node.
  EXPECT_EQ(decisions, (std::vector<Decision>{Start{0, {{0, 2}}}, Start{1, {{0, 2}, {1, 2}}}, Start{2, {{1, 2}}}}));
  EXPECT_EQ(run.tick(60), std::vector<Decision>{});
}

TEST(Optimus, EqualGainsGoToTheEarliestJob) {
  TestRun run = optimus(test_cluster(1, 3));
  run.submit(elastic_job(100, 1, 8));
  run.submit(elastic_job(100, 1, 8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{2, 1}));
}

TEST(Optimus, WhoComesTooLateGetsNothing) {
  TestRun run = optimus(test_cluster(1, 2));
  for (int i = 0; i < 3; ++i) run.submit(elastic_job(100, 1, 8));
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{1, 1, 0}));
  const Reason reason = run.scheduler().explain(2, at(0));
  EXPECT_EQ(reason.code, ReasonCode::lower_priority);
  EXPECT_EQ(reason.needed, 1);
  run.hear(JobFinished{0, {}});
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1, 1}));
}

TEST(Optimus, PriorityGoesBeforeArrival) {
  TestRun run = optimus(test_cluster(1, 1));
  run.submit(elastic_job(100, 1, 8));
  run.tick(0);
  JobSpec urgent = elastic_job(100, 1, 8);
  urgent.priority = 1;
  run.submit(urgent);
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{0, 1}));
}

TEST(Optimus, NothingWhereNothingIsGained) {
  TestRun run = optimus(test_cluster(1, 8));
  const JobId job = run.submit(batch_job(100, 8, 10));
  run.tick(0);
  EXPECT_EQ(run.sizes(), Sizes{8});  // unknown yet: taken to scale
  run.hear(report_of_no_gain(job));
  run.tick(60);
  EXPECT_EQ(run.sizes(), Sizes{1});
}

TEST(Optimus, NoMoreThanTheBatchFeeds) {
  TestRun run = optimus(test_cluster(1, 8));
  run.submit(batch_job(100, 8, 30));
  run.tick(0);
  EXPECT_EQ(run.sizes(), Sizes{3});
}

TEST(Optimus, RigidAndMoldableJobsKeepTheirSize) {
  TestRun run = optimus(test_cluster(1, 8));
  run.submit(test_job(4));
  JobSpec by_two = elastic_job(100, 2, 6);
  by_two.gpu_step = 2;
  run.submit(by_two);
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{4, 4}));
  JobSpec moldable = elastic_job(100, 1, 8);
  moldable.sizing = Sizing::moldable;
  run.submit(moldable);
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{4, 2, 2}));  // the last GPU is too few for a step of job 1
  run.hear(JobFinished{0, {}});
  run.tick(120);
  EXPECT_EQ(run.sizes(), (Sizes{0, 6, 2}));
  EXPECT_EQ(run.state().job(2).restarts(), 0U);
}

TEST(Optimus, CountsEachTypeAlone) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "a100");
  add_nodes(cluster, 1, 4, "t4");
  TestRun run = optimus(std::move(cluster));
  JobSpec job = elastic_job(1000, 1, 8);
  job.gpu_type = "a100";
  run.submit(job);
  run.submit(job);
  job.gpu_type = "t4";
  run.submit(job);
  job.gpu_type = "";
  run.submit(job);
  run.tick(0);
  EXPECT_EQ(run.sizes(), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(run.state().job(3).allocation, (Allocation{{1, 2}}));
}

TEST(Optimus, LivesWithFailedNodes) {
  TestRun run = optimus(test_cluster(2, 4));
  run.submit(elastic_job(1000, 1, 8));
  run.submit(elastic_job(1000, 1, 8));
  run.tick(0);
  ASSERT_EQ(run.sizes(), (Sizes{4, 4}));
  run.hear(NodeFailed{0});
  run.hear(JobFailed{0, {}});
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{2, 2}));
  run.hear(NodeRepaired{0});
  run.tick(120);
  EXPECT_EQ(run.sizes(), (Sizes{4, 4}));
}

const Set kPlacesTasks = {{"place_tasks", "true"}, {"place_at_ticks", "false"}};

TEST(Optimus, PlacesTasksBeforeTraining) {
  TestRun run = optimus(test_cluster(2, 2), kPlacesTasks);
  run.submit(elastic_job(100, 1, 8));
  run.submit(task("a"));
  run.submit(task("b"));
  const auto decisions = run.tick(0);
  // Each task where most GPUs are left; training has the rest, here one GPU of each node.
  EXPECT_EQ(decisions, (std::vector<Decision>{Start{0, {{0, 1}, {1, 1}}},
                                              StartReplica{0, 0, {0, 1}, 1, std::chrono::seconds(30), false},
                                              StartReplica{1, 1, {1, 1}, 2, std::chrono::seconds(30), false}}));
}

TEST(Optimus, TasksGoBesideListsThatJobsKeep) {
  TestRun run = optimus(test_cluster(3, 2), kPlacesTasks);
  JobSpec kept = elastic_job(100, 1, 2);
  run.submit(kept);
  run.submit(elastic_job(100, 1, 8));
  run.tick(0);
  ASSERT_EQ(run.sizes(), (Sizes{2, 4}));
  ASSERT_EQ(run.state().job(0).allocation, (Allocation{{0, 2}}));
  run.submit(task("a"));
  run.tick(60);
  EXPECT_EQ(run.sizes(), (Sizes{2, 3, 0}));
  EXPECT_EQ(run.state().replica(0).place, (NodeShare{1, 1}));
}

TEST(Optimus, StripLeavesNodesOfPlacedTasksToThem) {
  Set set = kPlacesTasks;
  set.emplace_back("strip", "true");
  TestRun run = optimus(test_cluster(2, 2), set);
  run.submit(elastic_job(100, 1, 8));
  run.submit(task("a"));
  run.tick(0);
  EXPECT_EQ(run.state().job(0).allocation, (Allocation{{1, 2}}));
}

TEST(Optimus, SleepersMakeRoomForPlacedTasks) {
  TestRun run = optimus(test_cluster(1, 2), kPlacesTasks);
  run.submit(task("a"));
  run.tick(0);
  run.tell(JobFinished{0, {}}, 10);  // it sleeps since 40 s
  run.submit(elastic_job(100, 1, 1));
  run.submit(task("b"));
  const auto decisions = run.tick(60);
  EXPECT_EQ(decisions, (std::vector<Decision>{StopReplica{0}, Start{1, {{0, 1}}},
                                              StartReplica{1, 1, {0, 1}, 2, std::chrono::seconds(30), false}}));
}

TEST(Optimus, ACopyDecidesAlike) {
  TestRun run = optimus(test_cluster(2, 4));
  for (const int seconds : {100, 400, 100}) run.submit(elastic_job(seconds, 1, 8));
  run.tick(0);
  TestRun copy = run;
  for (TestRun* one : {&run, &copy}) one->submit(elastic_job(300, 1, 8));
  EXPECT_EQ(run.tick(60), copy.tick(60));
}

}  // namespace
}  // namespace ebb::policies
