#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/control/ledger.h"
#include "live_fixture.h"

namespace ebb::control {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// A ledger on one node of 4 slots, and what it asked for.
class LedgerTest : public testing::Test {
 protected:
  LedgerTest() : ledger_(Ledger::begin({0, sched::test_cluster(1, 4), "fifo", {}}, policies::all()).value()) {}

  JobId submit(const JobRequest& job) {
    const auto id = static_cast<JobId>(ledger_.jobs().size());
    ledger_.apply(now_, JobAccepted{id, job, ""});
    step();
    return id;
  }

  void say(const WorkerId& worker, std::int64_t pid, std::optional<WorkerExit> exit = {}) {
    ledger_.apply(now_, WorkerSaid{{worker, pid, std::move(exit)}});
    step();
  }
  void runs(const WorkerId& worker) { say(worker, 100); }
  void exits(const WorkerId& worker, int code) { say(worker, 100, WorkerExit{WorkerExit::Cause::exited, code, ""}); }

  // Until nothing more follows.
  void step() {
    do {
      Consequences out;
      ASSERT_TRUE(ledger_.step(now_, out).has_value());
      for (const Action& action : out.actions) {
        if (const auto* start = std::get_if<StartWorker>(&action)) started_.push_back(start->spec.id);
        if (const auto* stop = std::get_if<StopWorker>(&action)) stopped_.push_back(stop->worker);
      }
    } while (ledger_.wants_step());
    ASSERT_TRUE(sched::check_invariants(ledger_.scheduler().state()).has_value());
  }

  const JobEntry& job(JobId id) const { return ledger_.jobs()[id]; }

  Ledger ledger_;
  Time now_{};
  std::vector<WorkerId> started_;
  std::vector<WorkerId> stopped_;
};

TEST_F(LedgerTest, AJobThatCompletes) {
  const JobId id = submit(test_request(2));
  EXPECT_THAT(started_, ElementsAre("j0-1-0", "j0-1-1"));
  runs("j0-1-0");
  EXPECT_FALSE(job(id).started);
  runs("j0-1-1");
  EXPECT_TRUE(job(id).started);
  exits("j0-1-1", 0);
  EXPECT_EQ(job(id).outcome, Outcome::none);
  exits("j0-1-0", 0);
  EXPECT_EQ(job(id).outcome, Outcome::completed);
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(ledger_.scheduler().state().capacity().held(0), 0);
}

// Row 4 of what users ask for: no endless preemption. Two jobs with equal claims, each started while the other waits.
TEST(NoPreemptionLoop, EqualJobsDoNotTakeTurns) {
  for (const char* policy : {"srtf", "srsf", "tiresias"}) {
    Ledger ledger = Ledger::begin({0, sched::test_cluster(1, 4), policy, {}}, policies::all()).value();
    JobRequest job = test_request(4);
    job.time_limit = std::chrono::minutes(10);
    for (JobId id = 0; id < 4; ++id) ledger.apply(Time{}, JobAccepted{id, job, ""});
    int preempted = 0;
    int steps = 0;
    while (ledger.wants_step() && steps++ < 100) {
      Consequences out;
      ASSERT_TRUE(ledger.step(Time{}, out).has_value());
      for (const Action& action : out.actions) {
        if (const auto* start = std::get_if<StartWorker>(&action)) {
          ledger.apply(Time{}, WorkerSaid{{start->spec.id, 1, {}}});
        } else if (const auto* stop = std::get_if<StopWorker>(&action)) {
          ++preempted;
          ledger.apply(Time{}, WorkerSaid{{stop->worker, 1, WorkerExit{WorkerExit::Cause::stopped, 0, ""}}});
        }
      }
    }
    EXPECT_LT(steps, 100) << policy;
    EXPECT_EQ(preempted, 0) << policy;
  }
}

TEST_F(LedgerTest, WorkersGetRanksSlotsAndOneFreshPort) {
  JobRequest job = test_request(2);
  job.gpus_per_worker = 2;
  job.environment = {{"SEED", "7"}};
  submit(job);
  const WorkerSpec spec = ledger_.spec_of_worker("j0-1-1");
  EXPECT_THAT(spec.slots, ElementsAre(2, 3));
  const auto set = [&](const std::string& text) { EXPECT_THAT(spec.environment, testing::Contains(text)); };
  for (const char* text : {"SEED=7", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=0",
                           "MASTER_ADDR=127.0.0.1", "EBB_JOB_ID=0", "EBB_INCARNATION=1"}) {
    set(text);
  }
  EXPECT_EQ(ledger_.find_worker("j0-1-0")->placed.port, ledger_.find_worker("j0-1-1")->placed.port);
  EXPECT_GT(ledger_.find_worker("j0-1-1")->placed.fence, ledger_.find_worker("j0-1-0")->placed.fence);
}

TEST_F(LedgerTest, OneWorkerFailsAllStopAndTheJobFails) {
  const JobId id = submit(test_request(3));
  for (const char* worker : {"j0-1-0", "j0-1-1", "j0-1-2"}) runs(worker);
  exits("j0-1-1", 3);
  EXPECT_THAT(stopped_, ElementsAre("j0-1-0", "j0-1-2"));
  // One ends as told, one had an error of its own because of it.
  say("j0-1-0", 100, WorkerExit{WorkerExit::Cause::stopped, 0, ""});
  exits("j0-1-2", 9);
  EXPECT_EQ(job(id).outcome, Outcome::failed);
  EXPECT_EQ(job(id).exit_code, 3);
  EXPECT_EQ(job(id).why, "worker 1: exit code 3");
}

TEST_F(LedgerTest, AWorkerThatEndsBeforeItIsToldToIsNotTold) {
  const JobId id = submit(test_request(2));
  for (const char* worker : {"j0-1-0", "j0-1-1"}) {
    ledger_.apply(now_, WorkerSaid{{worker, 100, WorkerExit{WorkerExit::Cause::exited, 3, ""}}});
  }
  step();
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(job(id).outcome, Outcome::failed);
}

TEST_F(LedgerTest, ASignalIsAnExitCodeAbove128) {
  const JobId id = submit(test_request());
  say("j0-1-0", 100, WorkerExit{WorkerExit::Cause::signalled, 11, ""});
  EXPECT_EQ(job(id).exit_code, 139);
  EXPECT_THAT(job(id).why, HasSubstr("signal 11"));
}

TEST_F(LedgerTest, RetriesBackOffAndEnd) {
  JobRequest asked = test_request();
  asked.max_retries = 2;
  asked.retry_backoff = seconds(10);
  const JobId id = submit(asked);
  exits("j0-1-0", 1);
  EXPECT_EQ(job(id).outcome, Outcome::none);
  EXPECT_EQ(ledger_.next_wake(), now_ + seconds(10));
  EXPECT_TRUE(ledger_.due_retries(now_ + seconds(9)).empty());
  now_ += seconds(10);
  ASSERT_THAT(ledger_.due_retries(now_), ElementsAre(id));
  ledger_.apply(now_, RetryDue{id});
  step();
  EXPECT_EQ(started_.back(), "j0-2-0");
  exits("j0-2-0", 1);
  EXPECT_EQ(ledger_.next_wake(), now_ + seconds(20));
  now_ += seconds(20);
  ledger_.apply(now_, RetryDue{id});
  step();
  exits("j0-3-0", 1);
  EXPECT_EQ(job(id).outcome, Outcome::failed);
  EXPECT_EQ(job(id).retries, 2u);
}

TEST_F(LedgerTest, TheFaultOfAMachineUsesUpNoRetry) {
  const JobId id = submit(test_request());
  for (int k = 1; k <= 5; ++k) {
    say(worker_id(id, static_cast<std::uint32_t>(k), 0), 100, WorkerExit{WorkerExit::Cause::lost, 0, "gone"});
  }
  EXPECT_EQ(job(id).outcome, Outcome::none);
  EXPECT_EQ(started_.back(), "j0-6-0");
  EXPECT_EQ(job(id).retries, 0u);
}

TEST_F(LedgerTest, HeldJobsWaitUntilReleased) {
  JobRequest asked = test_request();
  asked.hold = true;
  const JobId id = submit(asked);
  EXPECT_TRUE(started_.empty());
  ledger_.apply(now_, ReleaseRequested{id});
  step();
  EXPECT_THAT(started_, ElementsAre("j0-1-0"));
}

TEST_F(LedgerTest, DependenciesDecideWhatFollows) {
  const JobId first = submit(test_request());
  JobRequest ok = test_request();
  ok.dependencies = {{first, Dependency::When::after_ok}};
  JobRequest any = test_request();
  any.dependencies = {{first, Dependency::When::after_any}};
  const JobId after_ok = submit(ok);
  const JobId after_any = submit(any);
  JobRequest chained = test_request();
  chained.dependencies = {{after_ok, Dependency::When::after_ok}};
  const JobId last = submit(chained);
  EXPECT_THAT(started_, ElementsAre("j0-1-0"));
  exits("j0-1-0", 1);
  EXPECT_EQ(job(after_ok).outcome, Outcome::cancelled);
  EXPECT_EQ(job(last).outcome, Outcome::cancelled);
  EXPECT_THAT(job(last).why, HasSubstr("job 1"));
  EXPECT_EQ(started_.back(), worker_id(after_any, 1, 0));
}

TEST_F(LedgerTest, ADependencyOnAJobThatFailedBefore) {
  submit(test_request());
  exits("j0-1-0", 1);
  JobRequest ok = test_request();
  ok.dependencies = {{0, Dependency::When::after_ok}};
  EXPECT_EQ(job(submit(ok)).outcome, Outcome::cancelled);
}

TEST_F(LedgerTest, AChainOfDependenciesMayBeLong) {
  constexpr JobId kLast = 50'000;
  JobRequest asked = test_request();
  ledger_.apply(now_, JobAccepted{0, asked, ""});
  for (JobId id = 1; id <= kLast; ++id) {
    asked.dependencies = {{id - 1, Dependency::When::after_ok}};
    ledger_.apply(now_, JobAccepted{id, asked, ""});
  }
  step();
  exits("j0-1-0", 1);
  EXPECT_EQ(job(0).outcome, Outcome::failed);
  EXPECT_EQ(job(1).outcome, Outcome::cancelled);
  EXPECT_EQ(job(kLast).outcome, Outcome::cancelled);
}

TEST_F(LedgerTest, CancelWhereverTheJobIs) {
  const JobId running = submit(test_request(4));
  const JobId waiting = submit(test_request(4));
  ledger_.apply(now_, CancelRequested{waiting});
  step();
  EXPECT_EQ(job(waiting).outcome, Outcome::cancelled);
  ledger_.apply(now_, CancelRequested{running});
  ledger_.apply(now_, CancelRequested{running});
  step();
  EXPECT_EQ(stopped_.size(), 4u);
  EXPECT_EQ(job(running).outcome, Outcome::none);
  for (int rank = 0; rank < 4; ++rank) {
    say(worker_id(running, 1, rank), 0, WorkerExit{WorkerExit::Cause::stopped, 0, ""});
  }
  EXPECT_EQ(job(running).outcome, Outcome::cancelled);
  EXPECT_EQ(job(running).why, "cancelled by its owner");
  EXPECT_EQ(ledger_.scheduler().state().active_count(), 0u);
}

TEST_F(LedgerTest, AnArrayIsOneRequestAndManyJobs) {
  JobRequest asked = test_request();
  asked.array_size = 3;
  submit(asked);
  EXPECT_EQ(ledger_.jobs().size(), 3u);
  EXPECT_THAT(ledger_.spec_of_worker("j2-1-0").environment, testing::Contains("EBB_ARRAY_INDEX=2"));
}

TEST_F(LedgerTest, SlotsGoToTheNextJobOnceTheirHolderIsGone) {
  submit(test_request(4));
  submit(test_request(2));
  EXPECT_EQ(started_.size(), 4u);
  for (int rank = 0; rank < 3; ++rank) exits(worker_id(0, 1, rank), 0);
  EXPECT_EQ(started_.size(), 4u);
  exits("j0-1-3", 0);
  EXPECT_EQ(started_.size(), 6u);
  EXPECT_THAT(ledger_.find_worker("j1-1-0")->placed.slots, ElementsAre(0));
}

TEST_F(LedgerTest, WhatIsSaidTwiceCountsOnce) {
  submit(test_request());
  exits("j0-1-0", 0);
  exits("j0-1-0", 5);
  EXPECT_EQ(job(0).outcome, Outcome::completed);
}

TEST_F(LedgerTest, RequestsThatTheClusterCannotServe) {
  const auto too_large = ledger_.check(test_request(5));
  ASSERT_FALSE(too_large.has_value());
  EXPECT_THAT(too_large.error().message, HasSubstr("the cluster has 4"));
  JobRequest lost = test_request();
  lost.dependencies = {{7, Dependency::When::after_ok}};
  EXPECT_EQ(ledger_.check(lost).error().code, ErrorCode::not_found);
  JobRequest elsewhere = test_request();
  elsewhere.node = "nowhere";
  EXPECT_EQ(ledger_.check(elsewhere).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace ebb::control
