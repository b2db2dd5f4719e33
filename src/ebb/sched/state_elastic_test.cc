// The fold of jobs that change their GPUs while they run.

#include <gtest/gtest.h>

#include "ebb/sched/test_fold.h"

namespace ebb::sched {
namespace {

std::chrono::seconds s(int seconds) {
  return std::chrono::seconds(seconds);
}

JobSpec elastic(GpuCount least, GpuCount most, GpuCount step = 1) {
  JobSpec job = test_job(least);
  job.sizing = Sizing::elastic;
  job.min_gpus = least;
  job.max_gpus = most;
  job.gpu_step = step;
  return job;
}

ClusterSpec two_types() {
  ClusterSpec cluster = test_cluster(2, 4);
  cluster.nodes[0].gpu_type = cluster.nodes[1].gpu_type = "t4";
  add_nodes(cluster, 1, 4, "a100");
  return cluster;
}

/// Nodes 0 and 1 of 4 GPUs of one type, node 2 of another. Job 0 runs on 3 GPUs of node 0, job 1 on 3 of node 1.
class FoldElastic : public FoldTest {
 protected:
  FoldElastic() : FoldTest(two_types()) {
    ok(Event(JobSubmitted{0, elastic(1, 6)}), 0);
    ok(Event(JobSubmitted{1, elastic(2, 8, 1)}), 0);
    run(0, {{0, 3}}, 0);
    run(1, {{1, 3}}, 0);
  }

  void resize(std::vector<Target> targets, int t) { ok(Decision(Resize{std::move(targets)}), t); }
  GpuCount available(NodeId node) const { return state_.capacity().available(node); }
  JobPhase phase(JobId job) const { return state_.job(job).phase; }
  std::vector<Holder> launchable() const { return state_.launchable(); }
};

TEST_F(FoldElastic, GrowsOnFreeGpusAtOnce) {
  resize({{0, {{0, 4}, {1, 1}}}}, 10);
  EXPECT_EQ(phase(0), JobPhase::resizing);
  EXPECT_EQ(launchable(), std::vector<Holder>{Holder::job(0)});
  EXPECT_EQ(state_.job(0).occupied, 3);
  ok(Event(JobResized{0, at(15), s(10)}), 10);
  EXPECT_EQ(phase(0), JobPhase::running);
  EXPECT_EQ(state_.job(0).gpus, 5);
  EXPECT_EQ(state_.job(0).occupied, 5);
  EXPECT_EQ(state_.job(0).resizes, 1U);
  EXPECT_EQ(state_.job(0).restarts(), 1U);
  EXPECT_EQ(state_.job(0).progress_until(at(12)), s(10));
  EXPECT_EQ(state_.job(0).progress_until(at(20)), s(15));
  ok(Event(JobFinished{0, {}}), 30);
  EXPECT_EQ(state_.job(0).gpu_time, GpuNanoseconds{(3 * 10 + 5 * 20) * 1'000'000'000LL});
  // 3 GPUs of job 1 all the time; 5 GPUs paused for 5 s.
  EXPECT_EQ(state_.gpu_times(at(30)).training, GpuNanoseconds{(130 + 90) * 1'000'000'000LL});
  EXPECT_EQ(state_.gpu_times(at(30)).resizing, GpuNanoseconds{25 * 1'000'000'000LL});
}

TEST_F(FoldElastic, WhatItLeavesIsNotFreeBeforeItIsConfirmed) {
  submit(2, 3);
  resize({{0, {{0, 1}}}}, 10);
  EXPECT_EQ(available(0), 3);  // to promise, not to use
  EXPECT_EQ(state_.gpus_held(), 1 + 3);
  EXPECT_EQ(state_.job(0).occupied, 3);
  ok(Decision(Start{2, {{0, 3}}}), 10);
  EXPECT_EQ(state_.job(2).promised, 2);
  EXPECT_TRUE(launchable().empty());
  refused(Event(JobStarted{2, at(11)}), 11, "which is starting");
  refused(Event(JobResized{0, at(11), {}}), 11, "which is resizing");  // it still has GPUs to give back
  ok(Event(JobShrunk{0}), 12);
  EXPECT_EQ(launchable(), (std::vector<Holder>{Holder::job(0), Holder::job(2)}));
  refused(Event(JobShrunk{0}), 12, "which is resizing");
  ok(Event(JobStarted{2, at(12)}), 12);
  ok(Event(JobResized{0, at(12), s(10)}), 12);
  EXPECT_EQ(state_.job(0).gpu_time_until(at(20)), GpuNanoseconds{(3 * 12 + 1 * 8) * 1'000'000'000LL});
  // From being told to until it runs again it does nothing useful: 3 GPUs for 2 s.
  EXPECT_EQ(state_.gpu_times(at(12)).resizing, GpuNanoseconds{6 * 1'000'000'000LL});
}

TEST_F(FoldElastic, JobsExchangeGpusInOneDecision) {
  submit(2, 2);
  run(2, {{0, 1}, {1, 1}}, 0);  // no GPU is free
  resize({{0, {{1, 3}}}, {1, {{0, 3}}}}, 5);
  EXPECT_EQ(available(0), 0);
  EXPECT_EQ(state_.job(0).promised, 3);
  EXPECT_EQ(state_.job(1).promised, 3);
  ok(Event(JobShrunk{1}), 6);
  EXPECT_TRUE(launchable().empty());  // job 0 has its new GPUs, but has not left the old ones
  refused(Event(JobResized{0, at(6), {}}), 6, "which is resizing");
  ok(Event(JobShrunk{0}), 7);
  EXPECT_EQ(launchable(), (std::vector<Holder>{Holder::job(0), Holder::job(1)}));
  ok(Event(JobResized{1, at(7), {}}), 7);
  ok(Event(JobResized{0, at(7), {}}), 7);
  EXPECT_EQ(state_.job(0).allocation, (Allocation{{1, 3}}));
  EXPECT_EQ(state_.job(1).allocation, (Allocation{{0, 3}}));
}

TEST_F(FoldElastic, AGrowingJobTakesWhatAnotherOneLeaves) {
  resize({{1, {{1, 2}}}, {0, {{0, 4}, {1, 2}}}}, 5);
  EXPECT_EQ(state_.job(0).promised, 1);
  EXPECT_TRUE(launchable().empty());
  ok(Event(JobShrunk{1}), 8);
  EXPECT_EQ(launchable(), (std::vector<Holder>{Holder::job(1), Holder::job(0)}));
  ok(Event(JobResized{0, at(8), {}}), 8);
  ok(Event(JobResized{1, at(8), {}}), 8);
  EXPECT_EQ(available(1), 0);
}

TEST_F(FoldElastic, RefusesWhatDoesNotFitAsAWhole) {
  refused(Decision(Resize{{{0, {{0, 4}, {1, 2}}}}}), 5, "has 1 to give");
  refused(Decision(Resize{{{0, {{0, 4}, {1, 1}}}, {1, {{1, 4}}}}}), 5, "has 0 to give");
  refused(Decision(Resize{{{0, {{0, 2}}}, {0, {{0, 1}}}}}), 5, "names a job twice");
  refused(Decision(Resize{{{0, {{0, 1}}}, {1, {{1, 1}}}}}), 5,
          "runs on 2 to 8 GPUs (elastic), the decision gives it 1");
  refused(Decision(Resize{{{0, {}}}}), 5, "the decision gives it 0");
  refused(Decision(Resize{{{0, {{0, 4}, {1, 3}}}}}), 5, "runs on 1 to 6 GPUs");
  refused(Decision(Resize{{{0, {{0, 1}, {0, 1}}}}}), 5, "names a node twice");
  refused(Decision(Resize{{{0, {{0, 2}, {1, 0}}}}}), 5, "names a node twice or with no GPU");
  refused(Decision(Resize{{{0, {{0, 2}, {2, 1}}}}}), 5, "one type a gang");
  refused(Decision(Resize{{{0, {{9, 2}}}}}), 5, "the cluster has 3 nodes");
  refused(Decision(Resize{{{7, {{0, 2}}}}}), 5, "never submitted");
}

TEST_F(FoldElastic, RefusesToResizeWhatDoesNotRun) {
  ok(Event(JobSubmitted{2, elastic(1, 4)}), 1);
  refused(Decision(Resize{{{2, {{0, 1}}}}}), 5, "which is waiting");
  ok(Decision(Start{2, {{2, 1}}}), 5);
  refused(Decision(Resize{{{2, {{2, 2}}}}}), 5, "which is starting");
  ok(Decision(Preempt{0}), 5);
  refused(Decision(Resize{{{0, {{0, 1}}}}}), 5, "which is stopping");
  resize({{1, {{1, 2}}}}, 5);
  refused(Decision(Resize{{{1, {{1, 3}}}}}), 5, "which is resizing");
  refused(Decision(Preempt{1}), 5, "which is resizing");
  ok(Event(JobStopped{0, {}}), 6);
  ok(Event(JobFinished{1, {}}), 6);
  refused(Decision(Resize{{{1, {{1, 3}}}}}), 7, "which is finished");
  refused(Event(JobShrunk{1}), 7, "which is finished");
}

TEST_F(FoldElastic, RigidJobsKeepTheirSizeButMayMove) {
  submit(2, 2);
  run(2, {{2, 2}}, 1);
  refused(Decision(Resize{{{2, {{2, 3}}}}}), 2, "runs on 2 to 2 GPUs (rigid)");
  resize({{2, {{0, 1}, {1, 1}}}}, 2);
  ok(Event(JobShrunk{2}), 3);
  ok(Event(JobResized{2, at(4), {}}), 3);
  EXPECT_EQ(available(2), 4);
}

TEST_F(FoldElastic, StepsOfSizesAreKept) {
  ok(Event(JobSubmitted{2, elastic(1, 4, 2)}), 0);  // 1 or 3
  refused(Decision(Start{2, {{2, 2}}}), 1, "the decision gives it 2");
  refused(Decision(Start{2, {{2, 4}}}), 1, "the decision gives it 4");
  run(2, {{2, 3}}, 1);
  refused(Event(JobSubmitted{3, elastic(3, 2)}), 1, "with sizes 3 to 2 in steps of 1");
  refused(Event(JobSubmitted{3, elastic(1, 2, 0)}), 1, "in steps of 0");
}

TEST_F(FoldElastic, AJobFailsWhileItResizes) {
  submit(2, 3);
  resize({{0, {{0, 1}, {1, 1}}}}, 10);  // leaves 2 on node 0, takes a free one of node 1
  ok(Decision(Start{2, {{0, 3}}}), 10);
  ok(Event(NodeFailed{1}), 11);
  ok(Event(JobFailed{0, s(4)}), 11);
  ok(Event(JobFailed{1, s(4)}), 11);
  EXPECT_EQ(state_.gpus_held(), 3);
  EXPECT_EQ(available(0), 1);
  EXPECT_EQ(state_.job(0).progress, s(4));
  EXPECT_EQ(launchable(), std::vector<Holder>{Holder::job(2)});
  ok(Event(JobStarted{2, at(11)}), 11);
}

TEST_F(FoldElastic, AFailedResizeGivesBackWhatItWasPromised) {
  resize({{1, {{1, 2}}}, {0, {{0, 3}, {1, 2}}}}, 10);  // one of node 1 is promised to job 0
  ok(Event(NodeFailed{0}), 11);
  ok(Event(JobFailed{0, {}}), 11);
  EXPECT_EQ(state_.capacity().promised(1), 0);
  EXPECT_EQ(available(1), 2);  // one free, one on its way
  ok(Event(JobShrunk{1}), 12);
  EXPECT_EQ(state_.capacity().releasing(1), 0);
  EXPECT_EQ(available(1), 2);
  ok(Event(JobResized{1, at(12), {}}), 12);
}

TEST_F(FoldElastic, AJobFailsWhileItStopsOrWaitsForGpus) {
  submit(2, 4);
  ok(Decision(Preempt{0}), 10);
  ok(Decision(Start{2, {{0, 4}}}), 10);
  EXPECT_EQ(state_.job(2).promised, 3);
  ok(Event(NodeFailed{0}), 11);
  ok(Event(JobFailed{0, s(3)}), 11);
  EXPECT_EQ(launchable(), std::vector<Holder>{Holder::job(2)});  // its GPUs are there, if broken
  ok(Event(JobFailed{2, {}}), 11);
  EXPECT_TRUE(launchable().empty());
  EXPECT_EQ(available(0), 0);
  ok(Event(NodeRepaired{0}), 12);
  EXPECT_EQ(available(0), 4);
  EXPECT_EQ(state_.job(0).progress_until(at(40)), s(3));
}

TEST_F(FoldElastic, ItMayFinishWhileItResizes) {
  resize({{0, {{1, 1}}}}, 10);
  ok(Event(JobFinished{0, {}}), 11);
  EXPECT_EQ(available(0), 4);
  EXPECT_EQ(available(1), 1);
  EXPECT_TRUE(launchable().empty());
}

TEST_F(FoldElastic, NoWorkIsDoneWhileItStops) {
  ok(Decision(Preempt{0}), 10);
  EXPECT_EQ(state_.job(0).progress_until(at(10)), s(10));
  EXPECT_EQ(state_.job(0).progress_until(at(60)), s(10));
  ok(Event(JobStopped{0, s(10)}), 20);
  EXPECT_EQ(state_.gpu_times(at(20)).resizing, GpuNanoseconds{30 * 1'000'000'000LL});
}

TEST_F(FoldElastic, NothingNewComesToADrainingNode) {
  ok(Event(NodeDrained{0}), 5);
  refused(Decision(Resize{{{0, {{0, 4}}}}}), 6, "has 0 to give");
  resize({{0, {{0, 2}}}}, 6);  // less is fine
  EXPECT_EQ(available(0), 0);
  refused(Decision(Resize{{{1, {{0, 1}, {1, 3}}}}}), 6, "has 0 to give");
  ok(Event(JobShrunk{0}), 7);
  ok(Event(JobResized{0, at(7), {}}), 7);
  EXPECT_EQ(available(0), 0);
  ok(Event(NodeUndrained{0}), 8);
  EXPECT_EQ(available(0), 2);
}

TEST_F(FoldElastic, ReportsTellProgressAndSpeed) {
  JobReport report;
  report.job = 0;
  report.progress = s(20);
  report.speed = 2;
  ok(Event(report), 10);
  EXPECT_EQ(state_.job(0).progress_until(at(15)), s(30));
  report.job = 5;
  refused(Event(report), 10, "never submitted");
  submit(2, 1, 10);
  report.job = 2;
  refused(Event(report), 10, "which is waiting");
}

}  // namespace
}  // namespace ebb::sched
