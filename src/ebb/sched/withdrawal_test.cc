// Jobs that leave the queue without a start: what a policy hears of it, and what a step makes of events that cannot be.

#include <gtest/gtest.h>

#include "ebb/sched/scheduler.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::sched {
namespace {

/// Starts nobody, and notes what it is told.
class Noting final : public Policy {
 public:
  explicit Noting(std::vector<std::string>* notes) : notes_(notes) {}
  std::unique_ptr<Policy> clone() const override { return std::make_unique<Noting>(*this); }
  void on_queued(const State& state, JobId job, Queued why, Time) override {
    note("queued", state, job);
    notes_->back() += why == Queued::released ? " released" : why == Queued::failed ? " failed" : "";
  }
  void on_withdrawn(const State& state, JobId job, Time) override { note("withdrawn", state, job); }
  void decide(Turn&) override {}
  Reason explain(const State& state, JobId job, Time) const override {
    EXPECT_EQ(state.job(job).phase, JobPhase::waiting);
    return reason_for(state, job, ReasonCode::no_capacity);
  }

 private:
  void note(const char* what, const State& state, JobId job) {
    notes_->push_back(fmt::format("{} {} {}", what, job, to_string(state.job(job).phase)));
  }

  std::vector<std::string>* notes_;
};

class Withdrawal : public ::testing::Test {
 protected:
  using Notes = std::vector<std::string>;
  using Reasons = std::vector<std::pair<JobId, ReasonCode>>;

  // What the policy heard.
  Notes step(const std::vector<Event>& events, int t) {
    notes_.clear();
    const auto done = scheduler_.step(events, at(t), result_);
    EXPECT_TRUE(done) << done.error().message;
    const auto checked = check_invariants(scheduler_.state());
    EXPECT_TRUE(checked) << checked.error().message;
    return notes_;
  }
  Reasons reasons() const {
    Reasons reasons;
    for (const auto& [job, reason] : result_.reasons) reasons.emplace_back(job, reason.code);
    return reasons;
  }

  std::vector<std::string> notes_;
  StepResult result_;
  Scheduler scheduler_{test_cluster(1, 4), std::make_unique<Noting>(&notes_)};
};

TEST_F(Withdrawal, APolicyHearsOfItOnce) {
  EXPECT_EQ(step({JobSubmitted{0, test_job(4)}, JobHeld{0}, Tick{}}, 0),
            (Notes{"queued 0 waiting", "withdrawn 0 held"}));
  EXPECT_EQ(step({JobReleased{0}, Tick{}}, 1), (Notes{"queued 0 waiting released"}));
  EXPECT_EQ(step({JobHeld{0}, JobReleased{0}, Tick{}}, 2), (Notes{"withdrawn 0 held", "queued 0 waiting released"}));
  EXPECT_EQ(step({JobHeld{0}, Tick{}}, 3), (Notes{"withdrawn 0 held"}));
  EXPECT_EQ(step({JobCancelled{0}, Tick{}}, 4), Notes{});  // it had left before
  EXPECT_EQ(step({JobSubmitted{1, test_job(4)}, JobCancelled{1}, Tick{}}, 5),
            (Notes{"queued 1 waiting", "withdrawn 1 cancelled"}));
}

TEST_F(Withdrawal, OnlyJobsThatWaitGetAReason) {
  step({JobSubmitted{0, test_job(4)}, JobSubmitted{1, test_job(4)}, JobHeld{0}, Tick{}}, 0);
  EXPECT_EQ(reasons(), (Reasons{{1, ReasonCode::no_capacity}}));
  step({JobReleased{0}}, 1);
  EXPECT_EQ(reasons(), (Reasons{{0, ReasonCode::waiting_for_tick}}));
  step({JobHeld{0}, JobSubmitted{2, test_job(4)}, JobCancelled{2}}, 2);
  EXPECT_EQ(reasons(), Reasons{});
  step({JobReleased{0}, Tick{}}, 3);
  EXPECT_EQ(reasons(), (Reasons{{0, ReasonCode::no_capacity}}));
}

TEST_F(Withdrawal, WhatTheStepItselfRejectedIsSkipped) {
  const std::vector<Event> events{JobSubmitted{0, test_job(5)}, JobHeld{0}, JobReleased{0}, JobCancelled{0}, Tick{}};
  EXPECT_EQ(step(events, 0), Notes{});
  ASSERT_EQ(result_.decisions.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Reject>(result_.decisions[0]));
  EXPECT_EQ(scheduler_.state().job(0).phase, JobPhase::rejected);
  // From then on the driver knows.
  const auto done = scheduler_.step(std::vector<Event>{JobHeld{0}}, at(1), result_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::internal);
  EXPECT_NE(done.error().message.find("which is rejected"), std::string::npos) << done.error().message;
}

TEST_F(Withdrawal, AnUnknownJobIsAnError) {
  for (const Event& event : {Event(JobHeld{7}), Event(JobReleased{7}), Event(JobCancelled{7})}) {
    const auto done = scheduler_.step(std::span(&event, 1), at(0), result_);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("never submitted"), std::string::npos) << done.error().message;
  }
}

}  // namespace
}  // namespace ebb::sched
