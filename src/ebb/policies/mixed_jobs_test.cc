#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ebb/base/random.h"
#include "ebb/policies/all.h"
#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using Set = std::vector<std::pair<std::string, std::string>>;

/// Random jobs of every kind on nodes of two types and two pools that fail, with inference tasks between: no decision
/// may be refused (TestRun), and every job must end.
class MixedJobs {
 public:
  MixedJobs(std::uint64_t seed, const std::string& policy, const Set& set)
      : random_(seed, "mixed jobs"), run_(all().make_scheduler(policy, set, cluster(), config()).value()) {}

  void play() {
    for (t_ = 0; t_ < 60 * 40; t_ += 60) {
      if (t_ < 60 * 25) {
        for (std::uint64_t n = random_.below(4); n > 0; --n) run_.submit(job());
        if (random_.below(3) == 0) run_.submit(task());
      }
      end_some(/*all=*/t_ >= 60 * 25);
      if (random_.below(4) == 0) change_node();
      run_.tick(t_);
      if (::testing::Test::HasFailure()) return;
    }
    for (NodeId n = 0; n < up_.size(); ++n) {
      if (!up_[n]) run_.hear(NodeRepaired{n});
    }
    for (int more = 0; more < 200 && run_.state().active_count() > 0; ++more, t_ += 60) {
      run_.tick(t_);
      end_some(/*all=*/true);
    }
    EXPECT_EQ(run_.state().active_count(), 0U);
  }

 private:
  static ClusterSpec cluster() {
    ClusterSpec cluster;
    add_nodes(cluster, 3, 4, "a100", "training");
    add_nodes(cluster, 2, 8, "t4", "training");
    add_nodes(cluster, 2, 4, "t4", "serving");
    return cluster;
  }
  static SchedulerConfig config() {
    SchedulerConfig config;
    config.lending = Lending::pooled;
    return config;
  }

  GpuCount below(GpuCount n) { return static_cast<GpuCount>(random_.below(static_cast<std::uint64_t>(n))); }

  JobSpec job() {
    JobSpec spec = test_job(1 + below(8));
    if (random_.below(2) == 0) spec.requested_time = std::chrono::seconds(60 + below(1000));
    spec.priority = random_.below(8) == 0 ? 1 : 0;
    spec.gpu_type = std::array{"", "a100", "t4"}[random_.below(3)];
    if (random_.below(3) == 0) return spec;
    spec.sizing = random_.below(3) == 0 ? Sizing::moldable : Sizing::elastic;
    spec.min_gpus = 1 + below(3);
    spec.gpu_step = 1 + below(3);
    spec.max_gpus = spec.min_gpus + spec.gpu_step * below(5);
    spec.gpus = spec.min_gpus + spec.gpu_step * below((spec.max_gpus - spec.min_gpus) / spec.gpu_step + 1);
    if (random_.below(2) == 0) {
      spec.batch_size = 100;
      spec.batch = {.initial = 100, .largest = 1000, .local_min = 1 + below(50), .local_max = 100};
    }
    return spec;
  }

  JobSpec task() {
    JobSpec spec = test_job(1, 5);
    spec.kind = JobKind::inference;
    spec.application = "service";
    return spec;
  }

  void end_some(bool all) {
    for (JobId id = 0; id < run_.state().jobs().size(); ++id) {
      const JobState& job = run_.state().job(id);
      const bool serves = !job.training() && job.phase == JobPhase::running;
      if (serves || (job.training() && job.phase == JobPhase::running && (all || random_.below(6) == 0))) {
        run_.tell(JobFinished{id, {}}, t_);
      } else if (job.training() && job.phase == JobPhase::running && job.spec.batch.known() && random_.below(2) == 0) {
        run_.tell(report_of_no_gain(id), t_);
      }
    }
  }

  void change_node() {
    const auto node = static_cast<NodeId>(random_.below(up_.size()));
    if (!up_[node]) {
      run_.tell(NodeRepaired{node}, t_);
    } else {
      run_.tell(NodeFailed{node}, t_);
      for (JobId id = 0; id < run_.state().jobs().size(); ++id) {
        const JobState& job = run_.state().job(id);
        const auto on = [&](const NodeShare& share) { return share.node == node; };
        if (job.training() && job.holds() && std::any_of(job.allocation.begin(), job.allocation.end(), on)) {
          run_.tell(JobFailed{id, {}}, t_);
        }
      }
      const std::vector<ReplicaId> replicas = run_.state().live_replicas();
      for (const ReplicaId id : replicas) {
        if (run_.state().replica(id).place.node == node) run_.tell(ReplicaStopped{id}, t_);
      }
    }
    up_[node] = !up_[node];
  }

  Random random_;
  TestRun run_;
  std::vector<bool> up_ = std::vector<bool>(7, true);
  int t_ = 0;
};

class ElasticPolicies : public ::testing::TestWithParam<std::pair<std::string, Set>> {};

TEST_P(ElasticPolicies, LiveWithAllKindsOfJobs) {
  const auto& [policy, set] = GetParam();
  for (std::uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    MixedJobs(seed, policy, set).play();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ElasticPolicies,
    ::testing::Values(std::pair<std::string, Set>{"optimus", {}},
                      std::pair<std::string, Set>{"optimus", {{"strip", "true"}, {"reclaim", "node"}}},
                      std::pair<std::string, Set>{"optimus", {{"place_tasks", "true"}, {"reclaim", "largest_sum"}}},
                      std::pair<std::string, Set>{"afs", {}},
                      std::pair<std::string, Set>{"afs", {{"respect_max", "false"}}},
                      std::pair<std::string, Set>{"lyra", {}}, std::pair<std::string, Set>{"lyra", {{"value", "aryl"}}},
                      std::pair<std::string, Set>{"deepboot", {}},
                      std::pair<std::string, Set>{
                          "deepboot",
                          {{"solver", "incremental"}, {"place", "incremental"}, {"change_cost", "expected"}}},
                      std::pair<std::string, Set>{
                          "tiresias", {{"variant", "pollux"}, {"limits", "600"}, {"allow_rigid_shrink", "true"}}}));

}  // namespace
}  // namespace ebb::policies
