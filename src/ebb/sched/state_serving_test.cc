// The fold of services, replicas and inference tasks.

#include <gtest/gtest.h>

#include "ebb/sched/test_fold.h"

namespace ebb::sched {
namespace {

std::chrono::seconds s(int seconds) {
  return std::chrono::seconds(seconds);
}

ClusterSpec with_pools() {
  ClusterSpec cluster;
  add_nodes(cluster, 1, 4, "", "training");
  add_nodes(cluster, 2, 4, "", "serving");
  return cluster;
}

JobSpec task(const std::string& service, GpuCount gpus) {
  JobSpec job = test_job(gpus, 5);
  job.kind = JobKind::inference;
  job.application = service;
  return job;
}

constexpr ServiceId kChat = 0;   // replicas of 2 GPUs
constexpr ServiceId kImage = 1;  // of 1

/// Node 0 trains; nodes 1 and 2 serve, and lend to training.
class FoldServing : public FoldTest {
 protected:
  explicit FoldServing(Lending lending = Lending::partitioned) : FoldTest(with_pools(), lending) {
    ServiceSpec chat;
    chat.name = "chat";
    chat.gpus = 2;
    ok(Event(ServiceAdded{kChat, chat}), 0);
    ServiceSpec image;
    image.name = "image";
    ok(Event(ServiceAdded{kImage, image}), 0);
  }

  ReplicaPhase phase(ReplicaId id, int t) const { return state_.replica(id).phase(at(t)); }
  GpuCount available(NodeId node) const { return state_.capacity().available(node); }
  Decision start(ReplicaId id, ServiceId service, NodeShare place, std::optional<JobId> task = {},
                 std::optional<Duration> keep_alive = s(30)) const {
    return StartReplica{id, service, place, task, keep_alive};
  }
  void serve_on(ReplicaId id, ServiceId service, NodeShare place, int t) {
    ok(start(id, service, place), t);
    ok(Event(ReplicaReady{id}), t);
  }
  std::int64_t seconds(GpuNanoseconds time) const { return static_cast<std::int64_t>(time / 1'000'000'000); }
};

TEST_F(FoldServing, ATaskGoesThroughTheWholeLifeOfAReplica) {
  ok(Event(JobSubmitted{0, task("chat", 2)}), 0);
  EXPECT_EQ(state_.waiting_tasks(), std::set<JobId>{0});
  ok(start(0, kChat, {1, 2}, 0), 10);
  EXPECT_TRUE(state_.waiting_tasks().empty());
  EXPECT_EQ(state_.job(0).phase, JobPhase::starting);
  EXPECT_EQ(state_.launchable(), std::vector<Holder>{Holder::replica(0)});
  refused(Event(JobStarted{0, at(10)}), 10, "which is starting");  // tasks begin with their replica
  refused(Event(JobFinished{0, {}}), 11, "which is starting");
  ok(Event(ReplicaReady{0}), 20);
  EXPECT_EQ(state_.job(0).phase, JobPhase::running);
  EXPECT_EQ(state_.job(0).first_start, at(20));
  refused(Event(ReplicaReady{0}), 21, "which is serving");
  refused(Event(JobFailed{0, {}}), 21, "which is running");
  ok(Event(JobFinished{0, {}}), 25);
  EXPECT_EQ(phase(0, 25), ReplicaPhase::protect);
  EXPECT_EQ(phase(0, 54), ReplicaPhase::protect);
  EXPECT_EQ(phase(0, 55), ReplicaPhase::sleep);
  refused(Decision(StopReplica{0}), 54, "which is protected until 55 s");
  EXPECT_EQ(available(1), 2);
  ok(Decision(StopReplica{0}), 60);
  EXPECT_EQ(available(1), 4);
  EXPECT_EQ(state_.gpus_serving(), 2);
  refused(Decision(StopReplica{0}), 60, "which is stopping");
  refused(Decision(WakeReplica{0}), 60, "which is stopping");
  ok(Event(ReplicaStopped{0}), 62);
  refused(Event(ReplicaStopped{0}), 62, "which is gone");
  refused(Event(ReplicaReady{0}), 62, "which is gone");
  EXPECT_EQ(state_.gpus_serving(), 0);
  const GpuTimes times = state_.gpu_times(at(62));
  EXPECT_EQ(seconds(times.starting), 20);
  EXPECT_EQ(seconds(times.serving), 10);
  EXPECT_EQ(seconds(times.protect), 60);
  EXPECT_EQ(seconds(times.sleep), 14);
  EXPECT_EQ(seconds(times.training), 0);
}

TEST_F(FoldServing, WarmReplicasServeAtOnceAndCountReuses) {
  ok(Event(JobSubmitted{0, task("image", 1)}), 0);
  ok(Event(JobSubmitted{1, task("image", 1)}), 0);
  ok(Event(JobSubmitted{2, task("chat", 2)}), 0);
  ok(start(0, kImage, {1, 1}, 0), 0);
  ok(Event(ReplicaReady{0}), 0);
  refused(Decision(Serve{1, 0, s(30)}), 1, "which is serving");
  ok(Event(JobFinished{0, {}}), 5);
  refused(Decision(Serve{2, 0, s(30)}), 6, "which is waiting");  // a task of another service
  refused(Decision(Serve{0, 0, s(30)}), 6, "which is finished");
  refused(Decision(Serve{9, 0, s(30)}), 6, "never submitted");
  refused(Decision(Serve{1, 7, s(30)}), 6, "never started");
  ok(Decision(Serve{1, 0, s(30)}), 6);
  EXPECT_EQ(state_.replica(0).hits, 1U);
  EXPECT_EQ(state_.job(1).first_start, at(6));
  ok(Event(JobFinished{1, {}}), 10);
  ok(Event(JobSubmitted{3, task("image", 1)}), 60);
  ok(Decision(Serve{3, 0, s(30)}), 60);  // it slept since 40
  EXPECT_EQ(state_.replica(0).hits, 0U);
  const GpuTimes times = state_.gpu_times(at(60));
  EXPECT_EQ(seconds(times.serving), 5 + 4);
  EXPECT_EQ(seconds(times.protect), 1 + 30);
  EXPECT_EQ(seconds(times.sleep), 20);
}

TEST_F(FoldServing, AReplicaWithoutKeepAliveSleepsAtOnce) {
  ok(Event(JobSubmitted{0, task("image", 1)}), 0);
  ok(start(0, kImage, {1, 1}, 0, std::nullopt), 0);
  ok(Event(ReplicaReady{0}), 0);
  ok(Event(JobFinished{0, {}}), 0);  // a task of no length
  EXPECT_EQ(phase(0, 0), ReplicaPhase::sleep);
  EXPECT_EQ(state_.job(0).end, at(0));
  ok(Decision(StopReplica{0}), 0);
}

TEST_F(FoldServing, RefusesReplicasWhereTheyMayNotBe) {
  ok(Event(JobSubmitted{0, task("image", 1)}), 0);
  refused(start(0, kChat, {0, 2}), 1, "(and not to services)");  // the training pool
  refused(start(0, kChat, {1, 1}), 1, "would take 1 GPUs");      // not its size
  refused(start(0, kChat, {7, 2}), 1, "the cluster has 3 nodes");
  refused(start(1, kChat, {1, 2}), 1, "the next replica is 0");
  refused(start(0, 5, {1, 2}), 1, "there are 2 services");
  refused(start(0, kChat, {1, 2}, 0), 1, "which is waiting");  // a task of another service
  refused(start(0, kChat, {1, 2}, 4), 1, "never submitted");
  serve_on(0, kChat, {1, 2}, 1);
  serve_on(1, kChat, {1, 2}, 1);
  refused(start(2, kChat, {1, 2}), 2, "which has 0 to give");
  refused(start(2, kImage, {1, 1}), 2, "which has 0 to give");
  ok(Event(NodeFailed{2}), 2);
  refused(start(2, kImage, {2, 1}), 2, "which has 0 to give");
  submit(1, 1, 3);
  refused(start(2, kImage, {1, 1}, 1), 3, "which is waiting");  // a training job
}

TEST_F(FoldServing, RefusesServicesAndDemandThatMakeNoSense) {
  ServiceSpec spec;
  spec.name = "chat";
  refused(Event(ServiceAdded{2, spec}), 0, "its name is taken");
  spec.name = "third";
  refused(Event(ServiceAdded{3, spec}), 0, "the next number is 2");
  spec.gpus = 0;
  refused(Event(ServiceAdded{2, spec}), 0, "0 GPUs a replica");
  EXPECT_FALSE(state_.find_service("third"));
  refused(Event(ServiceDemand{2, 1}), 0, "unknown");
  refused(Event(ServiceDemand{0, -1}), 0, "-1 replicas");
}

TEST_F(FoldServing, DemandRestsAndWakesReplicas) {
  ok(Event(ServiceDemand{kChat, 1}), 0);
  serve_on(0, kChat, {1, 2}, 0);
  EXPECT_EQ(state_.services()[kChat].serving, 1);
  refused(Decision(WakeReplica{0}), 5, "which is serving");
  refused(Decision(RestReplica{0, s(-1)}), 5, "rest of replica 0");
  refused(Decision(RestReplica{4, s(1)}), 5, "never started");
  ok(Decision(RestReplica{0, s(10)}), 5);
  EXPECT_EQ(state_.services()[kChat].serving, 0);
  // One that rests may be kept for another time.
  ok(Decision(RestReplica{0, kHeld}), 6);
  EXPECT_TRUE(state_.replica(0).held());
  EXPECT_EQ(state_.services()[kChat].serving, 0);
  refused(Decision(StopReplica{0}), 1'000'000, "which is protected");
  ok(Decision(RestReplica{0, s(4)}), 1'000'000);
  EXPECT_FALSE(state_.replica(0).held());
  ok(Decision(WakeReplica{0}), 1'000'002);
  EXPECT_EQ(state_.replica(0).hits, 1U);
  EXPECT_EQ(state_.services()[kChat].serving, 1);
  refused(Decision(StopReplica{0}), 1'000'002, "which is serving");
}

TEST_F(FoldServing, ATaskKeepsItsReplicaFromRest) {
  ok(Event(JobSubmitted{0, task("image", 1)}), 0);
  ok(start(0, kImage, {1, 1}, 0), 0);
  refused(Decision(RestReplica{0, s(1)}), 0, "which is starting");
  ok(Event(ReplicaReady{0}), 0);
  refused(Decision(RestReplica{0, s(1)}), 0, "which is serving a task");
}

TEST_F(FoldServing, ReclaimWaitsForTrainingToBeGone) {
  submit(0, 6);
  run(0, {{0, 2}, {1, 4}}, 0);
  EXPECT_EQ(state_.gpus_lent(), 4);
  EXPECT_EQ(state_.loans(), 4U);
  refused(start(0, kChat, {1, 2}), 10, "which has 0 to give");
  ok(Decision(Preempt{0}), 10);
  ok(start(0, kChat, {1, 2}), 10);
  EXPECT_EQ(state_.replica(0).promised, 2);
  EXPECT_TRUE(state_.launchable().empty());
  refused(Event(ReplicaReady{0}), 11, "waits for 2 GPUs");
  EXPECT_EQ(state_.gpus_lent(), 4);
  ok(Event(JobStopped{0, s(10)}), 30);
  EXPECT_EQ(state_.gpus_lent(), 0);
  EXPECT_EQ(state_.launchable(), std::vector<Holder>{Holder::replica(0)});
  ok(Event(ReplicaReady{0}), 35);
  const GpuTimes times = state_.gpu_times(at(40));
  EXPECT_EQ(seconds(times.training), 6 * 30);
  EXPECT_EQ(seconds(times.resizing), 6 * 20);
  EXPECT_EQ(seconds(times.lent), 4 * 30);
  EXPECT_EQ(seconds(times.starting), 2 * 5);  // not while training still held its GPUs
  EXPECT_EQ(seconds(times.serving), 2 * 5);
}

TEST_F(FoldServing, TrainingNeverTakesWhatServesOrIsProtected) {
  submit(0, 3);
  serve_on(0, kChat, {1, 2}, 0);
  refused(Decision(Start{0, {{1, 3}}}), 1, "has 2 to give");
  ok(Decision(RestReplica{0, s(10)}), 2);
  refused(Decision(Start{0, {{1, 3}}}), 3, "has 2 to give");
  refused(Decision(Start{0, {{1, 3}}}), 20, "has 2 to give");  // a sleeper must be stopped first
  ok(Decision(StopReplica{0}), 20);
  ok(Decision(Start{0, {{1, 3}}}), 20);
  EXPECT_EQ(state_.job(0).promised, 1);
  refused(Event(JobStarted{0, at(20)}), 20, "which is starting");
  ok(Event(ReplicaStopped{0}), 21);
  ok(Event(JobStarted{0, at(21)}), 21);
}

TEST_F(FoldServing, AReplicaFailsInEveryPhase) {
  ok(Event(JobSubmitted{0, task("image", 1)}), 0);
  ok(Event(JobSubmitted{1, task("image", 1)}), 0);
  ok(start(0, kImage, {1, 1}, 0), 0);
  ok(start(1, kImage, {1, 1}, 1), 0);
  ok(Event(ReplicaReady{1}), 0);
  serve_on(2, kImage, {1, 1}, 0);
  ok(Decision(RestReplica{2, s(100)}), 1);
  submit(2, 1, 1);
  run(2, {{1, 1}}, 1);
  ok(Decision(Preempt{2}), 2);
  ok(start(3, kImage, {1, 1}), 2);  // waits for job 2
  ok(Event(NodeFailed{1}), 3);
  ok(Event(ReplicaStopped{3}), 3);
  EXPECT_EQ(state_.services()[kImage].serving, 0);
  ok(Event(JobFailed{2, {}}), 3);
  ok(Event(ReplicaStopped{0}), 3);
  EXPECT_EQ(state_.job(0).phase, JobPhase::waiting);
  EXPECT_EQ(state_.job(0).failures, 0U);
  ok(Event(ReplicaStopped{1}), 3);
  EXPECT_EQ(state_.job(1).failures, 1U);
  ok(Event(ReplicaStopped{2}), 3);
  EXPECT_EQ(state_.waiting_tasks(), (std::set<JobId>{0, 1}));
  EXPECT_TRUE(state_.live_replicas().empty());
  EXPECT_EQ(available(1), 0);
  ok(Event(NodeRepaired{1}), 4);
  EXPECT_EQ(available(1), 4);
  // The task begins anew elsewhere.
  ok(start(4, kImage, {2, 1}, 1), 5);
  ok(Event(ReplicaReady{4}), 5);
  ok(Event(JobFinished{1, {}}), 9);
  EXPECT_EQ(state_.job(1).held, s(3 + 4));
  EXPECT_EQ(state_.job(1).pending, s(2));
}

class FoldPooled : public FoldServing {
 protected:
  FoldPooled() : FoldServing(Lending::pooled) {}
};

TEST_F(FoldPooled, ServicesUseAllGpusAndOnlyThoseOfTheServingPoolAreLent) {
  serve_on(0, kChat, {0, 2}, 0);
  submit(0, 3);
  run(0, {{0, 1}, {1, 2}}, 1);
  EXPECT_EQ(state_.gpus_lent(), 2);
}

class FoldApart : public FoldServing {
 protected:
  FoldApart() : FoldServing(Lending::none) {}
};

TEST_F(FoldApart, WithoutLendingTrainingKeepsToItsPool) {
  submit(0, 2);
  refused(Decision(Start{0, {{1, 2}}}), 1, "may not run on those nodes");
  run(0, {{0, 2}}, 1);
  refused(Decision(Resize{{{0, {{1, 2}}}}}), 1, "may not run on those nodes");
}

TEST(FoldTasks, ATaskBringsItsService) {
  State state(test_cluster(1, 4));
  ASSERT_TRUE(state.fold(Event(JobSubmitted{0, task("new", 3)}), at(0)));
  ASSERT_TRUE(state.find_service("new"));
  EXPECT_EQ(state.services()[0].spec.gpus, 3);
  ASSERT_TRUE(state.fold(Decision(StartReplica{0, 0, {0, 3}, 0, {}}), at(0)));
  EXPECT_TRUE(check_invariants(state));
}

}  // namespace
}  // namespace ebb::sched
