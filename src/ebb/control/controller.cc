#include "ebb/control/controller.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <set>

#include "ebb/base/log.h"
#include "ebb/control/clock.h"
#include "ebb/control/fork.h"
#include "ebb/control/ledger.h"
#include "ebb/control/planner.h"
#include "ebb/control/recovery.h"
#include "ebb/control/views.h"
#include "ebb/sched/forecast.h"

namespace ebb::control {
namespace {

// How long a journal that cannot be written is left alone before it is tried again.
constexpr auto kRetryWrite = std::chrono::milliseconds(200);
// How old a forecast may be that is shown, and one that is only compared with what happens.
constexpr auto kForecastAge = std::chrono::seconds(5);
constexpr auto kScrapedForecastAge = std::chrono::seconds(30);
// How often a job's progress is journalled.
constexpr auto kProgressEvery = std::chrono::seconds(5);
// How long rows on which nobody acts may wait for the next turn, to be in one append with its inputs. A submission that
// follows another then waits for one write to the disk, not for two.
constexpr auto kLinger = std::chrono::milliseconds(5);
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 20;

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

Result<void> LiveController::run(backend::Backend& backend) {
  {
    const std::lock_guard lock(state_mutex_);
    backend_ = &backend;
  }
  reconcile(backend);
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock)) {
    Inbox inbox = std::exchange(inbox_, {});
    lock.unlock();
    {
      const std::lock_guard state(state_mutex_);
      const Time now = clock_.now();
      // Rows on which nobody acts go into one append with what came in.
      const bool merge = unwritten_.actions.empty() && !inbox.empty();
      if (merge || write_consequences()) {
        accept(collect(std::move(inbox), now), now);
        const auto wake = ledger_.next_wake();
        if (!write_error_ && (ledger_.wants_step() || (wake && *wake <= now))) {
          EBB_RETURN_IF_ERROR(step(now));
          if (!unwritten_.actions.empty()) write_consequences();
        }
      } else {
        for (Request& request : inbox.requests) request.answer.set_value(tl::unexpected(*write_error_));
        put_back(std::move(inbox.statuses), std::move(inbox.reports), std::move(inbox.plans));
      }
      journalled_.notify_all();
    }
    if (watcher_) watcher_();
    act(backend);
    lock.lock();
  }
  for (Request& request : inbox_.requests) {
    request.answer.set_value(fail(ErrorCode::unavailable, "the controller is stopping"));
  }
  inbox_.requests.clear();
  lock.unlock();
  const std::lock_guard state(state_mutex_);
  write_consequences();  // if it cannot be, the step is taken again at the next start
  return {};
}

// Waits until there is something to do; false once it is to stop. Called and left with mutex_ held.
bool LiveController::wait_for_work(std::unique_lock<std::mutex>& lock) {
  std::optional<Duration> delay;
  bool wait_out = false;
  lock.unlock();
  {
    const std::lock_guard state(state_mutex_);
    wait_out = write_error_.has_value();
    if (wait_out) {
      delay = kRetryWrite;
    } else if (!unwritten_.rows.empty()) {
      delay = kLinger;
    } else if (ledger_.wants_step()) {
      delay = Duration(0);
    } else if (const auto wake = next_wake()) {
      // Long waits are cut: a condition variable may overflow on them.
      delay = std::clamp<Duration>(*wake - clock_.now(), Duration(0), std::chrono::hours(1));
    }
  }
  lock.lock();
  const auto woken = [&] { return stopping_ || (!wait_out && !inbox_.empty()); };
  if (delay) {
    work_.wait_for(lock, *delay, woken);
  } else {
    work_.wait(lock, woken);
  }
  return !stopping_;
}

// Of the ledger, or of progress that waits to be journalled.
std::optional<Time> LiveController::next_wake() const {
  std::optional<Time> wake = ledger_.next_wake();
  for (const auto& [job, late] : progress_) {
    if (late.report && (!wake || late.journalled + kProgressEvery < *wake)) wake = late.journalled + kProgressEvery;
  }
  return wake;
}

// Statuses first: what a request is checked against is as fresh as can be.
LiveController::Turn LiveController::collect(Inbox inbox, Time now) {
  Turn turn;
  collect_reports(std::move(inbox.reports), now, turn);
  collect_statuses(std::move(inbox.statuses), turn);
  for (PlanAnswer& plan : inbox.plans) {
    if (plan.reign != ledger_.reign()) continue;  // of a policy that was replaced
    turn.inputs.emplace_back(PlanAnswered{plan.plan, plan.answer});
    turn.plans.push_back(std::move(plan));
  }
  for (const JobId job : ledger_.due_retries(now)) turn.inputs.emplace_back(RetryDue{job});
  for (const auto& [job, revision] : ledger_.due_targets(now)) turn.inputs.emplace_back(TargetTimedOut{job, revision});
  auto next = static_cast<JobId>(ledger_.jobs().size());
  std::set<std::string> keys;
  for (Request& request : inbox.requests) {
    Result<Input> input = request.make(ledger_, next);
    if (!input) {
      request.answer.set_value(tl::unexpected(input.error()));
      continue;
    }
    std::vector<JobId> ids;
    if (const auto* accepted = std::get_if<JobAccepted>(&*input)) {
      if (accepted->first < ledger_.jobs().size()) {
        // Its key was used: the same answer again.
        const auto known = ledger_.find_key(accepted->key);
        for (std::size_t i = 0; i < known->second; ++i) ids.push_back(static_cast<JobId>(known->first + i));
        request.answer.set_value(std::move(ids));
        continue;
      }
      if (!accepted->key.empty() && !keys.insert(accepted->key).second) {
        // The key came twice in this turn: the second one is answered when the first is folded.
        const std::lock_guard lock(mutex_);
        inbox_.requests.push_back(std::move(request));
        continue;
      }
      const auto count = static_cast<JobId>(std::max(1, accepted->request.array_size));
      for (JobId i = 0; i < count; ++i) ids.push_back(next + i);
      next += count;
    }
    turn.inputs.push_back(std::move(*input));
    turn.answers.emplace_back(std::move(request.answer), std::move(ids));
  }
  return turn;
}

void LiveController::collect_statuses(std::deque<WorkerStatus> statuses, Turn& turn) {
  for (WorkerStatus& status : statuses) {
    const WorkerEntry* worker = ledger_.find_worker(status.id);
    if (worker == nullptr) {
      if (status.exit) actions_.emplace_back(ForgetWorker{status.id});  // journalled before
      continue;
    }
    if (status.exit || status.pid != worker->pid) {
      turn.inputs.emplace_back(WorkerSaid{status});
      turn.statuses.push_back(std::move(status));
    }
  }
}

void LiveController::collect_reports(std::deque<wire::WorkerReport> reports, Time now, Turn& turn) {
  for (wire::WorkerReport& report : reports) {
    const auto job = ledger_.job_of(report.worker);
    if (!job) {
      // Its end is journalled; it need not say this again.
      if (report.number > 0) actions_.emplace_back(TellWorker{report.worker, wire::Acknowledged{report.number}});
    } else if (std::holds_alternative<wire::Connected>(report.report)) {
      if (auto target = ledger_.target_of(report.worker, now)) {
        actions_.emplace_back(TellWorker{report.worker, std::move(*target)});
      }
    } else if (std::holds_alternative<wire::Progress>(report.report)) {
      progress_[*job].report = std::move(report);
    } else if (wire::is_answer(report.report)) {
      turn.inputs.emplace_back(WorkerReported{report});
      turn.reports.push_back(std::move(report));
    }
  }
  for (auto& [job, late] : progress_) {
    if (!late.report || (late.journalled != Time{} && now - late.journalled < kProgressEvery)) continue;
    turn.inputs.emplace_back(WorkerReported{*std::exchange(late.report, std::nullopt)});
    late.journalled = now;
  }
  std::erase_if(progress_, [&](const auto& entry) { return ledger_.jobs()[entry.first].outcome != Outcome::none; });
}

void LiveController::put_back(std::deque<WorkerStatus> statuses, std::deque<wire::WorkerReport> reports,
                              std::deque<PlanAnswer> plans) {
  const std::lock_guard lock(mutex_);
  inbox_.statuses.insert(inbox_.statuses.begin(), statuses.begin(), statuses.end());
  inbox_.reports.insert(inbox_.reports.begin(), reports.begin(), reports.end());
  inbox_.plans.insert(inbox_.plans.begin(), plans.begin(), plans.end());
}

void LiveController::accept(Turn turn, Time now) {
  if (turn.inputs.empty()) {
    write_consequences();
    return;
  }
  std::vector<std::string> rows = unwritten_.rows;
  rows.reserve(rows.size() + turn.inputs.size());
  for (const Input& input : turn.inputs) rows.push_back(encode(now, input));
  const Result<void> appended = append(std::move(rows));
  if (appended) unwritten_ = {};
  if (appended) {
    for (const Input& input : turn.inputs) {
      if (const auto* said = std::get_if<WorkerSaid>(&input); said != nullptr && said->status.exit) {
        actions_.emplace_back(ForgetWorker{said->status.id});
      }
      ledger_.apply(now, input);
    }
    for (const wire::WorkerReport& report : turn.reports) {
      if (report.number > 0) actions_.emplace_back(TellWorker{report.worker, wire::Acknowledged{report.number}});
    }
  } else {
    put_back(std::move(turn.statuses), std::move(turn.reports), std::move(turn.plans));
  }
  for (auto& [promise, answer] : turn.answers) {
    promise.set_value(appended ? std::move(answer) : Answer(tl::unexpected(appended.error())));
  }
}

Result<void> LiveController::step(Time now) {
  const auto began = Clock::Monotonic::now();
  EBB_RETURN_IF_ERROR(ledger_.step(now, unwritten_));
  metrics_.observe_step(Clock::Monotonic::now() - began);
  for (const Duration took : ledger_.take_reclaims()) metrics_.observe_reclaim(took);
  for (const auto& [job, at] : ledger_.take_started()) {
    const auto predicted = predicted_.find(job);
    if (predicted == predicted_.end()) continue;
    metrics_.observe_forecast(at - predicted->second);
    predicted_.erase(predicted);
  }
  return {};
}

Result<void> LiveController::append(std::vector<std::string> rows) {
  std::vector<Row> numbered;
  numbered.reserve(rows.size());
  for (std::string& row : rows) numbered.push_back({0, std::move(row)});
  const auto began = Clock::Monotonic::now();
  Result<void> appended = store_.append(numbered);
  if (appended) {
    metrics_.observe_append(Clock::Monotonic::now() - began, numbered.size());
    if (write_error_) ebb::log(LogLevel::info, "the journal can be written again");
  } else {
    metrics_.count_failed_append();
    if (!write_error_)
      ebb::log(LogLevel::error, "the journal cannot be written", {{"error", appended.error().message}});
  }
  write_error_ = appended ? std::nullopt : std::optional(appended.error());
  return appended;
}

// True once nothing is left unwritten.
bool LiveController::write_consequences() {
  if (unwritten_.rows.empty()) return true;
  if (!append(unwritten_.rows)) return false;
  for (Action& action : unwritten_.actions) actions_.push_back(std::move(action));
  unwritten_ = {};
  return true;
}

void LiveController::act(backend::Backend& backend) {
  std::vector<Action> actions;
  {
    const std::lock_guard state(state_mutex_);
    actions = std::exchange(actions_, {});
    for (const Action& action : actions) {
      const auto* plan = std::get_if<RunPlan>(&action);
      if (plan == nullptr) continue;
      planner_.ask(ledger_.reign(), plan->plan, plan->input, ledger_.scheduler().policy().clone());
    }
  }
  for (const Action& action : actions) {
    if (const auto* start = std::get_if<StartWorker>(&action)) {
      backend.start(start->spec);
    } else if (const auto* stop = std::get_if<StopWorker>(&action)) {
      backend.stop(stop->worker, stop->grace);
    } else if (const auto* tell = std::get_if<TellWorker>(&action)) {
      backend.tell(tell->worker, tell->order);
    } else if (const auto* forget = std::get_if<ForgetWorker>(&action)) {
      backend.forget(forget->worker);
    }
  }
}

// After a start: what was decided before is carried out, once.
void LiveController::reconcile(backend::Backend& backend) {
  std::map<WorkerId, WorkerStatus> known;
  if (auto list = backend.list()) {
    for (WorkerStatus& status : *list) known.emplace(status.id, std::move(status));
  }
  std::vector<Action> actions;
  {
    const std::lock_guard state(state_mutex_);
    for (const WorkerId& id : ledger_.live_workers()) {
      const WorkerEntry& worker = *ledger_.find_worker(id);
      const auto status = known.find(id);
      if (status != known.end()) {
        on_status(status->second);
        known.erase(status);
        if (worker.stopping) actions.emplace_back(StopWorker{id, ledger_.grace_of(id)});
        if (auto target = ledger_.target_of(id, clock_.now())) actions.emplace_back(TellWorker{id, std::move(*target)});
      } else if (worker.pid != 0) {
        on_status({id, worker.pid, WorkerExit{WorkerExit::Cause::lost, 0, "its machine does not know it any more"}});
      } else if (worker.stopping) {
        on_status({id, 0, WorkerExit{WorkerExit::Cause::stopped, 0, "it was stopped before it ran"}});
      } else {
        actions.emplace_back(StartWorker{ledger_.spec_of_worker(id)});
      }
    }
    actions_.insert(actions_.end(), actions.begin(), actions.end());
  }
  for (auto& [id, status] : known) on_status(std::move(status));
  act(backend);
}

void LiveController::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  work_.notify_all();
  journalled_.notify_all();
}

void LiveController::on_status(WorkerStatus status) {
  const std::lock_guard lock(mutex_);
  inbox_.statuses.push_back(std::move(status));
  work_.notify_all();
}

void LiveController::on_report(wire::WorkerReport report) {
  const std::lock_guard lock(mutex_);
  inbox_.reports.push_back(std::move(report));
  work_.notify_all();
}

LiveController::Answer LiveController::post(std::function<Result<Input>(const Ledger&, JobId)> make) {
  std::future<Answer> answer;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return fail(ErrorCode::unavailable, "the controller is stopping");
    Request& request = inbox_.requests.emplace_back(Request{std::move(make), {}});
    answer = request.answer.get_future();
    work_.notify_all();
  }
  return answer.get();
}

Result<std::vector<JobId>> LiveController::submit(const JobRequest& request, const std::string& key) {
  return post([&](const Ledger& ledger, JobId next) -> Result<Input> {
    if (!key.empty()) {
      if (const auto known = ledger.find_key(key)) {
        if (*ledger.jobs()[known->first].request != request) {
          return fail(ErrorCode::already_exists, "the idempotency key '{}' came with another request before", key);
        }
        return JobAccepted{known->first, request, key};
      }
    }
    EBB_RETURN_IF_ERROR(ledger.check(request));
    return JobAccepted{next, request, key};
  });
}

Result<void> LiveController::ask(JobId job, Result<void> (*check)(const JobEntry&, JobId), Input input) {
  auto answer = post([&](const Ledger& ledger, JobId) -> Result<Input> {
    if (job >= ledger.jobs().size()) return fail(ErrorCode::not_found, "there is no job {}", job);
    EBB_RETURN_IF_ERROR(check(ledger.jobs()[job], job));
    return input;
  });
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Result<void> LiveController::check_active(const JobEntry& job, JobId id) {
  if (job.outcome == Outcome::none) return {};
  return fail(ErrorCode::failed_precondition, "job {} has ended", id);
}

Result<void> LiveController::check_holdable(const JobEntry& job, JobId id) {
  EBB_RETURN_IF_ERROR(check_active(job, id));
  if (job.place != JobEntry::Place::placed) return {};
  return fail(ErrorCode::failed_precondition, "job {} has its GPUs; only a job that waits can be held", id);
}

Result<void> LiveController::check_held(const JobEntry& job, JobId id) {
  EBB_RETURN_IF_ERROR(check_active(job, id));
  if (job.user_held) return {};
  return fail(ErrorCode::failed_precondition, "job {} is not held", id);
}

Result<void> LiveController::resize(JobId job, std::int32_t workers) {
  auto answer = post([&](const Ledger& ledger, JobId) -> Result<Input> {
    if (job >= ledger.jobs().size()) return fail(ErrorCode::not_found, "there is no job {}", job);
    EBB_RETURN_IF_ERROR(ledger.check_resize(job, workers));
    return ResizeRequested{job, workers};
  });
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Result<void> LiveController::drain(const std::string& node, bool on) {
  auto answer = post([&](const Ledger& ledger, JobId) -> Result<Input> {
    const auto& nodes = ledger.beginning().cluster.nodes;
    for (NodeId id = 0; id < nodes.size(); ++id) {
      if (nodes[id].name == node) return DrainRequested{id, on};
    }
    return fail(ErrorCode::not_found, "no node is called '{}'", node);
  });
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Result<void> LiveController::require(JobId job) const {
  if (job < ledger_.jobs().size()) return {};
  return fail(ErrorCode::not_found, "there is no job {}", job);
}

Result<std::vector<wire::JobView>> LiveController::jobs(const JobFilter& filter) {
  const std::lock_guard state(state_mutex_);
  return view_jobs(ledger_, filter, clock_.now());
}

Result<wire::JobDetail> LiveController::job(JobId job) {
  const std::lock_guard state(state_mutex_);
  EBB_RETURN_IF_ERROR(require(job));
  return view_detail(ledger_, job, clock_.now());
}

Result<wire::Explanation> LiveController::explain(JobId job) {
  std::unique_lock state(state_mutex_);
  EBB_RETURN_IF_ERROR(require(job));
  wire::Explanation explanation = view_explanation(ledger_, job, clock_.now());
  const std::int64_t epoch = ledger_.beginning().epoch;
  state.unlock();
  if (explanation.position) {
    if (const auto forecast = fresh_forecast(kForecastAge)) add_forecast(explanation, *forecast, epoch);
  }
  return explanation;
}

Result<std::pair<wire::Outlook, wire::Outlook>> LiveController::what_if(const wire::WhatIf& question) {
  std::optional<Fork> as_is;
  {
    const std::lock_guard state(state_mutex_);
    if (question.job) EBB_RETURN_IF_ERROR(ledger_.check(*question.job));
    as_is.emplace(fork_of(ledger_, clock_.now()));
  }
  Fork changed = *as_is;
  if (question.job) EBB_RETURN_IF_ERROR(changed.submit(*question.job));
  if (question.policy) EBB_RETURN_IF_ERROR(changed.set_policy(*question.policy));
  EBB_ASSIGN_OR_RETURN(wire::Outlook before, as_is->outlook());
  EBB_ASSIGN_OR_RETURN(wire::Outlook after, changed.outlook());
  return std::pair{std::move(before), std::move(after)};
}

// Made outside of the state's mutex: only the copy of the scheduler holds others up.
std::shared_ptr<const sched::Forecast> LiveController::fresh_forecast(Duration age) {
  const std::lock_guard one(forecast_mutex_);
  std::optional<sched::Scheduler> fork;
  Time now{};
  {
    const std::lock_guard state(state_mutex_);
    now = clock_.now();
    if (forecast_ && forecast_reign_ == ledger_.reign() && now - forecast_->made < age) return forecast_;
    forecast_reign_ = ledger_.reign();
    fork.emplace(ledger_.scheduler());
  }
  auto made = sched::forecast(std::move(*fork), now);
  if (!made) {
    ebb::log(LogLevel::warning, "no forecast", {{"error", made.error().message}});
    return nullptr;
  }
  auto forecast = std::make_shared<const sched::Forecast>(std::move(*made));
  const std::lock_guard state(state_mutex_);
  // The first forecast of each job is compared with what happens.
  for (const auto& [job, start] : forecast->starts) predicted_.try_emplace(job, start);
  forecast_ = forecast;
  return forecast;
}

Result<std::vector<wire::NodeView>> LiveController::nodes() {
  const std::lock_guard state(state_mutex_);
  return view_nodes(ledger_);
}

Result<wire::PolicyView> LiveController::policy() {
  const std::lock_guard state(state_mutex_);
  return wire::PolicyView{ledger_.policy().policy, ledger_.policy().options};
}

Result<void> LiveController::set_policy(const wire::PolicyView& policy) {
  auto answer = post([&](const Ledger& ledger, JobId) -> Result<Input> {
    PolicySet set{policy.name, policy.options};
    EBB_RETURN_IF_ERROR(ledger.check_policy(set));
    return set;
  });
  if (!answer) return tl::unexpected(answer.error());
  ebb::log(LogLevel::info, "policy set", {{"policy", policy.name}});
  return {};
}

Result<std::vector<wire::EventView>> LiveController::events(std::uint64_t after, std::size_t limit,
                                                            std::chrono::milliseconds wait) {
  std::unique_lock state(state_mutex_);
  journalled_.wait_for(state, wait, [&] { return store_.last_seq() > after || stopping_; });
  std::vector<wire::EventView> views;
  EBB_RETURN_IF_ERROR(store_.read(after, limit, [&](const Row& row) -> Result<void> {
    views.push_back({row.seq, row.json});
    return {};
  }));
  return views;
}

Result<LogChunk> LiveController::log(JobId job, std::int32_t rank, const std::string& stream, std::uint64_t offset,
                                     std::size_t max_bytes) {
  WorkerId worker;
  backend::Backend* backend = nullptr;
  {
    const std::lock_guard state(state_mutex_);
    EBB_RETURN_IF_ERROR(require(job));
    const JobEntry& entry = ledger_.jobs()[job];
    if (entry.workers.empty()) return fail(ErrorCode::not_found, "job {} has not started yet", job);
    if (rank < 0 || std::cmp_greater_equal(rank, entry.workers.size())) {
      return fail(ErrorCode::not_found, "job {} has no worker {}; its workers are 0 to {}", job, rank,
                  entry.workers.size() - 1);
    }
    worker = entry.workers[static_cast<std::size_t>(rank)].placed.worker;
    backend = backend_;
  }
  if (backend == nullptr) return fail(ErrorCode::unavailable, "the controller is starting");
  return backend->read_log(worker, stream, offset, std::min(max_bytes, kMaxLogBytes));
}

Result<void> LiveController::ready() {
  const std::lock_guard state(state_mutex_);
  if (write_error_) return tl::unexpected(*write_error_);
  return {};
}

Result<void> LiveController::keep(const std::string& key, const std::string& value) {
  const std::lock_guard state(state_mutex_);
  return store_.set(key, value);
}

Result<std::string> LiveController::kept(const std::string& key) {
  const std::lock_guard state(state_mutex_);
  return store_.get(key);
}

std::string LiveController::metrics_text() {
  fresh_forecast(kScrapedForecastAge);
  ClusterGauges gauges;
  {
    const std::lock_guard state(state_mutex_);
    gauges = view_gauges(ledger_, clock_.now());
    gauges.journal_rows = static_cast<double>(store_.last_seq());
    gauges.journal_writable = !write_error_;
  }
  return metrics_.text(gauges);
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::open(Store store, const ClusterSettings& settings,
                                                     const sched::Registry& registry) {
  EBB_ASSIGN_OR_RETURN(Recovered recovered, recover(store, settings, registry));
  return std::make_unique<LiveController>(std::move(store), std::move(recovered));
}

}  // namespace ebb::control
