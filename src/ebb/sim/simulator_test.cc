#include "ebb/sim/simulator.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_cluster.h"
#include "ebb/sim/recorder.h"
#include "ebb/sim/series.h"

namespace ebb::sim {
namespace {

using sched::test_cluster;
using sched::test_job;

std::chrono::seconds s(int seconds) {
  return std::chrono::seconds(seconds);
}

/// Starts a waiting job wherever it fits, newest first; what it does beyond that, tests choose.
class TestPolicy : public sched::Policy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<TestPolicy>(*this); }
  void on_queued(const sched::State&, JobId job, sched::Queued, Time) override { waiting_.push_back(job); }
  void decide(sched::Turn& turn) override {
    while (!waiting_.empty()) {
      const auto place = sched::make_placement("count").value()->place(
          turn.state().capacity().free(), turn.state().capacity(), 1, turn.state().job(waiting_.back()).spec.gpus);
      if (!place) return;
      turn.start(waiting_.back(), *place);
      waiting_.pop_back();
    }
  }
  Reason explain(const sched::State& state, JobId job, Time) const override {
    return sched::reason_for(state, job, ReasonCode::no_capacity);
  }

 protected:
  std::vector<JobId> waiting_;
};

class LazyPolicy final : public TestPolicy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<LazyPolicy>(*this); }
  void decide(sched::Turn&) override {}
};

class RestlessPolicy final : public TestPolicy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<RestlessPolicy>(*this); }
  void decide(sched::Turn& turn) override { turn.wake_at(turn.now()); }
};

class GreedyMistake final : public TestPolicy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<GreedyMistake>(*this); }
  void decide(sched::Turn& turn) override {
    for (const JobId job : waiting_) turn.start(job, {{0, turn.state().job(job).spec.gpus}});
  }
};

/// Starts a job only after a planner said so, and keeps nobody longer than ten seconds.
class PlanningPolicy final : public TestPolicy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<PlanningPolicy>(*this); }
  void on_queued(const sched::State&, JobId job, sched::Queued, Time) override { asked_.push_back(job); }
  void on_plan_ready(const sched::State&, const PlanReady& answer, Time) override {
    EXPECT_EQ(answer.answer, fmt::format("start {}", answer.plan));
    waiting_.push_back(static_cast<JobId>(answer.plan));
  }
  void decide(sched::Turn& turn) override {
    for (const JobId job : asked_) turn.request_plan(job, fmt::format("{}", job));
    asked_.clear();
    TestPolicy::decide(turn);
  }
  std::string plan(const std::string& input) const override { return "start " + input; }

 private:
  std::vector<JobId> asked_;
};

class ThrashingPolicy final : public TestPolicy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<ThrashingPolicy>(*this); }
  void decide(sched::Turn& turn) override {
    for (const JobId job : std::vector<JobId>(turn.state().holding())) turn.preempt(job);
    const JobId next = waiting_.empty() ? 0 : waiting_.front();
    if (!waiting_.empty()) {
      waiting_.erase(waiting_.begin());
      turn.start(next, {{0, 4}});
    }
    turn.wake_at(turn.now() + s(1));
  }
};

template <typename P>
sched::Registry registry_with() {
  sched::Registry registry;
  registry.add({.name = "test",
                .summary = "",
                .source = "",
                .options = {},
                .make = [](const sched::PolicyArguments&) -> Result<std::unique_ptr<sched::Policy>> {
                  return std::make_unique<P>();
                }});
  return registry;
}

Workload jobs(const std::vector<std::tuple<int, int, GpuCount>>& rows) {
  Workload workload;
  for (const auto& [submit, run, gpus] : rows) {
    JobSpec job = test_job(gpus, run);
    job.submit = sched::at(submit);
    job.name = fmt::format("{}", workload.jobs.size());
    workload.jobs.push_back(job);
  }
  return workload;
}

template <typename P>
Result<SimResult> run(const Workload& workload, SimOptions options = {}) {
  options.policy = "test";
  options.check_invariants = true;
  return simulate(test_cluster(1, 4), workload, options, registry_with<P>());
}

TEST(Simulator, PendingHeldAndFiguresByHand) {
  // 0 runs 0..100 on all GPUs; 1 and 2 wait and then run side by side.
  const auto result = run<TestPolicy>(jobs({{0, 100, 4}, {10, 50, 2}, {20, 30, 2}})).value();
  EXPECT_EQ(*result.jobs[1].end, sched::at(150));
  EXPECT_EQ(result.jobs[1].pending, s(90));
  EXPECT_EQ(result.jobs[2].pending, s(80));
  EXPECT_EQ(result.jobs[1].reason, "no_capacity");
  EXPECT_EQ(result.jobs[0].reason, "");
  const Summary& summary = result.summary;
  EXPECT_DOUBLE_EQ(summary.training.avg_s, (100 + 140 + 110) / 3.0);
  EXPECT_DOUBLE_EQ(summary.training.p50_s, 110);
  EXPECT_DOUBLE_EQ(summary.training.p99_s, 140);
  EXPECT_DOUBLE_EQ(summary.makespan_s, 150);
  EXPECT_DOUBLE_EQ(summary.gpu_seconds, 400 + 100 + 60);
  EXPECT_DOUBLE_EQ(summary.utilisation, 560.0 / 600);
  // Job 2 lives 20..130 with 3 jobs active until 100, then 2: N = (80 x 3 + 30 x 2) / 110, k = 2, G = 4.
  EXPECT_DOUBLE_EQ(result.jobs[2].rho, 110 / (30 * (2 * (300.0 / 110) / 4)));
}

TEST(Simulator, RoundsDecideAtMultiplesOfTimeZero) {
  SimOptions options;
  options.round = s(60);
  const auto result = run<TestPolicy>(jobs({{10, 5, 4}, {70, 5, 4}, {180, 5, 4}}), options).value();
  EXPECT_EQ(*result.jobs[0].start, sched::at(60));
  EXPECT_EQ(*result.jobs[0].end, sched::at(65));  // ends are not rounded
  EXPECT_EQ(*result.jobs[1].start, sched::at(120));
  EXPECT_EQ(*result.jobs[2].start, sched::at(180));  // in time for the tick of its own moment
  EXPECT_EQ(result.jobs[0].reason, "waiting_for_tick");
  EXPECT_EQ(result.jobs[2].reason, "");
}

TEST(Simulator, ResizeCostIsForResumesUnlessFirstStartsAreCharged) {
  SimOptions options;
  options.resize_cost.fixed = s(30);
  spec::NodeOutage outage;
  outage.at = sched::at(40);
  outage.lasts = s(10);
  options.faults.outages = {outage};
  options.faults.checkpoint_interval = s(15);
  // 40 s of work, the checkpoint at 30 survives; back at 50, productive at 80, 70 s left.
  EXPECT_EQ(*run<TestPolicy>(jobs({{0, 100, 4}}), options).value().jobs[0].end, sched::at(150));
  options.faults = {};
  EXPECT_EQ(*run<TestPolicy>(jobs({{0, 100, 4}}), options).value().jobs[0].end, sched::at(100));
  options.set = {{"charge_first_start", "true"}};
  EXPECT_EQ(*run<TestPolicy>(jobs({{0, 100, 4}}), options).value().jobs[0].end, sched::at(130));
}

TEST(Simulator, AJobWithoutCheckpointStartsAgainFromNothing) {
  SimOptions options;
  spec::NodeOutage outage;
  outage.at = sched::at(90);
  outage.lasts = s(10);
  options.faults.outages = {outage};
  const auto result = run<TestPolicy>(jobs({{0, 100, 4}}), options).value();
  EXPECT_EQ(*result.jobs[0].end, sched::at(200));
  EXPECT_EQ(result.summary.restarts, 1U);
  EXPECT_EQ(result.summary.preemptions, 0U);
}

TEST(Simulator, AStallIsAnErrorThatShowsTheState) {
  const auto result = run<LazyPolicy>(jobs({{0, 100, 4}, {5, 1, 1}}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::aborted);
  EXPECT_NE(result.error().message.find("stalled at 5 s"), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find("2 jobs waiting"), std::string::npos);
  EXPECT_NE(result.error().message.find("4 of 4 GPUs are free"), std::string::npos);
}

TEST(Simulator, DecidingAtOneTimeForEverIsAnError) {
  const auto result = run<RestlessPolicy>(jobs({{7, 100, 4}}));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("gets nowhere at 7 s"), std::string::npos) << result.error().message;
}

TEST(Simulator, PreemptingBeforeAnythingIsDoneForEverIsAnError) {
  SimOptions options;
  options.resize_cost.fixed = s(30);
  options.set = {{"charge_first_start", "true"}};
  const auto result = run<ThrashingPolicy>(jobs({{0, 100, 4}, {0, 100, 4}}), options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("gets nowhere"), std::string::npos) << result.error().message;
}

TEST(Simulator, ADecisionThatBreaksAnInvariantIsRefusedByName) {
  const auto result = run<GreedyMistake>(jobs({{0, 100, 3}, {0, 100, 3}}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::internal);
  EXPECT_NE(result.error().message.find("job 1 ('1') would take 3 GPUs"), std::string::npos) << result.error().message;
}

TEST(Simulator, LongWorkIsAskedForAndAnsweredLater) {
  SimOptions options;
  options.set = {{"plan_delay", "5s"}};
  const auto result = run<PlanningPolicy>(jobs({{0, 10, 4}, {2, 10, 4}}), options).value();
  EXPECT_EQ(*result.jobs[0].start, sched::at(5));
  EXPECT_EQ(*result.jobs[1].start, sched::at(15));
}

TEST(Series, KeepsTimeWeightedMeansAtAnyLength) {
  SeriesBuilder builder(sched::at(100));
  builder.set(sched::at(50), 7);  // before the start
  builder.set(sched::at(100), 2);
  builder.set(sched::at(101), 4);
  Series series = SeriesBuilder(builder).finish(sched::at(102));
  EXPECT_EQ(series.values, (std::vector<double>{2, 4}));
  builder.set(sched::at(100 + 1'000'000), 0);
  series = builder.finish(sched::at(100 + 2'000'000));
  EXPECT_LE(series.values.size(), static_cast<std::size_t>(SeriesBuilder::kBuckets));
  double sum = 0;
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const double left = 2'000'000 - static_cast<double>(i) * to_seconds(series.bucket);
    sum += series.values[i] * std::min(to_seconds(series.bucket), left);
  }
  EXPECT_NEAR(sum, 2 + 4 * 999'999.0, 1e-3);
}

TEST(Distribution, PercentilesAreByNearestRank) {
  std::vector<double> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back(i);
  const Distribution d = distribution_of(hundred);
  EXPECT_EQ(d.p50_s, 50);
  EXPECT_EQ(d.p99_s, 99);
  EXPECT_EQ(d.avg_s, 50.5);
  EXPECT_EQ(distribution_of({3}).p99_s, 3);
  EXPECT_EQ(distribution_of({}).count, 0U);
}

}  // namespace
}  // namespace ebb::sim
