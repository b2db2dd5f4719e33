#pragma once

/// The agent of one node: starts workers, each under an ebb-shim of its own, watches them, ends them.
///
/// The folder is the agent's only memory:
///   agent.lock             held while an agent uses the folder
///   id                     names this folder among all of the machine: in the workers' environment, in their groups
///   lease                  until when the shims may let their workers run, by the boot clock
///   secret                 what the secrets of its workers are made of
///   fences.json            of each slot, the highest fence that was accepted, and from whom
///   workers/<worker id>/   files of one worker (records.h), shim.log, stdout.<offset>.log, stderr.<offset>.log
///   ended/<worker id>/     of one that was forgotten: exit.json, its tombstone, and its logs
///
/// Start: fences, then the worker's folder are durable before its shim is launched; the shim lives on without the
/// agent. open() on a folder that was used adopts what it finds: workers with a living shim are watched on; those that
/// ended are reported; those that provably never ran are launched; of those that lost their shim everything is killed,
/// and then they are reported as lost. A worker id runs at most once, ever.
///
/// Statuses go to the Sink, on the agent's own thread, the first ones possibly before open() has returned; it may call
/// the agent. A start that cannot be is answered there too: not_started, with the reason. Errors of the agent itself
/// that concern no worker go to stderr.
///
/// All public functions may be called from any thread; start(), stop() and forget() return at once and are carried out
/// in order. Each worker takes two file descriptors and an inotify watch.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/agent/cgroup.h"
#include "ebb/agent/log_file.h"
#include "ebb/agent/slots.h"
#include "ebb/base/result.h"
#include "ebb/model/worker.h"
#include "ebb/wire/contract.h"

namespace ebb::agent {

struct AgentOptions {
  std::filesystem::path folder;  ///< made, with its parents, if it is not there
  std::filesystem::path shim;    ///< the program ebb-shim
  SlotSet slots;
  bool isolate = true;  ///< false: no control groups, whatever the machine permits
  /// How long the shims go on after the last renewal. Nullopt: for ever.
  std::optional<Duration> lease;
  /// Renews by itself as long as it lives; else only by renew_lease(), when whoever granted the node says so.
  bool renews_lease = true;
  LogLimits logs;
};

class Agent {
 public:
  using Sink = std::function<void(WorkerStatus)>;
  using ReportSink = std::function<void(wire::WorkerReport)>;

  /// Errors: failed_precondition if another agent uses the folder; not_found if there is no shim program; those of the
  /// file system; invalid_argument if a file of the folder cannot be understood.
  /// `reports`: of workers that speak the contract (contract_server.h); without it, there can be none.
  static Result<std::unique_ptr<Agent>> open(AgentOptions options, Sink sink, ReportSink reports = {});
  /// Carries out what was asked for; the workers run on.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Answers through the Sink with a status that has a pid, and later with one that has an exit; or with that alone. A
  /// worker that was started before is answered with what became of it.
  void start(const WorkerSpec& spec);
  /// SIGTERM now, SIGKILL to all that is left after `grace`. Nothing happens if the worker is gone or unknown.
  void stop(const WorkerId& worker, Duration grace);
  /// An order of the worker contract; lost if the worker is not connected (it will ask).
  void tell(const WorkerId& worker, const wire::Order& order);
  /// Keeps of a worker that ended only its exit and its logs. Nothing happens while it runs.
  void forget(const WorkerId& worker);
  /// All that were started and not forgotten.
  std::vector<WorkerStatus> list() const;

  /// `stream` = "stdout" or "stderr": at most `max_bytes` from `offset`; "" at the end. Offsets count all that was ever
  /// written. Errors: not_found if the worker is unknown or the bytes at `offset` went by rotation.
  Result<std::string> read_log(const WorkerId& worker, std::string_view stream, std::uint64_t offset,
                               std::size_t max_bytes) const;
  /// Which offsets there are. Errors: not_found.
  Result<LogRange> log_range(const WorkerId& worker, std::string_view stream) const;

  /// The workers may run for one more lease from now on. Errors: those of the file system; none without a lease.
  Result<void> renew_lease();

  /// What of a slot's share is enforced on this machine, and if not, why.
  const Isolation& isolation() const;

 private:
  class Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::agent
