#include <fmt/format.h>

#include "ebb/base/log.h"
#include "ebb/control/controller_impl.h"
#include "ebb/control/fork.h"
#include "ebb/control/views.h"

namespace ebb::control {
namespace {

// How old a forecast may be that is shown, and one that is only compared with what happens.
constexpr auto kForecastAge = std::chrono::seconds(5);
constexpr auto kScrapedForecastAge = std::chrono::seconds(30);
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 20;

}  // namespace

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
    as_is.emplace(ledger_, clock_.now());
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

}  // namespace ebb::control
