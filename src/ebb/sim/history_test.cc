#include "ebb/sim/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/sched/test_cluster.h"

namespace ebb::sim {
namespace {

using sched::at;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HistoryTest : public ::testing::Test {
 protected:
  void hear(std::vector<Event> events, int t) {
    for (const Event& event : events) {
      const auto folded = state_.fold(event, at(t));
      ASSERT_TRUE(folded) << folded.error().message;
    }
    history_.heard(state_, events, at(t));
    state_.clear_launchable();
  }
  void decide(const Decision& decision, int t) {
    const auto folded = state_.fold(decision, at(t));
    ASSERT_TRUE(folded) << folded.error().message;
  }
  void run(JobId id, const Allocation& allocation, int t) {
    decide(Start{id, allocation}, t);
    hear({JobStarted{id, at(t)}}, t);
  }
  SimResult filled(int t) const {
    SimResult result;
    history_.fill(state_, at(t), result);
    return result;
  }

  sched::State state_{sched::test_cluster(2, 4)};
  History history_{2};
};

TEST_F(HistoryTest, WaitsRunsAndChanges) {
  JobSpec elastic = sched::test_job(4);
  elastic.sizing = Sizing::elastic;
  elastic.min_gpus = 1;
  elastic.max_gpus = 4;
  hear({JobSubmitted{0, elastic}}, 5);
  history_.waits(0, ReasonCode::waiting_for_tick);
  history_.waits(0, ReasonCode::no_capacity);
  history_.waits(0, ReasonCode::fragmented);
  run(0, {{0, 4}}, 10);
  decide(Resize{{{0, {{0, 1}}}}}, 20);
  hear({JobShrunk{0}}, 25);
  hear({JobResized{0, at(30), std::chrono::seconds(10)}}, 26);
  decide(Preempt{0}, 40);
  hear({JobStopped{0, std::chrono::seconds(20)}}, 45);
  const std::vector<JobSpan> lived = {
      {at(5), at(10), 0, ReasonCode::no_capacity}, {at(10), at(25), 4, {}}, {at(25), at(45), 1, {}}};
  EXPECT_EQ(filled(45).histories.at(0).spans, lived);  // what has just begun is nothing yet
  run(0, {{1, 2}}, 60);
  hear({JobFinished{0, {}}}, 70);
  const SimResult result = filled(99);
  ASSERT_EQ(result.histories.size(), 1U);
  EXPECT_EQ(result.histories[0].job, 0U);
  EXPECT_EQ(result.histories[0].spans.size(), 5U);
  EXPECT_EQ(result.histories[0].spans[3], (JobSpan{at(45), at(60), 0, {}}));
  EXPECT_EQ(result.histories[0].spans[4], (JobSpan{at(60), at(70), 2, {}}));
  EXPECT_FALSE(result.histories_left_out);
}

TEST_F(HistoryTest, WhoNeverEndsEndsWithTheRun) {
  hear({JobSubmitted{0, sched::test_job(4)}, JobSubmitted{1, sched::test_job(4)}}, 0);
  run(0, {{0, 4}}, 0);
  const SimResult result = filled(30);
  EXPECT_THAT(result.histories.at(0).spans, ElementsAre(JobSpan{at(0), at(30), 4, {}}));
  EXPECT_THAT(result.histories.at(1).spans, ElementsAre(JobSpan{at(0), at(30), 0, {}}));
}

TEST_F(HistoryTest, TasksAndRejectedJobsHaveNone) {
  JobSpec task = sched::test_job(1);
  task.kind = JobKind::inference;
  task.application = "s";
  hear({JobSubmitted{0, task}, JobSubmitted{1, sched::test_job(9)}}, 0);
  decide(Reject{1, {}}, 0);
  EXPECT_THAT(filled(30).histories, IsEmpty());
}

TEST_F(HistoryTest, TooManyAreNone) {
  history_ = History(kMaxHistories + 1);
  hear({JobSubmitted{0, sched::test_job(4)}}, 0);
  EXPECT_TRUE(filled(30).histories_left_out);
  EXPECT_THAT(filled(30).histories, IsEmpty());
  history_ = History(kMaxHistories);
  int t = 0;
  for (std::size_t i = 0; i <= kMaxSpans; i += 2) {
    run(0, {{0, 4}}, ++t);
    decide(Preempt{0}, ++t);
    hear({JobStopped{0, Duration(0)}}, t);
  }
  EXPECT_TRUE(filled(t + 1).histories_left_out);
  EXPECT_THAT(filled(t + 1).histories, IsEmpty());
}

}  // namespace
}  // namespace ebb::sim
