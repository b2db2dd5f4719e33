#pragma once

/// Why a job waits, as data. Every waiting job has one; CLI, journal and report print the same text.

#include <cstdint>
#include <optional>
#include <string>

#include "ebb/base/units.h"

namespace ebb {

enum class ReasonCode : std::uint8_t {
  waiting_for_tick,   ///< the next decision is at the next round
  no_capacity,        ///< fewer eligible GPUs are free than the gang needs
  fragmented,         ///< enough GPUs are free, but not together as the placement wants them
  behind_head,        ///< an earlier job blocks the queue
  reserved_for_head,  ///< would fit, but would delay the job at the head of the queue
  lower_priority,     ///< jobs that go first under this policy hold the GPUs
  impossible,         ///< the cluster cannot hold the gang even when empty
};

/// The name of a code as printed, for example "no_capacity".
const char* to_string(ReasonCode code);
/// The inverse; nullopt for an unknown name.
std::optional<ReasonCode> reason_code_from(std::string_view name);

struct Reason {
  ReasonCode code = ReasonCode::waiting_for_tick;
  GpuCount needed = 0;                 ///< GPUs of the gang
  GpuCount available = 0;              ///< eligible GPUs that are free
  std::optional<std::uint32_t> other;  ///< the job that goes first (JobId), if it is one
  std::optional<Time> expected_start;  ///< when the policy expects to start it, if it has a forecast

  bool operator==(const Reason&) const = default;
};

/// One sentence, for example "needs 8 GPUs, 3 of those it may use are free".
std::string describe(const Reason& reason);

}  // namespace ebb
