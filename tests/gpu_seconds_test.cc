// Random workloads of rigid and elastic jobs, tasks and services under every policy and kind of lending: the
// GPU-seconds by state are those that a second account, kept from outside, comes to, and add up to all GPUs over the
// time of the run; the spans of jobs add up to what the jobs held.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "ebb/policies/all.h"
#include "ebb/sched/state.h"
#include "random_case.h"

namespace ebb {
namespace {

using sched::JobPhase;
using sched::ReplicaPhase;

/// GPU-seconds by what the state shows after each step.
class Account {
 public:
  explicit Account(Time start) : at_(start) {}

  void see(const sched::State& state, Time now) {
    pass(now);
    jobs_.clear();
    replicas_.clear();
    for (const sched::JobState& job : state.jobs()) {
      if (job.training() && job.incarnate()) jobs_.push_back({job.occupied, job.phase, job.productive_at});
    }
    for (const sched::ReplicaState& replica : state.replicas()) {
      if (replica.alive() && replica.promised == 0) replicas_.push_back(replica);
    }
    lent_ = 0;
    for (const sched::JobState& job : state.jobs()) {
      if (!job.training() || !job.incarnate()) continue;
      for (const auto* part : {&job.allocation, &job.departing, &job.arriving}) {
        for (const NodeShare& share : *part) {
          if (state.capacity().in_serving_pool(share.node)) lent_ += (part == &job.arriving ? -1 : 1) * share.gpus;
        }
      }
    }
  }

  const sim::GpuSeconds& times() const { return times_; }
  double lent() const { return lent_seconds_; }
  Time at() const { return at_; }

 private:
  struct OnGpus {
    GpuCount gpus;
    JobPhase phase;
    Time productive_at;
  };

  void pass(Time now) {
    const auto between = [](Time from, Time to) { return to > from ? to_seconds(to - from) : 0.0; };
    for (const OnGpus& job : jobs_) {
      const Time productive = job.phase == JobPhase::running ? std::clamp(job.productive_at, at_, now) : now;
      times_.resizing += job.gpus * between(at_, productive);
      times_.training += job.gpus * between(productive, now);
    }
    for (const sched::ReplicaState& replica : replicas_) {
      const GpuCount gpus = replica.place.gpus;
      if (replica.folded == ReplicaPhase::starting) times_.starting += gpus * between(at_, now);
      if (replica.folded == ReplicaPhase::serving) times_.serving += gpus * between(at_, now);
      if (replica.folded == ReplicaPhase::stopping) times_.sleeping += gpus * between(at_, now);
      if (replica.folded != ReplicaPhase::protect) continue;
      const Time asleep = std::clamp(replica.protect_until, at_, now);
      times_.protect += gpus * between(at_, asleep);
      times_.sleeping += gpus * between(asleep, now);
    }
    lent_seconds_ += lent_ * between(at_, now);
    at_ = std::max(at_, now);
  }

  Time at_;
  std::vector<OnGpus> jobs_;
  std::vector<sched::ReplicaState> replicas_;
  GpuCount lent_ = 0;
  sim::GpuSeconds times_;
  double lent_seconds_ = 0;
};

// In the time model of the run.
Time start_of(const Case& c) {
  const Duration quantum = spec::quantum_of(c.options.time);
  Time start = kEndOfTime;
  if (!c.workload.jobs.empty()) {
    start = Time((c.workload.jobs.front().submit.time_since_epoch() + quantum / 2) / quantum * quantum);
  }
  for (const ServiceLoad& load : c.workload.services) start = std::min(start, load.requests.front().at);
  return start;
}

void expect_near(double actual, double expected, const char* what) {
  if (std::abs(actual - expected) > 1e-6 * std::max(1.0, std::abs(expected))) {
    RC_FAIL(fmt::format("{}: {}, by the other account {}", what, actual, expected));
  }
}

void check_spans(const Case& c, const sim::SimResult& result) {
  for (const sim::JobHistory& history : result.histories) {
    const sim::JobRecord& job = result.jobs[history.job];
    RC_ASSERT(history.spans.front().from == job.submit);
    double held = 0;
    double pending = 0;

    for (std::size_t i = 0; i < history.spans.size(); ++i) {
      const sim::JobSpan& span = history.spans[i];
      RC_ASSERT(span.from < span.to);
      if (i > 0) RC_ASSERT(span.from == history.spans[i - 1].to);
      held += span.gpus * to_seconds(span.to - span.from);
      if (span.gpus == 0) pending += to_seconds(span.to - span.from);
    }
    if (job.end) RC_ASSERT(history.spans.back().to == *job.end);
    // Who polls notices the end of a job later, and its GPUs are held until then.
    if (c.options.time == spec::TimeModel::polled) continue;
    expect_near(held, job.gpu_seconds, "GPU-seconds of a job's spans");
    expect_near(pending, to_seconds(job.pending), "waiting of a job's spans");
  }
}

RC_GTEST_PROP(GpuSeconds, AddUpAndAgreeWithASecondAccount, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Case c = random_case(seed);
  const Time start = start_of(c);
  RC_LOG() << c.text();
  Account account(start);
  sim::SimHooks hooks;
  hooks.after_step = [&](const sched::State& state, Time now) {
    account.see(state, now);
    return Result<void>();
  };
  const auto result = sim::simulate(c.cluster, c.workload, c.options, policies::all(), hooks);
  // Options of which no schedule comes: the simulator says so.
  if (!result && result.error().message.find("gets nowhere") != std::string::npos) RC_DISCARD("livelock");
  if (!result && result.error().code == ErrorCode::invalid_argument) RC_DISCARD(result.error().message);
  if (!result) RC_FAIL(fmt::format("{}: {}", c.text(), result.error().message));
  const sim::Summary& summary = result->summary;
  const sim::GpuSeconds& by_state = summary.gpu_seconds_by_state;
  const sim::GpuSeconds& other = account.times();
  expect_near(by_state.training, other.training, "training");
  expect_near(by_state.resizing, other.resizing, "resizing");
  expect_near(by_state.starting, other.starting, "starting");
  expect_near(by_state.serving, other.serving, "serving");
  expect_near(by_state.protect, other.protect, "protected");
  expect_near(by_state.sleeping, other.sleeping, "sleeping");
  expect_near(summary.loans.gpu_seconds, account.lent(), "lent");
  RC_ASSERT(by_state.idle >= 0);
  expect_near(by_state.sum(), result->cluster_gpus * to_seconds(account.at() - start), "all states");
  expect_near(summary.gpu_seconds, by_state.training + by_state.resizing, "held by training");
  check_spans(c, *result);
}

}  // namespace
}  // namespace ebb
