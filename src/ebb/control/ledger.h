#pragma once

/// The fold of the live journal: every job with its request, its workers and its outcome, and the scheduler core beside
/// it. The controller feeds it live; at start the journal does. The same rows give the same state, decisions and
/// intents.
///
///   apply(at, input)   folds one input; what the core is to hear of it waits for the next step
///   step(now)          tells the core, takes its decisions, and turns them into rows and actions
///
/// How a job goes on when the last worker of an incarnation is gone:
///   every worker exited with 0            -> completed
///   it was cancelled                      -> cancelled
///   the scheduler took its GPUs           -> waits again
///   its machine failed (lost, fenced)     -> waits again
///   anything else                         -> retried after its back-off, or failed
/// When one worker fails, the others of its incarnation are stopped.
///
/// Not thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/control/record.h"
#include "ebb/control/slots.h"
#include "ebb/model/event.h"
#include "ebb/sched/registry.h"
#include "ebb/sched/scheduler.h"

namespace ebb::control {

struct WorkerEntry {
  StartRequested placed;
  std::int64_t pid = 0;
  std::optional<WorkerExit> exit;
  bool stopping = false;  ///< told to
};

enum class Outcome : std::uint8_t { none, completed, failed, cancelled };

struct JobEntry {
  /// Where the core has it, once it has heard what waits for the next step.
  enum class Place : std::uint8_t { queued, held, placed, gone };

  std::shared_ptr<const JobRequest> request;
  std::optional<std::int32_t> array_index;
  Time submitted{};
  Place place = Place::queued;
  bool user_held = false;
  bool cancelled = false;  ///< asked for
  bool preempted = false;  ///< its present incarnation
  std::size_t unmet = 0;   ///< dependencies
  std::optional<Time> retry_at;
  std::uint32_t retries = 0;
  std::uint32_t incarnation = 0;             ///< the latest that was launched; 0 = none
  std::vector<WorkerEntry> workers;          ///< of it, by rank
  std::optional<std::size_t> first_failure;  ///< rank
  std::optional<Time> started;               ///< all its workers ran
  std::optional<Time> ended;
  Outcome outcome = Outcome::none;
  std::string why;  ///< of an outcome that is not completed
  int exit_code = 0;
  std::vector<std::pair<JobId, Dependency::When>> dependents;
};

struct StartWorker {
  WorkerSpec spec;
};
struct StopWorker {
  WorkerId worker;
  Duration grace{};
};
/// Its exit is journalled.
struct ForgetWorker {
  WorkerId worker;
};
using Action = std::variant<StartWorker, StopWorker, ForgetWorker>;

/// What a step gives: rows to journal, then, once they are durable, actions to take.
struct Consequences {
  std::vector<std::string> rows;
  std::vector<Action> actions;
};

class Ledger {
 public:
  /// Errors: those of sched::Registry::make_scheduler().
  static Result<Ledger> begin(Beginning beginning, const sched::Registry& registry);

  /// What a request must fulfil beyond being well-formed. Errors: invalid_argument, not_found (a dependency, a node).
  Result<void> check(const JobRequest& request) const;

  void apply(Time at, const Input& input);
  /// Whether a step has something to tell the core.
  bool wants_step() const { return !heard_.empty() || !stops_.empty(); }
  /// Errors: internal, if the core refuses an event or decision; the ledger must not be used on.
  Result<void> step(Time now, Consequences& out);

  /// When a step is wanted, or a retry is due, though nothing happens before.
  std::optional<Time> next_wake() const;
  /// Jobs whose back-off is over.
  std::vector<JobId> due_retries(Time now) const;

  const Beginning& beginning() const { return beginning_; }
  const sched::Scheduler& scheduler() const { return scheduler_; }
  const std::vector<JobEntry>& jobs() const { return jobs_; }
  /// The first job of the request that came with this key, and how many; nullopt if none did.
  std::optional<std::pair<JobId, std::size_t>> find_key(const std::string& key) const;
  /// nullptr if no such worker was ever to be started, or its job has begun another incarnation since.
  const WorkerEntry* find_worker(const WorkerId& id) const;
  /// Workers that have not ended.
  std::vector<WorkerId> live_workers() const;
  std::size_t live_worker_count() const { return live_.size(); }
  /// All that a backend needs to start it. `id` is live.
  WorkerSpec spec_of_worker(const WorkerId& id) const;
  /// How long reclaims took that ended since the last call, from the decision until all GPUs were free.
  std::vector<Duration> take_reclaims() { return std::exchange(reclaims_, {}); }
  /// In `stop()`'s terms.
  Duration grace_of(const WorkerId& id) const;

 private:
  struct WorkerKey {
    JobId job = 0;
    std::size_t rank = 0;
  };

  Ledger(Beginning beginning, sched::Scheduler scheduler);

  void accept(Time at, const JobAccepted& accepted);
  void depend(JobId job, const Dependency& on, Time at);
  void cancel(JobId job, const std::string& why, Time at);
  void hear(const WorkerStatus& status, Time at);
  void settle(JobId job, Time at);
  void fail_job(JobId job, const WorkerExit& exit, Time at);
  void finish(JobId job, Outcome outcome, std::string why, int exit_code, Time at);
  void tell_dependents(Time at);
  void sync_hold(JobId job);
  void stop_workers(JobId job, const std::string& why);
  void decided(const Decision& decision, Time now);
  void launch(JobId job, Consequences& out, Time now);

  Beginning beginning_;
  sched::Scheduler scheduler_;
  sched::StepResult result_;
  std::vector<JobEntry> jobs_;
  std::map<std::string, std::pair<JobId, std::size_t>> keys_;
  std::unordered_map<WorkerId, WorkerKey> live_;
  std::set<std::pair<Time, JobId>> retries_;
  std::vector<JobId> finished_;  // whose dependents have not been told
  Slots slots_;
  std::vector<Event> heard_;                             // what the core is to be told
  std::vector<std::pair<WorkerId, std::string>> stops_;  // decided since the last step
  std::vector<Duration> reclaims_;                       // not part of the fold
};

}  // namespace ebb::control
