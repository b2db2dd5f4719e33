#include "ebb/sched/reclaim.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ebb/sched/test_run.h"

namespace ebb::sched {
namespace {

/// Starts jobs where the test says.
class Placed final : public Policy {
 public:
  Placed(std::map<JobId, Allocation> places, bool resizes) : places_(std::move(places)), resizes_(resizes) {}
  std::unique_ptr<Policy> clone() const override { return std::make_unique<Placed>(*this); }
  bool resizes() const override { return resizes_; }
  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}
  void decide(Turn& turn) override {
    for (const auto& [job, allocation] : std::exchange(places_, {})) turn.start(job, allocation);
  }
  Reason explain(const State& state, JobId job, Time) const override {
    return reason_for(state, job, ReasonCode::no_capacity);
  }

 private:
  std::map<JobId, Allocation> places_;
  bool resizes_;
};

struct Setup {
  ClusterSpec cluster;
  std::vector<JobSpec> jobs;
  std::map<JobId, Allocation> places;
  ServingOptions serving{};
  Lending lending = Lending::none;
  bool resizes = true;
};

// Jobs run since 0 s where they were placed.
TestRun start(Setup setup) {
  SchedulerConfig config;
  config.serving = setup.serving;
  config.lending = setup.lending;
  TestRun run(Scheduler(std::move(setup.cluster), std::make_unique<Placed>(std::move(setup.places), setup.resizes),
                        std::move(config)));
  for (JobSpec& job : setup.jobs) run.submit(std::move(job));
  run.tick(0);
  return run;
}

JobSpec task(const std::string& service) {
  JobSpec job = test_job(1, 5);
  job.kind = JobKind::inference;
  job.application = service;
  return job;
}

// So many tasks of different services arrive at once; the decisions of the step.
std::vector<Decision> arrive(TestRun& run, int tasks, int t) {
  for (int k = 0; k < tasks; ++k) run.submit(task("service-" + std::to_string(run.state().jobs().size() + k)));
  return run.tick(t);
}

std::vector<Resize> one_resize(JobId job, Allocation allocation) {
  return {Resize{{Target{job, std::move(allocation)}}}};
}

// Nodes of all replicas that are alive, in order of their start.
std::vector<NodeId> replica_nodes(const State& state) {
  std::vector<NodeId> nodes;
  for (const ReplicaId id : state.live_replicas()) nodes.push_back(state.replica(id).place.node);
  return nodes;
}

template <typename D>
std::vector<D> only(const std::vector<Decision>& decisions) {
  std::vector<D> found;
  for (const Decision& decision : decisions) {
    if (const auto* d = std::get_if<D>(&decision)) found.push_back(*d);
  }
  return found;
}

TEST(Reclaim, FreeGpusOfTheNodeWithTheFewestTrainingGpusFirst) {
  TestRun run = start({.cluster = test_cluster(3, 4),
                       .jobs = {elastic_job(100, 1, 4), elastic_job(100, 1, 4), elastic_job(100, 1, 4)},
                       .places = {{0, {{0, 3}}}, {1, {{1, 1}}}, {2, {{2, 2}}}}});
  arrive(run, 4, 10);
  EXPECT_EQ(replica_nodes(run.state()), (std::vector<NodeId>{1, 1, 1, 2}));
  EXPECT_EQ(run.sizes()[0] + run.sizes()[1] + run.sizes()[2], 6);
}

TEST(Reclaim, SleepingReplicasBeforeTraining) {
  TestRun run = start({.cluster = test_cluster(1, 2), .jobs = {elastic_job(100, 1, 2)}, .places = {{0, {{0, 1}}}}});
  arrive(run, 1, 10);
  run.tell(JobFinished{1, {}}, 20);
  const auto decisions = arrive(run, 1, 60);  // it sleeps since 50 s
  EXPECT_EQ(only<StopReplica>(decisions), std::vector<StopReplica>{{0}});
  EXPECT_EQ(run.sizes()[0], 1);
  EXPECT_EQ(run.state().live_replicas(), std::vector<ReplicaId>{1});
}

TEST(Reclaim, ProtectedReplicasAreNeverEvicted) {
  TestRun run = start({.cluster = test_cluster(1, 1), .jobs = {}, .places = {}});
  arrive(run, 1, 0);
  run.tell(JobFinished{0, {}}, 10);
  EXPECT_TRUE(arrive(run, 1, 39).empty());
  EXPECT_EQ(run.state().job(1).phase, JobPhase::waiting);
  // It is kept alive until 40 s.
  const auto served = run.tick(40);
  EXPECT_EQ(only<StopReplica>(served).size(), 1U);
  EXPECT_EQ(run.state().job(1).phase, JobPhase::running);
}

TEST(Reclaim, TakesWhereTheSumOfSpeedUpsFallsLeast) {
  // Job 0 attained least, but scales linearly; job 1 gains nothing from its second GPU.
  TestRun run = start({.cluster = test_cluster(2, 2),
                       .jobs = {elastic_job(100, 1, 2), batch_job(100, 2, 10)},
                       .places = {{0, {{0, 2}}}, {1, {{1, 2}}}}});
  run.tell(report_of_no_gain(1), 5);
  const auto decisions = arrive(run, 1, 10);
  EXPECT_EQ(only<Resize>(decisions), (one_resize(1, {{1, 1}})));
  EXPECT_EQ(replica_nodes(run.state()), std::vector<NodeId>{1});
}

TEST(Reclaim, EqualLossesGoToTheJobThatAttainedLeast) {
  TestRun run = start({.cluster = test_cluster(2, 4),
                       .jobs = {elastic_job(100, 1, 4), elastic_job(100, 1, 4), elastic_job(100, 1, 4)},
                       .places = {{0, {{0, 4}}}, {1, {{1, 2}}}, {2, {{1, 2}}}}});
  const auto decisions = arrive(run, 1, 10);
  EXPECT_EQ(only<Resize>(decisions), (one_resize(1, {{1, 1}})));
}

TEST(Reclaim, AJobThatGaveUpGpusCountsAnewOnAllItsNodes) {
  // Job 0 is at its smallest size after the first replica: on node 1 job 2 is then the cheapest, and job 1 comes first.
  ClusterSpec cluster;
  add_nodes(cluster, 1, 2);
  add_nodes(cluster, 1, 4);
  add_nodes(cluster, 1, 3);
  TestRun run = start({.cluster = cluster,
                       .jobs = {elastic_job(100, 2, 4), elastic_job(100, 1, 4), elastic_job(100, 1, 4)},
                       .places = {{0, {{0, 2}, {1, 1}}}, {1, {{2, 3}}}, {2, {{1, 3}}}}});
  arrive(run, 2, 10);
  EXPECT_EQ(run.sizes(), (std::vector<GpuCount>{2, 2, 3, 0, 0}));
  EXPECT_EQ(replica_nodes(run.state()), (std::vector<NodeId>{0, 2}));
}

// Jobs of these sizes, rising, that scale linearly, on one node: every GPU is worth the same. Which job loses one?
JobId loser(const std::vector<GpuCount>& sizes, Reclaim reclaim, int waiting = 0) {
  Setup setup{.cluster = {}, .jobs = {}, .places = {}};
  setup.serving.reclaim = reclaim;
  GpuCount all = 0;
  for (JobId job = 0; job < sizes.size(); ++job) {
    setup.jobs.push_back(elastic_job(100, 1, 8));
    setup.places[job] = {{0, sizes[job]}};
    all += sizes[job];
  }
  for (; waiting > 0; --waiting) setup.jobs.push_back(elastic_job(100, 1, 8));
  setup.cluster = test_cluster(1, all);
  TestRun run = start(std::move(setup));
  arrive(run, 1, 10);
  JobId job = 0;
  while (job < sizes.size() && run.sizes()[job] == sizes[job]) ++job;
  return job;
}

TEST(Reclaim, LargestSumIsDecidedByTheRoundingOfNumPy) {
  // Expected values: argmax(sum(axis=1)) over the candidates in NumPy 1.24. Sizes over a fair share of 3 GPUs.
  EXPECT_EQ(loser({2, 4, 6}, Reclaim::largest_sum), 2U);
  EXPECT_EQ(loser({2, 4, 6}, Reclaim::least_loss), 1U);
  // Eight terms are added as a tree: one after the other would give 5.
  EXPECT_EQ(loser({1, 1, 1, 1, 4, 4, 4, 5}, Reclaim::largest_sum), 6U);
  // A job that waits is a term as well.
  EXPECT_EQ(loser({1, 1, 3, 3, 3, 4, 4}, Reclaim::largest_sum), 6U);
  EXPECT_EQ(loser({1, 1, 3, 3, 3, 4, 4}, Reclaim::largest_sum, /*waiting=*/1), 3U);
}

TEST(Reclaim, LargestSumTakesWhereTheSumOfSpeedUpsFallsLeast) {
  TestRun run = start({.cluster = test_cluster(2, 2),
                       .jobs = {elastic_job(100, 1, 2), batch_job(100, 2, 10)},
                       .places = {{0, {{0, 2}}}, {1, {{1, 2}}}},
                       .serving = {.reclaim = Reclaim::largest_sum}});
  run.tell(report_of_no_gain(1), 5);
  EXPECT_EQ(only<Resize>(arrive(run, 1, 10)), (one_resize(1, {{1, 1}})));
}

TEST(Reclaim, CountsTheNodesThatAJobIsLeftOn) {
  // Across nodes a step is slow: four GPUs on one node are worth more than three there and one elsewhere.
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4);
  add_nodes(cluster, 1, 1);
  TestRun run = start({.cluster = cluster, .jobs = {batch_job(100, 8, 10)}, .places = {{0, {{0, 4}, {1, 1}}}}});
  JobReport report = report_of_no_gain(0);
  report.throughput = ThroughputParams{0, 0.01, 1, 0, 1e-6, 0, 1};
  run.tell(report, 5);
  arrive(run, 1, 10);
  EXPECT_EQ(run.state().job(0).allocation, (Allocation{{0, 4}}));
  EXPECT_EQ(replica_nodes(run.state()), std::vector<NodeId>{1});
}

TEST(Reclaim, ARigidGangGoesAsAWholeAndAllThatItFreesIsOffered) {
  TestRun run = start({.cluster = test_cluster(2, 4),
                       .jobs = {test_job(4), elastic_job(100, 4, 4)},
                       .places = {{0, {{0, 2}, {1, 2}}}, {1, {{0, 2}, {1, 2}}}}});
  const auto decisions = arrive(run, 3, 10);
  // Job 1 is at its smallest size: as indivisible. Of equal losses that of the first job counts.
  EXPECT_EQ(only<Preempt>(decisions), std::vector<Preempt>{{0}});
  EXPECT_TRUE(only<Resize>(decisions).empty());
  EXPECT_EQ(only<StartReplica>(decisions).size(), 3U);
  EXPECT_EQ(run.sizes()[1], 4);
  EXPECT_EQ(run.state().job(0).phase, JobPhase::waiting);
}

TEST(Reclaim, AStepOfSizesIsTakenAtOnceAndShared) {
  JobSpec stepped = elastic_job(100, 2, 8);
  stepped.gpu_step = 3;
  TestRun run = start({.cluster = test_cluster(2, 4), .jobs = {stepped}, .places = {{0, {{0, 4}, {1, 4}}}}});
  const auto decisions = arrive(run, 3, 10);
  EXPECT_EQ(only<Resize>(decisions), (one_resize(0, {{0, 1}, {1, 4}})));
  EXPECT_EQ(replica_nodes(run.state()), (std::vector<NodeId>{0, 0, 0}));
}

TEST(Reclaim, JobsAtAFixedSizeShrinkOnlyIfAllowed) {
  for (const bool allowed : {false, true}) {
    TestRun run = start({.cluster = test_cluster(1, 4),
                         .jobs = {elastic_job(100, 1, 4, 4)},
                         .places = {{0, {{0, 4}}}},
                         .serving = {.allow_rigid_shrink = allowed},
                         .resizes = false});
    const auto decisions = arrive(run, 1, 10);
    EXPECT_EQ(only<Preempt>(decisions).size(), allowed ? 0U : 1U);
    EXPECT_EQ(only<Resize>(decisions).size(), allowed ? 1U : 0U);
    EXPECT_EQ(run.sizes()[0], allowed ? 3 : 0);
  }
}

TEST(Reclaim, AReplicaOfSeveralGpusIsOnOneNodeWhereThatCostsLeast) {
  // The node of the job that gains nothing from its second and third GPU loses two of them.
  TestRun run = start({.cluster = test_cluster(2, 3),
                       .jobs = {elastic_job(100, 1, 3), batch_job(100, 3, 10)},
                       .places = {{0, {{0, 3}}}, {1, {{1, 3}}}}});
  run.tell(report_of_no_gain(1), 5);
  run.hear(ServiceAdded{0, {.name = "wide", .gpus = 2}});
  run.hear(ServiceDemand{0, 1});
  run.tick(10);
  EXPECT_EQ(run.sizes(), (std::vector<GpuCount>{3, 1}));
  EXPECT_EQ(replica_nodes(run.state()), std::vector<NodeId>{1});
}

TEST(Reclaim, WholeNodesTheOneWithTheFewestTrainingGpusFirst) {
  TestRun run = start({.cluster = test_cluster(3, 4),
                       .jobs = {elastic_job(100, 1, 8), elastic_job(100, 1, 4), test_job(2), test_job(2)},
                       .places = {{0, {{0, 4}, {1, 3}}}, {1, {{2, 2}}}, {2, {{2, 2}}}},
                       .serving = {.reclaim = Reclaim::node}});
  arrive(run, 1, 10);  // one GPU is free
  EXPECT_EQ(replica_nodes(run.state()), std::vector<NodeId>{1});
  arrive(run, 1, 20);
  EXPECT_EQ(replica_nodes(run.state()), (std::vector<NodeId>{1, 1}));
  EXPECT_EQ(run.state().job(0).allocation, (Allocation{{0, 4}}));
  EXPECT_EQ(run.sizes()[1], 2);
}

TEST(Reclaim, RandomSpreadsOverAllThatMayBeTaken) {
  std::map<NodeId, int> counts;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    TestRun run = start({.cluster = test_cluster(3, 4),
                         .jobs = {elastic_job(100, 1, 4), elastic_job(100, 1, 4)},
                         .places = {{0, {{0, 4}}}, {1, {{2, 4}}}},
                         .serving = {.reclaim = Reclaim::random, .seed = seed}});
    arrive(run, 1, 10);
    ++counts[replica_nodes(run.state()).at(0)];
  }
  for (const NodeId node : {0, 1, 2}) {
    EXPECT_GT(counts[node], 65) << node;
    EXPECT_LT(counts[node], 135) << node;
  }
}

TEST(Reclaim, FirstFitDoesNotSpareTraining) {
  TestRun run = start({.cluster = test_cluster(2, 4),
                       .jobs = {elastic_job(100, 1, 4)},
                       .places = {{0, {{0, 4}}}},
                       .serving = {.reclaim = Reclaim::first_fit}});
  arrive(run, 1, 10);
  EXPECT_EQ(replica_nodes(run.state()), std::vector<NodeId>{0});
  EXPECT_EQ(run.sizes()[0], 3);
}

TEST(Reclaim, DemandAboveCapacityWaits) {
  for (const Reclaim reclaim :
       {Reclaim::least_loss, Reclaim::largest_sum, Reclaim::node, Reclaim::random, Reclaim::first_fit}) {
    TestRun run = start({.cluster = test_cluster(1, 2),
                         .jobs = {elastic_job(100, 1, 2)},
                         .places = {{0, {{0, 2}}}},
                         .serving = {.reclaim = reclaim}});
    arrive(run, 3, 10);
    EXPECT_EQ(run.state().job(0).phase, JobPhase::waiting);
    EXPECT_EQ(run.state().waiting_tasks(), std::set<JobId>{3});
    run.tell(JobFinished{1, {}}, 20);
    run.tick(49);
    EXPECT_EQ(run.state().waiting_tasks().size(), 1U) << "the first replica is protected";
    run.tick(50);
    EXPECT_TRUE(run.state().waiting_tasks().empty());
  }
}

TEST(Reclaim, LendingSaysWhereReplicasMayBe) {
  for (const Lending lending : {Lending::none, Lending::pooled, Lending::partitioned}) {
    ClusterSpec cluster;
    add_nodes(cluster, 1, 2, "", "training");
    add_nodes(cluster, 1, 2, "", "serving");
    TestRun run =
        start({.cluster = cluster, .jobs = {elastic_job(100, 1, 2)}, .places = {{0, {{0, 2}}}}, .lending = lending});
    arrive(run, 3, 10);
    // Only pooled serving goes on where training is at home.
    EXPECT_EQ(replica_nodes(run.state()),
              lending == Lending::pooled ? (std::vector<NodeId>{1, 1, 0}) : (std::vector<NodeId>{1, 1}))
        << to_string(lending);
    EXPECT_EQ(run.sizes()[0], lending == Lending::pooled ? 1 : 2) << to_string(lending);
  }
}

TEST(Reclaim, TheServingPoolFirst) {
  for (const bool pool_first : {false, true}) {
    ClusterSpec cluster;
    add_nodes(cluster, 1, 3, "", "training");
    add_nodes(cluster, 1, 2, "", "serving");
    TestRun run = start({.cluster = cluster,
                         .jobs = {elastic_job(100, 1, 2)},
                         .places = {{0, {{1, 2}}}},
                         .serving = {.serving_pool_first = pool_first},
                         .lending = Lending::pooled});
    arrive(run, 3, 10);
    // Training gives way there before anything goes to free GPUs elsewhere.
    EXPECT_EQ(replica_nodes(run.state()), pool_first ? (std::vector<NodeId>{1, 1, 0}) : (std::vector<NodeId>{0, 0, 0}));
    EXPECT_EQ(run.sizes()[0], pool_first ? 0 : 2);
  }
}

TEST(Reclaim, WhatServingLentItTakesBackUnderPartitionedLending) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 2, "", "training");
  add_nodes(cluster, 1, 2, "", "serving");
  TestRun run = start({.cluster = cluster,
                       .jobs = {elastic_job(100, 1, 4)},
                       .places = {{0, {{0, 2}, {1, 2}}}},
                       .lending = Lending::partitioned});
  EXPECT_EQ(run.state().gpus_lent(), 2);
  arrive(run, 3, 10);
  EXPECT_EQ(run.state().job(0).allocation, (Allocation{{0, 2}}));
  EXPECT_EQ(run.state().gpus_lent(), 0);
  EXPECT_EQ(run.state().waiting_tasks().size(), 1U);
}

}  // namespace
}  // namespace ebb::sched
