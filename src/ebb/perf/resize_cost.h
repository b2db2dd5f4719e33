#pragma once

/// What a change of its GPUs costs a training job: seconds without progress, by how well its runtime can resize.
///
///   restart    checkpoint, stop, start again: the application's full cost at every change
///   afe        DeepBoot's auto-fast elastic: processes are kept warm. From 0 GPUs: the full cost. Growing from a to b:
///              next + floor((restart - next) (b - a) / b). Shrinking: next. Same count elsewhere: the full cost.
///   stop_free  EDL: training goes on while new workers prepare; a short pause at the switch. From 0: the full cost.
///
/// A fixed cost (a Duration) for every application is the fourth kind. To 0 GPUs costs nothing.
/// Sources: DeepBoot (simulator), EDL (Wu et al., 2021).

#include <cstdint>
#include <optional>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/perf/profile.h"

namespace ebb::perf {

enum class ResizeClass : std::uint8_t { fixed, restart, afe, stop_free };

struct ResizeCost {
  ResizeClass kind = ResizeClass::fixed;
  Duration fixed{};  ///< of ResizeClass::fixed

  /// "30s", "restart", "afe" or "stop-free". Errors: invalid_argument listing the forms.
  static Result<ResizeCost> parse(std::string_view text);
  std::string to_string() const;

  /// The pause of a change from `before` to `after` GPUs that changes the placement. `costs`: of the application, or
  /// the defaults of ApplicationCosts.
  Duration of(const ApplicationCosts& costs, GpuCount before, GpuCount after) const;

  bool operator==(const ResizeCost&) const = default;
};

}  // namespace ebb::perf
