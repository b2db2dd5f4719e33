#include "ebb/control/controller.h"

#include <fmt/format.h>

#include <set>

#include "ebb/base/log.h"
#include "ebb/control/controller_impl.h"

namespace ebb::control {
namespace {

// How long a journal that cannot be written is left alone before it is tried again.
constexpr auto kRetryWrite = std::chrono::milliseconds(200);
// How often a job's progress is journalled.
constexpr auto kProgressEvery = std::chrono::seconds(5);
// How long rows on which nobody acts may wait for the next turn, to be in one append with its inputs. A submission that
// follows another then waits for one write to the disk, not for two.
constexpr auto kLinger = std::chrono::milliseconds(5);

}  // namespace

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

// For requests that are answered with yes or no.
Result<void> LiveController::ask(const std::function<Result<Input>(const Ledger&)>& make) {
  EBB_ASSIGN_OR_RETURN(const auto none, post([&](const Ledger& ledger, JobId) { return make(ledger); }));
  return {};
}

Result<void> LiveController::ask(JobId job, Result<void> (*check)(const JobEntry&, JobId), Input input) {
  return ask([&](const Ledger& ledger) -> Result<Input> {
    EBB_RETURN_IF_ERROR(require(job));
    EBB_RETURN_IF_ERROR(check(ledger.jobs()[job], job));
    return input;
  });
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
  return ask([&](const Ledger& ledger) -> Result<Input> {
    EBB_RETURN_IF_ERROR(require(job));
    EBB_RETURN_IF_ERROR(ledger.check_resize(job, workers));
    return ResizeRequested{job, workers};
  });
}

Result<void> LiveController::drain(const std::string& node, bool on) {
  return ask([&](const Ledger& ledger) -> Result<Input> {
    const auto& nodes = ledger.beginning().cluster.nodes;
    for (NodeId id = 0; id < nodes.size(); ++id) {
      if (nodes[id].name == node) return DrainRequested{id, on};
    }
    return fail(ErrorCode::not_found, "no node is called '{}'", node);
  });
}

Result<void> LiveController::set_policy(const wire::PolicyView& policy) {
  const Result<void> set = ask([&](const Ledger& ledger) -> Result<Input> {
    PolicySet input{policy.name, policy.options};
    EBB_RETURN_IF_ERROR(ledger.check_policy(input));
    return input;
  });
  if (set) ebb::log(LogLevel::info, "policy set", {{"policy", policy.name}});
  return set;
}

Result<std::unique_ptr<Controller>> Controller::open(Store store, const ClusterSettings& settings,
                                                     const sched::Registry& registry) {
  EBB_ASSIGN_OR_RETURN(Recovered recovered, recover(store, settings, registry));
  return std::make_unique<LiveController>(std::move(store), std::move(recovered));
}

}  // namespace ebb::control
