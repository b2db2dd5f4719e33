#include "ebb/sim/lending_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ebb/perf/queueing.h"
#include "ebb/sim/resolve.h"

namespace ebb::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

/// Sixteen nodes of four GPUs: 32 train, 32 serve.
ClusterSpec cluster_of(std::size_t nodes, GpuCount gpus) {
  ClusterSpec cluster;
  cluster.nodes.resize(nodes);
  for (NodeSpec& node : cluster.nodes) node.gpus = gpus;
  return in_halves(cluster);
}

Workload trace_of(int jobs) {
  Workload trace;
  for (int i = 0; i < jobs; ++i) {
    JobSpec job;
    job.name = fmt::format("job-{}", i);
    job.gpus = 1 + i % 4;
    job.run_time = seconds(100 + i);
    job.submit = Time(seconds(1000 + 10 * i));
    trace.jobs.push_back(job);
  }
  return trace;
}

std::vector<StudyService> services_of(GpuCount gpus = 1) {
  ServiceSpec spec;
  spec.name = "chat";
  spec.gpus = gpus;
  spec.service_time = milliseconds(200);
  spec.target_latency = milliseconds(600);
  return {{spec, {built_in_shape(), 1}}};
}

TEST(LendingWorkload, HalvesAreWhatCanBeLent) {
  const auto halves = halves_of(cluster_of(16, 4));
  ASSERT_TRUE(halves.has_value());
  EXPECT_EQ(halves->training, 32);
  EXPECT_EQ(halves->serving, 32);
  EXPECT_THAT(halves_of(cluster_of(1, 8)).error().message, HasSubstr("at least 2 nodes"));
  ClusterSpec named = cluster_of(2, 4);
  named.nodes[0].pool = named.nodes[1].pool = "serving";
  EXPECT_THAT(halves_of(named).error().message, HasSubstr("no job could train"));
  named.nodes[0].pool = named.nodes[1].pool = "training";
  EXPECT_THAT(halves_of(named).error().message, HasSubstr("none is called 'serving'"));
}

TEST(LendingWorkload, PlansWholeReplicasWhoseRatesNeedThem) {
  const ClusterSpec cluster = cluster_of(16, 4);
  const auto services = services_of();
  const auto plan = plan_demand(cluster, services, 1);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->steps[0].size(), 24U);
  std::int32_t most = 0;
  double sum = 0;
  for (const DemandPlan::Step& step : plan->steps[0]) {
    const ServiceSpec& spec = services[0].spec;
    EXPECT_EQ(step.replicas,
              perf::mdc_replicas(step.requests_per_s, spec.service_time, spec.target_latency, spec.percentile, 64));
    most = std::max(most, step.replicas);
    sum += step.replicas;
  }
  EXPECT_EQ(most, 30);  // 95 % of 32, to the nearest
  EXPECT_NEAR(plan->mean_share, mean_share(services[0].demand.shape, 1), 1e-12);
  EXPECT_NEAR(plan->replica_share, sum / 24 / 32, 1e-12);
  EXPECT_NEAR(plan->replica_share, plan->mean_share, 0.01);
}

TEST(LendingWorkload, ReplicasOfSeveralGpusFillNodes) {
  const ClusterSpec cluster = cluster_of(4, 4);
  EXPECT_EQ(most_replicas(cluster, 3), 2);
  const auto plan = plan_demand(cluster, services_of(3), 1);
  ASSERT_TRUE(plan.has_value());
  for (const DemandPlan::Step& step : plan->steps[0]) EXPECT_LE(step.replicas, 2);
  EXPECT_THAT(plan_demand(cluster, services_of(5), 1).error().message, HasSubstr("too little for one replica of 5"));
}

TEST(LendingWorkload, ABootstrapOfTheTrace) {
  const ClusterSpec cluster = cluster_of(16, 4);
  const Workload trace = trace_of(200);
  const auto services = services_of();
  const DemandPlan plan = plan_demand(cluster, services, 1).value();
  const Workload workload = lending_workload(cluster, trace, services, plan, {.load = 1.5, .seed = 7, .day_start = {}});
  ASSERT_EQ(workload.jobs.size(), 300U);
  std::set<std::string> names;
  std::map<std::string, JobSpec> originals;
  for (const JobSpec& job : trace.jobs) originals[job.name] = job;
  Time last{};
  for (const JobSpec& job : workload.jobs) {
    EXPECT_TRUE(names.insert(job.name).second) << job.name;
    const JobSpec& original = originals.at(job.name.substr(0, job.name.find('+')));
    EXPECT_EQ(job.gpus, original.gpus);
    EXPECT_EQ(job.run_time, original.run_time);
    EXPECT_GE(job.submit, last);
    last = job.submit;
    EXPECT_GE(job.submit, Time(kWarmUp));
    EXPECT_LE(job.submit, Time(kWarmUp) + seconds(1990));
  }
  // Not the trace itself, and between its submissions too.
  EXPECT_LT(names.size(), 301U);
  EXPECT_TRUE(std::any_of(workload.jobs.begin(), workload.jobs.end(), [](const JobSpec& job) {
    return job.submit.time_since_epoch() % seconds(10) != Duration(0);
  }));
}

TEST(LendingWorkload, SameSeedSameWorkloadAndLoadsAreNested) {
  const ClusterSpec cluster = cluster_of(16, 4);
  const Workload trace = trace_of(50);
  const auto services = services_of();
  const DemandPlan plan = plan_demand(cluster, services, 1).value();
  const auto draw = [&](double load, std::uint64_t seed) {
    return lending_workload(cluster, trace, services, plan, {.load = load, .seed = seed, .day_start = {}});
  };
  const Workload one = draw(1, 3);
  EXPECT_EQ(one.jobs, draw(1, 3).jobs);
  EXPECT_EQ(one.services, draw(1, 3).services);
  EXPECT_NE(one.jobs, draw(1, 4).jobs);
  EXPECT_NE(one.services, draw(1, 4).services);
  const Workload two = draw(2, 3);
  for (const JobSpec& job : one.jobs) {
    EXPECT_EQ(std::count(two.jobs.begin(), two.jobs.end(), job), 1) << job.name;
  }
  EXPECT_EQ(draw(0.001, 3).jobs.size(), 1U);  // never none
}

TEST(LendingWorkload, DemandRepeatsUntilTheTailEnds) {
  const ClusterSpec cluster = cluster_of(2, 8);
  const Workload trace = trace_of(1);
  auto services = services_of();
  services[0].demand.shape =
      make_shape("test", {{Time(), 1}, {Time(hours(6)), 4}, {Time(hours(18)), 2}, {Time(hours(21)), 2}}).value();
  const DemandPlan plan = plan_demand(cluster, services, 1).value();  // 2, 8 and 4 replicas
  const Workload workload =
      lending_workload(cluster, trace, services, plan, {.day_start = hours(7), .tail = hours(30)});
  std::vector<std::pair<int, int>> steps;
  for (const RatePoint& point : workload.services[0].requests) {
    const ServiceSpec& spec = services[0].spec;
    steps.emplace_back(
        static_cast<int>(to_seconds(point.at.time_since_epoch()) / 3600),
        perf::mdc_replicas(point.requests_per_s, spec.service_time, spec.target_latency, spec.percentile, 8));
  }
  const std::vector<std::pair<int, int>> expected = {{0, 8}, {11, 4}, {17, 2}, {23, 8}};
  EXPECT_EQ(steps, expected);
  // Of 8 GPUs: from 10 h to 18 h none, then 4 for six hours, then 6 for one.
  EXPECT_DOUBLE_EQ(idle_gpu_seconds(cluster, workload.services, Time(hours(10)), Time(hours(18))),
                   3600.0 * (4 * 6 + 6 * 1));
}

TEST(LendingWorkload, NoiseIsSeededAndWithinTheHalf) {
  const ClusterSpec cluster = cluster_of(16, 4);
  const Workload trace = trace_of(5);
  const auto services = services_of();
  const DemandPlan plan = plan_demand(cluster, services, 1).value();
  const auto draw = [&](std::uint64_t seed) {
    return lending_workload(cluster, trace, services, plan,
                            {.seed = seed, .request_noise = 0.5, .day_start = hours(0), .tail = hours(24)})
        .services[0]
        .requests;
  };
  const auto noisy = draw(1);
  EXPECT_EQ(noisy, draw(1));
  EXPECT_NE(noisy, draw(2));
  EXPECT_GE(noisy.size(), 24U * 12);
  const ServiceSpec& spec = services[0].spec;
  for (const RatePoint& point : noisy) {
    EXPECT_LE(perf::mdc_replicas(point.requests_per_s, spec.service_time, spec.target_latency, spec.percentile, 64),
              32);
  }
}

}  // namespace
}  // namespace ebb::sim
