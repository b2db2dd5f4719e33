// What users of other schedulers ask for (the survey's rows, by their numbers), on the ledger of the live control
// plane. Rows that are tests elsewhere: 4 NoPreemptionLoop (live_ledger_test.cc), 7 and 8
// ApiTest.AnExplanationHasAForecast and WhatAnotherPolicyOrOneMoreJobWouldChange (live_api_test.cc), 14
// bench/bench_controller.cc, 18 the readers of traces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "live_ledger_cluster.h"

namespace ebb::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A gang that goes first gets whole gangs out of its way, all that it needs and at once.
TEST(Row2, AGangOfHighPriorityIsNotBlockedByGangs) {
  LedgerCluster cluster(4, "tiresias");
  const JobId first = cluster.submit(test_request(2));
  const JobId second = cluster.submit(test_request(2));
  cluster.run(cluster.started);
  cluster.started.clear();
  JobRequest urgent = test_request(4);
  urgent.priority = 10;
  const JobId id = cluster.submit(urgent);
  EXPECT_THAT(cluster.stopped, UnorderedElementsAre("j0-1-0", "j0-1-1", "j1-1-0", "j1-1-1"));
  cluster.exit_stopped({"j0-1-0", "j0-1-1", "j1-1-0"});
  EXPECT_THAT(cluster.started, IsEmpty()) << "not before the last of them is gone";
  cluster.exit_stopped({"j1-1-1"});
  EXPECT_EQ(cluster.workers(id).size(), 4u);
  EXPECT_EQ(cluster.core(first).phase, sched::JobPhase::waiting);
  EXPECT_EQ(cluster.core(second).phase, sched::JobPhase::waiting);
  EXPECT_TRUE(cluster.replay());
}

// A gang that loses one worker with its machine is never left below its size: it ends and starts again whole.
TEST(Row3, AGangIsNeverLeftBelowItsSize) {
  LedgerCluster cluster(4);
  const JobId id = cluster.submit(test_request(3));
  cluster.run(cluster.started);
  cluster.started.clear();
  cluster.exit("j0-1-1", WorkerExit::Cause::lost);
  EXPECT_THAT(cluster.stopped, ElementsAre("j0-1-0", "j0-1-2"));
  cluster.exit_stopped({"j0-1-0", "j0-1-2"});
  EXPECT_THAT(cluster.started, ElementsAre("j0-2-0", "j0-2-1", "j0-2-2"));
  EXPECT_EQ(cluster.job(id).retries, 0u) << "it was no failure of the job";
  EXPECT_TRUE(cluster.replay());
}

// An elastic job gets what there is, and every GPU that becomes free is offered at once.
TEST(Row5, PartOfAWishIsGrantedAndEveryReleaseIsOffered) {
  LedgerCluster cluster(4);
  cluster.submit(test_request(1));
  const JobId id = cluster.submit(elastic_request(Elasticity::contract, 1, 4));
  cluster.run(std::vector<WorkerId>(cluster.started));
  cluster.ready({"j1-1-0"});
  cluster.switched("j1-1-0");
  cluster.started.clear();
  cluster.tell(ResizeRequested{id, 4});
  EXPECT_THAT(cluster.started, ElementsAre("j1-1-1", "j1-1-2")) << "two of the three that it wants";
  cluster.run(cluster.started);
  cluster.ready(cluster.started);
  cluster.switched("j1-1-0");
  cluster.started.clear();
  cluster.exit("j0-1-0");
  EXPECT_THAT(cluster.started, ElementsAre("j1-1-3"));
  // And a job that waits starts when another shrinks.
  cluster.run(cluster.started);
  cluster.ready(cluster.started);
  cluster.switched("j1-1-0");
  cluster.submit(test_request(2));
  cluster.started.clear();
  cluster.tell(ResizeRequested{id, 2});
  cluster.switched("j1-1-0");
  cluster.exit_stopped(std::vector<WorkerId>(cluster.stopped));
  EXPECT_THAT(cluster.started, ElementsAre("j2-1-0", "j2-1-1"));
  EXPECT_TRUE(cluster.replay());
}

// GPUs are free when the processes on them are gone, not when they were told to go.
TEST(Row6, GpusAreReleasedWhenTheOldWorkersAreGone) {
  LedgerCluster cluster(2);
  const JobId id = cluster.submit(test_request(2));
  cluster.run(cluster.started);
  const JobId next = cluster.submit(test_request(2));
  cluster.tell(CancelRequested{id});
  cluster.exit_stopped({"j0-1-0"});
  EXPECT_EQ(cluster.core(next).phase, sched::JobPhase::waiting);
  EXPECT_EQ(cluster.held(), 2);
  cluster.exit_stopped({"j0-1-1"});
  EXPECT_EQ(cluster.workers(next).size(), 2u);
  EXPECT_TRUE(cluster.replay());
}

// A tenant's first job that does not fit does not keep its others from what is free.
TEST(Row11, TheQueueOfTheMostDeservingIsWalkedDeeper) {
  LedgerCluster cluster(4, "drf");
  const auto job = [](const std::string& tenant, std::int32_t workers) {
    JobRequest request = test_request(workers);
    request.tenant = tenant;
    return request;
  };
  cluster.submit(job("a", 2));
  cluster.run(cluster.started);
  const JobId too_large = cluster.submit(job("b", 3));
  const JobId fits = cluster.submit(job("b", 1));
  const JobId also = cluster.submit(job("b", 1));
  EXPECT_EQ(cluster.core(too_large).phase, sched::JobPhase::waiting);
  EXPECT_EQ(cluster.workers(fits).size(), 1u);
  EXPECT_EQ(cluster.workers(also).size(), 1u);
  EXPECT_TRUE(cluster.replay());
}

}  // namespace
}  // namespace ebb::control
