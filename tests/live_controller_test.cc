#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ebb/control/controller.h"
#include "live_fixture.h"

namespace ebb::control {
namespace {

using backend::FakeBackend;
using testing::ElementsAre;
using testing::HasSubstr;
using wire::JobStatus;

TEST(Controller, AJobRunsFromSubmissionToItsEnd) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  ASSERT_THAT(cluster->submit(test_request(2), "").value(), ElementsAre(0));
  ASSERT_TRUE(cluster.reaches(0, JobStatus::running));
  for (const WorkerId& worker : cluster.backend().running()) {
    cluster.backend().end(worker, {WorkerExit::Cause::exited, 0, ""});
  }
  ASSERT_TRUE(cluster.reaches(0, JobStatus::completed));
  EXPECT_EQ(cluster->job(0).value().job.exit_code, 0);
  EXPECT_EQ(cluster->job(0).value().workers.size(), 2u);
}

TEST(Controller, AKeyUsedAgainGetsTheSameAnswer) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  JobRequest array = test_request();
  array.array_size = 3;
  EXPECT_THAT(cluster->submit(array, "k").value(), ElementsAre(0, 1, 2));
  EXPECT_THAT(cluster->submit(array, "k").value(), ElementsAre(0, 1, 2));
  EXPECT_EQ(cluster->submit(test_request(), "k").error().code, ErrorCode::already_exists);
  EXPECT_EQ(cluster->jobs({}).value().size(), 3u);
}

TEST(Controller, TheSameKeyFromManyThreadsIsOneJob) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  std::vector<std::thread> clients;
  std::atomic<int> first = 0;
  for (int k = 0; k < 8; ++k) {
    clients.emplace_back([&] {
      if (cluster->submit(test_request(), "same").value().front() == 0) ++first;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(first, 8);
  EXPECT_EQ(cluster->jobs({}).value().size(), 1u);
}

TEST(Controller, RequestsThatCannotBe) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  EXPECT_EQ(cluster->submit(test_request(5), "").error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(cluster->cancel(0).error().code, ErrorCode::not_found);
  ASSERT_TRUE(cluster->submit(test_request(), "").has_value());
  ASSERT_TRUE(cluster.reaches(0, JobStatus::running));
  EXPECT_THAT(cluster->hold(0).error().message, HasSubstr("only a job that waits"));
  EXPECT_THAT(cluster->release(0).error().message, HasSubstr("is not held"));
  EXPECT_EQ(cluster->drain("nowhere", true).error().code, ErrorCode::not_found);
  EXPECT_EQ(cluster->log(0, 1, "stdout", 0, 10).error().code, ErrorCode::not_found);
  EXPECT_EQ(cluster->log(0, 0, "stdout", 0, 100).value().bytes, "j0-1-0 stdout\n");
}

TEST(Controller, ExplainsWhyAJobWaits) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  ASSERT_TRUE(cluster->submit(test_request(4), "").has_value());
  ASSERT_TRUE(cluster.reaches(0, JobStatus::running));
  ASSERT_TRUE(cluster->submit(test_request(2), "").has_value());
  ASSERT_TRUE(cluster->submit(test_request(2), "").has_value());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cluster->explain(2).value().code != "behind_head" && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(cluster->explain(1).value().code, "no_capacity");
  EXPECT_EQ(cluster->explain(1).value().position, 1u);
  EXPECT_EQ(cluster->explain(2).value().code, "behind_head");
  EXPECT_EQ(cluster->explain(2).value().position, 2u);
}

TEST(Controller, DrainedNodesGetNothingNew) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  ASSERT_TRUE(cluster->drain("node-0000", true).has_value());
  ASSERT_TRUE(cluster->submit(test_request(), "").has_value());
  ASSERT_TRUE(cluster->submit(test_request(), "").has_value());  // the first is folded by now
  EXPECT_EQ(cluster->job(0).value().job.status, JobStatus::waiting);
  EXPECT_EQ(cluster->nodes().value().front().state, "draining");
  ASSERT_TRUE(cluster->drain("node-0000", false).has_value());
  EXPECT_TRUE(cluster.reaches(1, JobStatus::running));
}

// A controller that goes away and another one on its journal, while workers run on.
TEST(Controller, ARestartGoesOnWhereTheJournalEnds) {
  const TestFolder folder;
  std::optional<TestCluster> cluster;
  std::atomic<Controller*> current = nullptr;
  FakeBackend backend([&](WorkerStatus status) {
    if (Controller* controller = current) controller->on_status(std::move(status));
  });
  backend.obey(false);
  const auto restart = [&] {
    current = nullptr;
    cluster.reset();
    cluster.emplace(folder.path(), &backend);
    ASSERT_FALSE(cluster->error) << cluster->error->message;
    current = &**cluster;
    cluster->run();
  };
  restart();
  ASSERT_TRUE((*cluster)->submit(test_request(3), "key").has_value());
  ASSERT_TRUE((*cluster)->submit(test_request(4), "").has_value());
  ASSERT_TRUE(cluster->reaches(0, JobStatus::running));
  restart();
  EXPECT_TRUE(cluster->reaches(0, JobStatus::running));
  EXPECT_TRUE(cluster->reaches(1, JobStatus::waiting));
  EXPECT_THAT((*cluster)->submit(test_request(3), "key").value(), ElementsAre(0));
  ASSERT_TRUE((*cluster)->cancel(0).has_value());
  restart();  // the stop is asked for again
  current = nullptr;
  cluster.reset();
  // They end while no controller is there.
  for (const WorkerId& worker : backend.running()) backend.end(worker, {WorkerExit::Cause::stopped, 0, ""});
  restart();
  EXPECT_TRUE(cluster->reaches(0, JobStatus::cancelled));
  EXPECT_TRUE(cluster->reaches(1, JobStatus::running));
  for (const auto& [worker, runs] : backend.runs()) EXPECT_EQ(runs, 1) << worker;
}

TEST(Controller, AJournalOfAnotherClusterIsRefused) {
  const TestFolder folder;
  {
    const TestCluster first(folder.path());
  }
  const TestCluster other(folder.path(), nullptr, 8);
  ASSERT_TRUE(other.error.has_value());
  EXPECT_EQ(other.error->code, ErrorCode::failed_precondition);
  EXPECT_THAT(other.error->message, HasSubstr("another data folder"));
}

TEST(Controller, EventsCanBeResumed) {
  const TestFolder folder;
  TestCluster cluster(folder.path());
  cluster.run();
  ASSERT_TRUE(cluster->submit(test_request(), "").has_value());
  ASSERT_TRUE(cluster.reaches(0, JobStatus::running));
  const auto all = cluster->events(0, 1000, {}).value();
  EXPECT_THAT(all.front().json, HasSubstr("live_journal"));
  const auto rest = cluster->events(all[1].seq, 1000, {}).value();
  ASSERT_EQ(rest.size(), all.size() - 2);
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].seq, i + 3);
}

}  // namespace
}  // namespace ebb::control
