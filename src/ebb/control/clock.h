#pragma once

/// The time of the live cluster: nanoseconds since it began, counted by the monotonic clock from the wall time at which
/// this process started, and never before the last time in the journal: it does not run backwards, whatever is done to
/// the wall clock.

#include <algorithm>
#include <chrono>

#include "ebb/base/units.h"

namespace ebb::control {

class Clock {
 public:
  using Wall = std::chrono::system_clock;
  using Monotonic = std::chrono::steady_clock;

  /// `epoch`: nanoseconds of UTC at time 0.
  Clock(std::int64_t epoch, Time last) : last_(last), monotonic_start_(Monotonic::now()) {
    wall_start_ = Time(std::chrono::duration_cast<Duration>(Wall::now().time_since_epoch()) - Duration(epoch));
  }

  Time now() {
    const Time wall = wall_start_ + std::chrono::duration_cast<Duration>(Monotonic::now() - monotonic_start_);
    return last_ = std::max({last_, wall, Time{}});
  }

  static std::int64_t utc_now() { return std::chrono::duration_cast<Duration>(Wall::now().time_since_epoch()).count(); }

 private:
  Time last_;
  Time wall_start_{};
  Monotonic::time_point monotonic_start_;
};

}  // namespace ebb::control
