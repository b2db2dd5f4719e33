// Elastic jobs in the ledger of the live control plane: each arrow of a change of GPUs, and random histories.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "ebb/control/ledger.h"
#include "live_ledger_cluster.h"

namespace ebb::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Contract, WorkersAreToldAtTheStart) {
  LedgerCluster cluster;
  const JobId id = cluster.submit(elastic_request(Elasticity::contract, 2));
  ASSERT_THAT(cluster.started, ElementsAre("j0-1-0", "j0-1-1"));
  const wire::TargetOrder& target = cluster.told.at("j0-1-1");
  EXPECT_EQ(target.revision, 1u);
  ASSERT_EQ(target.members.size(), 2u);
  EXPECT_EQ(target.members[1].worker, "j0-1-1");
  EXPECT_THAT(target.members[1].slots, ElementsAre(1));
  EXPECT_EQ(target.within, minutes(10));
  EXPECT_TRUE(cluster.ledger().spec_of_worker("j0-1-0").contract);
  cluster.run(cluster.started);
  cluster.switched("j0-1-0");
  EXPECT_TRUE(cluster.job(id).target.answered);
  EXPECT_EQ(cluster.job(id).target.generation, 1u);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, GrowsOnceTheNewWorkersAreReadyAndSwitchedTo) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 4});
  EXPECT_THAT(cluster.started, ElementsAre("j0-1-2", "j0-1-3"));
  EXPECT_EQ(cluster.told.at("j0-1-0").revision, 2u);
  EXPECT_TRUE(cluster.told.at("j0-1-0").members[3].joins);
  EXPECT_FALSE(cluster.told.at("j0-1-0").members[1].joins);
  cluster.switched("j0-1-0");
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::resizing) << "its new workers have not come";
  cluster.run({"j0-1-2", "j0-1-3"});
  cluster.ready({"j0-1-2"});
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::resizing);
  cluster.ready({"j0-1-3"});
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::running);
  EXPECT_EQ(cluster.core(id).gpus, 4);
  EXPECT_FALSE(cluster.job(id).changing);
  EXPECT_THAT(cluster.stopped, IsEmpty());
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, GpusAreFreeWhenTheLeaversAreGoneNotBefore) {
  LedgerCluster cluster;
  const JobId id = cluster.running(3);
  cluster.tell(ResizeRequested{id, 1});
  EXPECT_THAT(cluster.told.at("j0-1-2").members, testing::SizeIs(1));
  EXPECT_EQ(cluster.told.at("j0-1-2").within, seconds(10)) << "the grace time";
  EXPECT_EQ(cluster.held(), 3);
  cluster.report("j0-1-2", wire::Drained{"j0-1-2"});
  EXPECT_THAT(cluster.stopped, ElementsAre("j0-1-2"));
  cluster.switched("j0-1-0");
  EXPECT_THAT(cluster.stopped, ElementsAre("j0-1-2", "j0-1-1"));
  cluster.exit("j0-1-2");
  EXPECT_EQ(cluster.held(), 3);
  cluster.exit("j0-1-1", WorkerExit::Cause::signalled, 9);
  EXPECT_EQ(cluster.held(), 1) << "how a leaver ends is nobody's failure";
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::running);
  EXPECT_THAT(cluster.workers(id), ElementsAre("j0-1-0"));
  cluster.exit("j0-1-0");
  EXPECT_EQ(cluster.job(id).outcome, Outcome::completed);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, FreedGpusGoToWhoWaits) {
  LedgerCluster cluster;
  const JobId id = cluster.running(4);
  const JobId waits = cluster.submit(test_request(2));
  EXPECT_EQ(cluster.core(waits).phase, sched::JobPhase::waiting);
  cluster.started.clear();
  cluster.tell(ResizeRequested{id, 2});
  EXPECT_THAT(cluster.started, IsEmpty());
  cluster.switched("j0-1-0");
  cluster.exit_stopped(std::vector<WorkerId>(cluster.stopped));
  EXPECT_THAT(cluster.started, ElementsAre("j1-1-0", "j1-1-1"));
  cluster.tell(ResizeRequested{id, 4});
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::running) << "it grows when there is room";
  cluster.run({"j1-1-0", "j1-1-1"});
  cluster.started.clear();
  cluster.exit("j1-1-0");
  cluster.exit("j1-1-1");
  EXPECT_THAT(cluster.started, ElementsAre("j0-1-4", "j0-1-5")) << "numbers of workers are not used again";
  EXPECT_TRUE(cluster.replay());
}

// What a job is started again with after its contract failed.
void expect_restart(LedgerCluster& cluster, JobId id, std::int32_t workers) {
  EXPECT_TRUE(cluster.job(id).restarting);
  EXPECT_THAT(cluster.stopped, testing::UnorderedElementsAreArray(cluster.workers(id)));
  cluster.started.clear();
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  ASSERT_EQ(cluster.started.size(), static_cast<std::size_t>(workers));
  EXPECT_EQ(cluster.job(id).incarnation, 2u);
  EXPECT_EQ(cluster.ledger().target_of(cluster.started.front(), cluster.now())->revision, 1u);
  cluster.run(cluster.started);
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::resizing);
  cluster.switched(cluster.started.front());
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::running);
  EXPECT_EQ(cluster.core(id).gpus, workers);
  EXPECT_EQ(cluster.job(id).retries, 0u);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, ATargetThatIsRefusedEndsInARestart) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 1});
  cluster.report("j0-1-0", wire::Refused{2, "not now"});
  expect_restart(cluster, id, 1);
}

TEST(Contract, ATargetThatIsAnsweredWronglyEndsInARestart) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 3});
  cluster.run({"j0-1-2"});
  cluster.report("j0-1-0", wire::Switched{2, 2, {"j0-1-0", "j0-1-1"}});
  expect_restart(cluster, id, 3);
}

TEST(Contract, ATargetThatIsNotAnsweredInTimeEndsInARestart) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 1});
  cluster.pass(seconds(9));
  EXPECT_FALSE(cluster.job(id).restarting);
  cluster.pass(seconds(1));
  expect_restart(cluster, id, 1);
}

TEST(Contract, LateAndRepeatedAnswersChangeNothing) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.report("j0-1-0", wire::Switched{1, 7, {"j0-1-0"}});
  EXPECT_EQ(cluster.job(id).target.generation, 1u);
  EXPECT_FALSE(cluster.job(id).restarting);
  cluster.tell(ResizeRequested{id, 3});
  cluster.report("j0-1-0", wire::Switched{1, 8, {"j0-1-0", "j0-1-1"}});
  EXPECT_FALSE(cluster.job(id).target.answered);
  cluster.report("j0-1-0", wire::Refused{1, "late"});
  cluster.report("j9-1-0", wire::Ready{});
  cluster.report("j0-1-0", wire::Drained{"j0-1-1"});
  EXPECT_THAT(cluster.stopped, IsEmpty()) << "it is a member";
  EXPECT_TRUE(cluster.replay());
}

// A restart that a resize ended in is a start like any other: it cannot go on for ever.
TEST(Contract, ARestartThatIsNotAnsweredIsAFailure) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 1});
  cluster.report("j0-1-0", wire::Refused{2, "no"});
  cluster.started.clear();
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  ASSERT_THAT(cluster.started, ElementsAre("j0-2-0"));
  cluster.run(cluster.started);
  cluster.report("j0-2-0", wire::Refused{1, "never"});
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  EXPECT_EQ(cluster.job(id).outcome, Outcome::failed);
  EXPECT_EQ(cluster.job(id).why, "target 1 was refused: never");
  EXPECT_EQ(cluster.held(), 0);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, WhoHasEndedWellNeedNotLeave) {
  LedgerCluster cluster;
  const JobId id = cluster.running(3);
  cluster.exit("j0-1-2");
  cluster.exit("j0-1-1");
  cluster.tell(ResizeRequested{id, 2});
  EXPECT_EQ(cluster.held(), 2) << "the GPU of one of them is free at once";
  EXPECT_THAT(cluster.told.at("j0-1-0").members, testing::SizeIs(1));
  cluster.switched("j0-1-0");
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::running);
  cluster.exit("j0-1-0");
  EXPECT_EQ(cluster.job(id).outcome, Outcome::completed);
  EXPECT_EQ(cluster.held(), 0);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, AStartThatIsNotAnsweredIsAFailure) {
  LedgerCluster cluster;
  JobRequest job = elastic_request(Elasticity::contract, 2);
  job.max_retries = 1;
  const JobId id = cluster.submit(job);
  cluster.run(cluster.started);
  cluster.pass(minutes(10));
  EXPECT_THAT(cluster.stopped, UnorderedElementsAre("j0-1-0", "j0-1-1"));
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  EXPECT_EQ(cluster.job(id).retries, 1u);
  cluster.started.clear();
  cluster.pass(seconds(1));
  cluster.run(cluster.started);
  cluster.pass(minutes(10));
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  EXPECT_EQ(cluster.job(id).outcome, Outcome::failed);
  EXPECT_EQ(cluster.job(id).why, "target 1 was not answered in time");
  EXPECT_EQ(cluster.job(id).exit_code, 1);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, AWorkerThatFailsWhileTheJobGrows) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 4});
  cluster.run({"j0-1-2"});
  cluster.exit("j0-1-2", WorkerExit::Cause::exited, 3);
  EXPECT_THAT(cluster.stopped, UnorderedElementsAre("j0-1-0", "j0-1-1", "j0-1-3"));
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  EXPECT_EQ(cluster.job(id).outcome, Outcome::failed);
  EXPECT_EQ(cluster.job(id).exit_code, 3);
  EXPECT_EQ(cluster.held(), 0);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, ALostWorkerWhileTheJobShrinksLetsItWaitAgain) {
  LedgerCluster cluster;
  const JobId id = cluster.running(2);
  cluster.tell(ResizeRequested{id, 1});
  cluster.started.clear();
  cluster.exit("j0-1-0", WorkerExit::Cause::lost);
  cluster.exit_stopped({"j0-1-1"});
  EXPECT_THAT(cluster.started, ElementsAre("j0-2-0")) << "on the size that was asked for";
  EXPECT_EQ(cluster.job(id).retries, 0u);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, CancelledWhileItGrows) {
  LedgerCluster cluster;
  const JobId id = cluster.running(1);
  cluster.tell(ResizeRequested{id, 2});
  cluster.tell(CancelRequested{id});
  EXPECT_THAT(cluster.stopped, UnorderedElementsAre("j0-1-0", "j0-1-1"));
  cluster.switched("j0-1-0");
  cluster.pass(minutes(20));
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  EXPECT_EQ(cluster.job(id).outcome, Outcome::cancelled);
  EXPECT_EQ(cluster.held(), 0);
  EXPECT_TRUE(cluster.replay());
}

TEST(Contract, ProgressIsKept) {
  LedgerCluster cluster;
  const JobId id = cluster.running(1);
  wire::Progress progress;
  progress.step = 12;
  progress.samples = 1'200;
  progress.loss = 0.5;
  progress.phases["compute"] = seconds(1);
  progress.checkpoint = "step-10";
  cluster.report("j0-1-0", progress);
  EXPECT_EQ(cluster.job(id).progress, progress);
  EXPECT_TRUE(cluster.replay());
}

TEST(Restart, ANewIncarnationOnTheNewSize) {
  LedgerCluster cluster;
  const JobId id = cluster.submit(elastic_request(Elasticity::restart, 2));
  cluster.run(cluster.started);
  EXPECT_THAT(cluster.told, IsEmpty());
  cluster.started.clear();
  cluster.tell(ResizeRequested{id, 4});
  EXPECT_THAT(cluster.stopped, ElementsAre("j0-1-0", "j0-1-1"));
  EXPECT_THAT(cluster.started, IsEmpty());
  cluster.exit_stopped({"j0-1-0"});
  EXPECT_THAT(cluster.started, IsEmpty());
  cluster.exit("j0-1-1");  // at once when told: it may even succeed
  EXPECT_EQ(cluster.started.size(), 4u);
  EXPECT_EQ(cluster.ledger().spec_of_worker("j0-2-3").fence, 6u);
  EXPECT_THAT(cluster.ledger().spec_of_worker("j0-2-3").environment, testing::Contains("WORLD_SIZE=4"));
  cluster.run(cluster.started);
  EXPECT_EQ(cluster.core(id).phase, sched::JobPhase::running);
  cluster.stopped.clear();
  cluster.started.clear();
  cluster.tell(ResizeRequested{id, 1});
  cluster.exit_stopped(std::exchange(cluster.stopped, {}));
  EXPECT_THAT(cluster.started, ElementsAre("j0-3-0"));
  cluster.run(cluster.started);
  EXPECT_EQ(cluster.held(), 1);
  EXPECT_EQ(cluster.job(id).outcome, Outcome::none);
  EXPECT_TRUE(cluster.replay());
}

TEST(Restart, WhoEndsWellBeforeItIsStoppedIsDone) {
  LedgerCluster cluster;
  const JobId id = cluster.submit(elastic_request(Elasticity::restart, 1));
  cluster.run(cluster.started);
  cluster.tell(ResizeRequested{id, 2});
  cluster.exit("j0-1-0");
  EXPECT_EQ(cluster.job(id).outcome, Outcome::completed);
  EXPECT_EQ(cluster.held(), 0);
  EXPECT_TRUE(cluster.replay());
}

TEST(Resize, OfAJobThatWaitsIsItsSizeAtTheStart) {
  for (const char* policy : {"fifo", "backfill", "tiresias", "srtf", "drf"}) {
    LedgerCluster cluster(4, policy);
    JobRequest moldable = elastic_request(Elasticity::none, 4);
    cluster.submit(test_request(4));
    const JobId id = cluster.submit(moldable);
    EXPECT_TRUE(cluster.ledger().check_resize(id, 2).has_value());
    cluster.tell(ResizeRequested{id, 2});
    const JobId held = cluster.submit([&] {
      JobRequest job = moldable;
      job.hold = true;
      return job;
    }());
    cluster.tell(ResizeRequested{held, 1});
    cluster.run(cluster.started);
    for (const WorkerId& worker : cluster.workers(0)) cluster.exit(worker);
    EXPECT_EQ(cluster.workers(id).size(), 2u) << policy;
    cluster.tell(ReleaseRequested{held});
    EXPECT_EQ(cluster.workers(held).size(), 1u) << policy;
    cluster.run(cluster.workers(id));
    EXPECT_EQ(cluster.ledger().check_resize(id, 3).error().code, ErrorCode::failed_precondition) << "it has its GPUs";
    EXPECT_TRUE(cluster.replay());
  }
}

TEST(Resize, WhatIsNoSizeIsRefused) {
  LedgerCluster cluster;
  const JobId rigid = cluster.submit(test_request(1));
  EXPECT_EQ(cluster.ledger().check_resize(rigid, 2).error().code, ErrorCode::invalid_argument);
  JobRequest stepped = elastic_request(Elasticity::restart, 1, 9);
  stepped.worker_step = 2;
  const JobId id = cluster.submit(stepped);
  EXPECT_THAT(cluster.ledger().check_resize(id, 2).error().message, HasSubstr("steps of 2"));
  EXPECT_THAT(cluster.ledger().check_resize(id, 9).error().message, HasSubstr("more than the 4"));
  EXPECT_TRUE(cluster.ledger().check_resize(id, 3).has_value());
  cluster.tell(CancelRequested{id});
  EXPECT_EQ(cluster.ledger().check_resize(id, 3).error().code, ErrorCode::failed_precondition);
}

TEST(Contract, AFailureAmongThoseThatStayWhileOthersLeave) {
  // On two nodes, so that who leaves is not the last.
  LedgerCluster cluster(2, "fifo", 2);
  const JobId id = cluster.running(4);
  const std::string& first_node = cluster.told.at("j0-1-0").members[0].node;
  EXPECT_NE(first_node, cluster.told.at("j0-1-0").members[3].node);
  cluster.tell(ResizeRequested{id, 1});
  cluster.exit("j0-1-0", WorkerExit::Cause::exited, 7);
  cluster.exit("j0-1-1");
  cluster.exit_stopped({"j0-1-3", "j0-1-2"});
  EXPECT_EQ(cluster.job(id).outcome, Outcome::failed);
  EXPECT_EQ(cluster.job(id).exit_code, 7);
  EXPECT_EQ(cluster.held(), 0);
  EXPECT_TRUE(cluster.replay());
}

TEST(Resize, OfAJobThatEndsInTheSameTurn) {
  LedgerCluster cluster;
  const JobId id = cluster.running(1);
  ASSERT_TRUE(cluster.ledger().check_resize(id, 2).has_value());
  cluster.hear(WorkerSaid{{"j0-1-0", 100, WorkerExit{}}});
  cluster.tell(ResizeRequested{id, 2});
  EXPECT_EQ(cluster.job(id).outcome, Outcome::completed);
  EXPECT_TRUE(cluster.replay());
}

// Jobs of all kinds under random requests, answers, failures, clocks and crashes: the core refuses nothing, invariants
// hold, another ledger decides the same, and at the end nothing is left.
RC_GTEST_PROP(ElasticProperty, NoHistoryBreaksTheLedger, ()) {
  const auto any_policy = [] {
    return *rc::gen::element<std::string>("fifo", "backfill", "srtf", "srsf", "tiresias", "drf", "afs", "optimus",
                                          "lyra", "deepboot", "pollux");
  };
  LedgerCluster cluster(3, any_policy(), 2);
  const auto pick = [](std::size_t n) { return *rc::gen::inRange<std::size_t>(0, n); };
  // As the controller does: what comes in one turn is checked against the state before it, and folded together.
  std::vector<Input> turn;
  const auto flush = [&] {
    for (const Input& input : std::exchange(turn, {})) cluster.hear(input);
    cluster.step();
  };
  const std::size_t length = pick(120);
  for (std::size_t k = 0; k < length; ++k) {
    const std::size_t jobs = cluster.ledger().jobs().size();
    const std::vector<WorkerId> live = cluster.ledger().live_workers();
    const std::size_t what = pick(20);
    if (jobs == 0 || what < 2) {
      auto job = elastic_request(*rc::gen::element(Elasticity::none, Elasticity::restart, Elasticity::contract),
                                 *rc::gen::inRange(1, 4), *rc::gen::inRange(4, 7));
      job.max_retries = *rc::gen::inRange(0, 2);
      flush();
      cluster.submit(job);
    } else if (what < 5) {
      const auto id = static_cast<JobId>(pick(jobs));
      const auto workers = *rc::gen::inRange(1, 5);
      if (cluster.ledger().check_resize(id, workers)) turn.emplace_back(ResizeRequested{id, workers});
    } else if (what == 5) {
      const auto id = static_cast<JobId>(pick(jobs));
      const std::size_t which = pick(5);
      const JobEntry& entry = cluster.job(id);
      if (entry.outcome == Outcome::none && which == 0) turn.emplace_back(CancelRequested{id});
      if (entry.outcome == Outcome::none && entry.place != JobEntry::Place::placed && which == 1) {
        turn.emplace_back(HoldRequested{id});
      }
      if (entry.user_held && which == 2) turn.emplace_back(ReleaseRequested{id});
      if (which > 2) turn.emplace_back(DrainRequested{static_cast<NodeId>(pick(2)), pick(3) == 0});
    } else if (what == 6 && pick(2) == 0) {
      PolicySet set{any_policy(), {}};
      if (set.policy == "tiresias" && pick(2) == 0) set.options = {{"variant", "pollux"}};
      if (cluster.ledger().check_policy(set)) turn.emplace_back(set);
      cluster.plans.clear();
    } else if (what == 7 && !cluster.plans.empty()) {
      turn.emplace_back(PlanAnswered{cluster.plans.back().first, cluster.plans.back().second});
      cluster.plans.pop_back();
    } else if (what == 6) {
      flush();
      cluster.pass(*rc::gen::element<Duration>(seconds(1), seconds(10), minutes(10)));
    } else if (!live.empty()) {
      const WorkerId& worker = live[pick(live.size())];
      const auto report = [&](wire::Report said) { turn.emplace_back(WorkerReported{{worker, 0, std::move(said)}}); };
      if (what < 11) {
        turn.emplace_back(WorkerSaid{{worker, 100, {}}});
      } else if (what < 13) {
        report(wire::Ready{});
      } else if (what < 16) {
        if (const auto target = cluster.ledger().target_of(worker, cluster.now())) {
          wire::Switched switched{target->revision, target->revision, {}};
          for (const auto& member : target->members) switched.members.push_back(member.worker);
          report(std::move(switched));
        }
      } else if (what == 16) {
        report(wire::Refused{*rc::gen::inRange<std::uint64_t>(0, 4), "no"});
      } else if (what == 17) {
        report(wire::Drained{live[pick(live.size())]});
      } else {
        const auto cause = *rc::gen::element(WorkerExit::Cause::exited, WorkerExit::Cause::stopped,
                                             WorkerExit::Cause::signalled, WorkerExit::Cause::lost);
        turn.emplace_back(WorkerSaid{
            {worker, 100, WorkerExit{cause, cause == WorkerExit::Cause::exited ? static_cast<int>(pick(2)) : 9, ""}}});
      }
    }
    if (pick(3) != 0) flush();
    if (turn.empty() && pick(10) == 0) cluster.crash(pick(2) == 0);
    if (testing::Test::HasFatalFailure()) RC_FAIL("a step failed");
  }
  flush();
  for (JobId id = 0; id < cluster.ledger().jobs().size(); ++id) {
    if (cluster.job(id).outcome == Outcome::none) cluster.tell(CancelRequested{id});
  }
  for (const WorkerId& worker : cluster.ledger().live_workers()) cluster.exit(worker, WorkerExit::Cause::stopped);
  RC_ASSERT(cluster.held() == 0);
  RC_ASSERT(cluster.ledger().live_worker_count() == 0u);
  for (JobId id = 0; id < cluster.ledger().jobs().size(); ++id) RC_ASSERT(cluster.job(id).outcome != Outcome::none);
  RC_ASSERT(cluster.replay().has_value());
}

}  // namespace
}  // namespace ebb::control
