#include "ebb/model/worker.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace ebb {

WorkerId worker_id(JobId job, std::uint32_t incarnation, std::int32_t index) {
  return fmt::format("j{}-{}-{}", job, incarnation, index);
}

const char* to_string(WorkerExit::Cause cause) {
  switch (cause) {
    case WorkerExit::Cause::exited:
      return "exited";
    case WorkerExit::Cause::signalled:
      return "signalled";
    case WorkerExit::Cause::stopped:
      return "stopped";
    case WorkerExit::Cause::timed_out:
      return "timed_out";
    case WorkerExit::Cause::out_of_memory:
      return "out_of_memory";
    case WorkerExit::Cause::fenced:
      return "fenced";
    case WorkerExit::Cause::not_started:
      return "not_started";
    case WorkerExit::Cause::lost:
      return "lost";
  }
  return "";
}

std::optional<WorkerExit::Cause> exit_cause_from(std::string_view name) {
  using Cause = WorkerExit::Cause;
  for (const Cause cause : {Cause::exited, Cause::signalled, Cause::stopped, Cause::timed_out, Cause::out_of_memory,
                            Cause::fenced, Cause::not_started, Cause::lost}) {
    if (name == to_string(cause)) return cause;
  }
  return std::nullopt;
}

std::string describe(const WorkerExit& exit) {
  const std::string detail = exit.message.empty() ? "" : ": " + exit.message;
  switch (exit.cause) {
    case WorkerExit::Cause::exited:
      return fmt::format("exit code {}", exit.code);
    case WorkerExit::Cause::signalled: {
      const char* name = sigdescr_np(exit.code);
      return fmt::format("signal {} ({})", exit.code, name != nullptr ? name : "unknown");
    }
    case WorkerExit::Cause::stopped:
      return "stopped on request";
    case WorkerExit::Cause::timed_out:
      return "ran longer than its time limit";
    case WorkerExit::Cause::out_of_memory:
      return "out of memory";
    case WorkerExit::Cause::fenced:
      return "ended because its lease ran out";
    case WorkerExit::Cause::not_started:
      return "could not be started" + detail;
    case WorkerExit::Cause::lost:
      return "lost" + detail;
  }
  return "";
}

}  // namespace ebb
