#include "ebb/sim/resolve.h"

#include <gtest/gtest.h>

#include "ebb/sched/test_cluster.h"
#include "ebb/sim/test_profile.h"

namespace ebb::sim {
namespace {

class Resolve : public ::testing::Test {
 protected:
  Resolve() {
    job_.name = "a";
    job_.application = "toy";
    job_.gpus = 1;
  }

  Result<JobSpec> resolve(bool up_to_cluster = false) const {
    Workload workload;
    workload.jobs.push_back(job_);
    EBB_RETURN_IF_ERROR(resolve_profiles(workload, profiles_, sched::test_cluster(3, 4), up_to_cluster));
    return workload.jobs.front();
  }
  void expect_refused(const std::vector<std::string>& words) const {
    const auto resolved = resolve();
    ASSERT_FALSE(resolved);
    EXPECT_EQ(resolved.error().code, ErrorCode::invalid_argument);
    for (const std::string& word : words) {
      EXPECT_NE(resolved.error().message.find(word), std::string::npos) << resolved.error().message;
    }
  }
  void make_elastic(GpuCount least, GpuCount most) {
    job_.sizing = Sizing::elastic;
    job_.gpus = job_.min_gpus = least;
    job_.max_gpus = most;
  }

  perf::ProfileSet profiles_ = test_profiles();
  JobSpec job_;
};

TEST_F(Resolve, FillsInWhatTheProfileKnows) {
  const JobSpec job = resolve().value();
  EXPECT_EQ(job.batch, (BatchLimits{10, 20, 10, 20}));
  EXPECT_EQ(job.run_time, std::chrono::seconds(200));
  EXPECT_EQ(job.max_gpus, 0);  // rigid
}

TEST_F(Resolve, KeepsWhatTheTraceSaysOfSizesAndBatches) {
  job_.run_time = std::chrono::seconds(5);
  job_.batch = {10, 200, 10, 20};
  make_elastic(1, 7);
  const JobSpec job = resolve().value();
  EXPECT_EQ(job.run_time, std::chrono::seconds(200)) << "as the profile says";
  EXPECT_EQ(job.batch.largest, 200);
  EXPECT_EQ(job.max_gpus, 7);
}

TEST_F(Resolve, TheLargestSizeIsWhatTheLargestBatchFeeds) {
  make_elastic(1, 0);
  EXPECT_EQ(resolve().value().max_gpus, 2);
  EXPECT_EQ(resolve(/*up_to_cluster=*/true).value().max_gpus, 12);
  job_.batch = {10, 1000, 10, 20};
  EXPECT_EQ(resolve().value().max_gpus, 12);  // the cluster has no more
}

TEST_F(Resolve, JobsWithoutAProfileNeedARunTime) {
  job_.application = "gpt";
  expect_refused({"job 'a'", "'gpt'", "no run time", "profiles: toy", "--profiles"});
  job_.run_time = std::chrono::seconds(60);
  make_elastic(2, 0);
  const JobSpec job = resolve().value();
  EXPECT_EQ(job.max_gpus, 2);
  EXPECT_FALSE(job.batch.known());
}

TEST_F(Resolve, BatchesThatNoNumberOfGpusFits) {
  job_.batch_size = 21;
  expect_refused({"job 'a'", "batches of 21", "at most 20"});
  job_.batch_size = 20;
  make_elastic(3, 8);
  expect_refused({"at least 3 GPUs", "at least 10 samples", "at most 20"});
}

// Policies of fixed size give it 3 GPUs: fewer samples for each than it trains with.
TEST_F(Resolve, TheSizeAskedForMustFitTheBatches) {
  make_elastic(1, 4);
  job_.gpus = 3;
  expect_refused({"job 'a'", "asks for 3 GPUs", "10 to 20 samples"});
  job_.gpus = 2;
  EXPECT_TRUE(resolve());
}

TEST_F(Resolve, SomeSizeMustFitTheBatches) {
  job_.batch = {50, 55, 10, 11};
  make_elastic(3, 4);
  expect_refused({"job 'a'", "no number of GPUs from 3 to 4 fits"});
}

TEST_F(Resolve, TasksAreLeftAlone) {
  job_.kind = JobKind::inference;
  const JobSpec job = resolve().value();
  EXPECT_EQ(job.run_time, Duration(0));
  EXPECT_FALSE(job.batch.known());
}

TEST_F(Resolve, StartDelayIsThatOfTheApplicationNamed) {
  using std::chrono::seconds;
  EXPECT_EQ(start_delay_of("infer-toy-1", &profiles_), seconds(8));
  EXPECT_EQ(start_delay_of("infer-other", &profiles_), seconds(6));
  EXPECT_EQ(start_delay_of("toy", nullptr), seconds(6));
}

TEST(Halves, ClustersWithoutPoolsAreSplit) {
  const ClusterSpec cluster = in_halves(sched::test_cluster(5, 2));
  std::vector<std::string> pools;
  for (const NodeSpec& node : cluster.nodes) pools.push_back(node.pool);
  EXPECT_EQ(pools, (std::vector<std::string>{"training", "training", "serving", "serving", "serving"}));
  ClusterSpec named = sched::test_cluster(2, 2);
  named.nodes[1].pool = "production";
  EXPECT_EQ(in_halves(named), named);
}

}  // namespace
}  // namespace ebb::sim
