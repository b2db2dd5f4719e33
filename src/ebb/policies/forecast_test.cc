#include "ebb/sched/forecast.h"

#include <gtest/gtest.h>

#include "ebb/policies/all.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::policies {
namespace {

using namespace sched;
using std::chrono::seconds;

/// A scheduler that is told what happens; starts are confirmed at once.
class World {
 public:
  explicit World(const std::string& policy, GpuCount gpus = 4)
      : scheduler_(all().make_scheduler(policy, {}, test_cluster(1, gpus), {}).value()) {}

  JobId submit(GpuCount gpus, int limit_s, int now_s, const std::string& tenant = "") {
    JobSpec spec = test_job(gpus, limit_s > 0 ? limit_s : 100, tenant);
    if (limit_s > 0) spec.requested_time = seconds(limit_s);
    spec.submit = at(now_s);
    const auto id = static_cast<JobId>(scheduler_.state().jobs().size());
    step({JobSubmitted{id, spec}, Tick{}}, now_s);
    return id;
  }
  void end(JobId job, int now_s) { step({JobFinished{job, {}}, Tick{}}, now_s); }
  Forecast forecast(int now_s, std::size_t steps = 1'000) const {
    return sched::forecast(scheduler_, at(now_s), Until::nothing_waits, steps).value();
  }
  Forecast to_the_end(int now_s) const { return sched::forecast(scheduler_, at(now_s), Until::the_end).value(); }
  const State& state() const { return scheduler_.state(); }

 private:
  void step(std::vector<Event> events, int now_s) {
    while (!events.empty()) {
      StepResult result;
      ASSERT_TRUE(scheduler_.step(events, at(now_s), result).has_value());
      events.clear();
      for (const Decision& decision : result.decisions) {
        if (const auto* preempt = std::get_if<Preempt>(&decision)) events.emplace_back(JobStopped{preempt->job, {}});
      }
      for (const Holder& holder : scheduler_.take_launchable()) events.emplace_back(JobStarted{holder.id, at(now_s)});
      if (!events.empty()) events.emplace_back(Tick{});
    }
  }

  Scheduler scheduler_;
};

TEST(Forecast, ByTimeLimitsUnderFifo) {
  World world("fifo");
  world.submit(4, 100, 0);
  const JobId second = world.submit(2, 50, 10);
  const JobId third = world.submit(4, 10, 20);
  const JobId fourth = world.submit(1, 10, 20);
  const Forecast forecast = world.forecast(30);
  EXPECT_EQ(forecast.starts.at(second), at(100));
  EXPECT_EQ(forecast.starts.at(third), at(150));
  EXPECT_EQ(forecast.starts.at(fourth), at(160));
  EXPECT_EQ(forecast.by_request, 4u);
  EXPECT_EQ(forecast.unknown, 0u);
}

TEST(Forecast, ToTheEndOfAllJobs) {
  World world("fifo");
  const JobId first = world.submit(4, 100, 0);
  const JobId second = world.submit(2, 50, 10);
  const Forecast forecast = world.to_the_end(30);
  EXPECT_EQ(forecast.ends.at(first), at(100));
  EXPECT_EQ(forecast.ends.at(second), at(150));
}

TEST(Forecast, FollowsThePolicyInCharge) {
  World world("backfill");
  world.submit(3, 100, 0);
  const JobId head = world.submit(4, 50, 10);
  const JobId later = world.submit(2, 20, 20);
  const JobId filler = world.submit(1, 20, 20);
  EXPECT_EQ(world.state().job(filler).phase, JobPhase::running) << "it fits before the head";
  const Forecast forecast = world.forecast(30);
  EXPECT_EQ(forecast.starts.at(head), at(100));
  EXPECT_EQ(forecast.starts.at(later), at(150));
}

TEST(Forecast, ByWhatOtherJobsOfTheTenantTook) {
  World world("fifo");
  for (int k = 0; k < 5; ++k) {
    world.end(world.submit(4, 0, 1'000 * k, "short"), 1'000 * k + 60);
    world.end(world.submit(4, 0, 1'000 * k + 100, "long"), 1'000 * k + 700);
  }
  world.submit(4, 0, 10'000, "long");
  const JobId second = world.submit(4, 0, 10'000, "short");
  const JobId third = world.submit(4, 0, 10'000, "new");
  const Forecast forecast = world.forecast(10'100);
  EXPECT_EQ(forecast.starts.at(second), at(10'600));
  EXPECT_EQ(forecast.starts.at(third), at(10'660));
  EXPECT_EQ(forecast.by_history, 3u);
  EXPECT_EQ(forecast.history, 10u);
}

TEST(Forecast, SaysNothingWhereNothingIsKnown) {
  World world("fifo");
  world.submit(4, 0, 0);
  const JobId waits = world.submit(1, 10, 0);
  const Forecast forecast = world.forecast(5);
  EXPECT_FALSE(forecast.starts.contains(waits));
  EXPECT_EQ(forecast.unknown, 1u);
}

TEST(Forecast, AnOverdueJobIsExpectedToEndSoon) {
  World world("fifo");
  world.submit(4, 100, 0);
  const JobId waits = world.submit(1, 10, 0);
  EXPECT_EQ(world.forecast(200).starts.at(waits), at(221));
}

TEST(Forecast, StopsAfterSoManySteps) {
  World world("fifo");
  world.submit(4, 100, 0);
  for (int k = 0; k < 50; ++k) world.submit(4, 10, 0);
  EXPECT_LT(world.forecast(1, 10).starts.size(), 10u);
  EXPECT_EQ(world.forecast(1).starts.size(), 50u);
}

// Under every policy that needs no planner: all that wait start, and the original is as it was.
TEST(Forecast, EveryPolicyGoesOn) {
  const Registry registry = all();
  for (const PolicyInfo& info : registry.policies()) {
    if (info.name == "pollux") continue;
    World world(info.name);
    for (int k = 0; k < 12; ++k) world.submit(1 + k % 4, 20 + 10 * k, k, k % 2 == 0 ? "a" : "b");
    const std::size_t waiting = world.state().waiting_count();
    EXPECT_EQ(world.forecast(20).starts.size(), waiting) << info.name;
    EXPECT_EQ(world.state().waiting_count(), waiting);
  }
}

}  // namespace
}  // namespace ebb::policies
