#include "ebb/policies/deepboot/sizing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/sched/test_run.h"

namespace ebb::policies::deepboot {
namespace {

using namespace sched;

constexpr double kNever = -std::numeric_limits<double>::infinity();

TEST(ChangeFactor, IsTheShareOfItsAgeNotLostToChanges) {
  EXPECT_EQ(constant_factor(90, 0, 10), 0.9);
  EXPECT_EQ(constant_factor(90, 2, 10), 0.7);
  EXPECT_EQ(constant_factor(15, 2, 10), 0);
  EXPECT_EQ(constant_factor(0, 0, 10), 0);
  EXPECT_EQ(constant_factor(0, 3, 0), 1);
}

TEST(ChangeFactor, ExpectedIsWhatIsLeftUntilTheNextChange) {
  EXPECT_EQ(expected_factor(100, 25), 0.75);
  EXPECT_EQ(expected_factor(100, 200), 0);
  EXPECT_EQ(expected_factor(0, 1), 0);
}

TEST(ChangeCosts, AreTheJobsOwnElseThoseOfAll) {
  ChangeCosts costs;
  EXPECT_EQ(costs.expected(3, 10), 10);
  costs.add(1, 4);
  costs.add(1, 6);
  costs.add(2, 20);
  EXPECT_EQ(costs.expected(1, 10), 5);
  EXPECT_EQ(costs.expected(3, 10), 10);
  costs.add(2, 10);
  EXPECT_EQ(costs.expected(2, 10), 15);
  EXPECT_EQ(costs.expected(3, 7), 10);
}

/// Jobs in a state without a policy: what the values are made of.
class Values : public ::testing::Test {
 protected:
  JobId submit(JobSpec spec, int t) {
    spec.submit = at(t);
    fold(JobSubmitted{static_cast<JobId>(state_.jobs().size()), spec}, t);
    return static_cast<JobId>(state_.jobs().size() - 1);
  }
  void run(JobId job, const Allocation& allocation, int t) {
    const auto folded = state_.fold(Decision(Start{job, allocation}), at(t));
    ASSERT_TRUE(folded) << folded.error().message;
    fold(JobStarted{job, at(t)}, t);
  }
  void report(JobId job, GpuCount most_gpus, int t) {
    JobReport report;
    report.job = job;
    report.most_gpus = most_gpus;
    fold(report, t);
  }
  void fold(const Event& event, int t) {
    const auto folded = state_.fold(event, at(t));
    ASSERT_TRUE(folded) << folded.error().message;
  }
  std::vector<Candidate> values(int t, const SizingOptions& options = {}) {
    return value_sizes(state_, estimator_, plan_view(state_, at(t)), at(t), options, costs_);
  }

  State state_{test_cluster(2, 4)};
  Estimator estimator_{state_.capacity().spec(), nullptr, {}};
  ChangeCosts costs_;
};

TEST_F(Values, AreSpeedUpsAgainstTheFairShareLessForOtherSizes) {
  const JobId job = submit(elastic_job(100, 1, 8), 0);
  run(job, {{0, 2}}, 0);
  report(job, 2, 50);
  submit(elastic_job(100, 1, 8), 90);
  submit(elastic_job(100, 1, 8), 90);
  const auto candidates = values(90);
  // 8 GPUs for 3 jobs: 3 each. The job may double; 2 is what it has; f = 90 / 100.
  ASSERT_EQ(candidates.size(), 3U);
  const auto& value = candidates[2].values.value;
  ASSERT_EQ(value.size(), 4U);
  EXPECT_DOUBLE_EQ(value[0], 0.9 / 3);
  EXPECT_DOUBLE_EQ(value[1], 2.0 / 3);
  EXPECT_DOUBLE_EQ(value[2], 0.9 * 3 / 3);
  EXPECT_DOUBLE_EQ(value[3], 0.9 * 4 / 3);
  // Jobs that never ran may have their least size; at age 0 it is worth nothing.
  EXPECT_EQ(candidates[0].values.value, std::vector<double>{0});
}

TEST_F(Values, ComeByPriorityAttainedServiceAndSubmission) {
  const JobId busy = submit(elastic_job(100, 1, 8), 0);
  const JobId idle = submit(elastic_job(100, 1, 8), 0);
  const JobId late = submit(elastic_job(100, 1, 8), 5);
  JobSpec urgent = elastic_job(100, 1, 8);
  urgent.priority = 1;
  const JobId first = submit(urgent, 6);
  run(busy, {{0, 2}}, 10);
  run(first, {{0, 2}}, 10);
  std::vector<JobId> order;
  const PlanView view = plan_view(state_, at(20));
  for (const Candidate& candidate : values(20)) order.push_back(view.jobs[candidate.job]);
  EXPECT_EQ(order, (std::vector<JobId>{first, idle, late, busy}));
}

TEST_F(Values, OnlyLegalSizesHaveOne) {
  JobSpec stepped = elastic_job(100, 2, 8);
  stepped.gpu_step = 3;
  const JobId elastic = submit(stepped, 0);
  const JobId rigid = submit(test_job(4), 0);
  JobSpec moldable = elastic_job(100, 1, 4);
  moldable.sizing = Sizing::moldable;
  const JobId fixed = submit(moldable, 0);
  run(elastic, {{0, 2}}, 0);
  run(fixed, {{1, 2}}, 0);
  report(elastic, 8, 1);
  const PlanView view = plan_view(state_, at(90));
  for (const Candidate& candidate : values(90)) {
    std::vector<int> legal;
    for (std::size_t w = 0; w < candidate.values.value.size(); ++w) {
      if (candidate.values.value[w] != kNever) legal.push_back(static_cast<int>(w) + 1);
    }
    const JobId id = view.jobs[candidate.job];
    EXPECT_EQ(legal, id == elastic ? (std::vector{2, 5, 8}) : id == rigid ? std::vector{4} : std::vector{2}) << id;
  }
}

TEST_F(Values, MostGpusAndTheReachOfTheFastSolverLimitSizes) {
  const JobId job = submit(elastic_job(100, 1, 8), 0);
  run(job, {{0, 4}, {1, 2}}, 0);
  report(job, 6, 1);
  SizingOptions options;
  EXPECT_EQ(values(90, options)[0].values.value.size(), 8U);
  options.most_gpus = 7;
  EXPECT_EQ(values(90, options)[0].values.value.size(), 7U);
  options.most_gpus = 3;  // what it has stays possible
  EXPECT_EQ(values(90, options)[0].values.value.size(), 6U);
}

TEST_F(Values, TheFastSolverLooksAtFewSizes) {
  const JobId job = submit(elastic_job(100, 1, 8), 0);
  submit(elastic_job(100, 1, 8), 0);
  run(job, {{0, 4}}, 0);
  report(job, 6, 1);
  SizingOptions options;
  options.exact = false;
  const auto candidates = values(90, options);
  std::vector<int> sizes;
  for (std::size_t w = 0; w < candidates[1].values.value.size(); ++w) {
    if (candidates[1].values.value[w] != kNever) sizes.push_back(static_cast<int>(w) + 1);
  }
  EXPECT_EQ(sizes, (std::vector{3, 4, 5, 8}));
  EXPECT_EQ(candidates[0].values.value.size(), 1U);
}

TEST_F(Values, ExpectedCostIsAmortised) {
  const JobId job = submit(elastic_job(100, 1, 8), 0);
  run(job, {{0, 2}}, 0);
  report(job, 2, 1);
  costs_.add(job, 30);
  SizingOptions options;
  options.expected_cost = true;
  // One change in 120 s, over all jobs and of this one: the next is expected in (120 + 120) / 2 s.
  EXPECT_DOUBLE_EQ(values(120, options)[0].values.value[3], 0.75 * 4 / 8);
  EXPECT_DOUBLE_EQ(values(120, options)[0].values.value[1], 2.0 / 8);
}

}  // namespace
}  // namespace ebb::policies::deepboot
