#pragma once

/// For tests of the live control plane's ledger: one that is driven by hand, with all that it would journal.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ebb/control/ledger.h"
#include "ebb/control/recovery.h"
#include "live_fixture.h"

namespace ebb::control {

inline JobRequest elastic_request(Elasticity how, std::int32_t workers, std::int32_t max = 4) {
  JobRequest job = test_request(workers);
  job.min_workers = 1;
  job.max_workers = max;
  job.elasticity = how;
  return job;
}

/// A ledger on a few nodes of one kind, the rows that it would journal, and what it asked for.
class LedgerCluster {
 public:
  explicit LedgerCluster(GpuCount slots = 4, const std::string& policy = "fifo", std::size_t nodes = 1)
      : beginning_{0, sched::test_cluster(nodes, slots), policy, {}},
        ledger_(Ledger::begin(beginning_, policies::all()).value()) {}

  void hear(const Input& input) {
    ledger_.apply(now_, input);
    rows_.push_back(encode(now_, input));
    durable_ = rows_.size();
  }
  /// Another controller goes on from the journal; `all`: also from what was written without need.
  void crash(bool all) {
    if (!all) rows_.resize(durable_);
    std::optional<Ledger> again = replay();
    ASSERT_TRUE(again.has_value());
    ledger_ = std::move(*again);
    step();
  }
  // Until nothing more follows.
  void step() {
    do {
      Consequences out;
      const auto stepped = ledger_.step(now_, out);
      ASSERT_TRUE(stepped.has_value()) << stepped.error().message;
      // Rows on which nobody acts may not be on disk when the controller dies.
      durable_ = out.actions.empty() ? std::min(durable_, rows_.size()) : rows_.size() + out.rows.size();
      rows_.insert(rows_.end(), out.rows.begin(), out.rows.end());
      for (const Action& action : out.actions) {
        if (const auto* start = std::get_if<StartWorker>(&action)) started.push_back(start->spec.id);
        if (const auto* stop = std::get_if<StopWorker>(&action)) stopped.push_back(stop->worker);
        if (const auto* plan = std::get_if<RunPlan>(&action)) {
          plans.emplace_back(plan->plan, ledger_.scheduler().policy().plan(plan->input));
        }
        if (const auto* tell = std::get_if<TellWorker>(&action)) {
          told[tell->worker] = std::get<wire::TargetOrder>(tell->order);
        }
      }
    } while (ledger_.wants_step());
    const auto holds = sched::check_invariants(ledger_.scheduler().state());
    ASSERT_TRUE(holds.has_value()) << holds.error().message;
  }
  void tell(const Input& input) {
    hear(input);
    step();
  }

  JobId submit(const JobRequest& job) {
    const auto id = static_cast<JobId>(ledger_.jobs().size());
    tell(JobAccepted{id, job, ""});
    return id;
  }
  void run(const std::vector<WorkerId>& workers) {
    for (const WorkerId& worker : workers) tell(WorkerSaid{{worker, 100, {}}});
  }
  void exit(const WorkerId& worker, WorkerExit::Cause cause = WorkerExit::Cause::exited, int code = 0) {
    tell(WorkerSaid{{worker, 100, WorkerExit{cause, code, ""}}});
  }
  void exit_stopped(const std::vector<WorkerId>& workers) {
    for (const WorkerId& worker : workers) exit(worker, WorkerExit::Cause::stopped);
  }
  void report(const WorkerId& worker, wire::Report what) { tell(WorkerReported{{worker, 0, std::move(what)}}); }
  void ready(const std::vector<WorkerId>& workers) {
    for (const WorkerId& worker : workers) report(worker, wire::Ready{});
  }
  void switched(const WorkerId& worker) {
    const wire::TargetOrder target = *ledger_.target_of(worker, now_);
    wire::Switched said{target.revision, target.revision, {}};
    for (const auto& member : target.members) said.members.push_back(member.worker);
    report(worker, said);
  }
  /// A contract job that runs on its first workers.
  JobId running(std::int32_t workers, std::int32_t max = 4) {
    const JobId id = submit(elastic_request(Elasticity::contract, workers, max));
    const std::vector<WorkerId> first = std::exchange(started, {});
    run(first);
    ready(first);
    switched(first.front());
    return id;
  }
  void pass(Duration time) {
    now_ += time;
    for (const auto& [job, revision] : ledger_.due_targets(now_)) hear(TargetTimedOut{job, revision});
    for (const JobId job : ledger_.due_retries(now_)) hear(RetryDue{job});
    step();
  }

  /// Another ledger that is given the same rows decides the same; nullopt, and a failure, if it does not.
  std::optional<Ledger> replay() const {
    Ledger again = Ledger::begin(beginning_, policies::all()).value();
    Replayer replayer(again);
    Result<void> result;
    for (std::size_t i = 0; i < rows_.size() && result; ++i) result = replayer.take({i + 1, rows_[i]});
    if (result) result = replayer.complete();
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result ? std::optional(std::move(again)) : std::nullopt;
  }

  const JobEntry& job(JobId id) const { return ledger_.jobs()[id]; }
  const sched::JobState& core(JobId id) const { return ledger_.scheduler().state().job(id); }
  GpuCount held() const {
    const sched::Capacity& capacity = ledger_.scheduler().state().capacity();
    GpuCount held = 0;
    for (NodeId node = 0; node < capacity.spec().nodes.size(); ++node) held += capacity.held(node);
    return held;
  }
  Ledger& ledger() { return ledger_; }
  Time now() const { return now_; }
  std::vector<WorkerId> workers(JobId id) const {
    std::vector<WorkerId> ids;
    for (const WorkerEntry& worker : job(id).workers) ids.push_back(worker.placed.worker);
    return ids;
  }

  std::vector<WorkerId> started;
  std::vector<WorkerId> stopped;
  std::map<WorkerId, wire::TargetOrder> told;
  std::vector<std::pair<std::uint64_t, std::string>> plans;  ///< answers that were not told

 private:
  Beginning beginning_;
  Ledger ledger_;
  Time now_{};
  std::vector<std::string> rows_;
  std::size_t durable_ = 0;  // so many of them are on disk for sure
};

}  // namespace ebb::control
