#pragma once

/// The worker's side of the contract (docs/reference/worker-contract.md): a connection to the agent that is made again
/// whenever it breaks, and answers that are said again until they are on the controller's disk. Agent and controller
/// may come and go; the worker sees orders, each target once.
///
/// All functions may be called from any thread; none but next() and flush() waits. A child of fork() must not use it.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/wire/contract.h"

namespace ebb::wire {

class WorkerClient {
 public:
  /// Who the worker is and where its agent listens, from EBB_WORKER_ID, EBB_WORKER_SOCKET and EBB_WORKER_SECRET.
  /// Connects in the background. Errors: failed_precondition if they are not set: ebb did not start this process.
  static Result<std::unique_ptr<WorkerClient>> from_environment();
  /// `socket`: a path, or an abstract name with '@' in front.
  WorkerClient(std::string socket, WorkerId worker, std::string secret);
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;
  ~WorkerClient();

  const WorkerId& worker() const;

  /// The next order: the latest target if it was not given out, else a request for a checkpoint. nullopt after
  /// `timeout`.
  std::optional<Order> next(std::chrono::milliseconds timeout);

  void ready();
  void switched(std::uint64_t revision, std::uint64_t generation, std::vector<WorkerId> members);
  /// `worker`: who left; "" = this one.
  void drained(const WorkerId& worker = "");
  void refused(std::uint64_t revision, const std::string& why);
  /// The latest is sent; older ones that were not yet sent are dropped.
  void progress(Progress progress);
  void load(Load load);

  /// Waits until all answers are acknowledged. Errors: deadline_exceeded.
  Result<void> flush(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::wire
