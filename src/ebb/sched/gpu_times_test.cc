/// What the GPUs did, over time: State::gpu_times() where GPUs change hands.

#include <gtest/gtest.h>

#include "ebb/sched/state.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::sched {
namespace {

using std::chrono::seconds;

class GpuTimesTest : public ::testing::Test {
 protected:
  void ok(const Event& event, int t) { check(state_.fold(event, at(t))); }
  void ok(const Decision& decision, int t) { check(state_.fold(decision, at(t))); }
  void check(const Result<void>& folded) {
    ASSERT_TRUE(folded) << folded.error().message;
    const auto checked = check_invariants(state_);
    ASSERT_TRUE(checked) << checked.error().message;
    state_.clear_launchable();
  }
  void run(JobId id, JobSpec spec, const Allocation& allocation, int t, int productive_at) {
    ok(Event(JobSubmitted{id, std::move(spec)}), t);
    ok(Decision(Start{id, allocation}), t);
    ok(Event(JobStarted{id, at(productive_at)}), t);
  }
  static double gpu_s(GpuNanoseconds time) { return static_cast<double>(time) / 1e9; }

  State state_{test_cluster(1, 4), Lending::pooled};
};

JobSpec elastic(GpuCount most) {
  JobSpec job = test_job(most, 1000);
  job.sizing = Sizing::elastic;
  job.min_gpus = 1;
  job.max_gpus = most;
  return job;
}

TEST_F(GpuTimesTest, APauseCountsAsFarAsItCame) {
  run(0, test_job(2), {{0, 2}}, 10, 40);
  EXPECT_EQ(gpu_s(state_.gpu_times(at(15)).resizing), 2 * 5);
  EXPECT_EQ(gpu_s(state_.gpu_times(at(100)).resizing), 2 * 30);
  ok(Event(JobFailed{0, Duration(0)}), 20);
  EXPECT_EQ(gpu_s(state_.gpu_times(at(100)).resizing), 2 * 10);
  EXPECT_EQ(gpu_s(state_.gpu_times(at(100)).training), 2 * 10);
}

TEST_F(GpuTimesTest, GivingBackIsNoProgress) {
  run(0, elastic(4), {{0, 4}}, 0, 0);
  ok(Decision(Resize{{{0, {{0, 1}}}}}), 10);
  ok(Event(JobShrunk{0}), 15);  // on 4 GPUs until here
  ok(Event(JobResized{0, at(22), seconds(10)}), 20);
  ok(Decision(Preempt{0}), 30);
  ok(Event(JobStopped{0, seconds(18)}), 33);
  const GpuTimes times = state_.gpu_times(at(50));
  EXPECT_EQ(gpu_s(times.training), 4 * 15 + 1 * 18);
  EXPECT_EQ(gpu_s(times.resizing), 4 * 5 + 1 * 5 + 1 * 2 + 1 * 3);
}

// A promised GPU is the old holder's until it is confirmed free, also where other events came in between.
TEST_F(GpuTimesTest, APromisedGpuCountsOnce) {
  run(0, test_job(3), {{0, 3}}, 0, 0);
  ok(Event(ServiceAdded{0, {"s", 2, seconds(5), {}, {}, 0.99}}), 5);
  ok(Decision(Preempt{0}), 10);
  ok(Decision(StartReplica{0, 0, {0, 2}, {}, {}}), 10);
  EXPECT_EQ(state_.replica(0).promised, 1);
  EXPECT_EQ(state_.gpus_serving(), 0);
  EXPECT_EQ(state_.gpus_occupied(), 3);
  ok(Event(JobStopped{0, seconds(10)}), 20);
  EXPECT_EQ(state_.gpus_serving(), 2);
  EXPECT_EQ(state_.gpus_occupied(), 0);
  ok(Event(ReplicaReady{0}), 25);
  const GpuTimes times = state_.gpu_times(at(30));
  EXPECT_EQ(gpu_s(times.training), 3 * 20);
  EXPECT_EQ(gpu_s(times.resizing), 3 * 10);
  EXPECT_EQ(gpu_s(times.starting), 2 * 5);
  EXPECT_EQ(gpu_s(times.serving), 2 * 5);
}

TEST_F(GpuTimesTest, AReplicaThatNeverGotItsGpusDidNothing) {
  run(0, test_job(4), {{0, 4}}, 0, 0);
  ok(Event(ServiceAdded{0, {"s", 2, seconds(5), {}, {}, 0.99}}), 5);
  ok(Decision(Preempt{0}), 10);
  ok(Decision(StartReplica{0, 0, {0, 2}, {}, {}}), 10);
  ok(Event(ReplicaStopped{0}), 15);
  ok(Event(JobStopped{0, seconds(10)}), 20);
  const GpuTimes times = state_.gpu_times(at(30));
  EXPECT_EQ(state_.gpus_serving(), 0);
  EXPECT_EQ(gpu_s(times.training), 4 * 20);
  EXPECT_EQ(gpu_s(times.starting + times.serving + times.protect + times.sleep), 0);
}

TEST_F(GpuTimesTest, RestIsProtectedThenAsleep) {
  ok(Event(ServiceAdded{0, {"s", 1, seconds(5), {}, {}, 0.99}}), 0);
  ok(Decision(StartReplica{0, 0, {0, 1}, {}, {}}), 0);
  ok(Event(ReplicaReady{0}), 5);
  ok(Decision(RestReplica{0, seconds(30)}), 20);
  EXPECT_EQ(gpu_s(state_.gpu_times(at(40)).protect), 20);
  EXPECT_EQ(gpu_s(state_.gpu_times(at(40)).sleep), 0);
  ok(Decision(StopReplica{0}), 60);
  ok(Event(ReplicaStopped{0}), 64);
  const GpuTimes times = state_.gpu_times(at(100));
  EXPECT_EQ(gpu_s(times.starting), 5);
  EXPECT_EQ(gpu_s(times.serving), 15);
  EXPECT_EQ(gpu_s(times.protect), 30);
  EXPECT_EQ(gpu_s(times.sleep), 14);
}

}  // namespace
}  // namespace ebb::sched
