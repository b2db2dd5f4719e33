#pragma once

/// For tests: a backend whose workers do what the test says.

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "ebb/backend/backend.h"

namespace ebb::backend {

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(Sink sink) : sink_(std::move(sink)) {}

  void start(const WorkerSpec& spec) override {
    {
      const std::lock_guard lock(mutex_);
      const auto [worker, fresh] = workers_.try_emplace(spec.id, WorkerStatus{spec.id, 0, {}});
      if (fresh) {
        specs_[spec.id] = spec;
        ++runs_[spec.id];
        worker->second.pid = ++last_pid_;
      }
    }
    say(spec.id);
  }

  void stop(const WorkerId& worker, Duration) override {
    {
      const std::lock_guard lock(mutex_);
      stopped_.insert(worker);
      if (!workers_.contains(worker) || !obeys_) return;
    }
    end(worker, {WorkerExit::Cause::stopped, 0, ""});
  }

  /// Its workers do not speak the contract.
  void tell(const WorkerId& /*worker*/, const wire::Order& /*order*/) override {}

  void forget(const WorkerId& worker) override {
    const std::lock_guard lock(mutex_);
    forgotten_.insert(worker);
  }

  Result<std::vector<WorkerStatus>> list() override {
    const std::lock_guard lock(mutex_);
    std::vector<WorkerStatus> all;
    for (const auto& [id, status] : workers_) {
      if (!forgotten_.contains(id)) all.push_back(status);
    }
    return all;
  }

  Result<LogChunk> read_log(const WorkerId& worker, std::string_view stream, std::uint64_t offset,
                            std::size_t max_bytes) override {
    const std::string text = worker + " " + std::string(stream) + "\n";
    return LogChunk{offset, offset >= text.size() ? "" : text.substr(offset, max_bytes)};
  }

  /// The worker ends, unless it has.
  void end(const WorkerId& worker, const WorkerExit& exit) {
    {
      const std::lock_guard lock(mutex_);
      WorkerStatus& status = workers_.at(worker);
      if (!status.exit) status.exit = exit;
    }
    say(worker);
  }

  /// Whether stop() ends workers at once.
  void obey(bool on) { obeys_ = on; }
  std::vector<WorkerId> running() const {
    const std::lock_guard lock(mutex_);
    std::vector<WorkerId> ids;
    for (const auto& [id, status] : workers_) {
      if (!status.exit) ids.push_back(id);
    }
    return ids;
  }
  std::map<WorkerId, int> runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }
  WorkerSpec spec(const WorkerId& id) const {
    const std::lock_guard lock(mutex_);
    return specs_.at(id);
  }

 private:
  void say(const WorkerId& worker) {
    WorkerStatus status;
    {
      const std::lock_guard lock(mutex_);
      status = workers_.at(worker);
    }
    sink_(std::move(status));
  }

  Sink sink_;
  mutable std::mutex mutex_;
  std::map<WorkerId, WorkerStatus> workers_;
  std::map<WorkerId, WorkerSpec> specs_;
  std::map<WorkerId, int> runs_;
  std::set<WorkerId> stopped_;
  std::set<WorkerId> forgotten_;
  std::int64_t last_pid_ = 0;
  std::atomic<bool> obeys_ = true;
};

}  // namespace ebb::backend
