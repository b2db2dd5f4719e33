#pragma once

/// Quantities with units. Time is counted in whole nanoseconds from time 0 of a trace (or of the control plane's
/// clock); there is no bare double for seconds in an interface.
///
/// Limits: a point in time or a duration read from outside is at most kMaxDuration (100 years), so that sums of a few
/// stay far inside 64 bits; whoever adds up many checks against kEndOfTime.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

using Duration = std::chrono::nanoseconds;

/// The time line that scheduling lives on: virtual in the simulator, journalled in the control plane.
struct Timeline {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Timeline, duration>;
  static constexpr bool is_steady = true;
};
using Time = Timeline::time_point;

/// A number of GPUs (or of CPU slots that stand for them).
using GpuCount = std::int32_t;

inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 365 * 100);
/// Later than anything that happens; also "never".
inline constexpr Time kEndOfTime = Time(std::chrono::hours(24 * 365 * 150));

/// Seconds as a double, for figures and plots (not for decisions).
double to_seconds(Duration d);

/// Whole or fractional seconds to a Duration, rounded to the nearest nanosecond.
/// Errors: invalid_argument if not finite, negative, or above kMaxDuration.
Result<Duration> duration_from_seconds(double seconds);

/// "90", "90s", "1.5h", "2m30s", "500ms", "0", "3d": a sum of numbers with unit ns, us, ms, s, m, h or d (none: s).
/// Errors: invalid_argument naming the text and the accepted forms.
Result<Duration> parse_duration(std::string_view text);

/// Exact decimal seconds without trailing zeros: "12", "0.5", "-3.000000001".
std::string format_seconds(Duration d);
inline std::string format_seconds(Time t) {
  return format_seconds(t.time_since_epoch());
}

/// For people: "3d 4h", "2h 05m", "45.3 s", "120 ms".
std::string format_human(Duration d);

}  // namespace ebb
