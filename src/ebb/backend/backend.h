#pragma once

/// Who provides machines: starts and stops workers and says what became of them. Asynchronous and idempotent, keyed by
/// worker id: starting a worker that was started before answers with what became of it, and it never runs twice.
///
/// Every start is answered through the Sink with a status that has a pid, and later with one that has an exit; or with
/// an exit alone. A status may come more than once, and on any thread. After restart of either side, list() says how
/// things stand; a worker that it does not know never ran and never will unless it is started. What workers say by the
/// worker contract comes through a ReportSink, on any thread, maybe more than once.

#include <functional>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/worker.h"
#include "ebb/wire/contract.h"

namespace ebb::backend {

class Backend {
 public:
  using Sink = std::function<void(WorkerStatus)>;
  using ReportSink = std::function<void(wire::WorkerReport)>;
  virtual ~Backend() = default;

  virtual void start(const WorkerSpec& spec) = 0;
  /// SIGTERM now, SIGKILL to all that is left after `grace`. Nothing happens if the worker is gone or unknown.
  virtual void stop(const WorkerId& worker, Duration grace) = 0;
  /// Passes an order of the worker contract on. It may get lost: a worker that connects again says so (Connected), and
  /// is told its target again.
  virtual void tell(const WorkerId& worker, const wire::Order& order) = 0;
  /// Its exit is journalled: what is kept of it beside logs and the mark that it ran may go.
  virtual void forget(const WorkerId& worker) = 0;
  /// Errors: unavailable.
  virtual Result<std::vector<WorkerStatus>> list() = 0;
  /// What a worker wrote to `stream` = "stdout" or "stderr". Errors: not_found.
  virtual Result<LogChunk> read_log(const WorkerId& worker, std::string_view stream, std::uint64_t offset,
                                    std::size_t max_bytes) = 0;
};

}  // namespace ebb::backend
