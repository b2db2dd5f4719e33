// Jobs that are held, released and cancelled, under every policy.

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ebb/base/random.h"
#include "ebb/policies/all.h"
#include "ebb/sched/test_run.h"

namespace ebb::policies {
namespace {

using namespace sched;
using std::chrono::seconds;
using Set = std::vector<std::pair<std::string, std::string>>;

/// A driver that is slow to confirm, with owners who change their minds: nobody who is held or cancelled is started,
/// every invariant holds, a fork decides the same, and in the end whoever was not cancelled has run.
class ChangingQueue {
 public:
  ChangingQueue(std::uint64_t seed, const std::string& policy, const Set& set)
      : random_(seed, "changing queue"), scheduler_(all().make_scheduler(policy, set, cluster(), {}).value()) {}

  void play() {
    for (int i = 0; i < 80 && !::testing::Test::HasFailure(); ++i) {
      std::vector<Event> events = answers();
      run_jobs(events, /*all=*/false);
      withdraw(events);
      submit(events);
      if (!one_in(4)) events.emplace_back(Tick{});
      step(events, 1 + below(30));
    }
    for (int i = 0; i < 400 && active() && !::testing::Test::HasFailure(); ++i) {
      std::vector<Event> events = answers();
      run_jobs(events, /*all=*/true);
      for (JobId id = state().first_active(); id < state().jobs().size(); ++id) {
        if (state().job(id).phase == JobPhase::held) tell(events, JobReleased{id});
      }
      events.emplace_back(Tick{});
      step(events, 60);
    }
    EXPECT_FALSE(active()) << "job " << state().first_active() << " never ran";
  }

 private:
  static ClusterSpec cluster() {
    ClusterSpec cluster;
    add_nodes(cluster, 2, 4, "a100");
    add_nodes(cluster, 1, 8, "t4");
    return cluster;
  }

  const State& state() const { return scheduler_.state(); }
  bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  bool active() const { return state().first_active() < state().jobs().size(); }

  void tell(std::vector<Event>& events, const Event& event) {
    if (const auto* held = std::get_if<JobHeld>(&event)) away_.insert(held->job);
    if (const auto* released = std::get_if<JobReleased>(&event)) away_.erase(released->job);
    if (const auto* cancelled = std::get_if<JobCancelled>(&event)) away_.insert(cancelled->job);
    events.push_back(event);
  }

  std::vector<Event> answers() {
    std::vector<Event> events(plans_.begin(), plans_.end());
    plans_.clear();
    return events;
  }

  void fail(std::vector<Event>& events, JobId id) {
    tell(events, JobFailed{id, state().job(id).progress});
    if (one_in(3)) {
      tell(events, JobHeld{id});  // backs off before a retry
    } else if (one_in(3)) {
      tell(events, JobCancelled{id});  // tried too often
    }
  }

  void run_jobs(std::vector<Event>& events, bool all) {
    const std::vector<JobId> holding = state().holding();
    for (const JobId id : holding) {
      const JobState& job = state().job(id);
      const bool whole = job.promised == 0 && job.departing.empty();
      if (!all && one_in(10)) {
        fail(events, id);
      } else if (job.phase == JobPhase::running) {
        if (all || one_in(5)) tell(events, JobFinished{id, {}});
      } else if (!all && one_in(2)) {
        continue;
      } else if (job.phase == JobPhase::stopping) {
        tell(events, JobStopped{id, job.progress_until(now_)});
      } else if (!job.departing.empty()) {
        tell(events, JobShrunk{id});
      } else if (whole && job.phase == JobPhase::starting) {
        tell(events, JobStarted{id, now_ + seconds(40)});
      } else if (whole) {
        tell(events, JobResized{id, now_ + seconds(40), job.progress_until(now_)});
      }
    }
  }

  void withdraw(std::vector<Event>& events) {
    for (JobId id = state().first_active(); id < state().jobs().size(); ++id) {
      const JobPhase phase = state().job(id).phase;
      if (phase != JobPhase::waiting && phase != JobPhase::held) continue;
      if (one_in(25)) {
        tell(events, JobCancelled{id});
      } else if (phase == JobPhase::waiting && one_in(8)) {
        tell(events, JobHeld{id});
        if (one_in(4)) tell(events, JobReleased{id});
      } else if (phase == JobPhase::held && one_in(4)) {
        tell(events, JobReleased{id});
        if (one_in(6)) tell(events, JobHeld{id});
      }
    }
  }

  void submit(std::vector<Event>& events) {
    for (int n = below(3); n > 0; --n) {
      const JobId id = submitted_++;
      tell(events, JobSubmitted{id, job()});
      if (one_in(4)) tell(events, JobHeld{id});
      if (one_in(12)) tell(events, JobCancelled{id});
    }
  }

  JobSpec job() {
    JobSpec spec = test_job(1 + below(8), 60 + below(1000), std::array{"x", "y", "z"}[random_.below(3)]);
    spec.submit = now_;
    if (one_in(10)) spec.gpus = 100;  // impossible
    if (one_in(2)) spec.requested_time = seconds(60 + below(1000));
    if (one_in(5)) spec.priority = below(3);
    if (one_in(3)) spec.gpu_type = std::array{"a100", "t4"}[random_.below(2)];
    if (!one_in(3)) return spec;
    spec.sizing = Sizing::elastic;
    spec.min_gpus = std::min(1 + below(3), spec.gpus);
    spec.max_gpus = spec.gpus;
    return spec;
  }

  void step(const std::vector<Event>& events, int later) {
    now_ += seconds(later);
    Scheduler fork(scheduler_);
    StepResult result;
    StepResult forked;
    const auto done = scheduler_.step(events, now_, result);
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_TRUE(fork.step(events, now_, forked));
    EXPECT_EQ(forked.decisions, result.decisions);
    EXPECT_EQ(forked.reasons, result.reasons);
    EXPECT_EQ(forked.next_wake_at, result.next_wake_at);
    const auto checked = check_invariants(state());
    ASSERT_TRUE(checked) << checked.error().message;
    scheduler_.take_launchable();
    for (const Decision& decision : result.decisions) {
      if (const auto* start = std::get_if<Start>(&decision)) {
        EXPECT_FALSE(away_.contains(start->job)) << start->job;
      }
      if (const auto* request = std::get_if<PlanRequest>(&decision)) {
        plans_.push_back({request->plan, scheduler_.policy().plan(request->input)});
      }
    }
    for (const auto& [id, reason] : result.reasons) EXPECT_EQ(state().job(id).phase, JobPhase::waiting) << id;
    for (JobId id = state().first_active(); id < state().jobs().size(); ++id) {
      if (state().job(id).phase != JobPhase::waiting) continue;
      const Reason reason = scheduler_.explain(id, now_);
      EXPECT_GT(reason.needed, 0) << id;
      EXPECT_FALSE(reason.other && away_.contains(*reason.other)) << id << " waits for " << *reason.other;
    }
  }

  Random random_;
  Scheduler scheduler_;
  std::set<JobId> away_;  // held or cancelled
  std::vector<PlanReady> plans_;
  JobId submitted_ = 0;
  Time now_{};
};

struct Chosen {
  std::string policy;
  Set set;
};

std::ostream& operator<<(std::ostream& out, const Chosen& chosen) {
  out << chosen.policy;
  for (const auto& [key, value] : chosen.set) out << ' ' << key << '=' << value;
  return out;
}

// Every policy, and those options that change what it remembers of waiting jobs.
std::vector<Chosen> all_policies() {
  std::vector<Chosen> chosen;
  const Registry registry = all();
  for (const PolicyInfo& info : registry.policies()) {
    chosen.push_back({info.name, {}});
    if (info.name == "pollux") chosen.back().set = {{"population", "6"}, {"generations", "2"}};
  }
  chosen.push_back({"backfill", {{"placement", "consolidate"}}});
  chosen.push_back({"srsf", {{"placement", "consolidate"}}});
  chosen.push_back({"tiresias", {{"limits", "60,400"}, {"promote", "0.5"}}});
  chosen.push_back({"tiresias", {{"limits", "60,400"}, {"promote", "0.5"}, {"promote_wait", "since_preemption"}}});
  chosen.push_back({"tiresias", {{"limits", "60,400"}, {"placement", "consolidate"}, {"demotion", "exact"}}});
  chosen.push_back({"tiresias", {{"limits", "200"}, {"variant", "pollux"}}});
  return chosen;
}

class EveryPolicy : public ::testing::TestWithParam<Chosen> {};

TEST_P(EveryPolicy, LivesWithAChangingQueue) {
  for (std::uint64_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    ChangingQueue(seed, GetParam().policy, GetParam().set).play();
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, ::testing::ValuesIn(all_policies()));

TestRun one_node(const std::string& policy, const Set& set = {}) {
  return TestRun(all().make_scheduler(policy, set, test_cluster(1, 4), {}).value());
}

// Those that keep the order of arrival.
class InOrder : public ::testing::TestWithParam<std::string> {};

TEST_P(InOrder, AReleasedJobHasThePlaceOfItsSubmission) {
  TestRun run = one_node(GetParam());
  for (int i = 0; i < 3; ++i) run.submit(test_job(4));
  run.tick(0);
  run.hear(JobHeld{1});
  run.tick(10);
  run.hear(JobReleased{1});
  run.tick(20);
  run.hear(JobFinished{0, {}});
  EXPECT_EQ(run.tick(30), (std::vector<Decision>{Start{1, {{0, 4}}}}));
}

TEST_P(InOrder, AHeldJobLetsOthersPass) {
  TestRun run = one_node(GetParam());
  for (int i = 0; i < 3; ++i) run.submit(test_job(4));
  run.tick(0);
  run.hear(JobHeld{1});
  run.hear(JobFinished{0, {}});
  EXPECT_EQ(run.tick(30), (std::vector<Decision>{Start{2, {{0, 4}}}}));
}

INSTANTIATE_TEST_SUITE_P(All, InOrder, ::testing::Values("fifo", "backfill", "drf", "optimus"));

TEST(Backfill, NobodyWaitsForAHeadThatWasWithdrawn) {
  TestRun run = one_node("backfill");
  run.submit(test_job(2, 100));
  run.submit(test_job(4, 100));
  run.submit(test_job(2, 1000));
  run.tick(0);
  EXPECT_EQ(run.scheduler().explain(2, at(0)).code, ReasonCode::reserved_for_head);
  run.tell(JobCancelled{1}, 10);
  const Reason reason = run.scheduler().explain(2, at(10));
  EXPECT_EQ(reason.code, ReasonCode::waiting_for_tick);
  EXPECT_FALSE(reason.other);
  EXPECT_EQ(run.tick(10), (std::vector<Decision>{Start{2, {{0, 2}}}}));
}

// Job 0 used up the first queue, so that a new job goes first; had it been forgotten, job 0 would.
TEST(Tiresias, AHeldJobKeepsTheServiceThatItReceived) {
  for (const Set& set : {Set{{"limits", "40"}}, Set{{"limits", "40"}, {"variant", "pollux"}}}) {
    TestRun run = one_node("tiresias", set);
    run.submit(test_job(4, 1000));
    run.tick(0);
    run.tick(20);  // 80 GPU-seconds: demoted
    run.tell(JobFailed{0, seconds(20)}, 30);
    run.hear(JobHeld{0});
    run.tick(30);
    run.hear(JobReleased{0});
    run.submit(test_job(4, 1000));
    EXPECT_EQ(run.tick(100), (std::vector<Decision>{Start{1, {{0, 4}}}}));
  }
}

// Job 0 ran for 20 s, waits for 10 s, is held for long and waits again: after 20 s of waiting it is promoted.
TEST(Tiresias, OnlyWaitingCountsForAPromotion) {
  TestRun run = one_node("tiresias", {{"limits", "40"}, {"promote", "1"}});
  run.submit(test_job(4, 1000));
  run.tick(0);
  run.tick(20);  // demoted
  run.submit(test_job(4, 1000));
  EXPECT_EQ(run.tick(20).size(), 2U);  // takes its place
  run.hear(JobHeld{0});
  run.tick(25);
  run.tick(30);  // job 1 is demoted as well, and runs on
  run.hear(JobReleased{0});
  run.tick(500);
  ASSERT_EQ(run.sizes(), (std::vector<GpuCount>{0, 4}));
  EXPECT_EQ(run.wake(), at(515));  // 5 s of 20 s are over
  EXPECT_EQ(run.tick(515).size(), 2U);
  EXPECT_EQ(run.sizes(), (std::vector<GpuCount>{4, 0}));
}

}  // namespace
}  // namespace ebb::policies
