#pragma once

/// A step function over time, kept as time-weighted means of at most kBuckets equal buckets. The bucket width starts at
/// one second and doubles whenever the end of the run moves past the last bucket, so memory does not grow with the
/// length of a run.

#include <vector>

#include "ebb/base/units.h"
#include "ebb/sim/result.h"

namespace ebb::sim {

class SeriesBuilder {
 public:
  static constexpr std::size_t kBuckets = 1024;

  explicit SeriesBuilder(Time start) : start_(start), last_(start) {}

  /// The value from `at` on; times do not go backwards.
  void set(Time at, double value);
  /// Everything up to `end`, with the last bucket's mean over the part of it that was covered.
  Series finish(Time end);

 private:
  void advance(Time to);

  Time start_;
  Time last_;
  double value_ = 0;
  Duration bucket_ = std::chrono::seconds(1);
  std::vector<double> value_seconds_;
};

}  // namespace ebb::sim
