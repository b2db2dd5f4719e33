#include "ebb/sched/serving.h"

#include <gtest/gtest.h>

#include "ebb/sched/scheduler.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::sched {
namespace {

/// Trains nothing.
class Idle final : public Policy {
 public:
  std::unique_ptr<Policy> clone() const override { return std::make_unique<Idle>(*this); }
  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}
  void decide(Turn&) override {}
  Reason explain(const State& state, JobId job, Time) const override {
    return reason_for(state, job, ReasonCode::no_capacity);
  }
};

using std::chrono::seconds;

class ServingTest : public ::testing::Test {
 protected:
  void make(GpuCount gpus, const ServingOptions& options = {}) {
    SchedulerConfig config;
    config.serving = options;
    scheduler_.emplace(test_cluster(1, gpus), std::make_unique<Idle>(), config);
  }
  const State& state() const { return scheduler_->state(); }
  ReplicaPhase phase(ReplicaId id, int t) const { return state().replica(id).phase(at(t)); }

  // Decisions of a step without a tick.
  const std::vector<Decision>& step(std::vector<Event> events, int t) {
    // Every batch that services could use ends with a Timer.
    const bool timed = std::any_of(events.begin(), events.end(), [](const Event& event) {
      return std::holds_alternative<Timer>(event) || std::holds_alternative<Tick>(event);
    });
    if (!timed) events.emplace_back(Timer{});
    const auto done = scheduler_->step(events, at(t), result_);
    EXPECT_TRUE(done) << done.error().message;
    const auto checked = check_invariants(state());
    EXPECT_TRUE(checked) << checked.error().message;
    return result_.decisions;
  }
  Event task(const std::string& service = "a") {
    JobSpec job = test_job(1, 5);
    job.kind = JobKind::inference;
    job.application = service;
    return JobSubmitted{next_++, job};
  }
  // A task is served from t on, the replica warm or cold, and ends a second later.
  void play_task(int t) {
    const JobId id = next_;
    step({task()}, t);
    for (const Holder holder : scheduler_->take_launchable()) step({ReplicaReady{holder.id}}, t);
    ASSERT_EQ(state().job(id).phase, JobPhase::running);
    step({JobFinished{id, {}}}, t + 1);
  }

  std::optional<Scheduler> scheduler_;
  StepResult result_;
  JobId next_ = 0;
};

TEST_F(ServingTest, AReplicasLife) {
  make(1);
  EXPECT_EQ(step({task()}, 10), (std::vector<Decision>{StartReplica{0, 0, {0, 1}, 0, Duration(seconds(30))}}));
  EXPECT_EQ(state().job(0).phase, JobPhase::starting);
  EXPECT_EQ(phase(0, 14), ReplicaPhase::starting);
  step({ReplicaReady{0}}, 14);
  EXPECT_EQ(state().job(0).phase, JobPhase::running);
  EXPECT_EQ(state().job(0).pending, seconds(4));
  EXPECT_EQ(phase(0, 14), ReplicaPhase::serving);
  step({JobFinished{0, {}}}, 20);
  EXPECT_EQ(phase(0, 20), ReplicaPhase::protect);
  EXPECT_EQ(phase(0, 49), ReplicaPhase::protect);
  EXPECT_EQ(phase(0, 50), ReplicaPhase::sleep);
  const GpuTimes times = state().gpu_times(at(60));
  EXPECT_EQ(times.starting, GpuNanoseconds{4'000'000'000});
  EXPECT_EQ(times.serving, GpuNanoseconds{6'000'000'000});
  EXPECT_EQ(times.protect, GpuNanoseconds{30'000'000'000});
  EXPECT_EQ(times.sleep, GpuNanoseconds{10'000'000'000});
}

TEST_F(ServingTest, EveryReuseWhileProtectedKeepsItLonger) {
  make(1);
  play_task(0);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(30));
  int t = 10;
  for (const int keep : {45, 60, 75, 90, 105, 120, 120}) {
    play_task(t);
    EXPECT_EQ(state().replica(0).keep_alive, seconds(keep)) << t;
    t += 10;
  }
  EXPECT_EQ(state().replica(0).hits, 7U);
  // Asleep since 191 s: its count begins anew.
  EXPECT_EQ(step({task()}, 300), (std::vector<Decision>{Serve{8, 0, Duration(seconds(30))}}));
  EXPECT_EQ(state().replica(0).hits, 0U);
  EXPECT_EQ(state().job(8).pending, Duration(0));
}

TEST_F(ServingTest, KeepAliveTimesAreOptionsAndScaled) {
  make(1, {.factor = 8, .base = seconds(10), .bonus = seconds(5), .limit = seconds(20)});
  play_task(0);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(80));
  play_task(10);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(120));
  for (int t = 20; t < 60; t += 10) play_task(t);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(160));
}

TEST_F(ServingTest, WithoutKeepAliveAReplicaStopsOnceItServed) {
  make(1, {.keep_alive = KeepAlive::none});
  step({task()}, 0);
  step({ReplicaReady{0}}, 4);
  EXPECT_EQ(step({JobFinished{0, {}}}, 9), std::vector<Decision>{StopReplica{0}});
  step({ReplicaStopped{0}}, 9);
  EXPECT_TRUE(state().live_replicas().empty());
}

TEST_F(ServingTest, LearnedKeepAliveCoversNineOfTenGaps) {
  make(4, {.keep_alive = KeepAlive::learned, .limit = seconds(300)});
  play_task(0);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(30)) << "no gap was seen";
  play_task(10);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(30)) << "not below the base";
  int t = 10;
  for (int k = 0; k < 10; ++k) play_task(t += 50);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(50));
  play_task(t += 3600);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(50)) << "one gap of twelve";
  play_task(t += 3600);
  EXPECT_EQ(state().replica(0).keep_alive, seconds(300)) << "two of thirteen, and not above the limit";
}

// For each number of replicas: from the fall of the demand below it until it is reached again.
TEST_F(ServingTest, LearnedKeepAliveOfADemandIsItsPauses) {
  make(2, {.keep_alive = KeepAlive::learned, .limit = seconds(300)});
  step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 1}}, 0);
  step({ReplicaReady{0}}, 5);
  EXPECT_EQ(step({ServiceDemand{0, 0}}, 900), (std::vector<Decision>{RestReplica{0, seconds(30)}}));
  EXPECT_EQ(step({ServiceDemand{0, 1}}, 1000), (std::vector<Decision>{WakeReplica{0}}));
  EXPECT_EQ(step({ServiceDemand{0, 0}}, 1900), (std::vector<Decision>{RestReplica{0, seconds(100)}}));
  // A second replica was never needed before.
  step({ServiceDemand{0, 2}}, 2000);
  step({ReplicaReady{1}}, 2005);
  EXPECT_EQ(step({ServiceDemand{0, 1}}, 2010), (std::vector<Decision>{RestReplica{1, seconds(100)}}));
}

TEST_F(ServingTest, WhatFindsNoPlaceHoldsUpNothingSmaller) {
  make(3);
  JobSpec large = test_job(4, 5);
  large.kind = JobKind::inference;
  large.application = "large";
  const JobId first = next_++;
  EXPECT_EQ(step({JobSubmitted{first, large}, task(), task("b")}, 0).size(), 2U);
  EXPECT_EQ(state().waiting_tasks(), std::set<JobId>{first});
}

TEST_F(ServingTest, TheMostReusedWarmReplicaServes) {
  make(3);
  step({task(), task()}, 0);
  step({ReplicaReady{0}, ReplicaReady{1}}, 4);
  step({JobFinished{0, {}}, JobFinished{1, {}}}, 5);
  // The oldest among equals; then the one that was reused.
  EXPECT_EQ(step({task()}, 6), (std::vector<Decision>{Serve{2, 0, Duration(seconds(45))}}));
  step({JobFinished{2, {}}}, 7);
  EXPECT_EQ(step({task()}, 8), (std::vector<Decision>{Serve{3, 0, Duration(seconds(60))}}));
  EXPECT_EQ(step({task()}, 8), (std::vector<Decision>{Serve{4, 1, Duration(seconds(45))}}));
  // A replica of another service is none.
  EXPECT_EQ(step({task("b")}, 9), (std::vector<Decision>{StartReplica{2, 1, {0, 1}, 5, Duration(seconds(30))}}));
}

TEST_F(ServingTest, WhoWaitsForAProtectedReplicaIsServedWhenItSleeps) {
  make(1);
  play_task(0);
  EXPECT_TRUE(step({task("b")}, 5).empty());
  EXPECT_EQ(result_.serve_at, at(31));
  EXPECT_EQ(step({Timer{}}, 31),
            (std::vector<Decision>{StopReplica{0}, StartReplica{1, 1, {0, 1}, 1, Duration(seconds(30))}}));
  EXPECT_TRUE(scheduler_->take_launchable().empty());
  step({ReplicaStopped{0}}, 32);
  EXPECT_EQ(scheduler_->take_launchable(), std::vector<Holder>{Holder::replica(1)});
  EXPECT_FALSE(result_.serve_at);
}

TEST_F(ServingTest, AReplicaThatBreaksGivesItsTaskBack) {
  make(2);
  step({task()}, 0);
  step({ReplicaReady{0}}, 4);
  EXPECT_EQ(step({ReplicaStopped{0}}, 6),
            (std::vector<Decision>{StartReplica{1, 0, {0, 1}, 0, Duration(seconds(30))}}));
  EXPECT_EQ(state().job(0).failures, 1U);
}

TEST_F(ServingTest, DemandStartsRestsAndWakesReplicas) {
  make(3);
  step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 2}}, 0);
  EXPECT_EQ(result_.decisions.size(), 2U);
  step({ReplicaReady{0}, ReplicaReady{1}}, 5);
  EXPECT_EQ(state().services()[0].serving, 2);
  EXPECT_EQ(step({ServiceDemand{0, 1}}, 10), (std::vector<Decision>{RestReplica{1, seconds(30)}}));
  EXPECT_EQ(step({ServiceDemand{0, 3}}, 20),
            (std::vector<Decision>{WakeReplica{1}, StartReplica{2, 0, {0, 1}, std::nullopt, Duration(seconds(30))}}));
  EXPECT_EQ(state().replica(1).hits, 1U);
  step({ReplicaReady{2}}, 25);
  step({ServiceDemand{0, 0}}, 30);
  EXPECT_EQ(phase(1, 74), ReplicaPhase::protect) << "reused once: 45 s";
  EXPECT_EQ(phase(1, 75), ReplicaPhase::sleep);
  EXPECT_EQ(phase(0, 60), ReplicaPhase::sleep);
}

TEST_F(ServingTest, NoReplicaRestsForOneThatLoads) {
  make(3);
  step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 1}}, 0);
  step({ReplicaReady{0}}, 5);
  EXPECT_EQ(step({ServiceDemand{0, 3}}, 10).size(), 2U);
  EXPECT_TRUE(step({ServiceDemand{0, 1}}, 12).empty());
  EXPECT_FALSE(result_.serve_at);
  // They are ready: somebody should rest.
  const Event ready[] = {ReplicaReady{1}, ReplicaReady{2}};
  ASSERT_TRUE(scheduler_->step(ready, at(15), result_));
  EXPECT_TRUE(result_.decisions.empty());
  EXPECT_EQ(result_.serve_at, at(15));
  EXPECT_EQ(step({Timer{}}, 15), (std::vector<Decision>{RestReplica{2, seconds(30)}, RestReplica{1, seconds(30)}}));
  EXPECT_FALSE(result_.serve_at);
}

TEST_F(ServingTest, HeadroomIsHeldAndMadeUpFor) {
  make(6, {.headroom = 2});
  EXPECT_EQ(step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 2}}, 0).size(), 4U);
  EXPECT_EQ(step({ReplicaReady{0}, ReplicaReady{1}, ReplicaReady{2}, ReplicaReady{3}}, 5),
            (std::vector<Decision>{RestReplica{3, kHeld}, RestReplica{2, kHeld}}));
  EXPECT_EQ(phase(2, 1'000'000), ReplicaPhase::protect);
  EXPECT_EQ(Serving::next_sleep(state(), at(5)), std::nullopt);
  EXPECT_EQ(state().services()[0].serving, 2);
  EXPECT_TRUE(step({}, 1000).empty());
  // One wakes, another one loads.
  EXPECT_EQ(step({ServiceDemand{0, 3}}, 2000),
            (std::vector<Decision>{WakeReplica{2}, StartReplica{4, 0, {0, 1}, std::nullopt, Duration(seconds(30))}}));
  // Two rest: the first is held again, the other one, more than the headroom, is not, nor is what loads.
  EXPECT_EQ(step({ServiceDemand{0, 1}}, 2001),
            (std::vector<Decision>{RestReplica{2, kHeld}, RestReplica{1, seconds(30)}}));
  EXPECT_EQ(step({ReplicaReady{4}}, 2010), (std::vector<Decision>{RestReplica{4, seconds(30)}}));
  // A held replica that breaks is made up for by a warm one.
  EXPECT_EQ(step({ReplicaStopped{3}}, 3000), (std::vector<Decision>{RestReplica{1, kHeld}}));
}

TEST_F(ServingTest, NeedsComeBeforeHeadroom) {
  make(3, {.headroom = 2});
  step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 1}}, 0);
  step({ReplicaReady{0}, ReplicaReady{1}, ReplicaReady{2}}, 5);
  EXPECT_TRUE(state().replica(1).held() && state().replica(2).held());
  // Another service needs a GPU: the last one held sleeps, and goes at once.
  EXPECT_EQ(step({task("b")}, 10), (std::vector<Decision>{RestReplica{2, {}}, StopReplica{2},
                                                          StartReplica{3, 1, {0, 1}, 0, Duration(seconds(30))}}));
  EXPECT_EQ(step({ReplicaStopped{2}, ServiceDemand{0, 2}}, 11), (std::vector<Decision>{WakeReplica{1}}));
}

TEST_F(ServingTest, HeadroomOutlivesKeepAliveNone) {
  make(3, {.keep_alive = KeepAlive::none, .headroom = 1});
  step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 2}}, 0);
  step({ReplicaReady{0}, ReplicaReady{1}, ReplicaReady{2}}, 5);
  EXPECT_EQ(step({ServiceDemand{0, 1}}, 10), (std::vector<Decision>{RestReplica{1, {}}}));
  EXPECT_EQ(step({}, 11), (std::vector<Decision>{StopReplica{1}}));
  EXPECT_TRUE(state().replica(2).held());
}

TEST_F(ServingTest, TicksPlaceOnlyIfTheyMay) {
  for (const bool place : {true, false}) {
    next_ = 0;
    make(1, {.place_at_ticks = place});
    EXPECT_EQ(step({task(), Tick{}}, 60).size(), place ? 1U : 0U);
    EXPECT_EQ(step({Timer{}}, 61).size(), place ? 0U : 1U);
  }
}

// A demand that changes at a tick has nothing else to wait for.
TEST_F(ServingTest, TicksAlwaysPlaceTheDemandOfServices) {
  make(1, {.place_at_ticks = false});
  EXPECT_EQ(step({ServiceAdded{0, {.name = "web", .gpus = 1}}, ServiceDemand{0, 1}, Tick{}}, 60).size(), 1U);
}

}  // namespace
}  // namespace ebb::sched
