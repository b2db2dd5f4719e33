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
/// How an elastic job changes its GPUs, once the core decided a Resize:
///   restart    all workers are stopped; when the last is gone and the new GPUs are free, a new incarnation is launched
///   contract   who leaves is told by a target without it, and gone (JobShrunk); once the new GPUs are free, who joins
///   is
///              started and all are told by a target with it; the job runs on its new GPUs (JobResized) when one of
///              them says `switched` and those that joined are ready. A target that is refused, answered with other
///              members or not answered in time ends in a restart.
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
#include "ebb/wire/contract.h"

namespace ebb::control {

struct WorkerEntry {
  StartRequested placed;
  std::int64_t pid = 0;
  std::optional<WorkerExit> exit;
  bool stopping = false;  ///< told to
  bool leaves = false;    ///< not in the target: its end is no failure
  bool joins = false;     ///< since the last switch
  bool ready = false;     ///< said so
};

/// What the workers of a contract job were told last, in this incarnation.
struct TargetEntry {
  std::uint64_t revision = 0;  ///< 0: nothing yet
  std::vector<WorkerId> members;
  std::string why;
  Time answer_by{};
  bool answered = true;
  std::uint64_t generation = 0;  ///< said at the last switch
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
  std::uint32_t incarnation = 0;     ///< the latest that was launched; 0 = none
  std::vector<WorkerEntry> workers;  ///< of it, by rank
  std::int32_t next_worker = 0;      ///< number of the next one of the incarnation
  bool changing = false;             ///< its GPUs: a Resize is decided, JobResized not said
  bool restarting = false;           ///< its workers are being stopped to run on other GPUs
  bool shrunk = false;               ///< JobShrunk of the change is said
  bool gpus_ready = false;           ///< of what changes: they are free
  TargetEntry target;
  std::string broken;                        ///< why an incarnation that ran into no error is ended; "" = it is not
  std::optional<wire::Progress> progress;    ///< as last journalled
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
struct TellWorker {
  WorkerId worker;
  wire::Order order;
};
/// The policy's planner shall work on this; its answer is PlanAnswered.
struct RunPlan {
  std::uint64_t plan = 0;
  std::string input;
};
using Action = std::variant<StartWorker, StopWorker, ForgetWorker, TellWorker, RunPlan>;

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
  bool wants_step() const { return !heard_.empty() || !stops_.empty() || relaunch_now_ || policy_changed_; }
  /// Errors: internal, if the core refuses an event or decision; the ledger must not be used on.
  Result<void> step(Time now, Consequences& out);

  /// When a step is wanted, or a retry is due, though nothing happens before.
  std::optional<Time> next_wake() const;
  /// Jobs whose back-off is over.
  std::vector<JobId> due_retries(Time now) const;

  const Beginning& beginning() const { return beginning_; }
  /// In charge now.
  const PolicySet& policy() const { return policy_; }
  /// How many policies were in charge before.
  std::uint64_t reign() const { return reign_; }
  /// Errors: those of sched::Registry::make().
  Result<void> check_policy(const PolicySet& set) const;
  /// Requests of the policy's planner that are not answered, by number.
  const std::map<std::uint64_t, std::string>& open_plans() const { return open_plans_; }
  const sched::Scheduler& scheduler() const { return scheduler_; }
  const sched::Registry& registry() const { return registry_; }
  const std::vector<JobEntry>& jobs() const { return jobs_; }
  /// Jobs whose target was not answered in time, with its revision.
  std::vector<std::pair<JobId, std::uint64_t>> due_targets(Time now) const;
  /// What the worker should be told now; nullopt if its job has no target.
  std::optional<wire::TargetOrder> target_of(const WorkerId& worker, Time now) const;
  /// The first job of the request that came with this key, and how many; nullopt if none did.
  std::optional<std::pair<JobId, std::size_t>> find_key(const std::string& key) const;
  /// The job of a worker that has not ended.
  std::optional<JobId> job_of(const WorkerId& worker) const;
  /// Errors: those of Controller::resize().
  Result<void> check_resize(JobId job, std::int32_t workers) const;
  /// nullptr if no such worker was ever to be started, or its job has begun another incarnation since.
  const WorkerEntry* find_worker(const WorkerId& id) const;
  /// Workers that have not ended.
  std::vector<WorkerId> live_workers() const;
  std::size_t live_worker_count() const { return live_.size(); }
  /// All that a backend needs to start it. `id` is live.
  WorkerSpec spec_of_worker(const WorkerId& id) const;
  /// How long reclaims took that ended since the last call, from the decision until all GPUs were free.
  std::vector<Duration> take_reclaims() { return std::exchange(reclaims_, {}); }
  /// Jobs that came to run for the first time since the last call, and when.
  std::vector<std::pair<JobId, Time>> take_started() { return std::exchange(started_, {}); }
  /// In `stop()`'s terms.
  Duration grace_of(const WorkerId& id) const;

 private:
  Ledger(Beginning beginning, sched::Scheduler scheduler, const sched::Registry& registry);

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
  void stop_worker(WorkerEntry& worker, const std::string& why);
  void decided(const Decision& decision, Consequences& out, Time now);
  void launch(JobId job, Consequences& out, Time now);
  void start_workers(JobId job, const Allocation& where, Consequences& out, Time now);
  std::optional<std::size_t> rank_of(JobId job, const WorkerId& worker) const;
  WorkerEntry* find_entry(JobId job, const WorkerId& worker);
  void all_run(JobId job, Time at);
  void end_worker(JobId job, const WorkerEntry& worker);

  // ledger_elastic.cc
  void report(const wire::WorkerReport& report, Time at);
  void answer_target(JobId job, const wire::Switched& switched, Time at);
  void time_out(const TargetTimedOut& input, Time at);
  void resize_asked(const ResizeRequested& input);
  void begin_change(JobId job, Consequences& out, Time now);
  void gpus_free(JobId job, Consequences& out, Time now);
  void order_target(JobId job, Duration within, std::string why, Consequences& out, Time now);
  void give_up_target(JobId job, const std::string& why);
  void restart(JobId job, const std::string& why);
  void restarted(JobId job, Time at);
  void shrunk(JobId job, Time at);
  void leaver_gone(JobId job, const WorkerId& worker, Time at);
  void advance(JobId job, Time at);
  void answered(JobId job);

  void set_policy(const PolicySet& set, Time at);

  Beginning beginning_;
  sched::Registry registry_;
  PolicySet policy_;
  std::uint64_t reign_ = 0;
  bool policy_changed_ = false;  // since the last step
  std::map<std::uint64_t, std::string> open_plans_;
  sched::Scheduler scheduler_;
  sched::StepResult result_;
  std::vector<JobEntry> jobs_;
  std::map<std::string, std::pair<JobId, std::size_t>> keys_;
  std::unordered_map<WorkerId, JobId> live_;
  std::set<std::pair<Time, JobId>> retries_;
  std::set<std::pair<Time, JobId>> target_deadlines_;
  std::set<JobId> relaunch_;     // restarted ones whose workers are gone
  bool relaunch_now_ = false;    // of one of them the GPUs are free already
  std::vector<JobId> finished_;  // whose dependents have not been told
  Slots slots_;
  std::vector<Event> heard_;                             // what the core is to be told
  std::vector<std::pair<WorkerId, std::string>> stops_;  // decided since the last step
  // Not part of the fold.
  std::vector<Duration> reclaims_;
  std::vector<std::pair<JobId, Time>> started_;
};

}  // namespace ebb::control
