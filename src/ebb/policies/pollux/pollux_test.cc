#include "ebb/policies/pollux/pollux.h"

#include <gtest/gtest.h>

#include "ebb/sched/scheduler.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::policies {
namespace {

using namespace sched;

JobSpec elastic(GpuCount most, int submit_s = 0) {
  JobSpec job = test_job(1);
  job.sizing = Sizing::elastic;
  job.min_gpus = 1;
  job.max_gpus = most;
  job.submit = at(submit_s);
  return job;
}

/// A scheduler with a driver that obeys at once; plans are answered by hand.
class Bed {
 public:
  explicit Bed(std::size_t nodes, GpuCount gpus, std::vector<std::pair<std::string, std::string>> set = {})
      : scheduler_(make(nodes, gpus, std::move(set))) {}
  Bed(const Bed&) = default;

  void step(std::vector<Event> events, int now_s) {
    if (error_) return;
    recorded_.emplace_back(now_s, events);
    StepResult result;
    const auto stepped = scheduler_.step(events, at(now_s), result);
    if (!stepped) error_ = stepped.error().message;
    const auto sound = check_invariants(scheduler_.state());
    if (!sound) error_ = sound.error().message;
    if (error_) return;
    wake_ = result.next_wake_at;
    std::vector<Event> done;
    for (const Decision& decision : result.decisions) {
      decisions_.push_back(decision);
      if (const auto* request = std::get_if<PlanRequest>(&decision)) requests_.push_back(*request);
      if (const auto* preempt = std::get_if<Preempt>(&decision)) done.emplace_back(JobStopped{preempt->job, {}});
      if (const auto* resize = std::get_if<Resize>(&decision)) {
        for (const Target& target : resize->targets) {
          if (!state().job(target.job).departing.empty()) done.emplace_back(JobShrunk{target.job});
        }
      }
    }
    if (!done.empty()) step(std::move(done), now_s);
    std::vector<Event> begun;
    for (const Holder& holder : scheduler_.take_launchable()) {
      if (state().job(holder.id).phase == JobPhase::resizing) {
        begun.emplace_back(JobResized{holder.id, at(now_s), {}});
      } else {
        begun.emplace_back(JobStarted{holder.id, at(now_s)});
      }
    }
    if (!begun.empty()) step(std::move(begun), now_s);
  }

  void tick(int now_s, std::vector<Event> events = {}) {
    events.emplace_back(Tick{});
    step(std::move(events), now_s);
  }
  PlanReady answer() const { return {requests_.back().plan, scheduler_.policy().plan(requests_.back().input)}; }
  // A tick, and at the same time another one with the answer.
  void plan(int now_s, std::vector<Event> events = {}) {
    tick(now_s, std::move(events));
    tick(now_s, {answer()});
  }

  const State& state() const { return scheduler_.state(); }
  const Scheduler& scheduler() const { return scheduler_; }
  GpuCount gpus(JobId job) const { return state().job(job).holds() ? state().job(job).gpus : 0; }
  std::size_t requests() const { return requests_.size(); }
  const std::vector<Decision>& decisions() const { return decisions_; }
  const std::vector<std::pair<int, std::vector<Event>>>& recorded() const { return recorded_; }
  const std::optional<std::string>& error() const { return error_; }
  std::optional<Time> wake() const { return wake_; }

 private:
  static Scheduler make(std::size_t nodes, GpuCount gpus, std::vector<std::pair<std::string, std::string>> set) {
    Registry registry;
    register_pollux(registry);
    return registry.make_scheduler("pollux", set, test_cluster(nodes, gpus), {}).value();
  }

  Scheduler scheduler_;
  std::vector<PlanRequest> requests_;
  std::vector<Decision> decisions_;
  std::vector<std::pair<int, std::vector<Event>>> recorded_;
  std::optional<std::string> error_;
  std::optional<Time> wake_;
};

TEST(Pollux, AsksOnceATimeAndAppliesTheAnswer) {
  Bed bed(2, 4, {{"double_at_most", "false"}});
  bed.tick(0, {JobSubmitted{0, elastic(8)}});
  EXPECT_EQ(bed.requests(), 1U);
  EXPECT_EQ(bed.gpus(0), 0);
  bed.tick(0, {bed.answer()});
  EXPECT_EQ(bed.gpus(0), 8);
  bed.tick(0);
  EXPECT_EQ(bed.requests(), 1U);
  EXPECT_EQ(bed.wake(), at(60));
  bed.plan(60);
  EXPECT_EQ(bed.requests(), 2U);
  EXPECT_EQ(bed.gpus(0), 8);
  EXPECT_EQ(bed.state().job(0).resizes, 0U);
  EXPECT_EQ(bed.error(), std::nullopt);
}

TEST(Pollux, WaitsForAPlanThatTakesLongerThanTheInterval) {
  Bed bed(2, 4, {{"double_at_most", "false"}});
  bed.tick(0, {JobSubmitted{0, elastic(8)}});
  const PlanReady late = bed.answer();
  for (const int now : {60, 120, 180}) bed.tick(now);
  EXPECT_EQ(bed.requests(), 1U);
  bed.tick(200, {late});
  EXPECT_EQ(bed.gpus(0), 8);
  EXPECT_EQ(bed.wake(), at(200));
  bed.tick(200);
  EXPECT_EQ(bed.requests(), 2U);
}

TEST(Pollux, AsksForNothingWhereNothingCanChange) {
  Bed bed(2, 4);
  bed.tick(0);
  EXPECT_EQ(bed.requests(), 0U);
  EXPECT_EQ(bed.wake(), std::nullopt);
  bed.plan(1, {JobSubmitted{0, test_job(4)}});
  EXPECT_EQ(bed.gpus(0), 4);
  bed.tick(61);
  EXPECT_EQ(bed.requests(), 1U);  // a gang that runs, and nobody waits
}

TEST(Pollux, AJobMayDoubleWhatItMeasured) {
  Bed bed(2, 4);
  bed.plan(0, {JobSubmitted{0, elastic(8)}});
  EXPECT_EQ(bed.gpus(0), 1);
  JobReport report;
  report.most_gpus = 1;
  for (const int now : {600, 1200, 1800}) {
    bed.plan(now, {report});
    EXPECT_EQ(bed.gpus(0), 2 * report.most_gpus);
    report.most_gpus = bed.gpus(0);
  }
  EXPECT_EQ(bed.error(), std::nullopt);
}

TEST(Pollux, SharesAndMakesRoomForOthers) {
  Bed bed(2, 4, {{"double_at_most", "false"}});
  bed.plan(0, {JobSubmitted{0, elastic(8)}});
  bed.plan(3600, {JobSubmitted{1, elastic(8, 3000)}, JobSubmitted{2, test_job(2)}});
  EXPECT_EQ(bed.gpus(2), 2);
  EXPECT_EQ(bed.gpus(0) + bed.gpus(1), 6);
  EXPECT_GE(bed.gpus(0), 2);
  EXPECT_GE(bed.gpus(1), 2);
  EXPECT_EQ(bed.error(), std::nullopt);
}

TEST(Pollux, PriorityGoesFirst) {
  Bed bed(1, 1);
  JobSpec urgent = elastic(1, 40);  // a job without any age is worth nothing yet
  urgent.priority = 1;
  bed.plan(100, {JobSubmitted{0, elastic(1)}, JobSubmitted{1, urgent}});
  EXPECT_EQ(bed.gpus(1), 1);
  EXPECT_EQ(bed.scheduler().explain(0, at(100)).code, ReasonCode::lower_priority);
}

TEST(Pollux, AGangThatRunsIsNotGivenUpForOneLikeIt) {
  Bed bed(1, 4);
  bed.plan(0, {JobSubmitted{0, test_job(4)}});
  JobSpec second = test_job(4, 50);
  second.submit = at(10);
  bed.plan(10, {JobSubmitted{1, second}});
  bed.plan(70);
  EXPECT_EQ(bed.gpus(0), 4);
  bed.plan(100, {JobFinished{0, {}}});
  EXPECT_EQ(bed.gpus(1), 4);
  EXPECT_EQ(bed.error(), std::nullopt);
}

TEST(Pollux, MoldableJobsKeepTheirSize) {
  Bed bed(1, 4, {{"double_at_most", "false"}});
  JobSpec moldable = elastic(4);
  moldable.sizing = Sizing::moldable;
  moldable.min_gpus = 2;
  bed.plan(0, {JobSubmitted{0, elastic(2)}, JobSubmitted{1, moldable}});
  EXPECT_EQ(bed.gpus(1), 2);
  bed.plan(3600, {JobFinished{0, {}}});
  EXPECT_EQ(bed.gpus(1), 2);
  EXPECT_EQ(bed.state().job(1).preemptions, 0U);
}

TEST(Pollux, ALateAnswerSkipsWhatIsGone) {
  Bed bed(2, 4, {{"double_at_most", "false"}});
  bed.tick(60, {JobSubmitted{0, elastic(4)}, JobSubmitted{1, elastic(4)}});
  const PlanReady late = bed.answer();
  bed.tick(70, {NodeFailed{0}, JobSubmitted{2, elastic(8, 70)}});
  EXPECT_EQ(bed.requests(), 1U);
  bed.tick(80, {late});
  EXPECT_EQ(bed.error(), std::nullopt);
  EXPECT_EQ(bed.state().capacity().held(0), 0);
  EXPECT_EQ(bed.gpus(0) + bed.gpus(1), 4);  // one of them had the failed node
  EXPECT_EQ(bed.wake(), at(80));            // to plan with what there is now
  bed.plan(80);
  EXPECT_EQ(bed.requests(), 2U);
  bed.tick(140);
  const PlanReady later = bed.answer();
  bed.tick(150, {JobFinished{0, {}}, JobFinished{1, {}}, later});
  EXPECT_EQ(bed.error(), std::nullopt);
}

TEST(Pollux, AJobThatAPlanDoesNotKnowStaysAsItIs) {
  Bed bed(2, 4, {{"double_at_most", "false"}});
  bed.tick(60, {JobSubmitted{0, elastic(8)}});
  const PlanReady first = bed.answer();
  bed.tick(120, {JobSubmitted{1, elastic(8)}});
  bed.tick(130, {first});
  EXPECT_EQ(bed.gpus(0), 8);
  EXPECT_EQ(bed.gpus(1), 0);
  bed.plan(190);
  const GpuCount gpus = bed.gpus(0);
  EXPECT_EQ(gpus, 4) << "the next plan knows both";
  bed.tick(200, {first});  // of a plan that nobody waits for any more
  EXPECT_EQ(bed.gpus(0), gpus);
  EXPECT_EQ(bed.error(), std::nullopt);
}

TEST(Pollux, NonsenseForAnAnswerChangesNothing) {
  for (const char* nonsense : {"", "nonsense", "genome 0=7:4", "genome 9=0:4", "genome 0=0:99,0:3"}) {
    Bed bed(2, 4);
    bed.tick(60, {JobSubmitted{0, test_job(4)}});
    bed.tick(60, {PlanReady{0, nonsense}});
    EXPECT_EQ(bed.error(), std::nullopt) << nonsense;
    bed.plan(120);
    EXPECT_EQ(bed.gpus(0), 4) << nonsense;
  }
}

TEST(Pollux, ACopyAndAReplayDecideTheSame) {
  Bed bed(4, 4);
  for (JobId job = 0; job < 8; ++job) bed.plan(60 + 60 * static_cast<int>(job), {JobSubmitted{job, elastic(8)}});
  Bed copy = bed;
  for (Bed* one : {&bed, &copy}) {
    for (int now = 660; now < 1200; now += 60) one->plan(now);
  }
  ASSERT_EQ(bed.error(), std::nullopt);
  EXPECT_EQ(bed.decisions(), copy.decisions());

  // The events alone: answers come from the record.
  Registry registry;
  register_pollux(registry);
  Scheduler replay = registry.make_scheduler("pollux", {}, test_cluster(4, 4), {}).value();
  std::vector<Decision> decisions;
  for (const auto& [now, events] : bed.recorded()) {
    StepResult result;
    ASSERT_TRUE(replay.step(events, at(now), result));
    decisions.insert(decisions.end(), result.decisions.begin(), result.decisions.end());
  }
  EXPECT_EQ(decisions, bed.decisions());
}

TEST(Pollux, OptionsAreChecked) {
  Registry registry;
  register_pollux(registry);
  using Set = std::vector<std::pair<std::string, std::string>>;
  EXPECT_TRUE(registry.make("pollux", Set{{"fairness", "0.5"}, {"generations", "0"}}));
  for (const auto& [key, value] : Set{{"fairness", "2"}, {"population", "1"}, {"interval", "0s"}}) {
    EXPECT_FALSE(registry.make("pollux", Set{{key, value}})) << key;
  }
}

}  // namespace
}  // namespace ebb::policies
