// Services, inference tasks and lent GPUs in the simulator, on cases small enough to compute by hand. Two nodes of one
// GPU: node 0 trains, node 1 serves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/policies/all.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/cluster.h"

namespace ebb {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class LendingTest : public ::testing::Test {
 protected:
  LendingTest() {
    options_.policy = "fifo";
    options_.check_invariants = true;
  }

  void add(int submit, int run, JobKind kind, const std::string& application = "") {
    JobSpec job;
    job.name = fmt::format("{}", workload_.jobs.size());
    job.kind = kind;
    job.application = application;
    job.gpus = 1;
    job.submit = Time(seconds(submit));
    job.run_time = seconds(run);
    workload_.jobs.push_back(job);
  }
  void train(int submit, int run) { add(submit, run, JobKind::training); }
  void task(int submit, int run, const std::string& service = "chat") { add(submit, run, JobKind::inference, service); }
  /// 100 ms a request, within 1 s: one replica serves 1 request a second, two serve 12.
  void service(const std::vector<std::pair<int, double>>& rates) {
    ServiceLoad load;
    load.spec.name = fmt::format("service-{}", workload_.services.size());
    load.spec.start_delay = seconds(10);
    load.spec.service_time = std::chrono::milliseconds(100);
    load.spec.target_latency = seconds(1);
    for (const auto& [at, rate] : rates) load.requests.push_back({Time(seconds(at)), rate});
    workload_.services.push_back(load);
  }
  void set(const char* key, const char* value) { options_.set.emplace_back(key, value); }

  sim::SimResult run(const std::string& cluster = "2x1") const {
    auto result = sim::simulate(spec::parse_cluster(cluster).value(), workload_, options_, policies::all());
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or(sim::SimResult());
  }
  static void expect_seconds(const sim::SimResult& result, const std::vector<double>& expected) {
    const sim::GpuSeconds& by = result.summary.gpu_seconds_by_state;
    const std::vector<double> is = {by.training, by.resizing, by.starting, by.serving,
                                    by.protect,  by.sleeping, by.idle};
    for (std::size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], expected[i], 1e-6) << i;
  }
  static double end(const sim::SimResult& result, std::size_t job) {
    return to_seconds(result.jobs[job].end.value_or(kEndOfTime).time_since_epoch());
  }

  Workload workload_;
  sim::SimOptions options_;
};

// Cold: 6 s (the default). Then it is kept for 30 s, after a reuse for 45; at 100 s it sleeps, but is warm.
TEST_F(LendingTest, ColdAndWarmTasks) {
  task(0, 10);
  task(20, 10);
  task(100, 10);
  const auto result = run();
  EXPECT_EQ(end(result, 0), 16);
  EXPECT_EQ(end(result, 1), 30);
  EXPECT_EQ(end(result, 2), 110);
  const sim::InferenceFigures& inference = result.summary.inference;
  EXPECT_EQ(inference.count, 3U);
  EXPECT_DOUBLE_EQ(inference.avg_extra_s, 2);
  EXPECT_DOUBLE_EQ(inference.p99_extra_s, 6);
  EXPECT_DOUBLE_EQ(inference.in_target_share, 2.0 / 3);
  EXPECT_EQ(result.summary.training.count, 0U);
  expect_seconds(result, {0, 0, 6, 30, 4 + 45, 25, 110});
  EXPECT_THAT(result.summary.warnings, ::testing::IsEmpty());
}

TEST_F(LendingTest, KeepAliveConstants) {
  set("keep_alive_base", "5s");
  set("keep_alive_bonus", "4s");
  set("keep_alive_limit", "12s");
  set("keep_alive_factor", "2");
  for (const int at : {0, 10, 20, 30, 40}) task(at, 0);
  // The first ends at 6: protected for 10 s; then 18, 24, 24 and 24.
  const auto result = run();
  expect_seconds(result, {0, 0, 6, 0, 34, 0, 40});
  EXPECT_DOUBLE_EQ(result.summary.inference.avg_extra_s, 6 / 5.0);
}

TEST_F(LendingTest, WithoutKeepAliveEveryTaskIsCold) {
  set("keep_alive", "none");
  task(0, 10);
  task(20, 10);
  const auto result = run();
  EXPECT_EQ(end(result, 1), 36);
  expect_seconds(result, {0, 0, 12, 20, 0, 0, 40});
}

TEST_F(LendingTest, LearnedKeepAliveCoversMostGaps) {
  set("keep_alive", "learned");
  set("keep_alive_limit", "100s");
  task(0, 0);
  task(60, 0);
  task(120, 0);  // from the first gap on, 60 s
  const auto result = run();
  // Cold start 0..6, kept 30 s (nothing known) to 36; then to 120.
  expect_seconds(result, {0, 0, 6, 0, 30 + 60, 24, 120});
}

TEST_F(LendingTest, TheStartDelayIsThatOfTheApplication) {
  task(0, 10, "infer-bert-1");
  EXPECT_EQ(end(run(), 0), 18);
}

// The second service waits until nobody protects the only GPU: 16 + 30.
TEST_F(LendingTest, ATaskWaitsForASleepingReplica) {
  task(0, 10, "a");
  task(0, 10, "b");
  const auto result = run();
  EXPECT_EQ(end(result, 1), 62);
  EXPECT_DOUBLE_EQ(result.summary.inference.p99_extra_s, 52);
  // Both wanted a replica until the first task ended.
  ASSERT_EQ(result.summary.warnings.size(), 1U);
  EXPECT_EQ(result.summary.warnings[0],
            "inference needed more than the GPUs that may serve for 16 s: up to 2 GPUs where there were 1; 1 tasks "
            "waited meanwhile");
}

TEST_F(LendingTest, TrainingGetsAReplicasGpuWhenItSleeps) {
  options_.lending = Lending::partitioned;
  train(0, 1000);
  task(0, 10);
  train(10, 10);
  const auto result = run();
  EXPECT_EQ(end(result, 2), 56);  // the task ends at 16, its replica is kept until 46
  EXPECT_EQ(result.summary.loans.count, 1U);
  EXPECT_DOUBLE_EQ(result.summary.loans.gpu_seconds, 10);
  EXPECT_EQ(result.summary.loans.reclaims, 0U);
}

TEST_F(LendingTest, WithoutLendingServingGpusStayIdle) {
  train(0, 100);
  train(0, 100);
  task(0, 10);
  const auto result = run();
  EXPECT_EQ(result.summary.makespan_s, 200);
  EXPECT_EQ(result.summary.loans.count, 0U);
}

/// Two jobs of 100 s train on both GPUs; a task at 50 s takes the lent one back.
class Reclaiming : public LendingTest {
 protected:
  Reclaiming() {
    options_.lending = Lending::partitioned;
    train(0, 100);
    train(0, 100);
    task(50, 10);
  }
  static double last_end(const sim::SimResult& result) { return std::max(end(result, 0), end(result, 1)); }
};

TEST_F(Reclaiming, AtOnce) {
  const auto result = run();
  EXPECT_EQ(end(result, 2), 66);
  EXPECT_EQ(last_end(result), 146);  // lent again when the replica is no longer kept
  EXPECT_EQ(result.summary.loans.count, 2U);
  EXPECT_DOUBLE_EQ(result.summary.loans.gpu_seconds, 50 + 50);
  EXPECT_EQ(result.summary.loans.reclaims, 1U);
  EXPECT_DOUBLE_EQ(result.summary.loans.reclaim_p99_s, 0);
  EXPECT_EQ(result.summary.preemptions, 1U);
}

TEST_F(Reclaiming, AfterADrainWithinTheBound) {
  set("drain", "5s");
  const auto result = run();
  EXPECT_EQ(end(result, 2), 71);
  EXPECT_EQ(last_end(result), 150);  // nothing is lost but the waiting
  EXPECT_DOUBLE_EQ(result.summary.inference.avg_extra_s, 11);
  const sim::LoanFigures& loans = result.summary.loans;
  EXPECT_DOUBLE_EQ(loans.gpu_seconds, 55);
  EXPECT_DOUBLE_EQ(loans.reclaim_p50_s, 5);
  EXPECT_EQ(loans.forced, 0U);
  expect_seconds(result, {200, 5, 6, 10, 30, 49, 0});
}

TEST_F(Reclaiming, ByForceAtTheBound) {
  set("drain", "20s");
  set("reclaim_bound", "10s");
  const auto result = run();
  EXPECT_EQ(end(result, 2), 76);
  EXPECT_EQ(last_end(result), 200);  // from the beginning again, at 100
  EXPECT_DOUBLE_EQ(result.summary.loans.gpu_seconds, 60);
  EXPECT_DOUBLE_EQ(result.summary.loans.reclaim_p99_s, 10);
  EXPECT_EQ(result.summary.loans.forced, 1U);
  ASSERT_EQ(result.summary.warnings.size(), 1U);
  EXPECT_THAT(result.summary.warnings[0], HasSubstr("1 times a job took longer than reclaim_bound"));
}

TEST_F(Reclaiming, ByForceBackToTheLastCheckpoint) {
  set("drain", "20s");
  set("reclaim_bound", "10s");
  options_.faults.checkpoint_interval = seconds(20);
  EXPECT_EQ(last_end(run()), 160);  // 40 s were saved
}

// The node fails in the very second in which its GPU comes free, or its replica is ready.
TEST_F(Reclaiming, AFaultAtTheSameMoment) {
  set("drain", "5s");
  for (const int at : {50, 55, 61, 71}) {
    options_.faults.outages = {{.at = Time(seconds(at)), .node = 1, .lasts = seconds(2)}};
    const auto result = run();
    EXPECT_EQ(result.summary.jobs_completed, 3U) << at;
    if (at == 71) {
      EXPECT_EQ(end(result, 2), 71);  // what ends at this moment has ended
    } else {
      EXPECT_EQ(end(result, 2), at + 2 + 16) << at;
    }
  }
}

TEST_F(Reclaiming, PooledServicesTakeAnyGpu) {
  options_.lending = Lending::pooled;
  task(50, 10, "other");
  const auto result = run();
  EXPECT_EQ(end(result, 2), 66);
  EXPECT_EQ(end(result, 3), 66);
  EXPECT_EQ(result.summary.preemptions, 2U);
}

// Ready at 110: ten requests of the first hundred come too early. Kept until 230, asleep until it wakes at 300.
TEST_F(LendingTest, DemandComesAndGoes) {
  train(0, 400);
  service({{100, 1}, {200, 0}, {300, 1}, {400, 0}});
  const auto result = run();
  EXPECT_EQ(result.summary.makespan_s, 400);
  EXPECT_NEAR(result.summary.inference.requests, 200, 1e-9);
  EXPECT_NEAR(result.summary.inference.in_target_share, 0.95, 0.001);
  expect_seconds(result, {400, 0, 10, 190, 30, 70, 100});
}

TEST_F(LendingTest, DemandBeforeTheFirstJobCounts) {
  train(300, 10);
  service({{0, 1}, {200, 0}});
  const auto result = run();
  expect_seconds(result, {10, 0, 10, 190, 30, 80, 300});
}

TEST_F(LendingTest, AServiceThatNeedsMoreThanThereIs) {
  train(0, 500);
  service({{0, 12}, {100, 1}, {200, 0}});
  const auto result = run();
  ASSERT_EQ(result.summary.warnings.size(), 1U);
  EXPECT_THAT(result.summary.warnings[0], HasSubstr("for 100 s: up to 2 GPUs where there were 1"));
  EXPECT_NEAR(result.summary.inference.requests, 1300, 1e-9);
  EXPECT_NEAR(result.summary.inference.in_target_share, 100.0 / 1300, 0.001);  // one replica cannot keep up
}

// 10 requests are in service at a time, so it takes more than 10 replicas; the scheduler is asked for 4, twice the
// cluster.
TEST_F(LendingTest, TheNeedIsNotThatOfTheCluster) {
  service({{0, 100}, {100, 0}});
  const auto result = run();
  ASSERT_EQ(result.summary.warnings.size(), 1U);
  EXPECT_THAT(result.summary.warnings[0], HasSubstr("for 100 s: at its peak at least 11 GPUs where there were 1"));
}

TEST_F(LendingTest, ServicesPushTrainingAsideAndGiveBack) {
  options_.lending = Lending::partitioned;
  train(0, 1000);
  train(0, 300);
  service({{100, 1}, {200, 0}, {400, 0}});
  const auto result = run();
  // Lent 0..100; serves until 200, kept until 230: then it is lent again.
  EXPECT_EQ(std::min(end(result, 0), end(result, 1)), 430);
  EXPECT_EQ(result.summary.loans.count, 2U);
  EXPECT_DOUBLE_EQ(result.summary.loans.gpu_seconds, 300);
}

/// Remembers when it was asked to decide.
class Listening final : public sched::Policy {
 public:
  explicit Listening(std::vector<double>& times) : times_(times) {}
  std::unique_ptr<Policy> clone() const override { return std::make_unique<Listening>(*this); }
  void on_queued(const sched::State&, JobId, sched::Queued, Time) override {}
  void decide(sched::Turn& turn) override { times_.push_back(to_seconds(turn.now().time_since_epoch())); }
  Reason explain(const sched::State& state, JobId job, Time) const override {
    return sched::reason_for(state, job, ReasonCode::no_capacity);
  }

 private:
  std::vector<double>& times_;
};

TEST_F(LendingTest, AReplicaThatGetsReadyIsNoReasonToDecide) {
  static std::vector<double> times;
  sched::Registry registry;
  registry.add({.name = "listening",
                .summary = "",
                .source = "",
                .options = {},
                .make = [](const sched::PolicyArguments&) -> Result<std::unique_ptr<sched::Policy>> {
                  return std::make_unique<Listening>(times);
                }});
  options_.policy = "listening";
  task(0, 10);
  task(6, 10);
  task(30, 10);
  ASSERT_TRUE(sim::simulate(spec::parse_cluster("4x1").value(), workload_, options_, registry));
  // Ready at 6 (with an arrival) and at 12 (alone); the tasks end at 16, 22 and 40.
  EXPECT_EQ(times, (std::vector<double>{0, 6, 16, 22, 30, 40}));
}

TEST_F(LendingTest, ManyPointsOfDemandWithoutJobsAreNoLivelock) {
  train(0, 1);
  std::vector<std::pair<int, double>> rates;
  for (int i = 0; i < 150'000; ++i) rates.emplace_back(10 + i, 0);
  service(rates);
  EXPECT_EQ(run().summary.jobs_completed, 1U);
}

}  // namespace
}  // namespace ebb
