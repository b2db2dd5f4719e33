#pragma once

/// The live control plane: drives the scheduler core with wall time, journals, starts and stops workers through a
/// Backend, and answers the API.
///
/// One thread (run()) owns all state. Each turn of it:
///   1. takes all that came in (requests, statuses of workers, the clock), checks it, and journals it in one append
///   2. folds it, answers the requests: what is answered is on disk
///   3. steps the core; journals events, decisions and intents in a second append; if nobody is to act on them, they
///      may wait some milliseconds for the append of the next turn
///   4. acts: starts and stops workers
/// A crash between any two of these is a restart: open() folds the journal again, checks that the core takes the same
/// decisions, does step 3 where it is missing, and asks the backend what became of the workers.
///
/// If the journal cannot be written, requests are refused with `unavailable` and nothing changes; statuses of workers
/// wait. It goes on when writing works again.
///
/// All public functions may be called from any thread.

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/backend/backend.h"
#include "ebb/control/metrics.h"
#include "ebb/control/store.h"
#include "ebb/model/cluster.h"
#include "ebb/sched/registry.h"
#include "ebb/wire/api.h"
#include "ebb/wire/contract.h"

namespace ebb::control {

struct JobFilter {
  std::optional<wire::JobStatus> status;
  std::string tenant;          ///< "" = all
  bool active_only = false;    ///< not ended
  std::optional<JobId> after;  ///< jobs with a larger id
  std::size_t limit = 100;
};

/// What a new journal begins with; an old one goes on with what it has.
struct ClusterSettings {
  ClusterSpec cluster;
  std::optional<std::string> policy;  ///< nullopt: backfill, or what the journal says
  std::vector<std::pair<std::string, std::string>> options;
};

class Controller {
 public:
  /// Folds the journal of `store`; a new one is begun with these settings. Errors: those of Store; failed_precondition
  /// if the journal began with another cluster, or another policy than the one given is in charge; internal if it
  /// cannot be folded.
  static Result<std::unique_ptr<Controller>> open(Store store, const ClusterSettings& settings,
                                                  const sched::Registry& registry);
  virtual ~Controller() = default;

  /// Works until stop(); `backend` is told what to do. Errors: internal, if the core refuses an event.
  virtual Result<void> run(backend::Backend& backend) = 0;
  virtual void stop() = 0;
  /// The sinks of the backend.
  virtual void on_status(WorkerStatus status) = 0;
  virtual void on_report(wire::WorkerReport report) = 0;

  /// Several ids for an array. `key` (idempotency): a request with a key that was used gets the same answer again.
  /// Errors: invalid_argument (a dependency on an unknown job, more GPUs than the cluster has), unavailable,
  /// already_exists if the key came with another request.
  virtual Result<std::vector<JobId>> submit(const JobRequest& request, const std::string& key) = 0;
  /// Errors (of the three): not_found; failed_precondition if the job ended, or is not held; unavailable.
  virtual Result<void> cancel(JobId job) = 0;
  virtual Result<void> hold(JobId job) = 0;
  virtual Result<void> release(JobId job) = 0;
  /// The owner of an elastic job wants so many workers: of one that waits at its start, of one that runs as soon as the
  /// GPUs are there. Errors: not_found; invalid_argument for a number that is no size of the job; failed_precondition
  /// if it ended, or if the policy sizes running jobs by itself; unavailable.
  virtual Result<void> resize(JobId job, std::int32_t workers) = 0;
  /// Errors: not_found; unavailable.
  virtual Result<void> drain(const std::string& node, bool on) = 0;

  virtual Result<std::vector<wire::JobView>> jobs(const JobFilter& filter) = 0;
  virtual Result<wire::JobDetail> job(JobId job) = 0;
  virtual Result<wire::Explanation> explain(JobId job) = 0;
  /// What would come of the jobs that are there, as it is and with the change. Errors: those of set_policy() and
  /// submit() for what the question holds.
  virtual Result<std::pair<wire::Outlook, wire::Outlook>> what_if(const wire::WhatIf& question) = 0;
  virtual Result<std::vector<wire::NodeView>> nodes() = 0;
  virtual Result<wire::PolicyView> policy() = 0;
  /// That policy decides from now on; nothing that runs is stopped by the change itself. Errors: not_found for its
  /// name; invalid_argument for an option; unavailable.
  virtual Result<void> set_policy(const wire::PolicyView& policy) = 0;
  /// Rows after `after`, at most `limit`; waits up to `wait` for the first.
  virtual Result<std::vector<wire::EventView>> events(std::uint64_t after, std::size_t limit,
                                                      std::chrono::milliseconds wait) = 0;
  /// Of the latest incarnation. Errors: not_found, also for a job that has not started.
  virtual Result<LogChunk> log(JobId job, std::int32_t rank, const std::string& stream, std::uint64_t offset,
                               std::size_t max_bytes) = 0;
  /// Errors: unavailable, with the reason, while the journal cannot be written.
  virtual Result<void> ready() = 0;

  /// Called after each turn that may have journalled something, on the controller's thread; before run().
  virtual void watch(std::function<void()> journalled) = 0;
  /// Values beside the journal (Store::set). Errors: those of the store.
  virtual Result<void> keep(const std::string& key, const std::string& value) = 0;
  virtual Result<std::string> kept(const std::string& key) = 0;
  /// Counts of this controller and its server.
  virtual Metrics& metrics() = 0;
  /// In the text format of Prometheus.
  virtual std::string metrics_text() = 0;
};

}  // namespace ebb::control
