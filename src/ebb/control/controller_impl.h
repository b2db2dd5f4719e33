#pragma once

/// Inside of Controller: its state and its loop. controller.cc has the loop and what it changes; controller_queries.cc
/// what is asked of it.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <unordered_map>

#include "ebb/control/clock.h"
#include "ebb/control/controller.h"
#include "ebb/control/ledger.h"
#include "ebb/control/planner.h"
#include "ebb/control/recovery.h"
#include "ebb/sched/forecast.h"

namespace ebb::control {

class LiveController final : public Controller {
 public:
  LiveController(Store store, Recovered recovered)
      : store_(std::move(store)),
        ledger_(std::move(recovered.ledger)),
        clock_(ledger_.beginning().epoch, recovered.last),
        planner_([this](PlanAnswer answer) {
          const std::lock_guard lock(mutex_);
          inbox_.plans.push_back(std::move(answer));
          work_.notify_all();
        }) {
    ledger_.take_reclaims();  // of former controllers
    ledger_.take_started();
    for (const auto& [plan, input] : ledger_.open_plans()) actions_.emplace_back(RunPlan{plan, input});
  }

  Result<void> run(backend::Backend& backend) override;
  void stop() override;
  void on_status(WorkerStatus status) override;
  void on_report(wire::WorkerReport report) override;

  Result<std::vector<JobId>> submit(const JobRequest& request, const std::string& key) override;
  Result<void> cancel(JobId job) override { return ask(job, &check_active, CancelRequested{job}); }
  Result<void> hold(JobId job) override { return ask(job, &check_holdable, HoldRequested{job}); }
  Result<void> release(JobId job) override { return ask(job, &check_held, ReleaseRequested{job}); }
  Result<void> resize(JobId job, std::int32_t workers) override;
  Result<void> drain(const std::string& node, bool on) override;

  Result<std::vector<wire::JobView>> jobs(const JobFilter& filter) override;
  Result<wire::JobDetail> job(JobId job) override;
  Result<wire::Explanation> explain(JobId job) override;
  Result<std::pair<wire::Outlook, wire::Outlook>> what_if(const wire::WhatIf& question) override;
  Result<std::vector<wire::NodeView>> nodes() override;
  Result<wire::PolicyView> policy() override;
  Result<void> set_policy(const wire::PolicyView& policy) override;
  Result<std::vector<wire::EventView>> events(std::uint64_t after, std::size_t limit,
                                              std::chrono::milliseconds wait) override;
  Result<LogChunk> log(JobId job, std::int32_t rank, const std::string& stream, std::uint64_t offset,
                       std::size_t max_bytes) override;
  Result<void> ready() override;

  void watch(std::function<void()> journalled) override { watcher_ = std::move(journalled); }
  Result<void> keep(const std::string& key, const std::string& value) override;
  Result<std::string> kept(const std::string& key) override;
  Metrics& metrics() override { return metrics_; }
  std::string metrics_text() override;

 private:
  /// At most so old; nullptr if there can be none.
  std::shared_ptr<const sched::Forecast> fresh_forecast(Duration age);

  using Answer = Result<std::vector<JobId>>;
  /// Made into an input by the loop, which alone knows the state that it meets.
  struct Request {
    std::function<Result<Input>(const Ledger& ledger, JobId next)> make;
    std::promise<Answer> answer;
  };
  /// What a turn of the loop journals, and whom it answers.
  struct Turn {
    std::vector<Input> inputs;
    std::vector<std::pair<std::promise<Answer>, Answer>> answers;
    std::deque<WorkerStatus> statuses;
    std::deque<wire::WorkerReport> reports;
    std::deque<PlanAnswer> plans;
  };
  /// What came in since the last turn.
  struct Inbox {
    std::deque<Request> requests;
    std::deque<WorkerStatus> statuses;
    std::deque<wire::WorkerReport> reports;
    std::deque<PlanAnswer> plans;
    bool empty() const { return requests.empty() && statuses.empty() && reports.empty() && plans.empty(); }
  };

  /// Progress comes often, and is journalled now and then.
  struct LateProgress {
    std::optional<wire::WorkerReport> report;  ///< the latest, not journalled yet
    Time journalled{};                         ///< when one was the last time
  };

  static Result<void> check_active(const JobEntry& job, JobId id);
  static Result<void> check_holdable(const JobEntry& job, JobId id);
  static Result<void> check_held(const JobEntry& job, JobId id);

  Answer post(std::function<Result<Input>(const Ledger&, JobId)> make);
  Result<void> ask(const std::function<Result<Input>(const Ledger&)>& make);
  Result<void> ask(JobId job, Result<void> (*check)(const JobEntry&, JobId), Input input);
  Result<void> require(JobId job) const;

  void reconcile(backend::Backend& backend);
  std::optional<Time> next_wake() const;
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  Turn collect(Inbox inbox, Time now);
  void collect_statuses(std::deque<WorkerStatus> statuses, Turn& turn);
  void collect_reports(std::deque<wire::WorkerReport> reports, Time now, Turn& turn);
  void put_back(std::deque<WorkerStatus> statuses, std::deque<wire::WorkerReport> reports,
                std::deque<PlanAnswer> plans);
  void accept(Turn turn, Time now);
  Result<void> step(Time now);
  Result<void> append(std::vector<std::string> rows);
  bool write_consequences();
  void act(backend::Backend& backend);

  // Guarded by mutex_: what other threads leave for the loop.
  std::mutex mutex_;
  std::condition_variable work_;
  Inbox inbox_;
  std::atomic<bool> stopping_ = false;  // written under mutex_

  // Guarded by state_mutex_: written by the loop, read by all.
  mutable std::mutex state_mutex_;
  std::condition_variable journalled_;
  Store store_;
  Ledger ledger_;
  Clock clock_;
  Consequences unwritten_;  // of the last step; nothing else happens before they are journalled
  std::vector<Action> actions_;
  std::map<JobId, LateProgress> progress_;  // of live jobs
  std::optional<Error> write_error_;
  backend::Backend* backend_ = nullptr;

  std::unordered_map<JobId, Time> predicted_;  // starts of waiting jobs, as first forecast
  std::shared_ptr<const sched::Forecast> forecast_;
  std::uint64_t forecast_reign_ = 0;
  std::mutex forecast_mutex_;  // one at a time makes a forecast; taken before state_mutex_

  Metrics metrics_;
  std::function<void()> watcher_;
  Planner planner_;  // the last one: its thread uses the inbox
};

}  // namespace ebb::control
