#include "ebb/perf/resize_cost.h"

#include <algorithm>
#include <cmath>

namespace ebb::perf {
namespace {

// Costs come from tables that were checked when read; what is not a duration all the same is cut to one.
Duration duration_of(double seconds) {
  if (!(seconds > 0)) return Duration::zero();
  return duration_from_seconds(seconds).value_or(kMaxDuration);
}

}  // namespace

Result<ResizeCost> ResizeCost::parse(std::string_view text) {
  if (text == "restart") return ResizeCost{.kind = ResizeClass::restart};
  if (text == "afe") return ResizeCost{.kind = ResizeClass::afe};
  if (text == "stop-free") return ResizeCost{.kind = ResizeClass::stop_free};
  if (const auto fixed = parse_duration(text)) return ResizeCost{.kind = ResizeClass::fixed, .fixed = *fixed};
  return fail(ErrorCode::invalid_argument,
              "'{}' is no cost of a resize; give a duration, for example 30s, or one of restart, afe, stop-free", text);
}

std::string ResizeCost::to_string() const {
  switch (kind) {
    case ResizeClass::restart:
      return "restart";
    case ResizeClass::afe:
      return "afe";
    case ResizeClass::stop_free:
      return "stop-free";
    case ResizeClass::fixed:
      break;
  }
  return format_seconds(fixed) + "s";
}

Duration ResizeCost::of(const ApplicationCosts& costs, GpuCount before, GpuCount after) const {
  if (after <= 0) return Duration::zero();
  if (kind == ResizeClass::fixed) return fixed;
  if (kind == ResizeClass::restart || before <= 0) return duration_of(costs.restart_s);
  if (kind == ResizeClass::stop_free) return duration_of(costs.stop_free_s);
  if (after == before) return duration_of(costs.restart_s);
  if (after < before) return duration_of(costs.afe_next_s);
  // The floor is DeepBoot's: it counts in whole seconds.
  const double share = (costs.restart_s - costs.afe_next_s) * (after - before) / after;
  return duration_of(costs.afe_next_s + std::floor(share));
}

}  // namespace ebb::perf
