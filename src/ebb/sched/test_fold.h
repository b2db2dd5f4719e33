#pragma once

/// For tests of the fold: folds events and decisions, checks all invariants after each, and that refused ones change
/// nothing.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>

#include "ebb/sched/state.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::sched {

/// Everything that can be seen of a state.
inline std::string picture(const State& state) {
  std::string text;
  const auto add = [&](const auto&... values) { ((text += fmt::format("{} ", values)), ...); };
  const auto add_shares = [&](const Allocation& allocation) {
    for (const NodeShare& share : allocation) add(share.node, "x", share.gpus);
    text += "/ ";
  };
  const auto add_time = [&](const auto& time) { add(time ? format_seconds(*time) : "-"); };
  const auto add_gpu_time = [&](GpuNanoseconds time) { add(static_cast<std::int64_t>(time)); };
  for (const JobState& job : state.jobs()) {
    add("\njob", to_string(job.phase), job.incarnations, job.preemptions, job.failures, job.resizes, job.gpus,
        job.promised, job.occupied, job.pending.count(), job.held.count(), job.progress.count(), job.speed);
    add(format_seconds(job.held_since), format_seconds(job.productive_at), format_seconds(job.useful_since));
    add_time(job.first_start);
    add_time(job.end);
    add_gpu_time(job.gpu_time_until(state.latest()));
    add_shares(job.allocation);
    add_shares(job.departing);
    add_shares(job.arriving);
    add(job.replica ? static_cast<int>(*job.replica) : -1);
  }
  for (const ReplicaState& replica : state.replicas()) {
    add("\nreplica", to_string(replica.folded), replica.service, replica.place.node, replica.promised, replica.hits,
        replica.task ? static_cast<int>(*replica.task) : -1, format_seconds(replica.since),
        format_seconds(replica.protect_until), replica.keep_alive ? replica.keep_alive->count() : -1);
  }
  for (const ServiceState& service : state.services()) {
    add("\nservice", service.spec.name, service.demand, service.serving, service.replicas.size());
  }
  const Capacity& capacity = state.capacity();
  for (NodeId n = 0; n < capacity.spec().nodes.size(); ++n) {
    add("\nnode", capacity.up(n), capacity.draining(n), capacity.held(n), capacity.releasing(n), capacity.promised(n),
        capacity.available(n));
  }
  add("\nlaunch");
  for (const Holder holder : state.launchable()) add(static_cast<int>(holder.kind), holder.id);
  add("\ncounts", state.waiting_count(), state.holding_count(), state.gpus_held(), state.starting_count(),
      state.active_tasks(), state.waiting_tasks().size(), state.gpus_serving(), state.gpus_lent(), state.loans());
  const GpuTimes times = state.gpu_times(state.latest());
  for (const GpuNanoseconds time :
       {times.training, times.resizing, times.lent, times.starting, times.serving, times.protect, times.sleep}) {
    add_gpu_time(time);
  }
  return text;
}

class FoldTest : public ::testing::Test {
 protected:
  explicit FoldTest(ClusterSpec cluster, Lending lending = Lending::none) : state_(std::move(cluster), lending) {}

  void ok(const Event& event, int t) { fold_well(event, t); }
  void ok(const Decision& decision, int t) { fold_well(decision, t); }
  template <typename What>
  void refused(const What& what, int t, const std::string& part) {
    const std::string before = picture(state_);
    const auto folded = state_.fold(what, at(t));
    ASSERT_FALSE(folded) << part;
    EXPECT_EQ(folded.error().code, ErrorCode::internal);
    EXPECT_NE(folded.error().message.find(part), std::string::npos) << folded.error().message;
    EXPECT_EQ(picture(state_), before);
    consistent();
  }
  void consistent() const {
    const auto checked = check_invariants(state_);
    ASSERT_TRUE(checked) << checked.error().message;
  }
  void submit(JobId id, GpuCount gpus, int t = 0) { ok(Event(JobSubmitted{id, test_job(gpus)}), t); }
  void run(JobId id, const Allocation& allocation, int t) {
    ok(Decision(Start{id, allocation}), t);
    state_.clear_launchable();
    ok(Event(JobStarted{id, at(t)}), t);
  }

  State state_;

 private:
  template <typename What>
  void fold_well(const What& what, int t) {
    const auto folded = state_.fold(what, at(t));
    ASSERT_TRUE(folded) << folded.error().message;
    consistent();
  }
};

}  // namespace ebb::sched
