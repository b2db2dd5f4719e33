#pragma once

/// How often each caller may ask: a token bucket a caller, which holds `burst` and gains `per_second`.
/// Thread-safe.

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "ebb/base/units.h"

namespace ebb::control {

class RateLimit {
 public:
  /// `per_second` > 0, `burst` >= 1.
  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  /// Takes one request of `caller`; when it may come back, if it has none left. `now` of a clock that does not run
  /// backwards.
  std::optional<Duration> refuse(const std::string& caller, Time now) {
    const std::lock_guard lock(mutex_);
    Bucket& bucket = buckets_.try_emplace(caller, Bucket{burst_, now}).first->second;
    const auto gained = std::chrono::duration<double>(now - bucket.at).count() * per_second_;
    bucket = {std::min(burst_, bucket.tokens + gained), now};
    if (bucket.tokens < 1) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double>((1 - bucket.tokens) / per_second_));
    }
    bucket.tokens -= 1;
    return std::nullopt;
  }

 private:
  struct Bucket {
    double tokens = 0;
    Time at{};
  };

  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;  // by caller: as many as there are tokens of the API
};

}  // namespace ebb::control
