#include "ebb/sched/plan.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_run.h"

namespace ebb::sched {
namespace {

/// Carries out what the test planned.
class Planned final : public Policy {
 public:
  explicit Planned(std::shared_ptr<TrainingPlan> plan) : plan_(std::move(plan)) {}
  std::unique_ptr<Policy> clone() const override { return std::make_unique<Planned>(*this); }
  bool resizes() const override { return true; }
  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}
  void decide(Turn& turn) override { commit_plan(turn, *plan_); }
  Reason explain(const State& state, JobId job, Time) const override {
    return reason_for(state, job, ReasonCode::no_capacity);
  }

 private:
  std::shared_ptr<TrainingPlan> plan_;
};

class Plan : public ::testing::Test {
 protected:
  void make(ClusterSpec cluster, SchedulerConfig config = {}) {
    run_.emplace(Scheduler(std::move(cluster), std::make_unique<Planned>(plan_), std::move(config)));
  }
  std::vector<Decision> tick(TrainingPlan plan, int t) {
    *plan_ = std::move(plan);
    return run_->tick(t);
  }
  const State& state() const { return run_->state(); }
  static JobSpec task(const std::string& service) {
    JobSpec job = test_job(1, 5);
    job.kind = JobKind::inference;
    job.application = service;
    return job;
  }

  std::shared_ptr<TrainingPlan> plan_ = std::make_shared<TrainingPlan>();
  std::optional<TestRun> run_;
};

TEST_F(Plan, TheViewCountsWhatJobsHoldAsFree) {
  make(test_cluster(3, 4));
  run_->submit(elastic_job(100, 1, 8));
  run_->submit(elastic_job(100, 1, 8));
  tick({{0, {{0, 4}, {1, 1}}}, {1, {}}}, 0);
  const PlanView view = plan_view(state(), at(0));
  EXPECT_EQ(view.jobs, (std::vector<JobId>{0, 1}));
  EXPECT_EQ(view.node_gpus, (std::vector<GpuCount>{4, 4, 4}));
  EXPECT_EQ(view.total, 12);
}

TEST_F(Plan, TheViewLeavesOutWhatIsServedProtectedOrUnusable) {
  make(test_cluster(3, 4));
  run_->submit(task("a"));
  run_->submit(elastic_job(100, 1, 8));
  tick({{1, {{0, 3}, {1, 2}}}}, 0);
  EXPECT_EQ(plan_view(state(), at(0)).node_gpus, (std::vector<GpuCount>{3, 4, 4}));
  run_->tell(JobFinished{0, {}}, 10);
  EXPECT_EQ(plan_view(state(), at(39)).node_gpus, (std::vector<GpuCount>{3, 4, 4}));
  EXPECT_EQ(plan_view(state(), at(40)).node_gpus, (std::vector<GpuCount>{4, 4, 4}));
  EXPECT_EQ(plan_view(state(), at(40)).total, 12);
  run_->tell(NodeDrained{2}, 50);
  EXPECT_EQ(plan_view(state(), at(50)).node_gpus, (std::vector<GpuCount>{4, 4, 0}));
  // A job on a node that drains stays as it is.
  run_->tell(NodeDrained{1}, 60);
  const PlanView view = plan_view(state(), at(60));
  EXPECT_TRUE(view.jobs.empty());
  EXPECT_EQ(view.total, 0) << "no job of the view may use anything";
}

TEST_F(Plan, TheViewHasNothingOfPoolsThatTrainingMayNotUse) {
  for (const auto& [lending, total] : {std::pair{Lending::none, 4}, {Lending::pooled, 8}, {Lending::partitioned, 8}}) {
    ClusterSpec cluster;
    add_nodes(cluster, 1, 4, "", "training");
    add_nodes(cluster, 1, 4, "", "serving");
    SchedulerConfig config;
    config.lending = lending;
    make(cluster, config);
    run_->submit(elastic_job(100, 1, 8));
    tick({}, 0);
    EXPECT_EQ(plan_view(state(), at(0)).total, total) << to_string(lending);
  }
}

TEST_F(Plan, PackedTakesWholeNodesThenTheTightest) {
  make(test_cluster(4, 4));
  run_->submit(elastic_job(100, 1, 16));
  tick({}, 0);
  std::vector<GpuCount> left{3, 2, 4, 2};
  EXPECT_EQ(place_packed(state(), 0, 2, left), (Allocation{{1, 2}}));
  EXPECT_EQ(place_packed(state(), 0, 5, left), (Allocation{{2, 4}, {3, 1}}));
  EXPECT_EQ(left, (std::vector<GpuCount>{3, 0, 0, 1}));
  EXPECT_EQ(place_packed(state(), 0, 9, left), (Allocation{{0, 3}, {3, 1}})) << "all that there is";
  left = {3, 2, 4, 3};
  EXPECT_EQ(place_emptiest(state(), 0, 5, left), (Allocation{{2, 4}, {0, 1}}));
}

TEST_F(Plan, PackedKeepsToOneGpuType) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "a100");
  add_nodes(cluster, 2, 4, "t4");
  make(cluster);
  run_->submit(elastic_job(100, 1, 12));
  tick({}, 0);
  std::vector<GpuCount> left{4, 3, 4};
  EXPECT_EQ(place_packed(state(), 0, 9, left), (Allocation{{2, 4}, {1, 3}}));
}

TEST_F(Plan, CommitStartsResizesAndPreemptsAtOnce) {
  make(test_cluster(2, 4));
  for (int j = 0; j < 4; ++j) run_->submit(elastic_job(100, 1, 8));
  tick({{0, {{0, 4}}}, {1, {{1, 2}}}, {2, {{1, 2}}}, {3, {}}}, 0);
  const auto decisions = tick({{0, {{0, 2}}}, {1, {{1, 2}, {0, 1}}}, {2, {}}, {3, {{0, 1}, {1, 2}}}}, 10);
  EXPECT_EQ(decisions, (std::vector<Decision>{Preempt{2}, Resize{{{0, {{0, 2}}}, {1, {{1, 2}, {0, 1}}}}},
                                              Start{3, {{0, 1}, {1, 2}}}}));
  EXPECT_EQ(run_->sizes(), (std::vector<GpuCount>{2, 3, 0, 3}));
}

TEST_F(Plan, TheSameGpusInAnotherOrderAreNoChangeUnlessOrderCounts) {
  for (const bool ordered : {false, true}) {
    SchedulerConfig config;
    config.ordered_placements = ordered;
    make(test_cluster(2, 4), config);
    run_->submit(elastic_job(100, 1, 8));
    tick({{0, {{0, 4}, {1, 1}}}}, 0);
    EXPECT_EQ(tick({{0, {{1, 1}, {0, 4}}}}, 10).size(), ordered ? 1U : 0U);
  }
}

TEST_F(Plan, SizesThatAreNotLegalAreCut) {
  make(test_cluster(2, 4));
  JobSpec even = elastic_job(100, 2, 6);
  even.gpu_step = 2;
  run_->submit(even);
  run_->submit(test_job(4));
  const auto decisions = tick({{0, {{0, 4}, {1, 1}}}, {1, {{1, 3}}}}, 0);
  EXPECT_EQ(decisions, (std::vector<Decision>{Start{0, {{0, 4}}}}));
}

TEST_F(Plan, SleepersStayWhereTheyAreNotInTheWay) {
  make(test_cluster(1, 3));
  for (const char* service : {"a", "b", "c"}) run_->submit(task(service));
  tick({}, 0);
  for (const JobId id : {0, 1, 2}) run_->tell(JobFinished{id, {}}, 10);
  run_->submit(elastic_job(100, 1, 3));
  const auto decisions = tick({{3, {{0, 2}}}}, 100);
  EXPECT_EQ(decisions, (std::vector<Decision>{StopReplica{1}, StopReplica{2}, Start{3, {{0, 2}}}}));
}

TEST_F(Plan, StrippedTrainingLeavesNodesThatHostReplicas) {
  SchedulerConfig config;
  config.serving.strip = true;
  make(test_cluster(2, 4), config);
  run_->submit(task("a"));
  run_->submit(elastic_job(100, 1, 8));
  const auto decisions = tick({{1, {{0, 3}, {1, 4}}}}, 0);
  EXPECT_EQ(decisions.back(), (Decision{Start{1, {{1, 4}}}}));
}

}  // namespace
}  // namespace ebb::sched
