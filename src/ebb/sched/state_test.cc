#include "ebb/sched/state.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_fold.h"

namespace ebb::sched {
namespace {

class Fold : public FoldTest {
 protected:
  Fold() : FoldTest(test_cluster(2, 4)) {}
};

TEST_F(Fold, AccountsForALifeWithAPreemption) {
  submit(0, 4);
  run(0, {{0, 4}}, 10);
  ok(Decision(Preempt{0}), 30);
  ok(Event(JobStopped{0, std::chrono::seconds(20)}), 35);
  run(0, {{1, 4}}, 40);
  ok(Event(JobFinished{0, {}}), 100);
  const JobState& job = state_.job(0);
  EXPECT_EQ(job.phase, JobPhase::finished);
  EXPECT_EQ(job.first_start, at(10));
  EXPECT_EQ(job.end, at(100));
  EXPECT_EQ(job.pending, std::chrono::seconds(10 + 5));
  EXPECT_EQ(job.held, std::chrono::seconds(25 + 60));
  EXPECT_EQ(job.incarnations, 2U);
  EXPECT_EQ(job.preemptions, 1U);
}

TEST_F(Fold, NeverGivesAGpuTwice) {
  submit(0, 3);
  submit(1, 2);
  run(0, {{0, 3}}, 1);
  refused(Decision(Start{1, {{0, 2}}}), 2, "has 1 to give");
  ok(Decision(Start{1, {{0, 1}, {1, 1}}}), 2);
}

TEST_F(Fold, GangsAreWholeAndNodesNamedOnce) {
  submit(0, 4);
  refused(Decision(Start{0, {{0, 3}}}), 1, "runs on 4 to 4 GPUs (rigid), the decision gives it 3");
  refused(Decision(Start{0, {{0, 2}, {0, 2}}}), 1, "names a node twice or with no GPU");
  refused(Decision(Start{0, {{0, 4}, {1, 0}}}), 1, "names a node twice or with no GPU");
  refused(Decision(Start{0, {{7, 4}}}), 1, "the cluster has 2 nodes");
  refused(Decision(Start{5, {{0, 4}}}), 1, "never submitted");
}

TEST_F(Fold, RefusesWhatDoesNotFitThePhase) {
  submit(0, 1);
  refused(Event(JobStarted{0, at(1)}), 1, "which is waiting");
  refused(Event(JobFinished{0, {}}), 1, "which is waiting");
  refused(Decision(Preempt{0}), 1, "which is waiting");
  run(0, {{0, 1}}, 1);
  refused(Decision(Start{0, {{1, 1}}}), 2, "which is running");
  refused(Event(JobStopped{0, {}}), 2, "which is running");
  ok(Event(JobFinished{0, {}}), 3);
  refused(Event(JobFailed{0, {}}), 4, "which is finished");
  refused(Event(Tick{}), 2, "time runs backwards");
  refused(Event(JobSubmitted{3, test_job(1)}), 5, "the next number is 1");
  refused(Event(JobSubmitted{1, test_job(0)}), 5, "with 0 GPUs");
}

TEST_F(Fold, GpusOfAStoppingJobArePromisedButNotFree) {
  submit(0, 4);
  submit(1, 4);
  run(0, {{0, 4}}, 1);
  ok(Decision(Preempt{0}), 2);
  EXPECT_EQ(state_.capacity().available(0), 4);
  ok(Decision(Start{1, {{0, 4}}}), 2);
  EXPECT_EQ(state_.capacity().available(0), 0);
  EXPECT_TRUE(state_.launchable().empty());
  refused(Event(JobStarted{1, at(3)}), 3, "which is starting");  // its GPUs are still held by job 0
  ok(Event(JobStopped{0, {}}), 4);
  EXPECT_EQ(state_.launchable(), std::vector<Holder>{Holder::job(1)});
  ok(Event(JobStarted{1, at(5)}), 5);
}

TEST_F(Fold, APromiseIsMetFromSeveralHoldersAndGivenBackOnFailure) {
  submit(0, 2);
  submit(1, 2);
  submit(2, 4);
  run(0, {{0, 2}}, 1);
  run(1, {{0, 2}}, 1);
  ok(Decision(Preempt{0}), 2);
  ok(Decision(Preempt{1}), 2);
  ok(Decision(Start{2, {{0, 4}}}), 2);
  ok(Event(JobStopped{0, {}}), 3);
  EXPECT_TRUE(state_.launchable().empty());
  ok(Event(JobFailed{2, {}}), 4);  // the start is given up half way
  EXPECT_EQ(state_.capacity().available(0), 4);
  ok(Event(JobFinished{1, {}}), 5);  // it finished before it could be stopped
  EXPECT_EQ(state_.gpus_held(), 0);
  EXPECT_EQ(state_.job(2).failures, 1U);
}

TEST_F(Fold, FailedAndDrainingNodesGiveNothing) {
  submit(0, 4);
  run(0, {{0, 4}}, 1);
  ok(Event(NodeDrained{1}), 2);
  EXPECT_EQ(state_.capacity().available(1), 0);
  ok(Event(NodeFailed{0}), 3);
  ok(Event(JobFailed{0, {}}), 3);
  refused(Decision(Start{0, {{0, 4}}}), 4, "it failed");
  refused(Decision(Start{0, {{1, 4}}}), 4, "has 0 to give");
  ok(Event(NodeUndrained{1}), 5);
  run(0, {{1, 4}}, 5);
  ok(Event(NodeRepaired{0}), 6);
  EXPECT_EQ(state_.capacity().available(0), 4);
}

TEST(Eligibility, GangsKeepToTheirTypeAndPool) {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "a100", "training");
  add_nodes(cluster, 1, 4, "t4", "training");
  add_nodes(cluster, 1, 4, "t4", "serving");
  State state(cluster);
  JobSpec job = test_job(6);
  ASSERT_TRUE(state.fold(Event(JobSubmitted{0, job}), at(0)));
  EXPECT_FALSE(state.class_of(0).possible());  // no type has 6 in the pool "training", where unnamed pools go
  job = test_job(2);
  job.pool = "serving";
  ASSERT_TRUE(state.fold(Event(JobSubmitted{1, job}), at(0)));
  EXPECT_FALSE(state.fold(Decision(Start{1, {{1, 2}}}), at(0)));
  EXPECT_TRUE(state.fold(Decision(Start{1, {{2, 2}}}), at(0)));
  job = test_job(2);
  ASSERT_TRUE(state.fold(Event(JobSubmitted{2, job}), at(0)));
  EXPECT_FALSE(state.fold(Decision(Start{2, {{0, 1}, {1, 1}}}), at(0)));  // two types
  EXPECT_FALSE(state.fold(Decision(Start{2, {{2, 2}}}), at(0)));          // serving pool
  EXPECT_TRUE(state.fold(Decision(Start{2, {{0, 2}}}), at(0)));
  job.gpu_type = "h100";
  ASSERT_TRUE(state.fold(Event(JobSubmitted{3, job}), at(0)));
  EXPECT_FALSE(state.class_of(3).possible());
}

TEST(Eligibility, AClusterWithoutNamesDoesNotTellTypesAndPoolsApart) {
  State state(test_cluster(1, 4));
  JobSpec job = test_job(4);
  job.gpu_type = "a100";
  job.pool = "serving";
  ASSERT_TRUE(state.fold(Event(JobSubmitted{0, job}), at(0)));
  EXPECT_TRUE(state.class_of(0).possible());
  EXPECT_TRUE(state.fold(Decision(Start{0, {{0, 4}}}), at(0)));
}

TEST_F(Fold, AHeldJobWaitsAgainWhenItIsReleased) {
  submit(0, 4);
  submit(1, 4);
  const JobState& job = state_.job(0);
  ok(Event(JobHeld{0}), 10);
  EXPECT_EQ(job.phase, JobPhase::held);
  EXPECT_TRUE(job.active());
  EXPECT_FALSE(job.holds());
  EXPECT_EQ(state_.waiting_count(), 1U);
  EXPECT_EQ(state_.waiting_in(job.job_class), 1U);
  EXPECT_EQ(state_.active_count(), 1U);
  EXPECT_EQ(state_.first_active(), 0U);
  ok(Event(JobReleased{0}), 50);
  EXPECT_EQ(job.waiting_since, at(50));
  EXPECT_EQ(state_.waiting_count(), 2U);
  run(0, {{0, 4}}, 55);
  EXPECT_EQ(job.pending, std::chrono::seconds(10 + 5));
}

TEST_F(Fold, CancelledJobsAreOver) {
  submit(0, 4);
  submit(1, 4);
  submit(2, 4);
  ok(Event(JobHeld{0}), 10);
  ok(Event(JobCancelled{1}), 20);
  EXPECT_EQ(state_.job(1).phase, JobPhase::cancelled);
  EXPECT_FALSE(state_.job(1).active());
  EXPECT_EQ(state_.job(1).end, at(20));
  EXPECT_EQ(state_.job(1).pending, std::chrono::seconds(20));
  EXPECT_EQ(state_.first_active(), 0U);
  ok(Event(JobCancelled{0}), 30);
  EXPECT_EQ(state_.job(0).end, at(30));
  EXPECT_EQ(state_.job(0).pending, std::chrono::seconds(10));
  EXPECT_EQ(state_.first_active(), 2U);
  EXPECT_EQ(state_.active_count(), 1U);
}

TEST_F(Fold, OnlyWaitingJobsAreHeldAndOnlyHeldOnesReleased) {
  const auto stays = [&](JobId id, int t, const char* phase) {
    const std::string part = fmt::format("which is {}", phase);
    refused(Event(JobHeld{id}), t, part);
    refused(Event(JobReleased{id}), t, part);
    refused(Event(JobCancelled{id}), t, part);
  };
  refused(Event(JobHeld{0}), 0, "hold of job 0, which was never submitted");
  refused(Event(JobReleased{0}), 0, "never submitted");
  refused(Event(JobCancelled{0}), 0, "never submitted");
  submit(0, 4);
  refused(Event(JobReleased{0}), 1, "which is waiting");
  ok(Event(JobHeld{0}), 1);
  refused(Event(JobHeld{0}), 1, "which is held");
  refused(Event(JobStarted{0, at(1)}), 1, "which is held");
  refused(Event(JobFailed{0, {}}), 1, "which is held");
  refused(Event(JobFinished{0, {}}), 1, "which is held");
  refused(Decision(Start{0, {{0, 4}}}), 1, "which is held");
  refused(Decision(Reject{0, {}}), 1, "which is held");
  ok(Event(JobReleased{0}), 1);
  ok(Decision(Start{0, {{0, 4}}}), 2);
  stays(0, 2, "starting");
  ok(Event(JobStarted{0, at(2)}), 2);
  stays(0, 2, "running");
  ok(Decision(Preempt{0}), 3);
  stays(0, 3, "stopping");
  ok(Event(JobStopped{0, {}}), 3);
  run(0, {{0, 4}}, 3);
  ok(Event(JobFinished{0, {}}), 4);
  stays(0, 4, "finished");
  submit(1, 4, 5);
  ok(Event(JobCancelled{1}), 5);
  stays(1, 5, "cancelled");
  refused(Decision(Start{1, {{0, 4}}}), 5, "which is cancelled");
  submit(2, 100, 6);
  ok(Decision(Reject{2, {}}), 6);
  stays(2, 6, "rejected");
  JobSpec task = test_job(1);
  task.kind = JobKind::inference;
  task.application = "service";
  ok(Event(JobSubmitted{3, task}), 7);
  refused(Event(JobHeld{3}), 7, "which is waiting");
  refused(Event(JobCancelled{3}), 7, "which is waiting");
}

TEST_F(Fold, AStartThatWasPromisedGpusMayBeTakenBackAndCancelled) {
  submit(0, 4);
  submit(1, 4);
  run(0, {{0, 4}}, 1);
  ok(Decision(Preempt{0}), 2);
  ok(Decision(Start{1, {{0, 4}}}), 2);
  ok(Event(JobFailed{1, {}}), 3);
  ok(Event(JobCancelled{1}), 3);
  EXPECT_EQ(state_.job(1).pending, std::chrono::seconds(3));
  EXPECT_EQ(state_.capacity().available(0), 4);
  ok(Event(JobStopped{0, {}}), 4);
  EXPECT_TRUE(state_.launchable().empty());
  ok(Event(JobHeld{0}), 4);
  EXPECT_EQ(state_.capacity().held(0), 0);
}

TEST_F(Fold, AJobThatFailedIsHeldForARetry) {
  submit(0, 4);
  run(0, {{0, 4}}, 1);
  ok(Event(JobFailed{0, std::chrono::seconds(5)}), 10);
  ok(Event(JobHeld{0}), 10);
  EXPECT_EQ(state_.job(0).progress_until(at(30)), std::chrono::seconds(5));
  EXPECT_EQ(state_.job(0).gpu_time_until(at(30)), GpuNanoseconds{4} * 9'000'000'000);
  ok(Event(JobReleased{0}), 40);
  run(0, {{1, 4}}, 42);
  EXPECT_EQ(state_.job(0).pending, std::chrono::seconds(1 + 2));
  EXPECT_EQ(state_.job(0).restarts(), 1U);
}

}  // namespace
}  // namespace ebb::sched
