#include "ebb/sim/series.h"

#include <algorithm>

namespace ebb::sim {

void SeriesBuilder::set(Time at, double value) {
  advance(at);
  value_ = value;
}

void SeriesBuilder::advance(Time to) {
  while (to - start_ > bucket_ * kBuckets) {
    const std::size_t pairs = (value_seconds_.size() + 1) / 2;
    value_seconds_.resize(2 * pairs, 0.0);
    for (std::size_t i = 0; i < pairs; ++i) value_seconds_[i] = value_seconds_[2 * i] + value_seconds_[2 * i + 1];
    value_seconds_.resize(pairs);
    bucket_ *= 2;
  }
  while (last_ < to) {
    const auto index = static_cast<std::size_t>((last_ - start_) / bucket_);
    if (value_seconds_.size() <= index) value_seconds_.resize(index + 1, 0.0);
    const Time until = std::min(to, start_ + bucket_ * static_cast<std::int64_t>(index + 1));
    value_seconds_[index] += value_ * to_seconds(until - last_);
    last_ = until;
  }
}

Series SeriesBuilder::finish(Time end) {
  advance(end);
  Series series{start_, bucket_, value_seconds_};
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const Time from = start_ + bucket_ * static_cast<std::int64_t>(i);
    series.values[i] /= to_seconds(std::min(bucket_, last_ - from));
  }
  return series;
}

}  // namespace ebb::sim
