#pragma once

/// For tests of policies: a driver that carries every decision out at once, at the time of the tick, and checks the
/// invariants after each step.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ebb/sched/registry.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::sched {

class TestRun {
 public:
  explicit TestRun(Scheduler scheduler) : scheduler_(std::move(scheduler)) {}

  const State& state() const { return scheduler_.state(); }
  const Scheduler& scheduler() const { return scheduler_; }

  /// Heard with the next tick.
  void hear(Event event) { heard_.push_back(std::move(event)); }
  JobId submit(JobSpec spec) {
    hear(JobSubmitted{submitted_, std::move(spec)});
    return submitted_++;
  }

  /// Events only, no decision of the policy.
  void tell(Event event, int t) { step({std::move(event)}, t); }

  /// Decisions of the tick's own step.
  std::vector<Decision> tick(int t) {
    std::vector<Event> events = std::exchange(heard_, {});
    events.emplace_back(Tick{});
    return step(std::move(events), t);
  }

  /// Asked for by the last tick.
  std::optional<Time> wake() const { return wake_; }

  /// GPUs of every job, 0 for those that do not run.
  std::vector<GpuCount> sizes() const {
    std::vector<GpuCount> gpus;
    for (const JobState& job : state().jobs()) gpus.push_back(job.incarnate() ? gpus_in(job.allocation) : 0);
    return gpus;
  }

 private:
  std::vector<Decision> step(std::vector<Event> events, int t) {
    std::vector<Decision> first;
    for (bool begin = true; begin || !events.empty(); begin = false) {
      StepResult result;
      const auto done = scheduler_.step(events, at(t), result);
      EXPECT_TRUE(done) << done.error().message;
      const auto checked = check_invariants(state());
      EXPECT_TRUE(checked) << checked.error().message;
      if (!done || !checked) break;
      if (begin) first = result.decisions;
      wake_ = result.next_wake_at;
      events.clear();
      for (const Decision& decision : result.decisions) confirm(decision, events);
      // GPUs are given back before anybody is launched on them.
      if (events.empty()) launch(t, events);
    }
    return first;
  }

  void confirm(const Decision& decision, std::vector<Event>& events) const {
    if (const auto* preempt = std::get_if<Preempt>(&decision)) {
      events.emplace_back(JobStopped{preempt->job, state().job(preempt->job).progress});
    } else if (const auto* resize = std::get_if<Resize>(&decision)) {
      for (const Target& target : resize->targets) {
        if (!state().job(target.job).departing.empty()) events.emplace_back(JobShrunk{target.job});
      }
    } else if (const auto* stop = std::get_if<StopReplica>(&decision)) {
      events.emplace_back(ReplicaStopped{stop->replica});
    }
  }

  void launch(int t, std::vector<Event>& events) {
    for (const Holder holder : scheduler_.take_launchable()) {
      if (holder.kind == Holder::Kind::replica) {
        events.emplace_back(ReplicaReady{holder.id});
      } else if (state().job(holder.id).phase == JobPhase::starting) {
        events.emplace_back(JobStarted{holder.id, at(t)});
      } else {
        events.emplace_back(JobResized{holder.id, at(t), state().job(holder.id).progress});
      }
    }
  }

  Scheduler scheduler_;
  std::vector<Event> heard_;
  std::optional<Time> wake_;
  JobId submitted_ = 0;
};

/// `seconds`: the estimate of its run time on what it asks for.
inline JobSpec elastic_job(int seconds, GpuCount least, GpuCount most, GpuCount asked = 1) {
  JobSpec job = test_job(std::max(asked, least), seconds);
  job.requested_time = std::chrono::seconds(seconds);
  job.sizing = Sizing::elastic;
  job.min_gpus = least;
  job.max_gpus = most;
  return job;
}

/// An elastic job with batch sizes: 100 samples a step, at least `local_min` on each GPU.
inline JobSpec batch_job(int seconds, GpuCount most, BatchSize local_min) {
  JobSpec job = elastic_job(seconds, 1, most);
  job.batch_size = 100;
  job.batch = {.initial = 100, .largest = 1000, .local_min = local_min, .local_max = 100};
  return job;
}

/// A report after half of its epochs, 100 steps: a step takes 1 s on one GPU and 1 % more on several.
inline JobReport report_of_no_gain(JobId job) {
  JobReport report;
  report.job = job;
  report.fraction_done = 0.5;
  report.steps_done = 100;
  report.throughput = ThroughputParams{1, 0, 0.01, 0, 0.01, 0, 1};
  return report;
}

}  // namespace ebb::sched
